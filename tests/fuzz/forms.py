"""The forms of derivatives, of functions that are written in place and of those of the program, in each other."""

from __future__ import annotations

from tests.fuzz.types import F64, Arr, Enum, Fn, K, N, Tup, Type, at, holds, vector
from tests.fuzz.writer import Writer

MOST_ORDERS = 2  # of derivatives inside of one another, beside that of `main`


def total(text: str) -> str:
    """A number that depends on every float of a value, on each in another way if they differ."""
    return f"sum_floats(map_floats(|v| sin(1.7 * v + 0.3), {text}))"


def derivative(w: Writer, depth: int) -> str | None:
    if not w.has("derivatives") or w.scope.order >= MOST_ORDERS or depth < 2 or w.scope.points > 20:
        return None
    kinds = [
        (6, gradient),
        (4, tangent),
        (3, pulled),
        (2, named_gradient),
        (1, both),
        (2, matrix),
        (3, second),
        (1, saved),
    ]
    return w.weighted(kinds)(w, depth)


def parameter(w: Writer) -> Type:
    """The type of what is differentiated in."""
    choices: list[tuple[int, Type]] = [(6, F64), (4, vector(w.random.choice([N, K]))), (1, Arr(F64, (N, K)))]
    choices += [(1, Tup((F64, vector(N)))), (1, vector(w.size()))]
    if w.program.structs:
        choices.append((2, w.struct()))
    if w.program.enums:
        choices.append((2, w.enum()))
    t = w.weighted(choices)
    return t if holds(t, F64) and not holds(t, Fn) else F64


def function(w: Writer, t: Type, result: Type, depth: int) -> str:
    """A lambda, in whose body the parameter is used often."""
    with w.inner(mutable=False, iterations=2, order=1):
        x = w.fresh("x")
        w.bind(x, t)
        w.scope.favourite = x
        return f"|{x}: {t}| {w.expr(result, depth - 1)}"


def small(w: Writer, text: str, t: Type) -> str:
    return f"tanh({text})" if t == F64 else total(text)


def gradient(w: Writer, depth: int) -> str:
    t = parameter(w)
    return small(w, f"grad({function(w, t, F64, depth)})({w.expr(t, depth - 2)})", t)


def both(w: Writer, depth: int) -> str:
    t = parameter(w)
    v, g = w.fresh("v"), w.fresh("g")
    call = f"value_and_grad({function(w, t, F64, depth)})({w.expr(t, depth - 2)})"
    return f"{{ let ({v}, {g}) = {call}; {v} + {small(w, g, t)} }}"


def result(w: Writer) -> Type:
    types: list[Type] = [F64, vector(N), vector(K), Tup((vector(N), F64))]
    return w.random.choice(types)


def tangent(w: Writer, depth: int) -> str:
    """`jvp`, often of a gradient."""
    t = parameter(w)
    if w.chance(40) and w.scope.order + 1 < MOST_ORDERS:
        t = F64 if t == F64 else vector(N)
        with w.inner(order=1):
            inner = f"grad({function(w, t, F64, depth - 1)})"
        return small(w, f"jvp({inner}, {w.expr(t, depth - 2)}, {w.expr(t, depth - 2)}).1", t)
    if holds(t, Enum):  # a tangent is of the variant of the argument
        t = F64
    out = result(w)
    call = f"jvp({function(w, t, out, depth)}, {w.expr(t, depth - 2)}, {w.expr(t, depth - 2)}).1"
    return small(w, call, out)


def pulled(w: Writer, depth: int) -> str:
    """`vjp`, with one cotangent or two."""
    t, out = parameter(w), result(w)
    call = f"vjp({function(w, t, out, depth)}, {w.expr(t, depth - 2)})"
    if w.chance(50):
        return small(w, f"{call}.1({w.expr(out, depth - 2)})", t)
    y, pull = w.fresh("y"), w.fresh("pull")
    pulls = [small(w, f"{pull}({w.expr(out, 1)})", t) for _ in range(2)]
    return f"{{ let ({y}, {pull}) = {call}; {small(w, y, out)} + {pulls[0]} * {pulls[1]} }}"


def named_gradient(w: Writer, depth: int) -> str | None:
    """Of a function of the program, in one of its parameters or in all that have floats and can be differentiated."""
    found = [f for f in w.program.functions if f.result == F64 and w.affords(f.cost)]
    if not found:
        return None
    f = w.random.choice(found)
    sizes = (w.size(), w.size()) if f.takes_sizes else (N, K)
    params = [at(p, *sizes) for p in f.params]
    wrt = [k for k, p in enumerate(params) if holds(p, F64) and not holds(p, Fn)]
    if not wrt:
        return None
    k = w.random.choice(wrt)
    args = ", ".join([w.expr(p, depth - 2) for p in params])
    return small(w, f"grad({f.name}, wrt = {k})({args})", params[k])


def matrix(w: Writer, depth: int) -> str:
    size = w.random.choice([N, K])
    f, x = function(w, vector(size), vector(w.random.choice([N, K])), depth), w.expr(vector(size), depth - 2)
    return f"sum(sin(jacobian({f})({x})))"


def second(w: Writer, depth: int) -> str | None:
    if w.scope.order + 2 > MOST_ORDERS or w.scope.points > 4:
        return None
    with w.inner(order=1):
        number = w.chance(50)
        t = F64 if number else vector(w.random.choice([N, K]))
        f = function(w, t, F64, depth - 1)
    x = w.expr(t, depth - 2)
    return f"tanh(grad(grad({f}))({x}))" if number else f"sum(sin(hessian({f})({x})))"


def saved(w: Writer, depth: int) -> str:
    t = parameter(w)
    return f"checkpoint({function(w, t, F64, depth)})({w.expr(t, depth - 2)})"
