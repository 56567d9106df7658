"""Walks over the core tree, and trees made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar, assert_never, get_args

from dlang.diagnostics import Span
from dlang.identity import ByIdentity
from dlang.typecheck import core
from dlang.typecheck.terms import identity, of_var, opened_in
from dlang.typecheck.types import SizeVar, Type, TypeFn, resolve_size

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
                yield from arm_children(arm)
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


def arm_children(a: core.Arm) -> Iterator[core.Expr]:
    if a.guard is not None:
        yield a.guard
    yield a.body


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


def operands(e: core.Logic) -> list[core.Expr]:
    """Lists the operands of a chain of `and`, or of `or`, in order."""
    operands_reversed: list[core.Expr] = [e.right]
    left = e.left
    while isinstance(left, core.Logic) and left.operator == e.operator:
        operands_reversed.append(left.right)
        left = left.left
    return [left, *reversed(operands_reversed)]


def walk(t: Tree) -> Iterator[Tree]:
    """Every expression and statement, in the order in which they run; bodies of local functions included."""
    stack = [t]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(tuple(children(node)))


def pattern_locals(p: core.Pattern) -> Iterator[core.Local]:
    """Lists the locals that a pattern binds."""
    stack = [p]
    while stack:
        match stack.pop():
            case core.Bind(local):
                yield local
            case core.TuplePattern(items) | core.VariantPattern(_, _, items) | core.Alternatives(items):
                stack += reversed(items)


# ---- trees made of others --------------------------------------------------------------------------------------------
Part = (
    Tree | core.Binder | core.Pattern | core.At | core.Range1 | core.Arm | core.FieldStep | core.IndexStep | core.Place
    | core.Param
)  # fmt: skip
_NO_PARTS = frozenset("type span size opened variant static instance decl local names facts mentions".split())
_PARTS = {kind: tuple(f.name for f in fields(kind) if f.name not in _NO_PARTS) for kind in get_args(Part)}
T = TypeVar("T")


def rebuilt(tree: T, change: Callable[[Any, Any], Any]) -> T:
    """A part of a tree, or a tuple of parts, in which each part is what `change(old, new)` gives for it, the innermost
    first; `new` is `old` with what its own parts became, and the same object where nothing did.

    Local functions are entered by nobody but `change`, which knows whether they may be changed where they are.
    """
    if isinstance(tree, tuple):
        if isinstance(tree, Span):
            return tree
        parts: Any = tuple([rebuilt(n, change) for n in tree])
        return tree if all(a is b for a, b in zip(parts, tree, strict=True)) else parts
    names = _PARTS.get(type(tree))
    if names is None:
        return tree
    node: Any = tree
    changes = {}
    for name in names:
        old = getattr(node, name)
        new = rebuilt(old, change)
        if new is not old:
            changes[name] = new
    out: T = change(node, replace(node, **changes) if changes else node)
    return out


# ---- what was left open ----------------------------------------------------------------------------------------------
# Rebuilds a checked tree where inference left something open: joined sizes, recursive references, arrays read.


def finished(tree: T) -> T:
    """A tree with what is now known filled in; local functions are changed where they are."""
    return rebuilt(tree, _filled)


def _filled(_: Any, node: Any) -> Any:
    match node:
        case core.LocalFn(decl=decl) if decl.body is not None:
            decl.body, decl.params = finished(decl.body), finished(decl.params)
        case core.FnRef(decl=decl, instance=()) if decl.variables:
            return replace(node, instance=tuple((v, identity(v)) for v in decl.variables if v not in decl.opened))
        case core.If(opened=opened) | core.Match(opened=opened) if opened:
            joined = tuple(dict.fromkeys(v for c in opened if (v := opened_by_join(c)) is not None))
            return node if joined == opened else replace(node, opened=joined)
        case core.Builtin(name=name, opened=()) if name.startswith("read_"):
            return replace(node, opened=tuple(opened_in(node.type)))
    return node


def opened_by_join(candidate: SizeVar) -> SizeVar | None:
    """The opened size that a joined axis turned out to be; None if its branches agree."""
    if candidate.ref is None and candidate.opened:
        return candidate
    atom = resolve_size(of_var(candidate)).poly.atom
    if isinstance(atom, SizeVar) and atom.opened and atom.origin is not None and "branches" in atom.origin.text:
        return atom
    return None


def checked(tree: T, at: ByIdentity[core.Expr, core.As]) -> T:
    """A tree with checks around nodes; local functions are changed where they are."""

    def change(old: Any, new: Any) -> Any:
        if isinstance(new, core.LocalFn) and new.decl.body is not None:
            new.decl.body, new.decl.params = checked(new.decl.body, at), checked(new.decl.params, at)
        return replace(check, value=new) if (check := at.get(old)) is not None else new

    return rebuilt(tree, change)


def calling(
    decl: core.FnDecl,
    name: str,
    params: tuple[core.Param, ...],
    function: core.Expr,
    args: tuple[core.Expr | None, ...],
    result: Type | None = None,
    opened: tuple[SizeVar, ...] = (),
) -> core.FnDecl:
    """A function with the scheme of `decl` that calls `function`. opened: sizes that are known when it has."""
    wanted = result if result is not None else decl.result
    assert wanted is not None
    opened = (*decl.opened, *opened)
    body = core.Call(wanted, decl.span, function, args, opened)
    return core.FnDecl(
        name, decl.module, decl.span, params, wanted, decl.variables, opened, body,
        effects=decl.effects, kind="call", doc=decl.doc,
    )  # fmt: skip


def at_its_own_types(decl: core.FnDecl, left: tuple[SizeVar, ...] = ()) -> core.FnRef:
    """A function where each variable of its scheme stands for itself, but for sizes that are left to defaults."""
    assert decl.result is not None
    t = TypeFn(tuple(p.local.type for p in decl.params), decl.result)
    unknown = (*decl.opened, *left)
    return core.FnRef(t, decl.span, decl, tuple((v, identity(v)) for v in decl.variables if v not in unknown))


def reference(param: core.Param, span: Span) -> core.Ref:
    return core.Ref(param.local.type, span, param.local)


def unwritten(e: core.Expr, span: Span) -> core.Expr:
    """A call that nobody wrote, perhaps with lambdas around foreign code: its place is that of what is called, theirs
    that of the parameter.

    Inside they have none, so what fails there is where the lambda is called.
    """
    if not isinstance(e, core.Call):
        return e
    function = replace(rebuilt(e.function, _forwarding), span=span)
    return replace(
        e, span=span, function=function, args=tuple([_placed(a) if isinstance(a, core.Lambda) else a for a in e.args])
    )


def _forwarding(_: Any, node: Any) -> Any:
    """The same node; a lambda, around a form that nobody wrote either, is one that draws what its body does."""
    return replace(node, forwards=True) if isinstance(node, core.Lambda) else node


def _placed(e: core.Lambda) -> core.Lambda:
    if not isinstance(e.body, core.Call) or not isinstance(e.body.function, core.FnRef):
        return e
    span = e.body.function.decl.span
    nowhere = Span(span.source, span.start, span.start)
    args = tuple([a if a is None else replace(a, span=nowhere) for a in e.body.args])
    function = replace(e.body.function, span=nowhere)
    return replace(e, span=span, body=replace(e.body, span=nowhere, function=function, args=args))
