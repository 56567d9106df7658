"""What a loop asks for ahead: what it reads from memory for the first time, where further instructions hardly count."""

from __future__ import annotations

import pytest

from dlang.codegen.llvm.modules import emit
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.pipeline import optimise
from tests.specialize.support import lowered


def asked(text: str) -> int:
    """How many lines of 64 bytes a program's iterations ask for."""
    found = lowered(text)
    nests = schedule(optimise(found.program, [found.entry.name]), Lanes(512))
    return emit(nests, [found.entry.name]).llvm.count("call void @llvm.prefetch")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("fn f(x: f64[n], y: f64[n]) -> f64[n] = [exp(x[i]) * sin(y[i]) * log(x[i]) for i]", 2),
        ("fn f(x: f32[n]) -> f32[n] = [exp(x[i]) for i]", 1),
        ("fn f(x: f64[n]) -> f64 = sum(x)", 4),  # four registers of lanes
        ("fn f(x: f64[n, m], w: f64[m]) -> f64[n, m] = [exp(x[i, j]) * w[j] for i, j]", 1),  # the weights are there
        ("fn f(x: f64[n, m]) -> f64[n, m] = [exp(x[i, j] - max(x[i])) for i, j]", 4),  # once for each row
        ("fn f(x: f64[n]) -> f64[n] = [2.0 * x[i] + 1.0 for i]", 0),
        ("fn f(x: f64[n], y: f64[n]) -> f64 = sum(x[i] * y[i] for i)", 0),
        ("fn f(x: f64[100]) -> f64[100] = [exp(x[i]) for i]", 0),
        ("fn f(x: f64[n, 3]) -> f64[n] = [exp(x[i, 0]) for i]", 0),
    ],
)
def test_a_loop_asks_once_for_each_array_that_it_reads_first(text: str, lines: int) -> None:
    assert asked(text) == lines
