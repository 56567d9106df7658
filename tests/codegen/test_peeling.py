"""Loops whose ends are apart: nothing is gathered between them, and no iteration is left out or done twice."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from dlang.codegen.loops import Branch, Compute, Loop, Program, Stmt
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import Lanes, survey
from dlang.diagnostics import Source
from dlang.driver import Request, check, errors_of, lower
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir import anf
from dlang.ir.anf import poly
from dlang.ir.types import dtype_of
from dlang.runtime.engine import Engine
from dlang.runtime.threads import Pool, new_pool

TINY = 2_000  # picoseconds: every loop of a few iterations is in pieces
ASKS = ("maximum", "minimum", "select", "lt", "ge")

PERIODIC = "[x[i] + 0.5 * (x[(i + 1) % n] - x[(i + n - 1) % n]) for i < n]"
CLIPPED = "[x[clip(i + 1, 0, n - 1)] - 2.0 * x[i] + x[clip(i - 1, 0, n - 1)] for i < n]"
FAR = "[x[clip(i + 3, 0, n - 1)] * x[maximum(i - 7, 0)] - x[(i - 2) % n] for i < n]"
CHOSEN = "[if i > 0 { x[i] - x[maximum(i - 1, 0)] } else { 3.0 * x[i] } for i < n]"
TURNED = "[x[n - 1 - minimum(i + 2, n - 1)] * f64(n - i) for i < n]"
ONE_END = "[x[minimum(i + 1, n - 1)] for i < n]"
BORDER = "[if i == 0 or i == n - 1 { x[i] } else { x[i - 1] + x[i + 1] - 0.5 * x[i] } for i < n]"
WHERE = "[where(i != 2 and i < n - 3, x[i], -x[n - 1 - i]) + x[minimum(i, 1)] for i < n]"
UNLESS = "[if not (i >= 1) { 1.0 } else { if i + 1 == n { 2.0 } else { x[i - 1] * x[i + 1] } } for i < n]"
IN_PLACES = {
    "border": BORDER,
    "where": WHERE,
    "unless": UNLESS,
    "periodic": PERIODIC,
    "clipped": CLIPPED,
    "far": FAR,
    "chosen": CHOSEN,
    "turned": TURNED,
    "one end": ONE_END,
}
TEXTS = {name: f"fn main(x: f64[n]) -> f64[n] = {body}" for name, body in IN_PLACES.items()}
TEXTS["single precision"] = f"fn main(x: f32[n]) -> f32[n] = {CLIPPED.replace('2.0', 'f32(2.0)')}"
TEXTS["integers"] = f"fn main(x: i32[n]) -> i32[n] = {CLIPPED.replace('2.0', 'i32(2)')}"
TEXTS["a sum"] = "fn main(x: f64[n]) -> f64 = sum(x[clip(i + 1, 0, n - 1)] * x[maximum(i - 2, 0)] for i < n)"
TEXTS["a sum in two loops"] = """fn main(x: f64[n]) -> f64 {
  let c = n % 3 == 1
  sum(if c { x[i] } else { x[n - 1 - i] * x[i] } for i < n)
}"""
TEXTS["a gradient"] = f"""fn each(x: f64[n]) -> f64[n] = {CLIPPED}
fn main(x: f64[n]) -> f64[n] = grad(|y: f64[n]| sum(each(y) ** 2))(x)"""
CELL = """fn main(x: f64[n, m], c: bool) -> f64[n, m] = [
  if i == 0 or j == 0 or i == n - 1 or j == m - 1 { x[i, j] }
  else if c { x[i - 1, j] + x[i + 1, j] * x[i, j - 1] - x[i, j + 1] }
  else { 0.5 * (x[i - 1, j - 1] + x[i + 1, j + 1]) }
  for i < n, j < m]"""
INSIDE = """fn main(x: f64[n, m], c: bool) -> f64[n, m] = [
  x[clip(i, 1, n - 2) - 1, clip(j, 1, m - 2)] + x[clip(i, 1, n - 2), clip(j, 1, m - 2) + 1]
  for i < n, j < m]"""
PLANE = """fn main(x: f64[n, m]) -> f64[n, m] =
  [x[clip(i - 1, 0, n - 1), j] + x[(i + 1) % n, j] * x[i, clip(j + 2, 0, m - 1)] - x[i, (j + m - 1) % m]
   for i < n, j < m]"""


def lowered(text: str) -> tuple[anf.Program, str]:
    checked = check(Source("program.dl", text))
    assert not errors_of(checked)
    decl = checked.module.functions["main"]
    program, (entry,) = lower([Request(decl, dict.fromkeys(decl.variables, poly(0)))])
    return program, entry.name


def loops(nests: Program) -> list[Loop]:
    return [s for f in nests.functions.values() for s in walk(f.body.stmts) if isinstance(s, Loop)]


def asking(stmts: tuple[Stmt, ...]) -> int:
    return sum(isinstance(s, Compute) and s.name in ASKS for s in stmts)


@pytest.fixture(scope="module")
def pools() -> Iterator[list[Pool]]:
    made = [new_pool(n) for n in (1, 2, 5)]
    yield made
    for pool in made:
        pool.close()


@pytest.mark.parametrize(
    "name", ["periodic", "clipped", "far", "one end", "single precision", "a gradient", "border", "a sum"]
)
def test_between_the_ends_nothing_is_gathered_and_nothing_asked(name: str) -> None:
    found = loops(schedule(lowered(TEXTS[name])[0], Lanes(256)))
    between = [loop for loop in found if loop.lanes > 1]
    assert between and all(survey(loop).cost == 0 and asking(loop.stmts) == 0 for loop in between)
    assert any(loop.short for loop in found if loop.lanes == 1)


def test_of_a_plane_only_rows_are_asked_for_between_the_ends() -> None:
    found = loops(schedule(lowered(PLANE)[0], Lanes(256)))
    (between,) = [loop for loop in found if loop.lanes > 1]
    assert survey(between).cost == 0
    assert len(found) == 4


@pytest.mark.parametrize(
    "body",
    [
        "argmax([x[clip(i + 1, 0, n - 1)] for i < n])",  # of pairs
        "[x[clip(i + 100, 0, n - 1)] for i < n]",
        "[x[minimum(i, k)] for i < n]",  # k is anywhere
        "[x[i] * x[n - 1 - i] for i < n]",
    ],
)
def test_other_loops_stay_whole(body: str) -> None:
    result = "i64" if body.startswith("argmax") else "f64[n]"
    found = loops(schedule(lowered(f"fn main(x: f64[n], k: i64) -> {result} = {body}")[0], Lanes(256)))
    assert len(found) == 1


@pytest.mark.parametrize("name", TEXTS)
def test_arrays_of_every_length_have_all_their_elements(name: str, pools: list[Pool]) -> None:
    program, entry = lowered(TEXTS[name])
    dtype = dtype_of(program.functions[entry].params[1])
    rng = np.random.default_rng(1)
    args = [
        [n, (10.0 * rng.standard_normal(n)).astype({"f64": "f8", "f32": "f4", "i32": "i4"}[dtype])] for n in range(40)
    ]
    expected = [Interpreter(program).run(entry, x)[-1] for x in args]
    bits: list[list[bytes]] = []
    for pool, level in zip((*pools, pools[0]), (2, 2, 2, 0), strict=True):
        compiled = Engine(Host(io.StringIO()), grain=TINY, pool=pool, level=level).compile(program, [entry])
        found = [np.asarray(compiled.run(entry, x)[-1]) for x in args]
        for e, f in zip(expected, found, strict=True):
            np.testing.assert_allclose(f, e, 1e-5 if dtype == "f32" else 1e-12, 1e-4 if dtype == "f32" else 1e-12)
        bits.append([f.tobytes() for f in found])
    assert all(b == bits[0] for b in bits)


def test_planes_of_every_size_have_all_their_elements() -> None:
    program, entry = lowered(PLANE)
    compiled = Engine(Host(io.StringIO())).compile(program, [entry])
    rng = np.random.default_rng(2)
    for n in range(4):
        for m in range(20):
            x = [n, m, rng.standard_normal((n, m))]
            np.testing.assert_allclose(compiled.run(entry, x)[-1], Interpreter(program).run(entry, x)[-1], 1e-12, 1e-12)


@pytest.mark.parametrize("text", [CELL, INSIDE])
def test_between_the_ends_a_plane_has_no_branch_and_no_check_that_a_row_decides(text: str) -> None:
    found = loops(schedule(lowered(text)[0], Lanes(256)))
    between = [loop for loop in found if loop.lanes > 1]
    assert between and all(survey(loop).cost == 0 for loop in between)
    assert not any(isinstance(s, Branch) for loop in between for s in walk(loop.stmts))
    assert len(found) <= 6


@pytest.mark.parametrize("text", [CELL, INSIDE])
def test_planes_with_a_border_are_as_written_or_refused_alike(text: str) -> None:
    program, entry = lowered(text)
    compiled = Engine(Host(io.StringIO())).compile(program, [entry])
    rng = np.random.default_rng(3)

    def outcome(run: Callable[[str, list[object]], Sequence[object]], args: list[object]) -> object:
        try:
            return np.asarray(run(entry, args)[-1])
        except RunError as e:
            return e.code, e.message

    for n in range(6):
        for m in (*range(6), 11, 30):
            for c in (True, False):
                args = [n, m, rng.standard_normal((n, m)), c]
                wanted, found = (outcome(run, args) for run in (Interpreter(program).run, compiled.run))
                if isinstance(wanted, np.ndarray):
                    np.testing.assert_allclose(found, wanted, 1e-12, 1e-12)
                else:
                    assert found == wanted


def test_bounds_that_might_wrap_are_not_moved() -> None:
    text = """fn main(x: f64[n], k: i64) -> f64[n] {
      var out = zeros(n)
      for i < k { out[minimum(i + 1, n - 1)] = if i == 0 or i == k - 1 { 1.0 } else { x[minimum(i, n - 1)] } }
      out
    }"""
    program, entry = lowered(text)
    compiled = Engine(Host(io.StringIO())).compile(program, [entry])
    for k in (-(2**63), -(2**63) + 1, -(2**63) + 7, -3, 0, 1, 2, 3, 9):
        args = [4, np.arange(4.0), k]
        np.testing.assert_array_equal(compiled.run(entry, args)[-1], Interpreter(program).run(entry, args)[-1])


CONVOLVED = """fn each(x: f64[n], w: f64[k]) -> f64 = sum(sin(sum(x[t + j] * w[j] for j)) for t < n - k + 1)
fn main(x: f64[n], w: f64[k]) -> f64[n] = grad(|y: f64[n]| each(y, w))(x)"""


@pytest.mark.parametrize("n, k", [(40, 7), (7, 7), (9, 6), (8, 1)])
def test_ends_stand_where_their_iterations_come(n: int, k: int) -> None:
    """An iteration refuses before a later one does."""
    program, entry = lowered(CONVOLVED)
    made = schedule(program, Lanes(256))
    split = [s for s in loops(made) if _has_moving_bounds(s) or any(d.choice == "ends split off" for d in s.why)]
    parts = split[:3]  # behind them is a loop for numbers that are not finite
    assert parts[1].lanes > 1 and parts[0].lanes == parts[2].lanes == 1
    sizes = dict(zip(program.functions[entry].params, (n, k), strict=False))
    lows = [max(int(low.evaluate(sizes.__getitem__)) for low in p.lows) for p in parts]
    highs = [min(int(high.evaluate(sizes.__getitem__)) for high in p.highs) for p in parts]
    assert [t for low, high in zip(lows, highs, strict=True) for t in range(low, high)] == list(range(n))


def _has_moving_bounds(loop: Loop) -> bool:
    inner = [s for s in walk(loop.stmts) if isinstance(s, Loop)]
    return any(bound.mentions((loop.var,)) for s in inner for bound in (*s.lows, *s.highs))
