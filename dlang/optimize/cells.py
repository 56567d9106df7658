"""An element of an array that code changes time and again is a number until the last change.

    a = update z[i] = p[i]                    for k (b = z) {                  s = read z[i]
    b = comp k { … } to sum [i] into a        t = read b[i]                    s' = for k (t = s) {
    t = read b[i]                             b' = update b[i] = f(t, k)   →     yield f(t, k)
    c = update b[i] = tanh(t)        →        yield b'                         }
    ----------------------------------      }                                  z' = update z[i] = s'
    r = comp k { … } to sum
    t = p[i] + r
    c = update z[i] = tanh(t)

So an inner loop that accumulates into an element is a reduction wherever it stands, and the loop around writes each
element of its state once, which may be done for all iterations at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.affine import Knowledge, slope
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_blocks, mentioned, op_blocks, with_lets, with_op
from dlang.ir.types import dtype_of
from dlang.ops.dtypes import SCATTERED, WHOLE
from dlang.optimize.iterations import Iteration

Index = tuple[anf.Size, ...]


# ---- changes one after another ---------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Chain:
    """Changes of an element of an array.

    first: the array before; last: after those so far. value: what is stored, or what is added to the element by `d`.
    written: the change itself, as long as it is the only one.
    """

    first: anf.Var
    last: anf.Var
    index: Index
    value: anf.Atom
    added: anf.Destination | None
    written: anf.Let


def changed_once(block: anf.Block, known: Knowledge) -> anf.Block:
    """The block, which changes an element once where it changed one several times, and reads no such change.

    known: what is known before the block.
    """
    lets = block.lets
    makers = {v: let for let in lets for v, _ in _changes(let)}
    if not makers or all(makers.keys().isdisjoint(_touched(let)) for let in lets):
        return block
    last: dict[anf.Var, int] = {}
    for k, let in enumerate(lets):
        last.update(dict.fromkeys(mentioned(let.op), k))
    last.update({r: len(lets) for r in block.results if isinstance(r, anf.Var)})
    cells = _Cells(lets, last, known.copy())
    for k, let in enumerate(lets):
        cells.take(k, let)
        cells.known.note_made(let.vars)
    for chain in [*cells.chains.values()]:
        cells.end(chain)
    return with_lets(block, cells.lets, [cells.renaming.atom(r) for r in block.results])


def _changes(let: anf.Let) -> list[tuple[anf.Var, tuple[anf.Var, Index]]]:
    """Of each array in which a let changes one element: what it is called then, before, and the index."""
    match let.op:
        case anf.Update(array, index, value) if len(index) == len(array_shape(array)):
            return [(let.vars[0], (array, index))] if isinstance(value.type, anf.Scalar) else []
        case anf.Comp() as op:
            return [
                (v, (d.into, d.index))
                for v, d, value in zip(let.vars, op.destinations, op.body.results, strict=True)
                if d.into is not None and _adds(op, d, value)
            ]
        case _:
            return []


def array_shape(array: anf.Var) -> tuple[anf.Size, ...]:
    return array.type.shape if isinstance(array.type, anf.Array) else ()


def _adds(op: anf.Comp, d: anf.Destination, value: anf.Atom) -> bool:
    """Tells whether a comprehension adds to one element at all of its points."""
    if not d.index or len(d.index) != len(d.shape) or isinstance(value.type, anf.Array):
        return False
    if isinstance(d, anf.Reduce) and (d.monoid != "sum" or d.after is not None):
        return False
    if (dtype := dtype_of(value)) not in SCATTERED or dtype not in WHOLE:
        return False
    inside = {a.var for a in op.axes} | {v for let in op.body.lets for v in let.vars}
    return not any(e.mentions(inside) for e in d.index)


def _touched(let: anf.Let) -> Iterable[anf.Var]:
    return mentioned(let.op) if isinstance(let.op, anf.If) else [array for array, _ in _accesses(let)]


def _accesses(let: anf.Let) -> list[tuple[anf.Var, Index]]:
    """The elements that a let reads, or changes, with nothing inside of it."""
    match let.op:
        case anf.Read(array, index):
            return [(array, index)]
        case _:
            return _changed(let)


def _changed(let: anf.Let) -> list[tuple[anf.Var, Index]]:
    """The elements that a let changes."""
    return [change for _, change in _changes(let)]


@dataclass(slots=True)
class _Cells:
    """A block whose changes are put together.

    last: the position of the last let that mentions a variable. known: what is known after the lets so far. chains: by
    the array after their last change.
    """

    source: Sequence[anf.Let]
    last: Mapping[anf.Var, int]
    known: Knowledge
    lets: list[anf.Let] = field(default_factory=list)
    chains: dict[anf.Var, _Chain] = field(default_factory=dict)
    renaming: Renaming = field(default_factory=lambda: Renaming({}))

    def take(self, k: int, original: anf.Let) -> None:
        """Goes on with a let, the `k`th."""
        let = self.renaming.let(original)
        match let.op:
            case anf.Read(array, index) if (chain := self.chains.get(array)) and chain.index == index:
                self.renaming.env[original.vars[0]] = self._stored(chain)
                return
            case anf.Update(array, index, value) if _changes(let):
                chain = self._continued(k, array, index)
                self._free(let, but=chain)
                first = array if chain is None else chain.first
                new = let if first is array else anf.Let(let.vars, replace(let.op, array=first), let.span)
                self._start(_Chain(first, let.vars[0], index, value, None, new), chain)
            case anf.Comp() as op:
                continued = {v: self._continued(k, array, index) for v, (array, index) in _changes(let)}
                chains = [c for c in continued.values() if c is not None]
                inside = {v for block in op_blocks(op) for v in mentioned(block)}
                if any(c.last in inside for c in chains):
                    continued, chains = {}, []
                self._free(let, but=chains[0] if len(chains) == 1 else None)
                if len(chains) == 1:
                    (var,) = [v for v, c in continued.items() if c is chains[0]]
                    self._add(let, op, var, chains[0])
                elif len(let.vars) == 1 and let.vars[0] in continued and self._goes_on(let):
                    self._add(let, op, let.vars[0], None)
                else:
                    self.lets.append(let)
            case anf.If() as op if (branch := self._branch(k, let, op)) is not None:
                old, chain, let = branch
                self._free(let)
                self.lets.append(let)
                self._start(chain, old)
            case _:
                self._free(let)
                self.lets.append(let)

    def _branch(self, k: int, let: anf.Let, op: anf.If) -> tuple[_Chain, _Chain, anf.Let] | None:
        """A chain that a branch continues, the chain then, and the branch that gives the element of its array."""
        for v in mentioned(op):
            chain = self.chains.get(v)
            if chain is None or chain.added is not None or self.last[v] != k:
                continue
            continued = _branch_of_number(let, op, v, chain.index, chain.value)
            if continued is not None:
                last, value, new = continued
                written = anf.Let((last,), anf.Update(chain.first, chain.index, value), let.span)
                return chain, _Chain(chain.first, last, chain.index, value, None, written), new
        return None

    def end(self, chain: _Chain) -> None:
        """Writes the change that all of a chain are."""
        del self.chains[chain.last]
        self.lets.append(chain.written)

    def _stored(self, chain: _Chain) -> anf.Atom:
        """The element after a chain, which stores it from now on."""
        if chain.added is not None:
            type = anf.Scalar(dtype_of(chain.last))
            old, new = anf.fresh("t", type), anf.fresh("t", type)
            span = chain.written.span
            self.lets.append(anf.Let((old,), anf.Read(chain.first, chain.index), span))
            self.lets.append(anf.Let((new,), anf.Prim("add", (old, chain.value)), span))
            written = anf.Let((chain.last,), anf.Update(chain.first, chain.index, new), span)
            chain.value, chain.added, chain.written = new, None, written
        return chain.value

    def _continued(self, k: int, array: anf.Var, index: Index) -> _Chain | None:
        """The chain whose last change is followed by one of the same element, with nothing that needs it later."""
        chain = self.chains.get(array)
        return chain if chain is not None and chain.index == index and self.last[array] == k else None

    def _free(self, let: anf.Let, but: _Chain | None = None) -> None:
        """Ends the chains whose arrays a let needs."""
        for v in mentioned(let.op):
            if (chain := self.chains.get(v)) is not None and chain is not but:
                self.end(chain)

    def _start(self, new: _Chain, old: _Chain | None) -> None:
        if old is not None:
            del self.chains[old.last]
        self.chains[new.last] = new

    def _goes_on(self, let: anf.Let) -> bool:
        """Tells whether what adds to an element is followed by what changes it as well, and the element is there.

        Where neither has a point, nothing may be changed, and the index may be out of range.
        """
        ((v, (_, index)),) = _changes(let)
        k = self.last.get(v, len(self.source))
        if k == len(self.source):
            return False
        change = self.source[k]
        there = isinstance(change.op, anf.Update) or self.known.inside(index, array_shape(v))
        return there and any(array is v and at == index for _, (array, at) in _changes(change))

    def _add(self, let: anf.Let, op: anf.Comp, var: anf.Var, chain: _Chain | None) -> None:
        """Adds up what a comprehension adds to an element, and continues a chain with that, or begins one."""
        at = let.vars.index(var)
        d = op.destinations[at]
        total = anf.fresh("r", anf.Scalar(dtype_of(var)))
        vars, destinations = list(let.vars), list(op.destinations)
        vars[at], destinations[at] = total, anf.Reduce((), (), "sum")
        self.lets.append(anf.Let(tuple(vars), replace(op, destinations=tuple(destinations)), let.span))
        value = total
        if chain is not None:
            value = anf.fresh("t", total.type)
            self.lets.append(anf.Let((value,), anf.Prim("add", (chain.value, total)), let.span))
        assert d.into is not None
        first = d.into if chain is None else chain.first
        if chain is not None and chain.added is None:
            written: anf.Op = anf.Update(first, d.index, value)
        else:
            written = anf.Comp((), anf.Block((), (value,)), (replace(d, into=first),))
        added = None if isinstance(written, anf.Update) else d
        self._start(_Chain(first, var, d.index, value, added, anf.Let((var,), written, let.span)), chain)


# ---- a state of which a loop changes one element ---------------------------------------------------------------------
def with_numbers(let: anf.Let, loop: anf.For, known: Knowledge) -> list[anf.Let]:
    """The loop with a number in the place of each array of its state of which it reads and changes the same element.

    The element is read before the loop, and so has to be there where it has no iterations, too.
    """
    before: list[anf.Let] = []
    after: list[anf.Let] = []
    inside = {loop.index, *loop.params, *(v for inner in loop.body.lets for v in inner.vars)}
    elements = _first_elements(loop.body, _accesses) if any(isinstance(p.type, anf.Array) for p in loop.params) else {}
    for k, param in enumerate(loop.params):
        index, first = elements.get(param), loop.init[k]
        if index is None or not isinstance(first, anf.Var) or any(e.mentions(inside) for e in index):
            continue
        if dtype_of(param) not in WHOLE or not known.inside(index, array_shape(param)):
            continue
        number = anf.fresh("s", anf.Scalar(dtype_of(param)))
        at = k + loop.early
        body = _of_number(loop.body, at, param, index, number)
        if body is None:
            continue
        start, end = anf.fresh("s", number.type), anf.fresh("s", number.type)
        params, init, vars = list(loop.params), list(loop.init), list(let.vars)
        before.append(anf.Let((start,), anf.Read(first, index), let.span))
        after.append(anf.Let((vars[k],), anf.Update(first, index, end), let.span))
        params[k], init[k], vars[k] = number, start, end
        loop = replace(loop, params=tuple(params), init=tuple(init), body=body)
        let = anf.Let(tuple(vars), loop, let.span)
    return [*before, let, *after]


def own_elements(loop: anf.For, known: Knowledge) -> anf.For | None:
    """The loop whose iterations read their own elements of arrays of its state first and change them last, with numbers
    in between; None where that is what they do anyway.

        for i (a = z) {                              for i (a = z) {
          a' = if c[i] {                               s = read a[i]
            t = read a[i]                              s' = if c[i] { yield sin(s) } else { yield s }
            yield update a[i] = sin(t)          →      a' = update a[i] = s'
          } else { yield a }                           yield a'
          yield a'                                   }
        }

    The elements have to be there whatever the conditions are. What is read of other elements, which no iteration has
    changed by then, is read of the array before the loop.
    """
    branches = [let.op for let in loop.body.lets if isinstance(let.op, anf.If)]
    changed = {r for op in branches for r in (*op.then.results, *op.otherwise.results) if isinstance(r.type, anf.Array)}
    if not changed:
        return None
    elements = _first_elements(loop.body, _changed)
    one = Iteration.of(loop)
    inside = known.within((anf.Axis(loop.index, (loop.low,), (loop.high,)),))
    body = loop.body
    for k, param in enumerate(loop.params):
        if param not in elements or dtype_of(param) not in WHOLE:
            continue
        index = tuple(map(one.opened, elements[param]))
        if not one.is_known(*index) or not one.apart(index) or not inside.inside(index, array_shape(param)):
            continue
        old, end = anf.fresh("s", anf.Scalar(dtype_of(param))), anf.fresh(param.name, param.type)
        before = _reads_before(body, param, loop.init[k], index, one)
        at = _of_number(before, k, param, elements[param], old)
        if at is None:
            continue
        read, written = anf.Read(param, index), anf.Update(param, index, at.results[k])
        lets = (anf.Let((old,), read), *at.lets, anf.Let((end,), written))
        body = anf.Block(lets, (*at.results[:k], end, *at.results[k + 1 :]))
    return None if body is loop.body else replace(loop, body=body)


def _reads_before(block: anf.Block, array: anf.Var, first: anf.Atom, index: Index, one: Iteration) -> anf.Block:
    """The block, which reads of `first` what an iteration that changes the element at `index` alone leaves as it is,
    and so do all before it."""

    def is_unchanged(place: Index) -> bool:
        for entry, changed in zip(map(one.opened, place), index, strict=True):
            step, moved = (entry - changed).constant, slope(changed, one.number)
            if step and (step * moved > 0 or one.is_fixed(changed)):
                return True
        return False

    def rest(block: anf.Block) -> anf.Block:
        lets: list[anf.Let] = []
        for let in block.lets:
            op = map_blocks(let.op, rest)
            if isinstance(op, anf.Read) and op.array is array and isinstance(first, anf.Var) and is_unchanged(op.index):
                op = anf.Read(first, op.index)
            lets.append(with_op(let, let.vars, op))
        return with_lets(block, lets, block.results)

    return rest(block)


def _first_elements(block: anf.Block, of: Callable[[anf.Let], Iterable[tuple[anf.Var, Index]]]) -> dict[anf.Var, Index]:
    """For each array the index of the first of the elements that code has to do with. of: those of a let."""
    out: dict[anf.Var, Index] = {}
    for let in block.lets:
        for inner in op_blocks(let.op):
            for array, index in _first_elements(inner, of).items():
                out.setdefault(array, index)
        for array, index in of(let):
            out.setdefault(array, index)
    return out


def _of_number(block: anf.Block, at: int, array: anf.Var, index: Index, number: anf.Atom) -> anf.Block | None:
    """The block in terms of an element of an array, which it gives as a result in the place of the array.

    None if it does anything else with the array.
    """
    renaming = Renaming({})
    lets: list[anf.Let] = []
    gone = {array}
    for original in block.lets:
        let = renaming.let(original)
        if array not in mentioned(let.op):
            lets.append(let)
            continue
        match let.op:
            case anf.Read(_, place) if place == index:
                renaming.env[original.vars[0]] = number
            case anf.Update(_, place, value) if place == index and value is not array and _changes(let):
                array, number = let.vars[0], value
            case anf.Comp() as op if array not in mentioned(op.body):
                changes = [(v, i) for v, (a, i) in _changes(let) if a is array]
                if len(changes) != 1 or changes[0][1] != index or mentioned(op).count(array) != 1:
                    return None
                total, value = (anf.fresh(name, anf.Scalar(dtype_of(array))) for name in ("r", "t"))
                k = let.vars.index(changes[0][0])
                destinations, vars = list(op.destinations), list(let.vars)
                destinations[k], vars[k] = anf.Reduce((), (), "sum"), total
                lets.append(anf.Let(tuple(vars), replace(op, destinations=tuple(destinations)), let.span))
                lets.append(anf.Let((value,), anf.Prim("add", (number, total)), let.span))
                array, number = changes[0][0], value
            case anf.If() as op:
                branch = _branch_of_number(let, op, array, index, number)
                if branch is None:
                    return None
                array, number, let = branch
                lets.append(let)
            case _:
                return None
        gone.add(array)
    results = list(block.results)
    if results[at] is not array:
        return None
    results[at] = number
    renamed = anf.Block(tuple(lets), tuple([renaming.atom(r) for r in results]))
    return renamed if gone.isdisjoint(mentioned(renamed)) else None


def _branch_of_number(
    let: anf.Let, op: anf.If, array: anf.Var, index: Index, number: anf.Atom
) -> tuple[anf.Var, anf.Var, anf.Let] | None:
    """The result of a branch that is an array in its arms, the element of that, and the branch that gives the element.

    None if an arm does anything else with the array than read and change the element.
    """
    ends = _ends(op, array)
    if len(ends) != 1:
        return None
    (at,) = ends
    then, otherwise = [_of_number(arm, at, array, index, number) for arm in (op.then, op.otherwise)]
    if then is None or otherwise is None:
        return None
    result = anf.fresh("s", anf.Scalar(dtype_of(array)))
    vars = (*let.vars[:at], result, *let.vars[at + 1 :])
    return let.vars[at], result, anf.Let(vars, replace(op, then=then, otherwise=otherwise), let.span)


def _ends(branch: anf.If, array: anf.Var) -> list[int]:
    """The results of a branch that are, in both arms, an array after all changes of its elements there."""
    then, otherwise = _after(branch.then, array), _after(branch.otherwise, array)
    results = zip(branch.then.results, branch.otherwise.results, strict=True)
    return [k for k, (a, b) in enumerate(results) if a is then and b is otherwise]


def _after(block: anf.Block, array: anf.Var) -> anf.Var:
    """Returns the array that one has become after all changes of its elements in a block."""
    for let in block.lets:
        for v, (before, _) in _changes(let):
            if before is array:
                array = v
        if isinstance(let.op, anf.If) and (ends := _ends(let.op, array)):
            array = let.vars[ends[0]]
    return array
