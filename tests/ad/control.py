"""Programs with loops, branches and updates whose gradients must be right, as a function and its arguments."""

from __future__ import annotations

from tests.ad import arrays, branches, loops

CASES = {**loops.CASES, **branches.CASES, **arrays.CASES}
