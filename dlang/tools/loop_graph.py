"""Loop nests as a graph: a node for each statement, a cylinder for each array in memory, a cluster for each loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.codegen import loops
from dlang.codegen.printing import head_of
from dlang.codegen.traverse import bound_by, operands
from dlang.ir.anf import Var
from dlang.tools.dot import Cluster, Graph


def loop_graph(program: loops.Program) -> Graph:
    graph = Graph()
    for function in program.functions.values():
        where = graph.cluster(graph.root, function.label or function.name) if len(program.functions) > 1 else graph.root
        _Drawing(graph, where).function(function)
    return graph


@dataclass(slots=True)
class _Drawing:
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
            case loops.Allocate(buffer) | loops.ArenaAllocate(buffer):
                self.array(buffer, head_of(stmt), where)
            case loops.Free() | loops.Pieces():
                pass
            case loops.Loop(stmts=inner) | loops.Parallel(stmts=inner):
                inside = self.graph.cluster(where, head_of(stmt))
                self.stmts(inner, inside)
                for r in stmt.reductions:
                    node = self.graph.node(inside, f"{r.result} {r.monoid}=", fillcolor="#e0d8f0")
                    self.link([r.value], node)
                    self.made.update({slot: node for slot in (r.result, r.position) if slot is not None})
            case loops.For() | loops.While():
                inside = self.graph.cluster(where, head_of(stmt))
                state = [self.graph.node(inside, str(p), fillcolor="#e0d8f0") for p in stmt.params]
                for param, first, node in zip(stmt.params, stmt.init, state, strict=True):
                    self.link([first], node)
                    self.made[param] = node
                if isinstance(stmt, loops.While):
                    self.stmts(stmt.condition.stmts, inside)
                self.stmts(stmt.body.stmts, inside)
                following = stmt.body.results[1:] if stmt.early else stmt.body.results
                for value, node in zip(following, state, strict=True):
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
        colour = {"fillcolor": "#fff0d0"} if isinstance(stmt, loops.Product | loops.Runtime | loops.Invoke) else {}
        node = self.graph.node(where, head_of(stmt), **colour)
        written = _written(stmt)
        bound = bound_by(stmt)
        self.link([value for value in operands(stmt) if value not in written and value not in bound], node)
        for buffer in written:
            if buffer in self.made:
                self.graph.edge(node, self.made[buffer])
        for slot in bound:
            self.made[slot] = node

    def link(self, values: Sequence[object], target: str, dashed: bool = False) -> None:
        for value in values:
            if isinstance(value, Var | loops.Buffer) and value in self.made:
                self.graph.edge(self.made[value], target, dashed)


def _written(stmt: loops.Stmt) -> tuple[loops.Buffer, ...]:
    """The arrays that a statement writes to."""
    match stmt:
        case loops.Store(buffer):
            return (buffer,)
        case loops.Move(target):
            return (target,)
        case loops.Product(c=part) | loops.Pack(part):
            return (part.buffer,)
        case loops.Runtime(outs=outs):
            return tuple([out.buffer for out in outs])
        case loops.Invoke(outs=outs):
            return outs
        case _:
            return ()
