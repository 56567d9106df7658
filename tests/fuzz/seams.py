"""Programs in which features meet: templates one behind the other, and inside of one another.

Each is compiled with its gradient and with its derivative along a direction, and split by what is known early. That the
modes agree, and the optimised program and native code with what they were made of, is what is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Any

import numpy as np

from dlang.diagnostics import DlangError, Source
from dlang.driver import Request, check, errors_of, lower
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Program, early_name, poly
from dlang.runtime.engine import Engine
from tests.fuzz import templates
from tests.fuzz.compare import Disagreement, Run, alike, nearby, outcome_of

SIZES = ((5, 2), (0, 2), (1, 1), (2, 3))
"""Of `p` and `q`, the parameters of a program."""
LONGER = ((17, 3), (33, 16))
"""The same, of more points than lanes, where native code runs."""
PARAMETERS = "p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64"
MODES = f"""
fn main({PARAMETERS}) -> (f64, f64, f64) {{
  let (y, (gp, gq, gx)) = value_and_grad(value, wrt = (p, q, x))(p, q, m, x, j)
  let along_p = [cos(f64(i)) for i < n]
  let along_q = [sin(f64(i) + 1.0) for i < k]
  let back = sum(gp * along_p) + sum(gq * along_q) + 0.7 * gx
  let (_, ahead) = jvp(|s: f64[n], t: f64[k], z: f64| value(s, t, m, z, j), (p, q, x), (along_p, along_q, 0.7))
  (y, back, ahead)
}}
"""
"""The value of a program, and its derivative along a direction by both modes."""
EARLY = ((), (0,), (1,), (0, 1, 2), (3, 4))
"""Parameters that may be known early, by their positions."""


# ---- programs --------------------------------------------------------------------------------------------------------
def entries(text: str) -> dict[str, str]:
    """The templates of a text by their names."""
    found = re.findall(r"^(\w[^:\n]*): (.*(?:\n[ }\]].*)*)", text, re.MULTILINE)
    return dict(found)


LEAVES, AROUND, STARTS = entries(templates.LEAVES), entries(templates.AROUND), entries(templates.STARTS)


def program(seed: int) -> str:
    """A program with two or three templates, chosen at random."""
    random = Random(seed)
    around, leaves = random.choice(((0, 2), (1, 1), (1, 1), (2, 1), (1, 2)))
    start = random.choice([*STARTS, *list(STARTS)[:4] * 2])
    first = [*random.sample(list(AROUND), around), random.choice(list(LEAVES))]
    return made(start, [first, *[[random.choice(list(LEAVES))] for _ in range(leaves - 1)]])


def made(start: str, links: Sequence[Sequence[str]]) -> str:
    """A program with links one behind the other, each a leaf inside of other templates, from the outermost."""
    size = start.split(", ")[1]
    lines = [f"let v: f64[{size}] = {STARTS[start]}"]
    serial = count()
    for k, (*around, leaf) in enumerate(links):
        lines.append(f"let w{k} = {_filled(around, leaf, f'w{k - 1}' if k else 'v', size, serial)}")
    lines.append(f"sum(w{len(links) - 1}[i] * cos(f64(i)) for i < {size})")
    text = f"fn main({PARAMETERS}) -> f64 {{\n  " + "\n  ".join(lines) + "\n}\n"
    return "\n".join([*_declared(text), text])


def _filled(around: Sequence[str], leaf: str, v: str, n: str, serial: Iterator[int]) -> str:
    """Gives what the templates make of a vector. serial: numbers for names."""
    if not around:
        return _named(LEAVES[leaf], v, n, serial)
    text = _named(AROUND[around[0]], v, n, serial)
    out, at = "", 0
    while (hole := text.find("#(", at)) >= 0:
        inside, size, end = _hole(text, hole + 2)
        name = f"v{next(serial)}"
        filled = _filled(around[1:], leaf, name, size or n, serial)
        out += text[at:hole] + f"{{ let {name}: f64[{size or n}] = {inside}; {filled} }}"
        at = end + 1
    return out + text[at:]


def _named(template: str, v: str, n: str, serial: Iterator[int]) -> str:
    """A template with its vector and size, and with its own names."""
    own = {name: f"{name}{next(serial)}" for name in sorted(set(re.findall(r"@(\w+)", template)))}
    text = re.sub(r"@(\w+)", lambda found: own[found[1]], template)
    return text.replace("$v", v).replace("$n", n)


def _hole(text: str, start: int) -> tuple[str, str, int]:
    """Gives what stands in a hole: the vector, its size if that is another one, and where the bracket closes."""
    depth, comma = 0, None
    for at in range(start, len(text)):
        if depth == 0 and text[at] == ")":
            return text[start : comma or at], text[comma + 2 : at] if comma else "", at
        if depth == 0 and text[at] == ",":
            comma = at
        depth += (text[at] in "([{") - (text[at] in ")]}")
    raise ValueError(text)


def _declared(text: str) -> list[str]:
    """The declarations that a program mentions, and those that these mention."""
    found: list[str] = []
    for item in reversed(templates.DECLARATIONS.strip().split("\n\n")):
        names = re.findall(r"[A-Z]\w+", item) if item.startswith("enum") else [item.split()[1]]
        own = [name.split("(")[0].split("<")[0] for name in names]
        if any(re.search(rf"\b{name}\b", other) for name in own for other in (text, *found)):
            found.insert(0, item)
    return found


# ---- what is wrong with one ------------------------------------------------------------------------------------------
def wrong_at_a_seam(text: str, seed: int, native: bool = True) -> Disagreement | None:
    """Finds what is wrong with a program whose `main` gives one f64; None if all that is looked at agrees.

    seed: decides which parameters are known early. native: whether it is compiled as well, as a whole.
    """
    checked = check(Source("program.dl", text.replace("fn main(", "fn value(") + MODES))
    if mistakes := errors_of(checked):
        if mistakes[0].code == "E0801":  # what is known to be outside of an array of no elements
            return None
        return Disagreement("check", "no mistakes", mistakes[0].message)
    decl = checked.module.functions["main"]
    request = Request(decl, dict.fromkeys(decl.variables, poly(0)))
    stages: dict[str, Program] = {}
    try:
        _, (entry,) = lower([request], verify=True, observe=stages.__setitem__, bound=EARLY[seed % len(EARLY)])
        runs: dict[str, Run] = {s: partial(_run, stages[s], stages["ad"], entry.name) for s in ("ad", "opt")}
        if native:
            program, (whole,) = lower([request])
            runs["compiled"] = partial(Engine(Host()).compile(program, [whole.name]).run, whole.name)
        for number, (n, k) in enumerate((*SIZES, *LONGER) if native else SIZES):
            args = arguments(number, n, k)
            found = _difference(runs, args)
            rng = np.random.default_rng(number)
            close_by = ([n, k, *nearby(rng, args[2:])] for _ in range(3))
            if found is not None and all(_difference(runs, other) for other in close_by):
                return found
    except DlangError as e:
        return Disagreement("compile", "a program that compiles", f"{e.diagnostics[0].code} {e.diagnostics[0].message}")
    except Exception as e:
        return Disagreement("compile", "a program that compiles", f"{type(e).__name__}: {e}")
    return None


def arguments(seed: int, n: int, k: int) -> list[Any]:
    """Sizes and arguments of `main`."""
    rng = np.random.default_rng(seed)
    floats = [rng.standard_normal(n), rng.standard_normal(k), rng.standard_normal((n, k)), float(rng.standard_normal())]
    return [n, k, *floats, int(rng.integers(0, 9))]


def _run(program: Program, whole: Program, name: str, args: Sequence[Any]) -> Sequence[Any]:
    """Runs a program that may be split. whole: one that is not, for arguments that are refused early."""
    f, early = program.functions[name], program.functions.get(early_name(name))
    if early is None:
        return Interpreter(program, Host()).run(name, args)
    given = {p.name: a for p, a in zip(f.params, args, strict=False)}
    sizes = {p.type.shape[0].atom: len(given[p.name]) for p in early.params if isinstance(p.type, Array)}
    try:
        values = Interpreter(program, Host()).run(early.name, [sizes.get(p, given[p.name]) for p in early.params])
    except RunError:
        return Interpreter(whole, Host()).run(name, args)
    return Interpreter(program, Host()).run(name, [*args, *values])


def _difference(runs: Mapping[str, Run], args: Sequence[Any]) -> Disagreement | None:
    """Finds what differs at some arguments: between stages, or between modes where both are finite."""
    outcomes = {stage: outcome_of(run, args) for stage, run in runs.items()}
    (first, expected), *others = outcomes.items()
    for stage, found in others:
        if not alike(expected, found):
            return Disagreement(stage, expected, found)
    if isinstance(expected, list):
        _, back, ahead = expected
        if np.isfinite(back) and np.isfinite(ahead) and not alike([back], [ahead]):
            return Disagreement(f"forward mode in {first}", back, ahead)
    return None
