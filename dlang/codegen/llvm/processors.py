"""Processors that code is made for ahead of time, other than the one that the compiler runs on."""

from __future__ import annotations

from dataclasses import dataclass

NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Processor:
    """name: as a person chooses it. cpu, features: as LLVM calls it and what it has beyond that. needs: what a machine
    that is to run its code must have, as LLVM calls it. bits: of a vector register; fma: whether it multiplies and adds
    in one operation; avx512: whether it has AVX-512 on registers of each width; gathers: whether it reads elements
    that are not adjacent sooner by one instruction than one by one.
    """

    name: str
    cpu: str
    features: str
    needs: tuple[str, ...]
    bits: int
    fma: bool
    avx512: bool
    gathers: bool

    @property
    def target_features(self) -> str:
        """The features as LLVM is told them."""
        return self.features if self.gathers else f"{self.features},{_ONE_BY_ONE}".removeprefix(",")


_ONE_BY_ONE = "+prefer-no-gather,+prefer-no-scatter"

_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

LEVELS = {
    name: Processor(name, name, "", needs, bits, "fma" in needs, "avx512vl" in needs, False)
    for name, needs, bits in (
        ("x86-64", (), 128),
        ("x86-64-v2", _V2, 128),
        ("x86-64-v3", _V3, 256),
        ("x86-64-v4", _V4, 512),
    )
}
"""The levels that the ABI of System V defines for x86-64; most processors since 2013 are of the third."""
USUAL = "x86-64-v3"
