"""Directed graphs: what is reached, strongly connected components, and cycles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def reached(starts: Iterable[str], successors: Callable[[str], Iterable[str]]) -> list[str]:
    """The nodes that some lead to, these included, each once and in the order found, depth first."""
    seen: dict[str, None] = {}
    work = list(starts)[::-1]
    while work:
        node = work.pop()
        if node not in seen:
            seen[node] = None
            work += successors(node)
    return list(seen)


def components(graph: Mapping[Node, Collection[Node]], roots: Iterable[Node] | None = None) -> list[list[Node]]:
    """Lists the strongly connected components that the roots (by default all nodes) reach, each after those that it
    leads to, in the order found.

    Without recursion, as call graphs may be deep (Tarjan: Depth-first search and linear graph algorithms, 1972).
    """
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    finished: set[Node] = set()
    out: list[list[Node]] = []
    work: list[tuple[Node, Iterator[Node]]] = []

    def enter(node: Node) -> None:
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


def in_cycles(graph: Mapping[Node, Collection[Node]], component_list: Iterable[Collection[Node]]) -> set[Node]:
    """The nodes that reach themselves, by the components of a graph."""
    return {node for component in component_list for node in component if len(component) > 1 or node in graph[node]}
