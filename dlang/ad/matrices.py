"""Products, triangular solutions and other matrices made of matrices, as the rules of linear algebra emit them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dlang.ad.rules import scalar
from dlang.ir.anf import Atom, Axis, LinalgOp, Lit, Read, Reduce, Size, Var, poly
from dlang.ir.builder import Builder, axis
from dlang.ir.types import array_type, dtype_of

Entry = Callable[[Var, Var], Atom]


def at(b: Builder, x: Var, i: Var, j: Var) -> Var:
    return b.one(Read(x, (poly(i), poly(j))))


def matrix(b: Builder, like: Var, entry: Entry) -> Var:
    """The matrix of the shape of another with the given entries."""
    return b.map(array_type(like).shape, entry)


@dataclass(frozen=True, slots=True)
class Part:
    """The elements i, j of a matrix with least <= i - j <= most, where a bound that is None leaves them open.

    A matrix of which less than all is taken is square.
    """

    least: int | None = None
    most: int | None = None

    def columns(self, row: Var) -> tuple[list[Size], list[Size]]:
        """The bounds of the columns in a row."""
        lows = [] if self.most is None else [poly(row) - self.most]
        highs = [] if self.least is None else [poly(row) - self.least + 1]
        return lows, highs

    def turned(self) -> Part:
        """The same elements of the transpose."""
        least, most = (None if bound is None else -bound for bound in (self.most, self.least))
        return Part(least, most)

    def then(self, other: Part) -> Part:
        """The elements i, j with i, k in this part and k, j in the other."""
        return Part(_sum(self.least, other.least), _sum(self.most, other.most))

    def holds(self, other: Part) -> bool:
        """Tells whether the other part is within this one."""
        low = self.least is None or (other.least is not None and other.least >= self.least)
        return low and (self.most is None or (other.most is not None and other.most <= self.most))


def _sum(x: int | None, y: int | None) -> int | None:
    return None if x is None or y is None else x + y


ALL, LOWER, UPPER, BELOW, ABOVE = Part(), Part(0, None), Part(None, 0), Part(1, None), Part(None, -1)


def product(b: Builder, x: Var, y: Var, left: Part = ALL, right: Part = ALL, out: Part = ALL) -> Var:
    """The elements of a part of the product of parts of two matrices; zeros elsewhere.

    What is not in the parts is not read: the product with a triangle takes half of the operations. A row of the result
    is made at once, so as few bounds as may be differ within it: those that follow from others are left out.
    """
    if right.holds(left.turned().then(out)):
        right = ALL
    elif left.holds(out.then(right.turned())):
        turned = product(b, transpose(b, y), transpose(b, x), right.turned(), left.turned(), out.turned())
        return transpose(b, turned)
    elif out.holds(left.then(right)):
        out = ALL
    (m, n), (_, k) = array_type(x).shape, array_type(y).shape
    i, p, j = axis(m), axis(n), axis(k)
    p = _within(p, left.columns(i.var))
    j = _within(j, out.columns(i.var), right.columns(p.var))

    def value(i: Var, j: Var, p: Var) -> Atom:
        return b.mul(at(b, x, i, p), at(b, y, p, j))

    kept = Reduce((m, k), (poly(i.var), poly(j.var)))
    if right == ALL:
        return b.comp((i, j, p), value, [kept])[0]
    return b.comp((i, p, j), lambda i, p, j: value(i, j, p), [kept])[0]


def _within(axis: Axis, *bounds: tuple[list[Size], list[Size]]) -> Axis:
    """The axis within bounds, if there are any, which are within its own."""
    lows, highs = ([size for bound in bounds for size in bound[side]] for side in (0, 1))
    return Axis(axis.var, tuple(lows) or axis.lows, tuple(highs) or axis.highs)


def lower_triangle(b: Builder, x: Var) -> Var:
    """The elements in and below the diagonal, with zeros elsewhere."""
    zero = Lit(0.0, dtype_of(x))
    return matrix(b, x, lambda i, j: b.select(b.prim("ge", i, j), at(b, x, i, j), zero))


def transpose(b: Builder, x: Var) -> Var:
    m, n = array_type(x).shape
    return b.view(x, (n, m), lambda i, j: (poly(j), poly(i)))


def leading(b: Builder, x: Var, k: Size) -> Var:
    """The first k rows and columns."""
    return b.view(x, (k, k), lambda i, j: (poly(i), poly(j)))


def symmetric(b: Builder, x: Var) -> Var:
    half = Lit(0.5, dtype_of(x))
    return matrix(b, x, lambda i, j: b.mul(half, b.add(at(b, x, i, j), at(b, x, j, i))))


def plus(b: Builder, x: Var, y: Var) -> Var:
    return matrix(b, x, lambda i, j: b.add(at(b, x, i, j), at(b, y, i, j)))


def minus(b: Builder, x: Var, y: Var) -> Var:
    return matrix(b, x, lambda i, j: b.sub(at(b, x, i, j), at(b, y, i, j)))


def negated(b: Builder, x: Var) -> Var:
    return matrix(b, x, lambda i, j: scalar(b, "neg", at(b, x, i, j)))


def triangular(
    b: Builder, a: Var, rhs: Var, *, lower: bool = True, transposed: bool = False, unit: bool = False
) -> Var:
    flags = (Lit(flag, "bool") for flag in (lower, transposed, unit))
    return b.emit(LinalgOp("triangular_solve", (a, rhs, *flags)))[0]


def quarters(b: Builder, *matrices: Var) -> list[list[Var]]:
    """The quarters of square matrices of the same size: left and right in the first half of the rows, then below."""
    n, _ = array_type(matrices[0]).shape
    k = poly(b.prim("floordiv", b.size(n), Lit(2, "i64")))
    halves = ((poly(0), k), (k, n - k))

    def quarter(x: Var, row: Size, rows: Size, column: Size, columns: Size) -> Var:
        return b.view(x, (rows, columns), lambda i, j: (poly(i) + row, poly(j) + column))

    return [[quarter(x, *rows, *columns) for rows in halves for columns in halves] for x in matrices]


def of_quarters(b: Builder, first: Var, second: Var, third: Var, fourth: Var) -> Var:
    """The matrix that has these quarters."""
    pairs = (first, second), (third, fourth)
    above, below = (b.concat(transpose(b, left), transpose(b, right)) for left, right in pairs)
    return b.concat(transpose(b, above), transpose(b, below))


def quotient(b: Builder, x: Var, l: Var) -> Var:
    """X L⁻¹ of the lower triangles of two matrices, which is one: by halves, for half of the operations of a solution.

    Z L = X: Z11 L11 = X11, Z22 L22 = X22 and Z21 L11 = X21 - Z22 L21.
    """
    (l11, _, l21, l22), (x11, above, x21, x22) = quarters(b, l, x)

    def divided(x: Var, by: Var) -> Var:
        return transpose(b, triangular(b, by, transpose(b, x), transposed=True))

    z22 = divided(lower_triangle(b, x22), l22)
    z21 = divided(minus(b, x21, product(b, z22, l21, LOWER)), l11)
    zero = b.full(array_type(above).shape, Lit(0.0, dtype_of(x)))
    return of_quarters(b, divided(lower_triangle(b, x11), l11), zero, z21, z22)


def part_of(lower: bool, unit: bool) -> Part:
    """The part of a matrix that a triangular solution reads."""
    return {(True, False): LOWER, (True, True): BELOW, (False, False): UPPER, (False, True): ABOVE}[lower, unit]


def by_flags(b: Builder, make: Callable[..., Var], *flags: Atom) -> Var:
    """The array made for flags: a choice between both where one is known only when the program runs."""
    for k, flag in enumerate(flags):
        if not isinstance(flag, Lit):
            before, after = flags[:k], flags[k + 1 :]
            arms = [partial(by_flags, b, make, *before, Lit(value, "bool"), *after) for value in (True, False)]
            return b.if_(flag, *arms)[0]
    return make(*[flag.value for flag in flags if isinstance(flag, Lit)])
