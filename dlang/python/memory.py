"""How much memory runs need: `with dlang.memory_use() as used: …`, then `used.peak`."""

from __future__ import annotations

from dlang.runtime.memory import Usage, memory_use

__all__ = ["Usage", "memory_use"]
