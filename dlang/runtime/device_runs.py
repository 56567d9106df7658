"""Runs of a program on a device: its kernels, the memory that a run holds there, and copies for the host."""

from __future__ import annotations

import ctypes
import time
import weakref
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from math import prod
from threading import RLock
from typing import Any

from dlang.codegen import abi
from dlang.codegen.abi import BEYOND, NUMBERS, WORDS, Kernel
from dlang.codegen.llvm.profiling import COUNT, EVENTS, NEST, PAIR, PAIRS, RECORD, ROOM
from dlang.ir.errors import IRError
from dlang.lazy_modules import np
from dlang.ops.dtypes import ELSEWHERE
from dlang.process import gc_paused
from dlang.runtime.devices import Driver, Holding, Marks, Repeat, allocate, can_keep, drop, give_back, held, use
from dlang.runtime.marshalling import memory_dtype, memory_word, register_word

NEVER = 2**64 - 1
SEEN = 256
"""The number of runs that are known to have been done."""
STATES = 4
"""The number of states that a program has before streams share them."""


def array_dtype(dtype: str) -> str:
    """The dtype of an array of Python on the device."""
    return ELSEWHERE.get(dtype) or memory_dtype(dtype)


def item_size(dtype: str) -> int:
    """The bytes of an element in memory."""
    return int(np.dtype(memory_dtype(dtype)).itemsize)


class State(ctypes.Structure):
    """`dl_run` of `device.cuh`: where partial results of reductions go, and what has failed first."""

    _fields_ = [
        ("partials", ctypes.c_uint64),
        ("iteration", ctypes.c_uint64),
        ("site", ctypes.c_int64),
        ("lock", ctypes.c_uint32),
        ("ticket", ctypes.c_uint32),
        ("values", ctypes.c_int64 * WORDS),
    ]


@dataclass(frozen=True, slots=True)
class Event:
    """A block was allocated, with a size, or freed."""

    address: int
    size: int | None


@dataclass(frozen=True, slots=True)
class Seen:
    """A run that can be repeated has been done, which took memory in this way. when: by the clock of graphs."""

    events: Sequence[Event]
    when: int


def _plan(events: Sequence[Event]) -> tuple[list[int], list[int]]:
    """Sizes of blocks for a run that allocates and frees like another one, and in which order it gets them."""
    blocks: list[int] = []
    free: dict[int, list[int]] = {}
    order: list[int] = []
    now: dict[int, tuple[int, int]] = {}
    for event in events:
        if event.size is None:
            if event.address in now:
                size, block = now.pop(event.address)
                free.setdefault(size, []).append(block)
            continue
        waiting = free.get(event.size)
        if not waiting:
            blocks.append(max(event.size, 1))
            waiting = [len(blocks) - 1]
        order.append(waiting.pop())
        now[event.address] = event.size, order[-1]
    return blocks, order


@dataclass(eq=False)
class DeviceProgram:
    """The kernels of a program on a device. careful: whether something may fail in one. wide: handles of those with
    wide indices.

    multiplies: whether there are products. states: those on the device that no run is using, the one that was used last
    at the end. seen: runs that can be repeated, by all that they depend on; repeats: those that are kept as graphs.
    recording: what runs take, if they measure themselves. lock: who holds it may repeat runs. Raises `DlangError` where
    kernels can't be compiled.
    """

    driver: Driver
    kernels: Sequence[Kernel]
    careful: bool
    multiplies: bool
    recording: Recording | None = None
    lock: RLock = field(init=False, default_factory=RLock)
    handles: Any = field(init=False)
    wide: dict[int, int] = field(init=False, default_factory=dict)
    states: list[Holding] = field(init=False, default_factory=list)
    seen: OrderedDict[Hashable, Seen] = field(init=False, default_factory=OrderedDict)
    repeats: dict[Hashable, Repeat] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        handles = self.driver.load(self.kernels)
        self.handles = (ctypes.c_uint64 * max(len(handles), 1))(*handles)
        weakref.finalize(self, _release, self.driver, self.states, self.repeats).atexit = False

    @property
    def threads(self) -> int:
        """How many threads the device runs at once."""
        return self.driver.threads

    @property
    def reach(self) -> int:
        """Up to where the indices of a kernel may go for it to have narrow ones."""
        return self.driver.largest_index - BEYOND - self.threads

    def with_wide_indices(self, number: int) -> int:
        """The handle of a kernel that has wide ones, made when it is first needed. Raises `DlangError`."""
        if number not in self.wide:
            (self.wide[number],) = self.driver.load([self.kernels[number]], wide=True)
        return self.wide[number]

    def state(self) -> Holding:
        """A state in which nothing has failed, for the current stream. Raises MemoryError."""
        idle = self._idle_state(STATES)
        if idle is None:
            partials = 8 * WORDS * (self.threads // 32)
            try:
                idle = held(self.driver, [ctypes.sizeof(State) + partials + 8 * NUMBERS])
            except MemoryError:
                if (idle := self._idle_state(1)) is None:
                    raise
            else:
                self.reset(idle.blocks[0])
        use(self.driver, idle)
        return idle

    def _idle_state(self, enough: int) -> Holding | None:
        """One that the current stream used last, or the one that waits for longest where there are enough of them."""
        now = self.driver.current
        with self.driver.graphs.lock:
            for k in range(len(self.states) - 1, -1, -1):
                if self.states[k].stream == now:
                    return self.states.pop(k)
            return self.states.pop(0) if len(self.states) >= enough else None

    def number_address(self, state: int, position: int) -> int:
        """Returns the address on the device of a number that a run takes."""
        return state + ctypes.sizeof(State) + 8 * WORDS * (self.threads // 32) + 8 * position

    def put(self, state: int, numbers: Mapping[int, int]) -> None:
        """Has the device know numbers, by their positions; all at once, as elements of memory."""
        if numbers:
            data = (ctypes.c_uint64 * (max(numbers) + 1))()
            for position, word in numbers.items():
                data[position] = word
            self.driver.upload(self.number_address(state, 0), ctypes.addressof(data), ctypes.sizeof(data))

    def see(self, key: Hashable, events: list[Event]) -> None:
        """A run that can be repeated has been done."""
        self.seen[key] = Seen(events, self.driver.graphs.now)
        if len(self.seen) > SEEN:
            self.seen.popitem(last=False)

    def repeat(self, key: Hashable) -> Repeat | None:
        """The graph of a run, for the current stream; it is not to be used any more when it is `busy` no longer."""
        graph = self.driver.graphs.take(self.repeats, key)
        if graph is not None:
            try:
                use(self.driver, graph.state)
                use(self.driver, graph.memory)
            except BaseException:
                graph.busy = False
                raise
        return graph

    def failed(self, address: int) -> State | None:
        """Returns what a state says has failed in a kernel, then resets the state; waits for all kernels."""
        if not self.careful:
            return None
        iteration = ctypes.c_uint64()
        self.driver.download(ctypes.addressof(iteration), address + State.iteration.offset, 8)
        if iteration.value == NEVER:
            return None
        state = State()
        self.driver.download(ctypes.addressof(state), address, ctypes.sizeof(state))
        self.reset(address)
        return state

    def reset(self, address: int) -> None:
        """Has nothing failed."""
        state = State(partials=address + ctypes.sizeof(State), iteration=NEVER)
        self.driver.upload(address, ctypes.addressof(state), ctypes.sizeof(state))


def number_at(driver: Driver, address: int, dtype: str) -> int:
    """The word of a number that the device has."""
    word = ctypes.c_uint64(0)
    driver.download(ctypes.addressof(word), address, item_size(dtype))
    return register_word(word.value, dtype)


def _release(driver: Driver, states: Sequence[Holding], repeats: Mapping[Hashable, Repeat]) -> None:
    """Gives back what a program held; the driver outlives it."""
    for repeat in list(repeats.values()):
        drop(driver, repeat)
    for state in states:
        give_back(driver, state)


@dataclass(slots=True)
class Mirror:
    """A host copy of a device block. uses: how many statements under way use it; changed: whether one changed it."""

    memory: Any
    uses: int = 0
    changed: bool = False


@dataclass(slots=True)
class DeviceRun:
    """One run. state: what has failed on the device; None if a graph has it. table: what machine code finds there.

    addresses: of its memory there, in order, with their sizes; own: what it has allocated and not freed. mirrors: by
    the address of a block; parts: by the addresses and bytes of parts of blocks; held: by how many loops under way that
    do not change arrays of a block. numbers: that it takes, by their positions. events: what was allocated, by its
    size, and freed, by its number, if that is to be known; planned: what will be allocated. repeat: the graph that does
    it, if one does. loans: of arrays that are other libraries'. recorder: of what a program that measures itself has
    the device do.
    """

    program: DeviceProgram
    state: Holding | None = field(init=False)
    table: Any = field(init=False)
    addresses: list[int] = field(init=False, default_factory=list)
    sizes: dict[int, int] = field(init=False, default_factory=dict)
    own: set[int] = field(init=False, default_factory=set)
    mirrors: dict[int, Mirror] = field(init=False, default_factory=dict)
    parts: dict[tuple[int, int], Mirror] = field(init=False, default_factory=dict)
    held: Counter[int] = field(init=False, default_factory=Counter)
    numbers: dict[int, int] = field(init=False, default_factory=dict)
    events: list[Event] | None = field(init=False, default=None)
    planned: list[int] | None = field(init=False, default=None)
    repeat: Repeat | None = field(init=False, default=None)
    loans: list[Any] = field(init=False, default_factory=list)
    recorder: Recorder | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Raises MemoryError."""
        self.state = self.program.state()
        if self.program.recording is not None:
            self.recorder = self.program.recording.recorder(self.program.driver)
        self.table = (ctypes.c_uint64 * abi.TABLE)()
        self.prepare()

    def prepare(self) -> None:
        """Fills the table."""
        program, table = self.program, self.table
        driver = program.driver
        table[abi.LAUNCH] = driver.functions.launch
        table[abi.COPY] = driver.functions.copy
        table[abi.STREAM] = driver.stream
        if program.multiplies:
            table[abi.PRODUCT] = driver.product
            table[abi.BLAS] = driver.blas
        table[abi.RUN] = self.address
        table[abi.KERNELS] = ctypes.addressof(program.handles)
        table[abi.THREADS] = program.threads
        table[abi.LAUNCHES] = 0
        table[abi.REACH] = max(program.reach, 0)
        if self.recorder is not None:
            table[abi.MARKS] = ctypes.addressof(self.recorder.words)

    @property
    def address(self) -> int:
        """The address of its state."""
        state = self.state if self.repeat is None else self.repeat.state
        assert state is not None
        return state.blocks[0]

    def end(self) -> None:
        """Gives back what it holds."""
        for address in self.own:
            self.program.driver.free(address)
        self.own.clear()
        if self.state is not None:
            self.program.states.append(self.state)
        if self.repeat is not None:
            self.repeat.busy = False
        if self.loans:
            self.program.driver.end_loans(self.loans)
        if self.recorder is not None:
            self.recorder.end()

    def number(self, position: int, word: int, dtype: str) -> int:
        """The address on the device of a number that the run takes."""
        self.numbers[position] = memory_word(word & (2**64 - 1), dtype)
        return self.program.number_address(self.address, position)

    # ---- repeated runs -----------------------------------------------------------------------------------------------
    def repeated(self, key: Hashable, execute: Callable[[], list[int]]) -> list[int]:
        """The words of a run that asks nothing of the host on its way.

        The second time that a run has the same key, which is all that it depends on but for what arrays contain, it is
        kept as a graph, and launched as such from then on, if there is memory for it.
        """
        program = self.program
        if not program.driver.makes_graphs:
            program.put(self.address, self.numbers)
            return execute()
        self.repeat = program.repeat(key)
        if self.repeat is None and (seen := program.seen.pop(key, None)) is not None:
            self.repeat = self._kept(key, seen, execute)
        program.put(self.address, self.numbers)
        if self.repeat is not None:
            self.repeat.graph.launch()
            return list(self.repeat.raw)
        self.events = []
        raw = execute()
        program.see(key, self.events)
        self.events = None
        return raw

    def _kept(self, key: Hashable, seen: Seen, execute: Callable[[], list[int]]) -> Repeat | None:
        """The run as a graph, in memory of its own and with the state of this run; None if there is no room for it."""
        program, driver = self.program, self.program.driver
        sizes, order = _plan(seen.events)
        workspace = driver.workspace if program.multiplies else 0
        sizes += [workspace] if workspace else []
        state = self.state
        assert state is not None
        if not can_keep(driver, program.repeats, sum(sizes) + state.bytes, seen.when):
            return None
        memory: Holding | None = None
        try:
            memory = held(driver, sizes)
            self.planned = [memory.blocks[k] for k in order]
            with gc_paused():  # which might free what another program held
                driver.begin(memory.blocks[-1] if workspace else None)
                try:
                    self.prepare()
                    raw = execute()
                except BaseException:
                    driver.abandon()
                    raise
                graph = driver.end()
            kept = Repeat(graph, raw, state, memory, program.repeats, key)
            driver.graphs.keep(kept)
        except BaseException as e:
            if memory is not None:
                give_back(driver, memory)
            if not isinstance(e, MemoryError):
                raise
            self.planned = None
            self.prepare()
            return None
        finally:
            self.planned = None
        self.state = None
        return kept

    # ---- memory ------------------------------------------------------------------------------------------------------
    def allocate(self, size: int) -> int:
        """A block of the run. Raises MemoryError."""
        if not 0 <= size < 2**62:
            raise MemoryError
        if self.planned is not None:
            return self.planned.pop(0)
        address = allocate(self.program.driver, max(size, 1))
        self.own.add(address)
        self.know(address, size)
        if self.events is not None:
            self.events.append(Event(address, size))
        return address

    def room(self, extents: Sequence[int], dtype: str) -> int:
        """A block for an array. Raises MemoryError."""
        return self.allocate(prod([max(n, 0) for n in extents]) * item_size(dtype))

    def know(self, address: int, size: int) -> None:
        """A block that is there, whoever's it is."""
        if address not in self.sizes:
            self.addresses.insert(bisect_right(self.addresses, address), address)
        self.sizes[address] = max(size, self.sizes.get(address, 0))

    def forget(self, address: int) -> None:
        """A block that is no longer the run's."""
        del self.sizes[address]
        del self.addresses[bisect_right(self.addresses, address) - 1]
        self.own.discard(address)

    def free(self, address: int) -> None:
        if self.planned is not None:
            return
        if self.events is not None:
            self.events.append(Event(address, None))
        self.forget(address)
        self.program.driver.free(address)

    def block(self, address: int) -> int:
        """The block that an address is in."""
        return self.addresses[bisect_right(self.addresses, address) - 1]

    # ---- arrays of Python --------------------------------------------------------------------------------------------
    def given(self, value: Any, shape: tuple[int, ...], dtype: str, keep: list[Any]) -> int | None:
        """The address of an argument that is on the device already; None if it is not."""
        array = self.program.driver.given(value, array_dtype(dtype))
        if array is None:
            return None
        if array.loan is not None:
            self.loans.append(array.loan)
        if tuple(array.array.shape) != shape:
            raise IRError(f"an array has the shape {tuple(array.array.shape)}, not {shape}")
        keep.append(array.array)
        self.know(array.address, int(array.array.nbytes))
        return array.address

    def result(self, address: int, shape: Sequence[int], dtype: str) -> Any:
        """A block of the run as an array of Python."""
        self.forget(address)
        return self.program.driver.result(address, shape, array_dtype(dtype))

    def fetched(self, address: int, dtype: str) -> int:
        """The word of a number that the device has."""
        if self.recorder is not None:
            self.recorder.ends()
        with self.copying(item_size(dtype)):
            return number_at(self.program.driver, address, dtype)

    # ---- what machine code asks for ----------------------------------------------------------------------------------
    def serve(self, what: str, pointer: int, context: Any) -> None:
        """Does it; words are replaced by what machine code is to know."""
        words = (ctypes.c_int64 * 3).from_address(pointer)
        match what:
            case "allocate":
                words[0] = self.allocate(words[0])
            case "free":
                self.free(words[0])
            case "upload":
                self.upload(words[0], words[1], words[2])
            case "download":
                self.download(words[0], words[1], words[2])
            case "bring":
                words[0] = self.bring(words[0], words[1], bool(words[2]))
            case "hold":
                self.hold(words[0], bool(words[1]))
            case "leave":
                self.leave(words[0], words[1], bool(words[2]))
            case "fetch":
                self.download(pointer, words[0], words[1])
            case "take_over":
                words[0] = self.uploaded(words[0], dict(context.blocks)[words[0]])
            case "wide":
                words[0] = self.program.with_wide_indices(words[0])
            case "read":
                assert self.recorder is not None
                self.recorder.read()
            case _:
                assert what == "look"

    # ---- copies ------------------------------------------------------------------------------------------------------
    def copying(self, size: int) -> AbstractContextManager[None]:
        """A copy of so many bytes between device and host."""
        return nullcontext() if self.recorder is None else self.recorder.copying(size)

    def uploaded(self, source: int, size: int) -> int:
        """A new block with what the host has. Raises MemoryError."""
        address = self.allocate(size)
        self.upload(address, source, size)
        return address

    def upload(self, target: int, source: int, size: int) -> None:
        if size:
            with self.copying(size):
                self.program.driver.upload(target, source, size)

    def download(self, target: int, source: int, size: int) -> None:
        if size:
            with self.copying(size):
                self.program.driver.download(target, source, size, partly=True)

    def hold(self, address: int, begins: bool) -> None:
        """Begins or ends the time in which arrays of the block that an address is in do not change."""
        block = self.block(address)
        self.held[block] += 1 if begins else -1
        if not self.held[block] and block in self.mirrors and not self.mirrors[block].uses:
            del self.mirrors[block]

    def bring(self, address: int, part: int, still: bool) -> int:
        """The address of what the host has of the block that an address is in, or of so many bytes from there if that
        is not -1.

        still: whether that array does not change as long as the block is held; others in the block may have.
        """
        block = self.block(address)
        size, mirror = self.sizes[block], self.mirrors.get(block)
        if part >= 0 and (mirror is None or not mirror.uses):
            copy = self.parts.get((address, part))
            if copy is None:
                copy = self.parts[address, part] = Mirror((ctypes.c_char * max(part, 1))())
                self.download(ctypes.addressof(copy.memory), address, part)
            copy.uses += 1
            return ctypes.addressof(copy.memory)
        if mirror is None:
            mirror = self.mirrors[block] = Mirror((ctypes.c_char * max(size, 1))())
            self.download(ctypes.addressof(mirror.memory), block, size)
        elif not mirror.uses and not still:
            self.download(ctypes.addressof(mirror.memory), block, size)
        mirror.uses += 1
        return ctypes.addressof(mirror.memory) + address - block

    def leave(self, address: int, part: int, changed: bool) -> None:
        """A statement has come to its end that had the block brought, or a part of it."""
        block = self.block(address)
        copy = self.parts.get((address, part))
        mirror = self.mirrors[block] if copy is None else copy
        mirror.uses -= 1
        mirror.changed = mirror.changed or changed
        if mirror.uses:
            return
        if copy is not None:
            del self.parts[address, part]
        elif not self.held[block]:
            del self.mirrors[block]
        if mirror.changed:
            start, size = (block, self.sizes[block]) if copy is None else (address, part)
            self.upload(start, ctypes.addressof(mirror.memory), size)
            mirror.changed = False

    # ---- failures ----------------------------------------------------------------------------------------------------
    def failed(self) -> State | None:
        """Returns what has failed in a kernel, then resets the state; waits for all kernels."""
        return self.program.failed(self.address)


def handed(driver: Driver, array: Any, dtype: str) -> Any:
    """A copy on a device of what the host has made, as an array of Python, like the results of what runs there."""
    address = allocate(driver, array.nbytes)
    if array.nbytes:
        driver.upload(address, array.ctypes.data, array.nbytes)
    return driver.result(address, array.shape, array_dtype(dtype))


# ---- marks of a profile ----------------------------------------------------------------------------------------------
# Marks in what a program that measures itself asks of a device: when each nest began there, and when it ended.


@dataclass(slots=True)
class Recording:
    """The device work of runs, by the numbers of nests: how often they asked the device, the seconds that it took,
    and the bytes that went between it and the host.

    events: nests with when they began and ended, on the host's clock; those that there is no room for are `lost`.
    outside: the nest of what is asked for before and after machine code.
    """

    outside: int
    seconds: dict[int, float] = field(default_factory=dict)
    calls: Counter[int] = field(default_factory=Counter)
    bytes: Counter[int] = field(default_factory=Counter)
    events: list[tuple[int, float, float]] = field(default_factory=list)
    lost: int = 0
    recorders: list[Recorder] = field(default_factory=list)

    def clear(self) -> None:
        """Nothing has been found so far."""
        self.seconds.clear()
        self.calls.clear()
        self.bytes.clear()
        self.events.clear()
        self.lost = 0

    def recorder(self, driver: Driver) -> Recorder:
        """One for a run that begins now."""
        idle = self.recorders.pop() if self.recorders else Recorder(self, driver)
        idle.begin()
        return idle


@dataclass(eq=False)
class Recorder:
    """The marks of one run. words: as in `codegen/llvm/profiling.py`; base: when the last mark was, on the host's
    clock.
    """

    recording: Recording
    driver: Driver
    marks: Marks = field(init=False)
    words: Any = field(init=False)
    record: Callable[[int, int], int] = field(init=False)
    base: float = field(init=False)

    def __post_init__(self) -> None:
        self.marks = self.driver.marks(2 * ROOM + 1)
        self.words = (ctypes.c_int64 * (PAIRS + PAIR * ROOM))()
        self.words[RECORD] = self.driver.functions.record
        handles = self.marks.handles
        for k in range(ROOM):
            self.words[PAIRS + PAIR * k : PAIRS + PAIR * k + 2] = list(handles[2 * k : 2 * k + 2])
        self.record = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)(self.driver.functions.record)

    def begin(self) -> None:
        """A run begins, and the device has nothing to do."""
        self.words[COUNT], self.words[NEST] = 0, self.recording.outside
        self.mark(self.marks.handles[2 * ROOM])
        self.driver.wait()
        self.base = time.perf_counter()

    def mark(self, handle: int) -> None:
        """Has the device note when it comes here."""
        status = self.record(handle, self.driver.stream)
        if status:
            raise self.driver.error(status)

    @contextmanager
    def copying(self, size: int) -> Iterator[None]:
        """A copy of so many bytes between device and host, for the nest that is under way."""
        pair, nest = PAIRS + PAIR * self.words[COUNT], self.words[NEST]
        self.mark(self.words[pair])
        yield
        self.mark(self.words[pair + 1])
        self.words[pair + 2] = nest
        self.words[COUNT] += 1
        self.recording.bytes[nest] += size
        if self.words[COUNT] == ROOM:
            self.read()

    def ends(self) -> None:
        """Machine code has ended: what follows counts as outside."""
        self.words[NEST] = self.recording.outside

    def read(self) -> None:
        """Reads all marks, for which it waits."""
        recording, count, marks = self.recording, self.words[COUNT], self.marks
        if not count:
            return
        self.driver.wait()
        for k in range(count):
            nest, seconds = self.words[PAIRS + PAIR * k + 2], marks.elapsed(2 * k, 2 * k + 1)
            recording.calls[nest] += 1
            recording.seconds[nest] = recording.seconds.get(nest, 0.0) + seconds
            if len(recording.events) < EVENTS:
                begin = self.base + marks.elapsed(2 * ROOM, 2 * k)
                recording.events.append((nest, begin, begin + seconds))
            else:
                recording.lost += 1
        self.words[COUNT] = 0

    def end(self) -> None:
        """The run has ended; another one may use this."""
        self.read()
        self.recording.recorders.append(self)
