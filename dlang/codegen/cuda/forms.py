"""The kernel of a nest as text: how threads share its iterations, around the statements of an iteration.

A kernel is given the run (`dl_run` in `device.cuh`), the number of its first guard, that of its iterations, what the
nest uses from outside, and where results of its reductions go. Grids and blocks may be of any size, as long as a block
is whole warps.

How many threads share an iteration (`rows`) is chosen when the kernel is launched, by the length of its loops. Levels
of a nest whose elements lie behind each other are one level (`nests.py`); a thread does some neighbouring
iterations at once and reads and writes 16 bytes at a time where their addresses allow it (`vectors.py`).

Loads whose values count only where a selection takes them, so that what they read may never have been written.

As in the half of a triangular matrix: `select(j <= i, &a[i*n + j], 0)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlang.codegen import loops
from dlang.codegen.abi import BLOCK, WARP
from dlang.codegen.cuda import scalars
from dlang.codegen.cuda.columns import Split, column_plan, column_text
from dlang.codegen.cuda.indices import NARROW, Indices, indices_of
from dlang.codegen.cuda.nests import Nest, shared_levels
from dlang.codegen.cuda.rows import Rows, Shares, shares_of
from dlang.codegen.cuda.scans import Scan, parts_text, plan_of_scan, scan_text
from dlang.codegen.cuda.statements import Printer, behind, distance, place_levels, quotient, remainder
from dlang.codegen.cuda.tiles import SIDE, tile_text
from dlang.codegen.cuda.totals import fold_into, totals_of
from dlang.codegen.cuda.vectors import Plan, at_once, planned, root_of
from dlang.codegen.loops import Assert, Buffer, Loop, Slot, Stmt
from dlang.codegen.traverse import mentions, walk
from dlang.ir.anf import Size, Var, poly
from dlang.ir.terms import ZERO

NAME = "@"
"""Stands for the name of a kernel in its text, so that kernels that differ in nothing else have one text."""


@dataclass(frozen=True, slots=True)
class Text:
    """A kernel.

    guards: what may fail in it, by their numbers. threads: how many an iteration keeps busy. shares: of a row. reach:
    up to where its indices go, but for the number of its iterations.
    """

    text: str
    guards: tuple[Assert, ...]
    threads: int
    shares: Shares | None
    reach: tuple[Size, ...]


def kernel_text(
    nest: Nest,
    params: Sequence[Slot],
    outs: Sequence[Buffer],
    prelude: Sequence[Stmt] = (),
    careful: bool = False,
    split: Split | None = None,
) -> Text:
    """The kernel of a nest that uses these from outside.

    outs: where results of its reductions go. prelude: what each thread computes first. careful: nothing is done if the
    run has failed before. split: of rows or columns that several blocks
    share.
    """
    uncertain = uncertain_loads((*prelude, *nest.stmts), nest.reductions)
    indices = _indices(nest, prelude, split)
    p = Printer(indices, nest.joined, uncertain, "goto done;" if nest.reductions else "return;")
    heads = _heads(p, (*params, *outs))
    structs: list[str] = []
    p.line("// " + nest.form)
    p.statements(prelude)
    totals = totals_of(p, nest.reductions, f"{NAME}_totals", structs) if nest.reductions else []
    shares = shares_of(nest, uncertain) if nest.form == "rows" else None
    plan = plan_of(nest, uncertain)
    if nest.crossed:
        tile_text(p, nest.levels, nest.stmts, nest.crossed)
    elif nest.columns is not None and plan is not None:
        structs.append(column_text(p, nest.levels, nest.columns, plan, split, f"{NAME}_totals"))
    elif shares is not None:
        _rows(p, nest, Rows(p, nest, shares, structs, NAME, root_of(nest.stmts), split=split), totals)
    else:
        _items(p, nest, plan, totals)
    if nest.reductions:
        if p.guards:
            p.lines.append("done:")
        with p.block(f"if (dl_fold_grid(run, {fold_into(totals)}))"):
            for out, total in zip(outs, totals, strict=True):
                p.line(f"{p.names[out]}[0] = {scalars.encode(total, out.dtype)};")
    if careful:
        p.lines.insert(1, f"  if (dl_failed(run, site, {len(p.guards)})) return;")
    most, threads = BLOCK, 1
    if nest.columns is not None or nest.crossed:
        threads = BLOCK
    if shares is not None:
        most, threads = (BLOCK, WARP) if shares.longest is None else (shares.largest, BLOCK)
    # of columns at least so many blocks at once, for their loads to keep the memory busy
    most_and_least = f"{most}, 3" if nest.columns is not None else f"{most}"
    head = f'extern "C" __global__ void __launch_bounds__({most_and_least}) {NAME}({", ".join(heads)}) {{'
    return Text("\n".join([*structs, head, *p.lines, "}"]) + "\n", tuple(p.guards), threads, shares, indices.reach)


def _heads(p: Printer, slots: Sequence[Slot]) -> list[str]:
    """The parameters of a kernel."""
    return ["dl_run *run", "i64 site", f"{NARROW} iterations", *[f"{p.type(slot)} {p.name(slot)}" for slot in slots]]


def _indices(nest: Nest, prelude: Sequence[Stmt], split: Split | None) -> Indices:
    """The indices of a nest."""
    stmts, shared = nest.stmts, ZERO
    for level in reversed(nest.levels):
        stmts = (replace(level, stmts=stmts, reductions=()),)
    if split is not None:  # where the parts of blocks are
        shared = poly(split.count)
        for level in nest.levels:
            shared = shared * (level.highs[0] - level.lows[0])
    loops = [s for s in nest.stmts if isinstance(s, Loop)] if nest.columns is None else []
    return indices_of((*prelude, *stmts), [shared_levels(s, nest.spread.get(s) or 1) for s in loops], shared)


def scan_texts(
    scan: Scan, params: Sequence[Slot], buffers: tuple[Sequence[Buffer], Sequence[Buffer]], prelude: Sequence[Stmt],
    careful: bool,
) -> tuple[Text, Text]:  # fmt: skip
    """The kernels of a scan: one that adds up parts of the iterations, and one that begins each part with those before
    it.

    buffers: where the totals of parts go, and those of all iterations.
    """
    parts, outs = buffers
    uncertain = uncertain_loads((*prelude, scan.iteration()), ())
    plan = plan_of_scan(scan, uncertain)
    indices, texts = indices_of((*prelude, scan.iteration())), list[Text]()
    for number in range(2):
        p, structs = Printer(indices, frozenset(), uncertain, "return;"), list[str]()
        heads = _heads(p, (*params, *parts, *(outs if number else ())))
        p.line("// scan")
        if careful:
            p.line("if (dl_failed(run, site, 0)) return;")
        p.statements(prelude)
        if number == 0:
            parts_text(p, scan, plan, parts, structs, f"{NAME}_totals")
        else:
            scan_text(p, scan, plan, buffers, structs, f"{NAME}_totals")
        head = f'extern "C" __global__ void __launch_bounds__({BLOCK}) {NAME}({", ".join(heads)}) {{'
        texts.append(Text("\n".join([*structs, head, *p.lines, "}"]) + "\n", (), BLOCK, None, indices.reach))
    return texts[0], texts[1]


def plan_of(nest: Nest, uncertain: frozenset[Var]) -> Plan | None:
    """How a thread does several iterations of the innermost level at once; None where it does one."""
    if nest.columns is not None:
        return column_plan(nest.levels[-1], nest.columns, nest.joined, uncertain)
    if nest.form == "rows" or nest.crossed:
        return None
    inner = replace(nest.levels[-1], stmts=nest.stmts, reductions=nest.reductions)
    plan = planned(inner, nest.joined, uncertain)
    return plan if plan is not None and plan.width > 1 else None


def iterations_at_once(nest: Nest, prelude: Sequence[Stmt]) -> tuple[int, ...]:
    """How many iterations of each level are one for the kernel."""
    outer = len(nest.levels) - 1
    if nest.crossed:
        return (*[1] * (outer - 1), SIDE, SIDE)
    plan = plan_of(nest, uncertain_loads((*prelude, *nest.stmts), nest.reductions))
    return (*[1] * outer, 1 if plan is None else plan.width)


def _items(p: Printer, nest: Nest, plan: Plan | None, totals: Sequence[str]) -> None:
    """Each thread does iterations, or some of the innermost level at a time."""
    with p.block("for (dl_index t = dl_first(); t < iterations; t += dl_stride())"):
        if plan is None:
            place_levels(p, nest.levels, "t")
            p.statements(nest.stmts)
            p.accumulate(nest.reductions, totals)
            return
        inner = nest.levels[-1]
        low, high = p.range(inner)
        index, first = "t", p.fresh("j")
        if len(nest.levels) > 1:
            items, index = p.fresh("n"), p.fresh("t")
            number = quotient(f"{distance(low, high)} + {plan.width - 1}", str(plan.width))
            p.line(f"const dl_index {items} = {number};")
            p.line(f"const dl_index {index} = {quotient('t', items)};")
            within = f"{remainder('t', items)} * {plan.width}"
            p.line(f"const dl_index {first} = {behind(low, within)};")
            place_levels(p, nest.levels[:-1], index)
        else:
            p.line(f"const dl_index {first} = {behind(low, f't * {plan.width}')};")
        at_once(p, plan, first, high, lambda: p.accumulate(nest.reductions, totals))


def _rows(p: Printer, nest: Nest, rows: Rows, totals: Sequence[str]) -> None:
    rows.heads()
    with p.block("for (dl_index t = dl_first_row(width); t < iterations; t += dl_rows(width))"):
        if rows.split is None:
            place_levels(p, nest.levels, "t")
        else:
            count = p.names[rows.split.count]
            p.line(f"const dl_index turn = {remainder('t', count)}, row = {quotient('t', count)};")
            place_levels(p, nest.levels, "row")
        rows.row()
        if nest.reductions:
            with p.block("if (rank == 0)"):
                p.accumulate(nest.reductions, totals)
    rows.ends()


def uncertain_loads(stmts: Sequence[loops.Stmt], reductions: Sequence[loops.Reduction]) -> frozenset[Var]:
    """Finds loads that only selections use; the reductions are of the loop around the statements."""
    inside = list(walk(stmts))
    needed: set[loops.Value] = {v for r in reductions for v in (r.value, r.rank) if v is not None}
    needed.update(v for stmt in inside if not isinstance(stmt, loops.Compute | loops.Convert) for v in mentions(stmt))
    for stmt in reversed(inside):  # from what is used to what it is made of
        match stmt:
            case loops.Compute(_, "select", (condition, _, _)):
                needed.add(condition)
            case loops.Compute(var) | loops.Convert(var) if var in needed:
                needed.update(mentions(stmt))
            case _:
                pass
    loads = frozenset([stmt.var for stmt in inside if isinstance(stmt, loops.Load)])
    return loads - needed
