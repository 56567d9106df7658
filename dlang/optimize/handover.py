"""Finds results of a function that are its array parameters, changed: they go in and come out in one place.

    fn f(x: f64[n], …) -> (y: f64[n]) { … y: f64[n] = update x[i] = v … }

A result continues a parameter if it grows from it on every path (`ir/update_chains.py`). What a function returns is its
own, so it would have to copy such a parameter at any rate; instead whoever calls it hands over the array, or a copy
where something still holds that. So a recursion that changes an array passes it along and copies nothing. Functions
that are called from outside are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.ir.update_chains import UpdateChains
from dlang.ir.writes import Continues, How, choices, links


def handed_over(program: anf.Program, entries: Sequence[str] = ()) -> anf.Program:
    """The program in which every function says what it continues; `entries` are called from outside."""
    called = {
        let.op.function for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, anf.Call)
    }
    inner = {f.name: f for f in program.functions.values() if f.name in called and f.name not in entries}
    if not any(_pairs(f) for f in inner.values()):
        return program
    continued = _candidates(inner)
    while True:
        kept = {name: _confirmed(inner[name], continued) for name in continued}
        if kept == continued:
            break
        continued = kept
    functions = {name: replace(f, continues=continued.get(name, ())) for name, f in program.functions.items()}
    return replace(program, functions=functions)


def _pairs(f: anf.Function) -> list[tuple[int, int]]:
    """The results that could continue a parameter, with that: arrays of one type."""
    return [
        (j, k)
        for j, result in enumerate(f.results)
        for k, param in enumerate(f.params)
        if isinstance(result.type, anf.Array) and result.type == param.type
    ]


def _candidates(functions: dict[str, anf.Function]) -> Continues:
    """The results that grow from just one parameter on the paths on which they grow from any."""
    sources = {name: _sources(f) for name, f in functions.items()}
    reached: dict[str, list[set[int]]] = {name: [set() for _ in f.results] for name, f in functions.items()}
    grew = True
    while grew:
        grew = False
        for name, f in functions.items():
            for j, result in enumerate(f.body.results):
                origins = _params_behind(f, result, sources[name], reached)
                grew |= origins != reached[name][j]
                reached[name][j] = origins
    out: dict[str, tuple[tuple[int, int], ...]] = {}
    for name, f in functions.items():
        allowed = set(_pairs(f))
        pairs = [(j, *params) for j, params in enumerate(reached[name]) if len(params) == 1]
        taken: dict[int, int] = {}
        for j, k in pairs:
            if (j, k) in allowed:
                taken.setdefault(k, j)
        out[name] = tuple(sorted((j, k) for k, j in taken.items()))
    return out


def _sources(f: anf.Function) -> dict[anf.Var, tuple[anf.Call, int] | tuple[anf.Atom, ...]]:
    """Maps a variable to the sources that it may continue: other variables, or, for a call's result, its arguments."""
    out: dict[anf.Var, tuple[anf.Call, int] | tuple[anf.Atom, ...]] = {}
    for let in walk(f.body):
        out.update({var: (source,) for var, source, how in links(let) if how is not How.SEEN})
        out.update(choices(let))
        if isinstance(let.op, anf.Call):
            out.update({v: (let.op, j) for j, v in enumerate(let.vars)})
    return out


def _params_behind(
    f: anf.Function,
    result: anf.Atom,
    sources: dict[anf.Var, tuple[anf.Call, int] | tuple[anf.Atom, ...]],
    reached: dict[str, list[set[int]]],
) -> set[int]:
    positions = {p: k for k, p in enumerate(f.params) if isinstance(p.type, anf.Array)}
    origins: set[int] = set()
    seen: set[anf.Atom] = set()
    work = [result]
    while work:
        atom = work.pop()
        if not isinstance(atom, anf.Var) or atom in seen:
            continue
        seen.add(atom)
        if atom in positions:
            origins.add(positions[atom])
        match sources.get(atom, ()):
            case (anf.Call() as call, int(j)):
                if call.function in reached:
                    work += [call.args[k] for k in reached[call.function][j]]
            case atoms:
                work += [a for a in atoms if isinstance(a, anf.Var)]
    return origins


def _confirmed(f: anf.Function, continued: Continues) -> tuple[tuple[int, int], ...]:
    """Returns the pairs that hold on every path if those of all functions do."""
    chains = UpdateChains(continues=continued)
    chains.add(f.body)
    return tuple([(j, k) for j, k in continued[f.name] if chains.root(f.body.results[j], 0) is f.params[k]])
