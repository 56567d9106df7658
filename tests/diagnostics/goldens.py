"""The messages of every code, as a person reads them: `messages/E0301.txt` has programs and what they get.

    == what it is about
    a program
    --
    its messages

`python -m tests.diagnostics.goldens` writes the messages anew, or those of the codes behind it; read the difference
before you keep it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from dlang.diagnostics import DlangError, Source, render
from dlang.driver import Request, call, check, load, lower
from dlang.host.effects import Host
from dlang.tools.run import call_of_main, printed

MESSAGES = Path(__file__).parent / "messages"
ROOT = Path(__file__).parents[2]
BACKENDS = ("interp", "cpu")
PATH = "program.dl"


@dataclass(frozen=True)
class Golden:
    code: str
    title: str
    program: str
    message: str


def read(path: Path) -> Iterator[Golden]:
    for case in path.read_text(encoding="utf-8").split("\n== ")[0:]:
        title, _, rest = case.removeprefix("== ").partition("\n")
        program, _, message = rest.partition("\n--\n")
        yield Golden(path.stem, title, program + "\n", message.strip("\n"))


def goldens() -> list[Golden]:
    return [g for path in sorted(MESSAGES.glob("E*.txt")) for g in read(path)]


def messages(program: str, backend: str) -> str:
    """What a program gets from `dlc run`, wherever this project lies."""
    return _messages(program, backend).replace(str(ROOT), "…")


def _messages(program: str, backend: str) -> str:
    """The messages of the checker, else of compiling, else of the run."""
    try:
        checked = check(Source(PATH, program))
        if checked.diagnostics:
            return "\n\n".join(render(d) for d in checked.diagnostics)
        functions = checked.module.functions
        tests = [t for t in checked.module.tests if t.body is not None]
        start = call_of_main(PATH, functions["main"], []) if "main" in functions else checked.module.script
        program_, entries = lower([Request(printed(start))] if start is not None else [Request(t) for t in tests])
        runner = load(program_, entries, backend, Host(io.StringIO()))
        for entry in entries:
            call(runner, entry)
    except DlangError as e:
        return str(e)
    return ""


def write(codes: list[str]) -> None:
    for path in sorted(MESSAGES.glob("E*.txt")):
        if codes and path.stem not in codes:
            continue
        cases = [f"== {g.title}\n{g.program.rstrip()}\n--\n{messages(g.program, 'interp')}\n" for g in read(path)]
        path.write_text("\n".join(cases), encoding="utf-8")


if __name__ == "__main__":
    with TemporaryDirectory() as folder, chdir(folder):  # some programs write files
        write(sys.argv[1:])
