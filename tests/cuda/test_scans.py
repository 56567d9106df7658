"""Running totals of any length: by one block and by several."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dlang.codegen.abi import WARP
from dlang.codegen.cuda import nests
from dlang.codegen.cuda.scans import MOST
from tests.cuda.both import Both

PROGRAM = """
import math { cumprod }
fn sums(x: f64[n]) -> f64[n] = cumsum(x)
fn counts(x: i32[n]) -> i32[n] = cumsum(x)
fn products(x: f32[n]) -> f32[n] = cumprod(x)
fn scaled(x: f64[n]) -> (f64[n], f64) {
  let y = cumsum([2.0 * v for v in x])
  (y, sum(y) / f64(n))
}
fn weighted(x: f64[n]) -> f64 {
  let y = cumsum(x)
  sum(y[i] * f64(i) for i)
}
fn steps(x: f64[n]) -> (f64[n], i32) {
  var (y, k) = (x, i32(0))
  for i < n { y[i] = f64(k) * x[i]
    k += 2 }
  (y, k)
}
fn gradients(x: f64[n]) -> f64[n] = grad(weighted)(x)
"""
FUNCTIONS = ("sums", "counts", "products", "scaled", "steps", "gradients")


@cache
def program() -> Both:
    return Both(PROGRAM, FUNCTIONS)


@pytest.mark.parametrize("size", [0, 1, 31, 33, 1000, 20_001])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_scan_gives_what_the_interpreter_gives(name: str, size: int) -> None:
    draw = np.random.default_rng(size)
    if name == "scaled" and size == 0:
        size = 2
    x = draw.standard_normal(size)
    args = {"counts": draw.integers(-100, 100, size, np.int32), "products": (1.0 + 0.01 * x).astype(np.float32)}
    program().agree(name, [size], [args.get(name, x)], {"products": 1e-4, "counts": 0}.get(name, 1e-8))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_done_by_kernels(name: str) -> None:
    assert [k.form for k in program().kernels(name)].count("scan") == 2


# ---- many totals -----------------------------------------------------------------------------------------------------
def of_totals(count: int) -> str:
    """A loop with so many running totals."""
    names = [f"a{k}" for k in range(count)]
    added = "".join(f"    {name} += {k}.5 * x[i]\n" for k, name in enumerate(names))
    return f"""fn totals{count}(x: f64[n]) -> f64[n] {{
  var (y, {", ".join(names)}) = (x{", 0.0" * count})
  for i < n {{ y[i] = {" + ".join(f"{name} * x[i]" for name in names)}
{added}  }}
  y }}
"""


def of_sums(count: int) -> str:
    """Rows with so many sums."""
    names = [f"a{k}" for k in range(count)]
    sums = "".join(f"  let {name} = sum((x[i, j] + {k}.5) ** 2 for j)\n" for k, name in enumerate(names))
    return f"fn sums{count}(x: f64[n, m]) -> f64[n] = [{{\n{sums}  {' + '.join(names)} }} for i]\n"


@pytest.mark.parametrize(("count", "kernels"), [(MOST, 2), (MOST + 1, 0), (30, 0)])
def test_as_many_totals_are_kept_as_blocks_have_memory_for(count: int, kernels: int) -> None:
    name = f"totals{count}"
    both = Both(of_totals(count), [name])
    assert [k.form for k in both.kernels(name)].count("scan") == kernels
    both.agree(name, [700], [np.random.default_rng(0).standard_normal(700)], 1e-9)


@pytest.mark.parametrize(("count", "form"), [(8, "rows"), (9, "map")])
def test_as_many_sums_of_a_row_are_shared_as_blocks_have_memory_for(
    count: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nests, "SHARED", 8 * WARP * 8 + 1)
    name = f"sums{count}"
    both = Both(of_sums(count), [name])
    assert both.kernels(name)[0].form == form
    both.agree(name, [2, 400], [np.random.default_rng(0).standard_normal((2, 400))], 1e-9)
