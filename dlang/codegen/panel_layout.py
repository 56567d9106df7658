"""How matrices lie in panels: what makes room for them and the micro-kernel that reads them both know.

A panel has as many columns as a tile of the result, row after row (`llvm/panels.py` makes them).
"""

from __future__ import annotations

from dlang.ir.terms import WIDTHS

VECTORS = 2  # in a row of a tile
COLUMNS = 256  # that are packed at once, whole panels; with so many terms they fill a quarter of a second cache


def lanes_of(dtype: str, bits: int) -> int:
    """Elements of a vector of so many bits."""
    return bits // (8 * WIDTHS[dtype])


def panel(dtype: str, bits: int) -> int:
    """Columns of a panel: those of a tile."""
    return VECTORS * lanes_of(dtype, bits)


def terms_of(dtype: str) -> int:
    """Terms of a block at most: a panel of so many, with the rows of a tile, stays in a first cache."""
    return 192 if dtype == "f64" else 256
