"""Calls of the program's functions and of the matrix product of a library."""

from __future__ import annotations

from dlang.codegen import loops
from dlang.codegen.llvm import support
from dlang.codegen.llvm.accesses import element_address
from dlang.codegen.llvm.crossings import new_site
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.polls import look_if
from dlang.codegen.llvm.scalars import LLVM, constant
from dlang.codegen.llvm.sites import Site
from dlang.codegen.llvm.writer import Writer, slot_type
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
