"""Sizes that remember how they came about, where another library traces a program of any size."""

from __future__ import annotations

from typing import Any


class Extent(int):
    """A size with the expression that it stands for in another library. It counts as the number that it has now; what
    is computed of it has the expression computed of its own.
    """

    symbol: Any

    def __new__(cls, now: int, symbol: Any) -> Extent:
        made = super().__new__(cls, now)
        made.symbol = symbol
        return made

    def __add__(self, other: int) -> Extent:
        return Extent(int(self) + int(other), self.symbol + symbol_of(other))

    def __sub__(self, other: int) -> Extent:
        return Extent(int(self) - int(other), self.symbol - symbol_of(other))

    def __rsub__(self, other: int) -> Extent:
        return Extent(int(other) - int(self), symbol_of(other) - self.symbol)

    def __mul__(self, other: int) -> Extent:
        return Extent(int(self) * int(other), self.symbol * symbol_of(other))

    def __floordiv__(self, other: int) -> Extent:
        return Extent(int(self) // int(other), self.symbol // symbol_of(other))

    def __rfloordiv__(self, other: int) -> Extent:
        return Extent(int(other) // int(self), symbol_of(other) // self.symbol)

    __radd__ = __add__
    __rmul__ = __mul__


def symbol_of(size: int) -> Any:
    """The expression of a size; a plain number is its own."""
    return size.symbol if isinstance(size, Extent) else int(size)
