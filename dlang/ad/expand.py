"""Replaces `Vjp(f, …)` by calls of functions that compute the values of f and cotangents of its arguments in one body,
and `Jvp(f, …)` by calls of dual functions.

The innermost derivatives go first: those of functions that have none inside themselves. What comes out are ordinary
operations, so the outer derivatives go the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import partial

from dlang.ad.adjoints import Adjoints, local_tapes
from dlang.ad.conversions import Conversions, fitted
from dlang.ad.forward import Duals
from dlang.ad.refusal import differentiated
from dlang.ad.residuals import Residuals
from dlang.ad.signatures import Cotangents
from dlang.ad.tangent_types import retyped
from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.errors import IRError
from dlang.ir.substitution import refresh_vars
from dlang.ir.traverse import map_blocks, reaching, walk
from dlang.ir.types import I64

MOST = 1000  # rounds of `expand`: each removes a level of nesting


def expand(
    program: anf.Program, normalise: Callable[[anf.Program], anf.Program] = lambda program: program
) -> anf.Program:
    """The program without derivatives; `normalise` is applied after every round."""
    for _ in range(MOST):
        expanded = expand_innermost(program)
        if expanded is program:
            return program
        program = normalise(expanded)
    raise IRError("derivatives are nested too deeply")


def expand_innermost(program: anf.Program, residuals: list[Residuals] | None = None) -> anf.Program:
    """The program with each innermost derivative replaced by a call; itself if it has no derivative.

    residuals: gets those of each derivative in reverse mode.
    """
    plain = _without_derivatives(program)
    functions = dict(program.functions)
    datatypes = dict(program.datatypes)
    adjoints = Adjoints(program, functions, datatypes, local_tapes(program), residuals)
    duals = Duals(program, Conversions.of(adjoints.functions, adjoints.datatypes, summed=False))
    any_expanded = False
    for name, f in program.functions.items():
        if any(isinstance(let.op, anf.Derivative) and let.op.function in plain for let in walk(f.body)):
            functions[name] = replace(f, body=_expanded(f.body, plain, adjoints, duals))
            any_expanded = True
    if any_expanded:
        return replace(program, functions=functions, datatypes=datatypes)
    if any(isinstance(let.op, anf.Derivative) for f in program.functions.values() for let in walk(f.body)):
        raise IRError("a function is differentiated inside of itself")
    return program


def _expanded(b: anf.Block, plain: Set[str], adjoints: Adjoints, duals: Duals) -> anf.Block:
    """A block in which calls take the places of derivatives of `plain` functions."""
    lets: list[anf.Let] = []
    for let in b.lets:
        op = let.op
        if not isinstance(op, anf.Derivative) or op.function not in plain:
            inside = partial(_expanded, plain=plain, adjoints=adjoints, duals=duals)
            lets.append(anf.Let(let.vars, map_blocks(op, inside), let.span))
            continue
        with differentiated(let.span):
            match op:
                case anf.Vjp():
                    lets += _vjp(adjoints, let, op)
                case anf.VjpForward():
                    lets += _record(adjoints, let, op)
                case anf.VjpBackward():
                    lets += _vjp_backward(adjoints, let, op)
                case anf.Jvp():
                    lets.append(duals.call(let, op))
    return anf.Block(tuple(lets), b.results)


def _without_derivatives(program: anf.Program) -> set[str]:
    """The functions from which no derivative is reached."""
    ops = {name: [let.op for let in walk(f.body)] for name, f in program.functions.items()}
    calls = {name: {op.function for op in ops_of if isinstance(op, anf.Call)} for name, ops_of in ops.items()}
    taking = [name for name, ops_of in ops.items() if any(isinstance(op, anf.Derivative) for op in ops_of)]
    return set(program.functions) - reaching(calls, taking)


def _vjp(adjoints: Adjoints, let: anf.Let, op: anf.Vjp) -> list[anf.Let]:
    """The call that stands for a `Vjp`."""
    key = adjoints.key(op.function, op.wrt, [c is not None for c in op.cotangents])
    fused = adjoints.fused(key)
    bars = [c if s else None for c, s in zip(op.cotangents, key.seeded, strict=True)]
    return _call(let, fused.function, op.args, fused.cotangents, bars)


def _record(adjoints: Adjoints, let: anf.Let, op: anf.VjpForward) -> list[anf.Let]:
    halves = adjoints.halves(adjoints.key(op.function, op.wrt, op.seeded, op.tape))
    return [anf.Let(let.vars, anf.Call(halves.forward, op.args), let.span)]


def _vjp_backward(adjoints: Adjoints, let: anf.Let, op: anf.VjpBackward) -> list[anf.Let]:
    assert isinstance(op.tape.type, anf.Scalar)
    key = adjoints.key(op.function, op.wrt, op.seeded, op.tape.type.dtype)
    halves = adjoints.halves(key)
    params = adjoints.program.functions[op.function].params
    sizes = dict(zip([k for k, p in enumerate(params) if p.type == I64], op.sizes, strict=True))
    bars = [c if s else None for c, s in zip(op.cotangents, key.seeded, strict=True)]
    backward = adjoints.functions[halves.backward]
    b = Builder(adjoints.functions, let.span)
    with b.scope() as lets:
        # Who pulls may write the sizes of the recorded call in another way.
        given = (op.tape, *[sizes[k] for k in halves.params], *halves.cotangents.args(b, bars))
        args = fitted(b, backward.params, given)
        results = refresh_vars(backward.results, dict(zip(backward.params, args, strict=True)))
        call = anf.Call(halves.backward, args)
        if all(v.type == w.type for v, w in zip(let.vars, results, strict=True)):
            b.emit_as(let.vars, call)
        else:
            b.emit_as(results, call)
            for var, value in zip(let.vars, results, strict=True):
                b.emit_as([var], anf.Assert(anf.Lit(True, "bool"), "E0706", ("",), (), (retyped(b, value, var.type),)))
    return lets


def _call(
    let: anf.Let, function: str, args: tuple[anf.Atom, ...], cotangents: Cotangents, bars: Sequence[anf.Atom | None]
) -> list[anf.Let]:
    b = Builder({}, let.span)
    with b.scope() as lets:
        more = cotangents.args(b, bars)
    return [*lets, anf.Let(let.vars, anf.Call(function, (*args, *more)), let.span)]
