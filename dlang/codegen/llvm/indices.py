"""Polynomials as LLVM text: sizes, bounds and indices, each part computed as far out as it can be."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from dlang.codegen.llvm.scalars import constant
from dlang.codegen.llvm.writer import Writer
from dlang.ir.anf import Size, Var
from dlang.polynomials import Monomial, Poly


def size_value(w: Writer, size: Size) -> str:
    """The value of a polynomial that is the same in all lanes; each part is computed as far out as it can be."""
    value = size.constant
    if value is not None:
        return str(int(value))
    scale = lcm(*(c.denominator for c in size.terms.values()))
    if scale != 1:
        total = size_value(w, size * scale)
        depth = w.depth_of(list(size.atoms()))
        return w.ops(depth).emit(f"sdiv exact i64 {total}, {scale}")
    by_depth: dict[int, list[tuple[Monomial[Var], int]]] = {}
    for monomial, c in size.terms.items():
        by_depth.setdefault(w.depth_of(monomial), []).append((monomial, int(c)))
    key: tuple[object, ...] = ()
    total = ""
    for depth in sorted(by_depth):
        terms = by_depth[depth]
        key = (*key, frozenset(terms))
        if depth < w.depth and key in w.scopes[depth].memo:
            total = w.scopes[depth].memo[key]
            continue
        for monomial, c in sorted(terms, key=lambda t: t[1] < 0):
            total = _sum(w, depth, total, monomial, c)
        if depth < w.depth:
            w.scopes[depth].memo[key] = total
    return total


def _sum(w: Writer, depth: int, total: str, monomial: Monomial[Var], c: int) -> str:
    ops = w.ops(depth)
    if not monomial:
        return ops.emit(f"add nsw i64 {total}, {c}") if total else str(c)
    if total and c < 0:
        return ops.emit(f"sub nsw i64 {total}, {_term(w, monomial, -c)}")
    term = _term(w, monomial, c)
    return ops.emit(f"add nsw i64 {total}, {term}") if total else term


def _term(w: Writer, monomial: Monomial[Var], c: int) -> str:
    atoms = sorted(monomial, key=lambda a: w.depths[a])
    out = w.values[atoms[0]]
    where = w.depths[atoms[0]]
    if c != 1:
        out = _product(w, where, out, str(c))
    for atom in atoms[1:]:
        where = max(where, w.depths[atom])
        out = _product(w, where, out, w.values[atom])
    return out


def _product(w: Writer, depth: int, x: str, y: str) -> str:
    if depth < w.depth:
        memo = w.scopes[depth].memo
        key = ("mul", x, y)
        if key not in memo:
            memo[key] = w.ops(depth).emit(f"mul nsw i64 {x}, {y}")
        return memo[key]
    return w.ops(depth).emit(f"mul nsw i64 {x}, {y}")


def bounds(w: Writer, lows: Sequence[Size], highs: Sequence[Size]) -> tuple[str, str]:
    return _extreme(w, "smax", lows), _extreme(w, "smin", highs)


def _extreme(w: Writer, name: str, sizes: Sequence[Size]) -> str:
    out = size_value(w, sizes[0])
    for size in sizes[1:]:
        out = w.ops().intrinsic(name, "i64", out, size_value(w, size))
    return out


def size_varies(w: Writer, size: Size) -> bool:
    """Tells whether a polynomial differs between lanes."""
    return w.lane is not None and any(w.varies(a) for a in size.atoms())


def size_vector(w: Writer, size: Size) -> str:
    """The value of a polynomial in every lane."""
    assert w.lane is not None
    ops = w.ops(width=w.lane.width)
    fixed = Poly({m: c for m, c in size.terms.items() if not any(w.varies(a) for a in m)})
    scale = lcm(*(c.denominator for c in size.terms.values())) if size.terms else 1
    if scale != 1:
        return ops.emit(f"sdiv exact {ops.type('i64')} {size_vector(w, size * scale)}, {ops.constant(scale, 'i64')}")
    total = ""
    if fixed.terms:
        total = splat_size(w, fixed)
    for monomial, c in size.terms.items():
        moving = [a for a in monomial if w.varies(a)]
        if not moving:
            continue
        factor = Poly({tuple(a for a in monomial if not w.varies(a)): c})
        term = w.lane.vectors[moving[0]]
        for a in moving[1:]:
            term = ops.binary("mul", "i64", term, w.lane.vectors[a])
        if factor != 1:
            term = ops.binary("mul", "i64", term, splat_size(w, factor))
        total = ops.binary("add", "i64", total, term) if total else term
    return total


def splat_size(w: Writer, size: Size) -> str:
    assert w.lane is not None
    if size.constant is not None:
        return constant(int(size.constant), "i64", w.lane.width)
    return w.splat(size_value(w, size), "i64", w.depth_of(list(size.atoms())))
