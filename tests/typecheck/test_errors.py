"""Every file in `errors/` is refused as its first lines say: `#! line: words | words`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlang.diagnostics import Diagnostic
from dlang.typecheck.program import check_file
from tests.typecheck.support import HERE, check, refused, words

FILES = sorted((HERE / "errors").glob("*.dl"))


def wanted(path: Path) -> dict[int, list[str]]:
    out: dict[int, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#!"):
            number, _, rest = line[2:].partition(":")
            out[int(number)] = [w.strip() for w in rest.split("|")]
    return out


def line_of(d: Diagnostic) -> int:
    assert d.span is not None
    return d.span.line


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_mistake_is_reported_once_where_it_is(path: Path) -> None:
    found = check_file(path).diagnostics
    expected = wanted(path)
    assert sorted(line_of(d) for d in found) == sorted(expected), [words(d) for d in found]
    for d in found:
        for w in expected[line_of(d)]:
            assert w in words(d), (w, words(d))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_message_has_a_code_and_a_place(path: Path) -> None:
    for d in check_file(path).diagnostics:
        assert d.code.startswith("E0") and len(d.code) == 5
        assert d.span is not None and d.span.start < d.span.end


def test_a_size_mismatch_says_where_both_sizes_come_from() -> None:
    d = refused("fn f(x: f64[n], y: f64[m]) -> f64[n] = x + y\n")
    notes = [n.text for n in d.notes]
    assert any("`x` of `f`" in n for n in notes) and any("`y` of `f`" in n for n in notes)


def test_two_sizes_of_one_name_are_told_apart() -> None:
    d = refused("fn pairs(x: a[2 * n]) -> a[n, 2] = reshape(x, n, 2)\nfn f(x: f64[n]) = pairs(x)\n")
    assert "2 * n" not in d.message.split("found")[1].split(":")[0]
    assert "multiple of 2" in d.message


def test_mistakes_in_one_block_are_all_reported() -> None:
    found = check(
        'test "t" {\n  let a = missing(1)\n  let b = 1.0 + true\n  assert a == b\n  assert 3\n}\n'
    ).diagnostics
    assert [line_of(d) for d in found] == [2, 3, 5]


def test_a_function_with_a_mistake_does_not_spoil_its_callers() -> None:
    d = refused("fn bad(x) = x + missing\nfn f() = bad(1.0) + 2.0\n")
    assert "missing" in d.message


def test_an_import_that_fails_is_reported_once() -> None:
    d = refused("import nowhere\nfn f(x: f64) -> f64 = nowhere.g(x) + nowhere.h\n")
    assert d.code == "E0203"


def test_what_a_value_is_for_is_part_of_the_message() -> None:
    assert "argument `y` of `g`" in refused("fn g(x: f64, y: f64) = x * y\nfn f() = g(1.0, true)\n").message
    assert "the condition" in refused("fn f(x: i64) = if x { 1 } else { 2 }\n").message
    assert "`tol`" in refused("fn f(x: f64) = close(x, x, tol = true)\n").message


def test_an_expression_that_is_nested_too_deeply_is_an_error() -> None:
    assert refused("fn f(x: f64) -> f64 = " + " + ".join(["x"] * 5000) + "\n").code == "E0290"
