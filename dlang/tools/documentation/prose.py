"""HTML of Markdown and of code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from typing import Any

from dlang.diagnostics import error

Find = Callable[[str], str | None]  # the address of a name


def code(text: str, find: Find | None = None) -> str:
    """A program in colours; names of types that `find` knows are links."""
    return "".join(_coloured(kind, value, find) for kind, value in _lexer().get_tokens(text)).rstrip("\n")


def lines(text: str, find: Find | None = None) -> list[str]:
    """The lines of a program in colours. No token spans lines."""
    return code(text, find).split("\n")


def _coloured(kind: Any, value: str, find: Find | None) -> str:
    from pygments.token import STANDARD_TYPES, Name, Whitespace

    if kind in Whitespace:
        return escape(value)
    shown = escape(value)
    target = find(value) if find is not None and kind in Name and value[:1].isupper() else None
    if target is not None:
        shown = f'<a href="{escape(target)}">{shown}</a>'
    style = STANDARD_TYPES.get(kind, "")
    return f'<span class="{style}">{shown}</span>' if style else shown


@cache
def _lexer() -> Any:
    """E0975 without Pygments."""
    try:
        from dlang.tools.highlighting.pygments_lexer import DlangLexer
    except ImportError as e:
        raise _missing("Pygments", e) from None
    return DlangLexer(ensurenl=False, stripnl=False)


class Prose:
    """Markdown → HTML. Names in `code` that `find` knows are links; raw HTML is shown as it is written.

    Raises E0975 without markdown-it.
    """

    def __init__(self) -> None:
        try:
            from markdown_it import MarkdownIt
        except ImportError as e:
            raise _missing("markdown-it-py", e) from None
        self._markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
        self._markdown.add_render_rule("code_inline", _code_inline)
        self._markdown.add_render_rule("fence", _fence)
        self._markdown.add_render_rule("code_block", _fence)

    def html(self, text: str, find: Find) -> str:
        return str(self._markdown.render(text, {"find": find}))

    def inline(self, text: str, find: Find) -> str:
        """Renders one paragraph, without its tags."""
        return str(self._markdown.renderInline(text, {"find": find}))


def _code_inline(_: Any, tokens: Sequence[Any], index: int, options: Any, env: Any) -> str:
    content = tokens[index].content
    target = env["find"](content)
    shown = f"<code>{escape(content)}</code>"
    return shown if target is None else f'<a href="{escape(target)}">{shown}</a>'


def _fence(_: Any, tokens: Sequence[Any], index: int, options: Any, env: Any) -> str:
    """A block of code; one that names another language is not coloured."""
    content, language = tokens[index].content.rstrip("\n"), tokens[index].info.split()[:1]
    shown = code(content) if language == ["dlang"] else escape(content)
    return f"<pre><code>{shown}</code></pre>\n"


def _missing(what: str, e: ImportError) -> Exception:
    help = ("install it: pip install 'dlang[docs]'",)
    return error("E0975", f"`dlc doc` needs {what}, which can't be loaded: {e}", None, help=help)
