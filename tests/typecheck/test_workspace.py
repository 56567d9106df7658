"""What an editor's checks do again after an edit, counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlang.diagnostics import Source, Span, render
from dlang.grammar import syntax as s
from dlang.typecheck import groups
from dlang.typecheck.cache import Observed
from dlang.typecheck.printing import show
from dlang.typecheck.program import Workspace, check_source

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


TYPES = """\
struct A { x: f64 }
struct B { a: A, w: f64 }
struct C { v: f64 }
enum D { E, F(C) }
fn made() = B(a = A(x = 1.0), w = 2.0)
fn through() = made().w
fn of_a(a: A) = a.x
fn of_c(c: C) -> f64 = c.v
fn of_d(d: D) = match d { E => 0.0, F(c) => of_c(c) }
fn by_field(t) = t.v
fn none(x: f64) = x
"""


def test_an_edit_of_a_type_checks_what_has_to_do_with_it() -> None:
    workspace = Workspace()
    for old, new, expected in [
        ("", "", "made through of_a of_c of_d by_field none"),
        ("struct C { v: f64 }", "struct C { v: f64, u: f64 }", "of_c of_d"),
        ("struct A { x: f64 }", "struct A { x: f32 }", "made through of_a of_c of_d"),  # and C as it was
        ("struct B { a: A, w: f64 }", "struct B { a: A, w: i64 }", "made through of_a"),
        ("struct B { a: A, w: f64 }", "struct B { a: A, w: i64 }\nstruct G { h: f64 }", "made through"),
        ("enum D { E, F(C) }", "enum D { E, F(C), H }", "made through of_d"),
    ]:
        text = TYPES.replace(old, new)
        checked = workspace.check(Source("m.dl", text))
        fresh = check_source(Source("m.dl", text))
        own = [n for n in workspace.rechecked if n in TYPES.replace("(", " ").split()]
        assert sorted(own) == sorted(expected.split()), new
        assert [render(d) for d in checked.diagnostics] == [render(d) for d in fresh.diagnostics]


def test_of_the_types_with_a_mistake_it_is_said_what_may_have_been_meant() -> None:
    workspace = Workspace()
    for text in (
        "struct A { x: Lawer }\nfn f(a: A) = a.x\n",
        "struct A { x: Lawer }\nfn f(a: A) = a.x\nstruct Layer { y: f64 }\n",
        "struct A { x: Lawer }\nfn f(a: A) = a.x\nstruct Layer { y: f64 }\ntype Lawer = f64\n",
        "struct A { x: f64[k] }\nfn f(a: A) = a.x\nstruct Layer { y: f64 }\ntype Lawer = f64\n",
        "struct A { x: f64[k] }\nfn f(a: A) = a.x\nconst k = Layer(y = 1).y\nstruct Layer { y: i64 }\n",
        "struct A { x: f64[k] }\nfn f(a: A) = a.x\nconst k = 2\nstruct Layer { y: i64 }\n",
        "struct A { x: f64[k] }\nenum B { A }\nfn f(a: A) = a.x\nconst k = 2\n",
        "type P = Q\ntype Q = f64\nfn f(a: Q) = a\n",
        "type Q = f64\ntype P = Q\nfn f(a: Q) = a\n",
        "struct A<n> { x: f64[n] }\nstruct B<m> { a: A<m>, w: f64[m] }\nfn f(b: B<3>) = b.a.x\n",
        "struct A<n> { x: f64[n, n] }\nstruct B<m> { a: A<m>, w: f64[m] }\nfn f(b: B<3>) = b.a.x\n",
        "struct A { x: B }\nstruct B { y: A }\nfn f(b: B) = b.y\n",
        "struct A { x: B }\nstruct B { y: f64 }\nfn f(b: B) = b.y\n",
    ):
        checked = workspace.check(Source("m.dl", text))
        fresh = check_source(Source("m.dl", text))
        assert [render(d) for d in checked.diagnostics] == [render(d) for d in fresh.diagnostics], text


def test_a_message_about_a_test_says_where_a_function_with_a_mistake_is_now() -> None:
    workspace = Workspace()
    text = 'fn f(x: f64, y: f64) = x + nope\n\ntest "t" { assert f(1.0) == 2.0 }\n'
    for above in ("", "# above\n", "fn g() = 1\n"):
        checked = workspace.check(Source("m.dl", above + text))
        fresh = check_source(Source("m.dl", above + text))
        assert [render(d) for d in checked.diagnostics] == [render(d) for d in fresh.diagnostics]


def test_what_a_declaration_mentions_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[s.Node] = []
    found = groups._found
    monkeypatch.setattr(groups, "_found", lambda tree: looked.append(tree) or found(tree))
    workspace = Workspace()
    workspace.check(Source("m.dl", TEXT))
    looked.clear()
    workspace.check(Source("m.dl", "# a comment\n\n" + TEXT.replace("f24(x) + 1.0\n", "f24(x) + f0(2.0)\n", 1)))
    assert [tree.name for tree in looked if isinstance(tree, s.Fn)] == ["f49"]


def test_an_imported_module_is_checked_by_functions_after_edits_elsewhere(tmp_path: Path) -> None:
    unsaved = {str(tmp_path / "other.dl"): TEXT}
    workspace = Workspace(unsaved=unsaved)
    main = "import other { f50 }\nfn f() = f50(1.0)\n"
    workspace.check(Source(str(tmp_path / "m.dl"), main))
    workspace.check(Source(str(tmp_path / "m.dl"), main + "fn g() = 1\n"))
    assert workspace.rechecked == ("g",)
    unsaved[str(tmp_path / "other.dl")] = TEXT.replace("fn f0(x: f64) -> f64 = x", "fn f0(x: f64) -> f64 = x + 2.0")
    workspace.check(Source(str(tmp_path / "m.dl"), main + "fn g() = 1\n"))
    assert set(workspace.rechecked) == {"f0", "f", "g"}


def test_types_that_an_earlier_check_noted_are_not_shown() -> None:
    observed = Observed("m.dl")
    workspace = Workspace(observed=observed)
    text = "fn f(x: f64) = x\nfn g(y: f64) = y\n"
    workspace.check(Source("m.dl", text))
    assert len(observed.types) == 2
    checked = workspace.check(Source("m.dl", text.replace("fn f(x: f64) = x\n", "fn g(x: f64) = x\n")))
    assert [d.code for d in checked.diagnostics] == ["E0202"]
    assert [bool(types) for types in observed.types.values()] == [False, True]


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


CHAIN = "fn f0(x: f64) -> f64 = x\n" + "".join(f"fn f{i}(x: f64) -> f64 = f{i - 1}(x) + 1.0\n" for i in range(1, 100))


def test_an_edit_that_keeps_the_type_checks_no_caller() -> None:
    workspace = Workspace()
    workspace.check(Source("m.dl", CHAIN))
    edited = CHAIN.replace("f49(x) + 1.0", "f49(x) * 2.0")
    workspace.check(Source("m.dl", edited))
    assert workspace.rechecked == ("f50",)
    workspace.check(Source("m.dl", edited.replace("fn f20(x: f64) -> f64 =", "fn f20(x: f64) =")))
    assert workspace.rechecked == ("f20",)


def test_one_that_changes_what_callers_see_checks_those_that_mention_it() -> None:
    for edit in (
        ("fn g(x, k = 1.0)", "fn g(x, k = 2.0)"),  # a default is code of the call
        ("fn g(x, k = 1.0) = k * x", "fn g(x, l = 1.0) = l * x"),
        ("fn g(x, k = 1.0)", "fn g(nodiff x, k = 1.0)"),
        ("= k * x", "= sum(k * x)"),
        ("= k * x", "{ print(0); k * x }"),
    ):
        text = "fn g(x, k = 1.0) = k * x\nfn h(x) = g(x)\nfn other() = 1\n"
        workspace = Workspace()
        workspace.check(Source("m.dl", text))
        workspace.check(Source("m.dl", text.replace("k * x", "2.0 * k * x")))
        assert workspace.rechecked == ("g",), edit
        checked = workspace.check(Source("m.dl", text.replace(*edit)))
        assert not checked.diagnostics
        assert set(workspace.rechecked) >= {"g", "h"} and "other" not in workspace.rechecked, edit


def test_callers_that_are_kept_run_what_was_edited() -> None:
    from dlang.driver import Request, call, load, lower
    from dlang.host.effects import Host

    text = (
        "const base = 10.0\nfn g<a: Num>(x: a[n], k: size) -> a[n + k] = concat(x, zeros(k))\n"
        "fn even(k: i64) -> bool = k == 0 or odd(k - 1)\nfn odd(k: i64) -> bool = k != 0 and even(k - 1)\n"
        "fn twice(x: f64[n]) -> f64 {\n  fn inner(k: i64) -> f64 = if k == 0 { sum(g(x, 2)) } else { inner(k - 1) }\n"
        "  let f = |v| sum(g(v, 1)) + base\n  inner(3) + f(x)\n}\n"
        'test "t" { assert even(4) and twice([1.0, 2.0]) == 16.0, "{twice([1.0, 2.0])}" }\n'
    )
    workspace = Workspace()

    def passes(text: str) -> bool:
        (test,) = workspace.check(Source("m.dl", text)).module.tests
        program, (entry,) = lower([Request(test)])
        try:
            call(load(program, [entry], "interp", Host()), entry)
        except Exception as problem:
            assert "E0800" in str(problem)
            return False
        return True

    assert passes(text)
    edited = text.replace("concat(x, zeros(k))", "concat(x, ones(k))")
    assert not passes(edited) and workspace.rechecked == ("g",)
    assert not passes(edited.replace("base = 10.0", "base = 7.5")) and workspace.rechecked == ("base",)
    assert passes(edited.replace("base = 10.0", "base = 7.0")) and workspace.rechecked == ("base",)
    assert not passes(text.replace("k != 0 and", "k == 0 and")) and set(workspace.rechecked) >= {"even", "odd"}
    assert passes(text)


def test_a_function_may_have_the_name_of_a_type() -> None:
    text = "fn f32(x: f64) -> f64 = x\nfn a(x: b) -> b = x\nfn b(x: a) -> a = a(x)\nfn c(x: f64) -> f64 = b(f32(x))\n"
    workspace = Workspace()
    assert not workspace.check(Source("m.dl", text)).diagnostics
    workspace.check(Source("m.dl", text.replace("b(f32(x))", "a(x)")))
    assert workspace.rechecked == ("c",)


# ---- what an editor asks for -----------------------------------------------------------------------------------------
def types_in(observed: Observed) -> dict[str, str]:
    """The types that were noted, by what is written there."""
    return {s.text[a:b]: show(t) for s, found in observed.types.items() for (a, b), t in found.items()}


def test_types_are_known_in_a_declaration_with_mistakes() -> None:
    observed = Observed("m.dl")
    text = "fn f(x: f64[n]) {\n  let y = sum(x[1..])\n  let z = y +\n  w = nothing\n}\n"
    assert Workspace(observed=observed).check(Source("m.dl", text)).diagnostics
    found = types_in(observed)
    assert found["x[1..]"] == "f64[n - 1]" and found["y"] == "f64"


def test_what_was_observed_of_a_declaration_moves_with_it_and_ends_with_it() -> None:
    observed = Observed("m.dl")
    workspace = Workspace(observed=observed)
    workspace.check(Source("m.dl", "fn f(x: f64[n]) = x + 1.0\n\nfn g(y: i64) = y * 2\n"))
    workspace.check(Source("m.dl", "fn h() = 2\n\nfn f(x: f64[n]) = x + 1.0\n\n"))
    assert workspace.rechecked == ("h",)
    source = next(s for s in observed.types if s.text.startswith("fn f"))
    assert len(observed.types) == 2 and source.first_line == 3
    start = source.text.index("x + 1.0")
    t = observed.at(Span(source, start, start + 7))
    assert t is not None and show(t) == "f64[n]"
    assert observed.at(Span(source, start, start + 6)) is None


def test_imported_files_count_as_they_are_in_the_editor(tmp_path: Path) -> None:
    other, made = tmp_path / "other.dl", tmp_path / "made.dl"
    other.write_text("fn one() = 1\n")
    main = Source(str(tmp_path / "m.dl"), "import other\nimport made\nfn f() = other.one() + made.two()\n")
    unsaved = {str(other): "fn one() = 1.0\n", str(made): "fn two() = 2.0\n"}
    workspace = Workspace(unsaved=unsaved)
    assert workspace.check(main).diagnostics == []
    unsaved[str(made)] = "fn two() = true\n"
    assert [d.code for d in workspace.check(main).diagnostics] == ["E0301"]
    unsaved.clear()
    assert {d.code for d in workspace.check(main).diagnostics} == {"E0203"}
