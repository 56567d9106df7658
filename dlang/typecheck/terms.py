"""Walks over terms: free variables, substitution, flat views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlang.diagnostics import Note
from dlang.polynomials import Poly
from dlang.typecheck.headers import Local
from dlang.typecheck.state import Constraint, Reason, Term
from dlang.typecheck.types import (
    Effects,
    Floor,
    RowVar,
    Shape,
    Size,
    SizeAtom,
    SizeVar,
    Type,
    TypeArray,
    TypeCon,
    TypeData,
    TypeFn,
    TypeTuple,
    TypeVar,
    Var,
    floor_div,
    resolve,
    resolve_shape,
    resolve_size,
)

BOOL, I64, F64, STR = TypeCon("bool"), TypeCon("i64"), TypeCon("f64"), TypeCon("str")
Substitution = Mapping[Var, Term]


def variable_of(size: Size | None) -> SizeVar | None:
    """The variable that a size is; None if it is none, or more than one."""
    atom = None if size is None else size.poly.atom
    return atom if isinstance(atom, SizeVar) else None


def number(value: int, origin: Note | None = None) -> Size:
    return Size(Poly({(): value}), origin)


def of_var(v: SizeVar, origin: Note | None = None) -> Size:
    return Size(Poly({(v,): 1}), origin or v.origin)


def size_of_param(local: Local) -> Size | None:
    """The size of a parameter that was declared `size`."""
    return of_var(local.size) if local.size is not None and not local.size.opened else None


def array(element: Type, *sizes: Size) -> Type:
    return TypeArray(element, Shape(sizes)) if sizes else element


def view(t: Type) -> tuple[Type, Shape]:
    """The element and the shape of any type."""
    r = resolve(t)
    return (r.element, r.shape) if isinstance(r, TypeArray) else (r, Shape())


def is_empty(s: Shape) -> bool:
    return s.row is None and not s.pre and not s.post


def size_variables(s: Size) -> Iterator[SizeVar]:
    """The size variables of a size, also those inside floors."""
    for monomial in resolve_size(s).poly.terms:
        for a in monomial:
            if isinstance(a, Floor):
                yield from size_variables(a.dividend)
                yield from size_variables(a.divisor)
            else:
                yield a


def free(term: Term, found: dict[Var, None]) -> dict[Var, None]:
    """Adds the unbound variables of a term, flexible and rigid, in order of occurrence."""
    if isinstance(term, Size):
        for v in size_variables(term):
            found[v] = None
    elif isinstance(term, Shape):
        s = resolve_shape(term)
        for size in s.pre:
            free(size, found)
        if s.row is not None:
            found[s.row] = None
        for size in s.post:
            free(size, found)
    else:
        t = resolve(term)
        match t:
            case TypeVar():
                found[t] = None
            case TypeArray(element, shape):
                free(element, found)
                free(shape, found)
            case TypeTuple(items):
                for i in items:
                    free(i, found)
            case TypeFn(params, result, _, opened):
                for p in params:
                    free(p, found)
                if opened:
                    found |= {v: None for v in variables(result) if v not in opened}
                else:
                    free(result, found)
            case TypeData(_, args):
                for a in args:
                    free(a, found)
    return found


def variables(*terms: Term) -> dict[Var, None]:
    found: dict[Var, None] = {}
    for t in terms:
        free(t, found)
    return found


def opened_in(*terms: Term) -> list[SizeVar]:
    return [v for v in variables(*terms) if isinstance(v, SizeVar) and v.opened]


def copy(e: Effects) -> Effects:
    """Effects for an instance: what is unified with it leaves the original alone."""
    while e.ref is not None:
        e = e.ref
    return Effects(set(e.names), e.closed)


# ---- substitution ----------------------------------------------------------------------------------------------------
def substitute_size(s: Size, replace: Substitution, origin: Note | None = None) -> Size:
    s = resolve_size(s)

    def of(a: SizeAtom) -> Poly[SizeAtom] | None:
        if isinstance(a, Floor):
            p, q = substitute_size(a.dividend, replace), substitute_size(a.divisor, replace)
            return floor_div(p, q).poly
        r = replace.get(a)
        return r.poly if isinstance(r, Size) else None

    return Size(s.poly.substitute(of), origin or s.origin)


def substitute_shape(s: Shape, replace: Substitution, origin: Note | None = None) -> Shape:
    s = resolve_shape(s)
    pre = tuple(substitute_size(x, replace, origin) for x in s.pre)
    post = tuple(substitute_size(x, replace, origin) for x in s.post)
    if s.row is not None:
        r = replace.get(s.row)
        if isinstance(r, Shape):
            return resolve_shape(Shape(pre + r.pre, r.row, r.post + post))
    return Shape(pre, s.row, post)


def substitute(t: Type, replace: Substitution, origin: Note | None = None) -> Type:
    """The type with variables replaced; sizes get `origin`, if given."""
    t = resolve(t)
    match t:
        case TypeVar():
            r = replace.get(t)
            return t if r is None or isinstance(r, Size | Shape) else r
        case TypeArray(element, shape):
            return TypeArray(substitute(element, replace, origin), substitute_shape(shape, replace, origin))
        case TypeTuple(items):
            return TypeTuple(tuple(substitute(i, replace, origin) for i in items)) if items else t
        case TypeFn(params, result, effects, opened):
            return TypeFn(
                tuple(substitute(p, replace, origin) for p in params),
                substitute(result, replace, origin),
                copy(effects),
                opened,
            )
        case TypeData(decl, args):
            return TypeData(decl, tuple(substitute_term(a, replace, origin) for a in args)) if args else t
        case _:
            return t


def substitute_term(t: Term, replace: Substitution, origin: Note | None = None) -> Term:
    if isinstance(t, Size):
        return substitute_size(t, replace, origin)
    if isinstance(t, Shape):
        return substitute_shape(t, replace, origin)
    return substitute(t, replace, origin)


def substitute_constraint(c: Constraint, replace: Substitution, reason: Reason) -> Constraint:
    operands = tuple(substitute(t, replace) for t in c.reason.operands)
    return Constraint(
        c.kind,
        Reason(reason.span, c.reason.operator, operands, reason.via),
        tuple(substitute(t, replace) for t in c.types),
        tuple(substitute_shape(s, replace) for s in c.shapes),
        tuple(substitute_size(s, replace) for s in c.sizes),
        c.data,
    )


def identity(v: Var) -> Term:
    """A variable as a term."""
    if isinstance(v, SizeVar):
        return of_var(v)
    return Shape((), v) if isinstance(v, RowVar) else v
