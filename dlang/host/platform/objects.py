"""How CPython and NumPy lay out their objects, for compiled code that reads and makes them.

Everything is compared with what Python itself says of sample objects before it is used; where one of them differs, or
in another Python than CPython with its lock, there is no layout, and calls go through Python alone.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from dlang.host.classes import fields_of
from dlang.host.platform import portable
from dlang.lazy_modules import np

TYPE = 8  # bytes to the type of an object, and to what its first field may be
COUNT, FIELDS = 16, 16  # of an object of variable length, its length; of others, the first field
ITEMS = 24  # of a tuple
DATA, NDIM, DIMENSIONS, DESCR, FLAGS = 16, 24, 32, 56, 64  # of an array
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400

_NUMPY = {"PyArray_Scalar": 60, "PyArray_NewCopy": 85, "PyArray_NewFromDescr": 94, "PyArray_SetBaseObject": 282}
"""Functions of NumPy's interface for C, by their places in its table, which never change."""
_VERSIONS = (0x01, 0x02)  # of that interface
_NDARRAY = "PyArray_Type"


# ---- addresses -------------------------------------------------------------------------------------------------------
@cache
def address(name: str) -> int:
    """The address of a function or an object of CPython or NumPy."""
    if name == _NDARRAY:
        import numpy

        return address_of(numpy.ndarray)
    if name in _NUMPY:
        return int(_table()[_NUMPY[name]] or 0)
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def _table() -> Any:
    """NumPy's table of functions."""
    interface = import_module("numpy._core._multiarray_umath")._ARRAY_API
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(get(interface, None), ctypes.POINTER(ctypes.c_void_p))


def address_of(x: object) -> int:
    """The address of an object, which is its identity in CPython."""
    return id(x)


# ---- layouts ---------------------------------------------------------------------------------------------------------
@cache
def _is_cpython() -> bool:
    """Tells whether objects begin with a count of references and their type, and one lock guards them."""
    if sys.implementation.name != "cpython" or _is_free_threaded():
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8 or hasattr(sys, "gettotalrefcount"):  # a build that checks itself
        return False
    x, pair = 0.7, (object(), object())
    return (
        _word(x, TYPE) == address_of(float)
        and ctypes.c_double.from_address(address_of(x) + FIELDS).value == x
        and _word(pair, COUNT) == 2
        and [_word(pair, ITEMS), _word(pair, ITEMS + 8)] == [address_of(pair[0]), address_of(pair[1])]
    )


@cache
def _knows_arrays() -> bool:
    """Tells whether arrays lie in memory as expected."""
    try:
        version = ctypes.PYFUNCTYPE(ctypes.c_uint)(_table()[0])()
    except (ImportError, AttributeError, TypeError, ValueError):
        return False
    if version >> 24 not in _VERSIONS:
        return False
    samples = [np.zeros((3, 5)), np.zeros((4, 3, 2), np.int8).T, np.zeros(9, np.float32)[::2], np.zeros(())]
    return all(_is_laid_out(a) for a in samples)


def _is_laid_out(array: Any) -> bool:
    dimensions = _word(array, DIMENSIONS)
    return (
        ctypes.c_int32.from_address(address_of(array) + NDIM).value == array.ndim
        and _word(array, DATA) == array.__array_interface__["data"][0]
        and _word(array, DESCR) == address_of(array.dtype)
        and ctypes.c_int32.from_address(address_of(array) + FLAGS).value & 0x7FF == array.flags.num & 0x7FF
        and [ctypes.c_int64.from_address(dimensions + 8 * k).value for k in range(array.ndim)] == list(array.shape)
    )


def _is_free_threaded() -> bool:
    """Tells whether this Python was built to run without its lock."""
    flags: str | None = getattr(sys, "abiflags", None)
    if flags is not None:  # what it was configured with takes long to read
        return "t" in flags
    import sysconfig

    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def _word(x: Any, offset: int) -> int:
    return ctypes.c_int64.from_address(address_of(x) + offset).value


def can_call() -> bool:
    """Tells whether compiled code may take apart arguments and make results."""
    return not portable() and _is_cpython() and _knows_arrays()


def slots_of(kind: type) -> tuple[int, ...] | None:
    """Returns the offsets of a slotted dataclass's fields in its objects, in order; None if they are not there."""
    if not portable() and _is_cpython() and not kind.__dictoffset__ and kind.__itemsize__ == 0:
        sample: Any = object.__new__(kind)
        names = fields_of(kind)
        values = [object() for _ in names]
        for name, value in zip(names, values, strict=True):
            object.__setattr__(sample, name, value)
        words = {_word(sample, at): at for at in range(FIELDS, kind.__basicsize__, 8)}
        if all(address_of(v) in words for v in values):
            return tuple([words[address_of(v)] for v in values])
    return None


@cache
def holds_value(kind: type) -> bool:
    """Tells whether a scalar class of NumPy has its value where a float has it."""
    sample = kind(True if kind is np.bool_ else 57)
    size = np.dtype(kind).itemsize
    return ctypes.string_at(address_of(sample) + FIELDS, size) == np.asarray(sample).tobytes()


# ---- objects that compiled code is called through --------------------------------------------------------------------
class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]  # fmt: skip


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("size", ctypes.c_int), ("item", ctypes.c_int), ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]  # fmt: skip


_VECTORCALL, _DEFAULT = 1 << 11, 1 << 18
_TP_MEMBERS = 72
_SIZE, _READONLY = 19, 1  # of a member


@dataclass(frozen=True, slots=True)
class CallableClass:
    """A class whose objects can be called through a C function of their own. entry: the offset of its address, behind
    which there is a word for this function.
    """

    type: Any
    entry: int
    kept: tuple[Any, ...]

    @property
    def word(self) -> int:
        return self.entry + 8

    def connect(self, callee: object, function: int, word: int) -> None:
        """Redirects calls of an object to a function of the protocol `vectorcall`."""
        ctypes.c_int64.from_address(address_of(callee) + self.word).value = word
        ctypes.c_int64.from_address(address_of(callee) + self.entry).value = function


@cache
def callable_class(base: type) -> CallableClass | None:
    """A class like `base`, which has `__call__`, whose objects may be connected; until then they call that method.

    None where there is none.
    """
    if portable() or not _is_cpython():
        return None
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(_Spec), ctypes.py_object]
    entry = base.__basicsize__
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _SIZE, entry, _READONLY, None), _Member())
    slots = (_Slot * 2)(_Slot(_TP_MEMBERS, ctypes.cast(members, ctypes.c_void_p)), _Slot())
    name = f"{base.__module__}.{base.__qualname__}".encode()
    spec = _Spec(name, entry + 16, 0, _VECTORCALL | _DEFAULT, slots)
    subclass = make(ctypes.byref(spec), (base,))
    subclass.__doc__ = vars(base)["__doc__"]
    return CallableClass(subclass, entry, (members, slots, name, spec))
