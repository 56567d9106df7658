"""The text of the loop IR: it is read back, by the compiler too, and passes make one text of another.

`passes/NAME.loops` has pairs for the pass NAME (`tests/pairs.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import dlang
from dlang.codegen import loops
from dlang.codegen.llvm import modules
from dlang.codegen.printing import print_program
from dlang.codegen.reading import UNREAD, read_program, starts
from dlang.codegen.schedule import LOOP_PASSES, Target, run_loop_passes
from dlang.codegen.verify import verify_loops
from dlang.diagnostics import DlangError, Source, Span
from dlang.driver import Request, check, errors_of, lower, read_source
from dlang.dump_ir import nests_of, open_variable, request
from dlang.ir.errors import IRError
from dlang.ops.figures import GRAIN
from dlang.ops.primitives import PRIMITIVES
from tests.pairs import check_file, pairs_in

Dlc = Callable[..., tuple[int, str, str]]
Write = Callable[..., str]

ROOT = Path(__file__).parents[2]
QUICK = ("examples/fit.dl", "tests/programs/triangles.dl", "tests/typecheck/schemes/data.dl")
PROGRAMS = sorted(
    str(file.relative_to(ROOT)) for folder in ("tests", "examples") for file in (ROOT / folder).rglob("*.dl")
)
REFUSED = ("twice",)  # of effects.dl, which alone can't be compiled: what draws is its parameter (E0690)
FOLDER = Path(__file__).with_name("passes")
FILES = pairs_in(FOLDER, "loops")


def requests(path: Path) -> Iterator[Request]:
    """The functions of a file that have code of their own."""
    checked = check(read_source(str(path)))
    for decl in () if errors_of(checked) else checked.module.functions.values():
        if open_variable(decl) is None and decl.name not in REFUSED:
            with suppress(DlangError):
                yield request(decl)


@pytest.mark.parametrize("path", [pytest.param(p, marks=[] if p in QUICK else pytest.mark.slow) for p in PROGRAMS])
def test_the_loops_of_a_program_are_read_back(path: str) -> None:
    program, entries = lower(list(requests(ROOT / path)))
    text = print_program(nests_of(program, [e.name for e in entries]))
    again = verify_loops(read_program(text))
    assert print_program(again) == re.sub(r"^ *# .*\n|  # \S+:\d+:\d+$", "", text, flags=re.MULTILINE)


EXAMPLE = """
import linalg { solve }
fn layer(w: f64[k, m], x: f64[n, k], b: f64[m]) -> f64[n, m] = maximum(0.0, x @ w + b)
fn slope(w: f64[k, m], x: f64[n, k], b: f64[m]) -> f64[k, m] = grad(|w: f64[k, m]| sum(tanh(layer(w, x, b))))(w)
fn rows(x: f64[n, m]) -> f64[n] = [sum(cumsum(sin(x[i]))) for i < n]
fn largest(x: f64[n]) -> (f64, i64) = (max(x), argmax(x))
fn solved(a: f64[n, n], b: f64[n]) -> f64[n] = solve(a, b)
fn checked(x: f64[n], i: i64) -> f64 = x[i]
fn words(x: f64[n]) -> str = "{x}, {sum(x)}"
"""


def test_code_of_loops_that_were_read_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    w, x, b = rng.normal(size=(40, 30)), rng.normal(size=(50, 40)), rng.normal(size=30)
    a, v = rng.normal(size=(30, 30)), rng.normal(size=30)
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("layer", (w, x, b)), ("slope", (w, x, b)), ("rows", (x,)), ("largest", (v,)), ("solved", (a, v)),
        ("checked", (v, 7)), ("words", (v[:3],)),
    ]  # fmt: skip
    usual = dlang.compile(EXAMPLE)
    expected = [getattr(usual, name)(*args) for name, args in calls]
    read: list[loops.Program] = []

    def emitted(nests: loops.Program, *args: Any) -> modules.Text:
        read.append(read_program(print_program(nests)))
        return emit(read[-1], *args)

    emit = modules.emit
    monkeypatch.setattr(modules, "emit", emitted)
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")
    again = dlang.compile(EXAMPLE + "\nfn other() -> f64 = 1.0\n")  # which no cache has
    for (name, args), one in zip(calls, expected, strict=True):
        for p, q in zip(
            *(r if isinstance(r, tuple) else (r,) for r in (one, getattr(again, name)(*args))), strict=True
        ):
            np.testing.assert_array_equal(p, q)
    with pytest.raises(DlangError, match="E0801"):
        again.checked(v, 30)
    assert read


def test_statements_begin_in_different_ways() -> None:
    listed = starts()
    assert {start.cls for start in listed.values()} == {*get_args(loops.Stmt)} - {*UNREAD}
    assert not {word for _, word in listed} & {*PRIMITIVES}


FILLED = """\
fn f(n.0: i64, &x.1: f64[n.0]) -> (&y.2: f64[n.0]) order (out 0) {
  loop i.3 in 0..n.0 by 8, tail 4 {
    t.4: f64 = &x.1[i.3]
    u.5: f64 = sin(t.4)
    &y.2[i.3] = u.5
  } gives (s.6: f64 sum= u.5) disjoint (&y.2)
  s.7: f64 = if true, rarely {
    k.8: i64 = 1/2*n.0*n.0 - 1/2*n.0
    yield s.6
  } else {
    yield -0.5
  }
  &y.2[0] sum= s.7
}
"""


def test_a_text_is_that_of_what_was_read() -> None:
    program = verify_loops(read_program(FILLED))
    assert print_program(program) == FILLED
    loop = program.functions["f"].body.stmts[0]
    assert isinstance(loop, loops.Loop) and (loop.lanes, loop.tail, len(loop.reductions)) == (8, 4, 1)


def test_a_place_in_a_source_is_a_comment() -> None:
    """As code has it that measures itself, or checks its accesses."""
    source = Source("f.dl", "fn f(x: f64[n]) -> f64[n] = sin(x)")
    program = read_program(FILLED)
    f = program.functions["f"]
    body = replace(f.body, stmts=(loops.At(Span(source, 28, 34)), *f.body.stmts))
    text = print_program(loops.Program({"f": replace(f, body=body)}))
    assert text == FILLED.replace("  loop", "  # f.dl:1:29\n  loop")
    assert print_program(read_program(text)) == FILLED


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("= sin(", "= sinn(", "line 4: expected a statement, found sinn"),
        ("= &x.1[i.3]", "= &x.9[i.3]", "line 3: expected a variable in scope, found &x.9"),
        ("by 8", "by n.0", "line 2: expected a number, found n.0"),
        ("order (out 0)", "", "line 1: expected 'order'"),
        ("order (out 0)", "order (in 0)", "expected `out`, `result` or `_`"),
        ("u.5: f64 = sin", "sin", "line 4: expected a statement, found sin"),
        ("u.5: f64 = sin(t.4)", "u.5: f64, v.9: f64 = sin(t.4)", "expected a statement with several results"),
        ("k.8: i64 = ", "launch kernel 0, 8 iterations ()", "line 8: expected a statement, found launch"),
    ],
)
def test_a_text_that_is_no_program_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    with pytest.raises(IRError, match=re.escape(message)):
        read_program(FILLED.replace(old, new))


# ---- passes ----------------------------------------------------------------------------------------------------------
def after(name: str, text: str) -> str:
    """The text of a program after a pass."""
    (p,) = [p for p in LOOP_PASSES if p.name == name]
    return print_program(run_loop_passes(verify_loops(read_program(text)), [p], Target(GRAIN)))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_whole_and_named_after_a_pass(name: str) -> None:
    check_file(FOLDER / f"{name}.loops", FILES[name], after)


@pytest.mark.parametrize(
    ("name", "before", "wanted"),
    [pytest.param(n, *pair[1:], id=f"{n}: {pair[0]}") for n, pairs in FILES.items() for pair in pairs],
)
def test_a_pass_makes_one_text_of_another(name: str, before: str, wanted: str) -> None:
    assert after(name, before) == wanted


def test_passes_of_the_loop_ir_run_on_what_a_stage_prints(write: Write, dlc: Dlc) -> None:
    file = write("fn f(x: f64[n, m]) -> f64[n] = [sum(cumsum(sin(x[i]))) for i < n]")
    _, whole, _ = dlc("ir", file, "--after", "profile")
    _, stage, _ = dlc("ir", file, "--stage", "loops")
    code, out, _ = dlc("opt", write(whole, "f.loops"), "--passes", "pieces,scratch")
    assert code == 0 and out.strip() == re.sub(r"  # \S+$", "", stage, flags=re.MULTILINE).strip()
    _, placed, _ = dlc("opt", write(whole, "f.loops"), "--passes", "expansion,kernels")
    assert "launch kernel 0" in placed
    code, llvm, _ = dlc("opt", write(stage, "f.loops"), "--llvm")
    assert code == 0 and "define " in llvm


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (FILLED.replace("= sin(", "= sinn("), [], "error[E0949]: this is no program of the IR: expected a statement"),
        (FILLED.replace("t.4: f64", "t.4: f32"), [], "error[E0949]: `f.loops` is no well-formed program: "),
        (FILLED, ["--entry", "h"], "error[E0949]: `f.loops` has no function `h`"),
    ],
)
def test_a_text_that_is_no_program_is_an_error(
    write: Write, dlc: Dlc, text: str, options: list[str], said: str
) -> None:
    code, out, err = dlc("opt", write(text, "f.loops"), "--passes", "pieces", *options)
    assert (code, out) == (1, "") and err.startswith(said)
    assert "`h`" in said or "`dlc ir FILE --stage loops`" in err


def test_passes_of_several_irs_are_refused(write: Write, dlc: Dlc) -> None:
    code, _, err = dlc("opt", "f.loops", "--passes", "pieces,kernels")
    assert code == 2 and err.strip().endswith("`kernels` is a pass of the loop IR for a device")
    code, _, err = dlc("opt", "f.ir", "--passes", "cse", "--llvm")
    assert code == 2 and err.strip().endswith("--llvm: only with passes of the loop IR")
