"""Defines the operands of the loop-nest IR: buffers, and arrays and matrices in these."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Annotated, ClassVar

from dlang.ir.anf import Atom, Size, Var
from dlang.ir.roles import Role, Trait

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
