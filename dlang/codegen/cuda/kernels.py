"""The kernels of a program, and the statements of the host that launch them.

loop i in 0..n                    pieces = floordiv(n + 1, 2)
  t = &x[i]                       launch kernel 0, pieces iterations (n, &x, &y)
  &y[i] = t

Kernels that a program brings along: functions of files in CUDA C, with `extern "C"`.

Such a kernel is not told of the run: it gets its arguments, and the arrays that it fills.

The text of a kernel is how threads share its iterations, around the statements of an iteration. A kernel is given the
run (`dl_run` in `device.cuh`), the number of its first guard, that of its iterations, what the nest uses from outside,
and where results of its reductions go. Grids and blocks may be of any size, as long as a block is whole warps.

How many threads share an iteration (`rows`) is chosen when the kernel is launched, by the length of its loops. Levels
of a nest whose elements lie behind each other are one level (`nests.py`); a thread does some neighbouring
iterations at once and reads and writes 16 bytes at a time where their addresses allow it (`vectors.py`).

Loads whose values count only where a selection takes them, so that what they read may never have been written.

As in the half of a triangular matrix: `select(j <= i, &a[i*n + j], 0)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlang.codegen import loops
from dlang.codegen.abi import BLOCK, FOREIGN, SURE, WARP, Kernel
from dlang.codegen.cuda import scalars
from dlang.codegen.cuda.columns import Split, adding, column_plan, column_text, parts_of
from dlang.codegen.cuda.indices import NARROW, Indices, indices_of, with_bound
from dlang.codegen.cuda.nests import Nest, shared_levels
from dlang.codegen.cuda.rows import Rows, Shares, shares_of
from dlang.codegen.cuda.scans import Scan, parts_of_scan, parts_text, plan_of_scan, scan_text
from dlang.codegen.cuda.statements import (
    Printer,
    behind,
    distance,
    fold_into,
    place_levels,
    quotient,
    remainder,
    totals_of,
)
from dlang.codegen.cuda.tiles import SIDE, tile_text
from dlang.codegen.cuda.vectors import Plan, at_once, planned, root_of
from dlang.codegen.loops import Assert, Buffer, Loop, Slot, Stmt
from dlang.codegen.traverse import bound_by, captures, mentions, walk
from dlang.diagnostics import Span, error
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.kernels import parts
from dlang.ir.terms import ZERO
from dlang.ir.types import I64

LANES = 32  # threads side by side, at most
LEAST_OF_ROW = 8192  # elements that a block should have of a row that several share
LEAST = 2048  # elements that a block should have of a column that several share, times threads side by side
BLOCKS = 528  # that are enough for a device
PARAMETERS = 500
"""The most that a kernel has, each of 8 bytes: devices take 4 KiB."""


def fits(nest: Nest, prelude: Sequence[loops.Stmt] = ()) -> bool:
    """Tells whether a device takes as many parameters as the kernel of a nest has."""
    parts = () if nest.single is None else parts_of(nest.single)
    return len(_params(nest, prelude)) + len(results_of(nest)) + len(parts) <= PARAMETERS


def results_of(nest: Nest) -> list[Var]:
    """Lists the variables that a nest binds: the results of its reductions."""
    return [var for r in nest.reductions for var in (r.result, r.position) if var is not None]


@dataclass(slots=True)
class Kernels:
    """The kernels of a program. careful: something may fail in one, so that later ones must not run.

    made: in the order of their numbers. numbers: by their texts.
    """

    careful: bool = False
    made: list[Kernel] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def foreign(self, call: loops.CallC) -> tuple[loops.Stmt, ...]:
        """The statements of the host for a kernel that a program brings along. Raises `DlangError`."""
        file, name = parts(call.target)
        text = foreign_text(file, name, call.span)
        number = self.numbers.get(f"{name} of\n{text}")
        if number is None:
            number = self.numbers[f"{name} of\n{text}"] = len(self.made)
            self.made.append(Kernel(name, FOREIGN, text, span=call.span))
        threads, count = call.threads or poly(1), fresh("threads", I64)
        return loops.Evaluate(count, threads), loops.Launch(number, count, call.args, ())

    def launch(
        self, nest: Nest, sums: Mapping[Var, loops.Buffer], prelude: Sequence[loops.Stmt] = ()
    ) -> tuple[loops.Stmt, ...]:
        """The statements of the host for a nest that fits: how many iterations it has, and the launch.

        sums: where the results of its reductions go. prelude: what each thread computes before its iterations. Of rows
        and columns there may be two launches, and memory of the device between them.
        """
        split = _split(nest, prelude)
        more: tuple[loops.Slot, ...] = () if split is None else (split.count, *split.parts)
        params, outs = (*_params(nest, prelude), *more), [sums[var] for var in results_of(nest)]
        written = kernel_text(nest, params, outs, prelude, self.careful, split)
        out: list[loops.Stmt] = []
        each = iterations_at_once(nest, prelude)
        iterations = _iterations(nest.merged, each, out)
        if nest.columns is not None:
            pieces = _iterations(nest.merged[-1:], each[-1:], out)
            lanes = _computed("minimum", pieces, Lit(LANES, "i64"), out)
            tiles = _computed("floordiv", _value(poly(pieces) + (LANES - 1), out), Lit(LANES, "i64"), out)
            iterations = _value(poly(tiles) * poly(_iterations(nest.merged[:-1], each[:-1], out)), out)
        else:
            lanes = Lit(1, "i64")
        block = _block(written.shares, {slot for s in prelude for slot in bound_by(s)}, out)
        if split is None:
            return (*out, self._launch(nest.form, written, iterations, (*params, *outs), block))
        assert nest.single is not None
        most = _value(_extent(nest.single.loop, out) * poly(lanes), out)
        most = _computed("floordiv", most, Lit(LEAST if nest.columns is not None else LEAST_OF_ROW, "i64"), out)
        wanted = _computed("floordiv", Lit(BLOCKS, "i64"), _computed("maximum", iterations, Lit(1, "i64"), out), out)
        few = _computed("minimum", most, wanted, out)
        out.append(loops.Compute(split.count, "maximum", (few, Lit(1, "i64"))))
        several = _computed("minimum", _value(poly(split.count) - 1, out), Lit(1, "i64"), out)
        room = poly(_iterations(nest.merged, [1] * len(nest.merged), out)) * poly(split.count) * poly(several) + 1
        out += [loops.OnDevice(loops.Allocate(part, (room,))) for part in split.parts]
        iterations = _value(poly(iterations) * poly(split.count), out)
        out.append(self._launch(nest.form, written, iterations, (*params, *outs), block))
        stmts = adding(nest.levels, nest.single, split)
        again = self.launch(replace(nest, form="map", stmts=stmts, columns=None, single=None), {}, prelude)
        condition = fresh("split", Scalar("bool"))
        out.append(loops.Compute(condition, "gt", (split.count, Lit(1, "i64"))))
        out.append(loops.Branch(condition, loops.Body(again, ()), loops.Body((), ()), ()))
        out += [loops.OnDevice(loops.Free(part)) for part in reversed(split.parts)]
        return tuple(out)

    def scan(
        self, scan: Scan, sums: Mapping[Var, loops.Buffer], prelude: Sequence[loops.Stmt] = ()
    ) -> tuple[loops.Stmt, ...]:
        """The statements of the host for a scan, whose number of iterations it knows. sums: where its results go."""
        parts, outs = parts_of_scan(scan), [sums[var] for var in scan.loop.results if isinstance(var, Var)]
        params, out = captures((*prelude, scan.loop), ()), list[loops.Stmt]()
        texts = scan_texts(scan, params, (parts, outs), prelude, self.careful)
        size = _between((scan.loop.low,), (scan.loop.high,), out)
        wanted = _computed("floordiv", _value(size, out), Lit(LEAST_OF_ROW, "i64"), out)
        few = _computed("minimum", wanted, Lit(BLOCKS, "i64"), out)
        count = _computed("maximum", few, Lit(1, "i64"), out)
        out += [loops.OnDevice(loops.Allocate(part, (poly(count),))) for part in parts]
        several = fresh("several", Scalar("bool"))
        out.append(loops.Compute(several, "gt", (count, Lit(1, "i64"))))
        adds = self._launch("scan", texts[0], count, (*params, *parts))
        out.append(loops.Branch(several, loops.Body((adds,), ()), loops.Body((), ()), ()))
        out.append(self._launch("scan", texts[1], count, (*params, *parts, *outs)))
        return (*out, *[loops.OnDevice(loops.Free(part)) for part in reversed(parts)])

    def _launch(
        self, form: str, written: Text, iterations: Atom, args: tuple[loops.Slot, ...], block: Atom | None = None
    ) -> loops.Launch:
        reach = tuple(with_bound(written.reach, poly(iterations)))
        known = [bound.constant for bound in reach]
        sure = all(number is not None and number <= SURE for number in known)
        return loops.Launch(self.number(form, written), iterations, args, written.guards, block, () if sure else reach)

    def number(self, form: str, written: Text) -> int:
        """The kernel of a text."""
        number = self.numbers.get(written.text)
        if number is None:
            number = self.numbers[written.text] = len(self.made)
            name = f"dl_{form}_{number}"
            text = written.text.replace(NAME, name)
            self.made.append(Kernel(name, form, text, BLOCK, written.threads))
        return number


def _split(nest: Nest, prelude: Sequence[loops.Stmt]) -> Split | None:
    """Memory for the parts of rows or columns that several blocks share, if the host knows how long they are."""
    if nest.single is None:
        return None
    bounds = [(level.lows, level.highs) for level in (*nest.levels, nest.single.loop)]
    atoms = {atom for ends in bounds for sizes in ends for size in sizes for atom in size.atoms()}
    if any(len(lows) > 1 or len(highs) > 1 for lows, highs in bounds):
        return None
    if any(slot in atoms for s in prelude for slot in bound_by(s)):
        return None
    return Split(fresh("splits", I64), parts_of(nest.single))


def _params(nest: Nest, prelude: Sequence[loops.Stmt]) -> tuple[loops.Slot, ...]:
    """Lists the free variables of a kernel. The number of iterations stands for the bounds of its outermost loop."""
    stmts, each = nest.stmts, iterations_at_once(nest, prelude)
    for number, level in reversed(list(enumerate(nest.levels))):
        innermost = level is nest.levels[-1]
        known = number > 0 or each[0] > 1 or (nest.columns is not None and innermost)
        highs = level.highs if known else (ZERO,)
        stmts = (loops.Loop(level.var, level.lows, highs, stmts, nest.reductions if innermost else ()),)
    return captures((*prelude, *stmts), ())


def _block(shares: Shares | None, inside: Set[loops.Slot], out: list[loops.Stmt]) -> Atom | None:
    """How many threads keep a row, computed by the host from its length; None where that is not to be known."""
    if shares is None or shares.longest is None or shares.largest == BLOCK:
        return None
    if any(v in inside for lows, highs in shares.longest for size in (*lows, *highs) for v in size.atoms()):
        return None
    each, extent = BLOCK * shares.share, poly(1)
    for lows, highs in shares.longest:
        extent = extent * _between(lows, highs, out)
    parts = _computed("floordiv", _value(extent + (each - 1), out), Lit(each, "i64"), out)
    most = _computed("minimum", parts, Lit(shares.largest // BLOCK, "i64"), out)
    count = _computed("maximum", most, Lit(1, "i64"), out)
    return _value(poly(count) * BLOCK, out)


def _iterations(merged: Sequence[Sequence[loops.Loop]], each: Sequence[int], out: list[loops.Stmt]) -> Atom:
    """How many iterations a kernel has, computed by the host: each is so many of each level."""
    total = poly(1)
    for nest, many in zip(merged, each, strict=True):
        extents = poly(1)
        for loop in nest:
            extents = extents * _extent(loop, out)
        if many != 1:
            size = _value(extents + (many - 1), out)
            extents = poly(_computed("floordiv", size, Lit(many, "i64"), out, "pieces"))
        total = total * extents
    return _value(total, out)


def _extent(loop: loops.Loop, out: list[loops.Stmt]) -> Size:
    """How many iterations a loop has, at least none."""
    return _between(loop.lows, loop.highs, out)


def _between(lows: Sequence[Size], highs: Sequence[Size], out: list[loops.Stmt]) -> Size:
    extent = _extreme("minimum", highs, out) - _extreme("maximum", lows, out)
    if extent.constant is not None:
        return poly(max(int(extent.constant), 0))
    most = fresh("extent", I64)
    out.append(loops.Compute(most, "maximum", (_value(extent, out), Lit(0, "i64"))))
    return poly(most)


def _computed(name: str, x: Atom, y: Atom, out: list[loops.Stmt], stem: str = "count") -> Atom:
    """A number that the host computes."""
    var = fresh(stem, I64)
    out.append(loops.Compute(var, name, (x, y)))
    return var


def _extreme(name: str, sizes: Sequence[Size], out: list[loops.Stmt]) -> Size:
    """The largest or the smallest of some sizes."""
    extreme = sizes[0]
    for size in sizes[1:]:
        var = fresh("bound", I64)
        out.append(loops.Compute(var, name, (_value(extreme, out), _value(size, out))))
        extreme = poly(var)
    return extreme


def _value(size: Size, out: list[loops.Stmt]) -> Atom:
    """The value of a polynomial."""
    if size.constant is not None:
        return Lit(int(size.constant), "i64")
    if size.atom is not None:
        return size.atom
    var = fresh("size", I64)
    out.append(loops.Evaluate(var, size))
    return var


def foreign_text(file: Path, name: str, span: Span | None) -> str:
    """The text of a file with a kernel of a name. Raises `DlangError` if there is no such file, or kernel in it."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as e:
        message = f"the kernels of `{file.name}` cannot be read: {e.strerror}"
        raise error("E0604", message, span, help=("a path is relative to the file of the program",)) from e
    if not re.search(rf'extern\s+"C"[^;{{}}]*__global__[^;{{}}]*\b{re.escape(name)}\s*\(', text):
        message = f"`{file.name}` has no kernel `{name}`"
        help = f'it is written `extern "C" __global__ void {name}(…)`'
        raise error("E0604", message, span, help=(help,))
    return text


# ---- their text ------------------------------------------------------------------------------------------------------
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
