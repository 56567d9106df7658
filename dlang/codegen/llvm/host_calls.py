"""Leaves compiled code: for checks that fail, and for work of the host. Values cross as words of 8 bytes."""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen import loops
from dlang.codegen.abi import READ, WRITE, Signature, Site
from dlang.codegen.llvm import sanitizer, support, texts
from dlang.codegen.llvm.assembly import Label
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.scalars import LLVM
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.loops import ArrayValue, Buffer, Operand
from dlang.diagnostics import Span
from dlang.ir.anf import SIGNED, Atom, is_handle
from dlang.ir.types import dtype_of
from dlang.ops.dtypes import register_dtype


def leave_if(w: Writer, bad: str, site: int, values: Sequence[Operand]) -> None:
    """Fails at a site if a condition holds; the values of its message are written first."""
    fine, failing = w.label("fine"), w.label("failing")
    w.fork(bad, failing, fine, cold=True)
    code, w.code = w.code, [Label(failing)]
    inside = w.conditional
    w.conditional += 1
    sanitizer.operands(w, READ, values)
    w.code.append(f"  store i64 {site}, ptr %ctx")
    word = support.SLOTS
    for operand in values:
        word = pack(w, operand, "%ctx", word)
    w.jump("fail")
    w.conditional = inside
    w.cold += w.code
    w.code = code
    w.begin(fine)


def guard(w: Writer, stmt: loops.Assert) -> None:
    """Fails unless a condition holds. What is read behind it in an iteration stays there: it may rely on that."""
    if w.scopes and w.scopes[-1].conditional == w.conditional:
        w.scopes[-1].loads = False
    if w.varies(stmt.condition):
        assert w.lane is not None
        width, holds = w.lane.width, w.vector(stmt.condition)
        if w.lane.mask is not None:
            type = f"<{width} x i1>"
            holds = w.emit(f"select {type} {w.lane.mask}, {type} {holds}, {type} splat (i1 true)")
        w.module.declare(f"llvm.vector.reduce.and.v{width}i1", "i1", f"<{width} x i1>")
        fine = w.emit(f"call i1 @llvm.vector.reduce.and.v{width}i1(<{width} x i1> {holds})")
        _bail_unless(w, fine)
        return
    condition = w.scalar(stmt.condition)
    if w.lane is not None:
        _bail_unless(w, condition)
        return
    if w.taken is not None:
        condition = w.emit(f"select i1 {w.taken}, i1 {condition}, i1 true")
    values = stmt.values
    site = w.new_site(Site("check", stmt.code, stmt.parts, signatures(values), span=stmt.span))
    leave_if(w, w.emit(f"xor i1 {condition}, true"), site, values)


def _bail_unless(w: Writer, fine: str) -> None:
    """Leaves the loop of lanes before these iterations; the loop of one lane finds the one that fails."""
    assert w.lane is not None
    w.lane.bailed = True
    going = w.label("fine")
    w.code.append(f"  br i1 {fine}, label %{going}, label %{w.lane.bail}, !prof !1")
    w.begin(going)


def runtime(w: Writer, stmt: loops.Runtime) -> None:
    """Calls the host: operands go to it in words on the stack, and results come back there."""
    results = tuple(Signature(r.dtype, 1) if isinstance(r, Buffer) else Signature(dtype_of(r), 0) for r in stmt.results)
    number = w.new_site(
        Site("runtime", stmt.name, stmt.static, signatures(stmt.args), signatures(stmt.outs), results, stmt.span)
    )
    sanitizer.operands(w, READ, stmt.args)
    sanitizer.operands(w, WRITE, stmt.outs)
    word = 0
    for operand in (*stmt.args, *stmt.outs):
        word = pack(w, operand, "%slots", word)
    w.slots = max(w.slots, word + len(results))
    status = w.emit(f"call i32 @dl_callback(ptr %ctx, i64 {number}, ptr %slots)")
    bad = w.emit(f"icmp ne i32 {status}, {support.FINE}")
    leave_if(w, bad, number, ())
    for k, slot in enumerate(stmt.results):
        address = w.emit(f"getelementptr i64, ptr %slots, i64 {word + k}")
        if isinstance(slot, Buffer):
            w.bind(slot, w.emit(f"load ptr, ptr {address}"))
        else:
            w.bind(slot, from_word(w, w.emit(f"load i64, ptr {address}"), dtype_of(slot)))


# ---- texts -----------------------------------------------------------------------------------------------------------
def text_op(w: Writer, stmt: loops.TextOp) -> None:
    """Calls the functions that programs share (`texts.py`)."""
    sanitizer.operands(w, READ, stmt.texts)
    match stmt.name:
        case "flat":
            value = flat(w, w.scalar(stmt.texts[0]))
            _room_for(w, value, texts.FAILED, stmt.span)
        case "join":
            value = w.scalar(stmt.texts[0])
            for other in stmt.texts[1:]:
                value = _shared(w, "dl_text_joined", f"i64 {value}", f"i64 {w.scalar(other)}")
                _room_for(w, value, texts.FAILED, stmt.span)
        case name:
            x, y = stmt.texts
            value = _compared(w, name, x, y, stmt.span)
    w.bind(stmt.var, value)


def flat(w: Writer, text: str) -> str:
    """A text in one piece, if there is room for that."""
    return _shared(w, "dl_text_flat", f"i64 {text}")


def _compared(w: Writer, name: str, x: Atom, y: Atom, span: Span | None) -> str:
    a, b = w.scalar(x), w.scalar(y)
    same = name in ("eq", "ne")
    if same and "0" in (a, b):  # the empty text is one
        return w.emit(f"icmp {name} i64 {a}, {b}")
    order = _shared(w, "dl_text_order", f"i64 {a}", f"i64 {b}", f"i1 {str(same).lower()}")
    _room_for(w, order, texts.UNDECIDED, span)
    return w.emit(f"icmp {name if same else f's{name}'} i64 {order}, 0")


def _shared(w: Writer, name: str, *operands: str) -> str:
    result, types = texts.DECLARATIONS[name]
    w.module.declare(name, result, *types)
    return w.emit(f"call {result} @{name}({', '.join(('ptr %ctx', *operands))})")


def _room_for(w: Writer, value: str, failure: int, span: Span | None) -> None:
    """Fails where a function on texts has found no room."""
    site = w.new_site(Site("memory", "E0806", span=span))
    leave_if(w, w.emit(f"icmp eq i64 {value}, {failure}"), site, ())


# ---- words -----------------------------------------------------------------------------------------------------------
def pack(w: Writer, operand: Operand, base: str, word: int) -> int:
    """Writes a value into words of 8 bytes; gives the next word."""
    if isinstance(operand, ArrayValue):
        put(w, w.emit(f"ptrtoint ptr {w.values[operand.buffer]} to i64"), base, word)
        for k, size in enumerate(operand.shape):
            put(w, size_value(w, size), base, word + 1 + k)
        return word + 1 + len(operand.shape)
    put(w, to_word(w, w.scalar(operand), dtype_of(operand)), base, word)
    return word + 1


def put(w: Writer, value: str, base: str, word: int) -> None:
    address = w.emit(f"getelementptr i64, ptr {base}, i64 {word}")
    w.code.append(f"  store i64 {value}, ptr {address}")


def _word_types(dtype: str) -> tuple[str, str]:
    """The type of a scalar in registers, and that of an integer of its bits."""
    type = "i64" if is_handle(dtype) else LLVM[register_dtype(dtype)]
    return type, {"double": "i64", "float": "i32"}.get(type, type)


def to_word(w: Writer, value: str, dtype: str) -> str:
    """A scalar as a word."""
    type, bits = _word_types(dtype)
    if type != bits:
        value = w.emit(f"bitcast {type} {value} to {bits}")
    return value if bits == "i64" else w.emit(f"{'sext' if dtype in SIGNED else 'zext'} {bits} {value} to i64")


def word_of(w: Writer, value: loops.Value | loops.Buffer) -> str:
    """A scalar, or the address of a buffer, as a word."""
    if isinstance(value, loops.Buffer):
        return w.emit(f"ptrtoint ptr {w.values[value]} to i64")
    return to_word(w, w.scalar(value), dtype_of(value))


def from_word(w: Writer, word: str, dtype: str) -> str:
    """A scalar from a word."""
    type, bits = _word_types(dtype)
    if bits != "i64":
        word = w.emit(f"trunc i64 {word} to {bits}")
    return word if type == bits else w.emit(f"bitcast {bits} {word} to {type}")


def signatures(values: Sequence[Operand]) -> tuple[Signature, ...]:
    return tuple(
        Signature(v.buffer.dtype, len(v.shape)) if isinstance(v, ArrayValue) else Signature(dtype_of(v), 0)
        for v in values
    )
