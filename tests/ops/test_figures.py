"""The figures of costs: each is read, and what passes decide by is there."""

import ast
from functools import cache
from itertools import pairwise
from pathlib import Path

from dlang.ops import figures

ROOT = Path(__file__).parent.parent.parent / "dlang"
NAMES = [name for name in vars(figures) if name.isupper()]

# Numbers of modules of their own that say nothing of costs: how far an analysis or a search goes.
LIMITS = {
    "ad/clipped_indices.py": {"MOST"},
    "ad/expand.py": {"MOST"},
    "ad/lasting.py": {"MOST"},
    "optimize/chains.py": {"MOST", "TRIES"},
    "optimize/contractions.py": {"MOST"},
    "optimize/distribute.py": {"_DEEPEST"},
    "optimize/elements.py": {"_LONGEST"},
    "optimize/factors.py": {"MOST"},
    "optimize/index_checks.py": {"MOST", "MOST_ARMS"},
    "optimize/reads_first.py": {"MOST"},
    "optimize/symmetry.py": {"MOST"},
    "optimize/value_ranges.py": {"MODERATE"},
}


@cache
def modules() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for folder in ("ops", "ir", "specialize", "optimize", "ad", "codegen", "runtime")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def numbers(module: ast.Module) -> set[str]:
    """The names that a module gives to numbers."""
    return {
        target.id
        for stmt in module.body
        if isinstance(stmt, ast.Assign) and all(isinstance(x, ast.Constant) for x in elements(stmt.value))
        for target in stmt.targets
        if isinstance(target, ast.Name) and isinstance(elements(stmt.value)[0], ast.Constant)
        if isinstance(ast.literal_eval(elements(stmt.value)[0]), int | float)
    }


def elements(value: ast.expr) -> list[ast.expr]:
    return value.elts if isinstance(value, ast.Tuple) and value.elts else [value]


def test_every_figure_is_read() -> None:
    read: set[str] = set()
    for name, module in modules().items():
        for node in ast.walk(module):
            match node:
                case ast.Attribute(ast.Name("figures"), figure):
                    read.add(figure)
                case ast.ImportFrom("dlang.ops.figures", names):
                    read.update(alias.name for alias in names)
                case ast.Name(figure, ast.Load()) if name == "ops/figures.py":
                    read.add(figure)
                case _:
                    pass
    assert set(NAMES) <= read, sorted(set(NAMES) - read)


def test_passes_have_no_figures_of_their_own() -> None:
    own = {
        name: found
        for name, module in modules().items()
        if name.startswith(("optimize/", "ad/")) and (found := numbers(module))
    }
    assert own == LIMITS


def test_every_figure_is_explained() -> None:
    body = modules()["ops/figures.py"].body
    explained = {
        target
        for stmt, text in pairwise(body)
        if isinstance(stmt, ast.Assign) and isinstance(text, ast.Expr)
        for target in ast.unparse(stmt.targets[0]).strip("()").split(", ")
    }
    assert set(NAMES) <= explained, sorted(set(NAMES) - explained)


def test_operations_that_take_longer_are_classes_of_their_own() -> None:
    classes = (
        figures.ADDITION, figures.ROUNDING, figures.ROOT, figures.DIVISION, figures.REMAINDER, figures.SERIES,
    )  # fmt: skip
    assert sorted(set(classes)) == list(classes)
