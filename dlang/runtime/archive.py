"""Functions that were built ahead of time, as Python loads them: from a file, without a compiler.

    functions = open_archive(data, "fit.dlo", "fit")     by name, with the dataclasses of their structs

A file has machine code for processors of one kind, and the program, from which a compiler that is there makes code for
any other. What is in it runs, so a file is to be trusted like a library of C.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlang.cache.records import HERE, Elsewhere, Unkept, load
from dlang.cache.store import digest
from dlang.codegen.llvm import objects
from dlang.codegen.llvm.objects import Processor
from dlang.diagnostics import DlangError, Span, error
from dlang.host.classes import MEMBERS, Written
from dlang.host.foreign import Missing, found_again
from dlang.host.platform import loader
from dlang.host.platform.machine import lacking
from dlang.host.platform.objects import callable_class, can_call, slots_of
from dlang.inequalities import LARGEST
from dlang.ir.crossing import PythonFunction, Signature, Terms, leaves_of
from dlang.ir.terms import Size, Var
from dlang.lazy_modules import lazy_module, np
from dlang.runtime.compiled import Compared, Compiled, PassedSize, Solved, Step
from dlang.runtime.failures import call, failure
from dlang.runtime.seeds import DefaultSeeds

if TYPE_CHECKING:
    from dlang.host import conversion, effects as host
    from dlang.runtime import engine
    from dlang.runtime.direct import Code, DirectEntry, Record
    from dlang.runtime.engine import CompiledProgram
else:
    engine = lazy_module("dlang.runtime.engine")
    host = lazy_module("dlang.host.effects")
    conversion = lazy_module("dlang.host.conversion")

NOT_LOADED = "E0989"
MISFIT, MISUSE = "E0960", "E0961"
MAGIC = b"dlang archive 2\n"
HEAD = 4  # lines between that and the content
PACKAGE = Path(__file__).parents[1]
DIRECT_FROM = 2
"""The call from which on it is worth while to link what makes further ones quick."""


# ---- what is in a file -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Parameter:
    """shown: its name in Python. type: as a person reads it. default: if it has one, which is a number, a truth value
    or a text.
    """

    name: str
    shown: str
    type: str
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True)
class StoredFunction:
    """A function. result: the type that it gives, as a person reads it. sizes: what these types call its sizes.

    unnamed: how many parameters cannot be given by name.
    """

    name: str
    doc: str
    params: tuple[Parameter, ...]
    unnamed: int
    result: str
    signature: Signature
    terms: Terms
    steps: tuple[Step, ...]
    sizes: tuple[tuple[Var, str], ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class ClassOf:
    """A struct, or a variant of an enum, as Python sees it. key: by which records speak of it."""

    key: tuple[str, int]
    name: str
    fields: tuple[str, ...]
    doc: str


@dataclass(frozen=True, slots=True)
class Direct:
    """The code of direct calls from Python, for where objects lie in memory as they did when it was made.

    word: where a function has the address of its record. slots: where the fields of classes lie. code: by function.
    """

    word: int
    slots: tuple[tuple[tuple[str, int], tuple[int, ...] | None], ...]
    code: dict[str, Code]


@dataclass(frozen=True, slots=True)
class Archive:
    """objects: machine code that programs share, by `objects.provided_key`. program: a record of it for a compiler."""

    processor: Processor
    functions: tuple[StoredFunction, ...]
    compiled: Compiled
    python: dict[str, PythonFunction]
    objects: dict[str, bytes]
    program: bytes
    direct: Direct | None = None


def written(version: str, files: Sequence[str], classes: bytes, archive: bytes) -> bytes:
    """The bytes of a file: a head that says what made it and that it is whole, then two records.

    files: of this package that load it. What they know of each other and of machine code is in no version.
    """
    content = len(classes).to_bytes(8, "little") + classes + archive
    head = (version, " ".join(files), _state(tuple(files)), digest(content))
    return MAGIC + "".join([line + "\n" for line in head]).encode() + content


@cache
def _state(files: tuple[str, ...]) -> str:
    """A digest of files of this package; "" if one is not there."""
    try:
        return digest(b"".join([(PACKAGE / name).read_bytes() for name in files]))
    except OSError:
        return ""


# ---- loading ---------------------------------------------------------------------------------------------------------
def check_maker(data: bytes, name: str, version: str) -> None:
    """Raises a `DlangError` for a file that another compiler has made. version: of this one; name: for messages."""
    made_by, files, state, _ = _head(data, name)
    if made_by != version:
        raise _refused(name, f"it is of dlang {made_by}, and this is {version}", ("build it again",))
    if state != _state(tuple(files.split(" "))):
        why = f"it was made by another state of dlang {version}, in which other things were where"
        raise _refused(name, why, ("build it again",))


def open_archive(data: bytes, name: str, module: str) -> dict[str, Any]:
    """The functions of a file and the classes of their structs. name: of the file, for messages; module: that the
    classes say they are of. What loads it has to be what made it. Raises `DlangError`.
    """
    archive, classes = _read(data, name, module)
    lacks = lacking(archive.processor.needs)
    compiled = archive.compiled if lacks is None else _compiled_here(archive, classes, name, lacks)
    if lacks is None:
        if not loader.can_load() and not _has_compiler():
            raise _refused(name, "this system can't load it", ("it needs Linux on x86-64",))
        objects.provide(archive.objects)
    try:
        python = {target: found_again(target, f) for target, f in archive.python.items()}
    except Missing as e:
        raise _refused(name, f"it calls a function that is not there: {e}", (e.help,)) from None
    runner = engine.Engine(host.Host()).load(compiled, python)
    names: dict[str, Any] = {c.__name__: c for c in classes.values()}
    code = _direct(archive, classes) if lacks is None else {}
    return names | {f.name: BuiltFunction(f, runner, code.get(f.name), module) for f in archive.functions}


def _direct(archive: Archive, classes: Mapping[tuple[str, int], type]) -> Mapping[str, Code]:
    """Returns the code of direct calls, if objects lie in memory here as they did where it was made; else none."""
    quick, direct = callable_class(BuiltFunction), archive.direct
    if quick is None or direct is None or direct.word != quick.word or not can_call():
        return {}
    return direct.code if all(slots_of(classes[key]) == slots for key, slots in direct.slots) else {}


def _head(data: bytes, name: str) -> list[str]:
    """Returns a file's version, what loads it, the state that was in, and the digest of what follows."""
    lines = data[len(MAGIC) :].split(b"\n", HEAD)
    if not data.startswith(MAGIC) or len(lines) <= HEAD:
        raise _refused(name, "it was not made by `dlc build`")
    return [line.decode(errors="replace") for line in lines[:HEAD]]


def _read(data: bytes, name: str, module: str) -> tuple[Archive, dict[tuple[str, int], type]]:
    *_, known = _head(data, name)
    content = data[len(MAGIC) :].split(b"\n", HEAD)[HEAD]
    if digest(content) != known:
        raise _refused(name, "it is damaged", ("build it again",))
    length = int.from_bytes(content[:8], "little")
    try:
        stored, _ = load(content[8 : 8 + length])
        classes = {c.key: _class(c, module) for c in stored}
        archive, _ = load(content[8 + length :], lambda place: _known(classes, place))
    except Unkept as e:
        raise _refused(name, f"it can't be read: {e}", ("build it again",)) from None
    assert isinstance(archive, Archive)
    return archive, classes


def _known(classes: Mapping[tuple[str, int], type], place: Elsewhere) -> type:
    known = classes.get((place.record, place.number))
    if known is None:
        raise Unkept(f"no type {place.record}")
    return known


def _class(c: ClassOf, module: str) -> type:
    fields = [(name, Any) for name in c.fields]
    members = {**MEMBERS, "__doc__": c.doc}
    cls = dataclasses.make_dataclass(c.name, fields, namespace=members, frozen=True, eq=False, repr=False, slots=True)
    cls.__module__ = module
    return cls


def _has_compiler() -> bool:
    """Tells whether LLVM and what uses it are there; a copy of the runtime in another package lacks the latter."""
    from importlib.util import find_spec

    return HERE == "dlang" and find_spec("llvmlite") is not None


def _compiled_here(archive: Archive, classes: Mapping[tuple[str, int], type], name: str, lacks: str) -> Compiled:
    """Machine code for this processor."""
    if not _has_compiler():
        why = f"it was built for {archive.processor.name}, and this processor has no {lacks}"
        raise _refused(name, why, ("build it for this one: `--cpu native`, or with a lower level",))
    from dlang.runtime.build import build

    program, _ = load(archive.program, lambda place: _known(classes, place))
    return build(program, [f.signature.name for f in archive.functions])


def _refused(name: str, why: str, help: tuple[str, ...] = ()) -> DlangError:
    return error(NOT_LOADED, f"`{name}` cannot be loaded: {why}", None, help=help)


# ---- functions -------------------------------------------------------------------------------------------------------
class BuiltFunction:
    """A function that was built ahead of time. It takes and gives what the same function takes and gives that
    `dlang.load` has loaded, at the types for which it was built.
    """

    __slots__ = ("__dict__",)  # and no room for weak references: so its size is the same in all versions of Python

    def __new__(cls, *_: object) -> BuiltFunction:
        quick = callable_class(BuiltFunction)
        function: BuiltFunction = object.__new__(cls if quick is None else quick.type)
        return function

    def __init__(self, kept: StoredFunction, program: CompiledProgram, code: Code | None, module: str) -> None:
        """code: what Python calls without a detour, if there is such."""
        self.kept, self.program, self.code = kept, program, code
        self.__name__ = self.__qualname__ = kept.name
        self.__module__, self.__doc__ = module, kept.doc or None
        self._defaults = {p.name: p.default for p in kept.params if p.has_default}
        self._own_seed = any(p.name == "seed" for p in kept.params)
        self._leaves = list(leaves_of(kept.signature.layout.params))
        self._calls = 0
        self._default_seeds = DefaultSeeds(kept.name)
        self._entry: DirectEntry | None = None
        self._record: Record | None = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        signature, seed = self.kept.signature, 0
        seeded = self._takes_seed and "seed" in named
        if seeded:
            seed = self._seed(named.pop("seed"))
        elif self._takes_seed:
            self._default_seeds.note()
        values = args if len(args) == len(self.kept.params) and not named else self._assigned(args, named)
        layout = signature.layout
        sizes: list[int | None] = [None] * len(layout.sizes)
        leaves = conversion.flattened(list(zip(layout.params, values, strict=True)), sizes, layout.trees)
        if leaves is None:
            raise self._misfit(values)
        known = self._sizes(sizes, leaves, values)
        self._check_indices(known, values)
        results = call(self.program, signature, [known[v] for v in signature.sizes], leaves, seed)
        result = conversion.built((layout.result,), iter(results), layout.trees)[0]
        self._shorten(values, seeded)
        return result

    @property
    def _takes_seed(self) -> bool:
        return self.kept.signature.seed and not self._own_seed

    def _shorten(self, values: Sequence[Any], seeded: bool) -> None:
        """Has calls like this one go to compiled code from now on, if they can, and if nothing is left to warn of."""
        quick = callable_class(BuiltFunction)
        if quick is None or self.code is None:
            return
        from dlang.runtime.direct import Record, direct_entry

        self._calls += 1
        if self._calls == DIRECT_FROM:
            signature, terms = self.kept.signature, self.kept.terms
            self._entry = direct_entry(self.program, signature, terms, quick.word, failure, self.code)
        table = None if self._entry is None else self._entry.table(values)
        if table is not None and (seeded or not self._takes_seed or self._default_seeds.is_told):
            if self._record is None:
                names = [p.shown for p in self.kept.params]
                self._record = Record(self._slowly, "seed" if self._takes_seed else None, names)
            self._record.add(table, (1 << len(values)) - 1, quick, self, seeded)

    def _slowly(self, *args: Any, **named: Any) -> Any:
        return BuiltFunction.__call__(self, *args, **named)

    def __copy__(self) -> BuiltFunction:
        return self

    def __deepcopy__(self, memo: object) -> BuiltFunction:
        return self

    def __reduce__(self) -> str:
        """It is pickled by its name, as functions of Python are, where its module can be imported."""
        return self.kept.name

    def __repr__(self) -> str:
        params = ", ".join(f"{p.name}: {p.type}" for p in self.kept.params)
        return f"<built function {self.kept.name}({params}) -> {self.kept.result}>"

    @cached_property
    def __signature__(self) -> inspect.Signature:
        parameter, empty = inspect.Parameter, inspect.Parameter.empty
        params = self.kept.params
        parameters = []
        for k, (p, shown) in enumerate(zip(params, trailing([p.has_default for p in params]), strict=True)):
            kind = parameter.POSITIONAL_ONLY if k < self.kept.unnamed else parameter.POSITIONAL_OR_KEYWORD
            default = p.default if shown else empty
            parameters.append(parameter(p.shown, kind, default=default, annotation=Written(p.type)))
        if self._takes_seed:
            parameters.append(parameter("seed", parameter.KEYWORD_ONLY, default=0, annotation=Written("i64")))
        return inspect.Signature(parameters, return_annotation=Written(self.kept.result))

    # ---- arguments ---------------------------------------------------------------------------------------------------
    def _assigned(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        names = [p.name for p in self.kept.params]
        if len(args) > len(names):
            raise self._misuse(f"takes {len(names)} arguments, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        written = {p.shown: p.name for p in self.kept.params}
        for name_in_python, value in named.items():
            name = name_in_python if name_in_python in names else written.get(name_in_python, name_in_python)
            if name not in names:
                raise self._misuse(f"has no parameter `{name}`")
            if name in given:
                raise self._misuse(f"is given `{name}` twice")
            given[name] = value
        given = {**self._defaults, **given}
        missing = [f"`{name}`" for name in names if name not in given]
        if missing:
            raise self._misuse(f"needs {' and '.join(missing)}")
        return [given[name] for name in names]

    def _seed(self, value: Any) -> int:
        from dlang.host.values import describe, number

        seed = number(value, "i64")
        if seed is None:
            raise self._misuse(f"takes an integer of 64 bits as `seed`, got {describe(value)}")
        return int(seed)

    def _misuse(self, problem: str) -> DlangError:
        help = (f"it is `{self.kept.name}{self.__signature__}`",)
        return error(MISUSE, f"`{self.kept.name}` {problem}", self.kept.span, help=help)

    def _misfit(self, values: Sequence[Any]) -> DlangError:
        """Returns the error for the first argument that does not agree with those before it."""
        layout = self.kept.signature.layout
        sizes: list[int | None] = [None] * len(layout.sizes)
        said: dict[int, tuple[int, str]] = {}
        for k, (part, value) in enumerate(zip(layout.params, values, strict=True)):
            if conversion.flattened([(part, value)], sizes, layout.trees) is None:
                return self._wrong(k, value, said)
            said = {n: said.get(n, (x, self.kept.params[k].name)) for n, x in enumerate(sizes) if x is not None}
        return self._misuse("is given a value that holds itself")

    def _wrong(self, k: int, value: Any, said: Mapping[int, tuple[int, str]], why: str = "") -> DlangError:
        """said: sizes of axes that are known, by their positions, and which argument said so."""
        from dlang.host.values import describe

        p, layout, known = self.kept.params[k], self.kept.signature.layout, []
        for n in sorted({n for leaf in leaves_of((layout.params[k],)) for n in leaf.shape} & said.keys()):
            atom = layout.sizes[n].atom
            name = None if atom is None else dict(self.kept.sizes).get(atom)
            if name is not None:
                known.append(f"{name} = {said[n][0]} from `{said[n][1]}`")
        text = ", ".join([f"argument `{p.name}`: expected {p.type}", *known, f"got {describe(value)}"])
        return error(MISFIT, text + (f" ({why})" if why else ""), self.kept.span)

    def _sizes(self, extents: Sequence[int | None], leaves: Sequence[Any], values: Sequence[Any]) -> dict[Var, int]:
        """Returns the values of the size variables; raises a `DlangError` where arguments do not agree."""
        known: dict[Var, int] = {}
        leaves_of_params = self._leaves
        for step in self.kept.steps:
            match step:
                case PassedSize(var, leaf):
                    known[var] = int(leaves[leaf])
                    if known[var] < 0:
                        raise self._of_leaf(leaf, values, "a size is not negative")
                    if known[var] > LARGEST:
                        raise error("E0806", "the memory is exhausted", self.kept.span)
                case Solved(var, leaf, axis, factor, rest):
                    actual = extents[leaves_of_params[leaf].shape[axis]] or 0
                    by, less = _value(factor, known), _value(rest, known)
                    if not by or (actual - less) % by or (actual - less) // by < 0:
                        raise self._of_leaf(leaf, values)
                    known[var] = (actual - less) // by
                case Compared(leaf, axis, size):
                    extent = extents[leaves_of_params[leaf].shape[axis]]
                    if extent is not None and extent != _value(size, known):
                        raise self._of_leaf(leaf, values, f"it has to be {_value(size, known)} long")
        return known

    def _of_leaf(self, leaf: int, values: Sequence[Any], why: str = "") -> DlangError:
        counts = [sum(1 for _ in leaves_of((part,))) for part in self.kept.signature.layout.params]
        k = next(k for k in range(len(counts)) if leaf < sum(counts[: k + 1]))
        return self._wrong(k, values[k], {}, why)

    def _check_indices(self, known: Mapping[Var, int], values: Sequence[Any]) -> None:
        if not self.kept.terms.indices:
            return
        for k, below in self.kept.terms.indices:
            limit = _value(below, known)
            given = np.asarray(values[k])
            if given.size and (int(given.min()) < 0 or int(given.max()) >= limit):
                raise self._wrong(k, values[k], {}, f"its indices have to be below {limit}")


def trailing(defaults: Sequence[bool]) -> list[bool]:
    """Tells which parameters Python shows with their defaults: those with no required one after them."""
    return [all(defaults[k:]) for k in range(len(defaults))]


def _value(size: Size, known: Mapping[Var, int]) -> int:
    return size.evaluate(known.__getitem__)
