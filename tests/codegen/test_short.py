"""Little code for what hardly ever runs: no tiles, pieces or unrolling; and loops of lanes with one copy of a body."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dlang.codegen.llvm import modules
from dlang.codegen.loops import Allocate, Branch, Loop, Parallel, Program, Stmt
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import Lanes
from dlang.diagnostics import Source
from dlang.driver import check, lower
from dlang.dump_ir import request
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ops.figures import GRAIN
from dlang.runtime.engine import Engine
from tests.codegen.test_parallel import lowered
from tests.codegen.test_products import contract, loops
from tests.codegen.test_programs import assert_same

ENGINE = Engine(Host())
LAYER = """import nn { relu }
fn loss(w: f64[k, m], x: f64[n, k]) -> f64 = sum(exp(relu(x @ w)))
fn main(w: f64[k, m], x: f64[n, k]) -> f64[k, m] = grad(loss)(w, x)"""
MLP = Path(__file__).parents[2] / "benchmarks" / "workloads" / "mlp.dl"


def nests(text: str, function: str = "main") -> tuple[Program, str]:
    """The loop nests of a function for registers of 512 bits."""
    decl = check(Source("program.dl", text)).module.functions[function]
    program, (entry,) = lower([request(decl)])
    return schedule(program, Lanes(512), GRAIN), entry.name


def arms_after_a_nan(program: Program) -> list[list[Stmt]]:
    branches = [s for f in program.functions.values() for s in walk(f.body.stmts) if isinstance(s, Branch)]
    return [list(walk(b.then.stmts)) for b in branches if b.cold]


def test_what_runs_after_a_nan_is_in_one_piece_with_the_lanes_of_one_register() -> None:
    program, _ = nests(MLP.read_text(encoding="utf-8"), "gradient")
    arms = arms_after_a_nan(program)
    assert arms
    for arm in arms:
        inside = [s for s in arm if isinstance(s, Loop)]
        assert inside and all(s.short and s.lanes <= 64 // 8 for s in inside)
        assert not any(isinstance(s, Parallel) for s in arm)


def test_the_gradient_of_a_network_is_not_much_more_text_than_its_loops() -> None:
    """Ten products, ten loops in pieces and a softmax: 3,800 lines; tiles and pieces everywhere would be 6,700."""
    program, entry = nests(MLP.read_text(encoding="utf-8"), "gradient")
    assert modules.emit(program, [entry]).llvm.count("\n") < 4500


def test_a_single_product_of_unknown_sizes_is_packed_whatever_they_are() -> None:
    program, _ = contract("ik kj ij")
    text = loops(program)
    assert text.count("·") == 2 and "mul(" not in text
    assert "loop" not in text[: text.index("else")]  # a small one is not in blocks


def test_many_small_products_have_tiles() -> None:
    program, _ = contract("bik bkj bij")
    assert loops(program).count("loop tile") == 1


@pytest.mark.parametrize("body", ["exp(x[i]) + exp(-x[i]) * exp(exp(x[i]))", "exp(x[i])"])
def test_a_long_body_has_one_copy_in_a_loop_of_lanes_and_a_short_one_has_two(body: str) -> None:
    program, entry = nests(f"fn main(x: f64[n]) -> f64[n] = [{body} for i < n]")
    text = modules.emit(program, [entry]).llvm
    calls = len(re.findall(r"call <\d+ x double> @dl_exp_f64_v", text))
    assert calls == (3 if "+" in body else 2)


@pytest.mark.parametrize(("dtype", "type"), [("f64", "double"), ("f32", "float")])
def test_a_long_body_has_two_registers_of_f64_in_flight_and_one_of_f32(dtype: str, type: str) -> None:
    body = "exp(x[i]) + exp(-x[i]) * exp(exp(x[i]))"
    program, entry = nests(f"fn main(x: {dtype}[n]) -> {dtype}[n] = [{body} for i < n]")
    assert f"<16 x {type}> @dl_exp_{dtype}_v16" in modules.emit(program, [entry]).llvm


@pytest.mark.parametrize("arm", ["v", "if v > 0.0 { v } else { return exp(v) }"])
def test_arrays_of_iterations_have_room_for_all_lanes_also_in_an_arm(arm: str) -> None:
    """The derivative of a loop inside saves an array with as many lanes as the loop around has."""
    program, _ = nests(
        f"""fn f(v: f64) -> f64 {{
  var s = {arm}
  for _ in 0..3 {{ s = exp(s) * log(s) / (1.0 + exp(-s) * exp(-v)) / (2.0 + s) / (3.0 + s * v) }}
  s
}}
fn main(x: f64[n]) -> f64[n] = [grad(f)(v) for v in x]"""
    )
    outer = [s for f in program.functions.values() for s in walk(f.body.stmts) if isinstance(s, Loop) and s.masked]
    rooms = [(s.lanes, a.shape) for s in outer for a in walk(s.stmts) if isinstance(a, Allocate)]
    assert rooms and all((shape[0].constant or 0) >= 3 * lanes for lanes, shape in rooms)


def test_what_a_wide_loop_leaves_goes_by_the_lanes_of_one_register() -> None:
    program, entry = nests("fn main(x: f64[n]) -> f64 = sum(x)")
    text = modules.emit(program, [entry]).llvm
    assert re.findall(r"masked\.load\.v(\d+)f64\.p0\(ptr align", text) == ["8"]


def test_zeros_side_by_side_are_one_call() -> None:
    program, entry = nests("fn main(x: f64[n]) -> f64[n] = [0.0 for i < n]")
    assert "loop" in print_program(program)
    text = modules.emit(program, [entry]).llvm
    assert "llvm.memset" in text and "phi <" not in text and "masked" not in text
    program, entry = nests("fn main(x: f64[n]) -> f64[n] = [-0.0 for i < n]")
    assert "llvm.memset" not in modules.emit(program, [entry]).llvm


@pytest.mark.parametrize("size", [*range(11), 31, 32, 33, 40, 41, 63, 65])
def test_loops_of_lanes_give_what_the_interpreter_gives_at_every_size(size: int) -> None:
    program, name = lowered(
        """fn main(x: f64[n], y: f32[n], k: i64[n]) -> (f64, f32, i64, f64, bool, bool, f64[n], f64, i64[n], f64[n]) = (
  sum(x), prod(y), sum(k), sum(maximum(x, 0.5)), any(x > 1.5), all(k < 5), x + 1.0, sum(exp(x)), k * 2,
  [0.0 for i < n]
)"""
    )
    rng = np.random.default_rng(size)
    args = [size, rng.normal(size=size), rng.normal(size=size).astype("f4"), rng.integers(-3, 6, size)]
    assert_same(ENGINE.compile(program, [name]).run(name, args), Interpreter(program).run(name, args))


NAN, INF = float("nan"), float("inf")
ROWS = {
    "distinct": [3.0, -1.0, 7.5, 2.0, 7.0, -8.0, 0.0, 1.0, 7.25, -9.0, 4.0],
    "ties": [1.0, 5.0, 5.0, -2.0, 5.0, -2.0, 1.0, -2.0, 5.0, 5.0, -2.0],
    "zeros": [-0.0, 0.0, -0.0, 0.0] * 5,
    "a NaN": [1.0, 9.0, 2.0, 8.0, 3.0, NAN, 7.0, 1.0, 2.0, 9.0, 0.0],
    "two NaNs": [1.0, 9.0, NAN, 8.0, 3.0, 4.0, 7.0, 1.0, 2.0, NAN, NAN],
    "all NaN": [NAN] * 9,
    "infinite": [INF, 1.0, -INF, INF, -INF, 2.0, 3.0, 4.0, 5.0],
    "all lowest": [-INF] * 10,
    "all highest": [INF] * 10,
    "one": [-INF],
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_the_place_of_an_extremum_is_the_first_and_nan_counts_as_one(row: list[float], dtype: str) -> None:
    program, name = lowered(f"fn main(x: {dtype}[n]) -> (i64, i64) = (argmax(x), argmin(x))")
    compiled = ENGINE.compile(program, [name])
    for turn in range(len(row)):
        args = [len(row), np.roll(np.array(row, {"f64": "f8", "f32": "f4"}[dtype]), turn)]
        with np.errstate(all="ignore"):
            wanted = [int(np.argmax(args[1])), int(np.argmin(args[1]))]
        assert compiled.run(name, args) == wanted == Interpreter(program).run(name, args)


def test_the_place_of_an_extremum_of_integers_is_the_first() -> None:
    program, name = lowered("fn main(x: i32[n], y: u8[n]) -> (i64, i64, i64) = (argmax(x), argmin(x), argmax(y))")
    compiled = ENGINE.compile(program, [name])
    rng = np.random.default_rng(0)
    for size in (1, 7, 8, 9, 16, 37):
        x, y = rng.integers(-3, 4, size).astype("i4"), rng.integers(250, 256, size).astype("u1")
        assert compiled.run(name, [size, x, y]) == [int(np.argmax(x)), int(np.argmin(x)), int(np.argmax(y))]


@pytest.mark.parametrize("at", [(0, 0), (4, 2)])
@pytest.mark.parametrize("value", [NAN, INF])
def test_a_gradient_with_a_nan_is_that_of_the_interpreter(at: tuple[int, int], value: float) -> None:
    program, name = lowered(LAYER)
    assert arms_after_a_nan(schedule(program, Lanes(512), GRAIN))
    rng = np.random.default_rng(1)
    for n, k, m in ((9, 5, 3), (17, 9, 21)):
        w, x = rng.normal(size=(k, m)), rng.normal(size=(n, k))
        x[at] = value
        args = [k, m, n, w, x]
        with np.errstate(all="ignore"):
            found = ENGINE.compile(program, [name]).run(name, args)
            assert_same(found, Interpreter(program).run(name, args))
