"""Finds the operations that make objects in the arena, and the blocks that can let go of all that they made.

Objects are immutable and lie in an arena that grows at one end. A block whose results hold no reference can't have
handed on an object that was made in it: one that is older can't refer to one that is younger. So the arena ends
afterwards where it ended before.

A loop whose state reaches all that its iterations made, such as one that builds a list or saves what its derivative
needs, has nothing to let go of: looking for garbage in it would copy all of it time and again.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from dlang.codegen.abi import holds_references
from dlang.codegen.loops import Buffer
from dlang.graphs import components
from dlang.ir import anf
from dlang.ir.traverse import called_by, walk
from dlang.ir.types import STR
from dlang.ir.update_chains import UpdateChains
from dlang.ir.writes import links


@dataclass(slots=True)
class Nodes:
    """makers: the functions that may make an object. keepers: as `keepers_of` gives them. held: arrays that a node will
    hold, or that grow into such. joins: whether the program joins texts, so that one may be in several pieces.

    arrays: the buffers that begin with an array in the arena, which a node may hold as it is.
    """

    makers: frozenset[str] = frozenset()
    keepers: Mapping[str, frozenset[int]] = field(default_factory=dict)
    held: frozenset[anf.Var] = frozenset()
    joins: bool = False
    arrays: set[Buffer] = field(default_factory=set)

    def made_in(self, block: anf.Block) -> bool:
        """Tells whether a block may make an object."""
        return bool(self.makers) and _makes(block, self.makers, self.joins)

    def kept_by(self, op: anf.For | anf.While) -> bool:
        """Tells whether the last state of a loop reaches every object that its iterations made."""
        return _Reach(self.makers, self.keepers, self.joins).of_loop(op, _references(op.params)) is not None


def makers_of(program: anf.Program) -> frozenset[str]:
    """The functions that may make an object in the arena, themselves or through what they call."""
    makers: set[str] = set()
    joins = are_joined(program)
    for component in _callees_first(program):
        if any(_makes(program.functions[name].body, makers, joins) for name in component):
            makers.update(component)
    return frozenset(makers)


def keepers_of(program: anf.Program, makers: frozenset[str]) -> dict[str, frozenset[int]]:
    """The functions whose results reach every object that a call makes; with the parameters that they reach as well."""
    keepers: dict[str, frozenset[int]] = {}
    joins = are_joined(program)
    for component in _callees_first(program):
        # A call that returns has calls of its own only to some depth, so recursion may suppose of them what is shown.
        reached_by = {name: frozenset(range(len(program.functions[name].params))) for name in component}
        before = None
        while reached_by != before:
            before, reach = reached_by, _Reach(makers, ChainMap(reached_by, keepers), joins)
            reached = {name: reach.of_function(program.functions[name]) for name in reached_by}
            reached_by = {name: params for name, params in reached.items() if params is not None}
        keepers.update(reached_by)
    return keepers


def _callees_first(program: anf.Program) -> list[list[str]]:
    """The functions that call each other, in groups, each after those that it calls."""
    return components({name: called_by(f) for name, f in program.functions.items()})


def are_joined(program: anf.Program) -> bool:
    """Tells whether a program joins texts: writes one as it is among others."""
    lets = (let for f in program.functions.values() for let in walk(f.body))
    return any(isinstance(let.op, anf.Format) and _joins(let.op) for let in lets)


def _joins(op: anf.Format) -> bool:
    return any(a.type == STR and not spec for a, spec in zip(op.args, op.parts[1::2], strict=True))


def _references(atoms: Sequence[anf.Atom]) -> list[int]:
    """The positions of those values that are or hold references."""
    return [k for k, a in enumerate(atoms) if holds_references(a.type)]


def takes_references(f: anf.Function) -> bool:
    """Tells whether texts or nodes are among the arguments of a function, or are in them."""
    return any(holds_references(p.type) for p in f.params)


def _makes(block: anf.Block, makers: Set[str], joins: bool) -> bool:
    for let in walk(block):
        match let.op:
            case anf.Construct(variant=variant) if variant.fields:
                return True
            case anf.Call(function=callee) if callee in makers:
                return True
            case anf.Foreign() | anf.Effect() if any(holds_references(v.type) for v in let.vars):
                return True
            case anf.Format(args=args) if args:
                return True
            case anf.Effect(args=args) | anf.Foreign(args=args) | anf.Assert(values=args) if joins and _has_text(args):
                return True  # the host gets texts in one piece, as arrays do
            case anf.Update(value=value) if joins and _has_text((value,)):
                return True
            case anf.Comp(body=body) if joins and _has_text(body.results):
                return True
            case _:
                pass
    return False


def _has_text(atoms: Sequence[anf.Atom]) -> bool:
    """Tells whether a text that the program computes is among some values."""
    return any(isinstance(a, anf.Var) and a.type == STR for a in atoms)


def held_arrays(function: anf.Function, chains: UpdateChains) -> frozenset[anf.Var]:
    """The arrays of a function that its nodes hold, and what these grow from."""
    held: set[anf.Var] = set()
    for let in walk(function.body):
        if isinstance(let.op, anf.Construct):
            for arg in let.op.args:
                if isinstance(arg, anf.Var) and isinstance(arg.type, anf.Array):
                    root = chains.root(arg, 0)
                    held.update(v for v in (arg, root) if isinstance(v, anf.Var))
    return frozenset(held)


@dataclass(frozen=True, slots=True)
class _Reach:
    """The search for what the results of a block reach, which finds whether all that was made in it is among that.

    makers, keepers, joins: as in `Nodes`. params: of the loops around the block, up to the one that is asked about.
    indices: of these loops; None if one of them has none.
    """

    makers: frozenset[str]
    keepers: Mapping[str, frozenset[int]]
    joins: bool
    params: frozenset[anf.Var] = frozenset()
    indices: frozenset[anf.Var] | None = frozenset()

    def of_function(self, f: anf.Function) -> frozenset[int] | None:
        """The parameters that the results of a function reach; None if a call may make what they don't reach."""
        if not (wanted := _references(f.body.results)):
            return frozenset()  # all is let go of when it returns
        reached = self.of_block(f.body, wanted)
        return None if reached is None else frozenset(k for k, p in enumerate(f.params) if p in reached)

    def of_block(self, block: anf.Block, wanted: Iterable[int]) -> set[anf.Var] | None:
        """The variables that some of the results of a block reach; None if it may make what they don't."""
        results = [block.results[k] for k in wanted]
        reached = {r for r in results if isinstance(r, anf.Var)}
        for let in reversed(block.lets):
            more = self.of_let(let, reached)
            if more is None:
                return None
            reached |= more
        return reached

    def of_let(self, let: anf.Let, reached: set[anf.Var]) -> set[anf.Var] | None:
        """The variables that those of a let's which are reached reach; None if it may make what they don't."""
        op = let.op
        wanted = [k for k, v in enumerate(let.vars) if v in reached]
        out: Sequence[anf.Atom | None] = ()
        match op:
            case anf.Construct(args=args):
                if op.variant.fields and not wanted:
                    return None
                out = args if wanted else ()
            case anf.If():
                arms = [self.of_block(arm, wanted) for arm in (op.then, op.otherwise)]
                if arms[0] is None or arms[1] is None:
                    return None
                inside = {v for arm in (op.then, op.otherwise) for inner in arm.lets for v in inner.vars}
                if any(isinstance(v.type, anf.Array) for v in (arms[0] ^ arms[1]) - inside):
                    return None  # an array for a node that one of the arms makes
                return arms[0] & arms[1]
            case anf.For() | anf.While():
                if _references(op.params):
                    return self.of_loop(op, wanted)
            case anf.Comp():
                if _references(op.body.results) and self._makes(let):
                    return None
            case anf.Call():
                if op.function in self.makers:
                    references = {v for v in let.vars if holds_references(v.type)}
                    if op.function not in self.keepers or not references <= reached:
                        return None
                    out = [op.args[k] for k in self.keepers[op.function]]
            case anf.Update(array=array, value=value):
                if wanted and array in self.params and self._apart(op):
                    out = (array, value)
            case _:
                out = [source for var, source, _ in links(let) if var in reached]
        if not isinstance(op, anf.Construct | anf.Call | anf.For | anf.While | anf.Comp) and self._makes(let):
            return None
        return {a for a in out if isinstance(a, anf.Var)}

    def of_loop(self, op: anf.For | anf.While, wanted: Iterable[int]) -> set[anf.Var] | None:
        """The first values that some last values of a loop's state reach; None if it may make what they don't."""
        indices = None if self.indices is None or isinstance(op, anf.While) else self.indices | {op.index}
        inside = replace(self, params=self.params.union(op.params), indices=indices)
        wanted = set(wanted)
        reached = inside.of_block(op.body, [k + op.early for k in wanted])
        if reached is None:
            return None
        bound = {*op.params, *(v for let in op.body.lets for v in let.vars)}
        for v in reached - bound:
            if isinstance(v.type, anf.Array):
                return None  # an array for the nodes of the iterations, if there are any
        if any(op.params[k] not in reached for k in _references(op.params) if k in wanted):
            return None
        return {a for k in wanted if isinstance(a := op.init[k], anf.Var) and op.params[k] in reached}

    def _apart(self, op: anf.Update) -> bool:
        """Tells whether iterations of the loops around it change elements of their own."""
        if self.indices is None:
            return False
        linear = [
            {m[0] for m in entry.terms if len(m) == 1 and m[0] in self.indices}
            for entry in op.index
            if sum(not self.indices.isdisjoint(m) for m in entry.terms) == 1
        ]
        return self.indices <= set().union(*linear)

    def _makes(self, let: anf.Let) -> bool:
        return _makes(anf.Block((let,), ()), self.makers, self.joins)
