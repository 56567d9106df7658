"""The passes of the loop IR: their contracts and order, and that they give back what they do not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dlang.codegen import loops, schedule as scheduling
from dlang.codegen.cuda.placement import DEVICE_PASSES, device_steps
from dlang.codegen.loops import Body
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import LOOP_PASSES, SCHEDULED, LoopPass, loop_steps, schedule
from dlang.codegen.vectorize import Lanes
from dlang.dump_ir import passes
from dlang.ir import anf
from dlang.ir.errors import IRError
from dlang.passes import Form, same_functions, unmet
from dlang.pipeline import optimise
from tests.specialize.support import lowered

ROWS = "fn main(x: f64[n, m]) -> f64[n] = [sum(cumsum(sin(x[i]))) for i < n]"
SCALARS = "fn main(x: f64) -> f64 = sin(x) * x"


def program(text: str) -> anf.Program:
    made = lowered(text, "main")
    return optimise(made.program, [made.entry.name])


def test_each_pass_comes_after_those_that_give_what_it_needs() -> None:
    assert unmet(LOOP_PASSES, SCHEDULED) == unmet(DEVICE_PASSES, SCHEDULED) == []
    assert unmet(LOOP_PASSES[::-1], SCHEDULED) == [
        "predicate needs in pieces",
        "scratch needs in pieces",
        "lane_sums needs whole loops",
        "profile needs whole loops",
    ]
    assert unmet([*LOOP_PASSES, *DEVICE_PASSES], SCHEDULED)[0] == "exact_sums needs whole loops"
    assert unmet(LOOP_PASSES) == [f"{name} needs whole loops" for name in ("profile", "lane_sums", "pieces")]


def test_a_pass_of_one_name_is_one_pass() -> None:
    every: Sequence[str] = [p.name for p in (*LOOP_PASSES, *DEVICE_PASSES)]
    assert len(set(every)) == len(every) and set(every) <= set(passes())


def test_steps_say_which_forms_the_loops_have() -> None:
    steps = list(loop_steps(program(ROWS), Lanes(256), grain=1000))
    assert [s.name for s in steps] == ["schedule", "profile", "lane_sums", "pieces", "scratch", "predicate"]
    assert Form.WHOLE in steps[2].forms and Form.WHOLE not in steps[3].forms and Form.SCRATCH in steps[4].forms
    texts = [print_program(s.program) for s in steps]
    assert texts[0] == texts[2] and "parallel" in texts[3] and "scratch" not in texts[3] and "scratch" in texts[4]
    placed = list(device_steps(program(ROWS), deterministic=True))
    assert [s.name for s in placed] == ["schedule", "exact_sums", "expansion", "kernels"]
    same = same_functions(placed[0].program, placed[1].program)  # then it ends no form
    assert (Form.ONCE in placed[2].forms) == same and {Form.ONCE, Form.KERNELS} <= placed[3].forms


def test_passes_give_back_the_functions_that_they_do_not_change() -> None:
    first, *rest = loop_steps(program(SCALARS), Lanes(256), grain=1000)
    assert all(same_functions(first.program, step.program) for step in rest)
    whole = list(loop_steps(program(ROWS), Lanes(256)))
    assert same_functions(whole[0].program, whole[3].program)
    assert not same_functions(whole[3].program, whole[4].program)
    small = program("fn main(x: f64[3, m]) -> f64[3] = [sum(cumsum(sin(x[i, ..3]))) for i < 3]")
    first, *rest = loop_steps(small, Lanes(256), grain=1 << 40)
    assert same_functions(first.program, rest[1].program)
    assert print_program(rest[2].program) == print_program(first.program)  # but for what was decided


def losing(program: loops.Program, to: scheduling.Target) -> loops.Program:
    """A pass that loses the first statement of each function."""
    bodies = {n: Body(f.body.stmts[1:], f.body.results) for n, f in program.functions.items()}
    return replace(program, functions={n: replace(f, body=bodies[n]) for n, f in program.functions.items()})


def test_loops_that_a_pass_has_broken_are_refused_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[LoopPass] = [replace(p, function=losing) if p.name == "pieces" else p for p in LOOP_PASSES]
    monkeypatch.setattr(scheduling, "LOOP_PASSES", tuple(broken))
    with pytest.raises(IRError, match=r"the pass `pieces` made an ill-formed program: in .* is not in scope"):
        schedule(program(SCALARS))
