"""Lists that a loop makes, and that are only walked from then on, are arrays.

    l = for i in 0..n (l = Nil) { … yield Cons(v, l) }          a = for i in 0..n (a) { … yield a[i] = v }
    … tag l … h, t = fields l … f(t) …                          … n == 0 … h, t = a[n - 1], n - 1 … f'(a, t) …

A list is a datatype of two variants: one has no fields, the other numbers, and one list. A cell of one that a loop
makes is known by how many cells are left from it on, so a number takes its place wherever it goes: into the arms of
branches, the state of loops, and the parameters of functions, which are copied for that. Nobody may hold such a cell
for longer, or put others in front of it. Then a recursion over the list counts (`counted_calls.py`), and what it
makes may be a list that is walked in turn.

So this comes before derivatives, and to what they are taken of a list is an array, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.rewriting import Rewriter
from dlang.ir.traverse import count_uses, mentioned, op_blocks, walk, with_body
from dlang.ir.types import I64
from dlang.ops import figures
from dlang.ops.primitives import OPPOSITE
from dlang.optimize.counted_calls import counted_calls
from dlang.optimize.grown_arrays import goes_over_arrays, runs_to_its_end
from dlang.optimize.inline import inline
from dlang.optimize.tailcalls import zero

T = TypeVar("T")


def lists(program: anf.Program, entries: Sequence[str]) -> anf.Program:
    """The program with arrays in the place of such lists, and loops in that of recursion over them."""
    if not any(_cells(datatype) for datatype in program.datatypes.values()):
        return program
    while (new := _without_some(program)) is not program:
        program = counted_calls(inline(new, entries), entries)
    return program


def _cells(datatype: anf.Datatype) -> anf.Variant | None:
    """The variant of a list that is a cell; None of what is no list."""
    match sorted(datatype.variants, key=lambda v: len(v.fields)):
        case [anf.Variant(fields=()), cell]:
            rest = [p for p in cell.fields if p.type == anf.Scalar(datatype.name)]
            numbers = [p for p in cell.fields if isinstance(p.type, anf.Scalar) and not anf.is_reference(p.type.dtype)]
            return cell if len(rest) == 1 and len(rest) + len(numbers) == len(cell.fields) else None
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _Made:
    """A loop that makes a list: the let, and the position of the list in its state.

    cells: the variables in the body that are the list, its parameter first. most: how many cells an iteration puts in
    front, at most, or always if `same`.
    """

    loop: anf.Let
    position: int
    cells: tuple[anf.Var, ...]
    most: int
    same: bool

    @property
    def list(self) -> anf.Var:
        return self.loop.vars[self.position]


def _made(block: anf.Block, program: anf.Program) -> Iterator[_Made]:
    """The loops of a block that put cells in front of none."""
    empty = {let.vars[0] for let in walk(block) if isinstance(let.op, anf.Construct) and not let.op.variant.fields}
    known = Builder()
    for let in walk(block):
        op = let.op
        known.append(let)
        if not isinstance(op, anf.For) or op.early:
            continue
        for k, (param, first, last) in enumerate(zip(op.params, op.init, op.body.results, strict=True)):
            if first not in empty or not isinstance(param.type, anf.Scalar):
                continue
            if _cells(program.datatypes[param.type.dtype]) is None:
                continue
            making = _Making(param, {v: inner for inner in walk(op.body) for v in inner.vars})
            most, uses = making.cells(last), count_uses(op.body)
            alone = all(uses[v] == n and _on_a_path(op.body, v) <= 1 for v, n in making.used.items())
            same = not any(isinstance(making.defined[v].op, anf.If) for v in making.most)
            if (
                most is not None
                and 1 <= most <= figures.GROWN_AT_ONCE
                and alone
                and ((same and runs_to_its_end(op)) or goes_over_arrays(op, known))
            ):
                yield _Made(let, k, (param, *making.most), most, same)
                break


@dataclass(frozen=True, slots=True)
class _Making:
    """The variables of a loop's body that are a list under way. used: how often on the way to the next state; most: how
    many cells are in front of what the list was, at most."""

    param: anf.Var
    defined: Mapping[anf.Var, anf.Let]
    used: dict[anf.Var, int] = field(default_factory=dict)
    most: dict[anf.Var, int] = field(default_factory=dict)

    def cells(self, list: anf.Atom) -> int | None:
        """How many cells are put in front of what the list was, at most; None where anything else becomes of it."""
        if not isinstance(list, anf.Var):
            return None
        self.used[list] = self.used.get(list, 0) + 1
        if list is self.param or list in self.most:
            return self.most.get(list, 0)
        let = self.defined.get(list)
        found: int | None = None
        match None if let is None else let.op:
            case anf.Construct(_, args):
                rest = [a for a in args if a.type == list.type]
                behind = self.cells(rest[0]) if rest else None
                found = None if behind is None else behind + 1
            case anf.If(_, then, otherwise) if let is not None:
                k = let.vars.index(list)
                arms = [self.cells(arm.results[k]) for arm in (then, otherwise)]
                found = None if None in arms else max(n for n in arms if n is not None)
            case _:
                pass
        if found is not None:
            self.most[list] = found
        return found


def _on_a_path(block: anf.Block, list: anf.Var) -> int:
    """How often a block uses a list at most, which only cells and results of branches are made of."""
    uses = block.results.count(list)
    for let in block.lets:
        match let.op:
            case anf.Construct(_, args):
                uses += args.count(list)
            case anf.If(_, then, otherwise):
                uses += max(_on_a_path(then, list), _on_a_path(otherwise, list))
            case _:
                pass
    return uses


Handed = tuple[str, frozenset[int]]
"""A function, and the positions of its parameters that are walked lists."""


@dataclass(frozen=True, slots=True)
class _Walk:
    """The places in a function where cells of lists go.

    roots: of each cell the list that it is of. calls: what cells are handed to, with the arguments. held: the lists
    whose cells go elsewhere.
    """

    roots: dict[anf.Var, anf.Var]
    calls: list[tuple[Handed, tuple[anf.Atom, ...]]]
    held: set[anf.Var]

    @staticmethod
    def of(body: anf.Block, lists: Sequence[anf.Var], program: anf.Program) -> _Walk:
        """The walk from some lists on."""
        walk_ = _Walk({v: v for v in lists}, [], set())
        known = 0
        while len(walk_.roots) > known:
            known = len(walk_.roots)
            for let in walk(body):
                walk_._follow(let)
        walk_._judge(body, program)
        walk_._holds(*body.results)
        return walk_

    def root(self, atom: anf.Atom) -> anf.Var | None:
        return self.roots.get(atom) if isinstance(atom, anf.Var) else None

    def _follow(self, let: anf.Let) -> None:
        """Notes the cells that a let binds."""
        match let.op:
            case anf.Fields(variant, node) if (root := self.root(node)) is not None:
                handles = [v for v, p in zip(let.vars, variant.fields, strict=True) if p.type == node.type]
                self.roots.update((v, root) for v in handles)
            case anf.If(_, then, otherwise):
                for var, a, b in zip(let.vars, then.results, otherwise.results, strict=True):
                    if (root := self.root(a)) is not None and self.root(b) is root:
                        self.roots[var] = root
            case anf.For(params=params, init=init) | anf.While(params=params, init=init):
                for var, param, first in zip(let.vars, params, init, strict=True):
                    if (root := self.root(first)) is not None:
                        self.roots[var] = self.roots[param] = root

    def _holds(self, *atoms: anf.Atom) -> None:
        """Notes the lists whose cells stay somewhere."""
        self.held.update(root for a in atoms if (root := self.root(a)) is not None)

    def _judge(self, block: anf.Block, program: anf.Program) -> None:
        """Notes which cells are not only looked at and handed on, to where those of one list are."""
        for let in block.lets:
            op = let.op
            places: list[tuple[anf.Atom, ...]] = []
            match op:
                case anf.Tag() | anf.Fields():
                    pass
                case anf.Comp():
                    self._holds(*op.body.results)
                case anf.Call(name, args):
                    positions = frozenset(k for k, a in enumerate(args) if self.root(a) is not None)
                    f = program.functions[name]
                    if positions and (f.rules is not None or f.consumed):
                        self._holds(*args)
                    elif positions:
                        self.calls.append(((name, positions), args))
                case anf.If(_, then, otherwise):
                    places += zip(let.vars, then.results, otherwise.results, strict=True)
                case (
                    anf.For(params=params, init=init, body=body, early=early)
                    | anf.While(params=params, init=init, body=body, early=early)
                ):
                    state = zip(let.vars, params, init, body.results[early:], strict=True)
                    places += [place for place in state if self.root(place[0]) is not place[0]]
                case _:
                    self._holds(*mentioned(op))
            for place in places:
                if len({self.root(a) for a in place}) > 1:
                    self._holds(*place)
            for inner in op_blocks(op):
                self._judge(inner, program)


def _without_some(program: anf.Program) -> anf.Program:
    """The program with arrays in the place of the lists that a function makes."""
    finished = program.finished.get
    for name, f in program.functions.items():
        if finished(name) is f or f.rules is not None:
            continue
        made = {m.list: m for m in _made(f.body, program)}
        while made:
            first = _Walk.of(f.body, [*made], program)
            walks: dict[Handed, _Walk] = {}
            for handed, args in first.calls:
                found = _handed(handed, program, walks)
                if found is None:
                    first._holds(*args)
                else:
                    walks |= found
            if first.held:
                made = {v: m for v, m in made.items() if v not in first.held}
                continue
            copies = {_name(handed): _copy(handed, walk_, program) for handed, walk_ in walks.items()}
            body = _Walked(first.roots, program, made).block(f.body)
            return replace(program, functions={**program.functions, **copies, name: with_body(f, body)})
    return program


def _handed(first: Handed, program: anf.Program, known: Mapping[Handed, _Walk]) -> dict[Handed, _Walk] | None:
    """The walks in all functions to which cells are handed on, but for known ones; None if one keeps cells."""
    walks: dict[Handed, _Walk] = {}
    work = [first]
    while work:
        handed = work.pop()
        if handed in walks or handed in known:
            continue
        f = program.functions[handed[0]]
        found = _Walk.of(f.body, [f.params[k] for k in sorted(handed[1])], program)
        if found.held:
            return None
        walks[handed] = found
        work += [to for to, _ in found.calls]
    return walks


def _name(handed: Handed) -> str:
    name, positions = handed
    return f"{name}.array{'.'.join(map(str, sorted(positions)))}"


def _columns(list: anf.Var, program: anf.Program) -> list[anf.Var]:
    """The fields of a list's cells that are numbers."""
    assert isinstance(list.type, anf.Scalar)
    cell = _cells(program.datatypes[list.type.dtype])
    assert cell is not None
    return [p for p in cell.fields if p.type != list.type]


@dataclass(frozen=True, slots=True)
class _Arrays:
    """The contents of the cells of a list: an array for each number in a cell, all of this size."""

    size: anf.Atom
    columns: tuple[anf.Var, ...]


def _copy(handed: Handed, walk_: _Walk, program: anf.Program) -> anf.Function:
    """A function that is given arrays, and how many of their elements are left."""
    name, positions = handed
    f = program.functions[name]
    walked = _Walked(walk_.roots, program, renew=True)
    params: list[anf.Var] = []
    sizes: list[anf.Var] = []
    for k, p in enumerate(f.params):
        if k in positions:
            size = anf.fresh("n", I64)
            columns = [
                anf.fresh(c.name, anf.Array(c.type.dtype, (anf.poly(size),)))
                for c in _columns(p, program)
                if isinstance(c.type, anf.Scalar)
            ]
            walked.arrays[p] = _Arrays(size, tuple(columns))
            params += [size, *columns]
            sizes.append(size)
        params.append(walked.bind(p))
    body = walked.block(f.body)
    results = tuple([walked.bind(r) for r in f.results])
    return replace(
        f, name=_name(handed), params=tuple(params), results=results, body=body, sizes=walked.size_params(f) | {*sizes}
    )


class _Walked(Rewriter):
    """Puts arrays in the place of lists, and the number of cells that are left in that of cells.

    roots: of each cell the list that it is of; left: the variable that takes its place; arrays: those of each list.
    made: the loops that make lists in this function. cells: what the lists are in them. heads: the arrays that hold
    each of these. tags: of variables that are tags, how many cells are left, and the tag of none.
    """

    def __init__(
        self,
        roots: Mapping[anf.Var, anf.Var],
        program: anf.Program,
        made: Mapping[anf.Var, _Made] | None = None,
        renew: bool = False,
    ) -> None:
        super().__init__({}, renew)
        self.roots, self.program, self.made = roots, program, made or {}
        self.arrays: dict[anf.Var, _Arrays] = {}
        self.tags: dict[anf.Var, tuple[anf.Var, int]] = {}
        self.cells = {v for m in self.made.values() for v in m.cells}
        self.heads: dict[anf.Var, tuple[anf.Var, ...]] = {}
        for cell in (*roots, *sorted(self.cells, key=lambda v: v.serial)):
            self.env[cell] = anf.fresh(cell.name, I64)

    def bind(self, var: anf.Var) -> anf.Var:
        return self.left(var) if var in self.roots or var in self.cells else super().bind(var)

    def left(self, cell: anf.Atom) -> anf.Var:
        """How many cells there are from one on."""
        left = self.atom(cell)
        assert isinstance(left, anf.Var)
        return left

    def rule(self, let: anf.Let) -> None:
        match let.op:
            case anf.For() as op if made := [self.made[v] for v in let.vars if v in self.made]:
                self._loop(let, op, made[0])
            case anf.Tag(anf.Var() as node) if node in self.roots:
                self._tag(let, node)
            case anf.Prim("eq" | "ne" as name, (anf.Var() as tag, anf.Lit(value=value))) if tag in self.tags:
                left, empty = self.tags[tag]
                if value != empty:
                    name = OPPOSITE[name]
                self.keep(let, anf.Prim(name, (left, anf.Lit(0, "i64"))))
            case anf.Fields(variant, anf.Var() as node) if node in self.roots:
                self._fields(let, variant, node)
            case anf.Call(name, args) if any(a in self.roots for a in args):
                positions = frozenset(k for k, a in enumerate(args) if a in self.roots)
                new: list[anf.Atom] = []
                for a in args:
                    if isinstance(a, anf.Var) and a in self.roots:
                        arrays = self.arrays[self.roots[a]]
                        new += [arrays.size, *arrays.columns]
                    new.append(self.atom(a))
                self.keep(let, anf.Call(_name((name, positions)), tuple(new)))
            case _:
                super().rule(let)

    def _tag(self, let: anf.Let, node: anf.Var) -> None:
        assert isinstance(node.type, anf.Scalar)
        datatype = self.program.datatypes[node.type.dtype]
        (empty,) = [v.tag for v in datatype.variants if v is not _cells(datatype)]
        left = self.left(node)
        self.tags[let.vars[0]] = left, empty
        none = self.emit(anf.Prim("eq", (left, anf.Lit(0, "i64"))), anf.Scalar("bool"), span=let.span)
        tags = anf.Lit(empty, "i64"), anf.Lit(1 - empty, "i64")
        self.keep(let, anf.Prim("select", (none, *tags)))

    def _fields(self, let: anf.Let, variant: anf.Variant, node: anf.Var) -> None:
        """Reads the last of the cells that are left."""
        arrays, at = self.arrays[self.roots[node]], anf.poly(self.left(node)) - 1
        columns = iter(arrays.columns)
        for var, p in zip(let.vars, variant.fields, strict=True):
            op = anf.IndexExpr(at) if p.type == node.type else anf.Read(next(columns), (at,))
            self.keep(let, op, (var,))

    def _loop(self, let: anf.Let, op: anf.For, made: _Made) -> None:
        """Has a loop set elements of arrays in place of the cells that it makes."""
        k, int_zero = made.position, anf.Lit(0, "i64")
        low, high = self.size(op.low), self.size(op.high)
        ahead = self.emit(anf.IndexExpr(high - low), I64, "n", let.span)
        trips = self.emit(anf.Prim("maximum", (ahead, int_zero)), I64, "n", let.span)
        size = self.emit(anf.IndexExpr(anf.poly(trips) * made.most), I64, "n", let.span)
        shape = (anf.poly(size),)
        first: list[anf.Atom] = []
        columns: list[anf.Var] = []
        for p in _columns(made.list, self.program):
            assert isinstance(p.type, anf.Scalar)
            type = anf.Array(p.type.dtype, shape)
            first.append(self.emit(_blank(type) if made.same else anf.Empty(type.dtype, shape), type, p.name, let.span))
            columns.append(anf.fresh(p.name, type))
        index = self.bind(op.index)
        params = [self.bind(p) for p in op.params]
        left, last = params[k], self.left(made.list)
        outer, self.lets = self.lets, []
        if made.same:
            self.write(anf.Let((left,), anf.IndexExpr((anf.poly(index) - low) * made.most), let.span))
        self.heads[op.params[k]] = tuple(columns)
        results = self._lets(op.body)
        end = op.body.results[k]
        assert isinstance(end, anf.Var)
        body, self.lets = anf.Block(tuple(self.lets), (*results, *self.heads[end])), outer
        init = [int_zero if j == k else self.atom(a) for j, a in enumerate(op.init)]
        vars = [self.bind(v) for v in let.vars]
        arrays = [anf.fresh(c.name, c.type) for c in columns]
        if made.same:
            params, init, vars = _without(params, k), _without(init, k), _without(vars, k)
            body = replace(body, results=tuple(_without(body.results, k)))
        loop = anf.For(index, low, high, (*params, *columns), (*init, *first), body)
        self.write(anf.Let((*vars, *arrays), loop, let.span))
        if made.same:
            self.write(anf.Let((last,), anf.IndexExpr(anf.poly(size)), let.span))
        self.arrays[made.list] = _Arrays(size, tuple(arrays))

    def _lets(self, block: anf.Block) -> tuple[anf.Atom, ...]:
        """Writes the lets of a block that makes cells, and gives its results; of cells how many there are."""
        for let in block.lets:
            made = next((v for v in let.vars if v in self.cells), None)
            match let.op:
                case anf.Construct(_, args) if made is not None:
                    (rest,) = [a for a in args if isinstance(a, anf.Var) and a in self.cells]
                    updated, at = [], anf.poly(self.left(rest))
                    for value, array in zip([a for a in args if a is not rest], self.heads[rest], strict=True):
                        update = anf.Update(array, (at,), self.atom(value))
                        updated.append(self.emit(update, array.type, array.name, let.span))
                    self.heads[made] = tuple(updated)
                    self.write(anf.Let((self.left(made),), anf.IndexExpr(at + 1), let.span))
                case anf.If(condition, then, otherwise, cold=cold) if made is not None:
                    arms, arrays = [], tuple[anf.Var, ...]()
                    for arm in (then, otherwise):
                        outer, self.lets = self.lets, []
                        results = self._lets(arm)
                        head = arm.results[let.vars.index(made)]
                        assert isinstance(head, anf.Var)
                        arrays = self.heads[head]
                        arms.append(anf.Block(tuple(self.lets), (*results, *arrays)))
                        self.lets = outer
                    self.heads[made] = tuple([anf.fresh(a.name, a.type) for a in arrays])
                    op = anf.If(self.atom(condition), arms[0], arms[1], cold=cold)
                    self.write(anf.Let((*(self.bind(v) for v in let.vars), *self.heads[made]), op, let.span))
                case _:
                    self.rule(let)
        return tuple([self.atom(r) for r in block.results])


def _blank(type: anf.Array) -> anf.Comp:
    """An array of zeros."""
    (size,) = type.shape
    axis = anf.Axis(anf.fresh("i", I64), (anf.ZERO,), (size,))
    return anf.Comp(
        (axis,), anf.Block((), (zero(type.dtype),)), (anf.Reduce(type.shape, (anf.poly(axis.var),), "set"),)
    )


def _without(items: Sequence[T], position: int) -> list[T]:
    return [item for k, item in enumerate(items) if k != position]
