"""The groups of a module: functions that call one another are checked together (strongly connected components)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass

from dlang.diagnostics import Span
from dlang.grammar import syntax as s

_FIELDS: dict[type, tuple[str, ...]] = {}


def field_names(kind: type) -> tuple[str, ...]:
    known = _FIELDS.get(kind)
    if known is None:
        known = tuple(f.name for f in fields(kind) if f.name not in ("span", "name_span")) if is_dataclass(kind) else ()
        _FIELDS[kind] = known
    return known


def names_in(node: object, used: set[str]) -> None:
    """The names that are mentioned anywhere in a tree, as values or as sizes."""
    stack = [node]
    while stack:
        n = stack.pop()
        if isinstance(n, s.Name | s.SizeName | s.TypeName):
            used.add(n.name)
            if isinstance(n, s.TypeName):
                stack.extend(n.arguments)
        elif isinstance(n, tuple):
            if not isinstance(n, Span):
                stack.extend(n)
        elif isinstance(n, s.Node):
            stack.extend([getattr(n, f) for f in field_names(type(n))])


def components(graph: dict[str, list[str]]) -> list[list[str]]:
    """Tarjan's algorithm, without recursion: each component comes after those that it depends on."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    out: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        work: list[tuple[str, Iterable[str]]] = []

        def enter(v: str, work: list[tuple[str, Iterable[str]]] = work) -> None:
            index[v] = low[v] = len(index)
            stack.append(v)
            on_stack.add(v)
            work.append((v, iter(graph[v])))

        enter(root)
        while work:
            v, successors = work[-1]
            pushed = False
            for w in successors:
                if w not in index:
                    enter(w)
                    pushed = True
                    break
                if w in on_stack:
                    low[v] = min(low[v], index[w])
            if pushed:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[v])
            if low[v] == index[v]:
                component: list[str] = []
                while True:
                    w = stack.pop()
                    on_stack.discard(w)
                    component.append(w)
                    if w == v:
                        break
                out.append(component[::-1])
    return out


def dependency_groups(functions: dict[str, s.Fn | s.Const | s.Extern]) -> list[list[str]]:
    """The functions and constants of a module, in the order in which they are checked."""
    graph: dict[str, list[str]] = {}
    for name, item in functions.items():
        used: set[str] = set()
        if isinstance(item, s.Extern):
            graph[name] = []
            continue
        names_in(item.value if isinstance(item, s.Const) else (item.body, item.parameters, item.result), used)
        own: set[str] = set()
        if isinstance(item, s.Fn):
            bound_names(item, own)
        graph[name] = [f for f in functions if f in used and (f not in own or f == name)] if used else []
    return components(graph)


def bound_names(f: s.Fn, found: set[str]) -> None:
    """Names that parameters and `let`s of a function shadow; a function that is mentioned nevertheless is found when
    its name is looked up."""
    stack: list[object] = [f.parameters, f.body]
    while stack:
        n = stack.pop()
        if isinstance(n, s.PatternName):
            found.add(n.name)
        elif isinstance(n, tuple):
            if not isinstance(n, Span):
                stack.extend(n)
        elif isinstance(n, s.Node):
            if isinstance(n, s.Fn):
                found.add(n.name)
            stack.extend([getattr(n, name) for name in field_names(type(n))])
