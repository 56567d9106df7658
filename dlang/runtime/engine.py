"""Compiles programs and runs them: values of Python and NumPy in and out.

    engine = Engine(host)
    compiled = engine.compile(program, ["f"])
    (y,) = compiled.run("f", [x])

One compiled function serves all sizes. A failed check is a `RunError`, as in the reference interpreter.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from dlang.codegen.abi import DEVICE, PROFILE, Header, Site, entry_symbol
from dlang.codegen.llvm import support
from dlang.host import interruptions
from dlang.host.errors import negative_size
from dlang.host.foreign import call_python
from dlang.host.lapack import perform
from dlang.host.platform import stack as stacks
from dlang.host.text import format_parts
from dlang.ir.crossing import PythonFunction
from dlang.ir.errors import IRError
from dlang.ir.terms import Array, Scalar, Size, Token, Var, is_reference
from dlang.lazy_modules import lazy_module
from dlang.process import compiling, gc_paused
from dlang.runtime.compiled import Compiled, Entry
from dlang.runtime.failures import device_failure, host_failure, out_of_memory
from dlang.runtime.marshalling import Marshal, NodeMemory, lasting_text, memory_dtype
from dlang.runtime.threads import default_pool
from dlang.timings import timed

if TYPE_CHECKING:
    from dlang.codegen.llvm import jit
    from dlang.codegen.loops import Nest
    from dlang.host import placed
    from dlang.host.platform import loader
    from dlang.ir import anf
    from dlang.runtime import device_calls, device_runs, memory
    from dlang.runtime.device_calls import RepeatedCalls
    from dlang.runtime.device_runs import DeviceProgram, DeviceRun
    from dlang.runtime.devices import Driver
    from dlang.runtime.threads import Pool
    from dlang.runtime.tiers import Promotion, Tiers
else:
    device_calls = lazy_module("dlang.runtime.device_calls")
    device_runs = lazy_module("dlang.runtime.device_runs")
    jit = lazy_module("dlang.codegen.llvm.jit")
    placed = lazy_module("dlang.host.placed")
    memory = lazy_module("dlang.runtime.memory")
    loader = lazy_module("dlang.host.platform.loader")


# ---- what can be observed --------------------------------------------------------------------------------------------
# Environment variables that set how compiled code can be observed.
#
# `DLANG_SANITIZE=1`: it checks what it touches of memory. `DLANG_DEBUG_INFO=1`: it knows the lines of its sources, and
# GDB is told where it is. `DLANG_PERF_MAP=1`: perf is.

LINES, MAP, CHECKS = "DLANG_DEBUG_INFO", "DLANG_PERF_MAP", "DLANG_SANITIZE"


def wants_lines() -> bool:
    """Tells whether code is to know the lines of its sources."""
    return os.environ.get(LINES, "") not in ("", "0")


def wants_checks() -> bool:
    """Tells whether code is to check the memory that it touches."""
    return os.environ.get(CHECKS, "") not in ("", "0")


def announce(code: bytes, entry: str, address: int) -> None:
    """Tells those who want to know of an object in memory. entry: a function of it, which is at the address."""
    wants_map = os.environ.get(MAP, "") not in ("", "0")
    if sys.platform != "linux" or code[:4] != b"\x7fELF" or not (wants_map or wants_lines()):
        return
    if wants_map:
        loader.write_map(code, entry, address)
    if wants_lines():
        loader.tell_gdb(code, entry, address)


# ---- engine ----------------------------------------------------------------------------------------------------------

WAITING = ("look", "bring", "download", "fetch", "take_over")
"""The work for a device that is done when all before it has been."""


@dataclass(slots=True)
class Engine:
    """Compiled programs share its memory. compilations: how many programs it has compiled.

    level: of LLVM's code generator. tiers: instead of that, how code is compiled quickly and then better.
    arena: the most bytes for the nodes and texts of a run; 0 for as much as there is memory. stack: those for calls.
    grain: the least work of a piece of a loop, in picoseconds, or None for what is usual; 0 for loops in one piece.
    pool: the threads that help with them, or None for those of the process. profile: compiled code measures itself.
    debug: it knows the lines of its sources, for debuggers and profilers of the system. driver: of the device that runs
    loops and products, if there is one; deterministic: it gives the same floats in every run. sanitize:
    code of the CPU checks what it touches of memory.
    """

    host: World
    level: int = 2
    tiers: Tiers | None = None
    compilations: int = 0
    arena: int = 0
    stack: int = 0
    grain: int | None = None
    pool: Pool | None = None
    profile: bool = False
    debug: bool = field(default_factory=wants_lines)
    driver: Driver | None = None
    deterministic: bool = False
    sanitize: bool = field(default_factory=wants_checks)
    contexts: list[Any] = field(default_factory=list)

    def compile(self, program: anf.Program, entries: Sequence[str]) -> CompiledProgram:
        """Machine code for the functions that the entries reach, loaded."""
        return self.load(self.build(program, entries), program.python)

    def build(self, program: anf.Program, entries: Sequence[str]) -> Compiled:
        """Machine code for the functions that the entries reach."""
        from dlang.runtime.build import build

        self.compilations += 1
        with compiling(program.functions[entries[0]].span), gc_paused():
            level = self.level if self.tiers is None else None
            device = self.driver is not None
            return build(
                program, entries, level, self.grain, self.profile, self.debug, device, self.deterministic,
                sanitizes=self.sanitizes,
            )  # fmt: skip

    @property
    def sanitizes(self) -> bool:
        """Tells whether code checks the memory that it touches: none does where that is a device's."""
        return self.sanitize and self.driver is None

    def load(
        self,
        compiled: Compiled,
        python: Mapping[str, PythonFunction],
        shelf: Shelf | None = None,
        keep: Callable[[Compiled], None] = lambda compiled: None,
    ) -> CompiledProgram:
        """Links machine code; of a draft it is compiled now, or when there are tiers by the first call.

        python: the functions of Python that it calls, by their names in the program. keep: keeps what is compiled.
        """
        entries = {name: Entry(point) for name, point in compiled.entries.items()}
        nodes = NodeMemory(compiled.datatypes)
        arena, nests = compiled.needs_arena, compiled.nests
        program = CompiledProgram(self, entries, compiled.sites, compiled.words, nodes, python, arena, nests, shelf)
        if self.driver is not None and any(entry.device for entry in compiled.entries.values()):
            program.device = device_runs.DeviceProgram(
                self.driver, compiled.kernels, compiled.careful, compiled.multiplies
            )
            if nests:
                program.device.recording = device_runs.Recording(len(nests) - 1)
            else:
                program.repeated = device_calls.repeated_calls(program.device, compiled.entries)
        if compiled.draft is None:
            with timed("link"):
                program.install(compiled, compiled.code)
        else:
            from dlang.runtime.tiers import Promotion, Tiers

            tiers = self.tiers or Tiers(best=self.level)
            program.promotion = Promotion(tiers, program, compiled, compiled.draft, keep)
            if self.tiers is None:
                program.promotion.finish()
        return program

    def context(self, slots: int) -> Any:
        """A context that no run is using, with room for the values of a message."""
        for k in range(len(self.contexts) - 1, -1, -1):
            try:
                context = self.contexts.pop(k)
            except IndexError:
                break
            if len(context.words) >= slots + support.SLOTS:
                return context
            self.contexts.insert(0, context)
        return memory.Context(max(slots, support.MESSAGE_ROOM), self.pool or default_pool(), self.sanitizes)


@dataclass(slots=True)
class CompiledProgram:
    """Functions that can be called. Arguments and results are the leaves: numbers, strings, nodes, arrays.

    shelf: where what is made for it later is kept, if it is one function that was found or can be. loaded: its machine
    code, and before it what that has replaced. promotion: how it gets better code. device: what it runs on a device;
    repeated: entries of which calls that are known need no machine code, for it.
    """

    engine: Engine
    entries: dict[str, Entry]
    sites: tuple[Site, ...]
    words: int
    nodes: NodeMemory
    python: Mapping[str, PythonFunction] = field(default_factory=dict)
    needs_arena: bool = False
    nests: tuple[Nest, ...] = ()
    shelf: Shelf | None = None
    loaded: list[Any] = field(default_factory=list)
    promotion: Promotion | None = None
    device: DeviceProgram | None = None
    repeated: dict[str, RepeatedCalls] = field(default_factory=dict)

    def install(self, compiled: Compiled, code: bytes) -> None:
        """Links machine code of the program; from now on calls go there."""
        data = [PROFILE] if compiled.nests else []
        loaded = jit.load(code, list(compiled.entries), compiled.imports, compiled.foreign, data)
        if loaded.entries:
            name, address = next(iter(loaded.entries.items()))
            announce(code, entry_symbol(name), address)
        self.loaded.append(loaded)
        for name, address in loaded.entries.items():
            self.entries[name].connect(address)

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Calls a function."""
        if self.device is None or not self.entries[name].point.repeatable:
            return self._run(name, args)
        with self.device.lock:
            calls = self.repeated.get(name)
            results = None if calls is None else calls(Run(self, None), args)
            return self._run(name, args) if results is None else results

    def _run(self, name: str, args: Sequence[Any]) -> list[Any]:
        if (promotion := self.promotion) is not None:
            promotion.before(self.entries[name], args)
        context = self.engine.context(self.words)
        run = Run(self, context)
        try:
            if self.device is not None:
                run.device = device_runs.DeviceRun(self.device)
                context.words[support.DEVICE] = ctypes.addressof(run.device.table)
            if self.needs_arena:
                context.open_arena(self.engine.arena)
            return run.call(self.entries[name], args)
        except MemoryError:
            raise out_of_memory(self.entries[name].point.function.span) from None
        finally:
            if run.device is not None:
                run.device.end()
            context.close_arena()
            self.engine.contexts.append(context)
            interruptions.check()

    def words_of(self, name: str, args: Sequence[Any]) -> list[tuple[int, list[Any]]]:
        """Gives the words for arguments, none of them nodes or arrays of texts, each with what holds it."""
        env: dict[Var, int] = {}
        out: list[tuple[int, list[Any]]] = []
        params = [p for p in self.entries[name].point.function.params if not isinstance(p.type, Token)]
        for p, a in zip(params, args, strict=True):
            keep: list[Any] = []
            if p.type == Scalar("str"):
                word, text = lasting_text(str(a))
                out.append((word, [text]))
            else:
                out.append((Run(self, None).argument(p, a, env, keep), keep))
        return out


@dataclass(slots=True)
class Run:
    """One call into compiled code, or one after another. device: what it does on a device."""

    program: CompiledProgram
    context: Any
    error: BaseException | None = None
    device: DeviceRun | None = None

    @property
    def marshal(self) -> Marshal:
        """How values cross."""
        return Marshal(self.program.nodes, self.context)

    def call(self, entry: Entry, args: Sequence[Any]) -> list[Any]:
        """The results, without tokens. Raises what ended the run, `MemoryError` where there is no room for a result."""
        point, context = entry.point, self.context
        function = point.function
        params = [p for p in function.params if not isinstance(p.type, Token)]
        if len(args) != len(params):
            raise IRError(f"{function.name} takes {len(params)} arguments, not {len(args)}")
        context.absorb()
        env: dict[Var, int] = {}
        keep: list[Any] = []
        words: list[int] = []
        for param, arg in zip(params, args, strict=True):
            if self.device is not None and len(words) in point.numbers:
                assert isinstance(param.type, Scalar)
                dtype = param.type.dtype
                words.append(self.device.number(len(words), self.marshal.word(arg, dtype), dtype))
                continue
            words.append(self.argument(param, arg, env, keep, point.device))
        outs: list[Any] = []
        least = 0
        for out in point.outs:
            extents = [value_of(s, env) for s in out.shape]
            least = min(least, *extents)
            extents = [max(n, 0) for n in extents]  # where one is negative, the run will say why
            if self.device is not None and point.device and is_on_device(out.dtype):
                outs.append(self.device.room(extents, out.dtype))
                words.append(outs[-1])
                continue
            try:
                array = memory.fresh(context, extents, memory_dtype(out.dtype))
            except ValueError:  # more than NumPy counts
                raise MemoryError from None
            outs.append(array)
            words.append(array.__array_interface__["data"][0])
        context.words[support.CALLS] = 0
        context.run = self
        loans = context.lend([*keep, *outs]) if self.program.engine.sanitizes else []
        try:
            if self.device is not None and point.repeatable:
                fixed = [0 if k in point.numbers else word for k, word in enumerate(words)]
                raw = self.device.repeated((function.name, *fixed), lambda: self._raw(entry, words))
            else:
                raw = self._raw(entry, words)
            if (failed := self.failed_on_device()) is not None:
                raise failed
            if least < 0:
                raise negative_size(least, function.span)
            return self._results(entry, outs, raw, env)
        except BaseException:
            context.reclaim()
            raise
        finally:
            context.run = None
            context.end_loans(loans)

    def _raw(self, entry: Entry, words: Sequence[int]) -> list[int]:
        """The words that compiled code gives. Raises what ended the run."""
        slots = (ctypes.c_int64 * (len(words) + entry.point.raw))(*words)
        if self._enter(entry, ctypes.addressof(slots)):
            raise self.failure(entry.point.function)
        return list(slots[len(words) :])

    def _results(self, entry: Entry, outs: Sequence[Any], raw: Sequence[int], env: dict[Var, int]) -> list[Any]:
        point, context, driver = entry.point, self.context, self.program.engine.driver
        sizes: dict[Var, int] = dict(env)
        values: list[Any] = []
        for formal, order in zip(point.function.results, point.order, strict=True):
            if order is None:
                continue
            where, position = order
            match formal.type:
                case Array(dtype, shape):
                    if self.device is not None and point.device and is_on_device(dtype):
                        address = outs[position] if where == "out" else raw[position]
                        values.append(self.device.result(address, [value_of(s, sizes) for s in shape], dtype))
                        continue
                    if where == "out":
                        array = outs[position]
                    else:
                        sized = [value_of(s, sizes) for s in shape]
                        array = memory.adopted(context, raw[position], sized, memory_dtype(dtype))
                    if driver is not None and is_on_device(dtype):
                        values.append(device_runs.handed(driver, array, dtype))
                        continue
                    values.append(self.marshal.from_memory(array, dtype))
                case Scalar(dtype):
                    word = raw[position] & (2**64 - 1)
                    if self.device is not None and position in point.there:
                        word = self.device.fetched(word, dtype)
                    values.append(self.marshal.scalar(word, dtype))
                    if dtype == "i64":
                        sizes[formal] = int(values[-1])
        return values

    def _enter(self, entry: Entry, slots: int) -> int:
        """Runs compiled code, on a stack of its own if it may recurse."""
        context = self.context
        context.prepare()
        if not entry.point.recursive:
            return int(entry.call(context.address, slots))
        limit = self.program.engine.stack
        if stacks.can_switch():
            stack = context.open_stack(limit)
            try:
                return int(context.enter(entry.address, slots, stack.top))
            finally:
                context.close_stack()

        def run(stack: stacks.Stack) -> int:
            context.use_stack(stack)
            return int(entry.call(context.address, slots))

        def cancel(error: BaseException) -> None:
            self.error = error
            context.hurry()

        return stacks.call_on_thread(run, context.frame, limit, cancel)

    # ---- arguments ---------------------------------------------------------------------------------------------------
    def argument(self, param: Var, arg: Any, env: dict[Var, int], keep: list[Any], device: bool = False) -> int:
        """Returns an argument's word for compiled code. env: the sizes before it, then its own; keep: its memory.

        device: whether arrays of numbers are to be on the device.
        """
        match param.type:
            case Array(dtype, shape):
                wanted = tuple([value_of(s, env) for s in shape])
                there = self.device if device and is_on_device(dtype) else None
                given = None if there is None else there.given(arg, wanted, dtype, keep)
                if given is not None:
                    return given
                if self.program.engine.driver is not None:
                    arg = self._on_host(arg, param.name, wanted=there is None)
                array = self.marshal.array(arg, dtype, wanted, param.name)
                keep.append(array)
                address = int(array.__array_interface__["data"][0])
                return address if there is None else there.uploaded(address, array.nbytes)
            case Scalar(dtype):
                if dtype == "i64":
                    env[param] = int(arg)
                return self.marshal.word(arg, dtype)
            case _:
                raise AssertionError("a token is not an argument")

    def _on_host(self, arg: Any, name: str, wanted: bool) -> Any:
        """An array of NumPy, of what may be on a device. wanted: whether it is not to be there."""
        if placed.placed(arg) is None:
            return arg
        if not wanted:
            raise placed.elsewhere(name)
        return placed.fetched(arg)

    # ---- failures ----------------------------------------------------------------------------------------------------
    def failure(self, function: Header) -> BaseException:
        """Returns the exception that ended the run, to be raised."""
        self.program.engine.host.failed()
        if self.program.sites[self.context.words[0]].kind == DEVICE:  # which may be of no use any more
            return host_failure(self, function)
        failed = self.failed_on_device()  # before what the host has noticed
        return host_failure(self, function) if failed is None else failed

    def failed_on_device(self) -> BaseException | None:
        """Returns the error of a kernel that has failed; None if none has."""
        state = None if self.device is None else self.device.failed()
        return None if state is None else device_failure(self, state)

    # ---- the host's work ---------------------------------------------------------------------------------------------
    def serve(self, number: int, pointer: int) -> bool:
        """Does what compiled code asks for; whether that was possible. May raise what then ends the run."""
        match number:
            case support.LOOK:  # by now Python has run the handlers of signals, unless one of them has ended the run
                interruptions.check()
                return self.error is None
            case support.START:
                self.context.pool.start()
                return True
            case support.DEEPER:
                return bool(self.context.deeper(pointer))
            case _:
                self._work(self.program.sites[number], pointer)
                return True

    def _work(self, site: Site, pointer: int) -> None:
        if site.name == DEVICE:
            assert self.device is not None
            if site.parts[0] in WAITING and (failed := self.failed_on_device()) is not None:
                raise failed
            self.device.serve(site.parts[0], pointer, self.context)
            return
        args, address = self.marshal.read(pointer, site.args, shown=site.name in ("format", "print"))
        outs, address = self.marshal.read(address, site.outs)
        host = self.program.engine.host
        results: list[Any]
        match site.name:
            case "format":
                results = [format_parts(site.parts, args)]
            case "print":
                host.print(args[0])
                results = []
            case "foreign":
                results = call_python(self.program.python[site.parts[0]], args)
            case "library":
                values = perform(site.parts[0], args)
                arrays = [x for x in values if x.ndim]
                for out, array in zip(outs, arrays, strict=True):
                    out[...] = array
                results = [x for x in values if not x.ndim]
            case name:
                results = host.effect(name, site.parts, args)
        for k, (signature, value) in enumerate(zip(site.results, results, strict=True)):
            if signature.rank:
                word = self.marshal.hand_in(value, signature.dtype)
            else:
                word = self.marshal.word(value, signature.dtype)
            ctypes.c_int64.from_address(address + 8 * k).value = word


def is_on_device(dtype: str) -> bool:
    """Tells whether arrays of a dtype can be in the memory of a device: those of numbers."""
    return not is_reference(dtype)


def value_of(size: Size, env: dict[Var, int]) -> int:
    """The value of a size; it may have fractions that cancel."""
    return size.evaluate(env.__getitem__)


class World(Protocol):
    """The world that effects act on: `dlang.host.effects.Host`, or a stand-in."""

    def print(self, text: str) -> None: ...
    def effect(self, name: str, static: Sequence[str], args: Sequence[Any]) -> list[Any]: ...
    def failed(self) -> None:
        """A run has ended before it was through."""


class Shelf(Protocol):
    """The records kept of a program between processes, by kind; nothing is kept of what has no form in a record."""

    def get(self, kind: str) -> Any | None: ...
    def put(self, kind: str, value: Any) -> None: ...
