"""The passes together: order, stages, and that a program comes out small."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from dlang import pipeline
from dlang.diagnostics import Source
from dlang.driver import check, lower, read_source
from dlang.dump_ir import request
from dlang.ir.anf import Array, Block, Call, Comp, Contract, Function, Jvp, Let, Program, Reduce, Vjp, poly
from dlang.ir.builder import Builder, f64
from dlang.ir.errors import IRError
from dlang.ir.printer import print_program
from dlang.ir.traverse import map_functions
from dlang.passes import Pass
from dlang.pipeline import (
    AFTER,
    DERIVATIVES,
    NORMAL,
    PASSES,
    PHASES,
    STAGES,
    CorePass,
    CoreTarget,
    normalise,
    optimise,
    unmet,
)
from dlang.tools.law import Way, prepared
from tests.optimize.programs import F64, I64, arguments, assert_same, count, programs, run


def test_every_pass_belongs_to_a_phase_and_ownership_is_last() -> None:
    assert list(dict.fromkeys(p.when for p in PASSES)) == list(PHASES)
    assert [p.name for p in PASSES[-2:]] == ["ownership", "remake"]  # which has no use for copies of some arrays
    assert [p.name for p in PASSES if p.name == "ownership"] == ["ownership"]


def test_each_pass_comes_after_those_that_give_what_it_needs() -> None:
    assert unmet() == []
    for p in PASSES:
        first = [p, *(q for q in PASSES if q is not p)]
        missing = p.needs
        assert not missing or any(f"{p.name} needs" in said for said in unmet([replace(p, when=NORMAL), *first[1:]]))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(p=programs())
def test_a_random_program_means_the_same_after_the_whole_pipeline(p: Program) -> None:
    after = optimise(p, ["f"], verify=True)
    for n, m in [(3, 2), (1, 1), (0, 2)]:
        with np.errstate(all="ignore"):
            assert_same(run(p, arguments(n, m)), run(after, arguments(n, m)), exact=False)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(p=programs())
def test_passes_give_back_the_functions_that_they_do_not_change(p: Program) -> None:
    normal = normalise(normalise(normalise(p, ["f"]), ["f"]), ["f"])
    again = {step.name: step.function(normal, CoreTarget(["f"])) for step in PASSES if step.when == NORMAL}
    for name, after in again.items():
        for function, before in normal.functions.items():
            if print_program(after) == print_program(normal):
                assert after.functions[function] is before, name


def least_squares() -> Program:
    """loss(n, m, a, x) = Σ (a·x)², its product called through a function, and f the gradient in x."""
    b = Builder()
    n, m = b.param("n", I64), b.param("m", I64)
    a, x = b.param("a", Array("f64", (poly(n), poly(m)))), b.param("x", Array("f64", (poly(m),)))
    (y,) = b.comp(
        [n, m], lambda i, j: b.mul(b.read(a, [i, j]), b.read(x, [j])), lambda i, j: [Reduce((poly(n),), (poly(i),))]
    )
    apply = b.function("apply", [y])
    b = Builder({"apply": apply})
    n, m = b.param("n", I64), b.param("m", I64)
    a, x = b.param("a", Array("f64", (poly(n), poly(m)))), b.param("x", Array("f64", (poly(m),)))
    (y,) = b.call("apply", n, m, a, x)
    loss = b.function("loss", [b.reduce([n], lambda i: b.mul(b.read(y, [i]), b.read(y, [i])))])
    functions = {"apply": apply, "loss": loss}
    b = Builder(functions)
    n, m = b.param("n", I64), b.param("m", I64)
    a, x = b.param("a", Array("f64", (poly(n), poly(m)))), b.param("x", Array("f64", (poly(m),)))
    _, xbar = b.vjp("loss", [n, m, a, x], [3], [f64(1.0)])
    return Program({**functions, "f": b.function("f", [xbar])})


def test_the_gradient_of_least_squares_is_two_products_and_one_function() -> None:
    after = optimise(least_squares(), ["f"], verify=True)
    assert list(after.functions) == ["f"]
    assert count(after, Vjp, Jvp, Call) == 0
    assert count(after, Contract) == 2, print_program(after)
    rng = np.random.default_rng(0)
    a, x = rng.normal(size=(4, 3)), rng.normal(size=3)
    assert_same(run(after, [4, 3, a, x]), [2 * a.T @ (a @ x)], exact=False)


def test_the_stages_are_observed_in_order_with_a_program_each() -> None:
    seen: list[tuple[str, Program]] = []
    last = optimise(least_squares(), ["f"], observe=lambda stage, p: seen.append((stage, p)))
    seen = [(stage, p) for stage, p in seen if stage in STAGES]
    assert tuple(stage for stage, _ in seen) == STAGES
    assert [count(p, Vjp) for _, p in seen] == [1, 1, 0, 0]
    assert seen[-1][1] is last
    assert count(seen[2][1], Contract) == 0 < count(last, Contract)


def test_normalising_twice_changes_nothing_more() -> None:
    once = normalise(least_squares(), ["f"])
    assert print_program(normalise(once, ["f"])) == print_program(once)


def test_a_second_derivative_comes_out_without_markers() -> None:
    b = Builder()
    x = b.param("x", F64)
    g = b.function("g", [b.prim("sin", b.mul(x, x))])
    b = Builder({"g": g})
    x = b.param("x", F64)
    dg = b.function("dg", [b.vjp("g", [x], [0], [f64(1.0)])[1]])
    b = Builder({"g": g, "dg": dg})
    x = b.param("x", F64)
    p = Program({"g": g, "dg": dg, "f": b.function("f", [b.vjp("dg", [x], [0], [f64(1.0)])[1]])})
    after = optimise(p, ["f"], verify=True)
    assert count(after, Vjp, Call, Comp) == 0
    t = 0.7
    wanted = 2 * np.cos(t * t) - 4 * t * t * np.sin(t * t)
    assert_same(run(after, [t]), [wanted], exact=False)


def test_functions_that_stay_as_they_are_get_their_normal_form_once() -> None:
    rounds: Counter[str] = Counter()

    def noted(function: Function) -> Function:
        rounds[function.name] += 1
        return function

    note: CorePass = Pass("note", lambda program, to: map_functions(program, noted), NORMAL, "notes what it is given")
    p = least_squares()
    b = Builder()
    apart = b.function("apart", [b.prim("sin", b.param("x", F64))])
    program = Program({**p.functions, "apart": apart})
    optimise(program, ["f", "apart"], passes=[*(q for q in PASSES if q.when in (NORMAL, DERIVATIVES)), note])
    assert rounds["apart"] == 1 < rounds["f"]


@pytest.mark.parametrize("name", ["root", "nested", "deep", "product", "eliminated"])
def test_a_normal_form_that_is_kept_is_the_one_that_would_be_made_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decl = check(read_source("tests/programs/gradients/control.dl")).module.functions[name]

    ways: tuple[Way, ...] = ("value", "gradient", "tangent")

    def ends() -> list[str]:
        seen: list[str] = []
        prepared(decl, ways, lambda stage, program: seen.append(print_program(program)) if stage in STAGES else None)
        return seen

    kept = ends()
    monkeypatch.setattr(pipeline, "_finished", lambda program: {})
    assert len(kept) == len(STAGES) and ends() == kept


def test_the_passes_import_neither_numpy_nor_llvmlite() -> None:
    code = "import sys, dlang.pipeline; sys.exit(bool({'numpy', 'llvmlite'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def breaking(program: Program, to: CoreTarget) -> Program:
    """A pass that loses what the first let of each function binds."""
    return Program({n: replace(f, body=Block(f.body.lets[1:], f.body.results)) for n, f in program.functions.items()})


@pytest.fixture
def with_a_broken_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [replace(p, function=breaking) if p.name == "hoist" and p.when == AFTER else p for p in PASSES]
    monkeypatch.setattr(pipeline, "PASSES", tuple(broken))


def test_a_program_that_a_pass_has_broken_is_refused_with_the_name_of_the_pass(with_a_broken_pass: None) -> None:
    reason = "the pass `hoist` made an ill-formed program: in f: .* is not in scope"
    with pytest.raises(IRError, match=reason):
        optimise(least_squares(), ["f"])
    with pytest.raises(IRError, match=reason):
        optimise(least_squares(), ["f"], verify=True)


def test_the_environment_says_whether_passes_are_verified(
    monkeypatch: pytest.MonkeyPatch, write: Callable[..., str], dlc: Callable[..., tuple[int, str, str]]
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(pipeline, "verify_program", lambda program, ownership, since: seen.append("verified"))
    for value, expected in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("DLANG_VERIFY", value)
        seen.clear()
        optimise(least_squares(), ["f"])
        assert bool(seen) is expected
    monkeypatch.delenv("DLANG_VERIFY")
    optimise(least_squares(), ["f"])
    assert not seen
    assert dlc("test", write('test "t" { assert 1 < 2 }'))[0] == 0
    assert seen and "DLANG_VERIFY" not in os.environ
    seen.clear()
    monkeypatch.setenv("DLANG_VERIFY", "0")
    assert dlc("test", "program.dl")[0] == 0 and not seen


def test_a_person_reads_which_pass_is_at_fault(
    with_a_broken_pass: None, write: Callable[..., str], dlc: Callable[..., tuple[int, str, str]]
) -> None:
    file = write('fn main(x: f64) { print("{sin(x)}") }\ntest "t" { main(2.0) }')
    said = "this is a bug in dlang, not in your program: IRError: the pass `hoist` made an ill-formed program: in "
    code, _, err = dlc("run", file, "--x", 1.0)
    assert code == 70 and said in err and "Traceback" not in err
    code, out, err = dlc("test", file)
    assert code == 70 and said in err and "FAILED" in out and "Traceback" not in err


SLOPE = """
fn f(x: f64[n]) -> f64 { var s = x; for i < 3 { s = sin(s) * x[i] }; if s[0] > 0.0 { sum(s) } else { prod(s) } }
fn slope(x: f64[n]) -> f64[n] = grad(f)(x)
"""


def test_what_a_program_was_on_the_way_is_freed_without_a_collection_of_garbage() -> None:
    checked = check(Source("f.dl", SLOPE))
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        lower([request(checked.module.functions["slope"])])
        gc.collect()
        assert not [x for x in gc.garbage if isinstance(x, Let | Block)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        if enabled:
            gc.enable()
