"""The normal form: inner reductions and invariants become arrays of their own, and only where that is allowed."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Comp, Function, Let, Lit, Prim, Program, Reduce, Scalar, Var, poly
from dlang.ir.builder import Builder
from dlang.ir.traverse import walk
from dlang.ir.verify import verify
from dlang.optimize.distribute import distribute

F64 = Scalar("f64")
I64 = Scalar("i64")


def real(*shape: Var) -> Array:
    return Array("f64", tuple(poly(s) for s in shape))


def both(f: Function, *args: object) -> tuple[Interpreter, Interpreter, list[Let]]:
    """Runs a function before and after, compares, and gives the counts and the comprehensions after."""
    before = Program({"f": f})
    verify(before)
    after = distribute(before)
    verify(after)
    runs = Interpreter(before), Interpreter(after)
    old, new = (r.run("f", list(args)) for r in runs)
    for a, b in zip(old, new, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    return *runs, [let for let in walk(after.functions["f"].body) if isinstance(let.op, Comp)]


def matrix() -> tuple[Builder, Var, Var, Var]:
    b = Builder()
    n, m = b.param("n", I64), b.param("m", I64)
    return b, n, m, b.param("x", real(n, m))


def test_softmax_written_as_one_comprehension_sums_each_row_once() -> None:
    b, n, m, x = matrix()

    def exp(i: Var, j: Var) -> Var:
        return b.prim("exp", b.read(x, [i, j]))

    y = b.map([n, m], lambda i, j: b.prim("div", exp(i, j), b.reduce([m], lambda k: exp(i, k))))
    before, after, comps = both(b.function("f", [y]), 10, 10, np.ones((10, 10)))
    assert len(comps) == 2 and not any(isinstance(inner.op, Comp) for c in comps for inner in body(c))
    assert after.operations < before.operations / 3


def body(let: Let) -> tuple[Let, ...]:
    assert isinstance(let.op, Comp)
    return let.op.body.lets


def test_a_factor_of_one_axis_is_computed_once_for_that_axis() -> None:
    b, n, m, x = matrix()
    y = b.map([n, m], lambda i, j: b.mul(b.read(x, [i, j]), b.prim("exp", b.read(x, [i, i]))))
    _, after, _ = both(b.function("f", [y]), 20, 20, np.ones((20, 20)))
    assert after.counts["Prim"] == 20 * 20 + 20


@pytest.mark.parametrize(("length", "once"), [(10, True), (2, False)])
def test_only_long_arithmetic_of_indices_is_done_once_for_its_axes(length: int, once: bool) -> None:
    b, n, m, x = matrix()

    def value(i: Var, j: Var) -> Var:
        place = b.cast("f64", i)
        for k in range(length):
            place = b.prim("sub" if k % 2 else "mul", place, b.cast("f64", i))
        return b.mul(b.read(x, [i, j]), place)

    _, after, comps = both(b.function("f", [b.map([n, m], value)]), 7, 9, np.ones((7, 9)))
    assert len(comps) == (2 if once else 1)
    assert after.counts["Prim"] == (7 * length + 7 * 9 if once else 7 * 9 * (length + 1))


def test_a_read_that_is_in_range_only_because_an_axis_is_not_empty_is_not_made_without_it() -> None:
    b, n, m, x = matrix()
    last = poly(m) - 1
    y = b.map([n, m], lambda i, j: b.mul(b.read(x, [i, j]), b.prim("exp", b.read(x, [i, last]))))
    f = b.function("f", [y])
    both(f, 3, 4, np.ones((3, 4)))
    both(f, 3, 0, np.ones((3, 0)))


@pytest.mark.parametrize(("rows", "columns"), [(3, 2), (3, 0), (0, 2)])
def test_a_check_of_one_axis_runs_if_and_only_if_it_ran_before(rows: int, columns: int) -> None:
    b, n, m, x = matrix()
    at = b.param("at", Array("i64", (poly(n),)))

    def value(i: Var, j: Var) -> Var:
        row = b.read(at, [i])
        inside = b.prim("and", b.prim("ge", row, Lit(0, "i64")), b.prim("lt", row, n))
        (row,) = b.check(inside, "E0801", ("out of range",), (), (row,))
        return b.mul(b.read(x, [i, j]), b.reduce([m], lambda k: b.read(x, [row, k])))

    f = b.function("f", [b.map([n, m], value)])
    data = np.arange(float(rows * columns)).reshape(rows, columns)
    _, _, comps = both(f, rows, columns, data, np.zeros(rows, int))
    assert not any(isinstance(inner.op, Comp) for c in comps for inner in body(c))
    bad = np.full(rows, 99)
    for program in (Program({"f": f}), distribute(Program({"f": f}))):
        if rows and columns:
            with pytest.raises(Exception, match="out of range"):
                Interpreter(program).run("f", [rows, columns, data, bad])
        else:
            Interpreter(program).run("f", [rows, columns, data, bad])


def test_inner_sums_of_one_comprehension_that_depend_on_different_axes_are_taken_apart() -> None:
    """[sum(sin(x[k]) for k) + sum(sin(x[k]) * y[i, k] for k) for i], where both sums are one comprehension."""
    b, n, m, y = matrix()
    x = b.param("x", real(m))

    def point(i: Var) -> Var:
        def inner(k: Var) -> list[Var]:
            here = b.prim("sin", b.read(x, [k]))
            return [here, b.mul(here, b.read(y, [i, k]))]

        return b.add(*b.comp([m], inner, [Reduce((), ()), Reduce((), ())]))

    rng = np.random.default_rng(1)
    f = b.function("f", [b.map([n], point)])
    _, after, comps = both(f, 20, 30, rng.normal(size=(20, 30)), rng.normal(size=30))
    sines = [let for let in comps if any(isinstance(i.op, Prim) and i.op.name == "sin" for i in body(let))]
    assert all(isinstance(let.op, Comp) and len(let.op.axes) == 1 for let in sines)
    assert after.operations < 5 * 20 * 30


def test_what_depends_on_a_loop_at_its_point_stays_with_it() -> None:
    b, n, m, x = matrix()

    def value(i: Var, j: Var) -> Var:
        (root,) = b.for_(0, 5, [b.read(x, [i, j])], lambda k, v: b.prim("sin", v))
        return b.reduce([m], lambda k: b.mul(root, b.read(x, [i, k])))

    _, _, comps = both(b.function("f", [b.map([n, m], value)]), 3, 4, np.ones((3, 4)))
    assert any(isinstance(inner.op, Comp) for c in comps for inner in body(c))


def test_a_triangle_of_inner_sums_keeps_its_shape() -> None:
    b, n, _m, x = matrix()
    y = b.map([n], lambda i: b.prim("exp", b.reduce([i], lambda k: b.read(x, [i, k]))))
    both(b.function("f", [y]), 5, 5, np.arange(25.0).reshape(5, 5) / 25)


def test_an_array_local_to_a_point_becomes_part_of_a_larger_one() -> None:
    b, n, m, x = matrix()

    def value(i: Var) -> Var:
        row = b.map([m], lambda j: b.prim("exp", b.read(x, [i, j])))
        return b.add(b.reduce([m], lambda j: b.read(row, [j])), b.reduce([m], lambda j: b.read(row, [j]), "max"))

    _, _, comps = both(b.function("f", [b.map([n], value)]), 3, 4, np.ones((3, 4)))
    assert not any(isinstance(inner.op, Comp) for c in comps for inner in body(c))


def test_the_normal_form_of_a_normal_form_is_itself() -> None:
    b, n, m, x = matrix()
    y = b.map([n, m], lambda i, j: b.prim("div", b.read(x, [i, j]), b.reduce([m], lambda k: b.read(x, [i, k]))))
    once = distribute(Program({"f": b.function("f", [y])}))
    assert distribute(once).functions["f"] is once.functions["f"]


def test_what_depends_on_no_axis_but_may_fail_is_done_at_one_point_if_there_is_one() -> None:
    """[sum(w[at] for k) + x[i, j] for i, j], where `at` is checked at each point."""
    b, n, m, x = matrix()
    w, at = b.param("w", real(m)), b.param("at", I64)

    def value(i: Var, j: Var) -> Var:
        inside = b.prim("and", b.prim("ge", at, Lit(0, "i64")), b.prim("lt", at, m))
        (place,) = b.check(inside, "E0801", ("out of range",), (), (at,))
        return b.add(b.read(x, [i, j]), b.reduce([m], lambda k: b.read(w, [place])))

    f = b.function("f", [b.map([n, m], value)])
    _, after, _ = both(f, 10, 20, np.ones((10, 20)), np.ones(20), 3)
    assert after.operations < 6 * 10 * 20
    both(f, 0, 20, np.ones((0, 20)), np.ones(20), 99)
    for program in (Program({"f": f}), distribute(Program({"f": f}))):
        with pytest.raises(Exception, match="out of range"):
            Interpreter(program).run("f", [10, 20, np.ones((10, 20)), np.ones(20), 99])


def test_an_inner_comprehension_that_only_checks_does_so_for_the_axes_it_depends_on() -> None:
    b, n, m, x = matrix()

    def value(i: Var, j: Var) -> Var:
        def check(k: Var) -> tuple[()]:
            b.check(b.prim("gt", b.read(x, [i, k]), Lit(0.0, "f64")), "E0801", ("not positive",), (), ())
            return ()

        b.comp([m], check, [])
        return b.read(x, [i, j])

    f = b.function("f", [b.map([n, m], value)])
    _, after, _ = both(f, 10, 20, np.ones((10, 20)))
    assert after.operations < 10 * 10 * 20
    for program in (Program({"f": f}), distribute(Program({"f": f}))):
        with pytest.raises(Exception, match="not positive"):
            Interpreter(program).run("f", [10, 20, np.zeros((10, 20))])


def test_a_sum_is_done_once_for_axes_that_it_does_not_depend_on() -> None:
    """The sums of rows, for each column again: the terms are added once for each row."""
    b, n, m, x = matrix()
    k = b.param("k", I64)

    def body(i: Var, *others: Var) -> Var:
        return b.prim("exp", b.read(x, (i, others[1])))

    (out,) = b.comp([n, k, m], body, lambda i, j, l: [Reduce((poly(n), poly(k)), (poly(i), poly(j)))])
    before, after, comps = both(b.function("f", [out]), 3, 4, np.ones((3, 4)), 5)
    assert (before.counts["Prim"], after.counts["Prim"]) == (60, 12)
    assert len(comps) == 2


def test_nothing_is_added_to_an_array_of_zeros() -> None:
    b, n, m, x = matrix()
    zeros = b.full((n,), Lit(0.0, "f64"))
    (out,) = b.comp([n, m], lambda i, j: b.read(x, (i, j)), lambda i, j: [Reduce((poly(n),), (poly(i),), into=zeros)])
    *_, comps = both(b.function("f", [out]), 3, 4, np.ones((3, 4)))
    last = comps[-1].op
    assert isinstance(last, Comp) and isinstance(last.destinations[0], Reduce) and last.destinations[0].into is None


def test_what_a_sum_does_not_need_may_depend_on_axes_that_it_does_not() -> None:
    b, n, m, x = matrix()
    k = b.param("k", I64)

    def body(i: Var, *others: Var) -> Var:
        b.prim("exp", b.read(x, (i, others[0])))
        return b.prim("exp", b.read(x, (i, others[1])))

    (out,) = b.comp([n, m, k], body, lambda i, j, l: [Reduce((poly(n), poly(m)), (poly(i), poly(j)))])
    both(b.function("f", [out]), 3, 4, np.ones((3, 4)), 2)
