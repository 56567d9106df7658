"""Inputs edited on a terminal, by prompt_toolkit: several lines, colours, completion, signatures and a history."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout.processors import HighlightMatchingBracketProcessor
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from dlang.diagnostics import DlangError
from dlang.grammar.lexer import CONTEXTUAL, KEYWORDS, Token, tokenize
from dlang.tools.assistance import Signature, call_at, situation
from dlang.tools.repl.commands import COMMANDS, Conversation, type_of
from dlang.tools.repl.completion import candidates
from dlang.tools.repl.inputs import INDENT, MORE, PROMPT, incomplete, indentation
from dlang.tools.repl.names import signature_of
from dlang.tools.repl.session import Session
from dlang.typecheck.types import DTYPES

T = TypeVar("T")
HISTORY = "DLANG_HISTORY"
"""The environment variable with the file of the history; empty for none that lasts."""


def prompt_of(
    conversation: Conversation,
    *,
    input: Input | None = None,
    output: Output | None = None,
    history: History | None = None,
) -> PromptSession[str]:
    """Returns the prompt that reads inputs. input, output: a terminal, unless it is that of the process."""
    return PromptSession(
        PROMPT,
        multiline=True,
        prompt_continuation=lambda width, line, wrapped: " " * width if wrapped else MORE,
        lexer=Highlighter(),
        style=STYLE,
        completer=_Completer(conversation.session),
        complete_while_typing=False,
        history=history if history is not None else kept_history(),
        auto_suggest=AutoSuggestFromHistory(),
        bottom_toolbar=lambda: _toolbar(conversation.session),
        input_processors=[HighlightMatchingBracketProcessor(chars="[](){}")],
        key_bindings=_keys(conversation.session),
        input=input,
        output=output,
    )


# ---- keys ------------------------------------------------------------------------------------------------------------
def _keys(session: Session) -> KeyBindings:
    keys = KeyBindings()
    editing = has_focus(DEFAULT_BUFFER)  # not what is searched for in the history

    @Condition
    def offered() -> bool:
        return get_app().current_buffer.complete_state is not None

    @Condition
    def chosen() -> bool:
        state = get_app().current_buffer.complete_state
        return state is not None and state.current_completion is not None

    @Condition
    def at_margin() -> bool:
        return not get_app().current_buffer.document.current_line_before_cursor.strip()

    @Condition
    def continued() -> bool:
        return "\n" in get_app().current_buffer.text

    @keys.add("enter", filter=editing & chosen)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.add("enter", filter=editing & ~chosen)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if ends(buffer.text, buffer.cursor_position):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n" + indentation(buffer.document.text_before_cursor))

    @keys.add("escape", "enter", filter=editing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("tab", filter=editing & at_margin & continued & ~offered)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(" " * INDENT)

    @keys.add("tab", filter=editing & ~(at_margin & continued) & ~offered)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        before = buffer.document.text_before_cursor
        match _unless_defect(lambda: candidates(session, before)):
            case [only]:
                buffer.delete_before_cursor(len(before) - only.start)
                buffer.insert_text(only.text)
            case [_, *_]:
                buffer.start_completion(insert_common_part=True)

    @keys.add("tab", filter=editing & offered)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_next()

    for bracket in ")]}":

        @keys.add(bracket, filter=editing & at_margin & continued)
        def _(event: KeyPressEvent) -> None:
            buffer, typed = event.current_buffer, event.data
            line = buffer.document.current_line_before_cursor
            buffer.delete_before_cursor(len(line))
            step = indentation(buffer.document.text_before_cursor)
            buffer.insert_text(step[INDENT:] + typed)

    return keys


def ends(text: str, cursor: int) -> bool:
    """Tells whether Enter ends an input rather than a line: it is whole, and the cursor behind all that is written; or
    its last two lines are empty."""
    before, behind = text[:cursor], text[cursor:]
    if behind.strip():
        return not incomplete(text) and "\n" not in text
    *above, last = before.split("\n")
    return not incomplete(text) or (len(above) > 1 and not last.strip() and not above[-1].strip())


# ---- completion and hints --------------------------------------------------------------------------------------------
class _Completer(Completer):
    def __init__(self, session: Session) -> None:
        self.session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        for c in _unless_defect(lambda: candidates(self.session, before)):
            yield Completion(c.text, c.start - len(before), display=c.shown, display_meta=c.meta)


def _toolbar(session: Session) -> StyleAndTextTuples:
    buffer = get_app().current_buffer
    columns = get_app().output.get_size().columns
    parts = _unless_defect(lambda: fitted(hint(session, buffer.document.text_before_cursor, buffer.text), columns))
    return [("class:bottom-toolbar.argument" if marked else "", text) for text, marked in parts]


def _unless_defect(offer: Callable[[], list[T]]) -> list[T]:
    """Returns the offers, or none where that fails: a mistake of the compiler must not end what is typed.

    It is told when the input is done, or at once to who looks for it with `DLANG_DEBUG`.
    """
    try:
        return offer()
    except Exception:
        if os.environ.get("DLANG_DEBUG"):
            raise
        return []


# ---- history ---------------------------------------------------------------------------------------------------------
def history_file() -> Path | None:
    """`$DLANG_HISTORY`, else `history` in the folder where the user's programs keep their state."""
    named = os.environ.get(HISTORY)
    if named is not None:
        return Path(named) if named else None
    from platformdirs import user_state_path

    return user_state_path("dlang", appauthor=False) / "history"


def kept_history() -> History:
    """The history of all sessions; only that of this one, with a word about it, where it can't be written."""
    path = history_file()
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_APPEND | os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as e:
        print(f"the history isn't kept: cannot write `{path}`: {e.strerror}", file=sys.stderr)
        return InMemoryHistory()
    return _KeptHistory(str(path))


class _KeptHistory(FileHistory):
    """Goes on without its file, once that can't be read or written."""

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


STYLE = Style.from_dict(
    {
        "keyword": "ansimagenta",
        "number": "ansicyan",
        "string": "ansigreen",
        "type": "ansiyellow",
        "function": "ansiblue",
        "command": "bold ansimagenta",
        "comment": "ansibrightblack italic",
        "mistake": "ansired underline",
        "auto-suggestion": "ansibrightblack",
        "matching-bracket.cursor": "bold reverse",
        "matching-bracket.other": "bold reverse",
        "bottom-toolbar": "noreverse ansibrightblack",
        "bottom-toolbar.argument": "bold noreverse",
    }
)
_CLASSES = {
    "INT": "class:number",
    "FLOAT": "class:number",
    "STRING": "class:string",
    "unclosed": "class:string",
    "UNAME": "class:type",
    "bad": "class:mistake",
}


class Highlighter(Lexer):
    """For prompt_toolkit."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = list(_lines(document.text))
        return lambda number: lines[number] if number < len(lines) else []


def coloured(text: str) -> list[tuple[str, str]]:
    """The parts of a text with their styles; together they are the text."""
    if text.startswith(":"):
        end = len(text.split(maxsplit=1)[0])
        return [("class:command", text[:end]), *coloured(text[end:])] if end < len(text) else [("class:command", text)]
    out: list[tuple[str, str]] = []
    at = 0
    tokens = tokenize(text)
    for k, token in enumerate(tokens):
        if token.start > at:
            out.append(_between(text[at : token.start]))
        out.append((_style(token, tokens[k + 1] if k + 1 < len(tokens) else None), token.text))
        at = token.end
    if at < len(text):
        out.append(_between(text[at:]))
    return out


def _between(text: str) -> tuple[str, str]:
    return ("class:comment" if "#" in text else "", text)


def _style(token: Token, following: Token | None) -> str:
    if token.kind in KEYWORDS or (token.kind in CONTEXTUAL and token.kind == token.text):
        return "class:keyword"
    if token.kind == "NAME":
        if token.text in DTYPES:
            return "class:type"
        return "class:function" if following is not None and following.kind == "(" else ""
    if token.kind == "newline":
        return "class:comment" if "#" in token.text else ""
    return _CLASSES.get(token.kind, "")


def _lines(text: str) -> Iterator[StyleAndTextTuples]:
    line: StyleAndTextTuples = []
    for style, part in coloured(text):
        first, *others = part.split("\n")
        line.append((style, first))
        for other in others:
            yield line
            line = [(style, other)]
    yield line


LONGEST = 2000  # characters of an input that is checked at every key
Hint = list[tuple[str, bool]]


def hint(session: Session, before: str, text: str) -> Hint:
    """Parts of a line, and which of them is the parameter at hand. before: the text up to the cursor."""
    if text.startswith(":"):
        return _of_command(text)
    if len(text) > LONGEST:
        return []
    at = situation(before)
    call = call_at(at)
    if call is not None:
        if call.path in session.state.values:
            return [(f"{call.path}: {session.state.values[call.path].shown}", False)]
        shown = signature_of(call.path, session.checked)
        if shown is not None:
            return _marked(shown.inside(call.form), call.parameter(shown.names))
    if not text.strip() or incomplete(text):
        return []
    try:
        return [(f": {type_of(session, text)}", False)]
    except DlangError:
        return []


def fitted(parts: Hint, columns: int) -> Hint:
    """Cuts a line to a width; what is in front of the parameter at hand is left out first."""
    text = "".join(part for part, _ in parts)
    marks = [marked for part, marked in parts for _ in part]
    over = len(text) - columns
    first = marks.index(True) if True in marks else 0
    if over <= 0 or first == 0:
        return parts
    cut = min(over + 1, first)
    return [("…", False), *((text[k], marks[k]) for k in range(cut, len(text)))]


def _of_command(text: str) -> Hint:
    name = text.split(maxsplit=1)[0]
    command = next((c for c in COMMANDS if name in (c.name, c.short)), None)
    return [] if command is None else [(f"{command.name} {command.takes}".rstrip(), True), (f"  {command.help}", False)]


def _marked(shown: Signature, argument: int) -> Hint:
    out: Hint = [(f"{shown.name}{shown.bounds}(", False)]
    for k, parameter in enumerate(shown.parameters):
        out += [(", ", False)] if k else []
        out.append((parameter, k == argument))
    out.append((")" + (f" -> {shown.result}" if shown.result else ""), False))
    return out
