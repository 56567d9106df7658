"""The part of this package that runs what was built, copied into another one under a name of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dlang
from dlang import __version__

PACKAGE = Path(dlang.__file__).parent
ROOT = "dlang.runtime.archive"
COMPILERS = frozenset({
    "dlang.runtime.build", "dlang.runtime.tiers", "dlang.codegen.llvm.linker", "dlang.codegen.llvm.callers",
    "dlang.runtime.device_calls", "dlang.runtime.device_runs", "dlang.runtime.recorder", "dlang.runtime.cuda",
    "dlang.host.cuda", "dlang.runtime.emulation",
})  # fmt: skip
"""The modules that are imported only where something is compiled, or runs on a device."""
_IMPORT = re.compile(r"^(\s*(?:from|import) |.* = lazy_module\(\")dlang(?=[.\s])", re.MULTILINE)


def runtime_files(package: str) -> dict[str, str]:
    """The files of the runtime as a package of that name: their texts by their paths in it."""
    files = {"__init__.py": f'"""What runs the functions of this package: a part of dlang {__version__}."""\n'}
    for name in loading_files():
        files[name] = _IMPORT.sub(rf"\g<1>{package}", (PACKAGE / name).read_text(encoding="utf-8"))
    for name in list(files):
        for folder in Path(name).parents:
            files.setdefault((folder / "__init__.py").as_posix(), "")
    return files


@cache
def loading_files() -> tuple[str, ...]:
    """The files of this package that loading and calling may import, by their paths in it."""
    found: dict[str, Path] = {}
    open = [ROOT]
    while open:
        name = open.pop()
        path = _file(name)
        if name not in found and name not in COMPILERS and name != "dlang" and path is not None:
            found[name] = path
            open += _imports(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(sorted([path.relative_to(PACKAGE).as_posix() for path in found.values()]))


def _file(name: str) -> Path | None:
    """The file of a module; None if there is none of that name."""
    place = PACKAGE.joinpath(*name.split(".")[1:])
    return next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)


def _imports(node: ast.AST) -> Iterator[str]:
    """Lists the imported names that may be modules, without imports that are only for types."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.If(test=ast.Name("TYPE_CHECKING"), orelse=other):
                for statement in other:
                    yield from _imports(statement)
            case ast.Import(names):
                yield from [a.name for a in names if a.name.startswith("dlang.")]
            case ast.ImportFrom(module=str() as module, names=names) if module.partition(".")[0] == "dlang":
                yield module
                yield from [f"{module}.{a.name}" for a in names]
            case ast.Call(ast.Name("lazy_module"), [ast.Constant(str() as module)]) if module.startswith("dlang."):
                yield module
            case _:
                yield from _imports(child)
