"""Functions as primitives of JAX: differentiated in both modes, compiled and mapped like its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dlang

jax = pytest.importorskip("jax")
jnp = jax.numpy
from jax.test_util import check_grads  # noqa: E402

TEXT = """
import random { uniform }
struct Net<n, m> { w: f64[n, m], b: f64[m] }
struct Deep<n> { first: Net<n, n>, scale: f64 }
fn loss(p: Net<n, m>, x: f64[k, n], y: f64[k, m]) -> f64 = mean((tanh(x @ p.w + p.b) - y) ** 2)
fn deep(d: Deep<n>, x: f64[n]) -> (Deep<n>, f64) =
  (Deep(first = Net(w = d.first.w * d.scale, b = exp(d.first.b)), scale = sum(d.first.b * x)), d.scale ** 3)
fn grown(x: f64[n], s: f64 = 2.0) -> f64[n] = exp(s * x) + 1.0
fn cube(x) = x * x * x
fn every_other(x: f64[n]) -> f64[n // 2] = [x[2 * i] ** 3 for i < n // 2]
fn gathered(x: f64[n], k: Idx<n>[m]) -> f64[m] = [x[j] ** 2 for j in k]
fn repeated(x: f64, n: size) -> f64[n] = full(x * x, n)
fn noisy(x: f64[n]) -> f64[n] ! random = [v * uniform() for v in x]
fn ranks(x: f64[n]) -> (i64, f64[n]) = (argmax(x), x * x)
fn held(x: f64[n], nodiff s: f64) -> f64[n] = x * x * s
fn positive(x: f64[n]) -> f64[?] = [v for v in x if v > 0.0]
"""


@pytest.fixture(scope="module")
def m():
    return dlang.compile(TEXT)


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def real(*shape):
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape))


def plain(m, name):
    f = getattr(m, name).to_jax()
    match name:
        case "loss":
            return lambda w, b, x, y: f(m.Net(w, b), x, y)
        case "deep":
            return lambda w, b, s, x: jax.tree.leaves(f(m.Deep(m.Net(w, b), s), x))
        case "gathered":
            return lambda x: f(x, jnp.array([0, 0, 2]))
        case "repeated":
            return lambda x: f(x, n=3)
        case "noisy":
            return lambda x: f(x, seed=7)
        case "held":
            return lambda x: f(x, 2.0)
    return f


CASES = {
    "loss": [(3, 2), (2,), (4, 3), (4, 2)],
    "deep": [(3, 3), (3,), (), (3,)],
    "grown": [(3,)],
    "cube": [(2, 3)],
    "every_other": [(5,)],
    "gathered": [(4,)],
    "repeated": [()],
    "noisy": [(3,)],
    "held": [(3,)],
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_right_in_both_modes_and_both_orders(m, name):
    check_grads(plain(m, name), tuple([real(*s) for s in CASES[name]]), order=2, modes=("fwd", "rev"))


@pytest.mark.parametrize("wrapped", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_the_same_network_in_jax_has_the_same_derivatives(m, wrapped):
    given = (real(3, 2), real(2), real(4, 3), real(4, 2))

    def theirs(w, b, x, y):
        return jnp.mean((jnp.tanh(x @ w + b) - y) ** 2)

    ours, every = plain(m, "loss"), (0, 1, 2, 3)
    batch = (*given[:2], jnp.stack([given[2], -given[2]]), jnp.stack([given[3], given[3]]))
    for derivative, arguments in (
        (lambda f: f, given),
        (lambda f: jax.grad(f, every), given),
        (lambda f: jax.hessian(f, every), given),
        (lambda f: jax.jacrev(jax.jacrev(f, every), every), given),
        (lambda f: jax.vmap(f, in_axes=(None, None, 0, 0)), batch),
        (lambda f: jax.vmap(jax.grad(f), in_axes=(None, None, 0, 0)), batch),
        (lambda f: jax.grad(lambda *a: jax.vmap(f, in_axes=(None, None, 0, 0))(*a).sum()), batch),
    ):
        made = [wrapped(derivative(f))(*arguments) for f in (ours, theirs)]
        jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-9, atol=1e-12), *made)


def test_only_what_is_wanted_is_pulled_back(m):
    f = m.loss.to_jax()
    net, x, y = m.Net(real(3, 2), real(2)), real(4, 3), real(4, 2)
    slope = jax.grad(f)(net, x, y)
    assert type(slope) is m.Net
    wanted = dlang.grad(m.loss)(net, x, y)
    np.testing.assert_allclose(slope.w, wanted.w)
    text = str(jax.make_jaxpr(jax.grad(f))(net, x, y))
    assert "vjp(loss): (Net<n, m>, f64[k, n], f64[k, m], f64) -> Net<n, m>>" in text


def test_integers_numbers_names_and_bound_arguments(m):
    x = real(4)
    where, _ = m.ranks.to_jax()(x)
    assert where.dtype == jnp.int64 and where == jnp.argmax(x)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: m.ranks.to_jax()(x)[1].sum()))(x), 2 * x)
    f = m.grown.to_jax()
    assert np.array_equal(f(x), f(s=2.0, x=x)) and np.array_equal(f(x, 2.0), f(x, jnp.float64(2.0)))
    assert np.array_equal(m.grown.bind(s=2.0).to_jax()(x), f(x))
    assert m.cube.to_jax()(jnp.float32(2.0)).dtype == jnp.float32
    noisy = m.noisy.to_jax()
    assert np.array_equal(noisy(x, seed=1), jax.jit(lambda x: noisy(x, seed=1))(x))


def test_structs_are_trees_of_jax(m):
    net = m.Deep(m.Net(real(3, 3), real(3)), jnp.float64(2.0))
    twice = jax.tree.map(lambda a: 2 * a, net)
    assert type(twice) is m.Deep and type(twice.first) is m.Net and twice.scale == 4.0
    assert [str(path[-1]) for path, _ in jax.tree_util.tree_leaves_with_path(net)] == [".w", ".b", ".scale"]
    moved, number = jax.jit(m.deep.to_jax())(net, real(3))
    assert type(moved) is m.Deep and number == 8.0
    some = jax.tree.map(lambda a: a + 1.0, dlang.compile("fn f(x: Option<f64>) -> f64 = 0.0").Some(1.0))
    assert some._0 == 2.0


def test_jax_is_only_imported_by_those_who_want_it():
    program = "import dlang, sys; m = dlang.compile('struct P { x: f64 }\\nfn f(p: P) -> f64 = p.x'); m.f(m.P(1.0)); "
    program += "assert not {'jax', 'torch'} & set(sys.modules)"
    environment = {"PYTHONPATH": str(Path(dlang.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", program], env=environment, timeout=60).returncode == 0


def test_what_does_not_fit_is_told(m):
    f, x = m.grown.to_jax(), real(3)
    with pytest.raises(dlang.DlangError, match=r"E0960.*argument `x`: expected f64\[n\], got f32\[3\]"):
        jax.jit(f)(x.astype(jnp.float32))
    for call in (lambda: f(), lambda: f(x, t=1.0), lambda: f(x, x=x), lambda: f("a"), lambda: f(x, seed=1)):
        with pytest.raises(dlang.DlangError, match="E0961"):
            call()
    with pytest.raises(dlang.DlangError, match=r"E0967.*known only when it runs"):
        m.positive.to_jax()
    with pytest.raises(jax.errors.JaxRuntimeError, match="index 9, which is not below n = 3"):
        jax.block_until_ready(jax.jit(lambda x: m.gathered.to_jax()(x, jnp.array([9])))(x))
    with jax.enable_x64(False), pytest.raises(dlang.DlangError, match=r"(?s)E0966.*jax_enable_x64"):
        dlang.compile("fn f(x: f32[n]) -> i64 = argmax(x)").f.to_jax()(jnp.ones(3))
