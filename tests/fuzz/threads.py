"""Random programs with every loop in pieces: each result has the same bits with any number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlang.diagnostics import DlangError, Source
from dlang.driver import Request, check, lower
from dlang.ir.anf import poly
from dlang.runtime.engine import CompiledProgram, Engine
from dlang.runtime.errors import RunError
from dlang.runtime.host import Host
from dlang.runtime.platform.threads import Pool
from tests.fuzz.compare import Disagreement, arguments

GRAIN = 1  # picosecond of work in a piece
SIZES = ((2, 2), (33, 21))


def different_bits(text: str, pools: Sequence[Pool]) -> Disagreement | None:
    """What differs between the first pool and another; None if nothing does, or the program is not well typed."""
    decl = check(Source("program.dl", text)).module.functions["main"]
    try:
        program, (entry,) = lower([Request(decl, dict.fromkeys(decl.variables, poly(0)))])
        compiled = [Engine(Host(), grain=GRAIN, pool=pool).compile(program, [entry.name]) for pool in pools]
    except DlangError as e:
        return Disagreement("compile", "a program that compiles", e.diagnostics[0].message)
    rng = np.random.default_rng(1)
    for n, k in SIZES:
        args = [n, k, *arguments(rng, n, k)]
        expected = outcome(compiled[0], entry.name, args)
        for pool, other in zip(pools[1:], compiled[1:], strict=True):
            found = outcome(other, entry.name, args)
            if found != expected:
                return Disagreement(f"{pool.threads} threads", expected, found)
    return None


def gradient_of(text: str) -> str:
    """A program whose `main` gives the gradient of that of another."""
    parameters = "p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64"
    head = f"fn main({parameters}) -> (f64[n], f64[k], f64[n, k], f64)"
    return text.replace("fn main(", "fn value(") + f"\n{head} = grad(value, wrt = (p, q, m, x))(p, q, m, x, j)\n"


def outcome(program: CompiledProgram, name: str, args: Sequence[Any]) -> Any:
    """Results as bytes, or all that a failure says."""
    try:
        return [np.asarray(x).tobytes() for x in program.run(name, args)]
    except RunError as e:
        return e.code, e.message, e.span, tuple((s.label, s.span) for s in e.stack)
