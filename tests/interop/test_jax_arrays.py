"""Arrays of JAX as arguments: read where they lie, and arrays of JAX come out."""

from __future__ import annotations

import numpy as np
import pytest

import dlang

jax = pytest.importorskip("jax")
jnp = jax.numpy

TEXT = """
struct Net<n> { w: f32[n], b: f32 }
fn grown(x: f64[n]) -> f64[n] = 2.0 * x + 1.0
fn total(x: f32[n]) -> f32 = sum(x)
fn twice(x) = x + x
fn largest(x: f32[n]) -> i64 = argmax(x)
fn loss(p: Net<n>, x: f32[n]) -> f32 = sum(p.w * x) + p.b ** 2
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(TEXT, request.param)


@pytest.fixture(params=[False, True], ids=["32 bits", "64 bits"])
def wide(request):
    with jax.enable_x64(request.param):
        yield request.param


def test_arrays_in_give_arrays_out(m, wide):
    x = jnp.arange(1, 4, dtype=jnp.float32)
    for _ in range(3):
        assert isinstance(m.total(x), jax.Array) and m.total(x) == 6.0 and m.total(x).dtype == jnp.float32
    value, slope = dlang.value_and_grad(m.loss)(m.Net(x, jnp.float32(1.0)), x)
    assert value == 15.0 and isinstance(slope.w, jax.Array) and np.array_equal(slope.w, x) and slope.b == 2.0


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_every_dtype_keeps_itself_and_its_shape(m, dtype, shape):
    x = jnp.ones(shape, dtype)
    y = m.twice(x)
    assert isinstance(y, jax.Array) and y.dtype == x.dtype and np.array_equal(y, x + x)


def test_numbers_of_64_bits_need_an_option_of_jax(m, wide):
    if wide:
        x = jnp.arange(3.0)
        assert isinstance(m.grown(x), jax.Array) and np.array_equal(m.grown(x), [1.0, 3.0, 5.0])
        assert m.largest(jnp.ones(3, jnp.float32)).dtype == jnp.int64
        for call in (m.grown, m.grown.to_jax(), jax.jit(m.grown.to_jax())):
            with pytest.raises(dlang.DlangError, match=r"got f32\[3\]\n(?s:.*)`.astype\(jax.numpy.float64\)`"):
                call(jnp.ones(3, jnp.float32))
    else:
        for call in (m.grown, m.grown.to_jax(), jax.jit(m.grown.to_jax())):
            with pytest.raises(
                dlang.DlangError, match=r"E0960.*expected f64\[n\], got f32\[3\]\n(?s:.*)jax_enable_x64"
            ):
                call(jnp.arange(3.0))
        with pytest.raises(dlang.DlangError, match=r"(?s)E0966.*int64.*jax_enable_x64"):
            m.largest(jnp.ones(3, jnp.float32))


def test_what_jax_traces_is_told(m):
    with pytest.raises(dlang.DlangError, match=r"(?s)E0966.*tracing.*to_jax"):
        jax.jit(m.total)(jnp.ones(3, jnp.float32))
    with pytest.raises(dlang.DlangError, match=r"E0966.*argument `x` can't be read.*random.key_data"):
        m.total(jax.random.key(0))


def test_sizes_that_are_not_numbers_are_told(m):
    (n,) = jax.export.symbolic_shape("n")
    with pytest.raises(dlang.DlangError, match=r"E0967.*`total` can't be an operator: .*n"):
        jax.export.export(jax.jit(m.total.to_jax()))(jax.ShapeDtypeStruct((n,), jnp.float32))
