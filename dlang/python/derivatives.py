"""`dlang.grad` and its relatives: derivatives of functions of the language, as functions again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

from dlang.diagnostics import DlangError, error, render
from dlang.host.values import describe
from dlang.lazy_modules import lazy_module
from dlang.python.bound import Bound
from dlang.python.documentation import parameter_names
from dlang.python.function import Function
from dlang.spelling import plural
from dlang.typecheck import core, types as ty
from dlang.typecheck.terms import of_var, substitute
from dlang.typecheck.trees import at_its_own_types, calling, reference

if TYPE_CHECKING:
    from dlang.typecheck import discrete
else:
    discrete = lazy_module("dlang.typecheck.discrete")


Parameters = str | int | Sequence[str | int]


# ---- functions of the arguments --------------------------------------------------------------------------------------
@overload
def grad(f: Bound, wrt: Parameters | None = None) -> Bound: ...
@overload
def grad(f: Any, wrt: Parameters | None = None) -> Function: ...
def grad(f: Any, wrt: Parameters | None = None) -> Function | Bound:
    """The gradient of a function that gives one float: in its first parameter, or in those that `wrt` names."""
    derived: Function | Bound = _derived("grad", f, wrt)
    return derived


@overload
def value_and_grad(f: Bound, wrt: Parameters | None = None) -> Bound: ...
@overload
def value_and_grad(f: Any, wrt: Parameters | None = None) -> Function: ...
def value_and_grad(f: Any, wrt: Parameters | None = None) -> Function | Bound:
    """The value and the gradient, from one forward pass."""
    derived: Function | Bound = _derived("value_and_grad", f, wrt)
    return derived


@overload
def jacobian(f: Bound, wrt: Parameters | None = None) -> Bound: ...
@overload
def jacobian(f: Any, wrt: Parameters | None = None) -> Function: ...
def jacobian(f: Any, wrt: Parameters | None = None) -> Function | Bound:
    """The matrix of all derivatives: the axes of the result, then those of the parameter."""
    derived: Function | Bound = _derived("jacobian", f, wrt)
    return derived


@overload
def hessian(f: Bound, wrt: Parameters | None = None) -> Bound: ...
@overload
def hessian(f: Any, wrt: Parameters | None = None) -> Function: ...
def hessian(f: Any, wrt: Parameters | None = None) -> Function | Bound:
    """The matrix of all second derivatives of a function that gives one float."""
    derived: Function | Bound = _derived("hessian", f, wrt)
    return derived


def _derived(kind: str, f: Any, wrt: Parameters | None) -> Any:
    if isinstance(f, Bound):
        return _derived(kind, f.function, _left(kind, f, wrt)).bind(**{p.local.name: v for p, v in f.values.items()})
    function = _of_language(kind, f)
    decl = function.decl
    single = wrt is None or isinstance(wrt, str | int)
    if not decl.params:
        raise _refused(kind, decl, "it has no parameter")
    names = _asked(kind, decl, 0 if wrt is None else wrt)
    positions = tuple(_position(kind, decl, n) for n in names)
    if not positions or len(set(positions)) < len(positions):
        raise _refused(kind, decl, "`wrt` names a parameter twice, or none")
    return function.once((kind, positions, single), lambda: _form(kind, function, positions, single))


def _left(kind: str, f: Bound, wrt: Parameters | None) -> Parameters:
    """The parameters that are meant, by name, where some are bound: positions count those that are left."""
    if not f.left:
        raise _refused(kind, f.function.decl, "all its parameters are bound")
    names = [p.local.name for p in f.left]

    def name(which: str | int) -> str:
        if isinstance(which, str):
            return which
        if not 0 <= which < len(names):
            raise _refused(kind, f.function.decl, f"no parameter {which} is left")
        return names[which]

    names_asked = [name(w) for w in _asked(kind, f.function.decl, 0 if wrt is None else wrt)]
    return names_asked[0] if wrt is None or isinstance(wrt, str | int) else names_asked


def _asked(kind: str, decl: core.FnDecl, wrt: Parameters) -> list[str | int]:
    """The names and positions in a `wrt`, which may be one of them; anything else is refused."""
    if isinstance(wrt, Iterable) and not isinstance(wrt, str):
        asked = list(wrt)
    else:
        asked = [wrt]
    for which in asked:
        if not isinstance(which, str | int) or isinstance(which, bool):
            message = f"`wrt` is a name or a position, or several, got {describe(which)}"
            raise _refused(kind, decl, message)
    return asked


def _form(kind: str, f: Function, positions: tuple[int, ...], single: bool) -> Function:
    decl = f.decl
    assert decl.result is not None
    result = ty.resolve(decl.result)
    is_open = isinstance(result, ty.TypeVar) or (isinstance(result, ty.TypeArray) and not _axes(result))
    if kind != "jacobian" and not is_open and not (isinstance(result, ty.TypeCon) and result.name in ty.FLOATS):
        raise _refused(kind, decl, "it does not give one float")
    slopes = [decl.params[k].local.type for k in positions]
    gradient = slopes[0] if single else ty.TypeTuple(tuple(slopes))
    match kind:
        case "grad":
            value: ty.Type = gradient
        case "value_and_grad":
            value = ty.TypeTuple((result, gradient))
        case _:
            # Axes after axes: the checker finds the type at the ranks of the arguments.
            value, is_open = ty.TypeVar(0, rigid=True), True
    t = ty.TypeFn(tuple(p.local.type for p in decl.params), value)
    form = _told(f, core.Derivative(t, decl.span, kind, at_its_own_types(decl), positions, single))
    args = tuple(reference(p, decl.span) for p in decl.params)
    chosen = [decl.params[k].local.name for k in positions]
    expression = f"{kind}({f.expression}, wrt = {chosen[0] if single else '(' + ', '.join(chosen) + ')'})"
    derived = calling(decl, f"{kind}({decl.name})", decl.params, form, args, value)
    return Function(f.program, derived, expression, f.settle or is_open)


# ---- products --------------------------------------------------------------------------------------------------------
def jvp(f: Any, arguments: Any, tangents: Any, *, seed: int | None = None) -> Any:
    """The value of a function and its tangent. Several parameters: `jvp(f, (x, y), (dx, dy))`; one may be bare.

    seed: of a function that draws random numbers.
    """
    function = _of_language("jvp", f.function if isinstance(f, Bound) else f)
    left = f.left if isinstance(f, Bound) else function.decl.params
    n = len(left)
    # The language has no tuple of one, so it is never the argument itself.
    given = [(v,) if n == 1 and not (isinstance(v, tuple) and len(v) == 1) else v for v in (arguments, tangents)]
    for values in given:
        if not isinstance(values, tuple | list) or len(values) != n:
            has = f"has {plural(n, 'parameter')}{' left' if isinstance(f, Bound) else ''}"
            raise function.misuse(f"{has}: `dlang.jvp` takes tuples of {n} arguments and {n} tangents")
    derived = _products("jvp", function, tuple([p.local.name for p in left]))
    call = f.once("jvp", lambda: derived.bind(**f.named)) if isinstance(f, Bound) else derived
    return call(*given[0], *given[1], **_seeded(seed))


def vjp(f: Any, *args: Any, seed: int | None = None) -> tuple[Any, Callable[[Any], Any]]:
    """The value of a function and its pull: from a cotangent of the value to those of the arguments.

    The pull gives a tuple of one for each parameter, bare if there is one. What the forward pass saved does not cross
    into Python, so every call of the pull runs the forward pass again. seed: of a function that draws random numbers.
    """
    function = _of_language("vjp", f.function if isinstance(f, Bound) else f)
    left = f.left if isinstance(f, Bound) else function.decl.params
    n = len(left)
    if len(args) != n:
        has = f"has {plural(n, 'parameter')}{' left' if isinstance(f, Bound) else ''}"
        raise function.misuse(f"{has}: `dlang.vjp` takes {plural(n, 'argument')} after it, got {len(args)}")
    value = f(*args, **_seeded(seed))
    same = {"seed": seed or 0} if function.draws() else _seeded(seed)  # the pull draws what the value did
    names = tuple([p.local.name for p in left])
    if function.decl.opened:
        given = dict(zip(left, args, strict=True))
        function = function.at([given[p] if p in given else f.values[p] for p in function.decl.params])
    derived = _products("vjp", function, names)
    call = f.once(("vjp", function), lambda: derived.bind(**f.named)) if isinstance(f, Bound) else derived
    return value, lambda cotangent: call(*args, cotangent, **same)


def pull_of(f: Function | Bound, names: Sequence[str]) -> Function | Bound:
    """The cotangents of some parameters that are left, as a function of all these and of the cotangent of the result.

    It gives a tuple of one for each name, in the order of the parameters, bare if there is one.
    """
    function = f.function if isinstance(f, Bound) else f
    derived = _products("vjp", function, tuple(names))
    return f.once(("vjp", tuple(names)), lambda: derived.bind(**f.named)) if isinstance(f, Bound) else derived


def push_of(f: Function | Bound, names: Sequence[str]) -> Function | Bound:
    """The result and its tangent, as a function of all parameters that are left and of the tangents of some of them."""
    function = f.function if isinstance(f, Bound) else f
    derived = _products("jvp", function, tuple(names))
    return f.once(("jvp", tuple(names)), lambda: derived.bind(**f.named)) if isinstance(f, Bound) else derived


def _products(kind: str, f: Function, names: tuple[str, ...]) -> Function:
    """`jvp` or `vjp` as a function, in the parameters of these names."""
    left = [p for p in f.decl.params if p.local.name in names]
    return f.once((kind, names), lambda: _pushed(f, left) if kind == "jvp" else _pulled(f, names))


def made_again(f: Function, key: Any) -> Function:
    """Makes a function again that this module has derived from another, by its key there."""
    match key:
        case ("jvp" | "vjp" as kind, tuple() as names):
            return _products(kind, f, names)
        case (str() as kind, tuple() as positions, bool() as single):
            return f.once(key, lambda: _form(kind, f, positions, single))
        case _:
            raise TypeError(f"nothing is made of {f!r} by {key!r}")


def _seeded(seed: int | None) -> dict[str, int]:
    return {} if seed is None else {"seed": seed}


def _pushed(f: Function, left: Sequence[core.Param]) -> Function:
    """`jvp` as a function of the arguments, then the tangents. left: the parameters that have one."""
    left_names = [p.local.name for p in left]
    decl, wrt, result = f.decl, _differentiable("jvp", f, left_names), f.decl.result
    assert result is not None
    names = [p.local.name for p in decl.params]
    tangent_names = _unused(left_names, names)
    tangents = {
        p: core.Param(core.Local(n, p.local.type, span=p.local.span)) for n, p in zip(tangent_names, left, strict=True)
    }
    params = (*decl.params, *tangents.values())
    # A size that is known only when it runs is found by the checker, from the expression.
    value: ty.Type = ty.TypeVar(0, rigid=True) if decl.opened else ty.TypeTuple((result, result))
    passed = (*decl.params, *[tangents.get(p, p) for p in decl.params])  # that of a bound one is not looked at
    t = ty.TypeFn(tuple(p.local.type for p in passed), value)
    form = _told(f, core.Derivative(t, decl.span, "jvp", at_its_own_types(decl), wrt, len(wrt) == 1))
    args = tuple(reference(p, decl.span) for p in passed)
    derived = calling(decl, f"jvp({decl.name})", params, form, args, value)
    given = [x[0] if len(x) == 1 else f"({', '.join(x)})" for x in (left_names, tangent_names)]
    expression = f"(|{', '.join([*names, *tangent_names])}| jvp({_of(f, left_names)}, {given[0]}, {given[1]}))"
    return Function(f.program, derived, expression, f.settle or bool(decl.opened))


def _pulled(f: Function, left: Container[str]) -> Function:
    """`vjp` as a function of the arguments and a cotangent. left: the names of the parameters that get one.

    A size that is known only when it runs is another one in the cotangent, and compared with that of the value.
    """
    decl, wrt, result = f.decl, _differentiable("vjp", f, left), f.decl.result
    assert result is not None
    names = [p.local.name for p in decl.params]
    (cotangent_name,) = _unused(["cotangent"], names)
    given = {v: ty.SizeVar(0, v.name, rigid=True) for v in decl.opened}
    in_place = substitute(result, {v: of_var(g) for v, g in given.items()})
    cotangent = core.Param(core.Local(cotangent_name, in_place, span=decl.span))
    slopes = [decl.params[k].local.type for k in wrt]
    value = slopes[0] if len(wrt) == 1 else ty.TypeTuple(tuple(slopes))
    pull = ty.TypeFn((result,), value)
    both = ty.TypeTuple((result, pull))
    t = ty.TypeFn(tuple(p.local.type for p in decl.params), both)
    form = _told(f, core.Derivative(t, decl.span, "vjp", at_its_own_types(decl), wrt, len(wrt) == 1))
    call = core.Call(both, decl.span, form, tuple(reference(p, decl.span) for p in decl.params), decl.opened)
    second = core.Local("pull", pull)
    let = core.Let(core.TuplePattern((core.Wildcard(), core.Bind(second))), call, (), decl.span)
    bar: core.Expr = reference(cotangent, decl.span)
    if given:
        bar = core.As(result, decl.span, bar)
    derived = calling(
        decl, f"vjp({decl.name})", (*decl.params, cotangent), core.Ref(pull, decl.span, second), (bar,), value
    )
    assert derived.body is not None
    derived.body = core.BlockExpr(value, decl.span, (let,), derived.body)
    if given:
        derived.variables = (*[v for v in decl.variables if v not in given], *given.values())
        derived.opened = ()
    taken = [n for n in names if n in left]
    expression = (
        f"(|{', '.join([*names, cotangent_name])}| vjp({_of(f, taken)}, {', '.join(taken)}).1({cotangent_name}))"
    )
    return Function(f.program, derived, expression, f.settle)


def _unused(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names like these that are not taken."""
    unused: list[str] = []
    for name in names:
        while name in taken or name in unused:
            name += "'"
        unused.append(name)
    return unused


def _of(f: Function, left: Sequence[str]) -> str:
    """How the module would write a function of some parameters, where all of them have names."""
    names = [p.local.name for p in f.decl.params]
    return f.expression if len(left) == len(names) else f"(|{', '.join(left)}| {f.expression}({', '.join(names)}))"


def _differentiable(kind: str, f: Function, left: Container[str]) -> tuple[int, ...]:
    positions = tuple(k for k, p in enumerate(f.decl.params) if not p.nodiff and p.local.name in left)
    if not positions:
        raise _refused(kind, f.decl, "it has no parameter to differentiate in")
    return positions


# ---- what all have in common -----------------------------------------------------------------------------------------
def _told(f: Function, form: core.Derivative) -> core.Derivative:
    """A derivative, of which Python is warned if it goes through a discrete draw."""
    if "random" in f.program.checked.modules:
        for warning in discrete.warnings_of(form):
            warnings.warn(render(warning), stacklevel=5)
    return form


def _of_language(kind: str, f: Any) -> Function:
    if not isinstance(f, Function):
        message = f"`dlang.{kind}` differentiates functions of the language; this is {type(f).__name__}"
        raise error("E0962", message, None, help=("get one with `dlang.load`, `dlang.compile` or `import`",))
    return f


def _axes(t: ty.TypeArray) -> int:
    """The axes that an array surely has."""
    shape = ty.resolve_shape(t.shape)
    return len(shape.pre) + len(shape.post)


def _position(kind: str, decl: core.FnDecl, which: str | int) -> int:
    names = [p.local.name for p in decl.params]
    if isinstance(which, int):
        if not 0 <= which < len(names):
            raise _refused(kind, decl, f"it has no parameter {which}")
        k = which
    elif (which := _written(decl, which)) not in names:
        raise _refused(kind, decl, f"it has no parameter `{which}`, but {', '.join(f'`{n}`' for n in names)}")
    else:
        k = names.index(which)
    t = ty.resolve(decl.params[k].local.type)
    if decl.params[k].nodiff or (isinstance(t, ty.TypeCon) and t.name not in ty.FLOATS):
        raise _refused(kind, decl, f"its parameter `{names[k]}` has no float to differentiate in")
    return k


def _written(decl: core.FnDecl, name: str) -> str:
    """The name of a parameter in the language, which in Python may be another."""
    in_language = dict(zip(parameter_names(decl)[0], [p.local.name for p in decl.params], strict=True))
    return in_language.get(name, name)


def _refused(kind: str, decl: core.FnDecl, why: str) -> DlangError:
    return error("E0962", f"`dlang.{kind}` of `{decl.name}`: {why}", decl.span)
