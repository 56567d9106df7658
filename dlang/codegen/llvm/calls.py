"""Calls of the program's functions, of functions of C, and of products of matrices."""

from __future__ import annotations

from dlang.codegen import loops
from dlang.codegen.llvm import microkernel, panels, support
from dlang.codegen.llvm.accesses import element_address
from dlang.codegen.llvm.crossings import new_site
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.polls import look_if
from dlang.codegen.llvm.scalars import LLVM
from dlang.codegen.llvm.sites import Site
from dlang.codegen.llvm.writer import Writer, slot_type
from dlang.codegen.vectorize import BITS
from dlang.ir.anf import Size

LINEAR_ALGEBRA = "scipy_"
"""How the symbols of BLAS and LAPACK begin."""


def symbol(name: str) -> str:
    """The name of a function in LLVM, quoted: any text is one."""
    return '"f.' + name.replace("\\", "\\5C").replace('"', "\\22") + '"'


def result_type(function: loops.Function) -> str:
    """The status, true for a failure, and the results that are not written to destinations."""
    return "{ " + ", ".join(["i1", *(slot_type(r) for r in function.body.results)]) + " }"


def check_stack(w: Writer) -> None:
    """At the start of a recursive function: asks for more stack where this is used up, and looks up now and then."""
    w.module.declare("llvm.frameaddress.p0", "ptr", "i32 immarg")
    frame = w.emit("call ptr @llvm.frameaddress.p0(i32 0)")
    limit = w.emit(f"getelementptr i64, ptr %ctx, i64 {support.STACK_LIMIT}")
    bad = w.emit(f"icmp ult ptr {frame}, {w.emit(f'load ptr, ptr {limit}')}")
    deeper, fine, failing = w.label("deeper"), w.label("fine"), w.label("failing")
    w.code.append(f"  br i1 {bad}, label %{deeper}, label %{fine}, !prof !0")
    more = w.name("more")
    w.cold += [
        f"{deeper}:",
        f"  {more} = call i1 @dl_deeper(ptr %ctx, ptr {frame})",
        f"  br i1 {more}, label %{fine}, label %{failing}",
        f"{failing}:",
        f"  store i64 {support.STACK_EXHAUSTED}, ptr %ctx",
        "  br label %fail",
    ]
    w.begin(fine)
    pointer = w.emit(f"getelementptr i64, ptr %ctx, i64 {support.FUEL}")
    left = w.emit(f"sub i64 {w.emit(f'load i64, ptr {pointer}')}, {support.FUEL_OF_A_CALL}")
    w.code.append(f"  store i64 {left}, ptr {pointer}")
    look_if(w, w.emit(f"icmp slt i64 {left}, 0"), 0)


def invoke(w: Writer, stmt: loops.Invoke) -> None:
    callee = w.program.functions[stmt.function]
    type = result_type(callee)
    args = ["ptr %ctx"]
    args += [f"{slot_type(a)} {w.scalar(a)}" for a in (*stmt.args, *stmt.outs)]
    out = w.emit(f"call {type} @{symbol(stmt.function)}({', '.join(args)})")
    bad = w.emit(f"extractvalue {type} {out}, 0")
    site = new_site(w, Site("call", callee.label, span=stmt.span))
    fine, failing = w.label("fine"), w.label("failing")
    w.code.append(f"  br i1 {bad}, label %{failing}, label %{fine}, !prof !0")
    w.cold += [f"{failing}:", f"  call void @dl_trace(ptr %ctx, i64 {site})", "  br label %fail"]
    w.begin(fine)
    for k, slot in enumerate(stmt.results):
        w.bind(slot, w.emit(f"extractvalue {type} {out}, {k + 1}"))


def call_c(w: Writer, stmt: loops.CallC) -> None:
    """A C function by the conventions of C: narrow integers are extended, as its caller has to."""
    if stmt.target.startswith(LINEAR_ALGEBRA):
        name = stmt.target
        w.module.imports.add(name)
    else:
        name = foreign_symbol(stmt.target)
        w.module.foreign[name] = stmt.target
    types = [_c_type(a) for a in stmt.args]
    # attributes of a result stand before its type
    result = "void" if stmt.result is None else " ".join(reversed(_c_type(stmt.result).split(" ")))
    w.module.declare(name, result, *types)
    args = ", ".join(f"{type} {w.scalar(a)}" for type, a in zip(types, stmt.args, strict=True))
    if stmt.result is None:
        w.code.append(f"  call void @{name}({args})")
    else:
        w.bind(stmt.result, w.emit(f"call {result} @{name}({args})"))


def foreign_symbol(target: str) -> str:
    """What a C function is called in a module, in characters that any linker takes."""
    return "foreign." + target.encode().hex()


def _c_type(value: loops.Value) -> str:
    if isinstance(value, loops.Buffer):
        return "ptr"
    dtype = loops.scalar_dtype(value)
    extension = {"i8": " signext", "i16": " signext", "u8": " zeroext", "u16": " zeroext", "bool": " zeroext"}
    return LLVM[dtype] + extension.get(dtype, "")


def product(w: Writer, stmt: loops.Product) -> None:
    """A product of matrices by the functions of `microkernel`."""
    dtype = stmt.c.buffer.dtype
    operands, types = [_operand(w, stmt.a, dtype)], ["ptr", "i64", "i64"] * 2
    match stmt.b:
        case loops.Panels(buffer, offset, width):
            name = microkernel.panels_symbol(dtype, stmt.bits)
            size = BITS[dtype] // 8 * width
            panel = w.emit(f"mul i64 {size_value(w, stmt.inner)}, {size}")
            operands.append(f"ptr {element_address(w, buffer, offset)}, i64 {size}, i64 {panel}")
        case loops.Matrix():
            room = "null" if stmt.room is None else w.values[stmt.room]
            name = microkernel.product_symbol(dtype, stmt.bits)
            operands += [_operand(w, stmt.b, dtype), f"ptr {room}"]
            types.append("ptr")
    w.module.imports.add(name)
    w.module.declare(name, "void", *types, "ptr", *["i64"] * 4, "i1")
    operands.append(f"ptr {element_address(w, stmt.c.buffer, stmt.c.offset)}, i64 {_bytes(w, stmt.c.stride, dtype)}")
    operands += [f"i64 {size_value(w, size)}" for size in (stmt.rows, stmt.columns, stmt.inner)]
    w.code.append(f"  call void @{name}({', '.join(operands)}, i1 {'true' if stmt.adds else 'false'})")


def pack(w: Writer, stmt: loops.Pack) -> None:
    """A matrix in panels."""
    dtype, width = stmt.target.buffer.dtype, stmt.target.width
    name = panels.pack_symbol(dtype, width * BITS[dtype] // panels.VECTORS)
    w.module.imports.add(name)
    w.module.declare(name, "void", "ptr", "ptr", *["i64"] * 4)
    target = element_address(w, stmt.target.buffer, stmt.target.offset)
    sizes = [f"i64 {size_value(w, size)}" for size in (stmt.columns, stmt.rows)]
    w.code.append(f"  call void @{name}({', '.join([f'ptr {target}', _operand(w, stmt.source, dtype), *sizes])})")


def _operand(w: Writer, m: loops.Matrix, dtype: str) -> str:
    """A matrix by its address and its steps, in bytes, from row to row and from column to column."""
    steps = [_bytes(w, m.stride, dtype), str(BITS[dtype] // 8)]
    if m.transposed:
        steps.reverse()
    return f"ptr {element_address(w, m.buffer, m.offset)}, i64 {steps[0]}, i64 {steps[1]}"


def _bytes(w: Writer, size: Size, dtype: str) -> str:
    return size_value(w, size * (BITS[dtype] // 8))
