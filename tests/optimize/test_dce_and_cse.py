"""Dead code goes, effects and checks stay; what is known is not computed again."""

from __future__ import annotations

import numpy as np

from dlang.ir.anf import (
    Array,
    Assert,
    Call,
    Comp,
    Copy,
    Effect,
    For,
    If,
    Lit,
    Prim,
    Program,
    Read,
    Reduce,
    Scalar,
    Token,
    Vjp,
    While,
    poly,
)
from dlang.ir.builder import Builder, f64, i64, text
from dlang.ir.verify import verify
from dlang.optimize.cse import cse
from dlang.optimize.dce import dce
from tests.counting import calls
from tests.optimize.programs import F64, I64, assert_same, count, run, through
from tests.specialize.support import lowered


def vector(b: Builder) -> Array:
    n = b.params[0] if b.params else b.param("n", I64)
    return Array("f64", (poly(n),))


# ---- dead code -------------------------------------------------------------------------------------------------------
def test_unused_lets_go_and_checks_and_effects_stay() -> None:
    b = Builder()
    world, x = b.param("world", Token()), b.param("x", F64)
    b.prim("exp", x)
    b.check(b.prim("lt", x, f64(1.0)), "E0901", ["no"])
    (after,) = b.effect("print", world, [text("hello")])
    p = through(Program({"f": b.function("f", [after])}), dce)
    assert count(p, Prim) == 1 and count(p, Assert) == 1 and count(p, Effect) == 1


def test_unused_results_of_a_comprehension_and_of_a_branch_go_with_their_code() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", vector(b))
    y, _ = b.comp([n], lambda i: [b.read(x, [i]), b.prim("exp", b.read(x, [i]))])
    _, s = b.if_(
        b.prim("lt", n, i64(3)),
        lambda: [b.prim("sin", f64(1.0)), b.prim("cos", f64(2.0))],
        lambda: [f64(0.0), f64(1.0)],
    )
    p = through(Program({"f": b.function("f", [y, s])}), dce)
    names = [let.op.name for let in p.functions["f"].body.lets if isinstance(let.op, Prim)]
    assert names == ["lt"] and count(p, Prim) == 2  # with the cosine
    assert count(p, Read) == 1


def test_state_that_only_feeds_itself_is_dead_and_state_that_a_live_one_reads_is_not() -> None:
    b = Builder()
    n = b.param("n", I64)
    s, _, _ = b.for_(
        0, n, [f64(0.0), f64(1.0), f64(2.0)], lambda i, s, t, u: [b.add(s, t), b.mul(t, f64(2.0)), b.prim("exp", u)]
    )
    p = Program({"f": b.function("f", [s])})
    after = through(p, dce)
    (loop,) = [let.op for let in after.functions["f"].body.lets if isinstance(let.op, For)]
    assert len(loop.params) == 2 and count(after, Prim) == 2
    assert run(after, [3]) == run(p, [3]) == [7.0]


def test_what_decides_whether_a_loop_goes_on_is_alive() -> None:
    b = Builder()
    x = b.param("x", F64)
    _, y = b.while_(
        [i64(0), x], lambda k, y: b.prim("lt", k, i64(5)), lambda k, y: [b.add(k, i64(1)), b.mul(y, f64(2.0))]
    )
    p = Program({"f": b.function("f", [y])})
    after = through(p, dce)
    (loop,) = [let.op for let in after.functions["f"].body.lets if isinstance(let.op, While)]
    assert len(loop.params) == 2
    assert run(after, [1.0]) == [32.0]


def test_a_loop_of_unused_results_with_a_check_keeps_just_the_check() -> None:
    b = Builder()
    n = b.param("n", I64)

    def body(i: Lit, s: Lit) -> list[Lit]:
        b.check(b.prim("lt", i, i64(10)), "E0901", ["too many"])
        return [b.prim("exp", s)]

    b.for_(0, n, [f64(0.0)], body)
    p = through(Program({"f": b.function("f", [n])}), dce)
    (loop,) = [let.op for let in p.functions["f"].body.lets]
    assert isinstance(loop, For) and loop.params == () and count(p, Assert) == 1 and count(p, Prim) == 1


def test_a_call_of_a_function_with_a_check_stays_and_another_goes() -> None:
    b = Builder()
    x = b.param("x", F64)
    b.check(b.prim("lt", x, f64(1.0)), "E0901", ["no"])
    checked = b.function("checked", [x])
    b = Builder()
    x = b.param("x", F64)
    plain = b.function("plain", [b.prim("exp", x)])
    functions = {"checked": checked, "plain": plain}
    b = Builder(functions)
    x = b.param("x", F64)
    b.call("checked", x)
    b.call("plain", x)
    p = through(Program({**functions, "f": b.function("f", [x])}), dce)
    (call,) = [let.op for let in p.functions["f"].body.lets]
    assert isinstance(call, Call) and call.function == "checked"


def test_cotangents_that_nobody_uses_are_not_asked_for() -> None:
    b = Builder()
    x, y = b.param("x", F64), b.param("y", F64)
    g = b.function("g", [b.mul(x, y)])
    b = Builder({"g": g})
    x, y = b.param("x", F64), b.param("y", F64)
    _, _, ybar = b.vjp("g", [x, y], [0, 1], [f64(1.0)])
    value, _, _ = b.vjp("g", [x, y], [0, 1], [f64(1.0)])
    p = through(Program({"g": g, "f": b.function("f", [ybar, value])}), dce)
    derivative, call = [let.op for let in p.functions["f"].body.lets]
    assert isinstance(derivative, Vjp) and derivative.wrt == (1,)
    assert isinstance(call, Call)


def test_sizes_in_the_types_of_what_is_used_are_alive() -> None:
    b = Builder()
    n = b.param("n", I64)
    mask = b.param("mask", Array("bool", (poly(n),)))
    _, positions = b.compact(mask)
    y = b.map([positions.type.shape[0]], lambda i: b.read(positions, [i]))
    f = b.function("f", [positions.type.shape[0].atom, y])
    p = through(Program({"f": f}), dce)
    (k, found) = run(p, [3, np.array([True, False, True])])
    assert k == 2 and list(found) == [0, 2]


# ---- common subexpressions -------------------------------------------------------------------------------------------
def test_equal_comprehensions_are_one_whatever_their_axes_are_called() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", vector(b))
    y, z = (b.map([n], lambda i: b.prim("exp", b.read(x, [i]))) for _ in range(2))
    w = b.map([n], lambda i: b.prim("exp", b.read(x, [poly(n) - 1 - i])))
    p = through(Program({"f": b.function("f", [b.map([n], lambda i: b.add(b.read(y, [i]), b.read(z, [i]))), w])}), cse)
    assert count(p, Comp) == 3


def test_commuted_sums_are_equal_and_differences_are_not() -> None:
    b = Builder()
    x, y = b.param("x", F64), b.param("y", F64)
    results = [b.add(x, y), b.add(y, x), b.sub(x, y), b.sub(y, x)]
    p = through(Program({"f": b.function("f", results)}), cse)
    assert count(p, Prim) == 3 and run(p, [3.0, 1.0]) == [4.0, 4.0, 2.0, -2.0]


def test_zeros_of_different_signs_and_literals_of_different_dtypes_are_different() -> None:
    b = Builder()
    x = b.param("x", F64)
    results = [b.prim("div", x, f64(0.0)), b.prim("div", x, f64(-0.0))]
    p = through(Program({"f": b.function("f", results)}), cse)
    assert count(p, Prim) == 2
    with np.errstate(all="ignore"):
        assert run(p, [1.0]) == [np.inf, -np.inf]


def test_what_an_arm_computes_is_not_known_after_the_branch_but_what_stood_before_is_in_it() -> None:
    b = Builder()
    c, x = b.param("c", Scalar("bool")), b.param("x", F64)
    before = b.prim("sin", x)
    (r,) = b.if_(c, lambda: b.prim("exp", x), lambda: b.prim("sin", x))
    after = b.prim("exp", x)
    p = through(Program({"f": b.function("f", [before, r, after])}), cse)
    assert [let.op.name for let in p.functions["f"].body.lets if isinstance(let.op, Prim)] == ["sin", "exp"]
    assert count(p, Prim) == 3


def test_of_two_equal_checks_the_first_stays() -> None:
    b = Builder()
    n, i = b.param("n", I64), b.param("i", I64)
    x = b.param("x", vector(b))
    values = []
    for _ in range(2):
        (at,) = b.check(b.prim("lt", i, n), "E0901", ["index ", "", ""], [i], [i])
        values.append(b.read(x, [at]))
    p = through(Program({"f": b.function("f", [b.add(*values)])}), cse)
    assert count(p, Assert) == 1 and count(p, Read) == 1


def test_effects_and_copies_are_never_merged() -> None:
    b = Builder()
    world, n = b.param("world", Token()), b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    (world,) = b.effect("print", world, [text("a")])
    (world,) = b.effect("print", world, [text("a")])
    p = through(Program({"f": b.function("f", [world, b.copy(x), b.copy(x)])}), cse)
    assert count(p, Effect) == 2 and count(p, Copy) == 2


def test_a_result_that_a_comprehension_or_branch_gives_twice_is_one() -> None:
    b = Builder()
    n, c = b.param("n", I64), b.param("c", Scalar("bool"))
    x = b.param("x", Array("f64", (poly(n),)))
    y, z, s = b.comp(
        [n],
        lambda i: [b.read(x, [i])] * 3,
        lambda i: [Reduce((poly(n),), (poly(i),), "set")] * 2 + [Reduce((), (), "sum")],
    )
    t, u = b.if_(c, lambda: [s, s], lambda: [f64(0.0), f64(0.0)])
    p = Program({"f": b.function("f", [y, z, t, u])})
    after = through(p, cse)
    comp, branch = [let.op for let in after.functions["f"].body.lets]
    assert isinstance(comp, Comp) and len(comp.destinations) == 2
    assert isinstance(branch, If) and len(branch.then.results) == 1
    args = [2, True, np.array([1.0, 2.0])]
    assert_same(run(p, args), run(after, args))


def test_sizes_that_become_equal_make_their_arrays_equal() -> None:
    b = Builder()
    n = b.param("n", I64)
    k, m = (b.prim("floordiv", n, i64(2)) for _ in range(2))
    y, z = (b.map([size], lambda i: b.cast("f64", i)) for size in (k, m))
    s = b.reduce([k], lambda i: b.mul(b.read(y, [i]), b.read(z, [i])))
    p = through(Program({"f": b.function("f", [s])}), cse, dce)
    verify(p)
    assert count(p, Comp) == 2 and run(p, [7]) == [5.0]


def test_the_work_is_linear_in_the_depth_of_branches_that_read_at_a_place_that_was_checked() -> None:
    def work(depth: int) -> int:
        code = "u = u + x"
        for k in range(depth):
            code = f"if u[j] > {k}.5 {{ u = u * x\n {code} }}"
        program = lowered(f"fn f(x: f64[n], j: i64) -> f64[n] {{ var u = x\n {code}\n u }}", "f").program
        return calls(lambda: cse(program))

    work(2)  # what is made once
    few, more, most = map(work, (8, 16, 32))
    assert most - more < 2.2 * (more - few)
