"""Structs, tuples and enums: made, matched, taken apart."""

from __future__ import annotations

from tests.fuzz.types import BOOL, F64, I64, SELF, Arr, Enum, Fn, Struct, Type
from tests.fuzz.writer import EACH, Writer, named


def struct(w: Writer, t: Struct, depth: int) -> str:
    known = w.reads(t)
    if known and w.chance(40):
        name, ft = w.random.choice(t.fields)
        return f"{t.name}(..{w.random.choice(known)}, {name} = {w.expr(ft, depth - 1)})"
    return f"{t.name}({', '.join([f'{f} = {w.expr(ft, depth - 1)}' for f, ft in t.fields])})"


def variant(w: Writer, t: Enum, depth: int) -> str:
    name, fields = w.random.choice(t.variants)
    if not fields:
        return name
    return f"{name}({', '.join([w.expr(t if f == SELF else f, depth - 2) for f in fields])})"


def matched(w: Writer, t: Type, depth: int) -> str | None:
    """`match` on an enum: an arm for each variant, perhaps with a guard or a literal before."""
    if not w.program.enums:
        return numbers_matched(w, t, depth)
    enum = w.enum()
    subject = w.expr(enum, depth - 1)
    if subject in [name for name, fields in enum.variants if not fields]:
        return None  # of which nothing says what it could hold
    arms = []
    for name, fields in enum.variants:
        if fields and w.chance(25):
            arms.append(arm(w, name, fields, enum, t, depth, guarded=True))
        arms.append(arm(w, name, fields, enum, t, depth, guarded=False))
    return f"(match {subject} {{ {', '.join(arms)} }})"


def arm(w: Writer, name: str, fields: tuple[Type, ...], enum: Enum, t: Type, depth: int, guarded: bool) -> str:
    with w.inner():
        names = []
        for ft in fields:
            if guarded and ft == I64 and w.chance(40):
                names.append(str(w.random.randrange(4)))
                continue
            names.append(w.fresh("p") if w.chance(90) else "_")
            if names[-1] != "_":
                w.bind(names[-1], enum if ft == SELF else ft)
                w.scope.favourite = names[-1]
        guard = f" if {w.expr(BOOL, 1)}" if guarded else ""
        pattern = f"{name}({', '.join(names)})" if names else name
        return f"{pattern}{guard} => {w.expr(t, depth - 1)}"


def numbers_matched(w: Writer, t: Type, depth: int) -> str:
    """`match` on a pair of an integer and a truth value."""
    subject = f"(({w.expr(I64, depth - 2)}) % 4, {w.expr(BOOL, depth - 2)})"
    one, two, three = [w.expr(t, depth - 1) for _ in range(3)]
    return f"(match {subject} {{ (0, true) | (1, false) => {one}, (2, _) => {two}, _ => {three} }})"


def projected(w: Writer, t: Type, depth: int) -> str | None:
    """A field of a struct that is made for it, or a part of a tuple."""
    for s in w.program.structs:
        for f, ft in s.fields:
            if ft == t and w.chance(60):
                return f"{named(w.expr(s, depth - 1))}.{f}"
    return f"({w.expr(F64, depth - 2)}, {w.expr(t, depth - 1)}).1"


def element(w: Writer, t: Type, depth: int) -> str | None:
    """An element of an array of structures."""
    if isinstance(t, Arr | Fn) or not w.affords():
        return None
    size = w.size()
    with w.inner(mutable=False, iterations=EACH):
        i = w.fresh("i")
        w.scope.indices.append((i, size))
        body = w.expr(t, depth - 2)
    return f"[{body} for {i} < {size}][{w.index(size)}]"
