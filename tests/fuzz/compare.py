"""Runs a program at every stage, interpreted and compiled, and says where the outcomes differ.

An outcome is a result or the code of a refusal. Reductions may be reassociated, so results agree up to rounding, and a
comparison of floats may come out otherwise after an optimisation. A disagreement is therefore one that remains at other
inputs close by, and where the last digits of the inputs do not decide what the program gives: some are chaotic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlang.diagnostics import DlangError, Source
from dlang.driver import Request, check, errors_of, lower
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Derivative, Program, poly
from dlang.ir.traverse import walk
from dlang.passes import same_functions
from dlang.runtime.engine import Engine
from dlang.specialize.specialize import Entry

SIZES = ((2, 2), (4, 3))
TOLERANCE = 1e-6
NEARBY = 3  # inputs that are tried after a disagreement
LAST_DIGITS = 1e-14  # relative
NAMES = r"`[^`]*`|[\w.]*\d[\w.]*"  # of a program in a message, and numbers

Run = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two ways to run a program that give different outcomes; or a stage that broke (then `found` is the error)."""

    where: str
    expected: object
    found: object

    @property
    def kind(self) -> str:
        """Says what stays the same where a program is made smaller: the way, or how the stage broke, but for names."""
        way = self.where.split(" in `")[0]
        return f"{way}: {re.sub(NAMES, '', str(self.found))}" if way in ("check", "compile", "run") else way

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected}, found {self.found}"


def disagreement(text: str, engine: Engine | None = None) -> Disagreement | None:
    """What is wrong with a well-typed program; None if all ways to run it agree."""
    try:
        checked = check(Source("program.dl", text))
    except DlangError as e:
        return Disagreement("check", "no mistakes", e.diagnostics[0].message)
    if errors_of(checked):
        return Disagreement("check", "no mistakes", errors_of(checked)[0].message)
    decl = checked.module.functions["main"]
    stages: dict[str, Program] = {}

    def observe(name: str, program: Program) -> None:
        """Keeps what differs from the program before: what a pass gives back as it was has run already."""
        nonlocal last
        if last is None or not same_functions(program, last):
            stages[name] = last = program

    last: Program | None = None
    try:
        program, (entry,) = lower([Request(decl, dict.fromkeys(decl.variables, poly(0)))], verify=True, observe=observe)
        compiled = (engine or Engine(Host())).compile(program, [entry.name])
        runs: dict[str, Run] = {f"interpreted {name}": interpreted(p, entry) for name, p in stages.items() if plain(p)}
        runs["compiled"] = lambda args: compiled.run(entry.name, args)
        return compared(runs, entry)
    except DlangError as e:
        return Disagreement("compile", "a program that compiles", f"{e.diagnostics[0].code} {e.diagnostics[0].message}")
    except Exception as e:
        return Disagreement("compile", "a program that compiles", f"{type(e).__name__}: {e}")


def plain(program: Program) -> bool:
    """Whether a stage has no derivatives left, so that the interpreter runs it."""
    return not any(isinstance(let.op, Derivative) for f in program.functions.values() for let in walk(f.body))


def interpreted(program: Program, entry: Entry) -> Run:
    interpreter = Interpreter(program, Host())
    return lambda args: interpreter.run(entry.name, args)


def compared(runs: dict[str, Run], entry: Entry) -> Disagreement | None:
    rng = np.random.default_rng(1)
    for n, k in SIZES:
        args = arguments(rng, n, k)
        found = first_difference(runs, entry, args)
        if found is None or not is_steady(next(iter(runs.values())), [n, k, *args]):
            continue
        if all(first_difference(runs, entry, nearby(rng, args)) is not None for _ in range(NEARBY)):
            return found
    return None


def arguments(rng: np.random.Generator, n: int, k: int) -> list[Any]:
    """Of `main(p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64)`."""
    p, q, m = rng.standard_normal(n), rng.standard_normal(k), rng.standard_normal((n, k))
    return [p, q, m, float(rng.standard_normal()), int(rng.integers(-2, 9))]


def nearby(rng: np.random.Generator, args: Sequence[Any]) -> list[Any]:
    """The same integers, and floats that differ a little."""
    return [a if isinstance(a, int) else a + 1e-3 * rng.standard_normal(np.shape(a)) for a in args]


def is_steady(run: Run, args: Sequence[Any]) -> bool:
    """Whether the last digits of the floats among the arguments do not decide the outcome."""
    return alike(outcome_of(run, args), outcome_of(run, rounded(args)))


def rounded(args: Sequence[Any]) -> list[Any]:
    """Floats with other last digits."""
    return [a if isinstance(a, int) else a * (1.0 + LAST_DIGITS) for a in args]


def first_difference(runs: dict[str, Run], entry: Entry, args: Sequence[Any]) -> Disagreement | None:
    """The first way to run a program that differs from the first way."""
    n, k = len(args[0]), len(args[1])
    sized = [n, k, *args]
    expected: object = None
    for number, (where, run) in enumerate(runs.items()):
        outcome = outcome_of(run, sized)
        if number == 0:
            expected = outcome
        elif not alike(expected, outcome):
            return Disagreement(where, expected, outcome)
    return None


def outcome_of(run: Run, args: Sequence[Any]) -> object:
    try:
        return [np.asarray(x) for x in run([np.copy(a) if isinstance(a, np.ndarray) else a for a in args])]
    except RunError as e:
        return e.code


def alike(a: object, b: object) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    assert isinstance(a, list) and isinstance(b, list)
    return len(a) == len(b) and all(map(same, a, b))


def same(x: Any, y: Any) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind == "f":
        return bool(np.allclose(x, y, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True))
    return bool(np.array_equal(x, y))
