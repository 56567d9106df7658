"""Questions about the core tree: which locals an expression mentions, which it assigns, how it may be left."""

from __future__ import annotations

from collections.abc import Iterable

from dlang.typecheck import core
from dlang.typecheck.trees import Tree, arm_children, children, pattern_locals, walk

_NONE = core.Facts(frozenset(), (), frozenset())


def assigned(*trees: Tree) -> list[core.Local]:
    """The mutable locals that are assigned inside, in order of appearance, without those declared there."""
    found = [facts_of(t) for t in trees]
    declared = frozenset[core.Local]().union(*[f.declared for f in found])
    return [local for local in dict.fromkeys(local for f in found for local in f.assigned) if local not in declared]


def escapes(t: Tree) -> frozenset[str]:
    """Returns which of `return`, `break` and `continue` may leave a tree; loops inside keep their own."""
    return facts_of(t).leaves


def facts_of(t: Tree) -> core.Facts:
    """Finds how code may be left and what it assigns; once where it contains code to any depth."""
    match t:
        case core.Return():
            return _with_own(t, leaves=frozenset({"return"}))
        case core.Break():
            return core.Facts(frozenset({"break"}), (), frozenset())
        case core.Continue():
            return core.Facts(frozenset({"continue"}), (), frozenset())
        case core.LocalFn() | core.Lambda() | core.Comprehension():
            inside = _inside(t)
            return core.Facts(frozenset(), inside.assigned, inside.declared)
        case core.Assign():
            return _with_own(t, assigned=(t.place.local,))
        case core.AssignTuple():
            return _with_own(t, assigned=tuple([p.local for p in t.places]))
        case core.Declare():
            return _with_own(t, declared=frozenset(pattern_locals(t.pattern)))
        case core.If() | core.Match() | core.BlockExpr() | core.For() | core.While():
            if t.facts is None:
                found = _inside(t)
                if isinstance(t, core.For | core.While):
                    found = core.Facts(found.leaves & {"return"}, found.assigned, found.declared)
                object.__setattr__(t, "facts", found)
                return found
            return t.facts
        case _:
            return _inside(t)


def _with_own(
    t: Tree,
    leaves: frozenset[str] = frozenset(),
    assigned: tuple[core.Local, ...] = (),
    declared: frozenset[core.Local] = frozenset(),
) -> core.Facts:
    """Adds what a statement itself does to what is known of its parts."""
    inside = _inside(t)
    return core.Facts(
        leaves or inside.leaves, tuple(dict.fromkeys(assigned + inside.assigned)), declared | inside.declared
    )


def tails(e: core.Match) -> list[core.Match]:
    """A match, and what is left of it without its first arm, its first two arms and so on.

    Each knows its facts by the next one, so no arm is looked at for each that stands before it.
    """
    found: list[core.Match] = []
    value, facts = facts_of(e.value), _NONE
    for k in range(len(e.arms) - 1, -1, -1):
        arm = map(facts_of, arm_children(e.arms[k]))
        facts = _joined([value, *arm, facts])
        tail = core.Match(e.type, e.span, e.value, e.arms[k:], e.opened)
        object.__setattr__(tail, "facts", facts)
        found.append(tail)
    return found[::-1]


def _inside(t: Tree) -> core.Facts:
    return _joined(map(facts_of, children(t)))


def _joined(facts: Iterable[core.Facts]) -> core.Facts:
    found = [f for f in facts if f is not _NONE]
    if not found:
        return _NONE
    assigned = dict.fromkeys([local for f in found for local in f.assigned])
    leaves, declared = frozenset[str](), frozenset[core.Local]()
    return core.Facts(
        leaves.union(*[f.leaves for f in found]), tuple(assigned), declared.union(*[f.declared for f in found])
    )


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
