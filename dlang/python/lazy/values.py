"""The graph of what was recorded, and its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, count
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dlang.diagnostics import Source, error
from dlang.host.values import dtype_name
from dlang.ops.dtypes import FLOATS
from dlang.python.module import populate
from dlang.typecheck.modules import library_folders

# ---- nodes -----------------------------------------------------------------------------------------------------------
# The recorded graph: operations on what was recorded before. A node has a greater number than all that it uses.

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
    inside = {*ats, *way}
    others = [u for w in way for u in w.uses if u not in inside]
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
    nodes_between = []
    for n in sorted(seen, key=_number):
        if any(u in reached for u in n.uses):
            reached.add(n)
            nodes_between.append(n)
    return nodes_between if of in reached else []


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
    names: dict[str, None] = {}
    for n in nodes:
        if isinstance(n, Pull):
            names |= dict.fromkeys(modules(n.way))
        elif isinstance(n, Apply) and n.module is not None:
            names[n.module] = None
    return list(names)


# ---- pieces ----------------------------------------------------------------------------------------------------------
# Long recordings are cut into pieces, each of which is a program: so what repeats the same steps is compiled once.
#
# A cut is made where the least is known that is still needed, so a chain is cut between its steps, and its pieces have
# the same form. The way of a derivative is cut, too: cotangents go through its pieces from the last to the first, each
# of which is computed again from what is known where it begins.

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
    parts = []
    start = 0
    for end in _cuts(nodes, live, last):
        piece = tuple(nodes[start:end])
        live = [n for n in (*live, *piece) if last.get(n, -1) >= end]
        parts.append(Piece(piece, tuple(live)))
        start = end
    return parts


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
        pulled = pull(ats, ofs, [known.pop(n) for n in ofs], piece.nodes)
        for j, n in enumerate(ats):
            one = part(pulled, j, n) if len(ats) > 1 else pulled
            known[n] = Apply(n.shape, n.dtype, expression="{0} + {1}", operands=(known[n], one)) if n in known else one
    return known.get(at)


def part(structure: Node, k: int, like: Node) -> Node:
    """A part of a tuple."""
    return Apply(like.shape, like.dtype, expression=f"{{0}}.{k}", operands=(structure,))


# ---- values ----------------------------------------------------------------------------------------------------------
# Values of what was recorded, by programs that are compiled once for all that has the same form.
#
# A program for recorded operations.
#
#     fn values(x0: f64[2, 3], x1: f64) = {
#       let v2 = x0 * x1
#       let v3 = vjp(|v2| { let v4 = exp(v2); v4 }, v2).1(x0)
#       (v2, v3)
#     }
#
# Sizes are numbers, so what broadcasts and what is equal is what it was when it was recorded. On the ways of a
# derivative everything is written again, as a function of where they begin, also what is known: it is what the
# derivative goes through.

KEPT = 256  # programs


def compute(outputs: Sequence[Node]) -> None:
    """Gives nodes their values. Raises `DlangError`."""
    nodes = wanted(outputs)
    folder = _folder(nodes)
    known: dict[Node, Any] = {}  # what is needed until the end, and no longer
    for piece in pieces(nodes, outputs):
        left = set(piece.left)
        given = [n for n in piece.nodes if n in left]
        written = program(piece.nodes, given)
        results = _compiled(written.text, folder)(*[known.get(n, n.value) for n in written.inputs])
        known = {n: value for n, value in known.items() if n in left}
        for n, value in zip(given, results if len(given) > 1 else (results,), strict=True):
            known[n] = value if n.shape is None else _kept(np.asarray(value, n.dtype))
    for n, value in known.items():
        n.value = value


def _kept(array: Any) -> Any:
    """An array that nobody writes to, since what is computed later takes it as it is."""
    array.flags.writeable = False
    return array


def _folder(nodes: Sequence[Node]) -> str:
    """Returns the folder of the modules of recorded functions."""
    folders = {str(Path(path).parent) for path in modules(nodes)} - {str(f) for f in library_folders()}
    if len(folders) > 1:
        message = f"functions of modules in several folders are recorded: {', '.join(sorted(folders))}"
        raise error("E0999", message, None, help=("compute what the first gives before it goes on: `x.value()`",))
    return folders.pop() if folders else ""


@lru_cache(maxsize=KEPT)
def _compiled(text: str, folder: str) -> Any:
    module = ModuleType("dlang_lazy")
    populate(module, Source(str(Path(folder) / "<recorded>"), text), "cpu")
    return getattr(module, NAME)


NAME = "values"


@dataclass(frozen=True, slots=True)
class Written:
    """A program, and the nodes whose values it takes."""

    text: str
    inputs: tuple[Node, ...]


@dataclass(slots=True)
class _Writer:
    """aliases: of modules by their files. count: of names that were given."""

    aliases: Mapping[str, str]
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    def write(self, nodes: Sequence[Node], names: dict[Node, str], indent: str) -> None:
        """A `let` for each node; names: of nodes that are known here, and of these afterwards."""
        for n in nodes:
            text = self._pull(n, names, indent) if isinstance(n, Pull) else self._applied(n, names)
            names[n] = self.fresh()
            self.lines.append(f"{indent}let {names[n]} = {text}")

    def _applied(self, n: Node, names: Mapping[Node, str]) -> str:
        assert isinstance(n, Apply)
        module = self.aliases[n.module] if n.module is not None else ""
        return n.expression.format(*[names[u] for u in n.operands], m=module)

    def _pull(self, p: Pull, names: Mapping[Node, str], indent: str) -> str:
        """The derivative; what its way computes is written into a function."""
        inner = dict(names)
        for n in p.ats:
            inner[n] = self.fresh()
        function = self.fresh()
        self.lines.append(f"{indent}let {function} = |{', '.join(inner[n] for n in p.ats)}| {{")
        self.write(p.way, inner, indent + "  ")
        self.lines.append(f"{indent}  {_together([inner[n] for n in p.ofs])}")
        self.lines.append(f"{indent}}}")
        at = ", ".join(names[n] for n in p.ats)
        return f"vjp({function}, {at}).1({_together([names[n] for n in p.seeds])})"


def program(nodes: Sequence[Node], outputs: Sequence[Node]) -> Written:
    """The program whose function `values` computes nodes and gives some of them, as a tuple if there are several."""
    inside = set(nodes)
    inputs = sorted({u for n in nodes for u in n.uses if u not in inside}, key=lambda n: n.number)
    aliases = {path: f"m{k}" for k, path in enumerate(modules(nodes))}
    names = {n: f"x{k}" for k, n in enumerate(inputs)}
    writer = _Writer(aliases)
    writer.write(nodes, names, "  ")
    params = ", ".join(names[n] + _type(n) for n in inputs)
    lines = [
        *(f"import {Path(path).stem} as {alias}" for path, alias in aliases.items()),
        f"fn {NAME}({params}) = {{",
        *writer.lines,
        f"  {_together([names[n] for n in outputs])}",
        "}",
    ]
    return Written("\n".join(lines) + "\n", tuple(inputs))


def _together(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _type(n: Node) -> str:
    """The annotation of a parameter; a structure has none."""
    if n.shape is None:
        return ""
    axes = f"[{', '.join(map(str, n.shape))}]" if n.shape else ""
    return f": {dtype_name(n.dtype)}{axes}"
