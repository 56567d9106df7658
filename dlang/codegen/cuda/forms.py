"""The kernel of a nest as text: how threads share its trips, around the statements of a trip.

A kernel is given the run (`dl_run` in `device.cuh`), the number of its first guard, that of its trips, what the nest
uses from outside, and where results of its reductions go. Grids and blocks may be of any size, as long as a block is
whole warps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlang.codegen.cuda import scalars
from dlang.codegen.cuda.nests import Nest
from dlang.codegen.cuda.statements import Printer, accumulators, type_of
from dlang.codegen.cuda.uncertain import uncertain_loads
from dlang.codegen.loops import Buffer, Guard, Loop, Reduction, Slot, Stmt, Store
from dlang.codegen.traverse import walk
from dlang.ir.types import dtype_of

NAME = "@"
"""Stands for the name of a kernel in its text, so that kernels that differ in nothing else have one text."""
BLOCK = 256  # threads, at most


@dataclass(frozen=True, slots=True)
class Text:
    """A kernel. guards: what may fail in it, by their numbers."""

    text: str
    guards: tuple[Guard, ...]


def kernel_text(
    nest: Nest, params: Sequence[Slot], outs: Sequence[Buffer], prelude: Sequence[Stmt] = (), careful: bool = False
) -> Text:
    """The kernel of a nest that uses these from outside.

    outs: where results of its reductions go. prelude: what each thread computes first. careful: nothing is done if the
    run has failed before.
    """
    uncertain = uncertain_loads((*prelude, *nest.stmts), nest.reductions)
    p = Printer(nest.joined, uncertain, "goto done;" if nest.form == "reduction" else "return;")
    heads = ["dl_run *run", "i64 site", "i64 trips"]
    for slot in (*params, *outs):
        name = p.name(slot)
        heads.append(f"{type_of(slot)} {name}")
    structs: list[str] = []
    p.line("// " + nest.form)
    if careful:
        p.line("if (dl_failed(run)) return;")
    p.statements(prelude)
    match nest.form:
        case "map":
            _map(p, nest)
        case "rows":
            _rows(p, nest, structs)
        case _:
            _reduction(p, nest, outs, structs)
    head = f'extern "C" __global__ void __launch_bounds__({BLOCK}) {NAME}({", ".join(heads)}) {{'
    return Text("\n".join([*structs, head, *p.lines, "}"]) + "\n", tuple(p.guards))


def _map(p: Printer, nest: Nest) -> None:
    with p.block("for (i64 t = dl_first(); t < trips; t += dl_stride())"):
        _place(p, nest)
        p.statements(nest.stmts)


def _rows(p: Printer, nest: Nest, structs: list[str]) -> None:
    def shared(p: Printer, loop: Loop) -> None:
        """A loop in a trip: its trips are those of the lanes in turn."""
        p.shared, p.alone = None, False
        name = f"{NAME}_totals{len(structs)}"
        totals = _totals(p, loop.reductions, name, structs) if loop.reductions else []
        low, high = p.range(loop)
        stores = any(isinstance(s, Store) for s in walk(loop.stmts))
        if stores:  # after what all lanes have read
            p.meet()
        with p.trips(loop.var, _from(low, "dl_lane()"), high, "{} += DL_WARP"):
            p.statements(loop.stmts)
            p.accumulate(loop.reductions, totals)
        p.shared, p.alone = shared, True
        if loop.reductions:
            p.line(f"dl_fold_warp({totals[0].partition('.')[0]});")
            p.names.update((var, total) for (var, _), total in zip(accumulators(loop.reductions), totals, strict=True))
        if stores:  # before what they will
            p.meet()

    p.shared, p.alone = shared, True
    with p.block("for (i64 t = dl_first() / DL_WARP; t < trips; t += dl_stride() / DL_WARP)"):
        _place(p, nest)
        p.statements(nest.stmts)


def _reduction(p: Printer, nest: Nest, outs: Sequence[Buffer], structs: list[str]) -> None:
    totals = _totals(p, nest.reductions, f"{NAME}_totals", structs)
    with p.block("for (i64 t = dl_first(); t < trips; t += dl_stride())"):
        _place(p, nest)
        p.statements(nest.stmts)
        p.accumulate(nest.reductions, totals)
    if p.guards:
        p.lines.append("done:")
    with p.block(f"if (dl_fold_grid(run, {totals[0].partition('.')[0]}))"):
        for out, total in zip(outs, totals, strict=True):
            p.line(f"{p.names[out]}[0] = {scalars.encode(total, out.dtype)};")


def _place(p: Printer, nest: Nest) -> None:
    """The variables of the loops, from the number of a trip: the innermost moves first."""
    ranges = [p.range(level) for level in nest.levels[1:]]
    rest = "t"
    for level, (low, high) in zip(reversed(nest.levels), reversed(ranges), strict=False):
        extent, above = p.fresh("n"), p.fresh("t")
        p.line(f"const i64 {extent} = {high if low == '0' else f'({high}) - ({low})'};")
        p.line(f"const i64 {above} = {rest} / {extent};")
        p.let(level.var, _from(low, f"{rest} % {extent}"))
        rest = above
    outer = nest.levels[0]
    p.let(outer.var, _from(p.bound("dl_maximum", outer.lows), rest))


def _from(low: str, count: str) -> str:
    """What lies so far behind a bound."""
    return count if low == "0" else f"({low}) + {count}"


def _totals(p: Printer, reductions: Sequence[Reduction], name: str, structs: list[str]) -> list[str]:
    """Declares the totals of reductions, of a struct that is added; gives what their parts are called."""
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
    p.line(f"{name} {total};")
    return [f"{total}.{field}" for field in fields]
