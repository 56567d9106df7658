"""`dlang.grad` and its relatives: derivatives of functions of the language, as functions again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dlang.diagnostics import DlangError, error
from dlang.python.function import Function, at_its_own_types, calling, reference
from dlang.typecheck import core
from dlang.typecheck.types import FLOATS, Type, TypeArray, TypeCon, TypeFn, TypeTuple, TypeVar, resolve, resolve_shape

Parameters = str | int | Sequence[str | int]


# ---- functions of the arguments --------------------------------------------------------------------------------------
def grad(f: Any, wrt: Parameters | None = None) -> Function:
    """The gradient of a function that gives one float: in its first parameter, or in those that `wrt` names."""
    return _derived("grad", f, wrt)


def value_and_grad(f: Any, wrt: Parameters | None = None) -> Function:
    """The value and the gradient, from one forward pass."""
    return _derived("value_and_grad", f, wrt)


def jacobian(f: Any, wrt: Parameters | None = None) -> Function:
    """The matrix of all derivatives: the axes of the result, then those of the parameter."""
    return _derived("jacobian", f, wrt)


def hessian(f: Any, wrt: Parameters | None = None) -> Function:
    """The matrix of all second derivatives of a function that gives one float."""
    return _derived("hessian", f, wrt)


def _derived(kind: str, f: Any, wrt: Parameters | None) -> Function:
    function = _of_language(kind, f)
    decl = function.decl
    single = wrt is None or isinstance(wrt, str | int)
    names: Sequence[str | int] = [0] if wrt is None else [wrt] if isinstance(wrt, str | int) else list(wrt)
    if not decl.params:
        raise _refused(kind, decl, "it has no parameter")
    positions = tuple(_position(kind, decl, n) for n in names)
    if not positions or len(set(positions)) < len(positions):
        raise _refused(kind, decl, "`wrt` names a parameter twice, or none")
    return _once(function, (kind, positions, single), lambda: _form(kind, function, positions, single))


def _form(kind: str, f: Function, positions: tuple[int, ...], single: bool) -> Function:
    decl = f.decl
    assert decl.result is not None
    result = resolve(decl.result)
    is_open = isinstance(result, TypeVar) or (isinstance(result, TypeArray) and not _axes(result))
    if kind != "jacobian" and not is_open and not (isinstance(result, TypeCon) and result.name in FLOATS):
        raise _refused(kind, decl, "it does not give one float")
    slopes = [decl.params[k].local.type for k in positions]
    gradient = slopes[0] if single else TypeTuple(tuple(slopes))
    match kind:
        case "grad":
            value: Type = gradient
        case "value_and_grad":
            value = TypeTuple((result, gradient))
        case _:
            # Axes after axes: the checker finds the type at the ranks of the arguments.
            value, is_open = TypeVar(0, rigid=True), True
    t = TypeFn(tuple(p.local.type for p in decl.params), value)
    form = core.Derivative(t, decl.span, kind, at_its_own_types(decl), positions, single)
    args = tuple(reference(p, decl.span) for p in decl.params)
    chosen = [decl.params[k].local.name for k in positions]
    expression = f"{kind}({f.expression}, wrt = {chosen[0] if single else '(' + ', '.join(chosen) + ')'})"
    derived = calling(decl, f"{kind}({decl.name})", decl.params, form, args, value)
    return Function(f.program, derived, expression, f.settle or is_open)


# ---- products --------------------------------------------------------------------------------------------------------
def jvp(f: Any, arguments: Any, tangents: Any, *, seed: int | None = None) -> Any:
    """The value of a function and its tangent. Several parameters: `jvp(f, (x, y), (dx, dy))`.

    seed: of a function that draws random numbers.
    """
    function = _of_language("jvp", f)
    n = len(function.decl.params)
    given = [(arguments,), (tangents,)] if n == 1 else [arguments, tangents]
    for values in given:
        if not isinstance(values, tuple | list) or len(values) != n:
            raise function.misuse(f"has {n} parameters: `dlang.jvp` takes tuples of {n} arguments and {n} tangents")
    derived = _once(function, "jvp", lambda: _pushed(function))
    return derived(*given[0], *given[1], **_seeded(seed))


def vjp(f: Any, *args: Any, seed: int | None = None) -> tuple[Any, Callable[[Any], Any]]:
    """The value of a function and its pull: from a cotangent of the value to those of the arguments.

    The pull gives a tuple of one for each parameter, bare if there is one. What the forward pass saved does not cross
    into Python, so every call of the pull runs the forward pass again. seed: of a function that draws random numbers.
    """
    function = _of_language("vjp", f)
    n = len(function.decl.params)
    if len(args) != n:
        raise function.misuse(f"has {n} parameters: `dlang.vjp` takes {n} arguments after it, got {len(args)}")
    value = function(*args, **_seeded(seed))
    derived = _once(function, "vjp", lambda: _pulled(function))
    return value, lambda cotangent: derived(*args, cotangent, **_seeded(seed))


def _seeded(seed: int | None) -> dict[str, int]:
    return {} if seed is None else {"seed": seed}


def _pushed(f: Function) -> Function:
    """`jvp` as a function of the arguments, then the tangents."""
    decl, wrt, result = f.decl, _differentiable("jvp", f), f.decl.result
    assert result is not None
    names = [p.local.name for p in decl.params]
    own = _unused(names, names)
    tangents = tuple(
        core.Param(core.Local(n, p.local.type, span=p.local.span)) for n, p in zip(own, decl.params, strict=True)
    )
    params = decl.params + tangents
    # A size that is known only when it runs is found by the checker, from the expression.
    value: Type = TypeVar(0, rigid=True) if decl.opened else TypeTuple((result, result))
    t = TypeFn(tuple(p.local.type for p in params), value)
    form = core.Derivative(t, decl.span, "jvp", at_its_own_types(decl), wrt, len(wrt) == 1)
    args = tuple(reference(p, decl.span) for p in params)
    derived = calling(decl, f"jvp({decl.name})", params, form, args, value)
    bare = len(names) == 1
    given = [", ".join(x) if bare else f"({', '.join(x)})" for x in (names, own)]
    expression = f"(|{', '.join([*names, *own])}| jvp({f.expression}, {given[0]}, {given[1]}))"
    return Function(f.program, derived, expression, f.settle or bool(decl.opened))


def _pulled(f: Function) -> Function:
    """`vjp` as a function of the arguments and a cotangent."""
    decl, wrt, result = f.decl, _differentiable("vjp", f), f.decl.result
    assert result is not None
    if decl.opened:
        raise _refused("vjp", decl, "the size of its result is known only when it runs, and a cotangent has that size")
    names = [p.local.name for p in decl.params]
    (own,) = _unused(["cotangent"], names)
    cotangent = core.Param(core.Local(own, result, span=decl.span))
    slopes = [decl.params[k].local.type for k in wrt]
    value = slopes[0] if len(wrt) == 1 else TypeTuple(tuple(slopes))
    pull = TypeFn((result,), value)
    both = TypeTuple((result, pull))
    t = TypeFn(tuple(p.local.type for p in decl.params), both)
    form = core.Derivative(t, decl.span, "vjp", at_its_own_types(decl), wrt, len(wrt) == 1)
    call = core.Call(both, decl.span, form, tuple(reference(p, decl.span) for p in decl.params))
    second = core.Project(pull, decl.span, call, 1, "1")
    args = (reference(cotangent, decl.span),)
    derived = calling(decl, f"vjp({decl.name})", (*decl.params, cotangent), second, args, value)
    expression = f"(|{', '.join([*names, own])}| vjp({f.expression}, {', '.join(names)}).1({own}))"
    return Function(f.program, derived, expression, f.settle)


def _unused(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names like these that are not taken."""
    made: list[str] = []
    for name in names:
        while name in taken or name in made:
            name += "'"
        made.append(name)
    return made


def _differentiable(kind: str, f: Function) -> tuple[int, ...]:
    found = tuple(k for k, p in enumerate(f.decl.params) if not p.nodiff)
    if not found:
        raise _refused(kind, f.decl, "it has no parameter to differentiate in")
    return found


# ---- what all have in common -----------------------------------------------------------------------------------------
def _of_language(kind: str, f: Any) -> Function:
    if not isinstance(f, Function):
        message = f"`dlang.{kind}` differentiates functions of the language; this is {type(f).__name__}"
        raise error("E0962", message, None, help=("get one with `dlang.load`, `dlang.compile` or `import`",))
    return f


def _once(f: Function, key: object, make: Callable[[], Function]) -> Function:
    """Made when it is first asked for: what it compiles is kept with it."""
    if key not in f.derived:
        f.derived[key] = make()
    return f.derived[key]


def _axes(t: TypeArray) -> int:
    """The axes that an array surely has."""
    shape = resolve_shape(t.shape)
    return len(shape.pre) + len(shape.post)


def _position(kind: str, decl: core.FnDecl, which: str | int) -> int:
    names = [p.local.name for p in decl.params]
    if isinstance(which, int):
        if not 0 <= which < len(names):
            raise _refused(kind, decl, f"it has no parameter {which}")
        k = which
    elif which not in names:
        raise _refused(kind, decl, f"it has no parameter `{which}`, but {', '.join(f'`{n}`' for n in names)}")
    else:
        k = names.index(which)
    t = resolve(decl.params[k].local.type)
    if decl.params[k].nodiff or (isinstance(t, TypeCon) and t.name not in FLOATS):
        raise _refused(kind, decl, f"its parameter `{names[k]}` has no float to differentiate in")
    return k


def _refused(kind: str, decl: core.FnDecl, why: str) -> DlangError:
    return error("E0962", f"`dlang.{kind}` of `{decl.name}`: {why}", decl.span)
