"""Values of what was recorded, by programs that are compiled once for all that has the same form.

A program for recorded operations.

    fn values(x0: f64[2, 3], x1: f64) = {
      let v2 = x0 * x1
      let v3 = vjp(|v2| { let v4 = exp(v2); v4 }, v2).1(x0)
      (v2, v3)
    }

Sizes are numbers, so what broadcasts and what is equal is what it was when it was recorded. On the ways of a derivative
everything is written again, as a function of where they begin, also what is known: it is what the derivative goes
through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dlang.diagnostics import Source, error
from dlang.host.values import dtype_name
from dlang.python.lazy.nodes import Apply, Node, Pull, modules, wanted
from dlang.python.lazy.pieces import pieces
from dlang.python.module import populate
from dlang.typecheck.modules import library_folders

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
        found = _compiled(written.text, folder)(*[known.get(n, n.value) for n in written.inputs])
        known = {n: value for n, value in known.items() if n in left}
        for n, value in zip(given, found if len(given) > 1 else (found,), strict=True):
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
    own = set(nodes)
    inputs = sorted({u for n in nodes for u in n.uses if u not in own}, key=lambda n: n.number)
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
