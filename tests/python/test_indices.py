"""Indices from Python: what `Idx<n>` asks for is checked before a call."""

from __future__ import annotations

import numpy as np
import pytest

import dlang

PROGRAM = """
struct Edge<n> { start: Idx<n>, end: Idx<n>, weight: f64 }
enum Place<n> { Nowhere, At(Idx<n>), Way(first: Idx<n>, rest: Place<n>) }

fn pick(x: f64[n], i: Idx<n>) -> f64 = x[i]
fn guessed(x, i: Idx<3>) = x[i]
fn lookup(x: f64[n], idx: Idx<n>[k, m]) -> f64[k, m] = [x[idx[i, j]] for i, j]
fn nested(x: (Idx<3>, (f64, Idx<2>[2]))) -> i64 = x.0 + sum(x.1.1)
fn energy(edges: Edge<n>[m], x: f64[n]) -> f64 = sum(e.weight * (x[e.end] - x[e.start]) for e in edges)
fn along(p: Place<n>, x: f64[n]) -> f64 = match p { Nowhere => 0.0, At(i) => x[i], Way(i, q) => x[i] + along(q, x) }
fn alone(i: Edge<n>) -> i64 = i.start
fn applied(f: (f64[3], i64) -> f64, x: f64[3], i: Idx<3>) -> f64 = f(x, i)
fn next(n: size, i: Idx<n>) -> Idx<n> = (i + 1) % n
"""
X = np.array([1.0, 2.0, 4.0])


@pytest.fixture(scope="module", params=["cpu", "interp"])
def program(request):
    return dlang.compile(PROGRAM, backend=request.param)


def refused(call, *words: str) -> None:
    with pytest.raises(dlang.DlangError, match="E0960") as found:
        call()
    assert all(w in str(found.value) for w in words), str(found.value)


def test_an_index_in_range_is_taken_every_time(program) -> None:
    assert [program.pick(X, i) for i in (0, 2, 0)] == [1.0, 4.0, 1.0]


def test_one_that_is_out_of_range_is_refused_after_calls_that_look_alike(program) -> None:
    program.pick(X, 2)
    refused(lambda: program.pick(X, 3), "argument `i`: expected Idx<n>", "index 3", "below n = 3")
    refused(lambda: program.pick(X, -1), "index -1", "negative")


def test_what_is_no_integer_is_refused_by_the_type_that_was_asked_for(program) -> None:
    refused(lambda: program.pick(X, "a"), "argument `i`: expected Idx<n>, got a str")
    refused(lambda: program.lookup(X, np.ones((1, 2))), "argument `idx`: expected Idx<n>[k, m], got f64[1, 2]")
    refused(lambda: program.next("three", 2), "argument `n`: expected size, got a str")


def test_a_function_whose_types_are_not_written_out_asks_too(program) -> None:
    assert program.guessed(X, 1) == 2.0
    refused(lambda: program.guessed(X, 3), "expected Idx<3>")


def test_each_element_of_an_array_is_asked(program) -> None:
    assert program.lookup(X, np.array([[0, 2]])).tolist() == [[1.0, 4.0]]
    refused(lambda: program.lookup(X, np.array([[0, 2], [1, 7]])), "index 7")
    refused(lambda: program.lookup(X, [[0, -3]]), "index -3")


def test_parts_of_tuples_are_asked(program) -> None:
    assert program.nested((2, (1.0, [0, 1]))) == 3
    refused(lambda: program.nested((3, (1.0, [0, 1]))), "index 3")
    refused(lambda: program.nested((2, (1.0, [0, 2]))), "index 2", "below 2")


def test_fields_of_structs_and_enums_are_asked(program) -> None:
    assert program.energy([program.Edge(0, 2, 2.0)], X) == 6.0
    refused(lambda: program.energy([program.Edge(0, 2, 2.0), program.Edge(3, 2, 2.0)], X), "index 3")
    assert program.along(program.At(1), X) == 2.0
    refused(lambda: program.along(program.At(5), X), "index 5")
    assert program.along(program.Way(1, program.Way(0, program.Nowhere())), X) == 3.0
    refused(lambda: program.along(program.Way(1, program.Way(4, program.Nowhere())), X), "index 4")


def test_where_no_argument_says_the_size_that_is_said(program) -> None:
    refused(lambda: program.alone(program.Edge(0, 0, 1.0)), "no argument says what n is", "for it: `n: size`")


def test_a_derivative_asks_as_its_function_does(program) -> None:
    assert dlang.grad(program.pick)(X, 1).tolist() == [0.0, 1.0, 0.0]
    refused(lambda: dlang.grad(program.pick)(X, 7), "index 7")


def test_with_a_function_as_argument_indices_are_still_asked(program) -> None:
    assert program.applied(lambda x, i: x[i], X, 2) == 4.0
    refused(lambda: program.applied(lambda x, i: x[i], X, 3), "index 3")


def test_a_function_that_asks_for_an_index_is_no_argument(program) -> None:
    with pytest.raises(dlang.DlangError, match="E0964") as found:
        program.applied(program.pick, X, 2)
    assert "a function value does not say" in str(found.value)


def test_sizes_that_are_arguments_themselves(program) -> None:
    assert program.next(3, 2) == 0
    refused(lambda: program.next(3, 3), "index 3")
