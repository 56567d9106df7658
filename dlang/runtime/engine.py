"""Compiles programs and runs them: values of Python and NumPy in and out.

    engine = Engine(host)
    compiled = engine.compile(program, ["f"])
    (y,) = compiled.run("f", [x])

One compiled function serves all sizes. A failed check is a `RunError`, as in the reference interpreter.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dlang.codegen.llvm.sites import LAUNCH, Signature, Site
from dlang.collection import no_collection
from dlang.diagnostics import Span
from dlang.ir.errors import IRError
from dlang.ir.terms import Array, Scalar, Size, Token, Var, is_handle
from dlang.runtime import observers
from dlang.runtime.compiled import Compiled, Header
from dlang.runtime.entries import Entry
from dlang.runtime.errors import RunError
from dlang.runtime.foreign import PythonFunction, call_python
from dlang.runtime.half import bf16_of_bits, bits_of_bf16
from dlang.runtime.libraries import perform
from dlang.runtime.nodes import NodeMemory
from dlang.runtime.outside import Shelf, World
from dlang.runtime.text import format_parts
from dlang.runtime.words import NUMPY, PLAIN, Strings, memory_dtype, scalar_class, scalar_of, word_of

if TYPE_CHECKING:
    from dlang.codegen.loops import Nest
    from dlang.ir import anf
    from dlang.runtime.emulation.device import EmulatedDevice
    from dlang.runtime.platform.threads import Pool
    from dlang.runtime.tiers import Promotion, Tiers

OUT_OF_MEMORY, STACK_EXHAUSTED = "E0806", "E0805"
SHOWN = 4  # calls under way that an interruption mentions


@dataclass(slots=True)
class Engine:
    """Compiled programs share its strings and its memory. compilations: how many programs it has compiled.

    level: of LLVM's code generator. tiers: instead of that, how code is compiled quickly and then better.
    arena: the most bytes that the nodes of a run may take; 0 for as much as there is memory. stack: the same of calls.
    grain: the least work of a piece of a loop, in picoseconds, or None for what is usual; 0 for loops in one piece.
    pool: the threads that help with them, or None for those of the process. profile: compiled code measures itself.
    debug: it knows the lines of its sources, for debuggers and profilers of the system. emulates: loops are kernels of
    a GPU, which is emulated.
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
    debug: bool = field(default_factory=observers.wants_lines)
    emulates: bool = False
    strings: Strings = field(default_factory=Strings)
    contexts: list[Any] = field(default_factory=list)

    def compile(self, program: anf.Program, entries: Sequence[str]) -> CompiledProgram:
        """Machine code for the functions that the entries reach, loaded."""
        return self.load(self.build(program, entries), program.python)

    def build(self, program: anf.Program, entries: Sequence[str]) -> Compiled:
        """Machine code for the functions that the entries reach."""
        from dlang.runtime.build import build

        self.compilations += 1
        with no_collection():
            level = self.level if self.tiers is None else None
            return build(program, entries, level, self.grain, self.profile, self.debug, self.emulates)

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
        nodes = NodeMemory(compiled.datatypes, self.strings)
        arena, nests = compiled.needs_arena, compiled.nests
        program = CompiledProgram(self, entries, compiled.sites, compiled.words, nodes, python, arena, nests, shelf)
        if compiled.kernels:
            from dlang.runtime.emulation.device import EmulatedDevice

            program.device = EmulatedDevice(compiled.kernels)
        if compiled.draft is None:
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
        from dlang.codegen.llvm import support
        from dlang.runtime.memory import Context
        from dlang.runtime.platform.threads import default_pool

        for k in range(len(self.contexts) - 1, -1, -1):
            try:
                context = self.contexts.pop(k)
            except IndexError:
                break
            if len(context.words) >= slots + support.SLOTS:
                return context
            self.contexts.insert(0, context)
        return Context(max(slots, support.MESSAGE_ROOM), self.pool or default_pool())


@dataclass(slots=True)
class CompiledProgram:
    """Functions that can be called. Arguments and results are the leaves: numbers, strings, nodes, arrays.

    shelf: where what is made for it later is kept, if it is one function that was found or can be. loaded: its machine
    code, and before it what that has replaced. promotion: how it gets better code. device: what runs its kernels.
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
    device: EmulatedDevice | None = None

    def install(self, compiled: Compiled, code: bytes) -> None:
        """Links machine code of the program; from now on calls go there."""
        from dlang.codegen.llvm import jit
        from dlang.codegen.llvm.symbols import PROFILE, entry_symbol

        texts = [self.engine.strings.number(text) for text in compiled.texts]
        data = [PROFILE] if compiled.nests else []
        loaded = jit.load(code, list(compiled.entries), compiled.imports, compiled.foreign, texts, data)
        if loaded.entries:
            name, address = next(iter(loaded.entries.items()))
            observers.announce(code, entry_symbol(name), address)
        self.loaded.append(loaded)
        for name, address in loaded.entries.items():
            self.entries[name].connect(address)

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Calls a function."""
        if (promotion := self.promotion) is not None:
            promotion.before(self.entries[name], args)
        context = self.engine.context(self.words)
        run = Run(self, context)
        try:
            if self.needs_arena:
                context.open_arena(self.engine.arena)
            return run.call(self.entries[name], args)
        except MemoryError:
            raise out_of_memory(self.entries[name].point.function.span) from None
        finally:
            context.close_arena()
            self.engine.contexts.append(context)

    def words_of(self, name: str, args: Sequence[Any]) -> list[tuple[int, list[Any]]]:
        """What compiled code gets for arguments, none of them nodes, each with the objects whose memory that is."""
        env: dict[Var, int] = {}
        out: list[tuple[int, list[Any]]] = []
        params = [p for p in self.entries[name].point.function.params if not isinstance(p.type, Token)]
        for p, a in zip(params, args, strict=True):
            keep: list[Any] = []
            out.append((Run(self, None).argument(p, a, env, keep), keep))
        return out


@dataclass(slots=True)
class Run:
    """One call into compiled code, or one after another. arrays: those of the host that it works on."""

    program: CompiledProgram
    context: Any
    error: BaseException | None = None
    arrays: list[Any] = field(default_factory=list)

    def call(self, entry: Entry, args: Sequence[Any]) -> list[Any]:
        """The results, without tokens. Raises what ended the run, `MemoryError` where there is no room for a result."""
        from dlang.codegen.llvm import support
        from dlang.runtime import memory

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
            words.append(self.argument(param, arg, env, keep))
        outs = []
        for out in point.outs:
            extents = [value_of(s, env) for s in out.shape]
            try:
                array = memory.fresh(context, extents, memory_dtype(out.dtype))
            except ValueError:  # more than NumPy counts
                raise MemoryError from None
            outs.append(array)
            words.append(array.__array_interface__["data"][0])
            if self.program.device is not None:
                ctypes.memset(words[-1], support.POISON, array.nbytes)
        self.arrays = [*keep, *outs]
        slots = (ctypes.c_int64 * (len(words) + point.raw))(*words)
        context.words[support.CALLS] = 0
        context.run = self
        try:
            if self._enter(entry, ctypes.addressof(slots)):
                raise self.failure(function)
            return self._results(entry, outs, list(slots[len(words) :]), env)
        except BaseException:
            context.reclaim()
            raise
        finally:
            context.run = None

    def _results(self, entry: Entry, outs: Sequence[Any], raw: Sequence[int], env: dict[Var, int]) -> list[Any]:
        from dlang.runtime import memory

        point, context = entry.point, self.context
        sizes: dict[Var, int] = dict(env)
        values: list[Any] = []
        for formal, order in zip(point.function.results, point.order, strict=True):
            if order is None:
                continue
            where, position = order
            match formal.type:
                case Array(dtype, shape):
                    if where == "out":
                        array = outs[position]
                    else:
                        sized = [value_of(s, sizes) for s in shape]
                        array = memory.adopted(context, raw[position], sized, memory_dtype(dtype))
                    values.append(self._outward(array, dtype))
                case Scalar(dtype):
                    values.append(self._scalar(raw[position] & (2**64 - 1), dtype))
                    if dtype == "i64":
                        sizes[formal] = int(values[-1])
        return values

    def _enter(self, entry: Entry, slots: int) -> int:
        """Runs compiled code, on a stack of its own if it may recurse."""
        from dlang.runtime.platform import stack as stacks

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
    def argument(self, param: Var, arg: Any, env: dict[Var, int], keep: list[Any]) -> int:
        """What compiled code gets for an argument. env: the sizes before it, then its own; keep: what it lies in."""
        match param.type:
            case Array(dtype, shape):
                import numpy as np

                if dtype in ("str", "bf16") or is_handle(dtype):
                    array = self._inward(arg, dtype)
                else:
                    array = arg
                    ready = type(arg) is np.ndarray and arg.dtype == NUMPY[dtype]
                    if not (ready and arg.flags.c_contiguous and arg.flags.aligned):
                        array = np.require(arg, NUMPY[dtype], ["C", "A"])
                wanted = tuple([value_of(s, env) for s in shape])
                if array.shape != wanted:
                    raise IRError(f"{param.name} has the shape {array.shape}, not {wanted}")
                keep.append(array)
                return int(array.__array_interface__["data"][0])
            case Scalar(dtype):
                if dtype == "i64":
                    env[param] = int(arg)
                return self._word(arg, dtype)
            case _:
                raise AssertionError("a token is not an argument")

    def _word(self, value: Any, dtype: str) -> int:
        """A scalar as a word: a text is its number, a node its address."""
        if dtype == "str":
            return self.program.engine.strings.number(str(value))
        if is_handle(dtype):
            return self.program.nodes.write(self.context, [value], dtype)[0]
        return word_of(value, dtype)

    def _scalar(self, word: int, dtype: str) -> Any:
        """A scalar from a word, unsigned."""
        if dtype == "str":
            return self.program.engine.strings.texts[word]
        if is_handle(dtype):
            return self.program.nodes.read([word], dtype)[0]
        return scalar_class(dtype)(scalar_of(word, dtype))

    def _inward(self, array: Any, dtype: str) -> Any:
        """An array as it lies in memory: texts as their numbers, nodes as their addresses, bf16 as bits."""
        if dtype == "bf16":
            return bits_of_bf16(array)
        if dtype != "str" and not is_handle(dtype):
            return array
        import numpy as np

        given = np.asarray(array, object)
        objects = list(given.reshape(-1))
        if dtype == "str":
            words = [self.program.engine.strings.number(str(t)) for t in objects]
        else:
            words = self.program.nodes.write(self.context, objects, dtype)
        return np.array(words, np.int64).reshape(given.shape)

    def _outward(self, array: Any, dtype: str) -> Any:
        """An array from memory: numbers as their texts, addresses as their nodes, bf16 in f32."""
        if dtype == "bf16":
            return bf16_of_bits(array)
        if dtype != "str" and not is_handle(dtype):
            return array
        import numpy as np

        words = array.reshape(-1).tolist()
        texts = self.program.engine.strings.texts
        out = np.empty(array.shape, object)
        out.reshape(-1)[:] = [texts[k] for k in words] if dtype == "str" else self.program.nodes.read(words, dtype)
        return out

    # ---- failures ----------------------------------------------------------------------------------------------------
    def failure(self, function: Header) -> BaseException:
        """What ended the run, to be raised."""
        from dlang.codegen.llvm import support

        words = self.context.words
        site = self.program.sites[words[0]]
        count = min(words[support.CALLS], support.TRACE_LENGTH)
        trace = [self.program.sites[words[support.TRACE + k]] for k in range(count)]
        stack = tuple((s.name, s.span) for s in trace)
        match site.kind:
            case "runtime" | "interrupt":
                error = self.error
                if error is None:  # a handler of signals ended the run where Python could not hand on its exception
                    return KeyboardInterrupt()
                if isinstance(error, MemoryError):
                    error = out_of_memory(site.span)
                if isinstance(error, KeyboardInterrupt):
                    for label, span in (*stack[:SHOWN], (function.label, None)):
                        error.add_note(f"in `{label}`" + (f", called at {span!r}" if span is not None else ""))
                if isinstance(error, RunError):
                    error.at(site.span)
                    _add_stack(error, stack)
                return error
            case "memory":
                return _add_stack(out_of_memory(site.span), stack)
            case "stack":
                label, span = stack[0] if stack else (function.label, function.span)
                depth = words[support.CALLS]
                message = f"the stack is exhausted: `{label}` is {depth} calls deep"
                return _add_stack(RunError(STACK_EXHAUSTED, message, span), stack[1:])
            case _:
                address = ctypes.addressof(words) + 8 * support.SLOTS
                values, _ = self._read(address, site.args, shown=True)
                message = format_parts(site.parts, values)
                return _add_stack(RunError(site.name, message, site.span), stack)

    # ---- the host's work ---------------------------------------------------------------------------------------------
    def serve(self, number: int, pointer: int) -> bool:
        """Does what compiled code asks for; whether that was possible. May raise what then ends the run."""
        from dlang.codegen.llvm import support

        match number:
            case support.LOOK:  # by now Python has run the handlers of signals, unless one of them has ended the run
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
        if site.name == LAUNCH:
            self._launch(site, pointer)
            return
        args, address = self._read(pointer, site.args, shown=site.name in ("format", "print"))
        outs, address = self._read(address, site.outs)
        host = self.program.engine.host
        results: list[Any]
        match site.name:
            case "format":
                results = [format_parts(site.parts, args)]
            case "order":
                results = [getattr(operator, site.parts[0])(*args)]
            case "print":
                host.print(args[0])
                results = []
            case "foreign":
                results = call_python(self.program.python[site.parts[0]], args)
            case "library":
                made = perform(site.parts[0], args)
                arrays = [x for x in made if x.ndim]
                for out, array in zip(outs, arrays, strict=True):
                    out[...] = array
                results = [x for x in made if not x.ndim]
            case name:
                results = host.effect(name, site.parts, args)
        for k, (signature, value) in enumerate(zip(site.results, results, strict=True)):
            if signature.rank:
                word = self._hand_in(value, signature.dtype)
            else:
                word = self._word(value, signature.dtype)
            ctypes.c_int64.from_address(address + 8 * k).value = word

    def _launch(self, site: Site, pointer: int) -> None:
        """Has the device run a kernel; the guards in it are checks at the sites from a number on."""
        device = self.program.device
        assert device is not None
        kernel, first = map(int, site.parts)
        memory = [*self.context.blocks, *[(a.ctypes.data, a.nbytes) for a in self.arrays]]
        failed = device.launch(kernel, pointer, len(site.args), memory)
        if failed is not None:
            check = self.program.sites[first + failed.guard]
            values, _ = self._read(failed.values, check.args, shown=True)
            raise RunError(check.name, format_parts(check.parts, values), check.span)

    def _hand_in(self, value: Any, dtype: str) -> int:
        import numpy as np

        from dlang.runtime import memory

        array = np.ascontiguousarray(self._inward(value, dtype), memory_dtype(dtype))
        address = memory.block(self.context, array.nbytes)
        if not address:
            raise MemoryError
        ctypes.memmove(address, array.ctypes.data, array.nbytes)
        return address

    def _read(self, address: int, signatures: Sequence[Signature], shown: bool = False) -> tuple[list[Any], int]:
        """Values that compiled code has written, and the address behind them.

        shown: they become text, which is the same for numbers of Python's own.
        """
        out: list[Any] = []
        for s in signatures:
            raw = (ctypes.c_int64 * s.words).from_address(address)
            if s.rank:
                import numpy as np

                shape = tuple(raw[1:])
                count = 1
                for size in shape:
                    count *= size
                kind = np.dtype(memory_dtype(s.dtype))
                data: Any = (ctypes.c_char * (count * kind.itemsize)).from_address(raw[0])
                array = np.frombuffer(data, kind).reshape(shape)
                out.append(self._outward(array, s.dtype))
            elif shown and s.dtype in PLAIN:
                out.append(scalar_of(raw[0] & (2**64 - 1), s.dtype))
            else:
                out.append(self._scalar(raw[0] & (2**64 - 1), s.dtype))
            address += 8 * s.words
        return out, address


def _add_stack(error: RunError, stack: tuple[tuple[str, Any], ...]) -> RunError:
    for label, span in stack:
        error.called(label, span)
    return error


def out_of_memory(span: Span | None) -> RunError:
    return RunError(OUT_OF_MEMORY, "the memory is exhausted", span)


def value_of(size: Size, env: dict[Var, int]) -> int:
    """The value of a size; it may have fractions that cancel."""
    return size.evaluate(env.__getitem__)
