"""Checking whole programs: modules, their groups, and the public functions of this folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlang.diagnostics import Diagnostic, DlangError, Note, Source, Span, error
from dlang.grammar import syntax as s
from dlang.grammar.parser import no_collection, parse, parse_expression, parse_signature
from dlang.typecheck import builtins, core, datatypes, declarations
from dlang.typecheck.cache import (
    Cache,
    CachedBlock,
    CachedGroup,
    CachedModule,
    CachedTypes,
    Keys,
    combined,
    moved,
    uses_of,
)
from dlang.typecheck.cascades import bind_missing, of_mistakes, outside_of_script, without_cascades
from dlang.typecheck.foreign import PRIMITIVE, Primitive, given_by
from dlang.typecheck.groups import dependency_groups
from dlang.typecheck.limits import room
from dlang.typecheck.messages import did_you_mean
from dlang.typecheck.modules import Finder, read
from dlang.typecheck.relink import relinked, relinked_block
from dlang.typecheck.schemes import Scheme
from dlang.typecheck.schemes import scheme_text as text_of_scheme
from dlang.typecheck.scope import BuiltinEntry, Entry, FnEntry, ModuleEntry, ModuleTable, TypeEntry
from dlang.typecheck.stored import keep, recall
from dlang.typecheck.types import UNIT, DataDecl, SizeVar, Variant

_STATEMENTS = (s.Let, s.Var, s.Assign, s.While, s.For, s.Break, s.Continue, s.Return, s.Assert)


@dataclass(slots=True)
class Checked:
    """A checked program. `modules` has the imports, by dotted name."""

    module: core.CoreModule
    modules: dict[str, core.CoreModule]
    diagnostics: list[Diagnostic]
    program: Program
    table: ModuleTable


@dataclass(slots=True)
class Program:
    """All modules of one check. It implements `context.Names`."""

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

    # ---- names -------------------------------------------------------------------------------------------------------
    def value(self, table: ModuleTable, name: str) -> Entry | None:
        found = table.entries.get(name)
        if found is not None:
            return found
        if name in table.functions:
            self.check_group(table, name)
            return table.entries.get(name)
        prelude = self.the_prelude()
        if table is not prelude:
            found = prelude.entries.get(name)
            if found is not None:
                return found
            if name in prelude.functions and not name.startswith("_"):
                self.check_group(prelude, name)
                return prelude.entries.get(name)
        return BuiltinEntry(name) if builtins.is_builtin(name) else None

    def type_entry(self, table: ModuleTable, name: str) -> TypeEntry | None:
        found = table.types.get(name)
        return found if found is not None else self.the_prelude().types.get(name)

    def constructor(self, table: ModuleTable, name: str) -> tuple[DataDecl, Variant] | None:
        found = table.constructors.get(name)
        return found if found is not None else self.the_prelude().constructors.get(name)

    def constant(self, table: ModuleTable, name: str) -> FnEntry | None:
        """The entry of a `const`."""
        if isinstance(table.functions.get(name), s.Const) or name in table.entries:
            found = self.value(table, name)
            if isinstance(found, FnEntry) and found.decl.kind == "const":
                return found
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
        """Whether a module of the standard library has the name."""
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
            if (found := recall(self, source.path, "prelude", text)) is not None:
                self.prelude = self.cache.prelude = found
                return found
            module, problems = parse(source, self.cache.parts)
            self.diagnostics += problems
            self.prelude = ModuleTable("prelude", source.path, core.CoreModule("prelude", source.path), key=text)
            self.tables["prelude"] = self.cache.prelude = self.prelude
            self.declare(self.prelude, module)
            self.checked.append((self.prelude, module))
        return self.prelude

    # ---- modules -----------------------------------------------------------------------------------------------------
    def load(self, path: Path, name: str, at: Span) -> ModuleTable:
        """The module of a file, checked."""
        key = str(path)
        if key in self.loading:
            files = [Path(p) for p in [*self.loading[self.loading.index(key) :], key]]
            hiding = [p.name for p in files[1:] if self.finder.hidden(p)]
            help = tuple([f"`{p}` hides a module of the library: give the file another name" for p in hiding])
            chain = " → ".join(p.stem for p in files)
            raise error("E0204", f"the modules import one another: {chain}", at, help=help)
        for table in self.tables.values():
            if table.path == key:
                return table
        text = read(path, at)
        kept = self.cache.modules.get(key)
        if kept is not None and kept.text == text and self.unchanged(kept, at):
            self.cache.hits += 1
            self.tables[kept.table.name] = kept.table
            self.know_groups(kept.table)
            self.diagnostics += kept.diagnostics
            return kept.table
        before = len(self.diagnostics)
        table = recall(self, key, name, text) or self.check_module(Source(key, text), name)
        own = [d for d in self.diagnostics[before:] if d.span is not None and d.span.source.path == key]
        self.cache.modules[key] = CachedModule(text, table.imports, table, own)
        return table

    def unchanged(self, kept: CachedModule, at: Span) -> bool:
        """Whether the modules that a module imports are those of before."""
        for path, name, key in kept.imports:
            if not Path(path).is_file() or self.load(Path(path), name, at).key != key:
                return False
        return self.the_prelude() is not None

    def know_groups(self, table: ModuleTable) -> None:
        """A table that is reused: its groups are checked, but for those of the prelude that nothing needed yet."""
        for group in table.groups:
            for name in group:
                self.group_of[(table, name)] = group
                if name in table.core.functions:
                    self.done.add((table, name))

    def check_module(self, source: Source, name: str, given: Mapping[str, FnEntry] | None = None) -> ModuleTable:
        """The module of a text; `given`: names that it has beside its own."""
        module, problems = parse(source, self.cache.parts)
        return self.check_items(module, problems, name, given or {})

    def check_items(
        self, module: s.Module, problems: list[Diagnostic], name: str, given: Mapping[str, Entry]
    ) -> ModuleTable:
        self.the_prelude()
        source = module.source
        self.diagnostics += problems
        if name in self.tables:
            name = f"{name}.{len(self.tables)}"  # another file with the same name
        table = ModuleTable(name, source.path, core.CoreModule(name, source.path), broken=bool(problems))
        table.entries.update(given)
        self.tables[name] = table
        self.loading.append(source.path)
        try:
            self.declare(table, module)
            for group in table.groups:
                self.check_group(table, group[0])
            self.check_rest(table, module)
            self.diagnostics = without_cascades(self.diagnostics, module, problems)
            self.checked.append((table, module))
        finally:
            self.loading.pop()
        return table

    def primitives(self, given: Sequence[Primitive]) -> dict[str, FnEntry]:
        """The names of functions of Python; a mistake in a signature is a diagnostic with a place in it."""
        found: dict[str, FnEntry] = {}
        for primitive in given:
            module, problems = parse_signature(primitive.signature, PRIMITIVE)
            table = self.check_items(module, problems, "primitives", {})
            for name, entry in table.entries.items():
                if not isinstance(entry, FnEntry) or entry.decl.kind != "extern" or entry.decl.body is None:
                    continue
                if name in found:
                    self.twice(name, entry.decl.span, found[name].decl.span)
                given_by(entry.decl, primitive.function)
                found[name] = entry
        return found

    def twice(self, name: str, span: Span, first: Span) -> None:
        """Reports a second definition."""
        notes = (Note("the first definition is here", first),)
        message = f"`{name}` is defined twice"
        self.diagnostics.append(Diagnostic("E0202", message, span, "defined again here", notes))

    def declare(self, table: ModuleTable, module: s.Module) -> None:
        """Imports, the names of functions, and types; these may mention constants, which are checked before them."""
        cx = declarations.checker(self, table)
        for item in module.items:
            if isinstance(item, s.Import) and all(item.path) and item.path:
                try:
                    self.imported(table, item)
                except DlangError as problem:
                    self.diagnostics += problem.diagnostics
                    bind_missing(table, item)
        prelude = self.the_prelude()
        outside = combined([prelude.key, table.name, *(key for _, _, key in table.imports)])
        keys = self.keys[table] = Keys(module, outside)
        if table is not prelude:
            table.key = combined([outside, module.source.text])
        for item in module.items:
            if isinstance(item, s.Fn | s.Const | s.Extern):
                if item.name in table.functions:
                    self.twice(item.name, item.name_span, table.functions[item.name].name_span)
                    continue
                table.functions[item.name] = item
                table.entries.pop(item.name, None)
        table.groups = dependency_groups(table.functions)
        for group in table.groups:
            for name in group:
                self.group_of[(table, name)] = group
        kept = self.cache.types.get(keys.types)
        if kept is None:
            written = [i for i in module.items if isinstance(i, s.Struct | s.Enum | s.Alias)]
            kinds = {n: kinds_of(t) for n, t in ({} if table is prelude else prelude.types | table.types).items()}
            for name, circle in datatypes.circular(table, written):
                cx.report(circle)
                span = table.functions[name].name_span
                declarations.register(table, name, declarations.any_entry(name, table.name, span, None))
                table.integers[name] = 1  # any number will do: the program has been refused
                self.done.add((table, name))
            for name, entry in table.entries.items():
                if isinstance(entry, ModuleEntry):
                    kinds |= {f"{name}.{n}": kinds_of(t) for n, t in entry.table.types.items()}
            datatypes.declare(cx, table, written, kinds)
            kept = CachedTypes(table.types, table.constructors, table.core.types, cx.st.diagnostics)
            self.cache.types[keys.types] = kept
        else:
            self.cache.hits += 1
            table.types, table.constructors, table.core.types = kept.types, kept.constructors, kept.declared
        self.cache.used.add(keys.types)
        self.diagnostics += kept.diagnostics

    def imported(self, table: ModuleTable, item: s.Import) -> None:
        name = ".".join(item.path)
        path = self.finder.find(item.path, Path(table.path))
        if path is None:
            raise error(
                "E0203",
                f"there is no module `{name}`",
                item.span,
                notes=tuple(Note(f"looked for {p}") for p in self.finder.places(item.path, Path(table.path))),
                help=self.finder.instead_of(item.path, Path(table.path)),
            )
        other = self.load(path, name, item.span)
        table.imports = (*table.imports, (other.path, other.name, other.key))
        if other.is_script:
            raise error("E0203", f"`{name}` is a script of statements and can't be imported", item.span)
        if item.names is None:
            table.entries[item.alias or item.path[-1]] = ModuleEntry(other, item.span)
            return
        for n in item.names:
            if not isinstance(n, s.Name):  # a syntax error that has been reported
                continue
            if n.name.startswith("_"):
                raise error("E0205", f"`{n.name}` is private to the module `{name}`", n.span)
            self.import_name(table, other, n)

    def import_name(self, table: ModuleTable, other: ModuleTable, n: s.Name) -> None:
        if n.name[0].isupper():
            if n.name not in other.types and n.name not in other.constructors:
                raise error("E0206", f"the module `{other.name}` has no `{n.name}`", n.span,
                            help=did_you_mean(n.name, list(other.types)))  # fmt: skip
            if n.name in other.types:
                entry = other.types[n.name]
                table.types[n.name] = entry
                if isinstance(entry, DataDecl):
                    for v in entry.variants:
                        table.constructors[v.name] = (entry, v)
            if n.name in other.constructors:
                table.constructors[n.name] = other.constructors[n.name]
            return
        if n.name not in other.functions:
            raise error("E0206", f"the module `{other.name}` has no `{n.name}`", n.span,
                        help=did_you_mean(n.name, [f for f in other.functions if not f.startswith("_")]))  # fmt: skip
        found = self.value(other, n.name)
        if found is not None:
            table.entries[n.name] = found

    # ---- groups ------------------------------------------------------------------------------------------------------
    def check_group(self, table: ModuleTable, name: str) -> None:
        if (table, name) in self.done:
            return
        group = self.group_of[(table, name)]
        self.done.update((table, n) for n in group)
        keys = self.keys.get(table)
        items = [table.functions[n] for n in group]
        key = keys.group(table, group) if keys is not None else ""
        kept = self.cache.groups.get(key)
        if kept is None:
            self.cache.checked += group
            problems = declarations.check_functions(self, table, group)
            entries = {n: e for n in group if isinstance(e := table.entries.get(n), FnEntry)}
            integers = {n: table.integers[n] for n in group if n in table.integers}
            kept = CachedGroup(entries, integers, problems, uses_of(table, items))
            if key and not problems:  # what a message suggests may depend on any name
                self.cache.groups[key] = kept
        else:
            self.cache.hits += 1
            now = uses_of(table, items)
            if to := moved(kept.uses, now):
                kept = replace(kept, entries=relinked(kept.entries, to), uses=now)
                self.cache.groups[key] = kept
            for n, entry in kept.entries.items():
                declarations.register(table, n, entry)
            table.integers.update(kept.integers)
        if keys is not None:
            keys.checked(table, group)
        self.cache.used.add(key)
        self.diagnostics += kept.diagnostics

    def check_rest(self, table: ModuleTable, module: s.Module) -> None:
        """Rules, tests and the script."""
        statements: list[s.Statement] = []
        for decl in table.core.functions.values():
            decl.rules.clear()  # of the check before
        for item in module.items:
            match item:
                case s.Rule():
                    self.diagnostics += declarations.check_rule(self, table, item)
                case s.Test():
                    decl, problems = self.check_test(table, item)
                    table.core.tests.append(decl)
                    self.diagnostics += problems
                case s.Fn() | s.Struct() | s.Enum() | s.Alias() | s.Const() | s.Import() | s.Extern():
                    pass
                case _:
                    statements.append(item)
        if statements:
            table.is_script = True
            patterns = [d.pattern for d in statements if isinstance(d, s.Let | s.Var)]
            variables = {p.name for p in patterns if isinstance(p, s.PatternName)}
            self.diagnostics = [outside_of_script(d, variables) for d in self.diagnostics]
            span = statements[0].span.to(statements[-1].span)
            block = s.Block(span, tuple(statements))
            table.core.script, problems = declarations.check_block(self, table, "script", "script", block, span)
            self.diagnostics += problems

    def check_test(self, table: ModuleTable, item: s.Test) -> tuple[core.FnDecl, list[Diagnostic]]:
        key = self.keys[table].block(table, item)
        self.cache.used.add(key)
        uses = uses_of(table, [item])
        kept = self.cache.blocks.get(key)
        if kept is None:
            self.cache.checked.append(item.name)
            kept = CachedBlock(*declarations.check_block(self, table, item.name, "test", item.body, item.span), uses)
        else:
            self.cache.hits += 1
            if to := moved(kept.uses, uses):
                kept = CachedBlock(relinked_block(kept.decl, to), kept.diagnostics, uses)
        self.cache.blocks[key] = kept
        return kept.decl, kept.diagnostics


def kinds_of(t: TypeEntry) -> list[str]:
    return ["size" if isinstance(p, SizeVar) else "type" for p in t.params]


# ---- public ----------------------------------------------------------------------------------------------------------
def check_source(
    source: Source,
    search_path: Sequence[Path | str] = (),
    name: str | None = None,
    *,
    cache: Cache | None = None,
    backwards: bool = False,
    primitives: Sequence[Primitive] = (),
) -> Checked:
    """Checks a text with all that it imports.

    backwards: constraints are tried in the other order (for tests). primitives: functions of Python that it may call.
    """
    alone = cache is None and not primitives
    cache = cache if cache is not None else Cache()
    cache.begin()
    program = Program(Finder(tuple(Path(p) for p in search_path)), cache, backwards)
    given = program.primitives(primitives)
    name = name or Path(source.path).stem
    with room(), no_collection():
        kept = recall(program, source.path, name, source.text) if alone else None
        table = kept or program.check_module(source, name, given)
        keep(program, [c for c in program.checked if alone or c[0] is not table])
    for own in given.keys() & table.functions.keys():
        program.twice(own, table.functions[own].name_span, given[own].decl.span)
    cache.end()
    found = [d for d in dict.fromkeys(program.diagnostics) if not of_mistakes(d)]
    order = sorted(found, key=lambda d: position(d, source))
    modules = {t.name: t.core for t in program.tables.values()}
    return Checked(table.core, modules, order, program, table)


def position(d: Diagnostic, main: Source) -> tuple[bool, str, int]:
    if d.span is None:
        return (False, "", 0)
    return (d.span.source.path != main.path, d.span.source.path, d.span.first)


def check_file(path: Path | str, search_path: Sequence[Path | str] = (), *, cache: Cache | None = None) -> Checked:
    """Checks a file; raises `DlangError` if it can't be read."""
    return check_source(Source(str(Path(path)), read(path)), search_path, cache=cache)


def check_expression(checked: Checked, source: Source) -> tuple[core.FnDecl | None, list[Diagnostic]]:
    """An expression in the scope of a checked module, as a function without parameters."""
    e, problems = parse_expression(source)
    if e is None or problems:
        return None, problems
    decl, found = declarations.check_value(checked.program, checked.table, "expression", e)
    return (None if found else decl), found


def check_function(
    checked: Checked, source: Source, types: Sequence[DataDecl] = (), values: Mapping[str, FnEntry] | None = None,
    *, trusted: bool = False,
) -> tuple[core.FnDecl | None, list[Diagnostic]]:  # fmt: skip
    """A function in the scope of a checked module, which does not get it.

    types, values: more structs and functions that it may name. trusted: its arguments have been found to be the
    indices that functions of the module ask for.
    """
    module, problems = parse(source)
    if problems or len(module.items) != 1 or not isinstance(module.items[0], s.Fn):
        return None, problems
    return check_item(checked, module.items[0], types, values, trusted=trusted)


def check_item(
    checked: Checked, item: s.Fn, types: Sequence[DataDecl] = (), values: Mapping[str, FnEntry] | None = None,
    *, trusted: bool = False,
) -> tuple[core.FnDecl | None, list[Diagnostic]]:  # fmt: skip
    """As `check_function`, of a function that is parsed already."""
    table = checked.table
    scratch = replace(
        table,
        core=core.CoreModule(table.name, table.path),
        functions=table.functions | {item.name: item},
        entries={**table.entries, **(values or {})},
        types=table.types | {t.name: t for t in types},
    )
    with room():
        found = declarations.check_functions(checked.program, scratch, [item.name], trusted=trusted)
    entry = scratch.entries[item.name]
    return (entry.decl if isinstance(entry, FnEntry) and not found else None), found


def scheme_text(decl: core.FnDecl, *, constraints: bool = False) -> str:
    """The type of a function, as hover texts show it; with `constraints` also what is still pending."""
    sizes = tuple(declarations.size_of_param(p.local) for p in decl.params)
    params = tuple(p.local.type for p in decl.params)
    result = decl.result if decl.result is not None else UNIT
    asked = tuple(p.local.refinement for p in decl.params)
    scheme = Scheme(params, result, sizes, decl.variables, decl.opened, decl.constraints, asked, decl.refinement)
    return text_of_scheme(scheme, constraints=constraints, effects=decl.effects)
