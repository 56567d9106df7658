"""Reads what all nodes of a variant hold in common where it comes from, and has them hold the rest.

    f = if c { F0(q, a) } else { F1(q) }         f = if c { F0(a) } else { F1() }
    for i { … q', a' = fields F0 f … q'[i] }  →  for i { … a' = fields F0 f … q[i] }

A function that is chosen when the program runs captures arrays, and so does a variant that holds data. Where all of its
nodes are made with the same array, one that is in scope wherever a node is opened, the array is that one. The cotangent
of a field is an array of its size for each opening of a node, that of an array in scope changes one element.

The nodes are made and opened in one block, and none leaves it, so that all see one run of the block: the function that
it is in takes and gives no such node, and nothing outside of the language looks at one. A function that is called from
there, and opens one, takes what they have in common as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain, count

from dlang.graphs import reached
from dlang.ir import anf
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import named_function, op_blocks, parts, type_vars
from dlang.optimize.algebra import same

Key = tuple[str, int]  # of a variant: its datatype and its tag


def common_fields(program: anf.Program, entries: Sequence[str]) -> anf.Program:
    """The program in which no variant has fields that are the same for all of its nodes, and in scope."""
    if not any(
        any(isinstance(p.type, anf.Array) for p in v.fields) for d in program.datatypes.values() for v in d.variants
    ):
        return program
    nodes = _Nodes(program, entries)
    found = {key: left for key, of in nodes.of.items() if (left := nodes.without_common(key, of)) is not None}
    if not found:
        return program
    more: dict[str, list[tuple[Key, int]]] = {}
    for key, left in found.items():
        for name in left.openers:
            more.setdefault(name, []).extend((key, k) for k, a in left.common.items() if isinstance(a, anf.Var))

    def function(f: anf.Function) -> anf.Function:
        params: list[anf.Var] = []
        values: dict[tuple[Key, int], anf.Atom] = {}
        for key, left in found.items():
            if f.name == left.home:
                values.update(((key, k), a) for k, a in left.common.items())
            elif f.name in left.openers:
                formal, actual = program.datatypes[key[0]].variants[key[1]].fields, Renaming({}, renew=True)
                for k, a in left.common.items():
                    actual.env[formal[k]] = values[key, k] = actual.bind(formal[k]) if isinstance(a, anf.Var) else a
                params += [v for k in left.common if isinstance(v := values[key, k], anf.Var)]
        if not values:
            return f
        body = _Without(found, values, more).block(f.body)
        return replace(f, params=(*f.params, *params), body=body)

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
    """The operations that make and open the nodes of a variant, by functions; each with where and as which of all it
    stands."""

    made: dict[str, list[tuple[_Scope, int, anf.Construct]]] = field(default_factory=dict)
    opened: dict[str, list[tuple[_Scope, int]]] = field(default_factory=dict)


def _around(scopes: Sequence[_Scope]) -> _Scope | None:
    """The smallest scope around all of some."""
    common: _Scope | None = scopes[0]
    for scope in scopes[1:]:
        while common is not None and scope.up_to(common.depth) is not common:
            common = common.around
    return common


@dataclass(frozen=True, slots=True)
class _Left:
    """A variant as it is left, and the positions of the fields that it keeps.

    common: the values of the others in `home`, the function that makes its nodes. openers: those that it calls with
    these values, as they open some, or call others that do.
    """

    variant: anf.Variant
    kept: Sequence[int]
    common: Mapping[int, anf.Atom]
    home: str
    openers: Set[str]


class _Nodes:
    """All nodes of a program. bound: where variables are bound, and behind which operations. calls: of each function,
    by the functions that they are in. fixed: the functions that are called from outside, or as more than a function.
    seen: the datatypes of nodes that these take or give, or that something outside of the language sees. inside: those
    of the nodes in the nodes of one, itself included."""

    def __init__(self, program: anf.Program, entries: Sequence[str]) -> None:
        self.functions = program.functions
        self.datatypes = program.datatypes
        self.of: dict[Key, _Uses] = {}
        self.bound: dict[anf.Var, tuple[_Scope, int]] = {}
        self.calls: dict[str, dict[str, list[tuple[_Scope, int]]]] = {}
        self.fixed = set(entries)
        self.seen: set[str] = set()
        self.inside: dict[str, frozenset[str]] = {}
        self.numbers = count()
        for f in program.functions.values():
            scope = _Scope.inside(None, f.body)
            self._bind(f.params, scope)
            self._block(f.body, scope, f.name)
            if f.rules is not None:
                self.fixed.update([r for r in (f.name, f.rules.pullback, f.rules.pushforward) if r is not None])
        for name in self.fixed & program.functions.keys():
            self._see(_signature(program.functions[name]))

    def _see(self, atoms: Iterable[anf.Atom]) -> None:
        self.seen.update(self._held(_dtypes(atoms)))

    def _held(self, dtypes: Iterable[str]) -> Set[str]:
        """The datatypes among some types, and those of the nodes in their nodes."""
        held: set[str] = set()
        for name in self.datatypes.keys() & set(dtypes):
            if name not in self.inside:
                self.inside[name] = frozenset(reached([name], self._fields))
            held |= self.inside[name]
        return held

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
                    self._uses(variant).made.setdefault(home, []).append((scope, next(self.numbers), op))
                case anf.Fields(variant):
                    self._uses(variant).opened.setdefault(home, []).append((scope, next(self.numbers)))
                case anf.Call(name):
                    self.calls.setdefault(name, {}).setdefault(home, []).append((scope, next(self.numbers)))
                case anf.Effect() | anf.Foreign() | anf.Format():
                    self._see(chain(parts(op).atoms, let.vars))
                case _ if blocks := op_blocks(op):
                    inside = _Scope.inside(scope)
                    self._bind(parts(op).binds, inside)
                    for inner in blocks:
                        self._block(inner, _Scope.inside(inside, inner), home)
                case _ if (applied := named_function(op)) is not None:
                    self.fixed.add(applied)
                case _:
                    pass
            self._bind(let.vars, scope)

    def _uses(self, variant: anf.Variant) -> _Uses:
        return self.of.setdefault((variant.datatype, variant.tag), _Uses())

    # ---- which fields they have in common
    def without_common(self, key: Key, uses: _Uses) -> _Left | None:
        """Finds the rest of a variant whose nodes have fields in common; None if they have none."""
        name, tag = key
        if name in self.seen or len(uses.made) != 1 or not uses.opened:
            return None
        ((home, made),) = uses.made.items()
        openers = self._openers(uses, home)
        if not self.fixed.isdisjoint(openers) or name in self._held(_dtypes(_signature(self.functions[home]))):
            return None
        opened = [*uses.opened.get(home, ()), *[at for f in openers for at in self.calls.get(f, {}).get(home, ())]]
        block = _around([*[scope for scope, _, _ in made], *[scope for scope, _ in opened]])
        while block is not None and block.around is not None and self._leaves(name, block):
            block = block.around
        if block is None or not opened:
            return None
        first = min(number for _, number in opened)
        args = [op.args for _, _, op in made]
        common = {
            k: a
            for k, a in enumerate(args[0])
            if all(same(other[k], a) for other in args) and self._reaches(a, block, first)
        }
        variant = self.datatypes[name].variants[tag]
        kept = _kept(variant, common.__contains__)
        others = [p.type for k, p in enumerate(variant.fields) if k not in kept]
        if not others or (openers and not any(isinstance(t, anf.Array) for t in others)):
            return None
        left = replace(variant, fields=tuple([variant.fields[k] for k in kept]))
        return _Left(left, kept, {k: a for k, a in common.items() if k not in kept}, home, openers)

    def _openers(self, uses: _Uses, home: str) -> Set[str]:
        """The functions that open nodes, and those that call these, but for the one that makes them."""
        found = reached(
            [f for f in uses.opened if f != home], lambda name: [f for f in self.calls.get(name, ()) if f != home]
        )
        return set(found)

    def _leaves(self, name: str, scope: _Scope) -> bool:
        """Tells whether a node of a datatype may leave a scope. What an operation binds is not one that it could be."""
        if scope.block is None:
            return True
        return name in self._held(_dtypes(scope.block.results))

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


def _signature(f: anf.Function) -> tuple[anf.Var, ...]:
    return (*f.params, *f.results)


def _dtypes(atoms: Iterable[anf.Atom]) -> list[str]:
    return [a.type.dtype for a in atoms if not isinstance(a.type, anf.Token)]


class _Without(Rewriter):
    """The walk of a function. found: the rest of variants. values: of their other fields here. more: which of these
    functions take."""

    def __init__(
        self,
        found: Mapping[Key, _Left],
        values: Mapping[tuple[Key, int], anf.Atom],
        more: Mapping[str, Sequence[tuple[Key, int]]],
    ) -> None:
        super().__init__()
        self.found = found
        self.values = values
        self.more = more

    def rule(self, let: anf.Let) -> None:
        match let.op:
            case anf.Construct(variant, args) if (left := self.found.get((variant.datatype, variant.tag))) is not None:
                self.keep(let, anf.Construct(left.variant, tuple([self.atom(args[k]) for k in left.kept])))
            case anf.Fields(variant, node) if (left := self.found.get((variant.datatype, variant.tag))) is not None:
                for k in left.common:
                    self.env[let.vars[k]] = self.atom(self.values[(variant.datatype, variant.tag), k])
                if left.kept:
                    self.keep(let, anf.Fields(left.variant, self.atom(node)), [let.vars[k] for k in left.kept])
            case anf.Call(name, args) if name in self.more:
                added = [self.values[place] for place in self.more[name]]
                self.keep(let, anf.Call(name, tuple(map(self.atom, (*args, *added)))))
            case _:
                self.write(self.let(let))
