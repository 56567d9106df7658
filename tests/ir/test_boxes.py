"""The quick way through a comprehension gives what the usual one gives, to the last bit, and fails where it fails."""

import numpy as np
import pytest

from dlang.diagnostics import Source
from dlang.driver import Request, check, errors_of, expanded
from dlang.host.errors import RunError
from dlang.interpret import boxes
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import poly

HEAD = """
fn main(x: f64[n, m], v: f64[n], k: i64[m], c: f64) = {
"""
X = np.random.default_rng(3).normal(size=(4, 3))
GIVEN = [4, 3, X, np.array([0.3, -2.0, np.nan, 5.0]), np.array([2, 0, 2]), 0.25]
HUNDRED = [100, 9, np.random.default_rng(4).normal(size=(100, 9)), np.linspace(-3.0, 3.0, 100), np.arange(9) * 11, 1.5]

BODIES = {
    "sums": "(sum(x), sum(x, axis = 0), sum(x, axis = 1), prod(x), mean(v))",
    "extrema": "(max(x), min(x, axis = 1), argmax(x, axis = 1), argmin(x), any([e > 1.0 for e in v]), argmax(v))",
    "maps": "([x[i, j] * c + v[i] for i, j], [exp(sin(e)) ** 2.0 for e in v], [j * i for i < 3, j < 2])",
    "dtypes": "([f32(e) * 1.1 for e in v], [bf16(e) + 1.0 for e in v], [i8(e * 100) * 3i8 for e in k], i64(v))",
    "halves": "(sum([bf16(e) for e in v]), sum([f16(e) * 0.1 for e in v]), sum([f32(e) for e in v]))",
    "gathers": "(v[k], [v[k[j]] + f64(j) for j], x[k[1]], x[1, ..], x[.., 0], v[1..3], [x[i, 2 - j] for i < 2, j < 3])",
    "ragged": "([sum(x[i, j] for j < i) for i < 3], sum([v[e] for e in k if e > 0]))",
    "updates": "{ var y = x\n for i { y[i, 0] = v[i] * 2.0\n y[i, 1] += c }\n y[1] = y[2]\n y[.., 2] = v\n (y, x) }",
    "branches": "([if e > c { sqrt(e) } else { c } for e in v], if c > 1.0 { v[0] } else { c }, where(v < c, v, c))",
    "loops": "[{ var s = e\n while s < 10.0 { s = s * 2.0 + 1.0 }\n s } for e in [0.5, 20.0, -0.5]]",
    "calls": "([own(x[i], c) for i], [own([a, b], 2.0) for a in v, b in v])",
    "products": "(x @ x[0], cumsum(v), sort(v), reverse(v), reshape([e + 1.0 for e in v], n, 1))",
    "slopes": "(grad(loss, wrt = (w, y, c))(v, x, c), jvp(loss, (v, x, c), (v, x, 1.0)))",
    "gathered": "(grad(picked)(v, k), hessian(|p: f64[2]| p[0] ** 3 * p[1])([1.0, 2.0]))",
    "recursive": "[depth(i, c) for i < 5]",
    "texts": '(["{i}: {e:.2f}" for e in v, i < 2], ["a" for i < 3])',
    "none": "([e for e in v[0..0]], sum(v[1..1]), max([1.0 for i < 1]), [x[i, j] for i < 0, j])",
    "few and many": "([[own([a], e) for e in x[0]] for a in x[0]], [[a * e for e in v] for a in v], iota(50))",
    "few": "[{ let r = [e, c, 2.0]\n r[i % 3] + max([if q < e { q } else { c } for q in r]) } for e in v, i < 3]",
    "ones": "([1.0 for i < 3, j < 2], [i for i < 4], [c for i < 2], [true for i < 2])",
}
FAILING = {
    "an index": "[v[e + 2] for e in k]",
    "a later index": "[v[i * i] for i < 5]",
    "an assertion": '[{ assert e < 3.0, "{e} is too much"\n e } for e in v]',
    "in a call": "[checked(e) for e in v]",
    "a division": "[k[j] // (k[j] - 2) for j]",
    "of two": "[v[i * 3] + v[i + 3] for i < 4]",
}
OWN = """
fn own(row: f64[p], s: f64) -> f64 = {
  let t = row * s
  if sum(t) > 0.0 { return sum(t * t) }
  var a = 0.0
  for e in t { a -= e }
  a
}
fn loss(w: f64[p], y: f64[p, q], c: f64) -> f64 =
  sum([sum(y[i]) * tanh(w[i]) for i] ** 2) * c + sum([own(r, c) for r in y])
fn picked(w: f64[p], at: i64[q]) -> f64 = sum(w[at] ** 2) + sum([w[i] for i < 2]) * max(w)
fn depth(i: i64, c: f64) -> f64 = if i == 0 { c } else { depth(i - 1, c) * 2.0 }
fn checked(e: f64) -> f64 = { assert e < 4.0, "too much"
  e }
"""


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype == object:
        return a.shape == b.shape and list(a.reshape(-1)) == list(b.reshape(-1))
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def outcome(interpreter, name, args):
    try:
        return interpreter.run(name, args)
    except RunError as e:
        return str(e), e.code, repr(e.span)


def both(body, args):
    """The outcomes in the usual way and in the quick one, which cost the same."""
    checked = check(Source("p.dl", HEAD + body + "\n}\n" + OWN))
    assert not errors_of(checked), errors_of(checked)
    decl = checked.module.functions["main"]
    program, entry = expanded(Request(decl, dict.fromkeys(decl.variables, poly(0))))
    usual, quick = Interpreter(program), Interpreter(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxes, "is_simple", lambda op: False)
        outcomes = [outcome(usual, entry.name, args)]
    outcomes.append(outcome(quick, entry.name, args))
    costs = [(i.counts, i.passes, i.copies, i.allocated) for i in (usual, quick)]
    assert costs[0] == costs[1] or not isinstance(outcomes[0], list)
    return outcomes


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("args", [GIVEN, HUNDRED], ids=["few", "many"])
def test_results_are_the_same(name, args):
    usual, quick = both(BODIES[name], args)
    assert isinstance(usual, list), usual
    assert len(usual) == len(quick) and all(map(same, usual, quick))


@pytest.mark.parametrize("name", FAILING)
def test_failures_are_the_same(name):
    usual, quick = both(FAILING[name], GIVEN)
    assert isinstance(usual, tuple) and usual == quick
