"""The recorded graph: operations on what was recorded before. A node has a greater number than all that it uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from dlang.host.values import dtype_name
from dlang.ops.dtypes import FLOATS

_NUMBERS = count()


@dataclass(slots=True, eq=False)
class Node:
    """shape, dtype: as NumPy has them; None for a structure. value: once it is known."""

    shape: tuple[int, ...] | None
    dtype: Any
    value: Any = field(default=None, repr=False)
    number: int = field(default_factory=lambda: next(_NUMBERS))

    @property
    def uses(self) -> tuple[Node, ...]:
        return ()


@dataclass(slots=True, eq=False)
class Apply(Node):
    """An expression in which `{0}`, `{1}`… stand for the operands. module: a file that `{m}` stands for."""

    expression: str = ""
    operands: tuple[Node, ...] = field(default=(), repr=False)
    module: str | None = None

    @property
    def uses(self) -> tuple[Node, ...]:
        return self.operands


@dataclass(slots=True, eq=False)
class Pull(Node):
    """The cotangents of `ats`, given those of `ofs`, which are computed from them: a tuple if there are several.

    way: what is computed between the two, in order; it is computed again here, from `ats` and all else that it uses.
    """

    ats: tuple[Node, ...] = field(default=(), repr=False)
    ofs: tuple[Node, ...] = field(default=(), repr=False)
    seeds: tuple[Node, ...] = field(default=(), repr=False)
    way: tuple[Node, ...] = field(default=(), repr=False)
    taken: tuple[Node, ...] = field(default=(), repr=False)

    @property
    def uses(self) -> tuple[Node, ...]:
        return self.taken


def pull(ats: Sequence[Node], ofs: Sequence[Node], seeds: Sequence[Node], way: Sequence[Node]) -> Pull:
    own = {*ats, *way}
    others = [u for w in way for u in w.uses if u not in own]
    shape, dtype = (ats[0].shape, ats[0].dtype) if len(ats) == 1 else (None, None)
    taken = tuple(dict.fromkeys([*ats, *seeds, *others]))
    return Pull(shape, dtype, ats=tuple(ats), ofs=tuple(ofs), seeds=tuple(seeds), way=tuple(way), taken=taken)


def between(at: Node, of: Node) -> list[Node]:
    """Lists the nodes on the paths from one node to another, which is the last, in order; empty if there is no path."""
    seen: dict[Node, None] = {}
    work = [of]
    while work:
        n = work.pop()
        if n in seen or n.number <= at.number:
            continue
        seen[n] = None
        work += n.uses
    reached = {at}
    found = []
    for n in sorted(seen, key=_number):
        if any(u in reached for u in n.uses):
            reached.add(n)
            found.append(n)
    return found if of in reached else []


def wanted(outputs: Iterable[Node]) -> list[Node]:
    """All that has to be computed for some nodes, in order; what is known already is not among it."""
    seen: dict[Node, None] = {}
    work = list(outputs)
    while work:
        n = work.pop()
        if n not in seen and n.value is None:
            seen[n] = None
            work += n.uses
    return sorted(seen, key=_number)


def _number(n: Node) -> int:
    return n.number


def is_float(n: Node) -> bool:
    """Tells whether a node can have a derivative: structures are asked part by part."""
    return n.shape is not None and (n.dtype.kind == "f" or dtype_name(n.dtype) in FLOATS)


def modules(nodes: Iterable[Node]) -> list[str]:
    """The files that nodes mention, and the ways of derivatives among them, each once."""
    found: dict[str, None] = {}
    for n in nodes:
        if isinstance(n, Pull):
            found |= dict.fromkeys(modules(n.way))
        elif isinstance(n, Apply) and n.module is not None:
            found[n.module] = None
    return list(found)
