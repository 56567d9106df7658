"""Rebuilds a checked tree where inference left something open: joined sizes, recursive references, arrays read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from dlang.diagnostics import Span
from dlang.typecheck import core
from dlang.typecheck.terms import identity, of_var, opened_in
from dlang.typecheck.types import Size, SizeVar, TypeData, Variant, resolve_size

_FIELDS: dict[type, tuple[str, ...]] = {}
_LEAVES = (str, int, float, bool, Span, Size, core.Local, core.FnDecl, Variant, TypeData)


def finished(e: core.Expr) -> core.Expr:
    """The tree with what is now known filled in."""
    out: core.Expr = rebuilt(e)
    return out


def rebuilt(node: Any) -> Any:
    if isinstance(node, tuple):
        if isinstance(node, Span):
            return node
        parts = tuple([rebuilt(n) for n in node])
        return node if all(a is b for a, b in zip(parts, node, strict=True)) else parts
    kind = type(node)
    if kind.__module__ != core.__name__ or isinstance(node, core.Local):
        return node
    if isinstance(node, core.FnDecl):
        if node.local and node.body is not None:
            node.body = rebuilt(node.body)
            node.params = rebuilt(node.params)
        return node
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f.name for f in fields(kind) if f.name not in ("type", "span", "size", "opened"))
    changes = {}
    for name in _FIELDS[kind]:
        if isinstance(node, core.FnRef) and name == "decl":
            continue
        old = getattr(node, name)
        new = rebuilt(old)
        if new is not old:
            changes[name] = new
    match node:
        case core.FnRef(decl=decl, instance=()) if decl.variables:
            changes["instance"] = tuple((v, identity(v)) for v in decl.variables if v not in decl.opened)
        case core.If(opened=opened) | core.Match(opened=opened) if opened:
            found = tuple(dict.fromkeys(v for c in opened if (v := opened_by_join(c)) is not None))
            if found != opened:
                changes["opened"] = found
        case core.Builtin(name=name) if name.startswith("read_") and not node.opened:
            changes["opened"] = tuple(opened_in(node.type))
        case _:
            pass
    return replace(node, **changes) if changes else node


def opened_by_join(candidate: SizeVar) -> SizeVar | None:
    """The opened size that a joined axis turned out to be; None if its branches agree."""
    if candidate.ref is None and candidate.opened:
        return candidate
    atom = resolve_size(of_var(candidate)).poly.atom
    if isinstance(atom, SizeVar) and atom.opened and atom.origin is not None and "branches" in atom.origin.text:
        return atom
    return None


def checked(node: Any, at: Mapping[int, core.As]) -> Any:
    """A tree with checks around nodes, by their identity; local functions are changed where they are."""
    if isinstance(node, tuple):
        if isinstance(node, Span):
            return node
        parts = tuple([checked(n, at) for n in node])
        return node if all(a is b for a, b in zip(parts, node, strict=True)) else parts
    kind = type(node)
    if kind.__module__ != core.__name__ or isinstance(node, core.Local | core.FnRef):
        return node
    if isinstance(node, core.FnDecl):
        if node.local and node.body is not None:
            node.body, node.params = checked(node.body, at), checked(node.params, at)
        return node
    changes = {}
    for f in fields(kind):
        if f.name not in ("type", "span", "size", "opened"):
            old = getattr(node, f.name)
            new = checked(old, at)
            if new is not old:
                changes[f.name] = new
    whole = replace(node, **changes) if changes else node
    return replace(at[id(node)], value=whole) if id(node) in at else whole
