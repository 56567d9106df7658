"""Puts the stages together: from a file, or a text, to functions that run.

    checked = check(path)                           grammar, typecheck
    program, entries = lower(requests)              specialize, optimize, ad
    runner = load(program, entries, backend, host)  the interpreter, or codegen and runtime

`ready` is the last two, for one function, and skips both where an earlier process has compiled it.

Stages are imported where they are used: checking needs neither NumPy nor LLVM.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dlang.diagnostics import Diagnostic, Source, Span
from dlang.lazy_modules import lazy_module
from dlang.passes import verifying
from dlang.process import compiling, gc_paused
from dlang.runtime import devices
from dlang.runtime.failures import Runner as Runner, call as call, failure as failure
from dlang.timings import timed

if TYPE_CHECKING:
    from dlang import compile_cache, pipeline
    from dlang.ad import expand, limits as derivative_limits
    from dlang.ad.residuals import Residuals
    from dlang.host.effects import Host
    from dlang.interpret import interpreter
    from dlang.ir import anf
    from dlang.ir.crossing import Signature
    from dlang.runtime.compiled import Compiled
    from dlang.runtime.engine import Engine
    from dlang.specialize import specialize
    from dlang.specialize.instances import Instances
    from dlang.specialize.layouts import Layout
    from dlang.specialize.names import Names
    from dlang.specialize.specialize import Entry
    from dlang.specialize.structs import StructClasses
    from dlang.specialize.types import Bindings
    from dlang.typecheck import core, modules
    from dlang.typecheck.foreign import Primitive
    from dlang.typecheck.program import Checked
    from dlang.typecheck.types import DataDecl
else:
    expand = lazy_module("dlang.ad.expand")
    derivative_limits = lazy_module("dlang.ad.limits")
    compile_cache = lazy_module("dlang.compile_cache")
    interpreter = lazy_module("dlang.interpret.interpreter")
    anf = lazy_module("dlang.ir.anf")
    pipeline = lazy_module("dlang.pipeline")
    specialize = lazy_module("dlang.specialize.specialize")
    modules = lazy_module("dlang.typecheck.modules")

Backend = Literal["interp", "cpu", "cuda", "cuda-emulated"]
BACKENDS: tuple[Backend, ...] = ("interp", "cpu", "cuda", "cuda-emulated")
DETERMINISTIC = "DLANG_DETERMINISTIC"
"""The environment variable with which a GPU gives the same floats in every run."""
Observer = Callable[[str, "anf.Program"], None]
Trees = dict[str, tuple["DataDecl", tuple["Layout", ...]]]
Functions = dict[str, tuple["Layout", ...]]
Extension = Callable[["anf.Program", "Sequence[Entry]"], tuple["anf.Program", list[str]]]


@dataclass(frozen=True)
class Request:
    """A function to compile; `bindings` says what the variables of its scheme stand for, sizes excepted."""

    decl: core.FnDecl
    bindings: Bindings = field(default_factory=dict)


def read_source(path: str) -> Source:
    """The text of a file; a file that can't be read is a diagnostic."""
    return Source(path, modules.read(path))


def check(source: Source, search_path: Sequence[str] = (), primitives: Sequence[Primitive] = ()) -> Checked:
    """Parses and checks a text and what it imports; mistakes are in `diagnostics` of the result.

    primitives: functions of Python that it may call by name.
    """
    from dlang.typecheck.program import check_source

    return check_source(source, tuple(search_path), primitives=primitives)


def errors_of(checked: Checked) -> list[Diagnostic]:
    return [d for d in checked.diagnostics if d.severity == "error"]


def lower(
    requests: Sequence[Request],
    *,
    verify: bool | None = None,
    observe: Observer | None = None,
    structs: StructClasses | None = None,
    extend: Extension | None = None,
    residuals: list[Residuals] | None = None,
    bound: Sequence[int] = (),
    runs: bool = True,
    device: bool = False,
) -> tuple[anf.Program, list[Entry]]:
    """The optimised program in which every requested function is a function, and these in order.

    verify: whether the program is verified after each pass; None leaves that to the environment (`passes.py`).
    structs: the classes by which functions of Python know structs. extend: adds functions of its own to the program
    before it is optimised, and names them. residuals: gets those of each derivative in reverse mode. bound: the
    parameters of the last function that are given early; it is split then (`optimize/staging.py`). runs: whether the
    program is to run; for one that is only looked at, no module of Python is imported and no library loaded. device:
    whether it is for one.
    """
    specializer = specialize.Specializer(runs=runs) if structs is None else specialize.Specializer(structs, runs=runs)
    with compiling(requests[0].decl.span if requests else None), gc_paused():
        with timed("specialise"):
            entries = [specializer.entry(r.decl, r.bindings) for r in requests]
        program, names = specializer.program, [e.name for e in entries]
        if extend is not None:
            program, more = extend(program, entries)
            names += more
        given = {names[len(entries) - 1]: _early(entries[-1], bound)} if bound else None
        return pipeline.optimise(
            program, names, verify=verify, observe=observe, residuals=residuals, given=given, device=device
        ), entries


def _early(entry: Entry, bound: Sequence[int]) -> frozenset[int]:
    """The parameters of an entry's function that are known when some of its own are: their leaves, and the sizes that
    these say."""
    known = entry.signature.early(bound)
    before = len(entry.sizes)  # a token comes behind the sizes
    return frozenset([k + (entry.token and k >= before) for k in known])


def followed(request: Request) -> tuple[anf.Program, Entry, Names, Trees, Functions]:
    """A program to be followed step by step: as it was written, with the names of its variables, and how the values of
    its types that contain themselves are kept, and the functions that are known only when it runs. Derivatives are
    expanded, and nothing is optimised."""
    from dlang.specialize.names import Names

    names = Names()
    program, entry, instances = _expanded(request, names)
    trees = {n.name: (n.decl, n.layouts) for n in instances.nodes.named.values()}
    functions = {n: tuple([m.layout for m in a.members.values()]) for n, a in instances.arrows.named.items()}
    return program, entry, names, trees, functions


def expanded(request: Request) -> tuple[anf.Program, Entry]:
    """A program to be run once by the interpreter: derivatives are expanded, and nothing is optimised."""
    program, entry, _ = _expanded(request, None)
    return program, entry


def _expanded(request: Request, names: Names | None) -> tuple[anf.Program, Entry, Instances]:
    specializer = specialize.Specializer(names=names)
    with compiling(request.decl.span), gc_paused():
        entry = specializer.entry(request.decl, request.bindings)
        program = expand.expand(derivative_limits.with_limits(specializer.program))
        if verifying():
            before = pipeline.verified(specializer.program, "specialisation")
            pipeline.verified(program, "the expansion of derivatives", before)
        return program, entry, specializer.instances


def split(
    request: Request,
    bound: Sequence[int],
    backend: Backend,
    host: Host,
    *,
    structs: StructClasses | None = None,
    refuse: Callable[[Signature], None] = lambda signature: None,
    profile: bool = False,
    deterministic: bool = False,
) -> tuple[Runner, Signature]:
    """A function ready to run in two steps: what follows from the parameters that are bound, then the rest.

    The first is called `early_name(signature.name)`; what it gives are further arguments of the second.
    profile: as code that measures itself. deterministic: as in `Engine`.
    """
    program, (entry,) = lower([request], structs=structs, bound=bound, device=backend in devices.DEVICES)
    refuse(entry.signature)
    if backend == "interp":
        return interpreter.Interpreter(program, host), entry.signature
    engine = _engine(backend, host, profile, deterministic)
    return engine.compile(program, [entry.name, anf.early_name(entry.name)]), entry.signature


def load(
    program: anf.Program, entries: Sequence[Entry], backend: Backend, host: Host, *, tiers: bool = False
) -> Runner:
    """The program, ready to run. tiers: with native code that is made as well as calls are worth it, instead of the
    best.
    """
    if backend == "interp":
        return interpreter.Interpreter(program, host)
    engine = _engine(backend, host)
    if not tiers:
        engine.tiers = None
    return engine.compile(program, [e.name for e in entries])


def ready(
    checked: Checked,
    request: Request,
    backend: Backend,
    host: Host,
    *,
    structs: StructClasses | None = None,
    refuse: Callable[[Signature], None] = lambda signature: None,
    profile: bool = False,
    deterministic: bool = False,
) -> tuple[Runner, Signature]:
    """A function of a checked program, ready to run: as an earlier process has left it, or compiled now.

    structs: the classes by which functions of Python know structs. refuse: raises for a function that is not wanted.
    profile: as code that measures itself. deterministic: as in `Engine`.
    """
    if backend == "interp":
        program, (entry,) = lower([request], structs=structs)
        refuse(entry.signature)
        return load(program, [entry], backend, host), entry.signature
    from dlang.specialize.structs import StructClasses

    engine = _engine(backend, host, profile, deterministic)
    classes = StructClasses() if structs is None else structs
    wanted = engine.profile, engine.debug, engine.sanitizes
    options = repr(  # what was compiled without verification is none that was verified
        (backend in devices.DEVICES, engine.deterministic, engine.level, engine.grain, *wanted, verifying())
    )
    place = compile_cache.place_of(checked, request.decl, request.bindings, classes, options)
    kept = place.find() if place is not None else None
    if kept is not None:
        compiled, signature, python = kept
    else:
        program, (entry,) = lower([request], structs=classes, device=backend in devices.DEVICES)
        signature, python = entry.signature, program.python
        refuse(signature)
        compiled = engine.build(program, [entry.name])

    def keep(compiled: Compiled) -> None:
        if place is not None and not compiled.brings_kernels:
            place.keep(compiled, signature, python)

    if kept is None and compiled.draft is None:
        keep(compiled)
    return engine.load(compiled, python, place, keep), signature


def is_deterministic(asked: bool = False) -> bool:
    """Tells whether floats must be the same in every run: because it is asked for, or the environment says so."""
    return asked or os.environ.get(DETERMINISTIC, "0") not in ("", "0")


def _engine(backend: Backend, host: Host, profile: bool = False, deterministic: bool = False) -> Engine:
    """An engine of a back end, native code for calls of which nobody knows how many there will be.

    Code that measures itself, or knows the lines of its sources, is for those who look at what is always run.
    """
    from dlang.runtime.engine import Engine
    from dlang.runtime.tiers import usual_tiers

    engine = Engine(
        host, profile=profile, driver=devices.driver_of(backend), deterministic=is_deterministic(deterministic)
    )
    if engine.driver is None and not engine.profile and not engine.debug:
        engine.tiers = usual_tiers()
    return engine


def nowhere(path: str) -> Span:
    """A span for code that nobody wrote, such as the call of `main`."""
    return Span(Source(path, ""), 0, 0)
