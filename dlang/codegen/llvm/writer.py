"""The text of one function under way: names, blocks, values, and the loops that it is in.

What does not change in a loop is written in front of it at once: each value knows at what depth of loops it exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from dlang.codegen import loops
from dlang.codegen.llvm.scalars import Module, Scalars, constant, llvm_type
from dlang.codegen.llvm.sites import Site
from dlang.codegen.loops import Buffer, Slot, Stmt, Value, scalar_dtype
from dlang.ir.anf import Atom, Lit, Var


@dataclass(slots=True)
class Scope:
    """A loop being written: what goes in front of it, and what of that can be used again."""

    pre: list[str]
    memo: dict[object, str]
    conditional: int
    loads: bool  # whether what it reads stays the same over its trips


@dataclass(slots=True)
class LaneContext:
    """A loop being written for several trips at once. mask: which lanes are in use, if not all."""

    var: Var
    width: int
    mask: str | None
    bail: str
    vectors: dict[Var, str]
    bailed: bool = False


def slot_type(value: Value) -> str:
    """The LLVM type of what is passed, carried or bound."""
    return "ptr" if isinstance(value, Buffer) else llvm_type(scalar_dtype(value))


@dataclass(slots=True)
class Writer:
    """The function under way. statement: writes a statement, and through this the statements inside it."""

    module: Module
    program: loops.Program
    sites: list[Site]
    statement: Callable[[Writer, Stmt], None]
    code: list[str] = field(default_factory=list)
    cold: list[str] = field(default_factory=list)
    values: dict[Slot, str] = field(default_factory=dict)
    depths: dict[Slot, int] = field(default_factory=dict)
    scopes: list[Scope] = field(default_factory=list)
    conditional: int = 0
    lane: LaneContext | None = None
    block: str = "entry"
    slots: int = 0

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
        self.code.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.code.append(f"  br label %{label}")

    def fork(self, condition: str, then: str, otherwise: str) -> None:
        self.code.append(f"  br i1 {condition}, label %{then}, label %{otherwise}")

    # ---- statements --------------------------------------------------------------------------------------------------
    def body(self, body: loops.Body) -> list[str]:
        """Writes a body; gives its results."""
        self.statements(body.stmts)
        return [self.scalar(r) for r in body.results]

    def statements(self, stmts: Sequence[Stmt]) -> None:
        for stmt in stmts:
            self.statement(self, stmt)

    @contextmanager
    def scope(self, loads: bool) -> Iterator[Scope]:
        """A loop: what is written inside goes to a list of its own, what does not change in it in front."""
        scope = Scope([], {}, self.conditional, loads)
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()

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

    def scalar(self, value: Value) -> str:
        """A value that is the same in all lanes."""
        return self.module.literal(value) if isinstance(value, Lit) else self.values[value]

    def lines_at(self, depth: int) -> list[str]:
        """Where to write what exists at a depth of loops."""
        return self.code if depth == self.depth else self.scopes[depth].pre

    def depth_of(self, atoms: Sequence[Value]) -> int:
        return max((self.depths[a] for a in atoms if not isinstance(a, Lit)), default=0)

    def ops(self, depth: int | None = None, width: int = 1) -> Scalars:
        return Scalars(self.module, self.code if depth is None else self.lines_at(depth), width)

    # ---- lanes -------------------------------------------------------------------------------------------------------
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
                return constant(int(self.module.literal(x)), "i64", width)
            return constant(x.value, x.dtype, width)
        found = self.lane.vectors.get(x)
        return found if found is not None else self.splat(self.values[x], llvm_type(scalar_dtype(x)), self.depths[x])

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
