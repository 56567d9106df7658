"""Simplification in one walk: literals, algebra, sizes, reads through what moves no data, branches and loops that are
known, and comprehensions of one point.

Every rule gives the same bits (`algebra.py` names the one exception). What becomes unused is left to `dce`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.comprehension_queries import giving, point_of, with_state, without_replaced
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import substitute
from dlang.ir.traverse import map_functions, mentioned, type_vars, walk, with_body
from dlang.ir.types import BOOL, dtype_of
from dlang.ops.monoids import STAYS
from dlang.optimize.algebra import same, simpler
from dlang.optimize.constants import convert
from dlang.polynomials import Poly

_LONGEST = 4  # terms of a polynomial that may stand for an i64 variable in an index
_FEW = 4  # elements of a small array


def simplify(program: anf.Program) -> anf.Program:
    """The program with every operation in its simplest form."""
    derivatives = any(isinstance(let.op, anf.Derivative) for f in program.functions.values() for let in walk(f.body))

    def function(f: anf.Function) -> anf.Function:
        return with_body(f, _Simplifier(keep_stops=derivatives).block(f.body))

    return map_functions(program, function)


@dataclass(slots=True)
class _History:
    """Changes of single elements of an array, one after another, at places that differ by constants.

    first: the array before; last: that after the last change. shift: the indices without their constants. values: what
    was stored last at each index.
    """

    first: anf.Var
    shift: tuple[anf.Size, ...]
    last: anf.Var
    values: dict[tuple[anf.Size, ...], anf.Atom] = field(default_factory=dict)


def _shift(index: tuple[anf.Size, ...]) -> tuple[anf.Size, ...]:
    """An index without its constants; two of one shift are the same, or surely differ."""
    return tuple([Poly({m: c for m, c in entry.terms.items() if m}) for entry in index])


class _Simplifier(Rewriter):
    """The walk of a function. keep_stops: whether it is still to be differentiated.

    sums: i64 variables that are polynomials in others. histories: of arrays that were changed in an element. points:
    the number of comprehensions around. local: the variables bound at each point of one.
    """

    def __init__(self, keep_stops: bool) -> None:
        super().__init__()
        self.keep_stops = keep_stops
        self.sums: dict[anf.Var, anf.Size] = {}
        self.histories: dict[anf.Var, _History] = {}
        self.points = 0
        self.local: set[anf.Var] = set()

    # ---- what rules ask
    def write(self, let: anf.Let) -> None:
        super().write(let)
        if self.points:
            self.local.update(let.vars)
        if isinstance(let.op, anf.Update):
            self.changed(let.vars[0], let.op)

    def changed(self, var: anf.Var, op: anf.Update) -> None:
        """Notes what an array that has been changed in one element holds."""
        history, shift = self.histories.get(op.array), _shift(op.index)
        if history is None or history.last is not op.array or history.shift != shift:
            history = _History(op.array, shift, var)
        history.values[op.index] = op.value
        history.last = var
        self.histories[var] = history

    def opened(self, size: anf.Size) -> anf.Size:
        """A polynomial in terms of what the variables in it are sums of: for indices, as types keep the variables."""
        size = self.size(size)
        for m in size.terms:
            for a in m:
                if a in self.sums:
                    return size.substitute(self.sums.get)
        return size

    def index(self, index: tuple[anf.Size, ...]) -> tuple[anf.Size, ...]:
        return tuple([self.opened(i) for i in index])

    def with_open_indices(self, op: anf.Op) -> anf.Op:
        if not self.sums:
            return op
        match op:
            case anf.Read(array, index):
                return anf.Read(array, self.index(index))
            case anf.Update(array, index, value):
                return anf.Update(array, self.index(index), value)
            case anf.View(array, axes, shape, index):
                return anf.View(array, axes, shape, self.index(index))
            case _:
                return op

    def same_type(self, a: anf.Type, b: anf.Type) -> bool:
        return self.type(a) == self.type(b)

    # ---- the rule
    def rule(self, let: anf.Let) -> None:
        """Adds what remains of a let, or replaces what it binds."""
        op: anf.Op = let.op
        match op:
            case anf.If() if isinstance(known := self.atom(op.condition), anf.Lit):
                self.splice(op.then if known.value else op.otherwise, let.vars)
                return
            case anf.Fields(variant, node) if (made := self.made(self.atom(node), variant)) is not None:
                self.env.update(zip(let.vars, made.args, strict=True))
                return
            case anf.For() | anf.While():
                if self.loop(let, op):
                    return
                let, op = self.without_constant_state(let)
                if isinstance(op, anf.For) and (settled := _settled(op)):
                    for part in _without_settled(let, op, settled):
                        self.rule(part)
                    return
            case anf.Comp():
                op = self.without_unit_axes(op)
                if self.single_point(let.vars, op):
                    return
            case _:
                pass
        self.points += isinstance(op, anf.Comp)
        new = self.with_open_indices(self.op(op))
        self.points -= isinstance(op, anf.Comp)
        if isinstance(new, anf.Comp):
            new = without_replaced(new)
        elif isinstance(new, anf.For | anf.While) and new.early and new.body.results[0] == anf.Lit(True, "bool"):
            new = replace(new, body=anf.Block(new.body.lets, new.body.results[1:]), early=False)
        if len(let.vars) == 1 and not (isinstance(new, anf.If) and self.branch(new) is None):
            replacement = self.simplest(new, let)
            if isinstance(replacement, anf.Var | anf.Lit):
                self.env[let.vars[0]] = replacement
                return
            self.note_polynomial(let.vars[0], replacement)
            self.keep(let, replacement)
            return
        kept = self.several(new, let.vars)
        if kept is not None:
            self.keep(let, kept[1], kept[0])

    def made(self, node: anf.Atom, variant: anf.Variant) -> anf.Construct | None:
        """The operation that makes a node, if it is known. An arm that is never reached may take it for another one."""
        made = self.definition(node)
        return made if isinstance(made, anf.Construct) and made.variant.tag == variant.tag else None

    # ---- operations of one result
    def simplest(self, op: anf.Op, let: anf.Let) -> anf.Op | anf.Atom:
        """An operation, whose parts are simple, in its simplest form, or the atom that it is."""
        var = let.vars[0]
        for _ in range(8):
            new = self.step(op, var)
            if new is None:
                return op
            if isinstance(new, anf.Var | anf.Lit):
                return new
            op = new
        return op

    def step(self, op: anf.Op, var: anf.Var) -> anf.Op | anf.Atom | None:
        match op:
            case anf.Prim(name, args):
                return simpler(self, name, args)
            case anf.Cast(dtype, arg):
                if dtype_of(arg) == dtype:
                    return arg
                return convert(arg, dtype) if isinstance(arg, anf.Lit) else None
            case anf.Tag(node) if isinstance(made := self.definition(node), anf.Construct):
                return anf.Lit(made.variant.tag, "i64")
            case anf.IndexExpr(size):
                if size.constant is not None:
                    return anf.Lit(int(size.constant), "i64")
                return size.atom
            case anf.Read():
                return self.read(op)
            case anf.View():
                return self.view(op)
            case anf.Reshape(array, shape):
                inner = self.definition(array)
                if isinstance(inner, anf.Reshape):
                    return anf.Reshape(inner.array, shape)
                return array if isinstance(array.type, anf.Array) and array.type.shape == shape else None
            case anf.Copy(array):
                return array
            case anf.StopGradient(arg):
                return None if self.keep_stops else arg
            case anf.Assert():
                return op.guarded[0] if self.holds(op) and self.same_type(op.guarded[0].type, var.type) else None
            case anf.Comp():
                return self.copies(op, (var,)).get(0)
            case anf.If():
                return self.branch(op)
            case _:
                return None

    def read(self, op: anf.Read) -> anf.Op | anf.Atom | None:
        """A read of what moves no data is a read of what it shows; of what is known at the index, that."""
        let = self.defined.get(op.array)
        if let is None:
            return None
        match let.op:
            case anf.View() as view:
                at = dict(zip(view.axes, op.index, strict=True))
                return anf.Read(view.array, tuple([substitute(i, at) for i in view.index]))
            case anf.Reshape(array=array) if isinstance(array.type, anf.Array) and isinstance(op.array.type, anf.Array):
                index = _without_units(op.index, op.array.type.shape, array.type.shape)
                return None if index is None else anf.Read(array, index)
            case anf.Update():
                return self.stored(op.array, op.index)
            case anf.Comp() as comp:
                k = let.vars.index(op.array)
                entries = point_of(comp, k)
                if entries is None:
                    return None
                value = comp.body.results[k]
                if isinstance(value, anf.Lit):
                    return value
                for entry, at_entry in zip(entries, op.index, strict=True):
                    if entry is value:
                        return anf.IndexExpr(at_entry)
                inside = {a.var for a in comp.axes} | {v for let in comp.body.lets for v in let.vars}
                return None if value in inside else value
            case _:
                return None

    def stored(self, array: anf.Var, index: tuple[anf.Size, ...]) -> anf.Atom | None:
        """Returns the element of an array just changed at an index, if that is known without reading an array.

        A small array made and filled at each point of a comprehension is just its elements.
        """
        shift = _shift(index)
        writes: list[anf.Update] = []  # that may be elsewhere or not
        value: anf.Atom | None = None
        while isinstance(below := self.definition(array), anf.Update):
            history = self.histories[array]
            if history.shift == shift and history.last is array:
                value = history.values.get(index)
                if value is not None:
                    break
                array = history.first
                continue
            if below.index == index:
                value = below.value
                break
            if not _apart(below.index, index):
                writes.append(below)
                if len(writes) > _FEW:
                    return None
            array = below.array
        if value is None:
            found = self.read(anf.Read(array, index)) if isinstance(below, anf.Comp) else None
            if not isinstance(found, anf.Lit):
                return None
            value = found
        if not writes:
            return value
        if array not in self.local or len(index) > 1 or not _simple(index[0]):
            return None
        if anf.is_handle(dtype_of(array)):  # a node is chosen by a branch
            return None
        at: anf.Atom = anf.Lit(int(index[0].constant or 0), "i64") if index[0].atom is None else index[0].atom
        for write in reversed(writes):
            if write.index[0].constant is None:
                return None
        for write in reversed(writes):
            here = self.emit(anf.Prim("eq", (at, anf.Lit(int(write.index[0].constant or 0), "i64"))), BOOL)
            value = self.emit(anf.Prim("select", (here, write.value, value)), value.type)
        return value

    def view(self, op: anf.View) -> anf.Op | anf.Atom | None:
        if [i.atom for i in op.index] == list(op.axes):
            if isinstance(op.array.type, anf.Array) and op.array.type.shape == op.shape:
                return op.array
        inner = self.definition(op.array)
        if isinstance(inner, anf.View):
            at = dict(zip(inner.axes, op.index, strict=True))
            return anf.View(inner.array, op.axes, op.shape, tuple([substitute(i, at) for i in inner.index]))
        return None

    def copies(self, op: anf.Comp, vars: tuple[anf.Var, ...]) -> dict[int, anf.Var]:
        """The results of a comprehension that are copies of arrays, and these, unless the comprehension has to stay.

        An array in which elements are set to what they are is a copy of itself.
        """
        if not all(let.op.IS.point for let in op.body.lets):
            return {}
        reads = {let.vars[0]: let.op for let in op.body.lets if isinstance(let.op, anf.Read)}
        reduced = [d for d in op.destinations if isinstance(d, anf.Reduce)]
        found = {}
        for k, (var, value, d) in enumerate(zip(vars, op.body.results, op.destinations, strict=True)):
            read = reads.get(value) if isinstance(value, anf.Var) else None
            if read is None or not isinstance(read.array.type, anf.Array):
                continue
            if d.into is read.array and d.index == read.index and isinstance(d, anf.Reduce) and d.monoid == "set":
                if d.after is None and all(other.after != k for other in reduced):
                    found[k] = read.array
                continue
            if (entries := point_of(op, k)) is None:
                continue
            whole = None not in entries and [i.atom for i in read.index] == list(entries)
            if whole and self.same_type(read.array.type, var.type) and read.array.type.shape == d.shape:
                found[k] = read.array
        return found

    def branch(self, op: anf.If) -> anf.Op | anf.Atom | None:
        """A branch of one result whose arms agree, or that is its condition."""
        then, otherwise = op.then, op.otherwise
        if then.lets or otherwise.lets:
            return None
        a, b = then.results[0], otherwise.results[0]
        if same(a, b):
            return a
        if isinstance(a, anf.Lit) and isinstance(b, anf.Lit) and a.dtype == "bool":
            return op.condition if a.value else anf.Prim("not", (op.condition,))
        return None

    def note_polynomial(self, var: anf.Var, op: anf.Op) -> None:
        """Remembers a polynomial, so that indices made of it are polynomials of its parts. A sum that is no `IndexExpr`
        is none, because it may wrap.
        """
        if isinstance(op, anf.IndexExpr) and len(op.size.terms) <= _LONGEST:
            self.sums[var] = op.size

    # ---- operations of any number of results
    def holds(self, op: anf.Assert) -> bool:
        return isinstance(op.condition, anf.Lit) and op.condition.value is True

    def several(self, op: anf.Op, vars: tuple[anf.Var, ...]) -> tuple[tuple[anf.Var, ...], anf.Op] | None:
        """An operation of no or several results; None if nothing remains of it."""
        match op:
            case anf.Assert():
                types = [self.same_type(s.type, v.type) for s, v in zip(op.guarded, vars, strict=True)]
                if self.holds(op) and all(types):
                    self.env.update(zip(vars, op.guarded, strict=True))
                    return None
            case anf.If():
                inside = {v for block in (op.then, op.otherwise) for let in block.lets for v in let.vars}
                keep = []
                for k, (a, b) in enumerate(zip(op.then.results, op.otherwise.results, strict=True)):
                    if same(a, b) and a not in inside:
                        self.env[vars[k]] = a
                    else:
                        keep.append(k)
                if len(keep) == len(vars):
                    return vars, op
                then = anf.Block(op.then.lets, tuple([op.then.results[k] for k in keep]))
                otherwise = anf.Block(op.otherwise.lets, tuple([op.otherwise.results[k] for k in keep]))
                if not then.lets and not otherwise.lets and not keep:
                    return None
                return tuple([vars[k] for k in keep]), anf.If(op.condition, then, otherwise, cold=op.cold)
            case anf.Comp() if vars:
                copies = self.copies(op, vars)
                if not copies:
                    return vars, op
                self.env.update({vars[k]: array for k, array in copies.items()})
                keep = [k for k in range(len(vars)) if k not in copies]
                if not keep:
                    return None
                return tuple([vars[k] for k in keep]), giving(op, keep)
            case _:
                pass
        return vars, op

    def loop(self, let: anf.Let, op: anf.For | anf.While) -> bool:
        """Unrolls a loop that surely runs not at all or once."""
        atom = self.atom
        if isinstance(op, anf.While):
            match op.condition:
                case anf.Block((), (anf.Lit(value=False),)):
                    iterations: object = 0
                case _:
                    return False
        else:
            iterations = (self.opened(op.high) - self.opened(op.low)).constant
        if isinstance(iterations, int) and iterations <= 0:
            for var, init in zip(let.vars, op.init, strict=True):
                self.env[var] = atom(init)
            return True
        low = self.opened(op.low) if isinstance(op, anf.For) else anf.ZERO
        if iterations == 1 and isinstance(op, anf.For) and not op.early and _simple(low):
            for param, init in zip(op.params, op.init, strict=True):
                self.env[param] = atom(init)
            self.env[op.index] = low
            self.splice(op.body, let.vars)
            return True
        return False

    def without_constant_state(self, let: anf.Let) -> tuple[anf.Let, anf.Op]:
        """The loop without the state that every iteration hands on as it is."""
        op = let.op
        assert isinstance(op, anf.For | anf.While)
        nexts = op.body.results[op.early :]
        constant = [
            n is p or (isinstance(n, anf.Var) and n is i) for n, p, i in zip(nexts, op.params, op.init, strict=True)
        ]
        if not any(constant):
            return let, op
        for var, param, init, c in zip(let.vars, op.params, op.init, constant, strict=True):
            if c:
                self.env[param] = self.env[var] = self.atom(init)
        loop = with_state(let, [k for k, c in enumerate(constant) if not c])
        return loop, loop.op

    def without_unit_axes(self, op: anf.Comp) -> anf.Comp:
        """A comprehension without the axes of one point, whose variables become that point.

        One of them stays if there is no other and a result is an array: what makes arrays has an axis.
        """
        points: dict[anf.Var, anf.Size] = {}
        for axis in op.axes:
            if len(axis.lows) == len(axis.highs) == 1:
                low = self.opened(axis.lows[0])
                if self.opened(axis.highs[0]) - low == anf.poly(1) and _simple(low):
                    points[axis.var] = low
        if points and len(points) == len(op.axes) and any(d.shape for d in op.destinations):
            points.popitem()
        if not points:
            return op
        self.env.update(points)
        return anf.Comp(tuple([a for a in op.axes if a.var not in points]), op.body, op.destinations)

    def single_point(self, vars: tuple[anf.Var, ...], op: anf.Comp) -> bool:
        """A comprehension of one point whose results are all scalars is its body."""
        if op.axes or not all(isinstance(d, anf.Reduce) and not d.shape and d.into is None for d in op.destinations):
            return False
        self.splice(op.body, vars)
        for var, d in zip(vars, op.destinations, strict=True):
            if isinstance(d, anf.Reduce) and d.monoid in STAYS:
                self.env[var] = anf.Lit(0, "i64")
        return True


def _settled(op: anf.For) -> list[int]:
    """The state that no iteration reads and that each sets to one value, which is known before the loop."""
    inside = {op.index, *op.params, *[v for let in op.body.lets for v in let.vars]}
    found = [] if op.early else [k for k, value in enumerate(op.body.results) if value not in inside]
    if not found:
        return []
    read: set[anf.Atom] = {v for let in op.body.lets for v in mentioned(let.op)}
    read.update(v for k, value in enumerate(op.body.results) for v in [value, *type_vars(op.params[k].type)])
    return [k for k in found if op.params[k] not in read]


def _without_settled(let: anf.Let, op: anf.For, settled: list[int]) -> list[anf.Let]:
    """A loop without some of its state, and that state behind it: the value, or the first one if no iteration runs."""
    iterations, runs = anf.fresh("iterations", anf.Scalar("i64")), anf.fresh("runs", anf.Scalar("bool"))
    arms = [anf.Block((), tuple([values[k] for k in settled])) for values in (op.body.results, op.init)]
    return [
        with_state(let, [k for k in range(len(op.params)) if k not in settled]),
        anf.Let((iterations,), anf.IndexExpr(op.high - op.low), let.span),
        anf.Let((runs,), anf.Prim("gt", (iterations, anf.Lit(0, "i64"))), let.span),
        anf.Let(tuple([let.vars[k] for k in settled]), anf.If(runs, *arms), let.span),
    ]


def _simple(size: anf.Size) -> bool:
    """Tells whether a polynomial may stand where an atom is wanted."""
    return isinstance(size.constant, int) or size.atom is not None


def _apart(a: tuple[anf.Size, ...], b: tuple[anf.Size, ...]) -> bool:
    """Tells whether two indices surely differ."""
    return any((x - y).constant not in (None, 0) for x, y in zip(a, b, strict=True))


def _without_units(
    index: tuple[anf.Size, ...], shown: tuple[anf.Size, ...], under: tuple[anf.Size, ...]
) -> tuple[anf.Size, ...] | None:
    """The index below a reshape that only adds and removes axes of size 1."""
    one = anf.poly(1)
    entries = [(i, s) for i, s in zip(index, shown, strict=True) if s != one]
    if [s for _, s in entries] != [s for s in under if s != one]:
        return None
    rest = iter(entries)
    return tuple([anf.ZERO if s == one else next(rest)[0] for s in under])
