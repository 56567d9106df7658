"""Rules of the operators: which types they take, component by component, elementwise, as matrices."""

from __future__ import annotations

from dlang.ops.primitives import COMPARISONS, OPERATORS, OPPOSITE, SWAPPED, WORDS
from dlang.typecheck.mismatches import FunctionOperand, Lacks, NoArray, NotOnStructures, OneStructure
from dlang.typecheck.shapes import state
from dlang.typecheck.state import Constraint, Inference, Mismatch
from dlang.typecheck.terms import BOOL, F64, free
from dlang.typecheck.types import (
    CLASSES,
    FLOATS,
    INTS,
    Shape,
    Type,
    TypeArray,
    TypeCon,
    TypeData,
    TypeFn,
    TypeTuple,
    TypeVar,
    resolve,
    resolve_shape,
)
from dlang.typecheck.unify import grows, unify

_CLASS_OF = {
    **{sign: "Ord" if name in SWAPPED else "Eq" for sign, name in OPERATORS.items() if name in OPPOSITE},
    **{name: w.bound for name, w in WORDS.items()},
    "/": "Float",
    "where": "",
}


def known(t: Type) -> bool:
    """Surely a scalar or an array."""
    t = resolve(t)
    if isinstance(t, TypeVar):
        return t.atomic or any(c in CLASSES for c in t.classes)
    return isinstance(t, TypeCon | TypeArray)


def split(st: Inference, t: Type, cls: str = "") -> tuple[Type, Shape]:
    """A type as dtype and shape; an open type becomes an array of any rank."""
    t = resolve(t)
    if isinstance(t, TypeArray):
        if grows(t.element):
            unify(st, t.element, TypeArray(st.type_var(atomic=True), st.row()))
            t = resolve(t)
        element, shape = (t.element, t.shape) if isinstance(t, TypeArray) else (t, Shape())
    elif known(t) or not isinstance(t, TypeVar) or t.rigid:
        element, shape = t, Shape()
    else:
        element, shape = st.type_var(atomic=True), st.row()
        unify(st, t, TypeArray(element, shape))
    if cls:
        unify(st, element, st.type_var(atomic=True, classes=frozenset({cls})))
    return resolve(element), resolve_shape(shape)


def is_structure(t: Type) -> bool:
    t = resolve(t)
    if isinstance(t, TypeArray):
        t = resolve(t.element)
    return isinstance(t, TypeData | TypeTuple)


def has_axes(t: Type) -> bool:
    t = resolve(t)
    return isinstance(t, TypeArray) and bool(t.shape.pre or t.shape.post)


def arith(st: Inference, c: Constraint) -> bool:
    """types a, b and the result r of the operator `data`."""
    op = str(c.data)
    a, b, r = (resolve(t) for t in c.types)
    scaling = op in ("*", "/")
    if is_structure(a) or is_structure(b):
        return structures(st, op, a, b, r)
    for x, y in ((a, b), (b, a)):
        if isinstance(x, TypeFn):
            raise Mismatch(x, y, FunctionOperand(op))
        if isinstance(x, TypeVar) and x.rigid and not known(x):
            if "Vector" not in x.classes:
                cls = _CLASS_OF.get(op, "Num")
                better = f"write `<{x.name}: {cls or 'Num'}>` to bound it" + (
                    f", or `<{x.name}: Vector>`" if op in "+-*/" else ""
                )
                raise Mismatch(x, x, Lacks((cls or "Num",), better))
            if op not in ("+", "-", "*", "/"):
                raise Mismatch(x, x, Lacks(("Ord",), f"`{op}` is not defined for every `Vector`"))
            unify(st, y, F64 if scaling else x)
            unify(st, r, x)
            return True
    known_a, known_b, known_r = known(a), known(b), known(r) and op not in COMPARISONS
    some = (has_axes(a) or has_axes(b)) if scaling else (known_a or known_b)
    if not ((known_a and known_b) or known_r or some):
        return False
    cls = _CLASS_OF.get(op, "Num")
    da, sa = split(st, a, cls)
    db, sb = split(st, b)
    unify(st, db, da)
    sr = st.row()
    unify(st, r, TypeArray(BOOL if op in COMPARISONS else da, sr))
    state(st, Constraint("bcast", c.reason, shapes=(sa, sb, sr)))
    return True


def structures(st: Inference, op: str, a: Type, b: Type, r: Type) -> bool:
    """Operators on tuples, structs and enums, component by component."""
    structure, other = (a, b) if is_structure(a) else (b, a)
    if op in ("+", "-"):
        unify(st, other, structure)
        unify(st, r, structure)
    elif op in ("*", "/"):
        if is_structure(other) or (op == "/" and structure is b):
            raise Mismatch(b, a, OneStructure(op))
        unify(st, other, scalar_of(st, structure))
        unify(st, r, structure)
    elif op in ("==", "!="):
        unify(st, other, structure)
        unify(st, r, TypeArray(BOOL, structure.shape) if isinstance(structure, TypeArray) else BOOL)
    else:
        raise Mismatch(other, structure, NotOnStructures(op))
    return True


def scalar_of(st: Inference, t: Type) -> Type:
    """The float that scales a structure: the dtype of its floats, if they have one."""
    found: set[str] = set()
    float_leaves(t, found, set())
    if len(found) == 1:
        return TypeCon(found.pop())
    return st.type_var(atomic=True, classes=frozenset({"Float"}))


def has_floats(t: Type) -> bool:
    """Tells whether there is, or may be, a float in a value of a type."""
    found: set[str] = set()
    float_leaves(t, found, set())
    return bool(found) or any(isinstance(v, TypeVar) for v in free(t, {}))


def float_leaves(t: Type, found: set[str], seen: set[object]) -> None:
    """Adds the dtypes of the floats in a type. seen: datatypes that were looked into, which may contain themselves."""
    t = resolve(t)
    match t:
        case TypeCon(name):
            if name in FLOATS:
                found.add(name)
        case TypeArray(element, _):
            float_leaves(element, found, seen)
        case TypeTuple(items):
            for i in items:
                float_leaves(i, found, seen)
        case TypeData(decl, args):
            if decl in seen:
                return
            seen.add(decl)
            for variant in decl.variants:
                for _, f in variant.fields:
                    float_leaves(f, found, seen)
            for a in args:
                if isinstance(a, TypeCon | TypeArray | TypeTuple | TypeData | TypeVar):
                    float_leaves(a, found, seen)
        case _:
            return


def power(st: Inference, c: Constraint) -> bool:
    """types a, b, r of `a ** b`: the exponent has the dtype of the base, or is an integer."""
    a, b, r = (resolve(t) for t in c.types)
    for x in (a, b):
        if isinstance(x, TypeFn) or is_structure(x):
            raise Mismatch(x, x, Lacks(("Num",)))
        if isinstance(x, TypeVar) and x.rigid and not known(x):
            raise Mismatch(x, x, Lacks(("Num",), f"write `<{x.name}: Num>` to bound it"))
    if not (known(a) or known(b) or known(r)):
        return False
    # A scalar exponent says nothing about the rank of an open base, and the other way round.
    da, sa = split(st, a, "Num")
    db, sb = split(st, b, "Num")
    sr = st.row()
    unify(st, r, TypeArray(da, sr))
    state(st, Constraint("exponent", c.reason, types=(da, db)))
    state(st, Constraint("bcast", c.reason, shapes=(sa, sb, sr)))
    return True


def exponent(st: Inference, c: Constraint) -> bool:
    base, e = (resolve(t) for t in c.types)
    if isinstance(e, TypeCon) and e.name in INTS:
        return True
    if isinstance(e, TypeVar) and "Int" in e.classes:
        return True
    if isinstance(e, TypeCon) or "Float" in getattr(e, "classes", ()):
        unify(st, e, base)
        return True
    if e is base:
        return True
    if isinstance(base, TypeCon) and base.name in INTS:
        unify(st, e, st.type_var(atomic=True, classes=frozenset({"Int"})))
        return True
    return False


def matmul(st: Inference, c: Constraint) -> bool:
    """types a, b, r of `a @ b`."""
    a, b, r = c.types
    for x in (a, b):
        t = resolve(x)
        if isinstance(t, TypeFn | TypeData | TypeTuple) or (isinstance(t, TypeVar) and t.rigid and not known(t)):
            raise Mismatch(t, t, Lacks(("Num",), "`@` takes arrays"))
        if known(t) and not isinstance(t, TypeArray):
            raise Mismatch(t, t, NoArray())
    da, sa = split(st, a, "Num")
    db, sb = split(st, b)
    unify(st, db, da)
    sr = st.row()
    unify(st, r, TypeArray(da, sr))
    state(st, Constraint("mm", c.reason, shapes=(sa, sb, sr)))
    return True
