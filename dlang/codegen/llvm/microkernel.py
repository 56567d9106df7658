"""Products of matrices in packed panels, as a library in LLVM text that programs call: one module for each dtype.

The micro-kernel holds a tile of the result in registers, some rows by two vectors of columns, and runs along the terms:
two vectors of `b` are loaded, and each element of `a` is broadcast and multiplies both. Around it, `dl_product` goes
through the tiles in blocks: a panel of `b`, two vectors wide and as long as the terms of a block, stays in the first
cache while the rows of a block pass, and these rows stay in the second one while the panels do. `a` is read where it
is, by any two strides; `b` likewise if its rows have adjacent elements, or from panels that `dl_pack` has made. Columns
that fill no vectors have a mask, so nothing beyond an array is touched, and tiles one vector wide if they need no more.
Where one tile holds all columns there is nothing but tiles (`slim`). Each element is the sum of its terms in order, in
blocks that the number of terms decides; so its bits do not depend on where in a product it stands.

After Goto and van de Geijn, Anatomy of high-performance matrix multiplication, 2008; Van Zee and van de Geijn, BLIS: a
framework for rapidly instantiating BLAS functionality, 2015.

Prefetches the operands and the result of a batch's next product while one is computed, as LLVM text.

A processor's own prefetching follows long streams. The operands of small products are many short ones, so that without
this each product would wait for its first rows. The memory to be fetched is four ranges, each a beginning and an end,
that a tile finds by a pointer: while it goes through its terms, it fetches a line of the first range for each of them.
A range that is through makes room for those behind it; the last one holds nothing, and has no end.
"""

from __future__ import annotations

from dlang.codegen.abi import COLUMNS, VECTORS, lanes_of, panel, terms_of
from dlang.codegen.llvm.emitter import FORMATS
from dlang.codegen.llvm.panels import (
    LINE,
    declarations,
    heights_of,
    masked_load,
    masks,
    move,
    moved_row,
    opaque,
    pack,
    pack_symbol,
    tile_stores,
)

SLIM = {"few": VECTORS, "thin": 1}  # kinds of tiles for few columns, and vectors in a row of them
OWN = 2  # panels for which there is room on the stack
PACKED_FROM = 49  # rows from which it is worth packing what could be read in place
WIDE = 4  # panels from which rows that lie far apart are worth being moved together
BLOCK = 4096  # bytes of a row of a block of `b`, which with all its terms fills half of a second cache


def product_symbol(dtype: str, bits: int) -> str:
    """Returns the name of the function that multiplies."""
    return f"dl_product_{dtype}_{bits}"


def panels_symbol(dtype: str, bits: int) -> str:
    """Returns the name of the function that multiplies by panels."""
    return f"dl_panels_{dtype}_{bits}"


def names(dtype: str, bits: int) -> tuple[str, ...]:
    """The functions of a module."""
    return product_symbol(dtype, bits), panels_symbol(dtype, bits), pack_symbol(dtype, bits)


def module_of(symbol: str) -> tuple[str, int] | None:
    """The dtype and the width of vectors of the module that has a function, if it is one of these."""
    kind, _, parts = symbol.removeprefix("dl_").partition("_")
    dtype, _, bits = parts.partition("_")
    return (
        (dtype, int(bits)) if kind in ("product", "panels", "pack") and dtype in FORMATS and bits.isdecimal() else None
    )


def text(dtype: str, bits: int) -> str:
    """The module for a dtype and a width of vectors.

    void dl_product(a, step from row to row of a, from term to term, b, step from term to term of b, from column to
    column, workspace, c, step from row to row of c, rows, columns, terms, whether to add to c, whether the next product
    of a batch lies behind in all arrays); all steps are in bytes, and the workspace has as many elements as
    `workspace_shape` says; without one there is memory for small products on the stack.

    void dl_panels: the same with a `b` in panels, and no workspace or next product: after `b` come steps from term to
    term, panel to panel.

    void dl_pack(panels, b, step from term to term of b, from column to column, columns, terms).
    """
    kernels = [_kernel(dtype, bits, rows, kind) for rows in heights_of(bits) for kind in ("tiles", *SLIM)]
    return "\n".join(
        [
            *kernels,
            expect(FORMATS[dtype].bits // 8),
            move(dtype, bits),
            _slim(dtype, bits),
            _blocks(dtype, bits),
            _packing(dtype, bits),
            pack(dtype, bits),
            "\ndeclare void @llvm.prefetch.p0(ptr, i32, i32, i32)" + declarations(dtype, bits),
        ]
    )


def _kernel(dtype: str, bits: int, rows: int, kind: str) -> str:
    """Tiles of so many rows, one beside the other: c[i, j] = the sum of its terms, or is increased by that.

    kind: "tiles" of panels of `b`; "few" or "thin" if it has no more columns than a tile or a vector, wherever it is.
    """
    few, vectors = kind in SLIM, SLIM.get(kind, VECTORS)
    looks_ahead = vectors == VECTORS
    enter = "turn" if looks_ahead else "panel"
    scalar, lanes, size = FORMATS[dtype].llvm, lanes_of(dtype, bits), FORMATS[dtype].bits // 8
    vector, suffix = f"<{lanes} x {scalar}>", f"v{lanes}{dtype}"
    width = lanes * size
    groups = range(0, rows, 3)
    tile = [(r, v) for r in range(rows) for v in range(vectors)]
    out = [
        f"define internal void @{kind}_{rows}(ptr %a, i64 %row, i64 %term, ptr %b0, i64 %b_term, i64 %b_panel,",
        "    ptr %c0, i64 %c_row, i64 %columns, i64 %terms, i1 %add, ptr %ahead) nounwind {",
        "entry:",
        "  %some = icmp sgt i64 %terms, 0",
        "  %double = shl i64 %row, 1",
        f"  %two = {opaque('i64', '%double')}",
    ]
    for g in groups:
        out += [
            f"  %far{g} = mul i64 %row, {g}",
            f"  %near{g} = getelementptr i8, ptr %a, i64 %far{g}",
            f"  %a{g} = {opaque('ptr', f'%near{g}')}",
        ]
    out += [
        "  br label %panel",
        "panel:",
        "  %width = phi i64 [ %columns, %entry ], [ %width1, %next ]",
        "  %b = phi ptr [ %b0, %entry ], [ %b1, %next ]",
        "  %c = phi ptr [ %c0, %entry ], [ %c1, %next ]",
    ]
    if few:
        out.append(masks(dtype, bits, "%width", vectors))
    for r in range(0 if few else rows):  # the tile of c is on its way while the loop runs
        last = f"%cpre{r - 1}" if r else "%c"
        out.append(f"  %cpre{r} = getelementptr i8, ptr {last}, i64 {'%c_row' if r else '0'}")
        for v in range(vectors):
            out += [
                f"  %cf{r}_{v} = getelementptr i8, ptr %cpre{r}, i64 {v * width}",
                f"  call void @llvm.prefetch.p0(ptr %cf{r}_{v}, i32 1, i32 3, i32 1)",
            ]
    if looks_ahead:
        out.append(choose(enter))
    out += ["  br i1 %some, label %loop, label %done", "loop:"]
    if looks_ahead:
        out.append(f"  %line = phi ptr [ %line.0, %{enter} ], [ %line.1, %loop ]")
    out.append(f"  %k = phi i64 [ %terms, %{enter} ], [ %k1, %loop ]")
    out.append(f"  %bp = phi ptr [ %b, %{enter} ], [ %bp1, %loop ]")
    out += [f"  %p{g} = phi ptr [ %a{g}, %{enter} ], [ %q{g}, %loop ]" for g in groups]
    out += [f"  %s{r}_{v} = phi {vector} [ zeroinitializer, %{enter} ], [ %t{r}_{v}, %loop ]" for r, v in tile]
    if looks_ahead:
        out += [
            "  call void @llvm.prefetch.p0(ptr %line, i32 0, i32 3, i32 1)",
            "  %line.1 = getelementptr i8, ptr %line, i64 %line.step",
        ]
    for v in range(vectors):
        load = masked_load(dtype, bits, f"%bq{v}", v) if few else f"load {vector}, ptr %bq{v}, align {size}"
        out += [f"  %bq{v} = getelementptr i8, ptr %bp, i64 {v * width}", f"  %b{v}.0 = {load}"]
    for r in range(rows):
        g, row_in_group = r - r % 3, r % 3
        address = f"%p{g}"
        if row_in_group:
            address = f"%x{r}"
            out.append(f"  {address} = getelementptr i8, ptr %p{g}, i64 {'%row' if row_in_group == 1 else '%two'}")
        out += [
            f"  %e{r} = load {scalar}, ptr {address}, align {size}",
            f"  %i{r} = insertelement {vector} poison, {scalar} %e{r}, i64 0",
            f"  %w{r} = shufflevector {vector} %i{r}, {vector} poison, <{lanes} x i32> zeroinitializer",
        ]
        out += [
            f"  %t{r}_{v} = call {vector} @llvm.fma.{suffix}({vector} %w{r}, {vector} %b{v}.0, {vector} %s{r}_{v})"
            for v in range(vectors)
        ]
    out += [f"  %q{g} = getelementptr i8, ptr %p{g}, i64 %term" for g in groups]
    out += [
        "  %bp1 = getelementptr i8, ptr %bp, i64 %b_term",
        "  %k1 = sub i64 %k, 1",
        "  %more = icmp sgt i64 %k1, 0",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    out += [f"  %u{r}_{v} = phi {vector} [ zeroinitializer, %{enter} ], [ %t{r}_{v}, %loop ]" for r, v in tile]
    if looks_ahead:
        out += [
            f"  %line.next = phi ptr [ %line.0, %{enter} ], [ %line.1, %loop ]",
            "  store ptr %line.next, ptr %ahead",
        ]
    if not few:
        out.append(masks(dtype, bits, "%width", vectors))
    out += tile_stores(dtype, bits, rows, vectors, "br label %next")
    out += [
        "next:",
        f"  %width1 = sub i64 %width, {vectors * lanes}",
        "  %b1 = getelementptr i8, ptr %b, i64 %b_panel",
        f"  %c1 = getelementptr i8, ptr %c, i64 {vectors * width}",
        "  %further = icmp sgt i64 %width1, 0",
        "  br i1 %further, label %panel, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(out)


def _slim(dtype: str, bits: int) -> str:
    """All rows of a product with no more columns than a tile, and terms for one block."""
    out = [
        f"""define internal void @slim(ptr %a, i64 %row, i64 %term, ptr %b, i64 %b_term, ptr %c, i64 %c_row,
    i64 %rows, i64 %columns, i64 %terms, i1 %add, i1 %followed) nounwind {{
entry:
{prefetch_ranges("%ahead")}
  %narrow = icmp sle i64 %columns, {lanes_of(dtype, bits)}
  br i1 %narrow, label %thin.{heights_of(bits)[0]}, label %few
few:
  call void @expect(ptr %ahead, i1 %followed, ptr %a, ptr %b, ptr %c, i64 %rows, i64 %columns, i64 %terms)
  br label %few.{heights_of(bits)[0]}"""
    ]
    for kind in SLIM:
        start = "[ 0, %few ]" if kind == "few" else "[ 0, %entry ]"
        labels = [f"{kind}.{rows}" for rows in heights_of(bits)]
        for rows, label, following in zip(heights_of(bits), labels, [*labels[1:], "end"], strict=True):
            out.append(
                f"""{label}:
  %i.{label} = phi i64 {start}, [ %n.{label}, %do.{label} ]
  %n.{label} = add i64 %i.{label}, {rows}
  %fits.{label} = icmp sle i64 %n.{label}, %rows
  br i1 %fits.{label}, label %do.{label}, label %{following}
do.{label}:
  %ao.{label} = mul i64 %i.{label}, %row
  %ap.{label} = getelementptr i8, ptr %a, i64 %ao.{label}
  %co.{label} = mul i64 %i.{label}, %c_row
  %cp.{label} = getelementptr i8, ptr %c, i64 %co.{label}
  call void @{kind}_{rows}(ptr %ap.{label}, i64 %row, i64 %term, ptr %b, i64 %b_term, i64 0, ptr %cp.{label},
    i64 %c_row, i64 %columns, i64 %terms, i1 %add, ptr %ahead)
  br label %{label}"""
            )
            start = f"[ %i.{label}, %{label} ]"
    return "\n".join([*out, "end:", "  ret void", "}"])


def _blocks(dtype: str, bits: int) -> str:
    """Columns in blocks, terms in blocks, tiles."""
    size, width = FORMATS[dtype].bits // 8, panel(dtype, bits)
    heights = heights_of(bits)
    name = panels_symbol(dtype, bits)
    out = [
        f"""define void @{name}(ptr %a, i64 %row, i64 %term, ptr %b, i64 %b_term, i64 %b_panel, ptr %c, i64 %c_row,
    i64 %rows, i64 %columns, i64 %terms, i1 %add) nounwind {{
entry:
{prefetch_ranges("%ahead")}
  call void @expect(ptr %ahead, i1 false, ptr %a, ptr %b, ptr %c, i64 %rows, i64 %columns, i64 %terms)
  call void @panels(ptr %a, i64 %row, i64 %term, ptr %b, i64 %b_term, i64 %b_panel, ptr %c, i64 %c_row, i64 %rows,
    i64 %columns, i64 %terms, i1 %add, ptr %ahead)
  ret void
}}

define internal void @panels(ptr %a, i64 %row, i64 %term, ptr %b, i64 %b_term, i64 %b_panel, ptr %c, i64 %c_row,
    i64 %rows, i64 %columns, i64 %terms, i1 %add, ptr %ahead) nounwind {{
entry:
  %narrow = icmp sle i64 %columns, {width // VECTORS}
  %any = icmp sgt i64 %columns, 0
  %shallow = icmp sle i64 %terms, {terms_of(dtype)}
  %thin = and i1 %narrow, %any
  %tiny = and i1 %thin, %shallow
  %scratch = alloca [{heights[0] * moved_row(dtype)} x i8], align 64
{_depth(dtype)}
  %far = icmp ne i64 %term, {size}
  %low = and i64 %row, 1023
  %aligned = icmp eq i64 %low, 0
  %apart = or i1 %far, %aligned
  %many = icmp sge i64 %columns, {WIDE * panel(dtype, bits)}
  %some = icmp sgt i64 %terms, 0
  %often = and i1 %apart, %many
  %move = and i1 %often, %some
  %moved.row = select i1 %far, i64 {size}, i64 {moved_row(dtype)}
  %moved.term = select i1 %far, i64 {size * heights[0]}, i64 {size}
  br i1 %tiny, label %slim, label %columns.head
slim:
  call void @slim(ptr %a, i64 %row, i64 %term, ptr %b, i64 %b_term, ptr %c, i64 %c_row, i64 %rows, i64 %columns,
    i64 %terms, i1 %add, i1 false)
  ret void
columns.head:
  %j = phi i64 [ 0, %entry ], [ %j1, %columns.next ]
  %b.columns = phi ptr [ %b, %entry ], [ %b.columns1, %columns.next ]
  %columns.more = icmp slt i64 %j, %columns
  br i1 %columns.more, label %columns.begin, label %end
columns.begin:
  %j.left = sub i64 %columns, %j
  %wide = call i64 @llvm.smin.i64(i64 %j.left, i64 {BLOCK // size})
  %j.c = mul i64 %j, {size}
  %c.columns = getelementptr i8, ptr %c, i64 %j.c
  %in.place = icmp eq i64 %b_panel, {width * size}
  %beyond = and i64 %wide, {width - 1}
  %ragged = icmp ne i64 %beyond, 0
  %half = icmp sle i64 %beyond, {width // VECTORS}
  %alone = or i1 %in.place, %half
  %cut = and i1 %alone, %ragged
  %inside0 = sub i64 %wide, %beyond
  %inside = select i1 %cut, i64 %inside0, i64 %wide
  %inside.bytes = mul i64 %inside, {size}
  %inside.panels = udiv i64 %inside, {width}
  %inside.panel = mul i64 %inside.panels, %b_panel
  %inner = icmp sgt i64 %inside, 0
  br label %terms.head
terms.head:
  %k0 = phi i64 [ 0, %columns.begin ], [ %k1, %terms.next ]
  %again = phi i1 [ %add, %columns.begin ], [ true, %terms.next ]
  %rest0 = sub i64 %terms, %k0
  %deep = call i64 @llvm.smin.i64(i64 %rest0, i64 %depth)
  %k.a = mul i64 %k0, %term
  %a.block = getelementptr i8, ptr %a, i64 %k.a
  %k.b = mul i64 %k0, %b_term
  %b.block = getelementptr i8, ptr %b.columns, i64 %k.b
  %side = getelementptr i8, ptr %b.block, i64 %inside.panel
  br label %tile.{heights[0]}"""
    ]
    start = "[ 0, %terms.head ]"
    for rows in heights:
        following = f"tile.{heights[heights.index(rows) + 1]}" if rows != 1 else "terms.next"
        out += [
            f"tile.{rows}:",
            f"  %i.{rows} = phi i64 {start}, [ %n.{rows}, %next.{rows} ]",
            f"  %n.{rows} = add i64 %i.{rows}, {rows}",
            f"  %fits.{rows} = icmp sle i64 %n.{rows}, %rows",
            f"  br i1 %fits.{rows}, label %begin.{rows}, label %{following}",
            f"begin.{rows}:",
            f"  %ao.{rows} = mul i64 %i.{rows}, %row",
            f"  %ap.{rows} = getelementptr i8, ptr %a.block, i64 %ao.{rows}",
            f"  %co.{rows} = mul i64 %i.{rows}, %c_row",
            f"  %cp.{rows} = getelementptr i8, ptr %c.columns, i64 %co.{rows}",
        ]
        if rows == heights[0]:
            out += [
                f"  br i1 %move, label %move.{rows}, label %do.{rows}",
                f"move.{rows}:",
                f"  call void @move_{rows}(ptr %scratch, ptr %ap.{rows}, i64 %row, i64 %term, i64 %deep)",
                f"  br label %do.{rows}",
                f"do.{rows}:",
            ]
            for what, type in (("at", "ptr"), ("row", "i64"), ("term", "i64")):
                moved = "%scratch" if what == "at" else f"%moved.{what}"
                kept = f"%ap.{rows}" if what == "at" else f"%{what}"
                out.append(f"  %{what}.{rows} = phi {type} [ {kept}, %begin.{rows} ], [ {moved}, %move.{rows} ]")
            operand = f"ptr %at.{rows}, i64 %row.{rows}, i64 %term.{rows}"
        else:
            out += [f"  br label %do.{rows}", f"do.{rows}:"]
            operand = f"ptr %ap.{rows}, i64 %row, i64 %term"
        last = "i64 %deep, i1 %again, ptr %ahead)"
        side = f"ptr %side, i64 %b_term, i64 0, ptr %ce.{rows}, i64 %c_row, i64 %beyond, {last}"
        out += [
            f"  br i1 %inner, label %whole.{rows}, label %side.{rows}",
            f"whole.{rows}:",
            f"  call void @tiles_{rows}({operand}, ptr %b.block, i64 %b_term, i64 %b_panel,",
            f"    ptr %cp.{rows}, i64 %c_row, i64 %inside, {last}",
            f"  br i1 %cut, label %side.{rows}, label %next.{rows}",
            f"side.{rows}:",
            f"  %ce.{rows} = getelementptr i8, ptr %cp.{rows}, i64 %inside.bytes",
            f"  br i1 %half, label %thin.{rows}, label %few.{rows}",
            f"thin.{rows}:",
            f"  call void @thin_{rows}({operand}, {side}",
            f"  br label %next.{rows}",
            f"few.{rows}:",
            f"  call void @few_{rows}({operand}, {side}",
            f"  br label %next.{rows}",
            f"next.{rows}:",
            f"  br label %tile.{rows}",
        ]
        start = f"[ %i.{rows}, %tile.{rows} ]"
    out.append(
        f"""terms.next:
  %k1 = add i64 %k0, %deep
  %terms.more = icmp slt i64 %k1, %terms
  br i1 %terms.more, label %terms.head, label %columns.next
columns.next:
  %j1 = add i64 %j, {BLOCK // size}
  %panels = mul i64 %b_panel, {BLOCK // size // panel(dtype, bits)}
  %b.columns1 = getelementptr i8, ptr %b.columns, i64 %panels
  br label %columns.head
end:
  ret void
}}"""
    )
    return "\n".join(out)


def _depth(dtype: str) -> str:
    """How many terms a block has: as many in each as can be, in no more blocks than it takes."""
    return f"""  %up = add i64 %terms, {terms_of(dtype) - 1}
  %blocks0 = sdiv i64 %up, {terms_of(dtype)}
  %blocks = call i64 @llvm.smax.i64(i64 %blocks0, i64 1)
  %upper = add i64 %terms, %blocks
  %upmost = sub i64 %upper, 1
  %depth = sdiv i64 %upmost, %blocks"""


def _packing(dtype: str, bits: int) -> str:
    """A block of columns and terms of `b` after another, in panels unless few rows need it."""
    size, width = FORMATS[dtype].bits // 8, panel(dtype, bits)
    packer = pack_symbol(dtype, bits)
    return f"""define void @{product_symbol(dtype, bits)}(ptr %a, i64 %row, i64 %term, ptr %b, i64 %b_term, i64 %column,
    ptr %workspace, ptr %c, i64 %c_row, i64 %rows, i64 %columns, i64 %terms, i1 %add, i1 %followed) nounwind {{
entry:
{prefetch_ranges("%ahead")}
  %own = alloca [{OWN * width * terms_of(dtype) * size} x i8], align 64
  %adjacent = icmp eq i64 %column, {size}
  %few = icmp slt i64 %rows, {PACKED_FROM}
  %direct = and i1 %adjacent, %few
  %limit = select i1 %few, i64 {width}, i64 {width // VECTORS}
  %narrow = icmp sle i64 %columns, %limit
  %some = icmp sgt i64 %columns, 0
  %shallow = icmp sle i64 %terms, {terms_of(dtype)}
  %thin = and i1 %narrow, %some
  %flat = and i1 %adjacent, %shallow
  %tiny = and i1 %thin, %flat
  br i1 %tiny, label %slim, label %wide.b
slim:
  call void @slim(ptr %a, i64 %row, i64 %term, ptr %b, i64 %b_term, ptr %c, i64 %c_row, i64 %rows, i64 %columns,
    i64 %terms, i1 %add, i1 %followed)
  ret void
wide.b:
  call void @expect(ptr %ahead, i1 %followed, ptr %a, ptr %b, ptr %c, i64 %rows, i64 %columns, i64 %terms)
  br i1 %direct, label %place, label %packed
place:
  call void @panels(ptr %a, i64 %row, i64 %term, ptr %b, i64 %b_term, i64 {width * size}, ptr %c, i64 %c_row,
    i64 %rows, i64 %columns, i64 %terms, i1 %add, ptr %ahead)
  ret void
packed:
  %none = icmp eq ptr %workspace, null
  %space = select i1 %none, ptr %own, ptr %workspace
  %most = select i1 %none, i64 {OWN * width}, i64 {COLUMNS}
{_depth(dtype)}
  br label %columns.head
columns.head:
  %j = phi i64 [ 0, %packed ], [ %j1, %columns.next ]
  %columns.more = icmp slt i64 %j, %columns
  br i1 %columns.more, label %columns.begin, label %end
columns.begin:
  %left = sub i64 %columns, %j
  %wide = call i64 @llvm.smin.i64(i64 %left, i64 %most)
  %j.b = mul i64 %j, %column
  %b.columns = getelementptr i8, ptr %b, i64 %j.b
  %j.c = mul i64 %j, {size}
  %c.columns = getelementptr i8, ptr %c, i64 %j.c
  br label %terms.head
terms.head:
  %k = phi i64 [ 0, %columns.begin ], [ %k1, %terms.head ]
  %again = phi i1 [ %add, %columns.begin ], [ true, %terms.head ]
  %rest = sub i64 %terms, %k
  %deep = call i64 @llvm.smin.i64(i64 %rest, i64 %depth)
  %k.b = mul i64 %k, %b_term
  %b.block = getelementptr i8, ptr %b.columns, i64 %k.b
  call void @{packer}(ptr %space, ptr %b.block, i64 %b_term, i64 %column, i64 %wide, i64 %deep)
  %k.a = mul i64 %k, %term
  %a.block = getelementptr i8, ptr %a, i64 %k.a
  %panel = mul i64 %deep, {width * size}
  call void @panels(ptr %a.block, i64 %row, i64 %term, ptr %space, i64 {width * size}, i64 %panel, ptr %c.columns,
    i64 %c_row, i64 %rows, i64 %wide, i64 %deep, i1 %again, ptr %ahead)
  %k1 = add i64 %k, %deep
  %terms.more = icmp slt i64 %k1, %terms
  br i1 %terms.more, label %terms.head, label %columns.next
columns.next:
  %j1 = add i64 %j, %most
  br label %columns.head
end:
  ret void
}}"""


RANGES = 4
BYTES = 16 * RANGES
NEVER = -1  # the end of a range that holds nothing, whose only line is fetched again and again


def prefetch_ranges(name: str) -> str:
    """Memory for the ranges."""
    return f"  {name} = alloca [{BYTES} x i8], align 16"


def expect(size: int) -> str:
    """The function that sets ranges: empty ones, unless a product of the same sizes lies behind in all three arrays."""
    wide = f"<{RANGES * 2} x i64>"
    both = ", ".join(f"i32 {k % 2}" for k in range(RANGES * 2))
    out = [
        f"""define internal void @expect(ptr %ahead, i1 %followed, ptr %a, ptr %b, ptr %c, i64 %rows, i64 %columns,
    i64 %terms) nounwind {{
entry:
  %here = ptrtoint ptr %ahead to i64
  %one = insertelement <2 x i64> <i64 0, i64 {NEVER}>, i64 %here, i64 0
  %nothing = shufflevector <2 x i64> %one, <2 x i64> poison, <{RANGES * 2} x i32> <{both}>
  store {wide} %nothing, ptr %ahead, align 16
  br i1 %followed, label %next, label %end
next:"""
    ]
    matrices = ("a", "rows", "terms"), ("b", "terms", "columns"), ("c", "rows", "columns")
    for k, (matrix, down, across) in enumerate(matrices):
        out.append(
            f"""  %count.{matrix} = mul i64 %{down}, %{across}
  %bytes.{matrix} = mul i64 %count.{matrix}, {size}
  %first.{matrix} = getelementptr i8, ptr %{matrix}, i64 %bytes.{matrix}
  %last.{matrix} = getelementptr i8, ptr %first.{matrix}, i64 %bytes.{matrix}
  %low.{matrix} = getelementptr i8, ptr %ahead, i64 {16 * k}
  %high.{matrix} = getelementptr i8, ptr %ahead, i64 {16 * k + 8}
  store ptr %first.{matrix}, ptr %low.{matrix}, align 8
  store ptr %last.{matrix}, ptr %high.{matrix}, align 8"""
        )
    return "\n".join([*out, "  br label %end", "end:", "  ret void", "}"])


def choose(label: str) -> str:
    """Ends a block: %line.0 is the next line to be fetched, and %line.step what leads to others; goes on at a label."""
    out = [
        """  %line.end = getelementptr i8, ptr %ahead, i64 8
  %line.here = load ptr, ptr %ahead, align 8
  %line.limit = load i64, ptr %line.end, align 8
  %line.value = ptrtoint ptr %line.here to i64
  %line.past = icmp uge i64 %line.value, %line.limit
  br i1 %line.past, label %line.shift, label %line.same
line.shift:"""
    ]
    for k in range(1, RANGES):
        out.append(
            f"""  %line.from{k} = getelementptr i8, ptr %ahead, i64 {16 * k}
  %line.to{k} = getelementptr i8, ptr %ahead, i64 {16 * k - 16}
  %line.range{k} = load <2 x i64>, ptr %line.from{k}, align 16
  store <2 x i64> %line.range{k}, ptr %line.to{k}, align 16"""
        )
    out.append(
        f"""  %line.front = load ptr, ptr %ahead, align 8
  %line.behind = load i64, ptr %line.end, align 8
  br label %{label}
line.same:
  br label %{label}
{label}:
  %line.0 = phi ptr [ %line.here, %line.same ], [ %line.front, %line.shift ]
  %line.until = phi i64 [ %line.limit, %line.same ], [ %line.behind, %line.shift ]
  %line.none = icmp eq i64 %line.until, {NEVER}
  %line.step = select i1 %line.none, i64 0, i64 {LINE}"""
    )
    return "\n".join(out)
