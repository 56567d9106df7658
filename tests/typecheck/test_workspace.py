"""What an editor's checks do again after an edit, counted."""

from __future__ import annotations

from dlang.diagnostics import Source
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


def test_a_mistake_comes_and_goes() -> None:
    workspace = Workspace()
    assert not workspace.check(Source("m.dl", TEXT)).diagnostics
    assert len(workspace.check(Source("m.dl", TEXT + "fn g() = nope\n")).diagnostics) == 1
    assert not workspace.check(Source("m.dl", TEXT)).diagnostics
