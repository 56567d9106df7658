"""A failure names the calls that led to it, whatever the optimiser has put in the place of a call."""

from __future__ import annotations

import pytest

import dlang
from dlang.diagnostics import DlangError, Source, Span, render
from dlang.driver import Backend, Request, check, lower
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.runtime.engine import Engine
from dlang.specialize.specialize import Specializer
from tests.backends import HERE

SOURCE = """fn checked(x: f64) -> f64 {
  assert x < 3.0, "too large"
  x
}
fn middle(x: f64) -> f64 = checked(x) + 1.0
fn outer(x: f64[n]) -> f64 = sum(middle(v) for v in x)
fn twice(x: f64[n]) -> f64 = outer(x) + outer([2.0 * v for v in x])
fn down(n: i64) -> f64 = if n == 0 or n < 0 { middle(9.0) } else { 1.0 + down(n - 1) }
fn one() -> f64 = outer([1.0, 5.0])
fn two() -> f64 = twice([1.0, 2.0])
fn slope(x: f64[n]) -> f64[n] = grad(outer)(x)
"""
MESSAGE = """error[E0800]: assertion failed: `x < 3.0`: too large
  x = 4.0
 --> <text>:2:3
  |
2 |   assert x < 3.0, "too large"
  |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: in `<text>.checked`, called here
 --> <text>:5:28
  |
5 | fn middle(x: f64) -> f64 = checked(x) + 1.0
  |                            ----------
note: in `<text>.middle`, called here
 --> <text>:6:34
  |
6 | fn outer(x: f64[n]) -> f64 = sum(middle(v) for v in x)
  |                                  ---------
note: in `<text>.outer`, called here
 --> <text>:7:41
  |
7 | fn twice(x: f64[n]) -> f64 = outer(x) + outer([2.0 * v for v in x])
  |                                         ---------------------------
note: in `<text>.twice`, called here
 --> <text>:7:4
  |
7 | fn twice(x: f64[n]) -> f64 = outer(x) + outer([2.0 * v for v in x])
  |    -----
  = help: find out by the values why it does not hold, or treat that case before"""


@pytest.mark.parametrize("backend", HERE)
def test_the_message_shows_every_call(backend: Backend) -> None:
    module = dlang.compile(SOURCE, backend=backend)
    with pytest.raises(DlangError) as found:
        module.twice([1.0, 2.0, 0.5])
    assert render(found.value.diagnostics[0]) == MESSAGE


def chains(name: str, args: list[object]) -> list[list[tuple[str, int | None]]]:
    """The calls of a failure: interpreted as specialised, interpreted as optimised, compiled."""
    decl = check(Source("chain.dl", SOURCE)).module.functions[name]
    specializer = Specializer()
    plain = specializer.entry(decl, {})
    optimised, (entry,) = lower([Request(decl)])
    runs = [
        lambda: Interpreter(specializer.program).run(plain.name, args),
        lambda: Interpreter(optimised).run(entry.name, args),
        lambda: Engine(Host()).compile(optimised, [entry.name]).run(entry.name, args),
    ]
    out = []
    for run in runs:
        with pytest.raises(RunError) as found:
            run()
        out.append([(label, span and span.line) for label, span in found.value.stack])
    return out


@pytest.mark.parametrize(
    "name, args, calls",
    [
        ("one", [], ["checked", "middle", "outer", "one"]),
        ("two", [], ["checked", "middle", "outer", "twice", "two"]),
        ("down", [5], ["checked", "middle", *["down"] * 6]),
    ],
)
def test_the_calls_are_the_same_whatever_was_inlined(name: str, args: list[object], calls: list[str]) -> None:
    found = chains(name, args)
    assert found[0] == found[1] == found[2]
    assert [label.removeprefix("chain.") for label, _ in found[0]] == calls


def test_a_failure_in_a_derivative_names_the_calls_of_the_function() -> None:
    with pytest.raises(DlangError) as found:
        dlang.compile(SOURCE).slope([1.0, 7.0])
    texts = [note.text for note in found.value.diagnostics[0].notes]
    assert texts[:2] == ["in `<text>.checked`, called here", "in `<text>.middle`, called here"]


def test_a_place_reached_by_calls_is_the_place_itself_in_a_message() -> None:
    source = Source("a.dl", "one two three")
    place, inner, outer = Span(source, 0, 3), Span(source, 4, 7), Span(source, 8, 13)
    from dlang.diagnostics import CallSite

    reached = place.reached(CallSite("f", inner)).reached(CallSite("g", outer))
    assert reached.plain == place
    assert list(reached.calls()) == [("f", inner), ("g", outer)]
    error = RunError("E0800", "no", reached)
    error.called("h", outer.reached(CallSite("k", None)))
    assert error.span == place
    assert error.stack == [("f", inner), ("g", outer), ("h", outer), ("k", None)]
