"""Matrices in panels, as the micro-kernel reads them: the shape of a tile, and what copies operands, as LLVM text.

A panel of `b` has as many columns as a tile, row after row; the rows of a tile of `a` have their terms side by side.
"""

from __future__ import annotations

from dlang.codegen.abi import VECTORS, lanes_of, panel, terms_of
from dlang.codegen.llvm.emitter import FORMATS

LINE = 64  # bytes of a line of a cache


def heights_of(bits: int) -> tuple[int, ...]:
    """Rows of tiles: the most that leave registers for operands, and those that make up any rest."""
    return (12, 8, 4, 2, 1) if bits == 512 else (6, 4, 2, 1)


def pack_symbol(dtype: str, bits: int) -> str:
    """Returns the name of the function that makes panels."""
    return f"dl_pack_{dtype}_{bits}"


def pack(dtype: str, bits: int) -> str:
    """Panels one after another; what columns are missing in the last one is zero."""
    scalar, size, lanes = FORMATS[dtype].llvm, FORMATS[dtype].bits // 8, lanes_of(dtype, bits)
    columns = panel(dtype, bits)
    vector = f"<{lanes} x {scalar}>"
    name = pack_symbol(dtype, bits)
    out = [
        f"""define void @{name}(ptr %to, ptr %b, i64 %term, i64 %column, i64 %columns, i64 %terms) nounwind {{
entry:
  %length = mul i64 %terms, {columns * size}
  %adjacent = icmp eq i64 %column, {size}
  %upright = icmp eq i64 %term, {size}
  %some = icmp sgt i64 %terms, 0
  br i1 %some, label %begin, label %end
begin:
  %beyond = and i64 %columns, {columns - 1}
  %inside = sub i64 %columns, %beyond
  %ragged = icmp ne i64 %beyond, 0
{masks(dtype, bits, "%beyond")}
  br i1 %adjacent, label %lines, label %panels
lines:
  %lk = phi i64 [ %terms, %begin ], [ %lk1, %line.next ]
  %lp = phi ptr [ %b, %begin ], [ %lp1, %line.next ]
  %lt = phi ptr [ %to, %begin ], [ %lt1, %line.next ]
  br label %line
line:
  %lj = phi i64 [ 0, %lines ], [ %lj1, %copy ]
  %cp = phi ptr [ %lp, %lines ], [ %cp1, %copy ]
  %ct = phi ptr [ %lt, %lines ], [ %ct1, %copy ]
  %l.more = icmp slt i64 %lj, %inside
  br i1 %l.more, label %copy, label %line.end
copy:"""
    ]
    for v in range(VECTORS):
        out += _copied(dtype, bits, v, "c", f"load {vector}, ptr %cp.c{v}, align {size}")
    out.append(
        f"""  %cp1 = getelementptr i8, ptr %cp, i64 {columns * size}
  %ct1 = getelementptr i8, ptr %ct, i64 %length
  %lj1 = add i64 %lj, {columns}
  br label %line
line.end:
  br i1 %ragged, label %rest.of.line, label %line.next
rest.of.line:"""
    )
    for v in range(VECTORS):
        out += _copied(dtype, bits, v, "m", masked_load(dtype, bits, f"%cp.m{v}", v))
    out.append(
        f"""  br label %line.next
line.next:
  %lp1 = getelementptr i8, ptr %lp, i64 %term
  %lt1 = getelementptr i8, ptr %lt, i64 {columns * size}
  %lk1 = sub i64 %lk, 1
  %lines.more = icmp sgt i64 %lk1, 0
  br i1 %lines.more, label %lines, label %end
panels:
  %j = phi i64 [ 0, %begin ], [ %j1, %next ]
  %t = phi ptr [ %to, %begin ], [ %t1, %next ]
  %more = icmp slt i64 %j, %columns
  br i1 %more, label %panel, label %end
panel:
  %jb = mul i64 %j, %column
  %p = getelementptr i8, ptr %b, i64 %jb
  %left = sub i64 %columns, %j
  %full = icmp sge i64 %left, {columns}
  %turned = and i1 %full, %upright
  %squares = and i64 %terms, {-lanes}
  %done = select i1 %turned, i64 %squares, i64 0
  %any = icmp sgt i64 %done, 0
  br i1 %any, label %turn, label %rest
turn:
  %tk = phi i64 [ 0, %panel ], [ %tk1, %turn ]
  %tq = mul i64 %tk, {columns * size}
  %tt = getelementptr i8, ptr %t, i64 %tq
  %to.first = mul i64 %tk, {size}
  %tp = getelementptr i8, ptr %p, i64 %to.first"""
    )
    for v in range(VECTORS):
        out += _transposed(dtype, lanes, v)
    out.append(
        f"""  %tk1 = add i64 %tk, {lanes}
  %tmore = icmp slt i64 %tk1, %done
  br i1 %tmore, label %turn, label %rest
rest:
  %rk = phi i64 [ 0, %panel ], [ %done, %turn ], [ %rk1, %filled ]
  %rmore = icmp slt i64 %rk, %terms
  br i1 %rmore, label %each, label %next
each:
  %rkb = mul i64 %rk, %term
  %rp = getelementptr i8, ptr %p, i64 %rkb
  %rkt = mul i64 %rk, {columns * size}
  %rt = getelementptr i8, ptr %t, i64 %rkt
  br label %fill
fill:
  %c = phi i64 [ 0, %each ], [ %c1, %put ]
  %ep = phi ptr [ %rp, %each ], [ %ep1, %put ]
  %has = icmp slt i64 %c, %left
  br i1 %has, label %get, label %put
get:
  %x = load {scalar}, ptr %ep, align {size}
  br label %put
put:
  %y = phi {scalar} [ %x, %get ], [ 0.0, %fill ]
  %ec = getelementptr {scalar}, ptr %rt, i64 %c
  store {scalar} %y, ptr %ec, align {size}
  %ep1 = getelementptr i8, ptr %ep, i64 %column
  %c1 = add i64 %c, 1
  %cless = icmp slt i64 %c1, {columns}
  br i1 %cless, label %fill, label %filled
filled:
  %rk1 = add i64 %rk, 1
  br label %rest
next:
  %j1 = add i64 %j, {columns}
  %t1 = getelementptr i8, ptr %t, i64 %length
  br label %panels
end:
  ret void
}}"""
    )
    return "\n".join(out)


def _copied(dtype: str, bits: int, v: int, name: str, load: str) -> list[str]:
    """A vector of a row, to its panel."""
    size, lanes = FORMATS[dtype].bits // 8, lanes_of(dtype, bits)
    return [
        f"  %cp.{name}{v} = getelementptr i8, ptr %cp, i64 {v * lanes * size}",
        f"  %ct.{name}{v} = getelementptr i8, ptr %ct, i64 {v * lanes * size}",
        f"  %cv.{name}{v} = {load}",
        f"  store <{lanes} x {FORMATS[dtype].llvm}> %cv.{name}{v}, ptr %ct.{name}{v}, align {size}",
    ]


def _transposed(dtype: str, lanes: int, v: int) -> list[str]:
    """A square of `b`, whose terms are adjacent, to rows of a panel: neighbours are exchanged at each distance."""
    scalar, size = FORMATS[dtype].llvm, FORMATS[dtype].bits // 8
    vector = f"<{lanes} x {scalar}>"
    out = []
    for c in range(lanes):
        out += [
            f"  %o{v}.{c} = mul i64 %column, {v * lanes + c}",
            f"  %g{v}.{c} = getelementptr i8, ptr %tp, i64 %o{v}.{c}",
            f"  %m{v}.0.{c} = load {vector}, ptr %g{v}.{c}, align {size}",
        ]
    level, distance = 0, 1
    while distance < lanes:
        for c in range(lanes):
            first = c & ~distance
            pair = f"{vector} %m{v}.{level}.{first}, {vector} %m{v}.{level}.{first | distance}"
            chosen = []
            for k in range(lanes):
                # of the first of two rows what lies low, of the second what lies high
                source = (k & ~distance) | (distance if c & distance else 0)
                chosen.append(source + lanes if k & distance else source)
            mask = ", ".join(f"i32 {k}" for k in chosen)
            out.append(f"  %m{v}.{level + 1}.{c} = shufflevector {pair}, <{lanes} x i32> <{mask}>")
        level, distance = level + 1, distance * 2
    for k in range(lanes):
        out += [
            f"  %h{v}.{k} = getelementptr i8, ptr %tt, i64 {(k * VECTORS + v) * lanes * size}",
            f"  store {vector} %m{v}.{level}.{k}, ptr %h{v}.{k}, align {size}",
        ]
    return out


def moved_row(dtype: str) -> int:
    """Bytes from row to row where the rows of a tile have been moved: no power of two, so they share no cache sets."""
    return terms_of(dtype) * FORMATS[dtype].bits // 8 + LINE


def move(dtype: str, bits: int) -> str:
    """Some rows of `a`: one after another if their terms are adjacent, otherwise their terms one after another."""
    rows = heights_of(bits)[0]
    scalar, size, lanes = FORMATS[dtype].llvm, FORMATS[dtype].bits // 8, lanes_of(dtype, bits)
    vector = f"<{lanes} x {scalar}>"
    out = [
        f"""define internal void @move_{rows}(ptr %to, ptr %a, i64 %row, i64 %term, i64 %terms) nounwind {{
entry:
  %adjacent = icmp eq i64 %row, {size}
  %upright = icmp eq i64 %term, {size}
  br i1 %upright, label %rows, label %columns
rows:
  %beyond = and i64 %terms, {lanes - 1}
  %inside = sub i64 %terms, %beyond
  %inside.bytes = mul i64 %inside, {size}
{masks(dtype, bits, "%beyond", 1)}
  br label %row.head
row.head:
  %i = phi i64 [ {rows}, %rows ], [ %i1, %row.end ]
  %rp = phi ptr [ %a, %rows ], [ %rp1, %row.end ]
  %rt = phi ptr [ %to, %rows ], [ %rt1, %row.end ]
  br label %part.head
part.head:
  %o = phi i64 [ 0, %row.head ], [ %o1, %part ]
  %part.more = icmp slt i64 %o, %inside.bytes
  br i1 %part.more, label %part, label %row.end
part:
  %from = getelementptr i8, ptr %rp, i64 %o
  %at = getelementptr i8, ptr %rt, i64 %o
  %part.v = load {vector}, ptr %from, align {size}
  store {vector} %part.v, ptr %at, align {size}
  %o1 = add i64 %o, {lanes * size}
  br label %part.head
row.end:
  %last = getelementptr i8, ptr %rp, i64 %inside.bytes
  %last.at = getelementptr i8, ptr %rt, i64 %inside.bytes
  %last.v = {masked_load(dtype, bits, "%last", 0)}
  store {vector} %last.v, ptr %last.at, align {size}
  %rp1 = getelementptr i8, ptr %rp, i64 %row
  %rt1 = getelementptr i8, ptr %rt, i64 {moved_row(dtype)}
  %i1 = sub i64 %i, 1
  %row.more = icmp sgt i64 %i1, 0
  br i1 %row.more, label %row.head, label %end
columns:
  br i1 %adjacent, label %whole, label %each
whole:
  %k = phi i64 [ %terms, %columns ], [ %k1, %whole ]
  %p = phi ptr [ %a, %columns ], [ %p1, %whole ]
  %t = phi ptr [ %to, %columns ], [ %t1, %whole ]
  %v = load <{rows} x {scalar}>, ptr %p, align {size}
  store <{rows} x {scalar}> %v, ptr %t, align {size}
  %p1 = getelementptr i8, ptr %p, i64 %term
  %t1 = getelementptr i8, ptr %t, i64 {size * rows}
  %k1 = sub i64 %k, 1
  %more = icmp sgt i64 %k1, 0
  br i1 %more, label %whole, label %end
each:
  %two = shl i64 %row, 1"""
    ]
    for g in range(0, rows, 3):
        out += [f"  %f{g} = mul i64 %row, {g}", f"  %n{g} = getelementptr i8, ptr %a, i64 %f{g}"]
        out.append(f"  %a{g} = {opaque('ptr', f'%n{g}')}")
    out += [f"  %step2 = {opaque('i64', '%two')}", "  br label %one", "one:"]
    out.append("  %j = phi i64 [ %terms, %each ], [ %j1, %one ]")
    out.append("  %w = phi ptr [ %to, %each ], [ %w1, %one ]")
    out += [f"  %q{g} = phi ptr [ %a{g}, %each ], [ %r{g}, %one ]" for g in range(0, rows, 3)]
    for r in range(rows):
        g, row_in_group = r - r % 3, r % 3
        out += [
            f"  %x{r} = getelementptr i8, ptr %q{g}, i64 {('0', '%row', '%step2')[row_in_group]}",
            f"  %e{r} = load {scalar}, ptr %x{r}, align {size}",
            f"  %y{r} = getelementptr i8, ptr %w, i64 {r * size}",
            f"  store {scalar} %e{r}, ptr %y{r}, align {size}",
        ]
    out += [f"  %r{g} = getelementptr i8, ptr %q{g}, i64 %term" for g in range(0, rows, 3)]
    out += [
        f"  %w1 = getelementptr i8, ptr %w, i64 {size * rows}",
        "  %j1 = sub i64 %j, 1",
        "  %again = icmp sgt i64 %j1, 0",
        "  br i1 %again, label %one, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(out)


def masks(dtype: str, bits: int, columns: str, vectors: int = VECTORS) -> str:
    """Emits masks of the lanes of each vector of a panel that are among so many columns that are left."""
    lanes = lanes_of(dtype, bits)
    wide = f"<{lanes} x i64>"
    steps = ", ".join(f"i64 {k}" for k in range(lanes))
    out = []
    for v in range(vectors):
        out += [
            f"  %left{v} = sub i64 {columns}, {v * lanes}",
            f"  %one{v} = insertelement {wide} poison, i64 %left{v}, i64 0",
            f"  %all{v} = shufflevector {wide} %one{v}, {wide} poison, <{lanes} x i32> zeroinitializer",
            f"  %mask{v} = icmp slt {wide} <{steps}>, %all{v}",
        ]
    return "\n".join(out)


def masked_load(dtype: str, bits: int, address: str, v: int) -> str:
    """A vector of which the lanes beyond the last column are zero, and not read."""
    lanes, size = lanes_of(dtype, bits), FORMATS[dtype].bits // 8
    vector = f"<{lanes} x {FORMATS[dtype].llvm}>"
    arguments = f"ptr align {size} {address}, <{lanes} x i1> %mask{v}, {vector} zeroinitializer"
    return f"call {vector} @llvm.masked.load.v{lanes}{dtype}.p0({arguments})"


def tile_stores(dtype: str, bits: int, rows: int, vectors: int, then: str) -> list[str]:
    """Writes what a tile has summed up, %u<row>_<vector>, to %c, or adds it if %add holds; under `masks`."""
    lanes, size = lanes_of(dtype, bits), FORMATS[dtype].bits // 8
    vector, mask, suffix = f"<{lanes} x {FORMATS[dtype].llvm}>", f"<{lanes} x i1>", f"v{lanes}{dtype}"
    out = ["  br i1 %add, label %join, label %set"]
    for label in ("join", "set"):
        out.append(f"{label}:")
        for r in range(rows):
            last = f"%c{label}{r - 1}" if r else "%c"
            out.append(f"  %c{label}{r} = getelementptr i8, ptr {last}, i64 {'%c_row' if r else '0'}")
            for v in range(vectors):
                address, value = f"%d{label}{r}_{v}", f"%u{r}_{v}"
                out.append(f"  {address} = getelementptr i8, ptr %c{label}{r}, i64 {v * lanes * size}")
                if label == "join":
                    out += [
                        f"  %old{r}_{v} = {masked_load(dtype, bits, address, v)}",
                        f"  %new{r}_{v} = fadd {vector} %old{r}_{v}, {value}",
                    ]
                    value = f"%new{r}_{v}"
                out.append(
                    f"  call void @llvm.masked.store.{suffix}.p0({vector} {value}, ptr align {size} {address}, "
                    f"{mask} %mask{v})"
                )
        out.append(f"  {then}")
    return out


def declarations(dtype: str, bits: int) -> str:
    """Declares the functions of LLVM that functions of tiles call."""
    lanes = lanes_of(dtype, bits)
    vector, suffix = f"<{lanes} x {FORMATS[dtype].llvm}>", f"v{lanes}{dtype}"
    return f"""
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})
declare {vector} @llvm.masked.load.{suffix}.p0(ptr, <{lanes} x i1>, {vector})
declare void @llvm.masked.store.{suffix}.p0({vector}, ptr, <{lanes} x i1>)
"""


def opaque(type: str, value: str) -> str:
    """A value that LLVM knows nothing of: it would compute each address from the one before, which takes too long."""
    return f'call {type} asm "", "=r,0"({type} {value})'
