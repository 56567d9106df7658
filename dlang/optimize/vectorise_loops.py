"""A loop whose iterations need nothing of each other is done for all iterations at once.

    for i (rows) {                                   m[i, a, b] = sum(q[i, a, p] * k[i, b, p] for p)
      m[a, b] = sum(q[i, a, p] * k[i, b, p] for p)   s[i, a] = max(m[i, a, b] for b)
      s[a] = max(m[a, b] for b)                  →   rows[i, a, b] = m[i, a, b] - s[i, a]
      rows[i, a, b] = m[a, b] - s[a]
    }

Each array that an iteration makes becomes one of all iterations, with one more axis. So a comprehension whose elements
are arrays made by functions (attention, of several heads) is in the normal form that derivatives and the passes on
products know, and its adjoint saves what that of the same code with indices would.

An iteration may write the slice of a state that its number determines, and may read of the state what no earlier one
writes. One that writes it in several steps is taken apart first: all iterations do one step before any does the next;
one that changes its own elements under conditions changes them once (`cells.py`). What it does is comprehensions,
views, checks and scalar code; scalars are computed again in each comprehension that needs them. A call,
a library's operation or an effect leaves the loop as it is, and so does a loop in an iteration, with one exception.

    for i (rows) {                                 for t (hs[i, a] = x[i, a]) {
      for t (h = x[i]) { h = tanh(w @ h) }    →      m[i, a] = sum(w[a, p] * hs[i, p] for p)
      rows[i] = h                                    hs[i, a] = tanh(m[i, a])
    }                                              }

A loop in an iteration multiplies vectors by matrices that are the same in all, as a recurrent network does that is
written for one sequence: then each of its steps is done for all iterations at once, as a product of matrices. Whatever
else stands around it in an iteration, or at a point of a comprehension, comes behind it.

Specialisation writes such a loop for every comprehension whose elements are arrays. So the gradient of each example,
too, becomes the products of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

from dlang.ir import anf
from dlang.ir.affine import Knowledge, slope
from dlang.ir.axes import Location, Relocation, at_point, stacked
from dlang.ir.builder import axis as fresh_axis, shape_of
from dlang.ir.comprehension_queries import filled, sizes_named
from dlang.ir.sharing import additions
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import (
    block_acts,
    bound_vars,
    count_uses,
    free_vars,
    map_blocks,
    map_functions,
    mentioned,
    parts,
    pruned,
    used_by,
    walk,
    with_body,
    with_lets,
    with_op,
)
from dlang.ir.types import dtype_of, product, type_of
from dlang.ir.writes import covers, determines, differ, reads_ahead, reads_its_place, reads_only_its_place
from dlang.ops import figures
from dlang.optimize.accumulation import accumulated, multiplies_vectors, totals_last, without_scatters
from dlang.optimize.cells import changed_once, own_elements, with_numbers
from dlang.optimize.hoist import hoisted
from dlang.optimize.invariant_reads import invariant_reads
from dlang.optimize.iteration_arrays import rows_in_place
from dlang.optimize.iterations import Iteration, Rows
from dlang.optimize.lifting import asked_before, asks
from dlang.optimize.loop_fission import branches_apart, numbers_first, split_by_state
from dlang.optimize.pointwise_loops import pointwise
from dlang.optimize.unroll import of_loop


def vectorise_loops(program: anf.Program) -> anf.Program:
    """The program with comprehensions in the place of loops whose iterations need nothing of each other."""

    def function(f: anf.Function) -> anf.Function:
        known = Knowledge.of(f)
        return with_body(f, vectorised(f.body, known))

    return map_functions(program, function)


def vectorised(block: anf.Block, known: Knowledge, around: frozenset[anf.Atom] = frozenset()) -> anf.Block:
    """Inner loops first: a loop over comprehensions may become one itself. around: the arrays there of one value."""
    before, known = known, known.copy()
    fills = set[anf.Atom](around)
    lets: list[anf.Let] = []
    for let in block.lets:
        inner = known
        if isinstance(let.op, anf.For):
            before_loop, loop = invariant_reads(let.op, known)
            lets += before_loop
            let = with_op(let, let.vars, loop)
            inner = known.copy()
            inner.facts.between(loop.index, (loop.low,), (loop.high,))
        if isinstance(let.op, anf.If) and let.op.cold:  # what hardly ever runs stays as it is
            otherwise = vectorised(let.op.otherwise, inner, frozenset(fills))
            op: anf.Op = let.op if otherwise is let.op.otherwise else replace(let.op, otherwise=otherwise)
        else:
            op = map_blocks(let.op, partial(vectorised, known=inner, around=frozenset(fills)))
        if isinstance(op, anf.Comp):
            op = without_scatters(op, known)
        apart, op = _loops_apart(op, known)
        lets += apart
        new = with_op(let, let.vars, op)
        # a short inner loop is a comprehension by now
        for part in of_loop(new, op, early=True) if isinstance(op, anf.For) else [new]:
            lets += _done(part, part.op, known, fills) if isinstance(part.op, anf.For) else [part]
        if isinstance(op, anf.Comp):
            fills.update(filled(op, new.vars))
        known.note_made(let.vars)
    return changed_once(with_lets(block, lets, block.results), before)


def _done(let: anf.Let, loop: anf.For, known: Knowledge, fills: Set[anf.Atom]) -> list[anf.Let]:
    """The loop, or what does the same, with numbers for elements that it changes time and again.

    fills: arrays of which all elements are one value.
    """
    points = _as_points(let, loop, known)
    if points is None and (own := own_elements(loop, known)) is not None:
        own = totals_last(branches_apart(own))
        points = _as_points(let, own, known) or _in_parts(let, own, known, fills)
    if points is not None:
        return points
    steps = [_as_points(step, step.op, known) for step in _in_steps(let, loop) if isinstance(step.op, anf.For)]
    if steps and None not in steps:
        return [new for step in steps for new in step or ()]
    if (apart := _in_parts(let, loop, known, fills)) is not None:
        return apart
    if (at_points := pointwise(let, loop, fills)) is not None:
        return list(hoisted(anf.Block((at_points,), at_points.vars)).lets)
    if found := numbers_first(let, loop, known):
        numbers, reader = found
        if (points := _as_points(reader, _loop_of(reader), known)) is not None:
            return [numbers, *points]
    changed = with_numbers(let, loop, known)
    if len(changed) == 1:
        return changed
    done = [_as_points(new, new.op, known) if isinstance(new.op, anf.For) else None for new in changed]
    return [new for let, points in zip(changed, done, strict=True) for new in (points or [let])]


def _in_parts(let: anf.Let, loop: anf.For, known: Knowledge, fills: Set[anf.Atom]) -> list[anf.Let] | None:
    """The loops for parts of the state, done each; None if there are none, or if that leaves a loop that costs more."""
    parts = split_by_state(let, loop, False)
    split = [_done(part, _loop_of(part), known, fills) for part in parts]
    left = [part.vars for part, done in zip(parts, split, strict=True) if any(isinstance(d.op, anf.For) for d in done)]
    arrays = any(isinstance(v.type, anf.Array) for vars in left for v in vars)
    if not parts or arrays or (left and not split_by_state(let, loop, True)):
        return None
    return [new for done in split for new in done]


def _loop_of(let: anf.Let) -> anf.For:
    assert isinstance(let.op, anf.For)
    return let.op


def _as_points(let: anf.Let, loop: anf.For, known: Knowledge) -> list[anf.Let] | None:
    return _at_once(let, loop, known) or accumulated(let, loop, known)


def _loops_apart(op: anf.Op, known: Knowledge) -> tuple[list[anf.Let], anf.Op]:
    """Loops inside of a loop, or at the points of a comprehension, done for all of its iterations at once, and the
    operation that is left, which reads what they give.

        for i (s) {                             for t (hs = …) { hs = g(hs, w) }
          for t (h = …) { h = g(h, w) }   →     for i (s) { s += f(hs[i]) }
          s += f(h)
        }

    They need nothing of the state, and multiply vectors by what is the same in all iterations (`_Batch`). No check
    passes another one, or an effect.
    """
    match op:
        case anf.For(params=params, body=body, early=False):
            loop = op
            indices: list[anf.Size] = []
        case anf.Comp(axes=(anf.Axis(var, (low,), (high,)),), body=body):
            params, loop = (), anf.For(var, low, high, (), (), body)
            indices = [entry for d in op.destinations for entry in d.index]
        case _:
            return [], op
    if not any(isinstance(let.op, anf.For) for let in body.lets):
        return [], op
    if not known.at_least_zero(loop.high - loop.low):
        return [], op
    before: list[anf.Let] = []
    left: list[anf.Let] = []
    for let in body.lets:
        left.append(let)
        if isinstance(let.op, anf.For) and not _is_recurrence(let, let.op):
            code = pruned(left, let.vars)
            if any(v in params for part in code for v in used_by(part)) or _refuses_ahead(code, body):
                continue
            one = Iteration.of(replace(loop, body=replace(body, lets=tuple(left))))
            batch = _Batch(loop, one, Rows(one, loop.low, loop.high - loop.low), known, {}, {}, {}, {})
            if all(map(batch.takes, code)):
                before += batch.lets
                left = [row for part in left for row in batch.row(part)]
    if not before:
        return [], op
    fails = {k for k, let in enumerate(left) if any(part.op.IS.fails for part in walk(anf.Block((let,), ())))}
    needed = pruned(left, body.results, indices, fails)
    return before, replace(op, body=anf.Block(tuple(needed), body.results))


def _refuses_ahead(code: Sequence[anf.Let], body: anf.Block) -> bool:
    """Tells whether code of an iteration may refuse, and so may what else is there, or has effects."""
    names = {v for let in code for v in let.vars}
    others = tuple([let for let in body.lets if names.isdisjoint(let.vars)])
    here, there = (block_acts(anf.Block(lets, ())) for lets in (tuple(code), others))
    return (here.refuses or bool(here.calls)) and (there.refuses or bool(there.calls))


def _at_once(let: anf.Let, loop: anf.For, known: Knowledge) -> list[anf.Let] | None:
    """Returns lets that replace a loop; None if its iterations are not independent or can't be computed at once."""
    if loop.early or not loop.params or not all(isinstance(p.type, anf.Array) for p in loop.params):
        return None
    if len(set(loop.body.results)) < len(loop.params):
        return None
    one = Iteration.of(loop)
    read = _read_before(loop, one)
    if read is None:
        return None
    if read:
        loop = replace(loop, body=_with_reads(loop.body, read))
    uses = count_uses(loop.body)
    rows = Rows(one, loop.low, loop.high - loop.low)
    results = dict(zip(loop.body.results, let.vars, strict=True))
    state = {p: (k, first) for k, (p, first) in enumerate(zip(loop.params, loop.init, strict=True))}
    if read and len(set(loop.init)) < len(loop.init):
        return None
    batch = _Batch(loop, one, rows, known, results, uses, state, {first: state[p][0] for p, first in read.items()})
    if any(uses.get(r) != 1 for r in batch.results if isinstance(r, anf.Var)):
        return None
    done = all(batch.takes(inner) for inner in loop.body.lets) and batch.sets_elements()
    done = done and len(batch.finished) == len(let.vars) and all(_in_place(batch.lets, v, known) for v in batch.read)
    if not known.at_least_zero(rows.count):  # then no array has as many rows
        done = done and all(v in results.values() for part in batch.lets for v in part.vars if _is_array(v))
    return batch.lets if done else None


def _in_steps(let: anf.Let, loop: anf.For) -> list[anf.Let]:
    """A loop whose iterations change parts of arrays several times, as a loop for each of these changes; none if it is
    no such loop.

        for i (a) {                               for i (a) { set row i of a }
          set row i of a; add to row i of a   →   for i (a) { add to row i of a }
        }

    So all iterations do one step before any does the next: an iteration neither reads the state nor changes what
    another does.
    """
    if loop.early or sum(bool(_written(inner)) for inner in loop.body.lets) < 2:
        return []
    loop = replace(loop, body=rows_in_place(loop.body))
    named = sizes_named(loop.body)
    state: dict[anf.Atom, int] = {p: k for k, p in enumerate(loop.params)}
    steps: list[tuple[int, anf.Let, anf.Var]] = []
    places: dict[int, set[tuple[int, anf.Size]]] = {}
    others: list[anf.Let] = []
    for inner in loop.body.lets:
        written = _written(inner)
        used = [v for v in mentioned(inner.op) if v in state or v in loop.params]
        if not used:
            others.append(inner)
            continue
        if len(written) != 1 or len(inner.vars) != 1 or {*used} != {written[0][0]} or used[0] not in state:
            return []
        ((array, index),) = written
        if (
            isinstance(inner.op, anf.Comp)
            and array in mentioned(inner.op.body)
            and not reads_only_its_place(inner.op, 0)
        ):
            return []
        entries = [(k, e.substitute(named.get)) for k, e in enumerate(index)]
        own = {(k, e) for k, e in entries if slope(e, loop.index) in (1, -1)}
        number = state.pop(array)
        steps.append((number, inner, array))
        state[inner.vars[0]] = number
        places[number] = places.get(number, own) & own
    if len(steps) < 2 or len(places) < len(loop.params) or not all(places.values()):
        return []
    if any(state.get(r) != k for k, r in enumerate(loop.body.results)):
        return []
    inside = {v for inner in loop.body.lets for v in inner.vars}
    if any(e.mentions(inside) for own in places.values() for _, e in own):
        return []
    needs = [pruned(others, mentioned(step.op)) for _, step, _ in steps]
    if any(part.op.IS.fails for inner in loop.body.lets for part in walk(anf.Block((inner,), ()))):
        return []
    if any(inner.op.IS.long and sum(inner in need for need in needs) > 1 for inner in others):
        return []
    last = {number: k for k, (number, _, _) in enumerate(steps)}
    current: dict[int, anf.Atom] = dict(enumerate(loop.init))
    out: list[anf.Let] = []
    for k, ((number, step, array), need) in enumerate(zip(steps, needs, strict=True)):
        result = let.vars[number] if last[number] == k else anf.fresh(let.vars[number].name, let.vars[number].type)
        body = anf.Block((*need, step), step.vars)
        one = replace(loop, params=(array,), init=(current[number],), body=body)
        out.append(anf.Let((result,), Renaming({}, renew=True).op(one), step.span))
        current[number] = result
    return out


def _in_place(lets: Sequence[anf.Let], array: anf.Var, known: Knowledge) -> bool:
    """Tells whether lets that change an array do so in place: they read of it first, or what a point changes there, or
    a later one."""
    for k, let in enumerate(lets):
        if isinstance(op := let.op, anf.Comp):
            for position, d in enumerate(op.destinations):
                if d.into is array:
                    later = any(array in mentioned(other.op) for other in lets[k + 1 :])
                    unchanged = array not in mentioned(op.body) or reads_its_place(op, position, known)
                    return not later and (unchanged or reads_ahead(op, position))
    return True


def _read_before(loop: anf.For, one: Iteration) -> dict[anf.Var, anf.Var] | None:
    """The arrays of the state of which an iteration reads what no earlier one changes, and what these are at first.

    None if an iteration does anything else with an array than such reads, and one change.
    """
    reads_first: dict[anf.Var, anf.Var] = {}
    uses = count_uses(loop.body)
    entries = {array: index for let in loop.body.lets for array, index in _written(let)}
    reads = [let.op for let in walk(loop.body) if isinstance(let.op, anf.Read) and let.op.array in loop.params]
    for param, first in zip(loop.params, loop.init, strict=True):
        own_reads = [r for r in reads if r.array is param]
        if uses.get(param) != len(own_reads) + 1:
            return None
        if not own_reads:
            continue
        index = tuple(map(one.opened, entries.get(param, ())))
        at = [k for k, e in enumerate(index) if slope(e, one.number) in (1, -1) and one.is_known(e)]
        if not isinstance(first, anf.Var) or not all(
            any(_is_unchanged(one, r.index[k], index[k]) for k in at) for r in own_reads
        ):
            return None
        reads_first[param] = first
    return reads_first


def _is_unchanged(one: Iteration, read: anf.Size, changed: anf.Size) -> bool:
    """Tells whether an entry of an index is what the iteration changes, or what a later one does."""
    ahead = (one.opened(read) - changed).constant
    return ahead is not None and ahead * slope(changed, one.number) >= 0


def _written(let: anf.Let) -> list[tuple[anf.Var, tuple[anf.Size, ...]]]:
    """The arrays that a let changes, and the index of what it changes in each."""
    match let.op:
        case anf.Update(array, index, _):
            return [(array, index)]
        case anf.Comp(destinations=destinations):
            return [(d.into, d.index) for d in destinations if d.into is not None]
        case _:
            return []


def _with_reads(block: anf.Block, of: Mapping[anf.Var, anf.Var]) -> anf.Block:
    """The block, which reads other arrays in the place of some."""

    def read(let: anf.Let) -> anf.Let:
        if isinstance(let.op, anf.Read) and let.op.array in of:
            return anf.Let(let.vars, replace(let.op, array=of[let.op.array]), let.span)
        return with_op(let, let.vars, map_blocks(let.op, partial(_with_reads, of=of)))

    return with_lets(block, [read(let) for let in block.lets], block.results)


@dataclass(slots=True)
class _Batch:
    """A loop being done at once.

    results: what the last state is called outside of the loop. uses: of each variable in the body. state: the arrays
    that an iteration changes next, by which of the state they are, and what they are when all iterations have come so
    far. places: the entries of indices by which iterations keep apart in each. lets: what takes the loop's place.
    scalars: the scalar code of an iteration. arrays: those of an iteration, and those of all iterations. updates: those
    of elements of the state, the first ones of each array, the second ones, and so on.
    """

    loop: anf.For
    one: Iteration
    rows: Rows
    known: Knowledge
    results: dict[anf.Atom, anf.Var]
    uses: Mapping[anf.Var, int]
    state: dict[anf.Var, tuple[int, anf.Atom]]
    read: dict[anf.Var, int]
    places: dict[int, frozenset[tuple[int, anf.Size]]] = field(default_factory=dict)
    written: dict[int, list[tuple[anf.Size, ...]]] = field(default_factory=dict)
    lets: list[anf.Let] = field(default_factory=list)
    scalars: list[anf.Let] = field(default_factory=list)
    arrays: dict[anf.Var, anf.Var] = field(default_factory=dict)
    updates: list[list[tuple[anf.Let, anf.Update]]] = field(default_factory=list)
    finished: set[anf.Var] = field(default_factory=set)

    def takes(self, let: anf.Let) -> bool:
        """Does a let of the body for all iterations; False if that can't be done."""
        match let.op:
            case anf.Prim() | anf.Cast() | anf.IndexExpr() | anf.Read() | anf.If() | anf.StopGradient() if _scalar(let):
                self.scalars.append(let)
                return not self._whole(let.op)
            case anf.Assert() as check:
                return self._checked_once(let, check) or self._stored(let)
            case anf.For() as loop if _is_recurrence(let, loop):
                return self._stored(let)
            case anf.For() as loop:
                return self._inner_loop(let, loop)
            case anf.Comp():
                return self._comprehension(let, let.op)
            case anf.Update(array, index, value) as update:
                if (turn := self._turn(array)) is not None:
                    if turn == len(self.updates):
                        self.updates.append([])
                    self.updates[turn].append((let, update))
                    return True
                keep = anf.Reduce(shape_of(array), index, "set", array)
                return self._comprehension(let, anf.Comp((), anf.Block((), (value,)), (keep,)))
            case anf.View() as view:
                return self._view(let, view)
            case anf.Reshape(array, shape):
                shape = self._open(shape)
                if array not in self.arrays or not self.one.is_fixed(*shape):
                    return False
                self._array(let, anf.Reshape(self.arrays[array], (self.rows.count, *shape)), (self.rows.count, *shape))
                return True
            case _:
                return False

    def sets_elements(self) -> bool:
        """Does the changes of elements together, so that what they need is read before; False if that can't be done."""
        if not self.read:
            self._compute_once()
        return all(self._set_together(updates, turn > 0) for turn, updates in enumerate(self.updates))

    def row(self, let: anf.Let) -> list[anf.Let]:
        """A let that has been done for all iterations, or another one, for one iteration."""
        if let.vars and self.one.computed.isdisjoint(let.vars):  # a check, which stands before all
            return []
        found: list[anf.Let] = []
        for v in let.vars:
            if v in self.arrays:
                found.append(anf.Let((v,), at_point(self.arrays[v], (self.rows.row,)), let.span))
            else:
                found += [part for part in self.scalars if v in part.vars and part is not let]
        return found if found and len(found) == len(let.vars) else [let]

    def _compute_once(self) -> None:
        """Stores what the elements are set to, where computing it for one and for the next shares more than additions.

        Each would compute all of it, and so would its derivative.
        """
        wanted = [[u.value for _, u in updates] for updates in self.updates]
        costly = [{v for let in pruned(self.scalars, set(w)) if _costs(let) for v in let.vars} for w in wanted]
        if sum(map(len, costly)) == len(set[anf.Var]().union(*costly)):
            return
        computed = {v for let in self.scalars for v in let.vars}
        values = list(dict.fromkeys([v for w in wanted for v in w if isinstance(v, anf.Var) and v in computed]))
        if not all(map(_storable, values)):
            return
        keep = anf.Reduce((self.rows.count,), (self.rows.row,), "set")
        stored = {v: anf.fresh(v.name, type_of(dtype_of(v), keep.shape)) for v in values}
        together = anf.Comp((), anf.Block((), tuple(values)), tuple([keep] * len(values)))
        self._emit(anf.Let(tuple(stored.values()), together, self.updates[-1][-1][0].span))
        reads = [anf.Let((v,), anf.Read(array, keep.index)) for v, array in stored.items()]
        others = [
            anf.Let(tuple([anf.fresh(v.name, v.type) if v in stored else v for v in let.vars]), let.op, let.span)
            for let in self.scalars
        ]
        self.scalars = [*reads, *others]

    def _turn(self, array: anf.Var) -> int | None:
        """How many elements of an array of the state have been changed so far; None of another array."""
        if array in self.loop.params:
            return 0
        return next((k + 1 for k, u in enumerate(self.updates) if any(array in let.vars for let, _ in u)), None)

    def _set_together(self, updates: Sequence[tuple[anf.Let, anf.Update]], later: bool) -> bool:
        """Makes one change of each of some arrays; `later`: others have been made, so other elements are read there."""
        scalars = self.scalars
        if later and self.read:
            now = self._reading_now(pruned(scalars, {u.value for _, u in updates}))
            if now is None:
                return False
            self.scalars = now
        vars = tuple([v for let, _ in updates for v in let.vars])
        values = tuple([update.value for _, update in updates])
        keeps = [anf.Reduce(shape_of(u.array), u.index, "set", u.array) for _, u in updates]
        together = anf.Comp((), anf.Block((), values), tuple(keeps))
        done = self._comprehension(anf.Let(vars, together, updates[-1][0].span), together)
        self.scalars = scalars
        return done

    def _reading_now(self, lets: Sequence[anf.Let]) -> list[anf.Let] | None:
        """The lets, which read the arrays of the state as they are now; None if that has changed what they read."""
        now = {k: array for k, array in self.state.values() if isinstance(array, anf.Var)}
        out: list[anf.Let] = []
        for let in lets:
            if isinstance(let.op, anf.Read) and (k := self.read.get(let.op.array)) is not None and k in now:
                index = self._open(let.op.index)
                if any(not differ(index, changed) for changed in self.written.get(k, ())):
                    return None
                self.read.setdefault(now[k], k)
                let = anf.Let(let.vars, replace(let.op, array=now[k]), let.span)
            elif any(v in self.read for v in mentioned(let.op)):
                return None
            out.append(let)
        return out

    # ---- operations --------------------------------------------------------------------------------------------------
    def _checked_once(self, let: anf.Let, check: anf.Assert) -> bool:
        """Writes a check that is the same in every iteration once, before all."""
        own = {self.loop.index, *self.one.computed}
        if not asks(let, check) or not own.isdisjoint(free_vars(check)):
            return False
        self.lets += asked_before(let, check, self.rows.count, self.known.positive(self.rows.count))
        self.one = replace(self.one, computed=self.one.computed.difference(let.vars))
        return True

    def _stored(self, let: anf.Let) -> bool:
        """A check, or a recurrence, of each iteration; what it certifies, or comes to, is stored."""
        if self._whole(let.op) or not all(_storable(v) and isinstance(v.type, anf.Scalar) for v in let.vars):
            return False
        keep = anf.Reduce((self.rows.count,), (self.rows.row,), "set")
        each = anf.Comp((), anf.Block((let,), let.vars), tuple([keep] * len(let.vars)))
        stored = tuple([anf.fresh(v.name, type_of(dtype_of(v), (self.rows.count,))) for v in let.vars])
        self._emit(anf.Let(stored, each, let.span))
        for v, array in zip(let.vars, stored, strict=True):
            self.scalars.append(anf.Let((v,), anf.Read(array, (self.rows.row,)), let.span))
        return True

    def _comprehension(self, let: anf.Let, op: anf.Comp) -> bool:
        if self._whole(op):
            return False
        axes = self._open_axes(op.axes)
        if not all(self.one.is_known(*a.lows, *a.highs) for a in axes):
            return False
        destinations: list[anf.Destination] = []
        vars: list[anf.Var] = []
        reads: list[anf.Let] = []
        for v, d in zip(let.vars, op.destinations, strict=True):
            shape = self._open(d.shape)
            if not self.one.is_fixed(*shape) or not _storable(v):
                return False
            if d.into in self.state:
                to = self._slice(op, v, d)
                if to is None:
                    return False
                destinations.append(to)
                vars.append(self._next(v, d.into))
                continue
            if d.into is not None and d.into not in self.arrays:
                return False
            into = None if d.into is None else self.arrays[d.into]
            keep = stacked(replace(d, shape=shape), (self.rows.count,), (self.rows.row,), into)
            destinations.append(keep)
            array = anf.fresh(v.name, type_of(dtype_of(v), keep.shape))
            vars.append(array)
            if isinstance(v.type, anf.Array):
                self.arrays[v] = array
            else:
                reads.append(anf.Let((v,), anf.Read(array, (self.rows.row,)), let.span))
        self._emit(anf.Let(tuple(vars), anf.Comp(axes, op.body, tuple(destinations)), let.span))
        self.scalars += reads
        return True

    def _inner_loop(self, let: anf.Let, inner: anf.For) -> bool:
        """A loop whose steps are done for all iterations at once: they multiply vectors by what these share."""
        own = frozenset([*inner.params, *(v for part in inner.body.lets for v in part.vars)])
        changing = {*self.loop.params, *self.state, *(v for turn in self.updates for let, _ in turn for v in let.vars)}
        if inner.early or not self.one.is_fixed(inner.low, inner.high) or not changing.isdisjoint(free_vars(inner)):
            return False
        if not _many_numbers(inner.params) or not all(map(_storable, inner.params)):
            return False
        if not multiplies_vectors(inner.body.lets, (self.loop.index, *self.one.computed, *inner.params)):
            return False
        one = replace(self.one, computed=self.one.computed | own, sizes={**self.one.sizes, **sizes_named(inner.body)})
        steps = replace(
            self, one=one, results={}, state={}, lets=[], scalars=[*self.scalars], arrays={**self.arrays}, updates=[]
        )
        shapes = [steps._open(p.type.shape) if isinstance(p.type, anf.Array) else () for p in inner.params]
        if not all(self.one.is_fixed(*shape) for shape in shapes):
            return False
        init = [self._row_of_each(first, shape, let) for first, shape in zip(inner.init, shapes, strict=True)]
        params = [steps._state(p, shape) for p, shape in zip(inner.params, shapes, strict=True)]
        if not all(map(steps.takes, inner.body.lets)):
            return False
        results = [steps._row_of_each(r, shape, let) for r, shape in zip(inner.body.results, shapes, strict=True)]
        vars = [self._state(v, shape) for v, shape in zip(let.vars, shapes, strict=True)]
        body = anf.Block(tuple(steps.lets), tuple(results))
        self.lets.append(
            anf.Let(tuple(vars), replace(inner, init=tuple(init), params=tuple(params), body=body), let.span)
        )
        return True

    def _state(self, v: anf.Var, shape: tuple[anf.Size, ...]) -> anf.Var:
        """The array of all iterations that is named for what it is in one, a number or an array of this shape."""
        array = anf.fresh(v.name, type_of(dtype_of(v), (self.rows.count, *shape)))
        if isinstance(v.type, anf.Array):
            self.arrays[v] = array
        else:
            self.scalars.append(anf.Let((v,), anf.Read(array, (self.rows.row,))))
        return array

    def _row_of_each(self, value: anf.Atom, shape: tuple[anf.Size, ...], let: anf.Let) -> anf.Var:
        """The array of what a number or an array is in each iteration."""
        if isinstance(value, anf.Var) and value in self.arrays:
            return self.arrays[value]
        axes = tuple([fresh_axis(size) for size in shape])
        at = tuple([anf.poly(a.var) for a in axes])
        lets: tuple[anf.Let, ...] = ()
        if shape:
            assert isinstance(value, anf.Var)
            element = anf.fresh(value.name, anf.Scalar(dtype_of(value)))
            lets, value = (anf.Let((element,), anf.Read(value, at), let.span),), element
        keep = anf.Reduce((self.rows.count, *shape), (self.rows.row, *at), "set")
        each = anf.fresh("rows", type_of(dtype_of(value), keep.shape))
        self._emit(anf.Let((each,), anf.Comp(axes, anf.Block(lets, (value,)), (keep,)), let.span))
        return each

    def _slice(self, op: anf.Comp, v: anf.Var, d: anf.Destination) -> anf.Destination | None:
        """Returns the destination of all iterations' writes to slices of a state; None if slices may share an
        element."""
        assert d.into is not None
        k, before = self.state[d.into]
        assert isinstance(before, anf.Var)
        if not (self.loop.body.results[k] is v or (v not in self.results and self.uses.get(v) == 1)):
            return None
        entries = self._open(d.index)
        own = self.one.apart(entries, {a.var for a in op.axes}.union(bound_vars(op.body)))
        self.written.setdefault(k, []).append(entries)
        self.places[k] = self.places.get(k, own) & own
        if not self.places[k]:
            return None
        if isinstance(d, anf.Reduce) and d.monoid == "set":
            iteration = anf.Axis(self.loop.index, (self.loop.low,), (self.loop.high,))
            axes = (iteration, *self._open_axes(op.axes))
            if covers(axes, d.shape, entries) and determines(axes, entries):
                return replace(d, index=entries, into=None)
        return replace(d, index=entries, into=before)

    def _next(self, v: anf.Var, before: anf.Var) -> anf.Var:
        """The variable that is an array of the state when all iterations have made a change, which gives v."""
        k, _ = self.state.pop(before)
        if v in self.results:
            self.finished.add(v)
            return self.results[v]
        after = anf.fresh(v.name, v.type)
        self.state[v] = k, after
        return after

    def _view(self, let: anf.Let, view: anf.View) -> bool:
        shape, index = self._open(view.shape), self._open(view.index)
        if view.array in self.loop.params or not self.one.is_fixed(*shape) or not self.one.is_known(*index):
            return False
        array = self.arrays.get(view.array)
        view = replace(view, shape=shape, index=index)
        if array is not None:
            view = replace(view, array=array, index=(self.rows.row, *index))
        whole = self.rows.parts(view)
        self._array(let, whole, whole.shape)
        return True

    # ---- code --------------------------------------------------------------------------------------------------------
    def _array(self, let: anf.Let, op: anf.Op, shape: tuple[anf.Size, ...]) -> None:
        (v,) = let.vars
        self.arrays[v] = anf.fresh(v.name, type_of(dtype_of(v), shape))
        self.lets.append(anf.Let((self.arrays[v],), op, let.span))

    def _emit(self, let: anf.Let) -> None:
        """A comprehension of an iteration, with the scalar code that it needs, at every iteration."""
        op = let.op
        assert isinstance(op, anf.Comp)
        wanted = set(free_vars(op))
        needed = pruned(self.scalars, wanted)
        highs: tuple[anf.Size, ...] = (self.loop.high,)
        if not op.destinations and wanted.isdisjoint((self.loop.index, *self.one.computed)):
            highs = (self.loop.high, self.loop.low + 1)  # the same check in every iteration
        axis = anf.Axis(self.loop.index, (self.loop.low,), highs)
        body = anf.Block((*needed, *op.body.lets), op.body.results)
        of_all = Relocation({}, {v: Location(array, (self.rows.row,)) for v, array in self.arrays.items()}, renew=True)
        whole = of_all.op(anf.Comp((axis, *op.axes), body, op.destinations))
        self.lets.append(anf.Let(let.vars, whole, let.span))

    # ---- questions ---------------------------------------------------------------------------------------------------
    def _open(self, sizes: Sequence[anf.Size]) -> tuple[anf.Size, ...]:
        return tuple(map(self.one.opened, sizes))

    def _open_axes(self, axes: Sequence[anf.Axis]) -> tuple[anf.Axis, ...]:
        return tuple(map(Renaming(self.one.sizes).axis, axes))

    def _whole(self, op: anf.Op) -> bool:
        """Tells whether an operation uses an array of an iteration other than by its elements, or to continue it."""
        if isinstance(op, anf.Comp) and any(a in self.arrays for a in op.body.results):
            return True
        blocks = parts(op).blocks
        inner = [let.op for b in blocks for let in walk(b)]
        results = [a for o in inner for b in parts(o).blocks for a in b.results]
        used = [a for o in inner if not isinstance(o, anf.Read) for a in parts(o).atoms]
        atoms = () if isinstance(op, anf.Read | anf.Comp) else parts(op).atoms
        return any(a in self.arrays for a in (*atoms, *used, *results))


def _scalar(let: anf.Let) -> bool:
    """Tells whether a let is scalar code that may be done more than once."""
    if not all(isinstance(v.type, anf.Scalar) for v in let.vars):
        return False
    match let.op:
        case anf.If(_, then, otherwise):
            return all(_scalar(inner) for b in (then, otherwise) for inner in b.lets)
        case op:
            return op.IS.point or isinstance(op, anf.StopGradient)


def _costs(let: anf.Let) -> bool:
    """Tells whether a let costs more than an addition."""
    return additions(let.op) > figures.ADDITION


def _is_recurrence(let: anf.Let, loop: anf.For) -> bool:
    """Tells whether a loop computes scalars by scalar code alone."""
    return all(isinstance(v.type, anf.Scalar) for v in let.vars) and all(map(_scalar, loop.body.lets))


def _is_array(v: anf.Var) -> bool:
    return isinstance(v.type, anf.Array)


def _many_numbers(state: Sequence[anf.Var]) -> bool:
    """Tells whether some array of a state has more elements than are written out as numbers."""
    counts = [product(p.type.shape).constant for p in state if isinstance(p.type, anf.Array)]
    return any(count is None or count > figures.WRITTEN_OUT_POINTS for count in counts)


def _storable(v: anf.Var) -> bool:
    """Tells whether arrays can have elements like a variable's: no nodes."""
    return isinstance(v.type, anf.Array | anf.Scalar) and v.type.dtype in anf.DTYPES
