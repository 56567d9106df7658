"""The typed core tree: what checking makes of a module. Small, desugared, still polymorphic.

Every expression has its type (over the variables that its function quantifies; look at it through `types.resolve`) and
its span. Names are resolved, arguments are in the order of the parameters, operators are overloaded still: they are
decided by specialisation, which knows dtypes and ranks. Nothing here is surface syntax any more: `x |> f(y)` is a
call, a pattern in a parameter is a `let` in the body, `Name(..old, f = e)` a construction from fields of `old`,
a builtin used as a value is a lambda around its call, a string with interpolations is a `Format`. Declarations are in
`headers.py`, which is also read without this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dlang.diagnostics import Span
from dlang.typecheck.headers import CoreModule as CoreModule, FnDecl as FnDecl, Local as Local, Param as Param
from dlang.typecheck.types import DataDecl, Refinement, RowVar, Shape, Size, SizeVar, Type, TypeVar, Variant


@dataclass(frozen=True, slots=True)
class Node:
    type: Type
    span: Span


@dataclass(frozen=True, slots=True)
class Facts:
    """Says how code may be left, which mutable locals it assigns and which it declares, in order of appearance.

    effects: those that running it may have, but for the functions in locals and the local functions that it mentions:
    `holders`, or `run` where what these draw is drawn by a `random.run`.

    Code that contains code to any depth keeps what `specialize/analysis.py` found of it.
    """

    leaves: frozenset[str] = frozenset()
    assigned: tuple[Local, ...] = ()
    declared: frozenset[Local] = frozenset()
    effects: frozenset[str] = frozenset()
    holders: frozenset[Local | FnDecl] = frozenset()
    run: frozenset[Local | FnDecl] = frozenset()


# ---- expressions -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A number (its dtype is its type), a truth value, a string."""

    value: int | float | bool | str


@dataclass(frozen=True, slots=True)
class Format(Node):
    """Text and pairs of an expression and a format specification, in order."""

    parts: tuple[str | tuple[Expr, str], ...]


@dataclass(frozen=True, slots=True)
class Ref(Node):
    """opened: of a `var` whose annotation has `?`, the sizes that its value has here."""

    local: Local
    opened: tuple[SizeVar, ...] = ()


@dataclass(frozen=True, slots=True)
class SizeValue(Node):
    """A size variable of the signature, used as an i64."""

    size: Size


@dataclass(frozen=True, slots=True)
class FnRef(Node):
    """A named function (of a module, or local), at an instance: what each variable of its scheme stands for here.

    A `const` is a function without parameters; its use is a `Call` of this with no arguments.
    """

    decl: FnDecl
    instance: tuple[tuple[TypeVar | SizeVar | RowVar, Type | Size | Shape], ...]


@dataclass(frozen=True, slots=True)
class Lambda(Node):
    """forwards: whether nobody wrote it, so that its body, one call, draws what a call in its place would draw."""

    params: tuple[Local, ...]
    body: Expr
    forwards: bool = False
    facts: Facts | None = field(default=None, init=False, repr=False, compare=False)
    mentions: tuple[Local | FnDecl, ...] | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Call(Node):
    """An argument that is None takes the default of the parameter (only where `function` is a `FnRef`).

    opened: variables for the sizes that `?` in the result stands for at this call; each occurs in `type`.
    """

    function: Expr
    args: tuple[Expr | None, ...]
    opened: tuple[SizeVar, ...] = ()


@dataclass(frozen=True, slots=True)
class Builtin(Node):
    """A call of a function that the compiler knows: `exp`, `sum`, `zeros`… `static` has what must be a literal.

    Casts are `cast` (to the dtype of `type`), elementwise. `axes` are ints in `static`. `opened` as in `Call`.
    """

    name: str
    args: tuple[Expr, ...]
    static: dict[str, int | str | tuple[str, ...] | tuple[int, ...]] = field(default_factory=dict)
    opened: tuple[SizeVar, ...] = ()


@dataclass(frozen=True, slots=True)
class Arith(Node):
    """`+ - * / // % ** @ == != < <= > >=` with broadcasting, on structures component by component."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Negate(Node):
    operand: Expr


@dataclass(frozen=True, slots=True)
class Not(Node):
    operand: Expr


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """`and` and `or` of two bools: the right one is computed only where needed."""

    operator: str
    left: Expr
    right: Expr
    facts: Facts | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TupleExpr(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Construct(Node):
    """All fields, in the order of the variant."""

    decl: DataDecl
    variant: Variant
    fields: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Project(Node):
    """A field of a struct or an item of a tuple, by position. `name` is for printing.

    The type of `value` may be a variable of the scheme, when a field constraint is pending: then `position` is -1 for
    a name, and specialisation finds it.
    """

    value: Expr
    position: int
    name: str


@dataclass(frozen=True, slots=True)
class ArrayExpr(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """0 <= local < size. `bound` is the expression that was written; None for a binder that the indexed axes bound."""

    local: Local
    size: Size
    bound: Expr | None
    span: Span


@dataclass(frozen=True, slots=True)
class Each:
    """The elements of an array, of `size`."""

    pattern: Pattern
    array: Expr
    size: Size
    span: Span


@dataclass(frozen=True, slots=True)
class Range:
    """low, low + step, … < high (or > high where the step is negative); its length is `size`."""

    pattern: Pattern
    low: Expr
    high: Expr
    step: Expr | None
    size: Size
    span: Span


Binder = Count | Each | Range


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """A comprehension. With a condition the length is a fresh size, which `opened` names."""

    element: Expr
    binders: tuple[Binder, ...]
    condition: Expr | None
    opened: SizeVar | None = None
    facts: Facts | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class At:
    """One index of an axis: an integer, or an array of integers (a gather: its type has axes)."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Range1:
    """A slice of an axis; `size` is that of the result, opened when it isn't known."""

    low: Expr | None
    high: Expr | None
    step: Expr | None
    size: Size
    opened: SizeVar | None = None


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`base[…]`: leading axes; the others are kept whole."""

    base: Expr
    indices: tuple[At | Range1, ...]


@dataclass(frozen=True, slots=True)
class As(Node):
    """`value as type`: the shapes are compared when it runs. `below`: of `i as Idx<n>`, the n of 0 <= i < n."""

    value: Expr
    below: Size | None = None


@dataclass(frozen=True, slots=True)
class If(Node):
    """`opened`: sizes of the joined result that are known only when it runs."""

    condition: Expr
    then: Expr
    otherwise: Expr
    opened: tuple[SizeVar, ...] = ()
    facts: Facts | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Arm:
    pattern: Pattern
    guard: Expr | None
    body: Expr


@dataclass(frozen=True, slots=True)
class Match(Node):
    value: Expr
    arms: tuple[Arm, ...]
    opened: tuple[SizeVar, ...] = ()
    facts: Facts | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class BlockExpr(Node):
    """Statements, then the value (a unit `TupleExpr` where there is none)."""

    statements: tuple[Statement, ...]
    result: Expr
    facts: Facts | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Derivative(Node):
    """`grad(f)`, `value_and_grad(f)` and so on, a function value. kind: the form's name.

    wrt: positions of parameters; single: `wrt` was one name (or missing), so the result is bare, not a tuple.
    """

    kind: str
    function: Expr
    wrt: tuple[int, ...]
    single: bool


@dataclass(frozen=True, slots=True)
class Foreign(Node):
    """The body of an `extern`: a call of what stands outside of the language, with the parameters.

    function: the Python function itself, where there is no name to find it by.
    """

    decl: FnDecl
    target: str
    args: tuple[Expr, ...]
    function: Callable[..., object] | None = None


@dataclass(frozen=True, slots=True)
class Fail(Node):
    """`fail("message")`, of any type."""

    message: Expr


Expr = (
    Literal | Format | Ref | SizeValue | FnRef | Lambda | Call | Builtin | Arith | Negate | Not | Logic | TupleExpr
    | Construct | Project | ArrayExpr | Comprehension | Index | As | If | Match | BlockExpr | Derivative | Foreign
    | Fail
)  # fmt: skip


# ---- patterns --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Wildcard:
    pass


@dataclass(frozen=True, slots=True)
class Bind:
    local: Local


@dataclass(frozen=True, slots=True)
class LiteralPattern:
    """The dtype is that of the literal."""

    literal: Literal


@dataclass(frozen=True, slots=True)
class TuplePattern:
    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class VariantPattern:
    """All fields, in order."""

    decl: DataDecl
    variant: Variant
    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    items: tuple[Pattern, ...]


Pattern = Wildcard | Bind | LiteralPattern | TuplePattern | VariantPattern | Alternatives


# ---- statements ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Let:
    """Binds a pattern that cannot fail. `names`: sizes that the annotation binds here (`let y: f64[k] = …` binds k),
    each a local of type i64 with its size variable. refinement: what `Idx` in the annotation asks for."""

    pattern: Pattern
    value: Expr
    names: tuple[Local, ...]
    span: Span
    refinement: Refinement | None = None


@dataclass(frozen=True, slots=True)
class Declare:
    """`var`: as `Let`, of mutable locals."""

    pattern: Pattern
    value: Expr
    names: tuple[Local, ...]
    span: Span
    refinement: Refinement | None = None


@dataclass(frozen=True, slots=True)
class LocalFn:
    """A local function, or a `let` of a lambda; `FnRef`s to `decl` follow."""

    decl: FnDecl
    span: Span
    facts: Facts | None = field(default=None, init=False, repr=False, compare=False)
    mentions: tuple[Local | FnDecl, ...] | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class FieldStep:
    position: int
    name: str


@dataclass(frozen=True, slots=True)
class IndexStep:
    indices: tuple[At | Range1, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """The target of an assignment: a part of a mutable local. `type` is that of the part."""

    local: Local
    steps: tuple[FieldStep | IndexStep, ...]
    type: Type
    span: Span


@dataclass(frozen=True, slots=True)
class Assign:
    """`place = value`, or with an operator `place op= value`."""

    place: Place
    operator: str | None
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class AssignTuple:
    """`(a, b) = e`: all of `value` is computed first."""

    places: tuple[Place, ...]
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class For:
    """Several binders nest, the first outermost."""

    binders: tuple[Binder, ...]
    body: Expr
    span: Span
    facts: Facts | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class While:
    condition: Expr
    body: Expr
    span: Span
    facts: Facts | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Break:
    span: Span


@dataclass(frozen=True, slots=True)
class Continue:
    span: Span


@dataclass(frozen=True, slots=True)
class Return:
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Assert:
    """`text` is the condition as it was written."""

    condition: Expr
    message: Expr | None
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Discard:
    """An expression for its effects."""

    value: Expr


Statement = (
    Let | Declare | LocalFn | Assign | AssignTuple | For | While | Break | Continue | Return | Assert | Discard
)  # fmt: skip
