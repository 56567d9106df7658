"""Format specifications in strings fit the values that they write."""

from __future__ import annotations

import pytest

from tests.typecheck.support import accepted, refused


@pytest.mark.parametrize(
    "value, spec, found",
    [
        ("1.5", "q", "f64"),
        ("1.5", "05d", "f64"),
        ("true", ".2f", "bool"),
        ("[1.5f32]", "d", "f32"),
        ("(1, true)", "d", "bool"),
        ("Some(1.5)", "d", "f64"),
        ("Cons(1.5, Nil)", "x", "f64"),
    ],
)
def test_a_specification_that_cannot_write_a_value_is_refused_where_it_stands(value, spec, found):
    text = f'fn f() -> str = "{{{value}:{spec}}}"'
    diagnostic = refused(text)
    assert diagnostic.code == "E0318" and f"`{spec}` can't write {found}" in diagnostic.message
    assert diagnostic.span is not None and text[diagnostic.span.start : diagnostic.span.end] == spec


@pytest.mark.parametrize(
    "value, spec",
    [("1.5", "10.3e"), ("7", ".2f"), ("7", "05d"), ("true", ">6"), ("[[1, 2]]", "x"), ("(1, 2.5, Some(3))", "+.1f")],
)
def test_a_specification_that_fits_every_number_is_accepted(value, spec):
    accepted(f'fn f() -> str = "{{{value}:{spec}}}"')


def test_a_specification_in_a_function_for_many_types_fits_some_number():
    accepted('fn f(x) = "{x:.2f}"')
    assert refused('fn f(x) = "{x:.2q}"').code == "E0318"
