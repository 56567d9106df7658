"""Values of Python from leaves. Trees are made without recursion, however deep they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlang.host.placed import fetched, is_own, placed
from dlang.host.values import bfloat16
from dlang.ir.crossing import (
    NONE,
    Branch,
    Choice,
    Code,
    Fields,
    Items,
    Leaf,
    Part,
    Rows,
    Tree,
    Trees,
    leaf_count,
    leaves_of,
)
from dlang.ir.node import Node
from dlang.ops.dtypes import TRUNCATED


def built(parts: Sequence[Part], leaves: Iterator[Any], trees: Trees = NONE) -> list[Any]:
    """Values of Python from their leaves: `f64`, `i64`, `bool` and `str` are Python's own, other scalars NumPy's."""
    builder = _Builder(trees)
    values = [builder.value(part, leaves) for part in parts]
    builder.finish()
    return values


@dataclass(slots=True)
class _Builder:
    """made: the objects of nodes, so that what two trees share is one; fields come later."""

    trees: Trees
    made: dict[Node, Any] = field(default_factory=dict)
    work: list[tuple[Node, Branch, Any]] = field(default_factory=list)

    def value(self, part: Part, leaves: Iterator[Any]) -> Any:
        match part:
            case Leaf():
                return python_leaf(part, next(leaves))
            case Tree(dtype):
                return self._tree(next(leaves), dtype)
            case Items(()):
                return None
            case Items(items):
                return tuple([self.value(i, leaves) for i in items])
            case Fields(type, items):
                return type(*[self.value(i, leaves) for i in items])
            case Choice(types, variants):
                tag = int(next(leaves))
                rows = [[next(leaves) for x in items for _ in range(leaf_count(x))] for items in variants]
                own, kind = iter(rows[tag]), types[tag]
                return None if kind is None else kind(*[self.value(i, own) for i in variants[tag]])
            case Rows(shape, element):
                own = leaves_of((element,))
                return self._rows(element, [_column(leaf, next(leaves)) for leaf in own], len(shape))
            case Code():
                raise AssertionError("refused before")

    def _rows(self, element: Part, columns: Sequence[Any], depth: int) -> Any:
        if not depth:
            return self.value(element, iter(columns))
        return [self._rows(element, [c[k] for c in columns], depth - 1) for k in range(len(columns[0]))]

    def _tree(self, node: Node, dtype: str) -> Any:
        """The object of a node, perhaps without its fields."""
        branch = self.trees[dtype][node.tag]
        if branch.type is None:
            return None
        if node not in self.made:
            self.made[node] = object.__new__(branch.type)
            self.work.append((node, branch, self.made[node]))
        return self.made[node]

    def finish(self) -> None:
        """Gives the objects of nodes their fields."""
        give = object.__setattr__  # the classes are frozen
        while self.work:
            node, branch, made = self.work.pop()
            leaves = iter([np.array(x) if isinstance(x, np.ndarray) else x for x in node.fields[branch.own :]])
            for name, part in zip(branch.names, branch.items, strict=True):
                give(made, name, self.value(part, leaves))


def _column(leaf: Leaf, values: Any) -> Any:
    """A leaf of all structures of a list. The host reads numbers, since they become those of Python one by one."""
    return fetched(values) if not leaf.shape and placed(values) is not None else values


def python_leaf(leaf: Leaf, value: Any) -> Any:
    """A leaf as Python sees it. A dtype that NumPy does not have is that of `ml_dtypes`, or f32 where this is missing.

    An array that is on a device stays there.
    """
    if leaf.shape and (is_own(type(value)) or placed(value) is not None):
        return value
    if leaf.dtype in TRUNCATED:
        numbers = np.asarray(value, bfloat16() or np.float32)
        return numbers if leaf.shape else numbers[()]
    if leaf.shape:
        return np.asarray(value)
    return value.item() if leaf.dtype in ("f64", "i64", "bool") and hasattr(value, "item") else value
