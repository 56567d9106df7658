"""Loops whose ends are apart: nothing is gathered between them, and no iteration is left out or done twice."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pytest

from dlang.codegen.loops import Compute, Loop, Program, Stmt
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import Lanes, survey
from dlang.diagnostics import Source
from dlang.driver import Request, check, errors_of, lower
from dlang.host.effects import Host
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
IN_PLACES = {
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
TEXTS["a gradient"] = f"""fn each(x: f64[n]) -> f64[n] = {CLIPPED}
fn main(x: f64[n]) -> f64[n] = grad(|y: f64[n]| sum(each(y) ** 2))(x)"""
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


@pytest.mark.parametrize("name", ["periodic", "clipped", "far", "one end", "single precision", "a gradient"])
def test_between_the_ends_nothing_is_gathered_and_nothing_asked(name: str) -> None:
    found = loops(schedule(lowered(TEXTS[name])[0], Lanes(256)))
    between = [loop for loop in found if loop.lanes > 1]
    assert between and all(survey(loop).cost == 0 and asking(loop.stmts) == 0 for loop in between)
    assert any(asking(loop.stmts) for loop in found if loop.lanes == 1)


def test_of_a_plane_only_rows_are_asked_for_between_the_ends() -> None:
    found = loops(schedule(lowered(PLANE)[0], Lanes(256)))
    (between,) = [loop for loop in found if loop.lanes > 1]
    assert survey(between).cost == 0
    assert len(found) == 4


@pytest.mark.parametrize(
    "body",
    [
        "sum(x[clip(i + 1, 0, n - 1)] for i < n)",  # of which the terms are added in an order of their own
        "[x[clip(i + 100, 0, n - 1)] for i < n]",
        "[x[minimum(i, k)] for i < n]",  # k is anywhere
        "[x[i] * x[n - 1 - i] for i < n]",
    ],
)
def test_other_loops_stay_whole(body: str) -> None:
    result = "f64" if body.startswith("sum") else "f64[n]"
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
