"""What is recorded: operations on what was recorded before. A node has a greater number than all that it uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

_NUMBERS = count()


@dataclass(slots=True, eq=False)
class Node:
    """shape, dtype: as NumPy has them; None for a structure. value: once it is known."""

    shape: tuple[int, ...] | None
    dtype: Any
    value: Any = None
    number: int = field(default_factory=lambda: next(_NUMBERS))

    @property
    def uses(self) -> tuple[Node, ...]:
        return ()


@dataclass(slots=True, eq=False)
class Apply(Node):
    """An expression in which `{0}`, `{1}`… stand for the operands. module: a file that `{m}` stands for."""

    expression: str = ""
    operands: tuple[Node, ...] = ()
    module: str | None = None

    @property
    def uses(self) -> tuple[Node, ...]:
        return self.operands


@dataclass(slots=True, eq=False)
class Grad(Node):
    """The cotangent of `at`, given that of `of`, which is computed from it: of all other nodes as they are."""

    of: Node = field(default_factory=lambda: Node((), None))
    at: Node = field(default_factory=lambda: Node((), None))
    seed: Node = field(default_factory=lambda: Node((), None))

    @property
    def uses(self) -> tuple[Node, ...]:
        return (self.of, self.at, self.seed)


def between(at: Node, of: Node) -> list[Node]:
    """The nodes on the ways from one to another, both included, in order; nothing if there is none."""
    seen: dict[Node, None] = {}
    work = [of]
    while work:
        n = work.pop()
        if n in seen or n.number < at.number:
            continue
        seen[n] = None
        work += n.uses
    reached = {at}
    found = [at]
    for n in sorted(seen, key=_number):
        if n is not at and any(u in reached for u in n.uses):
            reached.add(n)
            found.append(n)
    return found if of in reached else []


def needs(n: Node) -> Iterable[Node]:
    """What has to be known for the value of a node; of a derivative that is what its ways use beside themselves."""
    if not isinstance(n, Grad):
        return n.uses
    way = between(n.at, n.of)
    own = set(way)
    return dict.fromkeys([n.at, n.seed, *(u for w in way if w is not n.at for u in needs(w) if u not in own)])


def wanted(outputs: Iterable[Node]) -> list[Node]:
    """All that has to be computed for some nodes, and what is known of it, in order."""
    seen: dict[Node, None] = {}
    work = list(outputs)
    while work:
        n = work.pop()
        if n in seen:
            continue
        seen[n] = None
        if n.value is None:
            work += needs(n)
    return sorted(seen, key=_number)


def _number(n: Node) -> int:
    return n.number


def modules(nodes: Iterable[Node]) -> list[str]:
    """The files that nodes mention, and the ways of derivatives among them, each once."""
    found: dict[str, None] = {}
    for n in nodes:
        if isinstance(n, Grad):
            found |= dict.fromkeys(modules(between(n.at, n.of)[1:]))
        elif isinstance(n, Apply) and n.module is not None:
            found[n.module] = None
    return list(found)
