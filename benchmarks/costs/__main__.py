"""`python -m benchmarks.costs`: what derivatives cost in operations, as multiples of their functions.

    python -m benchmarks.costs                # models and traps, each at two sizes
    python -m benchmarks.costs --only lstm    # those whose name contains this

For reverse mode: operations of value and cotangents over those of the value and the elements of the cotangents; for
forward mode: of value and tangent over those of the value. Then passes over arrays, and bytes of arrays made, of the
value, with cotangents, with tangents. The last lines are of a Jacobian that is made of rows, over those of the value.
They are the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from benchmarks.adbench.problems import BA
from benchmarks.costs.cases import ADBENCH, MODELS, TRAPS, Case
from benchmarks.costs.counting import compiled, operations
from dlang.tools.law import Costs

HEADER = f"{'':<18}{'sizes':<42}{'value':>9}{'reverse':>9}{'forward':>9}{'passes':>16}{'KiB':>20}"


def line(name: str, sizes: Mapping[str, int], costs: Costs) -> str:
    at = " ".join(f"{k}={v}" for k, v in sizes.items())
    three = (costs["value"], costs["gradient"], costs["tangent"])
    passes = "/".join(str(c.passes) for c in three)
    bytes = "/".join(f"{c.allocated / 1024:.1f}" for c in three)
    ratios = f"{costs.reverse_ratio:>9.2f}{costs.forward_ratio:>9.2f}"
    return f"{name:<18}{at:<42}{three[0].operations:>9}{ratios}{passes:>16}{bytes:>20}"


def show(case: Case) -> None:
    """Two lines for a case."""
    function = compiled(case.file, case.function)
    for name, sizes in ((case.name, case.small), ("", case.large)):
        print(line(name, sizes, function.costs(sizes)), flush=True)


def show_jacobian() -> None:
    """The Jacobian of bundle adjustment, row by row, over its objective."""
    import dlang

    module = dlang.load(BA.path, backend="interp")
    for sizes in ((3, 7, 21), (5, 20, 84)):
        args = BA.made(module, *sizes)
        value, rows = (operations(module, name, args) for name in ("objective", BA.derivative_name))
        at = "cameras={} points={} seen={}".format(*sizes)
        print(f"{'adbench ba, rows':<18}{at:<42}{value:>9}{rows / value:>9.2f}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.costs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="functions whose name contains this")
    options = parser.parse_args(argv)
    print(HEADER)
    for case in (*MODELS, *ADBENCH, *TRAPS):
        if options.only in case.name:
            show(case)
    if options.only in BA.name:
        show_jacobian()
    return 0


if __name__ == "__main__":
    sys.exit(main())
