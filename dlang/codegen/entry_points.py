"""Describes how compiled functions are called: what they take and give, and the cell that their address is in."""

from __future__ import annotations

from dataclasses import dataclass

from dlang.diagnostics import Span
from dlang.ir.terms import Size, Var

CODE, LEFT = range(2)
"""The words of a cell: where the code is, and how much estimated work calls may do before Python is asked, as f64."""


@dataclass(frozen=True, slots=True)
class Out:
    """An array that the caller makes for a result; its sizes are over the parameters."""

    dtype: str
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """A function of the IR without what it does: what it takes and gives, its place, and what a person calls it."""

    name: str
    params: tuple[Var, ...]
    results: tuple[Var, ...]
    label: str
    span: Span | None


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """How a function is called.

    order: for each result ("out" | "result", position), or None for a token. raw: how many results come in words.
    recursive: whether it can reach a function that can reach itself. work: about how much it does, over the parameters;
    None if that isn't known before. device: whether arrays of numbers that it takes and gives are in the memory of one;
    there: which results in words are addresses of numbers there; numbers: which parameters are. repeatable: whether a
    call does nothing but ask the device for what its arguments, but not what is in arrays, say.
    """

    function: Header
    outs: tuple[Out, ...]
    order: tuple[tuple[str, int] | None, ...]
    raw: int
    recursive: bool
    work: Size | None
    device: bool = False
    there: frozenset[int] = frozenset()
    numbers: frozenset[int] = frozenset()
    repeatable: bool = False
