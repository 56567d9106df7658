"""Scheduling: a program of the core IR to the loop-nest IR.

One walk over each function decides where every array lives and turns operations on arrays into loops; `memory` keeps
the books, `nests` schedules comprehensions and `products` contractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from dlang.codegen.loops import (
    Allocate,
    ArrayValue,
    Body,
    Branch,
    Buffer,
    Compute,
    Convert,
    Evaluate,
    For,
    Free,
    Function,
    Guard,
    Invoke,
    Load,
    Loop,
    Move,
    Operand,
    Program,
    Reduction,
    Runtime,
    Slice,
    Slot,
    Stmt,
    Store,
    Value,
    While,
)
from dlang.codegen.memory import I64, ZERO, Chains, Frame, Memory, Place, fresh_axes, last_uses, product, whole
from dlang.codegen.vectorize import Lanes
from dlang.diagnostics import Span, error
from dlang.ir import anf
from dlang.ir.anf import FLOATS, Array, Atom, Block, Let, Lit, Scalar, Size, Token, Var, fresh, poly
from dlang.ir.traverse import free_vars, walk

UNSUPPORTED = "E0901"


class Owned:
    """Stands for a destination: the result is handed over with the buffer that it fills."""


OWNED = Owned()
Wanted = Place | Owned | None


def schedule(program: anf.Program, lanes: Lanes | None = None) -> Program:
    """The loop nests of a program; `lanes` decides how many trips of a loop go at once (default: one)."""
    recursive = recursive_functions(program)
    out = {}
    for name, function in program.functions.items():
        out[name] = Scheduler(program, lanes or Lanes(0)).function(function, name in recursive)
    return Program(out)


def recursive_functions(program: anf.Program) -> set[str]:
    """The functions that can reach themselves: those in cycles of the call graph (Tarjan's components)."""
    calls = {
        name: sorted({let.op.function for let in walk(f.body) if isinstance(let.op, anf.Call)})
        for name, f in program.functions.items()
    }
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    out: set[str] = set()

    for start in calls:
        if start in index:
            continue
        work: list[tuple[str, Iterator[str]]] = [(start, iter(calls[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            name, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    work.append((successor, iter(calls[successor])))
                    break
                if successor in stack:
                    low[name] = min(low[name], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    component = stack[stack.index(name) :]
                    del stack[stack.index(name) :]
                    if len(component) > 1 or name in calls[name]:
                        out.update(component)
    return out


def destination_known(function: anf.Function, position: int) -> bool:
    """Whether a result is an array whose sizes the parameters determine, so that the caller provides its memory."""
    type = function.results[position].type
    return isinstance(type, Array) and not any(s.mentions(function.results) for s in type.shape)


def scalar_type(atom: Atom) -> str:
    """The dtype of a scalar."""
    assert isinstance(atom.type, Scalar)
    return atom.type.dtype


@dataclass(slots=True)
class Scheduler:
    """The walk over one function. `out` collects the statements of the innermost open body."""

    program: anf.Program
    lanes: Lanes
    memory: Memory = field(default_factory=Memory)
    chains: Chains = field(default_factory=Chains)
    wanted: dict[Var, Place] = field(default_factory=dict)
    out: list[Stmt] = field(default_factory=list)

    # ---- functions ---------------------------------------------------------------------------------------------------
    def function(self, f: anf.Function, recursive: bool) -> Function:
        for let in walk(f.body):
            for var in let.vars:
                refuse_dtype(var.type, let.span)
        self.chains.add(f.body)
        params: list[Slot] = []
        for param in f.params:
            refuse_dtype(param.type, f.span)
            match param.type:
                case Array(dtype, shape):
                    buffer = Buffer(param.name, dtype)
                    self.memory.settle(param, whole(buffer, shape))
                    params.append(buffer)
                case Scalar():
                    params.append(param)
        outs: list[ArrayValue] = []
        order: list[tuple[str, int] | None] = []
        wanted: list[Wanted] = []
        kept = 0
        for position, formal in enumerate(f.results):
            match formal.type:
                case Array(dtype, shape) if destination_known(f, position):
                    buffer = Buffer(formal.name, dtype)
                    self.memory.writable.add(buffer)
                    order.append(("out", len(outs)))
                    outs.append(ArrayValue(buffer, shape))
                    wanted.append(whole(buffer, shape))
                case Token():
                    order.append(None)
                    wanted.append(None)
                case type:
                    order.append(("result", kept))
                    kept += 1
                    wanted.append(OWNED if isinstance(type, Array) else None)
        body = self.block(f.body, wanted, Frame(last_uses(f.body)))
        return Function(f.name, tuple(params), tuple(outs), body, tuple(order), recursive, f.label or f.name, f.span)

    # ---- blocks ------------------------------------------------------------------------------------------------------
    @contextmanager
    def collect(self) -> Iterator[list[Stmt]]:
        """Statements go to a new list inside."""
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    def block(self, block: Block, wanted: Sequence[Wanted], frame: Frame) -> Body:
        """A block; arrays among its results end up where `wanted` says. What was given a place is left out."""
        with self.collect() as stmts:
            results = self.inline(block, wanted, frame)
        return Body(tuple(stmts), results)

    def inline(self, block: Block, wanted: Sequence[Wanted], frame: Frame) -> tuple[Value, ...]:
        """The statements of a block, into the innermost open body."""
        level = len(self.memory.frames)
        self._direct(block, wanted, level)
        self.memory.frames.append(frame)
        for position, let in enumerate(block.lets):
            frame.position = position
            self.let(let, level)
            for buffer in self.memory.dead():
                self.out.append(Free(buffer))
        frame.position = len(block.lets)
        results = self._results(block, wanted, frame)
        self.memory.frames.pop()
        return results

    def _direct(self, block: Block, wanted: Sequence[Wanted], level: int) -> None:
        """Lets the let that makes a result, or the array that it grows from, write where the result is wanted."""
        bound = {var for let in block.lets for var in let.vars}
        direct: list[tuple[Atom, Place]] = []
        for result, place in zip(block.results, wanted, strict=True):
            if isinstance(place, Place) and isinstance(result, Var) and result in bound:
                if result not in self.wanted:
                    self.wanted[result] = place
                    direct.append((self.chains.root(result, level), place))
        for root, place in direct:
            if isinstance(root, Var) and root in bound and root not in self.wanted:
                self.wanted[root] = place

    def _results(self, block: Block, wanted: Sequence[Wanted], frame: Frame) -> tuple[Value, ...]:
        copies: list[tuple[Place, Place]] = []
        results: list[Value] = []
        handed: set[Buffer] = set()
        for atom, want in zip(block.results, wanted, strict=True):
            if isinstance(atom.type, Scalar):
                results.append(atom)
            elif isinstance(atom.type, Array):
                assert isinstance(atom, Var)
                place = self.memory.places[atom]
                if isinstance(want, Place):
                    if not (place.buffer is want.buffer and place.whole):
                        copies.append((place, want))
                elif place.whole and place.buffer in frame.owned and place.buffer not in handed:
                    handed.add(place.buffer)
                    results.append(place.buffer)
                else:
                    buffer = self.allocate(atom.name, atom.type, own=False)
                    copies.append((place, whole(buffer, place.shape)))
                    results.append(buffer)
        self._parallel_copies(copies)
        for buffer in frame.owned:
            if buffer not in handed:
                self.out.append(Free(buffer))
        return tuple(results)

    def _parallel_copies(self, copies: list[tuple[Place, Place]]) -> None:
        """All copies as if at once: none overwrites what another has yet to read."""
        while copies:
            free = [t for t in copies if not any(s.buffer is t[1].buffer for s, _ in copies if s is not t[0])]
            source, target = chosen = free[0] if free else copies[0]
            copies = [pair for pair in copies if pair is not chosen]
            if not free:  # a cycle: what the target holds is still to be read
                kept = self._spare(target)
                copies = [(kept if s.buffer is target.buffer else s, t) for s, t in copies]
            self.copy(source, target)

    def _spare(self, place: Place) -> Place:
        buffer = self.allocate("spare", Array(place.buffer.dtype, place.shape))
        spare = whole(buffer, place.shape)
        self.copy(place, spare)
        return spare

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def allocate(self, name: str, type: Array, own: bool = True, extra: int = 0) -> Buffer:
        """Room for an array, freed by the innermost block if it is to own it."""
        buffer = Buffer(name, type.dtype)
        self.out.append(Allocate(buffer, type.shape, extra))
        self.memory.writable.add(buffer)
        if own:
            self.memory.frames[-1].owned[buffer] = None
        return buffer

    def target(self, var: Var) -> Place:
        """Where a new array is to be written: where it is wanted, or in a buffer of its own."""
        assert isinstance(var.type, Array)
        place = self.wanted.pop(var, None)
        if place is None:
            place = whole(self.allocate(var.name, var.type), var.type.shape)
        self.memory.settle(var, place)
        return place

    def place(self, array: Var) -> Place:
        return self.memory.places[array]

    def in_a_row(self, array: Var) -> Place:
        """The place of an array, or of a copy, whose elements lie in a row."""
        place = self.place(array)
        return place if place.start is not None else self._spare(place)

    def pointer(self, array: Var) -> Buffer:
        """A buffer that begins with the elements of an array, in order."""
        return self.address(self.in_a_row(array))

    def address(self, place: Place) -> Buffer:
        """A buffer that begins with the first element of a place in a row."""
        assert place.start is not None
        return self.slice(place.buffer, place.start)

    def slice(self, buffer: Buffer, offset: Size) -> Buffer:
        """The buffer from an element on."""
        if not offset.terms:
            return buffer
        part = Buffer(buffer.name, buffer.dtype)
        self.out.append(Slice(part, buffer, offset))
        return part

    def value(self, atom: Atom) -> Value | None:
        """A scalar or the pointer of an array; None for a token."""
        if isinstance(atom.type, Token):
            return None
        if isinstance(atom.type, Array):
            assert isinstance(atom, Var)
            return self.pointer(atom)
        return atom

    def operands(self, atoms: Iterable[Atom]) -> tuple[Operand, ...]:
        """Values for the host."""
        out: list[Operand] = []
        for atom in atoms:
            if isinstance(atom.type, Array):
                assert isinstance(atom, Var)
                out.append(ArrayValue(self.pointer(atom), atom.type.shape))
            elif isinstance(atom.type, Scalar):
                out.append(atom)
        return tuple(out)

    # ---- loops -------------------------------------------------------------------------------------------------------
    def loop(
        self,
        var: Var,
        lows: tuple[Size, ...],
        highs: tuple[Size, ...],
        stmts: Sequence[Stmt],
        reductions: Sequence[Reduction] = (),
    ) -> None:
        """Emits a loop of independent trips."""
        self.out.append(self.lanes.chosen(Loop(var, lows, highs, tuple(stmts), tuple(reductions))))

    def nest(self, axes: Sequence[Var], shape: Sequence[Size], stmts: Sequence[Stmt]) -> None:
        """Emits loops over a whole shape."""
        for axis, size in zip(reversed(axes), reversed(shape), strict=True):
            with self.collect() as outer:
                self.loop(axis, (ZERO,), (size,), stmts)
            stmts = outer
        self.out.extend(stmts)

    def copy(self, source: Place, target: Place) -> None:
        """Copies an array."""
        if source.start is not None and target.start is not None:
            count = product(source.shape)
            self.out.append(Move(self.address(target), self.address(source), count))
            return
        axes = fresh_axes(len(source.shape))
        index = tuple(poly(a) for a in axes)
        x = fresh("x", Scalar(source.buffer.dtype))
        stmts: list[Stmt] = [
            Load(x, source.buffer, source.at(index)),
            Store(target.buffer, target.at(index), x),
        ]
        self.nest(axes, source.shape, stmts)

    def fill(self, place: Place, value: Lit) -> None:
        """Sets every element of an array in a row."""
        (axis,) = fresh_axes(1)
        assert place.start is not None
        stmts = [Store(place.buffer, poly(axis) + place.start, value)]
        self.nest((axis,), (product(place.shape),), stmts)

    # ---- operations --------------------------------------------------------------------------------------------------
    def let(self, let: Let, level: int) -> None:
        from dlang.codegen.nests import comprehension
        from dlang.codegen.products import contraction

        op, vars = let.op, let.vars
        match op:
            case anf.Prim(name, args):
                self.out.append(Compute(vars[0], name, args))
            case anf.Cast(_, arg):
                self.out.append(Convert(vars[0], arg))
            case anf.SizeOf(size):
                self.out.append(Evaluate(vars[0], size))
            case anf.Read(array, index):
                place = self.place(array)
                self.out.append(Load(vars[0], place.buffer, place.at(index)))
            case anf.Stop(arg):
                self.alias(vars[0], arg)
            case anf.Check():
                if op.condition != Lit(True, "bool"):
                    self.out.append(Guard(op.condition, op.code, op.parts, self.operands(op.values), let.span))
                for var, subject in zip(vars, op.subjects, strict=True):
                    self.alias(var, subject)
            case anf.Format(parts, args):
                self.out.append(Runtime("format", parts, self.operands(args), (), vars, let.span))
            case anf.Effect():
                self.effect(let, op)
            case anf.View(array, axes, shape, index):
                self.memory.settle(vars[0], self.place(array).seen_through(axes, shape, index))
            case anf.Reshape(array, shape):
                self.memory.settle(vars[0], self.in_a_row(array).reshaped(shape))
            case anf.Comp():
                comprehension(self, op, vars)
            case anf.Update(array, index, scalar):
                place = self.continued(vars[0], array)
                self.out.append(Store(place.buffer, place.at(index), scalar))
            case anf.Copy(array):
                self.copy(self.place(array), self.target(vars[0]))
            case anf.Scan(monoid, array):
                self.scan(monoid, self.place(array), self.target(vars[0]))
            case anf.Concat(arrays):
                self.concat(arrays, self.target(vars[0]))
            case anf.Compact(mask):
                self.compact(self.place(mask), vars)
            case anf.Contract():
                contraction(self, op, vars[0])
            case anf.Library(name, args):
                target = self.target(vars[0])
                out = ArrayValue(self.address(target), target.shape)
                self.out.append(Runtime(name, (), self.operands(args), (out,), (), let.span))
            case anf.Call():
                self.call(op, vars, let.span)
            case anf.If():
                self.branch(op, vars)
            case anf.For() | anf.While():
                self.repeat(op, vars, level)
            case anf.Vjp() | anf.Jvp():
                raise AssertionError("derivatives are expanded before scheduling")

    def alias(self, var: Var, atom: Atom) -> None:
        """Another name for a value."""
        if isinstance(atom.type, Array):
            assert isinstance(atom, Var) and isinstance(var.type, Array)
            place = self.place(atom)
            self.memory.settle(var, Place(place.buffer, var.type.shape, place.axes, place.offset, place.start))
        elif isinstance(atom.type, Scalar):
            self.out.append(Convert(var, atom))

    def continued(self, var: Var, array: Var) -> Place:
        """The place of an array that is about to be changed into `var`: its own, or that of a copy."""
        place = self.memory.consumable(array)
        wanted = self.wanted.get(var)
        if place is not None and (wanted is None or wanted.buffer is place.buffer):
            self.wanted.pop(var, None)
            self.memory.settle(var, place)
            return place
        target = self.target(var)
        self.copy(self.place(array), target)
        return target

    def effect(self, let: Let, op: anf.Effect) -> None:
        results: list[Slot] = []
        for var in let.vars[1:]:
            if isinstance(var.type, Array):
                self.own_result(var, results)
            else:
                results.append(var)
        self.out.append(Runtime(op.name, op.static, self.operands(op.args), (), tuple(results), let.span))

    def own_result(self, var: Var, results: list[Slot]) -> None:
        """A result handed over with its buffer, which the innermost block then owns."""
        assert isinstance(var.type, Array)
        buffer = Buffer(var.name, var.type.dtype)
        self.memory.writable.add(buffer)
        self.memory.frames[-1].owned[buffer] = None
        self.memory.settle(var, whole(buffer, var.type.shape))
        results.append(buffer)

    def scan(self, monoid: str, source: Place, target: Place) -> None:
        dtype = source.buffer.dtype
        index, total = fresh("i", I64), fresh("total", Scalar(dtype))
        x, value, last = (fresh(name, Scalar(dtype)) for name in ("x", "total", "total"))
        stmts: tuple[Stmt, ...] = (
            Load(x, source.buffer, source.at((poly(index),))),
            Compute(value, "add" if monoid == "sum" else "mul", (total, x)),
            Store(target.buffer, target.at((poly(index),)), value),
        )
        init = Lit((0.0 if dtype in FLOATS else 0) + (monoid == "prod"), dtype)
        self.out.append(For(index, ZERO, source.shape[0], (total,), (init,), Body(stmts, (value,)), (last,)))

    def concat(self, arrays: Sequence[Var], target: Place) -> None:
        start = ZERO
        row = product(target.shape[1:])
        assert target.start is not None
        for array in arrays:
            place = self.place(array)
            self.copy(place, Place(target.buffer, place.shape, (), ZERO, target.start + start * row))
            start = start + place.shape[0]

    def compact(self, mask: Place, vars: Sequence[Var]) -> None:
        count, positions = vars
        i, j, at, following, last = (fresh(name, I64) for name in ("i", "j", "at", "at", "at"))
        flag, other = fresh("flag", Scalar("bool")), fresh("flag", Scalar("bool"))
        one, step = fresh("one", I64), fresh("one", I64)
        size = mask.shape[0]
        self.loop(
            i,
            (ZERO,),
            (size,),
            [Load(flag, mask.buffer, mask.at((poly(i),))), Convert(one, flag)],
            [Reduction("sum", count, one)],
        )
        # each position is written to the next free element, where the following one replaces it unless the flag is set
        buffer = self.allocate("positions", Array("i64", (poly(count),)), extra=1)
        stmts: tuple[Stmt, ...] = (
            Load(other, mask.buffer, mask.at((poly(j),))),
            Store(buffer, poly(at), j),
            Convert(step, other),
            Compute(following, "add", (at, step)),
        )
        self.out.append(For(j, ZERO, size, (at,), (Lit(0, "i64"),), Body(stmts, (following,)), (last,)))
        self.memory.settle(positions, whole(buffer, (poly(count),)))

    # ---- calls and control -------------------------------------------------------------------------------------------
    def call(self, op: anf.Call, vars: Sequence[Var], span: Span | None) -> None:
        function = self.program.functions[op.function]
        args = [v for a in op.args if (v := self.value(a)) is not None]
        outs: list[Buffer] = []
        results: list[Slot] = []
        for position, var in enumerate(vars):
            if isinstance(var.type, Token):
                continue
            if destination_known(function, position):
                outs.append(self.address(self.target(var)))
            elif isinstance(var.type, Array):
                self.own_result(var, results)
            else:
                results.append(var)
        self.out.append(Invoke(op.function, tuple(args), tuple(outs), tuple(results), span))

    def branch(self, op: anf.If, vars: Sequence[Var]) -> None:
        wanted: list[Wanted] = []
        results: list[Slot] = []
        taken: set[Buffer] = set()
        settled: list[tuple[Var, Place]] = []
        for var in vars:
            match var.type:
                case Array(shape=shape):
                    if any(s.mentions(vars) for s in shape):
                        self.own_result(var, results)
                        wanted.append(OWNED)
                        continue
                    place = self.wanted.pop(var, None)
                    old = self.chains.step.get(var)
                    if old is not None:
                        own = self.memory.consumable(old)
                        if (
                            own is not None
                            and own.buffer not in taken
                            and (place is None or place.buffer is own.buffer)
                        ):
                            place = own
                    if place is None:
                        place = whole(self.allocate(var.name, var.type), shape)
                    taken.add(place.buffer)
                    wanted.append(place)
                    settled.append((var, place))
                case Scalar():
                    results.append(var)
                    wanted.append(None)
                case Token():
                    wanted.append(None)
        then = self.block(op.then, wanted, Frame(last_uses(op.then)))
        otherwise = self.block(op.otherwise, wanted, Frame(last_uses(op.otherwise)))
        for var, place in settled:
            self.memory.settle(var, place)
        self.out.append(Branch(op.condition, then, otherwise, tuple(results)))

    def repeat(self, op: anf.For | anf.While, vars: Sequence[Var], level: int) -> None:
        repeated = self._mentioned_inside(op)
        params: list[Slot] = []
        init: list[Value] = []
        results: list[Slot] = []
        wanted: list[Wanted] = [None] * op.early
        owned: dict[Buffer, None] = {}
        settled: list[tuple[Var, Place]] = []
        taken: set[Buffer] = set()
        values = op.body.results[op.early :]
        for var, param, first, value in zip(vars, op.params, op.init, values, strict=True):
            match param.type:
                case Array(dtype, shape):
                    assert isinstance(first, Var) and isinstance(first.type, Array)
                    if self.chains.root(value, level + 1) is param:
                        place = self._state(var, first, repeated, taken)
                        self.memory.settle(param, place)
                        settled.append((var, place))
                        wanted.append(place)
                        continue
                    init.append(self._handed(first, repeated, taken))
                    buffer = Buffer(param.name, dtype)
                    self.memory.writable.add(buffer)
                    self.memory.settle(param, whole(buffer, shape))
                    owned[buffer] = None
                    params.append(buffer)
                    wanted.append(OWNED)
                    self.own_result(var, results)
                case Scalar():
                    params.append(param)
                    init.append(first)
                    results.append(var)
                    wanted.append(None)
                case Token():
                    wanted.append(None)
        slots = tuple(params), tuple(init)
        if isinstance(op, anf.While):
            pinned = Frame(last_uses(op.condition), pinned=True)
            condition = self.block(op.condition, [None] * len(op.condition.results), pinned)
        body = self.block(op.body, wanted, Frame(last_uses(op.body), repeated, owned=owned))
        for var, place in settled:
            self.memory.settle(var, place)
        if isinstance(op, anf.While):
            self.out.append(While(*slots, condition, body, tuple(results), op.early))
        else:
            self.out.append(For(op.index, op.low, op.high, *slots, body, tuple(results), op.early))

    def _mentioned_inside(self, op: anf.For | anf.While) -> frozenset[Var]:
        """What the blocks of a loop mention from outside."""
        inside = set(free_vars(op.body))
        if isinstance(op, anf.While):
            inside.update(free_vars(op.condition))
        return frozenset(inside.difference(op.params))

    def _free_to_take(self, array: Var, inside: frozenset[Var], taken: set[Buffer]) -> Place | None:
        place = self.memory.consumable(array)
        if place is None or place.buffer in taken:
            return None
        return None if any(v in inside for v in self.memory.holders[place.buffer]) else place

    def _state(self, var: Var, first: Var, inside: frozenset[Var], taken: set[Buffer]) -> Place:
        """Where an array that a loop updates in place lives; its first value is put there."""
        place = self._free_to_take(first, inside, taken)
        wanted = self.wanted.pop(var, None)
        if place is None or (wanted is not None and wanted.buffer is not place.buffer):
            assert isinstance(first.type, Array)
            if wanted is None:
                wanted = whole(self.allocate(var.name, first.type), first.type.shape)
            self.copy(self.place(first), wanted)
            place = wanted
        taken.add(place.buffer)
        return place

    def _handed(self, first: Var, inside: frozenset[Var], taken: set[Buffer]) -> Buffer:
        """The first value of an array that a loop makes anew in each trip, in a buffer that the loop then owns."""
        place = self._free_to_take(first, inside, taken)
        if place is not None and self.memory.disown(place.buffer):
            taken.add(place.buffer)
            return place.buffer
        assert isinstance(first.type, Array)
        buffer = self.allocate(first.name, first.type, own=False)
        self.copy(self.place(first), whole(buffer, first.type.shape))
        return buffer


def refuse_dtype(type: anf.Type, span: Span | None) -> None:
    """Half precision has no code on the CPU yet."""
    if not isinstance(type, Token) and type.dtype in ("f16", "bf16"):
        raise error(
            UNSUPPORTED,
            f"`{type.dtype}` is not supported on the CPU",
            span,
            help=("use `f32`: convert with `f32(x)`",),
        )
