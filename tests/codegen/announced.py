"""Accesses to memory in the text of a program that is sanitised, and which of them no check stands in front of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from dlang.codegen.llvm import pool

NAME = re.compile(r'%[\w.]+|@"[^"]*"|@[\w.$-]+')
DEFINED = re.compile(r"  (%[\w.]+) = (.*)")
CALL = re.compile(r'call [^@]*@("[^"]*"|[\w.$-]+)\((.*)\)')
ADDRESS_ARITHMETIC = ("getelementptr", "inttoptr", "ptrtoint", "select", "add", "sub", "mul", "call i64 @llvm.vector")
NODES = "dl_outside_node"

# what is no memory of an array, by the name that its address begins with, and why
OWN = {
    "%ctx": "the context of the run",
    "%slots": "words on the stack for what crosses to the host",
    "%captured": "words on the stack for what pieces of a loop get",
    "%partial": "words on the stack for what pieces of a loop give",
    "%words": "the words of an entry or of a piece",
}
# functions that get pointers and touch nothing behind those of arrays
HARMLESS = {
    "dl_alloc_checked", "dl_poll", "dl_trace", "dl_deeper", "dl_callback", "dl_parallel", "dl_room", "dl_grow",
    "dl_collect", "llvm.prefetch.p0", "llvm.frameaddress.p0",
}  # fmt: skip


@dataclass
class Function:
    """A function under inspection. made: what names are; checked: the addresses that have been checked in this block,
    and words of nodes. is_entry: whether it is an entry, which hands on what it is given."""

    made: dict[str, str] = field(default_factory=dict)
    checked: set[object] = field(default_factory=set)
    is_entry: bool = False

    def leads(self, name: str) -> Iterator[str]:
        """A name, and those that it is computed from as an address."""
        work, seen = [name], set()
        while work:
            here = work.pop()
            if here in seen:
                continue
            seen.add(here)
            yield here
            text = self.made.get(here, "")
            if text.startswith(ADDRESS_ARITHMETIC):
                work += NAME.findall(text)

    def check(self, line: str) -> None:
        """Notes what a check is of: an address, or all that lie where lanes with a mask are."""
        operands = CALL.search(line)[2].split(", ")  # type: ignore[index]
        names = [operand.rpartition(" ")[2] for operand in operands]
        if NODES in line:
            self.checked.add((names[1], names[2]))
            return
        address = names[1] if "dl_not_alive" in line else names[2]
        self.checked.add(address)
        text = self.made.get(address, "")
        if text.startswith("getelementptr i8"):
            pointer, offset = NAME.findall(text)
            if any("vector.reduce" in self.made.get(n, "") for n in self.leads(offset)):
                self.checked.add(pointer)
        if text.startswith("inttoptr"):
            casts = [self.made.get(n, "") for n in self.leads(address)]
            self.checked.update(NAME.findall(cast)[0] for cast in casts if cast.startswith("ptrtoint <"))

    def is_checked(self, pointer: str) -> bool:
        text = self.made.get(pointer, "")
        word = text.rpartition(" ")[2] if text.startswith("getelementptr i64") else "0"
        return pointer in self.checked or any((name, word) in self.checked for name in self.leads(pointer))

    def is_own(self, name: str) -> bool:
        """Whether an address is that of no array: of a word of the run, a constant, or of the end of the arena."""
        found = set(self.leads(name))
        ends = {n for n in found if self.made.get(n, "").startswith("load i64, ptr") and self._is_top(n)}
        results = {n for n in found if self.made.get(n, "").startswith("load ptr, ptr") and self._is_results(n)}
        return any(n in OWN or n.startswith("@") for n in found) or bool(ends) or bool(results)

    def _is_results(self, name: str) -> bool:
        """Whether an address is where a piece of a loop leaves what it gives."""
        place = self.made.get(NAME.findall(self.made[name])[-1], "")
        return place == f"getelementptr i64, ptr %words, i64 {pool.RESULTS}"

    def _is_top(self, name: str) -> bool:
        """Whether a number is a word of the context, such as where the arena ends and a node is being made."""
        return "%ctx" in set(self.leads(NAME.findall(self.made[name])[-1]))


def unannounced(text: str) -> tuple[list[str], dict[str, int]]:
    """The lines that access memory without a check in front of them, in the same block; and how many accesses of each
    kind there are."""
    wrong: list[str] = []
    counted: dict[str, int] = {}
    f = Function()
    for line in text.splitlines():
        if line.startswith("define"):
            f = Function(is_entry=line.startswith("define i32 @"))
        elif line.endswith(":") and not line.startswith("whole"):
            f.checked.clear()
        if (defined := DEFINED.fullmatch(line)) is not None:
            f.made[defined[1]] = defined[2]
        kind, pointers = _accessed(line)
        if kind is None or (f.is_entry and kind == "function"):
            continue
        if kind.startswith(("dl_outside", "dl_not_alive")):
            f.check(line)
            continue
        for pointer in pointers:
            if f.is_own(pointer):
                continue
            counted[kind] = counted.get(kind, 0) + 1
            if not f.is_checked(pointer):
                wrong.append(line)
    return wrong, counted


def _accessed(line: str) -> tuple[str | None, list[str]]:
    """What an instruction does to memory, and the pointers that it does it to."""
    text = line.strip().partition(" = ")[2] if DEFINED.fullmatch(line) else line.strip()
    if text.startswith("load "):
        return "load", [NAME.findall(text)[0]]
    if text.startswith("store "):
        return "store", [NAME.findall(text.rpartition(", ptr ")[2])[0]]
    call = CALL.search(text)
    if call is None or call[1] in HARMLESS:
        return None, []
    if call[1].startswith(("dl_outside", "dl_not_alive")):
        return call[1], []
    kinds = re.compile(r"ptr |<\d+ x ptr> ")
    pointers = [NAME.findall(part)[0] for part in call[2].split(", ") if kinds.match(part) and "%" in part]
    kind = "function" if call[1].startswith('"f.') else re.sub(r"\.v\d.*|\.p0.*", "", call[1])
    return kind, pointers
