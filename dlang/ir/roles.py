"""The roles of fields: what each part of an operation is, said once, beside the operation.

An operation of either IR is a dataclass whose annotations are its description. A type says what most fields are: an
`Atom` or a `Var` is an operand, a `Size` a polynomial, a `Block` is nested, and a text or a number is known when it is
compiled. What a type does not say is a mark: what an operation binds, a size that sees that, a hint. Walks, renaming,
keys, free variables, the text and the scopes of operations follow from this; `generated` makes a function for each
class, as quick as one that is written by hand, when an operation of the class is met for the first time.

Fields stand in the order of scopes: what an operation binds comes before the fields that see it.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from dlang.diagnostics import Span
from dlang.ir.terms import Atom, Lit, Size, Var, Variant
from dlang.polynomials import Poly


class Role(Enum):
    """The role of a part of an operation.

    OPERAND: a value in scope. SIZE: a polynomial of variables in scope. BINDER: a variable that is bound for the blocks
    of the operation and for what is marked as inside. RESULT: one that is bound for what comes behind. BLOCK: nested
    code. STATIC: known when it is compiled. HINT: the same, and the value does not depend on it.
    """

    OPERAND = auto()
    SIZE = auto()
    BINDER = auto()
    RESULT = auto()
    BLOCK = auto()
    STATIC = auto()
    HINT = auto()


class Trait(Enum):
    """A fact about a field beside its role.

    INSIDE: it sees what the operation and its blocks bind. OPEN: of a block, that what it binds stays in scope behind
    the operation. CONSUMED: an array that the operation would like to change in its place. SET: a tuple whose order
    means nothing. FUNCTION: the name of a function of the program; ARGUMENTS: what it is applied to. ELEMENTS: the
    elements of the result are among those of such operands. INDEX: of a binder, that it is an i64. OFFSET: of a size,
    that it is where an element is.

    In the loop IR. WRITTEN: a buffer whose elements change. HANDED: a buffer goes to code that may change it. LOW and
    HIGH: a size is a bound of iterations, which begin at the largest of the first and end before the least of the
    others.
    """

    INSIDE = auto()
    OPEN = auto()
    CONSUMED = auto()
    SET = auto()
    FUNCTION = auto()
    ARGUMENTS = auto()
    ELEMENTS = auto()
    INDEX = auto()
    WRITTEN = auto()
    HANDED = auto()
    OFFSET = auto()
    LOW = auto()
    HIGH = auto()


Binder = Annotated[Var, Role.BINDER]
Index = Annotated[Var, Role.BINDER, Trait.INDEX]
Consumed = Annotated[Var, Trait.CONSUMED]
Initial = Annotated[Atom, Trait.CONSUMED]
Inside = Annotated[Size, Trait.INSIDE]
Offset = Annotated[Size, Trait.OFFSET]
Bounds = Annotated[tuple[Inside, ...], Trait.SET]
Hint = Annotated[bool, Role.HINT]
FunctionName = Annotated[str, Trait.FUNCTION]
Arguments = tuple[Annotated[Atom, Trait.ARGUMENTS], ...]
Elements = Annotated[Var, Trait.ELEMENTS]
Element = Annotated[Atom, Trait.ELEMENTS]


# ---- properties of operations ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Properties:
    """The answers to what passes ask of all operations of a class; an operation may do more where it has blocks.

    scalar: it makes one scalar of scalars and sizes. point: the same, or it reads an element: the code of one point.
    view: it moves no data, as its result shares the elements of an array. total: it ends and can't fail, wherever it
    runs. fails: it may end the run, itself or in a function. endless: it may not end. stays: no pass drops it, though
    nothing uses its results. long: it takes longer than to read its result. fresh: equal ones give different values.
    """

    scalar: bool = False
    point: bool = False
    view: bool = False
    total: bool = False
    fails: bool = False
    endless: bool = False
    stays: bool = False
    long: bool = False
    fresh: bool = False


# ---- shapes of fields ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Leaf:
    """One part. type: its class, where there is only one; of what is static the class of the elements, if it is a
    tuple. optional: it may be None."""

    role: Role
    type: type | None = None
    optional: bool = False
    traits: frozenset[Trait] = frozenset()


@dataclass(frozen=True, slots=True)
class Many:
    """Any number of parts, in a tuple or a set."""

    of: Shape
    traits: frozenset[Trait] = frozenset()
    container: type = tuple


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple of just these parts."""

    of: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A dataclass whose fields have roles of their own: one of several, or else a leaf. optional: it may be None.

    traits: those of the operands in it. Where it is `INSIDE`, what it binds is bound inside of the operation.
    """

    classes: tuple[type, ...]
    otherwise: Leaf | None = None
    optional: bool = False
    traits: frozenset[Trait] = frozenset()

    def leaf(self, leaf: Leaf) -> Leaf:
        """A part of the record as a part of the operation."""
        traits = self.traits - {Trait.INSIDE}
        if leaf.role is Role.RESULT and Trait.INSIDE in self.traits:
            return dataclasses.replace(leaf, role=Role.BINDER)
        return dataclasses.replace(leaf, traits=leaf.traits | traits) if leaf.role is Role.OPERAND else leaf


Shape = Leaf | Many | Several | Record
_ROLES = {Var: Role.OPERAND, Lit: Role.OPERAND, Poly: Role.SIZE, Variant: Role.STATIC, Span: Role.STATIC}


@cache
def shapes(cls: type) -> Mapping[str, Shape]:
    """The fields of an operation, or of a record in one, by their names and in order."""
    return {f.name: _written(cls.__module__, str(f.type)) for f in dataclasses.fields(cls)}


@cache
def _written(module: str, annotation: str) -> Shape:
    """The shape that an annotation in a module says; the same few stand at most fields."""
    return _shape(eval(annotation, vars(sys.modules[module])))


def _shape(hint: Any, traits: frozenset[Trait] = frozenset()) -> Shape:
    role: Role | None = None
    if get_origin(hint) is Annotated:
        hint, *said = get_args(hint)
        role = next((s for s in said if isinstance(s, Role)), None)
        traits |= {s for s in said if isinstance(s, Trait)}
    if role is None and get_origin(hint) in (tuple, frozenset):
        inside = traits & {Trait.INSIDE}
        of = [_shape(arg, inside) for arg in get_args(hint) if arg is not Ellipsis]
        if isinstance(of[0], Leaf) and of[0].role is Role.STATIC:
            return Leaf(Role.STATIC, of[0].type)
        fixed = get_origin(hint) is tuple and Ellipsis not in get_args(hint)
        return Several(tuple(of)) if fixed else Many(of[0], traits, get_origin(hint))
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    some = [c for c in choices if c is not types.NoneType]
    optional = len(some) < len(choices)
    if role is None and len(some) == 1 and get_origin(some[0]) is Annotated:
        inner = _shape(some[0], traits)
        assert isinstance(inner, Leaf)
        return dataclasses.replace(inner, optional=optional)
    roles = [role or _role_of(c) for c in some]
    leaf = next((r for r in roles if r is not None), None)
    only = some[0] if len(some) == 1 and isinstance(some[0], type) else None
    if None not in roles:
        assert leaf is not None
        return Leaf(leaf, only, optional, traits)
    records = tuple([c for c, r in zip(some, roles, strict=True) if r is None])
    return Record(records, None if leaf is None else Leaf(leaf, None, False, traits), optional, traits)


def _role_of(type: Any) -> Role | None:
    """The role that a type has by itself; None of a record."""
    type = get_origin(type) or type
    role: Role | None = getattr(type, "ROLE", None) or _ROLES.get(type)
    return Role.STATIC if role is None and not dataclasses.is_dataclass(type) else role


# ---- functions that follow -------------------------------------------------------------------------------------------
F = TypeVar("F")


class Generated(dict[type, F]):
    """Functions of one purpose, by the class of their argument; each is made when it is first asked for."""

    def __init__(self, make: Callable[[type], F]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, cls: type) -> F:
        function = self[cls] = self.make(cls)
        return function


def defined(text: str, cls: type, **names: object) -> Callable[..., Any]:
    """The function `made` of a text of Python, which may use the classes of records in `cls` and these names."""
    space: dict[str, Any] = {c.__name__: c for c in (cls, *_records(cls))} | names
    exec(text, space)
    function: Callable[..., Any] = space["made"]
    return function


def _records(cls: type) -> Iterator[type]:
    """The classes in an operation, at any depth."""
    for shape in shapes(cls).values():
        yield from _classes(shape)


def _classes(shape: Shape) -> Iterator[type]:
    match shape:
        case Leaf(type=cls):
            if cls is not None:
                yield cls
        case Many(of):
            yield from _classes(of)
        case Several(of):
            for inner in of:
                yield from _classes(inner)
        case Record(classes):
            for inner_class in classes:
                yield inner_class
                yield from _records(inner_class)


def leaves(cls: type) -> Iterator[Leaf]:
    """The parts of an operation, those of its records included."""
    for shape in shapes(cls).values():
        yield from _leaves(shape)


def _leaves(shape: Shape) -> Iterator[Leaf]:
    match shape:
        case Leaf():
            yield shape
        case Many(of):
            yield from _leaves(of)
        case Several(of):
            for inner in of:
                yield from _leaves(inner)
        case Record(classes, otherwise):
            if otherwise is not None:
                yield otherwise
            for cls in classes:
                yield from map(shape.leaf, leaves(cls))


Wanted = Callable[[Leaf], bool]


def collected(cls: type, of: str, wanted: Wanted) -> str:
    """A text for the tuple of those parts of an operation that are wanted, in the order of its fields."""
    return _tuple(_pieces_of(cls, of, wanted))


def _tuple(pieces: Sequence[str]) -> str:
    if len(pieces) == 1 and pieces[0][1:].replace(".", "").replace("_", "").isalnum() and pieces[0][0] == "*":
        return pieces[0][1:]  # which is a tuple as it is
    return "(" + "".join([f"{piece}, " for piece in pieces]).removesuffix(" ") + ")"


def _pieces_of(cls: type, of: str, wanted: Wanted) -> list[str]:
    return [piece for name, shape in shapes(cls).items() for piece in _pieces(shape, f"{of}.{name}", wanted)]


def _pieces(shape: Shape, of: str, wanted: Wanted) -> list[str]:
    """The text, in a tuple, of the wanted parts of a field."""
    match shape:
        case Leaf():
            return [] if not wanted(shape) else [f"*(() if {of} is None else ({of},))" if shape.optional else of]
        case Many(Leaf() as leaf):
            return [] if not wanted(leaf) else [f"*[y for y in {of} if y is not None]" if leaf.optional else f"*{of}"]
        case Many(inner):
            x = of.replace(".", "_")
            pieces = _pieces(inner, x, wanted)
            return [f"*[y for {x} in {of} for y in {_tuple(pieces)}]"] if pieces else []
        case Several(inners):
            return [piece for k, inner in enumerate(inners) for piece in _pieces(inner, f"{of}[{k}]", wanted)]
        case Record(classes, otherwise, optional, traits):
            wanted_of_leaf = (lambda leaf: wanted(shape.leaf(leaf))) if traits else wanted
            cases = [(f"type({of}) is {cls.__name__}", _pieces_of(cls, of, wanted_of_leaf)) for cls in classes]
            if otherwise is not None:
                cases.append(("", _pieces(otherwise, of, wanted)))
            if optional:
                cases.append(("", []))
            *tested, (_, last) = cases
            if all(pieces == last for _, pieces in tested):
                return last
            return [
                "*(" + "".join([f"{_tuple(pieces)} if {test} else " for test, pieces in tested]) + f"{_tuple(last)})"
            ]


def rebuilding(cls: type, parameters: Mapping[Role, str]) -> str:
    """A text of a function that builds an operation again with the parts of some roles mapped by its parameters.

    The operation itself is given back where nothing changes. Results are mapped last, as they are bound behind it.
    Records find their functions in the table `rebuilt`.
    """
    arguments = ", ".join(dict.fromkeys(parameters.values()))
    lines = [f"def made(op, {arguments}):"]
    last: list[str] = []
    fields, same = [], []
    for f, (name, shape) in zip(dataclasses.fields(cls), shapes(cls).items(), strict=True):
        text = mapped(shape, f"op.{name}", parameters, f"rebuilt[type({{0}})]({{0}}, {arguments})")
        if text is not None:
            behind = isinstance(shape, Leaf | Many) and all(leaf.role is Role.RESULT for leaf in _leaves(shape))
            (last if behind else lines).append(f"    new_{name} = {text}")
            same.append(_same(shape, name))
        fields.append((f"{name}=" if f.kw_only else "") + (f"op.{name}" if text is None else f"new_{name}"))
    lines += [*last, f"    return op if {' and '.join(same) or 'True'} else {cls.__name__}({', '.join(fields)})"]
    return "\n".join(lines)


def _same(shape: Shape, name: str) -> str:
    """A test of whether a field is what it was."""
    if isinstance(shape, Several) or (isinstance(shape, Many) and isinstance(shape.of, Several)):
        return f"new_{name} == op.{name}"
    if isinstance(shape, Many):
        return f"all(map(is_, new_{name}, op.{name}))" if shape.container is tuple else f"new_{name} == op.{name}"
    return f"new_{name} is op.{name}"


def mapped(shape: Shape, of: str, parameters: Mapping[Role, str], record: str) -> str | None:
    """A text for a field with its parts mapped; None if it stays as it is. record: the text for a record."""
    match shape:
        case Leaf(role, type, optional):
            if role not in parameters:
                return None
            text = f"{parameters[role]}({of})"
            if role is Role.OPERAND and type is not None:
                text = f"(new if type(new := {text}) is {type.__name__} else stands(new, {of}))"
            return f"None if {of} is None else {text}" if optional else text
        case Many(inner):
            text_of_one = mapped(inner, "x", parameters, record)
            return None if text_of_one is None else f"{shape.container.__name__}([{text_of_one} for x in {of}])"
        case Several(inners):
            texts = [mapped(inner, f"{of}[{k}]", parameters, record) for k, inner in enumerate(inners)]
            if all(text is None for text in texts):
                return None
            return "(" + "".join([f"{text or f'{of}[{k}]'}, " for k, text in enumerate(texts)]) + ")"
        case Record(classes, otherwise, optional):
            if not any(leaf.role in parameters for leaf in _leaves(shape)):
                return None
            text = record.format(of)
            if otherwise is not None:
                tests = " or ".join([f"type({of}) is {cls.__name__}" for cls in classes])
                text = f"({text} if {tests} else {mapped(otherwise, of, parameters, record) or of})"
            return f"(None if {of} is None else {text})" if optional else text
