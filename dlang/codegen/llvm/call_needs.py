"""Describes the words of the table that a function takes beside the arguments of a call from Python."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Number:
    """Two words: the class of a scalar argument, and how its value is read."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Dtype:
    """A word: NumPy's object for a dtype."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Class:
    """A word: the class of an object that is made; None for that of an argument, or for what an argument is itself."""

    made: type | None


@dataclass(frozen=True, slots=True)
class Constant:
    """A word: what is passed at a position, the same at every call."""

    position: int


Need = Number | Dtype | Class | Constant
