"""Every message says what to do: by itself, or by what helps against the errors of its code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dlang
from dlang.diagnostics import DEFECTS, Diagnostic
from dlang.remedies import REMEDIES
from tests.diagnostics import goldens as g

ROOT = Path(dlang.__file__).parent
PAGES = {page.stem for page in (ROOT / "explain").glob("E*.md")}
MAKERS = ("error", "Diagnostic", "RunError")
CODE = re.compile(r"E0\d{3}")


def constants(tree: ast.Module) -> dict[str, set[str]]:
    """The codes that names in a module stand for."""
    found: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            (target,) = node.targets
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and CODE.fullmatch(str(value.value)):
                    found.setdefault(name.id, set()).add(str(value.value))
    return found


def without_help() -> Iterator[tuple[str, str]]:
    """The codes of messages that are made without help, and where."""
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(ROOT.rglob("*.py"))}
    everywhere: dict[str, set[str]] = {}
    for tree in trees.values():
        for name, codes in constants(tree).items():
            everywhere.setdefault(name, set()).update(codes)
    for file, tree in trees.items():
        named = everywhere | constants(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in MAKERS and not {k.arg for k in node.keywords} & {"help", "fixes"}:
                for part in ast.walk(node.args[0]):
                    code = str(part.value) if isinstance(part, ast.Constant) else ""
                    codes = {code} if CODE.fullmatch(code) else named.get(getattr(part, "id", ""), set())
                    for found in codes:
                        yield found, f"{file.name}:{node.lineno}"


def test_what_is_refused_without_help_has_that_of_its_code() -> None:
    found = list(without_help())
    assert len(found) > 100
    assert not [(code, where) for code, where in found if code not in REMEDIES and code not in DEFECTS]


def test_what_ends_a_run_has_help() -> None:
    """Checks are made of codes that no call mentions."""
    codes = {code for code in PAGES if code.startswith("E08")} - DEFECTS
    assert codes <= set(REMEDIES)


@pytest.mark.parametrize("golden", g.goldens(), ids=lambda c: f"{c.code} {c.title}")
def test_each_message_of_a_program_has_help(golden: g.Golden) -> None:
    for message in golden.message.split("\n\n"):
        if message.startswith(("error", "warning")):
            assert " = help: " in message


@pytest.mark.parametrize("code", REMEDIES)
def test_what_helps_is_short_and_of_a_code_with_a_page(code: str) -> None:
    text = REMEDIES[code]
    assert code in PAGES and len(text) <= 100 and not text.endswith(".") and text == text.strip()
    assert text.count("`") % 2 == 0 and Diagnostic(code, "wrong", None).help == (text,)


def test_help_of_its_own_comes_first() -> None:
    assert Diagnostic("E0801", "wrong", None, help=("do this",)).help == ("do this",)
    assert Diagnostic("", "wrong", None).help == ()
