"""Reverse mode on a block: one walk backwards over its lets, which emits the code of their adjoints as it goes.

Notation: ȳ is the cotangent of y. Each rule is the transpose of the operation's linear part. The walk also gives the
lets of the forward pass: those of the block, where loops and branches save what their adjoint needs and `max` where it
was attained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlang.ad.branch import vjp_if
from dlang.ad.calls import vjp_call
from dlang.ad.comprehension import vjp_comp, vjp_view
from dlang.ad.linear_algebra import vjp_library
from dlang.ad.loop import vjp_for, vjp_while
from dlang.ad.nodes import vjp_construct, vjp_fields
from dlang.ad.refusal import refusal
from dlang.ad.rules import cast_contribution, contribution
from dlang.ad.scope import Scope, spanned
from dlang.ir import anf
from dlang.ir.builder import axis
from dlang.ir.marks import COTANGENT, is_mark, mark_of
from dlang.ir.traverse import bound_vars
from dlang.ir.types import array_type, dtype_of, named_sizes
from dlang.polynomials import Poly


@dataclass(slots=True)
class BackwardScope(Scope):
    """The backward walk of a block, with the adjoint of every operation."""

    def walk(self, lets: Sequence[anf.Let]) -> list[anf.Let]:
        self.known = self.known.copy()
        for let in lets:
            self.known.note_made(let.vars)
            self.choices(let)
            if isinstance(let.op, anf.IndexExpr):
                self.sizes[let.vars[0]] = let.op.size.substitute(self.sizes.get)
            if self.sink is not None:
                self.sink.inside.update((*let.vars, *bound_vars(let.op)))
        forward: list[list[anf.Let]] = []
        for let in reversed(lets):
            span = self.b.span
            spanned(self, let.span)
            forward.append(vjp(let, self))
            self.b.span = span
        return [let for group in reversed(forward) for let in group]


def vjp(let: anf.Let, scope: Scope) -> list[anf.Let]:
    """The adjoint of one let."""
    op = let.op
    if not any(v in scope.active and v in scope.bars for v in let.vars):
        return [let]
    match op:
        case anf.Comp():
            return vjp_comp(let, op, scope)
        case anf.If():
            return vjp_if(let, op, scope)
        case anf.For():
            return vjp_for(let, op, scope)
        case anf.While():
            return vjp_while(let, op, scope)
        case anf.Assert() if is_mark(op):
            _vjp_mark(let, op, scope)
            return [let]
        case anf.Assert():
            for var, value in zip(let.vars, op.guarded, strict=True):
                scope.add(value, scope.pop(var))  # a check may give another size, of the same value
            return [let]
        case anf.Call():
            return vjp_call(let, op, scope)
        case anf.Construct():
            vjp_construct(let, op, scope)
            return [let]
        case anf.Fields():
            vjp_fields(let, op, scope)
            return [let]
        case anf.LinalgOp():
            vjp_library(let, op, scope)
            return [let]
        case anf.Foreign() | anf.Effect():
            raise refusal(let)
        case _:
            _vjp_simple(let, scope)
            return [let]


def _vjp_mark(let: anf.Let, op: anf.Assert, scope: Scope) -> None:
    """Emits a mark for the cotangents of the variables that a mark names, with their values where they are shown."""
    mark = mark_of(op)
    assert mark is not None
    given: list[tuple[int, anf.Atom]] = []
    for k, var in enumerate(let.vars):
        g = scope.pop(var)
        if g is not None:
            given.append((k, g))
    bars = tuple([g for _, g in given])
    values = (*op.guarded, *op.values)
    if mark.kinds or not all(_is_told(a, scope) for a in values):
        values = ()
    named = scope.b.emit(mark.derived(COTANGENT, [k for k, _ in given]).check(values, bars))
    for (k, _), g in zip(given, named, strict=True):
        scope.add(op.guarded[k], g)


def _is_told(a: anf.Atom, scope: Scope) -> bool:
    """Tells whether the backward pass gets a value: no array in a loop, which would be saved in every iteration."""
    match a.type:
        case anf.Array(dtype):
            return not scope.in_loop and not anf.is_handle(dtype)
        case anf.Scalar(dtype):
            return not anf.is_handle(dtype)
        case _:
            return False


def _vjp_simple(let: anf.Let, scope: Scope) -> None:
    b, op = scope.b, let.op
    (var,) = let.vars
    g = scope.pop(var)
    if g is None:
        return
    match op:
        case anf.Prim(name, args):
            # y = p(x…): x̄ += ȳ ∂p/∂x, from the table.
            for k, arg in enumerate(args):
                if scope.is_active(arg):
                    scope.add(arg, contribution(b, name, args, var, k, g))
        case anf.Cast():
            if scope.is_active(op.arg):
                scope.add(op.arg, cast_contribution(b, op, g))
        case anf.Read():
            # y = x[i]: x̄[i] += ȳ.
            scope.add_read(op.array, op.index, g)
        case anf.Update():
            # y = x[i := v]: v̄ += ȳ[i]; x̄ += ȳ[i := 0], in place.
            assert isinstance(g, anf.Var)
            if scope.is_active(op.value):
                scope.add(op.value, b.one(anf.Read(g, op.index)))
            if scope.is_active(op.array):
                scope.add(op.array, b.update(g, op.index, scope.nodes.zero(b, op.value.type)))
        case anf.Copy():
            scope.add(op.array, g)
        case anf.View():
            vjp_view(op, g, scope)
        case anf.Reshape():
            assert isinstance(g, anf.Var)
            scope.add(op.array, b.reshape(g, array_type(op.array).shape))
        case anf.Concat():
            _vjp_concat(op, g, scope)
        case anf.Scan():
            _vjp_scan(op, var, g, scope)
        case anf.Contract():
            _vjp_contract(op, g, scope)
        case _:
            raise AssertionError(f"{type(op).__name__} carries no derivative")


def _vjp_concat(op: anf.Concat, g: object, scope: Scope) -> None:
    """y = x1 ++ x2 ++ …: each x̄k += the part of ȳ where xk stands."""
    assert isinstance(g, anf.Var)
    offset: anf.Size = Poly({})
    for array in op.arrays:
        shape = array_type(array).shape
        if array in scope.active:
            start = offset
            part = scope.b.view(g, shape, lambda i, *others, start=start: (anf.poly(i) + start, *others))
            scope.add(array, part)
        offset = offset + shape[0]


def _vjp_scan(op: anf.Scan, y: anf.Var, g: object, scope: Scope) -> None:
    """Running sum: y[i] = Σ_{j<=i} x[j], so x̄[j] = Σ_{i>=j} ȳ[i], the running sum from the right.

    Running product: y[i] = y[i-1] x[i]. With h[i] the cotangent of y[i] through everything, h[i] = ȳ[i] + x[i+1] h[i+1]
    and x̄[i] = y[i-1] h[i]; no division, so zeros are exact to any order.
    """
    b = scope.b
    assert isinstance(g, anf.Var)
    (n,) = array_type(op.array).shape
    if op.monoid == "sum":
        turned = b.scan("sum", b.view(g, (n,), lambda i: (n - 1 - anf.poly(i),)))
        scope.add(op.array, b.view(turned, (n,), lambda i: (n - 1 - anf.poly(i),)))
        return
    dtype = dtype_of(op.array)
    zero = anf.Lit(0.0, dtype)

    def body(j: anf.Var, h: anf.Var, out: anf.Var) -> list[anf.Var]:
        i = n - 1 - anf.poly(j)
        cotangent = b.add(b.one(anf.Read(g, (i,))), h)
        earlier = b.if_(
            b.prim("gt", b.size(i), anf.Lit(0, "i64")),
            lambda: b.one(anf.Read(y, (i - 1,))),
            lambda: anf.Lit(1.0, dtype),
        )[0]
        handed_on = b.prim("zero_safe_mul", cotangent, b.one(anf.Read(op.array, (i,))))
        return [handed_on, b.update(out, (i,), b.prim("zero_safe_mul", cotangent, earlier))]

    _, bar = b.for_(0, n, [zero, b.full((n,), zero)], body, names=("h", "bar"))
    scope.add(op.array, bar)


def _vjp_contract(op: anf.Contract, g: anf.Atom, scope: Scope) -> None:
    """out[o] = Σ a[l] b[r]: ā[l] = Σ ȳ[o] b[r] over the axes not in l, and in the same way for b."""
    b = scope.b
    sizes = named_sizes(op)
    for array, mine, other, theirs in ((op.a, op.left, op.b, op.right), (op.b, op.right, op.a, op.left)):
        if array not in scope.active:
            continue
        axes = {name: axis(size) for name, size in sizes.items()}
        at = {name: anf.poly(a.var) for name, a in axes.items()}
        rhs = other
        names = theirs

        def body(
            *_: anf.Var, rhs: anf.Var = rhs, names: tuple[int, ...] = names, at: dict[int, anf.Size] = at
        ) -> anf.Var:
            value = b.one(anf.Read(rhs, tuple(at[n] for n in names)))
            seed = b.one(anf.Read(g, tuple(at[n] for n in op.out))) if isinstance(g, anf.Var) and op.out else g
            return b.prim("zero_safe_mul", seed, value)

        kept = anf.Reduce(array_type(array).shape, tuple(at[n] for n in mine))
        (bar,) = b.comp(list(axes.values()), body, [kept])
        scope.add(array, bar)
