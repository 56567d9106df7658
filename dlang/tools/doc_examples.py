"""The examples in the `##` lines of a file, as tests: what stands between ```` ```dlang ```` and ```` ``` ````."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dlang.diagnostics import Source
from dlang.grammar import syntax as s
from dlang.grammar.lexer import KEYWORDS
from dlang.grammar.parser import parse
from dlang.grammar.vocabulary import NAME

_WORDS = re.compile(r"[ \t]*##(.*)")
_FENCE = re.compile(r"\s*```\s*(\w*)\s*")
_IMPORT = re.compile(r"\s*import\b.*")


def examples(source: Source) -> Source | None:
    """A file of tests, one for each example and on the same lines; None if there are none.

    In it the source's module and its public names are imported, and what the examples import.
    """
    lines = [""] * (source.text.count("\n") + 1)
    imports = list(_imports(source))
    blocks = list(_blocks(source.text))
    for first, last, texts in blocks:
        for number, text in enumerate(texts, first + 1):
            if _IMPORT.fullmatch(text):
                imports.append(text.strip())
            else:
                lines[number] = text
        lines[first] = "; ".join([*imports, f'test "the example in line {first + 1}" {{'])
        lines[last] = lines[last] + "}"
        imports = []
    return Source(f"{source.path} (examples)", "\n".join(lines)) if blocks else None


def _blocks(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """The lines, counted from 0, between which examples are, and what is between these. A block ends with the words
    that it is in, if not before."""
    first, language = 0, ""
    texts: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""]):
        words = _WORDS.fullmatch(line)
        fence = _FENCE.fullmatch(words[1]) if words else None
        if language and (fence or words is None):
            if language == "dlang":
                yield first, number if fence else number - 1, texts
            language = ""
        elif fence:
            first, language, texts = number, fence[1] or "text", []
        elif language and words:
            texts.append(" " * words.start(1) + words[1])


def _imports(source: Source) -> Iterator[str]:
    """Yields an import of the module that a source is, if it can be imported."""
    module = Path(source.path).stem
    if not re.fullmatch(NAME, module) or module in KEYWORDS or module == "prelude":
        return
    yield f"import {module}"
    items = parse(source)[0].items
    declared = [i.name for i in items if isinstance(i, s.Fn | s.Extern | s.Const | s.Struct | s.Enum | s.Alias)]
    made = [c.name for i in items if isinstance(i, s.Enum) for c in i.constructors]
    if names := [n for n in dict.fromkeys([*declared, *made]) if not n.startswith("_")]:
        yield f"import {module} {{ {', '.join(names)} }}"
