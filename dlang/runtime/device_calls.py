"""Calls that repeat an earlier one: arguments that are on the device already, and a run that is kept as a graph.

What follows from the sizes of a call alone is found out once for each. The rest is to look up addresses, make room for
results, launch the graph and show the results to Python: no machine code of the host runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from dlang.codegen.abi import EntryPoint
from dlang.ir.terms import Array, Scalar, Token, Var, is_reference
from dlang.runtime.device_runs import DeviceProgram, array_dtype, item_size, number_at
from dlang.runtime.devices import Repeat, allocate
from dlang.runtime.failures import device_failure
from dlang.runtime.marshalling import memory_word, word_of

if TYPE_CHECKING:
    from dlang.runtime.engine import Run

REMEMBERED = 256
"""The combinations of sizes that are known of an entry."""


@dataclass(frozen=True, slots=True)
class Argument:
    """shape: None for a number. dtype: of an array what Python calls it."""

    dtype: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Output:
    """An array that the caller makes for a result."""

    bytes: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The arguments and outputs that calls with the same sizes have in common."""

    arguments: tuple[Argument, ...]
    outputs: tuple[Output, ...]


@dataclass(slots=True)
class RepeatedCalls:
    """The calls of an entry that can be repeated. sizes: the places of the arguments that shapes are of."""

    program: DeviceProgram
    point: EntryPoint
    params: tuple[Var, ...] = field(init=False)
    sizes: tuple[int, ...] = field(init=False)
    layouts: dict[tuple[int, ...], Layout] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.params = tuple([p for p in self.point.function.params if not isinstance(p.type, Token)])
        shapes = [p.type.shape for p in self.params if isinstance(p.type, Array)]
        used = {
            v for shape in (*shapes, *[out.shape for out in self.point.outs]) for size in shape for v in size.atoms()
        }
        self.sizes = tuple([k for k, p in enumerate(self.params) if p in used])

    def __call__(self, run: Run, args: Sequence[Any]) -> list[Any] | None:
        """The results; None if no call like this is kept, or if arrays are not on the device. Raises what failed.

        run: knows how numbers cross, and what failures mean.
        """
        if not self.program.repeats:
            return None
        loans: list[Any] = []
        try:
            return self._repeated(run, args, loans)
        finally:
            if loans:
                self.program.driver.end_loans(loans)

    def _repeated(self, run: Run, args: Sequence[Any], loans: list[Any]) -> list[Any] | None:
        """The same; loans: arrays of other libraries are added to it."""
        program = self.program
        driver, layout = program.driver, self._layout(args)
        words: list[Any] = [self.point.function.name]
        numbers: dict[int, int] = {}
        owners = []  # copies, perhaps, which have to be there until the graph is launched
        for arg, known in zip(args, layout.arguments, strict=True):
            if known.shape is None:
                word, position = word_of(arg, known.dtype), len(words) - 1
                if position in self.point.numbers:
                    numbers[position] = memory_word(word & (2**64 - 1), known.dtype)
                words.append(0 if position in self.point.numbers else word)
                continue
            array = driver.given(arg, known.dtype)
            if array is not None and array.loan is not None:
                loans.append(array.loan)
            if array is None or array.array.shape != known.shape:
                return None
            words.append(array.address)
            owners.append(array.array)
        addresses: list[int] = []
        repeat: Repeat | None = None
        try:
            for output in layout.outputs:
                addresses.append(allocate(driver, output.bytes))
            repeat = program.repeat((*words, *addresses))
            if repeat is None:
                return None
            address = repeat.state.blocks[0]
            program.put(address, numbers)
            repeat.graph.launch()
            if (state := program.failed(address)) is not None:
                raise device_failure(run, state)
            return self._results(run, layout, addresses, repeat.raw)
        except MemoryError:
            return None
        finally:
            if repeat is not None:
                repeat.busy = False
            for address in reversed(addresses):  # so that who asks again gets the same
                driver.free(address)

    def _results(self, run: Run, layout: Layout, addresses: list[int], raw: Sequence[int]) -> list[Any]:
        """Returns the results; takes out of `addresses` those of arrays that are Python's from now on."""
        point, driver, values = self.point, self.program.driver, []
        results = []
        for output in layout.outputs:
            results.append(driver.result(addresses.pop(0), output.shape, output.dtype))
        for formal, order in zip(point.function.results, point.order, strict=True):
            match formal.type, order:
                case Array(), (_, position):
                    values.append(results[position])
                case Scalar(dtype), (_, position):
                    word = raw[position] & (2**64 - 1)
                    word = number_at(driver, word, dtype) if position in point.there else word
                    values.append(run.marshal.scalar(word, dtype))
                case _:
                    pass  # a token
        return values

    def _layout(self, args: Sequence[Any]) -> Layout:
        sizes = tuple([args[k] for k in self.sizes])
        layout = self.layouts.get(sizes)
        if layout is None:
            if len(self.layouts) >= REMEMBERED:
                self.layouts.clear()
            layout = self.layouts[sizes] = self._laid_out(args)
        return layout

    def _laid_out(self, args: Sequence[Any]) -> Layout:
        env = {self.params[k]: int(args[k]) for k in self.sizes}
        arguments = []
        for p in self.params:
            match p.type:
                case Array(dtype, shape):
                    arguments.append(Argument(array_dtype(dtype), tuple([s.evaluate(env.__getitem__) for s in shape])))
                case Scalar(dtype):
                    arguments.append(Argument(dtype, None))
        outputs = []
        for out in self.point.outs:
            extents = tuple([s.evaluate(env.__getitem__) for s in out.shape])
            size = prod([max(n, 0) for n in extents]) * item_size(out.dtype)
            outputs.append(Output(max(size, 1), extents, array_dtype(out.dtype)))
        return Layout(tuple(arguments), tuple(outputs))


def repeated_calls(program: DeviceProgram, entries: Mapping[str, EntryPoint]) -> dict[str, RepeatedCalls]:
    """Returns the entries of a program whose calls can be repeated."""
    return {name: RepeatedCalls(program, point) for name, point in entries.items() if _can_repeat(point)}


def _can_repeat(point: EntryPoint) -> bool:
    """Tells whether an entry can be repeated: no recursion, and only numbers and device arrays go in and out."""
    return (
        point.repeatable
        and not point.recursive
        and not any(_is_the_hosts(v) for v in (*point.function.params, *point.function.results))
    )


def _is_the_hosts(v: Var) -> bool:
    """Tells whether a value is a text or a node, or holds some."""
    return not isinstance(v.type, Token) and is_reference(v.type.dtype)
