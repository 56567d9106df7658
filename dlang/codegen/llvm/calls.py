"""Calls of the program's functions and of the matrix product of a library."""

from __future__ import annotations

from dlang.codegen import loops
from dlang.codegen.llvm import support
from dlang.codegen.llvm.accesses import element_address
from dlang.codegen.llvm.crossings import leave_if, new_site
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.scalars import LLVM, constant
from dlang.codegen.llvm.sites import Site
from dlang.codegen.llvm.writer import Writer, slot_type
from dlang.ir.anf import Size


def symbol(name: str) -> str:
    """The name of a function in LLVM, quoted: any text is one."""
    return '"f.' + name.replace("\\", "\\5C").replace('"', "\\22") + '"'


def result_type(function: loops.Function) -> str:
    """The status, true for a failure, and the results that are not written to destinations."""
    return "{ " + ", ".join(["i1", *(slot_type(r) for r in function.body.results)]) + " }"


def check_stack(w: Writer) -> None:
    w.module.declare("llvm.frameaddress.p0", "ptr", "i32 immarg")
    frame = w.emit("call ptr @llvm.frameaddress.p0(i32 0)")
    limit = w.emit(f"getelementptr i64, ptr %ctx, i64 {support.STACK_LIMIT}")
    bad = w.emit(f"icmp ult ptr {frame}, {w.emit(f'load ptr, ptr {limit}')}")
    leave_if(w, bad, support.STACK_EXHAUSTED, ())


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


def product(w: Writer, stmt: loops.Product) -> None:
    """Row-major matrix products by CBLAS."""
    dtype = stmt.c.buffer.dtype
    type = LLVM[dtype]
    name = f"scipy_cblas_{'d' if dtype == 'f64' else 's'}gemm"
    w.module.imports.add(name)
    ints, pair = ["i32"] * 6, [type, "ptr", "i32", "ptr", "i32", type, "ptr", "i32"]
    w.module.declare(name, "void", *ints, *pair)

    def narrow(size: Size) -> str:
        return w.emit(f"trunc i64 {size_value(w, size)} to i32")

    order = [f"i32 {112 if m.transposed else 111}" for m in (stmt.a, stmt.b)]
    sizes = [f"i32 {narrow(s)}" for s in (stmt.rows, stmt.columns, stmt.inner)]
    a, b, c = (element_address(w, m.buffer, m.offset) for m in (stmt.a, stmt.b, stmt.c))
    strides = [narrow(m.stride) for m in (stmt.a, stmt.b, stmt.c)]
    one, zero = constant(1.0, dtype), constant(0.0, dtype)
    inputs = [f"{type} {one}, ptr {a}, i32 {strides[0]}, ptr {b}, i32 {strides[1]}"]
    output = f"{type} {zero}, ptr {c}, i32 {strides[2]}"
    w.code.append(f"  call void @{name}({', '.join(['i32 101', *order, *sizes, *inputs, output])})")
