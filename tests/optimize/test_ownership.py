"""How many copies a program needs: each is counted, and the verifier agrees that no more are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import dlang
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.ir.anf import Array, Atom, Comp, Copy, For, Program, Reduce, Var, poly
from dlang.ir.builder import Builder, f64, i64
from dlang.ir.printer import print_program
from dlang.ir.traverse import walk
from dlang.ir.verify import verify
from dlang.optimize.ownership import ownership
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.meaning import as_written
from tests.optimize.programs import I64, assert_same, cost, count, run, through
from tests.specialize.support import lowered

Make = Callable[[Builder, Var, Var], Sequence[Atom]]


def zeros(b: Builder, n: Var) -> Var:
    return b.map([n], lambda i: b.prim("mul", f64(0.0), b.cast("f64", i)))


def filled(b: Builder, n: Var, x: Var, first: Atom) -> list[Var]:
    """A loop of n updates that begins with `first`."""
    return list(b.for_(0, n, [first], lambda i, y: [b.update(y, [i], b.mul(b.read(x, [i]), f64(2.0)))]))


def twice(b: Builder, n: Var, x: Var) -> list[Atom]:
    y = zeros(b, n)
    return [b.update(y, [0], f64(1.0)), b.update(y, [1], f64(2.0))]


def branch(b: Builder, n: Var, x: Var) -> list[Atom]:
    """Both arms write into the same fresh array."""
    y = zeros(b, n)
    c = b.prim("lt", b.read(x, [0]), f64(0.5))
    return list(b.if_(c, lambda: b.update(y, [0], f64(1.0)), lambda: b.update(y, [1], f64(2.0))))


def sometimes(b: Builder, n: Var, x: Var) -> list[Atom]:
    """A loop that writes in one arm and hands on in the other."""

    def body(i: Var, y: Var) -> list[Atom]:
        c = b.prim("lt", b.read(x, [i]), f64(0.5))
        return list(b.if_(c, lambda: b.update(y, [i], f64(1.0)), lambda: y))

    return list(b.for_(0, n, [zeros(b, n)], body))


def read_after_write(b: Builder, n: Var, x: Var) -> list[Atom]:
    """The old element is read after the update in the program, before it in time."""

    def body(i: Var, y: Var, t: Var) -> list[Atom]:
        z = b.update(y, [i], f64(1.0))
        return [z, b.add(t, b.read(y, [i]))]

    return list(b.for_(0, n, [zeros(b, n), f64(0.0)], body))


def captured(b: Builder, n: Var, x: Var) -> list[Atom]:
    """Each iteration writes into an array from outside the loop, so each needs its own."""
    y = zeros(b, n)
    return list(b.for_(0, n, [f64(0.0)], lambda i, t: [b.add(t, b.read(b.update(y, [i], f64(1.0)), [i]))]))


def swapped(b: Builder, n: Var, x: Var) -> list[Atom]:
    """Two buffers that change places."""
    return list(
        b.for_(
            0,
            n,
            [zeros(b, n), b.update(zeros(b, n), [0], f64(3.0))],
            lambda i, y, z: [z, b.update(y, [i], b.read(z, [i]))],
        )
    )


def both_results(b: Builder, n: Var, x: Var) -> list[Atom]:
    y = zeros(b, n)
    return [y, y]


def through_a_view(b: Builder, n: Var, x: Var) -> list[Atom]:
    y = zeros(b, n)
    v = b.view(y, [n], lambda i: [poly(n) - 1 - i])
    z = b.update(y, [0], f64(1.0))
    return [z, b.read(v, [0])]


def accumulated(b: Builder, n: Var, x: Var) -> list[Atom]:
    """A cotangent that every iteration adds to."""

    def body(i: Var, y: Var) -> list[Atom]:
        return list(b.comp([n], lambda j: b.read(x, [j]), lambda j: [Reduce((poly(n),), (poly(j),), "sum", y)]))

    return list(b.for_(0, n, [zeros(b, n)], body))


def into_what_is_read(b: Builder, n: Var, x: Var) -> list[Atom]:
    y = zeros(b, n)
    return list(
        b.comp([n], lambda j: b.read(y, [poly(n) - 1 - j]), lambda j: [Reduce((poly(n),), (poly(j),), "sum", y)])
    )


def nested(b: Builder, n: Var, x: Var) -> list[Atom]:
    """`var y = x` and two loops around the update."""

    def outer(i: Var, y: Var) -> list[Atom]:
        return list(b.for_(0, n, [y], lambda j, z: [b.update(z, [j], b.add(b.read(z, [i]), f64(1.0)))]))

    return list(b.for_(0, n, [x], outer))


def looked_at(b: Builder, n: Var, x: Var) -> list[Atom]:
    """The condition of a loop writes into a copy of the state that the body needs as it was."""

    def condition(i: Var, y: Var) -> Atom:
        return b.prim("lt", b.read(b.update(y, [0], b.add(b.read(y, [0]), f64(1.0))), [0]), f64(2.5))

    def body(i: Var, y: Var) -> list[Atom]:
        return [b.add(i, i64(1)), b.update(y, [0], b.add(b.read(y, [0]), f64(1.0)))]

    return list(b.while_([i64(0), zeros(b, n)], condition, body))


@pytest.mark.parametrize(
    ("make", "copies"),
    [
        (lambda b, n, x: filled(b, n, x, x), 1),
        (lambda b, n, x: filled(b, n, x, zeros(b, n)), 0),
        (lambda b, n, x: [x], 1),
        (lambda b, n, x: [b.view(x, [n], lambda i: [poly(n) - 1 - i])], 1),
        (lambda b, n, x: [b.update(x, [0], f64(1.0))], 1),
        (twice, 1),
        (branch, 0),
        (sometimes, 0),
        (read_after_write, 0),
        (captured, 1),
        (swapped, 0),
        (both_results, 1),
        (through_a_view, 0),
        (accumulated, 0),
        (into_what_is_read, 0),
        (nested, 1),
        (looked_at, 1),
    ],
    ids=lambda v: getattr(v, "__name__", str(v)),
)
def test_the_number_of_copies_is_the_least(make: Make, copies: int) -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    p = Program({"f": b.function("f", list(make(b, n, x)))})
    after = through(p, ownership)
    verify(after, ownership=True)
    assert count(after, Copy) == copies, print_program(after)
    args = [4, np.linspace(0.0, 1.0, 4)]
    assert_same(run(p, args), run(after, args))


def test_the_copy_of_what_a_loop_updates_stands_before_the_loop() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    after = through(Program({"f": b.function("f", filled(b, n, x, x))}), ownership)
    assert [type(let.op) for let in after.functions["f"].body.lets] == [Copy, For]


def test_an_array_of_one_value_is_filled_again_instead_of_copied() -> None:
    b = Builder()
    n = b.param("n", I64)
    y = b.full([n], f64(0.0))
    results = [b.update(y, [0], f64(1.0)), b.update(y, [1], f64(2.0))]
    p = Program({"f": b.function("f", results)})
    after = through(p, ownership)
    assert count(after, Copy) == 0
    assert_same(run(p, [3]), run(after, [3]))


def test_a_constant_array_that_is_filled_anew_for_each_use_is_not_left() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    y = b.full([n], f64(0.0))
    results = [*filled(b, n, x, y), *filled(b, n, x, y)]
    p = Program({"f": b.function("f", results)})
    after = ownership(p)
    verify(after, ownership=True)
    assert count(after, Copy) == 0 and count(after, Comp) == 2
    args = [5, np.linspace(0.0, 1.0, 5)]
    assert_same(run(p, args), run(after, args))


HELD = {
    "an element at an index that is checked later": "a[k] = a[k] * 0.5 + s\n    s += old[k // 2] + old[k]",
    "the sum of a few elements": "a[k] = 0.5 * s\n    s += sum(old[i] for i in k..minimum(k + 3, n))",
    "an element through a view": "a[k] = 0.5 * s\n    let part = old[k..]\n    s += part[(n - k) // 2]",
    "an element where a loop changed others": "for j in 0..2 { a[(k + j) % n] *= 0.5 }\n    s += old[k // 2]",
    "an element where a branch changed another": "if s > 1.0 { a[k] = 0.5 * s }\n    s += old[(k * k) % n]",
}


@pytest.mark.parametrize("body", HELD.values(), ids=HELD)
def test_what_is_read_as_it_was_before_a_change_takes_no_copy(body: str) -> None:
    made = lowered(
        f"""
fn f(x: f64[n]) -> f64 {{
  var a = x
  var s = 1.0
  for k < n {{
    let old = a
    {body}
  }}
  s + sum(a)
}}
"""
    )
    program = optimise(made.program, [made.entry.name], verify=True)
    name = made.entry.name
    assert count(program, Copy) == 1  # of what the caller holds
    args = [[n, np.random.default_rng(n).uniform(0.5, 1.5, n)] for n in (20, 40, 80)]
    assert_same(run(program, args[0], name), run(made.program, args[0], name), exact=False)
    assert_same(Engine(Host()).compile(program, [name]).run(name, args[0]), run(program, args[0], name), exact=False)
    small, middle, large = [cost(program, a, name) for a in args]
    assert large - middle < 2.1 * (middle - small)


UNFIT = {
    "an array that can't be made": "let z = zeros(n - 2)\n  x[1] + a[0] + sum(z) + f64(len(z))",
    "a slice that is out of range": "let z = x[2..]\n  x[1] + a[0] + sum(z)",
}


@pytest.mark.parametrize("body", UNFIT.values(), ids=UNFIT)
def test_a_read_stays_behind_the_check_that_puts_it_in_range(body: str) -> None:
    made = lowered(f"fn f(x: f64[n], k: i64) -> f64 {{\n  var a = x\n  a[k] = 2.0\n  {body}\n}}")
    program = optimise(made.program, [made.entry.name], verify=True)
    for n in (1, 2, 3):
        args = [n, np.ones(n), 0]
        if n == 1:
            with pytest.raises(RunError):
                run(program, args, made.entry.name)
        else:
            assert_same(run(program, args, made.entry.name), run(made.program, args, made.entry.name))


SWAPPED = {
    "two rows": "(m[k], m[t[k]]) = (m[t[k]], m[k])",
    "a row and one that was kept": "let r = m[k]\n    m[k] = m[t[k]]\n    m[t[k]] = r",
    "a row and its neighbour, mixed": "m[t[k]] = m[k] * 0.5 + m[(k + 1) % n]",
    "a row that is turned": "m[k] = reverse(m[k])",  # all rows at once, into another matrix
    "a row of data that is turned": "m[t[k]] = reverse(m[t[k]])",
    "columns": "for i < n { (m[i, k], m[i, t[k]]) = (m[i, t[k]], m[i, k]) }",
    "parts of a row": "m[k, 1..] = m[k, ..n - 1]",  # likewise
    "three rows": "(m[k], m[t[k]], m[0]) = (m[t[k]], m[0], m[k])",
    "rows less a multiple of one above": "for i in k + 1..n { m[i] = maximum(m[i], m[i, k] * m[k]) }",
    "rows and one below": "for i in 0..k { m[i] = maximum(m[i], 0.5 * m[k]) }",
    "rows less a multiple of one of them": "for i in k..n { m[i] -= 0.5 * m[k] }",
    "a column and the one before": "for j in 1..n { m[.., j] += m[.., j - 1] }",
    "a column and one beside it": "for j < n { m[.., j] = m[.., j] + 0.5 * m[.., k] }",
    "a row that a branch changes": "m[k] = if t[k] > 1 { m[k] * m[t[k]] } else { m[k] }",
    "a row that a branch chooses": "m[k] = if t[k] > 1 { m[t[k]] } else { 0.5 * m[k] }",
}


@pytest.mark.parametrize("body", SWAPPED.values(), ids=SWAPPED)
def test_rows_that_change_places_take_no_copy_of_the_matrix(body: str) -> None:
    text = f"fn f(a: f64[n, n], t: i64[n]) -> f64[n, n] {{\n  var m = a\n  for k < n {{\n    {body}\n  }}\n  m\n}}"
    made = lowered(text)
    program = optimise(made.program, [made.entry.name], verify=True)
    name = made.entry.name
    copied = [let.op.array.type for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, Copy)]
    in_place = body not in (SWAPPED["a row that is turned"], SWAPPED["parts of a row"])
    assert len([t for t in copied if isinstance(t, Array) and len(t.shape) == 2]) == in_place  # what the caller holds
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 9):
        args = [n, rng.normal(size=(n, n)), rng.integers(0, n, n)]
        expected = run(made.program, args, name)
        assert_same(run(program, args, name), expected)
        for sanitize in (False, True):
            assert_same(Engine(Host(), sanitize=sanitize).compile(program, [name]).run(name, args), expected)


def test_a_check_is_not_made_before_what_was_printed(write, dlc) -> None:
    text = """
fn main(j: i64) {
  var a = [f64(i) for i < 5]
  let old = a
  a[1] = 2.0
  print("changed to {a[1]}")
  print("{old[j]} {sum(a)}")
}
"""
    assert dlc("run", write(text), "--j", "1")[:2] == (0, "changed to 2.0\n1.0 11.0\n")
    assert dlc("run", write(text), "--j", "5")[:2] == (1, "changed to 2.0\n")


CHANGED = "{ var a = c; for i in 1..k { a[i] = sin(a[i - 1]) + a[i] }; a }"
BESIDE = {
    "the parameter turned": "reverse(c)",
    "the parameter": "c",
    "a part of it": "c[1..]",
    "what is made of it": "[2.0 * v for v in c]",
    "a number of it": "c[k - 1]",
    "another change of it": "{ var b = c; for i in 1..k { b[i] = cos(b[i - 1]) * b[i] }; b }",
}


@pytest.mark.parametrize("other", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("form", ["({changed}, {other})", "({other}, {changed})"])
@pytest.mark.parametrize("call", ["checkpoint(b)(c)", "checkpoint(b)(reverse(c))"])
def test_what_is_given_beside_a_changed_parameter_is_of_what_it_was(other: str, form: str, call: str) -> None:
    """Functions that stay calls hand an array in and out in one place only if nothing else is made of it later."""
    body = form.format(changed=CHANGED, other=other)
    text = f"""
fn b(c: f64[k]) = {body}
fn weighed(x: f64[n]) -> f64 = sum(x[i] * cos(f64(i)) for i)
fn f(c: f64[k]) -> f64 {{ let (a, b) = {call}
  {
        "weighed(a) - 0.5 * weighed(b)"
        if "k - 1" not in other
        else ("weighed(a) - 0.5 * b" if form.startswith("({changed") else "weighed(b) - 0.5 * a")
    } }}
"""
    compiled, meaning = dlang.compile(text).f, dlang.compile(text, backend="interp").f
    c = np.array([-1.25, 0.1, 0.5, 0.75])
    with as_written():
        value, slope = meaning(c), dlang.grad(meaning)(c)
    np.testing.assert_allclose(compiled(c), value, rtol=1e-13)
    np.testing.assert_allclose(dlang.grad(compiled)(c), slope, rtol=1e-12)


def test_a_state_that_takes_the_place_of_the_last_one_needs_no_other_memory() -> None:
    made = lowered("fn f(x: f64[n], k: size) -> f64[n] { var v = x; for t < k { v = sin(v) * sum(v) }\n v }", "f")
    program = optimise(made.program, [made.entry.name], verify=True)
    loops = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, For)]
    comps = [let.op for loop in loops for let in loop.body.lets if isinstance(let.op, Comp)]
    assert comps and all(d.into is not None for op in comps for d in op.destinations if d.shape)
