"""Random programs, and derivatives of some, give in the debugger what they give as they are usually run."""

from random import Random

import numpy as np
import pytest

from dlang.diagnostics import Source
from dlang.driver import Request, check, errors_of, followed, lower
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import poly
from dlang.ir.values import release
from dlang.ir.verify import verify
from dlang.tools.debugger.code import Library, Places, Sources
from dlang.tools.debugger.machine import Machine
from dlang.tools.debugger.timeline import Timeline
from tests.fuzz.compare import alike, arguments
from tests.fuzz.programs import differentiable, program

SLOPE = """
fn slope(p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64) -> (f64[n], f64) =
  grad(main, wrt = (p, x))(p, q, m, x, j)
"""


def usually(request, args):
    lowered, (entry,) = lower([request])
    try:
        return [np.asarray(x) for x in Interpreter(lowered).run(entry.name, args)]
    except RunError as e:
        return e.code


def stepped(request, source, args):
    made, entry, names, *_ = followed(request)
    verify(made)
    sources = Sources((), {source.path: Places.of(source)})
    machine = Machine(Library(made, sources, names.table), Interpreter(made))
    timeline = Timeline(machine, machine.start(entry.name, args))
    while not timeline.ended:
        timeline.more()
    if timeline.failure is not None:
        return timeline.failure.code
    for k in {0, len(timeline) // 2, len(timeline) - 1} - {-1}:
        if len(timeline):
            assert timeline.moment(k).steps == timeline.log.steps[k]
    return [np.asarray(release(x)) for x in timeline.front.results]


def agrees(seed):
    derived = seed % 2 == 0
    source = Source("program.dl", differentiable(Random(seed)) + SLOPE if derived else program(Random(seed)))
    checked = check(source)
    assert not errors_of(checked)
    decl = checked.module.functions["slope" if derived else "main"]
    request = Request(decl, dict.fromkeys(decl.variables, poly(0)))
    args = [3, 2, *arguments(np.random.default_rng(1), 3, 2)]
    assert alike(usually(request, args), stepped(request, source, args))


@pytest.mark.parametrize("seed", range(12))
def test_a_random_program(seed):
    agrees(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 400))
def test_many_random_programs(seed):
    agrees(seed)
