"""Checking one module: its imports, its types, its functions by groups, then rules, tests and the script."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dlang.diagnostics import Diagnostic, DlangError, Note, Source, Span, error, own_help
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse, parse_signature
from dlang.identity import ByIdentity
from dlang.typecheck import core, declarations
from dlang.typecheck.cache import CachedBlock, CachedGroup, CachedTypes
from dlang.typecheck.foreign import PRIMITIVE, Primitive, given_by
from dlang.typecheck.groups import Mentions, Written, dependency_groups, names_given, type_groups
from dlang.typecheck.keys import Keys, combined, interfaces, moved
from dlang.typecheck.messages import did_you_mean, misspelt
from dlang.typecheck.scope import Entry, FnEntry, ModuleEntry, ModuleTable, TypeEntry
from dlang.typecheck.trees import rebuilt
from dlang.typecheck.types import MISTAKE, DataDecl, SizeVar

if TYPE_CHECKING:
    from dlang.typecheck.program import Program


def check_module(program: Program, source: Source, name: str, given: Mapping[str, FnEntry]) -> ModuleTable:
    """The module of a text; `given`: names that it has beside its own."""
    module, problems = parse(source, program.cache.parts)
    return check_items(program, module, problems, name, given)


def check_items(
    program: Program, module: s.Module, problems: list[Diagnostic], name: str, given: Mapping[str, Entry]
) -> ModuleTable:
    """The module of a syntax tree, in which the parser found `problems`. Its name gets a number if it is taken."""
    program.the_prelude()
    source = module.source
    program.diagnostics += problems
    if name in program.tables:
        name = f"{name}.{len(program.tables)}"  # another file with the same name
    table = ModuleTable(name, source.path, core.CoreModule(name, source.path), broken=bool(problems))
    table.entries.update(given)
    program.tables[name] = table
    program.loading.append(source.path)
    try:
        declare(program, table, module)
        for group in table.groups:
            check_group(program, table, group[0])
        check_rest(program, table, module)
        program.diagnostics = without_cascades(program.diagnostics, module, problems)
        program.checked.append((table, module))
    finally:
        program.loading.pop()
    return table


def primitives_of(program: Program, given: Sequence[Primitive]) -> dict[str, FnEntry]:
    """The names of functions of Python; a mistake in a signature is a diagnostic with a place in it."""
    primitives: dict[str, FnEntry] = {}
    for primitive in given:
        module, problems = parse_signature(primitive.signature, PRIMITIVE)
        table = check_items(program, module, problems, "primitives", {})
        for name, entry in table.entries.items():
            if not isinstance(entry, FnEntry) or entry.decl.kind != "extern" or entry.decl.body is None:
                continue
            if name in primitives:
                twice(program, name, entry.decl.span, primitives[name].decl.span)
            given_by(entry.decl, primitive.function)
            primitives[name] = entry
    return primitives


def twice(program: Program, name: str, span: Span, first: Span) -> None:
    """Reports a second definition."""
    notes = (Note("the first definition is here", first),)
    message = f"`{name}` is defined twice"
    program.diagnostics.append(Diagnostic("E0202", message, span, "defined again here", notes))


Names = dict[tuple[str, str], tuple[object, str, Span]]
"""Imports give a module these: by kind and name a thing, the module that has it, and the place of the import."""


def declare(program: Program, table: ModuleTable, module: s.Module) -> None:
    """Imports, the names of functions, and types; these may mention constants, which are checked before them."""
    given: Names = {}
    for item in module.items:
        if isinstance(item, s.Import) and all(item.path) and item.path:
            try:
                imported(program, table, item, given)
            except DlangError as problem:
                program.diagnostics += problem.diagnostics
                bind_missing(table, item)
    prelude = program.the_prelude()
    outside = combined([prelude.key, table.name, *(key for _, _, key in table.imports)])
    before = program.cache.mentions.get(table.path)
    mentions = program.cache.mentions[table.path] = Mentions(before.kept if before is not None else ByIdentity())
    program.keys[table] = Keys(module, outside, mentions)
    if table is not prelude:
        table.key = combined([outside, module.source.text])
    for kind, name, span in declared(module):
        if (earlier := given.get((kind, name))) is not None:
            program.diagnostics.append(both(kind, name, span, earlier[1], earlier[2]))
    for item in module.items:
        if isinstance(item, s.Fn | s.Const | s.Extern):
            if item.name in table.functions:
                twice(program, item.name, item.name_span, table.functions[item.name].name_span)
                forget(program, item)
                continue
            table.functions[item.name] = item
            table.entries.pop(item.name, None)
    table.groups = dependency_groups(table.functions, mentions)
    for group in table.groups:
        for name in group:
            program.group_of[(table, name)] = group
    declare_types(program, table, [i for i in module.items if isinstance(i, s.Struct | s.Enum | s.Alias)])


def declared(module: s.Module) -> Iterator[tuple[str, str, Span]]:
    """The kinds, names and places of what a module declares."""
    for item in module.items:
        match item:
            case s.Fn() | s.Const() | s.Extern():
                yield "", item.name, item.name_span
            case s.Struct() | s.Alias():
                yield "type", item.name, item.name_span
            case s.Enum(constructors=constructors):
                yield "type", item.name, item.name_span
                for c in constructors:
                    yield "constructor", c.name, c.span.head(len(c.name))
            case _:
                pass


def both(kind: str, name: str, span: Span, module: str, first: Span) -> Diagnostic:
    """An error about what is declared under a name that is imported."""
    message = f"{_called(kind, name)} is imported and declared"
    notes = (Note(f"it is imported from `{module}` here", first),)
    return Diagnostic("E0202", message, span, "declared here", notes)


def _called(kind: str, name: str) -> str:
    return f"the {kind} `{name}`" if kind else f"`{name}`"


def declare_types(program: Program, table: ModuleTable, written: list[Written]) -> None:
    """The data types of a module, those that mention one another together."""
    keys, cache = program.keys[table], program.cache
    prelude = program.the_prelude()
    kinds = {n: kinds_of(t) for n, t in ({} if table is prelude else prelude.types | table.types).items()}
    for name, entry in table.entries.items():
        if isinstance(entry, ModuleEntry):
            kinds |= {f"{name}.{n}": kinds_of(t) for n, t in entry.table.types.items()}
    circles = list(declarations.circular(table, written, keys.mentions))
    for name, circle in circles:
        program.diagnostics.append(circle)
        forget(program, table.functions[name])
        span = table.functions[name].name_span
        declarations.register(table, name, declarations.any_entry(name, table.name, span, None))
        table.integers[name] = 1  # any number will do: the program has been refused
        program.done.add((table, name))
    names = [n for d in written for n in names_given(d)]
    declared = [d.name for k in (False, True) for d in written if isinstance(d, s.Alias) is k]
    types, constructors = dict.fromkeys([*table.types, *declared]), dict.fromkeys([*table.constructors, *names])
    everything = combined([*declared, *names, *table.functions])  # what a message may suggest
    for group in type_groups(written, keys.mentions):
        key = keys.of_types(group)
        doubtful = combined([key, everything, *[str(circle) for circle in circles]])
        earlier = next((k for k in (key, doubtful) if k in cache.types and not (circles and k == key)), None)
        if earlier is None:
            cx = declarations.checker(program, table)
            declarations.declare(cx, table, group, kinds)
            given = {n for d in group for n in names_given(d)}
            earlier = doubtful if cx.st.diagnostics or circles else key
            cache.types[earlier] = CachedTypes(
                {n: t for n, t in table.types.items() if n in given},
                {n: constructor for n, constructor in table.constructors.items() if n in given},
                {n: d for n, d in table.core.types.items() if n in given},
                cx.st.diagnostics,
            )
        else:
            cache.hits += 1
            kept = cache.types[earlier]
            table.types |= kept.types
            table.constructors |= kept.constructors
            table.core.types |= kept.declared
        kinds |= {d.name: kinds_of(table.types[d.name]) for d in group}
        keys.types |= {n: earlier for d in group for n in names_given(d)}
        cache.used.add(earlier)
        program.diagnostics += cache.types[earlier].diagnostics
    table.types = {n: table.types[n] for n in types if n in table.types}
    table.constructors = {n: table.constructors[n] for n in constructors if n in table.constructors}
    table.core.types = {n: table.core.types[n] for n in declared if n in table.core.types}


def imported(program: Program, table: ModuleTable, item: s.Import, given: Names) -> None:
    """Gives a module the names that an import brings. Raises `DlangError`. given: what earlier ones have brought."""
    name = ".".join(item.path)
    path = program.finder.find(item.path, Path(table.path))
    if path is None:
        raise error(
            "E0203",
            f"there is no module `{name}`",
            item.span,
            notes=tuple(Note(f"looked for {p}") for p in program.finder.places(item.path, Path(table.path))),
            help=program.finder.instead_of(item.path, Path(table.path)),
        )
    other = program.load(path, name, item.span)
    table.imports = (*table.imports, (other.path, other.name, other.key))
    if other.is_script:
        help = ("move what is shared into a file that has declarations only",)
        raise error("E0203", f"`{name}` is a script of statements and can't be imported", item.span, help=help)
    if item.names is None:
        bound = item.alias or item.path[-1]
        bring(given, "", bound, other, other, item.span)
        table.entries[bound] = ModuleEntry(other, item.span)
        return
    problems: list[Diagnostic] = []
    for n in item.names:
        if not isinstance(n, s.Name):  # a syntax error that has been reported
            continue
        try:
            if n.name.startswith("_"):
                raise error("E0205", f"`{n.name}` is private to the module `{name}`", n.span)
            import_name(program, table, other, n, given)
        except DlangError as problem:  # the other names are there
            problems += problem.diagnostics
    if problems:
        raise DlangError(problems)


def bring(given: Names, kind: str, name: str, what: object, other: ModuleTable, span: Span) -> None:
    """Notes what an import brings. Raises `DlangError` if something else has that name."""
    before, module, first = given.setdefault((kind, name), (what, other.name, span))
    if before is not what:
        notes = (Note("it is first imported here", first),)
        whole = f"import the module itself, `import {other.name}`, and write `{other.name.rpartition('.')[2]}.{name}`"
        help = ("give one of the two another name behind `as`" if what is other else whole,)
        message = f"{_called(kind, name)} is imported twice, from `{module}` and from `{other.name}`"
        raise error("E0202", message, span, label="imported again here", notes=notes, help=help)


def import_name(program: Program, table: ModuleTable, other: ModuleTable, n: s.Name, given: Names) -> None:
    """Gives a module one name of another. Raises `DlangError` if there is none."""
    if n.name[:1].isupper():
        if n.name not in other.types and n.name not in other.constructors:
            raise error("E0206", f"the module `{other.name}` has no `{n.name}`", n.span,
                        help=did_you_mean(n.name, list(other.types)),
                        fixes=misspelt(n.span, n.name, list(other.types)))  # fmt: skip
        if n.name in other.types:
            entry = other.types[n.name]
            bring(given, "type", n.name, entry, other, n.span)
            table.types[n.name] = entry
            if isinstance(entry, DataDecl):
                for v in entry.variants:
                    bring(given, "constructor", v.name, entry, other, n.span)
                    table.constructors[v.name] = (entry, v)
        if n.name in other.constructors:
            bring(given, "constructor", n.name, other.constructors[n.name][0], other, n.span)
            table.constructors[n.name] = other.constructors[n.name]
        return
    if n.name not in other.functions:
        known = [f for f in other.functions if not f.startswith("_")]
        raise error("E0206", f"the module `{other.name}` has no `{n.name}`", n.span,
                    help=did_you_mean(n.name, known), fixes=misspelt(n.span, n.name, known))  # fmt: skip
    imported = program.value(other, n.name)
    if imported is not None:
        bring(given, "", n.name, imported, other, n.span)
        table.entries[n.name] = imported


# ---- groups ----------------------------------------------------------------------------------------------------------
def check_group(program: Program, table: ModuleTable, name: str) -> None:
    """Checks the group that a function is in, once; what was kept of it is taken, and mentions what others are now."""
    if (table, name) in program.done:
        return
    group = program.group_of[(table, name)]
    program.done.update((table, n) for n in group)
    keys = program.keys.get(table)
    if keys is None:  # of the prelude that an earlier check has read, which nothing needed yet
        program.cache.checked += group
        program.diagnostics += declarations.check_functions(program, table, group)
        return
    items = [table.functions[n] for n in group]
    key = keys.group(table, group)
    kept = program.cache.groups.get(key)
    if kept is None:
        program.cache.checked += group
        for item in items:
            forget(program, item)
        problems = declarations.check_functions(program, table, group)
        entries = {n: e for n in group if isinstance(e := table.entries.get(n), FnEntry)}
        integers = {n: table.integers[n] for n in group if n in table.integers}
        kept = CachedGroup(
            entries, integers, interfaces(table, group, keys.types), problems, keys.uses_of(table, items)
        )
        if not problems:  # what a message suggests may depend on any name
            program.cache.groups[key] = kept
    else:
        program.cache.hits += 1
        now = keys.uses_of(table, items)
        if to := moved(kept.uses, now):
            kept = replace(kept, entries=relinked(kept.entries, to), uses=now)
            program.cache.groups[key] = kept
        for n, entry in kept.entries.items():
            declarations.register(table, n, entry)
        table.integers.update(kept.integers)
    keys.interfaces.update(kept.interfaces)
    program.cache.used.add(key)
    program.diagnostics += kept.diagnostics


def check_rest(program: Program, table: ModuleTable, module: s.Module) -> None:
    """Rules, tests and the script."""
    statements: list[s.Statement] = []
    for decl in table.core.functions.values():
        decl.rules.clear()  # of the check before
    for item in module.items:
        match item:
            case s.Rule():
                forget(program, item)
                program.diagnostics += declarations.check_rule(program, table, item)
            case s.Test() | s.Bench():
                decl, problems = check_named_block(program, table, item)
                blocks = table.core.tests if isinstance(item, s.Test) else table.core.benches
                blocks.append(decl)
                program.diagnostics += problems
            case s.Fn() | s.Struct() | s.Enum() | s.Alias() | s.Const() | s.Import() | s.Extern():
                pass
            case _:
                forget(program, item)
                statements.append(item)
    if statements:
        table.is_script = True
        patterns = [d.pattern for d in statements if isinstance(d, s.Let | s.Var)]
        variables = {p.name for p in patterns if isinstance(p, s.PatternName)}
        program.diagnostics = [outside_of_script(d, variables) for d in program.diagnostics]
        span = statements[0].span.to(statements[-1].span)
        block = s.Block(span, tuple(statements))
        table.core.script, problems = declarations.check_block(program, table, "script", "script", block, span)
        program.diagnostics += problems


def forget(program: Program, item: s.Item) -> None:
    """Forgets the observations about the expressions of an item, which is checked again, or not at all."""
    if program.cache.observed is not None:
        program.cache.observed.forget(item.span)


def check_named_block(
    program: Program, table: ModuleTable, item: s.Test | s.Bench
) -> tuple[core.FnDecl, list[Diagnostic]]:
    """A test or a benchmark as a function, and its messages, as they were kept if nothing that it mentions changed."""
    keys = program.keys[table]
    key = keys.block(table, item)
    program.cache.used.add(key)
    uses = keys.uses_of(table, [item])
    kept = program.cache.blocks.get(key)
    if kept is None:
        program.cache.checked.append(item.name)
        forget(program, item)
        kind = "test" if isinstance(item, s.Test) else "bench"
        kept = CachedBlock(*declarations.check_block(program, table, item.name, kind, item.body, item.span), uses)
    else:
        program.cache.hits += 1
        if to := moved(kept.uses, uses):
            kept = CachedBlock(relinked_block(kept.decl, to), kept.diagnostics, uses)
    if not kept.diagnostics:  # as for functions; and notes have places in what may be edited
        program.cache.blocks[key] = kept
    return kept.decl, kept.diagnostics


def kinds_of(t: TypeEntry) -> list[str]:
    """Returns the kinds of a type's arguments: sizes or types."""
    return ["size" if isinstance(p, SizeVar) else "type" for p in t.params]


T = TypeVar("T")


def relinked(entries: Mapping[str, FnEntry], to: Mapping[core.FnDecl, core.FnDecl]) -> dict[str, FnEntry]:
    """A group of functions that calls other declarations: copies, because what was checked before stays as it is."""
    link = Linker(dict(to))
    out = {n: replace(e, decl=link.copied(e.decl)) for n, e in entries.items()}
    for entry in out.values():
        link.fill(entry.decl)
    return out


def relinked_block(decl: core.FnDecl, to: Mapping[core.FnDecl, core.FnDecl]) -> core.FnDecl:
    """A test that calls other declarations."""
    link = Linker(dict(to))
    copy = link.copied(decl)
    link.fill(copy)
    return copy


class Linker:
    def __init__(self, to: dict[core.FnDecl, core.FnDecl]) -> None:
        self.to = to

    def copied(self, decl: core.FnDecl) -> core.FnDecl:
        self.to[decl] = replace(decl, rules={})
        return self.to[decl]

    def fill(self, decl: core.FnDecl) -> None:
        decl.params, decl.body = self.node(decl.params), self.node(decl.body)

    def node(self, tree: T) -> T:
        return rebuilt(tree, self.linked)

    def linked(self, _: Any, node: Any) -> Any:
        match node:
            case core.LocalFn(decl=decl):
                copy = self.copied(decl)
                self.fill(copy)
                return replace(node, decl=copy)
            case core.FnRef(decl=decl, instance=instance) if decl in self.to:
                new = self.to[decl]
                variables = dict(zip(decl.variables, new.variables, strict=True))
                return replace(node, decl=new, instance=tuple([(variables[v], t) for v, t in instance]))
            case core.Foreign(decl=decl) if decl in self.to:
                return replace(node, decl=self.to[decl])
        return node


# ---- messages that follow from others --------------------------------------------------------------------------------
# Handles messages that follow from a mistake elsewhere: they are dropped, or give it as their cause.


def outside_of_script(d: Diagnostic, variables: set[str]) -> Diagnostic:
    """Tells a function that misses a variable of the script why it does."""
    name = d.span.text if d.span is not None else ""
    if d.code != "E0201" or name not in variables or own_help(d):
        return d
    help = (f"functions do not see the variables of a script: declare it by `const {name} = …`, or pass it",)
    return replace(d, help=help)


def without_cascades(diagnostics: list[Diagnostic], module: s.Module, problems: list[Diagnostic]) -> list[Diagnostic]:
    """Leaves out what is said about declarations that could not be read as they were meant."""
    if not problems:
        return diagnostics
    known, items = set(problems), sorted(module.items, key=lambda i: i.span.first)
    starts = [i.span.first for i in items]

    def declaration(d: Diagnostic) -> int | None:
        """The number of the declaration that a message is about."""
        if d.span is None or d.span.source.file is not module.source:
            return None
        at = bisect_right(starts, d.span.first) - 1
        return at if at >= 0 and d.span.first <= items[at].span.last else None

    broken = {at for p in problems if (at := declaration(p)) is not None}
    return [d for d in diagnostics if d in known or declaration(d) not in broken]


def of_mistakes(d: Diagnostic) -> bool:
    """Tells whether a message speaks of a type that a mistake has left unknown: the mistake has its own message."""
    return MISTAKE.name in d.message


def bind_missing(table: ModuleTable, item: s.Import) -> None:
    """Names of an import that failed, so that their uses aren't reported too."""
    if item.names is None:
        name = ".".join(item.path)
        missing = ModuleTable(name, "", core.CoreModule(name, ""), broken=True)
        table.entries[item.alias or item.path[-1]] = ModuleEntry(missing, item.span)
    for n in item.names or ():
        if isinstance(n, s.Name) and not n.name[:1].isupper() and n.name not in table.entries:
            table.entries[n.name] = declarations.any_entry(n.name, table.name, item.span, None)
