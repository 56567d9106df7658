"""Calls of the program's functions, of functions of C, and of products of matrices."""

from __future__ import annotations

from dlang.codegen import loops
from dlang.codegen.abi import VECTORS, Site, terms_of
from dlang.codegen.llvm import microkernel, panels, sanitizer, support, windows
from dlang.codegen.llvm.accesses import element_address
from dlang.codegen.llvm.assembly import Label
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.safepoints import look, look_if
from dlang.codegen.llvm.sanitizer import LINEAR_ALGEBRA
from dlang.codegen.llvm.scalars import LLVM
from dlang.codegen.llvm.writer import Writer, slot_type
from dlang.ir.anf import Size
from dlang.ir.terms import WIDTHS
from dlang.ir.types import dtype_of

PIECE = 48  # blocks of terms of a product between two looks: with a block of the result, some 100 ms


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
    limit = w.in_context(support.STACK_LIMIT)
    bad = w.emit(f"icmp ult ptr {frame}, {w.emit(f'load ptr, ptr {limit}')}")
    deeper, fine, failing = w.label("deeper"), w.label("fine"), w.label("failing")
    w.fork(bad, deeper, fine, cold=True)
    more = w.name("more")
    w.cold += [
        Label(deeper),
        f"  {more} = call i1 @dl_deeper(ptr %ctx, ptr {frame})",
        f"  br i1 {more}, label %{fine}, label %{failing}",
        Label(failing),
        f"  store i64 {support.STACK_EXHAUSTED}, ptr %ctx",
        "  br label %fail",
    ]
    w.begin(fine)
    pointer = w.in_context(support.FUEL)
    left = w.emit(f"sub i64 {w.emit(f'load i64, ptr {pointer}')}, {support.FUEL_OF_A_CALL}")
    w.code.append(f"  store i64 {left}, ptr {pointer}")
    look_if(w, w.emit(f"icmp slt i64 {left}, 0"), 0)


def invoke(w: Writer, stmt: loops.Invoke) -> None:
    callee = w.program.functions[stmt.function]
    type = result_type(callee)
    sanitizer.invoke(w, stmt, callee)
    args = ["ptr %ctx"]
    args += [f"{slot_type(a)} {w.scalar(a)}" for a in (*stmt.args, *stmt.outs)]
    out = w.emit(f"call {type} @{symbol(stmt.function)}({', '.join(args)})")
    bad = w.emit(f"extractvalue {type} {out}, 0")
    site = w.new_site(Site("call", callee.label, span=stmt.span))
    fine, failing = w.label("fine"), w.label("failing")
    w.fork(bad, failing, fine, cold=True)
    w.cold += [Label(failing), f"  call void @dl_trace(ptr %ctx, i64 {site})", "  br label %fail"]
    w.begin(fine)
    for k, slot in enumerate(stmt.results):
        w.bind(slot, w.emit(f"extractvalue {type} {out}, {k + 1}"))


def call_c(w: Writer, stmt: loops.CallC) -> None:
    """A C function by the conventions of C: narrow integers are extended, as its caller has to."""
    if stmt.target.startswith(LINEAR_ALGEBRA):
        name = stmt.target
        w.module.imports.add(name)
    else:
        name = _foreign_symbol(stmt.target)
        w.module.foreign[name] = stmt.target
    sanitizer.call_c(w, stmt)
    types = [_c_type(a) for a in stmt.args]
    # attributes of a result stand before its type
    result = "void" if stmt.result is None else " ".join(reversed(_c_type(stmt.result).split(" ")))
    w.module.declare(name, result, *types)
    args = ", ".join(f"{type} {w.scalar(a)}" for type, a in zip(types, stmt.args, strict=True))
    if stmt.result is None:
        w.code.append(f"  call void @{name}({args})")
    else:
        w.bind(stmt.result, w.emit(f"call {result} @{name}({args})"))


def _foreign_symbol(target: str) -> str:
    """Returns the name of a C function in a module, in characters that any linker takes."""
    return "foreign." + target.encode().hex()


def _c_type(value: loops.Value) -> str:
    if isinstance(value, loops.Buffer):
        return "ptr"
    dtype = dtype_of(value)
    extension = {"i8": " signext", "i16": " signext", "u8": " zeroext", "u16": " zeroext", "bool": " zeroext"}
    return LLVM[dtype] + extension.get(dtype, "")


def product(w: Writer, stmt: loops.Product) -> None:
    """A product of matrices by the functions of `microkernel` and `windows`."""
    dtype = stmt.c.buffer.dtype
    adds = f"i1 {'true' if stmt.adds else 'false'}"
    c = [f"ptr {element_address(w, stmt.c.buffer, stmt.c.offset)}", f"i64 {_bytes(w, stmt.c.stride, dtype)}"]
    sizes = [f"i64 {size_value(w, size)}" for size in (stmt.rows, stmt.columns, stmt.inner)]
    a, b = _factor(w, stmt.a, dtype), _right(w, stmt, dtype)
    sanitizer.matrix_product(w, stmt, *[operands[0].removeprefix("ptr ") for operands in (a, b, c)])
    match stmt.a, stmt.b:
        case loops.Scattered(), _:
            _call(w, windows.windows_symbol(dtype, stmt.bits), [*a, *b, *c, *sizes, adds])
        case _, loops.Panels():
            _multiply(w, stmt, microkernel.panels_symbol(dtype, stmt.bits), a, b, [*c, *sizes, adds])
        case _:
            followed = "i1 false" if stmt.followed is None else f"i1 {w.scalar(stmt.followed)}"
            name = microkernel.product_symbol(dtype, stmt.bits)
            _multiply(w, stmt, name, a, b, [*c, *sizes, adds, followed])


def _multiply(w: Writer, stmt: loops.Product, name: str, a: list[str], b: list[str], target: list[str]) -> None:
    """Calls a function of `microkernel`. A product of very many terms is a sum of several, between which the run looks
    whether it has to end; code that is sanitised knows matrices as a whole.
    """
    most = PIECE * terms_of(stmt.c.buffer.dtype)
    if w.module.sanitizes or (stmt.inner.constant is not None and stmt.inner.constant <= most):
        _call(w, name, [*a, *b, *target])
        return
    (a_at, a_row, a_term), (b_at, b_term, *b_rest) = a, b
    c_at, c_row, rows, columns, terms, adds, *followed = target
    before, head, looking, again, done = w.block, *[w.label(s) for s in ("terms", "look", "again", "done")]
    first, following, adding = (w.name(stem) for stem in ("first", "following", "adding"))
    count = terms.removeprefix("i64 ")
    w.jump(head)
    w.begin(head)
    w.code += [
        f"  {first} = phi i64 [ 0, %{before} ], [ {following}, %{again} ]",
        f"  {adding} = phi i1 [ {adds.removeprefix('i1 ')}, %{before} ], [ true, %{again} ]",
        f"  {following} = add i64 {first}, {most}",
    ]
    more = w.emit(f"icmp slt i64 {following}, {count}")
    terms_now = w.emit(f"select i1 {more}, i64 {most}, i64 {w.emit(f'sub i64 {count}, {first}')}")

    def moved(at: str, step: str) -> str:
        apart = w.emit(f"mul i64 {first}, {step.removeprefix('i64 ')}")
        return f"ptr {w.emit(f'getelementptr i8, {at}, i64 {apart}')}"

    factors = [moved(a_at, a_term), a_row, a_term, moved(b_at, b_term), b_term, *b_rest]
    _call(w, name, [*factors, c_at, c_row, rows, columns, f"i64 {terms_now}", f"i1 {adding}", *followed])
    w.fork(more, looking, done, cold=True)
    w.code += [Label(looking), *look(w, again, support.FULL + 1)]
    w.begin(again)
    w.jump(head)
    w.begin(done)


def _call(w: Writer, name: str, operands: list[str]) -> None:
    """A call of a function of a library, by operands with their types."""
    w.module.imports.add(name)
    w.module.declare(name, "void", *[operand.split(" ")[0] for operand in operands])
    w.code.append(f"  call void @{name}({', '.join(operands)})")


def _factor(w: Writer, m: loops.Matrix | loops.Scattered, dtype: str) -> list[str]:
    if isinstance(m, loops.Matrix):
        return _operand(w, m, dtype)
    return [f"ptr {element_address(w, m.buffer, m.offset)}", f"ptr {w.values[m.rows]}", f"ptr {w.values[m.columns]}"]


def _right(w: Writer, stmt: loops.Product, dtype: str) -> list[str]:
    """The right factor: a matrix and the workspace to pack it, or panels, as many bytes apart as they have."""
    if isinstance(stmt.b, loops.Matrix):
        return [*_operand(w, stmt.b, dtype), f"ptr {'null' if stmt.workspace is None else w.values[stmt.workspace]}"]
    size = WIDTHS[dtype] * stmt.b.width
    steps = [f"i64 {w.emit(f'mul i64 {size_value(w, stmt.inner)}, {size}')}"]
    if isinstance(stmt.a, loops.Matrix):
        steps.insert(0, f"i64 {size}")
    return [f"ptr {element_address(w, stmt.b.buffer, stmt.b.offset)}", *steps]


def pack(w: Writer, stmt: loops.Pack) -> None:
    """A matrix in panels."""
    dtype, width = stmt.target.buffer.dtype, stmt.target.width
    symbol = windows.gather_symbol if isinstance(stmt.source, loops.Scattered) else panels.pack_symbol
    target = element_address(w, stmt.target.buffer, stmt.target.offset)
    sizes = [f"i64 {size_value(w, size)}" for size in (stmt.columns, stmt.rows)]
    source = _factor(w, stmt.source, dtype)
    sanitizer.packed(w, stmt, target, source[0].removeprefix("ptr "))
    _call(w, symbol(dtype, 8 * WIDTHS[dtype] * width // VECTORS), [f"ptr {target}", *source, *sizes])


def _operand(w: Writer, m: loops.Matrix, dtype: str) -> list[str]:
    """A matrix by its address and its steps, in bytes, from row to row and from column to column."""
    steps = [_bytes(w, m.stride, dtype), str(WIDTHS[dtype])]
    if m.transposed:
        steps.reverse()
    return [f"ptr {element_address(w, m.buffer, m.offset)}", f"i64 {steps[0]}", f"i64 {steps[1]}"]


def _bytes(w: Writer, size: Size, dtype: str) -> str:
    return size_value(w, size * WIDTHS[dtype])
