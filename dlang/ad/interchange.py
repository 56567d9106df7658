"""A comprehension around a loop with a state, as that loop around comprehensions.

    y[i] = { for k (s = f(x[i])) { g(s, x[i], c[k]) }; h(s) }

becomes

    S[i] = f(x[i]);  for k (S) { S'[i] = g(S[i], x[i], c[k]) };  y[i] = h(S[i])

where all points have the same iterations. A check in one is done at all points before the next. A point of the first
adds to the cotangents of c in each iteration, so it has no parallel adjoint, and that of loops over the points one
after another is slow. Those of the second are comprehensions again, as if the program had been written with whole
arrays, and its loop saves the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from dlang.ad.scope import carry, numeric
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.builder import Builder
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import free_vars, mentioned, parts, pruned, used_by, walk
from dlang.ir.types import dtype_of, type_of


def interchanged(
    let: anf.Let, op: anf.Comp, known: Knowledge, b: Builder, active: set[anf.Var]
) -> list[anf.Let] | None:
    """The lets that compute a comprehension by a loop around others; None if it has no such loop.

    What they bind joins `active` where it carries a derivative.
    """
    lets = op.body.lets
    at = next((k for k, inner in enumerate(lets) if _is_active_loop(inner.op, active)), None)
    if at is None or not _is_box(op.axes, known):
        return None
    loop, before, after = lets[at].op, lets[:at], lets[at + 1 :]
    assert isinstance(loop, anf.For)
    points = _Points(op.axes, tuple([x for x in before if _is_repeated(x)]), b, active)
    needed = {*free_vars(loop), *mentioned(anf.Block(after, op.body.results)), *_indices(op)}
    stored = [v for x in before if not _is_repeated(x) for v in x.vars if v in _sources(needed, points.again)]
    local = {*(a.var for a in op.axes), *(v for x in before for v in x.vars)}
    if loop.low.mentions(local) or loop.high.mentions(local) or _may_fail_inside((*loop.body.lets, *after)):
        return None
    if not all(isinstance(v.type, anf.Scalar) and numeric(v.type) for v in (*stored, *loop.params)):
        return None
    differing = [k for k, p in enumerate(loop.params) if p in _differing(loop, local)]
    if any(
        isinstance(x.op, anf.Assert) for x in _of_all(loop, differing)
    ):  # these are done where there is no point, too
        return None
    with b.scope() as emitted:
        init = [loop.init[k] for k in differing]
        arrays = points.arrays([*stored, *init])
        points.comprehension({}, before, (*stored, *init), arrays)
        there = dict(zip(stored, arrays, strict=False))
        results = points.loop(lets[at], loop, differing, arrays[len(stored) :], there)
        points.comprehension({**there, **results}, (*points.again, *after), op.body.results, let.vars, op.destinations)
    return emitted


def _is_active_loop(op: anf.Op, active: Set[anf.Var]) -> bool:
    return isinstance(op, anf.For) and not op.early and not active.isdisjoint(op.params)


def _is_box(axes: Sequence[anf.Axis], known: Knowledge) -> bool:
    """Tells whether axes are those of an array."""
    names = {a.var for a in axes}
    return all(
        a.lows == (anf.ZERO,) and len(a.highs) == 1 and not a.highs[0].mentions(names) and known.at_least_zero(*a.highs)
        for a in axes
    )


def _may_fail_inside(lets: Sequence[anf.Let]) -> bool:
    """Tells whether some code in lets may fail; a check that is one of them stays beside what relies on it."""
    return any(isinstance(i.op, anf.Assert) for let in lets for block in parts(let.op).blocks for i in walk(block))


def _indices(op: anf.Comp) -> list[anf.Var]:
    return [a for d in op.destinations for e in d.index for a in e.atoms()]


def _is_repeated(let: anf.Let) -> bool:
    """Tells whether a value is computed again where it is needed: an element, or what an index is made of."""
    match let.op:
        case anf.Read() | anf.IndexExpr():
            return True
        case anf.Prim() | anf.Cast():
            return dtype_of(let.vars[0]) in anf.INTEGERS
        case _:
            return False


def _sources(names: Iterable[anf.Var], lets: Sequence[anf.Let]) -> set[anf.Var]:
    """The variables of which lets compute others, and these."""
    return {*names, *(v for let in pruned(lets, names) for v in used_by(let))}


def _differing(loop: anf.For, local: Set[anf.Var]) -> set[anf.Var]:
    """The parts of a loop's state that depend on variables: at the beginning, or after some iteration."""
    differing = {p for p, x in zip(loop.params, loop.init, strict=True) if x in local}
    while True:
        depend = local | differing
        for inner in loop.body.lets:
            if not depend.isdisjoint(mentioned(inner.op)):
                depend |= set(inner.vars)
        more = {p for p, x in zip(loop.params, loop.body.results, strict=True) if x in depend} - differing
        if not more:
            return differing
        differing |= more


def _of_all(loop: anf.For, differing: Sequence[int]) -> list[anf.Let]:
    """The lets of an iteration that compute what is the same at all points. differing: the positions of the rest."""
    return pruned(loop.body.lets, [r for k, r in enumerate(loop.body.results) if k not in differing])


@dataclass(frozen=True, slots=True)
class _Points:
    """The points of a comprehension; between one comprehension and the next their values are elements of arrays.

    again: what each of them computes again where it is needed.
    """

    axes: tuple[anf.Axis, ...]
    again: tuple[anf.Let, ...]
    b: Builder
    active: set[anf.Var]

    @property
    def shape(self) -> tuple[anf.Size, ...]:
        return tuple([a.highs[0] for a in self.axes])

    def arrays(self, values: Sequence[anf.Atom]) -> list[anf.Var]:
        """Arrays of values of each point."""
        names = [v.name if isinstance(v, anf.Var) else "first" for v in values]
        arrays = [anf.fresh(n, type_of(dtype_of(v), self.shape)) for n, v in zip(names, values, strict=True)]
        self.active.update(a for a, v in zip(arrays, values, strict=True) if v in self.active)
        return arrays

    def comprehension(
        self,
        elements: dict[anf.Var, anf.Var],
        lets: Sequence[anf.Let],
        results: Sequence[anf.Atom],
        vars: Sequence[anf.Var],
        destinations: Sequence[anf.Destination] | None = None,
    ) -> None:
        """Emits a comprehension at all points; without destinations each sets its elements of arrays.

        elements: variables that are elements of arrays.
        """
        index = tuple([anf.poly(a.var) for a in self.axes])
        if destinations is None:
            destinations = [anf.Reduce(self.shape, index, "set")] * len(vars)
        body = [anf.Let((v,), anf.Read(array, index)) for v, array in elements.items()]
        body += lets
        stay = {k for k, let in enumerate(body) if isinstance(let.op, anf.Assert)}
        kept = pruned(body, results, [e for d in destinations for e in d.index], stay)
        renaming = Renaming({}, renew=True)  # what lets bind is bound in other comprehensions, too
        whole = anf.Comp(self.axes, anf.Block(tuple(kept), tuple(results)), tuple(destinations))
        self.b.emit_as(vars, renaming.op(whole))
        carry(self.active, renaming)

    def loop(
        self,
        let: anf.Let,
        loop: anf.For,
        differing: Sequence[int],
        init: Sequence[anf.Var],
        elements: dict[anf.Var, anf.Var],
    ) -> dict[anf.Var, anf.Var]:
        """Emits a loop whose iterations are those of all points; gives the arrays that its results are elements of.

        differing: the positions of what differs between points in its state. init: the arrays of its first values.
        """
        before = self.arrays([loop.params[k] for k in differing])
        after = self.arrays([loop.params[k] for k in differing])
        last = self.arrays([let.vars[k] for k in differing])
        with self.b.scope() as lets:
            for inner in _of_all(loop, differing):
                self.b.append(inner)
            state = {loop.params[k]: array for k, array in zip(differing, before, strict=True)}
            following = [loop.body.results[k] for k in differing]
            self.comprehension({**elements, **state}, (*self.again, *loop.body.lets), following, after)
        body = anf.Block(tuple(lets), _with(loop.body.results, differing, after))
        whole = anf.For(
            loop.index,
            loop.low,
            loop.high,
            _with(loop.params, differing, before),
            _with(loop.init, differing, init),
            body,
        )
        self.b.emit_as(_with(let.vars, differing, last), whole)
        return {let.vars[k]: array for k, array in zip(differing, last, strict=True)}


T = TypeVar("T")


def _with(values: Sequence[T], positions: Sequence[int], others: Sequence[T]) -> tuple[T, ...]:
    """Values with others at some positions."""
    new = dict(zip(positions, others, strict=True))
    return tuple([new.get(k, x) for k, x in enumerate(values)])
