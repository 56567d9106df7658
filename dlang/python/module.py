"""Modules of the language as modules of Python, and how many threads work on their loops."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import DlangError, Source, error, render
from dlang.driver import BACKENDS, Backend, check, errors_of, read_source
from dlang.lazy_modules import lazy_module
from dlang.python import kinds
from dlang.python.callables import Primitive, declared
from dlang.python.function import Function
from dlang.python.instances import COMPILATIONS, Program
from dlang.python.origins import LIVE, Module, Origin, absolute, reducing
from dlang.runtime.threads import checked, default_pool
from dlang.specialize.structs import StructClasses
from dlang.typecheck.headers import CoreModule
from dlang.typecheck.types import DataDecl, Shape, Size, TypeData, children, resolve

if TYPE_CHECKING:
    from dlang.runtime import archive
    from dlang.typecheck.program import Checked
else:
    archive = lazy_module("dlang.runtime.archive")

BUILT = ".dlo"
"""How the names of files end that `dlc build` makes."""


def load(
    path: str | Path,
    backend: Backend = "cpu",
    *,
    primitives: Sequence[Primitive] = (),
    deterministic: bool = False,
) -> ModuleType:
    """The module in a file. Its functions are callables, its structs are dataclasses.

    primitives: functions of Python that the file may call by name (not the modules that it imports). deterministic: a
    GPU gives the same floats in every run, also where threads add to the same elements. In a file that `dlc build` has
    made (`.dlo`) is native code, for which neither of these has a meaning.
    """
    if Path(path).suffix == BUILT:
        built = ModuleType(Path(path).stem)
        _fill(built, Path(path))
        return built
    module = Module(Path(path).stem)
    populate(module, read_source(str(path)), backend, primitives, deterministic)
    return module


def _fill(module: ModuleType, path: Path) -> None:
    """Puts what was built ahead of time into a module."""
    from dlang import __version__

    try:
        data = path.read_bytes()
    except OSError as e:
        raise error("E0951", f"cannot read `{path}`: {e.strerror}", None) from None
    archive.check_maker(data, str(path), __version__)
    module.__dict__.update(archive.open_archive(data, str(path), module.__name__), __file__=str(path))


def compile(
    text: str, backend: Backend = "cpu", *, primitives: Sequence[Primitive] = (), deterministic: bool = False
) -> ModuleType:
    """The module that a text is; what it imports is found beside the working directory, and in the library.

    primitives: functions of Python that it may call by name. deterministic: as of `load`.
    """
    if not isinstance(text, str):
        raise TypeError(f"a program is a str, not {type(text).__name__}")
    module = Module("dlang_text")
    populate(module, Source("<text>", text), backend, primitives, deterministic)
    return module


def compilations() -> int:
    """How many instances have been compiled in this process: one for each function, dtypes and ranks, not sizes."""
    return COMPILATIONS.total


def populate(
    module: ModuleType,
    source: Source,
    backend: Backend,
    primitives: Sequence[Primitive] = (),
    deterministic: bool = False,
) -> Program:
    """Checks a source and puts what it defines into a module; mistakes raise a `DlangError`."""
    if backend not in BACKENDS:
        raise error("E0963", f"there is no backend `{backend}`; there are {', '.join(BACKENDS)}", None)
    checked = check(source, primitives=[declared(p) for p in primitives])
    if mistakes := errors_of(checked):
        raise DlangError(mistakes)
    for diagnostic in checked.diagnostics:
        warnings.warn(render(diagnostic), stacklevel=3)
    key, path = checked.table.key, absolute(source)
    origin = Origin(module.__name__, path, "" if path else source.text, key, backend, deterministic, tuple(primitives))
    names = module.__dict__
    names["__file__"] = source.path
    classes = StructClasses({**reducing(origin), **kinds.MEMBERS})
    program = define(names, checked, backend, deterministic=deterministic, classes=classes)
    program.origin, program.module = origin, module
    LIVE[origin] = program
    names["__dlang__"] = program
    # a constant is computed when it is first asked for
    names["__getattr__"] = _constants(module, program, checked.module)
    constants = [n for n, fn in checked.module.functions.items() if fn.kind == "const" and not n.startswith("_")]
    names["__dir__"] = lambda: sorted({*names, *constants})
    return program


def define(
    names: dict[str, Any],
    checked: Checked,
    backend: Backend,
    *,
    deterministic: bool = False,
    classes: StructClasses | None = None,
) -> Program:
    """Puts the functions of a checked program, and the classes of its structs and variants, under their names.

    classes: those of structs that are known already. The program is what the functions belong to.
    """
    program = Program(checked, backend, classes or StructClasses(), deterministic=deterministic)
    core = checked.module
    members: dict[str, Any] = {}
    for decl in datatypes(core):
        if decl.module == core.name and decl.name.startswith("_"):
            continue
        if decl.is_struct:
            members.setdefault(decl.name, program.classes.of(decl))
        else:
            for variant in decl.variants:
                members.setdefault(variant.name, program.classes.variant(decl, variant))
    for name, fn in core.functions.items():
        if fn.kind != "const" and not name.startswith("_"):
            members[name] = program.functions[name] = Function(program, fn, name, bool(fn.constraints))
    names |= members
    return program


def datatypes(core: CoreModule) -> Iterator[DataDecl]:
    """The structs and enums of a module, then those of others that its types and functions mention, each once."""
    seen = dict.fromkeys(core.types.values())
    yield from seen
    work = [t for d in core.types.values() for v in d.variants for _, t in v.fields]
    work += [t for f in core.functions.values() for t in (*[p.local.type for p in f.params], f.result) if t is not None]
    while work:
        t = resolve(work.pop())
        work += [part for part in children(t) if not isinstance(part, Shape | Size)]
        if isinstance(t, TypeData) and t.decl not in seen:
            seen[t.decl] = None
            yield t.decl
            work += [field for v in t.decl.variants for _, field in v.fields]


def _constants(module: ModuleType, program: Program, core: CoreModule) -> Any:
    def attribute(name: str) -> Any:
        decl = core.functions.get(name)
        if decl is None or decl.kind != "const" or name.startswith("_"):
            raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'", name=name, obj=module)
        value = program.prepare(decl, {})(())
        module.__dict__[name] = value
        return value

    return attribute


# ---- threads ---------------------------------------------------------------------------------------------------------
# How many threads work on the large loops of compiled code.


def set_threads(count: int) -> None:
    """Lets so many threads work on a large loop, the one that calls included; 1 for no others.

    Without it the environment variable DLANG_THREADS says how many, or else there is one for each processor that this
    process may use. Results have the same bits with any number. A number that can't be is a `DlangError`.
    """
    if not isinstance(count, int):
        raise TypeError(f"the number of threads is an int, not {type(count).__name__}")
    default_pool().limit(checked(count, "`count`"))
