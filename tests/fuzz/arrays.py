"""Expressions that are arrays."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.linear_algebra import solved_matrix, solved_vector
from tests.fuzz.loops import comprehended
from tests.fuzz.types import F64, I64, Arr, Size, vector
from tests.fuzz.writer import EACH, Writer, named

Production = Callable[[Writer, Arr, int], str | None]


def array(w: Writer, t: Arr, depth: int) -> str:
    if t.element == F64:
        productions = VECTORS if len(t.shape) == 1 else MATRICES
    else:
        productions = ANY if len(t.shape) == 1 else [(1, built)]
    return w.weighted(productions)(w, t, depth) or built(w, t, depth)


def built(w: Writer, t: Arr, depth: int) -> str:
    """By a comprehension, or from its elements."""
    size = t.shape[0]
    if len(t.shape) == 1 and size.fixed and size.one <= 3 and w.chance(50):
        return f"[{', '.join([w.expr(t.element, depth - 1) for _ in range(size.one)])}]"
    if not w.affords(EACH ** len(t.shape)):
        return plain(w, t)
    return f"[{comprehended(w, t.element, t.shape, depth)}]"


def plain(w: Writer, t: Arr) -> str:
    """Elements that are there already."""
    binders = []
    with w.inner(mutable=False):
        for s in t.shape:
            i = w.fresh("i")
            w.scope.indices.append((i, s))
            binders.append(f"{i} < {s}")
        body = w.expr(t.element, 0)
    return f"[{body} for {', '.join(binders)}]"


# ---- of any rank -----------------------------------------------------------------------------------------------------
def operator(w: Writer, t: Arr, depth: int) -> str:
    a, b = w.expr(t, depth - 1), w.expr(t, depth - 1)
    forms = [f"({a} {w.random.choice('+-*')} {b})", f"({named(a)} / (1.0 + {named(b)} ** 2))", f"maximum({a}, {b})"]
    forms.append(f"where({w.expr(t, depth - 2)} > {w.expr(F64, depth - 2)}, {a}, {b})")
    return w.random.choice(forms)


def function(w: Writer, t: Arr, depth: int) -> str:
    return f"{w.random.choice(['sin', 'tanh', 'abs', 'cos', 'atan'])}({w.expr(t, depth - 1)})"


def scaled(w: Writer, t: Arr, depth: int) -> str:
    return f"({w.expr(F64, depth - 1)} {w.random.choice('*+-')} {w.expr(t, depth - 1)})"


# ---- vectors ---------------------------------------------------------------------------------------------------------
def rearranged(w: Writer, t: Arr, depth: int) -> str:
    x = w.expr(t, depth - 1)
    forms = [f"reverse({x})"]
    if t.element in (F64, I64):
        forms += [f"sort({x})", f"cumsum({x})"]
    if t.element == F64:
        forms += [f"{named(x)}[argsort({w.expr(t, depth - 2)})]", f"map(|v| v * tanh(v), {x})"]
    return w.random.choice(forms)


def joined(w: Writer, t: Arr, depth: int) -> str | None:
    (size,) = t.shape
    if size.n and size.k:
        rest = Size(k=size.k, one=size.one)
        halves = [w.expr(Arr(t.element, (part,)), depth - 1) for part in (Size(n=size.n), rest)]
        return f"concat({', '.join(halves)})"
    rest = size.plus(-1)
    if rest.least < 1:
        return None
    parts = [f"[{w.expr(t.element, depth - 1)}]", w.expr(Arr(t.element, (rest,)), depth - 1)]
    w.random.shuffle(parts)
    return f"concat({', '.join(parts)})"


def sliced(w: Writer, t: Arr, depth: int) -> str:
    (size,) = t.shape
    if w.chance(40):
        step = w.random.randrange(2, 4)
        return f"{named(w.expr(Arr(t.element, (size.times(step),)), depth - 1))}[.. by {step}]"
    first = w.random.randrange(3)
    longer = Arr(t.element, (size.plus(2),))
    return f"{named(w.expr(longer, depth - 1))}[{first}..{size.plus(first)}]"


def gathered(w: Writer, t: Arr, depth: int) -> str:
    """The elements at an array of positions, which may repeat."""
    source, i = w.size(), w.fresh("i")
    with w.inner(mutable=False, iterations=EACH):
        w.bind(i, I64)
        at = f"[({w.expr(I64, min(depth - 1, 2))}) % ({source}) for {i} < {t.shape[0]}]"
    return f"{named(w.expr(Arr(t.element, (source,)), depth - 1))}[{at}]"


def scanned(w: Writer, t: Arr, depth: int) -> str | None:
    if not w.affords():
        return None
    acc, v = w.fresh("acc"), w.fresh("v")
    first, source = w.expr(F64, depth - 1), w.expr(t, depth - 1)
    with w.inner(mutable=False, iterations=EACH):
        w.bind(acc, F64)
        w.bind(v, F64)
        body, out = w.expr(F64, depth - 1), w.expr(F64, depth - 2)
    return f"scan(|{acc}, {v}| (tanh({body}), {out}), {first}, {source}).1"


def product(w: Writer, t: Arr, depth: int) -> str:
    inner = w.size()
    matrix, other = Arr(F64, (t.shape[0], inner)), vector(inner)
    if w.chance(70):
        return f"({w.expr(matrix, depth - 1)} @ {w.expr(other, depth - 1)})"
    flipped = Arr(F64, (inner, t.shape[0]))
    return f"({w.expr(other, depth - 1)} @ {w.expr(flipped, depth - 1)})"


def of_matrix(w: Writer, t: Arr, depth: int) -> str:
    """A row, a column, or a reduction of one axis."""
    (size,), other = t.shape, w.size()
    reduction = w.random.choice(["sum", "mean", "max", "min", "logsumexp"])
    if w.chance(50):
        m = named(w.expr(Arr(F64, (size, other)), depth - 1))
        return w.random.choice([f"{m}[.., {w.index(other)}]", f"{reduction}({m}, axis = 1)"])
    m = named(w.expr(Arr(F64, (other, size)), depth - 1))
    return w.random.choice([f"{m}[{w.index(other)}]", f"{reduction}({m}, axis = 0)"])


# ---- matrices --------------------------------------------------------------------------------------------------------
def transposed(w: Writer, t: Arr, depth: int) -> str:
    rows, columns = t.shape
    flipped = w.expr(Arr(F64, (columns, rows)), depth - 1)
    if w.chance(25) and sum(map(bool, (rows.n, rows.k, rows.one, columns.n, columns.k, columns.one))) == 2:
        return f"reshape({flipped}, {rows}, {columns})"
    return f"transpose({flipped})"


def broadcast(w: Writer, t: Arr, depth: int) -> str:
    rows, columns = t.shape
    m, v = w.expr(t, depth - 1), w.expr(vector(columns), depth - 1)
    column = f"[[v] for v in {w.expr(vector(rows), depth - 1)}]"
    forms = [f"({m} * {v})", f"({m} + {column})", f"({column} * {v})"]
    forms.append(f"sum({w.expr(Arr(F64, (rows, w.size())), depth - 1)}, axis = 1, keepdims = true) * {v}")
    return w.random.choice(forms)


def matrix_product(w: Writer, t: Arr, depth: int) -> str:
    (rows, columns), inner = t.shape, w.size()
    return f"({w.expr(Arr(F64, (rows, inner)), depth - 1)} @ {w.expr(Arr(F64, (inner, columns)), depth - 1)})"


def rows(w: Writer, t: Arr, depth: int) -> str | None:
    if not w.affords():
        return None
    with w.inner(mutable=False, iterations=EACH):
        i = w.fresh("r")
        w.scope.indices.append((i, t.shape[0]))
        row = w.expr(vector(t.shape[1]), depth - 1)
    return f"[{row} for {i} < {t.shape[0]}]"


def chosen_rows(w: Writer, t: Arr, depth: int) -> str:
    """A gather of rows."""
    source, i = w.size(), w.fresh("i")
    at = f"[({i} + {w.expr(I64, 1)}) % ({source}) for {i} < {t.shape[0]}]"
    return f"{named(w.expr(Arr(F64, (source, t.shape[1])), depth - 1))}[{at}]"


ANY: list[tuple[int, Production]] = [(4, built), (1, rearranged), (1, joined), (1, sliced), (1, gathered)]
VECTORS: list[tuple[int, Production]] = [
    (6, built),
    (3, operator),
    (2, function),
    (2, scaled),
    (2, rearranged),
    (2, joined),
    (2, sliced),
    (2, gathered),
    (2, scanned),
    (2, product),
    (2, of_matrix),
    (2, solved_vector),
]
MATRICES: list[tuple[int, Production]] = [
    (5, built),
    (2, operator),
    (1, function),
    (1, scaled),
    (2, transposed),
    (2, broadcast),
    (2, matrix_product),
    (2, rows),
    (1, chosen_rows),
    (2, solved_matrix),
]
