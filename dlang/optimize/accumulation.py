"""A loop that only accumulates is a comprehension: what its iterations give is summed up, or added to elements.

    for i (s = first, a = z) {            r, a' = comp i {
      t = …                                 t = …
      s' = if c { add(s, t) } else { s }    v = if c { t } else { 0.0 }
      u = add(read a[k], t)            →    yield v, t
      a' = update a[k] = u                } to keep [] [] sum, add [m] [k] into z
      yield s', a'                        s' = add(first, r)
    }

So its points may be done side by side, and its derivatives need nothing of the iterations before. A part of the state
accumulates if each iteration combines it with a value by one monoid, on every path, and reads it nowhere else. The
terms of a sum are added in the order of a sum, and not in that of the loop. Arrays of an iteration that are as well
computed where they are read are no obstacle; others, which would be there for all iterations at once, are one, unless
all iterations together are a product of matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.affine import Depends, Knowledge, axes_behind, slope
from dlang.ir.builder import Builder, shape_of
from dlang.ir.comprehension_queries import point_of, sizes_named
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import bound_vars, mentioned, op_blocks, outer_mentions, own_consumed, walk
from dlang.ir.types import BOOL, I64, dtype_of
from dlang.ir.writes import covers, determines, digits_end
from dlang.ops.dtypes import SCATTERED, WHOLE
from dlang.ops.monoids import COMBINE, COMBINED_BY, EXTREMA, identity
from dlang.optimize.iteration_arrays import has_comps, is_cheap, may_fail, without_arrays
from dlang.optimize.iterations import Iteration
from dlang.optimize.log_sums import log_summed
from dlang.optimize.rescaled_sums import rescaled

Lets = tuple[anf.Let, ...]


def accumulated(let: anf.Let, loop: anf.For, known: Knowledge) -> list[anf.Let] | None:
    """Returns lets that replace a loop; None if it does anything else than accumulate."""
    if loop.early or not loop.params or not _may_be_points(loop):
        return None
    first, loop = _checks_in_front(loop, known)
    loop = without_arrays(loop)
    scaled = log_summed(let, loop, known) or rescaled(let, loop, known)
    if scaled is not None:
        return [*first, *scaled]
    companions = _companions(loop)
    lets, terms = _without(loop.body.lets, loop, companions), []
    for k, (param, result) in enumerate(zip(loop.params, loop.body.results, strict=True)):
        if k in companions:
            terms.append(companions[k])
            continue
        array = isinstance(param.type, anf.Array)
        split = _elements(lets, param, result, loop, known) if array else total(lets, param, result)
        if split is None and array:
            split = _set_element(lets, k, loop)
        if split is None:
            return None
        lets, term = split
        terms.append(replace(term, axes=_opened(term.axes, sizes_named(loop.body))))
    if any(_depends_on(t.axes, {v for inner in loop.body.lets for v in inner.vars}) for t in terms):
        return None
    if not (_keeps_little(lets) or multiplies_shared(lets, (loop.index, *loop.params))):
        return None
    replacement = [*first]
    if any(t.axes for t in terms) and any(map(may_fail, lets)):
        apart = _checked_apart(loop, lets, known)
        if apart is None:
            return None
        check, lets = apart
        replacement.append(check)
    replacement += _comprehensions(let, loop, lets, terms, known)
    inside = {*loop.params, *bound_vars(loop.body)}
    return replacement if inside.isdisjoint(outer_mentions(anf.Block(tuple(replacement), let.vars))) else None


def _opened(axes: Sequence[anf.Axis], named: Mapping[anf.Var, anf.Size]) -> tuple[anf.Axis, ...]:
    """The axes, with what an iteration names sizes by written out."""

    def ends(sizes: Sequence[anf.Size]) -> tuple[anf.Size, ...]:
        return tuple([size.substitute(named.get) for size in sizes])

    return tuple([anf.Axis(a.var, ends(a.lows), ends(a.highs)) for a in axes])


def _depends_on(axes: Sequence[anf.Axis], vars: Set[anf.Var]) -> bool:
    return any(end.mentions(vars) for a in axes for end in (*a.lows, *a.highs))


def _may_be_points(loop: anf.For) -> bool:
    """Tells whether iterations may be points of a comprehension: what takes long in them is the same in each."""
    changing = {loop.index, *loop.params}
    for let in loop.body.lets:
        if not changing.isdisjoint(mentioned(let.op)):
            changing.update(let.vars)
        elif let.op.IS.long and not own_consumed(let.op) and not may_fail(let):
            continue  # it is done once
        if not may_be_a_point(let):
            return False
    return True


def _checks_in_front(loop: anf.For, known: Knowledge) -> tuple[Lets, anf.For]:
    """The checks of a loop that surely runs which are the same in each iteration, with what they need, and the loop
    without them. None of them stands behind another check of an iteration."""
    if not known.at_least_zero(loop.high - loop.low - 1):
        return (), loop
    changing = {loop.index, *loop.params}
    front: list[anf.Let] = []
    remaining: list[anf.Let] = []
    calm = True
    for let in loop.body.lets:
        if changing.isdisjoint(mentioned(let.op)) and not own_consumed(let.op) and (calm or not may_fail(let)):
            front.append(let)
        else:
            changing.update(let.vars)
            remaining.append(let)
            calm = calm and not may_fail(let)
    if not any(map(may_fail, front)):
        return (), loop
    return tuple(front), replace(loop, body=anf.Block(tuple(remaining), loop.body.results))


def _checked_apart(loop: anf.For, lets: Lets, known: Knowledge) -> tuple[anf.Let, Lets] | None:
    """A comprehension of the checks of all iterations, and the lets that read what is certified; None if it can't be.

    An iteration does them once, also where nothing is added.
    """
    if not known.at_least_zero(loop.high - loop.low):
        return None
    last = max(k for k, let in enumerate(lets) if may_fail(let))
    keep = anf.Reduce((loop.high - loop.low,), (anf.poly(loop.index) - loop.low,), "set")
    values: list[anf.Var] = []
    unchecked: list[anf.Let] = []
    arrays: list[anf.Var] = []
    for let in lets:
        if not may_fail(let):
            unchecked.append(let)
            continue
        if not isinstance(let.op, anf.Assert):
            return None
        for v in let.vars:
            if not isinstance(v.type, anf.Scalar) or v.type.dtype not in anf.DTYPES:
                return None
            values.append(v)
            arrays.append(anf.fresh(v.name, anf.Array(v.type.dtype, keep.shape)))
            unchecked.append(anf.Let((v,), anf.Read(arrays[-1], keep.index), let.span))
    axis = anf.Axis(loop.index, (loop.low,), (loop.high,))
    checks = anf.Comp((axis,), anf.Block(lets[: last + 1], tuple(values)), tuple([keep] * len(values)))
    return anf.Let(tuple(arrays), Renaming({}, renew=True).op(checks), lets[last].span), tuple(unchecked)


def _keeps_little(lets: Lets) -> bool:
    """Tells whether comprehensions of all iterations keep no more than a number of each.

    They would keep arrays of an iteration, and what it adds up at each point of a comprehension in it, where that is
    more than a term of a larger sum.
    """
    if any(isinstance(v.type, anf.Array) for inner in walk(anf.Block(lets, ())) for v in inner.vars):
        return False
    comps = [let for let in lets if isinstance(let.op, anf.Comp)]
    return all(is_cheap(let) or not any(map(has_comps, op_blocks(let.op))) for let in comps)


def multiplies_shared(lets: Lets, varying: Iterable[anf.Var]) -> bool:
    """Tells whether iterations multiply something by a matrix that is the same for all of them, so that all of them
    together are one product of matrices. varying: what differs between them."""
    return any(True for _ in _shared_products(lets, varying))


def multiplies_vectors(lets: Lets, varying: Iterable[anf.Var]) -> bool:
    """Tells whether iterations multiply by such matrices, and only vectors: a product of each alone would go over all
    of a matrix for one row."""
    found = list(_shared_products(lets, varying))
    return bool(found) and all(found)


def _shared_products(lets: Lets, varying: Iterable[anf.Var]) -> Iterator[bool]:
    """The sums with a factor that is computed from elements along an axis of the sum and another, but from nothing that
    differs between iterations: for each whether this factor has all axes along which there are sums."""
    return _Products(axes_behind(anf.Block(lets, ()), varying)).of(lets, frozenset())


@dataclass(frozen=True, slots=True)
class _Products:
    """depends: the axes, and the index and the state of the loop, that variables are computed from. read: the axes in
    each index with which an element was read that a variable is computed from."""

    depends: Depends
    read: dict[anf.Var, frozenset[frozenset[anf.Var]]] = field(default_factory=dict)

    def of(self, lets: Lets, axes: frozenset[anf.Var]) -> Iterator[bool]:
        """The products in some lets; axes: of the comprehensions around."""
        for let in lets:
            own = frozenset(a.var for a in let.op.axes) if isinstance(let.op, anf.Comp) else frozenset[anf.Var]()
            for block in op_blocks(let.op):
                yield from self.of(block.lets, axes | own)
            if isinstance(let.op, anf.Comp):
                yield from self._product(let.op, axes | own)
            used = mentioned(let.op)
            read = frozenset[frozenset[anf.Var]]().union(*(self.read.get(v, frozenset()) for v in used))
            if isinstance(let.op, anf.Read):
                read |= {axes.intersection(v for size in let.op.index for v in size.atoms())}
            self.read.update(dict.fromkeys(let.vars, read))

    def _product(self, op: anf.Comp, axes: frozenset[anf.Var]) -> Iterator[bool]:
        if not all(isinstance(d, anf.Reduce) and d.monoid == "sum" for d in op.destinations):
            return
        kept = {v for d in op.destinations for size in d.index for v in size.atoms()}
        summed = frozenset(a.var for a in op.axes) - kept
        for factor in _factors(op.body):
            if self.depends.get(factor, frozenset()) <= axes:
                for index in self.read.get(factor, frozenset()):
                    if index & summed and index - summed:
                        yield kept & axes <= index


def _factors(block: anf.Block) -> set[anf.Var]:
    """The factors of the products that the results of a block are, or are sums of."""
    by = {v: let.op for let in block.lets for v in let.vars}
    factors: set[anf.Var] = set()
    waiting, seen = list(block.results), set[anf.Atom]()
    while waiting:
        atom = waiting.pop()
        if not isinstance(atom, anf.Var) or atom in seen:
            continue
        seen.add(atom)
        match by.get(atom):
            case anf.Prim("mul" | "zero_safe_mul" | "zero_safe_mul_both", args):
                factors.update(a for a in args if isinstance(a, anf.Var))
                waiting += args
            case anf.Prim("add" | "sub" | "neg" | "div", args):
                waiting += args
            case anf.Prim("select", (_, *values)):
                waiting += values
            case anf.If() as op:
                for arm in op_blocks(op):
                    factors |= _factors(arm)
            case _:
                pass
    return factors


def may_be_a_point(let: anf.Let) -> bool:
    """Tells whether a let of an iteration may be done at a point of a comprehension, among others."""
    match let.op:
        case anf.If() | anf.Comp():
            return all(may_be_a_point(inner) for block in op_blocks(let.op) for inner in block.lets)
        case anf.For() as loop:
            return _is_recurrence(loop)
        case anf.Assert() | anf.StopGradient() | anf.Update():
            return True
        case op:
            return op.IS.point


def _is_recurrence(loop: anf.For) -> bool:
    """Tells whether a loop computes numbers from numbers, one iteration after another, in as many for all points."""
    state = all(isinstance(p.type, anf.Scalar) and p.type.dtype in anf.DTYPES for p in loop.params)
    return state and not loop.early and all(map(may_be_a_point, loop.body.lets))


@dataclass(frozen=True, slots=True)
class _Term:
    """A value that an iteration adds to a part of the state by a monoid; to the element of an array at `index`.

    axes, lets: those of the comprehension in the iteration that adds at each of its points; none, where it does not.
    beside: which part of the state is an extremum of the values; this part is the index of the first that it is then.
    """

    value: anf.Atom
    monoid: str
    index: tuple[anf.Size, ...] = ()
    axes: tuple[anf.Axis, ...] = ()
    lets: Lets = ()
    beside: int | None = None


# ---- totals ----------------------------------------------------------------------------------------------------------
def total(lets: Lets, param: anf.Var, result: anf.Atom) -> tuple[Lets, _Term] | None:
    """The lets of an iteration without what adds to a scalar of the state, and what that adds."""
    if not isinstance(param.type, anf.Scalar) or param.type.dtype not in WHOLE:  # no halves, texts or nodes
        return None
    combined = _combined(lets, param, result)
    if combined is None:
        return None
    lets, monoid, value = combined
    return None if monoid is None else (lets, _Term(value, monoid))


def _combined(lets: Lets, param: anf.Var, result: anf.Atom) -> tuple[Lets, str | None, anf.Atom] | None:
    """The lets without those that combine a parameter with a value to a result; the monoid, and the value.

    The monoid is None where the result is the parameter, and the value the parameter then.
    """
    if result is param:
        return lets, None, param
    at = next((k for k, let in enumerate(lets) if result in let.vars), None)
    if at is None:
        return None
    before, let, behind = lets[:at], lets[at], lets[at + 1 :]
    ways: list[tuple[anf.Atom, anf.Atom, Lets]]
    match let.op:
        case anf.Prim("sub", (a, b)):
            opposite = anf.fresh("t", let.vars[0].type)
            ways = [(a, opposite, (anf.Let((opposite,), anf.Prim("neg", (b,)), let.span),))]
            monoid = "sum"
        case anf.Prim(name, (a, b)) if name in COMBINED_BY:
            ways = [(a, b, ()), (b, a, ())]
            monoid = COMBINED_BY[name]
        case anf.IndexExpr(size):
            ways = [(v, *_rest(size, v, let)) for v in size.atoms() if slope(size, v) == 1]
            monoid = "sum"
        case anf.Prim("select", (condition, value, partial)) if partial is param:
            return _extremum(lets, let, condition, value, param)
        case anf.If(condition, then, otherwise) if (
            len(let.vars) == 1 and otherwise.results == (param,) and not then.lets
        ):
            return _extremum(lets, let, condition, then.results[0], param)
        case anf.If():
            return _of_branch(before, let, let.op, behind, param, let.vars.index(result))
        case _:
            return None
    for partial, value, more in ways:
        combined = _combined(before, param, partial) if isinstance(partial, anf.Var) else None
        if combined is None or combined[1] not in (None, monoid):
            continue
        left, inner, earlier = combined
        if inner is not None:
            both = anf.fresh("t", let.vars[0].type)
            more = (*more, anf.Let((both,), anf.Prim(COMBINE[monoid], (earlier, value)), let.span))
            value = both
        rest = (*left, *more, *behind)
        if partial is not param and partial in mentioned(anf.Block(rest, (value,))):
            return None  # the value depends on the parameter
        return rest, monoid, value
    return None


def _rest(size: anf.Size, v: anf.Var, let: anf.Let) -> tuple[anf.Var, Lets]:
    """The other terms of a sum."""
    value = anf.fresh("t", let.vars[0].type)
    return value, (anf.Let((value,), anf.IndexExpr(size - anf.poly(v)), let.span),)


def _extremum(
    lets: Lets, let: anf.Let, condition: anf.Atom, value: anf.Atom, param: anf.Var
) -> tuple[Lets, str | None, anf.Atom] | None:
    """As `_combined`, of what takes the place of a parameter if it is less, or greater: NaN never is."""
    asked = next((inner for inner in lets if condition in inner.vars), None)
    monoid = None if asked is None else _compared(asked.op, value, param)
    if monoid is None:
        return None
    others = tuple([inner for inner in lets if inner is not let and inner is not asked])
    dtype = dtype_of(param)
    if dtype not in anf.FLOATS:
        return others, monoid, value
    number, term = anf.fresh("t", anf.Scalar("bool")), anf.fresh("t", param.type)
    unit = anf.Lit(identity(monoid, dtype), dtype)
    more = (
        anf.Let((number,), anf.Prim("eq", (value, value)), let.span),
        anf.Let((term,), anf.Prim("select", (number, value, unit)), let.span),
    )
    return (*others, *more), monoid, term


def _compared(op: anf.Op, value: anf.Atom, param: anf.Var) -> str | None:
    """The extremum that a parameter is, if it is replaced by a value where a comparison holds."""
    match op:
        case anf.Prim("lt", (a, b)) | anf.Prim("gt", (b, a)) if (a, b) == (value, param):
            return "min"
        case anf.Prim("lt", (a, b)) | anf.Prim("gt", (b, a)) if (a, b) == (param, value):
            return "max"
        case _:
            return None


def _of_branch(
    before: Lets, let: anf.Let, op: anf.If, behind: Lets, param: anf.Var, position: int
) -> tuple[Lets, str | None, anf.Atom] | None:
    """As `_combined`, of a result of a branch: an arm that leaves the parameter as it is combines it with the unit."""
    arms = [_combined(arm.lets, param, arm.results[position]) for arm in (op.then, op.otherwise)]
    monoids = {combined[1] for combined in arms if combined is not None and combined[1] is not None}
    if None in arms or len(monoids) != 1:
        return None
    (monoid,) = monoids
    dtype = dtype_of(let.vars[position])
    blocks = []
    for arm, combined in zip((op.then, op.otherwise), arms, strict=True):
        assert combined is not None
        value = anf.Lit(identity(monoid, dtype), dtype) if combined[1] is None else combined[2]
        blocks.append(anf.Block(combined[0], (*arm.results[:position], value, *arm.results[position + 1 :])))
    term = anf.fresh("t", let.vars[position].type)
    vars = (*let.vars[:position], term, *let.vars[position + 1 :])
    branch = anf.Let(vars, replace(op, then=blocks[0], otherwise=blocks[1]), let.span)
    return (*before, branch, *behind), monoid, term


def totals_last(loop: anf.For) -> anf.For:
    """The loop whose iterations combine numbers of the state last with what they only combine them with.

    So branches give what is combined, and need nothing of these numbers.
    """
    inside = {*bound_vars(loop.body)}
    lets, last = loop.body.lets, list[anf.Let]()
    for param, result in zip(loop.params, loop.body.results, strict=True):
        split = total(lets, param, result) if isinstance(result, anf.Var) else None
        if split is None or not isinstance(result, anf.Var):
            continue
        rest, term = split
        needed = outer_mentions(anf.Block(rest, (term.value, *[r for r in loop.body.results if r is not result])))
        if param not in needed and inside.isdisjoint(needed):
            lets = rest
            last.append(anf.Let((result,), anf.Prim(COMBINE[term.monoid], (param, term.value))))
    return replace(loop, body=replace(loop.body, lets=(*lets, *last))) if last else loop


# ---- what comes with an extremum -------------------------------------------------------------------------------------
def _companions(loop: anf.For) -> dict[int, _Term]:
    """The parts of the state that are replaced by an index, or what it determines, whenever an extremum is replaced.

    for j (m = first, at = z) { c = lt(v, m); m', at' = if c { v, j } else { m, at }; yield m', at' }
    """
    by = {var: let for let in loop.body.lets for var in let.vars}
    named = {loop.index: anf.poly(loop.index), **sizes_named(loop.body)}
    inside = set(by) | set(loop.params)
    conditions: dict[anf.Atom, list[tuple[int, anf.Atom]]] = {}
    for k, (param, result) in enumerate(zip(loop.params, loop.body.results, strict=True)):
        let = by.get(result) if isinstance(result, anf.Var) else None
        match let.op if let is not None else None:
            case anf.Prim("select", (condition, value, rest)) if rest is param:
                conditions.setdefault(condition, []).append((k, value))
            case anf.If(condition, then, otherwise) as op if not then.lets and not otherwise.lets:
                assert let is not None
                position = let.vars.index(result) if isinstance(result, anf.Var) else 0
                if otherwise.results[position] is param:
                    conditions.setdefault(condition, []).append((k, op.then.results[position]))
            case _:
                pass
    terms: dict[int, _Term] = {}
    for condition, replaced in conditions.items():
        asked = by.get(condition) if isinstance(condition, anf.Var) else None
        places = {k: named[v] for k, v in replaced if isinstance(v, anf.Var) and v in named}
        values = {k: value for k, value in replaced if k not in places or places[k].mentions(inside)}
        if asked is None or len(values) != 1 or len(replaced) == 1:
            continue
        ((extremum, value),) = values.items()
        compared = _compared(asked.op, value, loop.params[extremum])
        if compared is not None:
            for k in places.keys() - values.keys():
                terms[k] = _Term(value, f"arg{compared}", (places[k],), beside=extremum)
    return terms


def _without(lets: Lets, loop: anf.For, companions: Mapping[int, _Term]) -> Lets:
    """The lets, in which branches that replace an extremum replace nothing else."""
    gone = {loop.body.results[k] for k in companions}
    out = []
    for let in lets:
        kept = [k for k, v in enumerate(let.vars) if v not in gone]
        if len(kept) == len(let.vars):
            out.append(let)
        elif kept and isinstance(let.op, anf.If):
            arms = [replace(arm, results=tuple([arm.results[k] for k in kept])) for arm in op_blocks(let.op)]
            op = replace(let.op, then=arms[0], otherwise=arms[1])
            out.append(anf.Let(tuple([let.vars[k] for k in kept]), op, let.span))
    return tuple(out)


# ---- elements --------------------------------------------------------------------------------------------------------
def _elements(
    lets: Lets, param: anf.Var, result: anf.Atom, loop: anf.For, known: Knowledge
) -> tuple[Lets, _Term] | None:
    """The lets of an iteration without what adds to an element of an array of the state, and what that adds."""
    by = {var: let for let in lets for var in let.vars}
    let = by.get(result) if isinstance(result, anf.Var) else None
    if let is None or not isinstance(param.type, anf.Array) or param.type.dtype not in SCATTERED:
        return None
    match let.op:
        case anf.Update(array, index, anf.Var() as value) if array is param and value in by:
            total = by[value]
            others = tuple([inner for inner in lets if inner is not let and inner is not total])
            if not isinstance(total.op, anf.Prim) or total.op.name not in ("add", "sub"):
                return None
            a, b = total.op.args
            for old, other in ((a, b), (b, a)) if total.op.name == "add" else ((a, b),):
                read = by.get(old) if isinstance(old, anf.Var) else None
                if read is None or read.op != anf.Read(param, index):
                    continue
                others = tuple([inner for inner in others if inner is not read])
                if total.op.name == "add":
                    return others, _Term(other, "sum", index)
                opposite = anf.fresh("t", total.vars[0].type)
                return (*others, anf.Let((opposite,), anf.Prim("neg", (other,)), total.span)), _Term(
                    opposite, "sum", index
                )
            return None
        case anf.If(_, then, otherwise) as op if len(let.vars) == 1:
            arms = [arm for arm in (then, otherwise) if arm.results != (param,) or arm.lets]
            term = _of_an_arm(op, arms[0], param, loop, known) if len(arms) == 1 else None
            return None if term is None else (tuple([inner for inner in lets if inner is not let]), term)
        case anf.Comp(destinations=(anf.Reduce(monoid="set"),)) as op:
            return _of_all_elements(lets, param, let, op)
        case anf.Comp() as op:
            k = let.vars.index(result)
            d = op.destinations[k]
            if d.into is not param or (isinstance(d, anf.Reduce) and (d.monoid != "sum" or d.after is not None)):
                return None
            if isinstance(op.body.results[k].type, anf.Array):
                return None
            return tuple([inner for inner in lets if inner is not let]), _Term(
                op.body.results[k], "sum", d.index, op.axes, op.body.lets
            )
        case _:
            return None


def _set_element(lets: Lets, k: int, loop: anf.For) -> tuple[Lets, _Term] | None:
    """The lets of an iteration without what sets its own element of an array of the state, and what that sets.

    The iteration reads no other element of the array, and this one before it sets it.
    """
    param, first, result = loop.params[k], loop.init[k], loop.body.results[k]
    let = next((let for let in lets if result in let.vars), None)
    if let is None or not isinstance(let.op, anf.Update) or let.op.array is not param or loop.init.count(first) > 1:
        return None
    index, one = let.op.index, Iteration.of(loop)
    if not one.is_known(*index) or not one.apart(index) or not isinstance(first, anf.Var):
        return None
    if not isinstance(let.op.value.type, anf.Scalar) or dtype_of(let.op.value) not in WHOLE:
        return None
    read = anf.Read(param, index)
    others = [inner for inner in lets if inner is not let]
    others = [replace(inner, op=replace(read, array=first)) if inner.op == read else inner for inner in others]
    if not {param, result}.isdisjoint(mentioned(anf.Block(tuple(others), ()))):
        return None
    return tuple(others), _Term(let.op.value, "set", tuple(map(one.opened, index)))


def _of_an_arm(op: anf.If, arm: anf.Block, param: anf.Var, loop: anf.For, known: Knowledge) -> _Term | None:
    """The term that one arm of a branch adds at each point of a comprehension, or to an element of the iteration's own,
    and 0 where the other is taken.

    The places have to be in range whatever the condition is, and what the arm computes is computed at each point.
    """
    split = _elements(arm.lets, param, arm.results[0], loop, known)
    if split is None:
        return None
    others, term = split
    code = (*others, *term.lets)
    of_iteration = anf.Axis(loop.index, (loop.low,), (loop.high,))
    if not (term.axes or determines((of_iteration,), term.index)) or not all(
        inner.op.IS.point and not may_fail(inner) for inner in code
    ):
        return None
    if _depends_on(term.axes, bound := {v for inner in code for v in inner.vars}):
        return None
    if any(entry.mentions(bound) for entry in term.index):
        return None
    assert isinstance(param.type, anf.Array)
    known = known.copy()
    known.note_sizes([param.type])
    if not known.within((of_iteration, *term.axes)).inside(term.index, param.type.shape):
        return None
    dtype = param.type.dtype
    unit = anf.Block((), (anf.Lit(identity("sum", dtype), dtype),))
    value, body = anf.fresh("t", anf.Scalar(dtype)), anf.Block(code, (term.value,))
    then, otherwise = (body, unit) if arm is op.then else (unit, body)
    return replace(term, value=value, lets=(anf.Let((value,), anf.If(op.condition, then, otherwise)),))


def _of_all_elements(lets: Lets, param: anf.Var, let: anf.Let, op: anf.Comp) -> tuple[Lets, _Term] | None:
    """As `_elements`, where each element of an array, or each that is set in it, is combined with a value.

    A check of an iteration would be one of each element of all.
    """
    (d,) = op.destinations
    reads = [inner for inner in op.body.lets if inner.op == anf.Read(param, d.index)]
    whole = d.into is None and point_of(op, 0) is not None and not any(map(may_fail, lets))
    if len(reads) != 1 or not (whole or d.into is param):
        return None
    (old,) = reads[0].vars
    body = tuple([inner for inner in op.body.lets if inner is not reads[0]])
    combined = _combined(body, old, op.body.results[0])
    if combined is None or combined[1] is None or old in mentioned(anf.Block(combined[0], (combined[2],))):
        return None
    if not whole and combined[1] != "sum":
        return None
    others = tuple([inner for inner in lets if inner is not let])
    return others, _Term(combined[2], combined[1], d.index, op.axes, combined[0])


# ---- comprehensions --------------------------------------------------------------------------------------------------
def _comprehensions(
    let: anf.Let, loop: anf.For, lets: Lets, terms: Sequence[_Term], known: Knowledge
) -> Iterator[anf.Let]:
    """The comprehensions that accumulate the terms, one for all that are of the same points, and what follows them."""
    groups: dict[tuple[anf.Axis, ...], list[int]] = {}
    for k, term in enumerate(terms):
        groups.setdefault(term.axes, []).append(k)
    extrema = {t.beside: anf.fresh("r", let.vars[t.beside].type) for t in terms if t.beside is not None}
    terms = [replace(t, value=terms[t.beside].value) if t.beside is not None else t for t in terms]
    after: list[anf.Let] = []
    for n, (inner, members) in enumerate(groups.items()):
        axes = (anf.Axis(loop.index, (loop.low,), (loop.high,)), *inner)
        own = {inner.vars: inner for k in members for inner in terms[k].lets}
        body = anf.Block((*lets, *own.values()), tuple([terms[k].value for k in members]))
        vars: list[anf.Var] = []
        destinations: list[anf.Destination] = []
        for k in members:
            var, first = let.vars[k], loop.init[k]
            monoid = terms[k].monoid
            if isinstance(var.type, anf.Array):
                assert isinstance(first, anf.Var)
                shape, index = var.type.shape, terms[k].index
                if monoid == "set":
                    vars.append(var)
                    destinations.append(anf.Reduce(shape, index, "set", None if covers(axes, shape, index) else first))
                elif monoid == "sum":
                    vars.append(var)
                    destinations.append(anf.ScatterAdd(shape, index, first))
                else:
                    vars.append(anf.fresh(var.name, var.type))
                    destinations.append(anf.Reduce(shape, index, monoid))
                    after.append(_combination(let, var, monoid, first, vars[-1]))
                continue
            assert isinstance(var.type, anf.Scalar)
            destinations.append(anf.Reduce((), (), monoid))
            if (beside := terms[k].beside) is not None:
                vars.append(anf.fresh("at", var.type))
                after += _chosen(let, loop, k, terms[k], vars[-1], extrema[beside])
            elif k in extrema:
                vars.append(extrema[k])
                after.append(anf.Let((var,), anf.Prim(COMBINE[monoid], (first, vars[-1])), let.span))
            elif first == anf.Lit(identity(monoid, var.type.dtype), var.type.dtype):
                vars.append(var)
            else:
                vars.append(anf.fresh("r", var.type))
                after.append(anf.Let((var,), anf.Prim(COMBINE[monoid], (first, vars[-1])), let.span))
        comp: anf.Op = without_scatters(anf.Comp(axes, body, tuple(destinations)), known)
        yield anf.Let(tuple(vars), Renaming({}, renew=True).op(comp) if n else comp, let.span)
    yield from after


def _chosen(let: anf.Let, loop: anf.For, k: int, term: _Term, at: anf.Var, extremum: anf.Var) -> Iterator[anf.Let]:
    """Binds a part of the state to where an extremum is, or its first value, if that of the extremum stayed.

    at: the position of the extremum among the iterations.
    """
    assert term.beside is not None
    place = term.index[0].substitute({loop.index: loop.low + anf.poly(at)}.get)
    better, index = anf.fresh("better", BOOL), anf.fresh("at", I64)
    comparison = "lt" if EXTREMA[term.monoid] == "min" else "gt"
    yield anf.Let((better,), anf.Prim(comparison, (extremum, loop.init[term.beside])), let.span)
    yield anf.Let((index,), anf.IndexExpr(place), let.span)
    yield anf.Let((let.vars[k],), anf.Prim("select", (better, index, loop.init[k])), let.span)


def _combination(let: anf.Let, var: anf.Var, monoid: str, first: anf.Var, second: anf.Var) -> anf.Let:
    """Combines two arrays, element by element; derivatives know that of a sum alone as a part of a reduction."""
    b = Builder(span=let.span)
    both = b.map(shape_of(first), lambda *i: b.prim(COMBINE[monoid], b.read(first, i), b.read(second, i)))
    combination = b.definition(both)
    assert combination is not None
    return anf.Let((var,), combination, let.span)


def without_scatters(op: anf.Comp, known: Knowledge) -> anf.Comp:
    """The comprehension, which sums over axes where it would add to elements whose places the other axes determine.

    Such a place has to be in range for all values of its axes, also where the axes of the sum have no point.
    """
    if not any(isinstance(d, anf.ScatterAdd) for d in op.destinations):
        return op
    named, inside = sizes_named(op.body), {v for let in op.body.lets for v in let.vars}
    return replace(op, destinations=tuple([_as_sum(op, d, named, inside, known) for d in op.destinations]))


def _as_sum(
    op: anf.Comp, d: anf.Destination, named: Mapping[anf.Var, anf.Size], inside: Set[anf.Var], known: Knowledge
) -> anf.Destination:
    index = tuple([entry.substitute(named.get) for entry in d.index])
    variables = {axis.var for axis in op.axes}
    of_entries = [variables.intersection(entry.atoms()) for entry in index]
    kept = set().union(*of_entries)
    axes = [axis for axis in op.axes if axis.var in kept]
    by_var = {axis.var: axis for axis in axes}
    if (
        isinstance(d, anf.Reduce)
        or any(entry.mentions(inside) for entry in index)
        or sum(map(len, of_entries)) > len(kept)
        or not all(_is_determined(entry, vars, by_var) for entry, vars in zip(index, of_entries, strict=True))
        or any(end.mentions(variables - kept) for axis in axes for end in (*axis.lows, *axis.highs))
        or not known.within(axes).inside(index, d.shape)
    ):
        return d
    return anf.Reduce(d.shape, index, "sum", d.into)


def _is_determined(entry: anf.Size, vars: Set[anf.Var], axes: Mapping[anf.Var, anf.Axis]) -> bool:
    """Tells whether an entry of an index is another number at each point of the axes that it mentions."""
    if len(vars) > 1:
        return digits_end(entry, axes) is not None
    return all(slope(entry, v) in (1, -1) for v in vars)
