"""Deferred constraints of qualified types. `solve` tries them until none makes progress.

A rule does only what every solution needs, so the order of solving does not matter. It returns True when the
constraint is discharged. The choices (axes that stay open, literals, joins) are made in `schemes.py`, all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dlang.diagnostics import Note
from dlang.ops.primitives import COMPARISONS, OPERATORS, OPPOSITE, SWAPPED, WORDS
from dlang.polynomials import TooManyTerms
from dlang.typecheck import types as ty
from dlang.typecheck.limits import size_too_large
from dlang.typecheck.messages import constraint_error
from dlang.typecheck.mismatches import (
    AxisTwice,
    FunctionOperand,
    Lacks,
    NoArray,
    NoAxis,
    NoField,
    NotOnStructures,
    NoVector,
    OneStructure,
)
from dlang.typecheck.state import Constraint, Inference, Mismatch, Waiting, in_order
from dlang.typecheck.terms import (
    BOOL,
    F64,
    I64,
    free,
    is_empty,
    number,
    of_var,
    opened_in,
    size_variables,
    substitute,
    variables,
    view,
)
from dlang.typecheck.unify import (
    bind_row,
    bind_size,
    closed,
    constant,
    grows,
    implied,
    product,
    same,
    unify,
    unify_shape,
    unify_size,
)

# ---- operators -------------------------------------------------------------------------------------------------------
# Rules of the operators: which types they take, component by component, elementwise, as matrices.

_CLASS_OF = {
    **{sign: "Ord" if name in SWAPPED else "Eq" for sign, name in OPERATORS.items() if name in OPPOSITE},
    **{name: w.bound for name, w in WORDS.items()},
    "/": "Float",
    "where": "",
}


def known(t: ty.Type) -> bool:
    """Surely a scalar or an array."""
    t = ty.resolve(t)
    if isinstance(t, ty.TypeVar):
        return t.atomic or any(c in ty.CLASSES for c in t.classes)
    return isinstance(t, ty.TypeCon | ty.TypeArray)


def split(st: Inference, t: ty.Type, cls: str = "") -> tuple[ty.Type, ty.Shape]:
    """A type as dtype and shape; an open type becomes an array of any rank."""
    t = ty.resolve(t)
    if isinstance(t, ty.TypeArray):
        if grows(t.element):
            unify(st, t.element, ty.TypeArray(st.type_var(atomic=True), st.row()))
            t = ty.resolve(t)
        element, shape = (t.element, t.shape) if isinstance(t, ty.TypeArray) else (t, ty.Shape())
    elif known(t) or not isinstance(t, ty.TypeVar) or t.rigid:
        element, shape = t, ty.Shape()
    else:
        element, shape = st.type_var(atomic=True), st.row()
        unify(st, t, ty.TypeArray(element, shape))
    if cls and not is_of(element, cls):
        unify(st, element, st.type_var(atomic=True, classes=frozenset({cls})))
    return ty.resolve(element), ty.resolve_shape(shape)


def is_of(t: ty.Type, cls: str) -> bool:
    """Tells whether a type is known to be a dtype of a class."""
    t = ty.resolve(t)
    return isinstance(t, ty.TypeVar) and t.atomic and cls in implied(t.classes)


def is_structure(t: ty.Type) -> bool:
    t = ty.resolve(t)
    if isinstance(t, ty.TypeArray):
        t = ty.resolve(t.element)
    return isinstance(t, ty.TypeData | ty.TypeTuple)


def has_axes(t: ty.Type) -> bool:
    t = ty.resolve(t)
    return isinstance(t, ty.TypeArray) and bool(t.shape.pre or t.shape.post)


def arith(st: Inference, c: Constraint) -> bool:
    """types a, b and the result r of the operator `data`."""
    op = str(c.data)
    a, b, r = (ty.resolve(t) for t in c.types)
    scaling = op in ("*", "/")
    if is_structure(a) or is_structure(b):
        return structures(st, op, a, b, r)
    for x, y in ((a, b), (b, a)):
        if isinstance(x, ty.TypeFn):
            raise Mismatch(x, y, FunctionOperand(op))
        if isinstance(x, ty.TypeVar) and x.rigid and not known(x):
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
    unify(st, r, ty.TypeArray(BOOL if op in COMPARISONS else da, sr))
    state(st, Constraint("bcast", c.reason, shapes=(sa, sb, sr)))
    return True


def structures(st: Inference, op: str, a: ty.Type, b: ty.Type, r: ty.Type) -> bool:
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
        unify(st, r, ty.TypeArray(BOOL, structure.shape) if isinstance(structure, ty.TypeArray) else BOOL)
    else:
        raise Mismatch(other, structure, NotOnStructures(op))
    return True


def scalar_of(st: Inference, t: ty.Type) -> ty.Type:
    """The float that scales a structure: the dtype of its floats, if they have one."""
    dtypes: set[str] = set()
    float_leaves(t, dtypes, set())
    if len(dtypes) == 1:
        return ty.TypeCon(dtypes.pop())
    return st.type_var(atomic=True, classes=frozenset({"Float"}))


def has_floats(t: ty.Type) -> bool:
    """Tells whether there is, or may be, a float in a value of a type."""
    dtypes: set[str] = set()
    float_leaves(t, dtypes, set())
    return bool(dtypes) or any(isinstance(v, ty.TypeVar) for v in free(t, {}))


def float_leaves(t: ty.Type, dtypes: set[str], seen: set[object]) -> None:
    """Adds the dtypes of the floats in a type. seen: datatypes that were looked into, which may contain themselves."""
    t = ty.resolve(t)
    match t:
        case ty.TypeCon(name):
            if name in ty.FLOATS:
                dtypes.add(name)
        case ty.TypeArray(element, _):
            float_leaves(element, dtypes, seen)
        case ty.TypeTuple(items):
            for i in items:
                float_leaves(i, dtypes, seen)
        case ty.TypeData(decl, args):
            if decl in seen:
                return
            seen.add(decl)
            for variant in decl.variants:
                for _, f in variant.fields:
                    float_leaves(f, dtypes, seen)
            for a in args:
                if isinstance(a, ty.TypeCon | ty.TypeArray | ty.TypeTuple | ty.TypeData | ty.TypeVar):
                    float_leaves(a, dtypes, seen)
        case _:
            return


def power(st: Inference, c: Constraint) -> bool:
    """types a, b, r of `a ** b`: the exponent has the dtype of the base, or is an integer."""
    a, b, r = (ty.resolve(t) for t in c.types)
    for x in (a, b):
        if isinstance(x, ty.TypeFn) or is_structure(x):
            raise Mismatch(x, x, Lacks(("Num",)))
        if isinstance(x, ty.TypeVar) and x.rigid and not known(x):
            raise Mismatch(x, x, Lacks(("Num",), f"write `<{x.name}: Num>` to bound it"))
    if not (known(a) or known(b) or known(r)):
        return False
    # A scalar exponent says nothing about the rank of an open base, and the other way round.
    da, sa = split(st, a, "Num")
    db, sb = split(st, b, "Num")
    sr = st.row()
    unify(st, r, ty.TypeArray(da, sr))
    state(st, Constraint("exponent", c.reason, types=(da, db)))
    state(st, Constraint("bcast", c.reason, shapes=(sa, sb, sr)))
    return True


def exponent(st: Inference, c: Constraint) -> bool:
    base, e = (ty.resolve(t) for t in c.types)
    if isinstance(e, ty.TypeCon) and e.name in ty.INTS:
        return True
    if isinstance(e, ty.TypeVar) and "Int" in e.classes:
        return True
    if isinstance(e, ty.TypeCon) or "Float" in getattr(e, "classes", ()):
        unify(st, e, base)
        return True
    if e is base:
        return True
    if isinstance(base, ty.TypeCon) and base.name in ty.INTS:
        unify(st, e, st.type_var(atomic=True, classes=frozenset({"Int"})))
        return True
    return False


def matmul(st: Inference, c: Constraint) -> bool:
    """types a, b, r of `a @ b`."""
    a, b, r = c.types
    for x in (a, b):
        t = ty.resolve(x)
        if isinstance(t, ty.TypeFn | ty.TypeData | ty.TypeTuple) or (
            isinstance(t, ty.TypeVar) and t.rigid and not known(t)
        ):
            raise Mismatch(t, t, Lacks(("Num",), "`@` takes arrays"))
        if known(t) and not isinstance(t, ty.TypeArray):
            raise Mismatch(t, t, NoArray())
    da, sa = split(st, a, "Num")
    db, sb = split(st, b)
    unify(st, db, da)
    sr = st.row()
    unify(st, r, ty.TypeArray(da, sr))
    state(st, Constraint("mm", c.reason, shapes=(sa, sb, sr)))
    return True


# ---- shapes ----------------------------------------------------------------------------------------------------------
# Rules of the constraints on shapes: broadcasting, products of axes, reductions.


def state(st: Inference, c: Constraint) -> None:
    """A constraint that follows from another: kept for the next round if it can't be settled now."""
    constrain(st, c)


def broadcast(st: Inference, c: Constraint) -> bool:
    """shapes a, b and their broadcast r: trailing axes line up."""
    a, b, r = map(ty.resolve_shape, c.shapes)
    if is_empty(r):
        unify_shape(st, a, r)
        unify_shape(st, b, r)
        return True
    if is_empty(a):
        unify_shape(st, b, r)
        return True
    if is_empty(b):
        unify_shape(st, a, r)
        return True
    rest_a, rest_b = (list(x.post if x.row is not None else x.pre) for x in (a, b))
    post: list[ty.Size] = []
    while rest_a and rest_b:
        x, y, z = rest_a.pop(), rest_b.pop(), st.size()
        post.insert(0, z)
        state(st, Constraint("stretch", c.reason, sizes=(x, y, z)))
    a = ty.Shape(a.pre, a.row, tuple(rest_a)) if a.row is not None else ty.Shape(tuple(rest_a))
    b = ty.Shape(b.pre, b.row, tuple(rest_b)) if b.row is not None else ty.Shape(tuple(rest_b))
    tail = tuple(post)
    if is_empty(a) or is_empty(b):
        lead = b if is_empty(a) else a
        whole = ty.Shape(lead.pre, lead.row, lead.post + tail) if lead.row is not None else ty.Shape(lead.pre + tail)
        unify_shape(st, r, whole)
        return True
    if a.row is not None and a.row is b.row and not rest_a and not rest_b:  # m, ..s and ..s: the rows line up
        front = st.row()
        state(st, Constraint("bcast", c.reason, shapes=(ty.Shape(a.pre), ty.Shape(b.pre), front)))
        front = ty.resolve_shape(front)
        if front.row is None:
            unify_shape(st, r, ty.Shape(front.pre, a.row, tail))
            return True
        return False
    if tail:
        row = st.row()
        unify_shape(st, r, ty.Shape((), row.row, tail))
        state(st, Constraint("bcast", c.reason, shapes=(a, b, row)))
        return True
    return False


def stretch(st: Inference, c: Constraint) -> bool:
    """sizes a, b and r, that of the result: a literal 1 stretches, anything else is equal."""
    a, b, r = c.sizes
    if constant(a) == 1:
        unify_size(st, r, b)
        return True
    if constant(b) == 1 or same(a, b):
        unify_size(st, r, a)
        return True
    ground = (closed(a), closed(b))
    if all(ground):
        unify_size(st, a, b)
        return True
    if any(ground):
        unify_size(st, r, a if ground[0] else b)  # whether the open one is 1 or equal, the result is the known one
    return False


def matrix_shapes(st: Inference, c: Constraint) -> bool:
    """shapes a, b and r of a matrix product."""
    a, b, r = map(ty.resolve_shape, c.shapes)
    if (a.row is not None and len(a.post) < 2) or (b.row is not None and len(b.post) < 2):
        return False
    x, y = (s.post if s.row is not None else s.pre for s in (a, b))
    if not x or not y:
        raise Mismatch(a, b, NoVector())
    unify_size(st, y[-2] if len(y) > 1 else y[0], x[-1])
    lead_a = ty.Shape(a.pre, a.row, x[:-2]) if a.row is not None else ty.Shape(x[:-2])
    lead_b = ty.Shape(b.pre, b.row, y[:-2]) if b.row is not None else ty.Shape(y[:-2])
    out = (x[-2:-1] if len(x) > 1 else ()) + (y[-1:] if len(y) > 1 else ())
    lead = st.row()
    unify_shape(st, r, ty.Shape((), lead.row, out))
    state(st, Constraint("bcast", c.reason, shapes=(lead_a, lead_b, lead)))
    return True


def reduce(st: Inference, c: Constraint) -> bool:
    """shapes x and r: r is x without the axes `data`, or with the size 1 there; negative ones count from the end."""
    x, r = map(ty.resolve_shape, c.shapes)
    axes = c.data
    assert isinstance(axes, tuple)
    if x.row is None:
        places = {a if a >= 0 else a + len(x.pre) for a in axes}
        for a in axes:
            if not -len(x.pre) <= a < len(x.pre):
                raise Mismatch(x, r, NoAxis(a, len(x.pre)))
        if len(places) < len(axes):
            raise Mismatch(x, r, AxisTwice())
        one = [number(1, Note("the axis that is kept", c.reason.span))] if c.kind == "reduce-keep" else []
        unify_shape(
            st, r, ty.Shape(tuple([s for k, extent in enumerate(x.pre) for s in (one if k in places else [extent])]))
        )
        return True
    front = [a for a in axes if a >= 0]
    if front and len(front) < len(axes):
        return False  # which axes these are depends on how many there are
    if not reached(st, x, max(axes) + 1 if front else -min(axes), bool(front)):
        return False
    x = ty.resolve_shape(x)
    one = [number(1, Note("the axis that is kept", c.reason.span))] if c.kind == "reduce-keep" else []
    part = list(x.pre if front else x.post)
    for a in sorted(axes, reverse=bool(front)):  # so that none moves another
        at = a if front else len(part) + a
        part[at : at + 1] = one
    unify_shape(st, r, ty.Shape(tuple(part), x.row, x.post) if front else ty.Shape(x.pre, x.row, tuple(part)))
    return True


def reached(st: Inference, x: ty.Shape, count: int, front: bool) -> bool:
    """Tells whether so many axes at an end of a shape stand before its row; an open row is taken apart for that."""
    part = x.pre if front else x.post
    if len(part) >= count:
        return True
    assert x.row is not None
    if x.row.rigid or (x.post if front else x.pre):
        return False
    new = tuple([st.size() for _ in range(count - len(part))])
    inner_row = st.row()
    bind_row(st, x.row, ty.Shape(new, inner_row.row) if front else ty.Shape((), inner_row.row, new))
    return True


def axis(st: Inference, c: Constraint) -> bool:
    """shapes x and r, a size n: x is r with an axis of n more, which is `data` of x."""
    x, r = map(ty.resolve_shape, c.shapes)
    (size,), at = c.sizes, c.data
    assert isinstance(at, int)
    if x.row is None:
        if not -len(x.pre) <= at < len(x.pre):
            raise Mismatch(x, r, NoAxis(at, len(x.pre)))
        at %= len(x.pre)
        unify_size(st, size, x.pre[at])
        unify_shape(st, r, ty.Shape(x.pre[:at] + x.pre[at + 1 :]))
        return True
    if r.row is None:
        count = len(r.pre) + 1
        if not -count <= at < count:
            raise Mismatch(x, r, NoAxis(at, count))
        at %= count
        unify_shape(st, x, ty.Shape((*r.pre[:at], size, *r.pre[at:])))
        return True
    return False


def product_of(st: Inference, c: Constraint) -> bool:
    """The product of the axes of a shape is the size: nothing is lost in a reshape."""
    s = ty.resolve_shape(c.shapes[0])
    if s.row is not None:
        return False
    unify_size(st, product(s.pre, Note("the number of elements before the reshape", c.reason.span)), c.sizes[0])
    return True


def rank(st: Inference, c: Constraint) -> bool:
    """The type is a tuple of as many integers as the shape has axes; of one axis an integer."""
    s = ty.resolve_shape(c.shapes[0])
    if s.row is not None:
        return False
    unify(st, c.types[0], I64 if len(s.pre) == 1 else ty.TypeTuple((I64,) * len(s.pre)))
    return True


def append(st: Inference, c: Constraint) -> bool:
    """shapes a, b and r: the axes of a, then those of b."""
    a, b, r = map(ty.resolve_shape, c.shapes)
    if a.row is None:
        unify_shape(st, r, ty.Shape(a.pre + b.pre, b.row, b.post))
        return True
    if b.row is None:
        unify_shape(st, r, ty.Shape(a.pre, a.row, a.post + b.pre))
        return True
    return False


def external(st: Inference, c: Constraint) -> bool:
    """An array from outside: once its rank is known, each axis that is open is known only when it runs."""
    element, shape = view(c.types[0])
    element = ty.resolve(element)
    if shape.row is not None or isinstance(element, ty.TypeVar):
        return False
    for s in shape.pre:
        atom = ty.resolve_size(s).poly.atom
        if isinstance(atom, ty.SizeVar) and not atom.rigid:
            origin = s.origin or Note("a size of what is read", c.reason.span)
            fresh = st.open_size(origin)
            fresh.name = atom.name
            bind_size(st, atom, of_var(fresh, origin))
    return True


def external_value(st: Inference, c: Constraint) -> bool:
    """A whole value from outside: once its type is known, each size that is open is known only when it runs."""
    opened = variables(c.types[0])
    if not all(isinstance(v, ty.SizeVar) for v in opened):
        return False
    for v in opened:
        if isinstance(v, ty.SizeVar) and not v.rigid:
            origin = v.origin or Note("a size of what is read", c.reason.span)
            fresh = st.open_size(origin)
            fresh.name = v.name
            bind_size(st, v, of_var(fresh, origin))
    return True


# ---- constraints -----------------------------------------------------------------------------------------------------

Rule = Callable[[Inference, Constraint], bool]


def field(st: Inference, c: Constraint) -> bool:
    """`x.name` and `x.0`: waits until the type of x is known."""
    base, result = ty.resolve(c.types[0]), c.types[1]
    if isinstance(base, ty.TypeVar) and not base.rigid:
        return False
    declared = None
    if isinstance(base, ty.TypeTuple) and isinstance(c.data, int):
        declared = base.items[c.data] if c.data < len(base.items) else None
    elif isinstance(base, ty.TypeData) and base.decl.is_struct:
        arguments = dict(zip(base.decl.params, base.args, strict=True))
        for name, t in base.decl.variants[0].fields:
            if name == c.data:
                declared = substitute(t, arguments)
    if declared is None:
        raise Mismatch(base, result, NoField(c.data))
    unify(st, declared, result)
    return True


def gather(st: Inference, c: Constraint) -> bool:
    """The axes that an index leaves: none for an integer, its own shape for an array of integers."""
    index = ty.resolve(c.types[0])
    if isinstance(index, ty.TypeVar) and not index.rigid and not index.atomic:
        return False
    _, shape = split(st, index, "Int")
    unify_shape(st, c.shapes[0], shape)
    return True


def size(st: Inference, c: Constraint) -> bool:
    before = st.came
    unify_size(st, *c.sizes)
    return not st.retract("size", before)


def equal(st: Inference, c: Constraint) -> bool:
    before = st.came
    unify(st, *c.types)
    return not st.retract("equal", before)


def equal_shape(st: Inference, c: Constraint) -> bool:
    before = st.came
    unify_shape(st, *c.shapes)
    return not st.retract("equal-shape", before)


def join(st: Inference, c: Constraint) -> bool:
    """The size of a value that comes from two branches: theirs, if it is one; else known only when it runs."""
    x, y, result = c.sizes
    if same(x, y):
        unify_size(st, result, x)
        return True
    if closed(x) and closed(y):
        if not c.data and not opened_in(x, y):
            raise Mismatch(y, x)
        open_join(st, c)
        return True
    return False


def open_join(st: Inference, c: Constraint) -> None:
    """The result of a join becomes an opened size."""
    atom = ty.resolve_size(c.sizes[2]).poly.atom
    if isinstance(atom, ty.SizeVar) and not atom.rigid:
        atom.rigid = atom.opened = True
        st.opened.append(atom)
        st.changed(atom)
    else:
        fresh = ty.SizeVar(st.level, rigid=True, opened=True, origin=c.sizes[2].origin)
        unify_size(st, c.sizes[2], of_var(fresh))


def close_join(st: Inference, c: Constraint) -> None:
    """At the end of a function: what is still open is equal, unless a branch was opened."""
    x, y, result = c.sizes
    if same(x, y) or (not c.data and not opened_in(x, y)):
        unify_size(st, y, x)
        unify_size(st, result, x)
    else:
        open_join(st, c)


RULES: dict[str, Rule] = {
    "arith": arith,
    "power": power,
    "exponent": exponent,
    "matmul": matmul,
    "bcast": broadcast,
    "stretch": stretch,
    "mm": matrix_shapes,
    "reduce": reduce,
    "reduce-keep": reduce,
    "axis": axis,
    "product": product_of,
    "rank": rank,
    "append": append,
    "external": external,
    "external-value": external_value,
    "field": field,
    "gather": gather,
    "size": size,
    "equal": equal,
    "equal-shape": equal_shape,
    "join": join,
}


def attempt(st: Inference, c: Constraint) -> bool:
    """Tries one constraint; one that can't hold is reported and dropped."""
    saved, st.reason = st.reason, c.reason
    try:
        return RULES[c.kind](st, c)
    except Mismatch as m:
        st.report(constraint_error(c, m))
        return True
    except TooManyTerms:
        st.report(size_too_large(c.reason.span).diagnostics[0])
        return True
    finally:
        st.reason = saved


def constrain(st: Inference, c: Constraint) -> None:
    """States a constraint: tried at once, kept if it has to wait."""
    if not attempt(st, c):
        watch(st, st.wait(c))


def watch(st: Inference, w: Waiting) -> None:
    """Lets a constraint be told of the variables on which its rule depends."""
    for v in awaited(w.constraint):
        if v not in w.watched:
            w.watched.add(v)
            st.watching.setdefault(v, []).append(w)


def awaited(c: Constraint) -> Iterator[ty.Var]:
    """The variables that the rule of a constraint looks at."""
    match c.kind:
        case "stretch" | "join":
            yield from size_variables(c.sizes[0])
            yield from size_variables(c.sizes[1])
        case "size" | "external-value":
            yield from variables(*c.terms())
        case "field" | "gather":
            yield from heads(c.types[0])
        case _:
            for t in c.types:
                yield from heads(t)
            for s in c.shapes:
                if (row := ty.resolve_shape(s).row) is not None:
                    yield row


def heads(t: ty.Type) -> Iterator[ty.Var]:
    """The variables that decide what kind of type this is."""
    element, shape = view(t)
    element = ty.resolve(element)
    if isinstance(element, ty.TypeVar):
        yield element
    if shape.row is not None:
        yield shape.row


def solve(st: Inference) -> None:
    """Tries what waits until nothing changes: each constraint again when a variable that it awaits has changed."""
    while st.woken:
        batch, st.woken = in_order(st.woken), []
        if not st.backwards:
            batch.reverse()
        try:
            while batch:
                try_again(st, batch.pop())
        finally:
            st.woken += batch


def try_again(st: Inference, w: Waiting) -> None:
    """Tries a constraint that has waited."""
    w.woken = False
    if not st.waits(w):
        return
    outer, st.tried = st.tried, w
    settled = True
    try:
        settled = attempt(st, w.constraint)
    finally:
        st.tried = outer
        if settled:
            st.discharge(w)
        else:
            watch(st, w)
