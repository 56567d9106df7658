"""Arrays that take less to make than to copy are made once more in the place of a copy.

    t = empty [n + 1]                        y = comp i {
    u = update t[0] = 0.5                      t = empty [n + 1]
    y = comp i {                         →     u = update t[0] = 0.5
      v = copy u                               … for j (v = u) { … }
      … for j (v = v) { … }                  }
    }

That is an array without contents but for a few elements, as what a derivative saves of a loop begins, or one of which
all elements are one value. This comes last, when each array that is consumed has one owner.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlang.ir import anf
from dlang.ir.comprehension_queries import filled
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import count_uses, map_functions, map_inner, walk, with_body, with_lets
from dlang.ops import figures


def remake(program: anf.Program) -> anf.Program:
    """The program with such arrays in the place of copies."""
    return map_functions(program, _function)


def _function(function: anf.Function) -> anf.Function:
    copied = {let.op.array for let in walk(function.body) if isinstance(let.op, anf.Copy)}
    if not copied:
        return function
    makers = {v: let for let in walk(function.body) for v in let.vars}
    remaker = _Remaker(makers)
    body = remaker.block(function.body)
    while remaker.remade:
        uses = count_uses(body)
        unused = {v for v in remaker.remade if v not in uses}
        before = {a.op.array for v in unused if isinstance((a := makers[v]).op, anf.Update)}
        body = _without(body, unused)
        remaker.remade = {v for v in before if isinstance(v, anf.Var)} if unused else set()
    return with_body(function, body)


def _without(block: anf.Block, unused: set[anf.Var]) -> anf.Block:
    """The block without the lets that bind these."""
    block = map_inner(block, lambda inner: _without(inner, unused))
    return with_lets(block, [let for let in block.lets if unused.isdisjoint(let.vars)], block.results)


class _Remaker(Rewriter):
    """The walk over a function. makers: what makes its variables; remade: the arrays that were made once more."""

    def __init__(self, makers: Mapping[anf.Var, anf.Let]) -> None:
        super().__init__()
        self.makers = makers
        self.remade: set[anf.Var] = set()

    def rule(self, let: anf.Let) -> None:
        match let.op:
            case anf.Copy(anf.Var() as array) if (made := self.made(array)) is not None:
                self.insert(Renaming({}, renew=True).block(anf.Block(tuple(made), (array,))), let.vars)
                self.remade.add(array)
            case _:
                super().rule(let)

    def made(self, array: anf.Var) -> list[anf.Let] | None:
        """The lets that make an array of nothing but sizes and numbers, if they are few."""
        lets: list[anf.Let] = []
        while len(lets) <= figures.ENTRY_OF_SMALL_ARRAY:
            let = self.makers.get(array)
            if let is None or len(let.vars) > 1:
                return None
            lets.insert(0, let)
            match let.op:
                case anf.Update(older) if isinstance(older, anf.Var):
                    array = older
                case anf.Empty():
                    return lets
                case anf.Comp() as op if filled(op, let.vars) and not op.body.lets:
                    return lets
                case _:
                    return None
        return None
