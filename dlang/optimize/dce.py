"""Dead code: what no result, check or effect needs, by marking what is needed and keeping just that.

Besides whole lets it removes single results: of branches and comprehensions, cotangents that nobody uses, and parts of
the state of loops, which live only if their last value is used, or if what lives in the loop uses them.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from dlang.ir import anf
from dlang.ir.traverse import map_functions, named_function, op_blocks, parts, type_vars, with_body
from dlang.optimize.effects import effectful_functions


def dce(program: anf.Program) -> anf.Program:
    """The program without dead code."""
    effectful = effectful_functions(program)
    return map_functions(program, lambda f: _function(f, effectful))


def live_block(block: anf.Block) -> anf.Block:
    """A block without dead code, where what it calls has no effects."""
    marks = _Marks(frozenset())
    nodes = marks.register(block, None)
    for result in block.results:
        marks.work += type_vars(result.type)
    marks.atoms(block.results)
    marks.run()
    return marks.sweep(block, nodes, tuple(range(len(block.results))))


def _function(function: anf.Function, effectful: Set[str]) -> anf.Function:
    marks = _Marks(effectful)
    nodes = marks.register(function.body, None)
    for var in (*function.params, *function.results):
        marks.work += type_vars(var.type)
    marks.atoms(function.body.results)
    marks.run()
    body = marks.sweep(function.body, nodes, tuple(range(len(function.body.results))))
    return with_body(function, body)


@dataclass(slots=True, eq=False)
class _Node:
    """A let with the lets in its blocks; `live` once something needs it. around: the place of the node around it."""

    let: anf.Let
    around: int | None
    inner: tuple[list[_Node], ...] = ()
    live: bool = False


class _Marks:
    """The live variables, found from the roots through the definitions with a work list."""

    def __init__(self, effectful: Set[str]) -> None:
        self.effectful = effectful
        self.nodes: list[_Node] = []  # a node refers to one around it by its place here: in circles it would stay
        self.needed: set[anf.Var] = set()
        self.work: list[anf.Var] = []
        self.home: dict[anf.Var, tuple[_Node, int]] = {}  # of what a let binds, and of the state of loops
        self.state: dict[anf.Var, anf.Var] = {}  # the state of a loop inside it → what the loop binds for it

    def register(self, block: anf.Block, around: int | None) -> list[_Node]:
        """Notes where everything is bound, and marks what must stay."""
        nodes = []
        for let in block.lets:
            node, place = _Node(let, around), len(self.nodes)
            nodes.append(node)
            self.nodes.append(node)
            for k, var in enumerate(let.vars):
                self.home[var] = node, k
            op = let.op
            match op:
                case _ if op.IS.stays or named_function(op) in self.effectful:
                    self.live(node)
                case anf.For() | anf.While():
                    self.state.update(zip(op.params, let.vars, strict=True))
                case _:
                    pass
            node.inner = tuple([self.register(b, place) for b in op_blocks(op)])
        return nodes

    def atoms(self, atoms: tuple[anf.Atom, ...]) -> None:
        self.work += [a for a in atoms if isinstance(a, anf.Var)]

    def sizes(self, sizes: tuple[anf.Size, ...]) -> None:
        for size in sizes:
            for monomial in size.terms:
                self.work += monomial

    def live(self, node: _Node) -> None:
        """A let stays: so does what its running at all depends on, and every let around it."""
        while not node.live:
            node.live = True
            op = node.let.op
            match op:
                case anf.Comp():
                    for axis in op.axes:
                        self.sizes(axis.lows)
                        self.sizes(axis.highs)
                case anf.If():
                    self.atoms((op.condition,))
                case anf.For():
                    self.sizes((op.low, op.high))
                    self.atoms(op.body.results[: op.early])
                case anf.While():
                    self.atoms(op.condition.results)
                    self.atoms(op.body.results[: op.early])
                case _:
                    p = parts(op)
                    self.atoms(p.atoms)
                    self.sizes(p.sizes)
                    for var in node.let.vars:
                        self.work += type_vars(var.type)
            if node.around is None:
                return
            node = self.nodes[node.around]

    def component(self, op: anf.Op, k: int) -> None:
        """Marks as needed the operands of the k-th result of an operation with blocks."""
        match op:
            case anf.Comp():
                destination = op.destinations[k]
                self.sizes(destination.shape)
                self.sizes(destination.index)
                if destination.into is not None:
                    self.work.append(destination.into)
                self.atoms((op.body.results[k],))
            case anf.If():
                self.atoms((op.then.results[k], op.otherwise.results[k]))
            case anf.For() | anf.While():
                self.work += type_vars(op.params[k].type)
                self.atoms((op.init[k], op.body.results[k + op.early]))
            case _:
                pass

    def run(self) -> None:
        while self.work:
            var = self.work.pop()
            var = self.state.get(var, var)
            if var in self.needed:
                continue
            self.needed.add(var)
            if isinstance(var.type, anf.Array):
                self.work += type_vars(var.type)
            home = self.home.get(var)
            if home is not None:
                node, k = home
                if not node.live:
                    self.live(node)
                if node.inner:
                    self.component(node.let.op, k)

    # ---- what is left
    def sweep(self, block: anf.Block, nodes: list[_Node], results: tuple[int, ...]) -> anf.Block:
        """The block without what is not needed, giving the results at these positions."""
        lets = tuple([self.let(node) for node in nodes if node.live])
        kept = block.results if len(results) == len(block.results) else tuple([block.results[k] for k in results])
        if len(lets) == len(nodes) and kept is block.results:
            if all(a is node.let for a, node in zip(lets, nodes, strict=True)):
                return block
        return anf.Block(lets, kept)

    def let(self, node: _Node) -> anf.Let:
        let = node.let
        op = let.op
        if isinstance(op, anf.Vjp):
            return self.vjp(let, op)
        if isinstance(op, anf.VjpForward) and let.vars[-1] not in self.needed:
            return anf.Let(let.vars[:-1], anf.Call(op.function, op.args), let.span)
        if not node.inner:
            return let
        keep = tuple([k for k, var in enumerate(let.vars) if var in self.needed])
        shifted = keep
        if isinstance(op, anf.For | anf.While) and op.early:
            shifted = (0, *[k + 1 for k in keep])
        new: anf.Op
        match op:
            case anf.Comp():
                body = self.sweep(op.body, node.inner[0], keep)
                new = anf.Comp(op.axes, body, tuple([op.destinations[k] for k in keep]))
                same = body is op.body
            case anf.If():
                then = self.sweep(op.then, node.inner[0], keep)
                otherwise = self.sweep(op.otherwise, node.inner[1], keep)
                new = anf.If(op.condition, then, otherwise, cold=op.cold)
                same = then is op.then and otherwise is op.otherwise
            case anf.For():
                body = self.sweep(op.body, node.inner[0], shifted)
                params, init = tuple([op.params[k] for k in keep]), tuple([op.init[k] for k in keep])
                new = anf.For(op.index, op.low, op.high, params, init, body, op.early)
                same = body is op.body
            case anf.While():
                condition = self.sweep(op.condition, node.inner[0], (0,))
                body = self.sweep(op.body, node.inner[1], shifted)
                params, init = tuple([op.params[k] for k in keep]), tuple([op.init[k] for k in keep])
                new = anf.While(params, init, condition, body, op.early)
                same = condition is op.condition and body is op.body
            case _:
                return let
        if same and len(keep) == len(let.vars):
            return let
        return anf.Let(tuple([let.vars[k] for k in keep]), new, let.span)

    def vjp(self, let: anf.Let, op: anf.Vjp) -> anf.Let:
        """Returns a derivative without the cotangents that are not needed; without any it is a call."""
        values = len(let.vars) - len(op.wrt)
        keep = [k for k in range(len(op.wrt)) if let.vars[values + k] in self.needed]
        if len(keep) == len(op.wrt):
            return let
        kept = (*let.vars[:values], *[let.vars[values + k] for k in keep])
        if not keep:
            return anf.Let(kept, anf.Call(op.function, op.args), let.span)
        return anf.Let(kept, anf.Vjp(op.function, op.args, tuple([op.wrt[k] for k in keep]), op.cotangents), let.span)
