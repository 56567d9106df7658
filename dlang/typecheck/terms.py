"""Walks over terms: free variables, substitution, flat views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlang.diagnostics import Note
from dlang.polynomials import Poly
from dlang.typecheck import types as ty
from dlang.typecheck.headers import Local
from dlang.typecheck.state import Constraint, Reason, Term

BOOL, I64, F64, STR = ty.TypeCon("bool"), ty.TypeCon("i64"), ty.TypeCon("f64"), ty.TypeCon("str")
Substitution = Mapping[ty.Var, Term]


def variable_of(size: ty.Size | None) -> ty.SizeVar | None:
    """The variable that a size is; None if it is none, or more than one."""
    atom = None if size is None else size.poly.atom
    return atom if isinstance(atom, ty.SizeVar) else None


def number(value: int, origin: Note | None = None) -> ty.Size:
    return ty.Size(Poly({(): value}), origin)


def of_var(v: ty.SizeVar, origin: Note | None = None) -> ty.Size:
    return ty.Size(Poly({(v,): 1}), origin or v.origin)


def size_of_param(local: Local) -> ty.Size | None:
    """The size of a parameter that was declared `size`."""
    return of_var(local.size) if local.size is not None and not local.size.opened else None


def array(element: ty.Type, *sizes: ty.Size) -> ty.Type:
    return ty.TypeArray(element, ty.Shape(sizes)) if sizes else element


def view(t: ty.Type) -> tuple[ty.Type, ty.Shape]:
    """The element and the shape of any type."""
    r = ty.resolve(t)
    return (r.element, r.shape) if isinstance(r, ty.TypeArray) else (r, ty.Shape())


def is_empty(s: ty.Shape) -> bool:
    return s.row is None and not s.pre and not s.post


def size_variables(s: ty.Size) -> Iterator[ty.SizeVar]:
    """The size variables of a size, also those inside floors."""
    for monomial in ty.resolve_size(s).poly.terms:
        for a in monomial:
            if isinstance(a, ty.Floor):
                yield from a.variables
            else:
                yield a


def free(term: Term, out: dict[ty.Var, None]) -> dict[ty.Var, None]:
    """Adds the unbound variables of a term, flexible and rigid, in order of occurrence."""
    if isinstance(term, ty.Size):
        for v in size_variables(term):
            out[v] = None
    elif isinstance(term, ty.Shape):
        s = ty.resolve_shape(term)
        for size in s.pre:
            free(size, out)
        if s.row is not None:
            out[s.row] = None
        for size in s.post:
            free(size, out)
    else:
        t = ty.resolve(term)
        match t:
            case ty.TypeVar():
                out[t] = None
            case ty.TypeArray(element, shape):
                free(element, out)
                free(shape, out)
            case ty.TypeTuple(items):
                for i in items:
                    free(i, out)
            case ty.TypeFn(params, result, _, opened):
                for p in params:
                    free(p, out)
                if opened:
                    out |= {v: None for v in variables(result) if v not in opened}
                else:
                    free(result, out)
            case ty.TypeData(_, args):
                for a in args:
                    free(a, out)
    return out


def variables(*terms: Term) -> dict[ty.Var, None]:
    out: dict[ty.Var, None] = {}
    for t in terms:
        free(t, out)
    return out


def opened_in(*terms: Term) -> list[ty.SizeVar]:
    return [v for v in variables(*terms) if isinstance(v, ty.SizeVar) and v.opened]


def copy(e: ty.Effects) -> ty.Effects:
    """Effects for an instance: what is unified with it leaves the original alone."""
    while e.ref is not None:
        e = e.ref
    return ty.Effects(set(e.names), e.closed)


# ---- substitution ----------------------------------------------------------------------------------------------------
def substitute_size(s: ty.Size, replace: Substitution, origin: Note | None = None) -> ty.Size:
    s = ty.resolve_size(s)

    def of(a: ty.SizeAtom) -> Poly[ty.SizeAtom] | None:
        if isinstance(a, ty.Floor):
            p, q = substitute_size(a.dividend, replace), substitute_size(a.divisor, replace)
            return ty.floor_div(p, q).poly
        r = replace.get(a)
        return r.poly if isinstance(r, ty.Size) else None

    return ty.Size(s.poly.substitute(of), origin or s.origin)


def substitute_shape(s: ty.Shape, replace: Substitution, origin: Note | None = None) -> ty.Shape:
    s = ty.resolve_shape(s)
    pre = tuple(substitute_size(x, replace, origin) for x in s.pre)
    post = tuple(substitute_size(x, replace, origin) for x in s.post)
    if s.row is not None:
        r = replace.get(s.row)
        if isinstance(r, ty.Shape):
            return ty.resolve_shape(ty.Shape(pre + r.pre, r.row, r.post + post))
    return ty.Shape(pre, s.row, post)


def substitute(t: ty.Type, replace: Substitution, origin: Note | None = None) -> ty.Type:
    """The type with variables replaced; sizes get `origin`, if given."""
    t = ty.resolve(t)
    match t:
        case ty.TypeVar():
            r = replace.get(t)
            return t if r is None or isinstance(r, ty.Size | ty.Shape) else r
        case ty.TypeArray(element, shape):
            return ty.TypeArray(substitute(element, replace, origin), substitute_shape(shape, replace, origin))
        case ty.TypeTuple(items):
            return ty.TypeTuple(tuple(substitute(i, replace, origin) for i in items)) if items else t
        case ty.TypeFn(params, result, effects, opened):
            return ty.TypeFn(
                tuple(substitute(p, replace, origin) for p in params),
                substitute(result, replace, origin),
                copy(effects),
                opened,
            )
        case ty.TypeData(decl, args):
            return ty.TypeData(decl, tuple(substitute_term(a, replace, origin) for a in args)) if args else t
        case _:
            return t


def substitute_term(t: Term, replace: Substitution, origin: Note | None = None) -> Term:
    if isinstance(t, ty.Size):
        return substitute_size(t, replace, origin)
    if isinstance(t, ty.Shape):
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


def identity(v: ty.Var) -> Term:
    """A variable as a term."""
    if isinstance(v, ty.SizeVar):
        return of_var(v)
    return ty.Shape((), v) if isinstance(v, ty.RowVar) else v
