"""Values of Python and NumPy as words and memory of compiled code, and back."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from dlang.codegen.abi import Signature, holds_reference, words
from dlang.codegen.llvm import collector, jit, support, texts
from dlang.host.half import from_memory, to_memory
from dlang.ir.crossing import Node
from dlang.ir.errors import IRError
from dlang.ir.terms import FLOATS, Array, Datatype, Size, Var, Variant, is_handle, is_reference
from dlang.lazy_modules import lazy_module, np
from dlang.ops.dtypes import DTYPES, HALF, TRUNCATED, WHOLE, rounded

if TYPE_CHECKING:
    from dlang.runtime import memory
else:
    memory = lazy_module("dlang.runtime.memory")


# ---- words -----------------------------------------------------------------------------------------------------------
# Scalars as compiled code has them: words of 8 bytes.

NUMPY = {d.name: d.memory for d in DTYPES.values()}
"""The dtypes of NumPy that lie in memory as ours do; of a text and a node its address."""
PLAIN = frozenset(WHOLE) - {"f32"}
"""The dtypes whose numbers have the same text as Python's own."""


def memory_dtype(dtype: str) -> str:
    """The dtype of NumPy of an element in memory."""
    return NUMPY.get(dtype, "int64")


def word_of(value: Any, dtype: str) -> int:
    """A scalar as 8 bytes, signed."""
    if dtype == "f64":
        return int(struct.unpack("<q", struct.pack("<d", float(value)))[0])
    if dtype in FLOATS:
        return int(struct.unpack("<i", struct.pack("<f", rounded(float(value), dtype)))[0])
    word = int(value) & (2**64 - 1)
    return word - 2**64 if word >= 2**63 else word


def scalar_of(word: int, dtype: str) -> Any:
    """A scalar from 8 bytes, unsigned."""
    match DTYPES[dtype].register:
        case "f64":
            return struct.unpack("<d", struct.pack("<Q", word))[0]
        case "f32":
            return struct.unpack("<f", struct.pack("<I", word & 0xFFFFFFFF))[0]
        case "bool":
            return bool(word & 1)
    bits = int(dtype[1:])
    word &= 2**bits - 1
    return word - 2**bits if dtype[0] == "i" and word >= 2 ** (bits - 1) else word


def memory_word(word: int, dtype: str) -> int:
    """A scalar of 8 bytes as an element of an array is in memory."""
    if dtype in TRUNCATED:
        return (word & 0xFFFFFFFF) >> 16
    if dtype == "f16":
        return int(struct.unpack("<H", struct.pack("<e", scalar_of(word, dtype)))[0])
    return word


def register_word(word: int, dtype: str) -> int:
    """A scalar as 8 bytes, from how an element of an array is in memory, unsigned."""
    if dtype in TRUNCATED:
        return word << 16
    if dtype == "f16":
        return int(struct.unpack("<I", struct.pack("<f", struct.unpack("<e", struct.pack("<H", word))[0]))[0])
    return word


def scalar_class(dtype: str) -> Any:
    """The class of NumPy's scalars."""
    return np.dtype(DTYPES[dtype].numpy).type


# ---- texts -----------------------------------------------------------------------------------------------------------
# Texts that cross the border of compiled code (`codegen/llvm/texts.py` says how they lie in memory).
#
# Those that compiled code gives are in one piece. What is no UTF-8, as half of a pair of surrogates, crosses as Python
# writes it when it lets that pass.

_ERRORS = "surrogatepass"


def write_text(context: Any, text: str) -> int:
    """The reference to a text that is put at the end of the arena; the empty one is 0. Raises MemoryError."""
    data = str(text).encode("utf-8", _ERRORS)
    node = int(_made()(context.address, data, len(data)))
    if node == texts.FAILED:
        raise MemoryError
    return node


@cache
def _made() -> Any:
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)
    return kind(jit.support_address("dl_text_made"))


def write_texts(context: Any, given: Iterable[Any]) -> list[int]:
    """The references to texts, of which equal ones are put into the arena once. Raises MemoryError."""
    nodes: dict[str, int] = {}
    out: list[int] = []
    make_text, address = _made(), context.address
    for each in given:
        text = str(each)
        word = nodes.get(text)
        if word is None:
            data = text.encode("utf-8", _ERRORS)
            word = nodes[text] = make_text(address, data, len(data))
            if word == texts.FAILED:
                raise MemoryError
        out.append(word)
    return out


def lasting_text(text: str) -> tuple[int, Any]:
    """The reference to a text outside of arenas, which lives as long as the object beside it."""
    data = text.encode("utf-8", _ERRORS)
    if not data:
        return 0, None
    header, filled = texts.words(data)
    memory = (ctypes.c_int64 * (2 + len(filled) // 8))(header, len(data))
    start = ctypes.addressof(memory)
    ctypes.memmove(start + 16, filled, len(filled))
    return start + 8, memory


def read_text(word: int) -> str:
    """The text of a reference."""
    if not word:
        return ""
    return ctypes.string_at(word + 8, ctypes.c_int64.from_address(word).value).decode("utf-8", _ERRORS)


# ---- nodes -----------------------------------------------------------------------------------------------------------
# Nodes that cross the border of compiled code: written into the arena of a run, and read out of it.
#
# A node outside is a `Node`, as in the reference interpreter. Graphs are walked without recursion, however deep they
# are; what two nodes share they share on the other side too.


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
            node_known = written.get(node)
            if node_known is None:
                node_known = written[node] = room(context, 8 * (len(self.places(dtype, node.tag)) + 1)) + 8
                work.append((node, dtype))
            return node_known

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
    def read(self, roots: Sequence[int], dtype: str, nodes_read: dict[int, Node] | None = None) -> list[Node | None]:
        """The nodes at addresses, which hold copies; null is None. nodes_read: earlier ones, to which it adds."""
        nodes_read = {} if nodes_read is None else nodes_read
        work: list[tuple[int, str]] = []

        def node(address: int, dtype: str) -> Node | None:
            """Returns the node at an address, perhaps without its fields; None for null."""
            if not address:
                return None
            if address not in nodes_read:
                nodes_read[address] = Node(0, ())
                work.append((address, dtype))
            return nodes_read[address]

        nodes = [node(address, dtype) for address in roots]
        while work:
            address, name = work.pop()
            header = ctypes.c_uint64.from_address(address - 8).value
            tag = header >> collector.TAG_SHIFT & collector.TAG_MASK
            places = self.places(name, tag)
            raw = (ctypes.c_uint64 * len(places)).from_address(address)[:]
            nodes_read[address].tag, nodes_read[address].fields = tag, self._fields(places, raw, node)
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


# ---- arguments and results -------------------------------------------------------------------------------------------

Made = dict[int, Node] | None


@dataclass(frozen=True, slots=True)
class Marshal:
    """The way in which values cross. context: of the run, in whose memory texts, nodes and blocks are made."""

    nodes: NodeMemory
    context: Any

    # ---- scalars -----------------------------------------------------------------------------------------------------
    def word(self, value: Any, dtype: str) -> int:
        """A scalar as a word: a text and a node are their addresses."""
        if dtype == "str":
            return write_text(self.context, value)
        if is_handle(dtype):
            return self.nodes.write(self.context, [value], dtype)[0]
        return word_of(value, dtype)

    def scalar(self, word: int, dtype: str, nodes_read: Made = None) -> Any:
        """A scalar from a word, unsigned. nodes_read: nodes that were read before, which it may hold or be."""
        if dtype == "str":
            return read_text(word)
        if is_handle(dtype):
            return self.nodes.read([word], dtype, nodes_read)[0]
        return scalar_class(dtype)(scalar_of(word, dtype))

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def array(self, value: Any, dtype: str, shape: tuple[int, ...], name: str) -> Any:
        """An array of NumPy with elements as they lie in memory, in a row. Raises IRError unless it has the shape."""
        if is_reference(dtype) or not DTYPES[dtype].in_numpy:
            array = self.to_memory(value, dtype)
        else:
            array = value
            ready = type(value) is np.ndarray and value.dtype == NUMPY[dtype]
            if not (ready and value.flags.c_contiguous and value.flags.aligned):
                array = np.require(value, NUMPY[dtype], ["C", "A"])
        if array.shape != shape:
            raise IRError(f"{name} has the shape {array.shape}, not {shape}")
        return array

    def to_memory(self, array: Any, dtype: str) -> Any:
        """An array as it lies in memory: texts and nodes as their addresses, what NumPy does not have as bits."""
        if not is_reference(dtype):
            return to_memory(array, dtype)
        given = np.asarray(array, object)
        objects = list(given.reshape(-1))
        if dtype == "str":
            words = write_texts(self.context, objects)
        else:
            words = self.nodes.write(self.context, objects, dtype)
        return np.array(words, np.int64).reshape(given.shape)

    def from_memory(self, array: Any, dtype: str, nodes_read: Made = None) -> Any:
        """An array from memory: addresses as their texts or nodes, what NumPy does not have in f32."""
        if not is_reference(dtype):
            return from_memory(array, dtype)
        words = array.reshape(-1).tolist()
        out = np.empty(array.shape, object)
        out.reshape(-1)[:] = (
            [read_text(k) for k in words] if dtype == "str" else self.nodes.read(words, dtype, nodes_read)
        )
        return out

    def hand_in(self, value: Any, dtype: str) -> int:
        """The address of a block of the run with an array. Raises MemoryError."""
        array = np.ascontiguousarray(self.to_memory(value, dtype), memory_dtype(dtype))
        address = memory.block(self.context, array.nbytes)
        if not address:
            raise MemoryError
        ctypes.memmove(address, array.ctypes.data, array.nbytes)
        return address

    # ---- what compiled code has written ------------------------------------------------------------------------------
    def read(self, address: int, signatures: Sequence[Signature], shown: bool = False) -> tuple[list[Any], int]:
        """Values that compiled code has written, and the address behind them; what they share they go on to share.

        shown: they become text, which is the same for numbers of Python's own.
        """
        out: list[Any] = []
        nodes_read: dict[int, Node] = {}
        for s in signatures:
            raw = (ctypes.c_int64 * s.words).from_address(address)
            if s.rank:
                shape = tuple(raw[1:])
                count = 1
                for size in shape:
                    count *= size
                kind = np.dtype(memory_dtype(s.dtype))
                data: Any = (ctypes.c_char * (count * kind.itemsize)).from_address(raw[0])
                array = np.frombuffer(data, kind).reshape(shape)
                out.append(self.from_memory(array, s.dtype, nodes_read))
            elif shown and s.dtype in PLAIN:
                out.append(scalar_of(raw[0] & ALL_BITS, s.dtype))
            else:
                out.append(self.scalar(raw[0] & ALL_BITS, s.dtype, nodes_read))
            address += 8 * s.words
        return out, address
