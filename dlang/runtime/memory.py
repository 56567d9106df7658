"""The memory of runs: contexts with their free lists, and arrays that give their memory back when they die."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from platform import machine
from threading import get_ident, main_thread
from typing import TYPE_CHECKING, Any

from dlang.codegen.llvm import jit, registry, support
from dlang.host import interruptions
from dlang.host.platform.stack import Reservation, Stack, new_stack, reserve
from dlang.lazy_modules import np
from dlang.runtime.threads import Pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


# ---- contexts and arrays ---------------------------------------------------------------------------------------------

INTERVAL = 1 << (26 if machine() in ("x86_64", "AMD64") else 19)  # ticks of the processor's clock: some 20 ms
NEVER = 1 << 62
KEPT = 64 << 20  # bytes of an arena that stay from one run to the next
LARGE = 1 << 16  # bytes from which an array comes from the free lists, whose pages are there already


CONTEXTS: weakref.WeakSet[Context] = weakref.WeakSet()
"""All of this process."""
WATCHES: list[Callable[[Context], None]] = []
"""The functions to call with one that ends."""


class Context:
    """The working state of one run at a time: its free lists, its arena, its failure, its callback.

    checked: whether an account is kept of its memory, for programs that are sanitised (`codegen/llvm/registry.py`).
    peak: the most bytes of its arena that runs have touched. take_back: of one that serves calls which go to compiled
    code at once, takes what their arrays gave back; whether none is under way.
    """

    __slots__ = (
        "words", "address", "returned", "callback", "run", "arena", "peak", "stack", "take_back", "hand_back", "pool",
        "checked", "_release",
        "__weakref__",
    )  # fmt: skip

    def __init__(self, slots: int, pool: Pool, checked: bool = False) -> None:
        self.words = (ctypes.c_int64 * (support.SLOTS + slots + 8))()
        self.address = ctypes.addressof(self.words)
        self.returned: deque[int] = deque()
        self.run: Any = None
        self.stack: Stack | None = None
        # a method of a C type: Python can't put an exception of its own between compiled code and what serves it
        self.callback = _SERVICE(_service(weakref.ref(self)).send)
        self.pool = pool
        self.words[support.POOL] = pool.address
        self.words[support.CALLBACK] = ctypes.cast(self.callback, ctypes.c_void_p).value or 0
        self.arena: Reservation | None = None
        self.peak = 0
        self.take_back: Callable[[], bool] | None = None
        self.hand_back: Callable[[int], None] = self.returned.append
        self.checked = checked
        self._release = _functions.get(self._named("dl_release"), None, ctypes.c_void_p)
        CONTEXTS.add(self)
        interruptions.RUNNERS.add(self)
        interruptions.watch()

    def take(self, bytes: int) -> int:
        """Room in memory, outside of the chain of a run; 0 if there is none."""
        return _allocator(self._named("dl_take"))(self.address, bytes) or 0

    def block(self, bytes: int) -> int:
        """Room in memory that belongs to the run; 0 if there is none."""
        return _allocator(self._named("dl_alloc"))(self.address, bytes) or 0

    def _named(self, function: str) -> str:
        return f"{function}_checked" if self.checked else function

    def absorb(self) -> None:
        """Puts what has been returned into the free lists."""
        give = _functions.get(self._named("dl_give"), None, ctypes.c_void_p, ctypes.c_void_p)
        while self.returned:
            give(self.address, self.returned.popleft())

    def reclaim(self) -> None:
        """Frees all that a failed run left."""
        _functions.get(self._named("dl_reclaim"), None, ctypes.c_void_p)(self.address)

    def lend(self, arrays: Sequence[Array]) -> list[tuple[int, int]]:
        """Lets a run that is sanitised touch arrays, and its arena; gives what ends that. Raises MemoryError."""
        loans = [(array.__array_interface__["data"][0], array.nbytes, 0) for array in arrays]
        if self.arena is not None:
            loans.append((self.arena.address, self.arena.bytes, self.address + 8 * support.ARENA_TOP))
        lend = _functions.get("dl_lend", ctypes.c_bool, *[ctypes.c_int64] * 3)
        lent: list[tuple[int, int]] = []
        for begin, bytes, top in loans:
            if not lend(begin, begin + bytes, top):
                self.end_loans(lent)
                raise MemoryError
            lent.append((begin, begin + bytes))
        return lent

    def end_loans(self, loans: Sequence[tuple[int, int]]) -> None:
        """Ends what `lend` has begun."""
        for begin, end in loans:
            _functions.get("dl_end_loan", None, ctypes.c_int64, ctypes.c_int64)(begin, end)

    def prepare(self) -> None:
        """Before a run: sets when it is asked for the first time whether it should end."""
        words = self.words
        words[support.DEADLINE] = 0
        words[support.INTERVAL] = INTERVAL if get_ident() == main_thread().ident else NEVER

    def hurry(self) -> None:
        """Has the run ask at once, and again and again."""
        self.words[support.INTERVAL] = 0
        self.words[support.DEADLINE] = 1

    def open_stack(self, limit: int) -> Stack:
        """The stack of a run that may recurse. limit: of its bytes; 0 for all memory. Raises MemoryError."""
        if self.stack is None:
            self.stack = new_stack(limit)
        self.words[support.STACK_LIMIT] = self.stack.limit
        return self.stack

    def use_stack(self, stack: Stack) -> None:
        """Says that a run is on a stack that belongs to its thread."""
        self.stack = stack
        self.words[support.STACK_LIMIT] = stack.limit

    def close_stack(self) -> None:
        """After a run: gives back the memory of a deep one."""
        if self.stack is not None:
            self.stack.give_back()

    def deeper(self, frame: int) -> bool:
        """Gives the run more stack, if there is any."""
        assert self.stack is not None
        more = self.stack.deeper(frame)
        self.words[support.STACK_LIMIT] = self.stack.limit
        return more

    def enter(self, entry: int, slots: int, top: int) -> int:
        """Runs compiled code on another stack; 0, or 1 after a failure."""
        return int(_enter()(entry, self.address, slots, top))

    def frame(self) -> int:
        """Returns the current position in the stack of this thread."""
        return int(_frame()())

    def open_arena(self, limit: int = 0) -> None:
        """Makes the arena ready for a run that makes nodes. limit: of its bytes; 0 for all memory. Raises MemoryError.

        Nodes die with the run; their pages stay for the next one, up to a bound.
        """
        if self.arena is None:
            self.arena = reserve(limit)
            self.words[support.ARENA_LIMIT] = self.arena.address
            self.words[support.ARENA_END] = self.arena.address + self.arena.bytes
        self.words[support.ARENA_TOP] = self.arena.address
        self.words[support.ARENA_SEEN] = self.words[support.ARENA_CREDIT] = 0

    def close_arena(self) -> None:
        """After a run: gives back what is more than small runs need."""
        if self.arena is not None:
            touched = self.words[support.ARENA_LIMIT] - self.arena.address
            self.peak = max(self.peak, touched)
            if touched > KEPT:
                self.arena.give_back(KEPT)
                self.words[support.ARENA_LIMIT] = self.arena.address + KEPT

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if ending():  # the process takes its memory with it, and what this would need may be gone
            return
        if hasattr(self, "_release"):  # it was made to its end
            for watch in WATCHES:
                watch(self)
            self.absorb()
            self._release(self.address)

    @property
    def taken(self) -> int:
        """How many bytes it has ever asked the system for."""
        return int(self.words[support.TAKEN])

    @property
    def idle(self) -> bool:
        """Tells whether no run is under way; if so, takes back what arrays returned."""
        return self.run is None if self.take_back is None else self.take_back()

    def forget_peak(self) -> int:
        """Begins to look anew for the most that runs hold; gives how many bytes arrays hold now."""
        self.absorb()
        idle = self.idle
        held = self.words[support.PEAK] = self.words[support.IN_USE]
        if idle:
            self.peak = 0
            if self.arena is not None:
                self.words[support.ARENA_LIMIT] = self.arena.address
        return int(held)

    @property
    def held(self) -> tuple[int, int]:
        """The most bytes that arrays have held at once, and nodes, since `forget_peak`."""
        touched = 0 if self.arena is None else self.words[support.ARENA_LIMIT] - self.arena.address
        return int(self.words[support.PEAK]), max(self.peak, touched)

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """The arrays that the run has made and holds, by address and the bytes that were asked for."""
        blocks_of_run, block = [], self.words[support.LIVE]
        while block:
            asked = ctypes.c_int64.from_address(block + 8 * support.ASKED).value
            blocks_of_run.append((block + support.HEADER, asked))
            block = ctypes.c_int64.from_address(block).value
        return blocks_of_run

    @property
    def in_use(self) -> int:
        """How many blocks the run holds."""
        count, block = 0, self.words[support.LIVE]
        while block:
            count += 1
            block = ctypes.c_int64.from_address(block).value
        return count


def _function(name: str, result: Any, *args: Any) -> Any:
    address = jit.address_of(name) if name in registry.NAMES else jit.support_address(name)
    return ctypes.CFUNCTYPE(result, *args)(address)


@dataclass(slots=True)
class _Functions:
    known: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, result: Any, *args: Any) -> Any:
        if name not in self.known:
            self.known[name] = _function(name, result, *args)
        return self.known[name]


_functions = _Functions()


def _allocator(name: str) -> Any:
    return _functions.get(name, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def _detach() -> Any:
    return _functions.get("dl_detach", None, ctypes.c_void_p)


def _enter() -> Any:
    return _functions.get("dl_enter", ctypes.c_int32, *[ctypes.c_void_p] * 4)


def _frame() -> Any:
    return _functions.get("dl_frame", ctypes.c_void_p)


_SERVICE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


def _service(context: weakref.ref[Context]) -> Generator[int, int | None, None]:
    """Serves compiled code: each value sent is what a run asks for, and the answer is whether that was done.

    It is a generator because it always stands in its `try`: Python runs the handlers of signals as soon as it is back
    in its own code, and what they raise there must not be lost.
    """
    serving = _serve(context)
    next(serving)
    return serving


def _serve(context: weakref.ref[Context]) -> Generator[int, int | None, None]:
    answer = support.FINE
    while True:
        try:
            while True:
                pointer = yield answer
                answer = 0
                alive = context()
                try:
                    if alive is not None and alive.run.serve(alive.words[support.SITE], pointer or 0):
                        answer = support.FINE
                except GeneratorExit as error:  # of a function of Python, not of this generator
                    if alive is not None:
                        alive.run.error = error
                del alive
        except GeneratorExit:
            return
        except BaseException as error:  # handed on when compiled code has returned
            answer = 0
            alive = context()
            if alive is not None:
                alive.run.error = error
            del alive


class Lease:
    """Memory lent to a NumPy array; returns to its context when the last array over it dies."""

    __slots__ = ("__array_interface__", "_address", "_context")

    def __init__(self, context: Context, address: int, shape: Sequence[int], typestr: str) -> None:
        self._address = address
        self._context = context
        self.__array_interface__ = {
            "shape": tuple(shape), "typestr": typestr, "data": (address, False), "version": 3,
        }  # fmt: skip

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():
            self._context.hand_back(self._address)


def adopted(context: Context, address: int, shape: Sequence[int], dtype: Any) -> Array:
    """An array over a block that a run hands over."""
    _detach()(address)
    return np.asarray(Lease(context, address, shape, np.dtype(dtype).str))


def fresh(context: Context, shape: Sequence[int], dtype: Any) -> Array:
    """A new array for a result."""
    bytes = np.dtype(dtype).itemsize
    for size in shape:
        bytes *= max(size, 0)
    if bytes < LARGE:
        array = np.empty(shape, dtype)
        if context.checked:
            array.reshape(-1).view(np.uint8).fill(255)
        return array
    address = context.take(bytes) if bytes < 2**62 else 0
    if not address:
        raise MemoryError
    return np.asarray(Lease(context, address, shape, np.dtype(dtype).str))


def block(context: Context, bytes: int) -> int:
    """A block that belongs to the run, for a result that the host makes."""
    return context.block(max(bytes, 1))


# ---- how much is used ------------------------------------------------------------------------------------------------
# How much memory runs need, counted where it is handed out.


@dataclass(slots=True)
class Usage:
    """Bytes that the largest run held at once: in arrays, its results included, and in nodes of datatypes.

    What threads that helped with loops held at most is added, as if all of them had done so at once.
    Left out are arguments, the stack, and results of less than 64 KiB, which are NumPy's. A block counts with the room
    that it takes, up to a quarter more than was asked for.
    """

    arrays: int = 0
    nodes: int = 0

    @property
    def peak(self) -> int:
        return self.arrays + self.nodes

    def __str__(self) -> str:
        nodes = f", {in_units(self.nodes)} of it in nodes" if self.nodes else ""
        return f"{in_units(self.peak)} at most{nodes}"


@contextmanager
def memory_use() -> Iterator[Usage]:
    """Measures the runs inside: `with dlang.memory_use() as used: f(x)`, then `used.peak`.

    What is known is complete after the block. Results of earlier runs count no more than once: what was held when the
    block began is taken off.
    """

    before: dict[int, int] = {}
    contexts = list(CONTEXTS)
    for context in contexts:
        for watch in WATCHES:  # those around this one see what there was
            watch(context)
        before[context.address] = context.forget_peak()
    for pool in {c.pool for c in contexts}:
        pool.forget_peaks()
    usage = Usage()
    helped: dict[Pool, int] = {}  # what the threads of a pool held

    def include(context: Context) -> None:
        arrays, nodes = context.held
        arrays -= before.get(context.address, 0)
        helped[context.pool] = max(helped.get(context.pool, 0), context.pool.held)
        if arrays + nodes > usage.peak:
            usage.arrays, usage.nodes = arrays, nodes

    WATCHES.append(include)
    try:
        yield usage
    finally:
        WATCHES.remove(include)
        for context in list(CONTEXTS):
            include(context)
        usage.arrays += sum(helped.values())


def in_units(bytes: int) -> str:
    """A number of bytes for people."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if bytes >= scale:
            return f"{bytes / scale:.3g} {unit}"
    return f"{bytes} bytes"
