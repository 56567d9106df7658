"""Expressions of the language over the variables of a frame: they are compiled with these as parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from dlang.diagnostics import Diagnostic, DlangError, Source, Span, error
from dlang.driver import Request, call, expanded
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse, parse_expression
from dlang.grammar.syntax import walk
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir import anf
from dlang.ir.anf import FLOATS
from dlang.ir.marks import COTANGENT, TANGENT
from dlang.ir.values import array_of
from dlang.polynomials import Poly
from dlang.specialize.specialize import Entry
from dlang.specialize.types import Bound, MonoArray, MonoData, MonoEnum, MonoName, MonoNode, MonoTuple
from dlang.specialize.values import ArrayV, DataV, EnumV, Many, NodeV, ScalarV, TupleV, Value, contains_function, leaves
from dlang.tools.debugger.machine import Seen
from dlang.tools.debugger.values import leaves_of
from dlang.typecheck.program import Checked, check_item
from dlang.typecheck.types import DataDecl, Size, SizeVar, Type, TypeArray, TypeData, TypeVar, resolve, resolve_size

NO_VALUE = "E0984"
TEXT, CONDITION, ANY = "text", "condition", "any"  # what is wanted of a value
TYPE = "<type>"  # where the types of variables are
Compiled = tuple[Interpreter, Entry]


@dataclass(frozen=True, slots=True)
class Here:
    """Runs on the thread of the debugger what an expression calls: most are asked for again and again."""

    interpreter: Interpreter

    def run(self, name: str, leaves: Sequence[Any]) -> list[Any]:
        return self.interpreter.run_here(name, leaves)


@dataclass(slots=True)
class Expressions:
    """The expressions of one program, compiled once for each combination of their variables' types."""

    checked: Checked
    kept: dict[object, Compiled] = field(default_factory=dict)
    parsed: dict[str, tuple[s.Expr, frozenset[str]]] = field(default_factory=dict)

    def text(self, written: str, seen: Mapping[str, Seen], module: str) -> str:
        """The value of an expression as `print` shows it. Raises `DlangError`."""
        return str(self._value(written, seen, module, TEXT)[-1])

    def leaves(self, written: str, seen: Mapping[str, Seen], module: str) -> list[Any]:
        """The leaves of its value. Raises `DlangError`."""
        return self._value(written, seen, module, ANY)

    def holds(self, written: str, seen: Mapping[str, Seen], module: str) -> bool:
        """Tells whether a condition holds. Raises `DlangError`."""
        return bool(self._value(written, seen, module, CONDITION)[-1])

    def check(self, written: str) -> None:
        """Raises `DlangError` for a text that is no expression."""
        self.tree(written)

    def tree(self, written: str) -> tuple[s.Expr, frozenset[str]]:
        """An expression, and the names that it mentions; `tangent(x)` is one. Raises `DlangError`."""
        if written not in self.parsed:
            tree = with_variables(parsed(written), list(self.checked.module.functions))
            self.parsed[written] = tree, frozenset([n.name for n in walk(tree) if isinstance(n, s.Name)])
        return self.parsed[written]

    def _value(self, written: str, seen: Mapping[str, Seen], module: str, wanted: str) -> list[Any]:
        e, mentioned = self.tree(written)
        given = {name: v for name, v in seen.items() if name in mentioned}
        for name, v in given.items():
            if contains_function(v.name.value):
                help = ("print what it gives for some arguments: the functions of the file can be called",)
                raise error(NO_VALUE, f"`{name}` is a function, which an expression here cannot use", e.span, help=help)
        leaves = {name: leaves_of(v) for name, v in given.items()}
        types = {name: annotation(v.name.value, iter(leaves[name])) for name, v in given.items()}
        key = (written, tuple(types.items()), module, wanted)
        if key not in self.kept:
            self.kept[key] = self._compiled(e, types, given, module, wanted)
        interpreter, entry = self.kept[key]
        given_leaves = [x for name in given for x in leaves[name]]
        try:
            return call(Here(interpreter), entry, leaves=given_leaves)
        except RecursionError:
            return call(interpreter, entry, leaves=given_leaves)
        except DlangError as failed:
            raise DlangError([without_types(d) for d in failed.diagnostics]) from None

    def _compiled(
        self, e: s.Expr, types: Mapping[str, str], given: Mapping[str, Seen], module: str, wanted: str
    ) -> Compiled:
        at = e.span
        parameters = tuple([s.Parameter(at, s.PatternName(at, n), type_of(t)) for n, t in types.items()])
        body: s.Expr = s.String(at, (s.Interpolation(at, e, ""),)) if wanted == TEXT else e
        result = s.TypeName(at, "bool") if wanted == CONDITION else None
        item = s.Fn(at, " expression", at, (), parameters, result, body)
        decls = {d.name: d for v in given.values() for d in decls_of(v.name.value)}
        decl, diagnostics = check_item(self._module(module), item, decls)
        if decl is None or any(d.severity == "error" for d in diagnostics):
            raise DlangError([without_types(d) for d in diagnostics])
        program, entry = expanded(Request(decl))
        return Interpreter(program, Host()), entry

    def _module(self, path: str) -> Checked:
        """Returns the module that a function of a file sees."""
        for table in self.checked.program.tables.values():
            if table.path == path:
                return replace(self.checked, table=table)
        return self.checked


def parsed(written: str) -> s.Expr:
    source = Source("<expression>", written)
    e, problems = parse_expression(source)
    if problems:
        raise DlangError(problems)
    if e is None:
        raise error(NO_VALUE, "this is no expression", Span(source, 0, len(written)), help=("write `print x + 1`",))
    return e


def without_types(d: Diagnostic) -> Diagnostic:
    """A message without notes on the types of the variables, which nobody wrote."""
    return replace(d, notes=tuple([n for n in d.notes if n.span is None or n.span.source.path != TYPE]))


def type_of(written: str) -> s.TypeExpr:
    module, problems = parse(Source(TYPE, f"type T = {written}"))
    assert not problems and isinstance(module.items[0], s.Alias)
    return module.items[0].type


# ---- types of values -------------------------------------------------------------------------------------------------
def annotation(v: Value, leaves_left: Iterator[Any]) -> str:
    """The type of a value as one writes it, with the sizes that its arrays have. Takes the leaves."""
    match v:
        case ScalarV():
            next(leaves_left)
            return v.dtype
        case ArrayV():
            return f"{v.dtype}[{', '.join(map(str, np.shape(next(leaves_left))))}]"
        case TupleV(items):
            return f"({', '.join([annotation(i, leaves_left) for i in items])})"
        case DataV(decl, fields):
            return _applied(decl, [list(fields)], leaves_left)
        case EnumV(decl, _, variants):
            next(leaves_left)
            return _applied(decl, [list(fields) for fields in variants], leaves_left)
        case Many(shape, element):
            arrays = [next(leaves_left) for _ in leaves(element)]
            rank = len(shape)
            sizes = ", ".join(map(str, np.shape(arrays[0])[:rank])) if arrays else ", ".join("_" * rank)
            first = [np.zeros(np.shape(a)[rank:], a.dtype) for a in arrays]
            return f"{annotation(element, iter(first))}[{sizes}]"
        case NodeV(type, _):
            next(leaves_left)
            return bound(type)
    raise error(NO_VALUE, "an expression here cannot use this value", None)


def _applied(decl: DataDecl, variants: list[list[Value]], leaves: Iterator[Any]) -> str:
    """A struct or an enum with its arguments, as the types of its fields say them."""
    by_variable: dict[object, str] = {}
    for variant, given in zip(decl.variants, variants, strict=True):
        for (_, t), x in zip(variant.fields, given, strict=True):
            _match(resolve(t), x, leaves, by_variable)
    arguments = [by_variable.get(p, "_") for p in decl.params]
    return f"{decl.name}<{', '.join(arguments)}>" if arguments else decl.name


def _match(t: Type, v: Value, leaves_left: Iterator[Any], arguments: dict[object, str]) -> None:
    mine = [next(leaves_left) for _ in leaves(v)]
    if isinstance(t, TypeVar):
        arguments.setdefault(t, annotation(v, iter(mine)))
    elif isinstance(t, TypeArray) and mine:
        for size, n in zip(t.shape.pre, np.shape(mine[0]), strict=False):
            atom = resolve_size(size).poly.atom
            if isinstance(atom, SizeVar):
                arguments.setdefault(atom, str(n))
        element = resolve(t.element)
        if isinstance(element, TypeVar) and isinstance(v, ArrayV):
            arguments.setdefault(element, v.dtype)
    elif isinstance(t, TypeData) and isinstance(v, DataV):
        inner = annotation(v, iter(mine))
        written = inner[len(v.decl.name) + 1 : -1].split(", ") if "<" in inner else []
        for argument, text in zip(t.args, written, strict=False):
            variable: object = resolve_size(argument).poly.atom if isinstance(argument, Size) else argument
            if isinstance(variable, SizeVar | TypeVar) and "<" not in text:
                arguments.setdefault(variable, text)


def bound(b: Bound) -> str:
    """A type, a size or a row as one writes it."""
    match b:
        case Poly():
            return "_" if b.constant is None else str(int(b.constant))
        case tuple():
            return "_"
        case anf.Scalar(dtype):
            return dtype
        case MonoArray(element, shape):
            return f"{bound(element)}[{', '.join(map(bound, shape))}]"
        case MonoTuple(items):
            return f"({', '.join(map(bound, items))})"
        case MonoNode(decl, args) | MonoName(decl, args):
            return f"{decl.name}<{', '.join(map(bound, args))}>" if args else decl.name
        case MonoData(decl, _, args) | MonoEnum(decl, _, args):
            return f"{decl.name}<{', '.join(map(bound, args))}>" if args else decl.name
    raise error(NO_VALUE, "an expression here cannot use this value", None)


def decls_of(v: Value) -> Iterator[DataDecl]:
    """The structs and enums of a value."""
    match v:
        case DataV(decl, fields):
            yield decl
            for x in fields:
                yield from decls_of(x)
        case EnumV():
            yield v.decl
            for x in v.fields:
                yield from decls_of(x)
        case TupleV(items):
            for x in items:
                yield from decls_of(x)
        case Many(_, element):
            yield from decls_of(element)
        case NodeV(type, _):
            yield type.decl


# ---- tangents and cotangents -----------------------------------------------------------------------------------------
# `tangent(x)` and `cotangent(x)` in expressions: further variables, in the structure of the value of `x`.

NO_DERIVATIVE = "E0984"
WORDS = (TANGENT, COTANGENT)
WITHOUT = "it does not depend on what is varied, or the derivative does not depend on it"  # of what has no tangent


def variable(word: str, name: str) -> str:
    """Returns the name of the variable that replaces `tangent(x)`: one that nobody can write."""
    return f"{word} of {name}"


def with_variables(tree: s.Expr, taken: Sequence[str]) -> s.Expr:
    """An expression with variables in the place of `tangent(x)`. taken: functions of the program."""
    words = [w for w in WORDS if w not in taken]
    if not any(asked(node, words) for node in walk(tree)):
        return tree
    mapped: s.Expr = _mapped(tree, words)
    return mapped


def asked(node: object, words: Sequence[str]) -> tuple[str, str] | None:
    match node:
        case s.Call(function=s.Name(name=word), arguments=(s.Argument(value=s.Name(name=name), name=None),)):
            return (word, name) if word in words else None
    return None


def _mapped(x: Any, words: Sequence[str]) -> Any:
    """A part of the tree: a node, a tuple, or anything else."""
    answer = asked(x, words)
    if answer is not None:
        return s.Name(x.span, variable(*answer))
    if isinstance(x, s.Node):
        return replace(x, **{f.name: _mapped(getattr(x, f.name), words) for f in fields(x) if f.name != "span"})
    return tuple([_mapped(y, words) for y in x]) if type(x) is tuple else x


def derivatives(mentioned: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The words and the variables of names that stand for tangents and cotangents."""
    for name in mentioned:
        word, of, direction = name.partition(" of ")
        if of:
            yield word, direction


def tangent(name: str, seen: Mapping[str, Seen]) -> Seen:
    """The tangent of a variable as a value like that of the variable. Raises `DlangError`."""
    if name not in seen:
        raise error(NO_DERIVATIVE, f"there is no variable `{name}` here", None, help=("`locals` shows those",))
    value = seen[name]
    known_tangent = next((t for t in value.tangents if t.kinds == (TANGENT,)), None)
    if known_tangent is None:
        raise error(NO_DERIVATIVE, f"no tangent of `{name}` is known here", None, help=(WITHOUT,))
    return like(value, known_tangent)


def cotangent(name: str, seen: Mapping[str, Seen], known: Sequence[Seen]) -> Seen:
    """The cotangent of a variable as a value like that of the variable. Raises `DlangError`."""
    known_cotangent = next((x for x in known if x.name.text == name and x.kinds == (COTANGENT,)), None)
    if known_cotangent is None:
        help = ("`grads` shows what is known in a backward pass",)
        raise error(NO_DERIVATIVE, f"no cotangent of `{name}` is known here", None, help=help)
    value = seen.get(name)
    if value is None or value.name.local is not known_cotangent.name.local:
        value = replace(known_cotangent, values=(), kinds=(), guarded=())
    return like(value, known_cotangent)


def like(value: Seen, derivative: Seen) -> Seen:
    """A value of the same structure with a cotangent or a tangent in place of the floats; 0 where there is none."""
    name = value.name
    atoms = list(leaves(name.value)) if not contains_function(name.value) else []
    by_number: dict[int, Any] = dict(zip((*name.passed, *name.others), value.values, strict=False))
    given = dict(zip(derivative.guarded, derivative.values, strict=True))
    out = []
    for k in (*name.passed, *name.others):
        dtype = getattr(atoms[k].type, "dtype", "") if atoms else ""
        if k not in name.passed:
            derived = by_number.get(k)
        elif dtype not in FLOATS:
            derived = None
        else:
            at = name.passed.index(k)
            derived = (
                given[at] if at in given else None if k not in by_number else np.zeros_like(array_of(by_number[k]))[()]
            )
        if derived is None:
            help = ("`locals` and `grads` show it",)
            raise error(NO_DERIVATIVE, f"that of `{name.text}` is no value that an expression can use", None, help=help)
        out.append(derived)
    return replace(value, values=tuple(out), tangents=())
