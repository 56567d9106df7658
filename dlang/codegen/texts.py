"""Texts made of values: the host writes numbers and arrays, and texts are joined without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from dlang.codegen.blocks import Scheduler
from dlang.codegen.loops import Convert, Runtime, TextOp
from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Var, fresh
from dlang.ir.substitution import substitute
from dlang.ir.traverse import free_vars, walk
from dlang.ir.types import STR

Repeated = TypeVar("Repeated", bound=anf.Comp | anf.For | anf.While)


def flat_inside(s: Scheduler, op: Repeated) -> Repeated:
    """A loop, in order or not, that puts texts from outside into arrays and nodes: these become flat in front of it, so
    that all iterations share one."""
    if not s.nodes.joins:
        return op
    ops = [op, *(let.op for let in walk(op.body))]
    kept = [value for inner in ops for value in _kept(inner)]
    if not any(isinstance(v, Var) and v.type == STR for v in kept):
        return op
    outside = set(free_vars(op)) - s.flats
    values = [*kept, *(v for inner in ops for v in _chosen(inner))]
    texts = dict.fromkeys(v for v in values if isinstance(v, Var) and v.type == STR and v in outside)
    return replace(op, body=substitute(op.body, {v: s.flat(v) for v in texts})) if texts else op


def _kept(op: anf.Op) -> tuple[Atom, ...]:
    """Lists the values that an operation puts into an array or a node."""
    match op:
        case anf.Construct(args=args):
            return args
        case anf.Update(value=value):
            return (value,)
        case anf.Comp(body=body):
            return body.results
        case _:
            return ()


def _chosen(op: anf.Op) -> tuple[Atom, ...]:
    """Lists the values that the result of an operation may be."""
    match op:
        case anf.If(then=then, otherwise=otherwise):
            return (*then.results, *otherwise.results)
        case anf.Prim("select", args):
            return args[1:]
        case _:
            return ()


def formatted(s: Scheduler, parts: Sequence[str], args: Sequence[Atom], var: Var, span: Span | None) -> None:
    """Emits the text of values with literal text around them. Texts that are written as they are become its parts."""
    pieces: list[Atom] = []
    words, values = [parts[0]], list[Atom]()

    def finish() -> None:
        if values:
            joined = fresh("text", STR)
            s.out.append(Runtime("format", tuple(words), s.operands(values), (), (joined,), span))
            s.flats.add(joined)
            pieces.append(joined)
        elif words[0]:
            pieces.append(Lit(words[0], "str"))

    for arg, spec, text in zip(args, parts[1::2], parts[2::2], strict=True):
        if arg.type == STR and not spec:
            finish()
            pieces.append(arg)
            words, values = [text], []
        else:
            values.append(arg)
            words += [spec, text]
    finish()
    if len(pieces) > 1:
        s.out.append(TextOp(var, "join", tuple(pieces), span))
        return
    whole = pieces[0] if pieces else Lit("", "str")
    s.out.append(Convert(var, whole))
    if isinstance(whole, Lit) or whole in s.flats:
        s.flats.add(var)
