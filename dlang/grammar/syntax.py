"""The syntax tree: what was written, nothing inferred. Every node has a span; every node is immutable.

Sequences are tuples. `Name` in a comment is a constructor or a type. What the grammar offers twice is one node here:
`x |> f(y)` stays a `Binary("|>")`, `sum(e for i)` is a call whose one argument is a `Comprehension`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from dlang.diagnostics import Source, Span


@dataclass(frozen=True, slots=True)
class Node:
    span: Span


@dataclass(frozen=True, slots=True)
class SizeName(Node):
    name: str


@dataclass(frozen=True, slots=True)
class SizeNumber(Node):
    value: int


@dataclass(frozen=True, slots=True)
class SizeOperator(Node):
    """`+ - * / //`; `/` is exact."""

    operator: str
    left: SizeExpr
    right: SizeExpr


@dataclass(frozen=True, slots=True)
class SizeHole(Node):
    """`_`: to be inferred."""


@dataclass(frozen=True, slots=True)
class SizeAny(Node):
    """`?` or `?k`: known only when it runs."""

    name: str | None


@dataclass(frozen=True, slots=True)
class SizeRow(Node):
    """`..s`: any number of axes."""

    name: str


SizeExpr = SizeName | SizeNumber | SizeOperator
Dim = SizeExpr | SizeHole | SizeAny | SizeRow


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """`f64`, `a`, `Linear<n, m>`; an argument is a type or a dimension (a bare name is a `TypeName`). Of a module that
    was imported whole it is `nn.Linear`."""

    name: str
    arguments: tuple[TypeExpr | Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeArray(Node):
    element: TypeExpr
    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class TypeTuple(Node):
    """`(a, b)`; with no items the type `()`."""

    items: tuple[TypeExpr, ...]


@dataclass(frozen=True, slots=True)
class TypeFunction(Node):
    """`(a, b) -> c ! random`; effects is None where nothing is written, () for `! ()`."""

    parameters: tuple[TypeExpr, ...]
    result: TypeExpr
    effects: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class TypeEffects(Node):
    """The result of a function with its effects: `-> f64 ! random`."""

    result: TypeExpr
    effects: tuple[str, ...]


TypeExpr = TypeName | TypeArray | TypeTuple | TypeFunction | TypeEffects


# ---- syntax ----------------------------------------------------------------------------------------------------------

MISSING = "_hole"
"""The name that stands for a missing one."""


# ---- patterns --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PatternWildcard(Node):
    pass


@dataclass(frozen=True, slots=True)
class PatternName(Node):
    name: str


@dataclass(frozen=True, slots=True)
class PatternLiteral(Node):
    """A number (negated if it is written so), a string without interpolation, or a truth value."""

    value: Number | Boolean | String


@dataclass(frozen=True, slots=True)
class PatternTuple(Node):
    """A tuple; with no items the unit `()`."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class PatternConstructor(Node):
    """`Node(l, r)` or `Node(left = l)`: pairs of a field name or None, and a pattern. The name may be `trees.Node`."""

    name: str
    arguments: tuple[tuple[str | None, Pattern], ...]


@dataclass(frozen=True, slots=True)
class PatternAlternatives(Node):
    """`1 | 2 | 3`, in a `match` arm."""

    alternatives: tuple[Pattern, ...]


Pattern = PatternWildcard | PatternName | PatternLiteral | PatternTuple | PatternConstructor | PatternAlternatives


# ---- expressions -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Number(Node):
    """`value` is an int where no point and no exponent is written; `dtype` is the suffix, if any."""

    value: int | float
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Boolean(Node):
    value: bool


@dataclass(frozen=True, slots=True)
class Interpolation(Node):
    """`{expr:.3f}`; the spans of `value` are those in the file."""

    value: Expr
    spec: str


@dataclass(frozen=True, slots=True)
class String(Node):
    """Text (escapes decoded, `{{` is `{`) and interpolations, in order."""

    parts: tuple[str | Interpolation, ...]


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A lower-case name or a constructor; `_` where an assignment drops a part."""

    name: str


@dataclass(frozen=True, slots=True)
class Hole(Node):
    """Stands where a syntax error was repaired: any type, no further message."""


@dataclass(frozen=True, slots=True)
class Tuple(Node):
    """A tuple; with no items the unit `()`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Array(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Binder(Node):
    """`i`, `i < n`, `x in xs`, `i in a..b by s`.

    Just one of `below`, `each`, (`low`, `high`) is given, or none of them: then the indexed axes bound the name.
    """

    pattern: Pattern
    below: Expr | None = None
    each: Expr | None = None
    low: Expr | None = None
    high: Expr | None = None
    step: Expr | None = None


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    element: Expr
    binders: tuple[Binder, ...]
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """`e`, `name = e` or `..e`."""

    value: Expr
    name: str | None = None
    spread: bool = False


@dataclass(frozen=True, slots=True)
class Call(Node):
    function: Expr
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Slice(Node):
    """`a..b by s`; each part may be missing."""

    low: Expr | None
    high: Expr | None
    step: Expr | None


@dataclass(frozen=True, slots=True)
class Index(Node):
    base: Expr
    indices: tuple[Expr | Slice, ...]


@dataclass(frozen=True, slots=True)
class Field(Node):
    """`e.name` or `e.0`."""

    base: Expr
    name: str | int


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-` or `not`."""

    operator: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`+ - * / // % @ ** == != < <= > >= and or |>`."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`e as T`."""

    value: Expr
    type: TypeExpr


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    pattern: Pattern
    type: TypeExpr | None = None
    default: Expr | None = None
    nodiff: bool = False


@dataclass(frozen=True, slots=True)
class Lambda(Node):
    parameters: tuple[Parameter, ...]
    result: TypeExpr | None
    body: Expr


@dataclass(frozen=True, slots=True)
class If(Node):
    condition: Expr
    then: Block
    otherwise: Expr | None


@dataclass(frozen=True, slots=True)
class Arm(Node):
    pattern: Pattern
    guard: Expr | None
    body: Expr | Statement


@dataclass(frozen=True, slots=True)
class Match(Node):
    value: Expr
    arms: tuple[Arm, ...]


@dataclass(frozen=True, slots=True)
class Block(Node):
    """Statements in order; the value is that of the last if it is an expression, else `()`."""

    statements: tuple[Statement, ...]


Expr = (
    Number | Boolean | String | Name | Hole | Tuple | Array | Comprehension | Call | Index | Field | Unary | Binary
    | Cast | Lambda | If | Match | Block
)  # fmt: skip


# ---- statements ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Let(Node):
    pattern: Pattern
    type: TypeExpr | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Var(Node):
    pattern: Pattern
    type: TypeExpr | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """`target = e` (operator None) or `target += e` (operator `+`)."""

    target: Expr
    operator: str | None
    value: Expr


@dataclass(frozen=True, slots=True)
class While(Node):
    condition: Expr
    body: Block


@dataclass(frozen=True, slots=True)
class For(Node):
    binders: tuple[Binder, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class Break(Node):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Node):
    pass


@dataclass(frozen=True, slots=True)
class Return(Node):
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Assert(Node):
    condition: Expr
    message: Expr | None


@dataclass(frozen=True, slots=True)
class Bound(Node):
    """`a: Float` in `fn f<a: Float>`."""

    name: str
    cls: str | None


@dataclass(frozen=True, slots=True)
class Fn(Node):
    """A function, of a module or local. `name_span` is where its name stands; `doc` its `##` lines."""

    name: str
    name_span: Span
    bounds: tuple[Bound, ...]
    parameters: tuple[Parameter, ...]
    result: TypeExpr | None
    body: Expr
    doc: str = ""


Statement = Let | Var | Assign | While | For | Break | Continue | Return | Assert | Fn | Expr


# ---- items -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TypeParameter(Node):
    name: str
    row: bool = False


@dataclass(frozen=True, slots=True)
class FieldDecl(Node):
    """A field of a struct, or an argument of a constructor (whose name may be missing)."""

    name: str | None
    type: TypeExpr


@dataclass(frozen=True, slots=True)
class Struct(Node):
    name: str
    name_span: Span
    parameters: tuple[TypeParameter, ...]
    fields: tuple[FieldDecl, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Constructor(Node):
    name: str
    fields: tuple[FieldDecl, ...]


@dataclass(frozen=True, slots=True)
class Enum(Node):
    name: str
    name_span: Span
    parameters: tuple[TypeParameter, ...]
    constructors: tuple[Constructor, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Alias(Node):
    name: str
    name_span: Span
    parameters: tuple[TypeParameter, ...]
    type: TypeExpr


@dataclass(frozen=True, slots=True)
class Const(Node):
    name: str
    name_span: Span
    type: TypeExpr | None
    value: Expr
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Import(Node):
    """`import a.b`, `import a.b as c`, `import a.b { f, T }` (names is None without braces)."""

    path: tuple[str, ...]
    alias: str | None
    names: tuple[Name, ...] | None


@dataclass(frozen=True, slots=True)
class Test(Node):
    name: str
    body: Block


@dataclass(frozen=True, slots=True)
class Bench(Node):
    """`bench "…" { statements; expression }`: the expression is what is timed."""

    name: str
    body: Block


@dataclass(frozen=True, slots=True)
class Rule(Node):
    """`pullback f(x, nodiff k) -> y = e` or `pushforward …`."""

    kind: str
    name: str
    name_span: Span
    parameters: tuple[Parameter, ...]
    result: str
    body: Expr


@dataclass(frozen=True, slots=True)
class Extern(Node):
    """`extern "python:package.function" fn f(x: f64[n]) -> f64[n]`."""

    target: str
    name: str
    name_span: Span
    bounds: tuple[Bound, ...]
    parameters: tuple[Parameter, ...]
    result: TypeExpr
    doc: str = ""


Item = Fn | Struct | Enum | Alias | Const | Import | Test | Bench | Rule | Extern | Statement


@dataclass(frozen=True, slots=True)
class Module:
    """A file. `doc` is the `##` text at its top."""

    source: Source
    items: tuple[Item, ...]
    doc: str = ""


_PARTS = {
    kind: tuple(f.name for f in fields(kind) if f.name not in ("span", "name_span"))
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Node)
}


def children(node: Node) -> list[Node]:
    """The nodes directly inside, in the order in which they are written."""
    nodes: list[Node] = []
    for name in _PARTS[type(node)]:
        value = getattr(node, name)
        if isinstance(value, Node):
            nodes.append(value)
        elif isinstance(value, tuple):
            _collect(value, nodes)
    return nodes


def _collect(values: tuple[object, ...], nodes: list[Node]) -> None:
    for value in values:
        if isinstance(value, Node):
            nodes.append(value)
        elif isinstance(value, tuple) and not isinstance(value, Span):
            _collect(value, nodes)


def walk(*roots: Node | None) -> Iterator[Node]:
    """Every node of some trees, in the order in which they are written."""
    stack = [r for r in reversed(roots) if r is not None]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(children(node))
