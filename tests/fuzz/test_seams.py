"""Features that meet: every template in some program. `python -m tests.fuzz --seams` makes many more."""

from __future__ import annotations

import pytest

from tests.fuzz.seams import AROUND, LEAVES, PARAMETERS, STARTS, made, program, wrong_at_a_seam

AT_ONCE = 7  # links of one program
INSIDE = [[around, leaf] for around, leaf in zip(AROUND, LEAVES, strict=False)]
LINKS = [*INSIDE, *[[leaf] for leaf in list(LEAVES)[len(INSIDE) :]]]


@pytest.mark.parametrize("number", range(0, len(LINKS), AT_ONCE))
def test_templates_behind_one_another(number: int) -> None:
    text = made(next(iter(STARTS)), LINKS[number : number + AT_ONCE])
    found = wrong_at_a_seam(text, number // AT_ONCE, native=False)
    assert found is None, f"{found}\n{text}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_templates_at_random(seed: int) -> None:
    text = program(seed)
    found = wrong_at_a_seam(text, seed)
    assert found is None, f"{found}\n{text}"


def test_a_wrong_rule_is_found() -> None:
    rule = "fn f(x: f64) -> f64 = sin(x)\npullback f(x) -> y = |g| g * cos(x) * 1.0001\n"
    found = wrong_at_a_seam(f"{rule}fn main({PARAMETERS}) -> f64 = f(x) + sum(p) * sum(q)\n", 0)
    assert found is not None and found.where == "forward mode in ad"
