"""Proves what `Idx<n>` asks for, on the core tree of a checked function.

For inference `Idx<n>` is i64. Afterwards this walks the tree with what is known where: binders, earlier `as Idx`,
parameters of type `Idx`, conditions. A value for a place that asks for 0 <= i < n is proven by a type-like walk (a
value with a refinement that is as strong), or by an inequality between polynomials. What is neither is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dlang.diagnostics import Diagnostic, Note, Span
from dlang.identity import ByIdentity
from dlang.inequalities import Facts
from dlang.ops.functions import POSITIONS, REARRANGES
from dlang.polynomials import Poly
from dlang.typecheck import core, refinements, types as ty
from dlang.typecheck.context import Checker
from dlang.typecheck.printing import Names
from dlang.typecheck.refinements import (
    data_pairs,
    field_type,
    of_elements,
    of_field,
    of_items,
    of_part,
    substituted,
    written,
)
from dlang.typecheck.state import Term
from dlang.typecheck.terms import I64, of_var, size_variables
from dlang.typecheck.trees import Tree, checked, children, index_children, operands, place_children
from dlang.typecheck.unify import product, where_from

# ---- facts -----------------------------------------------------------------------------------------------------------
# Facts about integers where a piece of code runs: sizes, indices of binders, conditions that were tested.

SizePoly = Poly[ty.SizeAtom]
ZERO: SizePoly = Poly({})


@dataclass(slots=True)
class Knowledge:
    """The facts that hold where a piece of code runs.

    facts: inequalities between sizes and immutable integers. tested: pairs of values of which the first is at most the
    second, as they were computed. below, above: of a value, the others of the pairs in which it is second, first.
    """

    cx: Checker
    facts: Facts[ty.SizeAtom] = field(default_factory=Facts)
    tested: list[tuple[SizePoly, SizePoly]] = field(default_factory=list)
    below: dict[SizePoly, list[SizePoly]] = field(default_factory=dict)
    above: dict[SizePoly, list[SizePoly]] = field(default_factory=dict)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forgets at the end of the block the facts learned in it."""
        mark, count = self.facts.mark(), len(self.tested)
        yield
        self.facts.undo(mark)
        while len(self.tested) > count:
            p, q = self.tested.pop()
            self.above[p].pop()
            self.below[q].pop()

    # ---- integers as polynomials -------------------------------------------------------------------------------------
    def symbol(self, e: core.Expr) -> ty.Size | None:
        """An integer as a polynomial of sizes and immutable names."""
        t = ty.resolve(e.type)
        if not isinstance(t, ty.TypeCon) or t.name != "i64":
            return None
        size = self.cx.symbol(e)
        return None if size is None else ty.resolve_size(size)

    def polynomial(self, size: ty.Size) -> SizePoly:
        """A size whose variables the facts know."""
        size = ty.resolve_size(size)
        for v in size_variables(size):
            if v.rigid and not (v in self.cx.indices or v in self.cx.births):
                self.facts.size(v)
        for a in size.poly.atoms():
            if isinstance(a, ty.Floor) and not self.is_size(a):
                divisor = self.polynomial(a.divisor)
                if divisor.constant is None or divisor.constant > 0:
                    dividend = self.polynomial(a.dividend)
                    self.facts.floors[a] = (dividend, divisor)
                    if self.small(dividend) and self.facts.proves_nonnegative(dividend):
                        self.facts.size(a)
        return size.poly

    # ---- learning ----------------------------------------------------------------------------------------------------
    def count(self, local: core.Local, size: ty.Size) -> None:
        """0 <= local < size."""
        v = self.cx.symbols[local].poly.atom
        if v is not None:
            self.facts.narrow(v, (ZERO,), (self.polynomial(size),))

    def range(self, local: core.Local, low: core.Expr, high: core.Expr, step: core.Expr | None) -> None:
        v = self.cx.symbols[local].poly.atom
        by = self.symbol(step) if step is not None else None
        stride = by.poly.constant if by is not None else 1 if step is None else None
        if v is None or not stride:
            return
        first, last = self.symbol(low), self.symbol(high)
        lows, highs = self.ends(first), self.ends(last)
        if stride > 0:
            self.facts.narrow(v, lows, highs)
        else:  # from low down to what is greater than high
            self.facts.narrow(v, tuple([h + 1 for h in highs]), tuple([x + 1 for x in lows]))

    def ends(self, size: ty.Size | None) -> tuple[SizePoly, ...]:
        """The end of a range, if it is known and so small that nothing between two such wraps."""
        p = None if size is None else self.polynomial(size)
        return (p,) if p is not None and self.small(p) else ()

    def assume(self, condition: core.Expr, truth: bool) -> None:
        """A condition holds from here on, or does not."""
        match condition:
            case core.Logic(operator=operator, left=left, right=right):
                if (operator == "and") == truth:
                    self.assume(left, truth)
                    self.assume(right, truth)
            case core.Not(operand=operand):
                self.assume(operand, not truth)
            case core.Arith(operator=operator, left=left, right=right):
                a, b = self.symbol(left), self.symbol(right)
                if a is None or b is None:
                    return
                p, q = self.polynomial(a), self.polynomial(b)
                match operator, truth:
                    case ("<", True) | (">=", False):
                        self.at_most(p, q - 1)
                    case ("<=", True) | (">", False):
                        self.at_most(p, q)
                    case (">", True) | ("<=", False):
                        self.at_most(q, p - 1)
                    case (">=", True) | ("<", False):
                        self.at_most(q, p)
                    case ("==", True) | ("!=", False):
                        self.at_most(p, q)
                        self.at_most(q, p)
                    case _:
                        return
            case _:
                return

    def at_most(self, p: SizePoly, q: SizePoly) -> None:
        """p <= q holds. An integer that may be anything is bounded only as it stands, because arithmetic with it may
        have wrapped."""
        p, q = self.polynomial(ty.Size(p)), self.polynomial(ty.Size(q))
        self.tested.append((p, q))
        self.above.setdefault(p, []).append(q)
        self.below.setdefault(q, []).append(p)
        gap = q - p
        if self.small(gap):
            self.nonnegative(gap)
        elif p.atom is not None and self.small(q):
            self.facts.narrow(p.atom, (), (q + 1,))
        elif q.atom is not None and self.small(p):
            self.facts.narrow(q.atom, (p,), ())

    def nonnegative(self, gap: SizePoly) -> None:
        """gap >= 0, where nothing has wrapped: a bound of the variable that was made last."""
        linear = [v for v in gap.atoms() if all(v not in m or m == (v,) for m in gap.terms)]
        linear = [v for v in linear if gap.terms[(v,)] in (1, -1)]
        if not linear:
            return
        v = max(linear, key=lambda v: (not self.is_size(v), v.serial))
        other_terms, up = gap.without(v), gap.terms[(v,)] == 1
        if (
            self.is_size(v) and up and other_terms.constant is not None
        ):  # n >= 3: there is something with 0 <= … <= n - 3
            self.facts.between(ty.SizeVar(0), (ZERO,), (gap + 1,))
        else:
            least = (ZERO,) if self.is_size(v) else ()
            self.facts.narrow(v, (*least, -other_terms) if up else least, () if up else (other_terms + 1,))

    def is_size(self, v: ty.SizeAtom) -> bool:
        return v in self.facts.sizes

    def small(self, p: SizePoly) -> bool:
        """Tells whether arithmetic with these numbers doesn't wrap: sizes, and what lies between two such numbers."""
        return all(self.is_size(v) or self.enclosed(v) for v in p.atoms())

    def enclosed(self, v: ty.SizeAtom) -> bool:
        lows, highs = self.facts.bounds.get(v, ((), ()))
        named = v in self.cx.births or v in self.cx.indices
        return bool(lows and highs) or (isinstance(v, ty.SizeVar) and not named)

    # ---- proofs ------------------------------------------------------------------------------------------------------
    def at_least(self, p: SizePoly, least: SizePoly) -> bool:
        difference = self.polynomial(ty.Size(ty.resolve_size(ty.Size(p)).poly - ty.resolve_size(ty.Size(least)).poly))
        return self.small(difference) and self.facts.proves_nonnegative(difference)

    def within(self, index: ty.Size, size: ty.Size) -> bool:
        """Tells whether 0 <= index < size follows, or was tested."""
        p, last = self.polynomial(index), ty.resolve_size(size).poly - 1
        low = self.at_least(p, ZERO) or any(self.at_least(x, ZERO) for x in self.below.get(p, ()))
        return low and (self.at_least(last, p) or any(self.at_least(last, q) for q in self.above.get(p, ())))


# ---- proofs ----------------------------------------------------------------------------------------------------------


def prove_indices(cx: Checker, decl: core.FnDecl, *, trusted: bool = False) -> None:
    """Reports what a function that has been checked does not prove. trusted: its parameters are indices already.

    What only a condition proves becomes an `as Idx` in its tree: so reads depend on a check as data do, and code may
    move in front of the condition.
    """
    if decl.body is not None:
        prover = Prover(cx, Knowledge(cx), Knowledge(cx), trusted)
        prover.function(decl)
        if prover.tested:
            checks = ByIdentity((e, core.As(e.type, e.span, e, size)) for e, size in prover.tested.items())
            decl.body = checked(decl.body, checks)
            decl.params = checked(decl.params, checks)


@dataclass(slots=True)
class Prover:
    """facts: all that is known; sure: what is known whatever conditions were tested. known: the refinements of locals
    in scope; promised: of what `return` gives, a value of the type `result`; free: the parameters of a function that
    are trusted. tested: values that are indices because of a condition, and below what."""

    cx: Checker
    facts: Knowledge
    sure: Knowledge
    trusted: bool = False
    known: dict[core.Local, ty.Refinement] = field(default_factory=dict)
    promised: ty.Refinement | None = None
    result: ty.Type = ty.UNIT
    free: set[core.Local] = field(default_factory=set)
    tested: ByIdentity[core.Expr, ty.Size] = field(default_factory=ByIdentity)

    # ---- functions ---------------------------------------------------------------------------------------------------
    def function(self, decl: core.FnDecl) -> None:
        assert decl.body is not None
        outer = self.promised, self.result
        self.promised, self.result = decl.refinement, decl.result or ty.UNIT
        with self.scope():
            for p in decl.params:
                if p.default is not None:
                    self.visit(p.default, p.local.refinement)
                self.learn(p.local, p.local.refinement)
                if self.trusted:
                    self.free.add(p.local)
            self.visit(decl.body, decl.refinement)
        self.promised, self.result = outer

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forgets at the end of the block the facts learned in it."""
        with self.facts.scope(), self.sure.scope():
            yield

    # ---- expressions -------------------------------------------------------------------------------------------------
    def visit(self, e: core.Expr, want: ty.Refinement | None = None) -> ty.Refinement | None:
        """Walks an expression; its value must be as `want` says. Gives what is known of the value."""
        if want is not None and want is self.promised and not isinstance(e, core.BlockExpr | core.If | core.Match):
            want = substituted(want, refinements.opened_here(self.result, e.type))  # each branch has sizes of its own
        match e:
            case core.BlockExpr(statements=statements, result=result):
                with self.scope():
                    for s in statements:
                        self.statement(s)
                    return self.visit(result, want)
            case core.If(condition=condition, then=then, otherwise=otherwise):
                self.visit(condition)
                with self.scope():
                    self.facts.assume(condition, True)
                    a = self.visit(then, want)
                with self.scope():
                    self.facts.assume(condition, False)
                    b = self.visit(otherwise, want)
                return self.either(then, a, otherwise, b)
            case core.Match(value=value, arms=arms):
                return self.match(value, arms, want)
            case core.Logic(operator=operator):
                first, *others = operands(e)
                self.visit(first)
                with self.scope():
                    for before, operand in zip((first, *others), others, strict=False):
                        self.facts.assume(before, operator == "and")
                        self.visit(operand)
                return None
            case core.Fail(message=message):
                self.visit(message)
                return want
            case core.Comprehension(element=element, binders=binders, condition=condition):
                with self.scope():
                    self.binders(binders)
                    if condition is not None:
                        self.visit(condition)
                        self.facts.assume(condition, True)
                    refinement = self.visit(element, of_part(want, element.type))
                return self.required(e, want, of_elements(refinement), asked=True)
            case core.ArrayExpr(items=items):
                found_ = [self.visit(i, of_part(want, i.type)) for i in items]
                same = found_[0] if found_ and all(f == found_[0] for f in found_) else None
                return self.required(e, want, of_elements(same), asked=True)
            case core.TupleExpr(items=items):
                parts = want.items if isinstance(want, ty.Items) else (None,) * len(items)
                return of_items([self.visit(i, w) for i, w in zip(items, parts, strict=True)])
            case core.Lambda(body=core.Call(function=core.FnRef(decl=decl)) as inner) if inner.span == e.span:
                self.as_value(decl, e.span)  # nobody wrote this lambda
                return None
            case core.Lambda(body=core.Construct(variant=variant) as inner) if inner.span == e.span:
                if any(r is not None for r in variant.refinements):
                    self.cx.report(constructor_as_value(variant, e.span))
                return None
            case core.Lambda(body=body):
                outer, self.promised = self.promised, None
                with self.scope():
                    self.visit(body)
                self.promised = outer
                return None
            case _:
                return self.required(e, want, self.plain(e))

    def plain(self, e: core.Expr) -> ty.Refinement | None:
        """An expression that is what it is whatever is asked of it."""
        match e:
            case core.Ref(local=local):
                return self.known.get(local)
            case core.Call(function=function, args=args):
                return self.call(e, function, args)
            case core.FnRef(decl=decl):
                self.as_value(decl, e.span)
                return None
            case core.Construct(decl=decl, variant=variant, fields=values):
                t = ty.resolve(e.type)
                for i, v in enumerate(values):
                    asked = of_field(t, i, None, decl.variants.index(variant))
                    self.visit(v, asked)
                return None
            case core.Project(value=value, position=position, name=name):
                r = self.visit(value)
                t = ty.resolve(value.type)
                if position < 0 and isinstance(t, ty.TypeData):
                    position = next((i for i, (n, _) in enumerate(t.decl.variants[0].fields) if n == name), -1)
                return of_field(t, position, r)
            case core.Index(base=base, indices=indices):
                r = self.visit(base)
                self.all(index_children(indices))
                return of_part(r, e.type)
            case core.As(value=value, below=below):
                refinement = self.visit(value)
                if below is not None:
                    return ty.Below(below)
                self.retyped(e)
                return refinement
            case core.Arith(operator="%", left=left, right=right):
                self.visit(left)
                self.visit(right)
                divisor = self.facts.symbol(right)
                return ty.Below(divisor) if divisor is not None and self.sure.at_least(divisor.poly, ZERO) else None
            case core.Builtin(name=name, args=args):
                return self.builtin(e, name, [self.visit(a) for a in args])
            case _:
                self.all(children(e))
                return None

    def all(self, trees: Iterable[Tree]) -> None:
        """Visits expressions of which nothing is asked."""
        for tree in trees:
            if isinstance(tree, core.Node):
                self.visit(tree)

    def call(self, e: core.Expr, function: core.Expr, args: tuple[core.Expr | None, ...]) -> ty.Refinement | None:
        assert isinstance(e, core.Call)
        base = function
        while isinstance(base, core.Derivative):
            base = base.function
        if not isinstance(base, core.FnRef):
            self.visit(function)
            for a in args:
                if a is not None:
                    self.visit(a)
            return None
        decl = base.decl
        instance: dict[ty.Var, Term] = dict(base.instance)
        for i, a in enumerate(args):
            if a is None:
                continue
            p = decl.params[i].local if i < len(decl.params) else None
            asked = substituted(p.refinement, instance) if p is not None else None
            if asked is None:
                self.visit(a)
            elif not (isinstance(a, core.Ref) and a.local in self.free):
                assert p is not None
                why = Note(f"`{p.name}` of `{decl.name}` is declared here", p.span) if p.span is not None else None
                self.visit_for(a, asked, why)
        if base is not function:
            return None
        instance.update({v: of_var(w) for v, w in zip(decl.opened, e.opened, strict=False)})
        return substituted(decl.refinement, instance)

    def as_value(self, decl: core.FnDecl, span: Span) -> None:
        """A function as a value: who calls it does not know what it asks for."""
        asking = [p.local for p in decl.params if p.local.refinement is not None]
        if asking and decl.kind != "const":
            self.cx.report(as_value(decl, asking[0], span))

    def match(self, value: core.Expr, arms: tuple[core.Arm, ...], want: ty.Refinement | None) -> ty.Refinement | None:
        r = self.visit(value)
        refinement: ty.Refinement | None = None
        for k, arm in enumerate(arms):
            with self.scope():
                self.bind(arm.pattern, r, value.type)
                if arm.guard is not None:
                    self.visit(arm.guard)
                    self.facts.assume(arm.guard, True)
                one = self.visit(arm.body, want)
            refinement = one if k == 0 or (refinement is not None and refinement == one) else None
        return refinement

    def either(
        self, a: core.Expr, ra: ty.Refinement | None, b: core.Expr, rb: ty.Refinement | None
    ) -> ty.Refinement | None:
        """Returns the refinement of a value that is one of two."""
        if isinstance(a, core.Fail):
            return rb
        return ra if isinstance(b, core.Fail) or ra == rb else None

    def builtin(self, e: core.Expr, name: str, refinements: list[ty.Refinement | None]) -> ty.Refinement | None:
        assert isinstance(e, core.Builtin)
        match name:
            case "zip":
                return of_elements(of_items([of_part(r, ty.TypeCon("i64")) for r in refinements]))
            case _ if name in POSITIONS:
                axes = ty.resolve(e.args[0].type)
                over = e.static.get("axes", ())
                if isinstance(axes, ty.TypeArray) and axes.shape.row is None and isinstance(over, tuple):
                    size = product(tuple([axes.shape.pre[int(k)] for k in over]) or axes.shape.pre)
                    return (
                        ty.Elements(ty.Below(size)) if isinstance(ty.resolve(e.type), ty.TypeArray) else ty.Below(size)
                    )
                return None
            case _ if name in REARRANGES and refinements:
                r = refinements[0]
                return of_elements(r) if r is not None and all(x == r for x in refinements) else None
            case _:
                return None

    # ---- statements --------------------------------------------------------------------------------------------------
    def statement(self, s: core.Statement) -> None:
        match s:
            case core.Let(pattern=pattern, value=value, refinement=asked):
                refinement = self.visit(value, asked)
                self.bind(pattern, asked or refinement, value.type)
            case core.Declare(pattern=pattern, value=value, refinement=asked):
                self.visit(value, asked)
                self.bind(pattern, asked, value.type)
            case core.LocalFn(decl=decl):
                if decl.body is not None:
                    self.function(decl)
            case core.Assign(place=place, operator=operator, value=value):
                asked = self.of_place(place)
                self.all(place_children(place))
                if operator is None:
                    self.visit(value, asked)
                else:
                    self.visit(value)
                    if asked is not None:
                        self.cx.report(unproven_update(s, asked))
            case core.AssignTuple(places=places, value=value):
                for place in places:
                    self.all(place_children(place))
                self.visit(value, of_items([self.of_place(p) for p in places]))
            case core.For(binders=binders, body=body):
                with self.scope():
                    self.binders(binders)
                    self.visit(body)
            case core.While(condition=condition, body=body):
                self.visit(condition)
                with self.scope():
                    self.facts.assume(condition, True)
                    self.visit(body)
            case core.Return(value=value):
                self.visit(value, self.promised)
            case core.Assert(condition=condition):
                self.all(children(s))
                self.facts.assume(condition, True)
            case core.Discard(value=value):
                self.visit(value)
                if isinstance(value, core.If):
                    for branch, truth in ((value.then, False), (value.otherwise, True)):
                        if leaves(branch):
                            self.facts.assume(value.condition, truth)
            case core.Break() | core.Continue():
                return

    def of_place(self, place: core.Place) -> ty.Refinement | None:
        """Returns the refinement that a part of a `var` requires of its values."""
        r, t = self.known.get(place.local), ty.resolve(place.local.type)
        for step in place.steps:
            if isinstance(step, core.FieldStep):
                r, t = of_field(t, step.position, r), field_type(t, step.position)
            else:
                taken = sum(isinstance(i, core.At) and not isinstance(ty.resolve(i.value.type), ty.TypeArray)
                            for i in step.indices)  # fmt: skip
                whole = isinstance(t, ty.TypeArray) and len(t.shape.pre) == taken and t.shape.row is None
                if isinstance(t, ty.TypeArray) and whole:
                    r, t = of_part(r, t.element), ty.resolve(t.element)
        return r

    # ---- what is known -----------------------------------------------------------------------------------------------
    def learn(self, local: core.Local, r: ty.Refinement | None) -> None:
        """A local in scope has a refinement."""
        if r is None:
            self.known.pop(local, None)
            return
        self.known[local] = r
        if isinstance(r, ty.Below) and not local.mutable:
            symbol = self.cx.symbol_of_local(local)
            if symbol is not None:
                for k in (self.facts, self.sure):
                    k.at_most(ZERO, symbol.poly)
                    k.at_most(symbol.poly, ty.resolve_size(r.size).poly - 1)

    def bind(self, p: core.Pattern, r: ty.Refinement | None, t: ty.Type) -> None:
        match p:
            case core.Bind(local):
                self.learn(local, r)
            case core.TuplePattern(items):
                for i, item in enumerate(items):
                    self.bind(item, of_field(t, i, r), field_type(t, i))
            case core.VariantPattern(decl, variant, items):
                tag = decl.variants.index(variant)
                for i, item in enumerate(items):
                    self.bind(item, of_field(t, i, None, tag), field_type(t, i, tag))
            case core.Alternatives(items):
                if len(items) == 1:
                    self.bind(items[0], r, t)
            case _:
                return

    def binders(self, binders: tuple[core.Binder, ...]) -> None:
        for b in binders:
            match b:
                case core.Count(local=local, size=size, bound=bound):
                    if bound is not None:
                        self.visit(bound)
                    self.facts.count(local, size)
                    self.sure.count(local, size)
                    self.known[local] = ty.Below(size)
                case core.Each(pattern=pattern, array=array):
                    r = self.visit(array)
                    t = ty.resolve(array.type)
                    element: ty.Type = t
                    if isinstance(t, ty.TypeArray):
                        element = t.element if len(t.shape.pre) == 1 and t.shape.row is None else t
                    self.bind(pattern, of_part(r, element), element)
                case core.Range(pattern=pattern, low=low, high=high, step=step):
                    for part in (low, high, step):
                        if part is not None:
                            self.visit(part)
                    if isinstance(pattern, core.Bind):
                        self.facts.range(pattern.local, low, high, step)
                        self.sure.range(pattern.local, low, high, step)

    # ---- proofs ------------------------------------------------------------------------------------------------------
    def visit_for(self, e: core.Expr, want: ty.Refinement, why: Note | None) -> None:
        """Proves like `visit`, with a note on what is not proven."""
        before = len(self.cx.st.diagnostics)
        self.visit(e, want)
        if why is None:
            return
        for i in range(before, len(self.cx.st.diagnostics)):
            d = self.cx.st.diagnostics[i]
            if d.code == "E0419" and d.span is not None and why not in d.notes:
                self.cx.st.diagnostics[i] = Diagnostic(d.code, d.message, d.span, d.label, (*d.notes, why), d.help)

    def required(
        self, e: core.Expr, want: ty.Refinement | None, have: ty.Refinement | None, *, asked: bool = False
    ) -> ty.Refinement | None:
        """Checks that a value with the refinement `found` meets `want`, and reports it if not; asked: its parts have
        been checked already."""
        if want is None:
            return have
        if not asked and not self.meets(e, want, have):
            self.cx.report(unproven(e, want, have, self.facts.symbol(e)))
        return want

    def meets(self, e: core.Expr, want: ty.Refinement, have: ty.Refinement | None) -> bool:
        if isinstance(want, ty.Elements) and not isinstance(ty.resolve(e.type), ty.TypeArray):
            want = want.element
        if not isinstance(want, ty.Below):
            return self.implies(have, want)
        symbol = self.facts.symbol(e)
        for k in (self.sure, self.facts):
            proven = symbol is not None and k.within(symbol, want.size)
            if proven or (isinstance(have, ty.Below) and k.at_least(ty.resolve_size(want.size).poly, have.size.poly)):
                if k is self.facts:
                    self.tested[e] = want.size
                return True
        return False

    def implies(self, have: ty.Refinement | None, want: ty.Refinement | None) -> bool:
        match have, want:
            case _, None:
                return True
            case ty.Below(a), ty.Below(b):
                return self.sure.at_least(ty.resolve_size(b).poly, ty.resolve_size(a).poly)
            case ty.Elements(a), ty.Elements(b):
                return self.implies(a, b)
            case ty.Items(xs), ty.Items(ys):
                return len(xs) == len(ys) and all(map(self.implies, xs, ys))
            case _:
                return False

    def retyped(self, e: core.As) -> None:
        """`as` between structs compares the sizes of arrays. Where no array says the n of an `Idx<n>`, nothing does."""
        a, b = ty.resolve(e.value.type), ty.resolve(e.type)
        for x, y in data_pairs(a, b):
            hidden = refinements.unseen(x.decl)
            for p, s, t in zip(x.decl.params, x.args, y.args, strict=True):
                if p in hidden and isinstance(s, ty.Size) and isinstance(t, ty.Size):
                    if ty.resolve_size(s).poly != ty.resolve_size(t).poly:
                        self.cx.report(retyped(x, s, e.span))


def leaves(e: core.Expr) -> bool:
    """Tells whether an expression never gives a value, so that the code behind it is not reached."""
    if isinstance(e, core.BlockExpr):
        last = e.statements[-1] if e.statements else None
        return isinstance(last, core.Return | core.Break | core.Continue) or leaves(e.result)
    return isinstance(e, core.Fail)


# ---- messages --------------------------------------------------------------------------------------------------------
# Messages about values that are not proven to be the index that `Idx<n>` asks for.

UNPROVEN, NO_PLACE = "E0419", "E0420"


def unproven(e: core.Expr, want: ty.Refinement, have: ty.Refinement | None, symbol: ty.Size | None) -> Diagnostic:
    """symbol: the value as a polynomial, if it is one. have: what is known of it, which is not enough."""
    names = Names()
    text = written(e.type, want, names)
    source = e.span.text
    shown = f"`{source}`" if "\n" not in source and len(source) <= 40 and not source.startswith("..") else "this value"
    value = symbol.poly.constant if symbol is not None else None
    label = f"this is {written(e.type, have, names) if have is not None else value}"
    if have is None and value is None:
        label = f"this is {names(e.type)}"
    if not isinstance(want, ty.Below):
        message = f"{shown} is not proven to hold indices: expected {text}"
        help = "check each where it is made: `i as Idx<…>`"
        if isinstance(want, ty.Elements) and isinstance(want.element, ty.Below) and shown != "this value":
            help = f"check each when it runs: `[i as {written(I64, want.element, names)} for i in {source}]`"
        return Diagnostic(UNPROVEN, message, e.span, label, (), (help,))
    notes = tuple(where_from(want.size, names))
    bound = ty.resolve_size(want.size).poly.constant
    if value is not None and bound is not None:
        message = f"index {value} is out of range: expected {text}"
        advice = "indices count from 0" if bound else "there is none: if nothing says the size, annotate the value"
        return Diagnostic(UNPROVEN, message, e.span, label, notes, (advice,))
    message = f"{shown} is not proven to be an index: expected {text}, 0 <= i < {names(want.size)}"
    help = "write the field anew, as an index that is checked when it runs"
    if shown != "this value":
        help = f"to check it when it runs, write `{bracketed(e)} as {text}`"
    if "?" in text:  # which can't be written
        index = "… as Idx<k>" if shown == "this value" else f"{bracketed(e)} as Idx<k>"
        help = f"name the size by `let a: f64[k] = …` where the array is made; then `{index}` is checked when it runs"
    return Diagnostic(UNPROVEN, message, e.span, label, notes, (help,))


def unproven_update(s: core.Assign, want: ty.Refinement) -> Diagnostic:
    """The diagnostic of an update such as `i += 1`."""
    names = Names()
    place, text = s.place.span.text, written(s.place.type, want, names)
    message = f"`{place}` is not proven to stay an index: expected {text}"
    help = f"to check it when it runs, write `{place} = ({place} {s.operator} {s.value.span.text}) as {text}`"
    notes = tuple(where_from(want.size, names)) if isinstance(want, ty.Below) else ()
    return Diagnostic(UNPROVEN, message, s.span, f"nothing is known of what `{s.operator}` gives", notes, (help,))


def bracketed(e: core.Expr) -> str:
    """The text of an expression, to be followed by `as`."""
    compound = isinstance(e, core.Arith | core.Negate | core.If | core.Match | core.As)
    return f"({e.span.text})" if compound else e.span.text


def as_value(decl: core.FnDecl, asking: core.Local, span: Span) -> Diagnostic:
    """A function that asks for an index, used as a value."""
    text = written(asking.type, asking.refinement, Names())
    message = f"`{decl.name}` asks for `{asking.name}: {text}`, which a function value does not say"
    names = [p.local.name for p in decl.params]
    inner = ", ".join(f"{n} as {text}" if p.local is asking else n for n, p in zip(names, decl.params, strict=True))
    help = f"write a lambda around it, in which the index is checked: `|{', '.join(names)}| {decl.name}({inner})`"
    notes = (Note(f"`{decl.name}` is declared here", decl.span),)
    return Diagnostic(NO_PLACE, message, span, "", notes, (help,))


def constructor_as_value(variant: ty.Variant, span: Span) -> Diagnostic:
    names = [n or f"x{i}" for i, (n, _) in enumerate(variant.fields)]
    message = f"`{variant.name}` asks for an index, which a function value does not say"
    inner = ", ".join(n if r is None else f"{n} as Idx<…>" for n, r in zip(names, variant.refinements, strict=True))
    help = f"write a lambda around it, in which the index is checked: `|{', '.join(names)}| {variant.name}({inner})`"
    return Diagnostic(NO_PLACE, message, span, "", (), (help,))


def retyped(t: ty.TypeData, size: ty.Size, span: Span) -> Diagnostic:
    """`as` of a struct, where no array says the n of an `Idx<n>`."""
    names = Names()
    message = f"`as` cannot check the indices in {names(t)}: no array in it has the size {names(size)}"
    return Diagnostic(NO_PLACE, message, span, "", (), (f"make it anew: `{t.decl.name}(… as Idx<…>)`",))
