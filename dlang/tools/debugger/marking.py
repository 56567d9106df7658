"""Records what a run knows of variables: it passes the marks that name them."""

from __future__ import annotations

from dataclasses import replace

from dlang.ir import anf
from dlang.ir.anf import Var
from dlang.ir.marks import BACKWARD, COTANGENT, FORWARD, REVERSED
from dlang.ir.values import value_of
from dlang.tools.debugger.code import Instruction
from dlang.tools.debugger.seen import Seen
from dlang.tools.debugger.state import Frame, State


def pass_mark(s: State, i: Instruction) -> None:
    """Binds what a mark binds, and notes the value, the cotangent or the tangent that it is about."""
    frame, let = s.frame, i.let
    op, mark, name, key, env = let.op, i.mark, i.name, i.key, frame.env
    assert isinstance(op, anf.Assert) and mark is not None
    values = [env[a] if type(a) is Var else value_of(a, env) for a in op.guarded]
    for var, value in zip(let.vars, values, strict=True):
        env[var] = value
    if name is None or key is None:
        _pass(frame, mark.key, i)
        return
    kinds, via, passes = mark.kinds, i.via, frame.passes
    backward = bool(passes) and frame.backward(via)
    others = [value_of(a, env) for a in op.values]
    if kinds:
        seen = Seen(name, tuple(values), kinds, mark.guarded, backward, frame.iterations, i.spot, via)
        if kinds[-1] != COTANGENT:
            _tangent(s, seen)
            return
        frame.cotangents[key] = seen
        frame.fresh = (*frame.fresh, seen)
        if not others:
            return
        key = (name.local, via, ())
    elif len(values) == len(name.passed):
        others = values + others
    else:
        others = [*values[: len(name.passed)], *others]
    seen = Seen(name, tuple(others), (), (), backward, frame.iterations, i.spot, via)
    names = frame.names
    if key in names:
        del names[key]  # the last one comes last
    names[key] = seen
    if not passes and frame.past is not None:
        frame.past.variable(s.steps, key, seen)


def _pass(frame: Frame, key: str, i: Instruction) -> None:
    """At the beginning or the end of a backward pass."""
    if key == BACKWARD:
        if not frame.passes:
            frame.cotangents = {}
        frame.passes, frame.spot = (*frame.passes, i.via), i.spot
    elif key == FORWARD:
        frame.passes = frame.passes[:-1]
    else:
        assert key == REVERSED


def _tangent(s: State, seen: Seen) -> None:
    """Keeps a tangent with the value, or with the cotangent, that it belongs to: that of the mark before."""
    frame = s.frame
    kinds = seen.kinds
    while kinds and kinds[-1] != COTANGENT:
        kinds = kinds[:-1]
    key = (seen.name.local, seen.via, kinds)
    held = frame.cotangents if kinds else frame.names
    before = held.get(key)
    if before is None:
        return
    after = held[key] = replace(before, tangents=(*before.tangents, seen))
    if kinds:
        frame.fresh = tuple([after if x is before else x for x in frame.fresh])
    elif frame.past is not None and not frame.passes:
        frame.past.variable(s.steps, key, after)
