"""The totals of reductions as a struct of C, whose parts are combined between threads; see `device.cuh`."""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen.cuda import scalars
from dlang.codegen.cuda.statements import Printer, accumulators
from dlang.codegen.loops import Reduction
from dlang.ir.types import dtype_of


def fold_into(totals: Sequence[str]) -> str:
    """The variable that has the totals as its parts."""
    return totals[0].partition(".")[0].partition("[")[0]


def totals_of(
    p: Printer, reductions: Sequence[Reduction], name: str, structs: list[str], shape: str = "", at: str = ""
) -> list[str]:
    """Declares the totals of reductions, of a struct that is added; gives what their parts are called.

    shape: of an array of such totals; at: which of them is meant.
    """
    parts = accumulators(reductions)
    fields = [f"a{k}" for k in range(len(parts))]
    types = [scalars.register_dtype(dtype_of(var)) for var, _ in parts]
    lines = [f"struct {name} {{", f"  enum {{ count = {len(parts)} }};"]
    for type, field, (_, start) in zip(types, fields, parts, strict=True):
        lines.append(f"  {type} {field} = {start};")
    lines.append(f"  __device__ void join(const {name} &later) {{")
    k = 0
    for r in reductions:
        mine, other = f"a{k}", f"later.a{k}"
        if r.position is None:
            lines.append(f"    {mine} = {scalars.combine(r.monoid, dtype_of(r.result), mine, other)};")
            k += 1
            continue
        place, rank = f"a{k + 1}", f"later.a{k + 1}"
        condition = scalars.better(r.monoid, other, rank, mine, place)
        lines.append(f"    if ({condition}) {{ {mine} = {other}; {place} = {rank}; }}")
        k += 2
    lines.append("  }")
    moved = " ".join(f"other.{f} = dl_shuffle({f}, d);" for f in fields)
    lines.append(f"  __device__ {name} shuffled(i32 d) const {{ {name} other; {moved} return other; }}")
    put = " ".join(f"words[at + {k}] = dl_word({f});" for k, f in enumerate(fields))
    lines.append(f"  template <class W> __device__ void put(W &&words, i64 at) const {{ {put} }}")
    get = " ".join(f"{f} = dl_of_word<{t}>(words[at + {k}]);" for k, (f, t) in enumerate(zip(fields, types)))
    lines.append(f"  template <class W> __device__ void get(W &&words, i64 at) {{ {get} }}")
    lines.append("};")
    structs.append("\n".join(lines))
    total = p.fresh("a")
    p.line(f"{name} {total}{shape};")
    return [f"{total}{at}.{field}" for field in fields]
