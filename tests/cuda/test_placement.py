"""What the host does around kernels: what stays on the device, what is copied, and what is waited for."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

import dlang
from dlang.diagnostics import Source
from dlang.driver import Request, check, errors_of, lower
from dlang.dump_ir import listing
from dlang.host.effects import Host
from dlang.ir.anf import poly
from dlang.runtime.emulation.driver import EmulatedDriver
from dlang.runtime.engine import Engine


def host(text: str) -> str:
    """The program of the host for the function `f`, without the numbers of variables."""
    checked = check(Source("program.dl", text + "\n"))
    assert not errors_of(checked)
    listed = listing([checked.module.functions["f"]], "cuda")
    return re.sub(r"(?<=[a-z_])\.\d+\b", "", re.split(r"\n(?:struct |extern )", listed)[0])


def test_a_number_that_the_device_has_made_stays_there() -> None:
    text = host("fn f(x: f64[n]) -> f64[n] { let m = sum(x) / f64(n); [(v - m) ** 2 for v in x] }")
    assert text.count("launch kernel") == 2
    assert "fetch" not in text and "on host" not in text


def test_a_number_that_is_a_result_is_left_there() -> None:
    text = host("fn f(x: f64[n]) -> f64 = sqrt(sum(x * x))")
    assert "fetch" not in text and text.count("launch kernel") == 2
    assert re.search(r"yield &\w+\n}$", text)


def test_a_number_that_decides_how_often_is_fetched() -> None:
    text = host("fn f(x: f64[n]) -> f64[n] { var y = x; while sum(y * y) > 1.0 { y = 0.5 * y }; y }")
    assert text.count("fetch") == 1


def test_between_kernels_the_device_decides() -> None:
    text = host("fn f(x: f64[n]) -> f64[n] = if sum(x) > 0.0 { 2.0 * x } else { sin(x) }")
    assert "fetch" not in text and "if" not in text and text.count("launch kernel") == 3


def test_few_iterations_are_the_devices_where_their_arrays_are_there() -> None:
    text = host("fn f(x: f64[3], y: f64[n]) -> f64[3] { let s = sum(y); [v * s for v in x] }")
    assert text.count("launch kernel") == 2 and "on host" not in text


def test_elements_are_stored_by_one_thread() -> None:
    text = host("fn f(x: f64[n]) -> f64[n] { var y = 2.0 * x; y[0] = y[1] + y[2]; y[3] = 1.0; y }")
    assert "on host" not in text and "fetch" not in text


def test_what_is_printed_is_brought_to_the_host() -> None:
    text = host('fn f(x: f64[n]) -> f64[n] { let y = 2.0 * x; print("{y}"); y + 1.0 }')
    assert len(re.findall(r"^  on host \(&\w+\), parts \(&\w+ n\) {$", text, re.M)) == 1


def test_a_loop_in_order_is_the_hosts_with_one_copy_each_way() -> None:
    text = host("fn f(x: f64[n]) -> f64[n] { var y = sin(x); for i in 1..n { y[i] += 0.5 * y[i - 1] }; cos(y) }")
    assert len(re.findall(r"on host \((&\w+)\), changed \(\1\)", text)) == 1


def test_a_loop_around_kernels_waits_for_nothing() -> None:
    text = host("fn f(x: f64[n], k: size) -> f64[n] { var y = x; for t < k { y = y - 0.1 * y / sqrt(sum(y * y)) }; y }")
    assert "fetch" not in text and "on host" not in text and "launch kernel" in text


def test_a_product_is_one_call_for_a_whole_batch() -> None:
    text = host("fn f(a: f64[b, n, m], c: f64[b, m, k]) -> f64[b, n, k] = [a[i] @ c[i] for i < b]")
    assert re.search(r"on device: .* · .* times, by ", text)
    assert "loop" not in text and "launch" not in text


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_products_of_half_precision_take_what_there_is(dtype: str) -> None:
    text = host(f"fn f(a: {dtype}[n, m], c: {dtype}[m, k]) -> {dtype}[n, k] = a @ c")
    assert text.count("launch kernel") == 1 and text.count("allocate f32") == 1 and " · " in text


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_they_are_added_up_in_f32(dtype: str) -> None:
    text = f"""fn f(a: f32[n, m], c: f32[m, k]) -> f32[n, k] = f32({dtype}(a) @ {dtype}(c))
fn turned(a: f32[m, n], c: f32[k, m]) -> f32[n, k] = f32(transpose({dtype}(a)) @ transpose({dtype}(c)))
fn batched(a: f32[b, n, m], c: f32[b, m, k]) -> f32[b, n, k] = [f32({dtype}(a[i]) @ {dtype}(c[i])) for i < b]
fn vector(a: f32[n, m], x: f32[m]) -> f32[n] = f32({dtype}(a) @ {dtype}(x))
fn slope(a: f32[n, m], c: f32[m, k]) -> (f32[n, m], f32[m, k]) =
  grad(|a: f32[n, m], c: f32[m, k]| sum(f32({dtype}(a) @ {dtype}(c))), wrt = (0, 1))(a, c)"""
    m, interp = dlang.compile(text, backend="cuda-emulated"), dlang.compile(text, backend="interp")
    rng = np.random.default_rng(0)

    def array(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    for name, args in {
        "f": (array(5, 70), array(70, 3)), "turned": (array(70, 5), array(3, 70)), "vector": (array(5, 70), array(70)),
        "batched": (array(4, 5, 7), array(4, 7, 3)), "slope": (array(5, 70), array(70, 3)),
    }.items():  # fmt: skip
        found, expected = getattr(m, name)(*args), getattr(interp, name)(*args)
        for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, expected)), strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-3 if dtype == "f16" else 1.6e-2)


def test_memory_of_a_iteration_is_there_for_all_iterations() -> None:
    text = host("""fn sorted_sum(x: f64[m]) -> f64 { var y = x; for i < m { y[i] = sin(y[i]) * y[m - 1 - i] }; sum(y) }
fn f(x: f64[n, m]) -> f64[n] = [sorted_sum(x[i]) for i]""")
    assert text.count("launch kernel") == 1 and "loop" not in text
    assert re.search(r"allocate f64\[n, n\]", text)


def test_arrays_of_nodes_are_the_hosts() -> None:
    text = host("""enum Tree { Leaf(f64[99]), Node(Tree, Tree) }
fn f(t: Tree, w: f64[n]) -> f64[n] = match t { Leaf(x) => w * sum(exp(x)), Node(a, b) => f(a, w) + f(b, w) }""")
    assert "upload" in text and "launch kernel" in text


def test_few_iterations_are_no_reason_for_a_kernel() -> None:
    assert "launch" not in host("fn f(x: f64[3]) -> f64 = sum(sin(x))")


REPEATED = """
fn step(w: f64[n], x: f64[m, n], y: f64[m]) -> (f64, f64[n]) {
  let (l, g) = value_and_grad(|w: f64[n]| sum((x @ w - y) ** 2) / f64(m))(w)
  (l, w - 0.01 * g)
}
fn sampled(x: f64[n], k: i64[m]) -> f64 = sum(x[k[i]] for i)
"""


def test_a_run_that_is_repeated_sees_what_is_in_its_arrays_now() -> None:
    m, cpu = dlang.compile(REPEATED, backend="cuda-emulated"), dlang.compile(REPEATED)
    rng = np.random.default_rng(0)
    for _ in range(5):
        args = rng.normal(size=7), rng.normal(size=(20, 7)), rng.normal(size=20)
        (found, w), (expected, v) = m.step(*args), cpu.step(*args)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        np.testing.assert_allclose(w, v, rtol=1e-12)


def test_a_run_that_is_repeated_may_fail_and_go_on() -> None:
    m, x = dlang.compile(REPEATED, backend="cuda-emulated"), np.arange(5.0)
    for wrong in (False, False, False, True, False, True, False):
        k = np.array([1, 2, 9 if wrong else 4])
        if wrong:
            with pytest.raises(dlang.DlangError, match="index 9 is out of range for axis 0 of size 5"):
                m.sampled(x, k)
        else:
            assert m.sampled(x, k) == 7.0


@pytest.mark.parametrize("first", [-2.0, 2.0])
def test_of_two_arms_one_is_done(first: float) -> None:
    text = """fn f(x: f64[n]) -> (f64[n], f64) {
  var y = x
  if sum(x) > 0.0 { y[0] = 5.0; for i < n { y[i] = 2.0 * y[i] } } else { y = [sum(x[k] for k < i) for i < n] }
  (y, sum(y))
}"""
    x = np.array([first, 0.5, 0.25])
    (found, total), (expected, wanted) = (dlang.compile(text, backend=b).f(x) for b in ("cuda-emulated", "cpu"))
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert np.isclose(total, wanted)


CARRIED = """
fn decayed(x: f64[n], k: size) -> (f64, f64) {
  var (a, b, y) = (1.0, 2.0, x)
  for t < k { y = [0.5 * v + a for v in y]; (a, b) = (b, sum(y) - a) }
  (a, b)
}
fn until(x: f64[n], limit: i64) -> (f64, i64) {
  var (s, k, y) = (0.0, 0, x)
  while k < limit { y = [sin(v) + s for v in y]; s = s / 2.0 + sum(y); k += 1; if k == 7 { break } }
  (s, k)
}
fn chosen(x: f64[n], up: bool) -> f64 { let s = if up { sum(x) } else { 0.5 }; sum(v * s for v in x) }
"""


def test_a_loop_carries_numbers_on_the_device() -> None:
    m, cpu, x = dlang.compile(CARRIED, backend="cuda-emulated"), dlang.compile(CARRIED), np.linspace(0.0, 1.0, 70)
    for k in (0, 1, 2, 5, 9):
        for _ in range(3):
            np.testing.assert_allclose(m.decayed(x, k), cpu.decayed(x, k), rtol=1e-12)
            np.testing.assert_allclose(m.until(x, k), cpu.until(x, k), rtol=1e-12)
    for up in (True, False, True):
        assert np.isclose(m.chosen(x, up), cpu.chosen(x, up))
    for name in ("decayed", "until", "chosen"):
        text = host(CARRIED.replace(f"fn {name}(", "fn f("))
        assert "fetch" not in text, text


SCATTERED = "fn f(x: f64[n], k: Idx<n>[m], w: f64[m]) -> f64[n] = grad(|y: f64[n]| sum(w[i] * y[k[i]] for i))(x)"


@pytest.mark.parametrize("deterministic", [False, True])
def test_floats_may_be_the_same_in_every_run(deterministic: bool) -> None:
    checked = check(Source("program.dl", SCATTERED + "\n"))
    decl = checked.module.functions["f"]
    program, (entry,) = lower([Request(decl, dict.fromkeys(decl.variables, poly(0)))])
    rng, found = np.random.default_rng(0), []
    x, k, w = rng.normal(size=7), rng.integers(0, 7, 5000), rng.normal(size=5000)
    for order in (0, 1, 2):
        engine = Engine(Host(io.StringIO()), driver=EmulatedDriver(order=order), deterministic=deterministic)
        compiled = engine.compile(program, [entry.name])
        found.append(compiled.run(entry.name, [7, 5000, x, k, w])[-1])
    assert all(np.array_equal(found[0], other) for other in found) == deterministic
    np.testing.assert_allclose(found[0], np.bincount(k, w, 7), rtol=1e-10)


def test_factors_of_half_precision_are_multiplied_as_they_are() -> None:
    text = """fn f(a: f16[n, m], c: f16[m, k]) -> f16[n, k] = a @ c
fn turned(a: f16[m, n], c: f16[k, m]) -> f16[n, k] = transpose(a) @ transpose(c)
fn batched(a: f16[b, n, m], c: f16[b, m, k]) -> f16[b, n, k] = [a[i] @ c[i] for i < b]"""
    m, rng = dlang.compile(text, backend="cuda-emulated"), np.random.default_rng(1)
    a, c = rng.normal(size=(4, 5, 70)).astype(np.float16), rng.normal(size=(4, 70, 3)).astype(np.float16)
    wanted = (a.astype(np.float32) @ c.astype(np.float32)).astype(np.float16)
    np.testing.assert_allclose(m.f(a[0], c[0]), wanted[0], rtol=2e-3)
    np.testing.assert_allclose(m.turned(a[1].T, c[1].T), wanted[1], rtol=2e-3)
    np.testing.assert_allclose(m.batched(a, c), wanted, rtol=2e-3)


STEPS = """
fn step(w: f64[n], g: f64[n], rate: f64, decay: f32) -> (f64[n], f64) {
  let next = (1.0 - f64(decay)) * w - rate * g
  (next, rate * sum(next))
}
fn clipped(x: f64[n], most: f64) -> f64[n] = if most > 0.0 { [minimum(v, most) for v in x] } else { x }
fn until(x: f64[n], least: f64) -> f64[n] { var (y, s) = (x, 8.0); while s > least { y = 0.5 * y; s = s / 2.0 }; y }
"""


def test_a_float_that_changes_needs_no_other_graph() -> None:
    m, cpu = dlang.compile(STEPS, backend="cuda-emulated"), dlang.compile(STEPS)
    w, g = np.linspace(0.0, 1.0, 40), np.linspace(1.0, 3.0, 40)
    for k in range(6):
        for name, args in {
            "step": (w, g, 0.1 / (k + 1), np.float32(0.01 * k)),
            "clipped": (w, 0.4 - 0.1 * k),
            "until": (w, 3.0 / (k + 1)),
        }.items():
            for found, expected in zip(getattr(m, name)(*args), getattr(cpu, name)(*args), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-13)
    points = {
        i.entry.name.split(".")[0]: i.runner.entries[i.entry.name].point for i in m.step.program._instances.values()
    }
    assert {name: len(point.numbers) for name, point in points.items()} == {"step": 2, "clipped": 0, "until": 0}


def test_an_arm_that_hardly_ever_runs_is_little_code() -> None:
    """Where a gradient is not finite, a product is done again with the rule that 0 times anything is 0."""
    text = """fn f(w: f64[k, h], v: f64[h, c], x: f64[n, k]) -> f64[k, h] =
  grad(|w: f64[k, h]| sum(tanh(x @ w) @ v))(w)"""
    checked = check(Source("program.dl", text + "\n"))
    listed = listing([checked.module.functions["f"]], "cuda")
    assert "fetch" not in listed and "// columns" not in listed
    m, rng = dlang.compile(text, backend="cuda-emulated"), np.random.default_rng(0)
    w, v, x = rng.normal(size=(6, 5)), rng.normal(size=(5, 4)), rng.normal(size=(70, 6))
    v[0, 0] = np.inf
    w[:, 0] = 100.0  # where the slope of tanh is 0
    expected = dlang.compile(text).f(w, v, np.abs(x))
    np.testing.assert_allclose(m.f(w, v, np.abs(x)), expected, rtol=1e-10)
