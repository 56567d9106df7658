"""The functions that are built ahead of time: chosen, given types, differentiated, and compiled together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlang.diagnostics import Diagnostic, DlangError, Note, Source, error
from dlang.driver import Request, check, errors_of, lower, read_source
from dlang.dump_ir import request
from dlang.ir import anf
from dlang.ir.crossing import Signature, Terms, holds_blanks, holds_code
from dlang.lazy_modules import lazy_module
from dlang.process import compiling
from dlang.python.derivatives import grad, value_and_grad
from dlang.python.function import Function
from dlang.python.instances import Program, terms_of
from dlang.runtime.compiled import Compiled, Step, Unsolvable, plan
from dlang.spelling import closest, plural
from dlang.typecheck import core
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import Checked, check_function
from dlang.typecheck.types import RowVar, TypeVar

if TYPE_CHECKING:
    from dlang.codegen.llvm.objects import Processor
    from dlang.runtime import build as runtime
    from dlang.specialize.types import Bindings
else:
    runtime = lazy_module("dlang.runtime.build")

NOT_CHOSEN = "E0986"
NOT_EXPORTED = "E0987"
DERIVATIVES = {"grad": grad, "value_and_grad": value_and_grad}


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """A function that is asked for: `form` is "" for itself, or a key of `DERIVATIVES`.

    types: of its parameters as they would be written, if it is to have others than its own. wrt: the parameters that it
    is differentiated in.
    """

    function: str
    form: str = ""
    types: tuple[str, ...] | None = None
    wrt: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return f"{self.form}_{self.function}" if self.form else self.function


@dataclass(frozen=True, slots=True)
class Chosen:
    """A function with the name that it has outside. bindings: what the variables of its scheme stand for, if it is not
    what its types say.
    """

    name: str
    decl: FnDecl
    bindings: Bindings | None = None

    @property
    def request(self) -> Request:
        return request(self.decl) if self.bindings is None else Request(self.decl, self.bindings)


@dataclass(frozen=True, slots=True)
class Export:
    """A function that can be called from outside. steps: how sizes follow from arguments."""

    name: str
    decl: FnDecl
    signature: Signature
    terms: Terms
    steps: tuple[Step, ...]

    @property
    def defaults(self) -> list[bool]:
        """Tells which parameters have a default outside: one that isn't a literal is computed by the function."""
        return [p.has_default and isinstance(p.default, core.Literal) for p in self.decl.params]


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled file. left_out: functions not asked for by name that cannot be called, with the reason."""

    checked: Checked
    exports: tuple[Export, ...]
    program: anf.Program
    compiled: Compiled
    processor: Processor
    left_out: tuple[tuple[str, str], ...] = ()


# ---- what is asked for -----------------------------------------------------------------------------------------------
def checked_file(path: str) -> Checked:
    """The checked file; its mistakes are raised."""
    checked = check(read_source(path))
    if mistakes := errors_of(checked):
        raise DlangError(mistakes)
    return checked


def chosen(checked: Checked, wanted: Sequence[ExportRequest]) -> list[Chosen]:
    """The functions that are asked for; without any, those whose types are written out."""
    program = Program(checked, "cpu")
    if not wanted:
        closed = [Chosen(d.name, d) for d in checked.module.functions.values() if _is_closed(d)]
        if not closed and not any(d.kind == "fn" for d in checked.module.functions.values()):
            raise error(NOT_CHOSEN, "the file has no functions", None)
        if not closed:
            help = ("name one: `--fn NAME=f64,f64[n]`",)
            raise error(NOT_CHOSEN, "no function of the file has its types written out", None, help=help)
        return closed
    types = {w.function: w.types for w in wanted if w.types is not None}
    out: dict[str, Chosen] = {}
    for w in wanted:
        f = _function(program, w.function, types.get(w.function))
        if w.form:
            f = DERIVATIVES[w.form](f, w.wrt if w.wrt is None or len(w.wrt) > 1 else w.wrt[0])
        out[w.name] = Chosen(w.name, f.decl)
    return list(out.values())


def _is_closed(decl: FnDecl) -> bool:
    """Tells whether a function can be built as it stands."""
    return decl.kind == "fn" and not decl.name.startswith("_") and not _is_open(decl)


def _is_open(decl: FnDecl) -> bool:
    return bool(decl.constraints) or any(isinstance(v, TypeVar | RowVar) for v in decl.variables)


def _function(program: Program, name: str, types: tuple[str, ...] | None) -> Function:
    """A function of the file, at other types if some are given."""
    functions = {n: d for n, d in program.checked.module.functions.items() if d.kind != "const"}
    decl = functions.get(name)
    if decl is None:
        close = closest(name, list(functions))
        help = (f"did you mean `{close}`?",) if close else (f"it has {', '.join(f'`{n}`' for n in functions)}",)
        raise error(NOT_CHOSEN, f"the file has no function `{name}`", None, help=help if functions else ())
    if types is not None:
        decl = _at(program.checked, decl, types)
    elif _is_open(decl):
        given = ",".join("f64" for _ in decl.params)
        help = (f"say which types it has: `--fn {name}={given}`",)
        message = f"`{name}` has no types of its own: each of its uses decides them"
        raise error(NOT_CHOSEN, message, decl.span, help=help)
    return Function(program, decl, decl.name, False)


def _at(checked: Checked, decl: FnDecl, types: tuple[str, ...]) -> FnDecl:
    """A function of given types that calls another one."""
    names = [p.local.name for p in decl.params]
    if len(types) != len(names):
        given = f"{plural(len(types), 'type')} {'is' if len(types) == 1 else 'are'} given"
        message = f"`{decl.name}` has {plural(len(names), 'parameter')}, and {given}"
        raise error(NOT_CHOSEN, message, decl.span, help=(f"it is `{decl.name}({', '.join(names)})`",))
    name = decl.name + "'"
    while name in checked.table.functions or name in names:
        name += "'"
    params = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    source = Source("<--fn>", f"fn {name}({params}) = {decl.name}({', '.join(names)})")
    declaration, diagnostics = check_function(checked, source)
    if declaration is None or _is_open(declaration):
        reasons = tuple(Note(d.message) for d in diagnostics) or (Note("they leave a dtype or a number of axes open"),)
        message = f"`{decl.name}` cannot have the types {', '.join(types)}"
        raise error(NOT_CHOSEN, message, decl.span, notes=reasons)
    declaration.name = decl.name
    return declaration


# ---- compiled --------------------------------------------------------------------------------------------------------
def build(
    checked: Checked,
    functions: Sequence[Chosen],
    processor: Processor,
    by_name: bool,
    refuse: Callable[[Export], object] = lambda export: None,
) -> Built:
    """Compiles functions for a processor.

    by_name: all were asked for; others that cannot be called are left out, and why is raised if none is left. refuse:
    raises for what cannot be called.
    """
    left_out: dict[str, Diagnostic] = {}
    exports: list[Export] = []
    while True:
        requests = [f.request for f in functions]
        program, entries = lower(requests)
        exports.clear()
        kept: list[Chosen] = []
        for f, r, entry in zip(functions, requests, entries, strict=True):
            try:
                export = _export(f, entry.signature, terms_of(r.decl, r.bindings, entry.signature, ()))
                refuse(export)
                exports.append(export)
                kept.append(f)
            except DlangError as e:
                if by_name:
                    raise
                left_out[f.name] = e.diagnostics[0]
        if len(kept) == len(functions):
            break
        functions = kept  # code that nobody can call is not compiled
    if not exports:
        raise DlangError([*left_out.values()])
    names = [e.signature.name for e in exports]
    with compiling(program.functions[names[0]].span):
        compiled = runtime.build(program, names, made_for=processor)
    why = tuple([(name, d.message) for name, d in left_out.items()])
    return Built(checked, tuple(exports), program, compiled, processor, why)


def _export(f: Chosen, signature: Signature, terms: Terms | None) -> Export:
    layout = signature.layout
    if any(holds_code(part, layout.trees) for part in (layout.result, *layout.params)):
        raise not_exported(f, "it takes or gives a function")
    if holds_blanks(layout.result, layout.trees):
        raise not_exported(f, "it gives an array of values that hold nothing")
    if terms is None:
        raise not_exported(f, "it asks for indices inside of other values")
    try:
        steps = plan(signature, terms)
    except Unsolvable:
        raise not_exported(f, "a size does not follow from the sizes of its arguments") from None
    return Export(f.name, f.decl, signature, terms, tuple(steps))


def not_exported(f: Chosen | Export, why: str, help: str = "") -> DlangError:
    """A function cannot be called from outside."""
    message = f"`{f.name}` cannot be called from outside: {why}"
    return error(NOT_EXPORTED, message, f.decl.span, help=(help,) if help else ())
