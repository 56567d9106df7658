"""The names that trees mention, found once for each tree: an editor checks the same declarations again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dlang.grammar import syntax as s
from dlang.typecheck.groups import bound_names, mentioned_among, names_in, types_in

Functions = Mapping[str, s.Fn | s.Const | s.Extern]


class Mentioned(NamedTuple):
    """values, sizes: the names in a tree; types: the capitalised ones; bound: those that it gives a meaning of its own,
    if it is a function."""

    tree: s.Node
    values: frozenset[str]
    sizes: frozenset[str]
    types: frozenset[str]
    bound: frozenset[str]


@dataclass(slots=True)
class Mentions:
    """The names that the trees of one module mention. kept: by the identity of a tree; before: of the check before."""

    before: Mapping[int, Mentioned] = field(default_factory=dict)
    kept: dict[int, Mentioned] = field(default_factory=dict)

    def of(self, tree: s.Node) -> Mentioned:
        found = self.kept.get(id(tree))
        if found is None:
            known = self.before.get(id(tree))
            found = self.kept[id(tree)] = known if known is not None and known.tree is tree else _found(tree)
        return found

    def among(self, functions: Functions, tree: s.Node) -> set[str]:
        """The functions and constants that a tree mentions."""
        found = self.of(tree)
        return mentioned_among(functions, found.values, found.sizes)


def _found(tree: s.Node) -> Mentioned:
    values: set[str] = set()
    sizes: set[str] = set()
    bound: set[str] = set()
    names_in([tree], values, sizes)
    if isinstance(tree, s.Fn):
        bound_names(tree, bound)
    return Mentioned(tree, frozenset(values), frozenset(sizes), frozenset(types_in(tree)), frozenset(bound))
