"""Stubs of modules: what `import model` gives, for checkers of types and for editors.

A function is an object of a class of its own, so that it is known to have `bind`, `profile` and the rest of what
functions of the language have; a struct is a frozen dataclass, and so is each variant of an enum.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from dlang.diagnostics import DlangError
from dlang.ir.terms import Scalar, poly
from dlang.ops.dtypes import DTYPES
from dlang.polynomials import Poly
from dlang.python.documentation import is_name, parameter_names
from dlang.python.instances import Settled
from dlang.python.module import datatypes
from dlang.specialize.structs import field_names, is_none
from dlang.specialize.types import Mono, MonoArray
from dlang.typecheck import types as ty
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import Checked, function_text
from dlang.typecheck.terms import substitute, variables, view

IMPORTS = {
    "collections.abc": ("Callable",),
    "dataclasses": ("dataclass",),
    "typing": ("Any", "TypeAlias", "overload", "type_check_only"),
    "numpy.typing": ("NDArray",),
    "dlang.python.function": ("Function",),
}


def stub(checked: Checked) -> str:
    """The text of the `.pyi` of a module without mistakes."""
    module = checked.module
    types = [d for d in datatypes(module) if not (d.module == module.name and d.name.startswith("_"))]
    taken = {v.name for d in types for v in d.variants} | {d.name for d in types} | module.functions.keys()
    writer = _Writer(Hints(taken), Settled(checked))
    parts = ["\n".join(writer.head(module.functions.values()))]
    parts += ["\n".join(datatype(writer.hints, decl)) for decl in types]
    for name, fn in module.functions.items():
        if not name.startswith("_"):
            parts.append("\n".join(writer.declaration(fn)))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Writer:
    hints: Hints
    settled: Settled

    def head(self, functions: Collection[FnDecl]) -> Iterator[str]:
        yield '# mypy: disable-error-code="overload-overlap"'
        yield from imports(self.hints, IMPORTS)
        if count := max((len(vectors_of(fn)) for fn in functions), default=0):
            yield f"from typing import {self.hints.imported('TypeVar')}"
            for name in map(self.hints.word, VECTORS[:count]):
                yield f'{name} = {self.hints.word("TypeVar")}("{name}")'

    # ---- functions and constants -------------------------------------------------------------------------------------
    def declaration(self, fn: FnDecl) -> Iterator[str]:
        if not is_name(fn.name):
            yield f"# `{fn.name}` is no name of Python: getattr(module, {fn.name!r})"
        elif fn.kind == "const":
            assert fn.result is not None
            yield f"{fn.name}: {self.hints.of(fn.result)}"
        else:
            yield from self.function(fn)

    def function(self, fn: FnDecl) -> Iterator[str]:
        ways = signatures(fn, self.settled, self.hints)
        yield f"@{self.hints.word('type_check_only')}"
        yield f"class _{fn.name}({self.hints.word('Function')}):"
        yield from docstring(f"{function_text(fn)}\n\n{fn.doc}".strip())
        for way in ways:
            if len(ways) > 1:
                yield f"    @{self.hints.word('overload')}"
            defaults = [p.has_default for p in fn.params]
            self_name = "_self" if any(p.local.name == "self" for p in fn.params) else "self"
            inner = ", ".join([self_name, *parameters(self.hints, fn, way.params, defaults)])
            yield f"    def __call__({inner}) -> {way.result}: ..."
        yield ""
        yield f"{fn.name}: _{fn.name}"


# ---- what stubs of built functions have too --------------------------------------------------------------------------
def imports(hints: Hints, wanted: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """NumPy, names of modules, and what is Python's own where the module has something of that name."""
    yield f"import numpy as {hints.word('np')}"
    for module, names in wanted.items():
        yield f"from {module} import {', '.join(map(hints.imported, names))}"
    if shadowed := [name for name in ("bool", "float", "int", "list", "str", "tuple") if name in hints.taken]:
        yield f"from builtins import {', '.join(map(hints.imported, shadowed))}"


def datatype(hints: Hints, decl: ty.DataDecl) -> Iterator[str]:
    """The dataclass of a struct, or those of an enum's variants."""
    if decl.is_struct:
        yield from _dataclass(hints, decl.name, decl.variants[0], decl.doc)
        return
    for variant in decl.variants:
        if not is_none(variant):
            yield from _dataclass(hints, variant.name, variant, decl.doc)
            yield ""
    yield f"{name_of(decl)}: {hints.word('TypeAlias')} = {variants_of(decl)}"


def _dataclass(hints: Hints, name: str, variant: ty.Variant, doc: str) -> Iterator[str]:
    yield f"@{hints.word('dataclass')}(frozen=True, eq=False)"
    yield f"class {name}:"
    yield from docstring(doc)
    for member, (_, t) in zip(field_names(variant), variant.fields, strict=True):
        yield f"    {member}: {hints.of(t, given=isinstance(ty.resolve(t), ty.TypeCon))}"
    if not variant.fields:
        yield "    ..."


def parameters(hints: Hints, fn: FnDecl, types: Sequence[str], defaults: Sequence[bool]) -> Iterator[str]:
    """The parameters of a function. defaults: which of them have one."""
    names, unnamed = parameter_names(fn)
    for k, (name, written, default) in enumerate(zip(names, types, defaults, strict=True)):
        yield f"{name}: {written}{' = ...' if default else ''}"
        if k == unnamed - 1:
            yield "/"  # what comes before cannot be given by name
    if "random" in fn.effects and "seed" not in names:
        yield from ["*", f"seed: {hints.word('int')} = ..."]


def docstring(text: str) -> Iterator[str]:
    """A docstring, at the beginning of a class."""
    if not text:
        return
    lines = text.replace("\\", "\\\\").replace('"""', "'''").splitlines()
    if lines[-1].endswith('"'):
        lines[-1] += " "
    lines[0] = f'"""{lines[0]}'
    if len(lines) == 1:
        lines[0] += '"""'
    else:
        lines.append('"""')
    yield from (f"    {line}".rstrip() for line in lines)


ORDER = [d.name for d in sorted(DTYPES.values(), key=lambda d: d.preference) if d.preference]
"""More particular types come first: a `bool` is an `int` to Python, and an `int` will do for a `float`."""
COMMON = ORDER[:5]
MOST = 48
VECTORS = ("Vector", "Vector2", "Vector3")
"""Variables of Python's for those that stand for vectors."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Hints of the parameters, in order, and of the result."""

    params: tuple[str, ...]
    result: str


def vectors_of(decl: FnDecl) -> list[ty.TypeVar]:
    """The type variables of a function that stand for anything with the operators of a vector, where no others are open
    and no further constraints."""
    open = [v for v in variables(*[p.local.type for p in decl.params]) if isinstance(v, ty.TypeVar | ty.RowVar)]
    vectors = [v for v in open if isinstance(v, ty.TypeVar) and "Vector" in v.classes]
    return vectors if len(vectors) == len(open) <= len(VECTORS) and not decl.constraints else []


def signatures(decl: FnDecl, settled: Settled, hints: Hints) -> list[Signature]:
    """One, or several of which the first that fits says what a call gives; the last takes what is left."""
    params = [ty.resolve(p.local.type) for p in decl.params]
    assert decl.result is not None
    open = [v for v in variables(*params) if isinstance(v, ty.TypeVar | ty.RowVar)]
    plain = Signature(tuple([hints.of(t, given=True) for t in params]), hints.of(decl.result))
    if not open or any(isinstance(t, ty.TypeFn) and variables(t).keys() & set(open) for t in params):
        return [plain]
    if vectors := vectors_of(decl):  # numbers, arrays, tuples or structs: what comes out is what went in
        named = replace(hints, variables={v: hints.word(name) for v, name in zip(vectors, VECTORS, strict=False)})
        return [Signature(tuple([named.of(t, given=True) for t in params]), named.of(decl.result))]
    choices = list(_choices(open, params, bool(decl.constraints)))
    results: dict[tuple[str, ...], set[str]] = {}
    for choice in choices[:MOST]:
        types = [substitute(t, choice) for t in params]
        result = _result(decl, types, choice, settled)
        if result is not None:
            written = tuple([hints.of(t, given=True, strict=True) for t in types])
            results.setdefault(written, set()).add(hints.of(result))
    anything = hints.word("Any")
    by_params = {p: Signature(p, min(r) if len(r) == 1 else anything) for p, r in results.items()}
    if len(by_params) == 1:  # nothing that Python sees tells them apart
        return [Signature(plain.params, next(iter(by_params.values())).result)]
    dtypes = [v for v in open if isinstance(v, ty.TypeVar)]
    complete = len(choices) <= MOST and len(dtypes) < 2 and all(v.classes for v in dtypes) and not decl.constraints
    general = [] if by_params and complete else [Signature(plain.params, anything)]
    return [*by_params.values(), *(r for r in general if r.params not in by_params)]


def _choices(
    open: Sequence[ty.Var], params: Sequence[ty.Type], pending: bool
) -> Iterator[Mapping[ty.Var, ty.Type | ty.Shape]]:
    """Lists bindings of variables: all dtypes the same, numbers or arrays. pending: there are constraints too."""
    dtypes = [v for v in open if isinstance(v, ty.TypeVar)]
    whole = [v for v in dtypes if not v.atomic and any(ty.resolve(t) is v for t in params)] if pending else []
    rows = [v for v in open if isinstance(v, ty.RowVar)]
    ranks = list(product(range(3), repeat=len(whole))) if len(whole) < 3 else [(k,) * len(whole) for k in range(3)]
    known = [d for d in ORDER if all(d in ty.CLASSES[c] for v in dtypes for c in v.classes if c in ty.CLASSES)]
    if not all(v.classes for v in dtypes):
        known = [d for d in known if d in COMMON and (d != "bool" or not pending)]
    for dtype in known if dtypes else ["f64"]:
        for forms in ranks:
            chosen: dict[ty.Var, ty.Type | ty.Shape] = {v: ty.TypeCon(dtype) for v in dtypes}
            chosen |= {v: _array(ty.TypeCon(dtype), rank) for v, rank in zip(whole, forms, strict=True)}
            for axes in product((0, 1), repeat=len(rows)):
                yield chosen | {v: _shape(rank) for v, rank in zip(rows, axes, strict=True)}


def _shape(rank: int) -> ty.Shape:
    return ty.Shape(tuple([ty.Size(Poly.of(ty.SizeVar(0))) for _ in range(rank)]))


def _array(element: ty.Type, rank: int) -> ty.Type:
    return ty.TypeArray(element, _shape(rank)) if rank else element


def _result(
    decl: FnDecl, types: Sequence[ty.Type], choice: Mapping[ty.Var, ty.Type | ty.Shape], settled: Settled
) -> ty.Type | None:
    """The type of a call; None if there is none with these types."""
    assert decl.result is not None
    if not decl.constraints:
        return substitute(decl.result, choice)
    args = [_mono(t) for t in types]
    known = [a for a in args if a is not None]
    if len(known) < len(args):
        return None
    try:
        return settled.at(decl, decl.name, [p.local.name for p in decl.params], known, True).result
    except DlangError:
        return None


def _mono(t: ty.Type) -> Mono | None:
    """A number or an array of numbers; None for what is more."""
    element, shape = view(t)
    if not isinstance(element, ty.TypeCon):
        return None
    s = ty.resolve_shape(shape)
    sizes = tuple([poly(0) for _ in (*s.pre, *s.post)])
    return MonoArray(Scalar(element.name), sizes) if sizes else Scalar(element.name)


# ---- hints -----------------------------------------------------------------------------------------------------------
# Types of the language as type hints of Python.

PLAIN = {d.name: d.python for d in DTYPES.values() if d.python}
SCALARS = {d.name: "bool_" if d.kind == "truth" else d.numpy for d in DTYPES.values() if d.in_numpy}


@dataclass(frozen=True, slots=True)
class Hints:
    """taken: names of a module, which its own functions and types have, and so no word of Python's may. variables: of
    the language that are variables of Python's, too.
    """

    taken: Container[str] = ()
    variables: Mapping[ty.TypeVar, str] = field(default_factory=dict)

    def word(self, name: str) -> str:
        """A name that a stub imports or takes as given, under another name if need be, which no class has either."""
        if name not in self.taken:
            return name
        other = f"py_{name}"
        while other in self.taken:  # of which there is a class `_py_…`
            other += "_"
        return f"_{other}"

    def imported(self, name: str) -> str:
        """How an import gives it."""
        return f"{name} as {self.word(name)}" if name in self.taken else name

    def of(self, t: ty.Type, *, given: bool = False, strict: bool = False) -> str:
        """Returns the Python hint for a type. given: for an argument, which accepts more types; strict: but not where
        that would fail to tell one type from another.
        """
        t = ty.resolve(t)
        match t:
            case ty.TypeCon(name):
                return self.scalar(name, given and not strict)
            case ty.TypeArray(element, shape):
                return self.array(ty.resolve(element), ty.resolve_shape(shape), given, strict)
            case ty.TypeTuple(items):
                inner = ", ".join([self.of(i, given=given, strict=strict) for i in items])
                return f"{self.word('tuple')}[{inner}]" if items else "None"
            case ty.TypeFn(params, result):
                inner = ", ".join(map(self.of, params))
                return f"{self.word('Callable')}[[{inner}], {self.of(result, given=True)}]"
            case ty.TypeData(decl, _):
                return name_of(decl)
            case ty.TypeVar():
                return self.variables.get(t) or self.word("Any")

    def scalar(self, dtype: str, given: bool) -> str:
        plain, numpy = self.plain(dtype), self.numpy(dtype)
        if not given or dtype == "str":
            return plain or numpy
        other = plain or self.word("float" if dtype.startswith(("f", "bf")) else "int")
        return other if dtype == "f64" else f"{other} | {numpy}"

    def array(self, element: ty.Type, shape: ty.Shape, given: bool, strict: bool) -> str:
        match element:
            case ty.TypeCon(name):
                scalar = "object_" if name == "str" else SCALARS.get(name)
                dtype = self.word("Any") if scalar is None else f"{self.word('np')}.{scalar}"
                array = f"{self.word('NDArray')}[{dtype}]"
                items = self.plain(name) if strict and name != "str" else self.word("Any")
                return f"{array} | {self.word('list')}[{items}]" if given and items else array
            case ty.TypeVar():
                return self.word("Any")
        if shape.row is not None:
            return self.word("Any")
        inner = self.of(element, given=given, strict=strict)
        for _ in (*shape.pre, *shape.post):
            inner = f"{self.word('list')}[{inner}]"
        return inner

    def plain(self, dtype: str) -> str | None:
        """Python's own class for a dtype, if it has one."""
        return self.word(PLAIN[dtype]) if dtype in PLAIN else None

    def numpy(self, dtype: str) -> str:
        """The scalars of NumPy; those that it does not have are of a package that need not be there."""
        return f"{self.word('np')}.{SCALARS[dtype]}" if dtype in SCALARS else self.word("Any")


def name_of(decl: ty.DataDecl) -> str:
    """The class of a struct; what stands for all variants of an enum."""
    return decl.name if decl.is_struct else f"_{decl.name}"


def variants_of(decl: ty.DataDecl) -> str:
    """The variants of an enum, as a union."""
    return " | ".join("None" if is_none(v) else v.name for v in decl.variants)
