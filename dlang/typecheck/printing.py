"""Types in words: for messages, hover texts and schemes."""

from __future__ import annotations

from dlang.typecheck import types as ty
from dlang.typecheck.state import Term
from dlang.typecheck.terms import variables

_POOLS = {ty.TypeVar: "abcdefgh", ty.SizeVar: "nmklpqij", ty.RowVar: "stuvwxyz"}


class Names:
    """Names for printing: one object per message, in which a variable keeps its letter.

    scheme: literals that are still open keep a letter, else they are shown as what they default to.
    """

    def __init__(self, *, scheme: bool = False) -> None:
        self.names: dict[ty.Var, str] = {}
        self.used: set[str] = set()
        self.scheme = scheme

    def prepare(self, *terms: Term) -> Names:
        """Variables with a written name get it before others get letters."""
        for v in variables(*terms):
            if v.rigid and v.name and not (isinstance(v, ty.SizeVar) and v.opened):
                self.of(v)
        return self

    def reserve(self, v: ty.Var, name: str) -> None:
        self.names[v] = name
        self.used.add(name)

    def of(self, v: ty.Var) -> str:
        if v in self.names:
            return self.names[v]
        if isinstance(v, ty.SizeVar) and v.opened:
            count = 1 + sum(1 for o in self.names if isinstance(o, ty.SizeVar) and o.opened)
            name = v.name if v.name else f"?{count}"
        elif v.rigid and v.name:
            name = v.name
            while name in self.used:  # another function's variable of the same name
                name += "'"
        else:
            name = self.fresh(_POOLS[type(v)])
        self.reserve(v, name)
        return name

    def fresh(self, pool: str) -> str:
        taken = self.used
        for suffix in ("", "'", *map(str, range(1, 1000))):
            for letter in pool:
                if letter + suffix not in taken:
                    return letter + suffix
        raise AssertionError("names are endless")

    def size(self, s: ty.Size) -> str:
        s = ty.resolve_size(s)
        terms = sorted(s.poly.terms.items(), key=lambda mc: (-len(mc[0]), mc[1] < 0, [a.serial for a in mc[0]]))
        out = ""
        for monomial, c in terms:
            top, bottom = abs(c.numerator), c.denominator
            magnitude = [str(top)] if top != 1 or not monomial else []
            factors = len(monomial) + len(magnitude) + (bottom != 1)
            body = " * ".join(magnitude + [self.atom(a, factors > 1) for a in monomial])
            body += f" / {bottom}" if bottom != 1 else ""
            out += ((" - " if c < 0 else " + ") if out else ("-" if c < 0 else "")) + body
        return out or "0"

    def atom(self, a: ty.SizeAtom, inside_product: bool = False) -> str:
        if not isinstance(a, ty.Floor):
            return self.of(a)
        parts = [self.size(a.dividend), self.size(a.divisor)]
        text = " // ".join(f"({p})" if " " in p else p for p in parts)
        return f"({text})" if inside_product else text

    def dims(self, s: ty.Shape) -> str:
        s = ty.resolve_shape(s)
        row = [".." + self.of(s.row)] if s.row is not None else []
        return ", ".join([*map(self.size, s.pre), *row, *map(self.size, s.post)])

    def type(self, t: ty.Type) -> str:
        t = ty.resolve(t)
        match t:
            case ty.TypeVar():
                if t.literal and not self.scheme and not t.rigid:
                    return "f64" if t.prefers_float else "i64"
                return self.of(t)
            case ty.TypeCon(name):
                return name
            case ty.TypeArray(element, shape):
                inner = self.type(element)
                if isinstance(ty.resolve(element), ty.TypeFn):
                    inner = f"({inner})"
                return f"{inner}[{self.dims(shape)}]"
            case ty.TypeTuple(items):
                return "(" + ", ".join(map(self.type, items)) + ")"
            case ty.TypeFn(params, result, effects):
                while effects.ref is not None:
                    effects = effects.ref
                names = " + ".join(sorted(effects.names))
                return (
                    "("
                    + ", ".join(map(self.type, params))
                    + ") -> "
                    + self.type(result)
                    + (f" ! {names}" if names else "")
                )
            case ty.TypeData(decl, args):
                written = [self.dims(a) if isinstance(a, ty.Shape) else self(a) for a in args]
                return decl.name + (f"<{', '.join(filter(None, written))}>" if args else "")

    def __call__(self, t: Term) -> str:
        if isinstance(t, ty.Size):
            return self.size(t)
        return f"[{self.dims(t)}]" if isinstance(t, ty.Shape) else self.type(t)


def show(t: Term) -> str:
    return Names().prepare(t)(t)
