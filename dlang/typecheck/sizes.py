"""Equality of sizes: polynomials in normal form; a linear equation is solved for a variable, in whole numbers."""

from __future__ import annotations

from fractions import Fraction

from dlang.diagnostics import Note
from dlang.polynomials import Poly
from dlang.typecheck.mismatches import Infinite, Negative, NoMultiple, OnlyInside
from dlang.typecheck.printing import Names
from dlang.typecheck.state import Constraint, Inference, Mismatch, Reason
from dlang.typecheck.terms import size_variables
from dlang.typecheck.types import Floor, Size, SizeAtom, SizeVar, resolve_size


def closed(s: Size) -> bool:
    """Nothing in it is still to be found."""
    return all(v.rigid for v in size_variables(s))


def constant(s: Size) -> int | None:
    c = resolve_size(s).poly.constant
    return None if c is None else int(c)


def same(a: Size, b: Size) -> bool:
    return resolve_size(a).poly == resolve_size(b).poly


def add(a: Size, b: Size, origin: Note | None = None) -> Size:
    return Size(resolve_size(a).poly + resolve_size(b).poly, origin or a.origin or b.origin)


def subtract(a: Size, b: Size, origin: Note | None = None) -> Size:
    return Size(resolve_size(a).poly - resolve_size(b).poly, origin or a.origin or b.origin)


def multiply(a: Size, b: Size, origin: Note | None = None) -> Size:
    return Size(resolve_size(a).poly * resolve_size(b).poly, origin or a.origin or b.origin)


def product(sizes: tuple[Size, ...], origin: Note | None = None) -> Size:
    total: Poly[SizeAtom] = Poly({(): 1})
    for s in sizes:
        total = total * resolve_size(s).poly
    return Size(total, origin)


def exact_division(a: Size, b: Size) -> Size | None:
    """`a / b` where b is a number; the coefficients may become fractions."""
    c = constant(b)
    if not c:
        return None
    return Size(Poly({m: Fraction(x) / c for m, x in resolve_size(a).poly.terms.items()}), a.origin)


def bind_size(st: Inference, v: SizeVar, s: Size) -> None:
    for w in size_variables(s):
        if w is v:
            raise Mismatch(Size(Poly.of(v)), s, Infinite("size"))
        if w.rigid:
            if w.level > v.level and not w.opened:
                raise Mismatch(Size(Poly.of(v)), s, OnlyInside(Names().of(w)))
        elif w.level > v.level:
            w.level = v.level
    v.ref = s if s.origin is not None or v.origin is None else Size(s.poly, v.origin)
    st.progress = True


def unify_size(st: Inference, a: Size, b: Size) -> None:
    """Makes two sizes equal, or defers the equation while it isn't linear in what is open."""
    a, b = resolve_size(a), resolve_size(b)
    if a.poly == b.poly:
        return
    difference = _without_common_factors(a.poly - b.poly)
    if difference.constant is not None:
        raise Mismatch(a, b)
    linear: list[SizeVar] = []
    hidden: set[SizeVar] = set()
    for monomial in difference.terms:
        for atom in monomial:
            if isinstance(atom, Floor):
                hidden.update(size_variables(atom.dividend))
                hidden.update(size_variables(atom.divisor))
            elif len(monomial) > 1:
                hidden.add(atom)
            elif not atom.rigid:
                linear.append(atom)
    solvable = [v for v in linear if v not in hidden]
    for v in sorted(solvable, key=lambda v: (abs(difference.terms[(v,)]) != 1, -v.level, -v.serial)):
        k = difference.terms[(v,)]
        rest = Poly({m: Fraction(-c) / k for m, c in difference.terms.items() if m != (v,)})
        # By a coefficient of 1 nothing is divided: fractions were in a size before, which is whole where it was made.
        if abs(k) == 1 or all(isinstance(c, int) for c in rest.terms.values()):
            value = rest.constant
            if value is not None and value < 0:
                raise Mismatch(a, b, Negative())
            bind_size(st, v, Size(rest, (b if (v,) in a.poly.terms else a).origin))
            return
    if len(solvable) == 1 and all(v.rigid for v in hidden):
        k = difference.terms[(solvable[0],)]
        raise Mismatch(a, b, NoMultiple(max(k, -k)))
    if any(not v.rigid for v in size_variables(Size(difference))):
        st.defer(Constraint("size", current_reason(st), sizes=(a, b)))
        return
    raise Mismatch(a, b)


def _without_common_factors(p: Poly[SizeAtom]) -> Poly[SizeAtom]:
    """Divided by what is known of a factor of all terms: s * h = s * n where h = n, or where s is 0 and h will do."""
    first, *rest = p.terms
    for atom in first:
        if all(v.rigid for v in size_variables(Size(Poly.of(atom)))) and all(atom in m for m in rest):
            shorter = {_once_less(m, atom): c for m, c in p.terms.items()}
            return _without_common_factors(Poly(shorter))
    return p


def _once_less(m: tuple[SizeAtom, ...], atom: SizeAtom) -> tuple[SizeAtom, ...]:
    k = m.index(atom)
    return (*m[:k], *m[k + 1 :])


def current_reason(st: Inference) -> Reason:
    assert st.reason is not None, "constraints are made while an expression is checked"
    return st.reason


def where_from(s: Size, names: Names) -> list[Note]:
    """Returns notes on the origin of a size: its own, else those of the variables in it."""
    s = resolve_size(s)
    atom = s.poly.atom
    if isinstance(atom, SizeVar) and atom.rigid and atom.origin is not None:
        return [Note(f"`{names.size(s)}` is {atom.origin.text}", atom.origin.span)]
    if s.origin is not None:
        return [Note(f"`{names.size(s)}` is {s.origin.text}", s.origin.span)]
    notes: dict[str, Note] = {}
    for v in size_variables(s):
        if v.origin is not None:
            text = f"`{names.of(v)}` is {v.origin.text}"
            notes.setdefault(text, Note(text, v.origin.span))
    return list(notes.values())
