"""Sizes that are known only when a program runs are certified: what uses an array depends on the check of its sizes."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Assert, Comp, LinalgOp, Program, Read, Reshape, Var
from dlang.ir.traverse import mentioned, walk
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.specialize.support import lowered, ops

READS = {
    "io.npz": """
import io
fn main(path: str) {
  let a: f64[n, 8] = io.npz(path, "a")
  let u = exp(sum(a))
  let b: f64[n, 8] = io.npz(path, "b")
  print("{u} {sum(a * b)}")
}
""",
    "io.load": """
import io
struct S<n> { a: f64[n, 8] }
fn main(path: str) {
  let s: S<n> = io.load(path)
  let u = exp(sum(s.a))
  let r: S<n> = io.load(path)
  print("{u} {sum(s.a * r.a)}")
}
""",
    "as": """
fn main(a: f64[n, m], b: f64[k, l]) {
  let x = a as f64[n, 8]
  let u = exp(sum(x))
  let y = b as f64[n, 8]
  print("{u} {sum(x * y)}")
}
""",
}


def uncertified(program: Program, name: str) -> list[Var]:
    """The arrays that operations of a function use, although a check compares their sizes."""
    lets = list(walk(program.functions[name].body))
    guarded = {s for let in lets if isinstance(let.op, Assert) for s in let.op.guarded}
    return [
        v
        for let in lets
        if isinstance(let.op, Comp | LinalgOp | Read | Reshape)
        for v in mentioned(let.op)
        if v in guarded
    ]


@pytest.mark.parametrize("text", READS.values(), ids=READS)
def test_no_access_is_before_the_check_of_its_sizes(text: str) -> None:
    made = lowered(text, "main")
    checks = [op for op in ops(made.program) if isinstance(op, Assert) and op.code == "E0807"]
    assert checks and all(check.guarded for check in checks)
    after = optimise(made.program, [made.entry.name], verify=True)
    assert len([op for op in ops(after) if isinstance(op, Assert)]) == len(checks)
    assert not uncertified(after, made.entry.name)


def test_an_asserted_size_is_checked_once_and_for_all_arrays_of_a_structure() -> None:
    struct = "struct P { x: f64, y: f64 }\n"
    made = lowered(struct + "fn f(p: P[n, m]) -> P[n, 2] = p as P[n, 2]")
    for program in (made.program, optimise(made.program, [made.entry.name], verify=True)):
        (check,) = [op for op in ops(program) if isinstance(op, Assert)]
        assert len(check.guarded) == 2
    x = np.ones((3, 2))
    assert [np.shape(v) for v in made.run(3, 2, x, x)] == [(3, 2), (3, 2)]
    with pytest.raises(RunError, match=r"`as`: axis 1 has size 4, expected 2"):
        made.run(3, 4, np.ones((3, 4)), np.ones((3, 4)))


def test_each_axis_that_is_asserted_has_a_message_of_its_own() -> None:
    made = lowered("struct S<n, m> { a: f64[n, m] }\nfn f(s: S<n, m>) = (s as S<3, 5>).a")
    for n, m, message in [(4, 5, r"axis 0 of `\.a` has size 4, expected 3"), (3, 2, r"axis 1 of `\.a` has size 2")]:
        with pytest.raises(RunError, match=message):
            made.run(n, m, np.ones((n, m)))
    assert np.shape(made.run(3, 5, np.ones((3, 5)))[0]) == (3, 5)


def test_the_greatest_of_no_texts_is_read_nowhere() -> None:
    text = """
fn f(x: str[n], k: i64) -> i64 {
  var s = 0
  for t < k { if max(x) == "a" { s += 1 } }
  s
}
"""
    made = lowered(text)
    after = optimise(made.program, [made.entry.name], verify=True)
    checks = [op for op in ops(after) if isinstance(op, Assert)]
    assert checks and all(check.guarded for check in checks)
    assert not uncertified(after, made.entry.name)
    assert made.run(0, np.array([], dtype=object), 0, optimised=True) == [0]
    with pytest.raises(RunError, match="`max` of nothing"):
        made.run(0, np.array([], dtype=object), 1, optimised=True)


LEARNED = """
fn f(a: f64[m], y: f64[d]) -> f64 {
  let e = clip(i64(sum(exp(y))), 2, 10)
  let z = [f64(j) for j < m - e]         # so m is at least 2
  let v = sum([y[i] * a[1] for i])       # over the points of the first sum
  v + sum(z)
}
"""


def test_what_is_in_range_because_of_a_check_stays_behind_it() -> None:
    program = lowered(LEARNED)
    for optimised in (False, True):
        assert program.run(3, 3, np.arange(3.0), np.zeros(3), optimised=optimised) == [0.0]
        with pytest.raises(RunError) as caught:
            program.run(0, 3, np.zeros(0), np.zeros(3), optimised=optimised)
        assert caught.value.code == "E0802"


MADE = {
    "rows": "let w = [[x[i] for j < n - 2] for i < n]\n  sum(w) + x[1] * f64(k)",
    "in a comprehension": "sum({ let z = zeros(n - 2)\n  x[1] * f64(i) + sum(z) + f64(len(z)) } for i < k)",
    "in two": "sum({ let z = zeros(n - 2)\n  x[1] * f64(i * j) + sum(z) + f64(len(z)) } for i < k, j < k)",
    "in a loop": "var s = 0.0\n  for i < k { let z = [x[0] for j < n - 2]\n  s += x[1] ** 2 + sum(z) }\n  s",
    "after a change": "var a = x\n  a[0] = 2.0\n  let z = zeros(n - 2)\n  x[1] * f64(k) + a[0] + sum(z) + f64(len(z))",
}


@pytest.mark.parametrize("name", ["f", "g"])
@pytest.mark.parametrize("body", MADE.values(), ids=MADE)
def test_an_array_that_could_not_be_made_puts_nothing_in_range(body: str, name: str) -> None:
    text = f"fn f(x: f64[n], k: i64) -> f64 {{\n  {body}\n}}\nfn g(x: f64[n], k: i64) -> f64[n] = grad(f)(x, k)"
    made = lowered(text, name)
    program = optimise(made.program, [made.entry.name], verify=True)
    compiled = Engine(Host(), sanitize=True, level=0).compile(program, [made.entry.name])
    for n in range(4):
        for k in range(3):
            args = [n, np.arange(1.0, n + 1.0), k]
            outcomes = []
            for run in (Interpreter(program).run, compiled.run):
                try:
                    outcomes.append(np.asarray(run(made.entry.name, args)[0]))
                except RunError as e:
                    outcomes.append(e.code)
            first, second = outcomes
            if isinstance(first, str):
                assert first == second and first in ("E0801", "E0802"), (n, k, first, second)
            else:
                assert n > 1 or k == 0, (n, k)
                np.testing.assert_allclose(first, second)
