"""Imports point down the road: no stage knows a later one."""

import ast
from functools import cache
from pathlib import Path

import pytest

from dlang.graphs import components

ROOT = Path(__file__).parent.parent / "dlang"

# What each part may import from the others. Parts: folders, of which `codegen/llvm` and `codegen/cuda` are parts, and
# modules of the package itself.
EVERYWHERE = {
    "cache", "drafts", "graphs", "diagnostics", "timings", "polynomials", "inequalities", "ops",
    "identity", "lazy_modules", "passes", "process", "remedies", "spelling",
}  # fmt: skip
ALLOWED = {
    "cache": set(),
    "graphs": set(),
    "identity": set(),
    "diagnostics": set(),
    "drafts": set(),
    "timings": set(),
    "lazy_modules": set(),
    "passes": set(),
    "polynomials": set(),
    "process": set(),
    "remedies": set(),
    "spelling": set(),
    "ops": set(),
    "inequalities": set(),
    "grammar": set(),
    "format": {"grammar"},
    "typecheck": {"grammar"},
    "ir": set(),
    "host": {"ir"},
    "interpret": {"ir", "host"},
    "specialize": {"typecheck", "ir", "host"},  # foreign functions are looked for
    "optimize": {"ir"},
    "ad": {"ir", "optimize"},  # what is differentiated is brought to the normal form
    "pipeline": {"ir", "optimize", "ad"},
    "codegen": {"ir"},
    "codegen.llvm": {"ir", "host", "codegen"},
    "codegen.cuda": {"ir", "codegen"},
    "runtime": {"ir", "host", "codegen", "codegen.llvm", "codegen.cuda"},
    "compile_cache": {"typecheck", "ir", "host", "specialize", "codegen.llvm", "runtime"},
    "driver": {"typecheck", "ir", "host", "interpret", "specialize", "pipeline", "ad", "runtime", "compile_cache"},
    "dump_ir": {"typecheck", "ir", "specialize", "pipeline", "ad", "codegen", "codegen.llvm", "codegen.cuda", "driver"},
    "python": {"typecheck", "ir", "host", "specialize", "runtime", "driver", "dump_ir"},
    "importer": {"python", "driver"},
    "aot": {
        "typecheck",
        "ir",
        "host",
        "runtime",
        "codegen",
        "codegen.llvm",
        "specialize",
        "compile_cache",
        "driver",
        "dump_ir",
        "python",
    },
    "tools": {
        "ad",
        "grammar",
        "format",
        "typecheck",
        "ir",
        "host",
        "interpret",
        "pipeline",
        "codegen",
        "specialize",
        "runtime",
        "driver",
        "dump_ir",
        "python",
        "codegen.llvm",
        "aot",
    },
    "__init__": {"python", "runtime"},
}


@cache
def parts_imported(file):
    """The parts that a file imports, with the lines."""
    found = []
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
                found.append((part_named(name.split(".")[1:]), node.lineno))
    return found


def part_of(file):
    return part_named(file.relative_to(ROOT).with_suffix("").parts)


def part_named(path):
    return ".".join(path[:2]) if list(path[:2]) in (["codegen", "llvm"], ["codegen", "cuda"]) else path[0]


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.py")), ids=lambda f: str(f.relative_to(ROOT)))
def test_a_file_imports_nothing_from_later_on_the_road(file):
    here = part_of(file)
    wrong = [
        f"line {line}: {part}"
        for part, line in parts_imported(file)
        if part not in ALLOWED[here] | EVERYWHERE | {here, "__version__"}
    ]
    assert not wrong, f"{here} must not import {', '.join(wrong)}"


def test_parts_import_one_another_in_no_circle():
    assert [c for c in components({part: sorted(others) for part, others in ALLOWED.items()}) if len(c) > 1] == []


def test_nothing_is_allowed_that_nobody_imports():
    imported = {part: set() for part in ALLOWED}
    for file in ROOT.rglob("*.py"):
        imported[part_of(file)].update(part for part, _ in parts_imported(file))
    needless = {part: allowed - imported[part] for part, allowed in ALLOWED.items() if allowed - imported[part]}
    assert not needless
