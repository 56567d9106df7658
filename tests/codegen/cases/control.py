"""Programs with loops, branches and calls."""

from __future__ import annotations

from dlang.ir.anf import Atom, Function, Scalar, Var, fresh, poly
from dlang.ir.builder import Builder, f64, i64
from tests.codegen.cases.case import I64, Cases, size_and_matrix, size_and_vector

CASES = Cases()


@CASES.add()
def updates_in_a_loop(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    zero = b.full([n], f64(0))

    def body(i: Var, s: Var) -> Atom:
        before = b.if_(b.prim("gt", i, i64(0)), lambda: b.read(s, [poly(i) - 1]), lambda: f64(1))[0]
        return b.update(s, [i], b.add(b.mul(before, f64(0.5)), b.read(x, [i])))

    return list(b.for_(0, n, [zero], body))


@CASES.add()
def updates_of_a_parameter(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    out = b.for_(0, n, [b.copy(x)], lambda i, s: b.update(s, [poly(n) - 1 - i], b.read(x, [i])))
    return [*out, b.reduce([n], lambda i: b.read(x, [i]))]


@CASES.add()
def updates_without_a_copy_before(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    return list(b.for_(0, n, [x], lambda i, s: b.update(s, [poly(n) - 1 - i], b.read(x, [i]))))


@CASES.add()
def state_replaced_whole(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)

    def body(i: Var, s: Var, total: Var) -> list[Atom]:
        new = b.map([n], lambda j: b.add(b.read(s, [poly(n) - 1 - j]), b.read(x, [j])))
        return [new, b.add(total, b.reduce([n], lambda j: b.read(new, [j])))]

    return list(b.for_(0, 5, [x, f64(0)], body))


@CASES.add()
def states_swapped(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.map([n], lambda i: b.cast("f64", i))
    return list(b.for_(0, 3, [x, y], lambda i, s, t: [t, s]))


@CASES.add()
def nested_loops(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    m = poly(n) + 2
    start = b.full([n, m], f64(0))

    def outer(i: Var, s: Var) -> Atom:
        return b.for_(
            0, m, [s], lambda j, t: b.update(t, [i, j], b.mul(b.read(a, [i, j]), b.cast("f64", b.size(poly(i) + j))))
        )[0]

    return list(b.for_(0, n, [start], outer))


@CASES.add()
def conditional_updates(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.full([n], f64(-1))

    def body(i: Var, s: Var) -> Atom:
        v = b.read(x, [i])
        return b.if_(b.prim("gt", v, f64(0)), lambda: b.update(s, [i], v), lambda: s)[0]

    return list(b.for_(0, n, [y], body))


@CASES.add()
def early_exit(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)

    def body(i: Var, total: Var, seen: Var) -> list[Atom]:
        new = b.add(total, b.read(x, [i]))
        return [b.prim("lt", new, f64(1.5)), new, b.update(seen, [i], new)]

    return list(b.for_(0, n, [f64(0), b.full([n], f64(0))], body, early=True))


@CASES.add(sizes=(0, 1, 5, 27))
def collatz(b: Builder) -> list[Atom]:
    n = b.param("n", I64)

    def body(x: Var, steps: Var) -> list[Atom]:
        even = b.prim("eq", b.prim("mod", x, i64(2)), i64(0))
        half = b.prim("floordiv", x, i64(2))
        return [b.select(even, half, b.add(b.mul(x, i64(3)), i64(1))), b.add(steps, i64(1))]

    return list(b.while_([n, i64(0)], lambda x, s: b.prim("gt", x, i64(1)), body))


@CASES.add()
def while_with_arrays(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)

    def body(k: Var, s: Var, t: Var) -> list[Atom]:
        new = b.map([n], lambda i: b.mul(b.read(s, [i]), f64(0.5)))
        go = b.prim("lt", k, i64(6))
        changed = b.for_(0, n, [t], lambda i, t: b.update(t, [i], b.add(b.read(t, [i]), f64(1))))[0]
        return [go, b.add(k, i64(1)), new, changed]

    return list(b.while_([i64(0), x, b.full([n], f64(0))], lambda k, s, t: b.prim("lt", k, i64(9)), body, early=True))


@CASES.add()
def branches_that_make_arrays(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    c = b.prim("gt", n, i64(4))
    doubled = b.if_(c, lambda: b.map([n], lambda i: b.mul(b.read(x, [i]), f64(2))), lambda: x)[0]
    nested = b.if_(c, lambda: b.if_(b.prim("gt", n, i64(8)), lambda: x, lambda: doubled)[0], lambda: doubled)[0]
    return [doubled, nested]


@CASES.add()
def loops_inside_a_comprehension(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)

    def body(i: Var) -> Atom:
        private = b.full([4], b.read(x, [i]))
        last = b.for_(1, 4, [private], lambda k, s: b.update(s, [k], b.mul(b.read(s, [poly(k) - 1]), f64(0.5))))[0]
        steps = b.for_(0, i, [f64(1)], lambda k, v: b.add(b.mul(v, f64(0.5)), f64(1)))[0]
        return b.add(b.read(last, [3]), steps)

    return [b.map([n], body)]


@CASES.add()
def scans(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    k = b.map([n], lambda i: b.size(poly(i) + 1))
    return [b.scan("sum", x), b.scan("prod", x), b.scan("sum", k)]


def _helpers() -> dict[str, Function]:
    b = Builder()
    n, x = size_and_vector(b)
    scale = b.param("scale", Scalar("f64"))
    y = b.map([n], lambda i: b.mul(b.read(x, [i]), scale))
    scaled = b.function("scaled", [y, b.reduce([n], lambda i: b.read(y, [i]))])
    b = Builder()
    n, x = size_and_vector(b)
    mask = b.map([n], lambda i: b.prim("gt", b.read(x, [i]), f64(0)))
    k, where = b.compact(mask)
    kept = b.function("kept", [k, b.map([k], lambda i: b.read(x, [b.read(where, [i])]))])
    return {"scaled": scaled, "kept": kept}


@CASES.add(functions=_helpers)
def calls(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y, total = b.call("scaled", n, x, f64(3))
    back = b.view(y, [n], lambda i: [poly(n) - 1 - i])
    z, again = b.call("scaled", n, back, total)
    k, positive = b.call("kept", n, z)
    w, _ = b.call("scaled", k, positive, f64(2))
    return [y, total, z, again, k, w]


@CASES.add(functions=_helpers)
def calls_in_a_comprehension(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    m = poly(n) + 2

    def body(i: Var) -> Atom:
        row = b.view(a, [m], lambda j: [i, j])
        return b.call("scaled", b.size(m), row, b.cast("f64", i))[1]

    return [b.map([n], body)]


def _fibonacci() -> dict[str, Function]:
    n = fresh("n", I64)
    r = fresh("r", I64)
    header = Function("fib", (n,), (r,), None)
    b = Builder({"fib": header})
    b.params.append(n)
    small = b.prim("lt", n, i64(2))
    value = b.if_(
        small,
        lambda: n,
        lambda: b.add(b.call("fib", b.sub(n, i64(1)))[0], b.call("fib", b.sub(n, i64(2)))[0]),
    )[0]
    return {"fib": b.function("fib", [value])}


@CASES.add(functions=_fibonacci, sizes=(0, 1, 2, 15))
def recursion(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    return [b.call("fib", n)[0], b.map([3], lambda i: b.call("fib", i)[0])]
