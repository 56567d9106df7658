"""The loop-nest IR: programs after scheduling, where arrays are memory and comprehensions are loops.

Scalars keep the variables and polynomials of the core IR; an array is a `Buffer`, a pointer to elements in row-major
order. Control is structured, and what it carries or binds is explicit, so a back end emits it without an analysis of
its own: a `Slot` is a scalar variable or a buffer, and each is bound once.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlang.codegen.kernel import Kernel
from dlang.codegen.operands import (
    ArrayValue as ArrayValue,
    Buffer as Buffer,
    Matrix as Matrix,
    Operand as Operand,
    Panels as Panels,
    Scattered as Scattered,
    Slot as Slot,
    Value as Value,
)
from dlang.diagnostics import Span
from dlang.ir.anf import Atom, Size, Var


# ---- straight-line statements ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Compute:
    """var = a primitive of scalars."""

    var: Var
    name: str
    args: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Convert:
    """var = a conversion of a scalar to the dtype of var."""

    var: Var
    arg: Atom


@dataclass(frozen=True, slots=True)
class Evaluate:
    """var = a polynomial."""

    var: Var
    size: Size


@dataclass(frozen=True, slots=True)
class Load:
    var: Var
    buffer: Buffer
    offset: Size


@dataclass(frozen=True, slots=True)
class Store:
    """buffer[offset] = value, or its combination with what is there by a monoid."""

    buffer: Buffer
    offset: Size
    value: Atom
    monoid: str = "set"


@dataclass(frozen=True, slots=True)
class Move:
    """Copies `count` elements between buffers that do not overlap."""

    target: Buffer
    source: Buffer
    count: Size


@dataclass(frozen=True, slots=True)
class Slice:
    """result = the address of an element."""

    result: Buffer
    source: Buffer
    offset: Size


@dataclass(frozen=True, slots=True)
class Allocate:
    """Room for an array, with `extra` elements behind it."""

    buffer: Buffer
    shape: tuple[Size, ...]
    extra: int = 0
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Free:
    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Guard:
    """Ends the run with a message unless the condition holds."""

    condition: Atom
    code: str
    parts: tuple[str, ...]
    values: tuple[Operand, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Runtime:
    """Work of the host: `format`, `library` (static: which operation) or an effect.

    Arrays of known sizes go to `outs`, the rest are results.
    """

    name: str
    static: tuple[str, ...]
    args: tuple[Operand, ...]
    outs: tuple[ArrayValue, ...]
    results: tuple[Slot, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Invoke:
    """A call: arguments, destinations of the results whose sizes the caller knows, and the other results."""

    function: str
    args: tuple[Value, ...]
    outs: tuple[Buffer, ...]
    results: tuple[Slot, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class CallC:
    """A C function, or a routine of BLAS or LAPACK by its symbol: scalars by value, arrays by pointer.

    What fills an array takes its pointer last. threads: of a kernel, how many are to run.
    """

    target: str
    args: tuple[Value, ...]
    result: Var | None
    threads: Size | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Pack:
    """target = a matrix (rows × columns) in panels, in each its rows one after another; the last ends with zeros."""

    target: Panels
    source: Matrix | Scattered
    rows: Size
    columns: Size


@dataclass(frozen=True, slots=True)
class Product:
    """c (rows × columns) = a (rows × inner) · b (inner × columns), or is increased by that. c is not transposed.

    room: where a part of b is put in panels at a time, as much as `packing.room_for` says; small products do without,
    and those by panels. bits: of the vectors that are made for it. followed: whether the next product of a batch, of
    the same sizes, lies right behind in all three arrays. A scattered `a` needs `b` in panels. batch: on a device, if
    there are several.
    """

    a: Matrix | Scattered
    b: Matrix | Panels
    c: Matrix
    rows: Size
    columns: Size
    inner: Size
    bits: int
    room: Buffer | None = None
    adds: bool = False
    followed: Var | None = None
    batch: Batch | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Several products at once; from one to the next their arrays move by so many elements."""

    count: Size
    a: Size
    b: Size
    c: Size


@dataclass(frozen=True, slots=True)
class Launch:
    """Runs a kernel of the program, known by its number, over so many trips. args: what its parameters stand for.

    Results of reductions go to buffers of one element, the last of these. guards: what may fail in it, by their numbers
    in the kernel; the first trip that fails ends the run. block: the threads of a block, if these are not as many as
    the kernel says; then a trip keeps a block busy. reach: up to where its indices go, with atoms of which the signs do
    not matter; if one of these is too large for narrow indices, they are wide.
    """

    kernel: int
    trips: Atom
    args: tuple[Value, ...]
    guards: tuple[Guard, ...]
    block: Atom | None = None
    reach: tuple[Size, ...] = ()


@dataclass(frozen=True, slots=True)
class Only:
    """In front of the trips of a kernel: there are none unless a condition holds."""

    condition: Var


@dataclass(frozen=True, slots=True)
class OnDevice:
    """Has the device do a statement in its own memory, where all arrays of it are: one of those inside."""

    stmt: Allocate | Free | Move | Product


@dataclass(frozen=True, slots=True)
class OnHost:
    """Statements of the host on arrays of the device: inside, they are copies that the host has of them.

    arrays: those that are looked at; changed: which of them are copied back. held: those of which the host has a copy
    already, beside it. made: arrays of the host that the statements bind; behind them they are the device's.
    """

    stmts: tuple[Stmt, ...]
    arrays: tuple[Buffer, ...]
    changed: tuple[Buffer, ...]
    held: tuple[tuple[Buffer, Buffer], ...]
    made: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    """var = an element of an array of the device, for which the host waits."""

    var: Var
    buffer: Buffer
    offset: Size


@dataclass(frozen=True, slots=True)
class Transfer:
    """Copies `count` elements from the host to the device, if `up`, or back."""

    target: Buffer
    source: Buffer
    count: Size
    up: bool


# ---- nodes of datatypes ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Node:
    """var = a new node: its tag, then a word for each reference (a handle, or an array in the arena), then the scalars.

    A reference is what a collector follows.
    """

    var: Var
    tag: int
    references: tuple[Value, ...]
    scalars: tuple[Atom, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class LoadTag:
    var: Var
    node: Atom


@dataclass(frozen=True, slots=True)
class LoadField:
    """slot = a word of a node; shape: of an array."""

    slot: Slot
    node: Atom
    word: int
    shape: tuple[Size, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """Room in the arena for an array that a node holds; it is never freed."""

    buffer: Buffer
    shape: tuple[Size, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Mark:
    """var = where the arena ends now."""

    var: Var


@dataclass(frozen=True, slots=True)
class Release:
    """The arena ends at a mark again: nothing refers to what was made since then."""

    mark: Var


@dataclass(frozen=True, slots=True)
class Collect:
    """If the arena ends beyond `trigger`: drops what was made since the mark and is not reached from here.

    What stays moves: `results` are the handles afterwards, arrays of handles change in place. following: next trigger.
    """

    mark: Var
    trigger: Var
    handles: tuple[Atom, ...]
    arrays: tuple[ArrayValue, ...]
    results: tuple[Var, ...]
    following: Var


# ---- where code comes from, and what it costs ------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class At:
    """What follows, up to the next of these, comes from a place in a source."""

    span: Span


@dataclass(frozen=True, slots=True)
class Enter:
    """Here a nest of the program's list begins: its clock starts."""

    nest: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Here it ends."""

    nest: int


@dataclass(frozen=True, slots=True)
class Count:
    """Adds to what a nest, known by its number, has moved and computed."""

    nest: Atom
    bytes: Size
    operations: Size


# ---- control ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Body:
    stmts: tuple[Stmt, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """result = the values of all trips combined by a monoid, in any order.

    `argmax` and `argmin` combine pairs: the extremum and, in `rank` and `position`, its lowest rank; -1 if none.
    """

    monoid: str
    result: Var
    value: Atom
    position: Var | None = None
    rank: Atom | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """Independent trips, max(lows) <= var < min(highs). `lanes` at once if more than 1, else one by one.

    No trip reads what another one stores, and no two store to one element, except where a `Store` combines or both
    store the same; such a loop has one lane. apart: buffers in which they do not even there, nor in parts of them.
    tail: how many of what the lanes leave go at once; all if 0. masked: the lanes have a mask in all trips, where they
    can. short: little code, as it hardly ever runs. few: trips may be few, with much work in each. rooms: memory that
    trips use one after another, each for values of its own.
    """

    var: Var
    lows: tuple[Size, ...]
    highs: tuple[Size, ...]
    stmts: tuple[Stmt, ...]
    reductions: tuple[Reduction, ...] = ()
    lanes: int = 1
    apart: tuple[Buffer, ...] = ()
    tail: int = 0
    masked: bool = False
    short: bool = False
    few: bool = False
    rooms: tuple[Allocate, ...] = ()


@dataclass(frozen=True, slots=True)
class Pieces:
    """length = how many of the trips max(lows) <= … < min(highs) a piece of a `Parallel` has; sizes alone decide it.

    work: an estimate of the time of all trips, in picoseconds; grain: the least that a piece should have. A piece has
    a multiple of `align` trips, unless it is the only one.
    """

    length: Var
    lows: tuple[Size, ...]
    highs: tuple[Size, ...]
    work: Size
    grain: Size
    align: int


@dataclass(frozen=True, slots=True)
class Partial:
    """In a piece `own` stands for `whole`, an array of so many elements that all pieces add to.

    The first piece adds to the array itself, any other to one of its own, which is added in order of the pieces.
    """

    whole: Buffer
    own: Buffer
    size: Size


@dataclass(frozen=True, slots=True)
class Parallel:
    """Independent trips, max(lows) <= … < min(highs), in pieces that may run at once.

    Piece `number`, from 0 on, does the trips first <= … < last; each has `length` of them, but for the last.
    captures: what the pieces use from outside, but for `partials`. The reductions combine what each piece gives, in
    order.
    """

    number: Var
    first: Var
    last: Var
    lows: tuple[Size, ...]
    highs: tuple[Size, ...]
    length: Var
    captures: tuple[Slot, ...]
    stmts: tuple[Stmt, ...]
    reductions: tuple[Reduction, ...] = ()
    partials: tuple[Partial, ...] = ()


@dataclass(frozen=True, slots=True)
class For:
    """Trips in order, carrying slots. With `early` the body's first result says whether to go on."""

    index: Var
    low: Size
    high: Size
    params: tuple[Slot, ...]
    init: tuple[Value, ...]
    body: Body
    results: tuple[Slot, ...]
    early: bool = False


@dataclass(frozen=True, slots=True)
class While:
    params: tuple[Slot, ...]
    init: tuple[Value, ...]
    condition: Body
    body: Body
    results: tuple[Slot, ...]
    early: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """rare: `then` hardly ever runs."""

    condition: Atom
    then: Body
    otherwise: Body
    results: tuple[Slot, ...]
    rare: bool = False


Stmt = (
    Compute | Convert | Evaluate | Load | Store | Move | Slice | Allocate | Free | Guard | Runtime | Invoke | CallC
    | Product | Pack | Launch | Only | OnDevice | OnHost | Fetch | Transfer | Node | LoadTag | LoadField | Room | Mark
    | Release | Collect | At | Enter | Leave | Count | Loop | Pieces | Parallel | For | While | Branch
)  # fmt: skip


# ---- programs --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Function:
    """outs: destinations, parameters too, of the results whose sizes the parameters determine. results: the others.

    order: for each result of the function in the core IR, ("out" | "result", position), or None for a token. device:
    whether arrays of numbers that it takes and gives are in the memory of one.
    """

    name: str
    params: tuple[Slot, ...]
    outs: tuple[ArrayValue, ...]
    body: Body
    order: tuple[tuple[str, int] | None, ...]
    recursive: bool = False
    label: str = ""
    span: Span | None = None
    device: bool = False


@dataclass(frozen=True, slots=True)
class Nest:
    """A piece of a program that a profile has a row for.

    kind: `loop`, `product`, `copy`, `host`, `C`, or `function` for what of one is in none of its nests; with a device
    also `transfer` between it and the host, `numbers` that it works on one by one, and `counts` that a profile makes
    there. countable: whether it is known how many operations it does; dtype: of the most precise of them, `f64` or
    `f32`, and that of a product. kernels: the names of those that it launches.
    """

    kind: str
    label: str
    span: Span | None
    countable: bool = True
    dtype: str = "f64"
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """nests: what a profile is of, if the program has been made to be profiled. kernels: what it launches; careful:
    whether something may fail in one.
    """

    functions: dict[str, Function]
    nests: tuple[Nest, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    careful: bool = False
