"""A profile as text and as a trace, with times that do not matter here."""

from __future__ import annotations

import re

import dlang
from dlang.codegen.loops import Nest
from dlang.diagnostics import CallSite, Source, Span
from dlang.runtime.memory import Usage
from dlang.runtime.profile import Ceilings, Event, Profile, Row

MAIN, RELU = "fn main() { print(f([1.0, 2.0])) }", "fn relu(x: f64) -> f64 = maximum(x, 0.0)"
TEXT = f"fn f(x: f64[n]) -> f64 =\n  sum(x * x)\n\n{MAIN}\n"
SOURCE = Source("/somewhere/model.dl", TEXT)
LIBRARY = Source("/elsewhere/nn.dl", RELU + "\n")
CEILINGS = Ceilings(2, bytes=10e9, f64=100e9, f32=200e9)


def span(source: Source, text: str, via: CallSite | None = None) -> Span:
    start = source.text.index(text)
    return Span(source, start, start + len(text), via)


LOOP = Nest("loop", "f", span(SOURCE, "sum(x * x)"))
REST = Nest("function", "main", span(SOURCE, "main"))
HOST = Nest("host", "main", span(SOURCE, "print"), countable=False)
INSIDE = Nest("loop", "main", span(LIBRARY, "maximum", CallSite("relu", span(SOURCE, "f([1.0"))), dtype="f32")
PROFILE = Profile(
    rows=(
        Row(LOOP, 3, 0.5, 2_000_000_000, 500_000_000),
        Row(INSIDE, 1, 0.25, 10_000_000_000, 25_000_000_000),
        Row(HOST, 1, 0.125, 0, None),
        Row(REST, 1, 0.0001, 0, 0),
    ),
    events=(Event(REST, 0.0, 1.0), Event(LOOP, 0.25, 0.5)),
    seconds=1.5,
    threads=2,
    memory=Usage(3 << 20, 1 << 20),
)


def test_the_table_has_a_line_for_each_nest_that_took_a_share() -> None:
    assert PROFILE.table(CEILINGS).splitlines() == [
        "     time   share  calls   GB/s  GFLOP/s   of the machine  nest",
        "500.00 ms  57.1 %      3   4.00     1.00      40 % memory  loop in `f`, model.dl:2:3  sum(x * x)",
        "250.00 ms  28.6 %      1  40.00   100.00  50 % arithmetic  loop in `main`, nn.dl:1:26, from model.dl:4  "
        + RELU,
        "125.00 ms  14.3 %      1      –        –                –  host in `main`, model.dl:4:13  " + MAIN,
        "100.00 µs in 1 more",
        "875.10 ms in compiled code of 1.50 s, 2 threads; memory: 4 MiB at most, 1 MiB of it in nodes",
        "the machine: copies 10 GB/s, computes 100 GFLOP/s in f64, 200 in f32",
    ]


def test_all_nests_can_be_shown() -> None:
    lines = PROFILE.table(CEILINGS, least=0.0).splitlines()
    assert len(lines) == 7 and "the rest of `main`" in lines[4]


def test_a_trace_has_a_complete_event_for_each_call_in_microseconds() -> None:
    trace = PROFILE.trace()
    assert [(e["ph"], e["ts"], e["dur"]) for e in trace["traceEvents"]] == [("X", 0.0, 1e6), ("X", 25e4, 25e4)]
    assert trace["traceEvents"][1]["name"] == "loop in `f`, model.dl:2:3"
    assert trace["traceEvents"][1]["args"] == {"source": "sum(x * x)"}


def test_a_real_run_prints_the_same_layout() -> None:
    module = dlang.compile("fn f(x: f64[n]) -> f64 = sum(x * x)")
    lines = module.f.profile([1.0, 2.0]).table(CEILINGS, least=0.0).splitlines()
    number = r"\d+\.\d+"
    row = rf" *{number} (s|ms|µs) +{number} % +1 +(–|{number}) +(–|{number}) +(–|in caches|\d+ % \w+)  \S.*"
    assert all(re.fullmatch(row, line) for line in lines[1:-2]) and len(lines) == 5
    assert re.fullmatch(rf"{number} \S+ in compiled code of {number} \S+, \d+ threads?; memory: .*", lines[-2])
