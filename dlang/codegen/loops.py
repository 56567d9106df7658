"""The loop-nest IR: programs after scheduling, where arrays are memory and comprehensions are loops.

Scalars keep the variables and polynomials of the core IR; an array is a `Buffer`, a pointer to elements in row-major
order. Control is structured, and what a loop or branch carries or binds is explicit, so a back end emits it without an
analysis of its own: a `Slot` is a scalar variable or a buffer, and each is bound once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from dlang.diagnostics import Span
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var

_serial = count(1)


@dataclass(eq=False, slots=True, repr=False)
class Buffer:
    """A pointer to elements of a dtype; compared by identity."""

    name: str
    dtype: str
    serial: int = field(default_factory=lambda: next(_serial))

    def __repr__(self) -> str:
        return f"&{self.name}.{self.serial}"


def scalar_dtype(atom: Atom) -> str:
    """The dtype of a scalar."""
    assert isinstance(atom.type, Scalar)
    return atom.type.dtype


Slot = Var | Buffer
Value = Atom | Buffer


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """An array handed to the runtime: contiguous elements and their shape."""

    buffer: Buffer
    shape: tuple[Size, ...]


Operand = Atom | ArrayValue


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
    """A C function: scalars by value, arrays by pointer, last that of the array which it fills."""

    target: str
    args: tuple[Value, ...]
    result: Var | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory: a stored row is `stride` elements from the next; `transposed` if it is read by columns."""

    buffer: Buffer
    offset: Size
    stride: Size
    transposed: bool


@dataclass(frozen=True, slots=True)
class Product:
    """c (rows × columns) = a (rows × inner) · b (inner × columns), by a library."""

    a: Matrix
    b: Matrix
    c: Matrix
    rows: Size
    columns: Size
    inner: Size


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
    """slot = a word of a node."""

    slot: Slot
    node: Atom
    word: int


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

    What stays moves, so `results` are the handles afterwards; arrays of handles change in place. following: the next
    trigger.
    """

    mark: Var
    trigger: Var
    handles: tuple[Atom, ...]
    arrays: tuple[ArrayValue, ...]
    results: tuple[Var, ...]
    following: Var


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
    """Independent trips, max(lows) <= var < min(highs). `lanes` trips at once if more than 1, else one by one.

    No trip reads what another one stores, and no two store to one element, except where a `Store` combines; such a
    loop has one lane.
    """

    var: Var
    lows: tuple[Size, ...]
    highs: tuple[Size, ...]
    stmts: tuple[Stmt, ...]
    reductions: tuple[Reduction, ...] = ()
    lanes: int = 1


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
    condition: Atom
    then: Body
    otherwise: Body
    results: tuple[Slot, ...]


Stmt = (
    Compute | Convert | Evaluate | Load | Store | Move | Slice | Allocate | Free | Guard | Runtime | Invoke | CallC
    | Product | Node | LoadTag | LoadField | Room | Mark | Release | Collect | Loop | For | While | Branch
)  # fmt: skip


# ---- programs --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Function:
    """outs: destinations, parameters too, of the results whose sizes the parameters determine. results: the others.

    order: for each result of the function in the core IR, ("out" | "result", position), or None for a token.
    """

    name: str
    params: tuple[Slot, ...]
    outs: tuple[ArrayValue, ...]
    body: Body
    order: tuple[tuple[str, int] | None, ...]
    recursive: bool = False
    label: str = ""
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Program:
    functions: dict[str, Function]


# ---- printing --------------------------------------------------------------------------------------------------------
def _list(xs: tuple[object, ...]) -> str:
    return ", ".join(map(_text, xs))


def _text(x: object) -> str:
    match x:
        case Lit(value, dtype):
            return f'"{value}"' if dtype == "str" else f"{value}{'' if dtype in ('i64', 'bool') else dtype}"
        case ArrayValue(buffer, shape):
            return f"{buffer}[{_list(shape)}]"
        case Matrix(buffer, offset, stride, transposed):
            return f"{buffer}[{offset}, stride {stride}]{'ᵀ' if transposed else ''}"
        case _:
            return str(x)


def _bound(word: str, sizes: tuple[Size, ...]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{word}({_list(sizes)})"


def _lines(stmts: tuple[Stmt, ...], out: list[str], pad: str) -> None:
    inner = pad + "  "
    for stmt in stmts:
        match stmt:
            case Compute(var, name, args):
                out.append(f"{pad}{var} = {name}({_list(args)})")
            case Convert(var, arg):
                out.append(f"{pad}{var} = {scalar_dtype(var)}({_text(arg)})")
            case Evaluate(var, size):
                out.append(f"{pad}{var} = {size}")
            case Load(var, buffer, offset):
                out.append(f"{pad}{var} = {buffer}[{offset}]")
            case Store(buffer, offset, value, monoid):
                out.append(f"{pad}{buffer}[{offset}] {'' if monoid == 'set' else monoid}= {_text(value)}")
            case Move(target, source, size):
                out.append(f"{pad}move {target} <- {source}, {size}")
            case Slice(result, source, offset):
                out.append(f"{pad}{result} = address {source}[{offset}]")
            case Allocate(buffer, shape, extra):
                out.append(f"{pad}{buffer} = allocate {buffer.dtype}[{_list(shape)}]{f' + {extra}' if extra else ''}")
            case Free(buffer):
                out.append(f"{pad}free {buffer}")
            case Guard(condition, code, _, values):
                out.append(f"{pad}guard {_text(condition)} else {code}({_list(values)})")
            case Runtime(name, _, args, outs, results):
                out.append(f"{pad}{_list(results)} = runtime {name}({_list(args)}) -> ({_list(outs)})")
            case Invoke(function, arguments, targets, bound):
                out.append(f"{pad}{_list(bound)} = call {function}({_list(arguments)}) -> ({_list(targets)})")
            case CallC(target, arguments, result):
                out.append(f"{pad}{f'{result} = ' if result is not None else ''}{target}({_list(arguments)})")
            case Product(a, b, c, rows, columns, k):
                out.append(f"{pad}{_text(c)} = {_text(a)} · {_text(b)}  # {rows} × {k} × {columns}")
            case Node(var, tag, references, scalars):
                out.append(f"{pad}{var} = node {tag} ({_list(references)}) ({_list(scalars)})")
            case LoadTag(var, node):
                out.append(f"{pad}{var} = tag {_text(node)}")
            case LoadField(slot, node, word):
                out.append(f"{pad}{slot} = word {word} of {_text(node)}")
            case Room(buffer, shape):
                out.append(f"{pad}{buffer} = room {buffer.dtype}[{_list(shape)}]")
            case Mark(var):
                out.append(f"{pad}{var} = mark")
            case Release(var):
                out.append(f"{pad}release {var}")
            case Collect(mark, trigger, handles, arrays, results, following):
                given, made = _list((*handles, *arrays)), _list((*results, following))
                out.append(f"{pad}{made} = collect {mark} at {trigger} ({given})")
            case Loop():
                lanes = f" by {stmt.lanes}" if stmt.lanes > 1 else ""
                out.append(f"{pad}loop {stmt.var} in {_bound('max', stmt.lows)}..{_bound('min', stmt.highs)}{lanes}")
                _lines(stmt.stmts, out, inner)
                for r in stmt.reductions:
                    place = f" at {r.position} = {_text(r.rank)}" if r.position is not None else ""
                    out.append(f"{inner}{r.result} {r.monoid}= {_text(r.value)}{place}")
            case For():
                out.append(f"{pad}for {stmt.index} in {stmt.low}..{stmt.high} {_carried(stmt.params, stmt.init)}")
                _body(stmt.body, out, inner)
                out.append(f"{pad}=> {_list(stmt.results)}")
            case While():
                out.append(f"{pad}while {_carried(stmt.params, stmt.init)}")
                _body(stmt.condition, out, inner)
                out.append(f"{pad}do")
                _body(stmt.body, out, inner)
                out.append(f"{pad}=> {_list(stmt.results)}")
            case Branch():
                out.append(f"{pad}if {_text(stmt.condition)}")
                _body(stmt.then, out, inner)
                out.append(f"{pad}else")
                _body(stmt.otherwise, out, inner)
                out.append(f"{pad}=> {_list(stmt.results)}")


def _carried(params: tuple[Slot, ...], init: tuple[Value, ...]) -> str:
    return "(" + ", ".join(f"{p} = {_text(i)}" for p, i in zip(params, init, strict=True)) + ")"


def _body(body: Body, out: list[str], pad: str) -> None:
    _lines(body.stmts, out, pad)
    out.append(f"{pad}-> {_list(body.results)}")


def print_function(function: Function) -> str:
    """A function of the loop-nest IR as text."""
    out = [f"fn {function.name}({_list(function.params)}) -> ({_list(function.outs)})"]
    _body(function.body, out, "  ")
    return "\n".join(out) + "\n"


def print_program(program: Program) -> str:
    """A program of the loop-nest IR as text."""
    return "\n".join(print_function(f) for f in program.functions.values())
