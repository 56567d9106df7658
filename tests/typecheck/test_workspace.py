"""What an editor's checks do again after an edit, counted."""

from __future__ import annotations

from dlang.diagnostics import Source, render
from dlang.typecheck.program import check_source
from dlang.typecheck.workspace import Workspace

TEXT = "fn f0(x: f64) -> f64 = x\n" + "".join(f"fn f{i + 1}(x: f64) -> f64 = f{i // 2}(x) + 1.0\n" for i in range(50))


def test_nothing_is_checked_again_without_an_edit() -> None:
    workspace = Workspace()
    workspace.check(Source("m.dl", TEXT))
    assert len([n for n in workspace.rechecked if n.startswith("f")]) >= 51
    workspace.check(Source("m.dl", TEXT))
    assert workspace.rechecked == ()


def test_an_edit_at_the_end_checks_one_declaration() -> None:
    workspace = Workspace()
    workspace.check(Source("m.dl", TEXT))
    changed = TEXT.replace("f24(x) + 1.0\n", "f24(x) + 2.0\n")
    assert changed.count("2.0\n") == 2  # f49 and f50, the last two
    workspace.check(Source("m.dl", changed))
    assert set(workspace.rechecked) == {"f49", "f50"}


def test_an_edit_at_the_top_checks_what_mentions_it() -> None:
    workspace = Workspace()
    workspace.check(Source("m.dl", TEXT))
    workspace.check(Source("m.dl", "# a comment\n\n" + TEXT))
    assert workspace.rechecked == ()
    workspace.check(Source("m.dl", TEXT.replace("fn f50", "fn g() = 1\nfn f50")))
    assert workspace.rechecked == ("g",)
    workspace.check(Source("m.dl", TEXT.replace("f12(x) + 1.0\n", "f12(x) +\n\n 2.0\n", 1)))
    assert set(workspace.rechecked) == {"f25"}


def test_an_edit_of_the_first_of_many_functions_checks_that_one() -> None:
    text = "".join(f"fn f{i}(x: f64[n]) -> f64 {{\n  let y = x * {i}.0\n  sum(y)\n}}\n" for i in range(250))
    workspace = Workspace()
    workspace.check(Source("m.dl", text))
    workspace.check(Source("m.dl", text.replace("x * 0.0", "x *\n 0.5")))
    assert workspace.rechecked == ("f0",)


def test_places_follow_the_edits_above() -> None:
    workspace = Workspace()
    bad = "fn callee(x: f64[2]) = x\nfn bad() = callee([1.0])\nlet unused = nope\n"
    first = workspace.check(Source("m.dl", TEXT + bad))
    for above in ("", "\n\n", "# one\n", "fn more() = 1\n"):
        again = workspace.check(Source("m.dl", above + TEXT + bad))
        fresh = check_source(Source("m.dl", above + TEXT + bad))
        assert [render(d) for d in again.diagnostics] == [render(d) for d in fresh.diagnostics]
        assert len(again.diagnostics) == len(first.diagnostics) == 2
        f = again.module.functions["f7"].span
        assert (above + TEXT)[f.first : f.last] == f.text and f.line == 8 + above.count("\n")


def test_equal_declarations_have_places_of_their_own() -> None:
    workspace = Workspace()
    test = 'test "t" { assert nope }\n'
    for text in (test, test + test, "\n" + test + "fn f() = 1\n" + test, test):
        lines = [d.span.line for d in workspace.check(Source("m.dl", text)).diagnostics if d.span]
        assert lines == [k + 1 for k, line in enumerate(text.splitlines()) if "nope" in line]


def test_a_mistake_comes_and_goes() -> None:
    workspace = Workspace()
    assert not workspace.check(Source("m.dl", TEXT)).diagnostics
    assert len(workspace.check(Source("m.dl", TEXT + "fn g() = nope\n")).diagnostics) == 1
    assert not workspace.check(Source("m.dl", TEXT)).diagnostics
