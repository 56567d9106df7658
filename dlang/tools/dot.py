"""Graphs in the language of Graphviz: nodes, edges and nested clusters, as text and, where Graphviz is, as pictures."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from dlang.diagnostics import error
from dlang.tools.files import replace_file

PICTURES = ("svg", "png", "pdf")
_HEAD = """\
  graph [fontname="Helvetica", fontsize=10, labeljust=l, rankdir=TB]
  node [fontname="Helvetica", fontsize=10, shape=box, style="rounded,filled", fillcolor=white]
  edge [fontname="Helvetica", fontsize=9, color="#555555"]"""
_DEEPER = ("#eef3fa", "#dfe9f5", "#cfdff0", "#bfd4ea")  # the backgrounds of clusters, inside one another


@dataclass(slots=True)
class Cluster:
    """Nodes with a frame around them. The outermost one, which is the graph, has none."""

    label: str = ""
    nodes: list[str] = field(default_factory=list)
    inner: list[Cluster] = field(default_factory=list)


@dataclass(slots=True)
class Graph:
    """edges: from node to node; dashed: of what one iteration of a loop hands to the next."""

    root: Cluster = field(default_factory=Cluster)
    edges: dict[tuple[str, str], bool] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def node(self, where: Cluster, label: str, **attributes: str) -> str:
        """Adds a node; gives its name."""
        name = f"n{next(self._numbers)}"
        written = ", ".join(f"{key}={_quoted(value)}" for key, value in {"label": label, **attributes}.items())
        where.nodes.append(f"{name} [{written}]")
        return name

    def cluster(self, where: Cluster, label: str) -> Cluster:
        inner = Cluster(label)
        where.inner.append(inner)
        return inner

    def edge(self, source: str, target: str, dashed: bool = False) -> None:
        self.edges.setdefault((source, target), dashed)

    def text(self) -> str:
        """The graph in the DOT language."""
        numbers = count(1)
        lines = ["digraph program {", _HEAD, *_written(self.root, 1, numbers)]
        for (source, target), dashed in self.edges.items():
            style = ' [style=dashed, constraint=false, color="#b05010"]' if dashed else ""
            lines.append(f"  {source} -> {target}{style}")
        return "\n".join([*lines, "}"]) + "\n"


def _written(c: Cluster, depth: int, numbers: Iterator[int]) -> Iterator[str]:
    pad = "  " * depth
    yield from (pad + node for node in c.nodes)
    for inner in c.inner:
        yield f"{pad}subgraph cluster_{next(numbers)} {{"
        colour = _DEEPER[min(depth - 1, len(_DEEPER) - 1)]
        yield f'{pad}  graph [label={_quoted(inner.label)}, style="rounded,filled", fillcolor="{colour}"]'
        yield from _written(inner, depth + 1, numbers)
        yield f"{pad}}}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def write(graph: Graph, path: str) -> None:
    """Writes DOT, or a picture, as the name of the file ends.

    Raises E0996 for another ending, E0995 where there is no Graphviz for a picture, E0822 for a file that can't be
    written.
    """
    kind = Path(path).suffix.removeprefix(".").lower()
    if kind not in ("dot", "gv", *PICTURES):
        help = (f"name a file that ends with .dot, .{', .'.join(PICTURES)}",)
        raise error("E0996", f"`{path}` does not say what kind of file it is to be", None, help=help)
    content = graph.text().encode()
    if kind in PICTURES:
        content = _picture(content, kind)
    replace_file(path, content)


def _picture(text: bytes, kind: str) -> bytes:
    program = shutil.which("dot")
    if program is None:
        help = ("install Graphviz, such as by `apt-get install graphviz`, or write a file that ends with .dot",)
        raise error("E0995", "a picture takes the command `dot` of Graphviz, which is not there", None, help=help)
    done = subprocess.run([program, f"-T{kind}"], input=text, capture_output=True, check=False)
    if done.returncode:
        reason = (done.stderr.decode(errors="replace").splitlines() or ["it says nothing"])[0]
        help = ("write a file that ends with .dot, and look at that",)
        raise error("E0995", f"Graphviz cannot draw this: {reason}", None, help=help)
    return done.stdout
