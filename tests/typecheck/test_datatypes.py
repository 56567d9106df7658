"""Declarations of structs and enums that can't be meant, and what may contain itself."""

from __future__ import annotations

import pytest

from tests.typecheck.support import accepted, refused


@pytest.mark.parametrize(
    "text",
    [
        "struct P { x: f64, next: P }",
        "enum E { A(E), B(E, E) }",
        "struct Box<a> { v: a }\nstruct P { inner: Box<P> }",
        "struct P { three: P[3] }",
        "struct P { pair: (f64, P) }",
    ],
)
def test_a_type_without_values_is_refused(text):
    assert refused(text).code == "E0218"


@pytest.mark.parametrize(
    "text",
    [
        "struct P { x: f64, next: Option<P> }",
        "enum E { A(F), End }\nenum F { B(f64, E) }",
        "struct Box<a> { v: a }\nstruct P { inner: Box<Box<f64>> }",
        "struct P<n> { some: P<n>[n] }",
        "struct P { f: P -> f64 }",
        "enum Nest<a> { Flat(a), Deep(Nest<(a, a)>) }",
    ],
)
def test_a_type_that_may_end_is_accepted(text):
    accepted(text)


def test_a_rule_takes_no_defaults():
    diagnostic = refused("fn f(x: f64) -> f64 = x\npullback f(x: f64 = 1.0) -> y = |dy| dy")
    assert diagnostic.code == "E0303" and "default" in diagnostic.message
