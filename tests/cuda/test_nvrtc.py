"""NVIDIA's compiler takes the kernels for a real device, which need not be there: `pip install '.[cuda]'`."""

from __future__ import annotations

import re

import pytest

from dlang.codegen.abi import Kernel
from dlang.codegen.cuda.printing import source
from dlang.runtime.gpu import WIDE, compiled
from tests.cuda.test_printing import KERNELS, PROGRAMS

nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy is not installed")

# Without the cache of NVRTC, which has the machine code and not what was said of it.
OPTIONS = ["--gpu-architecture=sm_90", "--std=c++17", "--ptxas-options=-v", "--no-cache"]


@pytest.mark.parametrize("indices", ["narrow", "wide"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_kernel_is_machine_code_that_keeps_its_values_in_registers(name: str, indices: str) -> None:
    program = nvrtc.createProgram(source(()) + (KERNELS / f"{name}.cu").read_text(encoding="utf-8"), name, [], [])
    try:
        nvrtc.compileProgram(program, [*OPTIONS, *([WIDE] if indices == "wide" else [])])
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    log = nvrtc.getProgramLog(program)
    assert nvrtc.getCUBIN(program).startswith(b"\x7fELF")
    assert re.findall(r"(\d+) bytes spill stores", log) and set(re.findall(r"(\d+) bytes spill", log)) == {"0"}


def test_kernels_with_wide_indices_are_others_and_both_are_kept() -> None:
    kernels = [Kernel("dl_map_0", "map", (KERNELS / "map_of_two_axes.cu").read_text(encoding="utf-8"))]
    for _ in range(2):
        (narrow,), (wide,) = (compiled(kernels, 90, wide) for wide in (False, True))
        assert narrow.name == wide.name and narrow.code.key != wide.code.key
        assert narrow.code.content != wide.code.content
