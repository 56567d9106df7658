"""Objects and libraries of ELF, of 64 bits and little-endian: their sections, symbols and relocations."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

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
