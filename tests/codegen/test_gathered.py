"""Products with windows: they give what the sums are, in any layout, with strides, dilations and borders."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import dlang
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.reader import read_program
from dlang.ir.verify import verify
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.specialize.support import lowered

PROGRAM = """
fn last<a: Float>(w: a[p, q, c, d], x: a[b, h, u, c]) -> a[b, h - p + 1, u - q + 1, d] =
  [sum(x[n, i + k, j + l, r] * w[k, l, r, o] for k < p, l < q, r < c) for n < b, i < h - p + 1, j < u - q + 1, o < d]
fn last_gradient<a: Float>(w: a[p, q, c, d], x: a[b, h, u, c], s: a[b, _, _, d]) -> (a[p, q, c, d], a[b, h, u, c]) =
  grad(|w, x| sum(last(w, x) * s), wrt = (w, x))(w, x)

fn first<a: Float>(w: a[d, c, p, q], x: a[b, c, h, u]) -> a[b, d, h - p + 1, u - q + 1] =
  [sum(x[n, r, i + k, j + l] * w[o, r, k, l] for r < c, k < p, l < q) for n < b, o < d, i < h - p + 1, j < u - q + 1]
fn first_gradient<a: Float>(w: a[d, c, p, q], x: a[b, c, h, u], s: a[b, d, _, _]) -> (a[d, c, p, q], a[b, c, h, u]) =
  grad(|w, x| sum(first(w, x) * s), wrt = (w, x))(w, x)

## Every second position of a kernel with gaps: images of 2 i + 3 k < 2 · 10 + 3 · 4 rows.
fn apart<a: Float>(w: a[5, c, d], x: a[b, 31, c]) -> a[b, 10, d] =
  [sum(x[n, 2 * i + 3 * k, r] * w[k, r, o] for k < 5, r < c) for n < b, i < 10, o < d]

## A product that ends at the borders of x.
fn border<a: Float>(w: a[p, c, d], x: a[b, n, c]) -> a[b, n + p - 1, d] =
  [
    sum(x[m, t - k, r] * w[k, r, o] for k in maximum(0, t - n + 1)..minimum(p, t + 1), r < c)
    for m < b, t < n + p - 1, o < d
  ]
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> dlang.Module:
    path = Path(tmp_path_factory.mktemp("gathered")) / "windows.dl"
    path.write_text(PROGRAM, encoding="utf-8")
    return dlang.load(str(path))


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + shape[0]).normal(size=shape)


# few points, for which there are loops; blocks of several images; images of several blocks
SIZES = [(1, 4, 5, 2, 2, 2, 3), (3, 13, 11, 3, 2, 5, 7), (2, 70, 65, 3, 3, 8, 20)]


@pytest.mark.parametrize("b, h, u, p, q, c, d", SIZES)
def test_a_convolution_with_channels_last_and_its_gradients_are_what_numpy_says(
    program: dlang.Module, b: int, h: int, u: int, p: int, q: int, c: int, d: int
) -> None:
    w, x, s = drawn(p, q, c, d), drawn(b, h, u, c), drawn(b, h - p + 1, u - q + 1, d)
    windows = sliding_window_view(x, (p, q), (1, 2))  # b i j c p q
    np.testing.assert_allclose(program.last(w, x), np.einsum("bijcpq,pqcd->bijd", windows, w), atol=1e-10)
    of_w, of_x = program.last_gradient(w, x, s)
    np.testing.assert_allclose(of_w, np.einsum("bijcpq,bijd->pqcd", windows, s), atol=1e-9)
    full = sliding_window_view(np.pad(s, ((0, 0), (p - 1, p - 1), (q - 1, q - 1), (0, 0))), (p, q), (1, 2))
    np.testing.assert_allclose(of_x, np.einsum("bijdpq,pqcd->bijc", full, w[::-1, ::-1]), atol=1e-10)


@pytest.mark.parametrize("b, h, u, p, q, c, d", SIZES)
def test_channels_may_come_first(program: dlang.Module, b: int, h: int, u: int, p: int, q: int, c: int, d: int) -> None:
    w, x, s = drawn(d, c, p, q), drawn(b, c, h, u), drawn(b, d, h - p + 1, u - q + 1)
    windows = sliding_window_view(x, (p, q), (2, 3))  # b c i j p q
    np.testing.assert_allclose(program.first(w, x), np.einsum("bcijpq,dcpq->bdij", windows, w), atol=1e-10)
    of_w, of_x = program.first_gradient(w, x, s)
    np.testing.assert_allclose(of_w, np.einsum("bcijpq,bdij->dcpq", windows, s), atol=1e-9)
    full = sliding_window_view(np.pad(s, ((0, 0), (0, 0), (p - 1, p - 1), (q - 1, q - 1))), (p, q), (2, 3))
    np.testing.assert_allclose(of_x, np.einsum("bdijpq,dcpq->bcij", full, w[:, :, ::-1, ::-1]), atol=1e-10)


def test_windows_may_be_apart_and_their_elements_too(program: dlang.Module) -> None:
    w, x = drawn(5, 16, 24), drawn(40, 31, 16)
    windows = sliding_window_view(x, 13, 1)[:, ::2, :, ::3]  # b i c k
    np.testing.assert_allclose(program.apart(w, x), np.einsum("bick,kcd->bid", windows[:, :10], w), atol=1e-10)


@pytest.mark.parametrize("b, n, p, c, d", [(2, 5, 3, 2, 3), (3, 90, 4, 16, 24)])
def test_beyond_a_border_there_is_nothing_not_even_nan(
    program: dlang.Module, b: int, n: int, p: int, c: int, d: int
) -> None:
    w, x = drawn(p, c, d), drawn(b, n, c)
    w[0] = np.inf  # meets no element of the last rows
    padded = np.pad(x, ((0, 0), (p - 1, p - 1), (0, 0)))
    terms = [padded[:, p - 1 - k : n + 2 * (p - 1) - k] @ w[k] for k in range(1, p)]
    found = program.border(w, x)
    np.testing.assert_allclose(found[:, n:], sum(terms)[:, n:], atol=1e-10)
    assert not np.isfinite(found[:, :n]).any()


def loops(function: str) -> str:
    made = lowered(PROGRAM, function)
    return print_program(schedule(optimise(made.program, [made.entry.name], verify=True), Lanes(512)))


def test_a_convolution_and_its_gradients_are_products_with_windows_that_are_read_where_they_are() -> None:
    text = loops("last_gradient")
    assert "&windows" not in text and "&products" in text and "sum= x" in text
    (of_kernel,) = re.findall(
        r"&sums\.\d+\[.*\] = &x\.\d+\[.*, rows &(offsets\.\d+), columns &(offsets\.\d+)\] · &panels", text
    )
    assert len(set(of_kernel)) == 2


def test_the_tables_of_a_convolution_are_made_once_for_all_of_its_blocks() -> None:
    lines = loops("last").splitlines()
    depth = {
        what: [len(x) - len(x.lstrip()) for x in lines if re.search(what, x)] for what in ("&offsets.* = alloc", " · ")
    }
    assert len(depth["&offsets.* = alloc"]) == 2
    assert max(depth["&offsets.* = alloc"]) < min(depth[" · "])


def test_windows_go_to_panels_at_once_where_the_result_has_its_points_side_by_side() -> None:
    text = loops("first")
    assert re.search(r"pack &panels\.\d+\[0, .*\] <- &x\.\d+\[.*, rows &offsets\.\d+, columns &offsets\.\d+\]", text)
    assert "&windows" not in text


ENDS = """
fn certified(d.0: i64, n.1: i64, k.2: i64, l.3: i64, x.4: f64[d.0, n.1], e.5: f64[2, k.2, l.3], j.6: i64)
  -> (y.7: f64[d.0, n.1, l.3]) {
  low.8: bool = ge(j.6, 0)
  high.9: bool = lt(j.6, 2)
  both.10: bool = and(low.8, high.9)
  none.11: bool = le(d.0, 0)
  holds.12: bool = or(both.10, none.11)
  ok.13: i64 = check holds.12 "E0801" ("index ", "", " is out of range for size ", "", "") (j.6, 2) for (j.6)
  y.14: f64[d.0, n.1, l.3] = comp r.15 in 0..d.0, i.16 in 0..n.1, o.17 in 0..l.3, t.18 in 0..min(k.2, i.16 + 1) {
    u.19: f64 = read x.4[r.15, i.16 - t.18]
    v.20: f64 = read e.5[ok.13, t.18, o.17]
    w.21: f64 = mul(u.19, v.20)
    yield w.21
  } to keep [d.0, n.1, l.3] [r.15, i.16, o.17] sum
  yield y.14
}

fn proven(d.30: i64, n.31: i64, k.32: i64, l.33: i64, x.34: f64[d.30, n.31], e.35: f64[n.31, l.33])
  -> (y.36: f64[d.30, n.31, l.33]) {
  y.37: f64[d.30, n.31, l.33] = comp r.38 in 0..d.30, i.39 in 0..n.31, o.40 in 0..l.33, t.41 in 0..min(k.32, i.39 + 1) {
    u.42: f64 = read x.34[r.38, i.39 - t.41]
    v.43: f64 = read e.35[t.41, o.40]
    w.44: f64 = mul(u.42, v.43)
    yield w.44
  } to keep [d.30, n.31, l.33] [r.38, i.39, o.40] sum
  yield y.37
}
"""


def test_the_other_factor_is_only_read_where_it_is() -> None:
    """At no point at all its index may be out of range; nor are there points for all of its axis where windows end."""
    program = read_program(ENDS)
    verify(program)
    run, meant = (
        Engine(Host(), sanitize=True).compile(program, [*program.functions]).run,
        Interpreter(program, Host()).run,
    )
    calls: list[tuple[str, list[object]]] = []
    for (d, n, k, l), j in product([(0, 5, 3, 4), (2, 40, 30, 30), (0, 300, 300, 300)], [0, 7, 10**9]):
        if j < 2 or not d:
            calls.append(("certified", [d, n, k, l, drawn(d, n), drawn(2, k, l), j]))
    for d, n, k, l in [(2, 20, 3, 30), (2, 30, 20, 32), (2, 30, 60, 32), (2, 12, 10**6, 32)]:
        calls.append(("proven", [d, n, k, l, drawn(d, n), drawn(n, l)]))
    for name, args in calls:
        np.testing.assert_allclose(run(name, args)[0], meant(name, args)[0], atol=1e-12)
