"""The commands of a session: words that begin with a colon, a row of the table each."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from dlang.diagnostics import Diagnostic, Source, error, render, shown
from dlang.driver import check, errors_of, read_source
from dlang.lazy_modules import lazy_module
from dlang.spelling import closest, plural
from dlang.tools.files import replace_file
from dlang.tools.repl.inputs import with_file
from dlang.tools.repl.session import Answer, Session, Shown, Stopwatch
from dlang.tools.repl.settings import SETTINGS, Settings, setting
from dlang.tools.repl.state import LAST, State
from dlang.tools.report import coloured, painted

if TYPE_CHECKING:
    from dlang.tools import dot
    from dlang.tools.repl import looking, plotting, timing, values
else:
    dot = lazy_module("dlang.tools.dot")
    looking = lazy_module("dlang.tools.repl.looking")
    plotting = lazy_module("dlang.tools.repl.plotting")
    timing = lazy_module("dlang.tools.repl.timing")
    values = lazy_module("dlang.tools.repl.values")


@dataclass(slots=True)
class Conversation:
    """A session with its settings. verbose: whether it says more than values: types, and what was declared."""

    session: Session
    settings: Settings = field(default_factory=Settings)
    verbose: bool = False

    # ---- what is written ---------------------------------------------------------------------------------------------
    def answer(self, answer: Answer) -> None:
        """Writes what an input has done."""
        if self.verbose:
            for name, type in answer.declared:
                print(dim(f"{name}: {type}"))
        if answer.value is not None:
            print(self.value(answer.value))
        if answer.stale:
            names = ", ".join(f"`{n}`" for n in answer.stale)
            earlier = ", ".join(f"`{n}`" for n in answer.replaced)
            were, keep = ("was", "keeps its value") if len(answer.stale) == 1 else ("were", "keep their values")
            self.note(f"{names} {were} computed with the earlier {earlier}, and {keep}")

    def value(self, made: Shown) -> str:
        """The text of a value; with its type, if it is verbose."""
        text = made.text
        if made.form is not None:
            text = values.value_text(made.form, made.leaves, self.settings.style)
        text = shown(text)
        return text if not self.verbose or text == made.type else text + dim(f" : {made.type}")

    def note(self, text: str) -> None:
        """Says something that is no mistake."""
        sys.stdout.flush()
        print(f"note: {text}", file=sys.stderr)
        sys.stderr.flush()

    def problems(self, diagnostics: Iterable[Diagnostic]) -> None:
        sys.stdout.flush()
        colour = coloured(sys.stderr)
        for d in diagnostics:
            d = self.session.state.located(d, self.session.path)
            if d.code == "E0201" and d.span is not None and d.span.text in _LEAVING:
                d = replace(d, help=("`:quit` ends the session",))
            print(render(d, colour=colour).replace(LAST, "_"), end="\n\n", file=sys.stderr)
        sys.stderr.flush()


_LEAVING = ("quit", "exit")


def dim(text: str) -> str:
    """A text that stands back, on a terminal with colours."""
    return painted(text, "dim", coloured(sys.stdout))


@dataclass(frozen=True, slots=True)
class Command:
    """takes: what stands behind it, in words; kind: what that is, for completion. run: False ends the conversation."""

    name: str
    takes: str
    help: str
    run: Callable[[Conversation, str], bool | None]
    kind: str = ""
    short: str = ""


# ---- one function each -----------------------------------------------------------------------------------------------
def _type(c: Conversation, text: str) -> None:
    print(looking.type_of(c.session, text))


def _grad(c: Conversation, text: str) -> None:
    print(looking.gradient_of(c.session, text))


def _ir(c: Conversation, text: str) -> None:
    print(shown(looking.ir_of(c.session, text)))


def _code(stage: str) -> Callable[[Conversation, str], None]:
    def run(c: Conversation, text: str) -> None:
        print(shown(looking.code_of(c.session, text, stage, f":{stage}")))

    return run


def _time(c: Conversation, text: str) -> None:
    if not text:
        raise error("E0971", "`:time` takes an input", None, help=("for example `:time sum(x)`",))
    watch = Stopwatch()
    c.answer(c.session.submit(text, watch))
    # declarations are compiled where they are used
    run = f", {timing.seconds(watch.running)} to run" if watch.running else ""
    print(f"{timing.seconds(watch.compiling)} to compile{run}")


def _bench(c: Conversation, text: str) -> None:
    print(timing.bench(c.session, text))


def _load(c: Conversation, text: str) -> None:
    if not text:
        raise error("E0971", "`:load` takes a file", None, help=("for example `:load model.dl`",))
    _loaded(c, *load(c.session, [os.path.expanduser(text)]))


def _reload(c: Conversation, text: str) -> None:
    _loaded(c, *reload(c.session))


def _loaded(c: Conversation, answer: Answer, said: Sequence[str]) -> None:
    c.answer(answer)
    for line in said:
        print(shown(line))


def _save(c: Conversation, text: str) -> None:
    said, wrong = save(c.session, text)
    print(shown(said))
    if wrong:
        c.note("what was written is refused as a program, because a declaration has changed since:")
        c.problems(wrong)


def _doc(c: Conversation, text: str) -> None:
    print(shown(looking.doc_of(c.session, text)))


def _vars(c: Conversation, text: str) -> None:
    print(shown(looking.variables_of(c.session, c.settings)))


def _undo(c: Conversation, text: str) -> None:
    names = c.session.undo()
    print(f"taken back: {', '.join(names) or 'effects only'}")


def _plot(c: Conversation, text: str) -> None:
    print(plotting.plot(c.session, c.settings, text, coloured(sys.stdout)))


def _graph(c: Conversation, text: str) -> None:
    text, file = with_file(text, DRAWINGS)
    graph = looking.graph_of(c.session, text)
    if file is None:
        print(shown(graph.text()), end="")
        return
    dot.write(graph, file)
    print(shown(f"written to {file}"))


def _set(c: Conversation, text: str) -> None:
    name, _, value = text.partition(" ")
    if not name:
        for s in SETTINGS:
            print(f"{s.name:<9} = {s.get(c.session, c.settings)!s:<6}  {s.help}: {s.values}")
        return
    chosen = setting(name)
    if value.strip():
        chosen.set(c.session, c.settings, value.strip())
    print(f"{chosen.name} = {chosen.get(c.session, c.settings)}")


def _help(c: Conversation, text: str) -> None:
    if text:
        command = find(text if text.startswith(":") else f":{text}")
        print(f"{command.name} {command.takes}".rstrip() + f"\n  {command.help}")
        return
    columns = min(c.settings.columns, _WIDEST_HELP)
    print("\n".join([*wrap(_INTRODUCTION, columns), ""]))
    margin = _USAGE if columns > 2 * _USAGE else 4
    for command in COMMANDS:
        usage = f"  {command.name} {command.takes}".rstrip()
        lines = wrap(command.help, columns - margin)
        if len(usage) >= margin:
            lines.insert(0, "")
        for k, line in enumerate(lines):
            print(f"{usage if k == 0 else '':<{margin}}{line}".rstrip())
    print("\n".join(["", *wrap(_KEPT, columns)]))


def _quit(c: Conversation, text: str) -> bool:
    return False


DRAWINGS = ("dot", "svg", "png", "pdf")
_USAGE, _WIDEST_HELP = 26, 100  # columns
_INTRODUCTION = """\
An input is an expression, statements, or declarations; it goes on while a bracket is open, or behind an operator.
`_` is the last value. On a terminal Alt-Enter ends an input, Tab completes, and Ctrl-C stops what runs."""
_KEPT = """\
A function that is declared anew counts for all functions that use it. Values that were computed with it are kept as
they are; `:vars` marks them."""

COMMANDS: tuple[Command, ...] = (
    Command(":type", "EXPR", "the type of an expression, which is not computed", _type, "expression", ":t"),
    Command(":doc", "NAME", "the signature and the documentation of a function, type or module", _doc, "name", ":d"),
    Command(":vars", "", "the values, functions and types of the session", _vars),
    Command(":grad", "F [ir [STAGE]]", "the type of the gradient of a function, or its program", _grad, "expression"),
    Command(":ir", "EXPR [STAGE]", "the program of an expression or a function, after a stage", _ir, "expression"),
    Command(":llvm", "EXPR", "the same as LLVM's text", _code("llvm"), "expression"),
    Command(":asm", "EXPR", "the same as instructions of this processor", _code("asm"), "expression"),
    Command(":cuda", "EXPR", "the same as kernels in CUDA C", _code("cuda"), "expression"),
    Command(":time", "INPUT", "does what an input says; how long it took to compile and to run", _time, "expression"),
    Command(":bench", "EXPR", "runs an expression many times: times and memory", _bench, "expression"),
    Command(":plot", "EXPR, … [against EXPR] [as KIND] [> FILE]",
            "draws arrays as lines, points or a map; in a file, or in a window with `> window`", _plot, "expression"),
    Command(":graph", "[grad] EXPR [> FILE]", "the program of an expression, a function or a gradient, as a graph",
            _graph, "expression"),
    Command(":load", "FILE", "takes the declarations of a file", _load, "file", ":l"),
    Command(":reload", "", "takes those of all loaded files again, and imports, after an edit", _reload, "", ":r"),
    Command(":save", "FILE", "writes the session as a program", _save, "file"),
    Command(":undo", "", "takes the last input back: declarations and values", _undo, "", ":u"),
    Command(":set", "[NAME [VALUE]]", "shows or changes backend, precision, seed, threads or width", _set, "setting"),
    Command(":help", "[COMMAND]", "this text, or a line about a command", _help, "command", ":h"),
    Command(":quit", "", "the end, as Ctrl-D", _quit, "", ":q"),
)  # fmt: skip


def find(name: str) -> Command:
    """A command by its name. Raises `DlangError`."""
    for command in COMMANDS:
        if name in (command.name, command.short):
            return command
    close = closest(name, [c.name for c in COMMANDS])
    help = f"did you mean `{close}`?" if close is not None else "`:help` lists them"
    raise error("E0971", f"there is no command `{name}`", None, help=(help,))


def perform(c: Conversation, text: str) -> bool:
    """Does what a command says; False if it ends the conversation. Raises `DlangError`."""
    name, _, rest = text.strip().partition(" ")
    command = find(name)
    rest = rest.strip()
    if rest and not command.takes:
        raise error("E0971", f"`{command.name}` takes nothing", None, help=(f"write `{command.name}` alone",))
    return command.run(c, rest) is not False


# ---- files -----------------------------------------------------------------------------------------------------------
# `:load`, `:reload` and `:save`: declarations from files, and a session as a file.


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
