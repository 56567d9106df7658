"""Elements that only an arm of a light branch reads are read ahead of it, where they are in range at every point.

    comp i in 0..n {                    comp i in 0..n {
      c = read mask[i]                    c = read mask[i]
      r = if c {                          v = read x[i]
        v = read x[i]              →      r = if c {
        yield v * v                         yield v * v
      } else { yield 0.0 }                } else { yield 0.0 }

What is left of the arms may be computed in any case, so a loop around can choose between their results, and have lanes
(`codegen/selections.py`). Branches stay as they are if an arm may fail, or reads what is in range only there, or
costs more than lanes save.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.sharing import additions
from dlang.ir.traverse import map_blocks, map_functions, walk, with_body, with_lets, with_op
from dlang.ir.types import dtype_of
from dlang.ops import figures
from dlang.ops.primitives import PARTIAL


def branch_reads(program: anf.Program) -> anf.Program:
    """The program with such reads ahead of their branches, in comprehensions."""

    def function(f: anf.Function) -> anf.Function:
        known = Knowledge.of(f)
        return with_body(f, _block(f.body, known, False))

    return map_functions(program, function)


def _block(block: anf.Block, known: Knowledge, inside: bool) -> anf.Block:
    """The block, with what it reads in arms ahead of them; inside: whether it is in a comprehension."""
    known = known.copy()
    lets: list[anf.Let] = []
    for let in block.lets:
        match let.op:
            case anf.Comp(axes):
                op: anf.Op = map_blocks(let.op, partial(_block, known=known.within(axes), inside=True))
            case anf.If() if inside:
                moved, op = _ahead(let.op, known)
                lets += moved
            case _:
                op = map_blocks(let.op, partial(_block, known=known, inside=False))
        lets.append(with_op(let, let.vars, op))
        known.note_made(let.vars)
    return with_lets(block, lets, block.results)


def _ahead(op: anf.If, known: Knowledge) -> tuple[Sequence[anf.Let], anf.If]:
    """The reads of a branch, which may all be ahead of it, and the branch without them; else none."""
    inside = list(walk(anf.Block((anf.Let((), op),), ())))
    bound = {v for let in inside for v in let.vars}
    reads = [let for let in inside if isinstance(let.op, anf.Read)]
    if not _are_light(inside) or not all(_is_in_range(let.op, bound, known) for let in reads):
        return (), op

    def rest(block: anf.Block) -> anf.Block:
        kept = [
            with_op(let, let.vars, map_blocks(let.op, rest)) for let in block.lets if not isinstance(let.op, anf.Read)
        ]
        return with_lets(block, kept, block.results)

    whole = map_blocks(op, rest)
    assert isinstance(whole, anf.If)
    return reads, whole


def _is_in_range(op: anf.Op, bound: Set[anf.Var], known: Knowledge) -> bool:
    """Tells whether an element is there at every point; bound: what the arms bind."""
    assert isinstance(op, anf.Read)
    if any(e.mentions(bound) for e in op.index) or not isinstance(op.array.type, anf.Array):
        return False
    return known.inside(op.index, op.array.type.shape)


def _are_light(lets: Sequence[anf.Let]) -> bool:
    """Tells whether lets are scalar code that costs little, and that may be computed in any case but for reads."""
    work = 0
    for let in lets:
        match let.op:
            case anf.Prim(name, args) if name not in PARTIAL or dtype_of(args[0]) in anf.FLOATS:
                pass
            case anf.Cast() | anf.IndexExpr() | anf.Read():
                pass
            case anf.If(cold=False):
                continue
            case _:
                return False
        work += additions(let.op)
    return work <= figures.ARM_WITHOUT_BRANCH
