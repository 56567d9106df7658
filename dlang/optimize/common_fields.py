"""Reads what all nodes of a variant hold in common where it comes from, and has them hold the rest.

    f = if c { F0(q, a) } else { F1(q) }         f = if c { F0(a) } else { F1() }
    for i { … q', a' = fields F0 f … q'[i] }  →  for i { … a' = fields F0 f … q[i] }

A function that is chosen when the program runs captures arrays, and so does a variant that holds data. Where all of its
nodes are made with the same array, one that is in scope wherever a node is opened, the array is that one. The cotangent
of a field is an array of its size for each opening of a node, that of an array in scope changes one element.

The nodes are made and opened in one block, and none leaves it, so that all see one run of the block: no function takes
or gives such a node, and nothing outside of the language looks at one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain, count

from dlang.graphs import reached
from dlang.ir import anf
from dlang.ir.rewriting import Rewriter
from dlang.ir.traverse import op_blocks, parts, type_vars, with_body
from dlang.optimize.algebra import same

Key = tuple[str, int]  # of a variant: its datatype and its tag


def common_fields(program: anf.Program) -> anf.Program:
    """The program in which no variant has fields that are the same for all of its nodes, and in scope."""
    if not any(
        any(isinstance(p.type, anf.Array) for p in v.fields) for d in program.datatypes.values() for v in d.variants
    ):
        return program
    nodes = _Nodes(program)
    for f in program.functions.values():
        nodes.function(f)
    found = {key: left for key, of in nodes.of.items() if (left := nodes.without_common(key, of)) is not None}
    if not found:
        return program

    def function(f: anf.Function) -> anf.Function:
        return with_body(f, _Without(found).block(f.body)) if f.name in homes else f

    homes = {nodes.of[key].home for key in found}
    datatypes = {
        name: replace(
            d, variants=tuple([found[name, v.tag].variant if (name, v.tag) in found else v for v in d.variants])
        )
        for name, d in program.datatypes.items()
    }
    return replace(program, functions={k: function(f) for k, f in program.functions.items()}, datatypes=datatypes)


# ---- where nodes are made and opened ---------------------------------------------------------------------------------
@dataclass(eq=False, slots=True)
class _Scope:
    """A block, or what an operation binds for its blocks; around it the one that it stands in."""

    around: _Scope | None
    block: anf.Block | None
    depth: int

    @staticmethod
    def inside(around: _Scope | None, block: anf.Block | None = None) -> _Scope:
        """A scope in another one."""
        return _Scope(around, block, 0 if around is None else around.depth + 1)

    def up_to(self, depth: int) -> _Scope:
        """The scope around this one at a depth, or itself."""
        scope = self
        while scope.depth > depth and scope.around is not None:
            scope = scope.around
        return scope


@dataclass(slots=True)
class _Uses:
    """The operations that make and open the nodes of a variant, each with where and as which of all it stands.

    home: the function that they are in; None if there are several.
    """

    home: str | None
    made: list[tuple[_Scope, int, anf.Construct]] = field(default_factory=list)
    opened: list[tuple[_Scope, int]] = field(default_factory=list)

    def scope(self) -> _Scope | None:
        """The smallest scope around all of them."""
        scopes = [*[scope for scope, _, _ in self.made], *[scope for scope, _ in self.opened]]
        common: _Scope | None = scopes[0]
        for scope in scopes[1:]:
            while common is not None and scope.up_to(common.depth) is not common:
                common = common.around
        return common


@dataclass(frozen=True, slots=True)
class _Left:
    """A variant as it is left, and the positions of the fields that it keeps. common: the values of the others."""

    variant: anf.Variant
    kept: Sequence[int]
    common: Mapping[int, anf.Atom]


class _Nodes:
    """All nodes of a program. bound: where variables are bound, and behind which operations. seen: the datatypes of
    nodes that a function takes or gives, or that something outside of the language sees, and of nodes in these."""

    def __init__(self, program: anf.Program) -> None:
        self.datatypes = program.datatypes
        self.of: dict[Key, _Uses] = {}
        self.bound: dict[anf.Var, tuple[_Scope, int]] = {}
        self.seen: set[str] = set()
        self.numbers = count()

    def function(self, f: anf.Function) -> None:
        """Adds what a function does with nodes."""
        self._see(chain(f.params, f.results))
        scope = _Scope.inside(None, f.body)
        self._bind(f.params, scope)
        self._block(f.body, scope, f.name)

    def _see(self, atoms: Iterable[anf.Atom]) -> None:
        self.seen.update(self._held([a.type.dtype for a in atoms if not isinstance(a.type, anf.Token)]))

    def _held(self, dtypes: Iterable[str]) -> Set[str]:
        """The datatypes among some types, and those of the nodes in their nodes."""
        return set(reached([t for t in dtypes if t in self.datatypes], self._fields))

    def _fields(self, name: str) -> Iterator[str]:
        for variant in self.datatypes[name].variants:
            for p in variant.fields:
                if not isinstance(p.type, anf.Token) and p.type.dtype in self.datatypes:
                    yield p.type.dtype

    def _bind(self, vars: Iterable[anf.Var], scope: _Scope) -> None:
        number = next(self.numbers)
        self.bound.update((v, (scope, number)) for v in vars)

    def _block(self, block: anf.Block, scope: _Scope, home: str) -> None:
        for let in block.lets:
            op = let.op
            match op:
                case anf.Construct(variant):
                    self._uses(variant, home).made.append((scope, next(self.numbers), op))
                case anf.Fields(variant):
                    self._uses(variant, home).opened.append((scope, next(self.numbers)))
                case anf.Effect() | anf.Foreign() | anf.Format():
                    self._see(chain(parts(op).atoms, let.vars))
                case _ if blocks := op_blocks(op):
                    inside = _Scope.inside(scope)
                    self._bind(parts(op).binds, inside)
                    for inner in blocks:
                        self._block(inner, _Scope.inside(inside, inner), home)
                case _:
                    pass
            self._bind(let.vars, scope)

    def _uses(self, variant: anf.Variant, home: str) -> _Uses:
        uses = self.of.setdefault((variant.datatype, variant.tag), _Uses(home))
        if uses.home != home:
            uses.home = None
        return uses

    # ---- which fields they have in common
    def without_common(self, key: Key, uses: _Uses) -> _Left | None:
        """Finds the rest of a variant whose nodes have fields in common; None if they have none."""
        name, tag = key
        if uses.home is None or name in self.seen or not uses.made or not uses.opened:
            return None
        block = uses.scope()
        while block is not None and block.around is not None and self._leaves(name, block):
            block = block.around
        if block is None:
            return None
        first = min(number for _, number in uses.opened)
        args = [op.args for _, _, op in uses.made]
        common = {
            k: a
            for k, a in enumerate(args[0])
            if all(same(other[k], a) for other in args) and self._reaches(a, block, first)
        }
        variant = self.datatypes[name].variants[tag]
        kept = _kept(variant, common.__contains__)
        if len(kept) == len(variant.fields):
            return None
        left = replace(variant, fields=tuple([variant.fields[k] for k in kept]))
        return _Left(left, kept, common)

    def _leaves(self, name: str, scope: _Scope) -> bool:
        """Tells whether a node of a datatype may leave a scope. What an operation binds is not one that it could be."""
        if scope.block is None:
            return True
        given = [r.type.dtype for r in scope.block.results if not isinstance(r.type, anf.Token)]
        return name in self._held(given)

    def _reaches(self, atom: anf.Atom, block: _Scope, first: int) -> bool:
        """Tells whether an atom is one value in all of a block, and in scope from the first opening of a node on."""
        if isinstance(atom, anf.Lit):
            return True
        place = self.bound.get(atom)
        if place is None:
            return False
        scope, number = place
        return number < first if scope is block else block.up_to(scope.depth) is scope


def _kept(variant: anf.Variant, is_common: Callable[[int], bool]) -> list[int]:
    """The positions of the fields that stay: those that are not common, their sizes, and what is of such a size."""
    fields = variant.fields
    kept = {p for k, p in enumerate(fields) if not is_common(k)}
    while more := {
        x for p in fields for v in type_vars(p.type) if (p in kept) != (v in kept) for x in (p, v) if x not in kept
    }:
        kept |= more
    return [k for k, p in enumerate(fields) if p in kept]


class _Without(Rewriter):
    """The walk of a function. found: the rest of variants."""

    def __init__(self, found: Mapping[Key, _Left]) -> None:
        super().__init__()
        self.found = found

    def rule(self, let: anf.Let) -> None:
        match let.op:
            case anf.Construct(variant, args) if (left := self.found.get((variant.datatype, variant.tag))) is not None:
                self.keep(let, anf.Construct(left.variant, tuple([self.atom(args[k]) for k in left.kept])))
            case anf.Fields(variant, node) if (left := self.found.get((variant.datatype, variant.tag))) is not None:
                for k, v in enumerate(let.vars):
                    if k not in left.kept:
                        self.env[v] = self.atom(left.common[k])
                if left.kept:
                    self.keep(let, anf.Fields(left.variant, self.atom(node)), [let.vars[k] for k in left.kept])
            case _:
                self.write(self.let(let))
