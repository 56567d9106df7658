"""The core IR: monomorphic, first-order, in A-normal form. This file is its one definition.

A block is a list of `let x, y: T = op(atoms)` and its results. Values are scalars, arrays of scalars, and tokens:
tuples and structs were flattened to their leaves by specialisation, an array of structs to one array per leaf. What can
contain itself (recursive enums, functions chosen when the program runs) is a *datatype* of the program, and a value of
it is a scalar: a handle to an immutable node, whose dtype is the name of the datatype.

Every variable carries its type; the sizes in a type are polynomials over i64 variables in scope, and two sizes are
equal when their normal forms are. A size known only when the program runs is one more i64 result before the arrays that
mention it, so the types of what a `let`, a function or a loop binds may mention the i64 variables bound before them.

Everything is immutable; a variable is its identity. Blocks nest: an inner block sees the variables before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from dlang.diagnostics import Span
from dlang.ir.roles import (
    Arguments,
    Binder,
    Bounds,
    Consumed,
    Element,
    Elements,
    FunctionName,
    Hint,
    Index,
    Initial,
    Inside,
    Offset,
    Properties,
    Role,
    Trait,
)  # fmt: skip
from dlang.ir.terms import (
    DTYPES as DTYPES,
    FLOATS as FLOATS,
    HALF as HALF,
    INTEGERS as INTEGERS,
    ONE as ONE,
    SIGNED as SIGNED,
    UNSIGNED as UNSIGNED,
    ZERO as ZERO,
    Array as Array,
    Atom as Atom,
    Datatype as Datatype,
    Lit as Lit,
    Scalar as Scalar,
    Size as Size,
    Token as Token,
    Type as Type,
    Var as Var,
    Variant as Variant,
    fresh as fresh,
    is_handle as is_handle,
    is_reference as is_reference,
    poly as poly,
    scalar as scalar,
)

if TYPE_CHECKING:
    from dlang.ir.crossing import PythonFunction


# ---- operations ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Prim:
    """A total function of scalars, of the table in `dlang/ops`. Binds one scalar.

    Integer division and remainder are total because their divisor went through an `Assert`.
    """

    FORM: ClassVar[str] = "{name}({args})"
    IS: ClassVar[Properties] = Properties(scalar=True, point=True, total=True)
    name: str
    args: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """Conversion of a scalar: a float to an integer truncates and saturates (NaN gives 0), integers wrap."""

    FORM: ClassVar[str] = "cast {dtype} {arg}"
    IS: ClassVar[Properties] = Properties(scalar=True, point=True, total=True)
    dtype: str
    arg: Atom


@dataclass(frozen=True, slots=True)
class IndexExpr:
    """The value of a polynomial. Binds one i64."""

    FORM: ClassVar[str] = "size {size}"
    IS: ClassVar[Properties] = Properties(scalar=True, point=True, total=True)
    size: Size


@dataclass(frozen=True, slots=True)
class Format:
    """Text from values: `parts` alternates literal text and format specifications, one for each argument.

    parts = (text, spec, text, spec, …, text). Arguments are scalars or arrays. Binds one str.
    """

    FORM: ClassVar[str] = "format ({parts}) ({args})"
    IS: ClassVar[Properties] = Properties()
    parts: tuple[str, ...]
    args: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Assert:
    """Ends the run with a located message unless `condition` holds.

    code: of the diagnostic. parts, values: the message as in `Format`. guarded: the values that rely on the check; it
    binds one variable for each, of the same value (its type may say more, as after `as`), and what relies on it uses
    these, so no pass can move an access above its check. A check is never removed unless its condition is the literal
    true, and never moved out of a block that may not run.
    """

    FORM: ClassVar[str] = 'check {condition} "{code}" ({parts}) ({values}) for ({guarded})'
    IS: ClassVar[Properties] = Properties(fails=True, stays=True)
    condition: Atom
    code: str
    parts: tuple[str, ...]
    values: tuple[Atom, ...] = ()
    guarded: tuple[Atom, ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """An element: one polynomial for each axis. Entries are in range: proven, or by an `Assert`. Binds a scalar."""

    FORM: ClassVar[str] = "read {array}[{index}]"
    IS: ClassVar[Properties] = Properties(point=True)
    array: Elements
    index: tuple[Offset, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """max(lows) <= var < min(highs): polynomials in sizes and outer axes of the same comprehension."""

    FORM: ClassVar[str] = "{var} in {lows:max}..{highs:min}"
    var: Index
    lows: Bounds
    highs: Bounds


@dataclass(frozen=True, slots=True)
class Reduce:
    """A destination whose index determines its axes: points that differ in the kept axes never meet in an element.

    Axes absent from `index` are reduced by `monoid`, one of `ops/monoids.py`; elements that no point reaches are its
    identity, or those of `into`, an array that is consumed and to which the values are added (combined by the monoid).
    With shape () the result is a scalar. The index may mention axes, sizes, and i64 variables of the body.

    after: the position of an earlier destination of the comprehension with whose array this one goes on, in place of
    `into`: the two never meet in an element, and nothing else uses what the earlier one binds
    (`optimize/coalesce_writes.py`).
    """

    FORM: ClassVar[str] = "keep [{shape}] [{index}] {monoid}⟨into? into {into}⟩⟨after!? after {after}⟩"
    shape: tuple[Size, ...]
    index: tuple[Inside, ...]
    monoid: str = "sum"
    into: Consumed | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class ScatterAdd:
    """A scatter-add: points may meet in an element of `shape`; all values are summed, in an unspecified order."""

    FORM: ClassVar[str] = "add [{shape}] [{index}]⟨into? into {into}⟩"
    shape: tuple[Size, ...]
    index: tuple[Inside, ...]
    into: Consumed | None = None


Destination = Reduce | ScatterAdd


@dataclass(frozen=True, slots=True)
class Comp:
    """The one parallel construct: the body at every point of `axes`, outermost first.

    `body.results[k]` is the scalar that goes to `destinations[k]`; binds one variable per destination, an array of its
    shape, or a scalar. Of a `Reduce` it may be a row (`optimize/fuse_outer_axis.py`), an array of the destination's
    last sizes: the index is then that of the axes before these. With `set` it may also be a block of rows
    (`optimize/blocking.py`), of one more axis: the index says where the first of them goes, and blocks leave no row of
    the destination out.
    """

    FORM: ClassVar[str] = "comp⟨axes? {axes}⟩ {body}⟨destinations? to {destinations}⟩"
    IS: ClassVar[Properties] = Properties()
    axes: tuple[Axis, ...]
    body: Block
    destinations: tuple[Destination, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """Running `sum` or `prod` along the only axis of an array, inclusive. Binds an array of its type."""

    FORM: ClassVar[str] = "scan {monoid} {array}"
    IS: ClassVar[Properties] = Properties(total=True, long=True)
    monoid: str
    array: Var


@dataclass(frozen=True, slots=True)
class For:
    """low <= index < high, one after another. `params` are the state, `init` its first values.

    The body's results are the next state; with `early` one more, a bool, comes first: false ends the loop with that
    state. Binds the last state.
    """

    FORM: ClassVar[str] = "for {index} in {low}..{high} (⟦{params:typed} = {init}⟧)⟨early? early⟩ {body}"
    IS: ClassVar[Properties] = Properties(long=True)
    index: Index
    low: Size
    high: Size
    params: tuple[Binder, ...]
    init: tuple[Initial, ...]
    body: Block
    early: bool = False


@dataclass(frozen=True, slots=True)
class While:
    """Runs the body while the condition (a block of one bool, over `params`) holds. Otherwise as `For`."""

    FORM: ClassVar[str] = "while (⟦{params:typed} = {init}⟧)⟨early? early⟩ {condition} do {body}"
    IS: ClassVar[Properties] = Properties(endless=True, long=True)
    params: tuple[Binder, ...]
    init: tuple[Initial, ...]
    condition: Block
    body: Block
    early: bool = False


@dataclass(frozen=True, slots=True)
class If:
    """A branch on a scalar; just one arm runs. Binds what the arms return. cold: `then` hardly ever runs."""

    FORM: ClassVar[str] = "if {condition}⟨cold? rarely⟩ {then} else {otherwise}"
    IS: ClassVar[Properties] = Properties()
    condition: Atom
    then: Block
    otherwise: Block
    cold: Hint = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the program, recursive or not. Binds its results."""

    FORM: ClassVar[str] = "call {function}({args})"
    IS: ClassVar[Properties] = Properties(fails=True, long=True)
    function: FunctionName
    args: Arguments


@dataclass(frozen=True, slots=True)
class Construct:
    """A node of a datatype, which holds the arguments: one for each field of the variant. Binds its handle."""

    FORM: ClassVar[str] = "construct {variant} ({args})"
    IS: ClassVar[Properties] = Properties()
    variant: Variant
    args: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Tag:
    """The tag of a node's variant. Binds one i64. The handle is not null."""

    FORM: ClassVar[str] = "tag {node}"
    IS: ClassVar[Properties] = Properties()
    node: Atom


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a node. Binds a variable for each field of the variant, whose tag the node is known to have.

    So it may not move to where that is not known: out of the arm of the branch on its tag.
    """

    FORM: ClassVar[str] = "fields {variant} {node}"
    IS: ClassVar[Properties] = Properties()
    variant: Variant
    node: Atom


@dataclass(frozen=True, slots=True)
class View:
    """y[axes] = x[index]: slice, reverse, transpose, broadcast, diagonal. No data moves.

    `axes` are fresh i64 variables, one for each axis of the result, 0 <= axis < shape; `index` polynomials in them.
    """

    FORM: ClassVar[str] = "view ⟦{axes} in 0..{shape}⟧ of {array}[{index}]"
    IS: ClassVar[Properties] = Properties(view=True)
    array: Elements
    axes: tuple[Index, ...]
    shape: tuple[Size, ...]
    index: tuple[Annotated[Inside, Trait.OFFSET], ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements in row-major order under another shape."""

    FORM: ClassVar[str] = "reshape {array} [{shape}]"
    IS: ClassVar[Properties] = Properties(view=True, total=True)
    array: Elements
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Concat:
    """Arrays one after another along their first axis."""

    FORM: ClassVar[str] = "concat({arrays})"
    IS: ClassVar[Properties] = Properties(total=True, long=True)
    arrays: tuple[Elements, ...]


@dataclass(frozen=True, slots=True)
class Compact:
    """The positions where a mask is true, ascending. Binds k: i64, then an array i64[k]."""

    FORM: ClassVar[str] = "compact {mask}"
    IS: ClassVar[Properties] = Properties(total=True, long=True)
    mask: Var


@dataclass(frozen=True, slots=True)
class Update:
    """The array with one element replaced; consumes the array, so it is done in place where nothing else holds it."""

    FORM: ClassVar[str] = "update {array}[{index}] = {value}"
    IS: ClassVar[Properties] = Properties(long=True)
    array: Annotated[Consumed, Trait.ELEMENTS]
    index: tuple[Offset, ...]
    value: Element


@dataclass(frozen=True, slots=True)
class Copy:
    """A fresh copy of an array: stands where a value that is consumed is still held by something else."""

    FORM: ClassVar[str] = "copy {array}"
    IS: ClassVar[Properties] = Properties(total=True, fresh=True)
    array: Elements


@dataclass(frozen=True, slots=True)
class Empty:
    """An array of numbers without contents: each element is written before it is read, which nothing checks.

    What a derivative saves of a loop goes into such an array, iteration by iteration.
    """

    FORM: ClassVar[str] = "empty {dtype} [{shape}]"
    IS: ClassVar[Properties] = Properties(total=True, fresh=True)
    dtype: str
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Contract:
    """A recognised product: out[o] = Σ a[l] · b[r], axes named by small integers, for BLAS or register tiles.

    `left`, `right`, `out` name the axes of each array in order; a name absent from `out` is summed over.
    wide: the result is f32, in which arrays of half precision are multiplied and added up in any case.
    """

    FORM: ClassVar[str] = "contract {a}[{left}] {b}[{right}] -> [{out}]⟨wide? wide⟩"
    IS: ClassVar[Properties] = Properties(total=True, long=True)
    a: Var
    b: Var
    left: tuple[int, ...]
    right: tuple[int, ...]
    out: tuple[int, ...]
    wide: bool = False


@dataclass(frozen=True, slots=True)
class LinalgOp:
    """An operation that a library does, of those in `ops/linear_algebra.py`: total, with one result or several."""

    FORM: ClassVar[str] = "library {name}({args})"
    IS: ClassVar[Properties] = Properties(total=True, long=True)
    name: str
    args: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Vjp:
    """Reverse mode, until `ad/` has expanded it: the value of a named function and the cotangents of some arguments.

    Binds the results of `function(args)`, then one cotangent for each position in `wrt` (a float argument, or a
    handle), of its type. `cotangents`: one for each result, None for results that have none (what carries no
    derivative, or is not seeded). A cotangent of a handle is a node of the same variants, the floats in it are
    cotangents, and what else it holds is that of the value.
    """

    FORM: ClassVar[str] = "vjp {function}({args}) wrt ({wrt}) seeds ({cotangents})"
    IS: ClassVar[Properties] = Properties(fails=True, long=True)
    function: FunctionName
    args: Arguments
    wrt: tuple[int, ...]
    cotangents: tuple[Atom | None, ...]


@dataclass(frozen=True, slots=True)
class Jvp:
    """Forward mode: binds the results of `function(args)`, then a tangent for each result that is a float or a handle.

    `tangents`: one for each argument, None where it is zero. A tangent of a handle is as a cotangent in `Vjp`.
    """

    FORM: ClassVar[str] = "jvp {function}({args}) seeds ({tangents})"
    IS: ClassVar[Properties] = Properties(fails=True, long=True)
    function: FunctionName
    args: Arguments
    tangents: tuple[Atom | None, ...]


@dataclass(frozen=True, slots=True)
class VjpForward:
    """The forward half of a `Vjp`: binds the results of `function(args)`, then its tape, for any number of
    `VjpBackward`s.

    tape: a datatype of the program, whose variants `ad/` gives it. seeded: the results that may have cotangents.
    """

    FORM: ClassVar[str] = 'record {function}({args}) wrt ({wrt}) seeded ({seeded}) tape "{tape}"'
    IS: ClassVar[Properties] = Properties(fails=True, long=True)
    function: FunctionName
    args: Arguments
    wrt: tuple[int, ...]
    seeded: tuple[bool, ...]
    tape: str


@dataclass(frozen=True, slots=True)
class VjpBackward:
    """The backward half: cotangents of the results to one for each position in `wrt`, whose types the caller gives.

    tape: what a `VjpForward` of the same function, `wrt` and `seeded` bound. sizes: the i64 arguments of that call, in
    the order of the parameters. cotangents: one for each result, None where it is not seeded.
    """

    FORM: ClassVar[str] = "pull {function} wrt ({wrt}) seeded ({seeded}) {tape} ({sizes}) seeds ({cotangents})"
    IS: ClassVar[Properties] = Properties(fails=True, long=True)
    function: FunctionName
    wrt: tuple[int, ...]
    seeded: tuple[bool, ...]
    tape: Atom
    sizes: tuple[Atom, ...]
    cotangents: tuple[Atom | None, ...]


@dataclass(frozen=True, slots=True)
class StopGradient:
    """The value, without its derivative."""

    FORM: ClassVar[str] = "stop {arg}"
    IS: ClassVar[Properties] = Properties(total=True)
    arg: Element


@dataclass(frozen=True, slots=True)
class Foreign:
    """A function outside of the language: pure, and it may fail. Binds its results, whose types the caller gives.

    target: `c:LIBRARY:SYMBOL`, or the name of one of the program's Python functions. With effects it is an `Effect`
    called `foreign`, whose `static` is the target.
    """

    FORM: ClassVar[str] = 'foreign "{target}" ({args})'
    IS: ClassVar[Properties] = Properties(fails=True, long=True)
    target: str
    args: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that the world sees: `print`, files, foreign calls. Binds a new token, then its results.

    name: `print` (one str), `io.…`. static: what is known when it is compiled (names of fields, dtypes wanted).
    """

    FORM: ClassVar[str] = 'effect "{name}" {token} ({args})⟨static? static ({static})⟩'
    IS: ClassVar[Properties] = Properties(stays=True, fresh=True)
    name: str
    token: Atom
    args: tuple[Atom, ...]
    static: tuple[str, ...] = ()


Derivative = Vjp | Jvp | VjpForward | VjpBackward  # what `ad/` expands: in terms of a function of the program
Op = (
    Prim | Cast | IndexExpr | Format | Assert | Read | Comp | Scan | For | While | If | Call | Construct | Tag | Fields
    | View | Reshape | Concat | Compact | Update | Copy | Empty | Contract | LinalgOp | Derivative | StopGradient
    | Foreign | Effect
)  # fmt: skip


# ---- programs --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Let:
    """An operation, and the variables that its results are bound to. used: kept by `traverse.py`, which finds them
    once: the free variables of the operation."""

    vars: tuple[Var, ...]
    op: Op
    span: Span | None = None
    used: tuple[Var, ...] | None = field(default=None, init=False, repr=False, compare=False)


Mentions = tuple[tuple[Var, ...], tuple[Var, ...]]  # of variables in a block, and what is bound there


@dataclass(frozen=True, slots=True)
class Acts:
    """Says what a block does besides binding values, nested blocks included.

    refuses: there is a check or an effect. calls: the functions that it names. consumed: the arrays from around it that
    it would like to change in place. consumers: the operations that may, here and in arms of branches.
    """

    refuses: bool
    calls: frozenset[str]
    consumed: tuple[Var, ...]
    consumers: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Lets in order, and what the block gives. `mentions`, `outer` and `acts` are kept by `traverse.py`: what walks
    look up.

    sound: kept by `verify.py`: that the block is well formed wherever what it mentions from outside is in scope. tight:
    kept by `sharing.py`: whether nothing in it that takes long stands under axes that it does not depend on.
    """

    ROLE: ClassVar[Role] = Role.BLOCK
    lets: tuple[Let, ...]
    results: tuple[Atom, ...]
    mentions: Mentions | None = field(default=None, init=False, repr=False, compare=False)
    outer: Mapping[Var, int] | None = field(default=None, init=False, repr=False, compare=False)
    acts: Acts | None = field(default=None, init=False, repr=False, compare=False)
    sound: bool = field(default=False, init=False, repr=False, compare=False)
    tight: bool | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """The functions of the program, by their names, that replace the derivative of a function's body.

    wrt: the positions of the parameters that have a derivative. pullback takes the parameters, the results, and a
    cotangent for each result that is a float or a handle; it gives a cotangent for each position in `wrt`. pushforward
    takes the parameters, the results, and a tangent for each position in `wrt`; it gives a tangent for each result that
    is a float or a handle. checkpoint: nothing is saved in the forward pass; the backward pass runs the function again.
    A function with rules is not inlined while a derivative may pass through its calls, one under `checkpoint` never.
    """

    wrt: tuple[int, ...] = ()
    pullback: str | None = None
    pushforward: str | None = None
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """`results` are formal variables: they name the results in order, so that a type can mention an earlier result.

    label: how a person calls it, as in a stack of calls. continues: results that are array parameters, changed in their
    place, as pairs of positions: a call consumes the argument. consumes: the positions of further array parameters that
    a call consumes: the function may change them, and who calls it frees them. sizes: parameters that are at least 0,
    because who calls it has checked them, though no parameter is an array of such a size.
    """

    name: str
    params: tuple[Var, ...]
    results: tuple[Var, ...]
    body: Block
    label: str = ""
    span: Span | None = None
    rules: Rules | None = None
    continues: tuple[tuple[int, int], ...] = ()
    consumes: tuple[int, ...] = ()
    sizes: frozenset[Var] = frozenset()

    @property
    def consumed(self) -> tuple[int, ...]:
        """The positions of all parameters that a call consumes."""
        return (*(k for _, k in self.continues), *self.consumes)


def early_name(name: str) -> str:
    """Returns the name of the part of a split function that runs when only some of its parameters are known."""
    return f"{name}.early"


@dataclass(frozen=True, slots=True)
class Program:
    """python: the functions of Python that `Foreign` names. finished: functions that passes leave as they are."""

    functions: dict[str, Function]
    datatypes: dict[str, Datatype] = field(default_factory=dict)
    python: dict[str, PythonFunction] = field(default_factory=dict)
    finished: Mapping[str, Function] = field(default_factory=dict, compare=False, repr=False)
