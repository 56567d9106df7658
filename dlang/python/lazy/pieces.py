"""Long recordings are cut into pieces, each of which is a program: so what repeats the same steps is compiled once.

A cut is made where the least is known that is still needed, so a chain is cut between its steps, and its pieces have
the same form. The way of a derivative is cut, too: cotangents go through its pieces from the last to the first, each of
which is computed again from what is known where it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from dlang.python.lazy.nodes import Apply, Node, Pull, between, is_float, pull

FEWEST, MOST = 96, 192  # operations of a piece, if there is a place to cut it
CALL = 16  # operations that a call of a function of the language counts as
BACK = 3  # operations that one on the way of a derivative counts as


@dataclass(frozen=True, slots=True)
class Piece:
    """nodes: what is computed. left: all that is known at its end and needed later, of earlier pieces, too."""

    nodes: tuple[Node, ...]
    left: tuple[Node, ...]


def pieces(nodes: Sequence[Node], outputs: Sequence[Node], given: Sequence[Node] = ()) -> list[Piece]:
    """Nodes, in order, cut. outputs: what is needed at the end. given: what is known at the beginning, of interest."""
    last = {u: k for k, n in enumerate(nodes) for u in n.uses} | dict.fromkeys(outputs, len(nodes))
    live = [n for n in given if n in last]
    found = []
    start = 0
    for end in _cuts(nodes, live, last):
        piece = tuple(nodes[start:end])
        live = [n for n in (*live, *piece) if last.get(n, -1) >= end]
        found.append(Piece(piece, tuple(live)))
        start = end
    return found


def _cuts(nodes: Sequence[Node], given: Sequence[Node], last: dict[Node, int]) -> list[int]:
    """Chooses where pieces end: among the places near enough, the last of those with the fewest live values."""
    changes, structures = [0] * (len(nodes) + 2), [0] * (len(nodes) + 2)
    for k, n in [*((-1, n) for n in given), *enumerate(nodes)]:
        if n in last:
            counted = changes if n.shape is not None else structures
            counted[k + 1] += 1
            counted[last[n] + 1] -= 1
    values = list(accumulate(changes))
    whole = list(accumulate(structures))  # structures are not taken apart: there is no cut where one is known
    reached = list(accumulate(map(weight, nodes), initial=0))
    cuts = []
    start = 0
    while start < len(nodes) and reached[-1] - reached[start] > MOST:
        best = 0
        for end in range(start + 1, len(nodes)):
            size = reached[end] - reached[start]
            if best and size > MOST:
                break
            if not whole[end] and size >= FEWEST and (not best or values[end] <= values[best]):
                best = end
        if not best:
            break
        cuts.append(best)
        start = best
    return [*cuts, len(nodes)] if nodes else []


def weight(n: Node) -> int:
    """How many operations of the language a node counts as."""
    if isinstance(n, Pull):
        return BACK * sum(map(weight, n.way))
    return CALL if isinstance(n, Apply) and n.module is not None else 1


def cotangent(at: Node, of: Node, seed: Node) -> Node | None:
    """The cotangent of `at`, given that of `of`; None if the one is not computed from the other."""
    if at is of:
        return seed
    way = pieces(between(at, of), (of,), (at,))
    known = {of: seed}
    for k, piece in reversed(list(enumerate(way))):
        used = {u for n in piece.nodes for u in n.uses}
        ats = [n for n in (way[k - 1].left if k else (at,)) if n in used and is_float(n)]
        ofs = [n for n in piece.nodes if n in known]
        if not ats or not ofs:
            continue
        made = pull(ats, ofs, [known.pop(n) for n in ofs], piece.nodes)
        for j, n in enumerate(ats):
            one = part(made, j, n) if len(ats) > 1 else made
            known[n] = Apply(n.shape, n.dtype, expression="{0} + {1}", operands=(known[n], one)) if n in known else one
    return known.get(at)


def part(structure: Node, k: int, like: Node) -> Node:
    """A part of a tuple."""
    return Apply(like.shape, like.dtype, expression=f"{{0}}.{k}", operands=(structure,))
