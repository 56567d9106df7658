"""Random expressions of a wanted type: which of the ways to write one."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.arrays import array
from tests.fuzz.data import element, matched, projected, struct, variant
from tests.fuzz.functions import applied, called, function
from tests.fuzz.numbers import FLOATS, integer, number, truth
from tests.fuzz.statements import computed
from tests.fuzz.types import BOOL, F64, SELF, Arr, Enum, Fn, Num, Struct, Tup, Type
from tests.fuzz.writer import Writer

Production = Callable[[Writer, Type, int], str | None]


def expression(w: Writer, t: Type, depth: int) -> str:
    """An expression of a type."""
    if depth <= 0:
        return leaf(w, t)
    if w.chance(25):
        there = w.reads(t)
        if there:
            return w.random.choice(there)
    if w.chance(30):
        found = w.weighted(GENERAL)(w, t, depth)
        if found is not None:
            return found
    match t:
        case Num("f64"):
            return number(w, depth)
        case Num("i64"):
            return integer(w, depth)
        case Num("bool"):
            return truth(w, depth)
        case Arr():
            return array(w, t, depth)
        case Tup(items):
            return f"({', '.join([w.expr(i, depth - 1) for i in items])})"
        case Struct():
            return struct(w, t, depth)
        case Enum():
            return variant(w, t, depth)
        case Fn():
            return function(w, t, depth)
    raise AssertionError(t)


def leaf(w: Writer, t: Type) -> str:
    """What is there already, if anything is, else a literal."""
    there = w.reads(t)
    if there and w.chance(92):
        return w.random.choice(there)
    match t:
        case Num("f64"):
            return w.random.choice(FLOATS)
        case Num("i64"):
            if w.scope.indices and w.chance(50):
                return w.random.choice(w.scope.indices)[0]
            return str(w.random.randrange(-3, 8)) if w.chance(60) else w.random.choice(["n", "k"])
        case Num("bool"):
            return f"({leaf(w, F64)} > {leaf(w, F64)})" if w.chance(70) else w.random.choice(["true", "false"])
        case Arr(inner, shape):
            binders = []
            with w.inner(mutable=False):
                for s in shape:
                    i = w.fresh("i")
                    w.scope.indices.append((i, s))
                    binders.append(f"{i} < {s}")
                body = leaf(w, inner)
            return f"[{body} for {', '.join(binders)}]"
        case Tup(items):
            return f"({', '.join([leaf(w, i) for i in items])})"
        case Struct(name, fields):
            return f"{name}({', '.join([f'{f} = {leaf(w, ft)}' for f, ft in fields])})"
        case Enum(_, variants):
            plain = [v for v in variants if SELF not in v[1]]
            variant_name, types = w.random.choice([v for v in plain if v[1]] or plain)
            return f"{variant_name}({', '.join([leaf(w, f) for f in types])})" if types else variant_name
        case Fn():
            return function(w, t, 1)
    raise AssertionError(t)


def branch(w: Writer, t: Type, depth: int) -> str:
    return f"(if {w.expr(BOOL, depth - 1)} {{ {w.expr(t, depth - 1)} }} else {{ {w.expr(t, depth - 1)} }})"


def block(w: Writer, t: Type, depth: int) -> str:
    with w.inner():
        have = w.function_type() if w.has("functions") and w.chance(25) else w.type(1)
        value, name = w.expr(have, depth - 1), w.fresh("a")
        w.bind(name, have)
        return f"{{ let {name} = {value}; {w.expr(t, depth - 1)} }}"


GENERAL: list[tuple[int, Production]] = [
    (4, branch),
    (2, block),
    (2, computed),
    (3, called),
    (1, projected),
    (2, matched),
    (1, element),
    (2, applied),
]
