"""Calls from Python to compiled code without a detour: what the functions of `codegen/llvm/callers.py` work with.

    entry = direct_entry(compiled, "f", interface)     once for a compiled function
    table = entry.table(arguments)                     once for each kind of arguments
    record.add(table, given, quick, f)                 from now on calls like this go to compiled code

A call that fits no table goes through Python, as does one while another run of the same entry is under way: each entry
has one context of its own.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import main_thread
from typing import TYPE_CHECKING, Any

import numpy as np

from dlang.codegen.abi import Class, Constant, Dtype, EntryPoint, Need, Number
from dlang.codegen.llvm import capi, dispatch, jit, objects, support
from dlang.host import interruptions
from dlang.host.classes import fields_of, same_class
from dlang.host.conversion import tag_of
from dlang.host.errors import RunError
from dlang.host.platform import objects as python
from dlang.host.platform.objects import address_of
from dlang.host.platform.stack import can_switch
from dlang.host.values import NUMPY
from dlang.ir.crossing import Choice, Fields, Items, Leaf, Part, Signature, Terms, Tree
from dlang.ir.terms import Array
from dlang.lazy_modules import lazy_module
from dlang.ops.dtypes import FLOATS, WHOLE
from dlang.runtime.compiled import Entry
from dlang.runtime.engine import CompiledProgram, Run, is_on_device
from dlang.runtime.memory import INTERVAL, KEPT, NEVER, Context

if TYPE_CHECKING:
    from dlang.codegen.llvm import callers
else:
    callers = lazy_module("dlang.codegen.llvm.callers")

CALLER = "caller"
"""The kind of what is kept of an entry beside its program."""

_MAIN = (ctypes.c_int64 * 3)(0, INTERVAL, NEVER)
"""The number of the main thread, how often a run on it looks up, and how often one on another does."""


def _note_main_thread() -> None:
    _MAIN[0] = main_thread().ident or 0


_note_main_thread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_main_thread)


# ---- the memory of an entry ------------------------------------------------------------------------------------------
class Owner:
    """The state of an entry, with its context; arrays in its memory keep it alive. cell: the address of the entry's."""

    __slots__ = ("context", "state", "_absorb", "__weakref__")

    def __init__(self, context: Context, word: int, cell: int) -> None:
        absorb = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(jit.capi_address("dl_absorb", word))
        give = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(jit.capi_address("dl_return", word))
        self.context = context
        self.state = (ctypes.c_int64 * capi.STATE)()
        self.state[capi.CONTEXT] = context.address
        self.state[capi.OWNER] = address_of(self)
        self.state[capi.MAIN] = ctypes.addressof(_MAIN)
        self.state[capi.DROPPED] = ctypes.addressof(interruptions.DROPPED)
        self.state[capi.CELL] = cell
        self._absorb = absorb
        owner_ref, state = (
            weakref.ref(self),
            self.state,
        )  # which arrays of runs before this one keep through the context
        context.hand_back = lambda data: give(ctypes.addressof(state), data)
        context.absorb()
        context.take_back = lambda: (owner := owner_ref()) is None or owner.take_back()

    @property
    def address(self) -> int:
        return ctypes.addressof(self.state)

    def take_back(self) -> bool:
        """Takes back what arrays gave; whether no run is under way."""
        if not self.state[capi.BUSY]:
            self._absorb(self.address)
        return not self.state[capi.BUSY]

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if ending():  # the process takes its memory with it, and what this would need may be gone
            return
        self.context.hand_back = self.context.returned.append
        self._absorb(self.address)


# ---- entries ---------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class DirectEntry:
    """An entry that Python can call. params: what it takes, without what is bound."""

    params: tuple[Part, ...]
    program: CompiledProgram
    name: str
    needs: tuple[Need, ...]
    address: int
    owner: Owner
    kept: Any

    def table(self, arguments: Sequence[Any], passed: Sequence[Any] = (), exact: bool = False) -> Table | None:
        """Returns the table for calls with arguments of the same kinds; None if some kind goes through Python.

        passed: if some parameters are bound, all that is passed to the entry in this call. exact: whether enums have to
        be of the same variants, because these say what types a call is at.
        """
        kinds = _Kinds(exact)
        if len(arguments) != len(self.params) or not all(map(kinds.walk, self.params, arguments)):
            return None
        bound = self.program.words_of(self.name, passed) if passed else []
        numbers, classes = iter(kinds.numbers), iter(kinds.classes)
        words = [self.owner.address]
        kept: list[Any] = [self]
        for need in self.needs:
            match need:
                case Number():
                    kind, how = next(numbers)
                    words += [address_of(kind), how]
                case Dtype(dtype):
                    kept.append(NUMPY[dtype])
                    words.append(address_of(NUMPY[dtype]))
                case Constant(position):
                    word, lasting = bound[position]
                    words.append(word)
                    kept += lasting
                case Class(None):
                    same = next(classes)
                    kept.append(same)
                    words.append(0 if same is _NOTHING else address_of(same))
                case Class(made):
                    kept.append(made)
                    words.append(address_of(made))
        return Table(self.address, (ctypes.c_int64 * len(words))(*words), tuple(kept), kinds.key())


@dataclass(frozen=True, slots=True)
class Table:
    """The words of a table, what keeps them valid, and what kinds of arguments they are for."""

    function: int
    words: Any
    kept: tuple[Any, ...]
    key: tuple[object, ...]

    @property
    def address(self) -> int:
        return ctypes.addressof(self.words)


_NOTHING = object()
"""Stands for what no argument is."""


@dataclass(slots=True)
class _Kinds:
    """The kinds of the given arguments, in the order in which a caller asks. classes: what they are compared with."""

    exact: bool
    numbers: list[tuple[type, int]] = field(default_factory=list)
    classes: list[object] = field(default_factory=list)

    def key(self) -> tuple[object, ...]:
        return (*self.numbers, *self.classes)

    def walk(self, part: Part, value: Any) -> bool:
        kind = type(value)
        match part:
            case Tree():
                return not self.exact
            case Leaf("str"):
                return kind is str and not part.shape
            case Leaf(dtype, ()):
                how = _reading(kind, value, dtype)
                self.numbers.append((kind, how or 0))
                return how is not None
            case Leaf(dtype, shape):
                return kind is np.ndarray and value.dtype is NUMPY.get(dtype) and value.ndim == len(shape)
            case Items(()):
                return value is None
            case Items(items):
                fits = kind is tuple and len(value) == len(items)
                return fits and all(map(self.walk, items, value))
            case Fields(struct, items):
                return self._fields(struct, items, value)
            case Choice(types, variants):
                tag = tag_of(value, types)
                for k, (variant, items) in enumerate(zip(types, variants, strict=True)):
                    if k != tag:
                        self._other(variant, items)
                    elif variant is None:
                        self.classes.append(None)
                    elif not self._fields(variant, items, value):
                        return False
                return tag is not None
            case _:
                return False

    def _fields(self, struct: type, items: Sequence[Part], value: Any) -> bool:
        kind = type(value)
        if not same_class(kind, struct) or python.slots_of(kind) != python.slots_of(struct):
            return False
        self.classes.append(kind)
        return all(map(self.walk, items, [getattr(value, name) for name in fields_of(type(value))]))

    def _other(self, variant: type | None, items: Sequence[Part]) -> None:
        """The kinds of a value of another variant: in it there would be Python's own numbers."""
        self.classes.append(_NOTHING if self.exact else variant)
        for part in items:
            self._usual(part)

    def _usual(self, part: Part) -> None:
        match part:
            case Leaf("str"):
                pass
            case Leaf(dtype, ()):
                self.numbers.append(_USUAL.get(dtype) or (NUMPY[dtype].type, dispatch.FOUND))
            case Items(items):
                for item in items:
                    self._usual(item)
            case Fields(struct, items):
                self.classes.append(struct)
                for item in items:
                    self._usual(item)
            case Choice(types, variants):
                for variant, items in zip(types, variants, strict=True):
                    self._other(variant, items)
            case _:
                raise AssertionError("a variant that has this goes through Python")


_USUAL: dict[str, tuple[type, int]] = {
    d: (float, dispatch.FLOAT) if d in FLOATS else (bool, dispatch.TRUTH) if d == "bool" else (int, dispatch.INTEGER)
    for d in WHOLE
    if d != "u64"
}


def _reading(kind: type, value: Any, dtype: str) -> int | None:
    """How a number of a class is read; None if that is left to Python."""
    if kind is np.ndarray:
        return (
            address_of(NUMPY[dtype])
            if value.ndim == 0 and value.dtype is NUMPY[dtype] and value.flags.aligned
            else None
        )
    if kind is float:
        return dispatch.FLOAT if dtype in ("f64", "f32") else None
    if kind is int:
        # an integer of more than 63 bits can be what makes a parameter u64
        return dispatch.INTEGER if dtype not in ("u64", "bool") else None
    if kind is bool:
        return dispatch.TRUTH if dtype == "bool" else None
    plain = issubclass(kind, np.generic) and NUMPY[dtype].type is kind
    return dispatch.FOUND if plain and python.holds_value(kind) else None


Code = tuple[tuple[Need, ...], bytes]
"""The meaning of the words in an entry's tables, and the machine code that takes them."""


def _caller(program: CompiledProgram, signature: Signature, point: EntryPoint, terms: Terms) -> Code | None:
    """Returns the meaning of the words in an entry's tables, and the machine code that takes them; None if none.

    It follows from what the program was made from, and is kept with it.
    """
    kept = program.shelf.get(CALLER) if program.shelf is not None else None
    match kept:
        case (tuple() as needs, bytes() as code):
            return (needs, code) if code else None
    text = callers.caller(signature, point, terms, program.nodes.datatypes)
    needs, code = ((), b"") if text is None else (text.needs, objects.compile_object(text.llvm, level=0))
    if program.shelf is not None:
        program.shelf.put(CALLER, (needs, code))
    return None if text is None else (needs, code)


def direct_entry(
    program: CompiledProgram,
    signature: Signature,
    terms: Terms,
    word: int,
    explain: Callable[[RunError], BaseException],
    caller: Code | None = None,
) -> DirectEntry | None:
    """An entry made ready to be called from Python; None where that is not possible.

    word: where an object that is called has the address of its record. explain: makes what is raised after a failure.
    caller: what Python calls, if that was compiled before.
    """
    name = signature.name
    entry = program.entries[name]
    if program.engine.sanitizes:  # arrays are lent by Python
        return None
    if not python.can_call() or (entry.point.recursive and not can_switch()) or _gives_arrays(program, entry):
        return None
    caller = caller or _caller(program, signature, entry.point, terms)
    if caller is None:
        return None
    needs, code = caller
    loaded = jit.load_caller(code, name, word)
    context = program.engine.context(program.words)
    run = context.run = Run(program, context)
    owner = Owner(context, word, ctypes.addressof(entry.cell))
    state = owner.state
    try:
        if program.needs_arena:
            context.open_arena(program.engine.arena)
            state[capi.ARENA] = context.words[support.ARENA_TOP]
            state[capi.KEPT] = state[capi.ARENA] + KEPT
        if entry.point.recursive:
            stack = context.open_stack(program.engine.stack)
            state[capi.STACK], state[capi.LIMIT] = stack.top, stack.limit
    except MemoryError:
        return None

    def failed() -> None:
        try:
            error = run.failure(entry.point.function)
        finally:
            run.error = None
            tidy()
        if isinstance(error, RunError):
            raise explain(error) from error.__cause__
        raise error

    def tidy() -> None:
        context.close_stack()
        context.close_arena()
        interruptions.check()

    state[capi.FAILED], state[capi.TIDY] = address_of(failed), address_of(tidy)
    params = tuple([p for k, p in enumerate(signature.layout.params) if k not in terms.bound])
    return DirectEntry(params, program, name, needs, loaded.entries[name], owner, (loaded, failed, tidy))


def _gives_arrays(program: CompiledProgram, entry: Entry) -> bool:
    """Tells whether an entry launches something on a device, or gives arrays that are to be there."""
    if program.device is not None:
        return True
    given = [v.type for v in entry.point.function.results]
    return program.engine.driver is not None and any(isinstance(t, Array) and is_on_device(t.dtype) for t in given)


# ---- what is called --------------------------------------------------------------------------------------------------
class Record:
    """The tables of something that Python calls. slowly: what is called where none fits. names: of its parameters."""

    __slots__ = ("words", "slowly", "seed", "names", "tables")

    def __init__(self, slowly: Callable[..., Any], seed: str | None, names: Sequence[str]) -> None:
        self.slowly, self.seed = slowly, None if seed is None else sys.intern(seed)
        self.names = tuple(map(sys.intern, names if len(names) <= dispatch.MOST_PARAMETERS else ()))
        self.words = (ctypes.c_int64 * dispatch.RECORD)()
        self.words[dispatch.SLOWLY] = address_of(slowly)
        self.words[dispatch.SEED] = 0 if seed is None else address_of(self.seed)
        self.words[dispatch.PARAMETERS] = address_of(self.names)
        self.tables: list[tuple[int, Table]] = []

    def add(self, table: Table, given: int, quick: python.CallableClass, callee: object, seeded: bool = False) -> None:
        """Redirects calls of an object that the table fits to compiled code, unless there are too many others.

        given: in bits, which parameters the table is for. seeded: whether it is for calls with a seed or without.
        """
        if given >> dispatch.MOST_PARAMETERS:
            return
        given |= dispatch.SEEDED if seeded else 0
        k = len(self.tables)
        known = any(g == given and t.function == table.function and t.key == table.key for g, t in self.tables)
        if known or k == dispatch.MOST:
            return
        self.tables.append((given, table))
        at = dispatch.CALLERS + dispatch.CALLER * k
        self.words[at], self.words[at + 1], self.words[at + 2] = table.function, table.address, given
        self.words[dispatch.COUNT] = k + 1
        quick.connect(callee, jit.capi_address("dl_call", quick.word), ctypes.addressof(self.words))
