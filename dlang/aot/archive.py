"""Writes the file of functions that `runtime/archive.py` loads (`dlc build` without more), and a package of Python
around it (`dlc build --wheel`).

The package needs NumPy and, for linear algebra, OpenBLAS. What runs the functions is in it as a package of its own, so
that it goes with any version of the compiler, and with none.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import keyword
import re
import sys
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from itertools import repeat
from pathlib import Path

import dlang
from dlang import __version__
from dlang.aot.exports import NOT_CHOSEN, Built, Export
from dlang.aot.toolchain import refuse_other_systems, shared_modules
from dlang.cache.records import dump
from dlang.codegen.llvm import capi, objects
from dlang.codegen.llvm.callers import caller
from dlang.compile_cache import name_of_class
from dlang.diagnostics import error
from dlang.drafts import draft, write
from dlang.host.classes import fields_of
from dlang.host.foreign import forgotten
from dlang.host.platform.objects import callable_class, can_call, slots_of
from dlang.ir.crossing import Choice, Fields, Items, Part, Rows
from dlang.ir.traverse import reachable
from dlang.ops.linear_algebra import OPERATIONS
from dlang.python.documentation import is_name, parameter_names
from dlang.python.module import BUILT, datatypes
from dlang.python.stubs import Hints, datatype, docstring, imports, parameters
from dlang.runtime.archive import Archive, BuiltFunction, ClassOf, Direct, Parameter, StoredFunction, trailing, written
from dlang.runtime.direct import Code
from dlang.typecheck import core, refinements
from dlang.typecheck.headers import Param
from dlang.typecheck.printing import Names
from dlang.typecheck.program import scheme_text
from dlang.typecheck.types import SizeVar


def build_archive(built: Built, name: str, folder: Path) -> list[Path]:
    """Writes `NAME.dlo`; gives the file."""
    path = folder / f"{name}{BUILT}"
    write(path, archive_of(built))
    return [path]


def archive_of(built: Built) -> bytes:
    """The bytes of such a file."""
    program = reachable(built.program, [e.signature.name for e in built.exports])
    source, _ = dump(replace(program, python=forgotten(program.python)), name_of_class)
    types = {c.key: (c, t) for e in built.exports for c, t in _classes(e)}
    direct = _direct(built, {key: t for key, (_, t) in types.items()})
    shared = {objects.provided_key(m.text): m.code for m in shared_modules(built)}
    if direct is not None:
        text = capi.text(direct.word)
        shared[objects.provided_key(text)] = objects.compile_shared(text, built.processor)
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
    sizes_declared = [v for v in decl.variables if isinstance(v, SizeVar) and v not in decl.opened]
    sizes = (
        zip(e.signature.sizes, map(names.of, sizes_declared), strict=True)
        if len(sizes_declared) == len(e.signature.sizes)
        else ()
    )
    return StoredFunction(
        e.name, decl.doc, params, unnamed, result, e.signature, e.terms, e.steps, tuple(sizes), decl.span
    )


def _parameter(p: Param, shown: str, has_default: bool, names: Names) -> Parameter:
    is_size = p.local.size is not None and p.local.refinement is None
    t = "size" if is_size else refinements.written(p.local.type, p.local.refinement, names)
    value = p.default.value if has_default and isinstance(p.default, core.Literal) else None
    return Parameter(p.local.name, shown, t, has_default, value)


def _direct(built: Built, types: Mapping[tuple[str, int], type]) -> Direct | None:
    """Compiles the callers for direct calls, which serve a Python that lays out its objects as this one does."""
    quick = callable_class(BuiltFunction)
    if quick is None or not can_call():
        return None
    code: dict[str, Code] = {}
    for e in built.exports:
        text = caller(e.signature, built.compiled.entries[e.signature.name], e.terms, built.compiled.datatypes)
        if text is not None:
            code[e.name] = text.needs, objects.compile_object(text.llvm, level=0, made_for=built.processor)
    return Direct(quick.word, tuple([(key, slots_of(t)) for key, t in types.items()]), code)


def class_names(built: Built) -> set[str]:
    """The classes that functions take or give."""
    return {c.name for e in built.exports for c, _ in _classes(e)}


# ---- classes ---------------------------------------------------------------------------------------------------------
def _classes(e: Export) -> Iterator[tuple[ClassOf, type]]:
    """The structs and variants that a function takes or gives."""
    layout = e.signature.layout
    for type in _types((*layout.params, layout.result)):
        yield _class(type), type
    for branches in layout.trees.values():
        for branch in branches:
            if branch.type is not None:
                yield _class(branch.type), branch.type
            for leaf_type in _types(branch.items):
                yield _class(leaf_type), leaf_type


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
    files: dict[str, Path] = {}
    open = [ROOT]
    while open:
        name = open.pop()
        path = _file(name)
        if name not in files and name not in COMPILERS and name != "dlang" and path is not None:
            files[name] = path
            open += _imports(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(sorted([path.relative_to(PACKAGE).as_posix() for path in files.values()]))


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


TAG = "py3-none-manylinux_2_28_x86_64"
"""The machine code needs functions of mathematics that glibc has had since then, and no particular Python."""
NUMPY = "numpy>=2.0"
OPENBLAS = "scipy-openblas32>=0.3.34"
PYTHON = ">=3.11"
NEEDED = ("dlang", "numpy", "scipy_openblas32")
NAME = re.compile(r"[A-Za-z0-9]|[A-Za-z0-9]\w*[A-Za-z0-9]", re.ASCII)
NUMBER = r"(0|[1-9]\d*)"
VERSION = re.compile(rf"{NUMBER}(\.{NUMBER})*((a|b|rc){NUMBER})?(\.post{NUMBER})?(\.dev{NUMBER})?")
"""Of PEP 440, without rare forms."""
REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w., -]*\])? *(([<>=!~]=?=?|@) *[^;\s]+)? *(;.*)?", re.ASCII)
MOMENT = (1980, 1, 1, 0, 0, 0)  # of all files: the first that there is


def build_wheel(built: Built, name: str, version: str, requires: Sequence[str], folder: Path) -> list[Path]:
    """Writes the wheel; gives the file. requires: what the functions need beside NumPy, as pip says it."""
    refuse_other_systems()
    package = name.replace("-", "_")
    if (why := _unfit(package)) is not None:
        raise error(NOT_CHOSEN, f"`{name}` is no name for a package{why}", None, help=("choose one: `--name model`",))
    if VERSION.fullmatch(version) is None:
        help = ("a version is written like 1.0, 1.2.3 or 2.0rc1",)
        raise error(NOT_CHOSEN, f"`{version}` is no version of a package", None, help=help)
    for text in requires:
        if REQUIREMENT.fullmatch(text) is None:
            help = ("write it as `pip` takes it: `--requires 'rich>=13'`",)
            raise error(NOT_CHOSEN, f"`{text}` names no package that is needed", None, help=help)
    if any(s.startswith("scipy_") for s in built.compiled.imports) or _calls_lapack(built):
        requires = [OPENBLAS, *requires]
    release = f"{re.sub('[-_]+', '_', name).lower()}-{version}"  # as the specification of wheels has names
    info = f"{release}.dist-info"
    files = _package(built, package)
    files[f"{info}/METADATA"] = _metadata(built, name, version, requires).encode()
    about = ["Wheel-Version: 1.0", f"Generator: dlang {__version__}", "Root-Is-Purelib: false", f"Tag: {TAG}", ""]
    files[f"{info}/WHEEL"] = "\n".join(about).encode()
    if (license := _license()) is not None:
        files[f"{info}/licenses/LICENSE.dlang"] = license
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / f"{release}-{TAG}.whl"
    with draft(path) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for where, data in files.items():
            entry = zipfile.ZipInfo(where, MOMENT)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return [path]


def _unfit(package: str) -> str | None:
    """Why a package cannot have a name; None if it can."""
    if NAME.fullmatch(package) is None or keyword.iskeyword(package):
        return ""
    if package in sys.stdlib_module_names:
        return ", for it is one of Python's own"
    return ", for another one has it that is needed beside" if package.lower() in NEEDED else None


def _calls_lapack(built: Built) -> bool:
    """Tells whether the runtime may call LAPACK for a program."""
    return any(s.name == "library" and OPERATIONS[s.parts[0]].matrices for s in built.compiled.sites)


def _package(built: Built, package: str) -> dict[str, bytes]:
    runtime = runtime_files(f"{package}._dlang")
    files = {f"{package}/_dlang/{path}": text.encode() for path, text in runtime.items()}
    files[f"{package}/__init__.py"] = _init(built, package).encode()
    files[f"{package}/__init__.pyi"] = stubs(built, class_names(built)).encode()
    files[f"{package}/py.typed"] = b""
    files[f"{package}/functions.dlo"] = archive_of(built)
    return files


def _init(built: Built, package: str) -> str:
    doc = f"Functions that dlang {__version__} has compiled for {built.processor.name}."
    return f'''"""{doc}"""

from pathlib import Path as _Path

from {package}._dlang.diagnostics import DlangError
from {package}._dlang.runtime.archive import open_archive as _open_archive

_file = _Path(__file__).with_name("functions.dlo")
_found = _open_archive(_file.read_bytes(), "{package}", __name__)
globals().update(_found)
__all__ = ["DlangError", *_found]
'''


def _metadata(built: Built, name: str, version: str, requires: Sequence[str]) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {name}",
        f"Version: {version}",
        f"Summary: Functions compiled by dlang for {built.processor.name}",
        f"Requires-Python: {PYTHON}",
        *[f"Requires-Dist: {r}" for r in (NUMPY, *requires)],
        *(["License-File: LICENSE.dlang"] if _license() is not None else []),
    ]
    return "\n".join(lines) + "\n"


def _license() -> bytes | None:
    """The license of the runtime that is in the package; None where it was installed without."""
    beside = PACKAGE.parent / "LICENSE"
    if beside.is_file():
        return beside.read_bytes()
    try:
        files = distribution("dlang").files or []
    except PackageNotFoundError:
        return None
    license = next((f for f in files if f.name == "LICENSE"), None)
    return None if license is None else Path(str(license.locate())).read_bytes()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


IMPORTS = {
    "dataclasses": ("dataclass",),
    "typing": ("Any", "TypeAlias"),
    "numpy.typing": ("NDArray",),
}
ERROR = "DlangError"


def stubs(built: Built, classes: Container[str]) -> str:
    """Stubs for the functions, and for the dataclasses that they take and give, which are known by their names."""
    types = [d for d in datatypes(built.checked.module) if any(v.name in classes for v in d.variants)]
    names = [e.name for e in built.exports]
    hints = Hints({ERROR, *names, *[d.name for d in types], *[v.name for d in types for v in d.variants]})
    parts = ["\n".join(imports(hints, IMPORTS)), f"class {ERROR}(Exception): ..."]
    parts += ["\n".join(datatype(hints, d)) for d in types]
    parts += ["\n".join(_function(hints, e)) for e in built.exports]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _function(hints: Hints, e: Export) -> Iterator[str]:
    if not is_name(e.name):
        yield f"# `{e.name}` is no name of Python: getattr(module, {e.name!r})"
        return
    assert e.decl.result is not None
    types = [hints.of(p.local.type, given=True) for p in e.decl.params]
    given = ", ".join(parameters(hints, e.decl, types, trailing(e.defaults)))
    yield f"def {e.name}({given}) -> {hints.of(e.decl.result)}:"
    yield from docstring(f"{scheme_text(e.decl)}\n\n{e.decl.doc}".strip())
