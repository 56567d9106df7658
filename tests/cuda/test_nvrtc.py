"""NVIDIA's compiler takes the kernels for a real device, which need not be there: `pip install '.[cuda]'`."""

from __future__ import annotations

import re

import pytest

from dlang.codegen.cuda.printing import source
from dlang.runtime.cuda.compiler import WIDE
from tests.cuda.test_printing import KERNELS, PROGRAMS

nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy is not installed")

OPTIONS = ["--gpu-architecture=sm_90", "--std=c++17", "--ptxas-options=-v"]


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
