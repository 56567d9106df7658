"""Random well-typed programs through every stage, interpreted and compiled. `make fuzz` runs many more."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlang.runtime.engine import Engine
from dlang.runtime.host import Host
from tests.fuzz.compare import disagreement
from tests.fuzz.derivatives import wrong_derivative
from tests.fuzz.programs import FEATURES, differentiable, program

ENGINE = Engine(Host())


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_all_ways_to_run_a_program_agree(random: Random) -> None:
    text = program(random)
    found = disagreement(text, ENGINE)
    assert found is None, f"{found}\n{text}"


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_programs_with_one_feature_agree(feature: str) -> None:
    for seed in range(10):
        text = program(Random(seed), frozenset({feature}))
        found = disagreement(text, ENGINE)
        assert found is None, f"seed {seed}: {found}\n{text}"


@pytest.mark.parametrize("batch", range(4))
def test_all_ways_to_differentiate_a_program_agree(batch: int) -> None:
    for seed in range(10 * batch, 10 * batch + 10):
        text = differentiable(Random(seed))
        found = wrong_derivative(text)
        assert found is None, f"seed {seed}: {found}\n{text}"


def test_a_wrong_derivative_is_found() -> None:
    rule = "pullback f(x) -> y = |g| g * cos(x) * 1.0001"
    main = "fn main(p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64) -> f64 = f(x) + sum(m) * sum(p) * sum(q)"
    found = wrong_derivative(f"fn f(x: f64) -> f64 = sin(x)\n{rule}\n{main}")
    assert found is not None and found.where == "reverse in `x`"


def test_a_wrong_result_is_found() -> None:
    """The comparison itself: a program whose outcome depends on how it is run can't pass."""
    from tests.fuzz.compare import alike

    assert not alike("E0801", "E0802")
    assert not alike([1.0], "E0801")
