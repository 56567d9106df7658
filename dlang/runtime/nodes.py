"""Nodes that cross the border of compiled code: written into the arena of a run, and read out of it.

A node outside is a `Node`, as in the reference interpreter. Graphs are walked without recursion, however deep they are;
what two nodes share they share on the other side too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlang.codegen.llvm import collector, jit, support
from dlang.codegen.node_layout import holds_reference, words
from dlang.host.half import from_memory, to_memory
from dlang.ir.node import Node
from dlang.ir.terms import Array, Datatype, Size, Var, Variant, is_handle, is_reference
from dlang.lazy_modules import np
from dlang.ops.dtypes import DTYPES, HALF
from dlang.runtime.texts import read_text, write_text, write_texts
from dlang.runtime.words import memory_dtype, scalar_class, scalar_of, word_of


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a field in a node. shape: None for a scalar."""

    var: Var
    dtype: str
    word: int
    shape: tuple[Size, ...] | None
    is_reference: bool


Address = Callable[[Node | None, str], int]
ALL_BITS = 2**64 - 1


@dataclass(slots=True)
class NodeMemory:
    """The layout of a program's nodes in memory."""

    datatypes: Mapping[str, Datatype]
    _places: dict[tuple[str, int], tuple[Place, ...]] = field(default_factory=dict)

    def places(self, dtype: str, tag: int) -> tuple[Place, ...]:
        """The fields of a variant, in order."""
        key = dtype, tag
        if key not in self._places:
            self._places[key] = tuple(_places(self.datatypes[dtype].variants[tag]))
        return self._places[key]

    # ---- into the arena ----
    def write(self, context: Any, roots: Sequence[Node | None], dtype: str) -> list[int]:
        """The addresses of nodes that are put at the end of the arena; 0 for null. Raises MemoryError."""
        written: dict[Node, int] = {}
        work: list[tuple[Node, str]] = []

        def address(node: Node | None, dtype: str) -> int:
            """Returns the address of a node, perhaps before its fields are written; 0 for null."""
            if node is None:
                return 0
            found = written.get(node)
            if found is None:
                found = written[node] = room(context, 8 * (len(self.places(dtype, node.tag)) + 1)) + 8
                work.append((node, dtype))
            return found

        addresses = [address(n, dtype) for n in roots]
        while work:
            node, name = work.pop()
            places = self.places(name, node.tag)
            raw = [0] * (len(places) + 1)
            raw[0] = collector.node_header(node.tag, sum([p.is_reference for p in places]), len(places))
            for p, value in zip(places, node.fields, strict=True):
                raw[p.word + 1] = self._word(context, p, value, address) & ALL_BITS
            target: Any = (ctypes.c_uint64 * len(raw)).from_address(written[node] - 8)
            target[:] = raw
        return addresses

    def _word(self, context: Any, p: Place, value: Any, address: Address) -> int:
        if p.shape is not None:
            return self._write_array(context, p, value, address)
        if p.dtype == "str":
            return write_text(context, value)
        if p.is_reference:
            return address(value, p.dtype)
        if p.dtype in HALF:
            numbers = np.asarray(value, DTYPES[p.dtype].numpy)
            return int(to_memory(numbers, p.dtype).view(np.uint16))
        return word_of(value, p.dtype)

    def _write_array(self, context: Any, p: Place, value: Any, address: Address) -> int:
        if is_handle(p.dtype):
            data: Any = np.array([address(n, p.dtype) for n in np.asarray(value, object).reshape(-1)], np.int64)
        elif p.dtype == "str":
            data = np.array(write_texts(context, np.asarray(value, object).reshape(-1)), np.int64)
        else:
            data = to_memory(value, p.dtype)
        data = np.ascontiguousarray(data, memory_dtype(p.dtype))
        bytes = -(-data.nbytes // 8) * 8
        start = room(context, bytes + 8)
        kind = collector.OF_REFERENCES if is_reference(p.dtype) else collector.ARRAY
        ctypes.c_uint64.from_address(start).value = bytes | kind
        ctypes.memmove(start + 8, data.ctypes.data, data.nbytes)
        return start + 8

    # ---- out of the arena ----
    def read(self, roots: Sequence[int], dtype: str, made: dict[int, Node] | None = None) -> list[Node | None]:
        """The nodes at addresses; null is None. They hold copies. made: those that there are, to which others come."""
        made = {} if made is None else made
        work: list[tuple[int, str]] = []

        def node(address: int, dtype: str) -> Node | None:
            """Returns the node at an address, perhaps without its fields; None for null."""
            if not address:
                return None
            if address not in made:
                made[address] = Node(0, ())
                work.append((address, dtype))
            return made[address]

        nodes = [node(address, dtype) for address in roots]
        while work:
            address, name = work.pop()
            header = ctypes.c_uint64.from_address(address - 8).value
            tag = header >> collector.TAG_SHIFT & collector.TAG_MASK
            places = self.places(name, tag)
            raw = (ctypes.c_uint64 * len(places)).from_address(address)[:]
            made[address].tag, made[address].fields = tag, self._fields(places, raw, node)
        return nodes

    def _fields(
        self, places: tuple[Place, ...], raw: Sequence[int], node: Callable[[int, str], Node | None]
    ) -> tuple[Any, ...]:
        """Returns the values of a node's fields."""
        sizes: dict[Var, int] = {}
        values: list[Any] = []
        for p in places:
            word = raw[p.word]
            if p.shape is not None:
                array = _array(word, [int(s.evaluate(sizes.__getitem__)) for s in p.shape], p.dtype)
                values.append(self._outward(array, p.dtype, node))
            elif is_handle(p.dtype):
                values.append(node(word, p.dtype))
            else:
                values.append(self._scalar(word, p.dtype))
                if p.dtype == "i64":
                    sizes[p.var] = int(values[-1])
        return tuple(values)

    def _scalar(self, word: int, dtype: str) -> Any:
        if dtype == "str":
            return read_text(word)
        if dtype in HALF:
            bits = np.array(word & 0xFFFF, np.uint16).view(DTYPES[dtype].memory)
            return from_memory(bits, dtype).reshape(())[()]
        return scalar_class(dtype)(scalar_of(word, dtype))

    def _outward(self, array: Any, dtype: str, node: Callable[[int, str], Node | None]) -> Any:
        if not is_reference(dtype):
            return from_memory(array, dtype)
        out = np.empty(array.shape, object)
        words = array.reshape(-1).tolist()
        out.reshape(-1)[:] = [read_text(k) if dtype == "str" else node(k, dtype) for k in words]
        return out


def _places(variant: Variant) -> Iterator[Place]:
    for var, word in zip(variant.fields, words(variant), strict=True):
        t: Any = var.type
        shape = t.shape if isinstance(t, Array) else None
        yield Place(var, t.dtype, word, shape, holds_reference(var))


def _array(address: int, shape: Sequence[int], dtype: str) -> Any:
    """A copy of an array in the arena."""
    kind = np.dtype(memory_dtype(dtype))
    count = int(np.prod(shape, dtype=np.int64))
    data: Any = (ctypes.c_char * (count * kind.itemsize)).from_address(address)
    return np.frombuffer(data, kind).reshape(shape).copy()


def room(context: Any, bytes: int) -> int:
    """The address of so many bytes at the end of the arena. Raises MemoryError."""
    top = int(context.words[support.ARENA_TOP])
    end = top + bytes
    if end > context.words[support.ARENA_LIMIT] and not _grow()(context.address, end):
        raise MemoryError
    context.words[support.ARENA_TOP] = end
    return top


def _grow() -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int64)(jit.support_address("dl_grow"))
