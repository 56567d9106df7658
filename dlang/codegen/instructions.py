"""Instructions of the loop-nest IR, the statements that hold no other statements, and their operands: buffers, and
arrays and matrices in these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Annotated, ClassVar

from dlang.diagnostics import Span
from dlang.ir.anf import Atom, Size, Var, poly
from dlang.ir.roles import FunctionName, Offset, Role, Trait
from dlang.ir.terms import WIDTHS, ZERO
from dlang.ir.types import product
from dlang.ops import figures

# ---- operands/instructions -------------------------------------------------------------------------------------------
_serial = count(1)


@dataclass(eq=False, slots=True, repr=False)
class Buffer:
    """A pointer to elements of a dtype; compared by identity."""

    ROLE: ClassVar[Role] = Role.OPERAND
    name: str
    dtype: str
    serial: int = field(default_factory=lambda: next(_serial))

    def __repr__(self) -> str:
        return f"&{self.name}.{self.serial}"


Slot = Var | Buffer
Value = Atom | Buffer
Result = Annotated[Var, Role.RESULT]
ResultBuffer = Annotated[Buffer, Role.RESULT]
ResultSlot = Annotated[Slot, Role.RESULT]
Param = Annotated[Slot, Role.BINDER]
ParamBuffer = Annotated[Buffer, Role.BINDER]
InnerAtom = Annotated[Atom, Trait.INSIDE]
InnerValue = Annotated[Value, Trait.INSIDE]
InnerBuffer = Annotated[Buffer, Trait.INSIDE]
Written = Annotated[Buffer, Trait.WRITTEN]
Handed = Annotated[Value, Trait.HANDED]
Low = Annotated[Size, Trait.LOW]
High = Annotated[Size, Trait.HIGH]


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """An array handed to the runtime: contiguous elements and their shape."""

    FORM: ClassVar[str] = "{buffer}[{shape}]"
    buffer: Buffer
    shape: tuple[Size, ...]


Operand = Atom | ArrayValue


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory: a stored row is `stride` elements from the next; `transposed` if it is read by columns."""

    FORM: ClassVar[str] = "{buffer}[{offset}, stride {stride}]⟨transposed?ᵀ⟩"
    buffer: Buffer
    offset: Size
    stride: Size
    transposed: bool

    @property
    def turned(self) -> Matrix:
        """The transpose, in the same memory."""
        return Matrix(self.buffer, self.offset, self.stride, not self.transposed)


@dataclass(frozen=True, slots=True)
class Scattered:
    """A matrix whose elements are anywhere: bytes from `offset` on are those of their row plus those of their column.

    rows, columns: arrays of i64 that have these bytes; that of the columns has one more, which means nothing.
    """

    FORM: ClassVar[str] = "{buffer}[{offset}, rows {rows}, columns {columns}]"
    buffer: Buffer
    offset: Size
    rows: Buffer
    columns: Buffer


@dataclass(frozen=True, slots=True)
class Panels:
    """A matrix as `Pack` leaves it, from an element of the buffer on: panel after panel of `width` columns."""

    FORM: ClassVar[str] = "{buffer}[{offset}, panels of {width}]"
    buffer: Buffer
    offset: Size
    width: int


WORD = 8
"""The bytes of a word."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The answers to what passes ask of all statements of a class.

    scalar: it makes one scalar of scalars and sizes. straight: the same, or it loads an element, finds an address, or
    says where code comes from. follows: what it binds depends on its operands alone, not on when it is done. makes: it
    makes room for an array. kernel: a kernel can do it, as far as it is about numbers. threads: several threads may do
    it at once, without the host. nest: the kind of its row in a profile, if it has one of its own. time: about how many
    picoseconds it takes, those of its steps left out (`Work`); None if that is not known.
    """

    scalar: bool = False
    straight: bool = False
    follows: bool = False
    makes: bool = False
    kernel: bool = False
    threads: bool = False
    nest: str = ""
    time: int | None = figures.CALL


# ---- scalars, memory and calls ---------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Compute:
    """var = a primitive of scalars."""

    FORM: ClassVar[str] = "{var:typed} = {name}({args})"
    IS: ClassVar[Properties] = Properties(scalar=True, straight=True, follows=True, kernel=True, threads=True)
    var: Result
    name: str
    args: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Convert:
    """var = a conversion of a scalar to the dtype of var."""

    FORM: ClassVar[str] = "{var:typed} = cast {arg}"
    IS: ClassVar[Properties] = Properties(scalar=True, straight=True, follows=True, kernel=True, threads=True)
    var: Result
    arg: Atom


@dataclass(frozen=True, slots=True)
class Evaluate:
    """var = a polynomial."""

    FORM: ClassVar[str] = "{var:typed} = {size}"
    IS: ClassVar[Properties] = Properties(scalar=True, straight=True, follows=True, kernel=True, threads=True)
    var: Result
    size: Size


@dataclass(frozen=True, slots=True)
class FirstLane:
    """var = a polynomial in the variable of a loop, as it is in the first of the iterations that go at once."""

    FORM: ClassVar[str] = "{var:typed} = first lane of {size}"
    IS: ClassVar[Properties] = Properties(kernel=True, threads=True, time=0)
    var: Result
    size: Size


@dataclass(frozen=True, slots=True)
class Load:
    FORM: ClassVar[str] = "{var:typed} = {buffer}[{offset}]"
    IS: ClassVar[Properties] = Properties(straight=True, follows=True, kernel=True, threads=True, time=figures.LOAD)
    var: Result
    buffer: Buffer
    offset: Offset


@dataclass(frozen=True, slots=True)
class Store:
    """buffer[offset] = value, or its combination with what is there by a monoid.

    sure: whether there is such an element for all values of what the offset mentions, also where loops around, whose
    variables it does not mention, have no iteration.
    """

    FORM: ClassVar[str] = "{buffer}[{offset}] {monoid:assign} {value}⟨sure? surely⟩"
    IS: ClassVar[Properties] = Properties(kernel=True, threads=True, time=figures.STORE)
    buffer: Written
    offset: Offset
    value: Atom
    monoid: str = "set"
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """Copies `count` elements between buffers that do not overlap."""

    FORM: ClassVar[str] = "move {target} <- {source}, {count}"
    IS: ClassVar[Properties] = Properties(threads=True, nest="copy", time=0)
    target: Written
    source: Buffer
    count: Size


@dataclass(frozen=True, slots=True)
class Slice:
    """result = the address of an element."""

    FORM: ClassVar[str] = "{result:typed} = address {source}[{offset}]"
    IS: ClassVar[Properties] = Properties(straight=True, follows=True, kernel=True, threads=True)
    result: ResultBuffer
    source: Buffer
    offset: Offset


@dataclass(frozen=True, slots=True)
class Allocate:
    """Room for an array, with `extra` elements behind it."""

    FORM: ClassVar[str] = "{buffer} = allocate {buffer.dtype}[{shape}]⟨extra? + {extra}⟩"
    IS: ClassVar[Properties] = Properties(makes=True, threads=True, time=figures.ALLOCATION)
    buffer: ResultBuffer
    shape: tuple[Size, ...]
    extra: int = 0
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Free:
    FORM: ClassVar[str] = "free {buffer}"
    IS: ClassVar[Properties] = Properties(threads=True, time=figures.ALLOCATION)
    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Assert:
    """Ends the run with a message unless the condition holds."""

    FORM: ClassVar[str] = 'guard {condition} else "{code}" ({parts}) ({values})'
    IS: ClassVar[Properties] = Properties(kernel=True)
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

    FORM: ClassVar[str] = "⟨results?{results:typed} = ⟩runtime {name} ({static}) ({args}) -> ({outs})"
    IS: ClassVar[Properties] = Properties(nest="host", time=None)
    name: str
    static: tuple[str, ...]
    args: tuple[Operand, ...]
    outs: tuple[Annotated[ArrayValue, Trait.WRITTEN], ...]
    results: tuple[ResultSlot, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class TextOp:
    """var = what is made of texts without the host: `join`, the text of all; `flat`, the text in one piece; or whether
    two are as a comparison says."""

    FORM: ClassVar[str] = "{var:typed} = text {name} ({texts})"
    IS: ClassVar[Properties] = Properties()
    var: Result
    name: str
    texts: tuple[Atom, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Invoke:
    """A call: arguments, destinations of the results whose sizes the caller knows, and the other results."""

    FORM: ClassVar[str] = "⟨results?{results:typed} = ⟩call {function}({args}) -> ({outs})"
    IS: ClassVar[Properties] = Properties()
    function: FunctionName
    args: tuple[Handed, ...]
    outs: tuple[Written, ...]
    results: tuple[ResultSlot, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class CallC:
    """A C function, or a routine of BLAS or LAPACK by its symbol: scalars by value, arrays by pointer.

    What fills an array takes its pointer last. threads: of a kernel, how many are to run. extents: of a C function, the
    elements of each array; a routine's arguments say them.
    """

    FORM: ClassVar[str] = (
        "⟨result!?{result:typed} = ⟩foreign {target}({args})"
        "⟨threads!?, threads {threads}⟩⟨extents?, extents [{extents}]⟩"
    )
    IS: ClassVar[Properties] = Properties(nest="C", time=None)
    target: str
    args: tuple[Handed, ...]
    result: Result | None
    threads: Size | None = None
    span: Span | None = None
    extents: tuple[Size, ...] = ()


@dataclass(frozen=True, slots=True)
class Pack:
    """target = a matrix (rows × columns) in panels, in each its rows one after another; the last ends with zeros."""

    FORM: ClassVar[str] = "pack {target} <- {source}, {rows} × {columns}"
    IS: ClassVar[Properties] = Properties(threads=True, nest="copy", time=0)
    target: Annotated[Panels, Trait.WRITTEN]
    source: Matrix | Scattered
    rows: Size
    columns: Size


@dataclass(frozen=True, slots=True)
class Product:
    """c (rows × columns) = a (rows × inner) · b (inner × columns), or is increased by that. c is not transposed.

    workspace: where a part of b is put in panels at a time, as large as `packing.workspace_shape` says; small products
    do without, and those by panels. bits: of the vectors that are made for it. followed: whether the next product of a
    batch, of the same sizes, lies right behind in all three arrays. A scattered `a` needs `b` in panels. batch: on a
    device, if there are several.
    """

    FORM: ClassVar[str] = (
        "product {c} ⟨adds?+=|=⟩ {a} · {b}, {rows} × {inner} × {columns}, {bits} bits"
        "⟨workspace!?, workspace {workspace}⟩⟨followed!?, the next one behind it if {followed}⟩⟨batch!?, {batch}⟩"
    )
    IS: ClassVar[Properties] = Properties(threads=True, nest="product", time=figures.PRODUCT_CALL)
    a: Matrix | Scattered
    b: Matrix | Panels
    c: Annotated[Matrix, Trait.WRITTEN]
    rows: Size
    columns: Size
    inner: Size
    bits: int
    workspace: Buffer | None = None
    adds: bool = False
    followed: Var | None = None
    batch: Batch | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Several products at once; from one to the next their arrays move by so many elements."""

    FORM: ClassVar[str] = "{count} times, by {a}, {b} and {c}"
    count: Size
    a: Size
    b: Size
    c: Size


@dataclass(frozen=True, slots=True)
class Launch:
    """Runs a kernel of the program, known by its number, over so many iterations. args: what its parameters stand for.

    Results of reductions go to buffers of one element, the last of these. guards: what may fail in it, by their numbers
    in the kernel; the first iteration that fails ends the run. block: the threads of a block, if these are not as many
    as the kernel says; then an iteration keeps a block busy. reach: up to where its indices go, with atoms of which the
    signs do not matter; if one of these is too large for narrow indices, they are wide.
    """

    FORM: ClassVar[str] = (
        "launch kernel {kernel}, {iterations} iterations"
        "⟨block!?, blocks of {block}⟩⟨reach?, indices up to ({reach})⟩ ({args})"
    )
    IS: ClassVar[Properties] = Properties()
    kernel: int
    iterations: Atom
    args: tuple[Handed, ...]
    guards: Annotated[tuple[Assert, ...], Role.STATIC]
    block: Atom | None = None
    reach: tuple[Size, ...] = ()


@dataclass(frozen=True, slots=True)
class Only:
    """Stands in front of the iterations of a kernel: there are none unless a condition holds."""

    FORM: ClassVar[str] = "only if {condition}"
    IS: ClassVar[Properties] = Properties()
    condition: Var


@dataclass(frozen=True, slots=True)
class Fetch:
    """var = an element of an array of the device, for which the host waits."""

    FORM: ClassVar[str] = "{var:typed} = fetch {buffer}[{offset}]"
    IS: ClassVar[Properties] = Properties()
    var: Result
    buffer: Buffer
    offset: Offset


@dataclass(frozen=True, slots=True)
class Transfer:
    """Copies `count` elements from the host to the device, if `up`, or back."""

    FORM: ClassVar[str] = "⟨up?upload|download⟩ {target} <- {source}, {count}"
    IS: ClassVar[Properties] = Properties()
    target: Written
    source: Buffer
    count: Size
    up: bool


@dataclass(frozen=True, slots=True)
class Hold:
    """Begins or ends the time in which nothing changes an array of the device, so that the host may keep a copy."""

    FORM: ClassVar[str] = "hold {buffer}⟨begins?| no longer⟩"
    IS: ClassVar[Properties] = Properties()
    buffer: Buffer
    begins: bool


# ---- nodes of datatypes ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Node:
    """var = a new node: its tag, then a word for each reference (a handle, or an array in the arena), then the scalars.

    A reference is what a collector follows.
    """

    FORM: ClassVar[str] = "{var:typed} = node {tag} ({references}) ({scalars})"
    IS: ClassVar[Properties] = Properties()
    var: Result
    tag: int
    references: tuple[Value, ...]
    scalars: tuple[Atom, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class LoadTag:
    FORM: ClassVar[str] = "{var:typed} = tag {node}"
    IS: ClassVar[Properties] = Properties(follows=True, threads=True, time=figures.LOAD)
    var: Result
    node: Atom


@dataclass(frozen=True, slots=True)
class LoadField:
    """slot = a word of a node; shape: of an array."""

    FORM: ClassVar[str] = "{slot:typed} = word {word} of {node}⟨shape?, shape [{shape}]⟩"
    IS: ClassVar[Properties] = Properties(follows=True, threads=True, time=figures.LOAD)
    slot: ResultSlot
    node: Atom
    word: int
    shape: tuple[Size, ...] = ()


@dataclass(frozen=True, slots=True)
class ArenaAllocate:
    """Memory in the arena for an array that a node holds; it is never freed."""

    FORM: ClassVar[str] = "{buffer} = arena {buffer.dtype}[{shape}]"
    IS: ClassVar[Properties] = Properties(makes=True)
    buffer: ResultBuffer
    shape: tuple[Size, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Mark:
    """var = where the arena ends now."""

    FORM: ClassVar[str] = "{var:typed} = mark"
    IS: ClassVar[Properties] = Properties()
    var: Result


@dataclass(frozen=True, slots=True)
class Release:
    """The arena ends at a mark again: nothing refers to what was made since then."""

    FORM: ClassVar[str] = "release {mark}"
    IS: ClassVar[Properties] = Properties()
    mark: Var


@dataclass(frozen=True, slots=True)
class Collect:
    """Drops what was made since the mark and is not reached from here, if the arena ends beyond `trigger`.

    What stays moves: `results` are the handles afterwards, arrays of handles change in place. following: next trigger.
    """

    FORM: ClassVar[str] = "{following:typed} = collect {mark} at {trigger} (⟦{results:typed} = {handles}⟧) ({arrays})"
    IS: ClassVar[Properties] = Properties()
    mark: Var
    trigger: Var
    handles: tuple[Atom, ...]
    arrays: tuple[ArrayValue, ...]
    results: tuple[Result, ...]
    following: Result


# ---- where code comes from, and what it costs ------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class At:
    """Gives the place in a source of the lines that follow, up to the next of these."""

    FORM: ClassVar[str] = "# {span}"
    IS: ClassVar[Properties] = Properties(straight=True, kernel=True, time=0)
    span: Span


@dataclass(frozen=True, slots=True)
class Enter:
    """Here a nest of the program's list begins: its clock starts."""

    FORM: ClassVar[str] = "enter nest {nest}"
    IS: ClassVar[Properties] = Properties(time=0)
    nest: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Here it ends."""

    FORM: ClassVar[str] = "leave nest {nest}"
    IS: ClassVar[Properties] = Properties(time=0)
    nest: int


@dataclass(frozen=True, slots=True)
class Count:
    """Adds to what a nest, known by its number, has moved and computed."""

    FORM: ClassVar[str] = "count of nest {nest}: {bytes} bytes, {operations} operations"
    IS: ClassVar[Properties] = Properties(time=0)
    nest: Atom
    bytes: Size
    operations: Size


@dataclass(frozen=True, slots=True)
class Work:
    """The amounts of what a statement does.

    bytes, operations: those that a profile counts. steps: factors of how many there are; each: the picoseconds of one,
    beside `Properties.time`.
    """

    bytes: Size
    operations: Size = ZERO
    steps: tuple[Size, ...] = ()
    each: int = 0


def work_of(stmt: object) -> Work | None:
    """The work of a statement that is more than one element, or one operation."""
    match stmt:
        case Move(target, _, count):
            return Work(count * (2 * width(target.dtype)), steps=(count,), each=figures.MOVED)
        case Pack(target, _, rows, columns):
            return Work(rows * columns * (2 * width(target.buffer.dtype)), steps=(rows, columns), each=figures.MOVED)
        case Product(_, _, c, rows, columns, inner):
            elements, bytes = rows * inner + inner * columns + rows * columns, width(c.buffer.dtype)
            steps = rows, columns, inner
            return Work(elements * bytes, product(steps) * 2, steps, figures.PRODUCT * bytes // 4)
        case Runtime(_, _, args, outs):
            arrays = [x for x in (*args, *outs) if isinstance(x, ArrayValue)]
            return Work(sum([product(x.shape) * width(x.buffer.dtype) for x in arrays], ZERO))
        case Node(_, _, references, scalars):
            return Work(poly(WORD * (1 + len(references) + len(scalars))))
        case LoadTag() | LoadField():
            return Work(poly(WORD))
        case _:
            return None


def width(dtype: str) -> int:
    """The bytes of an element; a text and a handle are words."""
    return WIDTHS.get(dtype, WORD)
