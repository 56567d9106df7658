"""Threefry-2x64 with 20 rounds: random bits as a pure function of a key and a counter, of two words of 64 bits each.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011). No state and no order: any word can be
drawn at any time, by any thread.
"""

from __future__ import annotations

from typing import Any

ROUNDS = 20
ROTATIONS = (16, 42, 12, 31, 16, 32, 24, 21)  # of the rounds, over and over
PARITY = 0x1BD11BDAA9FC1A22


def threefry(k0: Any, k1: Any, c0: Any, c1: Any) -> tuple[Any, Any]:
    """Two words for a key and a counter: NumPy's `uint64`, or arrays of them."""
    word = type(k0.dtype.type(0))
    keys = (k0, k1, word(PARITY) ^ k0 ^ k1)
    x, y = c0 + k0, c1 + k1
    for r in range(ROUNDS):
        places = ROTATIONS[r % len(ROTATIONS)]
        x = x + y
        y = ((y << word(places)) | (y >> word(64 - places))) ^ x
        if r % 4 == 3:
            s = r // 4 + 1
            x, y = x + keys[s % 3], y + keys[(s + 1) % 3] + word(s)
    return x, y
