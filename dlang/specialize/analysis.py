"""Questions about the core tree: which locals an expression mentions, which it assigns, how it may be left."""

from __future__ import annotations

from dlang.typecheck import core
from dlang.typecheck.trees import Tree, children, pattern_locals, walk


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
