"""`dlc ir --after` and `--changed`, `dlc opt`, and `dlc bisect`: the passes of the optimiser, one at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from dlang.dump_ir import passes
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Block, Let, Prim, Program
from dlang.ir.printer import print_program
from dlang.ir.reader import read_program
from dlang.ir.traverse import map_bodies
from dlang.pipeline import NAMED, PASSES, CoreTarget, optimise, run_passes
from dlang.tools.bisect import CoreTrace, alike, bisect, first_change
from tests.specialize.support import lowered

Dlc = Callable[..., tuple[int, str, str]]
Write = Callable[..., str]

LOSS = "fn loss(w: f64[m], x: f64[n, m], y: f64[n]) -> f64 = sum((x @ w - y) ** 2)\nfn g(x: f64) -> f64 = x * 1.0\n"


# ---- dlc ir ----------------------------------------------------------------------------------------------------------
def test_the_program_after_a_pass_is_shown(write: Write, dlc: Dlc) -> None:
    file = write(LOSS)
    _, products, _ = dlc("ir", file, "--fn", "loss", "--after", "contractions", "--verify")
    _, before, _ = dlc("ir", file, "--fn", "loss", "--after", "symmetry")
    assert "contract x" in products and "contract" not in before
    _, first, _ = dlc("ir", file, "--fn", "loss", "--after", "simplify")
    _, last, _ = dlc("ir", file, "--fn", "loss", "--after", "simplify:3")
    assert first != last and read_program(last).functions


def test_a_pass_that_does_not_run_so_often_is_an_error(write: Write, dlc: Dlc) -> None:
    code, out, err = dlc("ir", write(LOSS), "--after", "hoist:9")
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == "error[E0950]: the pass `hoist` runs 3 times here"
    _, _, err = dlc("ir", write(LOSS), "--after", "cofactors")
    assert err.splitlines()[0] == "error[E0950]: the pass `cofactors` does not run here"


def test_passes_of_the_loop_ir_come_behind_those_of_the_core_ir(write: Write, dlc: Dlc) -> None:
    file = write("fn f(x: f64[n, m]) -> f64[n] = [sum(cumsum(sin(x[i]))) for i < n]")
    _, cut, _ = dlc("ir", file, "--after", "pieces")
    _, last, _ = dlc("ir", file, "--after", "scratch")
    _, stage, _ = dlc("ir", file, "--stage", "loops")
    assert "parallel" in cut and ", scratch " not in cut and ", scratch " in last
    assert re.sub(r"\.\d+", "", last) == re.sub(r"\.\d+", "", stage)
    _, kernels, _ = dlc("ir", file, "--after", "kernels")
    assert "launch kernel 0" in kernels and ", scratch " not in kernels
    _, changed, _ = dlc("ir", file, "--changed")
    parts = re.findall(r"# ---- (.*)", changed)
    assert parts[-2:] == ["pieces:1", "scratch:1"] and "schedule:1" not in parts
    assert "-      &t" in changed and ", scratch (&a" in changed.split("# ---- scratch:1")[1]
    code, _, err = dlc("opt", "f.ir", "--passes", "cse,pieces")
    assert code == 2 and err.strip().endswith("`cse` is a pass of the core IR, `pieces` is a pass of the loop IR")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--after", "hoits"], "--after: there is no pass `hoits`; did you mean `hoist`?"),
        (["--after", "nothing at all"], "there is no pass `nothing at all`; `dlc opt --list` lists them"),
        (["--after", "cse:x"], "--after: `cse:x` is no pass and number, such as `simplify:2`"),
        (["--changed", "--stage", "opt"], "--stage: not together with --changed"),
        ([], "expected --stage, --after or --changed"),
    ],
)
def test_wrong_options_are_told_what_is_expected(write: Write, dlc: Dlc, options: list[str], said: str) -> None:
    code, _, err = dlc("ir", write(LOSS), *options)
    assert code == 2 and err.strip().endswith(said)


def test_what_each_pass_changes_is_a_diff_with_one_name_for_a_variable(write: Write, dlc: Dlc) -> None:
    code, out, _ = dlc("ir", write("fn g(x: f64) -> f64 = sin(x * 1.0) * x\n"), "--fn", "g", "--changed")
    assert code == 0
    parts = dict(part.split("\n", 1) for part in out.split("# ---- ")[1:])
    assert [
        line for line in parts["simplify:1"].splitlines() if line[0] in "+-" and line[:3] not in ("+++", "---")
    ] == [line for line in parts["simplify:1"].splitlines() if "mul(x.0, 1.0)" in line or "sin(" in line]


# ---- dlc opt ---------------------------------------------------------------------------------------------------------
TEXT = """
fn f(x.0: f64) -> (t.1: f64) {
  a.2: f64 = add(x.0, 1.0)
  b.3: f64 = add(x.0, 1.0)
  unused.4: f64 = sin(x.0)
  t.5: f64 = mul(a.2, b.3)
  yield t.5
}
"""


def test_passes_run_on_a_text_in_the_order_that_is_given(write: Write, dlc: Dlc) -> None:
    file = write(TEXT, "f.ir")
    code, out, _ = dlc("opt", file, "--passes", "cse,dce")
    assert code == 0
    assert out.strip() == (
        "fn f(x.0: f64) -> (t.1: f64) {\n  a.2: f64 = add(x.0, 1.0)\n  t.3: f64 = mul(a.2, a.2)\n  yield t.3\n}"
    )
    _, once, _ = dlc("opt", file, "--passes", "cse")
    assert "sin(x.0)" in once


@pytest.mark.parametrize("text", [LOSS, "fn loss(x: f64[n]) -> f64[n] = grad(|x: f64[n]| sum(exp(x) * x))(x)\n"])
def test_what_a_stage_prints_is_what_the_passes_go_on_with(text: str) -> None:
    made = lowered(text, "loss")
    again = read_program(print_program(made.program))
    passes = [NAMED[name] for name in ("inline", "simplify", "derivatives", "distribute", "dce")]
    for p in (made.program, again):
        assert "call" not in print_program(run_passes(p, [made.entry.name], passes[:1])) or "vjp" in print_program(p)
    one, other = (print_program(run_passes(p, [made.entry.name], passes)) for p in (made.program, again))
    assert re.sub(r"  #.*", "", one) == other


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (TEXT.replace("b.3)", "c.9)"), [], "error[E0949]: this is no program of the IR: expected a variable in scope"),
        ("fn f(", [], "error[E0949]: this is no program of the IR: expected "),
        ("fn f() -> () { ? }", [], "error[E0949]: this is no program of the IR: '?' starts nothing"),
        (TEXT.replace("a.2: f64", "a.2: i64"), [], "error[E0949]: `f.ir` is no well-formed program: "),
        (TEXT, ["--entry", "h"], "error[E0949]: `f.ir` has no function `h`"),
    ],
)
def test_a_text_that_is_no_program_is_an_error(
    write: Write, dlc: Dlc, text: str, options: list[str], said: str
) -> None:
    code, out, err = dlc("opt", write(text, "f.ir"), "--passes", "cse", *options)
    assert (code, out) == (1, "") and err.startswith(said)


def test_the_list_has_all_passes_with_a_purpose_each(dlc: Dlc) -> None:
    _, out, _ = dlc("opt", "--list")
    rows = out.splitlines()[1:]
    assert {row.split()[0] for row in rows} == set(passes())
    assert len({row.split("  ")[-1] for row in rows}) == len(rows)
    code, _, err = dlc("opt", "f.ir")
    assert code == 2 and err.strip().endswith("expected FILE and --passes, or --list")


# ---- dlc bisect ------------------------------------------------------------------------------------------------------
def negated(program: Program, to: CoreTarget) -> Program:
    """A pass that is wrong: it makes sums of differences."""

    def changed(let: Let) -> Let:
        match let.op:
            case Prim("sub", args):
                return replace(let, op=Prim("add", args))
        return let

    return map_bodies(program, lambda body: Block(tuple(map(changed, body.lets)), body.results))


def test_a_pass_that_changes_the_meaning_is_found() -> None:
    made = lowered("fn f(x: f64, y: f64) -> f64 = sin(x - y) * x", "f")
    wrong = [replace(p, function=negated) if p.name == "unroll" else p for p in PASSES]
    trace: CoreTrace = []
    optimise(
        made.program, [made.entry.name], verify=True, observe=lambda step, p: trace.append((step, p)), passes=wrong
    )

    def run(program: Program) -> list[tuple[str, object]]:
        return [("f64", v) for v in Interpreter(program).run(made.entry.name, [2.0, 0.5])]

    found = first_change(trace, run)
    assert found is not None and found.step == "unroll:1"
    assert not isinstance(found.after, str) and found.after[0][1] != found.before[0][1]


@pytest.mark.parametrize("way", ["value", "gradient"])
def test_a_function_that_is_compiled_well_means_the_same_all_the_way(
    way: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisect(write(LOSS), "loss", "gradient" if way == "gradient" else "value", ["n=4"], 0, False) == 0
    assert "gives the same after all steps" in capsys.readouterr().out


def test_a_failure_is_compared_by_its_code(write: Write, dlc: Dlc) -> None:
    code, out, _ = dlc("bisect", write("fn f(x: f64[n], i: i64) -> f64 = x[i + 100]\n"), "--fn", "f")
    assert code == 0 and "gives the same" in out
    code, _, err = dlc("bisect", write("fn f(x: f64) -> f64 = x\n"), "--fn", "h")
    assert code == 1 and err.startswith("error[E0955]")


def test_half_of_the_digits_have_to_agree() -> None:
    assert alike([("f64", 1.0)], [("f64", 1.0 + 1e-10)])
    assert not alike([("f64", 1.0)], [("f64", 1.0 + 1e-6)])
    assert not alike([("i64", 1)], [("i64", 2)])
    assert alike([("f64", float("nan"))], [("f64", float("nan"))])
    assert not alike("E0801", [("f64", 1.0)])


def test_after_a_pass_that_is_exact_all_bits_have_to_agree() -> None:
    assert not alike([("f64", 1.0)], [("f64", 1.0 + 1e-10)], exact=True)
    assert alike([("f64", float("nan"))], [("f64", float("nan"))], exact=True)
    before, after = (read_program(TEXT.replace("1.0)", f"{one})")) for one in ("1.0", "1.0000000000000002"))
    for name, exact in (("cse", True), ("fuse", False)):
        found = first_change([("mono", before), (name, after)], lambda p: [("f64", Interpreter(p).run("f", [0.0])[0])])
        assert (found is not None) == exact


def test_every_pass_says_what_it_is_for() -> None:
    assert all(p.purpose and p.purpose[0].islower() and not p.purpose.endswith(".") for p in passes().values())
