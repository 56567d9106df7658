"""Values of Python and NumPy as words and memory of compiled code, and back."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlang.codegen.llvm.sites import Signature
from dlang.host.half import from_memory, to_memory
from dlang.ir.errors import IRError
from dlang.ir.node import Node
from dlang.ir.terms import is_handle, is_reference
from dlang.lazy_modules import lazy_module, np
from dlang.ops.dtypes import DTYPES
from dlang.runtime.nodes import NodeMemory
from dlang.runtime.texts import read_text, write_text, write_texts
from dlang.runtime.words import NUMPY, PLAIN, memory_dtype, scalar_class, scalar_of, word_of

if TYPE_CHECKING:
    from dlang.runtime import memory
else:
    memory = lazy_module("dlang.runtime.memory")


ALL_BITS = 2**64 - 1
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

    def scalar(self, word: int, dtype: str, made: Made = None) -> Any:
        """A scalar from a word, unsigned. made: nodes that were read before, which it may hold or be."""
        if dtype == "str":
            return read_text(word)
        if is_handle(dtype):
            return self.nodes.read([word], dtype, made)[0]
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

    def from_memory(self, array: Any, dtype: str, made: Made = None) -> Any:
        """An array from memory: addresses as their texts or nodes, what NumPy does not have in f32."""
        if not is_reference(dtype):
            return from_memory(array, dtype)
        words = array.reshape(-1).tolist()
        out = np.empty(array.shape, object)
        out.reshape(-1)[:] = [read_text(k) for k in words] if dtype == "str" else self.nodes.read(words, dtype, made)
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
        made: dict[int, Node] = {}
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
                out.append(self.from_memory(array, s.dtype, made))
            elif shown and s.dtype in PLAIN:
                out.append(scalar_of(raw[0] & ALL_BITS, s.dtype))
            else:
                out.append(self.scalar(raw[0] & ALL_BITS, s.dtype, made))
            address += 8 * s.words
        return out, address
