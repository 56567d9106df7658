"""Machine code into this process, as a linker does it: objects of ELF for x86-64, on Linux.

Debuggers and profilers of the system are told of compiled code. GDB is told where code is by the interface that LLVM
has for that: an image of the object whose sections have the addresses at which they lie, in a list that GDB reads.
perf has a file in which it looks for the names and addresses of functions.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dlang.drafts import add, appending
from dlang.host.platform import portable
from dlang.lazy_modules import lazy_module

if TYPE_CHECKING:
    import tempfile
else:
    tempfile = lazy_module("tempfile")

MAGIC = b"\x7fELF\x02\x01"  # of 64 bits, little-endian
X86_64 = 62  # a machine
SYMBOLS, RELOCATIONS, NO_BITS = 2, 4, 8  # types of sections
WRITE, ALLOCATE, EXECUTE = 1, 2, 4  # flags of sections
FUNCTION = 2  # a type of symbols
UNDEFINED, ABSOLUTE, RESERVED = 0, 0xFFF1, 0xFF00  # in place of a section of a symbol; from RESERVED on none is one


class Section(NamedTuple):
    """link, info: of symbols, their names; of relocations, their symbols and what they are applied to."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class Symbol(NamedTuple):
    name: str
    type: int
    section: int
    value: int
    size: int


class Relocation(NamedTuple):
    """symbol: its number in the table that the section of relocations links to."""

    offset: int
    type: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class Elf:
    """Raises `struct.error` where it is cut off, OverflowError where it names a place that no file has."""

    data: bytes | mmap.mmap

    def header(self) -> tuple[int, int, int]:
        """Returns the offset of the section table, the size of an entry in bytes, and the number of entries."""
        (offset,) = struct.unpack_from("<Q", self.data, 0x28)
        size, count = struct.unpack_from("<HH", self.data, 0x3A)
        return offset, size, count

    def machine(self) -> int:
        """Returns the number of the processor's architecture."""
        return int(struct.unpack_from("<H", self.data, 0x12)[0])

    def section(self, index: int) -> Section:
        offset, size, _ = self.header()
        return Section._make(struct.unpack_from("<IIQQQQIIQQ", self.data, offset + index * size))

    def sections(self) -> list[Section]:
        return [self.section(k) for k in range(self.header()[2])]

    def symbols(self) -> Iterator[Symbol]:
        """Yields the symbols of all tables."""
        for section in self.sections():
            if section.type == SYMBOLS and section.entry:
                yield from self.symbols_of(section)

    def symbols_of(self, table: Section) -> Iterator[Symbol]:
        """Yields the symbols of one table, in order."""
        names = self.section(table.link).offset
        for at in range(table.offset, table.offset + table.size, table.entry):
            name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", self.data, at)
            yield Symbol(self._text(names + name), info & 15, section, value, size)

    def relocations_of(self, table: Section) -> Iterator[Relocation]:
        end = table.offset + table.size
        for offset, type, symbol, addend in struct.iter_unpack("<QIIq", self.data[table.offset : end]):
            yield Relocation(offset, type, symbol, addend)

    def _text(self, at: int) -> str:
        end = self.data.find(b"\0", at)
        return self.data[at:end].decode(errors="replace")

    def loaded(self, entry: str, address: int) -> tuple[int, int] | None:
        """The section that a function is in, and where that lies."""
        for s in self.symbols():
            if s.name == entry:
                return s.section, address - s.value
        return None


# ---- loading ---------------------------------------------------------------------------------------------------------
# Machine code into this process, as a linker does it: objects of ELF for x86-64, on Linux.
#
# What LLVM compiles can be kept, and is then run without LLVM, whose library takes longer to load than most programs to
# run. An object is one mapping: code with jumps to functions that are farther away than a call reaches; what is only
# read, with a table of addresses (the GOT) among it; and data. Nothing can ever be written and run at once.
#
# The mapping is given back when its program dies. Code is compiled to refer to itself by short distances. For other
# systems, and for a relocation that is not known here, LLVM links (`codegen/llvm/linker.py`).

WORD, NEAR, CALL = 1, 2, 4  # R_X86_64_64, _PC32, _PLT32
BY_TABLE = (9, 41, 42)  # R_X86_64_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX
JUMP = b"\xff\x25"  # jmp *[rip + …]: to where a word of the table says
JUMP_BYTES = 8  # with the bytes that align it
MOST = 1 << 30  # bytes, all of which an offset of 32 bits reaches
PAGE = mmap.PAGESIZE


class Unlinkable(Exception):
    """An object that this can't link; the message says why."""


@dataclass(frozen=True, slots=True)
class Image:
    """An object in memory, which is given back when this dies. addresses: of the symbols that were asked for."""

    memory: mmap.mmap
    addresses: dict[str, int]


def can_load() -> bool:
    """Tells whether this loader works on this system."""
    return not portable() and sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 2**32


def load(code: bytes, symbols: Mapping[str, int], wanted: Sequence[str], lasting: bool = False) -> Image:
    """Links an object into the process. Raises Unlinkable.

    symbols: the addresses of all that it may refer to. lasting: it stays until the process ends, even when Python has
    already forgotten everything: a thread may be in it.
    """
    try:
        image = _Link(Elf(code), symbols).image(wanted)
    except (struct.error, IndexError, ValueError, OverflowError) as e:
        raise Unlinkable(f"no object: {e}") from e
    if lasting:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(image.memory))
    return image


@dataclass(slots=True)
class _Link:
    """One object on its way into memory. Offsets are from the start of the mapping, which is at `base`.

    places: of the sections that are loaded; table, jumps: the offsets of the words of the table and of the jumps, each
    at first its number.
    """

    elf: Elf
    symbols: Mapping[str, int]
    base: int = 0
    sections: list[Section] = field(default_factory=list)
    known: list[Symbol] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    table: dict[int, int] = field(default_factory=dict)
    jumps: dict[int, int] = field(default_factory=dict)

    def image(self, wanted: Sequence[str]) -> Image:
        if self.elf.data[: len(MAGIC)] != MAGIC or self.elf.machine() != X86_64:
            raise Unlinkable("no object of ELF for x86-64")
        self.sections = self.elf.sections()
        for section in self.sections:
            if section.type == SYMBOLS:
                self.known = list(self.elf.symbols_of(section))
        relocations = [(s.info, list(self.elf.relocations_of(s))) for s in self._relocated()]
        for _, relocations_of_section in relocations:
            self._need(relocations_of_section)
        ends = self._lay_out()
        memory = mmap.mmap(-1, max(ends[-1], PAGE), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        probe = ctypes.c_char.from_buffer(memory)
        self.base = ctypes.addressof(probe)
        del probe
        for k, place in self.places.items():
            section = self.sections[k]
            if section.type != NO_BITS:
                memory[place : place + section.size] = self.elf.data[section.offset : section.offset + section.size]
        for number, place in self.table.items():
            struct.pack_into("<Q", memory, place, self._address(number))
        for number, place in self.jumps.items():
            struct.pack_into("<2si", memory, place, JUMP, self.table[number] - (place + 6))
        for k, relocations_of_section in relocations:
            for relocation in relocations_of_section:
                self._apply(memory, k, relocation)
        _protect(self.base, ends)
        named = {s.name: k for k, s in enumerate(self.known) if s.section != UNDEFINED}
        missing = [name for name in wanted if name not in named]
        if missing:
            raise Unlinkable(f"no symbol {missing[0]}")
        return Image(memory, {name: self._address(named[name]) for name in wanted})

    def _relocated(self) -> Iterator[Section]:
        """The relocations of sections that are loaded."""
        for section in self.sections:
            if section.type == RELOCATIONS and self.sections[section.info].flags & ALLOCATE:
                yield section

    def _need(self, relocations: Sequence[Relocation]) -> None:
        """Notes which words of the table and which jumps there have to be."""
        for r in relocations:
            far = self.known[r.symbol].section == UNDEFINED
            if r.type in BY_TABLE or (r.type == CALL and far):
                self.table.setdefault(r.symbol, len(self.table))
            if r.type == CALL and far:
                self.jumps.setdefault(r.symbol, len(self.jumps))

    def _lay_out(self) -> tuple[int, int, int]:
        """Gives everything its offset; says where code, what is only read, and data end."""
        end, ends = 0, []
        for part in (EXECUTE, 0, WRITE):
            for k, section in enumerate(self.sections):
                if section.flags & ALLOCATE and section.flags & (WRITE | EXECUTE) == part and section.size:
                    self.places[k] = end = _aligned(end, max(section.align, 1))
                    end += section.size
            if part == EXECUTE:
                end = _spread(self.jumps, end)
            elif part == 0:
                end = _spread(self.table, end)
            if end > MOST:
                raise Unlinkable("it is too large")
            end = _aligned(end, PAGE)
            ends.append(end)
        code, read, data = ends
        if len(self.places) < sum(1 for s in self.sections if s.flags & ALLOCATE and s.size):
            raise Unlinkable("a section that is written and run")
        return code, read, data

    def _address(self, number: int) -> int:
        """Returns the address of a symbol."""
        symbol = self.known[number]
        if symbol.section == UNDEFINED:
            if symbol.name not in self.symbols:
                raise Unlinkable(f"nothing is known of {symbol.name}")
            return self.symbols[symbol.name]
        if symbol.section == ABSOLUTE:
            return symbol.value
        if symbol.section >= RESERVED:
            raise Unlinkable(f"{symbol.name} is in no section")
        size = self.sections[symbol.section].size
        if symbol.section not in self.places and size:
            raise Unlinkable(f"{symbol.name} is not loaded")
        if symbol.value > size:
            raise Unlinkable(f"{symbol.name} is outside of its section")
        return self.base + self.places.get(symbol.section, 0) + symbol.value

    def _apply(self, memory: mmap.mmap, target: int, r: Relocation) -> None:
        if target not in self.places or not 0 <= r.offset <= self.sections[target].size - (8 if r.type == WORD else 4):
            raise Unlinkable("a relocation outside of its section")
        place = self.places[target] + r.offset
        if r.type == WORD:
            struct.pack_into("<Q", memory, place, (self._address(r.symbol) + r.addend) % 2**64)
            return
        if r.type in BY_TABLE:
            value = self.base + self.table[r.symbol]
        elif r.type == CALL and r.symbol in self.jumps:
            value = self.base + self.jumps[r.symbol]
        elif r.type in (NEAR, CALL) and self.known[r.symbol].section not in (UNDEFINED, ABSOLUTE):
            value = self._address(r.symbol)
        else:
            raise Unlinkable(f"a relocation of type {r.type} of {self.known[r.symbol].name}")
        struct.pack_into("<i", memory, place, value + r.addend - (self.base + place))


def _aligned(offset: int, unit: int) -> int:
    return -(-offset // unit) * unit


def _spread(entries: dict[int, int], end: int) -> int:
    """Gives entries of a word each their offsets behind what there is; says where they end."""
    start = _aligned(end, JUMP_BYTES)
    for number, position in entries.items():
        entries[number] = start + JUMP_BYTES * position
    return start + JUMP_BYTES * len(entries) if entries else end


def _protect(base: int, ends: tuple[int, int, int]) -> None:
    """Code can be run and no longer be written, and what is only read neither."""
    code, read, _ = ends
    for start, end, allowed in ((0, code, mmap.PROT_READ | mmap.PROT_EXEC), (code, read, mmap.PROT_READ)):
        if start < end and _mprotect()(base + start, end - start, allowed):
            raise Unlinkable("the system refuses memory that can be run")


@cache
def _mprotect() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    return function


REGISTER = 1  # what GDB is told to do


# ---- perf ------------------------------------------------------------------------------------------------------------
def write_map(code: bytes, entry: str, address: int) -> None:
    """Adds the functions of an object in memory to perf's file. entry: one of them, which is at the address."""
    elf = Elf(code)
    place = elf.loaded(entry, address)
    if place is None:
        return
    section, start = place
    functions = [s for s in elf.symbols() if s.type == FUNCTION and s.section == section]
    lines = [f"{start + s.value:x} {s.size:x} {_readable(s.name)}\n" for s in functions]
    with appending(Path(tempfile.gettempdir()) / f"perf-{os.getpid()}.map") as file:
        add(file, "".join(lines).encode())


def _readable(symbol: str) -> str:
    """Returns a function's name as a person reads it."""
    if symbol.startswith("entry."):
        return "call of " + bytes.fromhex(symbol.removeprefix("entry.")).decode()
    return symbol.removeprefix("f.")


# ---- GDB -------------------------------------------------------------------------------------------------------------
class _Entry(ctypes.Structure):
    pass


_Entry._fields_ = [
    ("next", ctypes.POINTER(_Entry)), ("previous", ctypes.POINTER(_Entry)), ("image", ctypes.c_void_p),
    ("size", ctypes.c_uint64),
]  # fmt: skip


class _Descriptor(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32), ("action", ctypes.c_uint32), ("relevant", ctypes.POINTER(_Entry)),
        ("first", ctypes.POINTER(_Entry)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Gdb:
    """LLVM's list of objects, and the function at which GDB stops to read it. kept: what is in it."""

    descriptor: Any
    register: Any
    kept: list[Any] = field(default_factory=list)


def tell_gdb(code: bytes, entry: str, address: int) -> None:
    """Tells GDB of an object in memory. entry: a function of it, which is at the address."""
    gdb = _gdb()
    place = Elf(code).loaded(entry, address)
    if gdb is None or place is None:
        return
    image = ctypes.create_string_buffer(code, len(code))
    section, start = place
    offset, size, _ = Elf(code).header()
    struct.pack_into("<Q", image, offset + section * size + 0x10, start)
    symbol_file = _Entry(gdb.descriptor.first, None, ctypes.addressof(image), len(code))
    gdb.kept.append((image, symbol_file))
    if gdb.descriptor.first:
        gdb.descriptor.first.contents.previous = ctypes.pointer(symbol_file)
    gdb.descriptor.first = gdb.descriptor.relevant = ctypes.pointer(symbol_file)
    gdb.descriptor.action = REGISTER
    gdb.register()
    gdb.descriptor.action = 0


@cache
def _gdb() -> _Gdb | None:
    """None where LLVM's library does not show the names that GDB looks for."""
    import_module("llvmlite.binding")  # GDB looks into a library that is loaded
    library = _library()
    if library is None:
        return None
    path, base = library
    wanted = ("__jit_debug_descriptor", "__jit_debug_register_code")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = {s.name: base + s.value for s in Elf(data).symbols() if s.name in wanted}
    if len(at) < len(wanted):
        return None
    descriptor, register = (at[name] for name in wanted)
    return _Gdb(_Descriptor.from_address(descriptor), ctypes.CFUNCTYPE(None)(register))


def _library() -> tuple[str, int] | None:
    """Finds LLVM's library: its path on disk, and its address in memory; None if it is not found."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.endswith("libllvmlite.so"):
            addresses, _, offset, *_ = line.split()
            return line[line.index("/") :], int(addresses.split("-")[0], 16) - int(offset, 16)
    return None
