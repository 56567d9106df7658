"""Checking small programs in tests."""

from __future__ import annotations

from pathlib import Path

from dlang.diagnostics import Diagnostic, Source
from dlang.typecheck import core
from dlang.typecheck.program import Checked, check_source, scheme_text

HERE = Path(__file__).parent


def check(text: str, *, backwards: bool = False, path: Path | None = None) -> Checked:
    return check_source(Source(str(path or HERE / "program.dl"), text), backwards=backwards)


def accepted(text: str) -> Checked:
    """A program without mistakes."""
    checked = check(text)
    assert not checked.diagnostics, [words(d) for d in checked.diagnostics]
    return checked


def scheme(text: str, name: str = "f") -> str:
    """The scheme of a function of a program, with its constraints."""
    return scheme_text(accepted(text).module.functions[name], constraints=True)


def refused(text: str) -> Diagnostic:
    """The only mistake of a program."""
    found = check(text).diagnostics
    assert len(found) == 1, [words(d) for d in found]
    return found[0]


def body(text: str, name: str = "f") -> core.Expr:
    """The core tree of a function's body."""
    found = accepted(text).module.functions[name].body
    assert found is not None
    return found


def words(d: Diagnostic) -> str:
    """All that a message says."""
    return " ".join([d.code, d.message, d.label, *(n.text for n in d.notes), *d.help])
