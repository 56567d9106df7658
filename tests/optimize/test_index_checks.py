"""Comparisons that the bounds of axes and loops decide, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Assert, IndexExpr, Prim, Program
from dlang.pipeline import optimise
from tests.specialize.support import lowered, ops

HELPERS = """
fn at(x: f64[n], i: i64) -> f64 = x[i]
fn before(x: f64[n], i: i64) -> f64 = x[i - 1]
"""


@pytest.mark.parametrize(
    "body, checks",
    [
        ("[at(x, i) for i < n]", 0),
        ("[at(x, n - 1 - i) for i < n]", 0),
        ("[before(x, i) for i in 1..n]", 0),
        ("{ var a = x\n  for i in 1..n { a[i] = before(a, i) }\n  a }", 0),
        ("[before(x, i) for i < n]", 1),
        ("[at(x, i + 1) for i < n]", 1),
        ("[at(x, i * i) for i < n]", 1),
        ("[if i * i + 1 < n { at(x, i) } else { 0.0 } for i < n]", 0),
        ("[if i * i + 1 < n { at(x, i * i + i) } else { 0.0 } for i < n]", 1),
    ],
)
def test_an_index_that_a_function_is_given_is_proven_by_the_loop_around(body: str, checks: int) -> None:
    made = lowered(f"{HELPERS}\nfn f(x: f64[n]) -> f64[?] = {body}")
    program = optimise(made.program, [made.entry.name], verify=True)
    assert sum(isinstance(op, Assert) and op.code == "E0801" for op in ops(program)) == checks


def test_a_size_parameter_is_the_size_of_what_it_names() -> None:
    text = """
fn f(x: f64[k], n: size) -> f64[n] {
  var d = zeros(n)
  for i < k { d[i % n] += x[i] }
  d
}
"""
    made = lowered(text)
    program = optimise(made.program, [made.entry.name], verify=True)
    assert not any(isinstance(op, Assert) and op.code == "E0801" for op in ops(program))


CYCLE = """
fn f(x: f64[n]) -> f64[n] = [x[(i + 1) % n] + 10.0 * x[(i + n - 1) % n] + 100.0 * x[(2 * n - 1 - i) % n] for i < n]
"""


@pytest.mark.parametrize(
    "body, checks, ordered",
    [
        ("x[clip(i, 0, n - 1)]", 0, 0),
        ("x[clip(i - 1, 0, n - 1)]", 0, 1),
        ("x[minimum(i + 1, n - 1)] * x[maximum(i - 2, 0)]", 0, 2),
        ("x[clip(3 * i - 7, 0, n - 1)]", 0, 2),
        ("x[maximum(i - 1, 1)]", 1, 1),
        ("x[minimum(i - 1, n - 1)]", 1, 0),
        ("x[i % n]", 0, 0),
        ("x[(7 * i - 3) % n]", 0, 0),
        ("x[(i + 1) % (n + 1)]", 1, 0),
    ],
)
def test_the_least_and_the_greatest_and_remainders_are_bounded(body: str, checks: int, ordered: int) -> None:
    made = lowered(f"fn f(x: f64[n]) -> f64[n] = [{body} for i < n]")
    program = optimise(made.program, [made.entry.name], verify=True)
    assert sum(isinstance(op, Assert) for op in ops(program)) == checks
    assert sum(isinstance(op, Prim) and op.name in ("maximum", "minimum") for op in ops(program)) == ordered


def test_a_remainder_of_what_is_one_length_off_is_no_division() -> None:
    made = lowered(CYCLE)
    program = optimise(made.program, [made.entry.name], verify=True)
    assert not [op for op in ops(program) if isinstance(op, Prim) and op.name == "mod"]
    for n in (1, 2, 5):
        x = np.arange(float(n)) + 1.0
        wanted = np.roll(x, -1) + 10.0 * np.roll(x, 1) + 100.0 * x[(2 * n - 1 - np.arange(n)) % n]
        assert np.array_equal(Interpreter(program).run(made.entry.name, [n, x])[-1], wanted)
    assert len(Interpreter(program).run(made.entry.name, [0, np.zeros(0)])[-1]) == 0


@pytest.mark.parametrize("first, many, divides", [(1, 3, False), (2, 4, False), (-1, 2, False), (9, 3, True)])
def test_a_remainder_of_what_is_a_few_lengths_off_is_no_division(first: int, many: int, divides: bool) -> None:
    made = lowered(f"fn f(x: f64[n]) -> f64[n] = [sum(x[(i + p - {first}) % n] * f64(p + 1) for p < {many}) for i < n]")
    program = optimise(made.program, [made.entry.name], verify=True)
    assert divides == any(isinstance(op, Prim) and op.name == "mod" for op in ops(program))
    for n in range(6):
        x = np.arange(float(n)) + 1.0
        wanted = sum((np.roll(x, first - p) * (p + 1) for p in range(many)), np.zeros(n))
        assert np.array_equal(Interpreter(program).run(made.entry.name, [n, x])[-1], wanted)


def test_the_greatest_of_numbers_that_may_wrap_is_left_alone() -> None:
    made = lowered("fn f(x: f64[n], k: i64) -> f64[n] = [x[maximum(i + k, i)] for i < n]")
    program = optimise(made.program, [made.entry.name], verify=True)
    with pytest.raises(RunError, match="out of range"):
        Interpreter(program).run(made.entry.name, [3, np.ones(3), 1])
    assert len(Interpreter(program).run(made.entry.name, [3, np.ones(3), -(2**63)])[-1]) == 3


def test_what_is_out_of_range_is_refused() -> None:
    made = lowered(HELPERS + "fn f(x: f64[n]) -> f64[n] = [at(x, i + 1) for i < n]")
    program = optimise(made.program, [made.entry.name], verify=True)
    with pytest.raises(RunError, match="index 3 is out of range"):
        Interpreter(program).run(made.entry.name, [3, np.ones(3)])


def test_numbers_that_are_no_indices_are_left_alone() -> None:
    """They may wrap, so k - 1 < k need not hold."""
    made = lowered("fn f(k: i64) -> bool = k - 1 < k")
    program = optimise(made.program, [made.entry.name], verify=True)
    least = np.int64(-(2**63))
    assert not [op for op in ops(program) if isinstance(op, IndexExpr)]
    assert Interpreter(program).run(made.entry.name, [least])[-1] == (np.int64(2**63 - 1) < least)


@pytest.mark.parametrize(
    "body",
    [
        "fn f(x: f64[n], k: i64) -> f64 = x[k % n]",
        "fn f(x: f64[n], k: i64) -> f64 = x[k % len(x)]",
        "fn f(x: f64[n], k: i64) -> f64 { var s = 0.0; for i < 9 { s = 0.5 * s + x[(i * k - 3) % n] }; s }",
        "fn f(x: f64[n], k: i64) -> f64 = sum(x[(k - j * j) % n] for j < 5)",
        "fn f(x: f64[n], k: i64) -> f64 = reshape(x, n, 1)[k % n, k % 1] + concat(x, [1.0, 2.0, 3.0])[k % 3]",
        "fn f(x: f64[n], k: i64) -> f64 = concat(x, [1.0, 2.0, 3.0])[bit_and(k, 3) % 3]",
    ],
)
@pytest.mark.parametrize("k", [0, 1, -1, 7, 2**62, -(2**63), 2**63 - 1])
def test_a_remainder_by_the_size_of_an_axis_is_an_index(body: str, k: int) -> None:
    made = lowered(body)
    program = optimise(made.program, [made.entry.name], verify=True)
    assert not [op for op in ops(program) if isinstance(op, Assert) and op.code == "E0801"]
    x = np.array([1.0, 2.0, 4.0])
    for args in ([3, x, k], [0, x[:0], k]):
        outcomes = []
        for p in (made.program, program):
            try:
                outcomes.append(Interpreter(p).run(made.entry.name, args))
            except RunError as e:
                outcomes.append(e.code)
        assert outcomes[0] == outcomes[1]


def compared(text: str) -> tuple[int, int]:
    """How many comparisons of integers there are as written and after optimisation."""
    made = lowered(text)
    program = optimise(made.program, [made.entry.name], verify=True)
    rng = np.random.default_rng(0)
    for k in (0, 1, 2, 5, -1, -(2**63), 2**63 - 1):
        for n in (0, 1, 5):
            args = [n, rng.normal(size=n), *([k] if "k: i64" in text else [])]
            before, after = (Interpreter(p).run(made.entry.name, args) for p in (made.program, program))
            np.testing.assert_allclose(np.array(before[-1]), np.array(after[-1]))
    orders = ("lt", "le", "gt", "ge", "eq", "ne")
    before, after = (
        [op for op in ops(p) if isinstance(op, Prim) and op.name in orders] for p in (made.program, program)
    )
    return len(before), len(after)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("fn f(x: f64[n], k: i64) -> f64 = if k >= 1 and k <= n { x[k - 1] } else { 0.0 }", 2),
        ("fn f(x: f64[n], k: i64) -> f64 = if 0 <= k and k < n { x[k] } else { 0.0 }", 2),
        ("fn f(x: f64[n], k: i64) -> f64 = if 0 <= k { if k < n { x[k] * x[k] } else { 1.0 } } else { 0.0 }", 2),
        ("fn f(x: f64[n], k: i64) -> f64 = if k < 0 or k >= n { 0.0 } else { x[k] }", 2),
        ("fn f(x: f64[n]) -> f64 = sum(if i >= 1 { x[i - 1] } else { 0.0 } for i < n)", 1),
        ("fn f(x: f64[n]) -> f64 = sum(if i + 1 < n { x[i + 1] } else { 0.0 } for i < n)", 1),
        ("fn f(x: f64[n]) -> f64 = sum(if i < 1 { 0.0 } else { x[i - 1] } for i < n)", 2),
        ("fn f(x: f64[n]) -> f64 = sum(if i == 0 { 0.0 } else { x[i - 1] } for i < n)", 2),
        ("fn f(x: f64[n]) -> f64[n] = [if i > 0 { x[i] - x[i - 1] } else { x[i] } for i]", 1),
        ("fn f(x: f64[n]) -> f64[n] { var y = x; for i < n { if i > 0 { y[i] = y[i - 1] + x[i] } }; y }", 1),
        ("fn f(x: f64[n], k: i64) -> f64 = if k >= 0 { sum(x[k - k + j] for j < n if j >= k) } else { 0.0 }", 2),
        ("fn f(x: f64[n], k: i64) -> f64 = if k > 3 and k < n + 3 { x[k - 3] } else { 0.0 }", 2),
    ],
)
def test_what_an_arm_is_chosen_by_proves_its_indices(text: str, after: int) -> None:
    assert compared(text)[1] == after


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        ("k >= 0", "k - 1"),
        ("k <= n", "k"),
        ("k > 1", "k + 1"),
        ("k != 2", "k"),
        ("k < n", "k - 1"),
        ("k >= 1", "2 * k"),
    ],
)
def test_an_arm_that_proves_too_little_is_checked(condition: str, index: str) -> None:
    made = lowered(f"fn f(x: f64[n], k: i64) -> f64 = if {condition} {{ x[{index}] }} else {{ 0.5 }}")
    program = optimise(made.program, [made.entry.name], verify=True)
    x = np.arange(1.0, 6.0)
    for k in (*range(-3, 9), 2**63 - 1, -(2**63), 2**62, -(2**62)):
        outcomes = []
        for p in (made.program, program):
            try:
                outcomes.append(Interpreter(p).run(made.entry.name, [5, x, k]))
            except RunError as e:
                outcomes.append((e.code, e.message))
        assert outcomes[0] == outcomes[1], k


CLIPPED = [
    "clip(i, 1, n - 2) - 1",
    "clip(i, 1, n - 2) + 1",
    "clip(i + 2, 2, n - 3) - 2",
    "maximum(minimum(i - 1, n - 4), 0) + 3",
    "minimum(maximum(k, 0), n - 1)",
    "clip(k, 1, n - 2) - 1",
    "clip(k, 0, n) - k",
    "n - 1 - clip(i, 1, n - 2)",
    "minimum(i + k, i)",
]


def outcomes(program: Program, entry: str, arguments: Sequence[list[object]]) -> list[object]:
    """The results of a program for some arguments, or the message with which it refuses."""
    found: list[object] = []
    for args in arguments:
        try:
            found.append(np.asarray(Interpreter(program).run(entry, args)[-1]).tolist())
        except RunError as e:
            found.append((e.code, e.message))
    return found


@pytest.mark.parametrize("index", CLIPPED)
@pytest.mark.parametrize("before", ["", "assert n >= 3", "assert n > 1 and k < n"])
def test_what_two_numbers_say_of_the_least_of_them_holds_for_all_sizes(index: str, before: str) -> None:
    """Refusals and their messages included, for numbers that wrap too."""
    made = lowered(f"fn f(x: f64[n], k: i64) -> f64[n] {{ {before}\n [x[{index}] for i < n] }}")
    program = optimise(made.program, [made.entry.name], verify=True)
    numbers = (0, 1, 3, -2, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1)
    arguments = [[n, np.arange(1.0, n + 1.0), k] for n in (0, 1, 2, 3, 4, 7) for k in numbers]
    name = made.entry.name
    assert outcomes(made.program, name, arguments) == outcomes(program, name, arguments)


@pytest.mark.parametrize(
    ("index", "conditions"),
    [
        ("clip(i, 1, n - 2)", 1),  # n >= 2
        ("clip(i, 1, n - 2) - 1", 1),  # n >= 3
        ("clip(k, 2, n - 1) - 2", 1),
        ("clip(i, 1, n - 2) + 1", 0),
        ("clip(k, 0, n - 1)", 0),
    ],
)
def test_whether_a_clipped_index_is_in_range_is_asked_once(index: str, conditions: int) -> None:
    """The sizes decide, so it is asked in front of the points."""
    made = lowered(f"fn f(x: f64[n], k: i64) -> f64[n] = [x[{index}] for i < n]")
    program = optimise(made.program, [made.entry.name], verify=True)
    orders = [let for f in program.functions.values() for let in f.body.lets if isinstance(let.op, Prim)]
    assert sum(let.op.name in ("lt", "le", "gt", "ge") for let in orders) == conditions
    inside = [op for op in ops(program) if isinstance(op, Prim) and op.name in ("lt", "le", "gt", "ge", "and")]
    assert len(inside) == conditions


def test_what_is_asserted_is_asked_no_more() -> None:
    text = "fn f(x: f64[n]) -> f64[n] { assert n >= 3\n [x[clip(i, 1, n - 2) - 1] * x[clip(i, 1, n - 2)] for i < n] }"
    made = lowered(text)
    program = optimise(made.program, [made.entry.name], verify=True)
    conditions = {op.condition for op in ops(program) if isinstance(op, Assert)}
    assert len(conditions) == 1


BISECTION = """fn f(x: f64[n], v: f64, a: i64, b: i64) -> i64 {{
  var (low, high) = ({start})
  var turns = 0
  while low {order} high and turns < 70 {{
    let middle = {middle}
    if x[middle] >= v {{ high = {above} }} else {{ low = {below} }}
    turns += 1
  }}
  low
}}"""


@pytest.mark.parametrize(
    ("start", "order", "middle", "above", "below", "checks"),
    [
        ("0, n", "<", "(low + high) // 2", "middle", "middle + 1", 0),
        ("0, n", "<", "low + (high - low) // 2", "middle", "middle + 1", 1),  # a floor in a sum
        ("0, n", "<", "(low + high) // 2", "middle", "middle", 0),
        ("0, n", "<", "(low + high) // 2", "middle", "middle + 2", 0),
        ("0, n", "<", "(low + high + 1) // 2", "middle", "middle + 1", 1),
        ("0, n", "<", "(low + high) // 2", "middle + 1", "middle + 1", 0),
        ("0, n + 1", "<", "(low + high) // 2", "middle", "middle + 1", 1),
        ("-1, n", "<", "(low + high) // 2", "middle", "middle + 1", 1),
        ("a, n", "<", "(low + high) // 2", "middle", "middle + 1", 1),
        ("0, b", "<", "(low + high) // 2", "middle", "middle + 1", 1),
        ("a, b", "<", "(low + high) // 2", "middle", "middle + 1", 1),
        ("0, n", "<", "(low + high) // 2", "middle - 1", "middle + 1", 0),
        ("0, n", "<=", "(low + high) // 2", "middle - 1", "middle + 1", 1),
    ],
)
def test_the_middle_of_two_ends_that_stay_in_range_is_an_index(
    start: str, order: str, middle: str, above: str, below: str, checks: int
) -> None:
    made = lowered(BISECTION.format(start=start, order=order, middle=middle, above=above, below=below))
    program = optimise(made.program, [made.entry.name], verify=True)
    assert sum(isinstance(op, Assert) and op.code == "E0801" for op in ops(program)) == checks
    far = (2**63 - 1, 2**63 - 3, -(2**63), -3, 0, 2, 2**62)
    arguments = [
        [n, np.arange(float(n)), v, a, b] for n in (0, 1, 2, 5) for v in (-1.0, 1.5, 9.0) for a in far for b in far
    ]
    if "a" not in start and "b" not in start:
        arguments = arguments[:: len(far) ** 2]
    assert outcomes(made.program, made.entry.name, arguments) == outcomes(program, made.entry.name, arguments)
