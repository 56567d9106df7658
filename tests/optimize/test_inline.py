"""Which calls are inlined, and that sizes follow."""

from __future__ import annotations

import numpy as np

from dlang.ir.anf import Array, Atom, Call, Comp, Function, Program, Vjp, poly
from dlang.ir.builder import Builder, f64, i64
from dlang.ir.traverse import walk
from dlang.ops.figures import COPIED_ARRAYS, INLINED
from dlang.optimize.inline import inline
from tests.optimize.programs import F64, I64, assert_same, count, run, through


def inlined(p: Program) -> Program:
    return inline(p, ["f"])


def doubled(name: str = "doubled") -> Function:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    return b.function(name, [b.map([n], lambda i: b.mul(b.read(x, [i]), f64(2.0)))])


def scalar_function(name: str, length: int) -> Function:
    b = Builder()
    x = b.param("x", F64)
    y = x
    for _ in range(length):
        y = b.prim("sin", y)
    return b.function(name, [y])


def test_array_code_is_inlined_at_each_call_with_its_sizes() -> None:
    g = doubled()
    b = Builder({"doubled": g})
    n, m = b.param("n", I64), b.param("m", I64)
    x, y = (b.param(name, Array("f64", (poly(size),))) for name, size in (("x", n), ("y", m)))
    results = [*b.call("doubled", n, x), *b.call("doubled", m, y)]
    p = Program({"doubled": g, "f": b.function("f", results)})
    after = through(p, inlined)
    assert list(after.functions) == ["f"] and count(after, Call) == 0 and count(after, Comp) == 2
    args = [2, 3, np.arange(2.0), np.arange(3.0)]
    assert_same(run(p, args), run(after, args))


def test_a_big_scalar_function_is_inlined_where_it_is_called_once_and_not_where_twice() -> None:
    big = scalar_function("big", INLINED + 1)

    def calling(times: int) -> Program:
        b = Builder({"big": big})
        x = b.param("x", F64)
        y = x
        for _ in range(times):
            (y,) = b.call("big", y)
        return through(Program({"big": big, "f": b.function("f", [y])}), inlined)

    assert count(calling(1), Call) == 0
    assert count(calling(2), Call) == 2


def test_recursion_stays_and_what_it_calls_is_inlined_into_it() -> None:
    small = scalar_function("small", 1)
    b = Builder()
    k, x = b.param("k", I64), b.param("x", F64)
    stub = b.function("g", [x])
    b = Builder({"small": small, "g": stub})
    k, x = b.param("k", I64), b.param("x", F64)
    (r,) = b.if_(
        b.prim("le", k, i64(0)),
        lambda: x,
        lambda: b.call("g", b.sub(k, i64(1)), b.call("small", x)[0])[0],
    )
    g = b.function("g", [r])
    b = Builder({"g": g})
    x = b.param("x", F64)
    (r,) = b.call("g", i64(3), x)
    p = Program({"small": small, "g": g, "f": b.function("f", [r])})
    after = through(p, inlined)
    assert list(after.functions) == ["g", "f"] and count(after, Call) == 2
    assert_same(run(p, [0.5]), run(after, [0.5]))


def test_what_a_derivative_names_stays_a_function_and_is_inlined_into() -> None:
    small = scalar_function("small", 1)
    b = Builder({"small": small})
    x = b.param("x", F64)
    g = b.function("g", [b.mul(b.call("small", x)[0], x)])
    b = Builder({"g": g})
    x = b.param("x", F64)
    _, xbar = b.vjp("g", [x], [0], [f64(1.0)])
    p = through(Program({"small": small, "g": g, "f": b.function("f", [xbar])}), inlined)
    assert list(p.functions) == ["g", "f"] and count(p, Vjp) == 1
    assert all(not isinstance(let.op, Call) for let in p.functions["g"].body.lets)


def test_a_chain_of_functions_that_each_call_the_next_twice_does_not_explode() -> None:
    functions = {"g0": doubled("g0")}
    for k in range(1, 20):
        b = Builder(functions)
        n = b.param("n", I64)
        x = b.param("x", Array("f64", (poly(n),)))
        (y,) = b.call(f"g{k - 1}", n, x)
        (y,) = b.call(f"g{k - 1}", n, y)
        functions[f"g{k}"] = b.function(f"g{k}", [y])
    b = Builder(functions)
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    p = Program({**functions, "f": b.function("f", list(b.call("g19", n, x)))})
    after = through(p, inlined)
    assert count(after, Comp) < 5000


def test_copies_of_a_function_of_arrays_have_a_bound_together() -> None:
    length = 40
    b = Builder()
    n = b.param("n", I64)
    y = b.param("x", Array("f64", (poly(n),)))
    for _ in range(length):
        y = b.map([n], lambda i, y=y: b.prim("sin", b.read(y, [i])))
    g = b.function("g", [y])
    lets = sum(1 for _ in walk(g.body))

    def calling(times: int) -> Program:
        b = Builder({"g": g})
        n = b.param("n", I64)
        y = b.param("x", Array("f64", (poly(n),)))
        for _ in range(times):
            (y,) = b.call("g", n, y)
        return through(Program({"g": g, "f": b.function("f", [y])}), inlined)

    most = COPIED_ARRAYS // lets
    assert count(calling(most), Call) == 0
    assert count(calling(most + 1), Call) == most + 1


def large_match(arms: int) -> Function:
    """The kth sine of a number, by branches; a number that is no arm's is given back."""
    b = Builder()
    k, x = b.param("k", I64), b.param("x", F64)

    def arm(j: int) -> Atom:
        if j == arms:
            return x
        (r,) = b.if_(b.prim("eq", k, i64(j)), lambda: b.mul(b.prim("sin", x), f64(float(j))), lambda: arm(j + 1))
        return r

    return b.function("g", [arm(0)])


def test_of_a_large_function_stands_what_known_arguments_leave() -> None:
    g = large_match(INLINED)
    b = Builder({"g": g})
    k, x = b.param("k", I64), b.param("x", F64)
    known = [b.call("g", i64(j), x)[0] for j in (0, 7, INLINED - 1, INLINED, -1)]
    p = Program({"g": g, "f": b.function("f", [*known, b.call("g", k, x)[0]])})
    after = through(p, inlined)
    (f,) = [f for name, f in after.functions.items() if name == "f"]
    assert sum(isinstance(let.op, Call) for let in walk(f.body)) == 1
    assert sum(1 for _ in walk(f.body)) <= 8  # a sine and a product for each arm, the call
    for args in ([3, 0.5], [INLINED, 0.5]):
        assert_same(run(p, args), run(after, args))
