"""What is measured on a GPU: workloads of `benchmarks.workloads` at sizes for which a large GPU is made."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instance:
    """A workload at a size for a GPU, whose arrays do not fit in its caches where memory is what counts, and at one for
    an emulation. call: the one whose first call is timed."""

    workload: str
    dtype: str
    size: str
    small: str
    call: str = "gradient"

    def at(self, small: bool) -> str:
        return self.small if small else self.size


CEILINGS = Instance("ceilings", "", "1073741824x8192", "1048576x64", "copy")
INSTANCES = (
    Instance("elementwise", "f32", "134217728", "4099"),
    Instance("elementwise", "f64", "134217728", "4099"),
    Instance("reductions", "f32", "512x512x512", "5x33x70", "last"),
    Instance("reductions", "f64", "512x512x512", "5x33x70", "last"),
    Instance("softmax", "f32", "32768x4096", "9x65"),
    Instance("layer_norm", "f32", "32768x4096", "9x65"),
    Instance("matmul", "f32", "8192", "48", "value"),
    Instance("matmul", "f64", "8192", "48", "value"),
    Instance("matmul", "f16", "8192", "48", "value"),
    Instance("matmul", "bf16", "8192", "48", "value"),
    Instance("mlp", "f32", "128", "8", "step"),
    Instance("mlp", "f32", "8192", "16", "step"),
    Instance("lstm", "f32", "100x64x256", "3x2x8"),
    Instance("lenet", "f32", "64", "2"),
    Instance("lenet", "f32", "4096", "3"),
    Instance("gmm", "f64", "64x25x100000", "4x3x50"),
    Instance("black_scholes", "f32", "33554432", "1009"),
    Instance("black_scholes", "f64", "33554432", "1009"),
    Instance("pairwise", "f32", "16384", "65"),
)
NAMES = tuple(dict.fromkeys(i.workload for i in INSTANCES))


def chosen(names: Collection[str], dtypes: Collection[str]) -> list[Instance]:
    """The instances of some workloads and dtypes; all where none are named."""
    return [i for i in INSTANCES if (not names or i.workload in names) and (not dtypes or i.dtype in dtypes)]


def programs(instances: Collection[Instance]) -> list[Instance]:
    """One instance for each workload and dtype: a size of it more is no other program."""
    return list({(i.workload, i.dtype): i for i in reversed(list(instances))}.values())[::-1]
