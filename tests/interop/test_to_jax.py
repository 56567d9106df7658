"""Functions as primitives of JAX: differentiated in both modes, compiled and mapped like its own."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dlang
from dlang.python import jax_operators
from tests.interop.functions import CASES, TEXT, of_arrays
from tests.patience import PATIENCE

jax = pytest.importorskip("jax")
jnp = jax.numpy
from jax.test_util import check_grads  # noqa: E402


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
    return of_arrays(m, name, lambda f: f.to_jax(), jnp.array)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_right_in_both_modes_and_both_orders(m, name):
    check_grads(plain(m, name), tuple([real(*s) for s in CASES[name]]), order=2, modes=("fwd", "rev"))


@pytest.mark.parametrize("wrapped", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_the_same_network_in_jax_has_the_same_derivatives(m, wrapped):
    given = (real(3, 2), real(2), real(4, 3), real(4, 2))

    def theirs(w, b, x, y):
        return jnp.mean((jnp.tanh(x @ w + b) - y) ** 2)

    ours, every = plain(m, "loss"), (0, 1, 2, 3)
    some = every if wrapped is jax.jit else (0, 2)  # without it, JAX compiles one thing after another
    batch = (*given[:2], jnp.stack([given[2], -given[2]]), jnp.stack([given[3], given[3]]))
    for derivative, arguments in (
        (lambda f: f, given),
        (lambda f: jax.grad(f, every), given),
        (lambda f: jax.hessian(f, some), given),
        (lambda f: jax.jacrev(jax.jacrev(f, some), some), given),
        (lambda f: jax.vmap(f, in_axes=(None, None, 0, 0)), batch),
        (lambda f: jax.vmap(jax.grad(f), in_axes=(None, None, 0, 0)), batch),
        (lambda f: jax.grad(lambda *a: jax.vmap(f, in_axes=(None, None, 0, 0))(*a).sum()), batch),
    ):
        made = [wrapped(derivative(f))(*arguments) for f in (ours, theirs)]
        jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-9, atol=1e-12), *made)


def test_control_flow_and_recomputation_are_differentiated(m):
    f, x = m.grown.to_jax(), real(3) / 4
    forms = [
        lambda f: lambda x: jax.lax.scan(lambda h, y: (f(h * y), jnp.sum(h)), x, jnp.stack([x, x + 0.1]))[1].sum(),
        lambda f: lambda x: jax.lax.cond(x[0] < 9.0, lambda x: f(x).sum(), lambda x: x.sum(), x),
        lambda f: lambda x: jax.checkpoint(lambda x: f(f(x) * 0.1))(x).sum(),
        lambda f: lambda x: jax.lax.fori_loop(0, 2, lambda k, h: f(h) * 0.1, x).sum(),
    ]
    for form in forms:
        made = [jax.jit(jax.grad(form(g)))(x) for g in (f, lambda x: jnp.exp(2.0 * x) + 1.0)]
        np.testing.assert_allclose(*made, rtol=1e-12)


def test_a_function_is_mapped_as_a_whole(m):
    for name, whole in (("grown", True), ("noisy", False)):
        f = plain(m, name)
        text = str(jax.make_jaxpr(jax.vmap(jax.grad(lambda x, f=f: f(x).sum())))(real(5, 3)))
        assert ("scan[" not in text) == whole and "dlang_call" in text


def test_a_program_for_several_devices_is_differentiated(m):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    rows = jax.sharding.PartitionSpec("i")
    net, x, y = m.Net(real(3, 2), real(2)), real(4, 3), real(4, 2)

    def spread(loss):
        def own(net, x, y):
            return jax.lax.psum(loss(net, x, y), "i")

        none = jax.sharding.PartitionSpec()
        return jax.shard_map(own, mesh=mesh, in_specs=(none, rows, rows), out_specs=none)

    def theirs(p, x, y):
        return jnp.mean((jnp.tanh(x @ p.w + p.b) - y) ** 2)

    for derivative in (lambda f: f, jax.grad, lambda f: jax.hessian(f, 1)):
        made = [jax.jit(derivative(spread(f)))(net, x, y) for f in (m.loss.to_jax(), theirs)]
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
    assert np.array_equal(f(np.asarray(x).astype(">f8")), f(x))
    assert np.array_equal(f(x), f(s=2.0, x=x)) and np.array_equal(f(x, 2.0), f(x, jnp.float64(2.0)))
    assert np.array_equal(m.grown.bind(s=2.0).to_jax()(x), f(x))
    odd = m.odd.to_jax()
    assert np.array_equal(jax.jit(odd)(x, lambda_=3.0), 3.0 * x) and np.array_equal(odd(x, 3.0), 3.0 * x)
    assert m.cube.to_jax()(jnp.float32(2.0)).dtype == jnp.float32
    noisy = m.noisy.to_jax()
    assert np.array_equal(noisy(x, seed=1), jax.jit(lambda x: noisy(x, seed=1))(x))


def test_a_primitive_is_pickled_and_looks_like_its_function(m):
    f, x = m.grown.to_jax(), real(3)
    assert np.array_equal(pickle.loads(pickle.dumps(f))(x), f(x))
    assert inspect.signature(f) == inspect.signature(m.grown) and repr(f) == f"<to_jax of {m.grown!r}>"
    assert np.array_equal(jax.jit(f, static_argnames="s")(x, s=3.0), f(x, 3.0))


# ---- machine code that XLA calls -------------------------------------------------------------------------------------
def targets(name):
    """Whether XLA calls the machine code of functions of a name itself."""
    return [made is not None for key, made in jax_operators._targets().items() if key.startswith(f"dlang_{name}_")]


DTYPES = """
fn of_f64(x: f64[n], k: f64) -> (f64[n], f64) = (x * k, k + k)
fn of_f32(x: f32[n], k: f32) -> (f32[n], f32) = (x * k, k + k)
fn of_f16(x: f16[n], k: f16) -> (f16[n], f16) = (x * k, k + k)
fn of_bf16(x: bf16[n], k: bf16) -> (bf16[n], bf16) = (x * k, k + k)
fn of_i64(x: i64[n], k: i64) -> (i64[n], i64) = (x * k, k + k)
fn of_i32(x: i32[n], k: i32) -> (i32[n], i32) = (x * k, k + k)
fn of_i8(x: i8[n], k: i8) -> (i8[n], i8) = (x * k, k + k)
fn of_u8(x: u8[n], k: u8) -> (u8[n], u8) = (x * k, k + k)
fn of_u32(x: u32[n], k: u32) -> (u32[n], u32) = (x * k, k + k)
fn of_bool(x: bool[n], k: bool) -> (bool[n], bool) = ([not v for v in x], not k)
"""


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8", "u32", "bool"])
def test_arrays_and_numbers_of_every_dtype_cross_without_python(dtype):
    own = {"f": "float", "b": "bfloat", "i": "int", "u": "uint"}[dtype[0]] + dtype.lstrip("bfiu")
    own = "bool" if dtype == "bool" else own
    f = getattr(dlang.compile(DTYPES), f"of_{dtype}").to_jax()
    x, k = jnp.array([1, 0, 3]).astype(own), jnp.array(1 if dtype == "bool" else 3).astype(own)
    array, number = jax.jit(f)(x, k)
    wanted = (~x, ~k) if dtype == "bool" else (x * k, k + k)
    assert array.dtype == number.dtype == x.dtype
    assert np.array_equal(array, wanted[0]) and np.array_equal(number, wanted[1])
    assert targets(f"of_{dtype}") == [True]


def test_results_of_all_sorts_arrive(m):
    module = dlang.compile(
        """
        fn sorted(x: f64[n]) -> f64[n] = sort(x)
        fn large(x: f64[n]) -> f64[n, n] = [x[i] * x[j] for i, j]
        fn nothing(x: f64[n]) -> (f64[n], f64[0]) = (x, [])
        fn looped(x: f64[n], k: i64) -> f64[n] {
          var y = x
          for i < k { y = concat(y[1..], [y[0]]) as f64[n] }
          y
        }
        """
    )
    x = real(300)
    assert np.array_equal(jax.jit(module.sorted.to_jax())(x), jnp.sort(x))
    assert np.array_equal(jax.jit(module.large.to_jax())(x), jnp.outer(x, x))
    assert jax.jit(module.nothing.to_jax())(x)[1].shape == (0,)
    assert np.array_equal(jax.jit(module.looped.to_jax())(x, jnp.int64(7)), jnp.roll(x, -7))


def test_a_failure_is_told_and_the_next_call_is_fine():
    f = jax.jit(dlang.compile("fn at(x: f64[n], k: i64) -> f64 = x[k]").at.to_jax())
    x = real(3)
    for _ in range(3):
        with pytest.raises(Exception, match=r"(?s)E0801.*index 9 is out of range"):
            jax.block_until_ready(f(x, jnp.int64(9)))
        assert f(x, jnp.int64(2)) == x[2]
    assert targets("at") == [True]


def test_calls_from_several_threads_wait_for_each_other(m):
    f, x = jax.jit(m.cube.to_jax()), real(100_000)
    wanted, right = np.asarray(x) ** 3, []

    def work():
        with jax.enable_x64(True):
            right.append(all(np.allclose(f(x), wanted) for _ in range(10)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert right == [True] * 3


def test_a_size_that_jax_traces_is_compared_or_refused(m):
    module = dlang.compile("fn scaled(n: size, x: f64[n]) -> f64[n] = x * f64(n)")
    x = real(3)
    assert np.array_equal(jax.jit(module.scaled.to_jax())(3, x), 3.0 * x)
    with pytest.raises(jax.errors.JaxRuntimeError, match="n = 4 from `n`"):
        jax.block_until_ready(jax.jit(module.scaled.to_jax())(4, x))
    f = m.repeated.to_jax()
    assert f(2.0, jnp.int64(3)).shape == jax.jit(f, static_argnums=1)(2.0, 3).shape == (3,)
    with pytest.raises(dlang.DlangError, match=r"E0967.*its parameter `n` is a size of its result"):
        jax.jit(f)(2.0, 3)


def test_what_needs_python_asks_it():
    module = dlang.compile(
        """
        fn picked(x: f64[n], k: Idx<n>) -> f64 = x[k]
        fn deep(n: i64, x: f64) -> f64 = if n == 0 { x } else { deep(n - 1, x * x) }
        fn listed(x: f64) -> f64 = total(Cons(x, Cons(x, Nil)))
        fn total(l: List<f64>) -> f64 = match l { Nil => 0.0, Cons(x, rest) => x + total(rest) }
        """
    )
    assert jax.jit(module.picked.to_jax())(jnp.arange(3.0), jnp.int64(2)) == 2.0
    assert jax.jit(lambda x: module.deep.to_jax()(2, x))(2.0) == 16.0
    assert jax.jit(jax.grad(module.listed.to_jax()))(2.0) == 2.0
    assert targets("picked") == [False]


# ---- trees -----------------------------------------------------------------------------------------------------------
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
    assert subprocess.run([sys.executable, "-c", program], env=environment, timeout=PATIENCE).returncode == 0


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


def test_integers_of_32_bits_are_taken_for_i64_and_never_read_as_it():
    m = dlang.compile(
        "fn cost(x: f32[n], i: i64[k]) -> f32 = sum(x[i] ** 2)\nfn at(x: f32[n], i: Idx<n>[k]) -> f32[k] = x[i]"
    )
    with jax.enable_x64(False):  # JAX then has no others
        x, i = jnp.arange(4.0), jnp.array([3, 2, 3])
        assert i.dtype == jnp.int32
        cost, at = m.cost.to_jax(), m.at.to_jax()
        for wrapped in (lambda f: f, jax.jit):
            assert wrapped(cost)(x, i) == 22.0
            assert wrapped(at)(x, i).tolist() == [3.0, 2.0, 3.0]
            assert wrapped(jax.grad(cost))(x, i).tolist() == [0.0, 0.0, 4.0, 12.0]
            mapped = wrapped(jax.vmap(cost, (None, 0)))
            assert mapped(x, jnp.stack([i, i[::-1]])).tolist() == [22.0, 22.0]
