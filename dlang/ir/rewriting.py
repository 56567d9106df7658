"""The walk of passes that rewrite a program let by let, from top to bottom, with what is known on the way.

A pass is a `Rewriter` whose `rule` says what becomes of a let: it keeps it, as it is or with another operation; it
replaces what the let binds, in all that follows (`env`); or it puts other lets in its place. Without a rule a program
stays as it is, and what no rule changes is the same object afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlang.diagnostics import CallSite, Span
from dlang.ir import anf
from dlang.ir.substitution import Renaming, Replacement
from dlang.ir.traverse import map_blocks, rebuild, with_lets, with_op

_NOTHING: Mapping[anf.Var, Replacement] = {}


class Rewriter(Renaming):
    """A walk under way over a block and the blocks in it.

    lets: what has been written of the innermost block. defined: the let of each variable that has been written.
    """

    __slots__ = ("defined", "lets")

    def __init__(
        self,
        mapping: Mapping[anf.Var, Replacement] = _NOTHING,
        renew: bool = False,
        site: CallSite | None = None,
        followed: bool = False,
    ) -> None:
        super().__init__(mapping, renew, site, followed)
        self.lets: list[anf.Let] = []
        self.defined: dict[anf.Var, anf.Let] = {}

    def rule(self, let: anf.Let) -> None:
        """Says what becomes of a let: this one keeps it, in terms of what replaces variables."""
        self.write(self.let(let))

    def op(self, op: anf.Op) -> anf.Op:
        if self.env or self.renew:
            return super().op(op)
        new = map_blocks(op, self.block)  # which takes less time, and most passes replace little
        if not self.env:
            return new
        return rebuild(new, atom=self.atom, size=self.size, block=_same, bind=self.bind)

    def block(self, block: anf.Block) -> anf.Block:
        outer, self.lets = self.lets, []
        for let in block.lets:
            self.rule(let)
        new = with_lets(block, self.lets, self.results(block))
        self.lets = outer
        return new

    # ---- what rules ask and do
    def definition(self, atom: anf.Atom) -> anf.Op | None:
        """Returns the operation that binds a variable, if the walk has written it."""
        let = self.defined.get(atom) if isinstance(atom, anf.Var) else None
        return None if let is None else let.op

    def write(self, let: anf.Let) -> None:
        """Adds a let, whose parts are rewritten, to the block."""
        self.lets.append(let)
        for var in let.vars:
            self.defined[var] = let

    def keep(self, let: anf.Let, op: anf.Op, vars: Sequence[anf.Var] | None = None) -> None:
        """Writes a let with a rewritten operation, which binds some of the variables that it bound, or all of them."""
        bound = let.vars if vars is None else tuple(vars)
        if self.env or self.renew:
            bound = tuple([self.bind(v) for v in bound])
        self.write(with_op(let, bound, op))

    def emit(self, op: anf.Op, type: anf.Type, name: str = "t", span: Span | None = None) -> anf.Var:
        """Writes an operation in front of the let that the rule is about; returns the variable that it binds."""
        var = anf.fresh(name, type)
        self.write(anf.Let((var,), op, span))
        return var

    def splice(self, block: anf.Block, vars: Sequence[anf.Var]) -> None:
        """Writes a block that surely runs, in place of the operation that bound `vars` to its results."""
        for let in block.lets:
            self.rule(let)
        for var, result in zip(vars, block.results, strict=True):
            self.env[var] = self.atom(result)

    def insert(self, block: anf.Block, vars: Sequence[anf.Var]) -> None:
        """The same for a block that is rewritten already."""
        for let in block.lets:
            self.write(let)
        self.env.update(zip(vars, block.results, strict=True))


def _same(block: anf.Block) -> anf.Block:
    return block
