"""Derivative forms: calls of `grad(f)`, `vjp(f, …)` and `jvp(f, …)` become operations on an instance of f.

They are `Vjp`, `VjpForward` and `VjpBackward`, and `Jvp` of the IR, which `ad/` expands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dlang.diagnostics import DlangError, error
from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var, fresh, is_handle, poly
from dlang.ir.types import I64
from dlang.specialize.arith import elementwise, zeros
from dlang.specialize.arrangement import repeated
from dlang.specialize.comprehensions import collect, gathered
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.instances import Instance, Use
from dlang.specialize.joins import choice
from dlang.specialize.layouts import into
from dlang.specialize.rules import carries, overlaid, same_variants, tags_in
from dlang.specialize.values import (
    ArrayV,
    ClosureV,
    DerivativeV,
    Many,
    PullV,
    ScalarV,
    TupleV,
    Value,
    alike,
    base_of,
    contains_function,
    formal,
    leaves,
    mono_of,
    rebuild,
)
from dlang.typecheck import core
from dlang.typecheck.types import TypeFn, TypeVar


@dataclass(frozen=True, slots=True)
class Differentiated:
    """A call that is differentiated. positions: the leaves among its arguments in which it is."""

    use: Use
    args: tuple[Value, ...]
    targets: tuple[int, ...]

    @property
    def instance(self) -> Instance:
        return self.use.instance

    @property
    def positions(self) -> tuple[int, ...]:
        places = [p for k in self.targets for p in self.instance.arg_positions(k)]
        return tuple([p for p in places if carries(self.use.actuals[p])])

    @property
    def skipped(self) -> int:
        """The results that come before the leaves of the value."""
        return len(self.instance.extra) + self.instance.token

    def actual(self, k: int) -> Value:
        """An argument, under the sizes that its parameter states."""
        atoms = [self.use.actuals[p] for p in self.instance.arg_positions(k)]
        return rebuild(self.instance.args[k], iter(atoms), into(self.use.sizes))


def differentiated(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Differentiated:
    use = f.instances.use(f, closure_for(d, args), list(args), wrt=d.wrt)
    return Differentiated(use, tuple(args), d.wrt)


def no_function(d: DerivativeV, what: str) -> DlangError:
    """A change of a function is one of what it captured, which a function written down has not."""
    help = ("differentiate the function that applies it: `|x| f(x)(y)`",)
    return error("E0707", f"`{d.kind}` has no value for a change of a function", d.span, label=what, help=help)


# ---- reverse mode ----------------------------------------------------------------------------------------------------
def gradient(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Value:
    """`grad` and `value_and_grad` at arguments."""
    call = differentiated(f, d, args)
    results = f.instances.result_vars(call.use)
    seeds: list[Atom | None] = [None] * call.skipped
    for r in results[call.skipped :]:
        assert isinstance(r.type, Scalar) and r.type.dtype in anf.FLOATS, "the checker asks for one float"
        seeds.append(Lit(1.0, r.type.dtype))
    cotangents = tuple([fresh("g", call.use.actuals[p].type) for p in call.positions])
    op = anf.Vjp(call.instance.name, call.use.actuals, call.positions, tuple(seeds))
    with f.emitter.at(d.span):
        f.emitter.bind(op, (*results, *cotangents))
    value = f.instances.returned(f, call.use, results)
    cotangents_left = iter(cotangents)
    slopes = [overlaid(call.actual(k), cotangents_left) for k in d.wrt]
    slope = slopes[0] if d.single else TupleV(tuple(slopes))
    return TupleV((value, slope)) if d.kind == "value_and_grad" else slope


def vjp(f: Frame, d: DerivativeV, args: Sequence[Value]) -> TupleV:
    """The value, and what pulls cotangents of it back to the arguments."""
    value, pull = recorded(f, d, differentiated(f, d, args))
    return TupleV((value, pull))


def recorded(f: Frame, d: DerivativeV, call: Differentiated) -> tuple[Value, PullV]:
    """The value of a function run once with a tape, and the function that pulls cotangents back by it."""
    results = f.instances.result_vars(call.use)
    seeded = tuple([k >= call.skipped and carries(r) for k, r in enumerate(results)])
    tape = f.instances.tape(call.instance.name, call.positions, seeded)
    handle = fresh("tape", Scalar(tape))
    op = anf.VjpForward(call.instance.name, call.use.actuals, call.positions, seeded, tape)
    with f.emitter.at(d.span):
        f.emitter.bind(op, (*results, handle))
    value = f.instances.returned(f, call.use, results)
    if contains_function(value):
        raise no_function(d, "the function that is differentiated gives a function")
    integers = [a for a in call.use.actuals if a.type == I64]
    targets = [call.actual(k) for k in d.wrt]
    pull = PullV(
        call.instance.name,
        call.positions,
        seeded,
        typed(value),
        tuple(map(typed, targets)),
        d.single,
        tuple([ScalarV(a) for a in (handle, *integers)]),
        tuple(tags_in(value)),
        tuple([kept(a) for t in targets for a in leaves(t) if not carries(a)]),
        d.span,
    )
    return value, pull


def typed(v: Value) -> Value:
    """A value of the same type over variables that nothing binds."""
    return formal(v, lambda s: s)


def kept(a: Atom) -> Value:
    return rebuild(ScalarV(a), iter([a]))


def pulled(f: Frame, pull: PullV, args: Sequence[Value]) -> Value:
    """The cotangents of the arguments that a cotangent of the result gives."""
    given = f.fit(args[0], mono_of(pull.result))
    same_variants(f, pull.tags, given)
    first = len(pull.seeded) - len(list(leaves(given)))
    seeds: list[Atom | None] = [None] * first
    seeds += [a if s else None for a, s in zip(leaves(given), pull.seeded[first:], strict=True)]
    outs = tuple([fresh("g", a.type) for t in pull.targets for a in leaves(t) if carries(a)])
    tape, *integers = [a for v in pull.held for a in leaves(v)]
    op = anf.VjpBackward(pull.function, pull.positions, pull.seeded, tape, tuple(integers), tuple(seeds))
    f.emitter.bind(op, outs)
    pulled_left, unpulled_left = iter(outs), iter([a for v in pull.rest for a in leaves(v)])
    slopes = [
        rebuild(t, iter([next(pulled_left if carries(a) else unpulled_left) for a in leaves(t)])) for t in pull.targets
    ]
    return slopes[0] if pull.single else TupleV(tuple(slopes))


# ---- forward mode ----------------------------------------------------------------------------------------------------
def jvp(f: Frame, d: DerivativeV, args: Sequence[Value]) -> TupleV:
    """The value and its tangent; the second half of `args` are tangents of the first."""
    n = len(args) // 2
    call = differentiated(f, d, args[:n])
    tangents: dict[int, Atom] = {}
    for k in d.wrt:
        primal = call.actual(k)
        given = args[n + k]
        if contains_function(primal) and not alike(primal, given):
            # The tangent of a function is one of what it captured: a function of the same code.
            raise no_function(d, "the tangent of a function is given as another function")
        fitted = f.fit(given, mono_of(primal))
        same_variants(f, tags_in(primal), fitted)
        for p, a in zip(call.instance.arg_positions(k), leaves(fitted), strict=True):
            if carries(a):
                tangents[p] = a
    value, tangent = pushed(f, d, call, tangents)
    return TupleV((value, tangent))


def pushed(f: Frame, d: DerivativeV, call: Differentiated, tangents: dict[int, Atom]) -> tuple[Value, Value]:
    """The value of a call and its tangent, from tangents of the leaves at some positions."""
    results = f.instances.result_vars(call.use)
    outs = tuple([fresh("d", r.type) for r in results if carries(r)])
    given = tuple([tangents.get(p) for p in range(len(call.use.actuals))])
    with f.emitter.at(d.span):
        f.emitter.bind(anf.Jvp(call.instance.name, call.use.actuals, given), (*results, *outs))
    value = f.instances.returned(f, call.use, results)
    if contains_function(value):
        raise no_function(d, "the function that is differentiated gives a function")
    return value, overlaid(value, iter(outs))


# ---- checkpoints -----------------------------------------------------------------------------------------------------
def checkpointed(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Value:
    """A call whose backward pass runs it again."""
    use = f.instances.use(f, closure_for(d, args), list(args), checkpoint=True)
    bound = f.instances.result_vars(use)
    f.emitter.bind(anf.Call(use.instance.name, use.actuals), bound)
    return f.instances.returned(f, use, bound)


# ---- the function ----------------------------------------------------------------------------------------------------
def closure_for(d: DerivativeV, args: Sequence[Value]) -> ClosureV:
    """The differentiated function as code with captured values; a derivative of a derivative calls the inner one."""
    inner = d.function
    if isinstance(inner, ClosureV):
        return inner
    base = base_of(inner)
    if isinstance(base, ClosureV):
        types, bindings = tuple([p.type for p in base.params]), base.bindings
    else:
        # Of a function that is known only when it runs, the arguments say what sizes there are.
        variables = tuple([TypeVar(0, rigid=True) for _ in args])
        types, bindings = variables, {v: mono_of(a) for v, a in zip(variables, args, strict=True)}
    locals_of_call = tuple([core.Local(f"x{k}", t) for k, t in enumerate(types)])
    held = core.Local("derivative", TypeFn(types, types[0]))
    arguments = tuple([core.Ref(local.type, d.span, local) for local in locals_of_call])
    body = core.Call(types[0], d.span, core.Ref(held.type, d.span, held), arguments)
    return ClosureV(locals_of_call, body, d.span, ((held, inner),), bindings, forwards=True)


# ---- matrices of derivatives -----------------------------------------------------------------------------------------
# Whole matrices: `jacobian` and `hessian`, row by row in reverse mode or column by column in forward mode.
#
# A Jacobian has a row for each element of the result and a column for each element of the parameters. So forward mode
# where these are no more, reverse mode where they are: decided here if the sizes say so, else when the program runs. A
# Hessian is the Jacobian of a gradient, in forward mode. Of tuples they are tuples of matrices: outside those of the
# result, inside those of the parameter. Where the parameter is a structure each element of the result has a gradient, a
# structure like it, by reverse mode; where the result is one each element of the parameter has a tangent of it.

Shape = tuple[Size, ...]


def hessian(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Value:
    slope = replace(d, kind="grad")
    outer = replace(d, kind="jacobian", function=slope)
    call = differentiated(f, outer, args)
    return columns_of(f, outer, call, result_of(f, call)) if not call.instance.token else rows_of(f, outer, call)


def jacobian(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Value:
    """The Jacobian of a function: by columns in forward mode, or by rows in reverse, whichever are fewer."""
    call = differentiated(f, d, args)
    if call.instance.token:  # what has effects runs once
        return rows_of(f, d, call)
    result = result_of(f, call)
    outs, ins = units(result), inputs_of(call)
    if not all(map(is_plain, outs)):
        return columns_of(f, d, call, result)
    if not all(map(is_plain, ins)):
        return rows_of(f, d, call)
    rows, columns = elements(outs), elements(ins)
    facts = f.emitter.facts
    if rows.constant == 1 and columns.constant != 1:
        return rows_of(f, d, call)
    if facts.proves_nonnegative(rows - columns):
        return columns_of(f, d, call, result)
    if facts.proves_nonnegative(columns - rows):
        return rows_of(f, d, call)
    few = f.emitter.prim("ge", f.emitter.atom(rows), f.emitter.atom(columns))
    by_columns, by_rows = lambda: [columns_of(f, d, call, result)], lambda: [rows_of(f, d, call)]
    return choice(f, few, by_columns, by_rows, [None])[0]


def targets_of(call: Differentiated) -> list[Value]:
    return [call.actual(k) for k in call.targets]


def units(v: Value) -> list[Value]:
    """Lists the leaves of tuples of tuples."""
    return [u for x in v.items for u in units(x)] if isinstance(v, TupleV) else [v]


def inputs_of(call: Differentiated) -> list[Value]:
    return [u for t in targets_of(call) for u in units(t)]


def is_plain(v: Value) -> bool:
    """Tells whether a value is a scalar or an array of scalars, and no structure."""
    return isinstance(v, ScalarV | ArrayV)


def elements(values: Sequence[Value]) -> Size:
    """How many floats there are in scalars and arrays."""
    total = poly(0)
    for v in values:
        product = poly(1)
        for s in shape_of(v):
            product = product * s
        total = total + product
    return total


def shape_of(v: Value) -> Shape:
    """The axes of a scalar or an array, also of structures."""
    return v.shape if isinstance(v, ArrayV | Many) else ()


def result_of(f: Frame, call: Differentiated) -> Value:
    """Returns the form of the result; its sizes may be known only when it is computed."""
    results = f.instances.result_vars(call.use)
    if call.instance.extra:
        f.emitter.bind(anf.Call(call.instance.name, call.use.actuals), results)
    return f.instances.returned(f, call.use, results)


# ---- rows and columns ------------------------------------------------------------------------------------------------
def structured(d: DerivativeV, call: Differentiated, result: Value, matrices: list[list[Value]]) -> Value:
    """The matrices of every unit of the result and every unit of the parameters, as tuples like these."""
    targets = targets_of(call)
    inner = targets[0] if d.single else TupleV(tuple(targets))
    rows = iter(matrices)

    def outer(v: Value) -> Value:
        if isinstance(v, TupleV):
            return TupleV(tuple([outer(x) for x in v.items]))
        return with_units(inner, iter(next(rows)))

    return outer(result)


def with_units(v: Value, new: Iterator[Value]) -> Value:
    """Tuples like these of other units."""
    return TupleV(tuple([with_units(x, new) for x in v.items])) if isinstance(v, TupleV) else next(new)


def columns_of(f: Frame, d: DerivativeV, call: Differentiated, result: Value) -> Value:
    """Forward mode: for each element of the parameters the tangent of the result, a column of every matrix."""
    outs = units(result)
    columns: list[list[Value]] = []
    for p, x in zip(call.positions, inputs_of(call), strict=True):

        def tangent(index: Shape, p: int = p, x: Value = x) -> list[Value]:
            _, dy = pushed(f, d, call, {p: one_hot(f, x, index)})
            return [sized(f, u, like) for u, like in zip(units(dy), outs, strict=True)]

        tangents = at_every(f, shape_of(x), tangent)
        columns.append([turned(f, v, len(shape_of(x))) for v in tangents])
    return structured(d, call, result, [[column[k] for column in columns] for k in range(len(outs))])


def rows_of(f: Frame, d: DerivativeV, call: Differentiated) -> Value:
    """Reverse mode: one forward pass, then for each element of the result the cotangents, a row of every matrix."""
    value, pull = recorded(f, replace(d, single=False), call)
    flat, ins = list(map(alone, leaves(value))), inputs_of(call)
    if any(is_handle(dtype_of(y)) for y in flat):
        raise unsupported(f"a `{d.kind}` of a function that has effects and gives data that contains itself", d.span)

    def slopes(k: int) -> list[Value]:
        def cotangent(index: Shape) -> list[Value]:
            seeds = [one_hot(f, y, index) if n == k else unmoved(f, y) for n, y in enumerate(flat)]
            cotangents = pulled(f, pull, [rebuild(value, iter(seeds))])
            return [sized(f, u, like) for u, like in zip(units(cotangents), ins, strict=True)]

        return [in_dtype(f, v, dtype_of(flat[k])) for v in at_every(f, shape_of(flat[k]), cotangent)]

    rows_of_leaves = [slopes(k) if dtype_of(y) in anf.FLOATS else None for k, y in enumerate(flat)]
    matrices: list[list[Value]] = []
    first = 0
    for y in units(value):
        count = len(list(leaves(y)))
        leaves_of_unit = slice(first, first + count)
        first += count
        whole = rows_of_leaves[leaves_of_unit.start]
        if whole is not None and is_plain(y):
            matrices.append(whole)
            continue
        columns = [
            [None if rows is None else rows[j] for rows in rows_of_leaves[leaves_of_unit]] for j in range(len(ins))
        ]
        matrices.append(
            [as_columns(f, y, x, flat[leaves_of_unit], column) for x, column in zip(ins, columns, strict=True)]
        )
    return structured(d, call, value, matrices)


def as_columns(f: Frame, y: Value, x: Value, flat: Sequence[Value], rows: Sequence[Value | None]) -> Value:
    """For each element of a parameter the tangent of a structure, from the rows for each of its floats.

    flat: the leaves of the structure; one that is no float has no rows, and is what it is.
    """
    shape = shape_of(x)
    atoms: list[Atom] = []
    for leaf_value, row in zip(flat, rows, strict=True):
        if row is not None:
            atoms += leaves(turned(f, row, len(shape_of(leaf_value))))
        else:
            (a,) = leaves(leaf_value)
            atoms.append(repeated(f, shape, a) if shape else a)
    return gathered(y, [a for a in atoms if isinstance(a, Var)], shape) if shape else rebuild(y, iter(atoms))


def at_every(f: Frame, shape: Shape, function: Callable[[Shape], list[Value]]) -> list[Value]:
    """Several values at every index of a shape, as arrays with these axes in front."""
    e = f.emitter
    if not shape:
        return function(())
    axes = tuple([e.axis(s) for s in shape])
    with f.block() as lets:
        values = function(tuple([poly(a.var) for a in axes]))
    many = collect(f, axes, lets, TupleV(tuple(values)))
    assert isinstance(many, Many) and isinstance(many.element, TupleV)
    return [fronted(shape, v) for v in many.element.items]


def fronted(shape: Shape, v: Value) -> Value:
    """The array of a shape, of values whose leaves have its axes in front."""
    match v:
        case ScalarV() | ArrayV():
            return v
        case Many(own, element):
            return Many((*shape, *own), element)
        case _:
            return Many(shape, v)


def one_hot(f: Frame, like: Value, index: Shape) -> Atom:
    """1 at an index, 0 elsewhere."""
    e, dtype, shape = f.emitter, dtype_of(like), shape_of(like)
    if not shape:
        return Lit(1.0, dtype)
    axes = tuple([e.axis(s, "j") for s in shape])
    with f.block() as lets:
        at_index: Atom = Lit(True, "bool")
        for a, i in zip(axes, index, strict=True):
            same = e.prim("eq", a.var, e.atom(i))
            at_index = same if isinstance(at_index, Lit) else e.prim("and", at_index, same)
        x = e.cast(dtype, at_index)
    keep = anf.Reduce(shape, tuple([poly(a.var) for a in axes]), "set")
    return e.comp(axes, lets, (x,), (keep,), (dtype,), "seed")[0]


def unmoved(f: Frame, like: Value) -> Atom:
    """A cotangent that is 0; what is no float is what it is."""
    if dtype_of(like) not in anf.FLOATS:
        (a,) = leaves(like)
        return a
    return zeros(f, shape_of(like), dtype_of(like)) if shape_of(like) else Lit(0.0, dtype_of(like))


def alone(a: Atom) -> Value:
    """A leaf as a value."""
    return ArrayV(a) if isinstance(a, Var) and isinstance(a.type, anf.Array) else ScalarV(a)


def dtype_of(v: Value) -> str:
    assert isinstance(v, ScalarV | ArrayV)
    return v.dtype


def sized(f: Frame, v: Value, like: Value) -> Value:
    """A value under the sizes of another of the same structure."""

    def leaf(a: Atom, b: Atom) -> Atom:
        return f.emitter.resized(a, b.type.shape) if isinstance(a, Var) and isinstance(b.type, anf.Array) else a

    return rebuild(like, iter([leaf(a, b) for a, b in zip(leaves(v), leaves(like), strict=True)]))


def turned(f: Frame, v: Value, front: int) -> Value:
    """An array with its first axes last."""
    if not isinstance(v, ArrayV) or not front or front == len(v.shape):
        return v
    shape = (*v.shape[front:], *v.shape[:front])
    axes = tuple([fresh("i", I64) for _ in shape])
    index = tuple([poly(a) for a in (*axes[len(shape) - front :], *axes[: len(shape) - front])])
    return ArrayV(f.emitter.view(v.var, axes, shape, index))


def in_dtype(f: Frame, v: Value, dtype: str) -> Value:
    """The elements in the dtype of the result."""
    if not isinstance(v, ScalarV | ArrayV) or v.dtype == dtype:
        return v
    return elementwise(f, lambda x: f.emitter.cast(dtype, x), v)
