"""Checking whole programs: modules, their groups, and the public functions of this folder.

A `Workspace` checks again and again, as an editor or a session does: only what an edit touches is checked anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dlang.diagnostics import Diagnostic, Source, Span, error
from dlang.lazy_modules import lazy_module
from dlang.process import gc_paused, recursion
from dlang.timings import timed
from dlang.typecheck.cache import Cache, CachedModule, Observed
from dlang.typecheck.headers import CoreModule, FnDecl
from dlang.typecheck.modules import Finder, read
from dlang.typecheck.scope import BuiltinEntry, Entry, FnEntry, ModuleTable, TypeEntry
from dlang.typecheck.state import Scheme
from dlang.typecheck.stored import keep, recall
from dlang.typecheck.types import UNIT, DataDecl, Variant

if TYPE_CHECKING:
    from dlang.grammar import parser, syntax, syntax as s
    from dlang.typecheck import builtins, checking, declarations, discrete, schemes, terms
    from dlang.typecheck.foreign import Primitive
    from dlang.typecheck.keys import Keys
else:
    builtins = lazy_module("dlang.typecheck.builtins")
    checking = lazy_module("dlang.typecheck.checking")
    declarations = lazy_module("dlang.typecheck.declarations")
    discrete = lazy_module("dlang.typecheck.discrete")
    parser = lazy_module("dlang.grammar.parser")
    schemes = lazy_module("dlang.typecheck.schemes")
    syntax = lazy_module("dlang.grammar.syntax")
    terms = lazy_module("dlang.typecheck.terms")


@dataclass(slots=True)
class Checked:
    """A checked program. `modules` has the imports, by dotted name."""

    module: CoreModule
    modules: dict[str, CoreModule]
    diagnostics: list[Diagnostic]
    program: Program
    table: ModuleTable


@dataclass(slots=True)
class Program:
    """All modules of one check. It implements `context.Names`. files: those that imports found, by path."""

    finder: Finder
    cache: Cache = field(default_factory=Cache)
    backwards: bool = False
    tables: dict[str, ModuleTable] = field(default_factory=dict)
    loading: list[str] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    keys: dict[ModuleTable, Keys] = field(default_factory=dict)
    group_of: dict[tuple[ModuleTable, str], list[str]] = field(default_factory=dict)
    done: set[tuple[ModuleTable, str]] = field(default_factory=set)
    prelude: ModuleTable | None = None
    checked: list[tuple[ModuleTable, s.Module]] = field(default_factory=list)
    files: set[str] = field(default_factory=set)

    # ---- names -------------------------------------------------------------------------------------------------------
    def value(self, table: ModuleTable, name: str) -> Entry | None:
        entry = table.entries.get(name)
        if entry is not None:
            return entry
        if name in table.functions:
            self.check_group(table, name)
            return table.entries.get(name)
        prelude = self.the_prelude()
        if table is not prelude:
            entry = prelude.entries.get(name)
            if entry is not None:
                return entry
            if name in prelude.functions and not name.startswith("_"):
                self.check_group(prelude, name)
                return prelude.entries.get(name)
        return BuiltinEntry(name) if builtins.is_builtin(name) else None

    def type_entry(self, table: ModuleTable, name: str) -> TypeEntry | None:
        entry = table.types.get(name)
        return entry if entry is not None else self.the_prelude().types.get(name)

    def constructor(self, table: ModuleTable, name: str) -> tuple[DataDecl, Variant] | None:
        constructor = table.constructors.get(name)
        return constructor if constructor is not None else self.the_prelude().constructors.get(name)

    def constant(self, table: ModuleTable, name: str) -> FnEntry | None:
        """The entry of a `const`."""
        if isinstance(table.functions.get(name), syntax.Const) or name in table.entries:
            entry = self.value(table, name)
            if isinstance(entry, FnEntry) and entry.decl.kind == "const":
                return entry
        return None

    def builtin(self, name: str, make: Callable[[], FnEntry]) -> FnEntry:
        if name not in self.cache.builtins:
            self.cache.builtins[name] = make()
        return self.cache.builtins[name]

    def value_names(self, table: ModuleTable) -> list[str]:
        return [*table.functions, *table.entries, *self.the_prelude().functions, *builtins.names()]

    def type_names(self, table: ModuleTable) -> list[str]:
        return [*table.types, *self.the_prelude().types]

    def constructor_names(self, table: ModuleTable) -> list[str]:
        return [*table.constructors, *self.the_prelude().constructors]

    def is_standard(self, name: str) -> bool:
        """Tells whether a module of the standard library has the name."""
        return name != "prelude" and self.finder.standard(name) is not None

    def standard_modules_with(self, name: str) -> list[str]:
        """The modules of the standard library that have the function."""
        return self.finder.holding(name)

    def the_prelude(self) -> ModuleTable:
        if self.prelude is None:
            path = self.finder.standard("prelude")
            text = path.read_text(encoding="utf-8") if path is not None else ""
            source = Source(str(path) if path is not None else "prelude.dl", text)
            kept = self.cache.prelude
            if kept is not None and kept.key == text:
                self.prelude = self.tables["prelude"] = kept
                self.know_groups(kept)
                return kept
            if (recalled := recall(self, source.path, "prelude", text)) is not None:
                self.prelude = self.cache.prelude = recalled
                return recalled
            module, problems = parser.parse(source, self.cache.parts)
            self.diagnostics += problems
            self.prelude = ModuleTable("prelude", source.path, CoreModule("prelude", source.path), key=text)
            self.tables["prelude"] = self.cache.prelude = self.prelude
            checking.declare(self, self.prelude, module)
            self.checked.append((self.prelude, module))
        return self.prelude

    def check_group(self, table: ModuleTable, name: str) -> None:
        """Checks the functions of a group, unless that is done."""
        if (table, name) not in self.done:
            checking.check_group(self, table, name)

    # ---- modules -----------------------------------------------------------------------------------------------------
    def load(self, path: Path, name: str, at: Span) -> ModuleTable:
        """The module of a file, checked."""
        key = str(path)
        self.files.add(key)
        if key in self.loading:
            files = [Path(p) for p in [*self.loading[self.loading.index(key) :], key]]
            hiding = [p.name for p in files[1:] if self.finder.hidden(p)]
            help = tuple([f"`{p}` hides a module of the library: give the file another name" for p in hiding])
            if len(files) == 2:
                instead = "leave the import out: a module knows its own names"
                raise error("E0204", f"the module `{files[0].stem}` imports itself", at, help=help or (instead,))
            chain = " → ".join(p.stem for p in files)
            instead = "put what they share into a module of its own, which each of them imports"
            raise error("E0204", f"the modules import one another: {chain}", at, help=help or (instead,))
        for table in self.tables.values():
            if table.path == key:
                return table
        text = self.finder.read(path, at)
        kept = self.cache.modules.get(key)
        if kept is not None and kept.text == text and self.unchanged(kept, at):
            self.cache.hits += 1
            self.cache.used |= kept.used
            self.tables[kept.table.name] = kept.table
            self.know_groups(kept.table)
            self.diagnostics += kept.diagnostics
            return kept.table
        before, used = len(self.diagnostics), set(self.cache.used)
        table = recall(self, key, name, text) or _check_module(self, Source(key, text), name, {})
        diagnostics = [d for d in self.diagnostics[before:] if d.span is not None and d.span.source.path == key]
        self.cache.modules[key] = CachedModule(
            text, table.imports, table, diagnostics, frozenset(self.cache.used - used)
        )
        return table

    def unchanged(self, kept: CachedModule, at: Span) -> bool:
        """Tells whether the modules that a module imports are those of before."""
        for path, name, key in kept.imports:
            if not self.finder.exists(Path(path)) or self.load(Path(path), name, at).key != key:
                return False
        return self.the_prelude() is not None

    def know_groups(self, table: ModuleTable) -> None:
        """A table that is reused: its groups are checked, but for those of the prelude that nothing needed yet."""
        for group in table.groups:
            for name in group:
                self.group_of[(table, name)] = group
                if name in table.core.functions:
                    self.done.add((table, name))


# ---- public ----------------------------------------------------------------------------------------------------------
def check_source(
    source: Source,
    search_path: Sequence[Path | str] = (),
    name: str | None = None,
    *,
    cache: Cache | None = None,
    backwards: bool = False,
    primitives: Sequence[Primitive] = (),
    unsaved: Mapping[str, str] | None = None,
) -> Checked:
    """Checks a text with all that it imports.

    backwards: constraints are tried in the other order (for tests). primitives: functions of Python that it may call.
    unsaved: texts of imported files that are not what the files hold, by path.
    """
    alone = cache is None and not primitives
    cache = cache if cache is not None else Cache()
    cache.begin()
    program = Program(Finder(tuple(Path(p) for p in search_path), unsaved or {}), cache, backwards)
    given: Mapping[str, FnEntry] = {}
    if primitives:
        given = checking.primitives_of(program, primitives)
    name = name or Path(source.path).stem
    with recursion(), gc_paused(), timed("check"):
        kept = recall(program, source.path, name, source.text) if alone else None
        table = kept or _check_module(program, source, name, given)
        keep(program, [c for c in program.checked if alone or c[0] is not table])
    for name_given in given.keys() & table.functions.keys():
        checking.twice(program, name_given, table.functions[name_given].name_span, given[name_given].decl.span)
    cache.end()
    if cache.observed is not None:
        cache.observed.keep(source)
    diagnostics = _worth_saying(program.diagnostics) if program.diagnostics else []
    order = sorted(diagnostics, key=lambda d: position(d, source))
    modules = {t.name: t.core for t in program.tables.values()}
    return Checked(table.core, modules, order, program, table)


def _check_module(program: Program, source: Source, name: str, given: Mapping[str, FnEntry]) -> ModuleTable:
    table = checking.check_module(program, source, name, given)
    if "random" in program.tables and program.finder.standard(name) is None:
        program.diagnostics += discrete.warnings(table.core)
    return table


def _worth_saying(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    return [d for d in dict.fromkeys(diagnostics) if not checking.of_mistakes(d)]


def position(d: Diagnostic, main: Source) -> tuple[bool, str, int]:
    if d.span is None:
        return (False, "", 0)
    return (d.span.source.path != main.path, d.span.source.path, d.span.first)


def check_file(path: Path | str, search_path: Sequence[Path | str] = (), *, cache: Cache | None = None) -> Checked:
    """Checks a file; raises `DlangError` if it can't be read."""
    return check_source(Source(str(Path(path)), read(path)), search_path, cache=cache)


def check_expression(checked: Checked, source: Source) -> tuple[FnDecl | None, list[Diagnostic]]:
    """An expression in the scope of a checked module, as a function without parameters."""
    e, problems = parser.parse_expression(source)
    if e is None or problems:
        return None, problems
    decl, diagnostics = declarations.check_value(checked.program, checked.table, "expression", e)
    return (None if diagnostics else decl), diagnostics


def check_function(
    checked: Checked, source: Source, types: Mapping[str, DataDecl] | None = None,
    values: Mapping[str, FnEntry] | None = None, *, trusted: bool = False,
) -> tuple[FnDecl | None, list[Diagnostic]]:  # fmt: skip
    """A function in the scope of a checked module, which does not get it.

    types, values: more structs and functions, by the names that it has for them. trusted: its arguments have been
    found to be the indices that functions of the module ask for.
    """
    module, problems = parser.parse(source)
    if problems or len(module.items) != 1 or not isinstance(module.items[0], syntax.Fn):
        return None, problems
    return check_item(checked, module.items[0], types, values, trusted=trusted)


def check_item(
    checked: Checked, item: s.Fn, types: Mapping[str, DataDecl] | None = None,
    values: Mapping[str, FnEntry] | None = None, *, trusted: bool = False,
) -> tuple[FnDecl | None, list[Diagnostic]]:  # fmt: skip
    """Checks a function like `check_function`, one that is parsed already."""
    table = checked.table
    scratch = replace(
        table,
        core=CoreModule(table.name, table.path),
        functions=table.functions | {item.name: item},
        entries={**table.entries, **(values or {})},
        types={**table.types, **(types or {})},
    )
    with recursion():
        diagnostics = declarations.check_functions(checked.program, scratch, [item.name], trusted=trusted)
    entry = scratch.entries[item.name]
    return (entry.decl if isinstance(entry, FnEntry) and not diagnostics else None), diagnostics


def function_text(decl: FnDecl) -> str:
    """The head of a function with all types: `fn f(x: f64[n], k: i64) -> f64`; what has a default ends with ` = …`."""
    params, result = signature_texts(decl)
    bounds = scheme_text(decl).partition(" (")[0]
    written = ", ".join(
        f"{p.local.name}: {text}{' = …' if p.has_default else ''}" for p, text in zip(decl.params, params, strict=True)
    )
    effects = f" ! {' + '.join(sorted(decl.effects))}" if decl.effects else ""
    return f"fn {decl.name}{bounds if bounds.startswith('<') else ''}({written}) -> {result}{effects}"


def signature_texts(decl: FnDecl) -> tuple[list[str], str]:
    """The types of the parameters and of the result, in which variables have the same names."""
    return schemes.signature_texts(_scheme(decl))


def scheme_text(decl: FnDecl, *, constraints: bool = False) -> str:
    """The type of a function, as hover texts show it; with `constraints` also what is still pending."""
    return schemes.scheme_text(_scheme(decl), constraints=constraints, effects=decl.effects)


def _scheme(decl: FnDecl) -> Scheme:
    sizes = tuple(terms.size_of_param(p.local) for p in decl.params)
    params = tuple(p.local.type for p in decl.params)
    result = decl.result if decl.result is not None else UNIT
    asked = tuple(p.local.refinement for p in decl.params)
    return Scheme(params, result, sizes, decl.variables, decl.opened, decl.constraints, asked, decl.refinement)


@dataclass(slots=True)
class Workspace:
    """Keeps what was found out about one open file and the modules that it imports.

    A declaration is parsed and checked again if its own text, or anything that it uses has changed: a function that it
    names, a type of the module, an imported module; so is one with a mistake. Where it stands does not matter: spans of
    an earlier check move with their declaration. Imported files are read again at every check, unless their texts are
    `unsaved`, by path. observed: gets the types of what is written in its file.
    """

    search_path: Sequence[Path | str] = ()
    unsaved: Mapping[str, str] = field(default_factory=dict)
    observed: Observed | None = None
    _cache: Cache = field(default_factory=Cache)

    def check(self, source: Source) -> Checked:
        """The program with its mistakes; the text is that of the editor, which need not be saved."""
        self._cache.observed = self.observed
        return check_source(source, self.search_path, cache=self._cache, unsaved=self.unsaved)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Checks of other texts, after which all that is known, and where it stands, is as it was before."""
        cache, observed = self._cache, self.observed
        types = dict(observed.types) if observed is not None else {}
        self._cache = cache.copied()
        places = [(x, x.first_line, x.offset, x.whole) for x in cache.parts.sources()]
        try:
            yield
        finally:
            self._cache = cache
            for x, line, offset, whole in places:
                x.first_line, x.offset, x.whole = line, offset, whole
            if observed is not None:
                observed.types = types

    @property
    def rechecked(self) -> tuple[str, ...]:
        """The functions, constants and tests that the last check could not take over from the ones before."""
        return tuple(self._cache.checked)
