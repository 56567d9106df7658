"""Random programs, as they are and optimised, compiled and interpreted."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Program
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.codegen.test_programs import assert_same
from tests.ir.programs import programs

ENGINE = Engine(Host())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(programs())
def test_compiled_code_agrees_with_the_interpreter(program: Program) -> None:
    versions = [ENGINE.compile(p, ["f"]) for p in (program, optimise(program, ["f"]))]
    interpreter = Interpreter(program)
    rng = np.random.default_rng(3)
    for n in (1, 4, 9):
        args = [n, rng.standard_normal(n), rng.standard_normal((n, n))]
        wanted = interpreter.run("f", args)
        for compiled in versions:
            assert_same(compiled.run("f", args), wanted)
    assert all(context.in_use == 0 for context in ENGINE.contexts)
