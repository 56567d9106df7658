"""What is done a row at a time: passes over memory, what lies between them, and that nothing else changes."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.codegen.loops import Loop, Stmt
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk as walk_loops
from dlang.codegen.vectorize import Lanes
from dlang.diagnostics import Source
from dlang.driver import check
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Comp, Program, poly
from dlang.ir.printer import print_program as print_ir
from dlang.ir.reader import read_program
from dlang.ir.traverse import walk
from dlang.ir.verify import verify
from dlang.optimize.fuse_outer_axis import fuse_outer_axis
from dlang.optimize.ownership import ownership
from dlang.pipeline import optimise
from dlang.runtime.engine import CompiledProgram, Engine
from dlang.tools.law import Way, prepared
from tests.optimize.programs import assert_same, cost, count, program, run
from tests.specialize.support import lowered

SOFTMAX = """
fn value(x: f64[n, m]) -> f64[n, m] {
  let e = [exp(x[i, j] - max(x[i])) for i, j]
  [e[i, j] / sum(e[i]) for i, j]
}

fn gradient(x: f64[n, m], seed: f64[n, m]) -> (f64[n, m], f64[n, m]) {
  let (y, pull) = vjp(value, x)
  (y, pull(seed))
}
"""

LAYER_NORM = """
import nn { Affine, layer_norm }

fn value(scale: f64[m], shift: f64[m], x: f64[n, m]) -> f64[n, m] = layer_norm(Affine(scale, shift), x)

fn gradient(
  scale: f64[m], shift: f64[m], x: f64[n, m], seed: f64[n, m]
) -> (f64[n, m], (f64[m], f64[m], f64[n, m])) {
  let (y, pull) = vjp(value, scale, shift, x)
  (y, pull(seed))
}
"""

LOG_SUM_EXP = """
fn value(x: f64[n, m]) -> f64 = sum([log(sum([exp(x[i, j] - max(x[i])) for j])) + max(x[i]) for i in 0..n])
fn gradient(x: f64[n, m]) -> f64[n, m] = grad(value)(x)
"""

ENGINE = Engine(Host())


@cache
def optimised(text: str, entry: str = "gradient") -> Program:
    made = lowered(text, entry)
    return optimise(made.program, [made.entry.name], verify=True)


def name(p: Program) -> str:
    (found,) = [f for f in p.functions if f.endswith("entry")] or list(p.functions)
    return found


def nests(p: Program) -> list[Loop]:
    """The outermost loops of the entry, without those that only fill an array."""
    stmts = schedule(p, Lanes(512)).functions[name(p)].body.stmts
    return [s for s in stmts if isinstance(s, Loop) and any(isinstance(inner, Loop) for inner in s.stmts)]


def matrices(p: Program) -> list[str]:
    """The arrays of more than one axis for which there is memory, results aside."""
    text = print_program(schedule(p, Lanes(512)))
    return re.findall(r"allocate \w+\[[^\]]*,[^\]]*\]", text)


@pytest.mark.parametrize("text", [SOFTMAX, LAYER_NORM, LOG_SUM_EXP])
def test_a_value_by_rows_and_its_derivative_are_one_pass_over_memory_each(text: str) -> None:
    for entry in ("value", "gradient"):
        p = optimised(text, entry)
        assert len(nests(p)) == 1, print_program(schedule(p, Lanes(512)))
        assert not matrices(p), matrices(p)


CHECKED = {
    "a mean": "[mean([x[at[i, j]] for j]) for i]",
    "a sum of exponentials": "[logsumexp([x[at[i, j]] for j]) for i]",
    "what is gathered from a row": """[{
  let e = [exp(x[j] * f64(i)) for j]
  let share = e / sum(e)
  logsumexp([share[at[i, j]] * x[at[i, j] % n] for j])
} for i]""",
    "two checks in turn": """[{
  let r = [x[at[i, j]] for j]
  let s = [r[at[i, j] // (2 - at[i, j])] * f64(j) for j < k]
  logsumexp(s) + mean(r)
} for i]""",
}


@pytest.mark.parametrize("rows", CHECKED.values(), ids=CHECKED)
def test_rows_whose_elements_are_checked_are_let_go_too(rows: str) -> None:
    text = f"fn value(x: f64[n], at: i64[m, k]) -> f64 = sum({rows})\n"
    p = optimised(text, "value")
    assert not matrices(p), matrices(p)
    first = lowered(text, "value")
    x, rng = np.array([0.3, -1.2, 0.7]), np.random.default_rng(0)
    for at in ([[0, 2], [1, 1]], [[0, 1], [3, -1]], [[2, -2], [5, 0]], *rng.integers(-1, 4, size=(9, 3, 2))):
        args = [3, *np.shape(at), x, np.array(at)]
        wanted = outcome(Interpreter(first.program), first.entry.name, args)
        for runs in (Interpreter(p), ENGINE.compile(p, [name(p)])):
            assert outcome(runs, name(p), args) == wanted


def outcome(runs: Interpreter | CompiledProgram, entry: str, args: list[Any]) -> object:
    """The result of a run, rounded, or its message."""
    try:
        (value,) = runs.run(entry, args)
    except RunError as e:
        return e.message
    return pytest.approx(value)


FORCES = """
fn distance(x: f64[n, 3], i: i64, j: i64) -> f64 = sqrt(sum((x[i, a] - x[j, a]) ** 2 for a < 3) + 0.1)
fn value(m: f64[n], x: f64[n, 3]) -> f64[n, 3] =
  [sum(m[j] * (x[j, a] - x[i, a]) / distance(x, i, j) ** 3 for j < n) for i < n, a < 3]
"""


def test_what_all_pairs_share_is_no_matrix_of_pairs() -> None:
    """The distances would be n² numbers between arrays of n: each row is used up before the next one is made."""
    p = optimised(FORCES, "value")
    assert len(nests(p)) == 1, print_program(schedule(p, Lanes(512)))
    assert not matrices(p), matrices(p)
    sums = [let.op for let in walk(p.functions[name(p)].body) if isinstance(let.op, Comp) and let.op.body.lets]
    assert [sum(d.shape == () for d in op.destinations) for op in sums] == [0, 3]  # one for each coordinate
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 17):
        m, x = rng.uniform(size=n), rng.uniform(size=(n, 3))
        gap = x[None] - x[:, None]
        far = np.sqrt((gap**2).sum(2) + 0.1)
        wanted = (m[None, :, None] * gap / far[:, :, None] ** 3).sum(1)
        for runs in (Interpreter(p), ENGINE.compile(p, [name(p)])):
            (found,) = runs.run(name(p), [n, m, x])
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def loops_over_a_row(stmts: tuple[Stmt, ...]) -> int:
    """Counts the loops that may have more than one iteration."""
    return sum(isinstance(s, Loop) and poly(1) not in s.highs for s in walk_loops(stmts))


def test_a_row_of_softmax_and_its_derivative_is_read_four_times_while_it_is_near() -> None:
    (nest,) = nests(optimised(SOFTMAX))
    assert loops_over_a_row(nest.stmts) == 4


@pytest.mark.parametrize("text", [SOFTMAX, LAYER_NORM, LOG_SUM_EXP])
def test_rows_are_done_in_pieces_at_once(text: str) -> None:
    pieces = print_program(schedule(optimised(text), Lanes(512), 1_000_000)).splitlines()
    fuse_outer_axis = [line for line in pieces if line.startswith("  parallel") and " by length" in line]
    assert fuse_outer_axis and not any(line.startswith("      ") and "parallel" in line for line in pieces)


def test_sums_of_columns_take_the_rows_as_they_come_without_an_array_between() -> None:
    p = optimised(LAYER_NORM)
    text = print_program(schedule(p, Lanes(512)))
    assert "allocate" not in text
    assert len(re.findall(r"sum= t", text)) >= 4


@pytest.mark.parametrize("text", [SOFTMAX, LAYER_NORM, LOG_SUM_EXP])
@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 3), (2, 33)])
def test_compiled_code_by_rows_gives_what_the_interpreter_gives(text: str, shape: tuple[int, int]) -> None:
    p = optimised(text)
    rng = np.random.default_rng(1)
    _, m = shape
    args: list[object] = []
    for param in p.functions[name(p)].params:
        if isinstance(param.type, Array):
            args.append(rng.normal(size=shape if len(param.type.shape) == 2 else (m,)))
        else:
            args.append(None)
    order = [v for f in p.functions[name(p)].params if isinstance(f.type, Array) and len(f.type.shape) == 2
             for s in f.type.shape for v in s.atoms()][:2]  # fmt: skip
    of = dict(zip(order, shape, strict=True))
    args = [of[q] if a is None else a for q, a in zip(p.functions[name(p)].params, args, strict=True)]
    assert_same(ENGINE.compile(p, [name(p)]).run(name(p), args), run(p, args, name(p)), exact=False)


CHAIN = """
fn f(n.0: i64, m.1: i64, x.2: f64[n.0, m.1], y.3: f64[n.0]) -> (out.4: f64[n.0, m.1], total.5: f64) {
  top.6: f64[n.0] = comp i.7 in 0..n.0, j.8 in 0..m.1 {
    t.9: f64 = read x.2[i.7, j.8]
    yield t.9
  } to keep [n.0] [i.7] max
  half.10: f64[n.0] = comp i.11 in 0..n.0 {
    t.12: f64 = read top.6[i.11]
    u.13: f64 = read y.3[i.11]
    v.14: f64 = mul(t.12, u.13)
    yield v.14
  } to keep [n.0] [i.11] set
  e.15: f64[n.0, m.1], s.16: f64 = comp i.17 in 0..n.0, j.18 in 0..m.1 {
    t.19: f64 = read x.2[i.17, j.18]
    u.20: f64 = read half.10[i.17]
    v.21: f64 = sub(t.19, u.20)
    yield v.21, v.21
  } to keep [n.0, m.1] [i.17, j.18] set, keep [] [] sum
  yield e.15, s.16
}
"""


def test_a_scalar_of_a_row_is_no_array_and_costs_nothing_more() -> None:
    before = program(CHAIN)
    after = fuse_outer_axis(before)
    verify(after)
    outer = [let.op for let in after.functions["f"].body.lets]
    assert len(outer) == 1 and count(after, Comp) == 3, print_ir(after)
    verify(ownership(after), ownership=True)
    args = [3, 4, np.arange(12.0).reshape(3, 4), np.ones(3)]
    assert_same(run(before, args), run(after, args))
    assert cost(after, args) < cost(before, args)
    assert print_ir(read_program(print_ir(after))) == print_ir(after)


STEPS = """
fn f(n.0: i64, x.1: f64[n.0, n.0]) -> (r.2: f64[n.0, n.0]) {
  c.3: f64[n.0] = comp i.4 in 0..n.0, j.5 in 0..n.0 {
    t.6: f64 = read x.1[i.4, j.5]
    yield t.6
  } to keep [n.0] [j.5] sum
  r.7: f64[n.0, n.0] = comp i.8 in 0..n.0, j.9 in 0..n.0 {
    t.10: f64 = read x.1[i.8, j.9]
    u.11: f64 = read c.3[WHICH]
    v.12: f64 = mul(t.10, u.11)
    yield v.12
  } to keep [n.0, n.0] [i.8, j.9] set
  yield r.7
}
"""


@pytest.mark.parametrize("which", ["i.8", "j.9"])
def test_what_needs_all_rows_waits_for_them(which: str) -> None:
    before = program(STEPS.replace("WHICH", which))
    after = fuse_outer_axis(before)
    assert count(after, Comp) == 2
    assert_same(run(before, [3, np.arange(9.0).reshape(3, 3)]), run(after, [3, np.arange(9.0).reshape(3, 3)]))


def test_the_length_of_a_row_may_depend_on_where_it_is() -> None:
    before = program(
        CHAIN.replace("j.8 in 0..m.1", "j.8 in 0..i.7 + 1").replace("j.18 in 0..m.1", "j.18 in 0..i.17 + 1")
    )
    after = fuse_outer_axis(before)
    verify(after)
    assert count(after, Comp) == 3
    args = [3, 4, np.arange(12.0).reshape(3, 4), np.ones(3)]
    assert_same(run(before, args), run(after, args))
    assert_same(ENGINE.compile(ownership(after), ["f"]).run("f", args), run(before, args))


def test_an_array_read_at_another_row_stays_whole() -> None:
    text = """
fn f(n.0: i64, m.1: i64, x.2: f64[n.0, m.1]) -> (r.3: f64[n.0, m.1]) {
  y.4: f64[n.0, m.1] = comp i.5 in 0..n.0, j.6 in 0..m.1 {
    t.7: f64 = read x.2[i.5, j.6]
    u.8: f64 = exp(t.7)
    yield u.8
  } to keep [n.0, m.1] [i.5, j.6] set
  r.9: f64[n.0, m.1] = comp i.10 in 0..n.0, j.11 in 0..m.1 {
    t.12: f64 = read y.4[n.0 - i.10 - 1, j.11]
    u.13: f64 = read x.2[i.10, j.11]
    v.14: f64 = add(t.12, u.13)
    yield v.14
  } to keep [n.0, m.1] [i.10, j.11] set
  yield r.9
}
"""
    before = program(text)
    after = fuse_outer_axis(before)
    assert count(after, Comp) == 2
    args = [3, 2, np.arange(6.0).reshape(3, 2)]
    assert_same(run(before, args), run(after, args))
    assert Interpreter(after).run("f", args)[0].shape == (3, 2)


def test_rows_that_are_continued_stay_with_what_continues_them() -> None:
    text = """
fn f(n.0: i64, m.1: i64, x.2: f64[n.0, m.1], k.3: i64[n.0]) -> (r.4: f64[m.1]) {
  a.5: f64[n.0, m.1], s.6: f64[n.0] = comp i.7 in 0..n.0 {
    k.8: i64 = read k.3[i.7]
    yield -1.0, 2.0
  } to keep [n.0, m.1] [i.7, k.8] sum, keep [n.0] [i.7] set
  b.9: f64[n.0, m.1] = comp i.10 in 0..n.0, j.11 in 0..m.1 {
    t.12: f64 = read x.2[i.10, j.11]
    u.13: f64 = read s.6[i.10]
    v.14: f64 = mul(t.12, u.13)
    yield v.14
  } to keep [n.0, m.1] [i.10, j.11] sum into a.5
  c.15: f64[n.0, m.1] = comp i.16 in 0..n.0 {
    k.17: i64 = read k.3[i.16]
    yield 0.5
  } to keep [n.0, m.1] [i.16, k.17] sum into b.9
  r.18: f64[m.1] = comp i.19 in 0..n.0, j.20 in 0..m.1 {
    t.21: f64 = read c.15[i.19, j.20]
    yield t.21
  } to keep [m.1] [j.20] sum
  yield r.18
}
"""
    before = program(text)
    after = fuse_outer_axis(before)
    verify(after)
    assert "to keep [m.1] [] sum" in print_ir(after)
    args = [2, 3, np.arange(6.0).reshape(2, 3), np.array([2, 0])]
    assert_same(run(before, args), run(after, args))
    assert_same(ENGINE.compile(ownership(after), ["f"]).run("f", args), run(before, args))


@pytest.mark.parametrize("loops", [
    "for k < n { s = s * 0.9 + r[k] }",
    "for k < n { s = s * 0.9 + r[k] }; for k < n { s += r[n - 1 - k] * cos(s) }",
    "for k < n { if r[k] > s { s = 0.5 * r[k] } }",
])  # fmt: skip
def test_an_array_in_an_element_that_a_loop_reads_is_never_made_for_all_elements(loops: str) -> None:
    text = f"fn f(x: f64[n]) -> f64[n] = [{{ let r = [sin(x[j] * x[k]) for k]; var s = 0.0; {loops}; s }} for j < n]"
    p = optimised(text, "f")
    assert not matrices(p), matrices(p)
    x = np.array([0.3, -1.2, 2.0])
    assert_same(run(lowered(text, "f").program, [3, x], name(p)), run(p, [3, x], name(p)))


# ---- what is held at once --------------------------------------------------------------------------------------------
ONE_LOOP = {
    "a sum for two axes that is multiplied with a vector": (
        "fn f(x: f64[n], y: f64[m], z: f64[p]) -> f64 = sum([sum(sin(x[i] * y[j] * z[k]) for k) for i, j] @ y)",
        True,
    ),
    "factors of two pairs of axes": (
        "fn f(x: f64[n], y: f64[m], z: f64[p]) -> f64 = sum(exp(x[i] * y[j]) * sin(x[i] + z[k]) for i, j, k)",
        True,
    ),
    "factors that share an inner axis": (
        "fn f(x: f64[n], y: f64[m], z: f64[p]) -> f64 = sum(exp(x[i] * y[j]) * sin(z[k] + y[j]) for i, j, k)",
        True,
    ),
    "elements that need another sum each": (
        "fn f(x: f64[n], y: f64[m], z: f64[p]) -> f64 = sum(tanh(sum(x[i] * y[j] * sin(z[k]) for k)) for i, j)",
        True,
    ),
    "a row that is sorted": (
        "fn f(x: f64[n], y: f64[m]) -> f64[n] = [sum(sort(x[i] * y)[j] * f64(j) for j < m) for i]",
        False,
    ),
    "a row that is added up": (
        "fn f(x: f64[n], y: f64[m]) -> f64[n] = [sum(cumsum(x[i] * y)[j] * sin(y[j]) for j) for i]",
        False,
    ),
    "rows of an array by rows": (
        "fn f(x: f64[n], y: f64[m]) -> f64[n] = [sum(r * cumsum(r)) for r in [sin(x[i] * y[j]) for i, j]]",
        False,
    ),
}


@pytest.mark.parametrize(("text", "gradient"), ONE_LOOP.values(), ids=ONE_LOOP)
def test_loops_that_can_be_one_keep_a_row_between_them(text: str, gradient: bool) -> None:
    checked = check(Source("program.dl", text))
    ways: tuple[Way, ...] = ("value", "gradient") if gradient else ("value",)
    function = prepared(checked.module.functions["f"], ways)
    costs = [function.at(function.arguments(dict.fromkeys(function.names, size))) for size in (8, 16)]
    for way in ways:
        small, large = [c[way].peak for c in costs]
        assert large <= 3 * small


def test_a_matrix_that_is_needed_as_a_whole_is_multiplied_as_a_whole() -> None:
    text = """
    fn value(x: f64[n], y: f64[n]) -> (f64[n], f64[n, n]) {
      let a = [sum(sin(x[i] * y[j] * y[k]) for k) for i, j]
      (a @ y, a)
    }
    """
    assert "contract" in print_ir(optimised(text, "value"))


@pytest.mark.parametrize(("rows", "axes"), [("n", 2), ("3", 3)])
def test_products_of_a_few_known_rows_stay_one_loop(rows: str, axes: int) -> None:
    text = f"""
    fn f(x: f64[{rows}], y: f64[m], z: f64[p]) -> f64 = sum(exp(x[i] * y[j]) * sin(x[i] + z[k]) for i, j, k)
    fn gradient(x: f64[{rows}], y: f64[m], z: f64[p]) -> f64[{rows}] = grad(f)(x, y, z)
    """
    p = optimised(text)
    found = [len(let.op.axes) for let in walk(p.functions[name(p)].body) if isinstance(let.op, Comp)]
    assert max(found) == axes
