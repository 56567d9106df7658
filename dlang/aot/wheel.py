"""A package of Python around functions that were built: `dlc build --wheel`.

It needs NumPy and, for linear algebra, OpenBLAS. What runs the functions is in it as a package of its own, so that it
goes with any version of the compiler, and with none.
"""

from __future__ import annotations

import base64
import hashlib
import keyword
import re
import sys
import zipfile
from collections.abc import Container, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from dlang import __version__
from dlang.aot.archive import PACKAGE, archive_of, class_names, runtime_files
from dlang.aot.exports import NOT_CHOSEN, Built, Export
from dlang.aot.toolchain import refuse_other_systems
from dlang.diagnostics import error
from dlang.drafts import draft
from dlang.ops.linear_algebra import OPERATIONS
from dlang.python.documentation import is_name
from dlang.python.module import datatypes
from dlang.python.stubs import Hints, datatype, docstring, imports, parameters
from dlang.runtime.archive import trailing
from dlang.typecheck.program import scheme_text

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
    found = next((f for f in files if f.name == "LICENSE"), None)
    return None if found is None else Path(str(found.locate())).read_bytes()


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
