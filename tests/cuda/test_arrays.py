"""Arrays on a device as arguments and results of functions, with a device that is emulated."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.runtime import devices
from dlang.runtime.emulation.driver import EmulatedArray, EmulatedDriver

SOURCE = """
struct Layer<n, m> { w: f64[n, m], b: f64[m] }
struct Node { value: f64[2], left: Tree, right: Tree }
enum Tree { Leaf, Some(of: Node) }

fn doubled(x: f32[n]) -> f32[n] = 2.0 * x
fn scaled(x: f64[n], k: f64) -> f64[n] = k * x
fn rows(x: f64[n, m]) -> f64[n] = [sum(x[i]) for i]
fn forward(l: Layer<n, m>, x: f64[n]) -> f64[m] = x @ l.w + l.b
fn stepped(l: Layer<n, m>, k: f64) -> Layer<n, m> = Layer(l.w - k * l.w, l.b - k)
fn both(p: (f64[n], i64[n])) -> (f64[n], i64[n]) = ([2.0 * v for v in p.0], [k + 1 for k in p.1])
fn loss(w: f64[k], x: f64[n, k], y: f64[n]) -> f64 = mean((x @ w - y) ** 2)
fn squares(x: f64[n]) -> f64[n] = x ** 2
fn any(x) = x + x
fn first(x: f64[n]) -> f64 = x[0]
fn kept(x: f64[n]) -> f64[n] = x
fn named(x: f64[2], name: str) -> f64[2] = [x[1], x[0]]
fn total(t: Tree) -> f64 = match t { Leaf => 0.0, Some(of) => sum(of.value) + total(of.left) + total(of.right) }
fn chosen(x: f64[n], at: Idx<n>[m]) -> f64[m] = [x[k] for k in at]
fn layers(ls: Layer<2, 3>[k]) -> f64[k] = [sum(l.w) + sum(l.b) for l in ls]
fn made(n: size) -> Layer<1, 2>[n] = [Layer([[f64(i), 2.0]], [f64(i), 1.0]) for i < n]
fn points(n: size) -> (f64, i64)[n] = [(f64(i), i) for i < n]
fn half(x: bf16[n]) -> bf16[n] = x + x
"""


@pytest.fixture(scope="module")
def driver() -> Iterator[EmulatedDriver]:
    """A device whose arrays stay there."""
    device = EmulatedDriver(keeps=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "driver_of", lambda backend: device if backend == "cuda-emulated" else None)
        yield device


@pytest.fixture(scope="module")
def m(driver: EmulatedDriver) -> ModuleType:
    return dlang.compile(SOURCE, backend="cuda-emulated")


@pytest.fixture
def put(driver: EmulatedDriver) -> Any:
    return lambda array, dtype=None: EmulatedArray.of(driver, np.array(array, dtype))


def host(value: Any) -> Any:
    """What a result is, which has to be on the device where it is an array."""
    assert not isinstance(value, np.ndarray)
    return value.get() if isinstance(value, EmulatedArray) else value


def test_arrays_go_in_and_come_out_without_the_host(
    driver: EmulatedDriver, m: ModuleType, put: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[int] = []
    upload = driver.upload

    def counted(target: int, source: int, size: int) -> None:
        moved.append(size)
        upload(target, source, size)

    monkeypatch.setattr(driver, "upload", counted)
    x = put(np.arange(100.0), np.float32)
    for _ in range(4):
        x = m.doubled(x)
    np.testing.assert_array_equal(host(x), 16 * np.arange(100.0, dtype=np.float32))
    assert 400 not in moved[1:]


def test_arrays_of_the_host_and_of_the_device_go_together(m: ModuleType, put: Any) -> None:
    rng = np.random.default_rng(0)
    w, x, y = rng.standard_normal(3), rng.standard_normal((40, 3)), rng.standard_normal(40)
    wanted = np.mean((x @ w - y) ** 2)
    for given in ((put(w), x, y), (w, put(x), put(y)), (put(w), put(x), put(y)), (w, x, y)):
        np.testing.assert_allclose(m.loss(*given), wanted, rtol=1e-12)


def test_scalars_may_be_on_the_device(m: ModuleType, put: Any) -> None:
    for k in (put(3.0), np.array(3.0), 3, np.float64(3)):
        np.testing.assert_array_equal(host(m.scaled(put([1.0, 2.0]), k)), [3.0, 6.0])
    with pytest.raises(dlang.DlangError, match="argument `k`: expected f64, got f32 on a GPU"):
        m.scaled(put([1.0]), put(3.0, np.float32))


def test_parts_of_arrays_that_do_not_lie_in_a_row(m: ModuleType, put: Any) -> None:
    x = np.arange(24.0).reshape(4, 6)
    for key in ((slice(None), slice(1, 5, 2)), (slice(None, None, -1),), (slice(1, 3),)):
        np.testing.assert_array_equal(host(m.rows(put(x)[key])), x[key].sum(1))


def test_tuples_and_structs_of_them(m: ModuleType, put: Any) -> None:
    w, b, x = np.arange(6.0).reshape(3, 2), np.array([1.0, -1.0]), np.array([1.0, 2.0, 3.0])
    layer = m.stepped(m.Layer(put(w), put(b)), 0.5)
    np.testing.assert_array_equal(host(layer.w), w / 2)
    np.testing.assert_array_equal(host(m.forward(layer, put(x))), x @ (w / 2) + b - 0.5)
    np.testing.assert_array_equal(host(m.forward(m.Layer(put(w), b), x)), x @ w + b)
    p, q = m.both((put([1.0, 2.0]), put([5, 6])))
    np.testing.assert_array_equal(host(p), [2.0, 4.0])
    np.testing.assert_array_equal(host(q), [6, 7])


def test_structs_in_lists_and_in_trees(m: ModuleType, put: Any) -> None:
    layers = [m.Layer(put(np.ones((2, 3)) * k), put([1.0, 1.0, 1.0])) for k in range(4)]
    np.testing.assert_array_equal(host(m.layers(layers)), [6.0 * k + 3 for k in range(4)])
    made = m.made(3)
    np.testing.assert_array_equal([host(layer.b) for layer in made], [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    assert m.points(2) == [(0.0, 0), (1.0, 1)]
    tree = m.Some(m.Node(put([1.0, 2.0]), m.Some(m.Node(put([3.0, 4.0]), m.Leaf(), m.Leaf())), m.Leaf()))
    assert m.total(tree) == 10.0


WRONG: list[tuple[str, Any, str]] = [
    ("doubled", [[1.0]], "expected f32[n], got f64[1] on a GPU"),
    ("rows", [[1.0]], "expected f64[n, m], got f64[1] on a GPU"),
    ("named", [[1.0, 2.0, 3.0], "x"], "expected f64[2], got f64[3] on a GPU"),
    ("loss", [[1.0], [[1.0]], [1.0, 2.0]], "f64[n, k], n = 2 from `y`, k = 1 from `w`, got f64[1, 1] on a GPU"),
    ("scaled", [[1.0], [1.0]], "expected f64, got f64[1] on a GPU"),
    ("named", [[1.0, 2.0], [1.0]], "argument `name`: expected str, got f64[1] on a GPU"),
    ("any", [[1j]], "got an array of complex128[1] on a GPU"),
    ("chosen", [[1.0], [0, 1]], "got the index 1, which is not below n = 1"),
]


@pytest.mark.parametrize(("name", "given", "message"), WRONG)
def test_what_does_not_fit_is_told_as_of_numpy(m: ModuleType, put: Any, name: str, given: Any, message: str) -> None:
    with pytest.raises(dlang.DlangError) as e:
        getattr(m, name)(*[put(x) if isinstance(x, list) else x for x in given])
    assert e.value.diagnostics[0].code == "E0960"
    assert message in e.value.diagnostics[0].message


def test_a_list_of_arrays_is_no_array(m: ModuleType, put: Any) -> None:
    with pytest.raises(dlang.DlangError, match=r"expected f64\[n\], got a list that begins with f64\[1\] on a GPU"):
        m.squares([put([1.0]), put([2.0])])


def test_functions_that_launch_nothing_take_and_give_them(m: ModuleType, put: Any) -> None:
    for _ in range(3):
        assert m.first(put([7.0, 8.0])) == 7.0
        np.testing.assert_array_equal(host(m.kept(put([7.0, 8.0]))), [7.0, 8.0])
        np.testing.assert_array_equal(host(m.named(np.array([7.0, 8.0]), "x")), [8.0, 7.0])


@pytest.mark.slow
def test_derivatives_and_bound_arguments(m: ModuleType, put: Any) -> None:
    rng = np.random.default_rng(1)
    w, x, y = rng.standard_normal(3), rng.standard_normal((40, 3)), rng.standard_normal(40)
    native = dlang.compile(SOURCE)
    wanted = dlang.grad(native.loss)(w, x, y)
    np.testing.assert_allclose(host(dlang.grad(m.loss)(put(w), put(x), put(y))), wanted, rtol=1e-12)
    there = put(x)
    bound = m.loss.bind(x=there, y=put(y))
    np.testing.assert_allclose(host(dlang.grad(bound)(put(w))), wanted, rtol=1e-12)
    np.testing.assert_allclose(bound(put(w)), native.loss(w, x, y), rtol=1e-12)
    assert isinstance(bound.named["x"], EmulatedArray) and bound.named["x"] is not there
    value, pull = dlang.vjp(m.squares, put(w))
    np.testing.assert_allclose(host(value), w**2)
    np.testing.assert_allclose(host(pull(put([1.0, 0.0, 2.0]))), 2 * w * [1.0, 0.0, 2.0])
    value, tangent = dlang.jvp(m.squares, put(w), put([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(host(tangent), 2 * w * [1.0, 1.0, 0.0])
    np.testing.assert_allclose(host(dlang.jacobian(m.squares)(put(w))), np.diag(2 * w))
    hessian = dlang.hessian(m.loss)(put(w), put(x), put(y))
    np.testing.assert_allclose(host(hessian), 2 * x.T @ x / 40, rtol=1e-12)


def test_indices_and_types_that_are_not_written_out(m: ModuleType, put: Any) -> None:
    np.testing.assert_array_equal(host(m.chosen(put([1.0, 2.0]), put([1, 0, 1]))), [2.0, 1.0, 2.0])
    np.testing.assert_array_equal(host(m.any(put([[1, 2]], np.int32))), [[2, 4]])
    assert m.any(put(2.5)) == 5.0


def test_numbers_of_16_bits(m: ModuleType, put: Any) -> None:
    bits = put([0x3F80, 0x4040], np.uint16)
    bits.dtype = "bfloat16"
    half = m.half(bits)
    assert half.dtype == "bfloat16"
    np.testing.assert_array_equal(half.get(), [2.0, 6.0])


def test_what_functions_say_of_themselves(m: ModuleType) -> None:
    assert str(inspect.signature(m.scaled)) == "(x: f64[n], k: f64) -> f64[n]"
    assert "__global__ void" in m.doubled.ir("cuda")


def test_arrays_of_other_libraries_are_seen_by_what_they_show(m: ModuleType) -> None:
    """The emulation cannot read them; that they are seen for what they are shows in the message."""
    interface = {"shape": (3,), "typestr": "<f8", "data": (4096, False), "strides": None, "version": 3}
    shown = SimpleNamespace(__cuda_array_interface__=interface)
    packed = SimpleNamespace(__dlpack_device__=lambda: (2, 0), shape=(3,), dtype="torch.float32")
    with pytest.raises(dlang.DlangError, match=r"got f64\[3\] on a GPU"):
        m.doubled(shown)
    with pytest.raises(dlang.DlangError, match=r"got f32\[3\] on a GPU"):
        m.squares(packed)
    with pytest.raises(dlang.DlangError, match=r"E0904.*the array of `x` is on a GPU, where this one"):
        m.squares(shown)


def test_code_for_the_host_refuses_them(put: Any) -> None:
    message = r"got f64\[1\] on a GPU \(the functions of this module run where there is no GPU: copy it\)"
    for backend in ("cpu", "interp"):
        native = dlang.compile(SOURCE, backend=backend)
        with pytest.raises(dlang.DlangError, match=message):
            native.squares(put([1.0]))
        np.testing.assert_array_equal(native.scaled(np.ones(2), put(2.0)), [2.0, 2.0])


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_integers_that_i64_holds_are_taken_for_it_there_too(m, put, dtype):
    for _ in range(3):
        values, places = m.both((put([1.0, 2.0]), put([3, 4], dtype)))
        assert values.get().tolist() == [2.0, 4.0] and places.get().tolist() == [4, 5]
        assert m.chosen(put([1.0, 2.0, 3.0]), put([2, 0], dtype)).get().tolist() == [3.0, 1.0]
    with pytest.raises(dlang.DlangError, match=r"got \(f64\[1\] on a GPU, u64\[1\] on a GPU\)|got .*u64"):
        m.both((put([1.0]), put([3], np.uint64)))
