"""Functions of the loop-nest IR as LLVM text.

The text is in SSA form already: what loops and branches carry is explicit, invariants are moved in front of loops while
they are written, and loops of several lanes are written as vectors, so LLVM has little left to do but choose
instructions.
"""

from __future__ import annotations

from dlang.codegen import loops
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
from dlang.codegen.llvm.sites import Site
from dlang.codegen.llvm.writer import Writer, slot_type
from dlang.codegen.loops import Buffer, Stmt
from dlang.ir.anf import Atom, Lit, Var
from dlang.ir.types import dtype_of


def function_text(module: Module, program: loops.Program, f: loops.Function, sites: list[Site]) -> str:
    """The definition of a function; adds the places where it leaves compiled code to `sites`."""
    module.expansions = 0
    w = Writer(module, program, sites, statement)
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


def statement(w: Writer, stmt: Stmt) -> None:
    """Writes a statement and those inside it."""
    match stmt:
        case loops.Compute(var, name, args):
            _compute(w, var, name, args)
        case loops.Convert(var, arg):
            _convert(w, var, arg)
        case loops.Evaluate(var, size):
            if size_varies(w, size):
                assert w.lane is not None
                w.lane.vectors[var] = size_vector(w, size)
            else:
                w.bind(var, size_value(w, size), w.depth_of(list(size.atoms())))
        case loops.Load(var, buffer, offset):
            if not loaded(w, stmt):
                load(w, var, buffer, offset)
        case loops.Store():
            if not stored(w, stmt):
                store(w, stmt)
        case loops.Move():
            move(w, stmt)
        case loops.Slice():
            part(w, stmt)
        case loops.Allocate():
            allocate(w, stmt)
        case loops.Free(buffer):
            free(w, buffer)
        case loops.Assert():
            guard(w, stmt)
        case loops.Runtime():
            runtime(w, stmt)
        case loops.TextOp():
            text_op(w, stmt)
        case loops.Invoke():
            invoke(w, stmt)
        case loops.CallC():
            call_c(w, stmt)
        case loops.Product():
            product(w, stmt)
        case loops.Pack():
            pack(w, stmt)
        case loops.Launch():
            launch(w, stmt)
        case loops.OnDevice():
            on_device(w, stmt)
        case loops.OnHost():
            on_host(w, stmt)
        case loops.Hold():
            hold(w, stmt)
        case loops.Fetch():
            fetch(w, stmt)
        case loops.Transfer():
            transfer(w, stmt)
        case loops.Node():
            node(w, stmt)
        case loops.LoadTag(var, handle):
            load_tag(w, var, handle)
        case loops.LoadField(slot, handle, word):
            load_field(w, slot, handle, word)
        case loops.ArenaAllocate():
            arena_allocate(w, stmt)
        case loops.Mark(var):
            place_mark(w, var)
        case loops.Release(mark):
            release(w, mark)
        case loops.Collect():
            collect(w, stmt)
        case loops.At(span):
            w.place(span)
        case loops.Enter():
            profiling.enter(w, stmt)
        case loops.Leave():
            profiling.leave(w, stmt)
        case loops.Count():
            profiling.count(w, stmt)
        case loops.Loop():
            loop(w, stmt)
        case loops.Pieces():
            pieces(w, stmt)
        case loops.Parallel():
            parallel(w, stmt)
        case loops.For():
            for_(w, stmt)
        case loops.While():
            while_(w, stmt)
        case loops.Branch():
            branch(w, stmt)


def _compute(w: Writer, var: Var, name: str, args: tuple[Atom, ...]) -> None:
    dtypes = tuple(dtype_of(a) for a in args)
    exponent = args[1].value if name in ("pow", "powi") and isinstance(args[1], Lit) else None
    if exponent is not None and float(exponent).is_integer():
        exponent = int(exponent)
    power = exponent if isinstance(exponent, int) and (name == "powi" or exponent == 2) else None
    if any(w.varies(a) for a in args):
        assert w.lane is not None
        operands = [w.vector(a) for a in args]
        ops = w.ops(width=w.lane.width)
        w.lane.vectors[var] = _turn(w, ops, name, args, operands) or ops.primitive(name, dtypes, operands, power)
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
        vector = w.ops(width=w.lane.width).convert(w.vector(arg), source, target)
        w.lane.vectors[var] = vector
    elif source == target:
        # another name, perhaps for what a guard has certified: stays behind the guard
        w.bind(var, w.scalar(arg))
    else:
        depth = w.depth_of((arg,))
        w.bind(var, w.ops(depth).convert(w.scalar(arg), source, target), depth)
