"""Kernels of a GPU that a program brings along, as the IR names them: functions of files in CUDA C."""

from __future__ import annotations

from pathlib import Path

from dlang.diagnostics import DlangError, Span, error

PREFIX = "cuda:"
"""The beginning of a kernel's target; its file and its name follow."""


def is_kernel(target: str) -> bool:
    """Tells whether a function outside of the language is a kernel."""
    return target.startswith(PREFIX)


def parts(target: str) -> tuple[Path, str]:
    """The file of a kernel, and its name there."""
    file, _, name = target.removeprefix(PREFIX).rpartition(":")
    return Path(file), name


def no_device(target: str, span: Span | None) -> DlangError:
    """The error for a kernel where there is no GPU."""
    file, name = parts(target)
    message = f"the kernel `{name}` of `{file.name}` cannot run on the CPU"
    help = "run it with `--backend cuda`, or give the function a body in the language"
    return error("E0901", message, span, help=(help,))
