"""The binary interface of compiled code: all that both its compiler and those who load it, call it and read its memory
know.

It describes how functions are called and kernels are launched, how nodes of datatypes and panels of matrices lie in
memory, how symbols are named, and where a program leaves compiled code. Programs that were compiled before need it too,
so nothing else of the compiler is imported.

A node is a header, then a word for each field: first the references, then the scalars, so that a collector needs to
know only how many references there are. A panel has as many columns as a tile of the result, row after row
(`llvm/panels.py` makes them).
"""

from __future__ import annotations

from dataclasses import dataclass

from dlang.diagnostics import Span
from dlang.ir.terms import WIDTHS, Array, Size, Token, Type, Var, Variant, is_reference

CODE, LEFT = range(2)
"""The words of a cell: where the code is, and how much estimated work calls may do before Python is asked, as f64."""


@dataclass(frozen=True, slots=True)
class Out:
    """An array that the caller makes for a result; its sizes are over the parameters."""

    dtype: str
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """A function of the IR without what it does: what it takes and gives, its place, and what a person calls it."""

    name: str
    params: tuple[Var, ...]
    results: tuple[Var, ...]
    label: str
    span: Span | None


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """How a function is called.

    order: for each result ("out" | "result", position), or None for a token. raw: how many results come in words.
    recursive: whether it can reach a function that can reach itself. work: about how much it does, over the parameters;
    None if that isn't known before. device: whether arrays of numbers that it takes and gives are in the memory of one;
    there: which results in words are addresses of numbers there; numbers: which parameters are. repeatable: whether a
    call does nothing but ask the device for what its arguments, but not what is in arrays, say.
    """

    function: Header
    outs: tuple[Out, ...]
    order: tuple[tuple[str, int] | None, ...]
    raw: int
    recursive: bool
    work: Size | None
    device: bool = False
    there: frozenset[int] = frozenset()
    numbers: frozenset[int] = frozenset()
    repeatable: bool = False


# ---- kernels ---------------------------------------------------------------------------------------------------------
LAUNCH, COPY, PRODUCT, STREAM, BLAS, RUN, KERNELS, THREADS, LAUNCHES, MARKS, REACH = range(11)
"""The words of a run's table: functions, what they are called with, the state of the run on the device, where the
handles of kernels are, how many threads the device runs at once, how many launches there were that may fail, where the
marks of a profile are, and up to where the indices of a kernel may go for it to have narrow ones."""
TABLE = 11
FOREIGN = "foreign"
"""The form of a kernel that a program brings along; its text is that of the file."""
LARGEST_INDEX = 2**31 - 1
"""Of narrow ones, which have 32 bits."""
BEYOND = 2**17
"""How far a kernel may count beyond its iterations and the ends of its loops, and as far again as there are threads."""
SURE = 2**16
"""Up to here indices are narrow on any device."""
NUMBERS = 64  # among the parameters of a function, of which the device may know the floats
WORDS = 64
"""Of a message, and of the results of a reduction."""
BLOCK, WARP = 256, 32
"""Threads of a block, if nothing else is said, and those that go in step."""
SHARED = 48 << 10
"""Bytes of memory that the threads of a block share at most, on any device."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function of a device, in CUDA C, of which there may be one with narrow indices and one with wide ones.

    form: how threads share its iterations, `map`, `rows` or `reduction`. block: threads of a block. threads: how many a
    iteration keeps busy. It is right for any grid and any block of whole warps; of use are ceil(iterations · threads /
    block) blocks, at least one. span: where a program says that it brings it along.
    """

    name: str
    form: str
    text: str
    block: int = BLOCK
    threads: int = 1
    span: Span | None = None


# ---- nodes in memory -------------------------------------------------------------------------------------------------
NURSERY = 1 << 20  # bytes that a loop makes before it first looks for what it still needs; they stay in a cache


def words(variant: Variant) -> tuple[int, ...]:
    """The word of each field within a node of a variant: references come first."""
    order = sorted(range(len(variant.fields)), key=lambda k: not holds_reference(variant.fields[k]))
    out = [0] * len(order)
    for word, k in enumerate(order):
        out[k] = word
    return tuple(out)


def holds_reference(field: Var) -> bool:
    """Tells whether the word of a field is an address in the arena."""
    return isinstance(field.type, Array) or holds_references(field.type)


def holds_references(type: Type) -> bool:
    """Tells whether a value is a text, a handle, or an array of such."""
    return not isinstance(type, Token) and is_reference(type.dtype)


# ---- panels in memory ------------------------------------------------------------------------------------------------
VECTORS = 2  # in a row of a tile
COLUMNS = 256  # that are packed at once, whole panels; with so many terms they fill a quarter of a second cache


def lanes_of(dtype: str, bits: int) -> int:
    """Elements of a vector of so many bits."""
    return bits // (8 * WIDTHS[dtype])


def panel(dtype: str, bits: int) -> int:
    """Columns of a panel: those of a tile."""
    return VECTORS * lanes_of(dtype, bits)


def terms_of(dtype: str) -> int:
    """Terms of a block at most: a panel of so many, with the rows of a tile, stays in a first cache."""
    return 192 if dtype == "f64" else 256


# ---- symbols ---------------------------------------------------------------------------------------------------------
PROFILE = "dl.profile"  # the words in which a program that measures itself counts


def entry_symbol(name: str) -> str:
    """The wrapper of a function, which is called from outside."""
    return "entry." + name.encode().hex()


def caller_symbol(name: str) -> str:
    """Returns the name of the function that Python calls directly in the place of a function."""
    return "call." + name.encode().hex()


# ---- sites -----------------------------------------------------------------------------------------------------------
READ, WRITE, FREE = "read", "written", "freed"
"""The kinds of access to memory."""
ACCESS = "access"
"""The kind of a place where memory is touched, in a program that is sanitised."""
DEVICE = "device"
"""The name of what the host is to do for a device."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How a value crosses to the host: dtype, and rank (0: a scalar) with its sizes behind the pointer."""

    dtype: str
    rank: int

    @property
    def words(self) -> int:
        return 1 + self.rank


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the program where it leaves compiled code: a failure, a call to trace, or work of the host."""

    kind: str  # "check", "memory", "stack", "interrupt", "device", "call", "runtime", or "access"
    name: str  # a code, the label of a function, or what the host is to do
    parts: tuple[str, ...] = ()
    args: tuple[Signature, ...] = ()
    outs: tuple[Signature, ...] = ()
    results: tuple[Signature, ...] = ()
    span: Span | None = None

    @property
    def words(self) -> int:
        return sum(s.words for s in (*self.args, *self.outs, *self.results))


# ---- words of the table ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Number:
    """Two words: the class of a scalar argument, and how its value is read."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Dtype:
    """A word: NumPy's object for a dtype."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Class:
    """A word: the class of an object that is made; None for that of an argument, or for what an argument is itself."""

    made: type | None


@dataclass(frozen=True, slots=True)
class Constant:
    """A word: what is passed at a position, the same at every call."""

    position: int


Need = Number | Dtype | Class | Constant
