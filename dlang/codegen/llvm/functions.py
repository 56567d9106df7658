"""Functions of the loop-nest IR as LLVM text.

The text is in SSA form already: what loops and branches carry is explicit, invariants are moved in front of loops while
they are written, and loops of several lanes are written as vectors, so LLVM has little left to do but choose
instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlang.codegen import loops
from dlang.codegen.abi import Site
from dlang.codegen.llvm import profiling
from dlang.codegen.llvm.accesses import allocate, free, load, move, part, store
from dlang.codegen.llvm.assembly import Label
from dlang.codegen.llvm.calls import call_c, check_stack, invoke, pack, product, result_type, symbol
from dlang.codegen.llvm.control import branch, for_, while_
from dlang.codegen.llvm.devices import fetch, hold, launch, on_device, on_host, transfer
from dlang.codegen.llvm.host_calls import guard, runtime, text_op
from dlang.codegen.llvm.indices import size_value, size_varies, size_vector
from dlang.codegen.llvm.interleaved import loaded, stored
from dlang.codegen.llvm.iterations import loop
from dlang.codegen.llvm.nodes import arena_allocate, collect, load_field, load_tag, node, place_mark, release
from dlang.codegen.llvm.parallel import parallel, pieces
from dlang.codegen.llvm.scalars import Module, Scalars
from dlang.codegen.llvm.writer import Writer, slot_type
from dlang.codegen.loops import Buffer, Stmt
from dlang.codegen.stack_arrays import stack_arrays
from dlang.ir.anf import Atom, Lit, Var
from dlang.ir.types import dtype_of


def function_text(module: Module, program: loops.Program, f: loops.Function, sites: list[Site]) -> str:
    """The definition of a function; adds the places where it leaves compiled code to `sites`."""
    module.expansions = 0
    local = frozenset[loops.Buffer]() if module.sanitizes else stack_arrays(f)
    w = StatementWriter(module, program, sites, local=local)
    w.span = f.span
    if module.lines is not None and f.span is not None:
        w.function = module.lines.function(f.label or f.name, f.span, f.name)
        w.start = f.span
    params = ["ptr %ctx"]
    for slot in (*f.params, *(out.buffer for out in f.outs)):
        name = w.name("p")
        w.bind(slot, name)
        params.append(f"{slot_type(slot)} {'noalias ' if isinstance(slot, Buffer) else ''}{name}")
    if f.recursive:
        check_stack(w)
    results = w.body(f.body)
    type = result_type(f)
    value = "zeroinitializer"
    for k, (result, operand) in enumerate(zip(f.body.results, results, strict=True)):
        value = w.emit(f"insertvalue {type} {value}, {slot_type(result)} {operand}, {k + 1}")
    w.code.append(f"  ret {type} {value}")
    w.code += [Label("fail"), f"  %failed = insertvalue {type} zeroinitializer, i1 true, 0", f"  ret {type} %failed"]
    definition = w.definition(f"define internal {type} @{symbol(f.name)}({', '.join(params)}) nounwind")
    return "\n".join([definition, *w.outlined])


@dataclass(slots=True)
class StatementWriter(Writer):
    """The writer that knows how each statement is written."""

    def statement(self, stmt: Stmt) -> None:
        """Writes a statement and those inside it."""
        match stmt:
            case loops.Compute(var, name, args):
                _compute(self, var, name, args)
            case loops.Convert(var, arg):
                _convert(self, var, arg)
            case loops.Evaluate(var, size):
                if size_varies(self, size):
                    self.bind_lanes(var, size_vector(self, size))
                else:
                    self.bind(var, size_value(self, size), self.depth_of(list(size.atoms())))
            case loops.FirstLane(var, size):
                self.bind(var, size_value(self, size))
            case loops.Load(var, buffer, offset):
                if not loaded(self, stmt):
                    load(self, var, buffer, offset)
            case loops.Store():
                if not stored(self, stmt):
                    store(self, stmt)
            case loops.Move():
                move(self, stmt)
            case loops.Slice():
                part(self, stmt)
            case loops.Allocate():
                allocate(self, stmt)
            case loops.Free(buffer):
                free(self, buffer)
            case loops.Assert():
                guard(self, stmt)
            case loops.Runtime():
                runtime(self, stmt)
            case loops.TextOp():
                text_op(self, stmt)
            case loops.Invoke():
                invoke(self, stmt)
            case loops.CallC():
                call_c(self, stmt)
            case loops.Product():
                product(self, stmt)
            case loops.Pack():
                pack(self, stmt)
            case loops.Launch():
                launch(self, stmt)
            case loops.OnDevice():
                on_device(self, stmt)
            case loops.OnHost():
                on_host(self, stmt)
            case loops.Hold():
                hold(self, stmt)
            case loops.Fetch():
                fetch(self, stmt)
            case loops.Transfer():
                transfer(self, stmt)
            case loops.Node():
                node(self, stmt)
            case loops.LoadTag(var, handle):
                load_tag(self, var, handle)
            case loops.LoadField(slot, handle, word):
                load_field(self, slot, handle, word)
            case loops.ArenaAllocate():
                arena_allocate(self, stmt)
            case loops.Mark(var):
                place_mark(self, var)
            case loops.Release(mark):
                release(self, mark)
            case loops.Collect():
                collect(self, stmt)
            case loops.At(span):
                self.place(span)
            case loops.Enter():
                profiling.enter(self, stmt)
            case loops.Leave():
                profiling.leave(self, stmt)
            case loops.Count():
                profiling.count(self, stmt)
            case loops.Loop():
                loop(self, stmt)
            case loops.Pieces():
                pieces(self, stmt)
            case loops.Parallel():
                parallel(self, stmt)
            case loops.For():
                for_(self, stmt)
            case loops.While():
                while_(self, stmt)
            case loops.Branch():
                branch(self, stmt)


def _compute(w: Writer, var: Var, name: str, args: tuple[Atom, ...]) -> None:
    dtypes = tuple(dtype_of(a) for a in args)
    exponent = args[1].value if name in ("pow", "powi") and isinstance(args[1], Lit) else None
    if exponent is not None and float(exponent).is_integer():
        exponent = int(exponent)
    power = exponent if isinstance(exponent, int) and (name == "powi" or exponent == 2) else None
    if any(w.varies(a) for a in args):
        assert w.lane is not None
        depth, operands = w.depth_in_lanes(args), [w.vector(a) for a in args]
        ops = w.ops(depth, w.lane.width)
        w.bind_lanes(var, _turn(w, ops, name, args, operands) or ops.primitive(name, dtypes, operands, power), depth)
        return
    depth = w.depth_of(args)
    operands, ops = [w.scalar(a) for a in args], w.ops(depth)
    w.bind(var, _turn(w, ops, name, args, operands) or ops.primitive(name, dtypes, operands, power), depth)


def _turn(w: Writer, ops: Scalars, name: str, args: tuple[Atom, ...], operands: list[str]) -> str | None:
    """The sine or cosine of an angle of which both are computed; the first gives the other too. None if not such."""
    if name not in ("sin", "cos") or not isinstance(args[0], Var) or args[0] not in w.angles:
        return None
    waiting = w.turns.pop((name, args[0]), None)
    if waiting is not None:
        return waiting
    both = ops.sine_and_cosine(dtype_of(args[0]), operands[0])
    if both is None:
        return None
    mine, other = both if name == "sin" else both[::-1]
    w.turns["cos" if name == "sin" else "sin", args[0]] = other
    return mine


def _convert(w: Writer, var: Var, arg: Atom) -> None:
    source, target = dtype_of(arg), dtype_of(var)
    if w.varies(arg):
        assert w.lane is not None
        depth = w.depth_in_lanes((arg,))
        w.bind_lanes(var, w.ops(depth, w.lane.width).convert(w.vector(arg), source, target), depth)
    elif source == target:
        # another name, perhaps for what a guard has certified: stays behind the guard
        w.bind(var, w.scalar(arg))
    else:
        depth = w.depth_of((arg,))
        w.bind(var, w.ops(depth).convert(w.scalar(arg), source, target), depth)
