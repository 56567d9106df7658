"""A program for recorded operations.

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
from pathlib import Path

from dlang.python.lazy.nodes import Apply, Grad, Node, between, modules, wanted
from dlang.runtime.values import dtype_name

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
            text = self._grad(n, names, indent) if isinstance(n, Grad) else self._applied(n, names)
            names[n] = self.fresh()
            self.lines.append(f"{indent}let {names[n]} = {text}")

    def _applied(self, n: Node, names: Mapping[Node, str]) -> str:
        assert isinstance(n, Apply)
        module = self.aliases[n.module] if n.module is not None else ""
        return n.expression.format(*[names[u] for u in n.operands], m=module)

    def _grad(self, g: Grad, names: Mapping[Node, str], indent: str) -> str:
        """The derivative; what its way computes is written into a function."""
        begin, *way = between(g.at, g.of)
        inner = dict(names)
        inner[begin] = self.fresh()
        function = self.fresh()
        self.lines.append(f"{indent}let {function} = |{inner[begin]}| {{")
        self.write(way, inner, indent + "  ")
        self.lines.append(f"{indent}  {inner[g.of]}")
        self.lines.append(f"{indent}}}")
        return f"vjp({function}, {names[g.at]}).1({names[g.seed]})"


def program(outputs: Sequence[Node]) -> Written:
    """The program whose function `values` gives the values of nodes that have none, as a tuple if there are several."""
    nodes = wanted(outputs)
    inputs = [n for n in nodes if n.value is not None]
    pending = [n for n in nodes if n.value is None]
    aliases = {path: f"m{k}" for k, path in enumerate(modules(pending))}
    names = {n: f"x{k}" for k, n in enumerate(inputs)}
    writer = _Writer(aliases)
    writer.write(pending, names, "  ")
    params = ", ".join(names[n] + _type(n) for n in inputs)
    results = ", ".join(names[n] for n in outputs)
    lines = [
        *(f"import {Path(path).stem} as {alias}" for path, alias in aliases.items()),
        f"fn {NAME}({params}) = {{",
        *writer.lines,
        f"  {results if len(outputs) == 1 else f'({results})'}",
        "}",
    ]
    return Written("\n".join(lines) + "\n", tuple(inputs))


def _type(n: Node) -> str:
    """The annotation of a parameter; a structure has none."""
    if n.shape is None:
        return ""
    axes = f"[{', '.join(map(str, n.shape))}]" if n.shape else ""
    return f": {dtype_name(n.dtype)}{axes}"
