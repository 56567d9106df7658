"""Guards that fail in kernels: the message is that of the interpreter, about the first iteration that fails."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen.cuda.placement import on_device
from dlang.codegen.schedule import schedule
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Atom, Reduce, Var, poly
from dlang.ir.builder import Builder, i64
from dlang.runtime.emulation.driver import EmulatedDriver
from dlang.runtime.engine import Engine
from tests.codegen.test_failures import I64, checked_gather, program

SIZE = 200


def element(b: Builder, x: Var, t: Var, n: Var, i: Var) -> Atom:
    k = b.read(t, [i])
    inside = b.prim("and", b.prim("ge", k, i64(0)), b.prim("lt", k, n))
    parts = ["index ", "", " is out of range for size ", "", ""]
    (certain,) = b.check(inside, "E0701", parts, [k, n], [k])
    return b.read(x, [certain])


def arrays(b: Builder) -> tuple[Var, Var, Var]:
    n = b.param("n", I64)
    return n, b.param("x", Array("f64", (poly(n),))), b.param("t", Array("i64", (poly(n),)))


def sum_of_gathered(b: Builder) -> list[Atom]:
    n, x, t = arrays(b)
    return list(b.comp([n], lambda i: element(b, x, t, n, i), [Reduce((), (), "sum")]))


def row_sums_of_gathered(b: Builder) -> list[Atom]:
    n, x, t = arrays(b)

    def row(i: Var) -> Atom:
        factor = element(b, x, t, n, i)
        return b.comp([n], lambda j: b.mul(b.read(x, [j]), factor), [Reduce((), (), "sum")])[0]

    return [b.map([n], row)]


def test_a_row_with_a_guard_is_done_by_a_warp() -> None:
    (kernel,) = on_device(schedule(program(row_sums_of_gathered), device=True)).kernels
    assert kernel.form == "rows" and "if (rank == 0) dl_fail" in kernel.text


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("wrong", [[0], [64], [SIZE - 1], [150, 70, 71, 199], list(range(SIZE))])
@pytest.mark.parametrize("build", [checked_gather, sum_of_gathered, row_sums_of_gathered])
def test_the_first_iteration_that_fails_is_reported(
    build: Callable[[Builder], list[Atom]], wrong: list[int], order: int
) -> None:
    p = program(build)
    t = np.arange(SIZE)
    t[wrong] = -1 - np.arange(len(wrong))
    args: list[Any] = [SIZE, np.ones(SIZE), t]
    with pytest.raises(RunError) as wanted:
        Interpreter(p).run("f", args)
    engine = Engine(Host(io.StringIO()), driver=EmulatedDriver(order))
    compiled = engine.compile(p, ["f"])
    with pytest.raises(RunError) as found:
        compiled.run("f", args)
    assert (found.value.code, found.value.message, found.value.span) == (
        wanted.value.code, wanted.value.message, wanted.value.span,
    )  # fmt: skip
    assert list(found.value.stack) == list(wanted.value.stack)
    assert all(context.in_use == 0 for context in engine.contexts)
    t[:] = np.arange(SIZE)
    np.testing.assert_array_equal(compiled.run("f", args)[0], Interpreter(p).run("f", args)[0])


GATHERED = """
fn rows(m: f64[n, k], x: f64[q], w: f64[k, p]) -> f64[q, p] = [m[i64(v)] @ w for v in x]
fn taken(m: f64[n, k], x: f64[q], w: f64[k, p]) -> f64[p] = sum(m[[i64(v) for v in x]] @ w, axis = 0)
fn row(m: f64[n, k], x: f64[q], w: f64[k, p]) -> f64[p] = m[i64(sum(x))] @ w
"""


@pytest.mark.parametrize("name", ["rows", "taken", "row"])
def test_a_product_with_rows_that_a_kernel_refuses_is_refused_as_on_the_host(name: str) -> None:
    given = np.arange(20.0).reshape(5, 4), np.arange(12.0).reshape(4, 3)
    for x in ([0.0, 1.0], [1.0, 7.0], [-3.0, 0.0], [9.0]):
        found: list[Any] = []
        for backend in ("interp", "cuda-emulated"):
            call = getattr(dlang.compile(GATHERED, backend=backend), name)
            try:
                found.append(call(given[0], np.array(x), given[1]).tolist())
            except dlang.DlangError as e:
                found.append(str(e))
        assert found[0] == found[1]
