"""A function that Python calls, under way: its text, and what the words of its table have to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.codegen.llvm import dispatch
from dlang.codegen.llvm.call_needs import Given, Need, Number
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.writer import Writer
from dlang.ir.anf import Size, poly


# ---- text ------------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Emission:
    """leaves: the words of the arguments so far. waiting: sizes that have to agree. arrays: the leaves that are arrays,
    as objects. trees: those that are nodes, each with its datatype. made: the objects so far, which are dropped if the
    call can't go on.

    held: arrays in structs, which another thread might take out of them while this one runs.
    """

    w: Writer
    needs: list[Need] = field(default_factory=list)
    words: int = dispatch.FIRST_WORD
    leaves: list[str] = field(default_factory=list)
    waiting: list[tuple[Size, str]] = field(default_factory=list)
    arrays: dict[int, str] = field(default_factory=dict)
    trees: dict[int, tuple[str, str]] = field(default_factory=dict)
    made: int = 0
    held: list[str] = field(default_factory=list)

    def unless(self, condition: str, otherwise: str = "miss") -> None:
        """Goes on if a condition holds."""
        fine = self.w.label("fine")
        self.w.fork(condition, fine, otherwise)
        self.w.begin(fine)

    def load(self, type: str, base: str, offset: int) -> str:
        return self.w.emit(f"load {type}, ptr {self.w.emit(f'getelementptr i8, ptr {base}, i64 {offset}')}")

    def table(self, need: Need) -> str:
        """The next word of the table."""
        self.needs.append(need)
        value = self.load("ptr", "%table", 8 * self.words)
        self.words += 2 if isinstance(need, Number) else 1
        return value

    def given(self, position: int) -> str:
        return self.w.emit(f"ptrtoint ptr {self.table(Given(position))} to i64")

    def size(self, size: Size, actual: str) -> None:
        """A size that an argument has: says what a variable is, or has to agree."""
        var = next(iter(size.atoms()), None)
        if var is not None and var not in self.w.values and size == poly(var):
            self.w.bind(var, actual)
        else:
            self.waiting.append((size, actual))

    def dimensions(self, shape: Sequence[Size]) -> None:
        for k, size in enumerate(shape):
            at = self.w.emit(f"getelementptr i64, ptr %dims, i64 {k}")
            self.w.code.append(f"  store i64 {size_value(self.w, size)}, ptr {at}")

    # ---- objects ----
    def room(self) -> int:
        """A place for an object."""
        self.made += 1
        return self.made - 1

    def place(self, k: int) -> str:
        return self.w.emit(f"getelementptr ptr, ptr %objects, i64 {k}")

    def keep(self, k: int, value: str) -> None:
        self.w.code.append(f"  store ptr {value}, ptr {self.place(k)}")
