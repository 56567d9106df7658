"""Unification of types, shapes and sizes. What differs, classes that don't hold and infinite types raise `Mismatch`.

Sizes are polynomials in normal form; a linear equation is solved for a variable, in whole numbers.
"""

from __future__ import annotations

from fractions import Fraction

from dlang.diagnostics import Note
from dlang.polynomials import Poly
from dlang.typecheck import types as ty
from dlang.typecheck.limits import within_size
from dlang.typecheck.mismatches import (
    DIFFERENT,
    EachCall,
    HasEffect,
    Infinite,
    Lacks,
    Negative,
    NoMultiple,
    OnlyInside,
    Ranks,
)
from dlang.typecheck.printing import Names
from dlang.typecheck.state import Constraint, Inference, Mismatch, Reason, Term
from dlang.typecheck.terms import free, is_empty, of_var, size_variables, substitute, variables, view


def closed(s: ty.Size) -> bool:
    """Nothing in it is still to be found."""
    return all(v.rigid for v in size_variables(s))


def constant(s: ty.Size) -> int | None:
    c = ty.resolve_size(s).poly.constant
    return None if c is None else int(c)


def same(a: ty.Size, b: ty.Size) -> bool:
    return ty.resolve_size(a).poly == ty.resolve_size(b).poly


def add(a: ty.Size, b: ty.Size, origin: Note | None = None) -> ty.Size:
    return ty.Size(ty.resolve_size(a).poly + ty.resolve_size(b).poly, origin or a.origin or b.origin)


def subtract(a: ty.Size, b: ty.Size, origin: Note | None = None) -> ty.Size:
    return ty.Size(ty.resolve_size(a).poly - ty.resolve_size(b).poly, origin or a.origin or b.origin)


def multiply(a: ty.Size, b: ty.Size, origin: Note | None = None) -> ty.Size:
    return ty.Size(ty.resolve_size(a).poly * ty.resolve_size(b).poly, origin or a.origin or b.origin)


def product(sizes: tuple[ty.Size, ...], origin: Note | None = None) -> ty.Size:
    total: Poly[ty.SizeAtom] = Poly({(): 1})
    for s in sizes:
        total = total * ty.resolve_size(s).poly
    return ty.Size(total, origin)


def exact_division(a: ty.Size, b: ty.Size) -> ty.Size | None:
    """`a / b` where b is a number; the coefficients may become fractions."""
    c = constant(b)
    if not c:
        return None
    return ty.Size(Poly({m: Fraction(x) / c for m, x in ty.resolve_size(a).poly.terms.items()}), a.origin)


def bind_size(st: Inference, v: ty.SizeVar, s: ty.Size) -> None:
    for w in size_variables(s):
        if w is v:
            raise Mismatch(ty.Size(Poly.of(v)), s, Infinite("size"))
        if w.rigid:
            if w.level > v.level and not w.opened:
                raise Mismatch(ty.Size(Poly.of(v)), s, OnlyInside(Names().of(w)))
        elif w.level > v.level:
            w.level = v.level
    v.ref = s if s.origin is not None or v.origin is None else ty.Size(s.poly, v.origin)
    st.changed(v)


def unify_size(st: Inference, a: ty.Size, b: ty.Size) -> None:
    """Makes two sizes equal, or defers the equation while it isn't linear in what is open."""
    a, b = ty.resolve_size(a), ty.resolve_size(b)
    if a.poly == b.poly:
        return
    difference = _without_common_factors(a.poly - b.poly)
    if difference.constant is not None:
        raise Mismatch(a, b)
    linear: list[ty.SizeVar] = []
    hidden: set[ty.SizeVar] = set()
    for monomial in difference.terms:
        for atom in monomial:
            if isinstance(atom, ty.Floor):
                hidden.update(size_variables(atom.dividend))
                hidden.update(size_variables(atom.divisor))
            elif len(monomial) > 1:
                hidden.add(atom)
            elif not atom.rigid:
                linear.append(atom)
    solvable = [v for v in linear if v not in hidden]
    for v in sorted(solvable, key=lambda v: (abs(difference.terms[(v,)]) != 1, -v.level, -v.serial)):
        k = difference.terms[(v,)]
        solution = Poly({m: Fraction(-c) / k for m, c in difference.terms.items() if m != (v,)})
        # By a coefficient of 1 nothing is divided: fractions were in a size before, which is whole where it was made.
        if abs(k) == 1 or all(isinstance(c, int) for c in solution.terms.values()):
            value = solution.constant
            if value is not None and value < 0:
                raise Mismatch(a, b, Negative())
            bind_size(st, v, ty.Size(solution, (b if (v,) in a.poly.terms else a).origin))
            return
    if len(solvable) == 1 and all(v.rigid for v in hidden):
        k = difference.terms[(solvable[0],)]
        raise Mismatch(a, b, NoMultiple(max(k, -k)))
    if any(not v.rigid for v in size_variables(ty.Size(difference))):
        st.defer(Constraint("size", current_reason(st), sizes=(a, b)))
        return
    raise Mismatch(a, b)


def _without_common_factors(p: Poly[ty.SizeAtom]) -> Poly[ty.SizeAtom]:
    """Divided by what is known of a factor of all terms: s * h = s * n where h = n, or where s is 0 and h will do."""
    first, *other_terms = p.terms
    for atom in first:
        if all(v.rigid for v in size_variables(ty.Size(Poly.of(atom)))) and all(atom in m for m in other_terms):
            shorter = {_once_less(m, atom): c for m, c in p.terms.items()}
            return _without_common_factors(Poly(shorter))
    return p


def _once_less(m: tuple[ty.SizeAtom, ...], atom: ty.SizeAtom) -> tuple[ty.SizeAtom, ...]:
    k = m.index(atom)
    return (*m[:k], *m[k + 1 :])


def current_reason(st: Inference) -> Reason:
    assert st.reason is not None, "constraints are made while an expression is checked"
    return st.reason


def where_from(s: ty.Size, names: Names) -> list[Note]:
    """Returns notes on the origin of a size: its own, else those of the variables in it."""
    s = ty.resolve_size(s)
    atom = s.poly.atom
    if isinstance(atom, ty.SizeVar) and atom.rigid and atom.origin is not None:
        return [Note(f"`{names.size(s)}` is {atom.origin.text}", atom.origin.span)]
    if s.origin is not None:
        return [Note(f"`{names.size(s)}` is {s.origin.text}", s.origin.span)]
    notes: dict[str, Note] = {}
    for v in size_variables(s):
        if v.origin is not None:
            text = f"`{names.of(v)}` is {v.origin.text}"
            notes.setdefault(text, Note(text, v.origin.span))
    return list(notes.values())


_IMPLIED = {
    "Float": frozenset({"Num", "Scalar", "Ord", "Eq"}),
    "Int": frozenset({"Num", "Scalar", "Bits", "Ord", "Eq"}),
    "Num": frozenset({"Scalar", "Ord", "Eq"}),
    "Bits": frozenset({"Scalar"}),
    "Ord": frozenset({"Eq"}),
}


def implied(classes: frozenset[str]) -> frozenset[str]:
    """A set of classes with all that follow from them."""
    return classes.union(*(_IMPLIED.get(c, frozenset()) for c in classes))


def strongest(classes: frozenset[str]) -> frozenset[str]:
    """Removes the classes that follow from others."""
    return frozenset(c for c in classes if not any(c in _IMPLIED.get(d, ()) for d in classes))


def has_classes(t: ty.Type, classes: frozenset[str]) -> bool:
    """Tells whether a type that is not a flexible variable belongs to all these classes."""
    match t:
        case ty.TypeCon(name):
            return t is ty.MISTAKE or all(
                name in ty.CLASSES[c] if c in ty.CLASSES else name in ty.FLOATS for c in classes
            )
        case ty.TypeVar():
            return classes <= implied(t.classes)
        case ty.TypeArray(element):
            e = ty.resolve(element)
            numbers = isinstance(e, ty.TypeVar) and (not e.rigid or "Float" in e.classes)
            return classes <= {"Vector"} and (numbers or has_classes(e, classes))
        case ty.TypeTuple() | ty.TypeData():
            return classes <= {"Vector"}
        case _:
            return False


def possible(classes: frozenset[str]) -> bool:
    """Tells whether there is a dtype that belongs to all these classes."""
    members = [ty.CLASSES.get(c, ty.FLOATS) for c in classes]
    return not members or bool(frozenset.intersection(*members))


def lacks(classes: frozenset[str]) -> Lacks:
    return Lacks(tuple(sorted(classes)))


def bind_type(st: Inference, v: ty.TypeVar, t: ty.Type) -> None:
    within_size(t, st.reason.span if st.reason is not None else None)
    for w in variables(t):
        if w is v:
            raise Mismatch(v, t, Infinite("(recursive) type"))
        if w.rigid:
            if w.level > v.level and not (isinstance(w, ty.SizeVar) and w.opened):
                raise Mismatch(v, t, OnlyInside(Names().of(w)))
        elif w.level > v.level:
            w.level = v.level
    v.ref = t
    st.changed(v)


def bind_row(st: Inference, v: ty.RowVar, s: ty.Shape) -> None:
    for w in free(s, {}):
        if w is v:
            raise Mismatch(ty.Shape((), v), s, Infinite("(recursive) shape"))
        if w.rigid:
            if w.level > v.level and not (isinstance(w, ty.SizeVar) and w.opened):
                raise Mismatch(ty.Shape((), v), s, OnlyInside(Names().of(w)))
        elif w.level > v.level:
            w.level = v.level
    v.ref = s
    st.changed(v)


def bind_rows(st: Inference, v: ty.RowVar, s: ty.Shape) -> None:
    """Binds a row to a shape with one; of two that are open, that of which fewer are told."""
    w = s.row
    if w is not None and not s.pre and not s.post and not w.rigid:
        if len(st.watching.get(v, ())) > len(st.watching.get(w, ())):
            v.name, v.origin = w.name, w.origin
            v, s = w, ty.Shape((), v)
    bind_row(st, v, s)


def unify(st: Inference, a: ty.Type, b: ty.Type) -> None:
    """Makes two types equal."""
    a, b = ty.resolve(a), ty.resolve(b)
    if a is b:
        return
    if a is ty.MISTAKE or b is ty.MISTAKE:
        other = a if b is ty.MISTAKE else b
        if isinstance(other, ty.TypeVar) and not other.rigid:
            other.ref = ty.MISTAKE
            st.changed(other)
        return
    if isinstance(b, ty.TypeVar) and not b.rigid and not (isinstance(a, ty.TypeVar) and not a.rigid):
        try:
            unify_variable(st, b, a)
        except Mismatch as m:
            raise m.swapped() from None
    elif isinstance(a, ty.TypeVar) and not a.rigid:
        unify_variable(st, a, b)
    elif isinstance(a, ty.TypeArray) or isinstance(b, ty.TypeArray):
        unify_arrays(st, a, b)
    elif isinstance(a, ty.TypeCon) and isinstance(b, ty.TypeCon) and a.name == b.name:
        return
    elif isinstance(a, ty.TypeTuple) and isinstance(b, ty.TypeTuple) and len(a.items) == len(b.items):
        for x, y in zip(a.items, b.items, strict=True):
            unify(st, x, y)
    elif isinstance(a, ty.TypeFn) and isinstance(b, ty.TypeFn) and len(a.params) == len(b.params):
        for x, y in zip(a.params, b.params, strict=True):
            unify(st, x, y)
        unify_results(st, a, b)
        unify_effects(a, b)
    elif isinstance(a, ty.TypeData) and isinstance(b, ty.TypeData) and a.decl is b.decl:
        for p, q in zip(a.args, b.args, strict=True):
            unify_term(st, p, q)
    else:
        raise Mismatch(a, b)


def unify_results(st: Inference, a: ty.TypeFn, b: ty.TypeFn) -> None:
    """The results of functions; a size `?` in one is a `?` in the other."""
    if not a.opened and not b.opened:
        unify(st, a.result, b.result)
        return
    first, second = bound_in_order(a), bound_in_order(b)
    if len(first) != len(second):
        raise Mismatch(a, b, EachCall())
    st.level += 1  # what is bound has no name outside: nothing there may be found to be it
    try:
        bound: list[Term] = [of_var(ty.SizeVar(st.level, rigid=True, origin=v.origin)) for v in first]
        unify(
            st,
            substitute(a.result, dict(zip(first, bound, strict=True))),
            substitute(b.result, dict(zip(second, bound, strict=True))),
        )
    finally:
        st.level -= 1


def unify_given(st: Inference, got: ty.Type, want: ty.Type) -> None:
    """A value for a place of a type: a function whose results have known sizes may stand where they may be any."""
    a, b = ty.resolve(got), ty.resolve(want)
    if isinstance(a, ty.TypeFn) and isinstance(b, ty.TypeFn) and b.opened:
        st.level += 1
        try:
            bound: dict[ty.Var, Term] = {v: of_var(ty.SizeVar(st.level, rigid=True, origin=v.origin)) for v in a.opened}
            any_size: dict[ty.Var, Term] = {v: of_var(st.size_var()) for v in b.opened}
            a = ty.TypeFn(a.params, substitute(a.result, bound), a.effects)
            b = ty.TypeFn(b.params, substitute(b.result, any_size), b.effects)
            unify(st, a, b)
        finally:
            st.level -= 1
    else:
        unify(st, got, want)


def bound_in_order(f: ty.TypeFn) -> list[ty.SizeVar]:
    """The sizes that are bound in a result, in order of occurrence."""
    return [v for v in variables(f.result) if isinstance(v, ty.SizeVar) and v in f.opened]


def unify_term(st: Inference, a: Term, b: Term) -> None:
    if isinstance(a, ty.Size):
        assert isinstance(b, ty.Size)
        unify_size(st, a, b)
    elif isinstance(a, ty.Shape):
        assert isinstance(b, ty.Shape)
        unify_shape(st, a, b)
    else:
        assert not isinstance(b, ty.Size | ty.Shape)
        unify(st, a, b)


def unify_effects(f: ty.TypeFn, g: ty.TypeFn) -> None:
    a, b = effects_root(f.effects), effects_root(g.effects)
    if a is b:
        return
    for closed, other in ((a, b), (b, a)):
        if closed.closed and not other.names <= closed.names:
            raise Mismatch(f, g, HasEffect(min(other.names - closed.names)))
    if a.closed and b.closed:
        return
    b.names |= a.names
    b.closed = b.closed or a.closed
    a.ref = b


def effects_root(e: ty.Effects) -> ty.Effects:
    while e.ref is not None:
        e = e.ref
    return e


def unify_variable(st: Inference, a: ty.TypeVar, b: ty.Type) -> None:
    """A flexible variable and any other resolved type."""
    if isinstance(b, ty.TypeVar) and not b.rigid:
        if not possible(a.classes | b.classes):
            raise Mismatch(a, b, lacks(b.classes if a.literal else a.classes))
        classes = strongest(a.classes | b.classes)
        if classes != b.classes or (a.atomic and not b.atomic):
            st.changed(b)
        if len(st.watching.get(a, ())) > len(st.watching.get(b, ())):  # as few as possible are told of it
            a.name, a.origin = b.name, b.origin
            a, b = b, a
        b.classes = classes
        b.atomic = b.atomic or a.atomic
        b.literal = "float" if "float" in (a.literal, b.literal) else a.literal or b.literal
        bind_type(st, a, b)
        return
    if isinstance(b, ty.TypeArray) and a.atomic:
        if b.shape.pre or b.shape.post:
            raise Mismatch(a, b, lacks(a.classes) if a.classes and not a.literal else DIFFERENT)
        unify_shape(st, b.shape, ty.Shape())
        unify(st, a, b.element)
        return
    if "Vector" in a.classes and isinstance(b, ty.TypeArray) and isinstance(e := ty.resolve(b.element), ty.TypeVar):
        if not e.rigid:
            e.classes = strongest(e.classes | {"Vector"})
            st.changed(e)
    if a.classes and not has_classes(b, a.classes):
        raise Mismatch(a, b, DIFFERENT if a.literal else lacks(a.classes))
    if a.atomic and isinstance(b, ty.TypeFn):
        raise Mismatch(a, b)
    bind_type(st, a, b)


def grows(t: ty.Type) -> bool:
    """A variable that may turn out to be an array."""
    t = ty.resolve(t)
    return isinstance(t, ty.TypeVar) and not t.rigid and not t.atomic


def unify_arrays(st: Inference, a: ty.Type, b: ty.Type) -> None:
    """Element and shape together, because an element that is open may absorb axes."""
    (ea, sa), (eb, sb) = view(a), view(b)
    n = min(len(sa.pre), len(sb.pre))
    for x, y in zip(sa.pre[:n], sb.pre[:n], strict=True):
        unify_size(st, x, y)
    sa = ty.resolve_shape(ty.Shape(sa.pre[n:], sa.row, sa.post))
    sb = ty.resolve_shape(ty.Shape(sb.pre[n:], sb.row, sb.post))
    for s, e, t, f in ((sa, ea, sb, eb), (sb, eb, sa, ea)):
        if s.row is not None or not grows(e):
            continue
        if not s.pre:  # a[] and b[rest]: a is b[rest]
            unify(st, e, f if is_empty(t) else ty.TypeArray(f, t))
            return
        if t.row is not None:
            if not t.pre and not t.post and not t.row.rigid:  # a[n] and b[..s]: s is n, ..r and a is b[..r]
                inner_row = ty.RowVar(t.row.level)
                st.made(inner_row)
                bind_row(st, t.row, ty.Shape(s.pre, inner_row))
                unify(st, e, ty.TypeArray(f, ty.Shape((), inner_row)))
            else:
                st.defer(Constraint("equal", current_reason(st), types=(ty.TypeArray(e, s), ty.TypeArray(f, t))))
            return
    try:
        unify_shape(st, sa, sb)
    except Mismatch as m:
        if isinstance(m.found, ty.Shape):
            raise Mismatch(a, b, m.why) from None
        raise
    unify(st, ea, eb)


def unify_shape(st: Inference, a: ty.Shape, b: ty.Shape) -> None:
    """Makes two shapes equal, axis by axis from both ends, and what is left by rows; raises Mismatch.

    Where rows could be divided in several ways, this waits as a constraint.
    """
    a, b = ty.resolve_shape(a), ty.resolve_shape(b)
    n = min(len(a.pre), len(b.pre))
    for x, y in zip(a.pre[:n], b.pre[:n], strict=True):
        unify_size(st, x, y)
    a, b = ty.resolve_shape(ty.Shape(a.pre[n:], a.row, a.post)), ty.resolve_shape(ty.Shape(b.pre[n:], b.row, b.post))
    if a.row is None and b.row is not None:
        a, b = b, a
    different = Mismatch(a, b, Ranks())
    if a.row is None or b.row is None:
        if a.row is None:
            if a.pre or b.pre:
                raise different
            return
        k = len(a.post)
        if a.pre or len(b.pre) < k:
            raise different
        for x, y in zip(a.post, b.pre[len(b.pre) - k :], strict=True):
            unify_size(st, x, y)
        if a.row.rigid:
            raise different
        bind_row(st, a.row, ty.Shape(b.pre[: len(b.pre) - k]))
        return
    n = min(len(a.post), len(b.post))
    for x, y in zip(a.post[len(a.post) - n :], b.post[len(b.post) - n :], strict=True):
        unify_size(st, x, y)
    a = ty.Shape(a.pre, a.row, a.post[: len(a.post) - n])
    b = ty.Shape(b.pre, b.row, b.post[: len(b.post) - n])
    assert a.row is not None and b.row is not None
    if a.row is b.row:
        if a.pre or a.post or b.pre or b.post:
            raise different
        return
    for s, t in ((a, b), (b, a)):
        if not s.pre and not s.post and s.row is not None and not s.row.rigid:
            bind_rows(st, s.row, t)
            return
    if a.row.rigid and b.row.rigid:
        raise different
    st.defer(Constraint("equal-shape", current_reason(st), shapes=(a, b)))  # n, ..s and ..t, m: several solutions
