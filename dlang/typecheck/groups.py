"""The groups of a module: functions that call one another are checked together (strongly connected components)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from dlang import graphs
from dlang.grammar import syntax as s
from dlang.grammar.syntax import walk
from dlang.identity import ByIdentity

Written = s.Struct | s.Enum | s.Alias


def names_in(nodes: Iterable[s.Node | None], used: set[str], sizes: set[str] | None = None) -> None:
    """Adds the names that are mentioned anywhere in trees, as values or as sizes. A type is no value: `f64` in a
    signature does not mention a function of that name. sizes: gets the names of sizes apart, if it is given."""
    sizes = used if sizes is None else sizes
    for n in walk(*nodes):
        match n:
            case s.Name(name=name):
                used.add(name)
            case s.SizeName(name=name):
                sizes.add(name)
            case s.TypeName(arguments=arguments):
                sizes.update(a.name for a in arguments if isinstance(a, s.TypeName) and not a.arguments)


def mentioned(functions: Mapping[str, s.Fn | s.Const | s.Extern], *nodes: s.Node | None) -> set[str]:
    """The functions and constants that trees mention; only a constant can be a size."""
    used: set[str] = set()
    sizes: set[str] = set()
    names_in(nodes, used, sizes)
    return mentioned_among(functions, used, sizes)


def mentioned_among(functions: Mapping[str, s.Fn | s.Const | s.Extern], used: Set[str], sizes: Set[str]) -> set[str]:
    """The functions and constants among the names in trees; only a constant can be a size."""
    return (functions.keys() & used) | {n for n in functions.keys() & sizes if isinstance(functions[n], s.Const)}


def reached(names: set[str], functions: Mapping[str, s.Fn | s.Const | s.Extern]) -> set[str]:
    """The functions and constants that some need, directly or through others."""
    return set(graphs.reached(names, lambda name: mentioned(functions, functions[name])))


def types_in(node: s.Node) -> set[str]:
    """The capitalised names in a tree: types and constructors."""
    named = (s.Name, s.TypeName, s.PatternConstructor)
    return {n.name for n in walk(node) if isinstance(n, named) and n.name[:1].isupper()}


def dependency_groups(functions: dict[str, s.Fn | s.Const | s.Extern], mentions: Mentions) -> list[list[str]]:
    """The functions and constants of a module, in the order in which they are checked."""
    graph: dict[str, list[str]] = {}
    place = {name: number for number, name in enumerate(functions)}
    for name, item in functions.items():
        if isinstance(item, s.Extern):
            graph[name] = []
            continue
        written = item.value if isinstance(item, s.Const) else item
        used = mentions.among(functions, written)
        graph[name] = sorted(used - (mentions.of(written).bound - {name}), key=place.__getitem__)
    return graphs.components(graph)


def type_groups(written: list[Written], mentions: Mentions) -> list[list[Written]]:
    """The data types of a module, in the order in which they are declared: each with those that mention it and that it
    mentions. An alias may mention only aliases above it, so all aliases are in one group; and all types are, where a
    name is given twice."""
    named: dict[str, int] = {}
    for number, d in enumerate(written):
        for name in names_given(d):
            if named.setdefault(name, number) != number:
                return [written]
    graph = {
        str(number): sorted({str(named[n]) for n in mentions.of(d).types if n in named}, key=int)
        for number, d in enumerate(written)
    }
    aliases = [str(number) for number, d in enumerate(written) if isinstance(d, s.Alias)]
    for above, alias in pairwise(aliases):  # a circle of all of them
        graph[above].append(alias)
    if len(aliases) > 1:
        graph[aliases[-1]].append(aliases[0])
    return [[written[k] for k in sorted(map(int, group))] for group in graphs.components(graph)]


def names_given(d: Written) -> list[str]:
    """The names that the declaration of a data type gives: its own, and those of its constructors."""
    return [d.name, *([c.name for c in d.constructors if c.name != d.name] if isinstance(d, s.Enum) else [])]


def bound_names(f: s.Fn, names: set[str]) -> None:
    """Names that parameters and `let`s of a function shadow; a function that is mentioned nevertheless is found when
    its name is looked up."""
    for n in walk(*f.parameters, f.body):
        if isinstance(n, s.PatternName | s.Fn):
            names.add(n.name)


# ---- the names that trees mention ------------------------------------------------------------------------------------
# The names that trees mention, found once for each tree: an editor checks the same declarations again and again.

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
        mentions = self.kept.get(tree)
        if mentions is None:
            mentions = self.kept[tree] = self.before.get(tree) or _found(tree)
        return mentions

    def among(self, functions: Functions, tree: s.Node) -> set[str]:
        """The functions and constants that a tree mentions."""
        mentions = self.of(tree)
        return mentioned_among(functions, mentions.values, mentions.sizes)


def _found(tree: s.Node) -> Mentioned:
    values: set[str] = set()
    sizes: set[str] = set()
    bound: set[str] = set()
    names_in([tree], values, sizes)
    if isinstance(tree, s.Fn):
        bound_names(tree, bound)
    return Mentioned(frozenset(values), frozenset(sizes), frozenset(types_in(tree)), frozenset(bound))
