"""Entries of compiled programs that XLA calls, without Python (`codegen/llvm/xla.py`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from dlang.codegen.abi import CODE
from dlang.codegen.llvm import jit, objects, xla
from dlang.host.errors import RunError
from dlang.ir.terms import Array, Scalar, Token, is_reference
from dlang.lazy_modules import np
from dlang.runtime.engine import CompiledProgram, Run
from dlang.runtime.marshalling import NUMPY
from dlang.runtime.memory import NEVER


@dataclass(frozen=True, slots=True)
class Target:
    """A function for XLA. address: of it; kept: what it works with, and has to live as long as it may be called."""

    address: int
    kept: tuple[Any, ...]


def target(
    program: CompiledProgram,
    name: str,
    passed: Sequence[Any],
    buffers: dict[int, int],
    results: Sequence[tuple[str, tuple[int, ...], int | None]],
    explain: Callable[[RunError], BaseException],
) -> Target | None:
    """The function that calls an entry; None where a call needs more than a context.

    passed: all arguments; those at the positions in `buffers` are the arrays of that number. results: of those behind
    the sizes that it gives, the dtype, the sizes, and the number of the array where it goes, or None. explain: makes
    what a failure says.
    """
    entry = program.entries[name]
    point = entry.point
    params = [p for p in point.function.params if not isinstance(p.type, Token)]
    if (
        program.engine.sanitizes
        or point.recursive
        or point.device
        or program.needs_arena
        or program.nests
        or not all(map(_is_plain, params))
    ):
        return None
    if program.promotion is not None:
        program.promotion.finish()
    context = program.engine.context(program.words)
    run = context.run = Run(program, context)
    said: list[Any] = []

    def failed() -> int:
        error = run.failure(point.function)
        run.error = None
        message = str(explain(error) if isinstance(error, RunError) else error)
        said[:] = [ctypes.create_string_buffer(message.encode())]
        return ctypes.addressof(said[0])

    tell = ctypes.CFUNCTYPE(ctypes.c_void_p)(failed)
    state = (ctypes.c_int64 * 2)()
    state[xla.FAILED] = ctypes.cast(tell, ctypes.c_void_p).value or 0
    words = program.words_of(name, passed)
    arguments: list[xla.Constant | xla.Buffer] = []
    for k, (p, (word, _)) in enumerate(zip(params, words, strict=True)):
        number = buffers.get(k)
        if number is None:
            arguments.append(xla.Constant(word))
        else:
            arguments.append(xla.Buffer(number, p.type.dtype if isinstance(p.type, Scalar) else None))
    outs: list[xla.Constant | xla.Buffer | None] = [None] * len(point.outs)
    arrays_made: list[xla.Made] = []
    scratch: list[Any] = []
    given = [o for o in point.order if o is not None]
    for (where, position), (dtype, shape, number) in zip(given[len(given) - len(results) :], results, strict=True):
        bytes = prod(shape) * _width(dtype)
        if where == "out":
            if number is None:
                scratch.append((ctypes.c_char * max(bytes, 1))())
            outs[position] = xla.Constant(ctypes.addressof(scratch[-1])) if number is None else xla.Buffer(number)
        elif number is not None:
            arrays_made.append(xla.Made(position, number, dtype, bytes if shape else None))
    if any(o is None for o in outs):
        return None
    site = xla.Site(ctypes.addressof(state), context.address, ctypes.addressof(entry.cell) + 8 * CODE, NEVER)
    text = xla.handler(site, arguments, [o for o in outs if o is not None], point.raw, arrays_made)
    loaded = jit.load(objects.compile_object(text, level=0), [xla.NAME], ["sched_yield"])
    lasting = [kept for k, (_, kept) in enumerate(words) if k not in buffers]
    return Target(loaded.entries[xla.NAME], (program, context, run, tell, state, said, scratch, loaded, lasting))


def _is_plain(param: Any) -> bool:
    """Tells whether a parameter is a number or an array of numbers."""
    match param.type:
        case Array(dtype) | Scalar(dtype):
            return not is_reference(dtype)
    return False


def _width(dtype: str) -> int:
    return np.dtype(NUMPY[dtype]).itemsize
