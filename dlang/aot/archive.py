"""Writes the file of functions that `runtime/archive.py` loads: `dlc build` without more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import repeat
from pathlib import Path

import dlang
from dlang import __version__
from dlang.aot.exports import Built, Export
from dlang.aot.toolchain import shared_modules
from dlang.cache.records import dump
from dlang.codegen.llvm import capi, objects
from dlang.codegen.llvm.callers import caller
from dlang.compile_cache import name_of_class
from dlang.drafts import write
from dlang.host.classes import fields_of
from dlang.host.foreign import forgotten
from dlang.host.platform.objects import callable_class, can_call, slots_of
from dlang.ir.call_graph import reachable
from dlang.ir.crossing import Choice, Fields, Items, Part, Rows
from dlang.python.documentation import parameter_names
from dlang.python.module import BUILT
from dlang.runtime.archive import Archive, BuiltFunction, ClassOf, Direct, Parameter, StoredFunction, written
from dlang.runtime.direct import Code
from dlang.typecheck import core
from dlang.typecheck.headers import Param
from dlang.typecheck.printing import Names
from dlang.typecheck.types import SizeVar


def build_archive(built: Built, name: str, folder: Path) -> list[Path]:
    """Writes `NAME.dlo`; gives the file."""
    path = folder / f"{name}{BUILT}"
    write(path, archive_of(built))
    return [path]


def archive_of(built: Built) -> bytes:
    """The bytes of such a file."""
    program = reachable(built.program, [e.face.name for e in built.exports])
    source, _ = dump(replace(program, python=forgotten(program.python)), name_of_class)
    types = {c.key: (c, t) for e in built.exports for c, t in _classes(e)}
    direct = _direct(built, {key: t for key, (_, t) in types.items()})
    shared = {objects.provided_key(m.text): m.code for m in shared_modules(built)}
    if direct is not None:
        text = capi.text(direct.word)
        shared[objects.provided_key(text)] = objects.compile_object(text, made_for=built.processor)
    archive = Archive(
        built.processor,
        tuple([_kept(e) for e in built.exports]),
        built.compiled,
        forgotten(program.python),
        shared,
        source,
        direct,
    )
    record, _ = dump(archive, name_of_class)
    return written(__version__, loading_files(), dump([c for c, _ in types.values()])[0], record)


def _kept(e: Export) -> StoredFunction:
    names = Names()
    decl = e.decl
    shown, unnamed = parameter_names(decl)
    params = tuple(map(_parameter, decl.params, shown, e.defaults, repeat(names)))
    assert decl.result is not None
    result = names.type(decl.result)
    own = [v for v in decl.variables if isinstance(v, SizeVar) and v not in decl.opened]
    sizes = zip(e.face.sizes, map(names.of, own), strict=True) if len(own) == len(e.face.sizes) else ()
    return StoredFunction(e.name, decl.doc, params, unnamed, result, e.face, e.terms, e.steps, tuple(sizes), decl.span)


def _parameter(p: Param, shown: str, has_default: bool, names: Names) -> Parameter:
    t = names.type(p.local.type) if p.local.size is None else "size"
    value = p.default.value if has_default and isinstance(p.default, core.Literal) else None
    return Parameter(p.local.name, shown, t, has_default, value)


def _direct(built: Built, types: Mapping[tuple[str, int], type]) -> Direct | None:
    """Compiles the callers for direct calls, which serve a Python that lays out its objects as this one does."""
    quick = callable_class(BuiltFunction)
    if quick is None or not can_call():
        return None
    code: dict[str, Code] = {}
    for e in built.exports:
        text = caller(e.face, built.compiled.entries[e.face.name], e.terms, built.compiled.datatypes)
        if text is not None:
            code[e.name] = text.needs, objects.compile_object(text.llvm, level=0, made_for=built.processor)
    return Direct(quick.word, tuple([(key, slots_of(t)) for key, t in types.items()]), code)


def class_names(built: Built) -> set[str]:
    """The classes that functions take or give."""
    return {c.name for e in built.exports for c, _ in _classes(e)}


# ---- classes ---------------------------------------------------------------------------------------------------------
def _classes(e: Export) -> Iterator[tuple[ClassOf, type]]:
    """The structs and variants that a function takes or gives."""
    layout = e.face.layout
    for type in _types((*layout.params, layout.result)):
        yield _class(type), type
    for branches in layout.trees.values():
        for branch in branches:
            if branch.type is not None:
                yield _class(branch.type), branch.type
            for found in _types(branch.items):
                yield _class(found), found


def _class(type: type) -> ClassOf:
    key = name_of_class(type)
    assert key is not None
    return ClassOf((key.record, key.number), type.__name__, fields_of(type), type.__doc__ or "")


def _types(parts: tuple[Part, ...]) -> Iterator[type]:
    for part in parts:
        match part:
            case Fields(type, items):
                yield type
                yield from _types(items)
            case Items(items):
                yield from _types(items)
            case Choice(types, variants):
                yield from [t for t in types if t is not None]
                for items in variants:
                    yield from _types(items)
            case Rows(_, element):
                yield from _types((element,))
            case _:
                pass


# ---- the runtime beside it -------------------------------------------------------------------------------------------
# The part of this package that runs what was built, copied into another one under a name of its own.

PACKAGE = Path(dlang.__file__).parent
ROOT = "dlang.runtime.archive"
COMPILERS = frozenset({
    "dlang.runtime.build", "dlang.runtime.tiers", "dlang.codegen.llvm.linker", "dlang.codegen.llvm.callers",
    "dlang.runtime.device_calls", "dlang.runtime.device_runs", "dlang.runtime.gpu",
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
