"""Calls of functions outside of the language: they are found here, and their values flattened to leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from dlang.diagnostics import DlangError, Span, error
from dlang.host.foreign import Missing, find_c, find_python
from dlang.host.saved import Form, encoded, form_of
from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Size, Var, fresh, poly
from dlang.ir.crossing import (
    Branch,
    Choice,
    Code,
    Fields,
    Items,
    Leaf,
    Part,
    PythonFunction,
    Rows,
    Tree,
    ValueLayout,
    holds_blanks,
    holds_code,
)
from dlang.ir.types import I64
from dlang.ops.dtypes import TRUNCATED
from dlang.polynomials import Poly
from dlang.specialize.bodies import check_sizes
from dlang.specialize.frame import Frame, scalar, unsupported
from dlang.specialize.structs import field_names, is_none
from dlang.specialize.types import Mono, MonoArray, MonoData, MonoEnum, MonoFn, MonoNode, MonoTuple, sizes_of_mono
from dlang.specialize.values import ClosureV, Value, leaf_vars, leaves, mono_of, rebuild, template
from dlang.typecheck import core
from dlang.typecheck.printing import Names
from dlang.typecheck.terms import variables
from dlang.typecheck.types import DataDecl, RowVar, SizeVar, TypeVar, Variant


def call_foreign(f: Frame, closure: ClosureV, e: core.Foreign, args: list[Value]) -> Value:
    """The value of a call of an `extern`, at the place of the call."""
    check_sizes(f.emitter, closure, args)
    inner = f.inner(dict(closure.bindings), {})
    for param, a in zip(e.decl.params, args, strict=True):
        if param.local.size is not None:
            inner.bindings[param.local.size] = f.emitter.sized(scalar(a))
    for param, a in zip(e.decl.params, args, strict=True):
        inner.env[param.local] = f.fit(a, inner.mono(param.local.type))
    return foreign(inner, e, [inner.env[p.local] for p in e.decl.params])


def foreign(f: Frame, e: core.Foreign, args: list[Value]) -> Value:
    """The call, in a frame that knows what the variables of the scheme stand for."""
    decl, em = e.decl, f.emitter
    assert decl.result is not None
    opened = tuple([fresh("k", I64) for _ in decl.opened])
    for v, k in zip(decl.opened, opened, strict=True):
        f.bindings[v] = poly(k)
        em.facts.size(k)
    mono = f.mono(decl.result)
    for crossing in (*map(mono_of, args), mono):
        _refuse(f, e, crossing)
    value = template(mono, lambda t: fresh("r", t))
    atoms: list[Atom] = [a for v in args for a in leaves(v)]
    name = e.target if e.function is None else f"python:{decl.name}"
    if e.target.startswith("c:"):
        library, _, symbol = e.target.removeprefix("c:").rpartition(":")
        target = _found(e, lambda folder: find_c(library, symbol, folder)) if f.instances.runs else e.target
    elif e.target.startswith("cuda:"):
        file, _, kernel = e.target.removeprefix("cuda:").rpartition(":")
        target = f"cuda:{Path(e.span.source.path).parent / file}:{kernel}"
        if any(isinstance(a.type, anf.Scalar) for a in leaves(value)):
            raise _no_kernel(e)
    else:
        function_given = e.function
        if function_given is None and f.instances.runs:
            function_given = _found(e, lambda folder: find_python(e.target.removeprefix("python:"), folder))
        function, given = _described(f, e, function_given, args, mono, opened)
        target = _registered(f, name, function)
        atoms = [*[em.atom(s) for s in given], *atoms]
    results = (*opened, *leaf_vars(value))
    if not decl.effects:
        em.bind(anf.Foreign(target, tuple(atoms)), results)
        return value
    if f.world.token is None:
        raise unsupported(f"an effect of `{decl.name}` inside a comprehension or a derivative", em.span)
    token = fresh("world", anf.Token())
    em.bind(anf.Effect("foreign", f.world.token, tuple(atoms), (target,)), (token, *results))
    f.world.token = token
    return value


def _found(e: core.Foreign, find: Callable[[Path], Any]) -> Any:
    try:
        return find(Path(e.span.source.path).parent)
    except Missing as missing:
        raise error("E0604", str(missing), e.span, help=(missing.help,)) from missing


def _no_kernel(e: core.Foreign) -> DlangError:
    message = f"the kernel `{e.decl.name}` gives a number, and a kernel fills arrays"
    return error("E0418", message, e.span, help=("have it give an array of one element",))


def _refuse(f: Frame, e: core.Foreign, mono: Mono) -> None:
    """A variable of the scheme may stand for what cannot cross."""
    match mono:
        case anf.Scalar(dtype) if dtype in TRUNCATED:
            raise _crossing(f, e, f"a {dtype}")
        case anf.Scalar():
            pass
        case MonoArray(element, _):
            _refuse(f, e, element)
        case MonoTuple(items) | MonoData(_, items):
            for item in items:
                _refuse(f, e, item)
        case MonoEnum():
            for item in mono.fields:
                _refuse(f, e, item)
        case MonoNode():
            pass
        case _:
            raise _crossing(f, e, "a function")


def _crossing(f: Frame, e: core.Foreign, what: str) -> DlangError:
    message = f"`{e.decl.name}` is used with {what}, which cannot cross to Python"
    return error("E0418", message, f.emitter.span or e.span, help=("pass what it stands for as numbers and arrays",))


# ---- functions of Python ---------------------------------------------------------------------------------------------
def _described(
    f: Frame,
    e: core.Foreign,
    function: Callable[..., object] | None,
    args: list[Value],
    result: Mono,
    opened: tuple[Var, ...],
) -> tuple[PythonFunction, list[Size]]:
    """Describes how the function is called, and which sizes it gets first. function: None if nothing runs."""
    decl = e.decl
    assert decl.result is not None
    inside = set(opened)
    given: dict[Size, int] = {}
    names = Names()
    text = names.type(decl.result)
    known: list[tuple[str, Size | tuple[Size, ...] | str]] = []
    for v in variables(decl.result):
        bound = f.bindings.get(v)
        if isinstance(v, RowVar) and isinstance(bound, tuple):
            known.append((f"..{names.of(v)}", bound))
        elif isinstance(v, SizeVar) and isinstance(bound, Poly) and not v.opened:
            known.append((names.of(v), bound))
        elif isinstance(v, TypeVar) and isinstance(bound, anf.Scalar):
            known.append((names.of(v), bound.dtype))
    for s in [*sizes_of_mono(result), *[s for _, b in known if not isinstance(b, str) for s in _several(b)]]:
        if not s.mentions(inside):
            given.setdefault(s, len(given))
        elif s.atom not in inside:
            raise unsupported("a size computed from a `?` in the result of an `extern`", e.span)
    position = given | {poly(k): len(given) + n for n, k in enumerate(opened)}

    describer = Describer(f)
    params = tuple([describer.part(mono_of(a), unsized) for a in args])
    gives = describer.part(result, lambda shape: tuple([position[s] for s in shape]))
    if any(holds_code(x, describer.trees) for x in (*params, gives)):
        raise _crossing(f, e, "a function")
    if any(holds_blanks(x, describer.trees) for x in (*params, gives)):
        raise _crossing(f, e, "an array of values that hold nothing")
    described = PythonFunction(
        decl.name,
        cast(Any, function),
        params,
        gives,
        len(given),
        len(opened),
        text,
        tuple([(n, b if isinstance(b, str) else tuple([position[s] for s in _several(b)])) for n, b in known]),
        describer.trees,
        str(Path(e.span.source.path).parent),
    )
    return described, list(given)


def _several(b: Size | tuple[Size, ...]) -> tuple[Size, ...]:
    return b if isinstance(b, tuple) else (b,)


def _registered(f: Frame, target: str, function: PythonFunction) -> str:
    """The name of a function of Python in the program: its target, with a number if it is used at several types."""
    table = f.instances.python
    name, number = target, 1
    while name in table and table[name] != function:
        number += 1
        name = f"{target}#{number}"
    table[name] = function
    return name


# ---- files -----------------------------------------------------------------------------------------------------------
# Whole values in files: `io.save` and `io.load`.


def write_value(f: Frame, path: Atom, value: Value) -> tuple[list[Atom], tuple[str, ...]]:
    """The arguments of the effect that writes a value, and what it knows when it is compiled."""
    return [path, *leaves(value)], (encoded(_form(f, mono_of(value), "saved")),)


def append_row(f: Frame, path: Atom, record: Value, span: Span) -> tuple[list[Atom], tuple[str, ...]]:
    """Appends a row to a log, like `write_value`: every leaf is a number or a text."""
    form = _form(f, mono_of(record), "logged")
    for m in form.members:
        if m.axes or m.dtype in form.types:
            message = f"a row of a log has one number or text in each column, and `{m.name}` is no such thing"
            help = ("log what sums it up, such as its `mean`; `io.save` keeps the whole of it",)
            raise error("E0418", message, span, help=help)
    return [path, *leaves(record)], tuple([m.name for m in form.members])


def read_value(f: Frame, b: core.Builtin, path: Atom) -> Value:
    """A value from a file. A size that nothing else says is that of an axis in the file; the others are checked."""
    e = f.emitter
    if f.world.token is None:
        raise unsupported("`io.load` inside a comprehension or a derivative", e.span)
    unknown: dict[Var, SizeVar] = {}
    for v in variables(b.type):
        if isinstance(v, SizeVar) and v not in f.bindings:
            stand_in = fresh(v.name or "n", I64)
            unknown[stand_in] = v
            f.bindings[v] = poly(stand_in)
    mono = f.mono(b.type)
    wanted = [a.type for a in leaves(template(mono, lambda t: fresh("x", t)))]
    results: list[Var] = []
    read: list[Var] = []
    for t in wanted:
        dims = [fresh("n", I64) for _ in t.shape] if isinstance(t, Array) else []
        read.append(fresh("x", Array(t.dtype, tuple(map(poly, dims))) if isinstance(t, Array) else t))
        results += [*dims, read[-1]]
    token = fresh("w", anf.Token())
    form = _form(f, mono, "loaded")
    e.bind(anf.Effect("io.read_value", f.world.token, (path,), (encoded(form),)), (token, *results))
    f.world.token = token
    known: dict[Var, Size] = {}
    for t, x in zip(wanted, read, strict=True):
        for s, d in zip(_shape(t), _shape(x.type), strict=True):
            if s.atom in unknown and s.atom not in known:
                known[s.atom] = d
                f.bindings[unknown[s.atom]] = d
                assert d.atom is not None
                e.facts.size(d.atom)
    missing = [v for k, v in unknown.items() if k not in known]
    if missing:
        names = ", ".join(f"`{v.name or '_'}`" for v in missing)
        raise error(
            "E0412",
            f"no axis of what is loaded has the size {names} and nothing more, so it is not known",
            b.span,
            help=("state the size: a constant, or one that is known where the value is loaded",),
        )
    atoms: list[Atom] = []
    for t, x, member in zip(wanted, read, form.members, strict=True):
        shape = tuple([s.substitute(known.get) for s in _shape(t)])
        atoms.append(e.resized(x, shape, f"axis {{}} of `{member.name}` in the file") if shape else x)
    return rebuild(template(f.mono(b.type), lambda t: fresh("x", t)), iter(atoms))


def _shape(t: anf.Type) -> tuple[Size, ...]:
    return t.shape if isinstance(t, Array) else ()


def _form(f: Frame, m: Mono, what: str) -> Form:
    describer = Describer(f)
    part = describer.part(m, unsized)
    if holds_code(part, describer.trees):
        message = f"a value with a function in it cannot be {what}: a function has no form in a file"
        raise error("E0418", message, f.emitter.span, help=("keep the parameters that it depends on",))
    if holds_blanks(part, describer.trees):
        message = f"a value with an array in it whose elements hold nothing cannot be {what}"
        raise error("E0418", message, f.emitter.span, help=("keep its length",))
    return form_of(part, describer.trees)


# ---- values at the border --------------------------------------------------------------------------------------------
# How values cross the border to Python, said for `ir/crossing.py`: without types, sizes by their positions.

Axes = Callable[[tuple[Size, ...]], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Describer:
    """Describes types; those that contain themselves are collected in `trees`."""

    frame: Frame
    trees: dict[str, tuple[Branch, ...]] = field(default_factory=dict)

    def part(self, m: Mono, axes: Axes) -> Part:
        """axes: the positions of sizes."""
        match m:
            case anf.Scalar(dtype):
                return Leaf(dtype)
            case MonoArray(anf.Scalar(dtype), shape):
                return Leaf(dtype, axes(shape))
            case MonoArray(element, shape):
                return Rows(axes(shape), self.part(element, axes))
            case MonoTuple(items):
                return Items(tuple([self.part(i, axes) for i in items]))
            case MonoData(decl, fields):
                return Fields(self.frame.instances.structs.of(decl), tuple([self.part(x, axes) for x in fields]))
            case MonoEnum(decl, variants):
                types = tuple([self._class(decl, v) for v in decl.variants])
                return Choice(types, tuple([tuple([self.part(x, axes) for x in fields]) for fields in variants]))
            case MonoNode(decl, _, dtype):
                if dtype not in self.trees:
                    self.trees[dtype] = ()  # while its own fields are described
                    self.trees[dtype] = self._branches(decl, dtype)
                return Tree(dtype)
            case MonoFn():
                return Code()
            case _:
                raise AssertionError("a type by its name has no form")

    def _branches(self, decl: DataDecl, dtype: str) -> tuple[Branch, ...]:
        out = []
        layouts = self.frame.instances.nodes.of(self.frame, dtype).layouts
        for variant, layout in zip(decl.variants, layouts, strict=True):
            positions = Positions([poly(s) for s in layout.sizes])
            items = tuple([self.part(mono_of(v), positions.axes) for v in layout.values])
            literals = tuple([int(s.constant or 0) for s in positions.sizes[len(layout.sizes) :]])
            names = tuple(field_names(variant))
            out.append(Branch(self._class(decl, variant), len(layout.sizes), literals, items, names))
        return tuple(out)

    def _class(self, decl: DataDecl, variant: Variant) -> type | None:
        structs = self.frame.instances.structs
        if decl.is_struct:
            return structs.of(decl)
        return None if is_none(variant) else structs.variant(decl, variant)


class Positions:
    """Numbers sizes in the order in which they are met. sizes: those that have numbers."""

    def __init__(self, first: Sequence[Size] = ()) -> None:
        self.sizes = list(first)
        self._of = {s: k for k, s in enumerate(first)}

    def axes(self, shape: tuple[Size, ...]) -> tuple[int, ...]:
        for s in shape:
            if s not in self._of:
                self._of[s] = len(self.sizes)
                self.sizes.append(s)
        return tuple([self._of[s] for s in shape])


def value_layout(f: Frame, params: Sequence[Mono], result: Mono) -> ValueLayout:
    """The border of a function. What its result is made of does not depend on sizes."""
    describer, positions = Describer(f), Positions()
    given = tuple([describer.part(p, positions.axes) for p in params])
    gives = describer.part(result, unsized)
    return ValueLayout(given, gives, tuple(positions.sizes), describer.trees)


def unsized(shape: tuple[Size, ...]) -> tuple[int, ...]:
    """Axes where only their number matters."""
    return (0,) * len(shape)
