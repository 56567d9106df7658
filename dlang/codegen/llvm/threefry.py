"""Threefry-2x64 as LLVM text, for one draw or a vector of them; the algorithm is in `ops/threefry.py`."""

from __future__ import annotations

from dlang.ops.threefry import PARITY, ROTATIONS, ROUNDS


def routine(width: int) -> tuple[str, str, str]:
    """The symbol, the result's type and the text of a function of four words: key, key, counter, counter.

    It is inlined, and code generation merges what is equal in a block: both words of a draw cost one hash.
    """
    word = "i64" if width == 1 else f"<{width} x i64>"
    result = f"{{ {word}, {word} }}"
    lines: list[str] = []

    def emit(text: str) -> str:
        lines.append(f"  %v{len(lines)} = {text}")
        return f"%v{len(lines) - 1}"

    def constant(value: int) -> str:
        return str(value) if width == 1 else f"splat (i64 {value})"

    def add(x: str, y: str) -> str:
        return emit(f"add {word} {x}, {y}")

    def xor(x: str, y: str) -> str:
        return emit(f"xor {word} {x}, {y}")

    def rotated(x: str, places: int) -> str:
        left = emit(f"shl {word} {x}, {constant(places)}")
        right = emit(f"lshr {word} {x}, {constant(64 - places)}")
        return emit(f"or {word} {left}, {right}")

    keys = ("%k0", "%k1", xor(xor("%k0", "%k1"), constant(PARITY)))
    x, y = add("%c0", "%k0"), add("%c1", "%k1")
    for r in range(ROUNDS):
        x = add(x, y)
        y = xor(rotated(y, ROTATIONS[r % len(ROTATIONS)]), x)
        if r % 4 == 3:
            s = r // 4 + 1
            x, y = add(x, keys[s % 3]), add(y, add(keys[(s + 1) % 3], constant(s)))
    first = emit(f"insertvalue {result} poison, {word} {x}, 0")
    both = emit(f"insertvalue {result} {first}, {word} {y}, 1")
    symbol = "dl_threefry" + ("" if width == 1 else f"_v{width}")
    params = ", ".join(f"{word} %{name}" for name in ("k0", "k1", "c0", "c1"))
    head = f"define internal {result} @{symbol}({params}) alwaysinline nounwind willreturn memory(none)"
    return symbol, result, "\n".join([f"{head} {{", "entry:", *lines, f"  ret {result} {both}", "}", ""])
