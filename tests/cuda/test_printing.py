"""The text of kernels, character by character: `kernels/NAME.cu` is what `PROGRAMS[NAME]` becomes.

`python -m tests.cuda.test_printing` writes the texts anew; read the difference before you keep it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dlang.diagnostics import Source
from dlang.driver import check, errors_of
from dlang.dump_ir import listing
from dlang.runtime.emulation.driver import OPTIONS, compiler, full_source

KERNELS = Path(__file__).parent / "kernels"
PROGRAMS = {
    "map": "fn f(x: f64[n], k: i32[n]) -> f64[n] = [exp(x[i]) * f64(k[i] + 1) for i]",
    "map_of_two_axes": "fn f(x: f32[n], y: f32[m]) -> f32[n, m] = [maximum(x[i], y[j]) for i, j]",
    "guarded": "fn f(x: f64[n], k: i64[n]) -> f64[n] = [2.0 * x[k[i]] for i]",
    "reduction": "fn f(x: f64[n]) -> (f64, i64) = (sum(x), argmax(x))",
    "reduction_with_a_guard": "fn f(x: f64[n], k: i64[m]) -> f64 = sum(x[k[i]] for i)",
    "rows": "fn f(x: f64[n, m]) -> f64[n, m] = [x[i, j] / sum(x[i, k] for k) for i, j]",
    "softmax": "import nn { softmax }\nfn f(x: f32[n, m]) -> f32[n, m] = [softmax(x[i]) for i]",
    "transposed": "fn f(x: f32[n, m], y: f32[m]) -> f32[m, n] = [x[i, j] * y[j] for j, i]",
    "scan": "fn f(x: f32[n]) -> f32[n] = cumsum(x)",
    "columns": "fn f(x: f64[n, m]) -> f64[m] = sum(x, axis = 0)",
    "scattered": "fn f(x: f64[n], k: Idx<n>[m]) -> f64[n] = grad(|y: f64[n]| sum(y[k[i]] ** 2 for i))(x)",
    "scattered_exactly": "fn f(x: f64[n], k: Idx<n>[m]) -> f64[n] = grad(|y: f64[n]| sum(y[k[i]] ** 2 for i))(x)",
    "loop_in_order": """fn steps(x: f64) -> i64 {
  var (v, k) = (x, 0)
  while v > 1.0 { (v, k) = (v / 2.0, k + 1) }
  k
}
fn f(x: f64[n]) -> i64[n] = [steps(v) for v in x]""",
    "branch": "fn f(x: f64[n, n]) -> f64[n, n] = [if j <= i { x[i, j] } else { 0.0 } for i, j]",
    "half": "fn f(x: f16[n], y: f16[n]) -> f16[n] = [x[i] * y[i] + x[i] for i]",
    "quotients": "fn f(x: f64[n, m], k: i64) -> f64[n * m] = [x[(i + 1) // m % n, (i + k) % m] for i < n * m]",
    "integers": "fn f(x: i8[n], y: u64[n]) -> u64[n] = [shift_right(y[i], 3) * u64(x[i]) for i]",
}


def listed(name: str) -> str:
    checked = check(Source("program.dl", PROGRAMS[name] + "\n"))
    assert not errors_of(checked)
    return listing([checked.module.functions["f"]], "cuda", deterministic=name.endswith("_exactly"))


def text_of(name: str) -> str:
    text = listed(name)
    first = min(text.find(start) for start in ("\nstruct ", '\nextern "C"') if start in text)
    return text[first:].strip() + "\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_kernel_is_as_it_was_read_and_approved(name: str) -> None:
    assert text_of(name) == (KERNELS / f"{name}.cu").read_text(encoding="utf-8")


def test_the_program_of_the_host_launches_its_kernels() -> None:
    assert "launch kernel 0, pieces" in listed("map")


def test_kernels_compile_with_the_pointers_of_a_device() -> None:
    parts = [full_source(())]
    for name in PROGRAMS:
        text = (KERNELS / f"{name}.cu").read_text(encoding="utf-8")
        own = text.replace('extern "C" ', "")
        parts.append(f"namespace {name} {{\n{own}}}\n")
    command = [compiler(), *OPTIONS, "-DDL_PLAIN", "-fsyntax-only", "-x", "c++", "-"]
    run = subprocess.run(command, input="\n".join(parts), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


if __name__ == "__main__":
    for name in PROGRAMS:
        (KERNELS / f"{name}.cu").write_text(text_of(name), encoding="utf-8")
