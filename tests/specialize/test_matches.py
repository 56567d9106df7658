"""Matches of many arms: what they give, with derivatives, and how deep the branches are that they become."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir.anf import Block
from dlang.ir.traverse import op_blocks
from tests.specialize.support import lowered

COUNT = 40
VARIANTS = ", ".join(f"A{k}(f64, f64)" if k % 2 else f"A{k}" for k in range(COUNT))
ENUM = (
    f"enum E {{ {VARIANTS} }}\n"
    "fn g(e: E) -> f64 = match e {\n"
    + "\n".join(f"  A{k}{'(x, y)' if k % 2 else ''} => {'x * y' if k % 2 else '1.0'} * {k}.0," for k in range(COUNT))
    + "\n}\n"
)
NUMBERS = "fn f(i: i64, y: f64) -> f64 = match i {{\n{arms}\n  _ => -y,\n}}\n"


def depth(block: Block) -> int:
    return max([1 + depth(b) for let in block.lets for b in op_blocks(let.op)], default=0)


def numbers(ks: list[int], more: str = "") -> str:
    return NUMBERS.format(arms="\n".join(f"  {k}{more if k == 3 else ''} => sin(y * {k}.0)," for k in ks))


def test_numbers_that_leave_none_out_are_found_by_halves() -> None:
    ks = list(range(-5, 35))
    made = lowered(numbers(ks[::-1]))
    for k in range(-8, 40):
        (found,) = made.run(k, 0.3, optimised=True)
        assert found == (np.sin(0.3 * k) if k in ks else -0.3)
    assert max(depth(f.body) for f in made.program.functions.values()) < 10


@pytest.mark.parametrize(
    "text", [numbers([*range(10), *range(20, 40)]), numbers(list(range(40)), " if y > 0.5"), numbers(list(range(10)))]
)
def test_others_are_tried_in_turn(text: str) -> None:
    made = lowered(text)
    for k in range(-2, 42):
        for y in (0.3, 0.7):
            written = f"  {k} =>" in text or (f"  {k} if" in text and y > 0.5)
            (found,) = made.run(k, y, optimised=True)
            assert found == (np.sin(y * k) if written else -y)


def test_the_variants_of_an_enum_are_found_by_halves() -> None:
    arms = "\n".join(f"  {k} => A{k}{'(x, x + 1.0)' if k % 2 else ''}," for k in range(COUNT - 1))
    made = lowered(
        f"{ENUM}fn h(k: i64, x: f64) -> E = match k {{\n{arms}\n  _ => A{COUNT - 1}(x, x + 1.0),\n}}\n"
        "fn value(k: i64, x: f64) -> f64 = g(h(k, x))\n"
        "fn f(k: i64, x: f64) -> f64 = value(k, x) + grad(|y: f64| value(k, y))(x)\n"
    )
    for k in range(-1, COUNT + 1):
        n = k if 0 <= k < COUNT else COUNT - 1
        (found,) = made.run(k, 0.5, optimised=True)
        assert np.isclose(found, n * (0.5 * 1.5 + 2.0) if n % 2 else n)


def test_some_variants_are_found_by_halves_and_the_others_are_one_arm() -> None:
    some = "\n".join(f"  A{k}{'(x, _)' if k % 2 else ''} => {'x' if k % 2 else '1.0'} * {k}.0," for k in range(5, 30))
    arms = "\n".join(f"  {k} => A{k}{'(x, 1.0)' if k % 2 else ''}," for k in range(COUNT - 1))
    made = lowered(
        f"{ENUM}fn h(k: i64, x: f64) -> E = match k {{\n{arms}\n  _ => A{COUNT - 1}(x, 1.0),\n}}\n"
        f"fn f(k: i64, x: f64) -> f64 = match h(k, x) {{\n{some}\n  _ => -x,\n}}\n"
    )
    for k in range(COUNT):
        (found,) = made.run(k, 0.5, optimised=True)
        assert found == ((0.5 if k % 2 else 1.0) * k if 5 <= k < 30 else -0.5)
