"""A whole program as LLVM text: its functions, and for each entry a wrapper that the engine calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlang.codegen import loops
from dlang.codegen.abi import Site, entry_symbol
from dlang.codegen.llvm import pool, profiling, support, texts
from dlang.codegen.llvm.assembly import joined
from dlang.codegen.llvm.calls import result_type, symbol
from dlang.codegen.llvm.functions import StatementWriter, function_text
from dlang.codegen.llvm.host_calls import flat, from_word, put, to_word
from dlang.codegen.llvm.lines import Lines
from dlang.codegen.llvm.objects import LEVELS, USUAL, Processor
from dlang.codegen.llvm.scalars import Module
from dlang.codegen.llvm.writer import slot_type
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.ir import anf
from dlang.ir.types import dtype_of
from dlang.lazy_modules import lazy_module
from dlang.ops.figures import GRAIN

if TYPE_CHECKING:
    from dlang.codegen.llvm import objects
else:
    objects = lazy_module("dlang.codegen.llvm.objects")


@dataclass(frozen=True, slots=True)
class Text:
    """A module: its text, the sites in it by number, and the symbols that it needs from outside."""

    llvm: str
    sites: tuple[Site, ...]
    imports: tuple[str, ...]
    foreign: tuple[tuple[str, str], ...] = ()  # a symbol, and the C function that it stands for


def emit(
    program: loops.Program,
    entries: Sequence[str],
    processor: Processor = LEVELS[USUAL],
    debug: bool = False,
    sanitizes: bool = False,
) -> Text:
    """The text of a program, for a processor. debug: with the places that its statements say that they come from.

    sanitizes: accesses to memory are checked (`sanitizer.py`).
    """
    module = Module(processor, lines=Lines() if debug else None, sanitizes=sanitizes)
    sites = [Site("memory", "E0806"), Site("stack", "E0805"), Site("interrupt", "")]
    parts = []
    for function in program.functions.values():
        parts.append(function_text(module, program, function, sites))
    for name in entries:
        parts.append(_entry(module, program, program.functions[name], sites))
    branches = '!0 = !{!"branch_weights", i32 1, i32 100000}\n!1 = !{!"branch_weights", i32 100000, i32 1}\n!2 = !{}\n'
    if program.nests:
        parts.append(profiling.definitions(len(program.nests)))
    text = module.text() + support.DECLARATIONS + pool.DECLARATIONS + "\n" + "\n".join(parts) + branches
    if module.lines is not None:
        text += module.lines.text()
    return Text(text, tuple(sites), tuple(sorted(module.imports)), tuple(module.foreign.items()))


def print_llvm(program: anf.Program, entries: Sequence[str] = ()) -> str:
    """The text of a program of the core IR, for this processor; by default of all its functions."""
    return print_nests(schedule(program, Lanes(objects.vector_bits()), GRAIN), entries or list(program.functions))


def print_nests(program: loops.Program, entries: Sequence[str]) -> str:
    """The text of loop nests, for this processor."""
    return emit(program, entries, objects.this_processor()).llvm


def _entry(module: Module, program: loops.Program, f: loops.Function, sites: list[Site]) -> str:
    """i32 entry(context, words): arguments and destinations come in words, results go to the words behind them."""
    w = StatementWriter(module, program, sites)
    args = ["ptr %ctx"]
    word = 0
    for slot in (*f.params, *(out.buffer for out in f.outs)):
        address = w.emit(f"getelementptr i64, ptr %words, i64 {word}")
        word += 1
        if isinstance(slot, loops.Buffer):
            value = w.emit(f"load ptr, ptr {address}")
        else:
            value = from_word(w, w.emit(f"load i64, ptr {address}"), dtype_of(slot))
        args.append(f"{slot_type(slot)} {value}")
    type = result_type(f)
    out = w.emit(f"call {type} @{symbol(f.name)}({', '.join(args)})")
    w.fork(w.emit(f"extractvalue {type} {out}, 0"), "failed", "fine")
    if any(not isinstance(r, loops.Buffer) and dtype_of(r) == "str" for r in f.body.results):
        w.begin("full")
        w.code.append(f"  store i64 {support.OUT_OF_MEMORY}, ptr %ctx")
        w.jump("failed")
    w.begin("failed")
    w.code.append("  ret i32 1")
    w.begin("fine")
    for k, result in enumerate(f.body.results):
        value = w.emit(f"extractvalue {type} {out}, {k + 1}")
        if slot_type(result) == "ptr":
            value = w.emit(f"ptrtoint ptr {value} to i64")
        elif not isinstance(result, loops.Buffer):
            if dtype_of(result) == "str":
                value = flat(w, value)
                w.fork(w.emit(f"icmp eq i64 {value}, {texts.FAILED}"), "full", f"kept{k}", cold=True)
                w.begin(f"kept{k}")
            value = to_word(w, value, dtype_of(result))
        put(w, value, "%words", word + k)
    lines = joined(w.code)
    return f"define i32 @{entry_symbol(f.name)}(ptr %ctx, ptr %words) nounwind {{\nentry:\n{lines}\n  ret i32 0\n}}\n"
