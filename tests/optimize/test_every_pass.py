"""Every pass keeps the meaning: of random programs, and of a small one for each that it certainly changes.

The passes are those of the pipeline, in its order, so one that is added there is tested here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings

from dlang import pipeline
from dlang.interpret.derivatives import Differentiable
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Program, Var, early_name
from dlang.ir.printer import print_program
from dlang.pipeline import NAMED, PASSES, CorePass, CoreTarget, optimise, run_passes
from dlang.polynomials import Poly
from dlang.tools.law import SLACK
from tests.optimize.programs import F64, I64, arguments, assert_same, cost, programs, run
from tests.specialize.support import lowered

SIZES = [(3, 2), (1, 1), (0, 2), (2, 0)]


@dataclass(frozen=True)
class Step:
    """What a pass has made of a program."""

    made_by: CorePass
    before: Program
    after: Program


@contextmanager
def watched() -> Iterator[list[Step]]:
    """The steps of the pipeline inside that change something, in order."""
    steps: list[Step] = []

    def watch(step: CorePass) -> CorePass:
        def function(program: Program, to: CoreTarget) -> Program:
            after = step.function(program, to)
            if list(after.functions.values()) != list(program.functions.values()):
                steps.append(Step(step, program, after))
            return after

        return replace(step, function=function)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "PASSES", tuple(map(watch, PASSES)))
        yield steps


# ---- random programs -------------------------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(p=programs())
def test_a_random_program_means_the_same_after_each_pass_and_costs_no_more(p: Program) -> None:
    note(print_program(p))
    with watched() as steps:
        last = optimise(p, ["f"], verify=True)
    for n, m in SIZES:
        args = arguments(n, m)
        with np.errstate(all="ignore"):
            wanted = run(p, args)
            for step in steps:
                note(f"{step.made_by.name}:\n{print_program(step.after)}")
                found = run(step.after, args)
                assert_same(wanted, found, exact=step.made_by.exact)
                wanted = found
    with np.errstate(all="ignore"):
        args = arguments(40, 30)
        assert cost(last, args) <= cost(run_passes(p, ["f"], [NAMED["ownership"]]), args) + SLACK


# ---- programs that a pass certainly changes --------------------------------------------------------------------------
RECURRENT = """
fn f(w: f64[m, m], xs: f64[n, m]) -> f64 {
  var h = zeros(m)
  for t < n { h = tanh(w @ h + xs[t]) }
  sum(h)
}
fn main(w: f64[m, m], xs: f64[n, m]) -> (f64[m, m], f64[n, m]) = grad(|p: (f64[m, m], f64[n, m])| f(p.0, p.1))((w, xs))
"""
TREES = """
enum Tree<m> { Leaf(f64[m]), Fork(Tree<m>, Tree<m>) }
fn grown(x: f64[m], depth: i64) -> Tree<m> =
  if depth == 0 { Leaf(x) } else { Fork(grown(x, depth - 1), grown(x, depth - 1)) }
fn state(w: f64[m, m], tree: Tree<m>) -> f64[m] = match tree {
  Leaf(x) => x
  Fork(l, r) => tanh((state(w, l) + 0.5 * state(w, r)) @ w)
}
fn main(w: f64[m, m], x: f64[m]) -> f64[m, m] = grad(|w: f64[m, m]| sum(state(w, grown(x, 2))))(w)
"""
ITERATED = """
fn costly(x: f64) -> f64 {
  var s = x
  for _ < 10 { s = sin(s) * x }
  s
}
fn main(x: f64) -> f64 = grad(costly)(x)
"""
PAIRWISE = """
fn value<a: Float>(r: a[n, 3]) -> a = sum(
  1.0 / sqrt((r[i, 0] - r[j, 0]) ** 2 + (r[i, 1] - r[j, 1]) ** 2 + (r[i, 2] - r[j, 2]) ** 2 + 0.01) for i, j
)
fn main(r: f64[n, 3]) -> (f64, f64[n, 3]) = value_and_grad(value)(r)
"""
GATED = """
fn main(w: f64[h, 2 * h], u: f64[d, 2 * h], x: f64[t, d]) -> f64 {
  var s = zeros(h)
  var c = zeros(h)
  for k < t {
    let z = s @ w + x[k] @ u
    c = tanh(z[..h]) * c + tanh(z[h..])
    s = tanh(c)
  }
  sum(s)
}
"""
SUM_OF_EXPONENTIALS = """
fn likelihood(p: f64[n]) -> f64 = logsumexp(log(p))
fn main(p: f64[n]) -> f64[n] = grad(likelihood)(p)
"""
EXERCISES: Mapping[str, str] = {
    "inline": "fn twice(x: f64) = 2.0 * x\nfn main(x: f64) -> f64 = twice(x) + twice(sin(x))",
    "branch_reads": "fn main(x: f64[n], y: f64[n]) -> f64 = sum(y[i] * y[i] for i if x[i] > 0.0)",
    "recurrences": "fn main(x: f64[n]) -> f64[n] { var y = x; for i in 1..n { y[i] -= sin(y[i - 1]) }; y }",
    "point_loops": (
        "fn main(c: f64[k], x: f64[n]) -> f64[k] =\n"
        "  grad(|c: f64[k]| sum({ var y = 0.0; for j < k { y = y * v + c[j] }; y * y } for v in x))(c)"
    ),
    "remake": (
        "fn at(y: f64, c: f64[k]) -> f64 { var (p, q) = (0.5, y); for j < k { p = p * q + c[j]; q = sin(p * q) }; p }\n"
        "fn main(x: f64[n], c: f64[k]) -> f64[n] = grad(|x: f64[n]| sum(at(v, c) for v in x))(x)"
    ),
    "common_loops": (
        "fn root(a: f64) -> f64 { var x = a; for i < 12 { x = x - (x * x - a) / (x + 1.0) }; x }\n"
        "fn main(x: f64[n]) -> f64[n] = grad(|x: f64[n]| sum([root(v) for v in x] ** 2))(x)"
    ),
    "common_calls": """
enum E { A(f64), B(f64) }
fn g(x: f64, b: bool) -> f64 = if b { sin(x) } else { x }
fn h(e: E) -> f64 = match e { A(y) => g(y, true), B(y) => g(y, false) }
fn main(x: f64) -> f64 = h(if x > 0.5 { A(x) } else { B(2.0 * x) })
""",
    "common_fields": (
        "fn main(x: f64[n], k: i64) -> f64 { let f = if k > 2 { |y: f64| y * x[i64(abs(y)) % n] } else { sin }\n"
        " var y = x[0]; for v in x { y = f(y) + v }; y }"
    ),
    "grown_arrays": (
        "fn main(x: f64[n]) -> f64 { var y: f64[?] = [1.0]\n"
        " for v in x { y = concat([v], y, [v * 2.0, sin(y[0])]) }; sum(y[i] * f64(i) for i) }"
    ),
    "parts": (
        "fn go(x: f64[m], y: f64[m]) -> f64 = if m < 2 { sum(x) } else { x[0] * y[m - 1] + go(x[2..], y[..m - 2]) }\n"
        "fn main(x: f64[n]) -> f64 = if n > 9 { grad(|y: f64[n]| go(y, x))(x)[0] } else { go(x, x) }"
    ),
    "index_checks": "fn main(x: f64[n]) -> f64 = sum(x[n - 1 - j] for i < n, j < i)",
    "guards": "fn main(x: f64, y: f64) -> f64 = grad(|a: f64| y * sqrt(a))(x)",
    "simplify": "fn main(x: f64[n]) -> f64[n] = [-0.0 for i < n]",
    "cse": "fn main(x: f64[n]) -> f64 = prod(sin(x)) * sum(x)",
    "jump_threading": "fn main(x: f64, k: i64) -> f64 {\n  if k < 2 { return x }\n  let y = sin(x)\n  y * y + 1.0\n}",
    "dce": "fn main(x: f64[3, n]) -> f64[3] = [sum(x[i]) for i < 3]",
    "early_reads": "fn main(x: f64[2]) -> f64[2] { var a = x; let old = a; a[0] = 2.0; a[1] *= old[0]; a }",
    "counted_calls": (
        "fn p(c: f64[k], x: f64, j: i64) -> f64 = if j == k { 0.0 } else { c[j] + x * p(c, x, j + 1) }\n"
        "fn q(c: f64[k], x: f64) -> f64 = if k == 0 { x } else { c[0] * q(c[1..], x) }\n"
        "fn main(c: f64[k], x: f64) -> f64 = p(c, x, 0) + q(c, x)"
    ),
    "lists": (
        "fn value(l: List<f64>, x: f64) -> f64 = match l { Nil => 0.0, Cons(a, rest) => a + x * value(rest, x) }\n"
        "fn main(c: f64[k], x: f64) -> f64 { var l = Nil; for a in c { l = Cons(a, l) }; value(l, x) }"
    ),
    "hoist": "fn main(x: f64[n], w: f64[n]) -> f64 { let y = [sum(w) * v + w[0] for v in x]; y[2] }",
    "compared_axes": (
        "fn main(x: f64[n], label: i64[n], k: size) -> f64[k] = [sum(where(label == g, x, 0.0)) for g < k]"
    ),
    "one_element": (
        "fn main(x: f64[n, d], c: f64[k, d]) -> f64[n, d] ="
        " grad(|x: f64[n, d]| sum(min(sum((x[i, a] - c[j, a]) ** 2 for a) for j) for i))(x)"
    ),
    "short_axes": ("fn main(x: f64[n, 3]) -> f64 { let d = x[..n] * 2.0; sum(sin(d), axis = 1)[0] }"),
    "loop_points": (
        "fn main(x: f64[n, d], c: f64[k, d]) -> f64 { var s = 0.0\n"
        " for i < n { let t = [sin(sum((x[i] - c[j]) ** 2)) for j]; s += max(t) / sum(t ** 2) }; s }"
    ),
    "joined_arrays": "fn main(x: f64[n]) -> f64[n] = [concat([0.0], x)[i] * x[i] for i < n]",
    "vectorise_loops": "fn main(r: f64[n]) -> f64[n, 2] = [[a * 2.0, sin(a)] for a in r]",
    "running_powers": "fn main(c: f64[k], x: f64[n]) -> f64[n] = [sum(c[j] * x[i] ** j for j) for i]",
    "distribute": "fn main(x: f64[3, n]) -> f64[3] = [sum(x[i]) for i < 3]",
    "split_axes": "fn main(x: f64[n], y: f64[3 * n]) -> f64[3 * n] = [x[i // 3] * y[i] for i < 3 * n]",
    "masked_sums": (
        "fn main(x: f64[n, k], y: f64[m, k]) -> f64[n, m] =\n"
        "  [if j <= i { sum(x[i, l] * y[j, l] for l) } else { 0.5 } for i, j]"
    ),
    "whole_updates": "fn main(x: f64[n + 1], y: f64[n]) -> f64[n + 1] { var z = x; z[1..] += 2.0 * y; z }",
    "narrow": "fn main(x: f64[n, n]) -> f64 { let a = exp(x); sum(a[i, i] for i < n) }",
    "factors": (
        "fn g(c: f64[n, n], x: f64[n]) -> f64 = sum([sum(c[k, j] * x[j] / (2.0 + x[j]) for j) for k] ** 2)\n"
        "fn main(c: f64[n, n], x: f64[n]) -> f64[n] = grad(g, wrt = x)(c, x)"
    ),
    "limits": SUM_OF_EXPONENTIALS,
    "derivatives": ITERATED,
    "cofactors": "import linalg { det }\nfn main(a: f64[n, n]) -> f64[n, n] = grad(|a: f64[n, n]| det(a))(a)",
    "batch_outer_products": TREES,
    "tail_calls": (
        "fn main(d: i64, x: f64[n], w: f64[n]) -> f64[n] = if d == 0 or d < 0 { x } else { main(d - 1, sin(x) * w, w) }"
    ),
    "slice_writes": RECURRENT,
    "steady_sums": (
        "fn main(a: f64[n], x: f64[m]) -> f64[n] {\n"
        "  var (h, s) = (a, 1.0)\n"
        "  for t < m { s = sin(s + x[t]); h[1] += s; h[t % n] -= s * s }\n"
        "  h\n}"
    ),
    "sink_products": RECURRENT,
    "jacobians": ITERATED,
    "last_guards": ITERATED,
    "symmetry": PAIRWISE,
    "contractions": "fn main(a: f64[n, m], x: f64[m]) -> f64 = sum(sin(a @ x))",
    "staging": "fn main(x: f64[n], w: f64[n]) -> f64[n] { let y = [exp(sin(v)) for v in x]; y * w }",
    "fuse": "fn main(x: f64[n]) -> f64 = max(tanh(x))",
    "idle": "fn main(x: f64[n], a: f64[d, d]) -> f64 { var y = 0.0; for v in [v for v in x if v > 0.0] "
    "{ y = y * v + sum(sin(a)) }; y }",
    "block_loop_products": GATED,
    "blocking": (
        "fn main(x: f64[n, a], w: f64[a, b], u: f64[b, c]) -> f64 = sum(logsumexp(tanh(x @ w) @ u, axis = 1))"
    ),
    "fuse_outer_axis": "fn main(r: f64[n]) -> f64[n, 2] = [[a * 2.0, sin(a)] for a in r]",
    "unroll": "fn main(x: f64[n, m]) -> f64[n, m] = [max(x[i, j] * f64(a + 1) - f64(b) for a < 2, b < 2) for i, j]",
    "coalesce_writes": PAIRWISE,
    "dead_fill": "fn main(r: f64[n]) -> f64[2, n] = [r * 2.0, sin(r)]",
    "half_operands": "fn main(a: f16[n, m], b: f16[m, k]) -> f32[n, k] = f32(a) @ f32(b)",
    "ownership": "fn main(x: f64[n]) -> f64[n] { var y = x; y[0] = 1.0; y + x }",
}
"""For each pass a program that it changes."""


@cache
def steps_of(text: str, device: bool, early: bool) -> tuple[str, tuple[Step, ...]]:
    """The name of the entry of a program, and what the pipeline does with it.

    device: for a device. early: the sizes and the first parameter of the entry are known early.
    """
    made = lowered(text, "main")
    name = made.entry.name
    known = {name: set(range(len(made.entry.sizes) + 1))} if early else None
    with watched() as steps:
        optimise(made.program, [name], verify=True, given=known, device=device)
    return name, tuple(steps)


def meaning(program: Program, entry: str, args: Sequence[Any]) -> list[Any]:
    """The results of a program; of one that is split those of both parts, one after the other."""
    run = Interpreter(program, algebra=Differentiable()).run
    early = program.functions.get(early_name(entry))
    if early is None:
        return run(entry, [a.copy() if isinstance(a, np.ndarray) else a for a in args])
    names = [p.name for p in program.functions[entry].params]
    return run(entry, [*args, *run(early.name, [args[names.index(p.name)] for p in early.params])])


def chosen(params: Sequence[Var]) -> list[Any]:
    """Arguments: sizes that differ, and numbers between -1 and 1 or, alone, positive ones."""
    rng = np.random.default_rng(5)
    numbers = cycle((3, 4, 2))
    env: dict[Var, int] = {}
    out: list[Any] = []
    for p in params:
        if p.type == I64:
            env[p] = next(numbers)
            out.append(env[p])
        elif p.type == F64:
            out.append(0.7)
        else:
            assert isinstance(p.type, Array)
            shape = [s.substitute(lambda v: Poly({(): env[v]})).evaluate(int) for s in p.type.shape]
            out.append(rng.uniform(-1.0, 1.0, shape))
    return out


@pytest.mark.parametrize("name", NAMED)
def test_a_pass_changes_a_program_and_keeps_its_meaning(name: str) -> None:
    entry, steps = steps_of(EXERCISES[name], NAMED[name].device is True, name == "staging")
    mine = [step for step in steps if step.made_by.name == name]
    assert mine, f"{name} changes nothing: write a program that it changes"
    for step in mine:
        args = chosen(step.before.functions[entry].params)
        before, after = (meaning(p, entry, args) for p in (step.before, step.after))
        assert_same(before, after, exact=step.made_by.exact)
