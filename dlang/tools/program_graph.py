"""Programs as graphs, the core IR and loop nests, and graphs in the language of Graphviz."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from dlang.codegen import loops
from dlang.codegen.printing import head_of
from dlang.codegen.traverse import blocks, bound_by, callee, operands, written
from dlang.diagnostics import Span, error
from dlang.graphs import reached
from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Let, Lit, Token, Var
from dlang.ir.printer import Printer
from dlang.ir.traverse import called_by, named_function, offsets, parts
from dlang.tools.arguments import replace_file

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


def program_graph(program: anf.Program, entries: Sequence[str]) -> Graph:
    """Functions that entries reach, each in a cluster of its own if there are several."""
    graph = Graph()
    functions = reached(entries, lambda name: called_by(program.functions[name]))
    for name in functions:
        function = program.functions[name]
        where = graph.root
        if len(functions) > 1:
            where = graph.cluster(graph.root, _at(function.label or name, function.span))
        _Drawing(graph, Printer.of(function)).function(function, where)
    return graph


@dataclass(slots=True)
class _Drawing:
    """One function. made: the node that each variable comes from; waiting: parameters that nothing has used yet;
    shared: names that several parameters have, such as sizes of the compiler's."""

    graph: Graph
    names: Printer
    made: dict[Var, str] = field(default_factory=dict)
    waiting: dict[Var, Cluster] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)

    def function(self, f: anf.Function, where: Cluster) -> None:
        self.waiting = {p: where for p in f.params if not isinstance(p.type, Token)}
        self.shared = {name for name, times in Counter(p.name for p in f.params).items() if times > 1}
        self.block(f.body, where)
        for k, (formal, result) in enumerate(zip(f.results, f.body.results, strict=True)):
            if not isinstance(formal.type, Token):
                which = f"result {k + 1}" if len(f.results) > 1 else "result"
                label = f"{which}\n{self.names.type(formal.type)}"
                node = self.graph.node(where, label, shape="ellipse", fillcolor="#d8f0d8")
                self.link([result], node)

    def block(self, block: Block, where: Cluster) -> None:
        for let in block.lets:
            self.let(let, where)

    def let(self, let: Let, where: Cluster) -> None:
        match let.op:
            case anf.Comp() as op:
                self.comprehension(op, let, where)
            case anf.For() | anf.While() as op:
                self.loop(op, let, where)
            case anf.If() as op:
                self.branch(op, let, where)
            case op:
                label = [self.label(op), *(self.names.type(v.type) for v in let.vars if not isinstance(v.type, Token))]
                heavy = isinstance(op, anf.Contract | anf.LinalgOp) or named_function(op) is not None
                colour = {"fillcolor": "#fff0d0"} if heavy else {}
                node = self.graph.node(where, "\n".join(label), tooltip=_at("", let.span), **colour)
                self.link(parts(op).atoms, node)
                self.made.update(dict.fromkeys(let.vars, node))

    # ---- operations with blocks --------------------------------------------------------------------------------------
    def comprehension(self, op: anf.Comp, let: Let, where: Cluster) -> None:
        """A kernel: what it computes at each point, and at its end where that goes."""
        axes = ", ".join(map(self.names.op, op.axes))
        inside = self.graph.cluster(where, _at(f"for {axes}" if axes else "once", let.span))
        self.block(op.body, inside)
        for var, destination, value in zip(let.vars, op.destinations, op.body.results, strict=True):
            label = f"{self.names.op(destination)}\n{self.names.type(var.type)}"
            node = self.graph.node(inside, label, fillcolor="#e0d8f0")
            self.link([value, *([destination.into] if destination.into is not None else [])], node)
            self.made[var] = node

    def loop(self, op: anf.For | anf.While, let: Let, where: Cluster) -> None:
        head = "while"
        if isinstance(op, anf.For):
            head = f"for {self.names.var(op.index)} in {self.names.size(op.low)}..{self.names.size(op.high)}, in order"
        inside = self.graph.cluster(where, _at(head, let.span))
        state = [self.graph.node(inside, f"{p.name}\n{self.names.type(p.type)}", fillcolor="#e0d8f0")
                 for p in op.params]  # fmt: skip
        for param, first, node in zip(op.params, op.init, state, strict=True):
            self.link([first], node)
            self.made[param] = node
        if isinstance(op, anf.While):
            self.block(op.condition, inside)
            node = self.graph.node(inside, "goes on if", shape="diamond")
            self.link(op.condition.results, node)
        self.block(op.body, inside)
        following = op.body.results[1:] if op.early else op.body.results
        for value, node in zip(following, state, strict=True):
            self.link([value], node, dashed=True)
        self.made.update(zip(let.vars, state, strict=True))

    def branch(self, op: anf.If, let: Let, where: Cluster) -> None:
        around = self.graph.cluster(where, _at("if", let.span))
        condition = self.graph.node(around, "condition", shape="diamond")
        self.link([op.condition], condition)
        for label, block in (("then", op.then), ("else", op.otherwise)):
            self.block(block, self.graph.cluster(around, label) if block.lets else around)
        for var, a, b in zip(let.vars, op.then.results, op.otherwise.results, strict=True):
            if not isinstance(var.type, Token):
                node = self.graph.node(around, f"chosen\n{self.names.type(var.type)}", fillcolor="#e0d8f0")
                self.link([a, b], node)
                self.graph.edge(condition, node)
                self.made[var] = node

    # ---- parts -------------------------------------------------------------------------------------------------------
    def link(self, atoms: Sequence[Atom], target: str, dashed: bool = False) -> None:
        for a in atoms:
            if isinstance(a, Var) and not isinstance(a.type, Token):
                if a in self.waiting:
                    name = self.names.var(a) if a.name in self.shared else a.name
                    label = f"{name}\n{self.names.type(a.type)}"
                    self.made[a] = self.graph.node(
                        self.waiting.pop(a), label, shape="ellipse", fillcolor="#d8f0d8", tooltip=self.names.var(a)
                    )
                if a in self.made:  # an index of a loop is in its label
                    self.graph.edge(self.made[a], target, dashed)

    def is_written(self, a: Atom) -> bool:
        return isinstance(a, Lit) or (isinstance(a, Var) and a not in self.made and a not in self.waiting)

    def label(self, op: anf.Op) -> str:
        """An operation without its operands but for those that no edge tells: literals, and indices of loops."""
        match op:
            case anf.Prim(name, args):
                return " ".join([name, *(self.names.atom(a) for a in args if self.is_written(a))])
            case anf.Cast(dtype, arg):
                return f"cast {dtype}{f' {self.names.atom(arg)}' if self.is_written(arg) else ''}"
            case anf.Contract(left=left, right=right, out=out):
                return f"product {list(left)} {list(right)} -> {list(out)}"
            case anf.LinalgOp(name=name):
                return f"linalgop {name}"
            case anf.Assert(code=code):
                return f"check {code}"
            case anf.IndexExpr(size):
                return f"size {self.names.size(size)}"
            case anf.Effect(name=name) | anf.Foreign(target=name):
                return name
            case anf.Scan(monoid=monoid):
                return f"scan {monoid}"
            case _ if function := named_function(op):
                return f"{type(op).__name__.lower()} {function}"
            case _ if at := offsets(op):
                return f"{type(op).__name__.lower()} {self.names.sizes(at)}"
            case _:
                return type(op).__name__.lower()


def _at(text: str, span: Span | None) -> str:
    """A text with the line that it is about."""
    place = "" if span is None else f"{span.source.path.rpartition('/')[2]}:{span.line}"
    return "  ".join(filter(None, (text, place)))


# ---- loop nests ------------------------------------------------------------------------------------------------------
# Loop nests as a graph: a node for each statement, a cylinder for each array in memory, a cluster for each loop.


def loop_graph(program: loops.Program) -> Graph:
    graph = Graph()
    for function in program.functions.values():
        where = graph.cluster(graph.root, function.label or function.name) if len(program.functions) > 1 else graph.root
        _LoopDrawing(graph, where).function(function)
    return graph


@dataclass(slots=True)
class _LoopDrawing:
    """One function. made: the node of each number and of each array."""

    graph: Graph
    root: Cluster
    made: dict[loops.Slot, str] = field(default_factory=dict)

    def function(self, f: loops.Function) -> None:
        for slot in (*f.params, *(out.buffer for out in f.outs)):
            if isinstance(slot, loops.Buffer):
                self.array(slot, str(slot), self.root)
        self.stmts(f.body.stmts, self.root)
        for value in f.body.results:
            node = self.graph.node(self.root, "result", shape="ellipse", fillcolor="#d8f0d8")
            self.link([value], node)

    def array(self, buffer: loops.Buffer, label: str, where: Cluster) -> None:
        self.made[buffer] = self.graph.node(where, label, shape="cylinder", fillcolor="#d8f0d8")

    def stmts(self, stmts: Sequence[loops.Stmt], where: Cluster) -> None:
        for stmt in stmts:
            self.stmt(stmt, where)

    def stmt(self, stmt: loops.Stmt, where: Cluster) -> None:
        match stmt:
            case _ if stmt.IS.makes:
                for array in bound_by(stmt):
                    assert isinstance(array, loops.Buffer)
                    self.array(array, head_of(stmt), where)
            case loops.Free() | loops.Pieces():
                pass
            case loops.Loop(stmts=inner) | loops.Parallel(stmts=inner):
                inside = self.graph.cluster(where, head_of(stmt))
                self.stmts(inner, inside)
                for r in stmt.reductions:
                    node = self.graph.node(inside, f"{r.result} {r.monoid}=", fillcolor="#e0d8f0")
                    self.link([r.value], node)
                    self.made.update({slot: node for slot in (r.result, r.position) if slot is not None})
            case loops.InOrder():
                inside = self.graph.cluster(where, head_of(stmt))
                state = [self.graph.node(inside, str(p), fillcolor="#e0d8f0") for p in stmt.params]
                for param, first, node in zip(stmt.params, stmt.init, state, strict=True):
                    self.link([first], node)
                    self.made[param] = node
                for stmts in blocks(stmt):
                    self.stmts(stmts, inside)
                for value, node in zip(stmt.following, state, strict=True):
                    self.link([value], node, dashed=True)
                self.made.update(zip(stmt.results, state, strict=True))
            case loops.Branch(condition, then, otherwise, results):
                inside = self.graph.cluster(where, head_of(stmt))
                chosen = [self.graph.node(inside, f"chosen {slot}", fillcolor="#e0d8f0") for slot in results]
                for arm, label in ((then, "then"), (otherwise, "else")):
                    self.stmts(arm.stmts, self.graph.cluster(inside, label) if arm.stmts else inside)
                    for value, node in zip(arm.results, chosen, strict=True):
                        self.link([value, condition], node)
                self.made.update(zip(results, chosen, strict=True))
            case _:
                self.plain(stmt, where)

    def plain(self, stmt: loops.Stmt, where: Cluster) -> None:
        """A statement without others in it: what it mentions goes in, what it binds or writes comes out."""
        colour = {"fillcolor": "#fff0d0"} if stmt.IS.nest in ("product", "host") or callee(stmt) else {}
        node = self.graph.node(where, head_of(stmt), **colour)
        changed, bound = written(stmt), bound_by(stmt)
        self.link([value for value in operands(stmt) if value not in changed and value not in bound], node)
        for buffer in changed:
            if buffer in self.made:
                self.graph.edge(node, self.made[buffer])
        for slot in bound:
            self.made[slot] = node

    def link(self, values: Sequence[object], target: str, dashed: bool = False) -> None:
        for value in values:
            if isinstance(value, Var | loops.Buffer) and value in self.made:
                self.graph.edge(self.made[value], target, dashed)
