"""Checks that a program of the loop-nest IR is well formed, as every back end relies on.

Each variable and buffer is bound once, and used where it is in scope; operands and results have the dtypes that a
statement asks for; what control carries and what a call hands over fits. Memory: a buffer is made before it is used,
belongs to the block that made it or that it was handed to, and is freed or handed on once on every path, and not used
after that. A piece of a loop uses nothing from outside but what it captures. A violation is a defect of the compiler:
an `IRError` with the statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from dlang.codegen import loops
from dlang.codegen.instructions import width
from dlang.codegen.printing import head_of
from dlang.codegen.traverse import binds_inside, blocks, bound_by, operands, sizes, walk
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var, fresh, is_handle, is_reference
from dlang.ir.errors import IRError
from dlang.ir.rules import primitive_dtype
from dlang.ir.scope import is_literal
from dlang.ir.types import BOOL, I64
from dlang.ops.monoids import MONOIDS, STAYS

_FLAG = fresh("flag", BOOL)


def verify_loops(
    program: loops.Program, maker: str = "scheduling", since: loops.Program | None = None, repeats: bool = False
) -> loops.Program:
    """The program, if every function of it is well formed; else an IRError says who made it. since: what it was made
    of, verified; a function of that is not looked at again. repeats: whether a loop may stand there twice."""
    for name, function in program.functions.items():
        if since is not None and since.functions.get(name) is function:
            continue
        if function.name != name:
            raise IRError(f"the function {function.name} is filed as {name}")
        try:
            _Verifier(program, repeats=repeats or function.device).function(function)
        except IRError as error:
            raise IRError(f"{maker} made an ill-formed program: in {name}: {error}") from None
    return program


@dataclass(slots=True)
class _Verifier:
    """visible: what is in scope. bound: every slot so far on this path. owned: the buffers that the block under way has
    to free, or to hand on. gone: those that were. wholes: the buffers of which one may be a part, if it is none itself.
    repeats: whether what does not see a number may compute it again, as the host of a device does.
    """

    program: loops.Program
    visible: set[loops.Slot] = field(default_factory=set)
    bound: set[loops.Slot] = field(default_factory=set)
    owned: set[loops.Buffer] = field(default_factory=set)
    gone: set[loops.Buffer] = field(default_factory=set)
    wholes: dict[loops.Buffer, frozenset[loops.Buffer]] = field(default_factory=dict)
    repeats: bool = False

    def function(self, f: loops.Function) -> None:
        self.bind((*f.params, *[out.buffer for out in f.outs]))
        for out in f.outs:
            self.sizes(out.shape)
        if f.extents and len(f.extents) != len(f.params):
            raise IRError(f"there are {len(f.extents)} extents of {len(f.params)} parameters")
        for entry in f.order:
            if entry is not None and not 0 <= entry[1] < len(f.outs if entry[0] == "out" else f.body.results):
                raise IRError(f"there is no {entry[0]} {entry[1]}")
        with self.block(()):
            self.statements(f.body.stmts)
            self.hand_on(f.body.results)

    # ---- scopes ------------------------------------------------------------------------------------------------------
    def bind(self, slots: Iterable[loops.Slot], owned: bool = False) -> None:
        """Slots in scope from here on. owned: the block under way has to free the buffers among them."""
        for slot in slots:
            if slot in self.visible or (slot in self.bound and not self.repeats):
                raise IRError(f"{slot!r} is bound twice")
            if isinstance(slot, Var) and not isinstance(slot.type, Scalar):
                raise IRError(f"{slot!r} is neither a scalar nor a buffer")
            self.bound.add(slot)
            self.visible.add(slot)
            if isinstance(slot, loops.Buffer):
                self.gone.discard(slot)  # another one, of a loop that stands there twice
                if owned:
                    self.owned.add(slot)

    def value(self, value: loops.Value) -> str:
        """A value that can be used here; gives its dtype."""
        if isinstance(value, Lit):
            if not is_literal(value):
                raise IRError(f"{value!r} is no literal of its dtype")
            return value.dtype
        if value not in self.visible:
            raise IRError(f"{value!r} is not in scope")
        if isinstance(value, loops.Buffer):
            if not self.gone.isdisjoint(self.wholes_of(value)):
                raise IRError(f"{value!r} is used after it was freed or handed on")
            return value.dtype
        assert isinstance(value.type, Scalar)
        return value.type.dtype

    def values(self, values: Iterable[loops.Value]) -> None:
        for value in values:
            self.value(value)

    def of(self, value: loops.Value, dtype: str) -> None:
        """A scalar of a dtype."""
        if _dtype(value) != dtype:
            raise IRError(f"{value!r} is {_dtype(value)}, not {dtype}")

    def elements(self, buffer: loops.Buffer, dtype: str | None = None) -> str:
        """The dtype of the elements of a buffer, which is the one that is asked for."""
        if not isinstance(buffer, loops.Buffer):
            raise IRError(f"{buffer!r} is no buffer")
        if dtype is not None and buffer.dtype != dtype:
            raise IRError(f"{buffer!r} has elements of {buffer.dtype}, not {dtype}")
        return buffer.dtype

    def sizes(self, sizes: Iterable[Size]) -> None:
        for size in sizes:
            for var in size.atoms():
                self.value(var)
                self.of(var, "i64")

    def matrix(self, matrix: loops.Matrix | loops.Scattered | loops.Panels) -> str:
        if isinstance(matrix, loops.Scattered):
            self.elements(matrix.rows, "i64")
            self.elements(matrix.columns, "i64")
        return self.elements(matrix.buffer)

    def fits(self, slots: Sequence[loops.Slot], values: Sequence[loops.Value], what: str) -> None:
        """Values that become slots: as many, each a scalar or a buffer as its slot is, of one dtype with it."""
        if len(slots) != len(values):
            raise IRError(f"{what}: {len(values)} for {len(slots)}")
        for slot, value in zip(slots, values, strict=True):
            if isinstance(slot, loops.Buffer) != isinstance(value, loops.Buffer) or _dtype(slot) != _dtype(value):
                raise IRError(f"{what}: {value!r} for {slot!r}")

    def hand_on(self, values: Iterable[loops.Value]) -> None:
        """Buffers among values are somebody else's from here on."""
        for value in values:
            self.value(value)
            if isinstance(value, loops.Buffer):
                self.release(value, "handed on")

    def release(self, buffer: loops.Buffer, how: str) -> None:
        if buffer not in self.owned:
            raise IRError(f"{buffer!r} is {how} by a block that does not own it")
        self.owned.discard(buffer)
        self.gone.add(buffer)

    def wholes_of(self, buffer: loops.Buffer) -> frozenset[loops.Buffer]:
        return self.wholes.get(buffer) or frozenset((buffer,))

    # ---- blocks ------------------------------------------------------------------------------------------------------
    def statements(self, stmts: Iterable[loops.Stmt]) -> None:
        for stmt in stmts:
            try:
                self.statement(stmt)
            except IRError as error:
                if "\n" in str(error):
                    raise
                raise IRError(f"{error}\n{head_of(stmt)}") from None

    @contextmanager
    def block(self, binds: Iterable[loops.Slot], owned: Iterable[loops.Slot] = ()) -> Iterator[None]:
        """A block, which binds slots of its own and frees or hands on what it owns; it owns nothing from outside."""
        visible, outer = set(self.visible), self.owned
        self.owned = set()
        self.bind(binds)
        self.bind(owned, owned=True)
        yield
        for buffer in self.owned:
            raise IRError(f"{buffer!r} is neither freed nor handed on")
        self.visible, self.owned = visible, outer

    def iterations(
        self, stmts: Sequence[loops.Stmt], bound: Sequence[loops.Slot], reductions: Sequence[loops.Reduction]
    ) -> None:
        """Statements of independent iterations, and the values that they give to reductions."""
        with self.block(bound):
            self.statements(stmts)
            for r in reductions:
                self.reduction(r)
        self.bind([slot for r in reductions for slot in (r.result, r.position) if slot is not None])

    def reduction(self, r: loops.Reduction) -> None:
        dtype = self.value(r.value)
        if r.monoid not in MONOIDS:
            raise IRError(f"there is no monoid {r.monoid}")
        positional = r.position is not None
        if (r.rank is None) == positional or positional != (r.monoid in STAYS) or (r.ascending and not positional):
            raise IRError(f"a position for `{r.monoid}`")
        if r.rank is not None:
            self.value(r.rank)
            self.of(r.rank, "i64")
        if _dtype(r.result) != dtype or (r.position is not None and r.position.type != I64):
            raise IRError(f"{r.result!r} is not of the dtype of {r.value!r}")

    # ---- statements --------------------------------------------------------------------------------------------------
    def statement(self, stmt: loops.Stmt) -> None:
        if isinstance(stmt, loops.OnDevice):
            self.statement(stmt.stmt)
            return
        self.values(operands(stmt))
        self.sizes(sizes(stmt))
        match stmt:
            case loops.For(index=index):
                self.carried(stmt, (index,))
            case loops.While():
                self.carried(stmt, ())
            case loops.Branch(condition, then, otherwise, results):
                self.of(condition, "bool")
                self.branch(then, otherwise, results)
            case loops.Loop():
                if stmt.var.type != I64 or not stmt.lows or not stmt.highs or stmt.lanes < 1:
                    raise IRError(f"{stmt.var!r} is no variable of a loop, or has no bounds")
                if stmt.lanes > 1 and any(isinstance(s, loops.Parallel) for s in walk(stmt.stmts)):
                    raise IRError(f"the lanes of the loop over {stmt.var!r} have pieces inside")
                self.iterations(stmt.stmts, (stmt.var, *[s.buffer for s in stmt.scratch]), stmt.reductions)
            case loops.Parallel():
                self.parallel(stmt)
            case loops.OnHost():
                self.on_host(stmt)
            case _:
                self.rule(stmt)
                for block in blocks(stmt):
                    with self.block(binds_inside(stmt)):
                        self.statements(block)
                self.bind(bound_by(stmt), owned=isinstance(stmt, loops.Allocate | loops.Runtime | loops.Invoke))

    def rule(self, stmt: loops.Stmt) -> None:
        """Checks the rules of a statement beside the scopes of its operands."""
        match stmt:
            case loops.Compute(var, name, args):
                self.of(var, primitive_dtype(name, tuple(map(_dtype, args))))
            case loops.Evaluate(var) | loops.FirstLane(var) | loops.Pieces(var) | loops.Mark(var):
                self.of(var, "i64")
            case loops.Load(var, buffer) | loops.Fetch(var, buffer):
                self.of(var, self.elements(buffer))
            case loops.Store(buffer, _, value, monoid):
                self.of(value, self.elements(buffer))
                if monoid not in MONOIDS or monoid in STAYS:
                    raise IRError(f"{monoid} is not how a value is combined with an element")
            case loops.Move(target, source) | loops.Transfer(target, source):
                self.elements(target, self.elements(source))
                if target is source:
                    raise IRError(f"{target!r} is copied to itself")
            case loops.Slice(result, source):
                if width(result.dtype) != width(self.elements(source)):  # their bits may be read as another dtype's
                    raise IRError(f"{result!r} has elements of another width than {source!r}")
                self.wholes[result] = self.wholes_of(source)
            case loops.Free(buffer):
                self.elements(buffer)
                self.release(buffer, "freed")
            case loops.Assert(condition, _, parts, values):
                self.of(condition, "bool")
                if len(parts) != 2 * len(values) + 1:
                    raise IRError(f"{len(parts)} parts of text for {len(values)} values")
            case loops.TextOp(var, name, texts):
                for text in texts:
                    self.of(text, "str")
                self.of(var, "str" if name in ("join", "flat") else primitive_dtype(name, ("str", "str")))
            case loops.Invoke():
                self.invoke(stmt)
            case loops.Pack(target, source):
                self.matrix(source)
                self.matrix(target)
            case loops.Product():
                self.product(stmt)
            case loops.Launch(kernel, iterations, _, _, block):
                if not 0 <= kernel < len(self.program.kernels):
                    raise IRError(f"there is no kernel {kernel}")
                self.of(iterations, "i64")
                if block is not None:
                    self.of(block, "i64")
            case loops.Only(condition):
                self.of(condition, "bool")
            case loops.LoadTag(var, node):
                self.node(node)
                self.of(var, "i64")
            case loops.LoadField(_, node):
                self.node(node)  # whose an array is
            case loops.Release(mark):
                self.of(mark, "i64")
            case loops.Collect(mark, trigger, handles, _, results):
                self.of(mark, "i64")
                self.of(trigger, "i64")
                self.fits(results, handles, "what is moved")
                for handle in handles:
                    if not is_reference(_dtype(handle)):
                        raise IRError(f"{handle!r} is no reference")
            case loops.Enter(nest) | loops.Leave(nest):
                if not 0 <= nest < len(self.program.nests):
                    raise IRError(f"there is no nest {nest}")
            case loops.Count(nest):
                self.of(nest, "i64")
            case _:
                pass

    def carried(self, loop: loops.InOrder, index: tuple[Var, ...]) -> None:
        """A loop in order. The buffers of its state are handed on from iteration to iteration, or point to what no
        iteration owns."""
        self.fits(loop.params, loop.init, "the first state")
        self.fits(loop.params, loop.following, "the next state")
        self.fits(loop.params, loop.results, "the last state")
        if loop.early and (not loop.body.results or _dtype(loop.body.results[0]) != "bool"):
            raise IRError("a loop that may end early gives a bool first")
        pointers = [v for v in loop.init if isinstance(v, loops.Buffer)]
        if self.owned.issuperset(pointers):
            pointers = []
        owned = [isinstance(value, loops.Buffer) and value not in pointers for value in loop.init]
        wholes = frozenset([whole for pointer in pointers for whole in self.wholes_of(pointer)])
        for value, is_owned in zip(loop.init, owned, strict=True):
            self.hand_on((value,)) if is_owned else self.value(value)
        for slots in (loop.params, loop.results):
            self.wholes.update(
                (v, wholes)
                for v, is_owned in zip(slots, owned, strict=True)
                if isinstance(v, loops.Buffer) and not is_owned
            )
        if isinstance(loop, loops.While):
            with self.block(loop.params):
                self.statements(loop.condition.stmts)
                self.fits((_FLAG,), loop.condition.results, "a condition")
                self.values(loop.condition.results)
            self.bound.difference_update(loop.params)
        mine = [param for param, is_owned in zip(loop.params, owned, strict=True) if is_owned]
        with self.block((*index, *[param for param in loop.params if param not in mine]), mine):
            self.statements(loop.body.stmts)
            for value, is_owned in zip(loop.body.results, [False, *owned] if loop.early else owned, strict=True):
                if is_owned:
                    self.hand_on((value,))
                    continue
                self.value(value)
                if isinstance(value, loops.Buffer) and not self.wholes_of(value) <= wholes:
                    raise IRError(f"{value!r} is not of the buffers that the loop was handed")
        for slot, is_owned in zip(loop.results, owned, strict=True):
            self.bind((slot,), owned=is_owned)

    def branch(self, then: loops.Body, otherwise: loops.Body, results: Sequence[loops.Slot]) -> None:
        """Two arms. A buffer among the results is one that belongs to either arm, or points to what neither owns."""
        before = set(self.bound)
        handed: list[list[bool]] = []
        for arm in (then, otherwise):
            self.fits(results, arm.results, "what an arm gives")
            after, self.bound = self.bound, set(before)
            with self.block(()):
                self.statements(arm.stmts)
                handed.append([value in self.owned for value in arm.results])
                for value, is_owned in zip(arm.results, handed[-1], strict=True):
                    self.hand_on((value,)) if is_owned else self.value(value)
            self.bound |= after
        for k, slot in enumerate(results):
            one, other = then.results[k], otherwise.results[k]
            if handed[0][k] != handed[1][k]:
                raise IRError(f"{slot!r} belongs to one arm alone, as {one!r} or {other!r}")
            self.bind((slot,), owned=handed[0][k])
            if not handed[0][k] and isinstance(one, loops.Buffer) and isinstance(other, loops.Buffer):
                assert isinstance(slot, loops.Buffer)
                self.wholes[slot] = self.wholes_of(one) | self.wholes_of(other)

    def parallel(self, stmt: loops.Parallel) -> None:
        """Pieces of a loop: each a function of its own, which sees what it captures."""
        self.of(stmt.length, "i64")
        for p in stmt.partials:
            if p.own.dtype != self.elements(p.whole):
                raise IRError(f"{p.own!r} is of another dtype than {p.whole!r}")
        around, self.visible = self.visible, set(stmt.captures)
        bound: list[loops.Slot] = [stmt.number, stmt.first, stmt.last, *[p.own for p in stmt.partials]]
        with self.block(bound):
            self.statements(stmt.stmts)
            for r in stmt.reductions:
                self.reduction(r)
        self.visible = around
        self.bind([slot for r in stmt.reductions for slot in (r.result, r.position) if slot is not None])

    def on_host(self, stmt: loops.OnHost) -> None:
        """Checks the statements of the host, in which copies have the names of the arrays."""
        for buffer, copy in stmt.held:
            self.elements(copy, self.elements(buffer))
        if not set(stmt.changed) <= set(stmt.arrays):
            raise IRError("an array is changed and not looked at")
        if not stmt.still <= set(stmt.arrays) - set(stmt.changed):
            raise IRError("an array that is held is changed, or not looked at")
        for buffer, _ in stmt.parts:
            if buffer not in stmt.arrays or buffer in stmt.still:
                raise IRError("a part is copied of an array that is not looked at, or held")
        self.statements(stmt.stmts)
        self.values(stmt.made)

    def invoke(self, stmt: loops.Invoke) -> None:
        callee = self.program.functions.get(stmt.function)
        if callee is None:
            raise IRError(f"there is no function {stmt.function}")
        self.fits(callee.params, stmt.args, "the arguments")
        self.fits([out.buffer for out in callee.outs], stmt.outs, "the destinations")
        self.fits(stmt.results, callee.body.results, "the results")

    def product(self, stmt: loops.Product) -> None:
        if self.matrix(stmt.a) != self.matrix(stmt.b):
            raise IRError("the factors are of different dtypes")
        self.matrix(stmt.c)
        if stmt.c.transposed:
            raise IRError("a product is not made transposed")
        if stmt.workspace is not None:
            self.elements(stmt.workspace)
        if stmt.followed is not None:
            self.of(stmt.followed, "bool")

    def node(self, node: Atom) -> None:
        if not is_handle(_dtype(node)):
            raise IRError(f"{node!r} is no handle")


def _dtype(value: loops.Value) -> str:
    """The dtype of a scalar, or of the elements of a buffer."""
    if isinstance(value, loops.Buffer):
        return value.dtype
    assert isinstance(value.type, Scalar)
    return value.type.dtype
