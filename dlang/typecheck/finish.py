"""Rebuilds a checked tree where inference left something open: joined sizes, recursive references, arrays read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from dlang.identity import ByIdentity
from dlang.typecheck import core
from dlang.typecheck.terms import identity, of_var, opened_in
from dlang.typecheck.trees import rebuilt
from dlang.typecheck.types import SizeVar, resolve_size

T = TypeVar("T")


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
            found = tuple(dict.fromkeys(v for c in opened if (v := opened_by_join(c)) is not None))
            return node if found == opened else replace(node, opened=found)
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
