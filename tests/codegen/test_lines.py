"""Code that knows the lines of its sources says so in the way of DWARF."""

from __future__ import annotations

import re
import struct
import sys

import pytest

from dlang.codegen.llvm.lines import Lines
from dlang.codegen.llvm.mathematics import operations
from dlang.codegen.llvm.modules import emit
from dlang.codegen.schedule import schedule
from dlang.diagnostics import Source, Span
from dlang.driver import check, lower
from dlang.dump_ir import request
from dlang.host.platform.loader import Elf
from dlang.runtime.build import build

PROGRAM = """fn square(x: f64) -> f64 = x * x

fn f(x: f64[n]) -> f64 {
  let s = cumsum(x)
  var t = 0.0
  for i < n {
    t = t + sin(s[i])
    t = square(t)
  }
  t
}
"""


def compiled(debug: bool) -> bytes:
    checked = check(Source("/tmp/lines.dl", PROGRAM))
    program, entries = lower([request(checked.module.functions["f"])])
    return build(program, [e.name for e in entries], debug=debug).code


def section(code: bytes, name: bytes) -> bytes | None:
    count, names = struct.unpack_from("<HH", code, 0x3C)
    elf = Elf(code)
    texts = elf.section(names)[4]
    for k in range(count):
        found = elf.section(k)
        at = texts + found[0]
        if code[at : code.index(b"\0", at)] == name:
            return code[found[4] : found[4] + found[5]]
    return None


IN_ELF = pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="objects are of another format")


def lines_of(code: bytes) -> set[int]:
    """The lines that the line program of an object sets, by its opcodes (DWARF 4, section 6.2.5)."""
    data = section(code, b".debug_line")
    assert data is not None
    (header,) = struct.unpack_from("<I", data, 6)
    line_base, line_range, opcode_base = struct.unpack_from("<bBB", data, 6 + 4 + 3)
    lengths = data[6 + 4 + 6 : 6 + 4 + 6 + opcode_base - 1]
    at, line, found = 10 + header, 1, set()

    def number(signed: bool) -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value - (1 << shift) if signed and byte & 64 else value

    while at < len(data):
        opcode = data[at]
        at += 1
        if opcode >= opcode_base:
            line += line_base + (opcode - opcode_base) % line_range
            found.add(line)
        elif opcode == 0:
            length = number(False)
            line = 1 if data[at] == 1 else line
            at += length
        elif opcode == 3:
            line += number(True)
        elif opcode == 1:
            found.add(line)
        elif opcode == 9:
            at += 2
        else:
            for _ in range(lengths[opcode - 1]):
                number(False)
    return found


@IN_ELF
def test_the_lines_of_statements_are_in_the_table() -> None:
    assert {1, 3, 4, 7} <= lines_of(compiled(True)) <= {0, *range(1, 12)}


@IN_ELF
def test_code_has_no_lines_unless_they_are_wanted() -> None:
    assert section(compiled(False), b".debug_line") is None


def test_a_call_that_is_gone_is_a_function_around_its_code() -> None:
    text = "fn pick(x: f64[n], i: i64) -> f64 = x[i]\n\nfn g(x: f64[n], i: i64) -> f64 = pick(x, i) + 1.0\n"
    checked = check(Source("/tmp/lines.dl", text))
    program, entries = lower([request(checked.module.functions["g"])])
    llvm = emit(schedule(program, places=True), [e.name for e in entries], debug=True).llvm
    assert 'DISubprogram(name: "lines.pick"' in llvm or 'DISubprogram(name: "pick"' in llvm
    assert "DILocation(line: 1, column: 37" in llvm and "inlinedAt: " in llvm


def test_names_of_files_are_escaped() -> None:
    lines = Lines()
    lines.function("f", Span(Source('/tmp/a"b\\é.dl', "fn f() = 1"), 0, 1))
    assert '"a\\22b\\5C\\C3\\A9.dl"' in lines.text()


@IN_ELF
def test_the_functions_of_an_object_can_be_listed() -> None:
    names = {s.name for s in Elf(compiled(True)).symbols() if s.type == 2}
    assert any(name.startswith("entry.") for name in names) and any(name.startswith("f.") for name in names)


def test_every_definition_is_a_function_of_its_own() -> None:
    text = "fn fib(n: i64) -> f64 = if n < 2 { 1.0 } else { fib(n - 1) + fib(n - 2) }\n\nfn h(n: i64) -> f64 = fib(n)\n"
    checked = check(Source("/tmp/lines.dl", text))
    program, entries = lower([request(checked.module.functions["h"])])
    llvm = emit(schedule(program, places=True, profile=operations), [e.name for e in entries], debug=True).llvm
    attached = re.findall(r"nounwind !dbg !(\d+) \{", llvm)
    assert len(attached) > 1 and len(set(attached)) == len(attached)
