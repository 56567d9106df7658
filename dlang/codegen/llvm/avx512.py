"""Instructions of AVX-512 for which LLVM's language has no name, as `emitter.py` writes others: on any number of lanes.

Most take floats apart, or scale them, without a look at zeros, infinities and denormal numbers. All are exact but
`rough_rsqrt`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen.llvm.emitter import Emitter

TABLE = 16  # entries
_AS_SET = 4  # rounds as the control register says


def floor_log2(e: Emitter, x: str) -> str:
    """The exponent of |x| as a float, also of a denormal number; -inf for a zero, inf for an infinity."""
    return _by_register(e, "mask.getexp", [x])


def mantissa(e: Emitter, x: str) -> str:
    """x / 2^floor_log2(x), from 1 up to 2; 1 for a zero and for inf, NaN for a negative number."""
    return _by_register(e, "mask.getmant", [x], [("i32", "8")])


def scaled(e: Emitter, x: str, k: str) -> str:
    """x 2^k for a whole number k, rounded once, whatever of it can't be represented."""
    return _by_register(e, "mask.scalef", [x, k])


def rough_rsqrt(e: Emitter, x: str) -> str:
    """1 / sqrt(x) within 2^-14 of the whole; inf for a zero, with its sign, and 0 for inf."""
    return _by_register(e, "rsqrt14", [x])


def looked_up(e: Emitter, index: str, table: Sequence[float]) -> str:
    """The entries of a table of 16 that the lowest four bits of integers say."""
    lanes = 512 // e.format.bits
    type, numbers = f"<{lanes} x {e.format.llvm}>", f"<{lanes} x {e.format.integer}>"
    entries = [e.constant(x) for x in table]
    halves = [
        (type, f"<{', '.join(f'{e.format.llvm} {x}' for x in entries[start : start + lanes])}>")
        for start in range(0, TABLE, lanes)
    ]
    name = "permvar.sf.512" if len(halves) == 1 else "vpermi2var.pd.512"
    looked = []
    for part in _registers(e, e.format.integer, index, lanes):
        looked.append(e.call(type, f"llvm.x86.avx512.{name}", halves[0], (numbers, part), *halves[1:]))
    return _whole(e, looked, lanes)


def _by_register(e: Emitter, name: str, operands: Sequence[str], selector: Sequence[tuple[str, str]] = ()) -> str:
    """A call for each of the registers that the lanes are in.

    selector: what comes between the operands and what the result is in lanes that are masked out, of which none is.
    """
    register = min(max(e.width * e.format.bits, 128), 512)
    lanes = register // e.format.bits
    type = f"<{lanes} x {e.format.llvm}>"
    rounding = [("i32", str(_AS_SET))] if register == 512 and name.startswith("mask.") else []
    full = f"llvm.x86.avx512.{name}.p{'d' if e.format.bits == 64 else 's'}.{register}"
    other_operands = [*selector, (type, "zeroinitializer"), (f"i{max(lanes, 8)}", "-1"), *rounding]
    registers = []
    for parts in zip(*(_registers(e, e.format.llvm, x, lanes) for x in operands), strict=True):
        registers.append(e.call(type, full, *[(type, part) for part in parts], *other_operands))
    return _whole(e, registers, lanes)


def _registers(e: Emitter, scalar: str, x: str, lanes: int) -> list[str]:
    """The registers, of so many lanes of a type, that hold those of a value; fewer are the first ones in one."""
    if e.width == 1:
        return [e.instruction(f"insertelement <{lanes} x {scalar}> poison, {scalar} {x}, i64 0")]
    if e.width == lanes:
        return [x]
    type = f"<{e.width} x {scalar}>"
    if e.width < lanes:
        return [_shuffled(e, type, x, "poison", [k % e.width for k in range(lanes)])]
    return [_shuffled(e, type, x, "poison", range(k, k + lanes)) for k in range(0, e.width, lanes)]


def _whole(e: Emitter, parts: list[str], lanes: int) -> str:
    """The value whose lanes are in registers."""
    type = f"<{lanes} x {e.format.llvm}>"
    if e.width == 1:
        return e.instruction(f"extractelement {type} {parts[0]}, i64 0")
    if e.width < lanes:
        return _shuffled(e, type, parts[0], "poison", range(e.width))
    while len(parts) > 1:
        type = f"<{lanes} x {e.format.llvm}>"
        lanes *= 2
        parts = [_shuffled(e, type, parts[k], parts[k + 1], range(lanes)) for k in range(0, len(parts), 2)]
    return parts[0]


def _shuffled(e: Emitter, type: str, first: str, second: str, order: Sequence[int]) -> str:
    """Lanes of two vectors side by side, in an order."""
    numbers = ", ".join(f"i32 {k}" for k in order)
    return e.instruction(f"shufflevector {type} {first}, {type} {second}, <{len(order)} x i32> <{numbers}>")
