"""Kernels in several spellings: the generator, the comparison, and kernels whose spellings cost alike."""

from __future__ import annotations

import re
from random import Random

import pytest

from tests.fuzz.spellings import different_costs, spellings

SOMETIMES = {
    "elements": r"= \[[^\[\]]* for i < n, j < k\]",
    "rows": r" for j < k\] for i < n\]",
    "rows by a function": r"_row\d+\([^)]*\) for i < n\]",
    "elements by a function": r"_h\d+\([^)]*\) for i < n",
    "whole arrays": r"let a\d = \([^\[\]]*\)\n",
    "a loop that writes": r"\] = [^}]* \}",
    "a loop that adds": r"for \w < \w \{ a\d\[[^\]]*\] \+= ",
    "an accumulator": r"\{ var s\d+ = 0.0; for ",
    "the largest in a loop": r"if v\d+ > s\d+ \{ s\d+ = v\d+ \}",
    "a filter": r" for \w < \w+ if ",
    "continue": r"continue",
    "a gather": r"\[c\[i\]\]",
    "a gather of a whole array": r"\w\[c\]",
    "a branch": r"\(if [^{]* \{",
    "a choice": r"where\(",
    "a short axis": r"for l < 3",
}


def test_kernels_are_spelled_in_every_way() -> None:
    texts = [spellings(Random(seed)) for seed in range(150)]
    assert not [name for name, pattern in SOMETIMES.items() if not any(re.search(pattern, t) for t in texts)]


@pytest.mark.parametrize("seed", [0, 2, 3, 21, 51])
def test_spellings_cost_alike(seed: int) -> None:
    text = spellings(Random(seed))
    assert different_costs(text) is None, text


def test_other_values_and_costs_are_found() -> None:
    head = "(x: f64[n], y: f64[n], w: f64[k]) -> f64"
    once = f"fn s0{head} = sum(x) * sum(w) + y[0]"
    other = different_costs(f"{once}\nfn s1{head} = sum(x) * sum(w) + y[1]")
    assert other is not None and other.where == "value of s1"
    again = different_costs(f"{once}\nfn s1{head} = sum(x[i] * w[j] for i < n, j < k) + y[0]")
    assert again is not None and again.where == "operations of the value"
