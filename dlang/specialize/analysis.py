"""Questions about the core tree: which locals an expression mentions, which it assigns, how it may be left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from dlang.typecheck import core

Tree = core.Expr | core.Statement


def children(t: Tree) -> Iterator[Tree]:
    """The expressions and statements directly inside, in the order in which they run."""
    match t:
        case core.Literal() | core.Ref() | core.SizeValue() | core.FnRef() | core.Break() | core.Continue():
            return
        case core.Format():
            for part in t.parts:
                if not isinstance(part, str):
                    yield part[0]
        case core.Lambda():
            yield t.body
        case core.Call():
            yield t.function
            for a in t.args:
                if a is not None:
                    yield a
        case core.Builtin() | core.Foreign():
            yield from t.args
        case core.Arith() | core.Logic():
            yield t.left
            yield t.right
        case core.Negate() | core.Not():
            yield t.operand
        case core.TupleExpr() | core.ArrayExpr():
            yield from t.items
        case core.Construct():
            yield from t.fields
        case core.Project() | core.As() | core.Return() | core.Discard():
            yield t.value
        case core.Comprehension():
            for b in t.binders:
                yield from binder_children(b)
            if t.condition is not None:
                yield t.condition
            yield t.element
        case core.Index():
            yield t.base
            yield from index_children(t.indices)
        case core.If():
            yield t.condition
            yield t.then
            yield t.otherwise
        case core.Match():
            yield t.value
            for arm in t.arms:
                if arm.guard is not None:
                    yield arm.guard
                yield arm.body
        case core.BlockExpr():
            yield from t.statements
            yield t.result
        case core.Derivative():
            yield t.function
        case core.Fail():
            yield t.message
        case core.Let() | core.Declare():
            yield t.value
        case core.LocalFn():
            if t.decl.body is not None:
                yield t.decl.body
        case core.Assign():
            yield from place_children(t.place)
            yield t.value
        case core.AssignTuple():
            for p in t.places:
                yield from place_children(p)
            yield t.value
        case core.For():
            for b in t.binders:
                yield from binder_children(b)
            yield t.body
        case core.While():
            yield t.condition
            yield t.body
        case core.Assert():
            yield t.condition
            if t.message is not None:
                yield t.message
        case _:
            assert_never(t)


def binder_children(b: core.Binder) -> Iterator[core.Expr]:
    match b:
        case core.Count():
            if b.bound is not None:
                yield b.bound
        case core.Each():
            yield b.array
        case core.Range():
            yield b.low
            yield b.high
            if b.step is not None:
                yield b.step


def index_children(indices: tuple[core.At | core.Range1, ...]) -> Iterator[core.Expr]:
    for i in indices:
        match i:
            case core.At(value):
                yield value
            case core.Range1():
                for part in (i.low, i.high, i.step):
                    if part is not None:
                        yield part


def place_children(p: core.Place) -> Iterator[core.Expr]:
    for step in p.steps:
        if isinstance(step, core.IndexStep):
            yield from index_children(step.indices)


def walk(t: Tree) -> Iterator[Tree]:
    """Every node, before its children; bodies of local functions included."""
    stack = [t]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))


def assigned(*trees: Tree) -> list[core.Local]:
    """The mutable locals that are assigned inside, in order of appearance, without those declared there."""
    found: dict[core.Local, None] = {}
    declared: set[core.Local] = set()
    for tree in trees:
        for node in walk(tree):
            match node:
                case core.Assign():
                    found.setdefault(node.place.local)
                case core.AssignTuple():
                    for p in node.places:
                        found.setdefault(p.local)
                case core.Declare():
                    declared.update(pattern_locals(node.pattern))
    return [local for local in found if local not in declared]


def escapes(t: Tree) -> frozenset[str]:
    """Which of `return`, `break` and `continue` may leave what is asked about; loops inside keep their own."""
    match t:
        case core.Return():
            return frozenset({"return"})
        case core.Break():
            return frozenset({"break"})
        case core.Continue():
            return frozenset({"continue"})
        case core.LocalFn() | core.Lambda() | core.Comprehension():
            return frozenset()
    inside = frozenset[str]().union(*[escapes(c) for c in children(t)])
    return inside & {"return"} if isinstance(t, core.For | core.While) else inside


def pattern_locals(p: core.Pattern) -> Iterator[core.Local]:
    match p:
        case core.Bind(local):
            yield local
        case core.TuplePattern(items) | core.VariantPattern(_, _, items) | core.Alternatives(items):
            for i in items:
                yield from pattern_locals(i)


def mentioned(t: Tree) -> list[core.Local | core.FnDecl]:
    """Locals and local functions mentioned inside, in order; the caller keeps those that it knows."""
    found: dict[core.Local | core.FnDecl, None] = {}
    for node in walk(t):
        match node:
            case core.Ref(_, _, local):
                found.setdefault(local)
            case core.FnRef() if node.decl.local:
                found.setdefault(node.decl)
            case core.Assign():
                found.setdefault(node.place.local)
            case core.AssignTuple():
                for p in node.places:
                    found.setdefault(p.local)
    return list(found)
