"""Writes the interface of a function, which its callers see, as text: two with the same interface are checked alike by
whoever names them."""

from __future__ import annotations

from collections.abc import Mapping

from dlang.typecheck.scope import FnEntry
from dlang.typecheck.state import Term
from dlang.typecheck.types import (
    Below,
    Effects,
    Elements,
    Floor,
    Items,
    Refinement,
    RowVar,
    Shape,
    Size,
    SizeAtom,
    Type,
    TypeArray,
    TypeCon,
    TypeData,
    TypeFn,
    TypeTuple,
    TypeVar,
    Var,
    resolve,
    resolve_shape,
    resolve_size,
)


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
        self.numbers: dict[Var, int] = {}
        self.module, self.types = module, types

    def variable(self, v: Var) -> str:
        kind = "t" if isinstance(v, TypeVar) else "r" if isinstance(v, RowVar) else "s"
        return f"{kind}{self.numbers.setdefault(v, len(self.numbers))}"

    def declared(self, v: Var, opened: bool) -> str:
        """A variable of the scheme with its bounds."""
        bounds = f"{v.atomic}{sorted(v.classes)}{v.literal}" if isinstance(v, TypeVar) else ""
        return f"{self.variable(v)}:{v.name}:{opened}:{bounds}"

    def term(self, t: Term) -> str:
        if isinstance(t, Size):
            return self.size(t)
        return self.shape(t) if isinstance(t, Shape) else self.type(t)

    def atom(self, a: SizeAtom) -> str:
        if isinstance(a, Floor):
            return f"({self.size(a.dividend)}//{self.size(a.divisor)})"
        return self.variable(a)

    def size(self, s: Size) -> str:
        terms = resolve_size(s).poly.terms.items()
        return "+".join(sorted(f"{c}*" + "*".join(sorted(map(self.atom, m))) for m, c in terms))

    def shape(self, s: Shape) -> str:
        s = resolve_shape(s)
        row = [".." + self.variable(s.row)] if s.row is not None else []
        return "[" + ",".join([*map(self.size, s.pre), *row, *map(self.size, s.post)]) + "]"

    def effects(self, e: Effects) -> str:
        while e.ref is not None:
            e = e.ref
        return f"{sorted(e.names)}{e.closed}"

    def type(self, t: Type) -> str:
        t = resolve(t)
        match t:
            case TypeVar():
                return self.variable(t)
            case TypeCon(name):
                return name
            case TypeArray(element, shape):
                return self.type(element) + self.shape(shape)
            case TypeTuple(items):
                return f"({','.join(map(self.type, items))})"
            case TypeFn(params, result, effects, opened):
                bound = ",".join(self.variable(v) for v in opened)
                return f"({','.join(map(self.type, params))}->{bound}.{self.type(result)}!{self.effects(effects)})"
            case TypeData(decl, args):
                digest = self.types.get(decl.name, "") if decl.module == self.module else ""
                return f"{decl.module}.{decl.name}{digest}<{','.join(map(self.term, args))}>"

    def refinement(self, r: Refinement | None) -> str:
        match r:
            case None:
                return "-"
            case Below(size):
                return f"<{self.size(size)}"
            case Elements(element):
                return f"[{self.refinement(element)}]"
            case Items(items):
                return f"({','.join(map(self.refinement, items))})"
