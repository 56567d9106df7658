"""Common subexpressions: an operation whose equal stands in a block around or before it is that one.

Arrays are values, so reads, comprehensions, loops and calls are numbered like sums of scalars. Of equal checks the
first stays. Results that a comprehension or branch gives twice become one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.comprehension_queries import arms_giving, giving
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_functions, mentioned, op_blocks, with_body, with_op
from dlang.optimize.structural_hash import Key, Keys


def cse(program: anf.Program) -> anf.Program:
    """The program in which nothing is computed again that is already known."""
    return map_functions(program, _function)


def _function(function: anf.Function) -> anf.Function:
    return with_body(function, _Values().block(function.body))


@dataclass(slots=True)
class _Nest:
    """An operation with blocks. Its key takes a walk, so it is made when there is another of the same outline.

    certified: numbers that checks give, and what they are.
    """

    op: anf.Op
    vars: tuple[anf.Var, ...]
    certified: Mapping[anf.Var, anf.Atom]
    made: Key | None = None

    @property
    def key(self) -> Key:
        if self.made is None:
            self.made = _key(_plain(self.op, self.certified), self.vars)
        return self.made


@dataclass(slots=True)
class _Alike:
    """Operations with blocks of one outline, the innermost known last. keyed: what the first of them bind, by keys."""

    nests: list[_Nest] = field(default_factory=list)
    keyed: dict[Key, tuple[anf.Var, ...]] = field(default_factory=dict)

    def find(self, new: _Nest) -> tuple[anf.Var, ...] | None:
        """Returns the variables that an equal operation binds; records this one if there is none."""
        if self.nests:
            for nest in self.nests[len(self.keyed) :]:
                self.keyed[nest.key] = nest.vars
            equal = self.keyed.get(new.key)
            if equal is not None:
                return equal
        self.nests.append(new)
        return None

    def forget(self) -> None:
        """The last operation is no longer known."""
        nest = self.nests.pop()
        if nest.made is not None:
            self.keyed.pop(nest.made, None)


class _Values(Rewriter):
    """The values known at a point of the walk. nests: those of operations with blocks, by their outlines.

    added, nested: what became known in the block under way. certified: the numbers that checks give, and what they are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[Key, tuple[anf.Var, ...]] = {}
        self.nests: dict[Key, _Alike] = {}
        self.added: list[Key] = []
        self.nested: list[Key] = []
        self.certified: dict[anf.Var, anf.Atom] = {}

    def block(self, block: anf.Block) -> anf.Block:
        outer = self.added, self.nested
        self.added, self.nested = [], []
        new = super().block(block)
        for key in self.added:
            del self.known[key]
        for key in self.nested:
            self.nests[key].forget()
        self.added, self.nested = outer
        return new

    def rule(self, let: anf.Let) -> None:
        op, vars = self.op(let.op), let.vars
        if op.IS.fresh:
            self.keep(let, op)
            return
        if isinstance(op, anf.Comp | anf.If):
            op, vars = self.once(op, vars)
        vars = tuple([self.bind(v) for v in vars])
        if op_blocks(op):
            equal = self.nest(_Nest(op, vars, self.certified))
        else:
            key = _key(_plain(op, self.certified), vars)
            equal = self.known.get(key)
            if equal is None:
                self.known[key] = vars
                self.added.append(key)
        if equal is None:
            self.write(with_op(let, vars, op))
            if isinstance(op, anf.Assert):
                for var, x in zip(vars, op.guarded, strict=True):
                    if isinstance(var.type, anf.Scalar):
                        self.certified[var] = self.certified.get(x, x) if isinstance(x, anf.Var) else x
        else:
            self.env.update(zip(vars, equal, strict=True))
        self.resolve(let.vars)

    def nest(self, new: _Nest) -> tuple[anf.Var, ...] | None:
        """Returns the variables that an equal operation with blocks binds; records this one if there is none."""
        outline = _outline(new)
        equal = self.nests.setdefault(outline, _Alike()).find(new)
        if equal is None:
            self.nested.append(outline)
        return equal

    def resolve(self, vars: tuple[anf.Var, ...]) -> None:
        """Replacements are never themselves replaced: follows each to its end."""
        env = self.env
        for var in vars:
            new = env.get(var)
            while isinstance(new, anf.Var) and new in env:
                env[var] = new = env[new]

    def once(self, op: anf.Comp | anf.If, vars: tuple[anf.Var, ...]) -> tuple[anf.Op, tuple[anf.Var, ...]]:
        """The operation without results that it gives twice."""
        if len(vars) < 2:
            return op, vars
        keys = Keys()
        first: dict[Key, anf.Var] = {}
        keep = []
        for k, var in enumerate(vars):
            key: Key
            if isinstance(op, anf.Comp):
                d = op.destinations[k]
                into = None if d.into is None else keys.atom(d.into)
                what = getattr(d, "monoid", None)
                key = keys.atom(op.body.results[k]), what, keys.sizes(d.shape), keys.sizes(d.index), into
            else:
                type = self.type(var.type)
                key = keys.atom(op.then.results[k]), keys.atom(op.otherwise.results[k]), keys.type(type)
            if key in first:
                self.env[var] = first[key]
            else:
                first[key] = var
                keep.append(k)
        if len(keep) == len(vars):
            return op, vars
        new = giving(op, keep) if isinstance(op, anf.Comp) else arms_giving(op, keep)
        return new, tuple([vars[k] for k in keep])


def _key(op: anf.Op, vars: tuple[anf.Var, ...]) -> Key:
    keys = Keys()
    return keys.op(op), _types(keys, vars)


def _plain(op: anf.Op, certified: Mapping[anf.Var, anf.Atom]) -> anf.Op:
    """The operation with the numbers in the place of those that checks give for them."""
    return op if not certified or certified.keys().isdisjoint(mentioned(op)) else Renaming(certified).op(op)


def _outline(nest: _Nest) -> Key:
    """Returns a key that equal operations have in common, found without looking into the blocks of their blocks."""
    op = nest.op
    code = tuple([tuple([_outlined(let.op) for let in b.lets]) for b in op_blocks(op)])
    if not isinstance(op, anf.Comp):
        return type(op), len(nest.vars), code
    first = op.body.lets[0].op if op.body.lets else None  # a comprehension binds no arrays before it
    array = first.array if isinstance(first, anf.Read) else None
    extent = None
    if op.axes:
        numbers = {v: anf.poly(nest.certified[v]) for v in _mentioned_by(op.axes[0]) if v in nest.certified}
        extent = tuple(
            [frozenset([s.substitute(numbers.get) for s in ends]) for ends in (op.axes[0].lows, op.axes[0].highs)]
        )
    return anf.Comp, len(nest.vars), code, array, len(op.axes), extent


def _mentioned_by(axis: anf.Axis) -> list[anf.Var]:
    return [v for size in (*axis.lows, *axis.highs) for v in size.atoms()]


def _outlined(op: anf.Op) -> str:
    return op.name if isinstance(op, anf.Prim) else type(op).__name__


def _types(keys: Keys, vars: tuple[anf.Var, ...]) -> Key:
    """The types of what is bound: a check or branch may say more of its value than another that is equal."""
    types = []
    for var in vars:
        types.append(keys.type(var.type) if isinstance(var.type, anf.Array) else var.type)
        keys.bind(var)
    return tuple(types)
