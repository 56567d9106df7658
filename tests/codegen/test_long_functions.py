"""Functions so long that LLVM would take minutes, if all of their mathematics were inlined."""

from __future__ import annotations

import io
import math

from dlang.codegen.llvm.modules import print_llvm
from dlang.codegen.llvm.scalars import EXPANDED
from dlang.host.effects import Host
from dlang.ir.reader import read_program
from dlang.runtime.engine import Engine


def test_mathematics_beyond_the_first_calls_is_not_inlined_and_gives_the_same() -> None:
    count = EXPANDED + 50
    steps = [f"  y.{k + 1}: f64 = sin(y.{k})" for k in range(count)]
    text = "\n".join(["fn main(y.0: f64) -> (r.9999: f64) {", *steps, f"  yield y.{count}", "}"])
    program = read_program(text)
    calls = [line for line in print_llvm(program).splitlines() if "call double @dl_sin_f64(" in line]
    assert len(calls) == count
    assert [line.endswith(" noinline") for line in calls] == [False] * EXPANDED + [True] * 50
    expected = 1.0
    for _ in range(count):
        expected = math.sin(expected)
    (found,) = Engine(Host(io.StringIO())).compile(program, ["main"]).run("main", [1.0])
    assert math.isclose(found, expected, rel_tol=1e-12)
