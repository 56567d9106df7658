"""Modules that load when they are first used."""

from __future__ import annotations

import ast
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dlang.lazy_modules import lazy_module

PACKAGE = Path(__file__).parents[1] / "dlang"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that nothing has imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "loads = []\nloads.append(1)\nx = 1\ndef __getattr__(name):\n  if name == 'y': return 2\n"
    (tmp_path / "slow_one.py").write_text(text + "  raise AttributeError(f'no {name}')\n")
    monkeypatch.delitem(sys.modules, "slow_one", raising=False)
    return "slow_one"


def test_a_lazy_module_is_imported_when_it_is_first_asked_for_something(module: str) -> None:
    stand_in = lazy_module(module)
    assert module not in sys.modules
    assert stand_in.x == 1 and module in sys.modules


def test_a_lazy_module_has_what_the_module_has(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = lazy_module(module)
    assert stand_in.y == 2 and stand_in.__name__ == module
    with pytest.raises(AttributeError, match="no z"):
        _ = stand_in.z
    monkeypatch.setattr(sys.modules[module], "x", 5)
    assert stand_in.x == 5


def test_threads_that_ask_at_once_get_one_module(module: str) -> None:
    stand_in = lazy_module(module)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: len(stand_in.loads), range(64))) == [1] * 64


def test_a_module_that_is_missing_is_so_as_ever() -> None:
    stand_in = lazy_module("no_such_module_anywhere")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module_anywhere'") as error:
            _ = stand_in.x
        assert error.value.name == "no_such_module_anywhere"


def bound(body: list[ast.stmt]) -> dict[str, str]:
    """The names that some statements bind to modules, by imports or lazily."""
    found = {}
    for s in body:
        match s:
            case ast.Import(names):
                found.update({a.asname or a.name: a.name for a in names})
            case ast.ImportFrom(module, names):
                found.update({a.asname or a.name: f"{module}.{a.name}" for a in names})
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name("lazy_module"), [ast.Constant(str() as module)])):
                found[name] = module
    return found


def test_what_is_lazy_is_for_the_type_checker_the_module_of_that_name() -> None:
    files = [f for f in PACKAGE.rglob("*.py") if "lazy_modules" in f.stem + f.read_text()]
    for file in files:
        tree = ast.parse(file.read_text())
        calls = sum(isinstance(n, ast.Call) and ast.unparse(n.func) == "lazy_module" for n in ast.walk(tree))
        for s in tree.body:
            match s:
                case ast.If(ast.Name("TYPE_CHECKING"), real, others):
                    stand_ins = bound(others)
                    assert stand_ins.items() <= bound(real).items(), file
                    calls -= len(stand_ins)
        assert calls == 0, file
