"""The names that trees mention, found once for each tree: an editor checks the same declarations again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dlang.grammar import syntax as s
from dlang.identity import ByIdentity
from dlang.typecheck.groups import bound_names, mentioned_among, names_in, types_in

Functions = Mapping[str, s.Fn | s.Const | s.Extern]


class Mentioned(NamedTuple):
    """values, sizes: the names in a tree; types: the capitalised ones; bound: those that it gives a meaning of its own,
    if it is a function."""

    values: frozenset[str]
    sizes: frozenset[str]
    types: frozenset[str]
    bound: frozenset[str]


@dataclass(slots=True)
class Mentions:
    """The names that the trees of one module mention. kept: by the identity of a tree; before: of the check before."""

    before: ByIdentity[s.Node, Mentioned] = field(default_factory=ByIdentity)
    kept: ByIdentity[s.Node, Mentioned] = field(default_factory=ByIdentity)

    def of(self, tree: s.Node) -> Mentioned:
        found = self.kept.get(tree)
        if found is None:
            found = self.kept[tree] = self.before.get(tree) or _found(tree)
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
    return Mentioned(frozenset(values), frozenset(sizes), frozenset(types_in(tree)), frozenset(bound))
