"""Branches on what an earlier branch decided: none is left, and no node that only told the two apart."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir.anf import Construct, If, Tag
from dlang.pipeline import optimise
from tests.optimize.programs import assert_same, count, run
from tests.specialize.support import lowered

HEAD = """
enum Shape { Point(f64), Line(f64, f64), Nothing }
fn size(s: Shape) -> f64 = match s { Point(a) => a, Line(a, b) => a * b, Nothing => 0.0 }
"""


@pytest.mark.parametrize(
    ("body", "branches"),
    [
        ("(if x > 0.0 { |y: f64| y * x } else { |y: f64| y })(2.0)", 1),
        ("size(if x > 0.0 { Point(x) } else { Line(x, x) })", 1),
        ("size(if x > 0.0 { Point(x) } else if x > -1.0 { Line(x, x) } else { Nothing })", 2),
        ("{ let s = if x > 0.0 { Some(x) } else { None }\n x + (match s { Some(v) => v * v, None => x }) }", 1),
        ("{ let k = if x > 0.0 { 3 } else { 4 }\n if k * 2 > 7 { x } else { x * x } }", 1),
    ],
)
def test_what_an_earlier_branch_chose_is_not_asked_again(body: str, branches: int) -> None:
    made = lowered(f"{HEAD}fn f(x: f64) -> f64 = {body}", "f")
    name = made.entry.name
    after = optimise(made.program, [name], verify=True)
    assert count(after, Tag, Construct) == 0 and count(after, If) == branches
    for x in (2.0, -0.5, -3.0):
        assert_same(run(made.program, [np.float64(x)], name), run(after, [np.float64(x)], name))
