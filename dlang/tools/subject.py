"""A `bench` block as two functions: what comes before, done once, and the expression, which is timed.

The second takes the values that the first gives, so nothing of them is known when it is compiled but their types, and
its result leaves it: neither can be optimised away. Functions do not cross; a `let` of one is done by both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dlang.diagnostics import error
from dlang.typecheck import core
from dlang.typecheck.terms import variables
from dlang.typecheck.trees import Tree, pattern_locals, walk
from dlang.typecheck.types import (
    UNIT,
    DataDecl,
    Shape,
    Size,
    SizeVar,
    Type,
    TypeData,
    TypeFn,
    TypeTuple,
    children,
    resolve,
)


@dataclass(frozen=True, slots=True)
class Subject:
    """setup gives a tuple, whose items are the arguments of `timed`."""

    setup: core.FnDecl
    timed: core.FnDecl


def subject_of(bench: core.FnDecl) -> Subject:
    """The two functions of a checked `bench`. E0992 if the expression needs a value that cannot be passed to it."""
    body, result = bench.body, bench.result
    assert isinstance(body, core.BlockExpr) and result is not None
    again, needed = _needed(body)
    if wrong := next((local for local in needed if _holds_function(local.type, ())), None):
        help = ("make it a `let` of a function, or make it in the expression that is timed",)
        message = f"`{wrong.name}` holds a function, so it cannot be made ready for what is timed"
        raise error("E0992", message, wrong.span or bench.span, help=help)
    passed = [core.Local(x.name, x.type, size=None if x.mutable else x.size, span=x.span) for x in needed]
    begin = [
        (core.Declare if old.mutable else core.Let)(core.Bind(old), core.Ref(new.type, bench.span, new), (), bench.span)
        for old, new in zip(needed, passed, strict=True)
    ]
    values = core.TupleExpr(
        TypeTuple(tuple(x.type for x in needed)) if needed else UNIT,
        bench.span,
        tuple(core.Ref(x.type, bench.span, x) for x in needed),
    )
    setup = core.FnDecl(
        bench.name,
        bench.module,
        bench.span,
        result=values.type,
        tree=core.BlockExpr(values.type, bench.span, body.statements, values),
        effects=bench.effects,
        kind="bench",
    )
    own = variables(*(x.type for x in passed)) | {x.size: None for x in passed if x.size is not None}
    timed = core.FnDecl(
        bench.name,
        bench.module,
        bench.span,
        tuple(core.Param(x) for x in passed),
        result,
        tuple(own),
        tree=core.BlockExpr(result, body.result.span, (*begin, *again), body.result),
        effects=bench.effects,
        kind="bench",
    )
    return Subject(setup, timed)


def _needed(body: core.BlockExpr) -> tuple[list[core.Statement], list[core.Local]]:
    """The statements that both functions do, and what else the expression takes from those before it, in order."""
    again: list[core.Statement] = []
    used = set(_mentioned([body.result]))
    for statement in reversed(body.statements):
        if not used.isdisjoint(_functions(statement)):
            again.insert(0, statement)
            used |= set(_mentioned([statement]))
    made = {x for s in again for x in _functions(s)}
    bound = [x for s in body.statements for x in _bound(s) if x not in made]
    needed = [x for x in dict.fromkeys(bound) if x in used]
    sizes = _sizes([body.result, *again])
    told = {v for x in needed for v in _told(x)}
    for x in dict.fromkeys(bound):  # a size that is needed, and that no argument tells
        if x not in needed and not _holds_function(x.type, ()) and (sizes - told) & (new := set(_told(x))):
            needed.append(x)
            told |= new
    return again, needed


def _bound(s: core.Statement) -> Iterator[core.Local]:
    if isinstance(s, core.Let | core.Declare):
        yield from pattern_locals(s.pattern)
        yield from s.names


def _functions(s: core.Statement) -> Iterator[core.Local | core.FnDecl]:
    """Lists the functions that a statement binds; several names of one statement go together."""
    if isinstance(s, core.LocalFn):
        yield s.decl
    elif any(isinstance(resolve(x.type), TypeFn) for x in _bound(s)):
        yield from _bound(s)


def _mentioned(trees: Sequence[Tree]) -> Iterator[core.Local | core.FnDecl]:
    for tree in trees:
        for node in walk(tree):
            match node:
                case core.Ref():
                    yield node.local
                case core.FnRef() if node.decl.local:
                    yield node.decl
                case core.Assign():
                    yield node.place.local
                case core.AssignTuple():
                    yield from (place.local for place in node.places)


def _sizes(trees: Iterable[Tree]) -> set[SizeVar]:
    """The sizes that expressions mention."""
    found: set[SizeVar] = set()
    for tree in trees:
        for node in walk(tree):
            terms: list[Type | Size] = [node.type] if isinstance(node, core.Node) else []
            if isinstance(node, core.SizeValue):
                terms.append(node.size)
            found |= {v for v in variables(*terms) if isinstance(v, SizeVar)}
    return found


def _told(x: core.Local) -> Iterator[SizeVar]:
    """The sizes that a value says: that it is, or that its axes have."""
    if x.size is not None:
        yield x.size
    yield from (v for v in variables(x.type) if isinstance(v, SizeVar))


def _holds_function(t: Type | Shape | Size, within: tuple[DataDecl, ...]) -> bool:
    if isinstance(t, Shape | Size):
        return False
    t = resolve(t)
    if isinstance(t, TypeFn):
        return True
    if isinstance(t, TypeData) and t.decl not in within:
        fields = [f for v in t.decl.variants for _, f in v.fields]
        if any(_holds_function(f, (*within, t.decl)) for f in fields):
            return True
    return any(_holds_function(part, within) for part in children(t))
