"""Every column of every monoid: that it is there, and that what it says is so."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.interpret.algebra import UFUNCS, Algebra
from dlang.ir.values import FUNCTIONS, NUMPY
from dlang.ops.dtypes import DTYPES, HALF
from dlang.ops.monoids import COMBINE, EXTREMA, MONOIDS, STAYS, Monoid, identity, result_dtype
from dlang.ops.primitives import BOOL, CLASSES, PRIMITIVES

EACH = pytest.mark.parametrize("m", MONOIDS.values(), ids=MONOIDS)
COMBINES = pytest.mark.parametrize("m", [m for m in MONOIDS.values() if m.combine], ids=COMBINE)
REALS = (0.3, -2.5, 1e16, -1e16, 1.0, 1 / 3, 7.25)


def values_of(m: Monoid) -> Sequence[Any]:
    return [np.bool_(False), np.bool_(True)] if m.domain == BOOL else [np.float64(x) for x in REALS]


@EACH
def test_one_way_to_combine_is_said(m: Monoid) -> None:
    assert [bool(m.combine), bool(m.stays), m.name == "set"].count(True) == 1
    assert bool(m.ufunc) == (m.name != "set")
    assert bool(m.extremum) == (m.unit in ("least", "greatest") or bool(m.stays))
    assert bool(m.stays) == bool(m.first)
    assert not m.stays or (m.stays in PRIMITIVES and MONOIDS[m.extremum].extremum == m.extremum)
    assert result_dtype(m.name, "f32") == ("i64" if m.stays else "f32")


@COMBINES
def test_the_primitive_and_the_function_of_numpy_agree(m: Monoid) -> None:
    assert CLASSES[m.domain] <= CLASSES[PRIMITIVES[m.combine].domain]
    for x, y in itertools.product(values_of(m), repeat=2):
        assert FUNCTIONS[m.combine](x, y) == UFUNCS[m.name](x, y)


@COMBINES
def test_the_unit_leaves_others_alone(m: Monoid) -> None:
    for dtype in sorted(CLASSES[m.domain]):
        one = NUMPY[dtype](1)
        unit = NUMPY[dtype](identity(m.name, dtype))
        assert UFUNCS[m.name](unit, one) == one == UFUNCS[m.name](one, unit)


@COMBINES
def test_orders_and_repetitions_change_just_what_is_said(m: Monoid) -> None:
    combine = FUNCTIONS[m.combine]
    values = values_of(m)
    assert m.commutative and all(combine(x, y) == combine(y, x) for x, y in itertools.combinations(values, 2))
    triples = itertools.product(values, repeat=3)
    assert m.exact == all(combine(combine(x, y), z) == combine(x, combine(y, z)) for x, y, z in triples)
    assert m.idempotent == all(combine(x, x) == x for x in values)
    if "f16" in CLASSES[m.domain]:
        assert m.exact == PRIMITIVES[m.combine].exact


@COMBINES
def test_lanes_are_combined_by_an_intrinsic_or_in_an_order_of_our_own(m: Monoid) -> None:
    for dtype in sorted(CLASSES[m.domain] - set(HALF)):
        assert bool(m.reduce.of(dtype)) != (DTYPES[dtype].is_float and not m.exact)


@EACH
def test_a_derivative_is_said_of_what_depends_smoothly_on_its_values(m: Monoid) -> None:
    assert bool(m.derivative) == (m.domain != BOOL and not m.stays)
    if m.combine:
        slopes = PRIMITIVES[m.combine].derivative
        wanted = {"linear": ("g", "g"), "": (None, None)}.get(m.derivative)
        assert slopes == wanted if wanted else all(t is not None and t not in ("g", "-g") for t in slopes)


@pytest.mark.parametrize("name", [n for n in MONOIDS if n != "set"])
def test_the_language_knows_just_the_reductions_of_nothing_that_have_a_value(name: str) -> None:
    m = MONOIDS[name]
    module = dlang.compile(f"fn f(x: {'bool' if m.domain == BOOL else 'f64'}[n]) = {name}(x)")
    nothing = np.zeros(0, bool if m.domain == BOOL else float)
    if m.has_empty:
        assert module.f(nothing) == identity(name, "bool" if m.domain == BOOL else "f64")
    else:
        with pytest.raises(dlang.DlangError, match=f"`{name}` of nothing"):
            module.f(nothing)


@pytest.mark.parametrize("name", STAYS)
def test_a_position_is_that_of_the_extremum(name: str) -> None:
    box = np.array(REALS)
    assert box[Algebra().reduced(name, box, (0,), "i64")] == UFUNCS[EXTREMA[name]].reduce(box)
