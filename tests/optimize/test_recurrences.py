"""Loops that read what an iteration before has written: it stays in a number, and exact operands wait for it last."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir.anf import Array, For, Prim, Program, Read, Update, Var
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.optimize.programs import same_in_the_end
from tests.specialize.support import lowered

# each body of `fn f(x: f64[n], y: f64[n]) -> f64[n]`, with how many elements of its state a loop reads
CARRIED = {
    "the one before": ("var a = x; for i in 1..n { a[i] = tanh(a[i - 1]) * 0.5 + y[i] }; a", 0),
    "two before": ("var a = x; for i in 2..n { a[i] = a[i - 1] - 0.5 * a[i - 2] + y[i] }; a", 0),
    "the second alone": ("var a = x; for i in 2..n { a[i] = tanh(a[i - 2]) + y[i] }; a", 0),
    "downwards": ("var a = x; for i in n - 2..-1 by -1 { a[i] = y[i] - 0.5 * a[i + 1] }; a", 0),
    "several arrays": (
        "var (a, b) = (x, y); for i in 1..n { a[i] = y[i] / (2.0 - a[i - 1]); b[i] = b[i - 1] * 0.3 + a[i] }; a + b",
        0,
    ),
    "in an arm": ("var a = x; for i in 1..n { a[i] = (if y[i] > 0.0 { a[i - 1] * 0.5 } else { y[i] }) }; a", 0),
    "with its own": ("var a = x; for i in 1..n { a[i] = 0.5 * a[i] - 0.3 * a[i - 1] }; a", 1),
    "its own, and what the next one adds to": (
        "var a = x; for i < n - 1 { a[i] = 2.0 * a[i]; a[i + 1] += a[i] * y[i] }; a",
        1,
    ),
    "what the next one adds to, and its own": (
        "var a = x; for i < n - 1 { let t = a[i]; a[i + 1] = t * a[i + 1]; a[i] = t + y[i] }; a",
        1,
    ),
    "three elements, downwards": (
        "var a = x; for i in n - 1..1 by -1 { let t = a[i]; a[i] = 0.0; a[i - 1] += t * y[i]; a[i - 2] += 0.3 * t }; a",
        1,
    ),
    "the first of two": ("var a = x; for i in 1..n - 1 { a[i + 1] = a[i] * y[i]; a[i - 1] = 0.5 }; a", 0),
    "a row before as well": (
        (
            "var a = [[x[i] * y[j] for j < n] for i < n]; for i in 1..n { for j in 1..n {\n"
            "a[i, j] = minimum(a[i - 1, j], minimum(a[i, j - 1], a[i - 1, j - 1])) + 0.1 } }; a[n - 1]"
        ),
        2,
    ),
}
NOT_CARRIED = {
    "the first one": ("var a = x; for i in 1..n { a[i] = tanh(a[i - 1]) + a[0] }; a", 1),
    "far before": ("var a = x; for i in 5..n { a[i] = tanh(a[i - 5]) + y[i] }; a", 1),
    "one that a condition writes": ("var a = x; for i in 1..n { if y[i] > 0.0 { a[i] = tanh(a[i - 1]) } }; a", 1),
    "what another may have written": (
        "var a = x; for i in 1..n { a[i] = a[i - 1] + y[i]; a[n - 1 - i] = y[i] }; a",
        1,
    ),
    "what this one may have written": (
        "var a = x; for i in 1..n - 1 { a[n - 1 - i] = y[i]; a[i + 1] = a[i] * y[i] }; a",
        1,
    ),
    "in steps of data": ("var a = x; for i in 1..n { a[i * i % n] = tanh(a[i - 1]) }; a", 1),
}


def text(body: str) -> str:
    return f"fn f(x: f64[n], y: f64[n]) -> f64[n] {{ {body} }}"


def optimised(body: str) -> Program:
    made = lowered(text(body), "f")
    return optimise(made.program, [made.entry.name], verify=True)


def reads_of_state(program: Program) -> int:
    """How many elements the innermost loops read of the arrays that they change."""
    loops = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, For)]
    inner = [loop for loop in loops if not any(isinstance(let.op, For) for let in walk(loop.body))]
    return sum(isinstance(let.op, Read) and let.op.array in changed(loop) for loop in inner for let in walk(loop.body))


def changed(loop: For) -> set[Var]:
    """The variables of the arrays that a loop changes: those before and after it writes an element."""
    arrays = {p for p in loop.params if isinstance(p.type, Array)}
    return arrays | {let.vars[0] for let in walk(loop.body) if isinstance(let.op, Update)}


@pytest.mark.parametrize("name", [*CARRIED, *NOT_CARRIED])
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_values_stay(name: str, n: int) -> None:
    body, _ = {**CARRIED, **NOT_CARRIED}[name]
    rng = np.random.default_rng(n)
    same_in_the_end(text(body), "f", [n, rng.normal(size=n), rng.normal(size=n)])


@pytest.mark.parametrize("name", [*CARRIED, *NOT_CARRIED])
def test_what_an_iteration_has_written_is_not_read_again(name: str) -> None:
    body, reads = {**CARRIED, **NOT_CARRIED}[name]
    assert reads_of_state(optimised(body)) == reads


def test_operands_that_wait_for_the_iteration_before_are_combined_last() -> None:
    body = "var s = 9.0; for v in x { s = tanh(minimum(minimum(s, v), v * v)) }; [s for v in x]"
    (loop,) = [let.op for f in optimised(body).functions.values() for let in walk(f.body) if isinstance(let.op, For)]
    least = [let.op for let in loop.body.lets if isinstance(let.op, Prim) and let.op.name == "minimum"]
    assert [loop.params[0] in op.args for op in least] == [False, True]


# ---- what no iteration has written yet -------------------------------------------------------------------------------
AHEAD = {
    "the next one": "var a = x; for i < n - 1 { a[i] = a[i] * y[i] - a[i + 1] }; a",
    "the one before, downwards": "var a = x; for i in n - 1..0 by -1 { a[i] += a[i - 1] * y[i] }; a",
    "two further": "var a = x; for i < n - 2 { a[i] = tanh(a[i + 2]) }; a",
    "in a loop": "var a = x; for k < 3 { for j in n - 1..0 by -1 { a[j] += a[j - 1] } }; a",
    "a triangle": "var a = x; for k < n { for j < n - k - 1 { a[j] = maximum(0.5 * (a[j] + a[j + 1]), y[j]) } }; a",
    "the next row": (
        "var a = [[x[i] * y[j] for j < n] for i < n]\n"
        "for i < n - 1 { for j < n { a[i, j] = a[i + 1, j] - a[i, j] } }; a[0] + a[n - 1]"
    ),
}


@pytest.mark.parametrize("name", AHEAD)
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_what_is_read_ahead_is_what_it_was(name: str, n: int) -> None:
    rng = np.random.default_rng(n)
    same_in_the_end(text(AHEAD[name]), "f", [n, rng.normal(size=n), rng.normal(size=n)])


@pytest.mark.parametrize("name", AHEAD)
def test_a_loop_that_reads_ahead_is_a_comprehension(name: str) -> None:
    program = optimised(AHEAD[name])
    outer = name in ("in a loop", "a triangle")
    assert sum(isinstance(let.op, For) for f in program.functions.values() for let in walk(f.body)) == outer
