"""Expressions that are numbers and truth values. They keep values small, indices in range and loops short."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.forms import derivative, total
from tests.fuzz.linear_algebra import determinant
from tests.fuzz.loops import comprehended, comprehension, filtered
from tests.fuzz.types import BOOL, F64, I64, Arr, Fn, holds, vector
from tests.fuzz.writer import EACH, Writer, named

EACH_PAIR = EACH * EACH
FLOATS = ("0.5", "1.0", "2.0", "0.25", "-1.5", "3.0", "0.1", "-0.75")
Production = Callable[[Writer, int], str | None]


def number(w: Writer, depth: int) -> str:
    return chosen(w, depth, PRODUCTIONS)


def chosen(w: Writer, depth: int, productions: list[tuple[int, Production]]) -> str:
    """What one of the productions gives; the first always gives something."""
    return w.weighted(productions)(w, depth) or productions[0][1](w, depth) or "0"


def bounded(w: Writer, text: str) -> str:
    """A float that is as active as another one and small: what a loop may carry."""
    forms = [f"tanh({text})", f"sin({text})", f"{named(text)} / (1.0 + abs({text}))", f"0.5 * tanh({text})", text]
    return w.random.choice(forms)


def arithmetic(w: Writer, depth: int) -> str:
    a, b = w.expr(F64, depth - 1), w.expr(F64, depth - 1)
    forms = [
        f"({a} + {b})",
        f"({a} - {b})",
        f"({a} * {b})",
        f"tanh({a}) * {b}",
        f"({named(a)} / (1.0 + ({b}) ** 2))",
        f"maximum({a}, {b})",
        f"minimum({a}, {b})",
        f"where({w.expr(BOOL, depth - 2)}, {a}, {b})",
        f"atan2({a}, 1.5 + tanh({b}))",
        f"(1.0 + abs({a})) ** tanh({b})",
        f"sqrt(1.0 + ({a}) ** 2 + ({b}) ** 2)",
    ]
    return w.random.choice(forms)


def analytic(w: Writer, depth: int) -> str:
    a = w.expr(F64, depth - 1)
    forms = [f"{f}({a})" for f in ("sin", "cos", "tanh", "atan", "abs", "erf")]
    forms += [
        f"exp(-abs({a}))",
        f"log(1.0 + abs({a}))",
        f"expm1(tanh({a}))",
        f"log1p(({a}) ** 2)",
        f"1.0 / (1.0 + exp(-{named(a)}))",
        f"({a}) ** {w.random.choice(['2', '3', '2.0'])}",
        f"sinh(tanh({a}))",
        f"lgamma(1.5 + abs({a}))",
        f"clip({a}, -1.0, 0.75)",
        f"-{named(a)}",
        f"({a} |> tanh)",
        f"asin(0.9 * tanh({a}))",
    ]
    return w.random.choice(forms)


def reduction(w: Writer, depth: int) -> str:
    """Of an array."""
    if depth >= 2 and w.chance(15) and w.affords():
        return determinant(w, depth)
    if w.chance(20):
        return f"sum({w.expr(Arr(F64, (w.size(), w.size())), depth - 1)})"
    size = w.size()
    x = w.expr(vector(size), depth - 1)
    forms = [f"{f}({x})" for f in ("sum", "mean", "max", "min", "logsumexp")]
    forms += [f"prod(tanh({x}) + 0.9)", f"({x} @ {w.expr(vector(size), depth - 1)})"]
    return w.random.choice(forms)


def reduced_comprehension(w: Writer, depth: int) -> str | None:
    if not w.affords():
        return None
    kind = w.random.randrange(6)
    if kind == 0:
        return f"prod({comprehended(w, F64, (w.size(),), depth, 'tanh({})')})"
    if kind == 1:
        return f"{w.random.choice(['max', 'min', 'mean', 'logsumexp'])}({comprehended(w, F64, (w.size(),), depth)})"
    if kind == 2 and w.affords(EACH_PAIR):
        return triangle(w, depth)
    if kind == 3 and w.affords(EACH_PAIR):
        return f"sum({comprehended(w, F64, (w.size(), w.size()), depth)})"
    return f"sum({comprehended(w, F64, (w.size(),), depth)})"


def triangle(w: Writer, depth: int) -> str:
    """A sum over pairs, of which the second index has a range that depends on the first."""
    size, i, j = w.size(), w.fresh("i"), w.fresh("j")
    low, high = w.random.choice([("", f" < {i}"), ("", f" < {i} + 1"), (f" in {i}..", f"{size}")])
    with w.inner(mutable=False, iterations=EACH_PAIR):
        w.scope.indices += [(i, size), (j, size)]
        body = w.expr(F64, depth - 1)
    return f"sum({body} for {i} < {size}, {j}{low}{high})"


def selected(w: Writer, depth: int) -> str | None:
    """A reduction of the elements that a condition selects."""
    if not w.affords():
        return None
    if w.chance(30):
        y, c = w.fresh("y"), w.fresh("c")
        return f"{{ let {y}: f64[{c}] = {filtered(w, depth)}; sum({y} * {y}) / f64(1 + {c}) }}"
    return f"sum({filtered(w, depth)})"


def folded(w: Writer, depth: int) -> str | None:
    """`fold` and `scan` with any function, over a number or a pair."""
    if not w.affords():
        return None
    size = w.size()
    first, source = w.expr(F64, depth - 1), w.expr(vector(size), depth - 1)
    acc, v = w.fresh("acc"), w.fresh("v")
    with w.inner(mutable=False, iterations=EACH):
        w.bind(acc, F64)
        w.bind(v, F64)
        w.scope.favourite = acc
        if w.chance(30):
            other = w.fresh("b")
            w.bind(other, F64)
            after = f"({bounded(w, w.expr(F64, depth - 2))}, {bounded(w, w.expr(F64, depth - 1))})"
            return f"fold(|({acc}, {other}), {v}| {after}, ({first}, 0.5), {source}).{w.random.randrange(2)}"
        body, out = bounded(w, w.expr(F64, depth - 1)), w.expr(F64, depth - 2)
    if w.chance(50):
        return f"fold(|{acc}, {v}| {body}, {first}, {source})"
    s, ys = w.fresh("s"), w.fresh("ys")
    return f"{{ let ({s}, {ys}) = scan(|{acc}, {v}| ({body}, {out}), {first}, {source}); {s} + sum(sin({ys})) }}"


def reduced(w: Writer, depth: int) -> str:
    """`reduce` with an associative operator of its own."""
    x = w.expr(vector(w.size()), depth - 1)
    a, b = w.fresh("a"), w.fresh("b")
    forms = [
        f"reduce(|{a}, {b}| {a} + {b} + 0.1 * {a} * {b}, 0.0, {x})",
        f"reduce(|{a}, {b}| {a} * {b}, 1.0, 0.5 + 0.3 * sin({x}))",
        f"reduce(maximum, -100.0, {x})",
        f"reduce(|{a}, {b}| log(exp({a}) + exp({b})), -50.0, tanh({x}))",
        f"reduce(|{a}, {b}| ({a}.0 * {b}.0, {a}.0 * {b}.1 + {a}.1), (1.0, 0.0), [(cos(v), v) for v in {x}]).1",
        f"sum(reduce(|{a}, {b}| {a} @ {b}, [[1.0, 0.0], [0.0, 1.0]], [[[cos(v), v], [0.5, tanh(v)]] for v in {x}]))",
    ]
    return w.random.choice(forms)


def element(w: Writer, depth: int) -> str:
    """Of an array, at an index in range."""
    shape = tuple([w.size() for _ in range(w.random.randrange(1, 3))])
    t = Arr(F64, shape)
    entries = []
    for s in shape:
        entries.append(w.index(s) if w.chance(60) else f"({w.expr(I64, min(depth - 1, 1))}) % ({s})")
    return f"{named(w.expr(t, depth - 1))}[{', '.join(map(str, entries))}]"


def whole(w: Writer, depth: int) -> str:
    a = w.expr(F64, depth - 1)
    forms = [f"f64(({w.expr(I64, depth - 1)}) % 5)", f"f64(i64(2.0 * tanh({a})))", f"floor({a}) * {a}"]
    return w.random.choice(forms)


def sum_of_structure(w: Writer, depth: int) -> str:
    """All floats of a value, each through a function."""
    t = w.type(2)
    return total(w.expr(t, depth - 1)) if holds(t, F64) and not holds(t, Fn) else w.expr(F64, depth - 1)


PRODUCTIONS: list[tuple[int, Production]] = [
    (8, arithmetic),
    (5, analytic),
    (3, reduction),
    (4, reduced_comprehension),
    (1, selected),
    (2, folded),
    (1, reduced),
    (3, element),
    (1, whole),
    (1, sum_of_structure),
    (4, derivative),
]


# ---- integers and truth values ---------------------------------------------------------------------------------------
def integer(w: Writer, depth: int) -> str:
    return chosen(w, depth, INTEGERS)


def sums_of_integers(w: Writer, depth: int) -> str:
    a, b = w.expr(I64, depth - 1), w.expr(I64, depth - 1)
    forms = [
        f"({a} + {b})",
        f"({a} - {b})",
        f"({a}) % 11 * (({b}) % 7)",
        f"({a}) % {w.random.randrange(2, 9)}",
        f"({a}) // {w.random.randrange(2, 9)}",
        f"maximum({a}, {b})",
        f"bit_and({a}, {b}) % 16",
        f"shift_right({a}, 1)",
        f"i64(4.0 * tanh({w.expr(F64, depth - 1)}))",
    ]
    return w.random.choice(forms)


def positions(w: Writer, depth: int) -> str:
    x = w.expr(vector(w.size()), depth - 1)
    forms = [f"len({x})", f"argmax({x})", f"argmin({x})", f"argsort({x})[1]"]
    return w.random.choice(forms)


def integers_of_arrays(w: Writer, depth: int) -> str | None:
    if not w.affords():
        return None
    if w.chance(50):
        return f"sum({comprehension(w, I64, w.size(), depth)}) % 101"
    if w.chance(50):
        return f"len({filtered(w, depth)})"
    size = w.size()
    return f"{named(w.expr(Arr(I64, (size,)), depth - 1))}[{w.index(size)}]"


INTEGERS: list[tuple[int, Production]] = [(5, sums_of_integers), (2, positions), (2, integers_of_arrays)]


def truth(w: Writer, depth: int) -> str:
    return chosen(w, depth, TRUTHS)


def compared(w: Writer, depth: int) -> str:
    t = F64 if w.chance(65) else I64
    signs = "< > <= >=" if t == F64 else "< <= > >= == !="
    return f"({w.expr(t, depth - 1)} {w.random.choice(signs.split())} {w.expr(t, depth - 1)})"


def joined(w: Writer, depth: int) -> str:
    a, b = w.expr(BOOL, depth - 1), w.expr(BOOL, depth - 1)
    return w.random.choice([f"({a} and {b})", f"({a} or {b})", f"(not {a})"])


def equal(w: Writer, depth: int) -> str:
    t = w.type(1)
    if isinstance(t, Arr):
        return compared(w, depth)
    return f"({w.expr(t, 1)} == {w.expr(t, 1)})"


def any_or_all(w: Writer, depth: int) -> str | None:
    if not w.affords():
        return None
    return f"{w.random.choice(['any', 'all'])}({comprehension(w, BOOL, w.size(), depth)})"


TRUTHS: list[tuple[int, Production]] = [(6, compared), (1, joined), (1, equal), (1, any_or_all)]
