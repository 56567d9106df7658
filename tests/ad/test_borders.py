"""Adjoints of reads at clipped and wrapped indices: they only read, and are right for arrays of any size, also none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dlang.interpret.interpreter import Interpreter
from dlang.ir.affine import Knowledge
from dlang.ir.anf import Comp, For, Prim, Reduce, ScatterAdd
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.programs.every_way import agree
from tests.specialize.support import lowered, ops

Index = Callable[[int, int], int]

ENTRIES: dict[str, Index] = {
    "clip(@ - 1, 0, # - 1)": lambda i, n: max(0, i - 1),
    "clip(@ + 1, 0, # - 1)": lambda i, n: min(n - 1, i + 1),
    "clip(@ + 3, 0, # - 1)": lambda i, n: min(n - 1, i + 3),
    "maximum(minimum(@ - 2, # - 1), 0)": lambda i, n: max(0, i - 2),
    "clip(# - 2 - @, 0, # - 1)": lambda i, n: max(0, n - 2 - i),
    "(@ + 1) % #": lambda i, n: (i + 1) % n,
    "(@ + # - 1) % #": lambda i, n: (i - 1) % n,
    "(@ - 5) % #": lambda i, n: (i - 5) % n,
    "(2 * # - 2 - @) % #": lambda i, n: (2 * n - 2 - i) % n,
    "@": lambda i, n: i,
}
NAMES = list(ENTRIES)
PAIRS = [(a, NAMES[(3 * k + 1) % len(NAMES)]) for k, a in enumerate(NAMES)]
SUMS = ["u[clip(i + p - 1, 0, n - 1)]", "u[(i + p + n - 1) % n]", "u[(i - p) % n]", "u[clip(p - i, 0, n - 1)]"]


def at(entry: str, axis: str, size: str) -> str:
    return entry.replace("@", axis).replace("#", size)


def program(text: str, name: str) -> tuple[Interpreter, str]:
    made = lowered(text, name)
    optimised = optimise(made.program, [made.entry.name], verify=True)
    comps = [op for op in ops(optimised) if isinstance(op, Comp)]
    if name != "h":  # of an end, the second derivative may add to elements
        added = [d for op in comps for d in op.destinations if isinstance(d, ScatterAdd)]
        assert not [d for d in added if any(entry.constant is None for entry in d.index)]  # but to the first element
    assert not [op for op in ops(optimised) if isinstance(op, For)]
    return Interpreter(optimised), made.entry.name


def derivatives(body: str, type: str, binders: str) -> tuple[list[tuple[Interpreter, str]], tuple[Interpreter, str]]:
    """The gradient and a product of it with v, of the sum of v · body³; and the body."""
    text = f"""
fn each(u: {type}) -> {type} = [{body} for {binders}]
fn loss(u: {type}, v: {type}) -> f64 = sum(each(u) ** 3 * v)
fn f(u: {type}, v: {type}) -> {type} = grad(loss)(u, v)
fn h(u: {type}, v: {type}) -> {type} = grad(|x: {type}| sum(grad(loss)(x, v) * v))(u)
"""
    return [program(text, name) for name in ("f", "h")], program(text, "each")


def test_the_other_mode_and_differences_agree() -> None:
    """All entries at once: ⟨∇f, w⟩ is the derivative along w, and that of the gradient along w is the Hessian's."""
    body = " + ".join(f"sin(u[{at(e, 'i', 'n')}] * u[i]) * {k + 1}.0" for k, e in enumerate(NAMES))
    text = f"""
fn loss(u: f64[n], v: f64[n]) -> f64 = sum(({body}) * v[i] for i < n)
fn f(u: f64[n], v: f64[n]) -> f64[n] = grad(loss)(u, v)
fn g(u: f64[n], v: f64[n], w: f64[n]) -> f64 = jvp(|x: f64[n]| loss(x, v), u, w).1
fn h(u: f64[n], v: f64[n], w: f64[n]) -> f64[n] = jvp(|x: f64[n]| grad(loss)(x, v), u, w).1
"""
    made = {name: lowered(text, name) for name in ("loss", "f", "g", "h")}
    run = {
        name: (Interpreter(optimise(m.program, [m.entry.name], verify=True)), m.entry.name) for name, m in made.items()
    }
    rng = np.random.default_rng(6)
    for n in range(7):
        u, v, w = rng.standard_normal((3, n))
        loss, f, g, h = (lambda *x, at=at, n=n: at[0].run(at[1], [n, *x])[-1] for at in run.values())
        step = 1e-6 * w
        np.testing.assert_allclose(np.sum(f(u, v) * w), g(u, v, w), 1e-12, 1e-12)
        np.testing.assert_allclose((loss(u + step, v) - loss(u - step, v)) / 2e-6, g(u, v, w), 1e-6, 1e-6)
        np.testing.assert_allclose((f(u + step, v) - f(u - step, v)) / 2e-6, h(u, v, w), 1e-6, 1e-5)


def agrees(body: str, type: str, binders: str, sizes: list[tuple[int, ...]], matrix: Callable[..., np.ndarray]) -> None:
    """With y = A u: ȳ = 3 v y², ū = Aᵀ ȳ, and its derivative along v is Aᵀ (6 v y · A v)."""
    (first, second), each = derivatives(body, type, binders)
    rng = np.random.default_rng(3)
    for shape in sizes:
        u, v = rng.standard_normal(shape), rng.standard_normal(shape)
        a = matrix(*shape)
        y = a @ u.reshape(-1)
        args = [*shape, u, v]
        np.testing.assert_allclose(each[0].run(each[1], args[:-1])[-1].reshape(-1), y, 1e-12, 1e-12)
        wanted = a.T @ (3.0 * v.reshape(-1) * y**2)
        np.testing.assert_allclose(first[0].run(first[1], args)[-1].reshape(-1), wanted, 1e-12, 1e-12)
        wanted = a.T @ (6.0 * v.reshape(-1) * y * (a @ v.reshape(-1)))
        np.testing.assert_allclose(second[0].run(second[1], args)[-1].reshape(-1), wanted, 1e-12, 1e-12)


@pytest.mark.parametrize("entry", NAMES)
def test_along_one_axis(entry: str) -> None:
    def matrix(n: int) -> np.ndarray:
        a = 0.5 * np.eye(n)
        for i in range(n):
            a[i, ENTRIES[entry](i, n)] += 2.0
        return a

    agrees(f"0.5 * u[i] + 2.0 * u[{at(entry, 'i', 'n')}]", "f64[n]", "i < n", [(n,) for n in range(7)], matrix)


@pytest.mark.parametrize("one, other", PAIRS)
def test_along_both_axes_of_a_matrix(one: str, other: str) -> None:
    def matrix(n: int, m: int) -> np.ndarray:
        a = np.zeros((n, m, n, m))
        for i, j in np.ndindex(n, m):
            a[i, j, ENTRIES[one](i, n), ENTRIES[other](j, m)] += 2.0
            a[i, j, i, ENTRIES[one](j, m)] += 0.5
        return a.reshape(n * m, n * m)

    body = f"2.0 * u[{at(one, 'i', 'n')}, {at(other, 'j', 'm')}] + 0.5 * u[i, {at(one, 'j', 'm')}]"
    sizes = [(0, 2), (2, 0), (1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (4, 5)]
    agrees(body, "f64[n, m]", "i < n, j < m", [(n, m) for n, m in sizes], matrix)


@pytest.mark.parametrize("read", SUMS)
def test_in_a_sum_over_neighbours(read: str) -> None:
    index = {
        SUMS[0]: lambda i, p, n: min(max(i + p - 1, 0), n - 1),
        SUMS[1]: lambda i, p, n: (i + p - 1) % n,
        SUMS[2]: lambda i, p, n: (i - p) % n,
        SUMS[3]: lambda i, p, n: min(max(p - i, 0), n - 1),
    }[read]

    def matrix(n: int) -> np.ndarray:
        a = np.zeros((n, n))
        for i, p in np.ndindex(n, 3):
            a[i, index(i, p, n)] += 1.0 + p
        return a

    agrees(f"sum({read} * (1.0 + f64(p)) for p < 3)", "f64[n]", "i < n", [(n,) for n in range(7)], matrix)


@pytest.mark.parametrize(
    "each",
    [
        "[exp(sin(u[clip(i - 1, 0, n - 1)] * u[i]) * tanh(u[clip(i + 1, 0, n - 1)])) for i < n]",
        "[if i > 0 and i < n - 1 { exp(sin(u[i - 1] * u[i]) * tanh(u[i + 1])) } else { 0.0 } for i < n]",
    ],
)
def test_a_dear_body_is_computed_once_at_each_point(each: str) -> None:
    text = f"""
fn each(u: f64[n]) -> f64[n] = {each}
fn f(u: f64[n], v: f64[n]) -> f64[n] = grad(|x: f64[n]| sum(each(x) * v))(u)
"""
    interpreter, name = program(text, "f")
    made = [op for op in ops(interpreter.program) if isinstance(op, Comp)]
    expensive = [sum(isinstance(let.op, Prim) and let.op.name == "exp" for let in walk(op.body)) for op in made]
    assert sum(expensive) == 1
    rng = np.random.default_rng(4)
    for n in range(6):
        u, v = rng.standard_normal(n), rng.standard_normal(n)
        left, right = np.maximum(np.arange(n) - 1, 0), np.minimum(np.arange(n) + 1, n - 1)
        if "if" in each:
            v[[0, -1] if n else []] = 0.0

        def loss(x: np.ndarray, left: np.ndarray = left, right: np.ndarray = right, v: np.ndarray = v) -> complex:
            return complex(np.sum(np.exp(np.sin(x[left] * x) * np.tanh(x[right])) * v))

        wanted = [loss(u + 1e-30j * np.eye(n)[k]).imag / 1e-30 for k in range(n)]
        np.testing.assert_allclose(interpreter.run(name, [n, u, v])[-1], wanted, 1e-12, 1e-12)


def test_a_dear_body_in_an_arm_is_computed_once_at_each_point() -> None:
    text = """
fn each(u: f64[n]) -> f64[n] =
  [if i > 0 and i < n - 1 { exp(sin(u[i - 1] * u[i]) * tanh(u[i + 1])) } else { 0.5 * u[i] } for i < n]
fn f(u: f64[n], v: f64[n]) -> f64[n] = grad(|x: f64[n]| sum(each(x) * v))(u)
"""
    interpreter, name = program(text, "f")
    lets = [let for function in interpreter.program.functions.values() for let in walk(function.body)]
    assert sum(isinstance(let.op, Prim) and let.op.name == "exp" for let in lets) == 1
    rng = np.random.default_rng(4)
    for n in range(6):
        u, v = rng.standard_normal(n), rng.standard_normal(n)

        def loss(x: np.ndarray, v: np.ndarray = v) -> complex:
            inside = np.exp(np.sin(x[:-2] * x[1:-1]) * np.tanh(x[2:]))
            ends = 0.5 * (x[:1] @ v[:1] + (x[-1:] @ v[-1:] if len(x) > 1 else 0.0))
            return complex(inside @ v[1:-1] + ends)

        wanted = [loss(u + 1e-30j * np.eye(n)[k]).imag / 1e-30 for k in range(n)]
        np.testing.assert_allclose(interpreter.run(name, [n, u, v])[-1], wanted, 1e-12, 1e-12)


@pytest.mark.parametrize(
    "read",
    [
        "u[clip(2 * i, 0, n - 1)]",  # steps of two
        "u[clip(i * i, 0, n - 1)]",
        "u[(3 * i) % n]",
        "u[minimum(abs(i - 2), n - 1)]",
        "u[clip(k + i, 0, n - 1)]",  # k + i may wrap
        "u[clip(i - 1, 0, n - 1)] * u[clip(n // 2, 0, n - 1)]",
    ],
)
def test_what_is_no_neighbour_is_added_to_as_before(read: str) -> None:
    text = f"""
fn each(u: f64[n], k: i64) -> f64[n] = [{read} for i < n]
fn f(u: f64[n], v: f64[n], k: i64) -> f64[n] = grad(|x: f64[n]| sum(each(x, k) * v))(u)
fn g(u: f64[n], v: f64[n], k: i64) -> f64[n] = jvp(|x: f64[n]| each(x, k), u, v).1
"""
    made = [lowered(text, name) for name in ("f", "g")]
    reverse, forward = (Interpreter(optimise(m.program, [m.entry.name], verify=True)) for m in made)
    rng = np.random.default_rng(5)
    for n in range(1, 6):
        u, v, w = rng.standard_normal((3, n))
        bar = reverse.run(made[0].entry.name, [n, u, v, 1])[-1]
        dot = forward.run(made[1].entry.name, [n, u, w, 1])[-1]
        assert np.isclose(np.sum(bar * w), np.sum(dot * v), rtol=1e-12)


def test_an_axis_that_is_longer_than_the_array_is_no_way_back() -> None:
    text = """
fn each(u: f64[n]) -> f64[n + 2] = [u[clip(i - 1, 0, n - 1)] for i < n + 2]
fn f(u: f64[n], v: f64[n + 2]) -> f64[n] = grad(|x: f64[n]| sum(each(x) * v))(u)
"""
    made = lowered(text, "f")
    interpreter = Interpreter(optimise(made.program, [made.entry.name], verify=True))
    for n in range(1, 5):
        v = np.arange(1.0, n + 3.0)
        wanted = np.zeros(n)
        np.add.at(wanted, np.clip(np.arange(n + 2) - 1, 0, n - 1), v)
        assert np.array_equal(interpreter.run(made.entry.name, [n, np.ones(n), v])[-1], wanted)


@pytest.mark.parametrize(
    "body, binders",
    [
        ("u[0] * u[i]", "i < n"),
        ("u[n - 1] * u[i]", "i < n"),
        ("u[minimum(i, 0)] * v[i]", "i < n"),
        ("u[i + 1] * v[j]", "i < n, j in i + 1..n"),
    ],
)
def test_an_element_that_is_read_only_where_there_are_points_is_not_touched_without(body: str, binders: str) -> None:
    """Compiled code would write beyond an array of no elements."""
    text = f"""
fn loss(u: f64[n], v: f64[n]) -> f64 = sum({body} for {binders})
fn f(u: f64[n], v: f64[n]) -> f64[n] = grad(loss)(u, v)
"""
    made = lowered(text, "f")
    for function in optimise(made.program, [made.entry.name], verify=True).functions.values():
        for let in walk(function.body):
            if isinstance(let.op, Comp):
                for d in let.op.destinations:
                    if isinstance(d, Reduce) and d.shape:
                        kept = [a for a in let.op.axes if any(e.mentions((a.var,)) for e in d.index)]
                        known = Knowledge()
                        known.note_sizes(p.type for p in function.params)
                        assert known.within(kept).inside(d.index, d.shape)
    interpreter = Interpreter(optimise(made.program, [made.entry.name], verify=True))
    for n in range(4):
        assert interpreter.run(made.entry.name, [n, np.ones(n), np.ones(n)])[-1].shape == (n,)


@pytest.mark.parametrize("index", ["(t + c) % n", "clip(t + c, 0, n - 1)"])
def test_a_column_that_is_added_to_one_of_neighbours_comes_behind_it(index: str) -> None:
    agree(
        f"""
        fn f(x: f64[n]) -> f64 {{
          let a = [[x[t] * f64(c) + sin(x[{index}]) for c < 4] for t < n]
          sum(a[i, (i * i) % 4] ** 2 for i)
        }}""",
        [0.31, -0.72, 1.13, 0.54, -0.25],
    )
