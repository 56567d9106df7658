"""Characters that are not seen, but change how what is around them is read: a comment may look like code."""

from __future__ import annotations

import re

from dlang.diagnostics import BIDIRECTIONAL, Diagnostic, Fix, Source, Span

_HIDDEN = re.compile(rf"[{BIDIRECTIONAL}]|(?<!\A)\ufeff")


def hidden(source: Source) -> list[Diagnostic]:
    """A message for each line that has such characters, wherever they stand."""
    found: list[Diagnostic] = []
    line = 0
    for match in _HIDDEN.finditer(source.text):
        span = Span(source, match.start(), match.end())
        if span.line == line:
            continue
        line = span.line
        name = f"U+{ord(match[0]):04X}"
        what = "marks the order of bytes" if match[0] == "\ufeff" else "turns the direction of writing"
        message = f"the character {name}, which {what}, is not seen: what is read is not what runs"
        help = (f"leave it out; in a string, write `\\u{ord(match[0]):04x}`",)
        fixes = (Fix(f"Leave out {name}", span, ""),)
        found.append(Diagnostic("E0117", message, span, "it stands here", help=help, fixes=fixes))
    return found
