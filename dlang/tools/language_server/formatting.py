"""The file in the style of `dlc fmt`, as the edits of the lines that differ."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import accumulate

from lsprotocol import types as lsp

from dlang.diagnostics import DlangError
from dlang.format.formatting import format_source
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.positions import range_between


def formatting(document: Document) -> list[lsp.TextEdit]:
    """The edits; none for a file that can't be read as a program."""
    source = document.analysis.source
    try:
        text = format_source(source)
    except DlangError:
        return []
    before, after = _lines(source.text), _lines(text)
    starts = [0, *accumulate(map(len, before))]
    return [
        lsp.TextEdit(range_between(source, starts[a], starts[b]), "".join(after[c:d]))
        for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def _lines(text: str) -> list[str]:
    """The lines with their ends; only a newline ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+\Z", text)
