"""Checking again with the same cache: what is reused, and that nothing stale is."""

from __future__ import annotations

from pathlib import Path

from dlang.diagnostics import Source
from dlang.typecheck.program import Cache, Checked, check_file, check_source, scheme_text
from tests.typecheck.support import words

TEXT = """struct P { a: f64 }
fn f(p: P) -> f64 = g(p.a)
fn g(x) = 2 * x
fn h(x: f64[n]) = f(P(x[0]))
test "t" { assert h([1.0]) == 2.0 }
"""


def again(cache: Cache, text: str) -> Checked:
    return check_source(Source("program.dl", text), cache=cache)


def test_a_text_that_did_not_change_is_not_checked_again() -> None:
    cache = Cache()
    first, second = again(cache, TEXT), again(cache, TEXT)
    assert cache.hits >= 5
    assert first.module.functions["f"] is second.module.functions["f"]
    assert first.module.types["P"] is second.module.types["P"]
    assert not second.diagnostics


def test_what_stands_above_an_edit_is_reused() -> None:
    cache = Cache()
    first = again(cache, TEXT)
    second = again(cache, TEXT.replace("x[0]", "x[n - 1]"))
    assert first.module.functions["g"] is second.module.functions["g"]
    assert first.module.functions["h"] is not second.module.functions["h"]


def test_an_edit_reaches_what_depends_on_it() -> None:
    cache = Cache()
    again(cache, TEXT)
    changed = again(cache, TEXT.replace("fn g(x) = 2 * x", "fn g(x) = x > 1.0"))
    assert [d.span.line for d in changed.diagnostics if d.span] == [2], [words(d) for d in changed.diagnostics]
    assert not again(cache, TEXT).diagnostics


def test_mistakes_are_reported_again() -> None:
    cache = Cache()
    text = TEXT + "fn bad() = missing\n"
    assert len(again(cache, text).diagnostics) == 1
    assert len(again(cache, text).diagnostics) == 1


def test_positions_follow_an_edit_above() -> None:
    cache = Cache()
    again(cache, TEXT + "fn bad() = missing\n")
    (d,) = again(cache, "# a comment\n\n" + TEXT + "fn bad() = missing\n").diagnostics
    assert d.span is not None and d.span.line == 8


def test_an_imported_module_is_checked_again_when_it_changed(tmp_path: Path) -> None:
    cache = Cache()
    main, lib, base = tmp_path / "main.dl", tmp_path / "lib.dl", tmp_path / "base.dl"
    base.write_text("fn k() = 1.0\n")
    lib.write_text("import base\nstruct P { a: f64 }\nfn g(x) = x * base.k()\n")
    main.write_text("import lib { g, P }\nfn f(x: f64) = g(x) + P(x).a\n")
    first = check_file(main, cache=cache)
    second = check_file(main, cache=cache)
    assert not first.diagnostics and not second.diagnostics
    assert first.modules["lib"] is second.modules["lib"]
    base.write_text("fn k() = 1.0f32\n")
    third = check_file(main, cache=cache)
    assert [d.code for d in third.diagnostics] == ["E0301"]
    assert third.modules["lib"] is not second.modules["lib"]
    assert scheme_text(third.modules["base"].functions["k"]) == "() -> f32"
