"""Places safepoints, at which long runs see whether somebody has pressed Ctrl-C.

A loop looks once in a chunk of iterations, so what it costs can't be measured, and in every iteration that is long; a
loop of few iterations, which is over soon, does not look at all. The clock decides when the host is asked, which lets
Python run its handlers of signals.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen import loops
from dlang.codegen.llvm import support
from dlang.codegen.llvm.assembly import Label
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.traverse import blocks
from dlang.codegen.vectorize import known_iterations

SHORT = 1 << 14  # iterations of straight code between two looks
LONG = 1 << 6  # iterations with loops, calls or work of the host in them
LONG_PRODUCT = 1 << 19  # multiplications


def chunk(stmts: Sequence[loops.Stmt]) -> int:
    """How many iterations of a loop with this body may go by without a look; a power of two."""
    if any(map(_is_long, stmts)):
        return 1
    weight = _weight(stmts)
    return LONG if weight is None else max(SHORT >> weight.bit_length() - 1, LONG)


def _is_long(s: loops.Stmt) -> bool:
    """Tells whether a statement is a block of a large product, or a routine of a library for matrices."""
    match s:
        case loops.Product(b=b, rows=rows, columns=columns, inner=inner, workspace=workspace):
            count = (rows * columns * inner).constant
            return (workspace is not None or isinstance(b, loops.Panels)) and (count is None or count >= LONG_PRODUCT)
        case loops.CallC(target):
            return target.startswith("scipy_")
        case _:
            return False


def _weight(stmts: Sequence[loops.Stmt]) -> int | None:
    """How often the innermost code of a body runs in one iteration; None where that isn't known."""
    most = 1
    for s in stmts:
        weight: int | None = None
        match s:
            case loops.Branch():
                arms = _weight(s.then.stmts), _weight(s.otherwise.stmts)
                weight = None if arms[0] is None or arms[1] is None else max(arms[0], arms[1])
            case loops.Loop():
                iterations, inner = known_iterations(s), _weight(s.stmts)
                weight = None if iterations is None or inner is None else max(iterations, 1) * inner
            case _ if (s.IS.kernel and not blocks(s)) or isinstance(s, loops.Count | loops.Free):
                weight = 1
            case _:
                pass
        if weight is None:
            return None
        most = max(most, weight)
    return most


def look_every(w: Writer, index: str, iterations: int, step: int = 1) -> None:
    """Looks in one of so many iterations, a power of two, as is the step of the index from one time to the next."""
    low = w.emit(f"and i64 {index}, {iterations - 1}")
    fuel = support.FUEL_OF_ITERATIONS if iterations > 1 else support.FULL + 1
    look_if(w, w.emit(f"icmp uge i64 {low}, {max(iterations - step, 0)}"), fuel)


def look_if(w: Writer, due: str, fuel: int) -> None:
    """Looks where a condition holds, which is rare."""
    looking, fine = w.label("look"), w.label("fine")
    w.fork(due, looking, fine, cold=True)
    w.cold += [Label(looking), *look(w, fine, fuel)]
    w.begin(fine)


def look(w: Writer, fine: str, fuel: int = support.FUEL_OF_ITERATIONS) -> list[str]:
    """The lines of a block that looks and goes on at a label, or ends the run."""
    end = w.name("end")
    return [
        f"  {end} = call i1 @dl_poll(ptr %ctx, i64 {fuel})",
        f"  br i1 {end}, label %fail, label %{fine}, !prof !0",
    ]
