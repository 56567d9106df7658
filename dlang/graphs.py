"""Directed graphs: what is reached, strongly connected components, and cycles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping


def reached(starts: Iterable[str], successors: Callable[[str], Iterable[str]]) -> list[str]:
    """The nodes that some lead to, these included, each once and in the order found, depth first."""
    found: dict[str, None] = {}
    work = list(starts)[::-1]
    while work:
        node = work.pop()
        if node not in found:
            found[node] = None
            work += successors(node)
    return list(found)


def components(graph: Mapping[str, Collection[str]], roots: Iterable[str] | None = None) -> list[list[str]]:
    """Those that the roots (by default all nodes) reach, each after those that it leads to, in the order found.

    Without recursion, as call graphs may be deep (Tarjan: Depth-first search and linear graph algorithms, 1972).
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    finished: set[str] = set()
    out: list[list[str]] = []
    work: list[tuple[str, Iterator[str]]] = []

    def enter(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        work.append((node, iter(graph[node])))

    for root in graph if roots is None else roots:
        if root in index:
            continue
        enter(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    enter(successor)
                    break
                if successor not in finished:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    finished.update(component)
                    out.append(component[::-1])
    return out


def in_cycles(graph: Mapping[str, Collection[str]], found: Iterable[Collection[str]]) -> set[str]:
    """The nodes that reach themselves, by the components of a graph."""
    return {node for component in found for node in component if len(component) > 1 or node in graph[node]}
