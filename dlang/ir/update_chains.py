"""Finds the arrays that continue others: operations that consume an array give it another value in the same memory.

A branch continues an array if both arms do. It does too if one arm does and the other makes an array of its own when
nothing looks at the old one any more, so that a loop that hands an array on in one arm need not copy it. The two have
to be of one shape outside of the arms: that an arm has checked it says nothing of the other one. An array whose sizes
the branch or the loop itself gives continues nothing. A loop that hands an array on begins with a copy of it where
something else still needs the array.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.traverse import mentioned, outer_mentions, used_by
from dlang.ir.writes import Continues, How, links


@dataclass(slots=True)
class UpdateChains:
    """step: the array that a result replaces, where an operation consumes one. level: how deep the let's block is.

    memory: the array whose memory a variable has, where that is another one; alike: of such an array, what has its
    memory; apart: of the open blocks, what the rest of them does not use of that. held: arrays whose memory a node
    holds. uses: of the open blocks, where each variable is used last, and where the walk is. continues: what the
    results of functions continue (`Function.continues`). copies: what loops give that begin with a copy of the array.
    """

    continues: Continues = field(default_factory=dict)
    step: dict[anf.Var, anf.Var] = field(default_factory=dict)
    level: dict[anf.Var, int] = field(default_factory=dict)
    memory: dict[anf.Var, anf.Var] = field(default_factory=dict)
    alike: dict[anf.Var, list[anf.Var]] = field(default_factory=dict)
    apart: list[list[anf.Var]] = field(default_factory=list)
    held: set[anf.Var] = field(default_factory=set)
    uses: list[tuple[dict[anf.Var, int], int]] = field(default_factory=list)
    copies: set[anf.Var] = field(default_factory=set)

    def root(self, atom: anf.Atom, level: int) -> anf.Atom:
        """Follows what was consumed, through the lets of blocks at least `level` deep."""
        while isinstance(atom, anf.Var) and self.level.get(atom, -1) >= level and self._goes_on(atom):
            atom = self.step[atom]
        return atom

    def grows_from(self, array: anf.Var, origin: anf.Var) -> bool:
        """Tells whether an array continues another one, or is that itself."""
        while array is not origin and self._goes_on(array):
            array = self.step[array]
        return array is origin

    def _goes_on(self, array: anf.Atom) -> bool:
        """Tells whether an array has the memory of the one that it replaces."""
        return array in self.step and array not in self.copies

    def add(self, block: anf.Block, level: int = 0) -> None:
        """Takes in a block and the blocks inside it."""
        last = last_uses(block)
        self.apart.append([])
        for position, let in enumerate(block.lets):
            for var in let.vars:
                self.level[var] = level
            self.uses.append((last, position))
            self._let(let, level)
            self.uses.pop()
        for var in self.apart.pop():
            self.alike[self._memory(var)].append(var)

    def _let(self, let: anf.Let, level: int) -> None:
        match let.op:
            case anf.Construct(args=args):
                self.held.update([self._memory(a) for a in args if isinstance(a, anf.Var) and _is_array(a)])
            case anf.Comp(body=body):
                self.add(body, level + 1)
            case anf.If(then=then, otherwise=otherwise):
                self.add(then, level + 1)
                self.add(otherwise, level + 1)
                for var, a, b in zip(let.vars, then.results, otherwise.results, strict=True):
                    if _is_array(var) and not _sized_by(var, let.vars):
                        self._branch(var, (a, then), (b, otherwise), level)
                arrays = [v for v in (*then.results, *otherwise.results) if isinstance(v, anf.Var) and _is_array(v)]
                self._set_apart({self._memory(v) for v in arrays}, level)
            case (
                anf.For(params=params, init=init, body=body, early=early)
                | anf.While(params=params, init=init, body=body, early=early)
            ):
                self.uses.append((dict.fromkeys(used_by(let), 1), 0))  # all of it may be used again
                self.add(body, level + 1)
                if isinstance(let.op, anf.While):
                    self.add(let.op.condition, level + 1)
                self.uses.pop()
                for var, param, first, value in zip(let.vars, params, init, body.results[early:], strict=True):
                    if _is_array(var) and isinstance(first, anf.Var) and self.root(value, level + 1) is param:
                        if not _sized_by(var, let.vars):
                            self._loop(let, var, first)
            case _:
                pass
        for var, source, how in links(let, self.continues):
            if _is_array(var) and isinstance(source, anf.Var):
                if how is not How.SEEN:
                    self.step[var] = source
                self._share(var, source)

    def _branch(
        self, var: anf.Var, one: tuple[anf.Atom, anf.Block], other: tuple[anf.Atom, anf.Block], level: int
    ) -> None:
        for (a, _), (b, arm) in ((one, other), (other, one)):
            root = self.root(a, level + 1)
            if not isinstance(root, anf.Var) or self.level.get(root, -1) > level:
                continue
            end = self.root(b, level + 1)
            if end is root or (
                isinstance(end, anf.Var)
                and self.level.get(end, -1) > level
                and root.type == var.type
                and self._done_with(root, set(mentioned(_from(arm, end))))
            ):
                self._continue(var, root)
                return

    def _loop(self, let: anf.Let, var: anf.Var, first: anf.Var) -> None:
        """Notes that what a loop gives goes on from its first value, or from a copy of that."""
        assert isinstance(let.op, anf.For | anf.While)
        read = {*outer_mentions(let.op.body)}
        if isinstance(let.op, anf.While):
            read.update(outer_mentions(let.op.condition))
        if self._done_with(first, read):
            self._continue(var, first)
        else:
            self.step[var] = first
            self.copies.add(var)

    def _done_with(self, root: anf.Var, read: Set[anf.Var]) -> bool:
        """Tells whether an array's memory is not read any more: neither by what comes behind the let at hand, nor by
        the variables that code of the let reads."""
        memory = self._memory(root)
        if memory in self.held:
            return False
        alike = self.alike.get(memory, [memory])
        if any(last.get(v, -1) > at for v in alike for last, at in self.uses):
            return False
        return read.isdisjoint(alike)

    def _set_apart(self, memories: Iterable[anf.Var], level: int) -> None:
        """Sets apart, for the rest of the block at hand, what has the memory of arrays and is not used in that rest."""
        last, at = self.uses[-1]
        for memory in memories:
            awake: list[anf.Var] = []
            for v in self.alike.get(memory, ()):
                deep = self.level.get(v, -1)
                over = deep > level or (deep == level and last.get(v, at) < at)
                (self.apart[-1] if over else awake).append(v)
            if memory in self.alike:
                self.alike[memory] = awake

    def _memory(self, var: anf.Var) -> anf.Var:
        """The array whose memory a variable has."""
        return self.memory.get(var, var)

    def _continue(self, var: anf.Var, array: anf.Var) -> None:
        """Notes that an array goes on from another one, in its memory."""
        self.step[var] = array
        self._share(var, array)

    def _share(self, var: anf.Var, array: anf.Var) -> None:
        """Notes that an array is in the memory of another one."""
        memory = self.memory[var] = self._memory(array)
        self.alike.setdefault(memory, [memory]).append(var)


def _from(arm: anf.Block, array: anf.Var) -> anf.Block:
    """An arm from where an array in it may first be written to: a comprehension may run with products that it reads."""
    start = next((k for k, let in enumerate(arm.lets) if array in let.vars), 0)
    match arm.lets[start].op if arm.lets else None:
        case anf.Comp() as comp:
            read = set(mentioned(comp))
            products = [k for k, let in enumerate(arm.lets) if isinstance(let.op, anf.Contract) and let.vars[0] in read]
            start = min([start, *products])
        case anf.Empty():  # its parts may be made before it
            start = 0
        case _:
            pass
    return anf.Block(arm.lets[start:], arm.results)


def goes_on(function: anf.Function, continues: Continues) -> tuple[tuple[int, int], ...]:
    """The pairs of a result and a parameter of `continues` that hold on every path of a function, if all others do."""
    chains = UpdateChains(continues=continues)
    chains.add(function.body)
    results, params = function.body.results, function.params
    return tuple([(j, k) for j, k in continues.get(function.name, ()) if chains.root(results[j], 0) is params[k]])


def last_uses(block: anf.Block) -> dict[anf.Var, int]:
    """The position of the last let of a block that mentions each variable, at any depth; of those in blocks inside
    just the ones from around these."""
    last: dict[anf.Var, int] = {}
    for position, let in enumerate(block.lets):
        for var in used_by(let):
            last[var] = position
    for result in block.results:
        if isinstance(result, anf.Var):
            last[result] = len(block.lets)
    return last


def _sized_by(var: anf.Var, vars: tuple[anf.Var, ...]) -> bool:
    """Tells whether a branch or loop gives the sizes of an array too: then its memory is not there before."""
    return isinstance(var.type, anf.Array) and any(size.mentions(vars) for size in var.type.shape)


def _is_array(var: anf.Var) -> bool:
    return isinstance(var.type, anf.Array)
