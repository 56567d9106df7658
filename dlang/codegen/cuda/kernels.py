"""The kernels of a program, and the statements of the host that launch them.

loop i in 0..n                    pieces = floordiv(n + 1, 2)
  t = &x[i]                       launch kernel 0, pieces iterations (n, &x, &y)
  &y[i] = t

Kernels that a program brings along: functions of files in CUDA C, with `extern "C"`.

Such a kernel is not told of the run: it gets its arguments, and the arrays that it fills.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlang.codegen import loops
from dlang.codegen.abi import BLOCK, FOREIGN, SURE, Kernel
from dlang.codegen.cuda.columns import Split, adding, parts_of
from dlang.codegen.cuda.forms import NAME, Text, iterations_at_once, kernel_text, scan_texts
from dlang.codegen.cuda.indices import with_bound
from dlang.codegen.cuda.nests import Nest
from dlang.codegen.cuda.rows import Shares
from dlang.codegen.cuda.scans import Scan, parts_of_scan
from dlang.codegen.traverse import bound_by, captures
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
