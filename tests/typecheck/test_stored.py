"""Checked modules that are kept between processes: here between checks, which share nothing but the directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlang.cache import store
from dlang.diagnostics import Source, render
from dlang.dump_ir import listing
from dlang.typecheck import core
from dlang.typecheck.headers import Unread
from dlang.typecheck.program import Checked, check_file, check_source, scheme_text
from dlang.typecheck.trees import Tree, children
from dlang.typecheck.types import TypeData, resolve

LIBRARY = """struct Line<n> { slope: f64[n], shift: f64 }
fn at(line: Line<n>, x: f64[n]) -> f64 = sum(line.slope * x) + line.shift
fn twice(f, x) = f(f(x))
fn half(x: f64[n]) -> f64[n // 2] = x[..n // 2]
const two = 2.0
"""
PROGRAM = """import library
import library { Line }
fn f(l: Line<n>, x: f64[n]) -> f64 = library.two * library.at(l, x)
fn g(x: f64[n]) -> f64[n // 2] = library.half(x)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "identity", lambda: "this one")
    monkeypatch.setattr("dlang.typecheck.stored.identity", lambda: "this one")
    monkeypatch.setattr("dlang.typecheck.stored.is_unchanged", lambda: True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "library.dl").write_text(LIBRARY)
    program = tmp_path / "program.dl"
    program.write_text(PROGRAM)
    return program


def reads(checked: Checked) -> int:
    return checked.program.cache.stored.reads


def test_what_did_not_change_is_read_and_says_the_same(file: Path) -> None:
    first, second = check_file(file), check_file(file)
    assert (reads(first), reads(second)) == (0, 3)  # the prelude, the library, the program
    for name, decl in first.module.functions.items():
        assert scheme_text(decl, constraints=True) == scheme_text(second.module.functions[name], constraints=True)
    assert second.program.cache.checked == []


def test_a_type_is_one_object_in_all_modules(file: Path) -> None:
    check_file(file)
    checked = check_file(file)
    line = checked.modules["library"].types["Line"]
    mentioned = resolve(checked.module.functions["f"].params[0].local.type)
    assert isinstance(mentioned, TypeData) and mentioned.decl is line


def test_functions_can_be_checked_against_what_was_read(file: Path) -> None:
    check_file(file)
    file.write_text(PROGRAM + "fn h(x: f64[n]) -> f64 = library.twice(|y| y * y, sum(library.half(x) + g(x)))\n")
    checked = check_file(file)
    assert reads(checked) == 2 and not checked.diagnostics


@pytest.mark.parametrize("changed", ["library.dl", "program.dl"])
def test_an_edit_is_seen(file: Path, changed: str) -> None:
    check_file(file)
    path = file.parent / changed
    path.write_text(path.read_text().replace("-> f64 =", "-> f64[1] ="))
    assert [d.code for d in check_file(file).diagnostics] != []


def test_a_module_that_hides_another_is_seen(file: Path, tmp_path: Path) -> None:
    file.write_text("import nn\nfn f(x: f64) -> f64 = nn.relu(x)\n")
    assert not check_file(file).diagnostics
    assert not check_file(file).diagnostics
    (tmp_path / "nn.dl").write_text("fn other(x: f64) -> f64 = x\n")
    assert check_file(file).diagnostics


def test_another_compiler_reads_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_file(file)
    monkeypatch.setattr("dlang.typecheck.stored.identity", lambda: "another")
    assert reads(check_file(file)) == 0
    monkeypatch.setattr("dlang.typecheck.stored.identity", lambda: None)  # one that changed while it ran
    assert reads(check_file(file)) == 0


def test_a_module_with_a_message_is_checked_again_and_gives_it_again(file: Path) -> None:
    file.write_text("import library\nfn f(x: f64) -> i64 = x\n")
    first, second = check_file(file), check_file(file)
    assert reads(second) == 2
    assert list(map(render, first.diagnostics)) == list(map(render, second.diagnostics)) != []


def test_circles_of_imports_are_reported_however_often(tmp_path: Path) -> None:
    (tmp_path / "a.dl").write_text("import b\nfn f(x: f64) -> f64 = b.g(x)\n")
    (tmp_path / "b.dl").write_text("fn g(x: f64) -> f64 = x\n")
    assert not check_file(tmp_path / "a.dl").diagnostics
    (tmp_path / "b.dl").write_text("import a\nfn g(x: f64) -> f64 = a.f(x)\n")
    for _ in range(2):
        assert "E0204" in [d.code for d in check_file(tmp_path / "a.dl").diagnostics]


def test_damage_is_done_without(file: Path, tmp_path: Path) -> None:
    check_file(file)
    for kept in (tmp_path / "cache").iterdir():
        kept.write_bytes(kept.read_bytes()[:-9])
    assert reads(check_file(file)) == 0
    assert reads(check_file(file)) == 3


def test_texts_without_a_file_are_kept_too() -> None:
    for wanted in (0, 2):
        checked = check_source(Source("<text>", "fn f(x: f64[n]) -> f64 = sum(x)\n"))
        assert reads(checked) == wanted


def test_bodies_are_read_when_one_is_asked_for(file: Path) -> None:
    check_file(file)
    checked = check_file(file)
    f, at = checked.module.functions["f"], checked.modules["library"].functions["at"]
    assert isinstance(f.tree, Unread) and isinstance(at.tree, Unread)
    assert f.body is f.body and not isinstance(f.tree, Unread) and isinstance(at.tree, Unread)
    mentioned = [e.decl for e in _references(f.body)]
    assert at in mentioned  # the very object of the other module
    assert next(e.local for e in _locals(at.body)) in [p.local for p in at.params]


def test_defaults_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "program.dl").write_text("fn f(x: f64, k: f64 = 2.5) -> f64 = x * k\n")
    check_file(tmp_path / "program.dl")
    x, k = check_file(tmp_path / "program.dl").module.functions["f"].params
    assert (x.has_default, k.has_default) == (False, True) and isinstance(k.given, Unread)
    assert isinstance(k.default, core.Literal) and k.default.value == 2.5 and x.default is None


def test_what_was_read_is_compiled_to_the_same(file: Path) -> None:
    first, second = check_file(file), check_file(file)
    for name in ("f", "g"):
        one, other = (listing([c.module.functions[name]], "mono") for c in (first, second))
        assert one == other


def _references(tree: core.Expr | None) -> list[core.FnRef]:
    return [e for e in _all(tree) if isinstance(e, core.FnRef)]


def _locals(tree: core.Expr | None) -> list[core.Ref]:
    return [e for e in _all(tree) if isinstance(e, core.Ref)]


def _all(tree: core.Expr | None) -> list[Tree]:
    assert tree is not None
    out: list[Tree] = [tree]
    for e in out:
        out += children(e)
    return out
