"""The text of one function under way: names, blocks, values, and the loops that it is in.

What does not change in a loop is written in front of it at once: each value knows at what depth of loops it exists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from dlang.codegen import loops
from dlang.codegen.abi import Site
from dlang.codegen.llvm.assembly import Label, Line, Place, fused, joined
from dlang.codegen.llvm.scalars import Module, Scalars, constant, llvm_type
from dlang.codegen.loops import Buffer, Slot, Stmt, Value
from dlang.codegen.neighbours import Group, groups
from dlang.diagnostics import Span
from dlang.ir.anf import Atom, Lit, Var
from dlang.ir.types import dtype_of


@dataclass(slots=True)
class Scope:
    """A loop being written: what goes in front of it, and what of that can be used again."""

    pre: list[Line]
    memo: dict[object, str]
    conditional: int
    loads: bool  # whether it may read in front of the loop what stays the same over its iterations


@dataclass(slots=True)
class LaneContext:
    """A loop being written for several iterations at once. mask: which lanes are in use, if not all.

    vectors: what differs between lanes; depths: of loops, at which that exists.
    asks: whether it asks for what later iterations read (`accesses.py`).
    """

    var: Var
    width: int
    mask: str | None
    bail: str
    vectors: dict[Var, str]
    bailed: bool = False
    asks: bool = False
    depths: dict[Var, int] = field(default_factory=dict)


def slot_type(value: Value) -> str:
    """The LLVM type of what is passed, carried or bound."""
    return "ptr" if isinstance(value, Buffer) else llvm_type(dtype_of(value))


def _angles(stmts: Sequence[Stmt]) -> frozenset[Var]:
    """The variables of which statements compute both the sine and the cosine."""
    by_function: dict[str, set[Var]] = {"sin": set(), "cos": set()}
    for stmt in stmts:
        if isinstance(stmt, loops.Compute) and stmt.name in by_function and isinstance(stmt.args[0], Var):
            by_function[stmt.name].add(stmt.args[0])
    return frozenset(by_function["sin"] & by_function["cos"])


@dataclass(slots=True)
class Writer(ABC):
    """The function under way.

    function: its number among metadata, if instructions are to say where they come from; start: where the first
    do; span: where those now do. angles: of which the statements at hand compute both sine and cosine; turns: the one
    of these that is still to be bound. groups: of the statements at hand, which accesses go together, by the numbers of
    these; number: of the one that is being written; present: what of them has been loaded. roots: of slices, the
    addresses of the arrays that they are cut from; held: arrays that lie in an arena. taken: whether the code at hand
    is to take place, if it is predicated; spare: whether there are cells for accesses that do not. local: the arrays
    that lie on the stack; room: the names and bytes of those here.
    """

    module: Module
    program: loops.Program
    sites: list[Site]
    code: list[Line] = field(default_factory=list)
    cold: list[Line] = field(default_factory=list)
    values: dict[Slot, str] = field(default_factory=dict)
    depths: dict[Slot, int] = field(default_factory=dict)
    scopes: list[Scope] = field(default_factory=list)
    conditional: int = 0
    taken: str | None = None
    spare: bool = False
    local: frozenset[Buffer] = frozenset()
    room: dict[str, int] = field(default_factory=dict)
    lane: LaneContext | None = None
    angles: frozenset[Var] = frozenset()
    groups: dict[int, Group] = field(default_factory=dict)
    number: int = 0
    present: set[Var] = field(default_factory=set)
    turns: dict[tuple[str, Var], str] = field(default_factory=dict)
    roots: dict[Buffer, str] = field(default_factory=dict)
    held: set[Buffer] = field(default_factory=set)
    block: str = "entry"
    slots: int = 0
    clocks: dict[int, tuple[str, str]] = field(default_factory=dict)
    captured: int = 0
    partial: int = 0
    outlined: list[str] = field(default_factory=list)
    function: int | None = None
    start: Span | None = None
    span: Span | None = None

    @abstractmethod
    def statement(self, stmt: Stmt) -> None:
        """Writes a statement and those inside it."""

    # ---- names and blocks --------------------------------------------------------------------------------------------
    def name(self, stem: str) -> str:
        self.module.names += 1
        return f"%{stem}{self.module.names}"

    def emit(self, text: str) -> str:
        name = self.name("v")
        self.code.append(f"  {name} = {text}")
        return name

    def label(self, stem: str) -> str:
        self.module.names += 1
        return f"{stem}{self.module.names}"

    def begin(self, label: str) -> None:
        self.code.append(Label(label))
        self.block = label

    def jump(self, label: str) -> None:
        self.code.append(f"  br label %{label}")

    def fork(self, condition: str, then: str, otherwise: str, cold: bool = False) -> None:
        """cold: whether `then` hardly ever runs."""
        weights = ", !prof !0" if cold else ""
        self.code.append(f"  br i1 {condition}, label %{then}, label %{otherwise}{weights}")

    def in_context(self, word: int) -> str:
        """The address of a word of the context."""
        return self.emit(f"getelementptr i64, ptr %ctx, i64 {word}")

    def new_site(self, site: Site) -> int:
        """The number of a site."""
        self.sites.append(site)
        return len(self.sites) - 1

    # ---- functions ---------------------------------------------------------------------------------------------------
    def outline(self, write: Callable[[Writer, str], str]) -> str:
        """Writes a function that is part of this one; gives its name. `write` gives its definition."""
        self.module.names += 1
        name = f"piece.{self.module.names}"
        expansions, self.module.expansions = self.module.expansions, 0
        inner = type(self)(self.module, self.program, self.sites, span=self.span, local=self.local)
        if self.module.lines is not None and self.span is not None:
            inner.start = inner.span = self.span._replace(via=None)
            inner.function = self.module.lines.function(name, inner.span, name)
        self.outlined += [write(inner, name), *inner.outlined]
        self.module.expansions = expansions
        return name

    def place(self, span: Span) -> None:
        """Sets the span of the instructions that follow."""
        self.span = span
        if self.module.lines is not None:
            for lines in (self.code, self.cold, *(scope.pre for scope in self.scopes)):
                lines.append(Place(span))

    def definition(self, head: str) -> str:
        """The function that has been written, with room on the stack for what it has to hand out."""
        room: list[Line] = [
            f"  %{name} = alloca [{words} x i64], align 8"
            for name, words in (("slots", self.slots), ("captured", self.captured), ("partial", self.partial))
            if words
        ]
        room += [f"  {name} = alloca [{bytes} x i8], align 64" for name, bytes in self.room.items()]
        if self.spare:  # LLVM must not know them: it would have a jump around each access
            room += [
                "  %spare = alloca [2 x i64], align 8",
                "  store [2 x i64] zeroinitializer, ptr %spare, align 8",
                '  %nothing = call ptr asm "", "=r,0"(ptr %spare)',
                "  %nowhere = getelementptr i64, ptr %nothing, i64 1",
            ]
        lines, types = fused([*room, *self.code, *self.cold], self.module.processor.fma)
        for type in sorted(types):
            self.module.declare(types[type], type, type, type, type)
        if self.module.lines is not None and self.function is not None and self.start is not None:
            lines = self.module.lines.attached(lines, self.function, self.start)
            head += f" !dbg !{self.function}"
        return joined([f"{head} {{", Label("entry"), *lines, "}"]) + "\n"

    # ---- statements --------------------------------------------------------------------------------------------------
    def body(self, body: loops.Body) -> list[str]:
        """Writes a body; gives its results."""
        self.statements(body.stmts)
        return [self.scalar(r) for r in body.results]

    def statements(self, stmts: Sequence[Stmt]) -> None:
        around = self.angles, self.groups, self.present, self.number
        self.angles, self.present = _angles(stmts), set()
        self.groups = {} if self.lane is None else groups(stmts, self.lane.var)
        for self.number, stmt in enumerate(stmts):
            self.statement(stmt)
        self.angles, self.groups, self.present, self.number = around

    @contextmanager
    def scope(self, loads: bool) -> Iterator[Scope]:
        """A loop: what is written inside goes to a list of its own, what does not change in it in front."""
        scope = Scope([], {}, self.conditional, loads)
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()

    def ahead_of(self, label: str) -> str:
        """Returns the label to jump to in place of a preheader, so that code written ahead of it may have blocks."""
        return self.label("ahead") if self.module.sanitizes else label

    def begin_ahead(self, ahead: str, label: str, scope: Scope) -> None:
        """Writes what stands ahead of a loop; what follows is in the block in front of it."""
        self.begin(ahead)
        self.code += scope.pre
        if ahead != label:
            self.jump(label)
            self.begin(label)

    # ---- values ------------------------------------------------------------------------------------------------------
    @property
    def depth(self) -> int:
        return len(self.scopes)

    def bind(self, slot: Slot, value: str, depth: int | None = None) -> None:
        """Gives a slot its value, which exists at a depth of loops (default: here)."""
        self.values[slot] = value
        self.depths[slot] = self.depth if depth is None else depth
        if self.lane is not None and isinstance(slot, Var):
            self.lane.vectors.pop(slot, None)

    def bind_lanes(self, var: Var, vector: str, depth: int | None = None) -> None:
        """Gives a variable a value for each lane, which exist at a depth of loops (default: here)."""
        assert self.lane is not None
        self.lane.vectors[var] = vector
        self.lane.depths[var] = self.depth if depth is None else depth

    def scalar(self, value: Value) -> str:
        """A value that is the same in all lanes."""
        return self.module.literal(value) if isinstance(value, Lit) else self.values[value]

    def root(self, buffer: Buffer) -> str:
        """The address of the array that a buffer is, or is cut from."""
        return self.roots.get(buffer, self.values[buffer])

    def lines_at(self, depth: int) -> list[Line]:
        """Returns the lines in which a value that exists at a depth of loops is computed."""
        return self.code if depth == self.depth else self.scopes[depth].pre

    def depth_of(self, atoms: Sequence[Value]) -> int:
        return max((self.depths[a] for a in atoms if not isinstance(a, Lit)), default=0)

    def ops(self, depth: int | None = None, width: int = 1) -> Scalars:
        return Scalars(self.module, self.code if depth is None else self.lines_at(depth), width)

    # ---- lanes -------------------------------------------------------------------------------------------------------
    def depth_in_lanes(self, atoms: Sequence[Atom]) -> int:
        """The depth of loops at which values of each lane exist that are computed from others: some of each lane."""
        assert self.lane is not None
        depths = [self.lane.depths[a] for a in atoms if isinstance(a, Var) and a in self.lane.vectors]
        return max(*depths, self.depth_of([a for a in atoms if not self.varies(a)]))

    def width(self) -> int:
        return 1 if self.lane is None else self.lane.width

    def varies(self, x: Value) -> bool:
        return self.lane is not None and isinstance(x, Var) and x in self.lane.vectors

    def vector(self, x: Atom) -> str:
        """A value for every lane."""
        assert self.lane is not None
        width = self.lane.width
        if isinstance(x, Lit):
            if isinstance(x.value, str):
                return self.module.literal(x) if width == 1 else f"splat (i64 {self.module.literal(x)})"
            return constant(x.value, x.dtype, width)
        known = self.lane.vectors.get(x)
        return known if known is not None else self.splat(self.values[x], llvm_type(dtype_of(x)), self.depths[x])

    def splat(self, value: str, type: str, depth: int) -> str:
        """A scalar in every lane, made where the scalar is."""
        assert self.lane is not None
        width = self.lane.width
        key = ("splat", value, width)
        if depth < self.depth and key in self.scopes[depth].memo:
            return self.scopes[depth].memo[key]
        ops = self.ops(min(depth, self.depth))
        one = ops.emit(f"insertelement <{width} x {type}> poison, {type} {value}, i64 0")
        out = ops.emit(
            f"shufflevector <{width} x {type}> {one}, <{width} x {type}> poison, <{width} x i32> zeroinitializer"
        )
        if depth < self.depth:
            self.scopes[depth].memo[key] = out
        return out
