"""Walking and rewriting the IR, and the builder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Atom, Block, Call, For, Let, Lit, Prim, Program, Read, Reduce, Scalar, Var, fresh, poly
from dlang.ir.builder import Builder, axis, f64, i64
from dlang.ir.errors import IRError
from dlang.ir.printer import print_program
from dlang.ir.substitution import inlined, refresh, substitute
from dlang.ir.traverse import (
    bound_vars,
    count_own_uses,
    count_uses,
    free_vars,
    map_blocks,
    mentioned,
    op_blocks,
    outer_mentions,
    parts,
    rebuild,
    walk,
)
from dlang.ir.verify import verify
from tests.counting import calls
from tests.ir.programs import programs

F, I64 = Scalar("f64"), Scalar("i64")


def sum_of_prefix() -> tuple[Builder, dict[str, Var], Block]:
    """A block with a nested comprehension, whose free variables are n, x and s."""
    b = Builder()
    n, s = b.param("n", I64), b.param("s", F)
    x = b.param("x", Array("f64", (poly(n),)))

    def body() -> Var:
        y = b.map([poly(n) - 1], lambda i: b.mul(b.read(x, [poly(i) + 1]), s), name="y")
        return b.reduce([poly(n) - 1], lambda i: b.read(y, [i]))

    return b, {"n": n, "s": s, "x": x}, b.block(body)


def test_free_variables_are_those_of_operands_sizes_types_and_nested_blocks() -> None:
    _, names, block = sum_of_prefix()
    assert set(free_vars(block)) == set(names.values())
    first = block.lets[0].op
    assert set(free_vars(first)) == set(names.values())
    assert [v.name for v in bound_vars(block)].count("i") == 2


def test_a_function_has_no_free_variables() -> None:
    b, _, block = sum_of_prefix()
    assert free_vars(b.function("f", list(b.inline(block)))) == []


def test_uses_count_every_mention() -> None:
    _, names, block = sum_of_prefix()
    counts = count_uses(block)
    assert counts[names["s"]] == 1 and counts[names["x"]] == 1
    assert counts[names["n"]] == sum(v is names["n"] for v in mentioned(block)) == 4
    y = block.lets[0].vars[0]
    assert counts[y] == 1


@settings(max_examples=25, deadline=None)
@given(programs())
def test_what_a_block_binds_and_is_given_is_counted_as_if_all_was_walked(program: Program) -> None:
    for function in program.functions.values():
        for block in [function.body, *(b for let in walk(function.body) for b in op_blocks(let.op))]:
            everywhere, bound = count_uses(block), set(bound_vars(block))
            assert free_vars(block) == [v for v in everywhere if v not in bound]
            own = count_own_uses(block)
            for var in [*free_vars(block), *(v for let in block.lets for v in let.vars)]:
                assert own.get(var, 0) == everywhere.get(var, 0)


def test_what_nested_blocks_are_given_is_as_long_as_that() -> None:
    b = Builder()
    x = b.param("x", F)
    depth = 100

    def nested(k: int, y: Atom) -> Atom:
        if k == depth:
            return y
        (r,) = b.if_(b.prim("gt", y, x), lambda: nested(k + 1, b.prim("sin", y)), lambda: x)
        return r

    body = b.function("f", [nested(0, x)]).body
    blocks = [inner for let in walk(body) for inner in op_blocks(let.op)]
    assert len(blocks) == 2 * depth and all(len(outer_mentions(inner)) <= 2 for inner in blocks)


def test_the_parts_of_an_operation_are_its_own() -> None:
    index, low, state, first = fresh("i", I64), fresh("low", I64), fresh("s", F), fresh("first", F)
    body = Block((Let((fresh("t", F),), Prim("neg", (state,))),), (state,))
    op = For(index, poly(low), poly(10), (state,), (first,), body)
    assert parts(op) == ((first,), (poly(low), poly(10)), (body,), (index, state))
    assert op_blocks(op) == (body,)
    assert [type(let.op) for let in walk(Block((Let((), op),), ()))] == [For, Prim]


def test_substitution_reaches_types_and_makes_variables_whose_types_change_fresh() -> None:
    _, names, block = sum_of_prefix()
    m = fresh("m", I64)
    z = fresh("z", Array("f64", (poly(m) + 2,)))
    new = substitute(block, {names["n"]: poly(m) + 2, names["x"]: z, names["s"]: Lit(2.0, "f64")})
    assert set(free_vars(new)) == {m, z}
    y = new.lets[0].vars[0]
    assert y.type == Array("f64", (poly(m) + 1,)) and y is not block.lets[0].vars[0]
    assert block.lets[0].vars[0].type == Array("f64", (poly(names["n"]) - 1,))


def test_substitution_of_polynomials_and_types() -> None:
    n, m = fresh("n", I64), fresh("m", I64)
    assert substitute(poly(n) * n - 1, {n: poly(m) + 1}) == poly(m) * m + 2 * poly(m)
    assert substitute(Array("f64", (poly(n),)), {n: i64(3)}) == Array("f64", (poly(3),))
    size = poly(n) + 1
    assert substitute(size, {m: i64(3)}) is size
    assert substitute(Prim("neg", (n,)), {n: m}) == Prim("neg", (m,))
    assert substitute(Prim("neg", (n,)), {n: poly(7)}) == Prim("neg", (i64(7),))
    with pytest.raises(IRError, match="stands where"):
        substitute(Prim("neg", (n,)), {n: poly(m) + 1})
    with pytest.raises(IRError, match="is an array"):
        substitute(Read(m, (poly(0),)), {m: i64(1)})


def test_a_refreshed_block_shares_no_bound_variable() -> None:
    _, names, block = sum_of_prefix()
    copy = refresh(block)
    assert not set(bound_vars(copy)) & set(bound_vars(block))
    assert set(free_vars(copy)) == set(names.values())


def test_an_inlined_body_has_the_arguments_in_place_of_parameters() -> None:
    b, _, block = sum_of_prefix()
    function = b.function("f", list(b.inline(block)))
    c = Builder()
    k = c.param("k", I64)
    z = c.param("z", Array("f64", (poly(k) * 2,)))
    results = c.inline(inlined(function, (c.size(poly(k) * 2), f64(3), z)))
    again = c.inline(inlined(function, (i64(2), f64(1), c.map([2], lambda i: f64(5)))))
    # a size argument that is not an atom is a polynomial of its own, so the types agree through its definition
    program = Program({"g": c.function("g", [*results, *again])})
    verify(program)
    values = Interpreter(program).run("g", [2, np.array([1.0, 2, 3, 4])])
    assert values == [27, 5]


def test_mapping_over_blocks_leaves_what_does_not_change() -> None:
    _, _, block = sum_of_prefix()
    op = block.lets[0].op
    assert map_blocks(op, lambda inner: inner) is op
    emptied = map_blocks(op, lambda inner: Block((), (Lit(0.0, "f64"),)))
    assert op_blocks(emptied)[0].lets == ()


@settings(max_examples=40, deadline=None)
@given(programs())
def test_a_refreshed_program_prints_the_same(program: Program) -> None:
    f = program.functions["f"]
    again = replace(f, body=refresh(f.body))
    verify(Program({"f": again}))
    assert print_program(Program({"f": again})) == print_program(program)


def calls_of(work: Callable[[Block], object], length: int) -> int:
    """How many functions a walk over a block of so many lets calls."""
    x = fresh("x", F)
    lets, last = [], x
    for _ in range(length):
        new = fresh("t", F)
        lets.append(Let((new,), Prim("add", (last, x))))
        last = new
    block = Block(tuple(lets), (last,))
    return calls(lambda: work(block))


@pytest.mark.parametrize("work", [free_vars, count_uses, refresh])
def test_a_walk_visits_each_let_once(work: Callable[[Block], object]) -> None:
    assert calls_of(work, 2_000) <= 10.1 * calls_of(work, 200)


# ---- the builder -----------------------------------------------------------------------------------------------------
def test_an_index_is_the_polynomial_that_its_definitions_spell_but_never_looks_through_a_check() -> None:
    b = Builder()
    n = b.param("n", I64)
    twice = b.mul(n, i64(2))
    t = b.sub(b.add(twice, i64(1)), b.prim("neg", n))
    assert b.as_poly(t) == 3 * poly(n) + 1
    (checked,) = b.check(b.prim("ge", t, i64(0)), "E0701", ["negative"], (), [t])
    assert b.as_poly(b.add(checked, i64(1))) == poly(checked) + 1
    assert b.as_poly(b.add(checked, i64(1)), through_checks=True) == 3 * poly(n) + 2
    assert b.as_poly(b.size(poly(n) * n)) == poly(n) * n
    opaque = b.prim("floordiv", n, i64(2))
    assert b.as_poly(opaque) == poly(opaque)


def test_a_size_is_a_literal_or_a_variable_where_it_can_be() -> None:
    b = Builder()
    n = b.param("n", I64)
    assert b.size(3) == i64(3)
    assert b.size(poly(n) + 1 - 1) is n
    assert b.size(poly(n) + 1).type == I64


def test_the_types_of_results_are_computed() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f32", (poly(n), poly(3))))
    assert b.concat(x, x).type == Array("f32", (2 * poly(n), poly(3)))
    assert b.contract(x, x, [0, 1], [2, 1], [0, 2]).type == Array("f32", (poly(n), poly(n)))
    assert b.contract(x, x, [0, 1], [0, 1], []).type == Scalar("f32")
    assert b.prim("lt", b.read(x, [0, 0]), b.read(x, [0, 1])).type == Scalar("bool")
    i = axis(n)
    (where,) = b.comp([i], lambda i: b.read(x, [i, 0]), [Reduce((), (), "argmax")])
    assert where.type == I64


def test_a_function_with_a_result_size_has_formals_that_mention_it() -> None:
    b = Builder()
    n = b.param("n", I64)
    mask = b.param("mask", Array("bool", (poly(n),)))
    k, positions = b.compact(mask)
    f = b.function("f", [k, positions, n])
    verify(Program({"f": f}))
    assert f.results[1].type == Array("i64", (poly(f.results[0]),))
    c = Builder({"f": f})
    m = c.param("m", I64)
    given_mask = c.param("mask", Array("bool", (poly(m),)))
    count, where, _ = c.call("f", m, given_mask)
    assert where.type == Array("i64", (poly(count),))
    assert isinstance(c.definition(where), Call)


def test_a_substitution_gives_back_what_mentions_nothing_that_it_replaces() -> None:
    _, names, block = sum_of_prefix()
    other = fresh("other", F)
    assert substitute(block, {other: Lit(1.0, "f64")}) is block
    assert substitute(block, {names["s"]: other}) is not block


@settings(max_examples=40, deadline=None)
@given(p=programs())
def test_rebuilding_an_operation_from_its_own_parts_gives_the_operation(p: Program) -> None:
    for f in p.functions.values():
        for let in walk(f.body):
            same = rebuild(let.op, atom=lambda a: a, size=lambda s: s, block=lambda b: b, bind=lambda v: v)
            assert same is let.op


@settings(max_examples=40, deadline=None)
@given(p=programs())
def test_what_a_block_was_found_to_mention_is_what_a_copy_of_it_mentions(p: Program) -> None:
    for f in p.functions.values():
        first, again = mentioned(f.body), mentioned(f.body)
        assert first == again == mentioned(map_blocks_deep(f.body))


def map_blocks_deep(block: Block) -> Block:
    """A copy of a block and of those in it, of which nothing was looked up."""
    lets = tuple(Let(let.vars, map_blocks(let.op, map_blocks_deep), let.span) for let in block.lets)
    return Block(lets, block.results)
