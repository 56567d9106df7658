"""Programs for a back end, each one function `f`, with what to call it with for a size."""

from tests.codegen.cases import arrays, control, reductions, scalars
from tests.codegen.cases.case import Case

__all__ = ["CASES", "Case"]

CASES = [*scalars.CASES, *arrays.CASES, *reductions.CASES, *control.CASES]
