"""Zeros: of scalars, of arrays, of values of any type."""

from __future__ import annotations

from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Reduce, Scalar, Size, poly
from dlang.specialize.frame import Frame
from dlang.specialize.types import Mono
from dlang.specialize.values import Value, template


def zero(dtype: str) -> Lit:
    """The zero of a dtype; of a datatype it is null."""
    if dtype == "bool":
        return Lit(False, dtype)
    if dtype == "str":
        return Lit("", dtype)
    return Lit(0.0 if dtype in anf.FLOATS else 0, dtype)


def filled(f: Frame, shape: tuple[Size, ...], x: Atom) -> anf.Var:
    """An array of one element, again and again."""
    e = f.emitter
    assert isinstance(x.type, Scalar)
    axes = tuple([e.axis(s) for s in shape])
    keep = Reduce(shape, tuple([poly(a.var) for a in axes]), "set")
    return e.comp(axes, [], (x,), (keep,), (x.type.dtype,))[0]


def zeros(f: Frame, shape: tuple[Size, ...], dtype: str) -> anf.Var:
    return filled(f, shape, zero(dtype))


def zero_of(f: Frame, t: anf.Type) -> Atom:
    """The zero of a type of the IR."""
    assert not isinstance(t, anf.Token)
    return zeros(f, t.shape, t.dtype) if isinstance(t, anf.Array) else zero(t.dtype)


def nothing(f: Frame, t: Mono) -> Value:
    """Some value of a type, which is not looked at."""
    return template(t, lambda leaf: zero_of(f, leaf))
