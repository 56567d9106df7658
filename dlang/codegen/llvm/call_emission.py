"""A function that Python calls, under way: its text, and what the words of its table have to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.codegen.abi import Constant, Need, Number
from dlang.codegen.llvm import dispatch
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.scalars import LLVM
from dlang.codegen.llvm.texts import FAILED
from dlang.codegen.llvm.writer import Writer
from dlang.host.platform.objects import TYPE
from dlang.ir.anf import SIGNED, Size, poly


@dataclass(slots=True)
class Emission:
    """The text so far, and what it asks of its table: `needs`, of so many `words`.

    leaves: the words of the arguments so far. waiting: sizes that have to agree. arrays: the leaves that are arrays, as
    objects. trees: those that are nodes, each with its datatype. made: how many objects there are so far, which are
    dropped if the call can't go on. held: arrays in structs, which another thread might take out of them while this one
    runs.
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
        """Loads the value at an offset, in bytes, from an address."""
        return self.w.emit(f"load {type}, ptr {self.w.emit(f'getelementptr i8, ptr {base}, i64 {offset}')}")

    def table(self, need: Need) -> str:
        """The next word of the table."""
        self.needs.append(need)
        value = self.load("ptr", "%table", 8 * self.words)
        self.words += 2 if isinstance(need, Number) else 1
        return value

    def given(self, position: int) -> str:
        """The word that is passed at a position at every call."""
        return self.w.emit(f"ptrtoint ptr {self.table(Constant(position))} to i64")

    def size(self, size: Size, actual: str) -> None:
        """A size that an argument has: says what a variable is, or has to agree."""
        var = next(iter(size.atoms()), None)
        if var is not None and var not in self.w.values and size == poly(var):
            self.w.bind(var, actual)
        else:
            self.waiting.append((size, actual))

    def dimensions(self, shape: Sequence[Size]) -> None:
        """Writes a shape to where NumPy looks for it."""
        for k, size in enumerate(shape):
            at = self.w.emit(f"getelementptr i64, ptr %dims, i64 {k}")
            self.w.code.append(f"  store i64 {size_value(self.w, size)}, ptr {at}")

    # ---- objects of Python -------------------------------------------------------------------------------------------
    def text(self, arg: str, otherwise: str) -> str:
        """A text of Python, as a word that holds the object until the run has begun."""
        kind = self.load("ptr", arg, TYPE)
        self.unless(self.w.emit(f"icmp eq ptr {kind}, @PyUnicode_Type"), otherwise)
        return self.w.emit(f"ptrtoint ptr {arg} to i64")

    def written(self, object: str, otherwise: str) -> str:
        """The reference to a text of Python that is written into the arena of the run; 0 for no object."""
        word = self.w.emit(f"call i64 @dl_text(ptr %state, i64 {object})")
        self.unless(self.w.emit(f"icmp ne i64 {word}, {FAILED}"), otherwise)
        return word

    def integer(self, arg: str, dtype: str, over: str, otherwise: str) -> str:
        """An integer of Python that a dtype holds. over: where it is noted whether it has more than 64 bits."""
        w = self.w
        wide = w.emit(f"call i64 @dl_integer(ptr {arg}, ptr {over})")
        self.unless(w.emit(f"icmp eq i64 0, {w.emit(f'load i64, ptr {over}')}"), otherwise)
        if dtype == "i64":
            return wide
        value = w.emit(f"trunc i64 {wide} to {LLVM[dtype]}")
        back = w.emit(f"{'sext' if dtype in SIGNED else 'zext'} {LLVM[dtype]} {value} to i64")
        self.unless(w.emit(f"icmp eq i64 {back}, {wide}"), otherwise)
        return value

    # ---- objects that are made ---------------------------------------------------------------------------------------
    def new_place(self) -> int:
        """Reserves a place for an object."""
        self.made += 1
        return self.made - 1

    def place(self, k: int) -> str:
        """The address of the place of an object."""
        return self.w.emit(f"getelementptr ptr, ptr %objects, i64 {k}")

    def keep(self, k: int, value: str) -> None:
        """Puts an object into its place."""
        self.w.code.append(f"  store ptr {value}, ptr {self.place(k)}")
