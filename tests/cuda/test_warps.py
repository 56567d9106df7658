"""Lanes of a warp that share the loops of a row see what the others have stored before."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.codegen.cuda.placement import on_device
from dlang.codegen.loops import Body, Buffer, Compute, Function, Launch, Load, Loop, Program, Reduction, Stmt, Store
from dlang.ir.anf import Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64
from dlang.runtime.emulation.driver import EmulatedDriver
from tests.cuda import calls

ROWS, COLUMNS = 3, 70


def row_after_row() -> tuple[Program, Var, Buffer, Buffer]:
    """Of each row: y = 2 x; s = Σ x[i] y[n - 1 - i] over what other lanes have stored; the first y, which all lanes
    read before and after, becomes s; y is increased by the first one as it was and as it is.
    """
    n, i = fresh("n", I64), fresh("i", I64)
    x, y = Buffer("x", "f64"), Buffer("y", "f64")
    start = poly(i) * n

    def loop(made: list[Stmt], at: Var, reductions: tuple[Reduction, ...] = ()) -> Loop:
        return Loop(at, (ZERO,), (poly(n),), tuple(made), reductions)

    def number(name: str) -> Var:
        return fresh(name, Scalar("f64"))

    j, k, last = (fresh(name, I64) for name in ("j", "k", "l"))
    v, doubled, w, factor, product, s, old, new, before, middle, after = map(number, "v d w f p s o n b m a".split())
    mirrored: Size = start + poly(n) - 1 - poly(k)
    stmts: tuple[Stmt, ...] = (
        loop([Load(v, x, start + poly(j)), Compute(doubled, "add", (v, v)), Store(y, start + poly(j), doubled)], j),
        loop(
            [Load(w, y, mirrored), Load(factor, x, poly(k)), Compute(product, "mul", (w, factor))],
            k,
            (Reduction("sum", s, product),),
        ),
        Load(old, y, start),
        Store(y, start, s),
        Load(new, y, start),
        loop(
            [
                Load(before, y, start + poly(last)),
                Compute(middle, "add", (before, old)),
                Compute(after, "add", (middle, new)),
                Store(y, start + poly(last), after),
            ],
            last,
        ),
    )
    rows = Loop(i, (ZERO,), (poly(ROWS),), stmts)
    body = Body((rows,), ())
    return Program({"f": Function("f", (n, x, y), (), body, ())}), n, x, y


@pytest.mark.parametrize("order", range(6))
def test_what_lanes_store_is_there_for_the_others(order: int) -> None:
    program, n, x, y = row_after_row()
    launched = on_device(program)
    (launch,) = [s for s in launched.functions["f"].body.stmts if isinstance(s, Launch)]
    assert launched.kernels[launch.kernel].form == "rows"
    given = np.random.default_rng(order).standard_normal((ROWS, COLUMNS))
    driver = EmulatedDriver(order)
    handle = driver.load(launched.kernels)[launch.kernel]
    values = {n: COLUMNS, x: calls.uploaded(driver, given), y: driver.allocate(given.nbytes)}
    words = [values[a] for a in launch.args if not isinstance(a, Lit)]
    calls.launch(driver, handle, 2, 64, calls.run_of(driver), 0, ROWS, *words)
    found = driver.result(values[y], given.shape, "float64")
    wanted = 2 * given
    old, new = wanted[:, :1].copy(), (wanted[:, ::-1] @ given[0])[:, None]
    wanted[:, :1] = new
    np.testing.assert_allclose(found, wanted + old + new, rtol=1e-12, atol=1e-12)
