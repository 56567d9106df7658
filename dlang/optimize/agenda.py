"""The lets that an analysis of a program looks at: each once, and again when a variable that it follows from changed.

The facts of an analysis grow. A fact about what a let binds follows from those about its operands and about what its
blocks give; of the parameters of a loop also from those about its state, and of a call's from those about a function.
So the work is as much as there are lets, times how often a fact can change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dlang.ir.anf import Block, Call, For, Function, Let, Var, While
from dlang.ir.traverse import parts


@dataclass(frozen=True, slots=True)
class Item:
    """A let to look at. loops: how many loops are around it in its function `function`."""

    let: Let
    function: str
    loops: int


@dataclass(slots=True)
class Agenda:
    """pending: what is still to be looked at, by its position among the items. followers: of a variable, the positions
    of the lets that follow from it."""

    functions: Mapping[str, Function]
    items: list[Item] = field(default_factory=list)
    pending: deque[int] = field(default_factory=deque)
    waiting: set[int] = field(default_factory=set)
    followers: dict[Var, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, function in self.functions.items():
            self._enter(function.body, name, 0)
        self.waiting.update(self.pending)

    def __iter__(self) -> Iterator[Item]:
        """Yields what is to be looked at next, until nothing is; facts may change meanwhile."""
        while self.pending:
            k = self.pending.popleft()
            self.waiting.discard(k)
            yield self.items[k]

    def changed(self, var: Var) -> None:
        """Something else is known of a variable: what follows from it is looked at again."""
        for k in self.followers.get(var, ()):
            if k not in self.waiting:
                self.waiting.add(k)
                self.pending.append(k)

    def _enter(self, block: Block, function: str, loops: int) -> None:
        for let in block.lets:
            k = len(self.items)
            self.items.append(Item(let, function, loops))
            op = let.op
            loop = isinstance(op, For | While)
            if loop:
                self.pending.append(k)  # the state is known before the body
            p = parts(op)
            atoms = [*p.atoms]
            for inner in p.blocks:
                self._enter(inner, function, loops + loop)
                atoms += inner.results
            self.pending.append(k)
            if isinstance(op, Call):
                atoms += self.functions[op.function].body.results
            for atom in atoms:
                if type(atom) is Var:
                    self.followers.setdefault(atom, []).append(k)
