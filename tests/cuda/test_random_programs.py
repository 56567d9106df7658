"""Random programs whose loops are kernels give what the interpreter gives, also at sizes of several warps."""

from __future__ import annotations

from random import Random

import pytest

from dlang.host.effects import Host
from dlang.runtime.emulation.driver import EmulatedDriver
from dlang.runtime.engine import Engine
from tests.fuzz import compare
from tests.fuzz.compare import disagreement
from tests.fuzz.programs import differentiable, program
from tests.fuzz.threads import gradient_of

PROGRAMS = 60
SIZES = ((2, 2), (37, 70))


@pytest.fixture(autouse=True)
def larger_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "SIZES", SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_random_program_is_what_the_interpreter_makes_of_it(seed: int) -> None:
    assert disagreement(program(Random(seed)), Engine(Host(), driver=EmulatedDriver())) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_so_is_the_gradient_of_one(seed: int) -> None:
    text = gradient_of(differentiable(Random(seed)))
    assert disagreement(text, Engine(Host(), driver=EmulatedDriver())) is None
