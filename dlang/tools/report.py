"""Where messages go: to the standard error for a person, to the standard output as JSON for a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from dlang.diagnostics import Diagnostic, render, to_json
from dlang.tools.terminal import coloured


def report(diagnostics: Iterable[Diagnostic], as_json: bool) -> int:
    """Writes messages in order; gives the number of errors among them."""
    errors = 0
    for d in diagnostics:
        errors += d.severity == "error"
        if as_json:
            import json

            print(json.dumps(to_json(d), ensure_ascii=False))
        else:
            print(render(d, colour=coloured(sys.stderr)), end="\n\n", file=sys.stderr)
    return errors


def report_defect(e: Exception) -> None:
    """Says that the compiler is at fault; where, only to who asks for it."""
    summary = (str(e).splitlines() or [""])[0]
    print(f"dlc: this is a bug in dlang, not in your program: {type(e).__name__}: {summary}", file=sys.stderr)
    if os.environ.get("DLANG_DEBUG"):
        import traceback

        traceback.print_exception(e)
    else:
        print("Please report it with the program. DLANG_DEBUG=1 shows where it happened.", file=sys.stderr)
