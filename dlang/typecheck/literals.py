"""Numbers that are written out."""

from __future__ import annotations

from functools import partial

from dlang.diagnostics import error
from dlang.grammar import syntax as s
from dlang.ops.dtypes import DTYPES, PRECISE, SIGNED, UNSIGNED
from dlang.typecheck import core
from dlang.typecheck.context import Checker
from dlang.typecheck.scope import Scope
from dlang.typecheck.types import FLOATS, INTS, Type, TypeCon, resolve

_NUM, _FLOAT = frozenset({"Num"}), frozenset({"Float"})
# What is not larger fits into every dtype of numbers.
_SMALL = 127
_WIDER = (*reversed(SIGNED[:-1]), UNSIGNED[0], *reversed(PRECISE))  # from the narrowest


def number(cx: Checker, scope: Scope, e: s.Number, negative: bool = False) -> core.Expr:
    """negative: a `-` stands in front."""
    if e.dtype is not None:
        t: Type = TypeCon(e.dtype)
        made = core.Literal(t, e.span, float(e.value) if e.dtype in FLOATS else e.value)
    else:
        exact = not isinstance(e.value, float)
        t = cx.st.type_var(atomic=True, classes=_NUM if exact else _FLOAT, literal="int" if exact else "float")
        made = core.Literal(t, e.span, e.value)
    if e.value > _SMALL or (negative and e.value > 0):
        cx.later.append(partial(representable, t, e, negative))
    return made


def representable(t: Type, e: s.Number, negative: bool) -> None:
    """Refuses a literal that the dtype, which its use asks for, does not hold."""
    dtype = resolve(t)
    if not isinstance(dtype, TypeCon) or dtype.name not in FLOATS | INTS:
        return
    if negative and dtype.name[0] == "u":
        raise error("E0109", f"`{dtype.name}` has no negative numbers", e.span)
    if e.value > largest(dtype.name, negative):
        wider = [d for d in _WIDER if (d in FLOATS) == (dtype.name in FLOATS) and e.value <= largest(d, negative)]
        help = (f"`{wider[0]}` holds it",) if wider else ()
        raise error("E0109", f"this number is too large for `{dtype.name}`", e.span, help=help)


def largest(dtype: str, negative: bool = False) -> float:
    """The largest absolute value."""
    if dtype in FLOATS:
        return DTYPES[dtype].largest
    bits = int(dtype[1:])
    return (1 << bits) - 1 if dtype[0] == "u" else (1 << (bits - 1)) - (not negative)
