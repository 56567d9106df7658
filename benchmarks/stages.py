"""Where the time of a compilation goes: `python -m benchmarks.stages`, without other tools.

Each program is compiled several times in a process that has loaded the compiler and the standard library, with nothing
kept of the program itself; shown is the least time of each stage, of the processor, in milliseconds. *Again* is what is
left in a process that finds the program among what was kept: finding it, and loading its machine code. *Quick* is what
LLVM takes for code of the first tier, and no part of the sum.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time

from benchmarks.tools import ROOT
from dlang.diagnostics import Source
from dlang.driver import check, ready
from dlang.dump_ir import request
from dlang.host.effects import Host
from dlang.process import gc_paused
from dlang.specialize.specialize import Specializer
from dlang.typecheck.program import Checked


@dataclass(frozen=True, slots=True)
class Case:
    """A function of a program."""

    title: str
    path: str
    function: str


CASES = (
    Case("gradient of one line", "benchmarks/workloads/one_line.dl", "gradient"),
    Case("MLP, gradient", "benchmarks/workloads/mlp.dl", "gradient"),
    Case("LSTM, gradient", "benchmarks/workloads/lstm.dl", "gradient"),
    Case("GMM, gradient", "benchmarks/adbench/gmm.dl", "gradient"),
    Case("BA, Jacobian", "benchmarks/adbench/ba.dl", "jacobian_rows"),
    Case("transformer, training", "examples/transformer/transformer.dl", "main"),
)
STAGES = (
    "check", "specialise", "normalise", "derive", "optimise", "loops", "text", "LLVM", "load", "all", "again", "quick",
)  # fmt: skip


def stages(case: Case, round: int) -> dict[str, float]:
    """The seconds that each stage of one compilation takes. round: makes its text one that nobody has seen."""
    from dlang.codegen.llvm import jit, modules, objects
    from dlang.codegen.schedule import schedule
    from dlang.codegen.vectorize import Lanes
    from dlang.ops.figures import GRAIN
    from dlang.pipeline import optimise
    from dlang.runtime.build import reachable
    from dlang.runtime.tiers import Tiers

    marks: dict[str, float] = {}
    last = process_time()

    def mark(stage: str) -> None:
        nonlocal last
        now = process_time()
        marks[stage] = marks.get(stage, 0.0) + now - last
        last = now

    wanted = request(_checked(case, f"\n# {round}\n").module.functions[case.function])
    mark("check")
    specializer = Specializer()
    entry = specializer.entry(wanted.decl, wanted.bindings)
    program = specializer.program
    mark("specialise")
    names = {"normal": "normalise", "ad": "derive", "opt": "optimise"}
    with gc_paused():
        program = optimise(
            program, [entry.name], observe=lambda stage, _: mark(names[stage]) if stage in names else None
        )
        nests = schedule(reachable(program, [entry.name]), Lanes(objects.vector_bits()), GRAIN)
        mark("loops")
        text = modules.emit(nests, [entry.name], objects.this_processor())
        mark("text")
    code = bytes(objects.machine().emit_object(objects.prepared(text.llvm)))
    mark("LLVM")
    jit.load(code, [entry.name], text.imports, text.foreign, [0] * len(text.texts))
    mark("load")
    marks["all"] = sum(marks.values())
    marks["again"] = _again(case)
    last = process_time()
    objects.machine(Tiers().quick).emit_object(objects.prepared(text.llvm, Tiers().quick))
    mark("quick")
    return marks


def _again(case: Case) -> float:
    """The seconds until a function that has been kept can be called."""
    begin = process_time()
    checked = _checked(case, "")
    ready(checked, request(checked.module.functions[case.function]), "cpu", Host())
    return process_time() - begin


def _checked(case: Case, more: str) -> Checked:
    return check(Source(case.path, (ROOT / case.path).read_text(encoding="utf-8") + more))


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table; the first round, in which everything is imported, does not count."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each program")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs with this in their title")
    options = parser.parse_args(argv)
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory(prefix="benchmark-cache-") as folder:
        os.environ["DLANG_CACHE"] = folder
        os.environ["DLANG_TIERS"] = "off"
        print(f"| program | {' | '.join(STAGES)} |\n| --- |{' --- |' * len(STAGES)}")
        stages(CASES[0], -1)
        for case in CASES:
            if options.only.lower() in case.title.lower():
                print(row(case, options.rounds), flush=True)


def row(case: Case, rounds: int) -> str:
    """A line of the table, in milliseconds."""
    runs = [stages(case, k) for k in range(-1, rounds)][1:]
    least = [min(run[stage] for run in runs) for stage in STAGES]
    return f"| {case.title} | {' | '.join(f'{1000 * t:.0f}' for t in least)} |"


if __name__ == "__main__":
    main()
