"""Prefetches the operands and the result of a batch's next product while one is computed, as LLVM text.

A processor's own prefetching follows long streams. The operands of small products are many short ones, so that without
this each product would wait for its first rows. The memory to be fetched is four ranges, each a beginning and an end,
that a tile finds by a pointer: while it goes through its terms, it fetches a line of the first range for each of them.
A range that is through makes room for those behind it; the last one holds nothing, and has no end.
"""

from __future__ import annotations

from dlang.codegen.llvm.panels import LINE

RANGES = 4
BYTES = 16 * RANGES
NEVER = -1  # the end of a range that holds nothing, whose only line is fetched again and again


def room(name: str) -> str:
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
