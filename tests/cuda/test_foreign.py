"""Kernels that a program brings along."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dlang

PROGRAM = """
extern "cuda:kernels.cu:twice" fn twice(x: f64[n], nodiff n: size) -> f64[n]
extern "cuda:kernels.cu:outer" fn outer(x: f64[n], y: f32[m], nodiff n: size, nodiff m: size) -> f64[n, m]
pullback twice(x, n) -> y = |g| 2.0 * g
fn f(x: f64[n]) -> f64 = sum(twice(x * x, n))
fn table(x: f64[n], y: f32[m]) -> f64[n, m] = outer(x, y, n, m) + 1.0
"""
KERNELS = """
extern "C" __global__ void twice(const double *x, long long n, double *out) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    out[i] = 2.0 * x[i];
}
extern "C" __global__ void outer(const double *x, const float *y, long long n, long long m, double *out) {
  long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x, all = (long long)gridDim.x * blockDim.x;
  for (long long k = first; k < n * m; k += all)
    out[k] = x[k / m] * y[k % m];
}
"""


def module(folder: Path, kernels: str = KERNELS, backend: str = "cuda-emulated"):
    (folder / "kernels.cu").write_text(kernels)
    (folder / "program.dl").write_text(PROGRAM)
    return dlang.load(folder / "program.dl", backend=backend)


def test_a_kernel_of_a_file_is_called_and_has_a_rule(tmp_path: Path) -> None:
    m, x = module(tmp_path), np.linspace(0.0, 3.0, 20_000)
    assert np.isclose(m.f(x), 2 * np.sum(x * x))
    np.testing.assert_array_equal(dlang.grad(m.f)(x), 4 * x)


def test_arrays_of_several_axes_and_dtypes(tmp_path: Path) -> None:
    x, y = np.arange(3.0), np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(module(tmp_path).table(x, y), np.outer(x, y) + 1)


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_it_needs_a_device(tmp_path: Path, backend: str) -> None:
    with pytest.raises(dlang.DlangError, match=r"the kernel `twice` of `kernels\.cu` cannot run on the CPU"):
        module(tmp_path, backend=backend).f(np.ones(2))


def test_a_file_must_be_there(tmp_path: Path) -> None:
    m = module(tmp_path)
    (tmp_path / "kernels.cu").unlink()
    with pytest.raises(dlang.DlangError, match=r"the kernels of `kernels\.cu` cannot be read"):
        m.f(np.ones(2))


def test_so_must_the_kernel(tmp_path: Path) -> None:
    with pytest.raises(dlang.DlangError, match=r"`kernels\.cu` has no kernel `twice`"):
        module(tmp_path, KERNELS.replace("twice", "thrice")).f(np.ones(2))


def test_it_must_compile(tmp_path: Path) -> None:
    with pytest.raises(dlang.DlangError, match=r"the kernel `twice` does not compile: twice.cu:4.*ouch"):
        module(tmp_path, KERNELS.replace("2.0 * x[i]", "2.0 * ouch")).f(np.ones(2))


def test_it_gives_arrays() -> None:
    m = dlang.compile('extern "cuda:a.cu:k" fn k(x: f64[n]) -> f64\nfn f(x: f64[n]) = k(x)', backend="cuda-emulated")
    with pytest.raises(dlang.DlangError, match="the kernel `k` gives a number"):
        m.f(np.ones(2))


def test_what_is_in_the_file_now_counts(tmp_path: Path) -> None:
    x = np.ones(50)
    assert module(tmp_path).f(x) == 100.0
    assert module(tmp_path, KERNELS.replace("2.0 * x[i]", "3.0 * x[i]")).f(x) == 150.0
