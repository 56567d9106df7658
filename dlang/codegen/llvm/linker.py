"""Machine code into this process by LLVM's linker, for every system that LLVM knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

from dlang.codegen.llvm import objects
from dlang.lazy_modules import llvm

_names = count(1)


@dataclass(frozen=True, slots=True)
class Library:
    """An object in memory, which is given back when this dies. addresses: of the symbols that were asked for."""

    tracker: Any
    addresses: dict[str, int]


def load(code: bytes, symbols: Mapping[str, int], wanted: Sequence[str]) -> Library:
    """Links an object into the process. symbols: the addresses of all that it may refer to."""
    builder = llvm.JITLibraryBuilder().add_object_img(code)
    for name, address in symbols.items():
        builder.import_symbol(name, address)
    for name in wanted:
        builder.export_symbol(name)
    tracker = builder.link(_jit(), f"dlang.{next(_names)}")
    return Library(tracker, {name: int(tracker[name]) for name in wanted})


@cache
def _jit() -> Any:
    objects.target()
    return llvm.create_lljit_compiler()
