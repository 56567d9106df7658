"""The decisions on loops and branches: `dlc ir --stage loops --why` prints them, and they say what the code does."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent

import pytest

from dlang.codegen import loops
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import Lanes
from dlang.driver import check, lower, read_source
from dlang.dump_ir import request
from dlang.ir.traverse import reachable
from dlang.ops.figures import GRAIN

PROGRAM = """
fn energy(x: f64[n]) -> f64 = sum(if v > 0.5 { exp(v) * v } else { v } for v in x)
fn few(x: f64[20]) -> f64[20] = x * x
fn turned(x: f64[n, m]) -> f64[m] = [sum(x[i, j] for i < n) for j < m]
fn sums(x: f64[n]) -> f64[n] {
  var y = x
  for i in 1..n { y[i] += y[i - 1] }
  y
}
fn logistic(x: f64, n: i64) -> f64 {
  var y = x
  for i < n { y = 3.2 * y * (1.0 - y) }
  y
}
fn power(x: f64, k: i64) -> f64 = if k == 0 or k < 0 { 1.0 } else { x * power(x, k - 1) }
fn powers(x: f64[n]) -> f64[n] = [power(v, 9) for v in x]
fn counts(k: size, at: i64[n]) -> f64[k] {
  var c = zeros(k)
  for i in at { if i >= 0 and i < k { c[i] += 1.0 } }
  c
}
fn product(x: f64[n, m], y: f64[m, k]) -> f64[n, k] = x @ y
fn windows(x: f64[n]) -> f64[n] = [x[maximum(i - 1, 0)] + x[minimum(i + 1, n - 1)] for i < n]
"""


@pytest.fixture(scope="module")
def nests(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], loops.Program]:
    file = tmp_path_factory.mktemp("decisions") / "program.dl"
    file.write_text(PROGRAM)
    functions = check(read_source(str(file))).module.functions

    def made(name: str) -> loops.Program:
        program, entries = lower([request(functions[name])])
        return schedule(reachable(program, [e.name for e in entries]), Lanes(512), GRAIN)

    return made


def decisions(program: loops.Program) -> str:
    """The decisions of a program, each above the head of what it is on."""
    lines = print_program(program, why=True).splitlines()
    kept = [
        line.strip().partition(" (")[0].removesuffix(" {") if not (line.strip().startswith("#")) else line.strip()
        for line, before in zip(lines[1:], lines, strict=False)
        if line.strip().startswith("# ") or before.strip().startswith("# ")
    ]
    return "\n".join(kept) + "\n"


EXPECTED = {
    "energy": """
        # selections: they take 31 additions, branches 8, and lanes gain 4 times
        # vectors of 8: 5 operations, 1 of them heavy, and 0 accesses that are not adjacent
        # threads: 2512*n.0 ps of work, in pieces of at least 40000000
        loop i.6 in first.4..last.5 by 8
        """,
    "few": """
        # vectors of 16: 2 operations, 0 of them heavy, and 0 accesses that are not adjacent
        # one thread: 14500 ps of work, less than two pieces of 40000000
        loop i.2 in 0..20 by 16, tail 8
        """,
    "turned": """
        # vectors of 16: 0 operations, 0 of them heavy, and 0 accesses that are not adjacent
        # threads: 400*n.1 ps of work, in pieces of at least 40000000
        loop i.8 in first.6..last.7 by 16, tail 8
        # one lane: 1 accesses are not adjacent here, 0 with the lanes of a loop inside
        # threads: 650*n.0*n.1 + 500*n.0 ps of work, in pieces of at least 16000*n.1 + 40000000
        loop i.14 in first.11..last.12
        # vectors of 16: 1 operations, 0 of them heavy, and 0 accesses that are not adjacent
        loop j.15 in 0..n.1 by 16, tail 8
        """,
    "powers": """
        # one lane: `Invoke` is done for one iteration at a time
        # one thread: `Invoke` has an order of its own
        loop i.3 in 0..n.0
        """,
    "logistic": """
        # in order: iterations carry x
        x.2: f64 = for i.3 in 0..n.1
        """,
    "counts": """
        # vectors of 16: 0 operations, 0 of them heavy, and 0 accesses that are not adjacent
        # threads: 400*n.1 ps of work, in pieces of at least 40000000
        loop i.9 in first.7..last.8 by 16, tail 8
        # in order: iterations go one after another
        for i.10 in 0..n.0
        # one path: 2 operations and 2 accesses of both arms, beside a jump that can't be foreseen
        if t.14, predicated
        """,
    "windows": """
        # ends split off: comparisons are decided between the first and the last iterations
        # vectors of 16: 3 operations, 0 of them heavy, and 0 accesses that are not adjacent
        # threads: 975*n.0 - 1950 ps of work, in pieces of at least 40000000
        loop i.14 in first.12..last.13 by 16, tail 8
        """,
}


@pytest.mark.parametrize(("name", "expected"), EXPECTED.items())
def test_decisions_are_printed_above_what_they_are_on(
    nests: Callable[[str], loops.Program], name: str, expected: str
) -> None:
    assert decisions(nests(name)) == dedent(expected).lstrip("\n")


Dlc = Callable[..., tuple[int, str, str]]
NAMES = re.findall(r"^fn (\w+)", PROGRAM, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_the_code_is_the_same_without_them(nests: Callable[[str], loops.Program], name: str) -> None:
    program = nests(name)
    explained = re.sub(r"^ *# .*\n", "", print_program(program, why=True), flags=re.MULTILINE)
    assert explained == print_program(program)


@pytest.mark.parametrize("name", NAMES)
def test_they_say_what_loops_do(nests: Callable[[str], loops.Program], name: str) -> None:
    stmts = [s for f in nests(name).functions.values() for s in walk(f.body.stmts)]
    pieces = [s for p in stmts if isinstance(p, loops.Parallel) for s in p.stmts]
    for loop in stmts:
        if isinstance(loop, loops.Loop):
            choices = [d.choice for d in loop.why]
            assert (loop.lanes > 1) == any(c.startswith(("vectors of", "tiles of")) for c in choices)
            assert ("threads" in choices) == any(loop is s for s in pieces)


def test_the_command_prints_them_and_what_derivatives_save(write: Callable[..., str], dlc: Dlc) -> None:
    file = write("fn f(x: f64[n]) -> f64 = sum(sin(x) * x)\nfn g(x: f64[n]) -> f64[n] = grad(f)(x)\n")
    code, out, err = dlc("ir", file, "--stage", "loops", "--fn", "g", "--why")
    assert (code, err) == (0, "") and "# vectors of " in out and "# the derivative of program.f(" in out
    assert "# vectors of" not in dlc("ir", file, "--stage", "loops", "--fn", "g")[1]
    code, _, err = dlc("ir", file, "--stage", "opt", "--why")
    assert code == 2 and "--why: only with --stage loops" in err
