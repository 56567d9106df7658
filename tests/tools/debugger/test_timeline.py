"""Forward and back a run is the same, whatever was kept of it."""

import io
from pathlib import Path

import pytest

from dlang.diagnostics import Source
from dlang.driver import Request, call, check, load, lower
from dlang.host.effects import Host
from dlang.tools.debugger.debugger import debugger_of
from dlang.tools.debugger.timeline import Timeline, Why
from tests.tools.debugger.stepping import Talk, backward, forward, snapshot

PROGRAMS = Path(__file__).parents[3] / "tests/programs"
LOOP = """
fn main() {
  var x = zeros(50)
  for i in 0..40 {
    let t = f64(i) * 0.5
    x[i] = t
    x[i + 1] += x[i] * 2.0
  }
  print("{sum(x)}")
}
"""


def cases_of(name):
    source = Source(str(PROGRAMS / name), (PROGRAMS / name).read_text())
    checked = check(source)
    return [pytest.param(checked, source, t, id=f"{name}:{t.name}") for t in checked.module.tests]


SOME = ("basics.dl", "enums.dl", "leaving.dl", "gradients/functions.dl")
OTHERS = tuple(sorted({str(p.relative_to(PROGRAMS)) for p in PROGRAMS.rglob("*.dl")} - {*SOME, "foreign.dl"}))


def goes_back_as_it_came(checked, source, test, most):
    d = debugger_of(checked, test, source, host=Host(io.StringIO()))
    there, why = forward(d, most)
    assert there and why in (Why.END, Why.STEP)
    assert backward(d) == (there[::-1] if why is Why.END else there[-2::-1])


@pytest.mark.parametrize("checked, source, test", [case for name in SOME for case in cases_of(name)])
def test_back_from_the_end_everything_is_as_it_was(checked, source, test):
    goes_back_as_it_came(checked, source, test, 120)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_back_from_the_end_of_every_program(name):
    for checked, source, test in (case.values for case in cases_of(name)):
        goes_back_as_it_came(checked, source, test, 60)


def test_what_is_kept_of_the_past_makes_no_difference():
    """With a state for every few operations, with two in all, and in a run of its own for each moment."""
    reference, why = forward(Talk(LOOP).debugger)
    assert why is Why.END and len(reference) > 120
    few = Talk(LOOP, memory=1).debugger
    few.root.timeline.between = 1
    there, _ = forward(few)
    assert there == reference and backward(few)[::-1][1:] == reference
    assert len(few.root.timeline.kept) <= 3
    for k in (1, 17, 60, len(reference)):
        fresh = Talk(LOOP).debugger
        assert fresh.goto(k) is Why.STEP
        assert snapshot(fresh) == reference[k - 1]


def test_states_share_no_array_that_is_changed_in_place():
    talk = Talk(LOOP)
    talk("goto 60")
    before = talk("print x")
    talk("continue")
    talk("goto 60")
    assert talk("print x") == before
    assert "iteration 19" in talk("goto 60")


def test_effects_happen_once():
    talk = Talk('fn main() {\n  print("one")\n  print("two")\n}')
    talk("continue")
    talk("rcontinue")
    talk("continue")
    assert talk.out.getvalue() == "one\ntwo\n"


def test_random_numbers_are_those_of_a_run():
    text = 'import random\nfn main() {\n  let x = random.normal() + 0.0\n  print("{x}")\n}'
    checked = check(Source("p.dl", text))
    out = io.StringIO()
    program, entries = lower([Request(checked.module.functions["main"])])
    call(load(program, entries, "interp", Host(out)), entries[0], seed=7)
    talk = Talk(text, seed=7)
    talk("next")
    assert talk("print x").split(" = ")[1] == out.getvalue().strip()


def test_memory_is_bounded():
    text = 'fn main() {\n  var x = zeros(1000)\n  for i in 0..3000 { x = x + 1.0 }\n  print("{x[0]}")\n}'
    d = Talk(text, memory=1 << 20).debugger
    d.root.timeline.between = 50
    assert d.go_on() is Why.END
    timeline = d.root.timeline
    assert sum(timeline.sizes) <= 1 << 20 and timeline.between > 50
    assert d.goto(1500) is Why.STEP
    assert d.value("x[0]") == "1498.0"


def test_who_goes_back_step_by_step_has_little_run_again(monkeypatch):
    text = 'fn main() {\n  var x = 0.0\n  for i in 0..2000 {\n    x = x + 1.0\n    x = x * 0.5\n  }\n  print("{x}")\n}'
    d = Talk(text).debugger
    assert d.goto(3000) is Why.STEP
    again, ran = Timeline.again, []

    def counted(self, s, *rest):
        before = s.steps
        again(self, s, *rest)
        ran.append(s.steps - before)

    monkeypatch.setattr(Timeline, "again", counted)
    for k in range(300):
        assert d.step(False) is Why.STEP
        assert d.value("i") == str((2997 - k) // 2)
    assert sum(ran) < 300 * 100
