"""Decides by a minimum cut which values to save and which to rematerialise.

Each value costs something to save, and something to compute again from its operands, which then have to be there. The
cheapest way to have the values that are wanted is a minimum cut of a graph in which every value is two nodes: it is
wanted if `out` is on the side of the sink, and computed again if `in` is, too.

    source → in: what it costs to compute        in → out: what it costs to save        out → in of what it is used for

The partitioners of PyTorch (He and Yuan: Transcending runtime-memory tradeoffs in checkpointing by being fusion aware,
2023) and Enzyme (Moses and others: Reverse-mode automatic differentiation and optimization of GPU kernels via Enzyme,
2021) cut with the costs of saving alone; here computing has its price, so that there are no rules beside it. The flow
is found by Dinic's algorithm (Algorithm for solution of a problem of maximum flow in a network with power estimation,
1970): the graphs are of the values of one loop body.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Value:
    """save: the cost of saving it; again: of computing it once more, None where that is not possible.

    operands: the positions of the values that it is computed from.
    """

    save: int
    again: int | None
    operands: tuple[int, ...] = ()


def minimum_cut(values: Sequence[Value], wanted: Sequence[int]) -> tuple[set[int], set[int]]:
    """The positions of the values to save, and of those to compute again, so that those wanted are there.

    Costs are not negative. Of several cuts with the same cost the one that computes least.
    """
    n = len(values)
    source, sink = 2 * n, 2 * n + 1
    without_end = 1 + sum(v.save + (v.again or 0) for v in values)
    flow = _Flow(2 * n + 2)
    for k, v in enumerate(values):
        flow.edge(2 * k, 2 * k + 1, v.save)
        flow.edge(source, 2 * k, without_end if v.again is None else v.again)
        for operand in v.operands if v.again is not None else ():
            flow.edge(2 * operand + 1, 2 * k, without_end)
    for k in set(wanted):
        flow.edge(2 * k + 1, sink, without_end)
    flow.fill(source, sink)
    needed = flow.before(sink)
    again = {k for k in range(n) if 2 * k in needed}
    return {k for k in range(n) if 2 * k + 1 in needed} - again, again


class _Flow:
    """A network; edges 2k and 2k + 1 are one edge and its reverse, with what may still flow through each."""

    def __init__(self, nodes: int) -> None:
        self.edges: list[list[int]] = [[] for _ in range(nodes)]  # of each node, those that leave it
        self.to: list[int] = []
        self.room: list[int] = []

    def edge(self, start: int, end: int, capacity: int) -> None:
        self.edges[start].append(len(self.to))
        self.edges[end].append(len(self.to) + 1)
        self.to += (end, start)
        self.room += (capacity, 0)

    def fill(self, source: int, sink: int) -> None:
        """Sends as much as there is room for."""
        while sink in (level := self._levels(source)):
            following = [0] * len(self.edges)  # of each node, the edge to try next
            while path := self._path(source, sink, level, following):
                amount = min(self.room[e] for e in path)
                for e in path:
                    self.room[e] -= amount
                    self.room[e ^ 1] += amount

    def _levels(self, source: int) -> dict[int, int]:
        """How far each node is from the source, along edges with room."""
        level = {source: 0}
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for e in self.edges[node]:
                if self.room[e] and self.to[e] not in level:
                    level[self.to[e]] = level[node] + 1
                    queue.append(self.to[e])
        return level

    def _path(self, source: int, sink: int, level: dict[int, int], following: list[int]) -> list[int]:
        """The edges of a shortest path with room, none if there is none left."""
        path: list[int] = []
        node = source
        while node != sink:
            edges = self.edges[node]
            while following[node] < len(edges):
                e = edges[following[node]]
                if self.room[e] and level.get(self.to[e]) == level[node] + 1:
                    break
                following[node] += 1
            else:
                if not path:
                    return []
                node = self.to[path.pop() ^ 1]
                following[node] += 1
                continue
            path.append(e)
            node = self.to[e]
        return path

    def before(self, sink: int) -> set[int]:
        """The nodes from which something could still flow to the sink."""
        found = {sink}
        work = [sink]
        while work:
            for e in self.edges[work.pop()]:
                if self.room[e ^ 1] and self.to[e] not in found:
                    found.add(self.to[e])
                    work.append(self.to[e])
        return found
