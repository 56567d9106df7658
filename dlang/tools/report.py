"""Where messages go: to the standard error for a person, to the standard output as JSON for a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from dlang.diagnostics import Diagnostic, render, to_json


def report(diagnostics: Iterable[Diagnostic], as_json: bool) -> int:
    """Writes messages in order; gives the number of errors among them."""
    errors = 0
    for d in diagnostics:
        errors += d.severity == "error"
        if as_json:
            import json

            print(json.dumps(to_json(d), ensure_ascii=False))
        else:
            print(render(d, colour=_colour()), end="\n\n", file=sys.stderr)
    return errors


def _colour() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
