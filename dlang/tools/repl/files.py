"""`:load`, `:reload` and `:save`: declarations from files, and a session as a file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from dlang.diagnostics import Diagnostic, Source, error
from dlang.driver import check, errors_of, read_source
from dlang.spelling import plural
from dlang.tools.files import replace_file
from dlang.tools.repl.session import Answer, Session
from dlang.tools.repl.state import LAST, State


def load(session: Session, paths: Sequence[str]) -> tuple[Answer, list[str]]:
    """Takes the declarations of files, of all or none; what there is to say of each. Raises `DlangError`."""
    sources = [read_source(path) for path in paths]
    before = session.workspace.search_path
    folders = dict.fromkeys(str(Path(path).resolve().parent) for path in paths)
    session.workspace.search_path = (*before, *(f for f in folders if f not in before))
    try:
        answer, counts = session.load(sources)
    except BaseException:
        session.workspace.search_path = before
        raise
    said = []
    for path, (functions, statements) in zip(paths, counts, strict=True):
        left = f"; {plural(statements, 'statement')} of it not run" if statements else ""
        said.append(f"{path}: {plural(functions, 'function')}{left}")
    return answer, said


def reload(session: Session) -> tuple[Answer, list[str]]:
    """Loads what has been loaded again, and reads imported files anew. Raises `DlangError`."""
    imports = sum(1 for d in session.state.declarations.values() if d.imports)
    if not session.state.loaded and not imports:
        raise error("E0971", "no file has been loaded or imported", None, help=("`:load FILE` loads one",))
    answer, said = load(session, session.state.loaded)
    return answer, said or [f"{plural(imports, 'import')} read again"]


def save(session: Session, path: str) -> tuple[str, list[Diagnostic]]:
    """Writes the session as a program; what was written, and what is wrong with it. Raises `DlangError`."""
    if not path:
        raise error("E0971", "`:save` takes a file", None, help=("for example `:save session.dl`",))
    path = os.path.expanduser(path)
    text = program_of(session.state)
    replace_file(path, text)
    checked = check(Source(path, text), tuple(map(str, session.workspace.search_path)))
    return f"{path}: {plural(len(text.splitlines()), 'line')}", errors_of(checked)


def program_of(state: State) -> str:
    """The declarations as they are now, then the statements in order. Of values that were only looked at those stay
    that a later input uses, or that came with an effect."""
    imports = [d.text for d in state.declarations.values() if d.imports]
    others = [d.text for d in state.declarations.values() if not d.imports]
    statements: list[str] = []
    later = False  # whether what follows mentions the last value
    for written in reversed(state.written):
        for text in reversed(written.statements):
            value = re.fullmatch(rf"let {LAST} = (.*)", text, re.DOTALL)
            if value is not None:
                if later or written.effects:
                    name = "last" if later else "_"
                    statements.append(f"let {name} = {value[1]}")
                    later = LAST in value[1]
            else:
                statements.append(text)
                later = later or LAST in text
    statements = [text.replace(LAST, "last") for text in reversed(statements)]
    sections = ["\n".join(imports), *others, "\n".join(statements)]
    return "\n\n".join(s for s in sections if s) + "\n"
