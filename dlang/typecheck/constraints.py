"""Deferred constraints of qualified types. `solve` tries them until none makes progress.

A rule does only what every solution needs, so the order of solving does not matter. It returns True when the
constraint is discharged. The choices (axes that stay open, literals, joins) are made in `schemes.py`, all at once.
"""

from __future__ import annotations

from collections.abc import Callable

from dlang.polynomials import TooManyTerms
from dlang.typecheck.limits import size_too_large
from dlang.typecheck.messages import constraint_error
from dlang.typecheck.mismatches import NoField
from dlang.typecheck.operators import arith, exponent, matmul, power, split
from dlang.typecheck.shapes import (
    append,
    axis,
    broadcast,
    external,
    external_value,
    matrix_shapes,
    product_of,
    rank,
    reduce,
    stretch,
)
from dlang.typecheck.sizes import closed, same, unify_size
from dlang.typecheck.state import Constraint, Inference, Mismatch
from dlang.typecheck.terms import of_var, opened_in, substitute
from dlang.typecheck.types import SizeVar, TypeData, TypeTuple, TypeVar, resolve, resolve_size
from dlang.typecheck.unify import unify, unify_shape

Rule = Callable[[Inference, Constraint], bool]


def field(st: Inference, c: Constraint) -> bool:
    """`x.name` and `x.0`: waits until the type of x is known."""
    base, result = resolve(c.types[0]), c.types[1]
    if isinstance(base, TypeVar) and not base.rigid:
        return False
    found = None
    if isinstance(base, TypeTuple) and isinstance(c.data, int):
        found = base.items[c.data] if c.data < len(base.items) else None
    elif isinstance(base, TypeData) and base.decl.is_struct:
        arguments = dict(zip(base.decl.params, base.args, strict=True))
        for name, t in base.decl.variants[0].fields:
            if name == c.data:
                found = substitute(t, arguments)
    if found is None:
        raise Mismatch(base, result, NoField(c.data))
    unify(st, found, result)
    return True


def gather(st: Inference, c: Constraint) -> bool:
    """The axes that an index leaves: none for an integer, its own shape for an array of integers."""
    index = resolve(c.types[0])
    if isinstance(index, TypeVar) and not index.rigid and not index.atomic:
        return False
    _, shape = split(st, index, "Int")
    unify_shape(st, c.shapes[0], shape)
    return True


def again(st: Inference, retry: Callable[[], None]) -> bool:
    """Runs a unification that may defer itself; True if it didn't."""
    before = len(st.pending)
    retry()
    if len(st.pending) == before + 1 and not st.progress:
        st.pending.pop()
        return False
    return True


def size(st: Inference, c: Constraint) -> bool:
    before = len(st.pending)
    unify_size(st, *c.sizes)
    if len(st.pending) > before:
        st.pending.pop()
        return False
    return True


def equal(st: Inference, c: Constraint) -> bool:
    before = len(st.pending)
    unify(st, *c.types)
    if len(st.pending) > before and st.pending[-1].kind == "equal":
        st.pending.pop()
        return False
    return True


def equal_shape(st: Inference, c: Constraint) -> bool:
    before = len(st.pending)
    unify_shape(st, *c.shapes)
    if len(st.pending) > before and st.pending[-1].kind == "equal-shape":
        st.pending.pop()
        return False
    return True


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
    atom = resolve_size(c.sizes[2]).poly.atom
    if isinstance(atom, SizeVar) and not atom.rigid:
        atom.rigid = atom.opened = True
        st.opened.append(atom)
        st.progress = True
    else:
        fresh = SizeVar(st.level, rigid=True, opened=True, origin=c.sizes[2].origin)
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
        st.pending.append(c)


def solve(st: Inference) -> None:
    """Tries what waits until nothing changes."""
    while st.progress and st.pending:
        st.progress = False
        waiting, st.pending = st.pending, []
        if st.backwards:
            waiting.reverse()
        for c in waiting:
            if not attempt(st, c):
                st.pending.append(c)
