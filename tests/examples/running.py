"""Runs an example as its page says, in a smaller form, and finds the numbers in what it prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

import pytest

from dlang.tools.dlc import main

ROOT = Path(__file__).parents[2]

thorough = pytest.mark.skipif(not os.environ.get("DLANG_EXAMPLES"), reason="only in `make examples`")


def printed(example: str, *options: str) -> str:
    """What `dlc run examples/NAME/NAME.dl OPTIONS` prints in the root of the repository."""
    out = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(out):
        assert main(["run", f"examples/{example}/{example}.dl", *options]) == 0
    return out.getvalue()


def numbers(text: str, pattern: str) -> list[float]:
    """The groups of the first match; every one is a number."""
    found = re.search(pattern, text)
    assert found, text
    return [float(g) for g in found.groups()]
