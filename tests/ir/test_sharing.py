"""The law of sharing: what it finds in a program, and what it lets stand."""

from __future__ import annotations

import re

import pytest

from dlang.ir.anf import Program
from dlang.ir.errors import IRError
from dlang.ir.reader import read_program
from dlang.ir.sharing import verify_sharing
from dlang.ir.verify import verify

AT_EACH_POINT = """
fn "f"(n: i64, m: i64, x: f64[n], y: f64[n, m], k: i64) -> (r: f64[n, m]) {{
  a: f64[n, m] = comp i in 0..n, j in 0..m {{
    {body}
    yield t
  }} to keep [n, m] [i, j] set
  yield a
}}
"""

IN_AN_ARM = """
b: bool = gt(j, k)
t: f64 = if b {
  s: f64[n] = scan sum x
  u: f64 = read s[i]
  yield u
} else {
  yield 0.0
}
"""

FAILS = 'b: bool = lt(u, 0.0)\n {}check b "E0800" ("below") () for ({})'


def program_with(body: str) -> Program:
    text = re.sub(r'(?<!")\b([a-z])\b(?!")', lambda name: f"{name[0]}.{ord(name[0])}", AT_EACH_POINT.format(body=body))
    program = read_program(text)
    verify(program)
    return program


def checked(body: str) -> None:
    verify_sharing(program_with(body))


@pytest.mark.parametrize(
    "body",
    [
        "s: f64[n] = scan sum x\n t: f64 = read s[i]",
        "v: f64[m] = view p in 0..m of y[i, p]\n s: f64[m] = scan sum v\n t: f64 = read s[j]",
        "v: f64[m] = view p in 0..m of y[i, p]\n c: f64[m] = update v[0] = 1.0\n t: f64 = read c[j]",
        "t: f64 = comp p in 0..m { u: f64 = read y[i, p]\n yield u } to keep [] [] sum",
        "t: f64 = for p in 0..k (s: f64 = 1.0) { u: f64 = sin(s)\n yield u }",
        "b: bool = gt(i, k)\n t: f64 = if b { u: f64 = read x[i]\n w: f64 = exp(u)\n yield w } else { yield 0.0 }",
        "o: i64[n] = library argsort(x)\n p: i64 = read o[i]\n t: f64 = read y[p, j]",
        f"s: f64[n] = scan sum x\n u: f64 = read s[0]\n {FAILS.format('o: i64 = ', '0')}\n t: f64 = read y[i, j]",
        f"for p in 0..n () {{ u: f64 = read x[p]\n {FAILS.format('', '')}\n yield }}\n t: f64 = read y[i, j]",
    ],
)
def test_what_takes_long_stands_under_no_axis_that_it_does_not_depend_on(body: str) -> None:
    with pytest.raises(IRError, match="is computed at more points than those of"):
        checked(body)


@pytest.mark.parametrize(
    "body",
    [
        "u: f64 = read x[i]\n t: f64 = mul(u, 2.0)",  # no more than to read what was stored
        "z: f64[m] = comp p in 0..m { yield 0.0 } to keep [m] [p] set\n t: f64 = read z[j]",
        "v: f64[m] = view p in 0..m of y[i, p]\n t: f64 = read v[j]",
        "w: f64 = read x[i]\n t: f64 = for p in 0..j (s: f64 = w) { u: f64 = mul(s, 2.0)\n yield u }",
        IN_AN_ARM,
    ],
)
def test_what_depends_on_all_axes_costs_little_or_may_not_run_is_left_alone(body: str) -> None:
    checked(body)


def test_an_array_whose_size_only_a_point_knows_can_not_be_stored() -> None:
    checked(
        "v: f64[m] = view p in 0..m of y[i, p]\n"
        "b: bool[m] = comp q in 0..m { u: f64 = read v[q]\n w: bool = gt(u, 0.0)\n yield w } to keep [m] [q] set\n"
        "c: i64, l: i64[c] = compact b\n"
        "t: f64 = comp q in 0..c { u: f64 = read x[i]\n w: i64 = read l[q]\n z: f64 = cast f64 w\n"
        " e: f64 = cast f64 j\n g: f64 = mul(z, e)\n h: f64 = mul(g, u)\n yield h } to keep [] [] sum"
    )


def test_a_block_is_looked_at_once_and_refused_each_time() -> None:
    (kept,) = (p := program_with("u: f64 = read x[i]\n t: f64 = mul(u, 2.0)")).functions.values()
    verify_sharing(p)
    assert kept.body.tight is True
    (broken,) = (p := program_with("s: f64[n] = scan sum x\n t: f64 = read s[i]")).functions.values()
    for _ in range(2):
        with pytest.raises(IRError, match="is computed at more points than those of"):
            verify_sharing(p)
    assert broken.body.tight is False
