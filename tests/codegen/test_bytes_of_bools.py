"""A truth value of NumPy is a byte: whatever it is but 0, it is true, as it is for NumPy."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tests.aot.running import needs_compiler
from tests.outcomes import Everywhere, plain

TEXT = """
struct Marked<n> { on: bool[n], weight: f64 }
enum Maybe<n> { These(bool[n]), Nothing }
enum Chain<n> { Node(bool[n], bool, Chain<n>), End }
fn given(x: bool[n]) -> bool[n] = x
fn total(x: bool[n]) -> i64 = sum(i64(v) for v in x)
fn chosen(x: bool[n]) -> i64 = len([v for v in x if v])
fn equal(x: bool[n], y: bool[n]) -> bool[n] = [x[i] == y[i] for i]
fn same(x: bool[n], y: bool[n]) -> bool = all(x == y)
fn negated(x: bool[n]) -> bool[n] = [not v for v in x]
fn masked(x: bool[n], a: f64[n]) -> f64[n] = where(x, a, 0.0 * a)
fn balanced(x: bool[n], a: f64[n]) -> f64 = sum(if x[i] { a[i] } else { -a[i] } for i)
fn slope(x: bool[n], a: f64[n]) -> f64[n] = grad(|a: f64[n]| sum(where(x, a ** 2, a)))(a)
fn either(x: bool[n], y: bool[n]) -> bool[n] = [bit_xor(x[i], y[i]) for i]
fn any_of(x: bool[n]) -> bool = any(x)
fn all_of(x: bool[n]) -> bool = all(x)
fn numbers(x: bool[n]) -> f32[n] = f32(x)
fn bits(x: bool[n]) -> i64 = sum(shift_left(i64(x[i]), i) for i)
fn twice(x: bool[n]) -> bool[n + n] = concat(x, x)
fn turned(x: bool[n, m]) -> bool[m, n] = transpose(x)
fn counted(x: bool[n, m]) -> i64[m] = [sum(i64(x[i, j]) for i) for j]
fn changed(x: bool[n]) -> bool[n] { var y = x; y[0] = false; y }
fn run(x: bool[n]) -> i64 { var k = 0; while k < n and x[k] { k += 1 }; k }
fn in_nodes(x: bool[n]) -> i64 = of_chain(Node(x, x[0], Node(x, x[n - 1], End)))
fn of_chain(c: Chain<n>) -> i64 = match c {
  End => 0
  Node(x, b, r) => sum(i64(v) for v in x) + 100 * i64(b) + of_chain(r)
}
fn of_tuple(t: (bool[n], f64)) -> i64 = sum(i64(v) for v in t.0)
fn of_struct(s: Marked<n>) -> i64 = sum(i64(v) for v in s.on)
fn of_enum(m: Maybe<n>) -> i64 = match m { These(x) => sum(i64(v) for v in x), Nothing => -1 }
fn of_list(l: (bool, f64)[n]) -> i64 = sum(i64(v.0) for v in l)
fn one(b: bool) -> f64 = if b { 1.0 } else { 0.0 }
fn shown(x: bool[n]) -> str = "{x} {x[0]}"
"""
ODD = np.frombuffer(b"\x02\x00\x01\xff\x80\x00\xfe" * 9, np.uint8).view(np.bool_)
EVEN = ODD.view(np.uint8) != 0
OTHER, NUMBERS = ~EVEN[::-1], np.arange(63.0)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Everywhere:
    return Everywhere(TEXT, tmp_path_factory.mktemp("bools"))


ONE = [
    "given",
    "total",
    "chosen",
    "negated",
    "any_of",
    "all_of",
    "numbers",
    "bits",
    "twice",
    "changed",
    "run",
    "in_nodes",
]


@pytest.mark.parametrize("name", [*ONE, "shown", "equal", "same", "either", "masked", "balanced", "slope"])
def test_any_byte_but_0_is_true(program: Everywhere, name: str) -> None:
    more = {"equal": [OTHER], "same": [EVEN], "either": [OTHER], "masked": [NUMBERS], "balanced": [NUMBERS]}
    more["slope"] = [NUMBERS]
    found = program.agreed(name, ODD, *more.get(name, ()))
    assert found == program.agreed(name, EVEN, *more.get(name, ()))
    if name == "same":
        assert found is True and program.agreed("same", EVEN, ODD) is True


@pytest.mark.parametrize("name", ["turned", "counted"])
def test_matrices(program: Everywhere, name: str) -> None:
    odd, even = ODD.reshape(7, 9), EVEN.reshape(7, 9)
    assert program.agreed(name, odd) == program.agreed(name, even)
    assert program.agreed(name, odd[:, ::2]) == program.agreed(name, even[:, ::2])
    assert program.agreed(name, odd.T) == program.agreed(name, even.T)


def test_in_structures_and_alone(program: Everywhere) -> None:
    wanted = int(EVEN.sum())
    for name, m in program.modules.items():
        for _ in range(3):  # the first call takes the long way
            assert m.of_tuple((ODD, 1.0)) == m.of_struct(m.Marked(ODD, 1.0)) == m.of_enum(m.These(ODD)) == wanted
            assert m.of_list([(v, 0.0) for v in ODD]) == wanted
            if name != "built":  # where what contains itself is left out
                assert m.of_chain(m.Node(ODD, ODD[3], m.Node(ODD, ODD[1], m.End()))) == 2 * wanted + 100
            assert [m.one(v) for v in ODD[:5]] == [1.0, 0.0, 1.0, 1.0, 1.0]


@needs_compiler
def test_what_c_calls(program: Everywhere, tmp_path: Path) -> None:
    assert program.library is not None
    vector = type(
        "Vector", (ctypes.Structure,), {"_fields_": [("data", ctypes.c_void_p), ("size", ctypes.c_int64 * 1)]}
    )
    for name in ("total", "chosen", "in_nodes", "run"):
        result = ctypes.c_int64()
        assert not getattr(program.library, f"program_{name}")(vector(ODD.ctypes.data, (63,)), ctypes.byref(result))
        assert result.value == plain(getattr(program.modules["interp"], name)(EVEN))
    text = ctypes.c_char_p()
    assert not program.library.program_shown(vector(ODD.ctypes.data, (63,)), ctypes.byref(text))
    assert text.value is not None and text.value.decode() == program.modules["interp"].shown(EVEN)
