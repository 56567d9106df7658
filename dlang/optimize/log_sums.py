"""A loop that adds up numbers of which it keeps the logarithm finds their maximum first, and then the sum.

    for i (l = first) {                       x = [v for i]
      m = max(l, v)                           m = max(first, max(x))
      l' = if isfinite(m) {              →    l' = if isfinite(m) { m + log(exp(first - m) + sum(exp(x - m))) }
        m + log(exp(l - m) + exp(v - m))           else { m }
      } else { m }
      yield l'
    }

Each iteration of the first waits for two exponentials and a logarithm. It may write down log(exp(l) + exp(v)) in any
way: what it computes is followed as the logarithm of a polynomial in exp(l), exp(v) and exp(m), which has to be
exp(l) + exp(v) both where m is l and where m is v. Infinities and NaN are what the maximum makes of them; where an
iteration asks for none, a loop that meets them runs as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.builder import Builder, shape_of
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import split_by_need
from dlang.ir.types import dtype_of
from dlang.ops.dtypes import WHOLE

Powers = tuple[int, int, int]
"""The exponents of exp(l), exp(v) and exp(m)."""
Sum = Mapping[Powers, float]
"""A polynomial in these, of which exponents may be negative."""

ONE: Sum = {(0, 0, 0): 1.0}


def log_summed(let: anf.Let, loop: anf.For, known: Knowledge) -> list[anf.Let] | None:
    """Returns lets that replace a loop; None if its state is not the logarithm of a sum.

    What an iteration does may be done at a point of a comprehension.
    """
    if len(loop.params) != 1:
        return None
    (param,), (result,), (first,) = loop.params, loop.body.results, loop.init
    if not isinstance(result, anf.Var) or dtype_of(param) not in anf.FLOATS or dtype_of(param) not in WHOLE:
        return None
    before, _ = split_by_need(loop.body.lets, (param,))
    by = {v: x for x in loop.body.lets for v in x.vars}
    guarded = _guarded_summand(by, param, result)
    value = guarded or _summand(by, param, result)
    of_iteration = by.keys() - {v for x in before for v in x.vars}
    if value is None or value in of_iteration or any(isinstance(v.type, anf.Array) for x in before for v in x.vars):
        return None
    b = Builder(span=let.span)
    with b.scope() as replacement:
        count = iterations(b, loop, known)
        axis = anf.Axis(loop.index, (loop.low,), (loop.low + count,))
        keep = anf.Reduce((count,), (anf.poly(loop.index) - loop.low,), "set")
        points = anf.Comp((axis,), anf.Block(tuple(before), (value,)), (keep,))
        x = b.one(points if guarded else Renaming({}, renew=True).op(points), "x")
        largest: anf.Var = b.reduce(keep.shape, lambda i: b.read(x, (i,)), "max")
        top = b.prim("maximum", first, largest)

        def at_once(shift: anf.Atom) -> anf.Atom:
            total = b.reduce(keep.shape, lambda i: b.prim("exp", b.sub(b.read(x, (i,)), shift)))
            beside = b.prim("exp", b.sub(first, shift))
            return b.add(shift, b.prim("log", b.add(beside, total)))

        if not guarded:
            as_written_unless_ordinary(b, let, loop, (first, x, top), lambda: (at_once(b.stop(top)),))
            return replacement
        finite = b.prim("isfinite", top)
        zero = anf.Lit(0.0, dtype_of(param))
        shift = b.stop(b.select(finite, top, zero))  # no ∞ - ∞, where the sum is not used
        b.if_(finite, lambda: at_once(shift), lambda: top, results=let.vars)
    return replacement


def iterations(b: Builder, loop: anf.For, known: Knowledge) -> anf.Size:
    """The number of iterations of a loop, as a size."""
    count = loop.high - loop.low
    if known.at_least_zero(count):
        return count
    return b.as_poly(b.prim("maximum", b.size(count), anf.Lit(0, "i64")))


def as_written_unless_ordinary(
    b: Builder,
    let: anf.Let,
    loop: anf.For,
    exponents: tuple[anf.Atom, anf.Var, anf.Atom],
    at_once: Callable[[], tuple[anf.Atom, ...]],
) -> None:
    """Emits what replaces a loop, or where its exponents are not ordinary the loop.

    exponents: the first, the array of the others, and the largest of all. They are ordinary if the largest is finite,
    and the larger one of the first two.
    """
    first, x, top = exponents
    count, lowest = shape_of(x)[0], anf.Lit(float("-inf"), dtype_of(x))
    (head,) = b.if_(b.prim("lt", anf.Lit(0, "i64"), b.size(count)), lambda: b.read(x, (0,)), lambda: lowest)
    ordinary = b.prim("isfinite", b.sub(top, b.prim("maximum", first, head)))
    b.if_(
        b.prim("not", ordinary),
        lambda: b.emit(Renaming({}, renew=True).op(loop)),
        at_once,
        results=let.vars,
        cold=True,
    )


def _summand(by: Mapping[anf.Var, anf.Let], param: anf.Var, result: anf.Var) -> anf.Atom | None:
    """The v of which a result is log(exp(l) + exp(v)), of a parameter l, by way of the maximum of both; None if it is
    no such sum."""
    for let in by.values():
        match let.op:
            case anf.Prim("maximum", (a, b)) as maximum if param in (a, b):
                value = b if a is param else a
                exponentials = _Terms(by, param, value, maximum).exponential(result)
                if exponentials is not None and _is_the_sum(exponentials):
                    return value
            case _:
                pass
    return None


def _guarded_summand(by: Mapping[anf.Var, anf.Let], param: anf.Var, result: anf.Var) -> anf.Atom | None:
    """As `_summand`, where the result is the maximum if that is not finite."""
    match by[result].op if result in by else None:
        case anf.If(condition, then, otherwise) if len(by[result].vars) == 1 and not otherwise.lets:
            by = {**by, **{v: x for x in then.lets for v in x.vars}}
            (sum,), (top,) = then.results, otherwise.results
        case anf.Prim("select", (condition, sum, top)):
            pass
        case _:
            return None
    match _behind(by, top), _behind(by, condition):
        case anf.Prim("maximum", (a, b)) as maximum, anf.Prim("isfinite", (asked,)) if param in (a, b):
            value = b if a is param else a
            terms = _Terms(by, param, value, maximum)
            exponentials = terms.exponential(sum) if _behind(by, asked) == maximum else None
            return value if exponentials is not None and _is_the_sum(exponentials) else None
        case _:
            return None


def _behind(by: Mapping[anf.Var, anf.Let], x: anf.Atom) -> anf.Op | None:
    """The operation that computes an atom, seen through stopped gradients: that of the maximum cancels."""
    op = by[x].op if isinstance(x, anf.Var) and x in by else None
    return _behind(by, op.arg) if isinstance(op, anf.StopGradient) else op


def _is_the_sum(exponentials: Sum) -> bool:
    """Tells whether a polynomial is exp(l) + exp(v) where m is l, and where it is v."""
    for at in (0, 1):
        total: dict[Powers, float] = {}
        for powers, factor in exponentials.items():
            both = [powers[0], powers[1]]
            both[at] += powers[2]
            key = (both[0], both[1], 0)
            total[key] = total.get(key, 0.0) + factor
        if {key: f for key, f in total.items() if f} != {(1, 0, 0): 1.0, (0, 1, 0): 1.0}:
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Terms:
    """Follows scalar code as polynomials in the exponentials of a parameter l, a value v and their maximum m."""

    by: Mapping[anf.Var, anf.Let]
    param: anf.Var
    value: anf.Atom
    maximum: anf.Op

    def exponential(self, x: anf.Atom) -> Sum | None:
        """The exponential of an atom; None if it is no such polynomial."""
        if x == self.param:
            return {(1, 0, 0): 1.0}
        if x == self.value:
            return {(0, 1, 0): 1.0}
        op = _behind(self.by, x)
        if op == self.maximum:
            return {(0, 0, 1): 1.0}
        match op:
            case anf.Prim("add", (a, b)):
                return _product(self.exponential(a), self.exponential(b))
            case anf.Prim("sub", (a, b)):
                return _product(self.exponential(a), _inverse(self.exponential(b)))
            case anf.Prim("neg", (a,)):
                return _inverse(self.exponential(a))
            case anf.Prim("log", (a,)):
                return self.number(a)
            case anf.Prim("log1p", (a,)):
                return _total(ONE, self.number(a))
            case anf.Prim("minimum", (a, b)) if {a, b} == {self.param, self.value}:
                return {(1, 1, -1): 1.0}
            case anf.Prim("abs", (a,)) if self.exponential(a) in ({(1, -1, 0): 1.0}, {(-1, 1, 0): 1.0}):
                return {(-1, -1, 2): 1.0}
            case _:
                return None

    def number(self, x: anf.Atom) -> Sum | None:
        """An atom itself; None if it is no such polynomial."""
        if isinstance(x, anf.Lit):
            return {(0, 0, 0): float(x.value)}
        match _behind(self.by, x):
            case anf.Prim("exp", (a,)):
                return self.exponential(a)
            case anf.Prim("add", (a, b)):
                return _total(self.number(a), self.number(b))
            case anf.Prim("mul", (a, b)):
                return _product(self.number(a), self.number(b))
            case _:
                return None


def _total(a: Sum | None, b: Sum | None) -> Sum | None:
    if a is None or b is None:
        return None
    return {powers: a.get(powers, 0.0) + b.get(powers, 0.0) for powers in {**a, **b}}


def _product(a: Sum | None, b: Sum | None) -> Sum | None:
    if a is None or b is None:
        return None
    total: dict[Powers, float] = {}
    for (i, j, k), x in a.items():
        for (p, q, r), y in b.items():
            powers = (i + p, j + q, k + r)
            total[powers] = total.get(powers, 0.0) + x * y
    return total


def _inverse(a: Sum | None) -> Sum | None:
    """One by a polynomial of one term."""
    if a is None or len(a) != 1:
        return None
    (((i, j, k), factor),) = a.items()
    return {(-i, -j, -k): 1.0 / factor} if factor else None
