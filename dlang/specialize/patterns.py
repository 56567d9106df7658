"""Patterns: binding those that cannot fail, testing those that can."""

from __future__ import annotations

from dlang.ir.anf import Atom, Lit
from dlang.specialize.emitter import TRUE
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.values import DataV, EnumV, ScalarV, TupleV, Value
from dlang.typecheck import core


def bind_pattern(f: Frame, p: core.Pattern, v: Value) -> None:
    """Makes the names of a pattern stand for the parts of a value that it is known to match."""
    match p, v:
        case core.Bind(local), _:
            f.env[local] = v
            if local.size is not None and isinstance(v, ScalarV):
                f.bindings[local.size] = f.emitter.poly(v.atom)
        case core.TuplePattern(items), TupleV(parts):
            for item, part in zip(items, parts, strict=True):
                bind_pattern(f, item, part)
        case core.VariantPattern(_, _, items), DataV(_, parts):
            for item, part in zip(items, parts, strict=True):
                bind_pattern(f, item, part)
        case core.VariantPattern(_, variant, items), EnumV(_, _, variants):
            for item, part in zip(items, variants[variant.tag], strict=True):
                bind_pattern(f, item, part)
        case core.Alternatives(items), _:
            bind_pattern(f, items[0], v)


def test(f: Frame, p: core.Pattern, v: Value) -> Atom:
    """Whether a value matches, as a bool that is the literal true where it must."""
    e = f.emitter
    match p, v:
        case ((core.Wildcard() | core.Bind()), _):
            return TRUE
        case core.LiteralPattern(literal), ScalarV(atom):
            value = literal.value
            dtype = v.dtype
            if dtype.startswith(("f", "bf")):
                value = float(value)
            return e.prim("eq", atom, Lit(value, dtype))
        case core.TuplePattern(items), TupleV(parts):
            return _all(f, items, parts)
        case core.VariantPattern(decl, _, items), DataV(_, parts) if decl.is_struct:
            return _all(f, items, parts)
        case core.VariantPattern(_, variant, items), EnumV(_, ScalarV(tag), variants):
            here = e.prim("eq", tag, Lit(variant.tag, "i64"))
            inside = _all(f, items, variants[variant.tag])
            return here if inside == TRUE else e.prim("and", here, inside)
        case core.Alternatives(items), _:
            out = test(f, items[0], v)
            for item in items[1:]:
                out = out if out == TRUE else e.prim("or", out, test(f, item, v))
            return out
    raise unsupported("this pattern", e.span)


def _all(f: Frame, items: tuple[core.Pattern, ...], parts: tuple[Value, ...]) -> Atom:
    out: Atom = TRUE
    for item, part in zip(items, parts, strict=True):
        here = test(f, item, part)
        out = here if out == TRUE else out if here == TRUE else f.emitter.prim("and", out, here)
    return out
