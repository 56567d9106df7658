"""The elements of joined arrays, computed where they are read: each is one of a piece, by where it is.

    t = concat(a, b)                t = comp i, j { v = if i < n { read a[i, j] } else { read b[i - n, j] }; yield v }
    … = comp i, j {            →    … = comp i, j {
      x = read t[i, j]                x = read t[i, j]

So an array that is moved by a place, with a border put before or behind it, is no array. Where comprehensions read it
element by element, each read is one of a piece, with a branch where bounds of the axes do not tell of which:

    … = comp i < n { x = read t[i + n]; … }      →      … = comp i < n { x = read b[i]; … }

so derivatives know which elements of which piece are read. Where fusion decides, behind derivatives, operands of
products stay arrays. What is used as a whole stays a copy, unless almost all of it is a piece that is made for it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.builder import Builder
from dlang.ir.rewriting import Rewriter
from dlang.ir.traverse import count_uses, map_blocks, map_functions, walk, with_body, with_lets, with_op
from dlang.ir.types import array_type
from dlang.ops import figures
from dlang.ops.dtypes import WHOLE
from dlang.optimize.fuse import Uses, read_once


def joined_arrays(program: anf.Program) -> anf.Program:
    """The program with branches in the place of joined arrays of which elements are read."""

    def function(f: anf.Function) -> anf.Function:
        known = Knowledge.of(f)
        return with_body(f, _block(f.body, known))

    return map_functions(program, function)


def _block(block: anf.Block, known: Knowledge) -> anf.Block:
    known = known.copy()
    lets = []
    for let in block.lets:
        inner = known
        if isinstance(let.op, anf.For):
            inner = known.copy()
            inner.facts.between(let.op.index, (let.op.low,), (let.op.high,))
        lets.append(with_op(let, let.vars, map_blocks(let.op, partial(_block, known=inner))))
        known.note_made(let.vars)
    block = with_lets(block, lets, block.results)
    if not any(isinstance(let.op, anf.Concat) for let in block.lets):
        return block
    uses, reads = count_uses(block), Uses(block)
    counted: dict[anf.Var, int] = {}
    for let in walk(block):
        if isinstance(let.op, anf.Read | anf.View):
            counted[let.op.array] = counted.get(let.op.array, 0) + 1
    made = {v for let in block.lets if isinstance(let.op, anf.Comp) for v in let.vars}
    joined = {
        let.vars[0]: let.op
        for let in block.lets
        if isinstance(let.op, anf.Concat)
        and 1 < len(let.op.arrays) <= figures.JOINED_PIECES
        and array_type(let.vars[0]).dtype in WHOLE
        and (0 < uses[let.vars[0]] == counted.get(let.vars[0], 0) or _is_almost(let.op, made))
    }
    at_once = {v: op for v, op in joined.items() if _read_at_once(v, op, reads)}
    lets = []
    for let in block.lets:
        if len(let.vars) != 1 or let.vars[0] not in joined:
            lets.append(let)
        elif let.vars[0] not in at_once:
            lets.append(anf.Let(let.vars, _by_elements(joined[let.vars[0]], let.vars[0]), let.span))
    block = with_lets(block, lets, block.results)
    return _Pieces(at_once, known).block(block) if at_once else block


def _is_almost(op: anf.Concat, made: Container[anf.Var]) -> bool:
    """Tells whether all but a few elements are those of one piece, which is one of the arrays that are made here."""
    large = [piece for piece in op.arrays if array_type(piece).shape[0].constant is None]
    sizes = [array_type(piece).shape[0].constant or 0 for piece in op.arrays]
    return len(large) == 1 and large[0] in made and sum(sizes) <= figures.LEFT_OUT


def _read_at_once(array: anf.Var, op: anf.Concat, uses: Uses) -> bool:
    """Tells whether each read of a joined array is of another element at each point, and no piece is changed."""
    reads = uses.reads.get(array, [])
    if array in uses.otherwise or not uses.consumed.isdisjoint(op.arrays):
        return False
    return bool(reads) and all(axes and read_once(read, axes) for read, axes in reads)


class _Pieces(Rewriter):
    """Replaces reads of joined arrays by reads of their pieces. known: at the code at hand."""

    def __init__(self, joined: Mapping[anf.Var, anf.Concat], known: Knowledge) -> None:
        super().__init__()
        self.joined, self.known = joined, known

    def rule(self, let: anf.Let) -> None:
        op = let.op
        if isinstance(op, anf.Comp):
            around, self.known = self.known, self.known.within(op.axes)
            super().rule(let)
            self.known = around
        elif isinstance(op, anf.Read) and op.array in self.joined:
            b = Builder()
            with b.scope() as lets:
                value = _element(b, op.index, self.joined[op.array].arrays, anf.ZERO, self.known)
            for inner in lets:
                super().rule(inner)
            self.env[let.vars[0]] = self.atom(value)
        else:
            super().rule(let)

    def block(self, block: anf.Block) -> anf.Block:
        return block if self.untouched(block, self.joined) else super().block(block)


def _element(
    b: Builder, at: Sequence[anf.Size], pieces: Sequence[anf.Var], before: anf.Size, known: Knowledge
) -> anf.Atom:
    """The element of joined arrays, of these behind so many others, at an index that is not in front of them."""
    piece, *others = pieces
    place = at[0] - before
    if not others:
        return b.one(anf.Read(piece, (place, *at[1:])))
    end = before + array_type(piece).shape[0]
    if known.at_least_zero(at[0] - end):
        return _element(b, at, others, end, known)
    if known.at_least_zero(end - 1 - at[0]):
        return b.one(anf.Read(piece, (place, *at[1:])))
    here = b.prim("lt", b.size(at[0]), b.size(end), name="here")
    then = b.block(lambda: b.one(anf.Read(piece, (place, *at[1:]))))
    (value,) = b.emit(anf.If(here, then, b.block(lambda: _element(b, at, others, end, known))))
    return value


def _by_elements(op: anf.Concat, var: anf.Var) -> anf.Op:
    """The comprehension that gives each element of joined arrays."""
    b = Builder()

    def element(*at: anf.Var) -> anf.Atom:
        return _element(b, tuple(map(anf.poly, at)), op.arrays, anf.ZERO, Knowledge())

    made = b.map(array_type(var).shape, element)
    comp = b.definition(made)
    assert comp is not None
    return comp
