"""Imports point down the road: no stage knows a later one."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "dlang"

# What each part may import from the others. Parts: folders, and modules of the package itself.
EVERYWHERE = {"cache", "collection", "diagnostics", "polynomials", "inequalities", "recursion", "spelling"}
ALLOWED = {
    "cache": set(),
    "collection": set(),
    "diagnostics": set(),
    "polynomials": set(),
    "recursion": set(),
    "spelling": set(),
    "inequalities": set(),
    "grammar": set(),
    "typecheck": {"grammar"},
    "primitives": set(),
    "runtime": {"ir", "primitives", "codegen"},
    "ir": {"primitives", "runtime"},  # the interpreter shares the text and the errors of compiled code
    "specialize": {"typecheck", "ir", "primitives", "runtime"},  # foreign functions are looked for
    "optimize": {"ir", "primitives", "ad"},
    "ad": {"ir", "primitives", "optimize"},  # a derivative is normalised before the next is taken
    "codegen": {"ir", "primitives", "runtime"},
    "reuse": {"typecheck", "specialize", "codegen", "runtime"},
    "driver": {"typecheck", "ir", "specialize", "optimize", "runtime", "reuse"},
    "listings": {"typecheck", "ir", "specialize", "ad", "codegen", "runtime", "driver"},
    "python": {"typecheck", "ir", "specialize", "runtime", "driver", "listings"},
    "importer": {"python", "driver"},
    "tools": {"grammar", "typecheck", "ir", "specialize", "codegen", "runtime", "driver", "listings"},
    "__init__": {"python"},
}


def parts_imported(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names = [node.module] if node.module != "dlang" else [f"dlang.{a.name}" for a in node.names]
        else:
            continue
        for name in names:
            if name.startswith("dlang."):
                yield name.split(".")[1], node.lineno


def part_of(file):
    relative = file.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.py")), ids=lambda f: str(f.relative_to(ROOT)))
def test_a_file_imports_nothing_from_later_on_the_road(file):
    here = part_of(file)
    wrong = [
        f"line {line}: {part}"
        for part, line in parts_imported(file)
        if part not in ALLOWED[here] | EVERYWHERE | {here, "__version__"}
    ]
    assert not wrong, f"{here} must not import {', '.join(wrong)}"
