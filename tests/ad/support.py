"""Programs in the IR, their derivatives, and central differences to compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dlang.ad.expand import expand
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Atom, Function, Lit, Program, Reduce, Scalar, Var, poly
from dlang.ir.builder import Builder, Index, axis
from dlang.ir.substitution import refresh_vars
from dlang.ir.verify import verify
from dlang.optimize.cse import cse
from dlang.optimize.dce import dce
from dlang.optimize.distribute import distribute
from dlang.optimize.simplify import simplify

F64 = Scalar("f64")
I64 = Scalar("i64")


def real(*shape: Index) -> Array:
    return Array("f64", tuple(poly(s) for s in shape))


def whole(*shape: Index) -> Array:
    return Array("i64", tuple(poly(s) for s in shape))


def const(value: float) -> Lit:
    return Lit(float(value), "f64")


def total(b: Builder, axes: Sequence[Any], body: Callable[..., Atom], kept: int = 0, monoid: str = "sum") -> Var:
    """A reduction over all axes but the first `kept`."""
    full = [a if not isinstance(a, (int, Var)) and hasattr(a, "lows") else axis(b.as_poly(a)) for a in axes]
    shape = tuple(a.highs[0] for a in full[:kept])
    index = tuple(poly(a.var) for a in full[:kept])
    (out,) = b.comp(full, body, [Reduce(shape, index, monoid)])
    return out


def tidy(program: Program) -> Program:
    """The cheap passes, each verified."""
    for step in (simplify, cse, dce, distribute, simplify, cse, dce):
        program = step(program)
        verify(program)
    return program


def program_of(*functions: Function) -> Program:
    program = Program({f.name: f for f in functions})
    verify(program)
    return program


def differentiated(
    program: Program, name: str, wrt: Sequence[int], out: str = "grad", seeds: Sequence[Any] = ()
) -> Program:
    """The program with a function of the arguments (and the cotangents given as None) that gives values and cotangents.

    seeds: for each result a literal, None for one that is not seeded, or "param". By default 1.0 for each float.
    """
    f = program.functions[name]
    b = Builder(program.functions)
    b.params = list(refresh_vars(f.params, {}))
    args = list(b.params)
    mapping = dict(zip(f.params, args, strict=True))
    cotangents: list[Atom | None] = []
    for k, r in enumerate(f.results):
        seed = seeds[k] if seeds else (1.0 if r.type == F64 else None)
        if seed == "param":
            cotangents.append(b.param("seed", refresh_vars((r,), mapping)[0].type))
        else:
            cotangents.append(None if seed is None else const(seed))
    results = b.vjp(name, args, wrt, cotangents)
    made = Program({**program.functions, out: b.function(out, results)})
    verify(made)
    return made


def pushed(program: Program, name: str, wrt: Sequence[int], out: str = "along") -> Program:
    """The program with a function of the arguments and of tangents of those in `wrt`: values, then tangents."""
    f = program.functions[name]
    b = Builder(program.functions)
    params = refresh_vars(f.params, {})
    b.params = list(params)
    tangents: list[Atom | None] = [None] * len(params)
    for k in wrt:
        tangents[k] = b.param(f"{params[k].name}_dot", params[k].type)
    made = replace(program, functions={**program.functions, out: b.function(out, b.jvp(name, params, tangents))})
    verify(made)
    return made


def directions(wrt: Sequence[int], args: Sequence[Any], seed: int = 11) -> list[Any]:
    """A random direction for each argument in `wrt`."""
    rng = np.random.default_rng(seed)
    out = [rng.normal(size=np.shape(args[k])) for k in wrt]
    return [d if d.shape else float(d) for d in out]


def expanded(program: Program) -> Program:
    """The program without derivatives, tidied and verified after each round."""

    def after(p: Program) -> Program:
        verify(p)
        return tidy(p)

    return expand(tidy(program), after)


def run(program: Program, name: str, args: Sequence[Any]) -> list[Any]:
    return Interpreter(program).run(name, list(args))


def cost(program: Program, name: str, args: Sequence[Any]) -> int:
    interpreter = Interpreter(program)
    interpreter.run(name, list(args))
    return interpreter.operations


def differences(f: Callable[[list[Any]], Any], args: Sequence[Any], k: int, step: float = 1e-5) -> Any:
    """Central differences of a scalar function in argument k."""
    start = np.asarray(args[k], dtype=float)
    out = np.zeros_like(start)
    for at in np.ndindex(start.shape):
        ends = []
        for sign in (1, -1):
            moved = start.copy()
            moved[at] += sign * step
            ends.append(float(f([*args[:k], moved if moved.shape else float(moved), *args[k + 1 :]])))
        out[at] = (ends[0] - ends[1]) / (2 * step)
    return out


def close(got: Any, wanted: Any, rtol: float = 1e-6, atol: float = 1e-7) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    error = np.abs(got - wanted)
    assert np.all(error <= rtol * np.abs(wanted) + atol), (got, wanted)


def check_gradient(
    f: Function, wrt: Sequence[int], args: Sequence[Any], others: Sequence[Function] = (), rtol: float = 1e-6
) -> Program:
    """Compares a gradient with central differences and forward mode; for array results with a random cotangent.

    Gives the program with the gradient.
    """
    program = program_of(f, *others)
    arrays = isinstance(f.results[0].type, Array)
    seeds = ["param" if arrays else 1.0] + [None] * (len(f.results) - 1)
    both = expanded(differentiated(program, f.name, wrt, seeds=seeds))
    value = run(program, f.name, args)[0]
    rng = np.random.default_rng(3)
    more = [rng.normal(size=np.shape(value))] if arrays else []
    got = run(both, "grad", [*args, *more])
    close(got[0], value)
    weights = more[0] if arrays else 1.0
    for k, bar in zip(wrt, got[len(f.results) :], strict=True):
        close(bar, differences(lambda a: np.sum(run(program, f.name, a)[0] * weights), args, k), rtol)
    us = directions(wrt, args)
    dot = run(expanded(pushed(program, f.name, wrt)), "along", [*args, *us])[len(f.results)]
    along = sum(np.sum(np.asarray(bar) * np.asarray(u)) for bar, u in zip(got[len(f.results) :], us, strict=True))
    close(np.sum(dot * weights), along, 1e-8, 1e-9)
    return both


def ratio(f: Function, wrt: Sequence[int], args: Sequence[Any], others: Sequence[Function] = ()) -> float:
    """Operations of value and gradient ÷ (operations of the value in normal form + elements returned)."""
    program = program_of(f, *others)
    arrays = isinstance(f.results[0].type, Array)
    both = expanded(differentiated(program, f.name, wrt, seeds=["param" if arrays else 1.0]))
    more = [np.ones(np.shape(run(program, f.name, args)[0]))] if arrays else []
    returned = sum(int(np.size(args[k])) for k in wrt)
    return cost(both, "grad", [*args, *more]) / (cost(tidy(program), f.name, args) + returned)


def check_second(f: Function, k: int, args: Sequence[Any], rtol: float = 1e-5) -> float:
    """Differentiates v·∇f in argument k once more and compares with central differences; gives the ratio of costs."""
    b = Builder({f.name: f})
    params = refresh_vars(f.params, {})
    b.params = list(params)
    rng = np.random.default_rng(5)
    more: list[Any] = []
    seed: Atom = const(1.0)
    if isinstance(f.results[0].type, Array):
        seed = b.param("seed", refresh_vars(f.results[:1], dict(zip(f.params, params, strict=True)))[0].type)
        more.append(rng.normal(size=np.shape(run(program_of(f), f.name, args)[0])))
    v = b.param("v", params[k].type)
    direction = rng.normal(size=np.shape(args[k]))
    more.append(direction if direction.shape else float(direction))
    g = b.vjp(f.name, params, [k], [seed, *[None] * (len(f.results) - 1)])[len(f.results)]
    if isinstance(g.type, Array):
        out: Atom = total(b, g.type.shape, lambda *i: b.mul(b.read(g, i), b.read(v, i)))
    else:
        out = b.mul(g, v)
    program = program_of(f, b.function("along", [out]))
    first, second = expanded(program), expanded(differentiated(program, "along", [k]))
    full = [*args, *more]
    got = run(second, "grad", full)[1]
    close(got, differences(lambda a: run(first, "along", a)[0], full, k), rtol, 1e-5)
    return cost(second, "grad", full) / (cost(first, "along", full) + int(np.size(args[k])))
