"""The common type of two branches: equal but for sizes, which may differ where one is known only when it runs."""

from __future__ import annotations

from dlang.diagnostics import Note, Span
from dlang.typecheck.context import Checker
from dlang.typecheck.sizes import same
from dlang.typecheck.state import Reason, Term
from dlang.typecheck.terms import of_var, opened_in, substitute, variables
from dlang.typecheck.types import (
    Shape,
    Size,
    SizeVar,
    Type,
    TypeArray,
    TypeData,
    TypeTuple,
    TypeVar,
    Var,
    resolve,
)


def may_be_opened(open_: Type, known: Type) -> bool:
    """Tells whether the first type is still open where the second has a size that was opened from a `?`."""
    if not opened_in(known):
        return False
    if isinstance(open_, TypeVar):
        return not open_.rigid
    return isinstance(open_, TypeArray) and open_.shape.row is not None and not open_.shape.row.rigid


class Join:
    """One join; equal pairs of sizes have one result. lenient: any two sizes may differ (an annotation says `?`)."""

    def __init__(self, cx: Checker, span: Span, what: str, lenient: bool) -> None:
        self.cx, self.span, self.what, self.lenient = cx, span, what, lenient
        self.made: list[tuple[Size, Size, SizeVar]] = []
        self.left: list[SizeVar] = []

    def type(self, a: Type, b: Type) -> Type:
        a, b = resolve(a), resolve(b)
        if isinstance(a, TypeArray) and isinstance(b, TypeArray):
            if a.shape.row is None and b.shape.row is None and len(a.shape.pre) == len(b.shape.pre):
                sizes = tuple(self.size(x, y) for x, y in zip(a.shape.pre, b.shape.pre, strict=True))
                return TypeArray(self.type(a.element, b.element), Shape(sizes))
        elif isinstance(a, TypeTuple) and isinstance(b, TypeTuple) and len(a.items) == len(b.items):
            return TypeTuple(tuple(self.type(x, y) for x, y in zip(a.items, b.items, strict=True)))
        elif isinstance(a, TypeData) and isinstance(b, TypeData) and a.decl is b.decl:
            return TypeData(a.decl, tuple(self.term(x, y) for x, y in zip(a.args, b.args, strict=True)))
        for open_, known in ((a, b), (b, a)):
            if may_be_opened(open_, known):  # a join never gives an opened size to what is still open
                fresh: dict[Var, Term] = {v: of_var(self.cx.st.size_var()) for v in opened_in(known)}
                self.cx.expect(substitute(known, fresh), open_, self.span, self.what)
                return self.type(a, b)
        self.cx.expect(a, b, self.span, self.what)
        return a

    def term(self, a: Term, b: Term) -> Term:
        if isinstance(a, Size) and isinstance(b, Size):
            return self.size(a, b)
        if isinstance(a, Shape) or isinstance(b, Shape) or isinstance(a, Size) or isinstance(b, Size):
            return a
        return self.type(a, b)

    def size(self, x: Size, y: Size) -> Size:
        if same(x, y):
            return x
        for p, q, known in self.made:
            if same(p, x) and same(q, y):
                return of_var(known)
        origin = Note("that of branches with different sizes", self.span)
        v = self.cx.st.size_var(origin)
        self.made.append((x, y, v))
        self.cx.constrain("join", Reason(self.span, self.what), sizes=(x, y, of_var(v)), data=int(self.lenient))
        self.cx.unfinished = True
        return of_var(v)

    def leaving(self, t: Type, mark: int, joined: tuple[SizeVar, ...]) -> Type:
        """Sizes opened inside a branch have no name outside it: the value has fresh ones, but for those `joined`."""
        inner = self.cx.opened_since(mark)
        if inner:
            inner -= {v for j in joined for v in variables(of_var(j)) if isinstance(v, SizeVar)}
        mapping: dict[Var, Term] = {}
        for v in variables(t) if inner else ():
            if isinstance(v, SizeVar) and v in inner:
                outer = self.cx.st.open_size(Note("that of a value from branches", self.span))
                self.left.append(outer)
                mapping[v] = of_var(outer)
        return substitute(t, mapping) if mapping else t

    @property
    def candidates(self) -> tuple[SizeVar, ...]:
        return (*(v for _, _, v in self.made), *self.left)
