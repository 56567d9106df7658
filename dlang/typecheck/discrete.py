"""Warns of derivatives that leave out what a discrete draw depends on.

`grad` of something that `bernoulli(p)` decides is 0 in p as far as the draw is concerned: a bool has no slope, though
the expectation of the value has one. Nothing fails, so a fit in p goes nowhere. Looked at are functions that draw, by
the data that flows through them: a float is *moving* if it depends on what is differentiated, and *drawn* if it depends
on random numbers. A draw is discrete where a function that draws is given a moving float and gives no float, and where
a drawn number is compared with a moving one. `stop_gradient` ends what moves, and so says that this is meant.

What flows is found without the order of statements: a local has what any assignment gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dlang.diagnostics import Diagnostic, Note, Span
from dlang.ops.primitives import COMPARISONS
from dlang.typecheck import core
from dlang.typecheck.constraints import has_floats
from dlang.typecheck.headers import CoreModule
from dlang.typecheck.trees import children, walk
from dlang.typecheck.types import TypeFn, resolve

_LIBRARY = frozenset(("random", "stats", "nn", "prelude", "linalg", "optim", "ode", "math", "implicit", "data", "io"))


@dataclass(frozen=True, slots=True)
class Flow:
    """Dependences of a value: `moving` on what is differentiated, `drawn` on random numbers."""

    moving: bool = False
    drawn: bool = False

    def __or__(self, other: Flow) -> Flow:
        return Flow(self.moving or other.moving, self.drawn or other.drawn)


NOTHING = Flow()


def warnings(module: CoreModule) -> list[Diagnostic]:
    """A warning for each derivative in a module through a discrete draw."""
    bodies = [decl.body for decl in module.declared() if decl.body is not None]
    derivatives = [node for body in bodies for node in walk(body) if isinstance(node, core.Derivative)]
    return [w for derivative in derivatives for w in warnings_of(derivative)]


def warnings_of(derivative: core.Derivative) -> list[Diagnostic]:
    """The warning about a derivative, if there is one: at its first discrete draw."""
    if derivative.kind == "checkpoint":
        return []
    draws = _Draws()
    draws.differentiate(derivative.function, derivative.wrt)
    if not draws.found:
        return []
    draw = draws.found[0]
    name = f"`{derivative.kind}`"
    return [
        Diagnostic(
            "E0712",
            f"{name} leaves out what a discrete draw depends on: its derivative there is 0",
            derivative.span,
            "the expectation may have another slope",
            (Note("this draw depends on what is differentiated", draw),),
            ("write `stop_gradient` around what the draw depends on if that is meant",),
            severity="warning",
        )
    ]


@dataclass(slots=True)
class _Draws:
    """locals: what flows into them so far. results: of functions in this round, None while one is walked; found:
    discrete draws.

    All is walked until nothing changes, since a loop may carry what a later statement makes; a function once a round,
    though many call it.
    """

    locals: dict[core.Local, Flow] = field(default_factory=dict)
    results: dict[core.FnDecl, Flow | None] = field(default_factory=dict)
    found: list[Span] = field(default_factory=list)
    changed: bool = False

    def differentiate(self, function: core.Expr, wrt: tuple[int, ...]) -> None:
        while isinstance(function, core.Derivative):
            function = function.function
        match function:
            case core.FnRef(decl=decl) if decl.body is not None:
                params, body = [p.local for p in decl.params], decl.body
            case core.Lambda(params=given, body=body):
                params = list(given)
            case _:
                return
        for k in wrt:
            if k < len(params):
                self.locals[params[k]] = Flow(moving=True)
        self.changed = True
        while self.changed:
            self.changed = False
            self.found.clear()
            self.results.clear()
            self.of(body)

    def gives(self, local: core.Local, flow: Flow) -> None:
        before = self.locals.get(local, NOTHING)
        if before | flow != before:
            self.locals[local] = before | flow
            self.changed = True

    def of(self, e: core.Expr) -> Flow:
        """Returns the dependences of an expression; a value without floats moves nothing."""
        flow = self._of(e)
        return flow if not flow.moving or has_floats(e.type) else Flow(False, flow.drawn)

    def _of(self, e: core.Expr) -> Flow:
        match e:
            case core.Ref(local=local):
                return self.locals.get(local, NOTHING)
            case core.Builtin(name="stop_gradient", args=args):
                return Flow(False, self.all(args).drawn)
            case core.Builtin(name=name, args=args) if name.startswith("random_"):
                return self.all(args) | Flow(drawn=True)
            case core.Builtin(args=args):
                return self.applied(args)
            case core.Call(function=core.FnRef(decl=decl), args=args):
                return self.call(e, decl, [NOTHING if a is None else self.of(a) for a in args])
            case core.Call(function=function, args=args):
                return self.of(function) | self.applied([a for a in args if a is not None])
            case core.Arith(operator=operator, left=left, right=right) if operator in COMPARISONS:
                x, y = self.of(left), self.of(right)
                for drawn, moving in ((x, y), (y, x)):
                    if drawn == Flow(drawn=True) and moving == Flow(moving=True):
                        self.found.append(e.span)
                return x | y
            case core.Comprehension(binders=binders):
                for b in binders:
                    self.binder(b)
            case core.Match(value=value, arms=arms):
                flow = self.of(value)
                for arm in arms:
                    self.bind(arm.pattern, flow)
            case core.BlockExpr(statements=statements, result=result):
                for statement in statements:
                    self.statement(statement)
                return self.of(result)
            case _:
                pass
        return self.all(children(e))

    def all(self, trees: Any) -> Flow:
        total = NOTHING
        for tree in trees:
            total |= self.of(tree) if isinstance(tree, core.Expr) else self.statement(tree)
        return total

    def applied(self, args: Any) -> Flow:
        """Arguments of what may call the functions among them with the others, as `fold` does."""
        values = NOTHING
        for a in args:
            if isinstance(a, core.Lambda):
                self.give_all(a.params, values)
                values |= self.of(a.body)
            else:
                values |= self.of(a)
        for a in args:
            match a:
                case core.Lambda(params=params):
                    self.give_all(params, values)
                case core.FnRef(decl=decl) if isinstance(t := resolve(a.type), TypeFn):
                    values |= self.call(core.Call(t.result, a.span, a, ()), decl, [values] * len(t.params))
                case _:
                    pass
        return values

    def give_all(self, params: Sequence[core.Local], flow: Flow) -> None:
        for p in params:
            self.gives(p, flow)

    def call(self, e: core.Call, decl: core.FnDecl, args: list[Flow]) -> Flow:
        given = NOTHING
        for flow in args:
            given |= flow
        draws = "random" in decl.effects
        if draws and given.moving and not has_floats(e.type):
            self.found.append(e.span)
            return Flow(drawn=True)
        given |= Flow(drawn=draws)
        if decl.body is None or decl.module in _LIBRARY:
            return given
        for p, flow in zip(decl.params, args, strict=False):
            self.gives(p.local, flow)
        if decl not in self.results:
            self.results[decl] = None
            self.results[decl] = self.of(decl.body)
        result = self.results[decl]
        return given if result is None else result

    def statement(self, s: core.Statement) -> Flow:
        match s:
            case core.Let(pattern=pattern, value=value) | core.Declare(pattern=pattern, value=value):
                self.bind(pattern, self.of(value))
            case core.Assign(place=place, value=value):
                self.gives(place.local, self.of(value))
            case core.AssignTuple(places=places, value=value):
                flow = self.of(value)
                for place in places:
                    self.gives(place.local, flow)
            case core.For(binders=binders, body=body):
                for b in binders:
                    self.binder(b)
                self.of(body)
            case core.LocalFn():
                pass  # looked at where it is called
            case _:
                return self.all(children(s))
        return NOTHING

    def binder(self, b: core.Binder) -> None:
        match b:
            case core.Each(pattern=pattern, array=array):
                self.bind(pattern, self.of(array))
            case _:
                pass

    def bind(self, pattern: core.Pattern, flow: Flow) -> None:
        match pattern:
            case core.Bind(local=local):
                self.gives(local, flow)
            case core.TuplePattern(items=items) | core.VariantPattern(items=items) | core.Alternatives(items=items):
                for item in items:
                    self.bind(item, flow)
            case _:
                pass
