"""Renders cells as HTML; in colours, where Pygments is installed."""

from __future__ import annotations

import html
import shutil
import subprocess
from base64 import b64encode
from typing import TYPE_CHECKING

from dlang.lazy_modules import lazy_module
from dlang.tools.notebook.cells import Code, Display, Drawing, Graph, Value

if TYPE_CHECKING:
    from dlang.tools.highlighting import pygments_lexer
else:
    pygments_lexer = lazy_module("dlang.tools.highlighting.pygments_lexer")


_LEXERS = {"ir": "dlang", "llvm": "llvm", "asm": "gas", "cuda": "cuda"}


def bundle(shown: Display) -> dict[str, str]:
    """The forms of what is shown by their MIME types; the plain text always."""
    match shown:
        case Value(text, type):
            plain = text if text == type else f"{text} : {type}"
            page = f"<pre>{html.escape(text)}</pre>"
            if text != type:
                page += f'<pre style="opacity: 0.6">{html.escape(type)}</pre>'
            return {"text/plain": plain, "text/html": page}
        case Code(text, language):
            return {"text/plain": text, "text/html": _coloured(text, language)}
        case Drawing(text, png):
            return {"text/plain": text} | ({"image/png": b64encode(png).decode()} if png is not None else {})
        case Graph(dot):
            picture = _svg(dot)
            return {"text/plain": dot} | ({"image/svg+xml": picture} if picture is not None else {})


def _coloured(text: str, language: str) -> str:
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
    except ImportError:
        return f"<pre>{html.escape(text)}</pre>"
    if language == "ir":
        return str(highlight(text, pygments_lexer.DlangLexer(), HtmlFormatter(noclasses=True)))
    return str(highlight(text, get_lexer_by_name(_LEXERS[language]), HtmlFormatter(noclasses=True)))


def _svg(dot: str) -> str | None:
    """The picture of a graph, by Graphviz if it is installed."""
    program = shutil.which("dot")
    if program is None:
        return None
    done = subprocess.run([program, "-Tsvg"], input=dot, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None
