"""One program in three tools: a `.dl` file, a function of JAX, and a function of loops that Numba compiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

from benchmarks.tools import Calls, loaded, waiting

HERE = Path(__file__).resolve().parent
Tool = Callable[[list[Any]], Calls]

prange = range
"""The loop whose iterations are independent: that of Numba where it compiles, that of Python where a test runs it."""


def sizes_of(size: str) -> list[int]:
    return [int(number) for number in size.split("x")]


def tools(
    name: str, value: Callable[..., Any], loops: Callable[..., Any], wrt: tuple[int, ...] = (),
    loss: Callable[..., Any] | None = None, fastmath: Any = True,
) -> tuple[Tool, Tool, Tool]:  # fmt: skip
    """The program in dlang, JAX and Numba.

    The program in dlang has `value`, and `gradient` if `wrt`, the positions of what the loss is differentiated by, is
    not empty. `value` is the program in JAX; `loss`, unless it is given, the mean of the squares of what `value` gives.
    Integers among the arguments are constants for JAX, which compiles the program for them.
    """

    def dlang(data: list[Any]) -> Calls:
        m = loaded(HERE / f"{name}.dl")
        return {call: partial(getattr(m, call), *data) for call in ("value", "gradient")[: 2 if wrt else 1]}

    def jax(data: list[Any]) -> Calls:
        import jax
        import jax.numpy as jnp

        static = [k for k, a in enumerate(data) if isinstance(a, int)]
        given = [a if isinstance(a, int) else jnp.asarray(a) for a in data]
        calls: Calls = {"value": waiting(jax.jit(value, static_argnums=static), *given)}
        if wrt:
            slope = jax.value_and_grad(loss or (lambda *args: jnp.mean(value(*args) ** 2)), argnums=wrt)
            calls["gradient"] = waiting(jax.jit(slope, static_argnums=static), *given)
        return calls

    def numba(data: list[Any]) -> Calls:
        return {"value": partial(compiled(loops, fastmath), *data)}

    return dlang, jax, numba


def compiled(f: Callable[..., Any], fastmath: Any) -> Callable[..., Any]:
    """A function of loops, and the functions of its module that it calls, compiled by Numba."""
    import numba

    def made(f: FunctionType, parallel: bool) -> Any:
        known = f.__globals__ | {"prange": numba.prange}
        for name in f.__code__.co_names:
            if isinstance(called := known.get(name), FunctionType):
                known[name] = made(called, False)
        return numba.njit(fastmath=fastmath, parallel=parallel)(FunctionType(f.__code__, known, f.__name__))

    assert isinstance(f, FunctionType)
    result: Callable[..., Any] = made(f, numba.config.NUMBA_NUM_THREADS > 1)
    return result
