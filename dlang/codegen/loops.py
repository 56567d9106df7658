"""The loop-nest IR: programs after scheduling, where arrays are memory and comprehensions are loops.

Scalars keep the variables and polynomials of the core IR; an array is a `Buffer`, a pointer to elements in row-major
order. Control is structured, and what it carries or binds is explicit, so a back end emits it without an analysis of
its own: a `Slot` is a scalar variable or a buffer, and each is bound once. What holds no statements is defined in
`instructions.py`, with what it works on; all have their names here.

A pass puts a decision on the loop or branch that it leaves, so that they go where the code goes; nothing depends on
it; `dlc ir --stage loops --why` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from dlang.codegen.abi import Kernel
from dlang.codegen.instructions import (
    Allocate as Allocate,
    ArenaAllocate as ArenaAllocate,
    ArrayValue as ArrayValue,
    Assert as Assert,
    At as At,
    Batch as Batch,
    Buffer as Buffer,
    CallC as CallC,
    Collect as Collect,
    Compute as Compute,
    Convert as Convert,
    Count as Count,
    Enter as Enter,
    Evaluate as Evaluate,
    Fetch as Fetch,
    FirstLane as FirstLane,
    Free as Free,
    High,
    Hold as Hold,
    InnerAtom,
    InnerBuffer,
    InnerValue,
    Invoke as Invoke,
    Launch as Launch,
    Leave as Leave,
    Load as Load,
    LoadField as LoadField,
    LoadTag as LoadTag,
    Low,
    Mark as Mark,
    Matrix as Matrix,
    Move as Move,
    Node as Node,
    Only as Only,
    Operand as Operand,
    Pack as Pack,
    Panels as Panels,
    Param,
    ParamBuffer,
    Product as Product,
    Properties as Properties,
    Release as Release,
    Result,
    ResultSlot,
    Runtime as Runtime,
    Scattered as Scattered,
    Slice as Slice,
    Slot as Slot,
    Store as Store,
    TextOp as TextOp,
    Transfer as Transfer,
    Value as Value,
    Work as Work,
    work_of as work_of,
)
from dlang.diagnostics import Span
from dlang.ir.anf import Atom, Size, Var
from dlang.ir.roles import Index, Role, Trait


# ---- decisions -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Decision:
    """The choice of a pass, and its reason. figures: those that decided, each for a `{}` in the reason."""

    choice: str
    reason: str
    figures: tuple[int | float | Size, ...] = ()


Stmts = Annotated["tuple[Stmt, ...]", Role.BLOCK]
Decisions = Annotated[tuple[Decision, ...], Role.HINT]


# ---- control ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Body:
    stmts: Stmts
    results: tuple[InnerValue, ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """result = the values of all iterations combined by a monoid, in any order.

    `argmax` and `argmin` combine pairs: the extremum and, in `rank` and `position`, its lowest rank; -1 if none.
    ascending: each iteration has higher ranks than those before it.
    """

    FORM: ClassVar[str] = (
        "{result:typed} {monoid}= {value}⟨position!? at {position:typed} = {rank}⟩⟨ascending?, ascending⟩"
    )
    monoid: str
    result: Result
    value: InnerAtom
    position: Result | None = None
    rank: InnerAtom | None = None
    ascending: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """Independent iterations, max(lows) <= var < min(highs). `lanes` at once if more than 1, else one by one.

    No iteration reads what another one stores, and no two store to one element, except where a `Store` combines or both
    store the same; such a loop has one lane. disjoint: buffers in which they do not even there, nor in parts of them.
    tail: how many of what the lanes leave go at once; all if 0. masked: the lanes have a mask in all iterations, where
    they can. few: how many iterations loops inside have; the lanes go only where none has many (`FEW_INSIDE`), else all
    iterations go one by one. short: little code, as it hardly ever runs. low_trip_count: iterations may be few, with
    much work in each.
    scratch: memory that iterations use one after another, each for values of its own. why: the decisions on the loop.

    The lanes of a loop inside of one with lanes are for the iterations of the outer one that are too few for its own.
    """

    FORM: ClassVar[str] = (
        "loop {var} in {lows:max}..{highs:min}⟨lanes>1? by {lanes}⟩⟨tail?, tail {tail}⟩⟨masked?, masked⟩"
        "⟨few?, few inside ({few})⟩⟨short?, short⟩⟨low_trip_count?, low trip count⟩⟨scratch?, scratch ({scratch})⟩"
        " {stmts:block}⟨reductions? gives ({reductions})⟩⟨disjoint? disjoint ({disjoint})⟩"
    )
    IS: ClassVar[Properties] = Properties(kernel=True, threads=True, nest="loop")
    var: Index
    lows: tuple[Low, ...]
    highs: tuple[High, ...]
    stmts: Stmts
    reductions: tuple[Reduction, ...] = ()
    lanes: int = 1
    disjoint: Annotated[tuple[Buffer, ...], Role.HINT] = ()
    tail: int = 0
    masked: bool = False
    few: tuple[Size, ...] = ()
    short: bool = False
    low_trip_count: bool = False
    scratch: Annotated[tuple[Allocate, ...], Trait.INSIDE] = ()
    why: Decisions = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Pieces:
    """length = how many of the iterations max(lows) <= … < min(highs) a piece of a `Parallel` has; sizes alone decide
    it.

    work: an estimate of the time of all iterations, in picoseconds; grain: the least that a piece should have. A piece
    has a multiple of `align` iterations, unless it is the only one. loose: or it has less, and then any number.
    """

    FORM: ClassVar[str] = (
        "{length:typed} = pieces of {lows:max}..{highs:min}, work {work}, each {grain}, by {align}⟨loose? or less⟩"
    )
    IS: ClassVar[Properties] = Properties(time=0)
    length: Result
    lows: tuple[Low, ...]
    highs: tuple[High, ...]
    work: Size
    grain: Size
    align: int
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Partial:
    """Replaces in a piece `whole`, an array of so many elements to which all pieces add, by `own`.

    The first piece adds to the array itself, any other to one of its own, which is added in order of the pieces.
    """

    FORM: ClassVar[str] = "{own:typed} for {whole}[{size}]"
    whole: Buffer
    own: ParamBuffer
    size: Size


@dataclass(frozen=True, slots=True)
class Parallel:
    """Independent iterations, max(lows) <= … < min(highs), in pieces that may run at once.

    Piece `number`, from 0 on, does the iterations first <= … < last; each has `length` of them, but for the last.
    captures: what the pieces use from outside, but for `partials`. The reductions combine what each piece gives, in
    order.
    """

    FORM: ClassVar[str] = (
        "parallel {number}, {first}..{last} of {lows:max}..{highs:min} by {length}, captures ({captures})"
        "⟨partials?, partials ({partials})⟩ {stmts:block}⟨reductions? gives ({reductions})⟩"
    )
    IS: ClassVar[Properties] = Properties()
    number: Index
    first: Index
    last: Index
    lows: tuple[Low, ...]
    highs: tuple[High, ...]
    length: Var
    captures: tuple[Slot, ...]
    stmts: Stmts
    reductions: tuple[Reduction, ...] = ()
    partials: tuple[Partial, ...] = ()


class InOrder:
    """Iterations one after another, with a state: `init` at first, then what the body gives, and `results` behind them.

    With `early` the body's first result says whether to go on.
    """

    __slots__ = ()
    params: tuple[Param, ...]
    init: tuple[Value, ...]
    body: Body
    results: tuple[ResultSlot, ...]
    early: bool

    @property
    def following(self) -> tuple[Value, ...]:
        """The state after an iteration."""
        return self.body.results[self.early :]


@dataclass(frozen=True, slots=True)
class For(InOrder):
    """Iterations of an index, low <= index < high."""

    FORM: ClassVar[str] = (
        "⟨results?{results:typed} = ⟩for {index} in {low}..{high} (⟦{params:typed} = {init}⟧)⟨early?, early⟩ {body}"
    )
    IS: ClassVar[Properties] = Properties(kernel=True, threads=True, nest="loop")
    index: Index
    low: Low
    high: High
    params: tuple[Param, ...]
    init: tuple[Value, ...]
    body: Body
    results: tuple[ResultSlot, ...]
    early: bool = False


@dataclass(frozen=True, slots=True)
class While(InOrder):
    """Iterations as long as the condition gives true."""

    FORM: ClassVar[str] = (
        "⟨results?{results:typed} = ⟩while (⟦{params:typed} = {init}⟧)⟨early?, early⟩ {condition} do {body}"
    )
    IS: ClassVar[Properties] = Properties(kernel=True, threads=True, nest="loop")
    params: tuple[Param, ...]
    init: tuple[Value, ...]
    condition: Body
    body: Body
    results: tuple[ResultSlot, ...]
    early: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """cold: `then` hardly ever runs. predicated: both arms run, in one path; an arm that the condition does not choose
    reads zeros, stores nothing and checks nothing. why: what was decided for the branch."""

    FORM: ClassVar[str] = (
        "⟨results?{results:typed} = ⟩if {condition}⟨cold?, rarely⟩⟨predicated?, predicated⟩ {then} else {otherwise}"
    )
    IS: ClassVar[Properties] = Properties(kernel=True, threads=True)
    condition: Atom
    then: Body
    otherwise: Body
    results: tuple[ResultSlot, ...]
    cold: bool = False
    predicated: bool = False
    why: Decisions = field(default=(), compare=False)


# ---- on a device -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class OnDevice:
    """Has the device do a statement in its own memory, where all arrays of it are: one of those inside."""

    FORM: ClassVar[str] = "on device: {stmt}"
    IS: ClassVar[Properties] = Properties()
    stmt: Allocate | Free | Move | Product


@dataclass(frozen=True, slots=True)
class OnHost:
    """Statements of the host on arrays of the device: inside, they are copies that the host has of them.

    arrays: those that are looked at; changed: which of them are copied back. held: those of which the host has a copy
    already, beside it. made: arrays of the host that the statements bind, and behind them the device's. still: which
    arrays nothing changes as long as they are held (`Hold`). parts: of which arrays only so many elements are needed.
    """

    FORM: ClassVar[str] = (
        "on host ({arrays})⟨changed?, changed ({changed})⟩⟨held?, held ({held})⟩⟨made?, made ({made})⟩"
        "⟨still?, still ({still})⟩⟨parts?, parts ({parts})⟩ {stmts:block}"
    )
    IS: ClassVar[Properties] = Properties()
    stmts: Annotated[tuple[Stmt, ...], Role.BLOCK, Trait.OPEN]
    arrays: tuple[Buffer, ...]
    changed: tuple[Buffer, ...]
    held: tuple[tuple[Buffer, Buffer], ...]
    made: tuple[InnerBuffer, ...]
    still: frozenset[Buffer] = frozenset()
    parts: tuple[tuple[Buffer, Size], ...] = ()


Stmt = (
    Compute | Convert | Evaluate | FirstLane | Load | Store | Move | Slice | Allocate | Free | Assert | Runtime | Invoke
    | CallC | TextOp | Product | Pack | Launch | Only | OnDevice | OnHost | Hold | Fetch | Transfer | Node | LoadTag
    | LoadField | ArenaAllocate | Mark | Release | Collect | At | Enter | Leave | Count | Loop | Pieces | Parallel | For
    | While | Branch
)  # fmt: skip


# ---- programs --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Function:
    """outs: destinations, parameters too, of the results whose sizes the parameters determine. results: the others.

    order: for each result of the function in the core IR, ("out" | "result", position), or None for a token. device:
    whether arrays of numbers that it takes and gives are in the memory of one. extents: of each parameter that is an
    array, how many elements it has.
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
    extents: tuple[Size | None, ...] = ()


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
