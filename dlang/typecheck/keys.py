"""Digests of the parts of a module: what is checked of a part is kept under the digest of all that it depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from dlang.grammar import syntax as s
from dlang.typecheck import core, types as ty
from dlang.typecheck.cache import Uses
from dlang.typecheck.groups import Mentions, reached
from dlang.typecheck.scope import FnEntry, ModuleTable
from dlang.typecheck.state import Term


class Keys:
    """The digests of the parts of one module.

    outside: of its name and what it imports; written: of the texts of all its data types, with the constants in their
    sizes. types: of the data types that have been declared, by their names and those of their constructors; interfaces:
    of the functions that have been checked. mentions: of its trees.
    """

    def __init__(self, module: s.Module, outside: str, mentions: Mentions) -> None:
        self.functions = {i.name: i for i in module.items if isinstance(i, s.Fn | s.Const | s.Extern)}
        self.mentions = mentions
        self.outside = combined([outside, *[text_of(i) for i in module.items if isinstance(i, s.Import)]])
        self.written = self._texts([i for i in module.items if isinstance(i, s.Struct | s.Enum | s.Alias)])
        self.types: dict[str, str] = {}
        self.interfaces: dict[str, str] = {}

    def _texts(self, types: Sequence[s.Struct | s.Enum | s.Alias]) -> str:
        """The digest of the texts of data types, and of the constants in their sizes."""
        sizes = reached({n for t in types for n in self.mentions.among(self.functions, t)}, self.functions)
        return combined([self.outside, *map(text_of, types), *[text_of(self.functions[n]) for n in sorted(sizes)]])

    def of_types(self, types: Sequence[s.Struct | s.Enum | s.Alias]) -> str:
        """The digest of data types that mention one another; those that they mention of others are known."""
        used = {n for t in types for n in self.mentions.of(t).types if n in self.types}
        return combined([self._texts(types), *(self.types[n] for n in sorted(used))])

    def group(self, table: ModuleTable, group: list[str]) -> str:
        """The digest of a group; the interfaces of those before it are known, others count by their text alone."""
        parts = [self.outside]
        for name in group:
            parts += self.of_item(table, table.functions[name])
        return combined(parts)

    def block(self, table: ModuleTable, item: s.Test | s.Bench) -> str:
        """The digest of a test or a benchmark."""
        return combined([self.outside, *self.of_item(table, item)])

    def of_item(self, table: ModuleTable, item: s.Item) -> list[str]:
        """The text of an item, and what it depends on in its module."""
        used = sorted(self.mentions.among(table.functions, item))
        types = sorted({self.types[n] for n in self.mentions.of(item).types if n in self.types})
        return [text_of(item), *types, *(self.dependency(table, n) for n in used)]

    def dependency(self, table: ModuleTable, name: str) -> str:
        known = self.interfaces.get(name)
        return known if known is not None else f"{text_of(table.functions[name])} {self.written}"

    def uses_of(self, table: ModuleTable, items: Iterable[s.Item]) -> Uses:
        """Returns the functions of their module that items mention, as far as these have been checked."""
        names = {n for item in items for n in self.mentions.among(table.functions, item)}
        return {n: e.decl for n in names if isinstance(e := table.entries.get(n), FnEntry)}


def interfaces(table: ModuleTable, group: list[str], types: Mapping[str, str]) -> dict[str, str]:
    """The digests of what others see of the functions of a group that has been checked. types: those of data types."""
    entries = {n: e for n in group if isinstance(e := table.entries.get(n), FnEntry)}
    return {n: combined([interface(e, table.integers.get(n), types)]) for n, e in entries.items()}


def moved(uses: Uses, now: Uses) -> dict[core.FnDecl, core.FnDecl]:
    """The declarations that have been checked again since, and what they are now."""
    return {old: now[n] for n, old in uses.items() if n in now and now[n] is not old}


def text_of(item: s.Item) -> str:
    """The text of an item, and which source it has: the same text elsewhere has other spans."""
    source, start, end, _ = item.span
    return f"{source.path} {source.number} {start} {source.text[start:end]}"


def combined(parts: list[str]) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def interface(entry: FnEntry, value: int | None, types: Mapping[str, str]) -> str:
    """Its scheme with numbers for variables, and what else a use may look at. value: of an integer constant. types: the
    digests of the data types of its module."""
    w = Writer(entry.decl.module, types)
    decl, scheme = entry.decl, entry.scheme
    variables = [w.declared(v, v in scheme.opened) for v in scheme.variables]
    parts = [
        f"{decl.kind} {decl.module}.{decl.name} {entry.builtin} {value} {decl.body is None} {entry.pending}",
        " ".join(variables),
        " ".join(map(w.type, scheme.params)),
        w.type(scheme.result),
        " ".join("-" if s is None else w.size(s) for s in scheme.sizes),
        " ".join(c.kind + str(c.data) + " ".join(map(w.term, c.terms())) for c in scheme.constraints),
        " ".join(str(n) for n in entry.names),
        " ".join(sorted(decl.effects)),
        w.refinement(decl.refinement),
    ]
    for p in decl.params:
        default = "" if p.default is None else p.default.span.text
        parts.append(f"{p.nodiff} {default} {w.refinement(p.local.refinement)} {p.local.name}")
    return "\n".join(parts)


class Writer:
    """Terms as text in which equal terms are equal: variables are numbered as they come, and types of the module at
    hand have their digests."""

    def __init__(self, module: str, types: Mapping[str, str]) -> None:
        self.numbers: dict[ty.Var, int] = {}
        self.module, self.types = module, types

    def variable(self, v: ty.Var) -> str:
        kind = "t" if isinstance(v, ty.TypeVar) else "r" if isinstance(v, ty.RowVar) else "s"
        return f"{kind}{self.numbers.setdefault(v, len(self.numbers))}"

    def declared(self, v: ty.Var, opened: bool) -> str:
        """A variable of the scheme with its bounds."""
        bounds = f"{v.atomic}{sorted(v.classes)}{v.literal}" if isinstance(v, ty.TypeVar) else ""
        return f"{self.variable(v)}:{v.name}:{opened}:{bounds}"

    def term(self, t: Term) -> str:
        if isinstance(t, ty.Size):
            return self.size(t)
        return self.shape(t) if isinstance(t, ty.Shape) else self.type(t)

    def atom(self, a: ty.SizeAtom) -> str:
        if isinstance(a, ty.Floor):
            return f"({self.size(a.dividend)}//{self.size(a.divisor)})"
        return self.variable(a)

    def size(self, s: ty.Size) -> str:
        terms = ty.resolve_size(s).poly.terms.items()
        return "+".join(sorted(f"{c}*" + "*".join(sorted(map(self.atom, m))) for m, c in terms))

    def shape(self, s: ty.Shape) -> str:
        s = ty.resolve_shape(s)
        row = [".." + self.variable(s.row)] if s.row is not None else []
        return "[" + ",".join([*map(self.size, s.pre), *row, *map(self.size, s.post)]) + "]"

    def effects(self, e: ty.Effects) -> str:
        while e.ref is not None:
            e = e.ref
        return f"{sorted(e.names)}{e.closed}"

    def type(self, t: ty.Type) -> str:
        t = ty.resolve(t)
        match t:
            case ty.TypeVar():
                return self.variable(t)
            case ty.TypeCon(name):
                return name
            case ty.TypeArray(element, shape):
                return self.type(element) + self.shape(shape)
            case ty.TypeTuple(items):
                return f"({','.join(map(self.type, items))})"
            case ty.TypeFn(params, result, effects, opened):
                bound = ",".join(self.variable(v) for v in opened)
                return f"({','.join(map(self.type, params))}->{bound}.{self.type(result)}!{self.effects(effects)})"
            case ty.TypeData(decl, args):
                digest = self.types.get(decl.name, "") if decl.module == self.module else ""
                return f"{decl.module}.{decl.name}{digest}<{','.join(map(self.term, args))}>"

    def refinement(self, r: ty.Refinement | None) -> str:
        match r:
            case None:
                return "-"
            case ty.Below(size):
                return f"<{self.size(size)}"
            case ty.Elements(element):
                return f"[{self.refinement(element)}]"
            case ty.Items(items):
                return f"({','.join(map(self.refinement, items))})"
