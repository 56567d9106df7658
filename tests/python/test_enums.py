"""Enums between Python and the language: a class for each variant; `None` without fields is Python's."""

from __future__ import annotations

import numpy as np
import pytest

import dlang

TEXT = """
enum Shape { Circle(radius: f64), Box(width: f64, height: f64), Point, Path(f64[3]) }
fn found(k: i64) -> Option<f64> = if k > 0 { Some(f64(k)) } else { None }
fn area(s: Shape) -> f64 = match s { Circle(r) => r, Box(w, h) => w * h, Point => 0.0, Path(v) => sum(v) }
fn areas(s: Shape[n]) -> f64[n] = [area(x) for x in s]
fn value(o: Option<a>, otherwise: a) -> a = match o { Some(v) => v, None => otherwise }
fn shapes(n: size) -> Shape[n] = [if i == 0 { Point } else { Box(f64(i), 2.0) } for i < n]
fn root(x: f64) -> Result<f64, str> = if x >= 0.0 { Ok(sqrt(x)) } else { Err("{x} is negative") }
fn same(o: Option<Option<(f64, i64)>>) -> Option<Option<(f64, i64)>> = o
fn array(o: Option<f64[n]>, x: f64[n]) -> f64 = match o { Some(v) => sum(v), None => sum(x) }
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(TEXT, request.param)


def test_a_result_is_of_the_class_of_its_variant(m):
    match m.found(2):
        case m.Some(x):
            assert x == 2.0
    assert m.found(0) is None
    assert isinstance(m.root(4.0), m.Ok) and m.root(-1.0)._0 == "-1.0 is negative"
    point, box = m.shapes(2)
    assert isinstance(point, m.Point) and (box.width, box.height) == (1.0, 2.0)


def test_arguments_are_made_by_the_classes_of_variants(m):
    assert m.area(m.Circle(2.0)) == 2.0 and m.area(m.Box(2.0, height=3.0)) == 6.0
    assert m.area(m.Point()) == 0.0 and m.area(m.Path(np.ones(3))) == 3.0
    assert m.areas([m.Point(), m.Circle(1.0)]).tolist() == [0.0, 1.0]


def test_what_other_variants_hold_is_known_from_other_arguments(m):
    assert m.value(m.Some(2.0), 1.0) == 2.0 and m.value(None, 1.0) == 1.0 and m.value(None, 1) == 1
    assert m.array(None, np.ones(2)) == 2.0 and m.array(m.Some(np.zeros(2)), np.ones(2)) == 0.0


def test_enums_nest(m):
    assert m.same(m.Some(m.Some((1.0, 2))))._0._0 == (1.0, 2)
    assert m.same(m.Some(None))._0 is None and m.same(None) is None


@pytest.mark.parametrize("call", ["area(3.0)", "value(Circle(1.0), 2.0)", "area(Circle('x'))"])
def test_what_is_no_variant_is_refused(m, call):
    with pytest.raises(dlang.DlangError, match="E0960"):
        eval("m." + call.replace("(", "(m.", 1) if "(C" in call else "m." + call, {"m": m})


def test_a_size_in_a_variant_is_that_of_the_other_arguments(m):
    with pytest.raises(dlang.DlangError, match="n = 2 from `x`"):
        m.array(m.Some(np.ones(3)), np.ones(2))
