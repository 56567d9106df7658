"""Texts that cross the border of compiled code (`codegen/llvm/texts.py` says how they lie in memory).

Those that compiled code gives are in one piece. What is no UTF-8, as half of a pair of surrogates, crosses as Python
writes it when it lets that pass.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from typing import Any

from dlang.codegen.llvm import jit, texts

_ERRORS = "surrogatepass"


def write_text(context: Any, text: str) -> int:
    """The reference to a text that is put at the end of the arena; the empty one is 0. Raises MemoryError."""
    data = str(text).encode("utf-8", _ERRORS)
    made = int(_made()(context.address, data, len(data)))
    if made == texts.FAILED:
        raise MemoryError
    return made


@cache
def _made() -> Any:
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)
    return kind(jit.support_address("dl_text_made"))


def write_texts(context: Any, given: Iterable[Any]) -> list[int]:
    """The references to texts, of which equal ones are put into the arena once. Raises MemoryError."""
    found: dict[str, int] = {}
    out: list[int] = []
    made, address = _made(), context.address
    for each in given:
        text = str(each)
        word = found.get(text)
        if word is None:
            data = text.encode("utf-8", _ERRORS)
            word = found[text] = made(address, data, len(data))
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
