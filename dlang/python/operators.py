"""Functions as operators of a library that traces programs: leaves in, leaves out, whose dtypes and sizes are known
before.

    plans = Plans.of(f)                    how arguments and result are made of leaves
    described(f, arguments)                the dtypes and sizes of the result, for arguments of which no more is known
    pulled(f, names)                       the cotangents of some parameters, as a function of the same sort

Leaves are arrays and numbers; tuples and structs are made of them. Functions with anything else, with effects, or with
sizes that only a run knows are refused (`E0967`).

A function over a further axis of its arguments, as one function of the language: what libraries call `vmap`.

    fn vmap(x0: f64[batch', _], x1: f64[_]) = {
      let made = [f(P(w = x0[k'], b = x1)) for k' < batch']
      ([made[k'].w for k' < batch'], [made[k'].b for k' < batch'])
    }

It is differentiated, fused and compiled like any other, and its loop is one of those that run on several threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from dlang.diagnostics import DlangError, Source, Span, error
from dlang.host.classes import written_fields
from dlang.host.placed import Placed
from dlang.host.values import outside_dtype
from dlang.ir.terms import Scalar, poly
from dlang.ops.dtypes import ELSEWHERE
from dlang.python.arguments import Matcher
from dlang.python.bound import Bound
from dlang.python.callables import of_language
from dlang.python.derivatives import pull_of, push_of
from dlang.python.function import Function
from dlang.python.kinds import Kind, symbol_of
from dlang.specialize.frame import substituted
from dlang.specialize.structs import StructClasses, declaration_of, field_names
from dlang.specialize.types import MonoArray
from dlang.typecheck import core, types as ty
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import check_function
from dlang.typecheck.trees import unwritten
from dlang.typecheck.types import DataDecl, Floor, Shape, Size, SizeAtom, SizeVar, Type

Target = Function | Bound


# ---- how values are made of leaves -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Struct:
    """A struct. names: of its fields in Python."""

    type: type
    names: tuple[str, ...]
    items: tuple[Plan, ...]


Plan = None | tuple["Plan", ...] | Struct
"""A leaf, a tuple, or a struct."""


def leaves(plan: Plan, value: Any) -> Iterator[Any]:
    """The leaves of a value, in order."""
    if plan is None:
        yield value
    elif isinstance(plan, tuple):
        for p, v in zip(plan, value if plan else (), strict=True):
            yield from leaves(p, v)
    else:
        for p, name in zip(plan.items, plan.names, strict=True):
            yield from leaves(p, getattr(value, name))


def whole(plan: Plan, given: Iterator[Any]) -> Any:
    """The value that leaves make."""
    if plan is None:
        return next(given)
    if isinstance(plan, tuple):
        return tuple([whole(p, given) for p in plan]) if plan else None
    return plan.type(*[whole(p, given) for p in plan.items])


def paths(plan: Plan, prefix: str = "") -> Iterator[str]:
    """Lists the path of each leaf, as the language writes it behind a value: `.0`, `.w`."""
    if plan is None:
        yield prefix
    elif isinstance(plan, tuple):
        for k, p in enumerate(plan):
            yield from paths(p, f"{prefix}.{k}")
    else:
        for name, p in zip(written_fields(plan.type), plan.items, strict=True):
            yield from paths(p, f"{prefix}.{name}")


ARRAY, FLOAT, INTEGER, TRUE, FALSE, DEFAULT, NEXT = "AFI10-,"
"""What a letter says of a leaf of an argument, or of a parameter that is left to its default; between parameters."""


@dataclass(frozen=True)
class Plans:
    """Of a function: each parameter that calls give, and the result. defaults: whether a
    parameter may be left out; fixed: whether it has no derivative."""

    names: tuple[str, ...]
    params: tuple[Plan, ...]
    defaults: tuple[bool, ...]
    fixed: tuple[bool, ...]
    result: Plan

    @staticmethod
    @lru_cache(1024)
    def of(f: Target) -> Plans:
        """Raises `DlangError` for a function that can't be an operator."""
        decl, given = function_of(f).decl, f.left if isinstance(f, Bound) else f.decl.params
        if impure := sorted(decl.effects - {"random"}):
            raise refused(decl, f"it has the effect {' and '.join(impure)}, and an operator may run more or less often")
        if decl.opened:
            raise _unsized(decl)
        classes = function_of(f).program.classes
        params = tuple([_plan(p.local.type, f"its parameter `{p.local.name}`", decl, classes) for p in given])
        assert decl.result is not None
        result = _plan(decl.result, "its result", decl, classes)
        names = tuple([p.local.name for p in given])
        defaults, fixed = tuple([p.has_default for p in given]), tuple([p.nodiff for p in given])
        return Plans(names, params, defaults, fixed, result)


def aliases(f: Target) -> list[tuple[str, str]]:
    """The names of parameters that are others in Python: these, and those of the language."""
    return [(shown, p.local.name) for shown, p in function_of(f).by_name.items() if shown != p.local.name]


def given(
    plans: Plans, letters: str, arrays: Iterable[Any], floats: Iterable[float], integers: Iterable[int]
) -> dict[str, Any]:
    """Arguments by name, from their leaves."""
    source = {ARRAY: iter(arrays), FLOAT: iter(floats), INTEGER: iter(integers)}
    arguments: dict[str, Any] = {}
    for name, plan, letters_of_it in zip(plans.names, plans.params, letters.split(NEXT)):
        if letters_of_it != DEFAULT:
            arguments[name] = whole(plan, (c == TRUE if c in (TRUE, FALSE) else next(source[c]) for c in letters_of_it))
    return arguments


def places(letters: str) -> list[list[int | None]]:
    """For each parameter, for each of its leaves, which of the arrays it is."""
    count = iter(range(len(letters)))
    return [
        [next(count) if c == ARRAY else None for c in letters_of_it if letters_of_it != DEFAULT]
        for letters_of_it in letters.split(NEXT)
    ]


def with_tangents(letters: str, wanted: Iterable[int]) -> tuple[str, list[float], list[int]]:
    """The letters of a function that is pushed (`pushed`), and the tangents of the numbers among the arguments: 0.

    letters: of the function itself; wanted: the parameters that have tangents.
    """
    by_param = letters.split(NEXT)
    dots = [by_param[k].replace(TRUE, FALSE) for k in wanted]
    zeros = "".join(dots)
    return NEXT.join([*by_param, *dots]), [0.0] * zeros.count(FLOAT), [0] * zeros.count(INTEGER)


def _plan(t: Type, what: str, decl: FnDecl, classes: StructClasses) -> Plan:
    t = ty.resolve(t)
    match t:
        case ty.TypeTuple(items):
            return tuple([_plan(i, what, decl, classes) for i in items])
        case ty.TypeData(own, args) if own.is_struct:
            by = dict(zip(own.params, args, strict=True))
            (variant,) = own.variants
            plans = tuple([_plan(substituted(field, by), what, decl, classes) for _, field in variant.fields])
            return Struct(classes.of(own), tuple(field_names(variant)), plans)
        case ty.TypeCon(name) if name != "str":
            return None
        case ty.TypeVar():
            return None
        case ty.TypeArray(element) if _plan(element, what, decl, classes) is None:
            return None
        case _:
            kinds = {ty.TypeCon: "a text", ty.TypeFn: "a function", ty.TypeData: "an enum"}
            raise refused(decl, f"{what} is or holds {kinds.get(type(t), 'an array of those')}, which is no array")


class Operator:
    """A function as another library calls it. It is pickled as the function is, and made again from it.

    call: of the library; make: what makes this of the function.
    """

    def __init__(self, f: Target, call: Callable[..., Any], make: Callable[[Target], Operator]) -> None:
        self.function = f
        self.call = call
        self.make = make
        self.__name__ = self.__qualname__ = f.__name__
        self.__module__ = f.__module__
        self.__doc__ = f.__doc__

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.call(*args, **named)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.make, (self.function,)

    def __repr__(self) -> str:
        return f"<{self.make.__name__} of {self.function!r}>"


def needed(module: str, name: str) -> None:
    """Raises `DlangError` where a library is missing."""
    try:
        import_module(module)
    except ImportError as e:
        raise error("E0969", f"{name} is not installed", None, help=(f"pip install {module}",)) from e


def function_of(f: Target) -> Function:
    """The function that is called, all of whose parameters are left or bound."""
    return f.function if isinstance(f, Bound) else f


def draws(f: Target) -> bool:
    """Tells whether a call takes a seed."""
    return function_of(f).draws()


def refused(decl: FnDecl, why: str, *help: str) -> DlangError:
    return error("E0967", f"`{decl.name}` can't be an operator: {why}", decl.span, help=help)


# ---- what is known of a result before a run --------------------------------------------------------------------------
@dataclass(frozen=True)
class Described:
    """An array of which only the dtype and the sizes are known; these may be `Extent`s."""

    dtype: str
    shape: tuple[Any, ...]

    def stand_in(self) -> Any:
        """Returns the placeholder for it in an argument."""
        if not self.shape:
            return np.zeros((), outside_dtype(self.dtype))[()]
        return Placed(None, self.shape, ELSEWHERE[self.dtype])


def described(f: Target, arguments: Mapping[str, Any], plan: Plan, kind: Kind | None = None) -> list[Described]:
    """The leaves of a result. arguments: by name, with stand-ins where only dtypes and sizes are known. kind: for
    messages, the library whose arrays these are.

    Raises `DlangError` where arguments do not fit, and where a size is known only when the function runs.
    """
    function = function_of(f)
    bound = f.named if isinstance(f, Bound) else {}
    values = function.assigned((), {**bound, **arguments})
    kinds = dict.fromkeys(arguments, kind) if kind is not None else {}
    matcher = Matcher(function.decl, device=True, known=False, kinds=kinds)
    matcher.match(values)
    decl = function.decl
    if function.settle:
        decl = function.inferred(values, matcher)
        matcher = Matcher(decl, device=True, known=False)
        matcher.match(dict(zip(decl.params, values.values(), strict=True)))
    assert decl.result is not None
    return list(_described(decl, matcher, decl.result, plan))


def _described(decl: FnDecl, matcher: Matcher, t: Type, plan: Plan) -> Iterator[Described]:
    t = ty.resolve(t)
    match t, plan:
        case ty.TypeTuple(items), tuple():
            for i, p in zip(items, plan, strict=True):
                yield from _described(decl, matcher, i, p)
        case ty.TypeData(own, args), Struct():
            by = dict(zip(own.params, args, strict=True))
            for (_, field), p in zip(own.variants[0].fields, plan.items, strict=True):
                yield from _described(decl, matcher, substituted(field, by), p)
        case _, None:
            _refuse_unknown(decl, matcher, t)
            match matcher.mono(t):
                case Scalar(dtype) if dtype != "str":
                    yield Described(dtype, ())
                case MonoArray(Scalar(dtype), shape) if dtype != "str":
                    yield Described(dtype, tuple([s.constant for s in shape]))
                case _:
                    raise _unwritten(decl)
        case _:
            raise _unwritten(decl)


def _unsized(decl: FnDecl) -> DlangError:
    why = "a size of its result is known only when it runs, and does not follow from the sizes of its arguments"
    return refused(decl, why, "give the result a size that follows from them, for example by filling up with zeros")


def _unwritten(decl: FnDecl) -> DlangError:
    return refused(decl, "its result is a structure whose type is not written out", "annotate its result")


def _refuse_unknown(decl: FnDecl, matcher: Matcher, t: Type) -> None:
    for size in _sizes(t):
        if size not in matcher.sizes:
            given = next((p.local.name for p in decl.params if p.local.size is size), None)
            if given is None:
                raise _unsized(decl)
            why = f"its parameter `{given}` is a size of its result, and is given as an array"
            raise refused(decl, why, "give it as a number of Python's, which is a constant of the program")


def _sizes(t: Type | Shape | Size) -> Iterator[SizeVar]:
    match t:
        case Size():
            yield from _atoms(ty.resolve_size(t).poly.atoms())
        case Shape():
            s = ty.resolve_shape(t)
            for size in s.pre + s.post:
                yield from _sizes(size)
        case ty.TypeArray(element, shape):
            yield from _sizes(shape)
            yield from _sizes(ty.resolve(element))
        case _:
            return


def _atoms(atoms: Iterable[SizeAtom]) -> Iterator[SizeVar]:
    for a in atoms:
        if isinstance(a, Floor):
            yield from _sizes(a.dividend)
            yield from _sizes(a.divisor)
        else:
            yield a


def symbols(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Sizes as the library wrote them that traces."""
    return tuple([symbol_of(n) for n in shape])


# ---- derivatives -----------------------------------------------------------------------------------------------------
def pulled(f: Target, names: Sequence[str]) -> Target:
    """The cotangents of some parameters that calls give: a function of all these, then of the cotangent of the result.

    It gives a tuple of one for each name, in the order of the parameters, bare if there is one.
    """
    return pull_of(f, tuple(names))


def pushed(f: Target, names: Sequence[str]) -> Target:
    """The result and its tangent: a function of all parameters that calls give, then of the tangents of some."""
    return push_of(f, tuple(names))


COUNT, AT, CALLED = "batch'", "k'", "called'"


@cache
def mapped(
    f: Target,
    letters: str,
    floats: tuple[float, ...],
    integers: tuple[int, ...],
    types: tuple[tuple[str, int], ...],
    batched: tuple[bool, ...],
) -> Function | None:
    """The function of the leaves of the arguments that gives those of the result, all with a further axis in front but
    for arguments that are not batched; None where it has to be called once for each element.

    letters, floats, integers: as of a call; types: the dtypes and ranks of the arrays, of one element; batched: which
    of them have the further axis.
    """
    if isinstance(f, Bound) or draws(f) or f.asks_for_indices:
        return None
    plans = Plans.of(f)
    try:
        if f.settle:
            stand_ins = [np.zeros((1,) * rank, outside_dtype(d)) for d, rank in types]
            f = f.at(list(given(plans, letters, stand_ins, floats, integers).values()))
        structs: dict[str, DataDecl] = {}
        params: list[str] = []
        passed: list[str] = []
        arrays = iter(zip(types, batched, strict=True))
        for p, plan, param_letters in zip(f.decl.params, plans.params, letters.split(NEXT), strict=True):
            if param_letters == DEFAULT:
                continue
            names: list[str] = []
            for letter in param_letters:
                name = f"x{len(params)}"
                if letter == ARRAY:
                    (dtype, rank), over = next(arrays)
                    axes = ", ".join([*([COUNT] if over else []), *["_"] * rank])
                    params.append(f"{name}: {dtype}" + (f"[{axes}]" if axes else ""))
                    names.append(f"{name}[{AT}]" if over else name)
                else:
                    number = ty.resolve(p.local.type)
                    if plan is not None or not isinstance(number, ty.TypeCon):
                        return None
                    is_size = p.local.size is not None and not p.local.size.opened
                    params.append(f"{name}: {'size' if is_size else number.name}")
                    names.append(name)
            argument = _written(plan, iter(names), structs)
            passed.append(f"{p.local.name} = {argument}" if DEFAULT in letters else argument)
        text = f"fn vmap({', '.join(params)}) = {_body(', '.join(passed), list(paths(plans.result)))}"
        entry = of_language(f.program.checked, f.expression, f.decl, f.settle).entry
    except DlangError:
        return None
    decl, diagnostics = check_function(
        f.program.checked, Source("<vmap>", text), structs, {CALLED: entry}, trusted=True
    )
    if decl is None or diagnostics or decl.constraints:
        return None
    assert decl.body is not None
    decl.kind, decl.body = "call", _without_blocks(decl.body, f.decl.span)
    try:  # where sizes of results are computed on the way, elements may differ in size
        f.program.prepare(decl, {v: poly(0) for v in decl.variables})
    except DlangError:
        return None
    return Function(f.program, decl, f"vmap of {f.expression}: {text}", False)


def _without_blocks(e: core.Expr, span: Span) -> core.Expr:
    """The body, whose place in messages is that of the function that it calls: nobody wrote it."""
    match e:
        case core.Comprehension(element=element):
            return replace(e, span=span, element=unwritten(element, span))
        case core.BlockExpr(statements=(core.Let() as made, *rest)):
            return replace(e, statements=(replace(made, value=_without_blocks(made.value, span)), *rest))
    return e


def each_leaf(letters: str) -> str:
    """The letters of a call where each leaf is a parameter."""
    return NEXT.join(letters.replace(NEXT, "").replace(DEFAULT, ""))


def _body(passed: str, fields: Sequence[str]) -> str:
    comprehension = f"[{CALLED}({passed}) for {AT} < {COUNT}]"
    if fields == [""]:
        return comprehension
    leaves = ", ".join(f"[made[{AT}]{path} for {AT} < {COUNT}]" for path in fields)
    return f"{{\n  let made = {comprehension}\n  ({leaves})\n}}"


def _written(plan: Plan, leaves: Iterator[str], structs: dict[str, DataDecl]) -> str:
    """An argument of its leaves. structs: gets those that it mentions."""
    if plan is None:
        return next(leaves)
    if isinstance(plan, tuple):
        items = "".join([f"{_written(p, leaves, structs)}, " for p in plan])
        return f"({items})"
    decl = declaration_of(plan.type)
    assert decl is not None
    structs[decl.name] = decl
    pairs = zip(written_fields(plan.type), plan.items, strict=True)
    return f"{decl.name}({', '.join(f'{name} = {_written(p, leaves, structs)}' for name, p in pairs)})"
