"""Accesses are proven to be in range where they stand, and none relies on a check that may not have been made."""

from __future__ import annotations

import re

import pytest

from dlang.diagnostics import Source
from dlang.driver import Request, check, errors_of, lower
from dlang.ir.accesses import unproven, verify_accesses
from dlang.ir.anf import Program, poly
from dlang.ir.errors import IRError
from dlang.ir.reader import read_program

IN_FRONT = """
fn f(n.0: i64, k.1: i64, x.2: f64[n.0], y.3: f64[k.1], j.4: i64) -> (r.5: f64) {{
  low.10: bool = le(0, j.4)
  high.11: bool = lt(j.4, n.0)
  in.12: bool = and(low.10, high.11)
  none.13: bool = le(k.1, 0)
  holds.14: bool = or({condition})
  ok.15: i64 = check holds.14 "E0801" ("index ", "", "") (j.4) for (j.4)
  {before}
  s.16: f64 = {loop} {{
    t.18: f64 = {inside}
    {end}
  }} {to}
  yield s.16
}}
"""
SUM = {"loop": "comp i.17 in 0..k.1", "end": "yield t.18", "to": "to keep [] [] sum"}
LOOP = {"loop": "for i.17 in 0..k.1 (s.19: f64 = 0.0)", "end": "u.20: f64 = add(s.19, t.18)\n yield u.20", "to": ""}


EITHER = "in.12, none.13"


def checked_in_front(inside: str, before: str = "", condition: str = EITHER, loop: dict[str, str] = SUM) -> None:
    verify_accesses(read_program(IN_FRONT.format(inside=inside, before=before, condition=condition, **loop)))


TABLE = """
  table.40: i64[n.0] = comp p.41 in 0..n.0 {
    t.42: i64 = mul(j.4, p.41)
    low.43: bool = le(0, t.42)
    high.44: bool = lt(t.42, n.0)
    in.45: bool = and(low.43, high.44)
    holds.46: bool = or(in.45, none.13)
    ok.47: i64 = check holds.46 "E0801" ("index ", "", "") (t.42) for (t.42)
    yield ok.47
  } to keep [n.0] [p.41] set
"""
HALF = "h.38: i64 = floordiv(j.4, 2)\n none.39: bool = le(h.38, 0)" + TABLE.replace("none.13", "none.39")
READ = "b.52: i64 = read table.40[p.50]\n c.53: f64 = read x.2[b.52]\n yield c.53"
CHOICE = """
  b.31: i64 = select(none.13, 0, ok.15)
  c.32: bool = lt(0, n.0)
"""
MINIMUM = """
  t.40: i64 = mul(j.4, j.4)
  low.41: bool = le(0, t.40)
  high.42: bool = lt(t.40, n.0)
  in.43: bool = and(low.41, high.42)
  least.44: i64 = minimum(j.4, k.1)
  none.45: bool = le(least.44, 0)
  holds.46: bool = or(in.43, none.45)
  ok.47: i64 = check holds.46 "E0801" ("index ", "", "") (t.40) for (t.40)
  some.48: bool = lt(0, k.1)
  some.49: bool = le(1, j.4)
"""


@pytest.mark.parametrize("loop", [SUM, LOOP], ids=["sum", "loop"])
@pytest.mark.parametrize("condition", [EITHER, "none.13, in.12"])
def test_a_check_that_is_made_for_a_loop_certifies_in_the_loop(loop: dict[str, str], condition: str) -> None:
    checked_in_front("read x.2[ok.15]", condition=condition, loop=loop)


@pytest.mark.parametrize(
    "before",
    [
        "a.30: f64 = read x.2[ok.15]",
        "a.30: f64[n.0] = update x.2[ok.15] = 1.0",
        "a.30: f64[1] = view p.31 in 0..1 of x.2[ok.15 + p.31]",
        "a.30: f64 = comp p.31 in 0..n.0 { b.32: f64 = read x.2[ok.15]\n yield b.32 } to keep [] [] sum",
        "a.30: f64[n.0] = comp p.31 in 0..n.0 { yield 1.0 } to add [n.0] [ok.15]",
        "a.30: f64 = if none.13 { b.32: f64 = read x.2[ok.15]\n yield b.32 } else { yield 0.0 }",
        "b.31: i64 = sub(ok.15, 0)\n a.30: f64 = read x.2[b.31]",
        "b.31: i64 = size ok.15\n a.30: f64 = read x.2[b.31]",
        "b.31: i64 = minimum(ok.15, 7)\n a.30: f64 = read x.2[b.31]",
        "c.32: bool = lt(3, n.0)\n b.31: i64 = select(c.32, ok.15, 3)\n a.30: f64 = read x.2[b.31]",
        "c.32: bool = lt(3, n.0)\n b.31: i64 = if c.32 { yield 3 } else { yield ok.15 }\n a.30: f64 = read x.2[b.31]",
        'b.31: i64 = check holds.14 "E0801" ("again ", "", "") (j.4) for (j.4)\n a.30: f64 = read x.2[b.31]',
        TABLE + f"a.30: f64 = comp p.50 in 0..n.0 {{ {READ} }} to keep [] [] sum",
        MINIMUM + "a.30: f64 = if some.49 { b.50: f64 = read x.2[ok.47]\n yield b.50 } else { yield 0.0 }",
    ],
)
def test_it_certifies_nothing_in_front_of_the_loop(before: str) -> None:
    with pytest.raises(IRError, match=r"the index \w+\.\d+.* relies on a check that may not have been made"):
        checked_in_front("read x.2[ok.15]", before)


@pytest.mark.parametrize(
    "before",
    [
        "a.30: f64 = if none.13 { yield 0.0 } else { b.32: f64 = read x.2[ok.15]\n yield b.32 }",
        "b.31: bool = lt(0, k.1)\n a.30: f64 = if b.31 { b.32: f64 = read x.2[ok.15]\n yield b.32 } else { yield 0.0 }",
        'check in.12 "E0801" ("no") () for ()\n a.30: f64 = read x.2[ok.15]',
        "a.30: f64 = comp p.31 in 0..1, q.32 in 0..p.31 { b.33: f64 = read x.2[ok.15]\n yield b.33 } to keep [] [] sum",
        HALF + f"a.30: f64 = comp p.50 in 0..min(n.0, n.0*h.38) {{ {READ} }} to keep [] [] sum",
        TABLE + f"a.30: f64 = comp p.50 in 0..n.0, q.51 in 0..k.1 {{ {READ} }} to keep [] [] sum",
        MINIMUM
        + "some.51: bool = and(some.48, some.49)\n"
        + "a.30: f64 = if some.51 { b.50: f64 = read x.2[ok.47]\n yield b.50 } else { yield 0.0 }",
        CHOICE + "a.30: f64 = if c.32 { d.33: f64 = read x.2[b.31]\n yield d.33 } else { yield 0.0 }",
        "a.30: f64 = comp p.31 in 0..n.0*k.1 { b.33: f64 = read x.2[ok.15]\n yield b.33 } to keep [] [] sum",
    ],
)
def test_it_certifies_where_the_loop_is_known_to_have_iterations(before: str) -> None:
    checked_in_front("read x.2[ok.15]", before)


def test_a_number_of_which_nothing_is_known_is_asked_nothing_unless_a_check_names_it() -> None:
    saved = "w.30: i64[n.0] = empty i64 [n.0]\n b.31: i64 = read w.30[0]\n"
    checked_in_front("read x.2[0]", saved + "a.32: f64 = read x.2[ok.15 + b.31]")
    named = saved + 'c.33: bool = le(0, b.31)\n d.34: i64 = check c.33 "E0801" ("no") () for (b.31)\n'
    with pytest.raises(IRError, match="may not have been made"):
        checked_in_front("read x.2[0]", named + "a.32: f64 = read x.2[ok.15 + d.34]")


def test_what_did_not_change_is_not_looked_at_again() -> None:
    parts = {"inside": "read x.2[ok.15]", "condition": EITHER, **SUM}
    right = read_program(IN_FRONT.format(before="", **parts))
    wrong = read_program(IN_FRONT.format(before="a.30: f64 = read x.2[ok.15]", **parts))
    verify_accesses(Program(dict(wrong.functions)), since=wrong)
    with pytest.raises(IRError, match="may not have been made"):
        verify_accesses(wrong, since=right)


# each is proven as it is written, with the checks that specialisation makes
PROVEN = [
    "fn f(x: f64[n], w: i64, j: i64) = sum(x[j..j + w])",
    "fn f(x: f64[n], w: size) = [sum(x[i..i + w]) for i < n - w + 1]",
    "fn f(x: f64[n], s: i64) = sum(x[0..n by s])",
    "fn f(x: f64[n]) = if n > 2 { x[n // 2] + x[n // 3 + 1] } else { 0.0 }",
    "fn f(x: f64[n, m]) = [x[i, minimum(maximum(j - 1, 0), m - 1)] for i < n, j < m]",
    "fn f(x: f64[n]) = { let p = [where(i + 1 < n, i + 1, i) for i < n]; sum(x[p[i]] for i < n) }",
    "fn f(x: f64[n]) = { let order = argsort(x); [x[order[i]] for i < n] }",
    "fn f(x: f64[n], m: size) = if m > 0 { [x[i % n] for i < m] } else { [0.0 for i < m] }",
    "fn f(x: f64[n]) = { var s = 0.0; for i < n { if i != 0 { s += x[i - 1] } }; s }",
    "fn f(x: f64[n], k: i64) = { var s = 0.0; for i < k { if i >= n { break }; s += x[i] }; s }",
]


@pytest.mark.parametrize("text", PROVEN)
def test_checks_and_bounds_prove_accesses(text: str) -> None:
    assert unproven_as_written(text) == []


def test_a_quotient_that_is_positive_has_a_dividend_of_at_least_the_divisor() -> None:
    text = """
fn f(n.0: i64, x.1: f64[n.0]) -> (r.2: f64) {
  m.3: i64 = size n.0 + 1
  h.4: i64 = floordiv(m.3, 2)
  r.5: f64 = comp i.6 in 0..h.4 {
    t.7: f64 = read x.1[i.6]
    yield t.7
  } to keep [] [] sum
  yield r.5
}
"""
    assert not unproven(read_program(text).functions["f"])


def test_an_index_is_not_plain_if_the_result_of_a_loop_bounds_it() -> None:
    text = """
fn f(n.0: i64, x.1: f64[n.0], m.2: i64[n.0]) -> (r.3: f64) {
  count.4: i64 = for i.5 in 0..n.0 (c.6: i64 = 0) {
    k.7: i64 = read m.2[i.5]
    d.8: i64 = add(c.6, k.7)
    yield d.8
  }
  last.9: i64 = sub(count.4, 1)
  r.10: f64 = comp i.11 in 0..LAST {
    t.12: f64 = read x.1[i.11 + 1]
    yield t.12
  } to keep [] [] sum
  yield r.10
}
"""
    for bound, plain in (("count.4", False), ("last.9", False), ("n.0", True)):
        (access,) = unproven(read_program(text.replace("LAST", bound)).functions["f"])
        assert access.plain == plain


COUNTED = """
fn f(n.0: i64, x.1: f64[n.0], k.2: i64) -> (r.3: f64) {
  least.20: i64 = minimum(k.2, n.0)
  trips.21: i64 = maximum(least.20, 0)
  m.4: i64 = size ROOM
  z.5: f64[m.4] = empty f64 [m.4]
  count.6: i64, out.7: f64[m.4] = for i.8 in 0..TRIPS (c.9: i64 = 1, y.10: f64[m.4] = z.5) {
    t.11: bool = ne(i.8, k.2)
    d.13: i64, w.14: f64[m.4] = if t.11 {
      v.15: f64[m.4] = update y.10[PLACE] = 1.0
      e.16: i64 = size c.9 + 2
      yield e.16, v.15
    } else {
      yield c.9, y.10
    }
    yield d.13, w.14
  }
  r.3: f64 = comp p.17 in 0..count.6 {
    s.18: f64 = read out.7[p.17]
    yield s.18
  } to keep [] [] sum
  yield r.3
}
"""
WALKED = """
fn f(n.0: i64, x.1: f64[n.0]) -> (r.2: f64) {
  last.3: i64, s.4: f64 = while (c.5: i64 = 1, s.6: f64 = 0.0) {
    go.7: bool = lt(c.5, n.0)
    yield go.7
  } do {
    a.8: f64 = read x.1[c.5 - 1]
    t.9: bool = gt(a.8, 0.0)
    b.10: i64 = if t.9 { d.11: i64 = add(c.5, 1)\n yield d.11 } else { d.12: i64 = add(c.5, BY)\n yield d.12 }
    yield b.10, a.8
  }
  yield s.4
}
"""


@pytest.mark.parametrize(
    ("room", "trips", "place", "entries"),
    [
        ("2*n.0 + 1", "n.0", "c.9 + 1", []),
        ("2*n.0", "n.0", "c.9", ["p"]),  # of as many as 2 * n + 1
        ("2*n.0", "n.0", "c.9 + 1", ["c + 1", "p"]),
        ("2*n.0 + 1", "n.0", "2*n.0 - c.9 - 1", []),
        ("2*n.0 + 1", "n.0", "2*n.0 - c.9 - 2", ["2*n - c - 2"]),
        ("2*trips.21 + 1", "least.20", "c.9 + 1", []),
        ("2*trips.21 + 1", "n.0", "c.9 + 1", ["c + 1", "p"]),
        ("2*trips.21 + 1", "k.2", "c.9 + 1", ["c + 1", "p"]),
    ],
)
def test_a_number_that_a_loop_counts_by_is_no_further_than_its_iterations_bring_it(
    room: str, trips: str, place: str, entries: list[str]
) -> None:
    text = COUNTED.replace("ROOM", room).replace("TRIPS", trips).replace("PLACE", place)
    assert unproven_entries_of(text) == entries


def test_a_while_that_only_goes_up_stays_above_its_first_value() -> None:
    assert unproven_entries_of(WALKED.replace("BY", "0")) == []
    assert unproven_entries_of(WALKED.replace("BY", "-1")) == ["c - 1"]


BY_A_FLAG = """
fn f(n.0: i64, x.1: f64[n.0]) -> (r.2: f64) {
  t.3: bool = gt(n.0, 1)
  u.4: bool = BEGUN
  on.5: bool, last.6: i64, s.7: f64 = while (go.8: bool = u.4, c.9: i64 = 1, s.10: f64 = 0.0) {
    yield go.8
  } do {
    a.11: f64 = read x.1[c.9]
    d.12: i64 = add(c.9, 1)
    p.13: bool = gt(a.11, 0.0)
    q.14: bool = TEST
    on.15: bool = MADE
    yield on.15, d.12, a.11
  }
  yield s.7
}
"""


@pytest.mark.parametrize(
    ("begun", "test", "made", "entries"),
    [
        ("lt(1, n.0)", "lt(d.12, n.0)", "and(p.13, q.14)", []),
        ("lt(1, n.0)", "ge(d.12, n.0)", "not(q.14)", ["c"]),  # another test than the one in front of the loop
        ("not(t.3)", "gt(n.0, d.12)", "and(p.13, q.14)", ["c"]),
        ("or(t.3, true)", "gt(n.0, d.12)", "and(p.13, q.14)", ["c"]),
        ("and(t.3, true)", "gt(n.0, d.12)", "and(p.13, q.14)", []),
        ("and(t.3, true)", "gt(n.0, d.12)", "or(p.13, q.14)", ["c"]),
        ("lt(1, n.0)", "lt(c.9, n.0)", "and(p.13, q.14)", ["c"]),  # of the number before it is raised
    ],
)
def test_a_loop_that_goes_on_by_a_flag_runs_where_the_flag_was_made_true(
    begun: str, test: str, made: str, entries: list[str]
) -> None:
    assert unproven_entries_of(BY_A_FLAG.replace("BEGUN", begun).replace("TEST", test).replace("MADE", made)) == entries


NEVER = """
fn f(n.0: i64, x.1: f64[n.0]) -> (r.2: f64) {
  m.3: i64 = size n.0 + MORE
  t.4: bool = le(m.3, n.0)
  BEFORE
  r.2: f64 = comp p.5 in 0..2 {
    s.6: f64 = read x.1[p.5]
    yield s.6
  } to keep [] [] sum
  yield r.2
}
"""


@pytest.mark.parametrize(
    ("before", "more", "entries"),
    [
        ('check false "E0801" ("no") () for ()', 2, []),
        ('check true "E0801" ("yes") () for ()', 2, ["p"]),
        ('check t.4 "E0801" ("no") () for ()', 2, []),
        ('check t.4 "E0801" ("always") () for ()', 0, ["p"]),
        ("a.7: f64 = if t.4 { b.8: f64 = read x.1[1]\n yield b.8 } else { yield 0.0 }", 2, ["p"]),
        ("a.7: f64 = if t.4 { yield 0.0 } else { b.8: f64 = read x.1[1]\n yield b.8 }", 2, ["1", "p"]),
        ("a.7: f64 = if false { b.8: f64 = read x.1[1]\n yield b.8 } else { yield 0.0 }", 2, ["p"]),
        ("a.7: f64 = if false { yield 0.0 } else { b.8: f64 = read x.1[1]\n yield b.8 }", 2, ["1", "p"]),
    ],
)
def test_nothing_is_read_where_a_check_has_failed_or_an_arm_never_runs(
    before: str, more: int, entries: list[str]
) -> None:
    assert unproven_entries_of(NEVER.replace("BEFORE", before).replace("MORE", str(more))) == entries


def unproven_entries_of(text: str) -> list[str]:
    return [re.sub(r"\.\d+", "", str(a.entry)) for a in unproven(read_program(text).functions["f"])]


def unproven_as_written(text: str) -> list[str]:
    checked = check(Source("program.dl", text))
    assert not errors_of(checked), errors_of(checked)[0].message
    decl = checked.module.functions["f"]
    stages: dict[str, Program] = {}
    lower([Request(decl, dict.fromkeys(decl.variables, poly(0)))], observe=stages.__setitem__)
    return [str(access) for f in stages["mono"].functions.values() for access in unproven(f)]
