"""What indices say about axes: which they determine, hulls, changes of axes."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from dlang.ir.affine import Knowledge, changed, far_fewer, hull, nonempty, projected, rebase, solved_axes, span
from dlang.ir.anf import Array, Axis, Scalar, Size, Var, fresh, poly
from dlang.ir.builder import axis

I64 = Scalar("i64")
N, M = fresh("n", I64), fresh("m", I64)
n, m = poly(N), poly(M)
KNOWN = Knowledge()
KNOWN.note_sizes([Array("f64", (n, m))])


def points(axes: tuple[Axis, ...], sizes: dict[Var, int]) -> list[dict[Var, int]]:
    """Every point of some axes, by brute force."""
    found = [dict(sizes)]
    for a in axes:
        out = []
        for p in found:
            low = max(b.evaluate(p.__getitem__) for b in a.lows)
            high = min(b.evaluate(p.__getitem__) for b in a.highs)
            out += [{**p, a.var: v} for v in range(low, high)]
        found = out
    return found


def solved(index: list[Size], axes: list[Axis]) -> tuple[set[Var], int]:
    known = KNOWN.within(axes)
    found, left = solved_axes(index, [a.var for a in axes], hull(axes, known) or {}, known)
    return found, len(left)


def test_single_axes_digits_and_dependent_entries_are_solved() -> None:
    i, j = axis(N, name="i"), axis(M, name="j")
    x, y = poly(i.var), poly(j.var)
    both = {i.var, j.var}
    assert solved([x + 1], [i, j]) == ({i.var}, 0)
    assert solved([n - 1 - x], [i, j]) == ({i.var}, 0)
    assert solved([x * 2], [i, j]) == ({i.var}, 0)
    assert solved([x * m + y], [i, j]) == (both, 0)
    assert solved([n * m - 1 - (x * m + y)], [i, j]) == (both, 0)
    assert solved([x, x + y], [i, j]) == (both, 0)


def test_a_sum_of_axes_or_digits_that_overlap_are_not_solved() -> None:
    i, j = axis(N, name="i"), axis(M, name="j")
    x, y = poly(i.var), poly(j.var)
    assert solved([x + y], [i, j]) == (set(), 1)
    assert solved([x * (m - 1) + y], [i, j]) == (set(), 1)
    assert solved([x * n + y], [i, j]) == (set(), 1)
    assert solved([x * y], [i, j]) == (set(), 1)


@pytest.mark.parametrize("sizes", [(4, 3), (3, 5), (1, 1), (0, 2)])
def test_a_change_of_axes_visits_the_same_points(sizes: tuple[int, int]) -> None:
    i, p = axis(N, name="i"), axis(M, name="p")
    axes = (i, p)
    index = [poly(i.var) + poly(p.var)]
    change = rebase(index, axes, KNOWN.within(axes))
    assert change is not None and len(change.axes) == 2
    values = dict(zip((N, M), sizes, strict=True))
    old = {(q[i.var], q[p.var]) for q in points(axes, values)}
    new = [tuple(change.env[v].evaluate(q.__getitem__) for v in (i.var, p.var)) for q in points(change.axes, values)]
    assert len(new) == len(set(new)) and set(new) == old
    moved = [e.substitute(change.env.get) for e in index]
    known = KNOWN.within(change.axes)
    box = hull(change.axes, known)
    assert box is not None
    assert not solved_axes(moved, [a.var for a in change.axes], box, known)[1]


@pytest.mark.parametrize("turned", [False, True])
def test_of_windows_the_axis_along_them_is_kept_in_whichever_order_the_axes_are(turned: bool) -> None:
    i, p = axis(n - m + 1, name="i"), axis(M, name="p")
    axes = (p, i) if turned else (i, p)
    change = rebase([poly(i.var) + poly(p.var)], axes, KNOWN.within(axes))
    assert change is not None and change.env[p.var] == poly(change.axes[1].var)


@pytest.mark.parametrize("size", [0, 1, 4])
def test_entries_that_share_a_long_axis_are_solved_one_after_another(size: int) -> None:
    """As those of a matrix to which the elements add blocks: where one entry has solved an axis, it is left alone."""
    e, a, b = axis(N, name="e"), axis(2, name="a"), axis(2, name="b")
    axes = (e, a, b)
    index = [poly(e.var) + poly(a.var), poly(e.var) + poly(b.var)]
    change = rebase(index, axes, KNOWN.within(axes))
    assert change is not None and len(change.axes) == 3
    old = {tuple(q[v.var] for v in axes) for q in points(axes, {N: size})}
    new = [tuple(change.env[v.var].evaluate(q.__getitem__) for v in axes) for q in points(change.axes, {N: size})]
    assert len(new) == len(set(new)) and set(new) == old


def test_a_change_that_needs_a_division_is_refused() -> None:
    i, p = axis(N, name="i"), axis(M, name="p")
    assert rebase([poly(i.var) * 2 + poly(p.var) * 2], (i, p), KNOWN.within((i, p))) is None


def test_axes_of_a_triangle_can_be_reordered() -> None:
    i = axis(N, name="i")
    j = Axis(fresh("j", I64), (poly(i.var) + 1,), (n,))
    known = KNOWN.within((i, j))
    box = hull((i, j), known)
    assert box is not None and box[j.var] == (poly(1), n - 1)
    change = changed((i, j), {}, [j.var, i.var], box)
    assert change is not None
    before = {(q[i.var], q[j.var]) for q in points((i, j), {N: 5})}
    assert {(q[i.var], q[j.var]) for q in points(change.axes, {N: 5})} == before


def test_the_span_of_a_polynomial_on_a_box() -> None:
    i, j = axis(N, name="i"), axis(M, name="j")
    known = KNOWN.within((i, j))
    box = hull((i, j), known)
    assert box is not None
    assert span(poly(i.var) - poly(j.var) * 2, box, known) == (2 - m * 2, n - 1)
    assert span(poly(i.var) * poly(j.var), box, known) is None


def test_a_space_is_empty_where_a_dropped_axis_is() -> None:
    i, j = axis(N, name="i"), axis(M, name="j")
    box = hull((i, j), KNOWN)
    assert box is not None
    (kept,) = nonempty([i], [j], box, KNOWN)
    for a, b in product(range(4), range(3)):
        assert len(points((kept,), {N: a, M: b})) == (a if b else 0)


def test_a_dropped_axis_bounds_no_axis_whose_points_say_that_it_has_some() -> None:
    i, j, k = axis(N, name="i"), axis(N, name="j"), Axis(fresh("k", I64), (poly(0),), (n, m))
    box = hull((i, j), KNOWN)
    assert box is not None and nonempty([i], [j], box, KNOWN) == [i]
    box = hull((i, k), KNOWN)
    assert box is not None
    (kept,) = nonempty([i], [k], box, KNOWN)
    for a, b in product(range(4), range(3)):
        assert len(points((kept,), {N: a, M: b})) == (a if b else 0)


def projection(axes: list[Axis], over: set[Var], sizes: dict[Var, int]) -> set[tuple[int, ...]] | None:
    """The points of some axes that have a point of all axes, as they are said."""
    box = hull(axes, KNOWN.within(axes))
    found = None if box is None else projected(axes, over, box, KNOWN)
    return None if found is None else {values(p, axes, over) for p in points(tuple(found), sizes)}


def values(point: dict[Var, int], axes: list[Axis], over: set[Var]) -> tuple[int, ...]:
    return tuple([point[a.var] for a in axes if a.var in over])


def test_axes_are_projected_to_some_of_them_exactly() -> None:
    random = Random(7)
    said = 0
    for _ in range(120):
        axes: list[Axis] = []
        for name in "ijk":
            terms = [
                poly(0),
                n,
                m,
                n * m,
                *[poly(a.var) for a in axes],
                *[c * poly(a.var) for a in axes for c in (2, m)],
            ]
            lows = [
                random.choice(terms[:1] * 3 + terms) + random.randrange(-1, 2) for _ in range(random.choice((1, 1, 2)))
            ]
            highs = [random.choice(terms[1:]) + random.randrange(-1, 2) for _ in range(random.choice((1, 1, 2)))]
            axes.append(Axis(fresh(name, I64), tuple(lows), tuple(highs)))
        over = {a.var for a in axes if random.random() < 0.4}
        for a, b in product((0, 1, 3, 4), (0, 1, 2)):
            sizes = {N: a, M: b}
            found = projection(axes, over, sizes)
            assert found is None or found == {values(p, axes, over) for p in points(tuple(axes), sizes)}
            said += found is not None
    assert said > 600


def test_blocks_of_a_size_that_a_run_knows_are_projected() -> None:
    i = axis(N, name="i")
    j = Axis(fresh("j", I64), (poly(i.var) * m,), ((poly(i.var) + 1) * m,))
    for a, b in product(range(4), range(3)):
        for over in ({i.var}, set[Var]()):
            expected = {values(p, [i, j], over) for p in points((i, j), {N: a, M: b})}
            assert projection([i, j], over, {N: a, M: b}) == expected
        assert projection([i, j], {j.var}, {N: a, M: b}) is None


def test_far_fewer_points_than_elements() -> None:
    assert far_fewer(n, n * m) and far_fewer(poly(3), n) and far_fewer(n, n * 2) and far_fewer(poly(3), poly(6))
    assert not far_fewer(n, n) and not far_fewer(n * m, n) and not far_fewer(n - 1, n) and not far_fewer(n, poly(6))


def test_sizes_that_have_nothing_to_do_with_each_other_may_be_far_apart() -> None:
    assert far_fewer(m, n) and far_fewer(m * m, n * m) and not far_fewer(m * n, n)
