"""Code for the levels of x86-64 below this processor does what code for the processor does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlang.codegen.llvm import objects
from dlang.codegen.llvm.objects import LEVELS
from dlang.host.platform.machine import lacking

PROGRAMS = Path(__file__).parents[1] / "programs"
REACHED = [name for name, level in LEVELS.items() if lacking(level.needs) is None]


@pytest.mark.parametrize("program", ["arrays.dl", "rests.dl"])
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
def test_the_tests_of_a_program_pass_at_each_level(level: str, program: str) -> None:
    if level not in REACHED[:-1] or LEVELS[level].bits == objects.vector_bits():
        pytest.skip("the processor here has no more than this level, or does not reach it")
    environment = {**os.environ, "DLANG_CPU": level}
    command = [sys.executable, "-m", "dlang.tools.dlc", "test", str(PROGRAMS / program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
