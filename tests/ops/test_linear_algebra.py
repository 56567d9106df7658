"""Every operation of a library: that each stage knows it, and that its row says what it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.ad.linear_algebra import jvp_library, vjp_library
from dlang.codegen import lapack
from dlang.host.lapack import perform
from dlang.interpret.traced import OPERATIONS as REFERENCES
from dlang.ir.anf import Array, LinalgOp, Scalar, Type, Var, fresh, poly
from dlang.ir.errors import IRError
from dlang.ir.rules import equal_sizes, functional, library_cost, library_types
from dlang.ops.dtypes import PRECISE
from dlang.ops.linear_algebra import FACTORS, OPERATIONS, Operation, Value
from tests.ops.stages import cases

EACH = pytest.mark.parametrize("o", OPERATIONS.values(), ids=OPERATIONS)
SIZES = {"m": 4, "n": 3, "r": 2, "k": 3}


def arguments(o: Operation, dtype: str) -> list[Any]:
    """Values that fit: a positive matrix, its factors, other matrices and numbers."""
    random = np.random.default_rng(0)
    square = np.tril(random.normal(size=(3, 3))) + 3 * np.eye(3)
    positive = (square @ square.T).astype(dtype)
    packed, order, exchanges, _ = perform("lu", [positive])
    known = {"packed": packed, "order": order, "exchanges": exchanges, "k": 3, "lower": True, "transposed": False}
    return [given(v, known, positive, random, dtype) for v in o.arguments]


def given(v: Value, known: dict[str, Any], square: Any, random: Any, dtype: str) -> Any:
    if v.name in known or v.dtype == "bool":
        return known.get(v.name, False)
    if v.shape == ("n", "n"):
        return square if v.name == "a" else np.tril(square)
    return random.normal(size=[SIZES[s] for s in v.shape]).astype(dtype)


def variable(v: Value, dtype: str, sizes: dict[str, Var]) -> Var:
    scalar = {"t": dtype, "any": "u8"}.get(v.dtype, v.dtype)
    if not v.shape:
        return sizes.setdefault(v.name, fresh(v.name, Scalar(scalar)))
    shape = [poly(sizes.setdefault(s, fresh(s, Scalar("i64")))) for s in v.shape]
    return fresh(v.name, Array(scalar, tuple(shape)))


# ---- no stage forgets one --------------------------------------------------------------------------------------------
def test_each_stage_knows_the_operations_that_it_needs() -> None:
    carrying = {o.name for o in OPERATIONS.values() if o.carries}
    assert cases(vjp_library) == cases(jvp_library) == carrying
    assert set(REFERENCES) == {o.name for o in OPERATIONS.values() if o.carries and o.written}
    assert {name for name in OPERATIONS if not lapack.has(name, "f64")} == {"lu_cofactors"}  # of the host


@EACH
def test_a_row_is_whole(o: Operation) -> None:
    names = [v.name for v in o.arguments]
    assert len(set(names)) == len(names) and o.about.endswith(".")
    assert o.matrices == (o.arguments[0].dtype == "t")
    known = {s for v in o.arguments for s in v.shape} | {v.name for v in o.arguments if v.dtype == "i64"}
    assert all(set(r.shape) <= known for r in o.results)
    assert not o.informs or o.results[-1] == Value("info", "i64", ())


# ---- what it says is so ----------------------------------------------------------------------------------------------
@EACH
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_host_gives_what_the_row_says(o: Operation, dtype: str) -> None:
    args = arguments(o, dtype)
    results = perform(o.name, args)
    assert len(results) == len(o.results)
    for result, v in zip(results, o.results, strict=True):
        assert np.shape(result) == tuple([SIZES[s] for s in v.shape])
        assert np.asarray(result).dtype == (dtype if v.dtype == "t" else "int64")
    assert not o.informs or results[-1] == 0
    assert library_cost(o.name, args, args[0].shape) > 0


@EACH
def test_the_types_of_the_ir_are_those_of_the_row(o: Operation) -> None:
    for dtype in PRECISE:
        sizes: dict[str, Var] = {}
        op = LinalgOp(o.name, tuple([variable(v, dtype, sizes) for v in o.arguments]))
        wanted: list[Type] = [variable(v, dtype, sizes).type for v in o.results]
        assert list(library_types(op)) == wanted
        assert all(one == other for one, other in equal_sizes(op))
        assert not any(getattr(a, "name", "") in FACTORS for a in functional(op))
        wrong = [(fresh("x", Scalar("bool")), *op.args[1:])]
        for args in [*wrong, *([] if o.several else [op.args[:-1], (*op.args, op.args[0])])]:
            with pytest.raises(IRError):
                library_types(LinalgOp(o.name, args))


@EACH
def test_matrices_are_of_one_precise_dtype(o: Operation) -> None:
    if o.matrices:
        sizes: dict[str, Var] = {}
        half = tuple([variable(v, "f16", sizes) for v in o.arguments])
        with pytest.raises(IRError, match="takes matrices of f64 or f32"):
            library_types(LinalgOp(o.name, half))
        for k, v in enumerate(o.arguments[1:], 1):
            if v.dtype == "t":
                mixed = [variable(w, "f64", sizes) for w in o.arguments]
                mixed[k] = variable(v, "f32", sizes)
                with pytest.raises(IRError, match="different dtypes"):
                    library_types(LinalgOp(o.name, tuple(mixed)))
