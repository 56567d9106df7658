"""Splits a function by when its parameters are known: what depends on those that are given early becomes a function of
its own, and its results further parameters of the rest.

    f(x, w) = body        f.early(x) = values            f(x, w, values) = rest of the body

This is data specialisation (Knoblock and Ruf 1996): what is computed early is data, and no code is made for it. What is
as cheap as reading it again (views, constants) stays in the rest. What a comprehension of the rest computes at its
points from early data alone becomes an array, if it is expensive and there is no more of it than of the data.

Checks may move too: if the early function fails, its caller runs the whole instead, so what fails first is what always
does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.comprehension_queries import extent, surely_total
from dlang.ir.sharing import is_slow
from dlang.ir.sizes import defined_sizes, opened
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import type_vars, used_by, walk
from dlang.ops import figures


def staged(program: anf.Program, name: str, given: Set[int]) -> anf.Program:
    """The program with a function split. given: the positions of the parameters that are known early.

    A parameter whose type mentions a size that is not given counts as not given.
    """
    f = program.functions[name]
    params: list[anf.Var] = []
    for k, p in enumerate(f.params):
        if k in given and set(type_vars(p.type)) <= set(params):
            params.append(p)
    early, late = _split(f.body, set(params))
    crossing, again = _crossing(early, late, f.body.results)
    remaining = anf.Block((*[let for let in early if let in again], *late), f.body.results)
    values = tuple([v for let in early for v in let.vars if v in crossing])
    first = _early(f, params, early, values)
    handed = _formals(values, early)
    second = replace(f, params=(*f.params, *handed.values()), body=Renaming(handed).block(remaining))
    return replace(program, functions={**program.functions, name: second, first.name: first})


def _split(body: anf.Block, known: set[anf.Var]) -> tuple[list[anf.Let], list[anf.Let]]:
    """Splits a body: the lets that depend only on known variables, in order, and the rest."""
    early: list[anf.Let] = []
    late: list[anf.Let] = []
    for whole in body.lets:
        arrays, let = _apart(whole, known) if isinstance(whole.op, anf.Comp) else ([], whole)
        early += arrays
        known.update(v for new in arrays for v in new.vars)
        used = [*used_by(let), *[v for var in let.vars for v in type_vars(var.type)]]
        if known.issuperset(v for v in used if v not in let.vars) and _may_move(let):
            early.append(let)
            known.update(let.vars)
        else:
            late.append(let)
    return early, late


def _apart(let: anf.Let, known: Set[anf.Var]) -> tuple[list[anf.Let], anf.Let]:
    """Splits a comprehension into arrays of values that depend only on known data, and one that reads these."""
    comp = let.op
    assert isinstance(comp, anf.Comp)
    extents = {axis.var: extent(axis) for axis in comp.axes}
    used = {v for axis in comp.axes for bound in (*axis.lows, *axis.highs) for v in bound.atoms()}
    if None in extents.values() or not used <= known:
        return [], let
    cones: dict[anf.Var, _Cone] = {}
    for inner in comp.body.lets:
        mentions = used_by(inner)
        early = all(v in known or v in extents or v in cones for v in mentions)
        if early and inner.op.IS.point:
            cones[inner.vars[0]] = _cone(inner, mentions, extents, cones)
    others = [inner for inner in comp.body.lets if not cones.keys() >= set(inner.vars) or not inner.vars]
    if not others:
        return [], let  # it moves as it is
    late = [v for inner in others for v in used_by(inner)]
    wanted = {v for v in (*late, *comp.body.results) if isinstance(v, anf.Var) and v in cones and cones[v].is_worth_it}
    new: list[anf.Let] = []
    reads: dict[anf.Var, anf.Read] = {}
    for v in [v for v in cones if v in wanted]:
        cone = cones[v]
        axes = tuple([axis for axis in comp.axes if axis.var in cone.axes])
        if len(axes) < len(comp.axes) and not all(surely_total(inner.op, axes) for inner in cone.lets):
            continue  # other axes may be empty, and then it does not run now
        shape = tuple([axis.highs[0] for axis in axes])
        index = tuple([anf.poly(axis.var) for axis in axes])
        assert isinstance(v.type, anf.Scalar)
        array = anf.fresh(v.name, anf.Array(v.type.dtype, shape))
        comprehension = anf.Comp(axes, anf.Block(cone.lets, (v,)), (anf.Reduce(shape, index, "set"),))
        new.append(anf.Let((array,), Renaming({}, renew=True).op(comprehension), let.span))
        reads[v] = anf.Read(array, index)
    lets = [replace(x, op=reads[x.vars[0]]) if reads.keys() & set(x.vars) else x for x in comp.body.lets]
    body = replace(comp.body, lets=tuple(lets))
    return new, replace(let, op=replace(comp, body=body)) if new else let


@dataclass(frozen=True, slots=True)
class _Cone:
    """Scalar code that leads to a value: its operations, the axes that it depends on, and the largest rank of the
    arrays that it reads."""

    lets: tuple[anf.Let, ...]
    axes: frozenset[anf.Var]
    rank: int
    expensive: bool

    @property
    def is_worth_it(self) -> bool:
        return self.expensive and 0 < len(self.axes) <= self.rank


def _cone(
    let: anf.Let, mentions: Sequence[anf.Var], axes: Collection[anf.Var], cones: Mapping[anf.Var, _Cone]
) -> _Cone:
    below = [cones[v] for v in mentions if v in cones]
    lets = (*dict.fromkeys([x for c in below for x in c.lets]), let)
    own_axes = frozenset(v for v in mentions if v in axes).union(*[c.axes for c in below])
    ranks = [len(v.type.shape) for v in mentions if isinstance(v.type, anf.Array)] + [c.rank for c in below]
    expensive = is_slow(let.op)
    return _Cone(lets, own_axes, max(ranks, default=0), expensive or any(c.expensive for c in below))


def _may_move(let: anf.Let) -> bool:
    """Tells whether a let may move: the world does not see it, and its results outlive a run, as nodes do not."""
    lasting = all(not isinstance(v.type, anf.Token) and not _is_node(v.type) for v in let.vars)
    return lasting and not isinstance(let.op, anf.Effect)


def _is_node(type: anf.Type) -> bool:
    return isinstance(type, anf.Scalar | anf.Array) and anf.is_handle(type.dtype)


def _crossing(
    early: list[anf.Let], late: list[anf.Let], results: tuple[anf.Atom, ...]
) -> tuple[set[anf.Var], set[anf.Let]]:
    """Returns the variables handed to the late part, and the lets that it computes again."""
    of = {v: let for let in early for v in let.vars}
    wanted = [v for v in results if isinstance(v, anf.Var)]
    wanted += [v for let in late for v in (*used_by(let), *[s for x in let.vars for s in type_vars(x.type)])]
    sizes = defined_sizes(early)
    crossing: set[anf.Var] = set()
    again: set[anf.Let] = set()
    work = [v for v in wanted if v in of]
    while work:
        v = work.pop()
        let = of[v]
        if let in again or v in crossing:
            continue
        if _is_cheap(let) or sizes.keys() & set(let.vars):  # the rest has to know which sizes are equal, too
            again.add(let)
            mentions = [*used_by(let), *[u for x in let.vars for u in type_vars(x.type)]]
        else:
            crossing.add(v)
            mentions = type_vars(opened(v.type, sizes))
        work += [u for u in mentions if u in of]
    return crossing, again


def _is_cheap(let: anf.Let) -> bool:
    """Tells whether computing a let again costs no more than reading its result."""
    match let.op:
        case anf.IndexExpr() | anf.Empty():
            return True
        case anf.Comp():
            plain = all(inner.op.IS.scalar for inner in walk(let.op.body))
            return plain and len(let.op.body.lets) <= figures.PRECOMPUTED_BODY
        case op:
            return op.IS.view


def _early(f: anf.Function, params: list[anf.Var], lets: list[anf.Let], values: tuple[anf.Var, ...]) -> anf.Function:
    renaming = Renaming({}, renew=True)
    formals = tuple([renaming.bind(p) for p in params])
    body = renaming.block(anf.Block(tuple(lets), values))
    results = _formals([v for v in body.results if isinstance(v, anf.Var)], body.lets)
    sizes = renaming.size_params(f).intersection(formals)
    return anf.Function(anf.early_name(f.name), formals, tuple(results.values()), body, f.label, f.span, sizes=sizes)


def _formals(values: Sequence[anf.Var], lets: Sequence[anf.Let]) -> dict[anf.Var, anf.Var]:
    """A variable for each value of some lets, of a type whose sizes mention those that stand for themselves."""
    sizes = defined_sizes(lets)
    formals: dict[anf.Var, anf.Var] = {}
    for v in values:
        formals[v] = anf.fresh(v.name, Renaming(formals).type(opened(v.type, sizes)))
    return formals
