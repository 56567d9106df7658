"""Kernels that a program brings along: functions of files in CUDA C, with `extern "C"`.

Such a kernel is not told of the run: it gets its arguments, and the arrays that it fills.
"""

from __future__ import annotations

import re
from pathlib import Path

from dlang.diagnostics import Span, error


def foreign_text(file: Path, name: str, span: Span | None) -> str:
    """The text of a file with a kernel of a name. Raises `DlangError` if there is no such file, or kernel in it."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as e:
        message = f"the kernels of `{file.name}` cannot be read: {e.strerror}"
        raise error("E0604", message, span, help=("a path is relative to the file of the program",)) from e
    if not re.search(rf'extern\s+"C"[^;{{}}]*__global__[^;{{}}]*\b{re.escape(name)}\s*\(', text):
        message = f"`{file.name}` has no kernel `{name}`"
        help = f'it is written `extern "C" __global__ void {name}(…)`'
        raise error("E0604", message, span, help=(help,))
    return text
