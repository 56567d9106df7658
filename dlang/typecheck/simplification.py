"""Simplifying the constraints of a scheme before it is generalised: what they determine twice is one thing.

Without this a function that calls another one twice would have the constraints of both calls, and a chain of such
functions has as many as a tree of calls. Two constraints of one kind with equal operands have equal results. And the
result of an operator is the least upper bound of its operands: a scalar is below all arrays and structures of its
numbers, an array below those that it can be broadcast to. So what is computed from the same operands has the same type,
in whatever order and however often they are used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field

from dlang.graphs import components
from dlang.ops.primitives import COMPARISONS
from dlang.polynomials import TooManyTerms
from dlang.typecheck import types as ty
from dlang.typecheck.constraints import known
from dlang.typecheck.state import Constraint, Inference, Mismatch, Term, Waiting
from dlang.typecheck.terms import variables
from dlang.typecheck.unify import unify_term

_ROUNDS = 8  # each makes equal what follows from what the one before made equal

_OPERANDS = {
    "arith": 2,
    "power": 2,
    "bcast": 2,
    "mm": 2,
    "append": 2,
    "stretch": 2,
    "reduce": 1,
    "reduce-keep": 1,
    "axis": 1,
    "product": 1,
    "rank": 1,
    "field": 1,
    "gather": 1,
}
"""How many terms of a constraint determine the others. Of those of other kinds no term is a result."""

_SYMMETRIC = frozenset({"+", "-", "*", *COMPARISONS})


@dataclass(slots=True)
class Bounds:
    """Least upper bounds: of each term the operands that it was made from, as bits; of each such set the first term."""

    sets: dict[Hashable, int] = field(default_factory=dict)
    terms: dict[tuple[str, int], Term] = field(default_factory=dict)
    operands: int = 0

    def of(self, t: Term) -> int:
        """The operands of which a term is the bound: itself alone, if nothing is known of it."""
        if not isinstance(t, ty.Size | ty.Shape) and known(t) and not isinstance(ty.resolve(t), ty.TypeArray):
            return 0  # a scalar makes no difference to what is above it
        k = key(t)
        if k not in self.sets:
            self.sets[k] = 1 << self.operands
            self.operands += 1
            self.terms["", self.sets[k]] = t
        return self.sets[k]


def simplify(st: Inference, waiting: Sequence[Waiting], shown: Container[ty.Var]) -> bool:
    """Makes equal what constraints determine twice, and forgets those that follow from others. Tells whether there may
    be more to solve now. shown: the variables of parameters and results."""
    changed = False
    for _ in range(_ROUNDS):
        left = [w for w in waiting if st.waits(w)]
        comparison = Comparison(st, own_numbers(st, left, shown))
        for w in in_turn(left):
            saved, st.reason, st.tried = (st.reason, st.tried), w.constraint.reason, w
            try:
                comparison.compare(w)
            except (Mismatch, TooManyTerms):
                pass  # nothing satisfies them all: said where they are tried
            finally:
                st.reason, st.tried = saved
        if not comparison.changed:
            break
        changed = True
    return changed


@dataclass(slots=True)
class Comparison:
    """Compares constraints one after another, by the results of those so far.

    own: dtypes of numbers of which one constraint speaks, and nothing else. Two that are asked the same may be one.
    """

    st: Inference
    own: Container[ty.Type]
    bounds: Bounds = field(default_factory=Bounds)
    seen: dict[Hashable, tuple[dict[Hashable, Term], Sequence[Term]]] = field(default_factory=dict)
    changed: bool = False

    def compare(self, w: Waiting) -> None:
        """Compares a constraint with those before it."""
        c = w.constraint
        operands, found = parts(c)
        by_key = {self.key_of(t): t for t in operands}
        symmetric = c.kind == "bcast" or (c.kind == "arith" and c.data in _SYMMETRIC)
        name = (c.kind, c.data, frozenset(by_key) if symmetric else tuple(map(self.key_of, operands)))
        if name in self.seen:
            before, results = self.seen[name]
            self.st.discharge(w)
            for k, t in by_key.items():
                self.make_equal(t, before[k])
            for a, b in zip(found, results, strict=True):
                self.make_equal(a, b)
            return
        self.seen[name] = by_key, found
        if c.kind in ("arith", "bcast"):
            self.bound(w, operands, found[0])

    def bound(self, w: Waiting, operands: Sequence[Term], result: Term) -> None:
        """Makes the result of an operator the one that others have that are made from the same."""
        c = w.constraint
        below = self.bounds.of(operands[0]) | self.bounds.of(operands[1])
        kind = "truth" if c.kind == "arith" and c.data in COMPARISONS else ""
        first = self.bounds.terms.setdefault((kind, below), result)
        if first is not result:
            if c.kind == "bcast":
                self.st.discharge(w)  # the constraints by which the bound was found say as much
            self.make_equal(result, first)
        elif not kind:
            self.bounds.sets.setdefault(key(result), below)

    def key_of(self, t: Term) -> Hashable:
        """The same for terms that are equal, or that may be made equal."""
        if isinstance(t, ty.TypeVar) and (r := ty.resolve(t)) in self.own:
            assert isinstance(r, ty.TypeVar)
            return ("number", r.classes, r.literal)
        return key(t)

    def make_equal(self, a: Term, b: Term) -> None:
        if key(a) != key(b):
            self.changed = True
            unify_term(self.st, a, b)


def own_numbers(st: Inference, waiting: Sequence[Waiting], shown: Container[ty.Var]) -> set[ty.Type]:
    """The variables of the dtypes of numbers that one of these constraints mentions, and nothing around it."""
    count = Counter(v for w in waiting for v in variables(*w.constraint.terms()))
    return {
        v
        for v, times in count.items()
        if times == 1
        and isinstance(v, ty.TypeVar)
        and known(v)
        and not v.rigid
        and v.level > st.level
        and v not in shown
    }


def parts(c: Constraint) -> tuple[Sequence[Term], Sequence[Term]]:
    """The terms that determine the others, and the others."""
    if c.kind == "axis":
        return c.shapes[:1], (*c.shapes[1:], *c.sizes)
    terms = c.terms()
    if c.kind == "product":
        return c.shapes, c.sizes
    if c.kind == "rank":
        return c.shapes, c.types
    n = _OPERANDS.get(c.kind, len(terms))
    return terms[:n], terms[n:]


def in_turn(waiting: Sequence[Waiting]) -> list[Waiting]:
    """Constraints, each after those that determine its operands, as far as that is possible."""
    divided = {w: parts(w.constraint) for w in waiting}
    makers: dict[ty.Var, Waiting] = {}
    for w, (_, found) in divided.items():
        for v in variables(*found):
            makers.setdefault(v, w)
    graph = {
        w: [makers[v] for v in variables(*operands) if v in makers and makers[v] is not w]
        for w, (operands, _) in divided.items()
    }
    return [w for component in components(graph) for w in component]


def key(t: Term) -> Hashable:
    """The same for equal terms."""
    if isinstance(t, ty.Size):
        return ty.resolve_size(t).poly
    if isinstance(t, ty.Shape):
        s = ty.resolve_shape(t)
        return (*map(key, s.pre), s.row, *map(key, s.post))
    t = ty.resolve(t)
    match t:
        case ty.TypeVar() | ty.TypeCon():
            return t
        case ty.TypeArray(element, shape):
            return ("array", key(element), key(shape))
        case ty.TypeTuple(items):
            return ("tuple", *map(key, items))
        case ty.TypeFn():
            return id(t)  # with effects that may be others
        case ty.TypeData(decl, args):
            return (decl, *map(key, args))
