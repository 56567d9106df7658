"""Functions of the loop-nest IR as LLVM text.

The text is in SSA form already: what loops and branches carry is explicit, invariants are moved in front of loops while
they are written, and loops of several lanes are written as vectors, so LLVM has little left to do but choose
instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import lcm

from dlang.codegen import loops
from dlang.codegen.llvm import support
from dlang.codegen.llvm.scalars import BITS, LLVM, Module, Scalars, constant, memory_type, register_type
from dlang.codegen.loops import ArrayValue, Buffer, Operand, Reduction, Slot, Stmt, Value
from dlang.codegen.nests import identity
from dlang.diagnostics import Span
from dlang.ir.anf import SIGNED, Atom, Lit, Scalar, Size, Var
from dlang.polynomials import Monomial, Poly

UNROLLED = 4  # a loop of one lane and this many trips or fewer, known when compiled, is written out


@dataclass(frozen=True, slots=True)
class Signature:
    """How a value crosses to the host: dtype, and rank (0: a scalar) with its sizes behind the pointer."""

    dtype: str
    rank: int

    @property
    def words(self) -> int:
        return 1 + self.rank


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the program where it leaves compiled code: a failure, a call to trace, or work of the host."""

    kind: str  # "check", "memory", "stack", "call", or "runtime"
    name: str  # a code, the label of a function, or what the host is to do
    parts: tuple[str, ...] = ()
    args: tuple[Signature, ...] = ()
    outs: tuple[Signature, ...] = ()
    results: tuple[Signature, ...] = ()
    span: Span | None = None

    @property
    def words(self) -> int:
        return sum(s.words for s in (*self.args, *self.outs, *self.results))


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
    first: str
    mask: str | None
    bail: str
    vectors: dict[Var, str]
    bailed: bool = False


def scalar_dtype(x: Atom) -> str:
    assert isinstance(x.type, Scalar)
    return x.type.dtype


def slot_type(slot: Slot) -> str:
    return "ptr" if isinstance(slot, Buffer) else LLVM[scalar_dtype(slot)]


def result_type(function: loops.Function) -> str:
    """The status, true for a failure, and the results that are not written to destinations."""
    slots = [slot_type(r) if isinstance(r, Buffer) else LLVM[scalar_dtype(r)] for r in function.body.results]
    return "{ " + ", ".join(["i1", *slots]) + " }"


@dataclass(slots=True)
class FunctionEmitter:
    module: Module
    program: loops.Program
    function: loops.Function
    sites: list[Site]
    code: list[str] = field(default_factory=list)
    cold: list[str] = field(default_factory=list)
    values: dict[Slot, str] = field(default_factory=dict)
    depths: dict[Slot, int] = field(default_factory=dict)
    scopes: list[Scope] = field(default_factory=list)
    conditional: int = 0
    lane: LaneContext | None = None
    block: str = "entry"
    slots: int = 0

    # ---- the function ------------------------------------------------------------------------------------------------
    def text(self) -> str:
        f = self.function
        params = ["ptr %ctx"]
        for slot in (*f.params, *(out.buffer for out in f.outs)):
            name = self.name("p")
            self.bind(slot, name)
            params.append(f"{slot_type(slot)} {'noalias ' if isinstance(slot, Buffer) else ''}{name}")
        if f.recursive:
            self._check_stack()
        results = self.body(f.body)
        type = result_type(f)
        value = "zeroinitializer"
        for k, (result, operand) in enumerate(zip(f.body.results, results, strict=True)):
            value = self.emit(f"insertvalue {type} {value}, {slot_type_of(result)} {operand}, {k + 1}")
        self.code.append(f"  ret {type} {value}")
        self.code += ["fail:", f"  %failed = insertvalue {type} zeroinitializer, i1 true, 0", f"  ret {type} %failed"]
        head = f"define internal {type} @{symbol(f.name)}({', '.join(params)}) nounwind {{\nentry:"
        room = [f"  %slots = alloca [{self.slots} x i64], align 8"] if self.slots else []
        return "\n".join([head, *room, *self.code, *self.cold, "}"]) + "\n"

    def _check_stack(self) -> None:
        self.module.declare("llvm.frameaddress.p0", "ptr", "i32 immarg")
        frame = self.emit("call ptr @llvm.frameaddress.p0(i32 0)")
        limit = self.emit(f"getelementptr i64, ptr %ctx, i64 {support.STACK_LIMIT}")
        bad = self.emit(f"icmp ult ptr {frame}, {self.emit(f'load ptr, ptr {limit}')}")
        self.leave_if(bad, support.STACK_EXHAUSTED, ())

    # ---- names, blocks, values ---------------------------------------------------------------------------------------
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
        return found if found is not None else self.splat(self.values[x], LLVM[scalar_dtype(x)], self.depths[x])

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

    # ---- polynomials -------------------------------------------------------------------------------------------------
    def size(self, size: Size) -> str:
        """The value of a polynomial that is the same in all lanes; each part is computed as far out as it can be."""
        value = size.constant
        if value is not None:
            return str(int(value))
        scale = lcm(*(c.denominator for c in size.terms.values()))
        if scale != 1:
            total = self.size(size * scale)
            depth = self.depth_of(list(size.atoms()))
            return self.ops(depth).emit(f"sdiv exact i64 {total}, {scale}")
        by_depth: dict[int, list[tuple[Monomial[Var], int]]] = {}
        for monomial, c in size.terms.items():
            by_depth.setdefault(self.depth_of(monomial), []).append((monomial, int(c)))
        key: tuple[object, ...] = ()
        total = ""
        for depth in sorted(by_depth):
            terms = by_depth[depth]
            key = (*key, frozenset(terms))
            if depth < self.depth and key in self.scopes[depth].memo:
                total = self.scopes[depth].memo[key]
                continue
            for monomial, c in sorted(terms, key=lambda t: t[1] < 0):
                total = self._sum(depth, total, monomial, c)
            if depth < self.depth:
                self.scopes[depth].memo[key] = total
        return total

    def _sum(self, depth: int, total: str, monomial: Monomial[Var], c: int) -> str:
        ops = self.ops(depth)
        if not monomial:
            return ops.emit(f"add nsw i64 {total}, {c}") if total else str(c)
        if total and c < 0:
            return ops.emit(f"sub nsw i64 {total}, {self._term(depth, monomial, -c)}")
        term = self._term(depth, monomial, c)
        return ops.emit(f"add nsw i64 {total}, {term}") if total else term

    def _term(self, depth: int, monomial: Monomial[Var], c: int) -> str:
        atoms = sorted(monomial, key=lambda a: self.depths[a])
        out = self.values[atoms[0]]
        where = self.depths[atoms[0]]
        if c != 1:
            out = self._product(where, out, str(c))
        for atom in atoms[1:]:
            where = max(where, self.depths[atom])
            out = self._product(where, out, self.values[atom])
        return out

    def _product(self, depth: int, x: str, y: str) -> str:
        if depth < self.depth:
            memo = self.scopes[depth].memo
            key = ("mul", x, y)
            if key not in memo:
                memo[key] = self.ops(depth).emit(f"mul nsw i64 {x}, {y}")
            return memo[key]
        return self.ops(depth).emit(f"mul nsw i64 {x}, {y}")

    def vector_size(self, size: Size) -> str:
        """The value of a polynomial in every lane."""
        assert self.lane is not None
        ops = self.ops(width=self.lane.width)
        fixed = Poly({m: c for m, c in size.terms.items() if not any(self.varies(a) for a in m)})
        scale = lcm(*(c.denominator for c in size.terms.values())) if size.terms else 1
        if scale != 1:
            return ops.emit(
                f"sdiv exact {ops.type('i64')} {self.vector_size(size * scale)}, {ops.constant(scale, 'i64')}"
            )
        total = ""
        if fixed.terms:
            total = self.splat_size(fixed)
        for monomial, c in size.terms.items():
            moving = [a for a in monomial if self.varies(a)]
            if not moving:
                continue
            rest = Poly({tuple(a for a in monomial if not self.varies(a)): c})
            term = self.lane.vectors[moving[0]]
            for a in moving[1:]:
                term = ops.binary("mul", "i64", term, self.lane.vectors[a])
            if rest != 1:
                term = ops.binary("mul", "i64", term, self.splat_size(rest))
            total = ops.binary("add", "i64", total, term) if total else term
        return total

    def splat_size(self, size: Size) -> str:
        assert self.lane is not None
        if size.constant is not None:
            return constant(int(size.constant), "i64", self.lane.width)
        return self.splat(self.size(size), "i64", self.depth_of(list(size.atoms())))

    def any_size(self, size: Size) -> bool:
        """Whether a polynomial differs between lanes."""
        return self.lane is not None and any(self.varies(a) for a in size.atoms())

    # ---- statements --------------------------------------------------------------------------------------------------
    def body(self, body: loops.Body) -> list[str]:
        """Writes a body; gives its results."""
        self.statements(body.stmts)
        return [self.scalar(r) for r in body.results]

    def statements(self, stmts: Sequence[Stmt]) -> None:
        for stmt in stmts:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case loops.Compute(var, name, args):
                self.compute(var, name, args)
            case loops.Convert(var, arg):
                self.convert(var, arg)
            case loops.Evaluate(var, size):
                if self.any_size(size):
                    assert self.lane is not None
                    self.lane.vectors[var] = self.vector_size(size)
                else:
                    self.bind(var, self.size(size), self.depth_of(list(size.atoms())))
            case loops.Load(var, buffer, offset):
                self.load(var, buffer, offset)
            case loops.Store():
                self.store(stmt)
            case loops.Move(target, source, count):
                bytes = self.emit(f"mul i64 {self.size(count)}, {BITS[target.dtype] // 8}")
                self.module.declare("llvm.memcpy.p0.p0.i64", "void", "ptr", "ptr", "i64", "i1 immarg")
                to, frm = self.values[target], self.values[source]
                self.code.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {frm}, i64 {bytes}, i1 false)")
            case loops.Slice(result, source, offset):
                self.bind(result, self.address(source, offset))
            case loops.Allocate():
                self.allocate(stmt)
            case loops.Free(buffer):
                self.code.append(f"  call void @dl_free(ptr %ctx, ptr {self.values[buffer]})")
            case loops.Guard():
                self.guard(stmt)
            case loops.Runtime():
                self.runtime(stmt)
            case loops.Invoke():
                self.invoke(stmt)
            case loops.Product():
                self.product(stmt)
            case loops.Loop():
                self.loop(stmt)
            case loops.For():
                self.for_(stmt)
            case loops.While():
                self.while_(stmt)
            case loops.Branch():
                self.branch(stmt)

    def compute(self, var: Var, name: str, args: tuple[Atom, ...]) -> None:
        dtypes = tuple(scalar_dtype(a) for a in args)
        exponent = args[1].value if name in ("pow", "powi") and isinstance(args[1], Lit) else None
        if exponent is not None and float(exponent).is_integer():
            exponent = int(exponent)
        power = exponent if isinstance(exponent, int) and (name == "powi" or exponent == 2) else None
        if any(self.varies(a) for a in args):
            assert self.lane is not None
            operands = [self.vector(a) for a in args]
            self.lane.vectors[var] = self.ops(width=self.lane.width).primitive(name, dtypes, operands, power)
            return
        depth = self.depth_of(args)
        self.bind(var, self.ops(depth).primitive(name, dtypes, [self.scalar(a) for a in args], power), depth)

    def convert(self, var: Var, arg: Atom) -> None:
        source, target = scalar_dtype(arg), scalar_dtype(var)
        if self.varies(arg):
            assert self.lane is not None
            vector = self.ops(width=self.lane.width).convert(self.vector(arg), source, target)
            self.lane.vectors[var] = vector
        elif source == target:
            # another name, perhaps for what a guard has certified: stays behind the guard
            self.bind(var, self.scalar(arg))
        else:
            depth = self.depth_of((arg,))
            self.bind(var, self.ops(depth).convert(self.scalar(arg), source, target), depth)

    # ---- memory ------------------------------------------------------------------------------------------------------
    def address(self, buffer: Buffer, offset: Size, depth: int | None = None) -> str:
        base = self.values[buffer]
        if not offset.terms:
            return base
        index = self.size(offset)
        return self.ops(depth).emit(f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {base}, i64 {index}")

    def load(self, var: Var, buffer: Buffer, offset: Size) -> None:
        if self.any_size(offset):
            self.vector_load(var, buffer, offset)
            return
        depth = self.depth
        scope = self.scopes[-1] if self.scopes else None
        if scope is not None and scope.loads and scope.conditional == self.conditional:
            if self.depth_of([buffer, *offset.atoms()]) < depth:
                depth -= 1
        ops = self.ops(depth)
        address = self.address(buffer, offset, depth)
        value = ops.emit(f"load {memory_type(buffer.dtype)}, ptr {address}")
        self.bind(var, self.from_memory(ops, value, buffer.dtype), depth)

    def from_memory(self, ops: Scalars, value: str, dtype: str) -> str:
        return ops.emit(f"trunc {lanes_of('i8', ops)} {value} to {ops.type('bool')}") if dtype == "bool" else value

    def to_memory(self, ops: Scalars, value: str, dtype: str) -> str:
        return ops.emit(f"zext {ops.type('bool')} {value} to {lanes_of('i8', ops)}") if dtype == "bool" else value

    def store(self, stmt: loops.Store) -> None:
        buffer, offset = stmt.buffer, stmt.offset
        if self.any_size(offset) or self.varies(stmt.value):
            self.vector_store(stmt)
            return
        ops = self.ops()
        type = memory_type(buffer.dtype)
        value = self.scalar(stmt.value)
        address = self.address(buffer, offset)
        if stmt.monoid != "set":
            old = self.from_memory(ops, ops.emit(f"load {type}, ptr {address}"), buffer.dtype)
            value = ops.combine(stmt.monoid, buffer.dtype, old, value)
        self.code.append(f"  store {type} {self.to_memory(ops, value, buffer.dtype)}, ptr {address}")

    def allocate(self, stmt: loops.Allocate) -> None:
        total = str(BITS[stmt.buffer.dtype] // 8)
        sizes = [s for s in stmt.shape if s.constant is None]
        for size in stmt.shape:
            if size.constant is not None:
                total = str(int(total) * int(size.constant))
        for size in sizes:
            self.module.declare("llvm.umul.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
            pair = self.emit(f"call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 {self.size(size)}, i64 {total})")
            over = self.emit(f"extractvalue {{ i64, i1 }} {pair}, 1")
            total = self.emit(f"select i1 {over}, i64 -1, i64 {self.emit(f'extractvalue {{ i64, i1 }} {pair}, 0')}")
        if stmt.extra:
            total = self.emit(f"add i64 {total}, {stmt.extra * (BITS[stmt.buffer.dtype] // 8)}")
        pointer = self.emit(f"call ptr @dl_alloc(ptr %ctx, i64 {total})")
        self.bind(stmt.buffer, pointer)
        self.leave_if(self.emit(f"icmp eq ptr {pointer}, null"), support.OUT_OF_MEMORY, ())

    # ---- leaving compiled code ---------------------------------------------------------------------------------------
    def leave_if(self, bad: str, site: int, values: Sequence[Operand]) -> None:
        """Fails at a site if a condition holds; the values of its message are written first."""
        fine, failing = self.label("fine"), self.label("failing")
        self.code.append(f"  br i1 {bad}, label %{failing}, label %{fine}, !prof !0")
        code, self.code = self.code, [f"{failing}:"]
        inside = self.conditional
        self.conditional += 1
        self.code.append(f"  store i64 {site}, ptr %ctx")
        word = support.SLOTS
        for operand in values:
            word = self.pack(operand, "%ctx", word)
        self.jump("fail")
        self.conditional = inside
        self.cold += self.code
        self.code = code
        self.begin(fine)

    def pack(self, operand: Operand, base: str, word: int) -> int:
        """Writes a value into words of 8 bytes; gives the next word."""
        if isinstance(operand, ArrayValue):
            self.put(self.emit(f"ptrtoint ptr {self.values[operand.buffer]} to i64"), base, word)
            for k, size in enumerate(operand.shape):
                self.put(self.size(size), base, word + 1 + k)
            return word + 1 + len(operand.shape)
        self.put(self.bits(self.scalar(operand), scalar_dtype(operand)), base, word)
        return word + 1

    def put(self, value: str, base: str, word: int) -> None:
        address = self.emit(f"getelementptr i64, ptr {base}, i64 {word}")
        self.code.append(f"  store i64 {value}, ptr {address}")

    def bits(self, value: str, dtype: str) -> str:
        """A scalar as a word."""
        match dtype:
            case "f64":
                return self.emit(f"bitcast double {value} to i64")
            case "f32":
                return self.emit(f"zext i32 {self.emit(f'bitcast float {value} to i32')} to i64")
            case "i64" | "u64" | "str":
                return value
            case _:
                kind = "sext" if dtype in SIGNED else "zext"
                return self.emit(f"{kind} {LLVM[dtype]} {value} to i64")

    def of_bits(self, word: str, dtype: str) -> str:
        """A scalar from a word."""
        match dtype:
            case "f64":
                return self.emit(f"bitcast i64 {word} to double")
            case "f32":
                return self.emit(f"bitcast i32 {self.emit(f'trunc i64 {word} to i32')} to float")
            case "i64" | "u64" | "str":
                return word
            case _:
                return self.emit(f"trunc i64 {word} to {LLVM[dtype]}")

    def guard(self, stmt: loops.Guard) -> None:
        if self.varies(stmt.condition):
            assert self.lane is not None
            width = self.lane.width
            self.module.declare(f"llvm.vector.reduce.and.v{width}i1", "i1", f"<{width} x i1>")
            fine = self.emit(
                f"call i1 @llvm.vector.reduce.and.v{width}i1(<{width} x i1> {self.vector(stmt.condition)})"
            )
            self._bail_unless(fine)
            return
        condition = self.scalar(stmt.condition)
        if self.lane is not None:
            self._bail_unless(condition)
            return
        values = stmt.values
        site = self.site(Site("check", stmt.code, stmt.parts, signatures(values), span=stmt.span))
        self.leave_if(self.emit(f"xor i1 {condition}, true"), site, values)

    def _bail_unless(self, fine: str) -> None:
        """Leaves the loop of lanes before these trips; the loop of one lane finds the one that fails."""
        assert self.lane is not None
        self.lane.bailed = True
        going = self.label("fine")
        self.code.append(f"  br i1 {fine}, label %{going}, label %{self.lane.bail}, !prof !1")
        self.begin(going)

    def site(self, site: Site) -> int:
        self.sites.append(site)
        return len(self.sites) - 1

    def runtime(self, stmt: loops.Runtime) -> None:
        results = tuple(
            Signature(r.dtype, 1) if isinstance(r, Buffer) else Signature(scalar_dtype(r), 0) for r in stmt.results
        )
        number = self.site(
            Site("runtime", stmt.name, stmt.static, signatures(stmt.args), signatures(stmt.outs), results, stmt.span)
        )
        word = 0
        for operand in (*stmt.args, *stmt.outs):
            word = self.pack(operand, "%slots", word)
        self.slots = max(self.slots, word + len(results))
        pointer = self.emit(f"getelementptr i64, ptr %ctx, i64 {support.CALLBACK}")
        callback = self.emit(f"load ptr, ptr {pointer}")
        status = self.emit(f"call i32 {callback}(i64 {number}, ptr %slots)")
        bad = self.emit(f"icmp ne i32 {status}, 0")
        self.leave_if(bad, number, ())
        for k, slot in enumerate(stmt.results):
            address = self.emit(f"getelementptr i64, ptr %slots, i64 {word + k}")
            if isinstance(slot, Buffer):
                self.bind(slot, self.emit(f"load ptr, ptr {address}"))
            else:
                self.bind(slot, self.of_bits(self.emit(f"load i64, ptr {address}"), scalar_dtype(slot)))

    def invoke(self, stmt: loops.Invoke) -> None:
        callee = self.program.functions[stmt.function]
        type = result_type(callee)
        args = ["ptr %ctx"]
        args += [f"{slot_type_of(a)} {self.scalar(a)}" for a in (*stmt.args, *stmt.outs)]
        out = self.emit(f"call {type} @{symbol(stmt.function)}({', '.join(args)})")
        bad = self.emit(f"extractvalue {type} {out}, 0")
        site = self.site(Site("call", callee.label, span=stmt.span))
        fine, failing = self.label("fine"), self.label("failing")
        self.code.append(f"  br i1 {bad}, label %{failing}, label %{fine}, !prof !0")
        self.cold += [f"{failing}:", f"  call void @dl_trace(ptr %ctx, i64 {site})", "  br label %fail"]
        self.begin(fine)
        for k, slot in enumerate(stmt.results):
            self.bind(slot, self.emit(f"extractvalue {type} {out}, {k + 1}"))

    def product(self, stmt: loops.Product) -> None:
        """Row-major matrix products by CBLAS."""
        dtype = stmt.c.buffer.dtype
        type = LLVM[dtype]
        name = f"scipy_cblas_{'d' if dtype == 'f64' else 's'}gemm"
        self.module.imports.add(name)
        ints, pair = ["i32"] * 6, [type, "ptr", "i32", "ptr", "i32", type, "ptr", "i32"]
        self.module.declare(name, "void", *ints, *pair)

        def narrow(size: Size) -> str:
            return self.emit(f"trunc i64 {self.size(size)} to i32")

        order = [f"i32 {112 if m.transposed else 111}" for m in (stmt.a, stmt.b)]
        sizes = [f"i32 {narrow(s)}" for s in (stmt.rows, stmt.columns, stmt.inner)]
        a, b, c = (self.address(m.buffer, m.offset) for m in (stmt.a, stmt.b, stmt.c))
        strides = [narrow(m.stride) for m in (stmt.a, stmt.b, stmt.c)]
        one, zero = constant(1.0, dtype), constant(0.0, dtype)
        inputs = [f"{type} {one}, ptr {a}, i32 {strides[0]}, ptr {b}, i32 {strides[1]}"]
        output = f"{type} {zero}, ptr {c}, i32 {strides[2]}"
        self.code.append(f"  call void @{name}({', '.join(['i32 101', *order, *sizes, *inputs, output])})")

    # ---- control -----------------------------------------------------------------------------------------------------
    @contextmanager
    def scope(self, loads: bool) -> Iterator[Scope]:
        """A loop: what is written inside goes to a list of its own, what does not change in it in front."""
        scope = Scope([], {}, self.conditional, loads)
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()

    def branch(self, stmt: loops.Branch) -> None:
        then, otherwise, done = self.label("then"), self.label("else"), self.label("done")
        self.fork(self.scalar(stmt.condition), then, otherwise)
        arms = []
        self.conditional += 1
        for label, body in ((then, stmt.then), (otherwise, stmt.otherwise)):
            self.begin(label)
            results = self.body(body)
            arms.append((results, self.block))
            self.jump(done)
        self.conditional -= 1
        self.begin(done)
        for k, slot in enumerate(stmt.results):
            incoming = ", ".join(f"[ {results[k]}, %{block} ]" for results, block in arms)
            self.bind(slot, self.emit(f"phi {slot_type(slot)} {incoming}"))

    def bounds(self, lows: Sequence[Size], highs: Sequence[Size]) -> tuple[str, str]:
        return self._extreme("smax", lows), self._extreme("smin", highs)

    def _extreme(self, name: str, sizes: Sequence[Size]) -> str:
        out = self.size(sizes[0])
        for size in sizes[1:]:
            out = self.ops().intrinsic(name, "i64", out, self.size(size))
        return out

    def for_(self, stmt: loops.For) -> None:
        low, high = self.bounds((stmt.low,), (stmt.high,))
        init = [self.scalar(v) for v in stmt.init]
        pre, head, latch, stop, done = (self.label(s) for s in ("pre", "head", "latch", "stop", "done"))
        entering = self.block
        self.fork(self.emit(f"icmp slt i64 {low}, {high}"), pre, done)
        names = [self.name("s") for _ in stmt.params]
        index, following = self.name("i"), self.name("i")
        outer = self.code
        with self.scope(loads=False) as scope:
            self.code = []
            self.begin(head)
            self.bind(stmt.index, index)
            for slot, name in zip(stmt.params, names, strict=True):
                self.bind(slot, name)
            self.conditional += 1
            results = self.body(stmt.body)
            self.conditional -= 1
            if stmt.early:
                self.fork(results[0], latch, stop)
                results = results[1:]
            else:
                self.jump(latch)
            inner, self.code = self.code, outer
        self.begin(pre)
        self.code += scope.pre
        self.jump(head)
        self.code.append(inner[0])
        self.code.append(f"  {index} = phi i64 [ {low}, %{pre} ], [ {following}, %{latch} ]")
        for slot, name, first, value in zip(stmt.params, names, init, results, strict=True):
            self.code.append(f"  {name} = phi {slot_type(slot)} [ {first}, %{pre} ], [ {value}, %{latch} ]")
        self.code += inner[1:]
        self.begin(latch)
        self.code.append(f"  {following} = add nsw i64 {index}, 1")
        self.fork(self.emit(f"icmp slt i64 {following}, {high}"), head, done)
        if stmt.early:
            self.begin(stop)
            self.jump(done)
        self.begin(done)
        for slot, first, value in zip(stmt.results, init, results, strict=True):
            edges = f"[ {first}, %{entering} ], [ {value}, %{latch} ]" + (
                f", [ {value}, %{stop} ]" if stmt.early else ""
            )
            self.bind(slot, self.emit(f"phi {slot_type(slot)} {edges}"))

    def while_(self, stmt: loops.While) -> None:
        init = [self.scalar(v) for v in stmt.init]
        pre, head, trip, latch, stop, fall, done = (
            self.label(s) for s in ("pre", "head", "trip", "latch", "stop", "fall", "done")
        )
        self.jump(pre)
        names = [self.name("s") for _ in stmt.params]
        outer = self.code
        with self.scope(loads=False) as scope:
            self.code = []
            self.begin(head)
            for slot, name in zip(stmt.params, names, strict=True):
                self.bind(slot, name)
            self.conditional += 1
            (condition,) = self.body(stmt.condition)
            self.fork(condition, trip, fall)
            self.begin(trip)
            results = self.body(stmt.body)
            self.conditional -= 1
            if stmt.early:
                self.fork(results[0], latch, stop)
                results = results[1:]
            else:
                self.jump(latch)
            inner, self.code = self.code, outer
        self.begin(pre)
        self.code += scope.pre
        self.jump(head)
        self.code.append(inner[0])
        for slot, name, first, value in zip(stmt.params, names, init, results, strict=True):
            self.code.append(f"  {name} = phi {slot_type(slot)} [ {first}, %{pre} ], [ {value}, %{latch} ]")
        self.code += inner[1:]
        self.begin(latch)
        self.jump(head)
        if stmt.early:
            self.begin(stop)
            self.jump(done)
        self.begin(fall)
        self.jump(done)
        self.begin(done)
        for slot, name, value in zip(stmt.results, names, results, strict=True):
            edges = f"[ {name}, %{fall} ]" + (f", [ {value}, %{stop} ]" if stmt.early else "")
            self.bind(slot, self.emit(f"phi {slot_type(slot)} {edges}"))

    # ---- loops of independent trips ----------------------------------------------------------------------------------
    def loop(self, stmt: loops.Loop) -> None:
        low, high = self.bounds(stmt.lows, stmt.highs)
        start = self.start(stmt.reductions)
        pre, done = self.label("pre"), self.label("done")
        entering = self.block
        self.fork(self.emit(f"icmp slt i64 {low}, {high}"), pre, done)
        outer = self.code
        with self.scope(loads=True) as scope:
            self.code = []
            if stmt.lanes > 1 and self.lane is None:
                from dlang.codegen.llvm.vectors import vector_loop

                totals = vector_loop(self, stmt, low, high, start, pre)
            else:
                totals = self.trips(stmt, low, high, start, pre)
            inner, self.code = self.code, outer
        leaving = self.block
        self.begin(pre)
        self.code += scope.pre
        self.code += inner
        self.jump(done)
        self.begin(done)
        self.finish(stmt.reductions, start, entering, totals, leaving)

    def width(self) -> int:
        return 1 if self.lane is None else self.lane.width

    def start(self, reductions: Sequence[Reduction]) -> list[str]:
        """The first values of accumulators: for each reduction its identity, for a position -1 too."""
        out = []
        for r in reductions:
            dtype = scalar_dtype(r.result)
            out.append(constant(identity_of(r, dtype), dtype, self.width()))
            if r.position is not None:
                out.append(constant(-1, "i64", self.width()))
        return out

    def accumulator_types(self, reductions: Sequence[Reduction]) -> list[str]:
        out = []
        for r in reductions:
            out.append(register_type(scalar_dtype(r.result), self.width()))
            if r.position is not None:
                out.append(register_type("i64", self.width()))
        return out

    def accumulate(self, reductions: Sequence[Reduction], totals: Sequence[str], masked: bool = False) -> list[str]:
        """The accumulators with this trip's values; if masked, only those of lanes in use."""
        mask = self.lane.mask if masked and self.lane is not None else None
        ops = self.ops(width=self.width())
        out: list[str] = []
        olds = iter(totals)
        for r in reductions:
            dtype = scalar_dtype(r.result)
            old = next(olds)
            value = self.scalar(r.value) if self.lane is None else self.vector(r.value)
            if r.position is not None:
                assert r.rank is not None
                best = next(olds)
                rank = self.scalar(r.rank) if self.lane is None else self.vector(r.rank)
                wins = ops.better(r.monoid, dtype, value, rank, old, best)
                if mask is not None:
                    wins = ops.binary("and", "bool", wins, mask)
                out += [ops.select(wins, dtype, value, old), ops.select(wins, "i64", rank, best)]
                continue
            new = ops.combine(r.monoid, dtype, old, value)
            if mask is not None:
                new = ops.select(mask, dtype, new, old)
            out.append(new)
        return out

    def trips(self, stmt: loops.Loop, low: str, high: str, start: Sequence[str], entering: str) -> list[str]:
        """The loop itself, at least one trip, one by one (in a loop of lanes: for all of them); gives the totals."""
        head, latch, after = self.label("head"), self.label("latch"), self.label("after")
        index, following = self.name("i"), self.name("i")
        types = self.accumulator_types(stmt.reductions)
        names = [self.name("a") for _ in types]
        self.jump(head)
        self.begin(head)
        self.code.append(f"  {index} = phi i64 [ {low}, %{entering} ], [ {following}, %{latch} ]")
        position = len(self.code)
        self.bind(stmt.var, index)
        self.statements(stmt.stmts)
        totals = self.accumulate(stmt.reductions, names)
        phis = [
            f"  {name} = phi {type} [ {first}, %{entering} ], [ {total}, %{latch} ]"
            for name, type, first, total in zip(names, types, start, totals, strict=True)
        ]
        self.code[position:position] = phis
        self.jump(latch)
        self.begin(latch)
        self.code.append(f"  {following} = add nsw i64 {index}, 1")
        self.fork(self.emit(f"icmp slt i64 {following}, {high}"), head, after)
        self.begin(after)
        return totals

    def finish(
        self, reductions: Sequence[Reduction], start: Sequence[str], entering: str, totals: Sequence[str], leaving: str
    ) -> None:
        """Binds the results: the totals, or the identities if there was no trip."""
        merged = []
        for type, first, total in zip(self.accumulator_types(reductions), start, totals, strict=True):
            merged.append(self.emit(f"phi {type} [ {first}, %{entering} ], [ {total}, %{leaving} ]"))
        values = iter(merged)
        for r in reductions:
            self.bind_result(r.result, next(values))
            if r.position is not None:
                self.bind_result(r.position, next(values))

    def bind_result(self, var: Var, value: str) -> None:
        if self.lane is None:
            self.bind(var, value)
        else:
            self.lane.vectors[var] = value

    # ---- memory in lanes ---------------------------------------------------------------------------------------------
    def vector_load(self, var: Var, buffer: Buffer, offset: Size) -> None:
        from dlang.codegen.llvm.vectors import vector_load

        vector_load(self, var, buffer, offset)

    def vector_store(self, stmt: loops.Store) -> None:
        from dlang.codegen.llvm.vectors import vector_store

        vector_store(self, stmt)


def identity_of(r: Reduction, dtype: str) -> int | float | bool:
    if r.position is not None:
        return identity("max" if r.monoid == "argmax" else "min", dtype).value  # type: ignore[return-value]
    return identity(r.monoid, dtype).value  # type: ignore[return-value]


def lanes_of(type: str, ops: Scalars) -> str:
    return type if ops.width == 1 else f"<{ops.width} x {type}>"


def slot_type_of(value: Value) -> str:
    return "ptr" if isinstance(value, Buffer) else LLVM[scalar_dtype(value)]


def signatures(values: Sequence[Operand]) -> tuple[Signature, ...]:
    return tuple(
        Signature(v.buffer.dtype, len(v.shape)) if isinstance(v, ArrayValue) else Signature(scalar_dtype(v), 0)
        for v in values
    )


def symbol(name: str) -> str:
    """The name of a function in LLVM, quoted: any text is one."""
    return '"f.' + name.replace("\\", "\\5C").replace('"', "\\22") + '"'
