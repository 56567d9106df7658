"""Machine code is linked without LLVM: every relocation that occurs, protection, and memory that is given back."""

from __future__ import annotations

import ctypes
import gc
import random
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from dlang.codegen.llvm import capi, collector, jit, linker, objects, pool, support
from dlang.diagnostics import Source
from dlang.driver import check, lower
from dlang.dump_ir import request
from dlang.host.effects import Host
from dlang.host.platform import loader
from dlang.host.platform.loader import ALLOCATE, RELOCATIONS, SYMBOLS as SYMBOL_TABLE, Elf
from dlang.runtime.build import build
from dlang.runtime.engine import Engine

pytestmark = pytest.mark.skipif(not loader.can_load(), reason="objects are linked by LLVM here")

TEXT = """
@elsewhere = external global i8
@counter = internal global i64 5
@room = internal global [4096 x i8] zeroinitializer
@numbers = internal unnamed_addr constant [4 x double] [double 1.5, double 2.5, double 4.0, double 8.0]
@functions = internal constant [2 x ptr] [ptr @twice, ptr @far]
declare double @far(double)

define internal double @twice(double %x) noinline {
  %y = fadd double %x, %x
  ret double %y
}

define double @sum(double %x, i64 %k) {
  %p = getelementptr [4 x double], ptr @numbers, i64 0, i64 %k
  %n = load double, ptr %p
  %a = call double @twice(double %x)
  %b = call double @far(double %a)
  %s = fadd double %b, %n
  %c = fmul double %s, 3.25
  ret double %c
}

define double @through(double %x, i64 %k) {
  %p = getelementptr [2 x ptr], ptr @functions, i64 0, i64 %k
  %f = load ptr, ptr %p
  %y = call double %f(double %x)
  ret double %y
}

define i64 @counted() {
  %n = load i64, ptr @counter
  %m = add i64 %n, 1
  store i64 %m, ptr @counter
  store i8 1, ptr @room
  ret i64 %m
}

define ptr @where() {
  ret ptr @elsewhere
}
"""
NAMES = ("sum", "through", "counted", "where")
PROGRAM = """
import linalg
struct Pair<n> { a: f64, b: f64[n] }
fn roots(x: f64[n]) -> f64[n] = sqrt(abs(sin(x))) + exp(-x * x) % 0.7
fn solved(a: f64[n, n], b: f64[n]) -> f64[n] = linalg.solve(a, b)
fn named(k: i64) -> str = if k > 3 { "large {k}" } else { "small" }
fn chosen(p: Pair<n>, i: i64) -> f64 { assert i < 10, "too far"; p.a * p.b[i] }
fn depth(n: i64) -> i64 = if n == 0 { 0 } else { 1 + depth(n - 1) }
fn kind(k: i64) -> i64 = match k { 0 => 7, 1 => 3, 2 => 90, 3 => 14, 4 => 2, 5 => 11, _ => -1 }
"""


_far = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x - 1.0)
FAR = ctypes.cast(_far, ctypes.c_void_p).value or 0
SYMBOLS = {"far": FAR, "elsewhere": 12, "memcpy": jit.address_of("memcpy")}


def results(addresses: dict[str, int]) -> list[float | int | None]:
    added = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)(addresses["sum"])
    through = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)(addresses["through"])
    counted = ctypes.CFUNCTYPE(ctypes.c_int64)(addresses["counted"])
    where = ctypes.CFUNCTYPE(ctypes.c_void_p)(addresses["where"])
    return [added(0.3, 2), through(0.3, 0), through(0.3, 1), counted(), counted(), where()]


WANTED = [(0.3 + 0.3 - 1.0 + 4.0) * 3.25, 0.6, 0.3 - 1.0, 6, 7, 12]


def relocations(code: bytes) -> set[int]:
    """The types of relocations of what is loaded."""
    elf = Elf(code)
    sections = elf.sections()
    loaded = [s for s in sections if s.type == RELOCATIONS and sections[s.info].flags & ALLOCATE]
    return {r.type for s in loaded for r in elf.relocations_of(s)}


def compiled() -> bytes:
    checked = check(Source("<test>", PROGRAM))
    program, entries = lower([request(f) for f in checked.module.functions.values()])
    return build(program, [e.name for e in entries]).code


def test_an_object_refers_to_itself_and_to_what_is_far_away() -> None:
    code = objects.compile_object(TEXT, level=0)
    assert relocations(code) >= {loader.WORD, loader.NEAR, loader.CALL}
    assert relocations(code) & set(loader.BY_TABLE)
    image = loader.load(code, SYMBOLS, NAMES)
    assert results(image.addresses) == WANTED


def test_llvm_links_the_same_object_to_the_same() -> None:
    library = linker.load(objects.compile_object(TEXT, level=0), SYMBOLS, NAMES)
    assert results(library.addresses) == WANTED


def test_every_relocation_of_what_is_compiled_is_known() -> None:
    shared = support.TEXT + support.switch_text(True) + pool.text(True, True) + collector.TEXT
    made = [compiled(), objects.compile_object(shared), objects.compile_object(capi.text(8))]
    found: set[int] = set().union(*map(relocations, made))
    assert found <= {loader.WORD, loader.NEAR, loader.CALL, *loader.BY_TABLE} and len(found) >= 2


def regions(image: loader.Image) -> Iterable[tuple[str, int]]:
    """What is allowed in the memory of an image, and how many bytes it takes."""
    probe = ctypes.c_char.from_buffer(image.memory)
    start, end = ctypes.addressof(probe), ctypes.addressof(probe) + len(image.memory)
    del probe
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(x, 16) for x in line.split()[0].split("-"))
        if low < end and start < high:
            yield line.split()[1][:3], min(high, end) - max(low, start)


def test_nothing_can_be_written_and_run() -> None:
    image = loader.load(objects.compile_object(TEXT, level=0), SYMBOLS, NAMES)
    allowed = [a for a, _ in regions(image)]
    assert "r-x" in allowed and "rw-" in allowed
    assert not [a for a in allowed if "w" in a and "x" in a]


def test_memory_is_given_back_with_a_program() -> None:
    checked = check(Source("<test>", PROGRAM))
    program, entries = lower([request(checked.module.functions["roots"])])
    engine = Engine(Host())
    made = engine.build(program, [entries[0].name])
    engine.load(made, {})

    def mapped() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    held = [engine.load(made, {}) for _ in range(40)]
    during = mapped()
    held.clear()
    gc.collect()
    assert mapped() < during - 30


def test_what_is_not_known_is_refused() -> None:
    code = objects.compile_object(TEXT, level=0)
    with pytest.raises(loader.Unlinkable, match="nothing is known of far"):
        loader.load(code, {"elsewhere": 1, "memcpy": 1}, NAMES)
    with pytest.raises(loader.Unlinkable, match="no symbol other"):
        loader.load(code, SYMBOLS, ["other"])
    elf = Elf(code)
    sections = elf.sections()
    table = next(s for s in sections if s.type == RELOCATIONS and sections[s.info].flags & ALLOCATE)
    changed = bytearray(code)
    struct.pack_into("<I", changed, table.offset + 8, 10)  # R_X86_64_32
    with pytest.raises(loader.Unlinkable, match="a relocation of type 10"):
        loader.load(bytes(changed), SYMBOLS, NAMES)


def test_a_damaged_object_is_loaded_or_refused_and_nothing_else() -> None:
    code = objects.compile_object(TEXT, level=0)
    draw = random.Random(7)
    damaged = [code[: draw.randrange(len(code))] for _ in range(100)]
    for _ in range(400):
        changed = bytearray(code)
        changed[draw.randrange(len(code))] ^= 1 << draw.randrange(8)
        damaged.append(bytes(changed))
    refused = 0
    for some in damaged:
        try:
            loader.load(some, SYMBOLS, NAMES)
        except loader.Unlinkable:
            refused += 1
    assert 100 <= refused < 500


def test_a_place_that_no_file_has_is_refused() -> None:
    changed = bytearray(objects.compile_object(TEXT, level=0))
    changed[0x2F] ^= 128  # the highest bit of where the table of sections is
    with pytest.raises(loader.Unlinkable, match="no object"):
        loader.load(bytes(changed), SYMBOLS, NAMES)


def test_a_symbol_outside_of_its_section_is_refused() -> None:
    code = objects.compile_object(TEXT, level=0)
    elf = Elf(code)
    table = next(s for s in elf.sections() if s.type == SYMBOL_TABLE)
    number = next(k for k, s in enumerate(elf.symbols_of(table)) if s.name == "counted")
    changed = bytearray(code)
    struct.pack_into("<Q", changed, table.offset + number * table.entry + 8, len(code))
    with pytest.raises(loader.Unlinkable, match="counted is outside of its section"):
        loader.load(bytes(changed), SYMBOLS, NAMES)


def test_what_the_loader_refuses_llvm_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise loader.Unlinkable("anything")

    monkeypatch.setattr(loader, "load", refuse)
    checked = check(Source("<test>", "fn f(x: f64) -> f64 = sin(x) + 1.0"))
    program, entries = lower([request(checked.module.functions["f"])])
    assert Engine(Host()).compile(program, [entries[0].name]).run(entries[0].name, [0.0]) == [1.0]
