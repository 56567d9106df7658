"""Tensors of PyTorch as arguments: read where they lie, and tensors come out."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.python.kinds import TORCH, kind_of

torch = pytest.importorskip("torch")

TEXT = """
struct Net<n> { w: f64[n], b: f64 }
fn total(x: f64[n]) -> f64 = sum(x)
fn grown(x: f64[n]) -> f64[n] = 2.0 * x + 1.0
fn twice(x) = x + x
fn element(x: f64[n], k: i64) -> f64 = x[k]
fn loss(p: Net<n>, x: f64[n]) -> f64 = sum(p.w * x) + p.b ** 2
fn negative(x: f64[n]) -> bool[n] = [v < 0.0 for v in x]
"""
X = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(TEXT, request.param)


def test_tensors_in_give_tensors_out(m):
    for _ in range(3):
        assert torch.equal(m.grown(X), 2 * X + 1)
        assert torch.equal(m.total(X), torch.tensor(6.0, dtype=torch.float64))
        assert torch.equal(m.negative(-X), torch.tensor([True, True, True]))
    value, slope = dlang.value_and_grad(m.loss)(m.Net(X, 1.0), X)
    assert value.item() == 15.0 and torch.equal(slope.w, X) and slope.b.item() == 2.0
    assert m.element(X, torch.tensor(2)).item() == 3.0


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.int16]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_every_dtype_keeps_itself_and_its_shape(m, dtype, shape):
    x = torch.ones(shape, dtype=dtype)
    y = m.twice(x)
    assert y.dtype == dtype and torch.equal(y, x + x)


def test_any_layout_is_read_right(m):
    grid = torch.arange(12.0, dtype=torch.float64).reshape(3, 4)
    for x in (grid.T, grid[:, ::2], grid.flip(0), grid[1:, 1:], grid.expand(2, 3, 4)):
        assert torch.equal(m.twice(x), x + x)
    half = torch.ones(4, 4, dtype=torch.bfloat16)[::2, 1:]
    assert torch.equal(m.twice(half), half + half)


def test_no_memory_is_copied_on_the_way():
    x = torch.ones(1000, dtype=torch.bfloat16)
    assert kind_of(x) is TORCH and TORCH.seen(x).ctypes.data == x.data_ptr()
    made = np.ones(1000)
    assert TORCH.made(made).data_ptr() == made.ctypes.data


def test_a_gradient_is_never_lost_without_a_word(m):
    x = X.clone().requires_grad_()
    with pytest.raises(dlang.DlangError, match=r"(?s)E0966.*requires a gradient.*to_torch"):
        m.grown(x)
    assert torch.equal(m.grown(x.detach()), 2 * X + 1)
    with torch.no_grad():
        assert torch.equal(m.grown(x), 2 * X + 1)


def test_what_has_no_numbers_in_rows_is_told(m):
    with pytest.raises(dlang.DlangError, match="E0966"):
        m.grown(torch.ones(3, dtype=torch.float64, device="meta"))
    with pytest.raises(dlang.DlangError, match=r"(?s)E0966.*to_dense"):
        m.grown(X.to_sparse())


def test_what_helps_is_said_in_the_words_of_pytorch(m):
    for call in (m.grown, m.grown.bind(), m.grown.to_torch(), torch.compile(m.grown.to_torch(), backend="eager")):
        with pytest.raises(Exception, match=r"got f32\[3\]\n(?s:.*)convert it: `.to\(torch.float64\)`"):
            call(torch.ones(3))
    with pytest.raises(dlang.DlangError, match=r"(?s)argument `x` can't be read.*to_dense"):
        m.grown.to_torch()(X.to_sparse())
