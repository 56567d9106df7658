"""Gives advice on an argument that does not fit, in the words of its library."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlang.host.placed import placed
from dlang.host.values import NUMPY, as_array, dtype_name, is_masked
from dlang.ir.terms import FLOATS
from dlang.ops.dtypes import ELSEWHERE, TRUNCATED
from dlang.python.kinds import Kind
from dlang.specialize.structs import declaration_of
from dlang.typecheck import types as ty
from dlang.typecheck.types import Type


def advice(value: Any, t: Type, dtype: str | None, kind: Kind | None) -> str:
    """Returns advice on how to convert a value to a type; empty where that is not plain.

    dtype: what the type asks for, if it is known; kind: the library whose array the value was.
    """
    match t:
        case ty.TypeArray():
            return _array(value, dtype, kind)
        case ty.TypeCon("str"):
            return "decode it: `.decode()`" if isinstance(value, bytes | bytearray) else ""
        case ty.TypeCon(name):
            return _number(value, name, kind)
        case ty.TypeTuple():
            return "give a tuple: `tuple(…)`" if isinstance(value, list) else ""
        case ty.TypeData(decl):
            return _data(value, decl)
        case _:
            return ""


def range_of(value: Any, dtype: str) -> str:
    """Between what the integers of a dtype are, where one of Python's is not among them."""
    if type(value) is not int or dtype not in NUMPY or NUMPY[dtype].kind not in "iu":
        return ""
    bounds = np.iinfo(NUMPY[dtype])
    return f"{dtype} is from {bounds.min} to {bounds.max}"


def _array(value: Any, dtype: str | None, kind: Kind | None) -> str:
    if is_masked(value):
        return "give a value for what is masked: `.filled(…)`"
    if isinstance(value, tuple | range):
        return "make it an array: `numpy.asarray(…)`"
    if isinstance(value, set | frozenset | dict | map | filter | zip) or hasattr(value, "__next__"):
        return "make it a list: `list(…)`"
    return _conversion(value, dtype, kind)


def _conversion(value: Any, dtype: str | None, kind: Kind | None) -> str:
    """How an array gets another dtype."""
    if dtype not in ELSEWHERE:
        return ""
    if (there := placed(value)) is not None:
        own: Any = there.dtype
    elif isinstance(value, list) or (array := as_array(value, None)) is None:
        return ""
    else:
        own = array.dtype
    if dtype_name(own) in (None, dtype):
        return ""
    if kind is not None:
        return kind.conversion(dtype)
    if dtype in TRUNCATED:
        return f"convert it: `.astype(ml_dtypes.{ELSEWHERE[dtype]})`, a dtype of the package `ml_dtypes`"
    array = "" if hasattr(value, "astype") else "numpy.asarray(…)"
    return f"convert it: `{array}.astype(numpy.{NUMPY[dtype].name})`"


def _number(value: Any, dtype: str, kind: Kind | None) -> str:
    if dtype not in ELSEWHERE:
        return ""
    if isinstance(value, np.ndarray) or kind is not None or dtype in TRUNCATED:
        return _conversion(value, dtype, kind) if not np.ndim(value) else ""
    if isinstance(value, np.generic):
        return f"convert it: `numpy.{NUMPY[dtype].name}(…)`"
    if isinstance(value, complex) or range_of(value, dtype):
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and dtype in FLOATS:  # larger than all floats
        return ""
    plain, asked = {"f": ("float", "__float__"), "b": ("bool", "__bool__")}.get(NUMPY[dtype].kind, ("int", "__int__"))
    return f"convert it: `{plain}(…)`" if hasattr(value, asked) else ""


def _data(value: Any, decl: ty.DataDecl) -> str:
    if isinstance(value, type) and declaration_of(value) is decl:
        return f"that is the class: `{value.__name__}(…)` is a value"
    if isinstance(value, dict) and decl.is_struct:
        return f"make it one: `{decl.name}(**…)`"
    wrapped = [v.name for v in decl.variants if len(v.fields) == 1]
    others = [v for v in decl.variants if v.fields]
    if not decl.is_struct and len(others) == len(wrapped) == 1 and not isinstance(value, type):
        return f"make it one: `{wrapped[0]}(…)`"
    return ""
