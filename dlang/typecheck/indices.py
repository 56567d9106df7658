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
from dlang.ops.functions import POSITIONS, REARRANGES
from dlang.typecheck import core, index_messages as messages, refinements
from dlang.typecheck.context import Checker
from dlang.typecheck.finish import checked
from dlang.typecheck.knowledge import ZERO, Knowledge
from dlang.typecheck.refinements import (
    data_pairs,
    field_type,
    of_elements,
    of_field,
    of_items,
    of_part,
    substituted,
)
from dlang.typecheck.sizes import product
from dlang.typecheck.state import Term
from dlang.typecheck.terms import of_var
from dlang.typecheck.trees import Tree, children, index_children, operands, place_children
from dlang.typecheck.types import (
    UNIT,
    Below,
    Elements,
    Items,
    Refinement,
    Size,
    Type,
    TypeArray,
    TypeCon,
    TypeData,
    Var,
    resolve,
    resolve_size,
)


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
    known: dict[core.Local, Refinement] = field(default_factory=dict)
    promised: Refinement | None = None
    result: Type = UNIT
    free: set[core.Local] = field(default_factory=set)
    tested: ByIdentity[core.Expr, Size] = field(default_factory=ByIdentity)

    # ---- functions ---------------------------------------------------------------------------------------------------
    def function(self, decl: core.FnDecl) -> None:
        assert decl.body is not None
        outer = self.promised, self.result
        self.promised, self.result = decl.refinement, decl.result or UNIT
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
    def visit(self, e: core.Expr, want: Refinement | None = None) -> Refinement | None:
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
                    found = self.visit(element, of_part(want, element.type))
                return self.required(e, want, of_elements(found), asked=True)
            case core.ArrayExpr(items=items):
                found_ = [self.visit(i, of_part(want, i.type)) for i in items]
                same = found_[0] if found_ and all(f == found_[0] for f in found_) else None
                return self.required(e, want, of_elements(same), asked=True)
            case core.TupleExpr(items=items):
                parts = want.items if isinstance(want, Items) else (None,) * len(items)
                return of_items([self.visit(i, w) for i, w in zip(items, parts, strict=True)])
            case core.Lambda(body=core.Call(function=core.FnRef(decl=decl)) as inner) if inner.span == e.span:
                self.as_value(decl, e.span)  # nobody wrote this lambda
                return None
            case core.Lambda(body=core.Construct(variant=variant) as inner) if inner.span == e.span:
                if any(r is not None for r in variant.refinements):
                    self.cx.report(messages.constructor_as_value(variant, e.span))
                return None
            case core.Lambda(body=body):
                outer, self.promised = self.promised, None
                with self.scope():
                    self.visit(body)
                self.promised = outer
                return None
            case _:
                return self.required(e, want, self.plain(e))

    def plain(self, e: core.Expr) -> Refinement | None:
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
                t = resolve(e.type)
                for i, v in enumerate(values):
                    asked = of_field(t, i, None, decl.variants.index(variant))
                    self.visit(v, asked)
                return None
            case core.Project(value=value, position=position, name=name):
                r = self.visit(value)
                t = resolve(value.type)
                if position < 0 and isinstance(t, TypeData):
                    position = next((i for i, (n, _) in enumerate(t.decl.variants[0].fields) if n == name), -1)
                return of_field(t, position, r)
            case core.Index(base=base, indices=indices):
                r = self.visit(base)
                self.all(index_children(indices))
                return of_part(r, e.type)
            case core.As(value=value, below=below):
                found = self.visit(value)
                if below is not None:
                    return Below(below)
                self.retyped(e)
                return found
            case core.Arith(operator="%", left=left, right=right):
                self.visit(left)
                self.visit(right)
                divisor = self.facts.symbol(right)
                return Below(divisor) if divisor is not None and self.sure.at_least(divisor.poly, ZERO) else None
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

    def call(self, e: core.Expr, function: core.Expr, args: tuple[core.Expr | None, ...]) -> Refinement | None:
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
        here: dict[Var, Term] = dict(base.instance)
        for i, a in enumerate(args):
            if a is None:
                continue
            p = decl.params[i].local if i < len(decl.params) else None
            asked = substituted(p.refinement, here) if p is not None else None
            if asked is None:
                self.visit(a)
            elif not (isinstance(a, core.Ref) and a.local in self.free):
                assert p is not None
                why = Note(f"`{p.name}` of `{decl.name}` is declared here", p.span) if p.span is not None else None
                self.visit_for(a, asked, why)
        if base is not function:
            return None
        here.update({v: of_var(w) for v, w in zip(decl.opened, e.opened, strict=False)})
        return substituted(decl.refinement, here)

    def as_value(self, decl: core.FnDecl, span: Span) -> None:
        """A function as a value: who calls it does not know what it asks for."""
        asking = [p.local for p in decl.params if p.local.refinement is not None]
        if asking and decl.kind != "const":
            self.cx.report(messages.as_value(decl, asking[0], span))

    def match(self, value: core.Expr, arms: tuple[core.Arm, ...], want: Refinement | None) -> Refinement | None:
        r = self.visit(value)
        found: Refinement | None = None
        for k, arm in enumerate(arms):
            with self.scope():
                self.bind(arm.pattern, r, value.type)
                if arm.guard is not None:
                    self.visit(arm.guard)
                    self.facts.assume(arm.guard, True)
                one = self.visit(arm.body, want)
            found = one if k == 0 or (found is not None and found == one) else None
        return found

    def either(self, a: core.Expr, ra: Refinement | None, b: core.Expr, rb: Refinement | None) -> Refinement | None:
        """Returns the refinement of a value that is one of two."""
        if isinstance(a, core.Fail):
            return rb
        return ra if isinstance(b, core.Fail) or ra == rb else None

    def builtin(self, e: core.Expr, name: str, found: list[Refinement | None]) -> Refinement | None:
        assert isinstance(e, core.Builtin)
        match name:
            case "zip":
                return of_elements(of_items([of_part(r, TypeCon("i64")) for r in found]))
            case _ if name in POSITIONS:
                axes = resolve(e.args[0].type)
                over = e.static.get("axes", ())
                if isinstance(axes, TypeArray) and axes.shape.row is None and isinstance(over, tuple):
                    size = product(tuple([axes.shape.pre[int(k)] for k in over]) or axes.shape.pre)
                    return Elements(Below(size)) if isinstance(resolve(e.type), TypeArray) else Below(size)
                return None
            case _ if name in REARRANGES and found:
                r = found[0]
                return of_elements(r) if r is not None and all(x == r for x in found) else None
            case _:
                return None

    # ---- statements --------------------------------------------------------------------------------------------------
    def statement(self, s: core.Statement) -> None:
        match s:
            case core.Let(pattern=pattern, value=value, refinement=asked):
                found = self.visit(value, asked)
                self.bind(pattern, asked or found, value.type)
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
                        self.cx.report(messages.unproven_update(s, asked))
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

    def of_place(self, place: core.Place) -> Refinement | None:
        """Returns the refinement that a part of a `var` requires of its values."""
        r, t = self.known.get(place.local), resolve(place.local.type)
        for step in place.steps:
            if isinstance(step, core.FieldStep):
                r, t = of_field(t, step.position, r), field_type(t, step.position)
            else:
                taken = sum(isinstance(i, core.At) and not isinstance(resolve(i.value.type), TypeArray)
                            for i in step.indices)  # fmt: skip
                whole = isinstance(t, TypeArray) and len(t.shape.pre) == taken and t.shape.row is None
                if isinstance(t, TypeArray) and whole:
                    r, t = of_part(r, t.element), resolve(t.element)
        return r

    # ---- what is known -----------------------------------------------------------------------------------------------
    def learn(self, local: core.Local, r: Refinement | None) -> None:
        """A local in scope has a refinement."""
        if r is None:
            self.known.pop(local, None)
            return
        self.known[local] = r
        if isinstance(r, Below) and not local.mutable:
            symbol = self.cx.symbol_of_local(local)
            if symbol is not None:
                for k in (self.facts, self.sure):
                    k.at_most(ZERO, symbol.poly)
                    k.at_most(symbol.poly, resolve_size(r.size).poly - 1)

    def bind(self, p: core.Pattern, r: Refinement | None, t: Type) -> None:
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
                    self.known[local] = Below(size)
                case core.Each(pattern=pattern, array=array):
                    r = self.visit(array)
                    t = resolve(array.type)
                    element: Type = t
                    if isinstance(t, TypeArray):
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
    def visit_for(self, e: core.Expr, want: Refinement, why: Note | None) -> None:
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
        self, e: core.Expr, want: Refinement | None, found: Refinement | None, *, asked: bool = False
    ) -> Refinement | None:
        """Checks that a value with the refinement `found` meets `want`, and reports it if not; asked: its parts have
        been checked already."""
        if want is None:
            return found
        if not asked and not self.meets(e, want, found):
            self.cx.report(messages.unproven(e, want, found, self.facts.symbol(e)))
        return want

    def meets(self, e: core.Expr, want: Refinement, found: Refinement | None) -> bool:
        if isinstance(want, Elements) and not isinstance(resolve(e.type), TypeArray):
            want = want.element
        if not isinstance(want, Below):
            return self.implies(found, want)
        symbol = self.facts.symbol(e)
        for k in (self.sure, self.facts):
            proven = symbol is not None and k.within(symbol, want.size)
            if proven or (isinstance(found, Below) and k.at_least(resolve_size(want.size).poly, found.size.poly)):
                if k is self.facts:
                    self.tested[e] = want.size
                return True
        return False

    def implies(self, found: Refinement | None, want: Refinement | None) -> bool:
        match found, want:
            case _, None:
                return True
            case Below(a), Below(b):
                return self.sure.at_least(resolve_size(b).poly, resolve_size(a).poly)
            case Elements(a), Elements(b):
                return self.implies(a, b)
            case Items(xs), Items(ys):
                return len(xs) == len(ys) and all(map(self.implies, xs, ys))
            case _:
                return False

    def retyped(self, e: core.As) -> None:
        """`as` between structs compares the sizes of arrays. Where no array says the n of an `Idx<n>`, nothing does."""
        a, b = resolve(e.value.type), resolve(e.type)
        for x, y in data_pairs(a, b):
            hidden = refinements.unseen(x.decl)
            for p, s, t in zip(x.decl.params, x.args, y.args, strict=True):
                if p in hidden and isinstance(s, Size) and isinstance(t, Size):
                    if resolve_size(s).poly != resolve_size(t).poly:
                        self.cx.report(messages.retyped(x, s, e.span))


def leaves(e: core.Expr) -> bool:
    """Tells whether an expression never gives a value, so that the code behind it is not reached."""
    if isinstance(e, core.BlockExpr):
        last = e.statements[-1] if e.statements else None
        return isinstance(last, core.Return | core.Break | core.Continue) or leaves(e.result)
    return isinstance(e, core.Fail)
