"""Functions as values, and calls of the program's functions."""

from __future__ import annotations

from tests.fuzz.types import BOOL, F64, Fn, K, N, Type, at
from tests.fuzz.writer import Writer


def function(w: Writer, t: Fn, depth: int) -> str:
    """A lambda; or one of those in reach, after another."""
    with w.inner(mutable=False, iterations=2):
        names = [w.fresh("x") for _ in t.params]
        for name, p in zip(names, t.params, strict=True):
            w.bind(name, p)
        params = ", ".join([f"{name}: {p}" for name, p in zip(names, t.params, strict=True)])
        return f"(|{params}| {w.expr(t.result, depth - 1)})"


def applied(w: Writer, t: Type, depth: int) -> str | None:
    """A call of a function value in reach, or of one chosen when the program runs."""
    if not w.has("functions"):
        return None
    known = [(name, have) for name, have, _ in w.scope.locals if isinstance(have, Fn) and have.result == t]
    if known:
        name, have = w.random.choice(known)
        return f"{name}({', '.join([w.expr(p, depth - 1) for p in have.params])})"
    fn = Fn((F64,), t)
    one, other = function(w, fn, depth - 1), function(w, fn, depth - 1)
    at_what = w.expr(F64, 1)
    match w.random.randrange(4):
        case 0:
            return f"[{one}, {other}][{w.random.choice(['0', '1'])}]({at_what})"
        case 1:
            g = w.fresh("g")
            return f"(|{g}: {fn}| {g}({at_what}))({one})"
        case _:
            return f"(if {w.expr(BOOL, 1)} {{ {one} }} else {{ {other} }})({at_what})"


def called(w: Writer, t: Type, depth: int) -> str | None:
    """A call of a function of the program whose result has the type, for some sizes."""
    for f in w.random.sample(w.program.functions, len(w.program.functions)):
        sizes = (w.size(), w.size()) if f.takes_sizes else (N, K)
        if at(f.result, *sizes) == t and w.affords(f.cost):
            w.cost = max(w.cost, w.scope.points * f.cost)
            params = [at(p, *sizes) for p in f.params]
            return f"{f.name}({', '.join([w.expr(p, depth - 2) for p in params])})"
    return None
