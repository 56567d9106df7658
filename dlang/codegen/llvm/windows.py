"""Products with a factor that lies in windows over an array, as LLVM text: a library like `microkernel`.

An element of this factor is found by two tables, of which one has an offset for each row and one for each term. So any
window over an array is such a factor, whatever its axes, strides and dilations. A left factor is read where it is, with
the right one in panels: tiles are those of `microkernel`, and have one vector of columns where no more are left. A
right factor is put in panels, a run of adjacent elements at a time.

After Dukhan, The indirect convolution algorithm, 2019.
"""

from __future__ import annotations

from dlang.codegen.abi import VECTORS, lanes_of, panel, terms_of
from dlang.codegen.llvm.emitter import FORMATS
from dlang.codegen.llvm.panels import declarations, heights_of, masks, opaque, tile_stores

KINDS = {"wide": VECTORS, "thin": 1}  # of tiles, and vectors in a row of them


def windows_symbol(dtype: str, bits: int) -> str:
    """Returns the name of the function."""
    return f"dl_windows_{dtype}_{bits}"


def gather_symbol(dtype: str, bits: int) -> str:
    """Returns the name of the function that makes panels."""
    return f"dl_gather_{dtype}_{bits}"


def names(dtype: str, bits: int) -> tuple[str, ...]:
    """The functions of a module."""
    return windows_symbol(dtype, bits), gather_symbol(dtype, bits)


def module_of(symbol: str) -> tuple[str, int] | None:
    """The dtype and the width of vectors of the module that has a function, if it is one of these."""
    kind, _, parts = symbol.removeprefix("dl_").partition("_")
    dtype, _, bits = parts.partition("_")
    return (dtype, int(bits)) if kind in ("windows", "gather") and bits.isdecimal() else None


def text(dtype: str, bits: int) -> str:
    """The module for a dtype and a width of vectors.

    void dl_windows(a, offsets of rows, offsets of terms, b, step from panel to panel, c, step from row to row of c,
    rows, columns, terms, whether to add to c); steps and offsets are in bytes. The offsets of terms are one more than
    there are terms, the last of which is read and not used.

    void dl_gather(panels, b, offsets of terms, offsets of columns, columns, terms): a right factor, zeros behind it.
    """
    kernels = [_kernel(dtype, bits, rows, kind) for rows in heights_of(bits) for kind in KINDS]
    return "\n".join([*kernels, _blocks(dtype, bits), _gather(dtype, bits), declarations(dtype, bits)])


def _kernel(dtype: str, bits: int, rows: int, kind: str) -> str:
    """A tile of so many rows: c[i, j] = the sum of its terms, or is increased by that."""
    vectors = KINDS[kind]
    scalar, lanes, size = FORMATS[dtype].llvm, lanes_of(dtype, bits), FORMATS[dtype].bits // 8
    vector, suffix = f"<{lanes} x {scalar}>", f"v{lanes}{dtype}"
    width = lanes * size
    tile = [(r, v) for r in range(rows) for v in range(vectors)]
    out = [
        f"define internal void @{kind}_{rows}(ptr %a, ptr %rows, ptr %terms0, ptr %b, ptr %c, i64 %c_row,",
        "    i64 %columns, i64 %terms, i1 %add) nounwind {",
        "entry:",
        "  %some = icmp sgt i64 %terms, 0",
        "  %k0 = load i64, ptr %terms0, align 8",
        "  %terms.end = getelementptr i64, ptr %terms0, i64 %terms",
    ]
    for r in range(rows):
        out += [
            f"  %r{r} = getelementptr i64, ptr %rows, i64 {r}",
            f"  %o{r} = load i64, ptr %r{r}, align 8",
            f"  %p{r} = getelementptr i8, ptr %a, i64 %o{r}",
            f"  %a{r} = {opaque('ptr', f'%p{r}')}",
        ]
    out += [
        "  br i1 %some, label %loop, label %done",
        "loop:",
        "  %t = phi ptr [ %terms0, %entry ], [ %t1, %loop ]",
        "  %bp = phi ptr [ %b, %entry ], [ %bp1, %loop ]",
        "  %k = phi i64 [ %k0, %entry ], [ %k1, %loop ]",
    ]
    out += [f"  %s{r}_{v} = phi {vector} [ zeroinitializer, %entry ], [ %t{r}_{v}, %loop ]" for r, v in tile]
    for v in range(vectors):
        out += [
            f"  %bq{v} = getelementptr i8, ptr %bp, i64 {v * width}",
            f"  %b{v}.0 = load {vector}, ptr %bq{v}, align {size}",
        ]
    for r in range(rows):
        out += [
            f"  %x{r} = getelementptr i8, ptr %a{r}, i64 %k",
            f"  %e{r} = load {scalar}, ptr %x{r}, align {size}",
            f"  %i{r} = insertelement {vector} poison, {scalar} %e{r}, i64 0",
            f"  %w{r} = shufflevector {vector} %i{r}, {vector} poison, <{lanes} x i32> zeroinitializer",
        ]
        out += [
            f"  %t{r}_{v} = call {vector} @llvm.fma.{suffix}({vector} %w{r}, {vector} %b{v}.0, {vector} %s{r}_{v})"
            for v in range(vectors)
        ]
    out += [
        f"  %bp1 = getelementptr i8, ptr %bp, i64 {VECTORS * width}",
        "  %t1 = getelementptr i64, ptr %t, i64 1",
        "  %k1 = load i64, ptr %t1, align 8",
        "  %more = icmp ult ptr %t1, %terms.end",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    out += [f"  %u{r}_{v} = phi {vector} [ zeroinitializer, %entry ], [ %t{r}_{v}, %loop ]" for r, v in tile]
    out += [masks(dtype, bits, "%columns", vectors), *tile_stores(dtype, bits, rows, vectors, "ret void")]
    return "\n".join([*out, "}"])


def _blocks(dtype: str, bits: int) -> str:
    """Terms in blocks, and in each panel after panel, which stays in a first cache while the tiles of all rows pass."""
    size, width, lanes = FORMATS[dtype].bits // 8, panel(dtype, bits), lanes_of(dtype, bits)
    heights = heights_of(bits)
    out = [
        f"""define void @{windows_symbol(dtype, bits)}(ptr %a, ptr %rows, ptr %terms, ptr %b, i64 %b_panel, ptr %c,
    i64 %c_row, i64 %m, i64 %columns, i64 %count, i1 %add) nounwind {{
entry:
  %up = add i64 %count, {terms_of(dtype) - 1}
  %blocks0 = sdiv i64 %up, {terms_of(dtype)}
  %blocks = call i64 @llvm.smax.i64(i64 %blocks0, i64 1)
  %upper = add i64 %count, %blocks
  %upmost = sub i64 %upper, 1
  %depth = sdiv i64 %upmost, %blocks
  %any = icmp sgt i64 %columns, 0
  br i1 %any, label %terms.head, label %end
terms.head:
  %k = phi i64 [ 0, %entry ], [ %k1, %terms.next ]
  %again = phi i1 [ %add, %entry ], [ true, %terms.next ]
  %rest = sub i64 %count, %k
  %deep = call i64 @llvm.smin.i64(i64 %rest, i64 %depth)
  %t.block = getelementptr i64, ptr %terms, i64 %k
  %k.b = mul i64 %k, {width * size}
  %b.block = getelementptr i8, ptr %b, i64 %k.b
  br label %panel
panel:
  %left = phi i64 [ %columns, %terms.head ], [ %left1, %panel.next ]
  %b.panel = phi ptr [ %b.block, %terms.head ], [ %b.next, %panel.next ]
  %c.panel = phi ptr [ %c, %terms.head ], [ %c.next, %panel.next ]
  %thin = icmp sle i64 %left, {lanes}
  br label %tile.{heights[0]}"""
    ]
    start = "[ 0, %panel ]"
    for rows, following in zip(heights, [*(f"tile.{n}" for n in heights[1:]), "panel.next"], strict=True):
        call = f"""(ptr %a, ptr %at.{rows}, ptr %t.block, ptr %b.panel, ptr %cp.{rows}, i64 %c_row,
    i64 %left, i64 %deep, i1 %again)
  br label %next.{rows}"""
        out.append(
            f"""tile.{rows}:
  %i.{rows} = phi i64 {start}, [ %n.{rows}, %next.{rows} ]
  %n.{rows} = add i64 %i.{rows}, {rows}
  %fits.{rows} = icmp sle i64 %n.{rows}, %m
  br i1 %fits.{rows}, label %begin.{rows}, label %{following}
begin.{rows}:
  %at.{rows} = getelementptr i64, ptr %rows, i64 %i.{rows}
  %co.{rows} = mul i64 %i.{rows}, %c_row
  %cp.{rows} = getelementptr i8, ptr %c.panel, i64 %co.{rows}
  br i1 %thin, label %thin.{rows}, label %wide.{rows}
thin.{rows}:
  call void @thin_{rows}{call}
wide.{rows}:
  call void @wide_{rows}{call}
next.{rows}:
  br label %tile.{rows}"""
        )
        start = f"[ %i.{rows}, %tile.{rows} ]"
    out.append(
        f"""panel.next:
  %left1 = sub i64 %left, {width}
  %b.next = getelementptr i8, ptr %b.panel, i64 %b_panel
  %c.next = getelementptr i8, ptr %c.panel, i64 {width * size}
  %panels.more = icmp sgt i64 %left1, 0
  br i1 %panels.more, label %panel, label %terms.next
terms.next:
  %k1 = add i64 %k, %deep
  %terms.more = icmp slt i64 %k1, %count
  br i1 %terms.more, label %terms.head, label %end
end:
  ret void
}}"""
    )
    return "\n".join(out)


def _gather(dtype: str, bits: int) -> str:
    """Vector after vector of columns, in each run after run of those that are adjacent, with all of its terms."""
    size, width, lanes = FORMATS[dtype].bits // 8, panel(dtype, bits), lanes_of(dtype, bits)
    vector, suffix = f"<{lanes} x {FORMATS[dtype].llvm}>", f"v{lanes}{dtype}"
    wide, mask = f"<{lanes} x i64>", f"<{lanes} x i1>"
    steps = ", ".join(f"i64 {k}" for k in range(lanes))
    return f"""
define void @{gather_symbol(dtype, bits)}(ptr %to, ptr %b, ptr %terms, ptr %points, i64 %columns,
    i64 %count) nounwind {{
entry:
  %length = mul i64 %count, {width * size}
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %vector.head, label %end
vector.head:
  %q = phi i64 [ 0, %entry ], [ %q1, %vector.next ]
  %left = sub i64 %columns, %q
  %q.rest = and i64 %q, {width - 1}
  %inside = icmp ne i64 %q.rest, 0
  %any = icmp sgt i64 %left, 0
  %more = or i1 %inside, %any
  br i1 %more, label %vector, label %end
vector:
  %number = udiv i64 %q, {width}
  %first = mul i64 %number, %length
  %first.b = mul i64 %q.rest, {size}
  %to.panel = getelementptr i8, ptr %to, i64 %first
  %to.vector = getelementptr i8, ptr %to.panel, i64 %first.b
  %here = getelementptr i64, ptr %points, i64 %q
  %n = call i64 @llvm.smin.i64(i64 %left, i64 {lanes})
  %full = icmp sge i64 %left, {lanes}
  br i1 %full, label %run.head, label %clear
clear:
  %ck = phi i64 [ 0, %vector ], [ %ck1, %clear ]
  %co = mul i64 %ck, {width * size}
  %cp = getelementptr i8, ptr %to.vector, i64 %co
  store {vector} zeroinitializer, ptr %cp, align {size}
  %ck1 = add i64 %ck, 1
  %c.more = icmp slt i64 %ck1, %count
  br i1 %c.more, label %clear, label %run.head
run.head:
  %s = phi i64 [ 0, %vector ], [ 0, %clear ], [ %e1, %run.end ]
  %runs = icmp slt i64 %s, %n
  br i1 %runs, label %run, label %vector.next
run:
  %sp = getelementptr i64, ptr %here, i64 %s
  %so = load i64, ptr %sp, align 8
  br label %extent
extent:
  %e = phi i64 [ %s, %run ], [ %e1, %look ]
  %eo = phi i64 [ %so, %run ], [ %no, %look ]
  %e1 = add i64 %e, 1
  %e.more = icmp slt i64 %e1, %n
  br i1 %e.more, label %look, label %found
look:
  %np = getelementptr i64, ptr %here, i64 %e1
  %no = load i64, ptr %np, align 8
  %wanted = add i64 %eo, {size}
  %adjacent = icmp eq i64 %no, %wanted
  br i1 %adjacent, label %extent, label %found
found:
  %low0 = insertelement {wide} poison, i64 %s, i64 0
  %low = shufflevector {wide} %low0, {wide} poison, <{lanes} x i32> zeroinitializer
  %high0 = insertelement {wide} poison, i64 %e, i64 0
  %high = shufflevector {wide} %high0, {wide} poison, <{lanes} x i32> zeroinitializer
  %from = icmp sge {wide} <{steps}>, %low
  %until = icmp sle {wide} <{steps}>, %high
  %mask = and {mask} %from, %until
  %back = mul i64 %s, {-size}
  %b.run = getelementptr i8, ptr %b, i64 %so
  %b.vector = getelementptr i8, ptr %b.run, i64 %back
  br label %term
term:
  %k = phi i64 [ 0, %found ], [ %k1, %term ]
  %t = phi ptr [ %to.vector, %found ], [ %t1, %term ]
  %kp = getelementptr i64, ptr %terms, i64 %k
  %ko = load i64, ptr %kp, align 8
  %p = getelementptr i8, ptr %b.vector, i64 %ko
  %x = call {vector} @llvm.masked.load.{suffix}.p0(ptr align {size} %p, {mask} %mask, {vector} zeroinitializer)
  call void @llvm.masked.store.{suffix}.p0({vector} %x, ptr align {size} %t, {mask} %mask)
  %t1 = getelementptr i8, ptr %t, i64 {width * size}
  %k1 = add i64 %k, 1
  %k.more = icmp slt i64 %k1, %count
  br i1 %k.more, label %term, label %run.end
run.end:
  br label %run.head
vector.next:
  %q1 = add i64 %q, {lanes}
  br label %vector.head
end:
  ret void
}}"""
