"""Values of Python as leaves, and back. Trees are taken apart and made without recursion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlang.host.classes import fields_of, same_class
from dlang.host.placed import Placed, fetched, is_own, placed
from dlang.host.values import NUMPY, as_array, bfloat16, dtype_name, is_taken, number, texts, widened
from dlang.identity import ByIdentity
from dlang.ir.crossing import (
    NONE,
    Branch,
    Choice,
    Code,
    Fields,
    Items,
    Leaf,
    Node,
    Part,
    Rows,
    Tree,
    Trees,
    leaf_count,
    leaves_of,
)
from dlang.ops.dtypes import TRUNCATED


class _Zero:
    """Stands for a leaf of a variant that a value is not of: its sizes may not be known yet."""


_ZERO = _Zero()


def flattened(
    parts: Sequence[tuple[Part, Any]], sizes: list[int | None], trees: Trees = NONE, device: bool = False
) -> list[Any] | None:
    """The leaves of values, which learn the sizes that are not known; None if one is of another type.

    The caller's arrays are not copied, but where they are in trees. A value that holds itself is of no type. device:
    arrays may be on one, where they stay unless they are in trees or in lists.
    """
    flat = _Flattener(trees, device)
    out: list[Any] = []
    for part, value in parts:
        if not flat.value(part, value, sizes, out):
            return None
    if not flat.finish():
        return None
    return _filled([part for part, _ in parts], out, sizes)


@dataclass(slots=True)
class _Flattener:
    """nodes: those of values, by the datatype and these; their fields come later.

    shared: whether a value was met again, so that one may hold itself.
    """

    trees: Trees
    device: bool
    nodes: defaultdict[str, ByIdentity[Any, Node]] = field(default_factory=lambda: defaultdict(ByIdentity))
    work: list[tuple[Any, str, Node]] = field(default_factory=list)
    branches: dict[tuple[type, str], int | None] = field(default_factory=dict)
    shared: bool = False

    def value(self, part: Part, value: Any, sizes: list[int | None], out: list[Any]) -> bool:
        """Appends the leaves of a value; False if it is of another type."""
        match part:
            case Leaf():
                leaf = _inward(part, value, sizes, self.device)
                out.append(leaf)
                return leaf is not None
            case Tree(dtype):
                out.append(self._tree(value, dtype))
                return True
            case Items(()):
                return value is None or (isinstance(value, tuple) and not value)
            case Items(items):
                if not isinstance(value, tuple) or len(value) != len(items):
                    return False
                return self._parts(items, value, sizes, out)
            case Fields(wanted, items):
                return same_class(type(value), wanted) and self._parts(items, _fields(value, wanted), sizes, out)
            case Choice(types, variants):
                tag = tag_of(value, types)
                if tag is None:
                    return False
                out.append(np.int64(tag))
                for k, (variant, parts) in enumerate(zip(types, variants, strict=True)):
                    if k != tag:
                        out += [_ZERO] * sum(map(leaf_count, parts))
                    elif not self._parts(parts, _fields(value, variant), sizes, out):
                        return False
                return True
            case Rows(shape, element):
                columns: list[list[Any]] = [[] for _ in range(leaf_count(element))]
                out += columns
                return self._gather(element, value, shape, sizes, columns)
            case Code():
                raise AssertionError("refused before")

    def _parts(self, parts: Sequence[Part], values: Sequence[Any], sizes: list[int | None], out: list[Any]) -> bool:
        return all(self.value(part, value, sizes, out) for part, value in zip(parts, values, strict=True))

    def _gather(
        self, element: Part, value: Any, shape: tuple[int, ...], sizes: list[int | None], columns: list[list[Any]]
    ) -> bool:
        """The leaves of the structures in a list, nested for several axes; a column is nested as deeply."""
        if not isinstance(value, list) or not _agree(sizes, shape[0], len(value)):
            return False
        for v in value:
            if shape[1:]:
                row: list[Any] = [[] for _ in columns]
                fits = self._gather(element, v, shape[1:], sizes, row)
            else:
                row = []
                fits = self.value(element, v, sizes, row)
            if not fits:
                return False
            for column, leaf in zip(columns, row, strict=True):
                column.append(leaf)
        return True

    # ---- nodes ----
    def _tree(self, value: Any, dtype: str) -> Node:
        """The node of a value, perhaps without its fields."""
        nodes = self.nodes[dtype]
        node = nodes.get(value)
        if node is None:
            node = nodes[value] = Node(0, ())
            self.work.append((value, dtype, node))
        else:
            self.shared = True
        return node

    def finish(self) -> bool:
        """Gives the nodes their fields; False if a value is of another type, or holds itself."""
        while self.work:
            value, dtype, node = self.work.pop()
            kind = type(value), dtype
            if kind not in self.branches:
                self.branches[kind] = tag_of(value, [b.type for b in self.trees[dtype]])
            tag = self.branches[kind]
            if tag is None:
                return False
            branch = self.trees[dtype][tag]
            sizes: list[int | None] = [*[None] * branch.own, *branch.literals]
            leaves: list[Any] = []
            if not self._parts(branch.items, [getattr(value, n) for n in branch.names], sizes, leaves):
                return False
            node.tag, node.fields = tag, self._node_fields(branch, leaves, sizes)
        return not self.shared or not _has_cycle([node for nodes in self.nodes.values() for _, node in nodes.items()])

    def _node_fields(self, branch: Branch, leaves: list[Any], sizes: list[int | None]) -> tuple[Any, ...]:
        if not branch.own and not branch.literals:
            return tuple(leaves)  # scalars and nodes
        sizes_of_branch = [np.int64(n or 0) for n in sizes[: branch.own]]
        filled = _filled(branch.items, leaves, sizes)
        return (*sizes_of_branch, *[np.array(x) if isinstance(x, np.ndarray) else _on_host(x) for x in filled])


def _has_cycle(nodes: Iterable[Node]) -> bool:
    """Tells whether a node holds itself: removes nodes that hold only removed ones, and looks whether some remain."""
    holders: dict[Node, list[Node]] = {}
    waiting: dict[Node, int] = {}
    free: list[Node] = []
    for node in nodes:
        held = list(held_nodes(node))
        waiting[node] = len(held)
        for h in held:
            holders.setdefault(h, []).append(node)
        if not held:
            free.append(node)
    left = len(waiting)
    while free:
        left -= 1
        for holder in holders.get(free.pop(), ()):
            waiting[holder] -= 1
            if not waiting[holder]:
                free.append(holder)
    return left > 0


def held_nodes(node: Node) -> Iterator[Node]:
    """The nodes that a node holds, also in arrays."""
    for f in node.fields:
        if isinstance(f, Node):
            yield f
        elif isinstance(f, np.ndarray) and f.dtype == object:
            yield from [n for n in f.reshape(-1) if isinstance(n, Node)]


# ---- leaves that wait for sizes --------------------------------------------------------------------------------------
def _filled(parts: Sequence[Part], leaves: Sequence[Any], sizes: Sequence[int | None]) -> list[Any]:
    """The leaves, now that all sizes are known: columns are arrays, and what does not count is zero."""
    return [_settled(leaf, value, sizes) for leaf, value in zip(leaves_of(parts), leaves, strict=True)]


def _settled(leaf: Leaf, value: Any, sizes: Sequence[int | None]) -> Any:
    if not isinstance(value, list) and value is not _ZERO:
        return value
    whole = np.full([sizes[k] or 0 for k in leaf.shape], *_zero(leaf.dtype))
    if value is _ZERO:
        return whole if leaf.shape else whole[()]
    _fill(whole, value, ())
    return whole


def _fill(whole: Any, value: Any, at: tuple[int, ...]) -> None:
    if isinstance(value, list):
        for k, v in enumerate(value):
            _fill(whole, v, (*at, k))
    elif value is not _ZERO:
        whole[at] = _on_host(value)


def _on_host(leaf: Any) -> Any:
    """A leaf of what is in the memory of the host, whatever it is in."""
    return leaf if isinstance(leaf, np.ndarray | np.generic | Node) or placed(leaf) is None else fetched(leaf)


def _zero(dtype: str) -> tuple[Any, Any]:
    """The zero of a dtype, and the dtype of NumPy that holds it. That of a node is null, which is None."""
    if dtype in NUMPY:
        return 0, NUMPY[dtype]
    return (0, np.float32) if dtype in TRUNCATED else ("" if dtype == "str" else None, object)


# ---- values ----------------------------------------------------------------------------------------------------------
_EXACT: dict[str, tuple[type, Any]] = {"f64": (float, np.float64), "bool": (bool, np.bool_), "str": (str, str)}


def _inward(part: Leaf, value: Any, sizes: list[int | None], device: bool) -> Any:
    """A scalar or an array of the dtype and sizes, or None."""
    dtype = part.dtype
    if not part.shape:
        exact = _EXACT.get(dtype)
        if exact is not None and type(value) is exact[0]:
            return exact[1](value)
        if dtype == "str":
            return str(value) if isinstance(value, str) else None
        return number(value, dtype)
    if dtype == "str":
        array = texts(value)
    else:
        array = as_array(value, dtype, device)
        if array is None or not is_taken(dtype_name(array.dtype), dtype):
            return None
    if array is None or array.ndim != len(part.shape):
        return None
    if not all(_agree(sizes, *pair) for pair in zip(part.shape, array.shape, strict=True)):
        return None
    if dtype != "str":
        array = widened(array, dtype)
    return array.value if isinstance(array, Placed) else array


def _agree(sizes: list[int | None], position: int, actual: int) -> bool:
    if sizes[position] is None:
        sizes[position] = actual
    return sizes[position] == actual


def _fields(value: Any, wanted: type | None) -> list[Any]:
    """Returns the fields of an object of a class of ours; none if the class is None."""
    return [getattr(value, name) for name in fields_of(wanted)]


def tag_of(value: Any, types: Sequence[type | None]) -> int | None:
    """Returns the position of the variant that a value is of; None if it is of none."""
    for k, t in enumerate(types):
        if value is None if t is None else same_class(type(value), t):
            return k
    return None


# ---- values from leaves ----------------------------------------------------------------------------------------------
# Values of Python from leaves. Trees are made without recursion, however deep they are.


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
                row, kind = iter(rows[tag]), types[tag]
                return None if kind is None else kind(*[self.value(i, row) for i in variants[tag]])
            case Rows(shape, element):
                row = leaves_of((element,))
                return self._rows(element, [_column(leaf, next(leaves)) for leaf in row], len(shape))
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
            node, branch, value = self.work.pop()
            leaves = iter([np.array(x) if isinstance(x, np.ndarray) else x for x in node.fields[branch.own :]])
            for name, part in zip(branch.names, branch.items, strict=True):
                give(value, name, self.value(part, leaves))


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
