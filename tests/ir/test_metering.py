"""What a metered run counts: memory by lifetimes, bytes, operations by their places, and those that are shared."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from dlang.diagnostics import Source
from dlang.driver import check, errors_of, lower
from dlang.dump_ir import request
from dlang.interpret.metering import Metered, TooMuch


def metered(text: str, *args: object, stage: str = "opt", limit: int = 10**6) -> Metered:
    """`main` of a program after a run, with 64 as the size n."""
    checked = check(Source("p.dl", text))
    assert not errors_of(checked), errors_of(checked)[0].message
    seen = {}
    program, (entry,) = lower([request(checked.module.functions["main"])], observe=seen.__setitem__)
    run = Metered(program if stage == "opt" else seen[stage], limit=limit)
    run.run(entry.name, [64, *args])
    return run


X = np.linspace(0.0, 1.0, 64)


def test_an_array_is_held_from_where_it_is_made_to_its_last_use() -> None:
    chain = """
        fn main(x: f64[n]) -> f64 {
          var y = x
          for i in 1..n { y[i] = y[i - 1] * 0.5 }
          let z = cumsum(y)
          var w = cumsum(z)
          for i in 1..n { w[i] = w[i - 1] * 0.5 }
          w[3]
        }
    """
    assert metered(chain, X).peak == 2 * 8 * 64  # an array, and the one that is made of it
    assert metered(chain, X, stage="mono").held == 0


def test_what_is_updated_in_place_is_one_array() -> None:
    run = metered("fn main(x: f64[n]) -> f64[n] { var y = x; for i in 1..n { y[i] += y[i - 1] }; y }", X)
    assert run.peak == 8 * 64 and run.allocated == 8 * 64
    assert run.moved == 8 * (2 * 64 + 1 + 2 * 63)  # the copy; one element; a read and a write in each iteration


def test_arrays_inside_of_a_comprehension_are_those_of_one_point() -> None:
    rows = (
        "fn main(x: f64[n]) -> f64 = sum({ var s = x; for t in 1..n { s[t] = s[t - 1] * f64(i) }; s[n - 1] } for i < n)"
    )
    assert metered(rows, X).peak < 4 * 8 * 64


def test_nodes_are_held_as_long_as_something_refers_to_them() -> None:
    text = """
        enum List { Nil, Cons(f64, List) }
        fn main(x: f64[n]) -> f64 {
          var l = Nil
          for v in x { l = Cons(v, l) }
          match l { Cons(v, _) => v, Nil => 0.0 }
        }
    """
    assert metered(text, X, stage="mono").peak == 8 + 64 * 8 * 3


def test_operations_belong_to_the_lines_that_they_were_written_in() -> None:
    text = "fn main(x: f64[n]) -> f64 {\n  let y = [v * v for v in x]\n  y[0] + sum(sin(y))\n}"
    lines = {}
    for span, (operations, _) in metered(text, X, stage="mono").places().items():
        assert span is not None
        lines[span.line] = lines.get(span.line, 0) + operations
    assert sum(lines.values()) == metered(text, X, stage="mono").operations
    assert lines[2] == 64 * 4 - 64 and lines[3] > 64 * 3  # a read that serves both factors, a product, a write


@pytest.mark.parametrize(
    ("element", "shared"),
    [
        ("sum(sin(x[k]) * x[i] for k < n)", True),
        ("sum(x[k] * x[j] for k < j)", True),
        ("{ for k < n { assert x[k] < 9.0 }; x[i] }", True),
        ("sum(x[k] * x[i] * x[j] for k < n)", False),
        ("(if x[i] > 0.5 { sum(x[k] for k < j) } else { sum(x[k] * x[i] for k < n) })", False),
    ],
)
def test_operations_are_shared_by_the_points_on_which_they_do_not_depend(element: str, shared: bool) -> None:
    run = metered(f"fn main(x: f64[n]) -> f64[n, n] = [{element} + x[j] for i < n, j < n]", X, stage="mono")
    assert run.operations > 64**3
    assert (run.shared < 10 * 64**2) == shared


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("var s = 0.0; for k < 5 { s = s * x[k] + 1.0 }; s", 5),
        ("var k = 3; while k > 0 { k -= 1 }; f64(k)", 4),  # with the one that ends it
        ("sum(if x[i] > 0.5 { sin(x[i]) } else { x[i] } for i)", 64),
        ("sum({ var s = x[i]; for k < 5 { if s < 1.0 { s = s * s } }; s } for i)", 2 * 5 * 64),
    ],
)
def test_iterations_and_branches_are_counted_at_all_points(text: str, turns: int) -> None:
    assert metered(f"fn main(x: f64[n]) -> f64 {{ {text} }}", X, stage="mono").turns == turns


def test_memory_is_let_go_without_a_collector_of_circles() -> None:
    text = """
        fn main(x: f64[n]) -> f64 {
          var g = x
          for s < STEPS { g = tanh(concat([g[n - 1]], g[..n - 1]) - g) }
          sum(g)
        }
    """
    gc.disable()
    try:
        peaks = {metered(text.replace("STEPS", steps), X).peak for steps in ("10", "40")}
    finally:
        gc.enable()
    assert len(peaks) == 1


def test_a_run_ends_after_as_many_steps_as_it_may_take() -> None:
    text = "fn main(x: f64[n]) -> f64 { var s = x[0]; while s < 1e300 { s += 0.0 }; s }"
    with pytest.raises(TooMuch):
        metered(text, X, limit=1000)
