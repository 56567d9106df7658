"""Forward mode through recursion and nodes, alone and mixed with reverse mode, against central differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dlang.ir.anf import Atom, Program
from dlang.ir.builder import Builder
from dlang.ir.substitution import refresh_vars
from tests.ad import recursive, test_datatypes, test_recursion
from tests.ad.support import close
from tests.sampling import every_combination

CASES = {**test_recursion.CASES, **test_datatypes.CASES}


def pushed(program: Program, name: str, wrt: Sequence[int], out: str) -> Program:
    """The program with a function of the arguments and of directions: the derivative of a float along these."""
    f = program.functions[name]
    b = Builder(program.functions)
    params = refresh_vars(f.params, {})
    b.params = list(params)
    tangents: list[Atom | None] = [None] * len(params)
    for k in wrt:
        tangents[k] = b.param(f"v{k}", params[k].type)
    made = b.function(out, b.jvp(name, params, tangents)[1:])
    return replace(program, functions={**program.functions, out: made})


def mixed(text: str, wrt: Sequence[int], modes: str) -> tuple[Program, list[str]]:
    """The program with derivatives of derivatives, the innermost first: `f` by forward and `r` by reverse mode."""
    program, entry = recursive.source(text)
    names = [entry]
    for k, mode in enumerate(modes):
        step = pushed if mode == "f" else recursive.along
        program = step(program, names[-1], wrt, f"along{k}")
        names.append(f"along{k}")
    return recursive.expanded(program, names), names


def direction(rng: np.random.Generator, like: Any) -> Any:
    value = rng.normal(size=np.shape(like))
    return value if value.shape else float(value)


@pytest.mark.parametrize(("name", "modes"), every_combination(CASES, ["ff", "fr", "rf"], quick=1))
def test_two_derivatives_are_those_of_central_differences(name: str, modes: str) -> None:
    text, args, wrt = CASES[name]
    program, names = mixed(text, wrt, modes)
    rng = np.random.default_rng(7)
    directions: list[Any] = [direction(rng, args[k]) for k in wrt]
    step = 1e-5
    for k in range(len(modes)):
        more = [d for _ in range(k) for d in directions]
        ends = []
        for sign in (1, -1):
            moved = list(args)
            for w, d in zip(wrt, directions, strict=True):
                moved[w] = args[w] + sign * step * d
            ends.append(recursive.run(program, names[k], [*moved, *more]))
        got = recursive.run(program, names[k + 1], [*args, *more, *directions])
        close(got, (ends[0] - ends[1]) / (2 * step), 1e-5, 1e-6)
