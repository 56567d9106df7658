"""Statements: blocks, assignments, branches, loops. What a branch or loop assigns becomes its results and state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Scalar, Var, fresh, poly
from dlang.polynomials import Poly
from dlang.specialize.analysis import Tree, assigned, escapes, has_effect
from dlang.specialize.arith import operator
from dlang.specialize.asserts import check_assert
from dlang.specialize.comprehensions import bound, zero, zeros
from dlang.specialize.emitter import FALSE, TRUE
from dlang.specialize.frame import Exits, Frame, contains_function, unsupported
from dlang.specialize.functions import define
from dlang.specialize.indexing import leading_shape, replace, select, selectors
from dlang.specialize.patterns import bind_pattern
from dlang.specialize.values import (
    UNIT,
    ArrayV,
    ClosureV,
    DataV,
    DerivativeV,
    EnumV,
    Many,
    ScalarV,
    TupleV,
    Value,
    leaves,
    mono_of,
    rebuild,
    shape_key,
    sizes_of,
    template,
)
from dlang.typecheck import core
from dlang.typecheck import types as ty


def statements(f: Frame, e: core.BlockExpr) -> Value:
    """The value of a block. The outermost one with a `return` is the body of a function."""
    if f.exits.returned is None and "return" in escapes(e):
        return body_with_returns(f, e)
    return sequence(f, e)


def sequence(f: Frame, e: core.BlockExpr) -> Value:
    """Statements and a result. What follows a statement that may leave the block runs only if it did not."""
    for k, s in enumerate(e.statements):
        statement(f, s)
        if isinstance(s, core.Break | core.Continue | core.Return):
            return unreached(f, e.type)
        flags = f.exits.of(escapes(s))
        if flags:
            return guarded(f, flags, core.BlockExpr(e.type, e.span, e.statements[k + 1 :], e.result))
    return f.eval(e.result)


def guarded(f: Frame, flags: Sequence[core.Local], rest: core.BlockExpr) -> Value:
    """What follows a statement that may have set one of the flags."""
    if not rest.statements and rest.result == core.TupleExpr(rest.result.type, rest.result.span, ()):
        return UNIT
    left = flag_value(f, flags)
    return branches(f, rest, left, lambda: unreached(f, rest.type), lambda: sequence(f, rest), ())


def flag_value(f: Frame, flags: Sequence[core.Local]) -> Atom:
    """Whether one of the flags is set."""
    out: Atom = FALSE
    for flag in flags:
        (here,) = leaves(f.env[flag])
        out = here if out == FALSE else out if here == FALSE else f.emitter.prim("or", out, here)
    return out


def unreached(f: Frame, t: ty.Type) -> Value:
    """Some value of a type, where a flag says that it is not used; sizes that are not known are 0."""
    known = f.bindings
    f.bindings = dict(known)
    for v in free_sizes(t):
        f.bindings.setdefault(v, poly(0))
    try:
        mono = f.mono(t)
    finally:
        f.bindings = known
    return template(mono, lambda leaf: zeros(f, leaf.shape, leaf.dtype) if isinstance(leaf, anf.Array) else _zero(leaf))


def _zero(t: anf.Type) -> Atom:
    assert isinstance(t, Scalar)
    return zero(t.dtype)


def free_sizes(t: ty.Type) -> Iterator[ty.SizeVar]:
    stack: list[ty.Type | ty.Shape | ty.Size] = [ty.resolve(t)]
    while stack:
        part = stack.pop()
        if isinstance(part, ty.Size):
            yield from (a for a in ty.resolve_size(part).poly.atoms() if isinstance(a, ty.SizeVar))
        else:
            stack.extend(ty.children(part if isinstance(part, ty.Shape) else ty.resolve(part)))


def body_with_returns(f: Frame, e: core.BlockExpr) -> Value:
    """The body of a function with `return`: what was returned, or else its value."""
    returned, result = core.Local("returned", ty.TypeCon("bool")), core.Local("result", e.type)
    f.exits = Exits(returned, result)
    f.env[returned] = ScalarV(FALSE)
    f.env[result] = unreached(f, e.type)
    value = sequence(f, e)
    condition, early = flag_value(f, [returned]), f.env[result]
    f.exits = Exits()
    if condition == FALSE:
        return value
    return branches(f, e.result, condition, lambda: early, lambda: value, ())


def statement(f: Frame, s: core.Statement) -> None:
    em = f.emitter
    match s:
        case core.Let(pattern, value, names, span) | core.Declare(pattern, value, names, span):
            with em.at(span):
                v = f.eval(value)
                bind_pattern(f, pattern, v)
                name_sizes(f, pattern, v, names)
        case core.LocalFn(decl, _):
            define(f, decl)
        case core.Assign(place, name, value, span):
            with em.at(span):
                new = f.eval(value)
                if name is not None:
                    new = operator(f, name, current(f, place), new)
                assign(f, place, new)
        case core.AssignTuple(places, value, span):
            with em.at(span):
                v = f.eval(value)
                assert isinstance(v, TupleV)
                for place, item in zip(places, v.items, strict=True):
                    assign(f, place, item)
        case core.For(binders, body, span):
            with em.at(span):
                loop(f, list(binders), body)
        case core.While(condition, body, span):
            with em.at(span):
                while_loop(f, condition, body)
        case core.Break():
            leave_by(f, f.exits.broken)
        case core.Continue():
            leave_by(f, f.exits.continued)
        case core.Return(value, span):
            assert f.exits.result is not None
            with em.at(span):
                f.env[f.exits.result] = f.eval(value)
            leave_by(f, f.exits.returned)
        case core.Assert():
            check_assert(f, s)
        case core.Discard(value):
            f.eval(value)
        case _:
            assert_never(s)


def leave_by(f: Frame, flag: core.Local | None) -> None:
    assert flag is not None
    f.env[flag] = ScalarV(TRUE)


def name_sizes(f: Frame, pattern: core.Pattern, v: Value, names: tuple[core.Local, ...]) -> None:
    """Sizes that an annotation binds, as values; what they are was found with the value."""
    wanted = [n.size for n in names if n.size is not None and n.size not in f.bindings]
    if wanted and isinstance(pattern, core.Bind):
        f.bind_sizes(pattern.local.type, v, wanted)
    for n in names:
        assert n.size is not None
        f.env[n] = ScalarV(f.emitter.atom(f.size(ty.Size(Poly.of(n.size)))))


# ---- assignment ------------------------------------------------------------------------------------------------------
def current(f: Frame, place: core.Place) -> Value:
    """The value of a place now."""
    v = f.env[place.local]
    for step in place.steps:
        match step:
            case core.FieldStep(position, _):
                assert isinstance(v, TupleV | DataV)
                v = v.items[position] if isinstance(v, TupleV) else v.fields[position]
            case core.IndexStep(indices):
                v = select(f, v, selectors(f, indices, leading_shape(v)))
    return v


def assign(f: Frame, place: core.Place, new: Value) -> None:
    old = f.env[place.local]
    whole = replace(f, old, place.steps, new)
    f.env[place.local] = whole if contains_function(whole) or place.steps else f.fit(whole, mono_of(whole))


# ---- branches --------------------------------------------------------------------------------------------------------
def branches(
    f: Frame,
    e: core.Expr,
    condition: Atom,
    then: core.Expr | Callable[[], Value],
    otherwise: core.Expr | Callable[[], Value],
    opened: tuple[ty.SizeVar, ...],
) -> Value:
    """One of two arms; what either assigns, and the token, are results too."""
    em = f.emitter
    changed = changing(f, e)
    if condition in (TRUE, FALSE):
        chosen = then if condition == TRUE else otherwise
        return chosen() if callable(chosen) else f.eval(chosen)
    before, token = dict(f.env), f.world.token
    with_token = token is not None and has_effect(e)
    arms: list[tuple[list[anf.Let], Value, list[Value], Atom | None]] = []
    for arm in (then, otherwise):
        f.env = dict(before)
        f.world.token = token
        with em.block() as lets:
            value = arm() if callable(arm) else f.eval(arm)
            arms.append((lets, value, [f.env[local] for local in changed], f.world.token))
    f.env, f.world.token = dict(before), token
    value, values, results, sizes = joined_arms(f, arms, opened, e.type)
    then_atoms, else_atoms = ([*results[0]], [*results[1]])
    types: list[Var] = list(sizes)
    if with_token:
        then_atoms.append(_token(arms[0][3]))
        else_atoms.append(_token(arms[1][3]))
    out_vars = [*types, *[_fresh_like(a) for v in (value, *values) for a in leaves(v)]]
    if with_token:
        out_vars.append(fresh("world", anf.Token()))
    op = anf.If(
        condition,
        Block(tuple(arms[0][0]), tuple(then_atoms)),
        Block(tuple(arms[1][0]), tuple(else_atoms)),
    )
    em.bind(op, tuple(out_vars))
    if with_token:
        f.world.token = out_vars[-1]
    rest = iter(out_vars[len(types) :])
    result = rebuild(value, rest)
    for local, v in zip(changed, values, strict=True):
        f.env[local] = rebuild(v, rest)
    f.bind_sizes(e.type, result, opened)
    return result


def _token(a: Atom | None) -> Atom:
    assert a is not None
    return a


def _fresh_like(a: Atom) -> Var:
    return fresh(a.name if isinstance(a, Var) else "t", a.type)


def joined_arms(
    f: Frame,
    arms: list[tuple[list[anf.Let], Value, list[Value], Atom | None]],
    opened: tuple[ty.SizeVar, ...],
    t: ty.Type,
) -> tuple[Value, list[Value], tuple[list[Atom], list[Atom]], list[Var]]:
    """The common structure of what two arms give, with the results of each. Sizes that differ come first."""
    em = f.emitter
    (lets_a, a, changed_a, _), (lets_b, b, changed_b, _) = arms
    all_a, all_b = [a, *changed_a], [b, *changed_b]
    sizes: dict[tuple[anf.Size, anf.Size], Var] = {}
    joined_values: list[Value] = []
    for x, y in zip(all_a, all_b, strict=True):
        if shape_key(x, lambda s: None) != shape_key(y, lambda s: None):
            if contains_function(x) or contains_function(y):
                raise unsupported("choosing between different functions at run time", em.span)
            raise unsupported("arms of different structure", em.span)
        inside = {v for let in (*lets_a, *lets_b) for v in let.vars}
        common: list[anf.Size] = []
        for p, q in zip(sizes_of(x), sizes_of(y), strict=True):
            if p == q and not p.mentions(inside):
                common.append(p)
                continue
            if (p, q) not in sizes:
                k = fresh("k", Scalar("i64"))
                em.facts.size(k)
                sizes[(p, q)] = k
            common.append(poly(sizes[(p, q)]))
        joined_values.append(with_common_sizes(x, iter(common)))
    flat: list[list[Atom]] = []
    for column, (lets, values) in enumerate(((lets_a, all_a), (lets_b, all_b))):
        with em.block() as extra:
            atoms = [em.atom(pair[column]) for pair in sizes]
        lets.extend(extra)
        flat.append([*atoms, *[x for v in values for x in leaves(v)]])
    return joined_values[0], joined_values[1:], (flat[0], flat[1]), list(sizes.values())


def with_common_sizes(v: Value, common: Iterator[anf.Size]) -> Value:
    """The structure with every size, in the order of `sizes_of`, given anew."""
    match v:
        case ScalarV():
            return v
        case TupleV(items):
            return TupleV(tuple([with_common_sizes(i, common) for i in items]))
        case DataV(decl, fields):
            return DataV(decl, tuple([with_common_sizes(x, common) for x in fields]))
        case EnumV():
            return v.map(lambda x: with_common_sizes(x, common))
        case ClosureV() | DerivativeV():
            for _ in sizes_of(v):
                next(common)
            return v
        case _:
            if isinstance(v, ArrayV):
                shape = tuple([next(common) for _ in v.shape])
                return ArrayV(fresh(v.var.name, anf.Array(v.dtype, shape)))
            assert isinstance(v, Many)
            return Many(tuple([next(common) for _ in v.shape]), with_common_sizes(v.element, common))


def changing(f: Frame, *trees: Tree) -> list[core.Local]:
    """What code inside may change: locals of this frame that it assigns, and the flags of how it may leave."""
    kinds = frozenset[str]().union(*[escapes(t) for t in trees])
    flags = f.exits.of(kinds)
    if "return" in kinds and f.exits.result is not None:
        flags.append(f.exits.result)
    return [local for local in (*assigned(*trees), *flags) if local in f.env]


# ---- loops -----------------------------------------------------------------------------------------------------------
def loop(f: Frame, binders: list[core.Binder], body: core.Expr) -> None:
    """`for`: what the body assigns is the state; several binders nest."""
    em = f.emitter
    b = bound(f, binders[0])
    outer = f.exits
    early = start_loop(f, body, nested=len(binders) > 1)
    locals_ = loop_state(f, body)
    before = dict(f.env)
    init = [a for local in locals_ for a in leaves(f.env[local])]
    with_token = f.world.token is not None and has_effect(body)
    if with_token:
        init.append(_token(f.world.token))
    params = [_fresh_like(a) for a in init]
    index = em.axis(b.size, b.name).var
    enter(f, locals_, params, with_token)
    with em.block() as lets:
        b.bind(f, poly(index))
        if len(binders) > 1:
            loop(f, binders[1:], body)
        else:
            trip(f, body)
        results = next_state(f, locals_, before, with_token, early)
    op = anf.For(index, poly(0), b.size, tuple(params), tuple(init), Block(tuple(lets), tuple(results)), bool(early))
    bound_vars = em.emit(op, *[p.type for p in params], name="s")
    after(f, locals_, before, bound_vars, with_token)
    f.exits = outer


def start_loop(f: Frame, body: core.Expr, nested: bool = False) -> frozenset[str]:
    """Sets up the flags of a loop; the ways in which its body may end it early."""
    flag = ty.TypeCon("bool")
    broken = f.exits.broken
    if broken is None or not f.exits.nested:
        broken = core.Local("broken", flag)
        f.env[broken] = ScalarV(FALSE)
    continued = None if nested else core.Local("continued", flag)
    f.exits = Exits(f.exits.returned, f.exits.result, broken, continued, nested)
    return escapes(body) & {"return", "break"}


def loop_state(f: Frame, *trees: Tree) -> list[core.Local]:
    """What a loop carries: what its trips may change, without the flag of a trip that was cut short."""
    state = changing(f, *trees)
    kinds = frozenset[str]().union(*[escapes(t) for t in trees])
    return state if "continue" not in kinds else [local for local in state if local is not f.exits.continued]


def trip(f: Frame, body: core.Expr) -> None:
    """One run of a loop's body."""
    if f.exits.continued is not None:
        f.env[f.exits.continued] = ScalarV(FALSE)
    f.eval(body)


def next_state(
    f: Frame,
    locals_: Sequence[core.Local],
    before: dict[core.Local | core.FnDecl, Value],
    with_token: bool,
    early: frozenset[str],
) -> list[Atom]:
    """The results of a body: whether to go on, if it may end the loop; then the state."""
    results = leave(f, locals_, before, with_token)
    if not early:
        return results
    return [f.emitter.prim("not", flag_value(f, f.exits.of(early))), *results]


def while_loop(f: Frame, condition: core.Expr, body: core.Expr) -> None:
    em = f.emitter
    outer = f.exits
    early = start_loop(f, body)
    locals_ = loop_state(f, condition, body)
    before = dict(f.env)
    init = [a for local in locals_ for a in leaves(f.env[local])]
    with_token = f.world.token is not None and (has_effect(body) or has_effect(condition))
    if with_token:
        init.append(_token(f.world.token))
    params = [_fresh_like(a) for a in init]
    enter(f, locals_, params, with_token)
    outer_token = f.world.token
    with em.block() as test:
        f.world.token = None
        holds = f.bool(condition)
    enter(f, locals_, params, with_token)
    f.world.token = outer_token
    with em.block() as lets:
        trip(f, body)
        results = next_state(f, locals_, before, with_token, early)
    test_block, body_block = Block(tuple(test), (holds,)), Block(tuple(lets), tuple(results))
    op = anf.While(tuple(params), tuple(init), test_block, body_block, bool(early))
    after(f, locals_, before, em.emit(op, *[p.type for p in params], name="s"), with_token)
    f.exits = outer


def enter(f: Frame, locals_: Sequence[core.Local], params: Sequence[Var], with_token: bool) -> None:
    """Inside, the state stands for the parameters."""
    rest = iter(params)
    for local in locals_:
        f.env[local] = rebuild(f.env[local], rest)
    if with_token:
        f.world.token = next(rest)


def leave(
    f: Frame, locals_: Sequence[core.Local], before: dict[core.Local | core.FnDecl, Value], with_token: bool
) -> list[Atom]:
    """The next state, of the types that it came with."""
    out: list[Atom] = []
    for local in locals_:
        v = f.env[local]
        if shape_key(v, lambda s: None) != shape_key(before[local], lambda s: None):
            raise unsupported(f"`{local.name}` holding another function after each trip", f.emitter.span)
        if not contains_function(v):
            if list(sizes_of(v)) != list(sizes_of(before[local])) and changes_size(local):
                raise unsupported(f"`{local.name}`, whose size changes in a loop,", f.emitter.span)
            v = f.fit(v, mono_of(before[local]))
        out.extend(leaves(v))
    if with_token:
        out.append(_token(f.world.token))
    return out


def changes_size(local: core.Local) -> bool:
    """Whether a `var` was declared with `?`: only then may its size change."""
    stack: list[ty.Type | ty.Shape | ty.Size] = [ty.resolve(local.type)]
    while stack:
        t = stack.pop()
        if isinstance(t, ty.Size):
            if any(isinstance(a, ty.SizeVar) and a.opened for a in ty.resolve_size(t).poly.atoms()):
                return True
        else:
            stack.extend(ty.children(t if isinstance(t, ty.Shape) else ty.resolve(t)))
    return False


def after(
    f: Frame,
    locals_: Sequence[core.Local],
    before: dict[core.Local | core.FnDecl, Value],
    bound_vars: Sequence[Var],
    with_token: bool,
) -> None:
    f.env = dict(before)
    rest = iter(bound_vars)
    for local in locals_:
        f.env[local] = rebuild(before[local], rest)
    if with_token:
        f.world.token = next(rest)
