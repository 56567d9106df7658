"""Random programs with every loop in pieces: results have the same bits on any number of threads, and in quick code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlang.diagnostics import DlangError, Source
from dlang.driver import Request, check, lower
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.ir.anf import poly
from dlang.runtime.engine import CompiledProgram, Engine
from dlang.runtime.threads import Pool
from dlang.runtime.tiers import Tiers
from tests.fuzz.compare import Disagreement, arguments

GRAIN = 1  # picosecond of work in a piece
SIZES = ((2, 2), (33, 21))


def different_bits(text: str, pools: Sequence[Pool]) -> Disagreement | None:
    """What differs between the first pool and another, or quick code; None if nothing does."""
    decl = check(Source("program.dl", text)).module.functions["main"]
    try:
        program, (entry,) = lower([Request(decl, dict.fromkeys(decl.variables, poly(0)))])
        engines = {f"{pool.threads} threads": Engine(Host(), grain=GRAIN, pool=pool) for pool in pools}
        engines["quick code"] = Engine(Host(), level=Tiers().quick, grain=GRAIN, pool=pools[-1])
        compiled = {way: engine.compile(program, [entry.name]) for way, engine in engines.items()}
    except DlangError as e:
        return Disagreement("compile", "a program that compiles", e.diagnostics[0].message)
    rng = np.random.default_rng(1)
    for n, k in SIZES:
        args = [n, k, *arguments(rng, n, k)]
        outcomes = {way: outcome(code, entry.name, args) for way, code in compiled.items()}
        expected = next(iter(outcomes.values()))
        for way, found in outcomes.items():
            if found != expected:
                return Disagreement(way, expected, found)
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
        return e.code, e.message, e.span, tuple(e.stack)
