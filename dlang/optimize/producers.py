"""Comprehensions as producers of elements, whose code passes put where elements are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlang.ir import anf
from dlang.ir.axes import Relocation
from dlang.ir.comprehension_queries import point_of
from dlang.ir.rewriting import Rewriter
from dlang.ir.traverse import mentioned, walk
from dlang.ops import figures
from dlang.optimize.effects import consumed_by


class Producer:
    """A comprehension, and where the values of its body are defined."""

    def __init__(self, op: anf.Comp) -> None:
        self.op = op
        self.at = {v: k for k, let in enumerate(op.body.lets) for v in let.vars}

    def code(self, k: int, most: int | None = None) -> list[anf.Let] | None:
        """The lets of the body that a result needs; None if more than `most` of them compute something."""
        positions: set[int] = set()
        work: list[anf.Atom] = [self.op.body.results[k]]
        count = 0
        while work:
            a = work.pop()
            n = self.at.get(a) if isinstance(a, anf.Var) else None
            if n is not None and n not in positions:
                positions.add(n)
                op = self.op.body.lets[n].op
                work += mentioned(op)
                count += not isinstance(op, anf.IndexExpr)
                if most is not None and count > most:
                    return None
        return [self.op.body.lets[n] for n in sorted(positions)]

    def element(self, k: int, index: Sequence[anf.Size]) -> tuple[list[anf.Let], anf.Atom]:
        """A copy of the code that gives one element of a result that holds the value of each point, and the element."""
        value = self.op.body.results[k]
        point = zip(point_of(self.op, k) or (), index, strict=True)
        copy = Relocation({axis: entry for axis, entry in point if axis is not None}, {}, renew=True)
        code = copy.block(anf.Block(tuple(self.code(k) or ()), (value,)))
        return [*copy.numbers, *code.lets], code.results[0]


class Inliner(Rewriter):
    """Replaces reads of chosen results by the code that computes the element."""

    def __init__(self, chosen: dict[anf.Var, tuple[Producer, int]]) -> None:
        super().__init__()
        self.chosen = chosen

    def rule(self, let: anf.Let) -> None:
        op = self.op(let.op)
        if isinstance(op, anf.Read) and op.array in self.chosen:
            self.env[let.vars[0]] = self.element(op)
            return
        if isinstance(op, anf.Comp):  # what is inlined later must be the code as it is now
            producer = Producer(op)
            self.chosen.update({v: (producer, k) for k, v in enumerate(let.vars) if v in self.chosen})
        self.keep(let, op)

    def block(self, block: anf.Block) -> anf.Block:
        return block if self.untouched(block, self.chosen) else super().block(block)

    def element(self, read: anf.Read) -> anf.Atom:
        """Writes the code of one element and gives its value."""
        producer, k = self.chosen[read.array]
        lets, value = producer.element(k, read.index)
        for let in lets:
            self.write(let)
        return value


def _is_of_a_point(op: anf.Op) -> bool:
    """Tells whether an operation computes numbers of a point, if only by choosing one of two."""
    return op.IS.point or isinstance(op, anf.If)


class LightElements:
    """The arrays of a block of which each element is a light term, and no array that the block changes is read for it.

    A sum of such elements may be a product of arrays: then they need not be there. copies: the arrays that only hold
    elements of another one, as the windows that move over it do. around: those of a block in which this one stands.
    """

    def __init__(self, block: anf.Block, around: LightElements | None = None) -> None:
        self.consumed = {v for let in block.lets for v in consumed_by(let.op)}
        self.producers: dict[anf.Var, tuple[Producer, int]] = {} if around is None else around.producers
        self.copies: dict[anf.Var, tuple[Producer, int]] = {} if around is None else around.copies

    def note(self, let: anf.Let, *forms: anf.Comp) -> None:
        """Notes which results of a comprehension are such arrays. forms: it, as `opened` gives it, and as it is: what
        all light terms together make too long may be light as it is."""
        for form in forms:
            producer = Producer(form)
            for k, var in enumerate(let.vars):
                if var not in self.producers and var not in self.copies:
                    self._note(var, producer, k)

    def _note(self, var: anf.Var, producer: Producer, k: int) -> None:
        code = producer.code(k, 2 * figures.LIGHT_TERM) if point_of(producer.op, k) is not None else None
        if code is None:
            return
        everything = [inner for inner in walk(anf.Block(tuple(code), ())) if not isinstance(inner.op, anf.IndexExpr)]
        if len(everything) > 2 * figures.LIGHT_TERM or not all(_is_of_a_point(x.op) for x in everything):
            return
        read = {inner.op.array for inner in everything if isinstance(inner.op, anf.Read)}
        if not self.consumed.isdisjoint(read):
            return
        if any(isinstance(inner.op, anf.Prim) for inner in everything):
            self.producers[var] = producer, k
        elif len(code) == 1 and read:
            self.copies[var] = producer, k

    def opened(self, op: anf.Comp) -> anf.Comp:
        """The comprehension with such elements computed where it reads them."""
        return self._inlined(op, self.producers)

    def uncopied(self, op: anf.Comp) -> anf.Comp:
        """The comprehension with elements of copies read where they come from."""
        return self._inlined(op, self.copies)

    def _inlined(self, op: anf.Comp, producers: Mapping[anf.Var, tuple[Producer, int]]) -> anf.Comp:
        read = {let.op.array for let in op.body.lets if isinstance(let.op, anf.Read)}
        chosen = {v: producers[v] for v in read if v in producers}
        new = Inliner(chosen).op(op) if chosen else op
        assert isinstance(new, anf.Comp)
        return new
