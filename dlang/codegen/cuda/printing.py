"""A program with kernels as text: what the host does, then the kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dlang.codegen.abi import Kernel
from dlang.lazy_modules import lazy_module

if TYPE_CHECKING:
    from dlang.codegen import printing
    from dlang.codegen.loops import Program
else:
    printing = lazy_module("dlang.codegen.printing")

DEVICE = Path(__file__).with_name("device.cuh")


def print_cuda(program: Program) -> str:
    """The host's program in the loop-nest IR, and its kernels in CUDA C, without what all of them share."""
    return "\n".join([printing.print_program(program), *[kernel.text for kernel in program.kernels]])


def device_text() -> str:
    """Returns the text that all kernels share."""
    return DEVICE.read_text(encoding="utf-8")


def source(kernels: tuple[Kernel, ...]) -> str:
    """A module of CUDA C."""
    return "\n".join([device_text(), *[kernel.text for kernel in kernels]])
