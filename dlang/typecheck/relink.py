"""Makes checked trees mention other declarations: those of functions that were edited and have the same interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from dlang.typecheck import core
from dlang.typecheck.scope import FnEntry
from dlang.typecheck.trees import rebuilt

T = TypeVar("T")


def relinked(entries: Mapping[str, FnEntry], to: Mapping[core.FnDecl, core.FnDecl]) -> dict[str, FnEntry]:
    """A group of functions that calls other declarations: copies, because what was checked before stays as it is."""
    link = Linker(dict(to))
    out = {n: replace(e, decl=link.copied(e.decl)) for n, e in entries.items()}
    for entry in out.values():
        link.fill(entry.decl)
    return out


def relinked_block(decl: core.FnDecl, to: Mapping[core.FnDecl, core.FnDecl]) -> core.FnDecl:
    """A test that calls other declarations."""
    link = Linker(dict(to))
    copy = link.copied(decl)
    link.fill(copy)
    return copy


class Linker:
    def __init__(self, to: dict[core.FnDecl, core.FnDecl]) -> None:
        self.to = to

    def copied(self, decl: core.FnDecl) -> core.FnDecl:
        self.to[decl] = replace(decl, rules={})
        return self.to[decl]

    def fill(self, decl: core.FnDecl) -> None:
        decl.params, decl.body = self.node(decl.params), self.node(decl.body)

    def node(self, tree: T) -> T:
        return rebuilt(tree, self.linked)

    def linked(self, _: Any, node: Any) -> Any:
        match node:
            case core.LocalFn(decl=decl):
                copy = self.copied(decl)
                self.fill(copy)
                return replace(node, decl=copy)
            case core.FnRef(decl=decl, instance=instance) if decl in self.to:
                new = self.to[decl]
                variables = dict(zip(decl.variables, new.variables, strict=True))
                return replace(node, decl=new, instance=tuple([(variables[v], t) for v, t in instance]))
            case core.Foreign(decl=decl) if decl in self.to:
                return replace(node, decl=self.to[decl])
        return node
