"""What is computed in one pass, and what must not be computed again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.ir.anf import Array, Atom, Comp, Contract, Copy, For, Prim, Program, Read, Reduce, Var, poly
from dlang.ir.builder import Builder, f64
from dlang.ir.printer import print_program
from dlang.ir.sharing import verify_sharing
from dlang.ir.traverse import walk
from dlang.ir.verify import verify
from dlang.optimize.cse import cse
from dlang.optimize.dce import dce
from dlang.optimize.fuse import fuse
from dlang.optimize.hoist import hoist
from dlang.optimize.ownership import ownership
from dlang.optimize.simplify import simplify
from tests.optimize.programs import F64, I64, assert_same, cost, count, run, through


class Setup:
    """A function of n, x: f64[n], m: f64[n, n] under construction."""

    def __init__(self) -> None:
        b = self.b = Builder()
        self.n = b.param("n", I64)
        self.x = b.param("x", Array("f64", (poly(self.n),)))
        self.m = b.param("m", Array("f64", (poly(self.n), poly(self.n))))

    def program(self, *results: Atom) -> Program:
        return Program({"f": self.b.function("f", list(results))})


ARGS = [6, np.linspace(0.1, 2.0, 6), np.sin(np.arange(36.0)).reshape(6, 6)]


def fused(p: Program, comps: int) -> Program:
    """The program after fusion, of this many comprehensions, of the same meaning and cheaper."""
    after = through(p, fuse, simplify, cse, dce)
    assert count(after, Comp) == comps, print_program(after)
    assert_same(run(p, ARGS), run(after, ARGS))
    assert cost(after, ARGS) <= cost(p, ARGS)
    return after


def test_a_chain_of_elementwise_code_is_one_pass() -> None:
    s = Setup()
    b, y = s.b, s.x
    for name in ("exp", "sin", "neg", "tanh"):
        y = b.map([s.n], lambda i, name=name, y=y: b.prim(name, b.read(y, [i])))
    after = fused(s.program(y), 1)
    assert cost(after, ARGS) == 6 * 6  # one read, four primitives, one element written


def test_a_function_in_which_nothing_can_be_fused_is_left_as_it_is() -> None:
    s = Setup()
    b = s.b
    one = b.reduce([s.n], lambda i: b.read(s.x, [i]))
    other = b.map([s.n, s.n], lambda i, j: b.prim("exp", b.read(s.m, [j, i])))
    program = s.program(one, other)
    assert fuse(program).functions["f"] is program.functions["f"]


def test_a_sum_of_squares_of_differences_reads_its_arrays_once_and_stores_nothing() -> None:
    s = Setup()
    b = s.b
    d = b.map([s.n], lambda i: b.sub(b.read(s.x, [i]), f64(1.0)))
    total = b.reduce([s.n], lambda i: b.mul(b.read(d, [i]), b.read(d, [i])))
    after = fused(s.program(total), 1)
    (comp,) = [let.op for let in after.functions["f"].body.lets]
    assert isinstance(comp, Comp) and all(not d.shape for d in comp.destinations)


def test_siblings_that_read_the_same_array_share_a_pass() -> None:
    s = Setup()
    b = s.b
    total = b.reduce([s.n], lambda i: b.read(s.x, [i]))
    largest = b.reduce([s.n], lambda i: b.read(s.x, [i]), "max")
    y = b.map([s.n], lambda i: b.prim("exp", b.read(s.x, [i])))
    after = fused(s.program(total, largest, y), 1)
    assert count(after, Read) == 1


def test_a_result_that_is_also_returned_is_stored_by_the_same_pass() -> None:
    s = Setup()
    b = s.b
    y = b.map([s.n], lambda i: b.prim("exp", b.read(s.x, [i])))
    z = b.map([s.n], lambda i: b.mul(b.read(y, [i]), f64(2.0)))
    after = fused(s.program(y, z), 1)
    assert count(after, Prim) == 2


def test_what_needs_a_whole_reduction_is_a_second_pass() -> None:
    s = Setup()
    b = s.b
    e = b.map([s.n], lambda i: b.prim("exp", b.read(s.x, [i])))
    total = b.reduce([s.n], lambda i: b.read(e, [i]))
    y = b.map([s.n], lambda i: b.prim("div", b.read(e, [i]), total))
    after = fused(s.program(y), 2)
    exponentials = [
        let for c in _comps(after) for let in c.body.lets if isinstance(let.op, Prim) and let.op.name == "exp"
    ]
    assert len(exponentials) == 1


def test_elements_that_are_read_along_diagonals_are_read_once_each() -> None:
    s = Setup()
    b = s.b
    p = b.map([2 * poly(s.n), s.n], lambda i, j: b.prim("exp", b.mul(b.read(s.x, [j]), b.cast("f64", i))))
    sums = b.reduce([s.n, s.n], lambda i, j: b.read(p, [poly(i) + poly(j), poly(j)]))
    fused(s.program(sums), 1)


def test_elements_whose_places_meet_are_not_computed_again() -> None:
    s = Setup()
    b = s.b
    p = b.map([2 * poly(s.n), s.n], lambda i, j: b.prim("exp", b.mul(b.read(s.x, [j]), b.cast("f64", i))))
    sums = b.reduce([s.n, s.n], lambda i, j: b.read(p, [poly(i) + poly(j), 0]))
    fused(s.program(sums), 2)


def test_a_transcendental_is_not_computed_again_for_every_row() -> None:
    s = Setup()
    b = s.b
    e = b.map([s.n], lambda j: b.prim("exp", b.read(s.x, [j])))
    y = b.map([s.n, s.n], lambda i, j: b.mul(b.read(s.m, [i, j]), b.read(e, [j])))
    fused(s.program(y), 2)


def test_a_transcendental_read_by_a_stencil_is_stored_and_a_sum_is_computed_where_it_is_read() -> None:
    def stencil(name: str) -> Program:
        s = Setup()
        b, n = s.b, poly(s.n)
        e = b.map([s.n], lambda i: b.prim(name, b.read(s.x, [i]), *([f64(1.0)] if name == "add" else [])))
        y = b.map([s.n], lambda i: b.mul(b.read(e, [i]), b.read(e, [n - 1 - i])))
        return s.program(y)

    fused(stencil("exp"), 2)
    after = through(stencil("add"), fuse, simplify, cse, dce)
    assert count(after, Comp) == 1


def test_an_inner_reduction_is_never_computed_again() -> None:
    s = Setup()
    b, n = s.b, poly(s.n)
    (rows,) = b.comp([n, n], lambda i, j: b.read(s.m, [i, j]), lambda i, j: [Reduce((n,), (poly(i),))])
    y = b.map([n, n], lambda i, j: b.prim("div", b.read(s.m, [i, j]), b.read(rows, [i])))
    fused(s.program(y), 2)


def test_a_gathered_or_transposed_copy_is_read_at_its_source() -> None:
    s = Setup()
    b = s.b
    t = b.map([s.n, s.n], lambda i, j: b.read(s.m, [j, i]))
    y = b.map([s.n, s.n], lambda i, j: b.mul(b.read(t, [i, j]), b.read(t, [j, i])))
    after = through(s.program(y), fuse, simplify, cse, dce)
    assert count(after, Comp) == 1
    assert_same(run(s.program(y), ARGS), run(after, ARGS))


def test_an_array_that_is_added_to_and_then_read_by_two_in_one_pass_is_not_changed_before() -> None:
    s = Setup()
    b, n = s.b, poly(s.n)
    old = b.map([n], lambda i: b.prim("exp", b.read(s.x, [i])))
    (new,) = b.comp([n], lambda i: b.prim("sin", b.read(s.x, [i])), lambda i: [Reduce((n,), (poly(i),), "sum", old)])
    total = b.reduce([n], lambda i: b.read(new, [i]))
    squares = b.map([n], lambda i: b.mul(b.read(new, [i]), b.read(new, [i])))
    p = s.program(total, squares)
    after = through(p, fuse, cse, dce)
    (comp,) = [let.op for let in after.functions["f"].body.lets if isinstance(let.op, Comp)]
    assert all(d.into is None for d in comp.destinations)
    assert_same(run(p, ARGS), run(after, ARGS), exact=False)


def test_an_addition_into_an_earlier_sum_becomes_one_sum() -> None:
    s = Setup()
    b, n = s.b, poly(s.n)
    (first,) = b.comp([n, n], lambda i, j: b.read(s.m, [i, j]), lambda i, j: [Reduce((n,), (poly(i),))])
    (both,) = b.comp(
        [n, n], lambda i, j: b.prim("exp", b.read(s.m, [i, j])), lambda i, j: [Reduce((n,), (poly(i),), "sum", first)]
    )
    after = through(s.program(both), fuse, simplify, cse, dce)
    (comp,) = _comps(after)
    assert comp.destinations[0].into is None and count(after, Read) == 1
    assert_same(run(s.program(both), ARGS), run(after, ARGS), exact=False)


def test_fusion_does_not_make_a_copy_necessary() -> None:
    s = Setup()
    b = s.b
    z = b.map([s.n], lambda i: b.prim("sin", b.read(s.x, [i])))
    total = b.reduce([s.n], lambda i: b.read(z, [i]))
    changed = b.update(z, [0], f64(9.0))
    y = b.map([s.n], lambda i: b.add(b.read(changed, [i]), b.read(s.x, [i])))
    after = through(s.program(total, y, changed), fuse, simplify, cse, dce, ownership)
    assert count(after, Copy) == 0
    assert_same(run(s.program(total, y, changed), ARGS), run(after, ARGS))


def test_a_value_between_two_comprehensions_that_depends_on_one_keeps_them_apart() -> None:
    s = Setup()
    b = s.b
    total = b.reduce([s.n], lambda i: b.read(s.x, [i]))
    scaled = b.prim("exp", total)
    y = b.map([s.n], lambda i: b.mul(b.read(s.x, [i]), scaled))
    fused(s.program(y), 2)


def _comps(p: Program) -> list[Comp]:
    return [let.op for let in p.functions["f"].body.lets if isinstance(let.op, Comp)]


# ---- hoisting --------------------------------------------------------------------------------------------------------
def test_invariant_arithmetic_and_arrays_leave_a_loop_and_run_once() -> None:
    s = Setup()
    b = s.b

    def body(i: Var, y: Var) -> list[Atom]:
        e = b.map([s.n], lambda j: b.prim("exp", b.read(s.x, [j])))
        return [b.map([s.n], lambda j: b.add(b.read(y, [j]), b.read(e, [j])))]

    p = s.program(*b.for_(0, s.n, [s.x], body))
    after = through(p, hoist)
    kinds = [type(let.op) for let in after.functions["f"].body.lets]
    assert kinds == [Comp, For]
    assert (
        cost(p, ARGS) - cost(after, ARGS) == (6 - 1) * 6 * 3
    )  # a read, an exponential, an element, in five iterations
    assert_same(run(p, ARGS), run(after, ARGS))


def test_of_a_comprehension_in_a_loop_the_results_that_do_not_change_leave_and_products_of_them() -> None:
    s = Setup()
    b = s.b

    def body(i: Var, y: Var) -> list[Atom]:
        def both(j: Var) -> list[Atom]:
            here = b.read(s.x, [j])
            return [b.prim("sin", here), b.mul(b.prim("cos", here), b.read(y, [j]))]

        sine, change = b.comp([s.n], both)
        product = b.contract(s.m, sine, (0, 1), (1,), (0,))
        return [b.map([s.n], lambda j: b.add(b.read(product, [j]), b.read(change, [j])))]

    p = s.program(*b.for_(0, s.n, [s.x], body))
    after = through(p, hoist)
    assert [type(let.op) for let in after.functions["f"].body.lets] == [Comp, Contract, For]
    (loop,) = [let.op for let in after.functions["f"].body.lets if isinstance(let.op, For)]
    assert not any(isinstance(let.op, Prim) and let.op.name == "sin" for let in walk(loop.body))
    assert_same(run(p, ARGS), run(after, ARGS))


def test_an_invariant_scalar_leaves_a_comprehension_through_all_its_levels() -> None:
    s = Setup()
    b = s.b
    a = b.params[0]
    y = b.map(
        [s.n],
        lambda i: b.reduce([s.n], lambda j: b.mul(b.read(s.m, [i, j]), b.prim("sqrt", b.cast("f64", a)))),
    )
    after = through(s.program(y), hoist)
    assert [type(let.op).__name__ for let in after.functions["f"].body.lets] == ["Cast", "Prim", "Comp"]


def test_an_array_that_is_gathered_from_copies_of_one_value_is_that_value() -> None:
    s = Setup()
    b = s.b
    places = b.param("places", Array("i64", (poly(s.n),)))
    one = b.prim("exp", b.cast("f64", s.n))
    same = b.map([s.n], lambda i: one)
    gathered = b.map([s.n], lambda i: b.read(same, [b.read(places, [i])]))
    y = b.for_(0, s.n, [one], lambda i, y: [b.mul(y, b.prim("sin", b.read(gathered, [i])))])
    after = through(s.program(*y), hoist, dce)
    assert [type(let.op).__name__ for let in after.functions["f"].body.lets] == ["Cast", "Prim", "Prim", "For"]


def test_a_read_that_is_only_in_range_while_the_loop_runs_stays_in_it() -> None:
    s = Setup()
    b = s.b
    p = s.program(*b.for_(0, s.n, [f64(0.0)], lambda i, t: [b.add(t, b.read(s.x, [0]))]))
    after = through(p, hoist)
    assert not any(isinstance(let.op, Read) for let in after.functions["f"].body.lets)
    assert run(after, [0, np.zeros(0), np.zeros((0, 0))]) == [0.0]


def test_what_a_loop_consumes_is_made_anew_in_every_iteration() -> None:
    s = Setup()
    b = s.b

    def body(i: Var, t: Var) -> list[Atom]:
        z = b.full([s.n], f64(0.0))
        (z,) = b.for_(0, s.n, [z], lambda j, z: [b.update(z, [j], b.read(s.x, [j]))])
        return [b.add(t, b.read(z, [i]))]

    p = s.program(*b.for_(0, s.n, [f64(0.0)], body))
    after = through(p, hoist, ownership)
    assert count(after, Copy) == 0
    assert_same(run(p, ARGS), run(after, ARGS))


def test_an_invariant_condition_of_a_while_is_computed_before_it() -> None:
    s = Setup()
    b = s.b
    (t,) = b.while_(
        [f64(0.0)],
        lambda t: b.prim("lt", t, b.prim("sqrt", b.prim("abs", b.cast("f64", s.n)))),
        lambda t: [b.add(t, f64(1.0))],
    )
    p = s.program(t)
    after = through(p, hoist)
    assert len(after.functions["f"].body.lets) == 4 and t.type == F64
    assert_same(run(p, ARGS), run(after, ARGS))


def test_an_element_that_is_read_outside_of_comprehensions_is_computed_alone() -> None:
    s = Setup()
    b = s.b
    y = b.map([s.n, s.n], lambda i, j: b.prim("exp", b.read(s.m, [j, i])))
    after = fused(s.program(b.read(y, [poly(1), poly(2)])), 0)
    assert cost(after, ARGS) == 2


@pytest.mark.parametrize("by", ["a loop", "a loop of as many iterations as rows"])
def test_what_a_loop_reads_is_computed_there_if_each_element_is_read_in_one_iteration_only(by: str) -> None:
    s = Setup()
    b = s.b
    y = b.map([s.n, s.n], lambda i, j: b.prim("exp", b.read(s.m, [i, j])))
    b.reduce([s.n], lambda i: b.read(s.x, [i]))

    def iteration(t: Var, v: Var) -> Var:
        row = t if by != "a loop" else poly(0)
        return b.reduce([s.n], lambda j: b.mul(v, b.read(y, [row, j])))

    (last,) = b.for_(0, s.n, [f64(1.0)], iteration)
    program = s.program(last)
    after = fuse(program)
    verify(after)
    assert (len(after.functions["f"].body.lets) < len(program.functions["f"].body.lets)) == (by != "a loop")
    assert_same(run(program, ARGS), run(after, ARGS))
    assert cost(after, ARGS) <= cost(program, ARGS)


def sines(b: Builder, start: Atom) -> Atom:
    """Finds what takes long."""
    return b.for_(0, 3, [start], lambda _, v: b.prim("sin", v))[0]


def under_a_branch(b: Builder, x: Var, start: Atom) -> Atom:
    return b.if_(b.prim("gt", b.read(x, [0]), f64(0.5)), lambda: [sines(b, start)], lambda: [f64(0.0)])[0]


def in_a_sum(b: Builder, x: Var, start: Atom) -> Atom:
    return b.reduce([x.type.shape[0]], lambda p: b.mul(b.read(x, [p]), start))


@pytest.mark.parametrize("of", [lambda b, x, start: sines(b, start), under_a_branch, in_a_sum])
@pytest.mark.parametrize("axes", [1, 2])
def test_nothing_is_fused_that_would_leave_what_takes_long_without_an_axis(of: Any, axes: int) -> None:
    """An array of equal numbers is read at each point: merged with what reads it, or inlined, it is one number."""
    s = Setup()
    b = s.b
    alike = b.map([s.n] * axes, lambda *_: b.read(s.x, [poly(0)]))
    y = b.map([s.n], lambda i: of(b, s.x, b.read(alike, [i] * axes)))
    program = s.program(y)
    after = fuse(program)
    verify_sharing(after)
    assert_same(run(program, ARGS), run(after, ARGS))
    assert cost(after, ARGS) <= cost(program, ARGS)
