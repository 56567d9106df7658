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


def doubled(n: int) -> str:
    """Structs of two of the one before; the last has as many parts as a tree of depth n."""
    return "struct S0 { a: f64 }\n" + "\n".join(f"struct S{k + 1} {{ a: S{k}, b: S{k} }}" for k in range(n))


def test_a_type_is_as_large_as_what_is_in_it():
    accepted(doubled(11))
    diagnostic = refused(doubled(20))
    assert diagnostic.code == "E0291" and diagnostic.span.text == "S12"


def test_what_contains_itself_is_one_part_of_others():
    fields = ", ".join(f"x{k}: E" for k in range(60))
    enum = "enum E { " + ", ".join(f"C{k}(E, f64, f64, f64)" for k in range(60)) + ", End }"
    accepted(f"{enum}\nstruct S {{ {fields} }}\nstruct T {{ {fields.replace(': E', ': S')} }}")


def test_a_rule_takes_no_defaults():
    diagnostic = refused("fn f(x: f64) -> f64 = x\npullback f(x: f64 = 1.0) -> y = |dy| dy")
    assert diagnostic.code == "E0303" and "default" in diagnostic.message
