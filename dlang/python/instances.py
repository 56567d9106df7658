"""The compiled instances of one program, each made when it is first needed.

An instance is keyed by the function and by the dtypes and ranks of its arguments, so one compilation serves every size.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dlang.cache.store import digest
from dlang.diagnostics import DlangError, Note, Source, error
from dlang.driver import Backend, Request, Runner, call, failure, ready, split
from dlang.host.conversion import built, flattened
from dlang.host.effects import Host
from dlang.ir.crossing import Leaf, Signature, Terms, holds_blanks, holds_code
from dlang.ir.terms import Scalar, fresh, poly
from dlang.lazy_modules import lazy_module
from dlang.polynomials import Poly
from dlang.python.arguments import mono_text
from dlang.python.callables import Handles, Passed
from dlang.python.indices import indices_asked
from dlang.runtime.devices import DEVICES
from dlang.specialize.structs import StructClasses
from dlang.specialize.types import (
    Bindings,
    Mono,
    MonoArray,
    MonoName,
    MonoTuple,
    bindings_key,
    entry_sizes,
    sizes_of_binding,
)
from dlang.typecheck import types as ty
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import Checked, check_function
from dlang.typecheck.scope import FnEntry
from dlang.typecheck.terms import size_of_param
from dlang.typecheck.types import DataDecl, Floor, Size, SizeAtom, SizeVar

if TYPE_CHECKING:
    from dlang.ir import anf
    from dlang.ir.terms import Var
    from dlang.python.function import Function
    from dlang.python.origins import Origin
    from dlang.runtime import engine
    from dlang.runtime.direct import DirectEntry, Table
    from dlang.typecheck import trees
else:
    anf = lazy_module("dlang.ir.anf")
    engine = lazy_module("dlang.runtime.engine")
    trees = lazy_module("dlang.typecheck.trees")


@dataclass
class Counter:
    """Compilations since the process began."""

    total: int = 0


COMPILATIONS = Counter()
DIRECT_FROM = 2
"""The call of an instance from which on it is worth while to compile what makes further ones quick."""


@dataclass(slots=True)
class Instance:
    """A compiled function. terms: what calls without a detour have to know, or None if they need Python for indices.

    device: whether arguments may be on one. calls: how many went through Python. direct: how it is called without a
    detour, once that has been asked.
    """

    runner: Runner
    entry: Signature
    bound: tuple[int, ...]
    terms: Terms | None
    device: bool
    calls: int = 0
    direct: DirectEntry | None = None

    def table(self, arguments: Sequence[Any], word: int, generic: bool, passed: Sequence[Any] = ()) -> Table | None:
        """Returns the table by which calls like this do without Python; None if they need it, or are too few for the
        trouble.

        word: where what is called has the address of its record. generic: whether arguments say what types it is at.
        passed: of a split function, all that is passed.
        """
        self.calls += 1
        if self.calls == DIRECT_FROM:
            self.direct = self._direct(word)
        return None if self.direct is None else self.direct.table(arguments, passed, generic)

    def _direct(self, word: int) -> DirectEntry | None:
        from dlang.runtime.direct import direct_entry

        if not isinstance(self.runner, engine.CompiledProgram) or self.terms is None:
            return None
        return direct_entry(self.runner, self.entry, self.terms, word, failure)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compiled function with the sizes of a call: all that is left are the leaves of the arguments."""

    instance: Instance
    sizes: tuple[int, ...]

    @property
    def entry(self) -> Signature:
        return self.instance.entry

    def given(self, values: Sequence[Any]) -> tuple[Prepared, list[Any]] | None:
        """This with the sizes that only arguments say, and the leaves of arguments that have been matched; None if one
        holds itself.
        """
        layout = self.entry.layout
        known = dict(zip(self.entry.sizes, self.sizes, strict=False))
        sizes = [int(s.evaluate(known.__getitem__)) if set(s.atoms()) <= known.keys() else None for s in layout.sizes]
        device = self.instance.device
        leaves = flattened(list(zip(layout.params, values, strict=True)), sizes, layout.trees, device)
        further = self.entry.sizes[len(self.sizes) :]
        if leaves is None or not further:
            return None if leaves is None else (self, leaves)
        extents = {s.atom: n or 0 for s, n in zip(layout.sizes, sizes, strict=True)}
        return Prepared(self.instance, (*self.sizes, *[extents[v] for v in further])), leaves

    def __call__(self, leaves: Sequence[Any], seed: int = 0, early: Sequence[Any] = ()) -> Any:
        """early: of a split function, what it gives early."""
        layout = self.entry.layout
        results = call(self.instance.runner, self.entry, self.sizes, [*leaves, *early], seed)
        return built((layout.result,), iter(results), layout.trees)[0]

    def early(self, leaves: Sequence[Any]) -> list[Any]:
        """Runs the early part of a split function, on the leaves of its bound arguments among all; raises RunError."""
        known = self.entry.early(self.instance.bound)
        passed = self.passed(leaves)
        return list(self.instance.runner.run(anf.early_name(self.entry.name), [passed[k] for k in known]))

    def passed(self, leaves: Sequence[Any], seed: int = 0, early: Sequence[Any] = ()) -> list[Any]:
        """All that is passed to the entry."""
        return [*self.sizes, *([seed] if self.entry.seed else []), *leaves, *early]


@dataclass
class Program:
    """A checked file with what has been compiled of it. profile: as code that measures itself. deterministic: a device
    gives the same floats in every run. origin: where it comes from, for other processes; module, functions: what Python
    sees of it.
    """

    checked: Checked
    backend: Backend
    classes: StructClasses = field(default_factory=StructClasses)
    host: Host = field(default_factory=Host)
    handles: Handles = field(default_factory=Handles)
    profile: bool = False
    deterministic: bool = False
    origin: Origin | None = None
    module: ModuleType = field(default_factory=lambda: ModuleType("dlang_text"))
    functions: dict[str, Function] = field(default_factory=dict)
    settled: Settled = field(init=False)
    _instances: dict[object, Instance] = field(default_factory=dict)
    _twin: Program | None = None
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        self.settled = Settled(self.checked)

    @property
    def key(self) -> str:
        """Returns the key of the program: its text and imports, how it is run, and the primitives of this process."""
        given = str([id(p) for p in self.origin.primitives]) if self.origin is not None else ""
        return digest(self.checked.table.key, self.backend, str(self.deterministic), given)

    @property
    def on_device(self) -> bool:
        """Tells whether arrays that it takes and gives may be on a device."""
        return self.backend in DEVICES

    def measured(self) -> Program:
        """The same as compiled code that measures itself."""
        with self._lock:
            if self._twin is None:
                backend: Backend = "cpu" if self.backend == "interp" else self.backend
                self._twin = Program(
                    self.checked, backend, self.classes, self.host, self.handles, True, self.deterministic
                )
            return self._twin

    def compiled(self) -> list[engine.CompiledProgram]:
        """Returns the instances that are compiled to machine code."""
        return [i.runner for i in self._instances.values() if isinstance(i.runner, engine.CompiledProgram)]

    def prepare(self, decl: FnDecl, bindings: Bindings, bound: tuple[int, ...] = ()) -> Prepared:
        """A call where the variables of the function's scheme stand for `bindings`; compiles what is new.

        bound: the parameters that are given early.
        """
        instance = self._instance(decl, bindings, bound)
        sizes = tuple([int(s.constant or 0) for s in entry_sizes(decl.variables, bindings)])
        return Prepared(instance, sizes)

    def _instance(self, decl: FnDecl, bindings: Bindings, bound: tuple[int, ...]) -> Instance:
        ordered = {v: bindings[v] for v in decl.variables if v in bindings}
        key = (decl, bindings_key(ordered, lambda _: None), bound)
        with self._lock:
            if key not in self._instances:
                request = Request(decl, ordered)
                make = partial(split, request, bound) if bound else partial(ready, self.checked, request)
                runner, entry = make(
                    self.backend,
                    self.host,
                    structs=self.classes,
                    refuse=partial(_refuse_formless, decl),
                    profile=self.profile,
                    deterministic=self.deterministic,
                )
                terms = terms_of(decl, ordered, entry, bound)
                self._instances[key] = Instance(runner, entry, bound, terms, self.on_device)
                COMPILATIONS.total += 1
            return self._instances[key]


def terms_of(decl: FnDecl, bindings: Bindings, entry: Signature, bound: tuple[int, ...]) -> Terms | None:
    """Returns the terms on which a caller can call a function; None where Python has to look at arguments."""
    variables: dict[object, Var] = {}
    sizes = iter(entry.sizes)
    for v, b in bindings.items():
        numbers = [next(sizes) for _ in sizes_of_binding(b)]
        if isinstance(v, SizeVar):
            (variables[v],) = numbers
    quotients = _Quotients(variables)
    said: dict[anf.Size, Size] = {}
    for param, part in zip(decl.params, entry.layout.params, strict=True):
        match ty.resolve(param.local.type), part:
            case ty.TypeArray(_, shape), Leaf(_, axes) if ty.resolve_shape(shape).row is None:
                said |= zip([entry.layout.sizes[n] for n in axes], ty.resolve_shape(shape).pre, strict=True)
    only_said = list(sizes)  # by arguments, and compared with what they have to be
    asked = indices_asked(decl)
    if asked is None or not all(poly(v) in said for v in only_said):
        return None
    try:
        wanted = tuple([(v, quotients.size(said[poly(v)])) for v in only_said])
        indices = tuple([(k, quotients.size(Size(below))) for k, below in asked])
    except KeyError:
        return None
    values = tuple([(k, variables[p.local.size]) for k, p in enumerate(decl.params) if p.local.size in variables])
    return Terms(values, indices, bound, tuple(quotients.made), wanted)


@dataclass(frozen=True, slots=True)
class _Quotients:
    """Sizes of types as sizes of the IR, whose quotients are variables. made: those, and what is divided by what."""

    variables: Mapping[object, Var]
    made: list[tuple[Var, anf.Size, anf.Size]] = field(default_factory=list)

    def size(self, size: Size) -> anf.Size:
        """Returns a size; raises KeyError for a variable that no argument says."""
        total = poly(0)
        for monomial, factor in ty.resolve_size(size).poly.terms.items():
            term: anf.Size = Poly({(): factor})
            for atom in monomial:
                term = term * self._atom(atom)
            total = total + term
        return total

    def _atom(self, atom: SizeAtom) -> anf.Size:
        if not isinstance(atom, Floor):
            return poly(self.variables[atom])
        quotient = fresh("quotient", Scalar("i64"))
        self.made.append((quotient, self.size(atom.dividend), self.size(atom.divisor)))
        return poly(quotient)


def _refuse_formless(decl: FnDecl, entry: Signature) -> None:
    """A function has no form in Python, nor has an array of values that hold nothing."""
    layout = entry.layout
    if holds_code(layout.result, layout.trees):
        help = ("return what the function needs, and pass it to a function of the module",)
        message = f"the result of `{decl.name}` holds a function, which Python cannot get yet"
        raise error("E0690", message, decl.span, help=help)
    if holds_blanks(layout.result, layout.trees):
        message = f"the result of `{decl.name}` holds an array of values that hold nothing, which Python cannot get yet"
        raise error("E0690", message, decl.span, help=("return its length",))


# ---- constraints -----------------------------------------------------------------------------------------------------
# Functions whose types were not written out: what ranks and dtypes do not settle is in their scheme as constraints.
#
# A call from Python settles them: the checker infers a function that has the ranks and dtypes of the arguments and
# calls the one that is meant. Its scheme has no constraints any more, and says which sizes must be equal.


@dataclass
class Settled:
    """The functions that calls from Python have settled, by what they call and with which types."""

    checked: Checked
    _made: dict[tuple[object, ...], FnDecl] = field(default_factory=dict)

    def at(
        self,
        decl: FnDecl,
        expression: str,
        names: Sequence[str],
        args: Sequence[Mono],
        by_name: bool,
        functions: Mapping[str, Passed] | None = None,
    ) -> FnDecl:
        """A function of parameters `names` that calls `expression`, a form or a name, with them.

        functions: arguments that are functions; one of Python has its number as a parameter, others have none.
        """
        structs: dict[str, DataDecl] = {}
        values: dict[str, FnEntry] = {}
        sizes = {p.local.name for p in decl.params if size_of_param(p.local) is not None}
        params: list[str] = []
        passed: list[str] = []
        for n, mono in zip(names, args, strict=True):
            function = functions.get(n) if functions else None
            value = n
            if function is None:
                params.append(f"{n}: {'size' if n in sizes else type_text(mono, structs)}")
            else:
                value = self._unused(n, names)
                values[value] = function.entry
                if function.arity is not None:
                    params.append(f"{n}: i64")
                    inner_params = [self._unused(f"x{k}", names) for k in range(function.arity)]
                    value = f"|{', '.join(inner_params)}| {value}({', '.join([n, *inner_params])})"
            passed.append(f"{n} = {value}" if by_name else value)
        name = self._unused(decl.name.partition("(")[0], (*names, *values))
        text = f"fn {name}({', '.join(params)}) = {expression}({', '.join(passed)})"
        key = (text, *[entry.decl for entry in values.values()])
        if key not in self._made:
            source = Source("<call from Python>", text)
            declaration, diagnostics = check_function(self.checked, source, structs, values, trusted=True)
            if declaration is None or declaration.constraints or declaration.body is None:
                raise _refused(decl, args, [d.message for d in diagnostics])
            declaration.kind, declaration.body = "call", trees.unwritten(declaration.body, decl.span)
            self._made[key] = declaration
        return self._made[key]

    def _unused(self, name: str, taken: Container[str]) -> str:
        name += "'"
        while name in self.checked.table.functions or name in taken:
            name += "'"
        return name


def _refused(decl: FnDecl, args: Sequence[Mono], reasons: Sequence[str]) -> DlangError:
    given = ", ".join(map(mono_text, args))
    notes = tuple(Note(r) for r in reasons)
    help = () if reasons else ("annotate its parameters",)
    return error("E0964", f"`{decl.name}` cannot be called with ({given})", decl.span, notes=notes, help=help)


# ---- types as text ---------------------------------------------------------------------------------------------------
def type_text(mono: Mono, structs: dict[str, DataDecl]) -> str:
    """A type with its dtypes and ranks; its sizes are left to inference."""
    match mono:
        case Scalar(dtype):
            return dtype
        case MonoArray(element, shape):
            return f"{type_text(element, structs)}[{', '.join('_' for _ in shape)}]"
        case MonoTuple(items):
            return f"({', '.join(type_text(i, structs) for i in items)})"
        case MonoName(decl, args):
            structs[decl.name] = decl
            inner = [type_text(a, structs) if isinstance(a, Mono) and a != MonoTuple(()) else "_" for a in args]
            return decl.name + (f"<{', '.join(inner)}>" if inner else "")
        case _:
            raise AssertionError("no function comes from Python")
