"""Programs in the language whose derivatives are taken in the IR, along directions, to any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dlang.ad.expand import expand
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Atom, Program
from dlang.ir.builder import Builder
from dlang.ir.substitution import refresh_vars
from dlang.ir.verify import verify
from dlang.pipeline import normalise
from tests.ad.support import close, const, total
from tests.specialize.support import lowered


def source(text: str, name: str = "f") -> tuple[Program, str]:
    """The specialised program of a text, and the name of its entry."""
    made = lowered(text, name)
    return made.program, made.entry.name


def along(program: Program, name: str, wrt: Sequence[int], out: str) -> Program:
    """The program with a function of arguments and directions: the derivative of a float function along these."""
    f = program.functions[name]
    b = Builder(program.functions)
    params = refresh_vars(f.params, {})
    b.params = list(params)
    directions = [b.param(f"v{k}", params[k].type) for k in wrt]
    found = b.vjp(name, params, wrt, [const(1.0)])[1:]
    out_value: Atom = const(0.0)
    for g, v in zip(found, directions, strict=True):
        if isinstance(g.type, Array):
            part: Atom = total(b, g.type.shape, lambda *i, g=g, v=v: b.mul(b.read(g, i), b.read(v, i)))
        else:
            part = b.mul(g, v)
        out_value = b.add(out_value, part)
    made = b.function(out, [out_value])
    return replace(program, functions={**program.functions, out: made})


def orders(text: str, wrt: Sequence[int], order: int, name: str = "f") -> tuple[Program, list[str]]:
    """The program with the derivatives of a function of orders 0 to `order`, expanded, and their names."""
    program, entry = source(text, name)
    names = [entry]
    for k in range(order):
        program = along(program, names[-1], wrt, f"along{k + 1}")
        names.append(f"along{k + 1}")
    return expanded(program, names), names


def expanded(program: Program, names: Sequence[str]) -> Program:
    """The program without derivatives, normalised and verified after each round."""
    verify(program)

    def after(p: Program) -> Program:
        verify(p)
        return normalise(p, names, verify=True)

    return expand(normalise(program, names, verify=True), after)


def check(text: str, args: Sequence[Any], wrt: Sequence[int], order: int = 2, rtol: float = 1e-5) -> Program:
    """Compares the derivatives of a function `f` of one float with central differences of those of one order less."""
    program, names = orders(text, wrt, order)
    rng = np.random.default_rng(7)
    directions = [_random(rng, args[k]) for k in wrt]
    step = 1e-5
    for k in range(order):
        more = [d for _ in range(k) for d in directions]
        ends = []
        for sign in (1, -1):
            moved = list(args)
            for w, d in zip(wrt, directions, strict=True):
                moved[w] = args[w] + sign * step * d
            ends.append(run(program, names[k], [*moved, *more]))
        got = run(program, names[k + 1], [*args, *more, *directions])
        close(got, (ends[0] - ends[1]) / (2 * step), rtol, 1e-6)
    return program


def _random(rng: np.random.Generator, like: Any) -> Any:
    value = rng.normal(size=np.shape(like))
    return value if value.shape else float(value)


def run(program: Program, name: str, args: Sequence[Any]) -> float:
    (value,) = Interpreter(program).run(name, list(args))
    return float(value)


def cost(program: Program, name: str, args: Sequence[Any]) -> int:
    """The operations that a run takes, nodes made and looked into included."""
    interpreter = Interpreter(program)
    interpreter.run(name, list(args))
    return interpreter.operations
