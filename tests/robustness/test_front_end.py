"""No text makes the front end raise, hang, or say the same thing again and again."""

from __future__ import annotations

import random

import pytest

from dlang.diagnostics import Source, render
from dlang.driver import check
from tests.robustness.programs import ODD, TEXTS, large, mutation, nested, scramble


@pytest.mark.parametrize(("name", "text"), [*nested(10_000), *large()], ids=lambda x: x if len(x) < 40 else "")
def test_what_is_enormous_is_checked_or_refused(name: str, text: str) -> None:
    found = check(Source("huge.dl", text)).diagnostics
    assert all(len(line) < 400 for d in found[:3] for line in render(d).splitlines() if " | " in line)


@pytest.mark.parametrize("text", ODD)
def test_odd_characters_are_checked_or_refused(text: str) -> None:
    for d in check(Source("odd.dl", text)).diagnostics:
        assert render(d)


def test_one_wrong_token_gives_few_messages() -> None:
    counts = []
    for seed in range(60):
        rng = random.Random(seed)
        _, text = rng.choice(sorted(TEXTS.items()))
        counts.append(len(check(Source("mutation.dl", mutation(text, rng))).diagnostics))
    assert sum(counts) / len(counts) <= 3 and max(counts) <= 40  # a builtin whose name is taken is used often


@pytest.mark.parametrize("seed", range(40))
def test_scrambled_programs_are_checked_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    _, text = rng.choice(sorted(TEXTS.items()))
    for d in check(Source("scrambled.dl", scramble(text, rng))).diagnostics:
        assert render(d)
