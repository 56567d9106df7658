"""The commands of a session: words that begin with a colon, a row of the table each; and the settings of `:set`."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from textwrap import wrap
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

from dlang.diagnostics import Diagnostic, Source, Span, error, render, shown
from dlang.driver import BACKENDS, call, check, errors_of, lower, read_source
from dlang.dump_ir import STAGES, listing, request
from dlang.grammar import syntax as s
from dlang.lazy_modules import lazy_module, np
from dlang.runtime.devices import driver_of
from dlang.runtime.memory import in_units, memory_use
from dlang.spelling import closest, plural
from dlang.tools import pictures
from dlang.tools.arguments import replace_file
from dlang.tools.pictures import Picture
from dlang.tools.repl.compose import RESULT, calling, decide, derivative, function_of, type_of_function
from dlang.tools.repl.inputs import split, with_file
from dlang.tools.repl.names import documentation, library_module, meaning
from dlang.tools.repl.session import Answer, Session, Shown, Stopwatch
from dlang.tools.repl.state import LAST, State, StoredValue, items_of, mentions
from dlang.tools.report import coloured, painted
from dlang.typecheck import core
from dlang.typecheck.printing import Names
from dlang.typecheck.program import scheme_text
from dlang.typecheck.types import UNIT, Type, TypeFn

if TYPE_CHECKING:
    from dlang.grammar import parser
    from dlang.runtime import threads
    from dlang.tools import program_graph
    from dlang.tools.program_graph import Graph
    from dlang.tools.repl import values
    from dlang.tools.repl.values import Style
else:
    program_graph = lazy_module("dlang.tools.program_graph")
    values = lazy_module("dlang.tools.repl.values")
    parser = lazy_module("dlang.grammar.parser")
    threads = lazy_module("dlang.runtime.threads")

# ---- settings --------------------------------------------------------------------------------------------------------
NARROWEST, MOST_DIGITS = 20, 17


@dataclass(slots=True)
class Settings:
    """precision: digits behind the point; width: columns, None for those of the terminal."""

    precision: int | None = None
    width: int | None = None

    @property
    def style(self) -> Style:
        from dlang.tools.repl.values import Style

        return Style(self.columns, self.precision)

    @property
    def columns(self) -> int:
        return self.width if self.width is not None else max(shutil.get_terminal_size().columns, NARROWEST)


@dataclass(frozen=True, slots=True)
class Setting:
    """values: what it can be, in words; choices: if they are few."""

    name: str
    values: str
    help: str
    get: Callable[[Session, Settings], object]
    set: Callable[[Session, Settings, str], None]
    choices: tuple[str, ...] = ()


def _whole(text: str, least: int, most: int, what: str) -> int:
    if not re.fullmatch("-?[0-9]{1,19}", text) or not least <= int(text) <= most:
        _refuse(what, text, f"a number from {least} to {most}")
    return int(text)


def _refuse(what: str, text: str, wanted: str) -> NoReturn:
    raise error("E0980", f"`{what}` is {wanted}, not `{text}`", None, help=("`:set` alone shows all settings",))


def _set_precision(session: Session, settings: Settings, text: str) -> None:
    settings.precision = None if text == "auto" else _whole(text, 0, MOST_DIGITS, "precision")


def _set_width(session: Session, settings: Settings, text: str) -> None:
    settings.width = None if text == "auto" else _whole(text, NARROWEST, 10_000, "width")


def _set_seed(session: Session, settings: Settings, text: str) -> None:
    session.state = replace(session.state, seed=_whole(text, -(2**63), 2**63 - 1, "seed"))


def _threads() -> int:
    return threads.default_pool().threads


def _set_threads(session: Session, settings: Settings, text: str) -> None:
    threads.default_pool().limit(_whole(text, 1, threads.MOST, "threads"))


def _set_backend(session: Session, settings: Settings, text: str) -> None:
    for backend in BACKENDS:
        if backend == text:
            driver_of(backend)  # or an error that says what is missing
            session.backend = backend
            return
    _refuse("backend", text, f"one of {', '.join(BACKENDS)}")


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "backend",
        "cpu, interp, cuda or cuda-emulated",
        "what runs inputs",
        lambda session, _: session.backend,
        _set_backend,
        ("cpu", "interp", "cuda", "cuda-emulated"),
    ),
    Setting(
        "precision",
        "digits, or auto",
        "digits of floats behind the point",
        lambda _, settings: "auto" if settings.precision is None else settings.precision,
        _set_precision,
        ("auto",),
    ),
    Setting("seed", "a number", "of the next random numbers", lambda session, _: session.state.seed, _set_seed),
    Setting("threads", "a number", "that work on large loops", lambda *_: _threads(), _set_threads),
    Setting(
        "width",
        "columns, or auto",
        "of lines of values",
        lambda _, settings: "auto" if settings.width is None else settings.width,
        _set_width,
        ("auto",),
    ),
)


def setting(name: str) -> Setting:
    """A setting by its name. Raises `DlangError`."""
    for known in SETTINGS:
        if known.name == name:
            return known
    names = [known.name for known in SETTINGS]
    close = closest(name, names)
    help = (f"did you mean `{close}`?",) if close is not None else (f"there are {', '.join(names)}",)
    raise error("E0980", f"there is no setting `{name}`", None, help=help)


# ---- conversations and their commands --------------------------------------------------------------------------------
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

    def value(self, value: Shown) -> str:
        """The text of a value; with its type, if it is verbose."""
        text = value.text
        if value.form is not None:
            text = values.value_text(value.form, value.leaves, self.settings.style)
        text = shown(text)
        return text if not self.verbose or text == value.type else text + dim(f" : {value.type}")

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
    print(type_of(c.session, text))


def _grad(c: Conversation, text: str) -> None:
    print(gradient_of(c.session, text))


def _ir(c: Conversation, text: str) -> None:
    print(shown(ir_of(c.session, text)))


def _code(stage: str) -> Callable[[Conversation, str], None]:
    def run(c: Conversation, text: str) -> None:
        print(shown(code_of(c.session, text, stage, f":{stage}")))

    return run


def _time(c: Conversation, text: str) -> None:
    if not text:
        raise error("E0971", "`:time` takes an input", None, help=("for example `:time sum(x)`",))
    watch = Stopwatch()
    c.answer(c.session.submit(text, watch))
    # declarations are compiled where they are used
    run = f", {seconds(watch.running)} to run" if watch.running else ""
    print(f"{seconds(watch.compiling)} to compile{run}")


def _bench(c: Conversation, text: str) -> None:
    print(bench(c.session, text))


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
    print(shown(doc_of(c.session, text)))


def _vars(c: Conversation, text: str) -> None:
    print(shown(variables_of(c.session, c.settings)))


def _undo(c: Conversation, text: str) -> None:
    names = c.session.undo()
    print(f"taken back: {', '.join(names) or 'effects only'}")


def _plot(c: Conversation, text: str) -> None:
    print(plot(c.session, c.settings, text, coloured(sys.stdout)))


def _graph(c: Conversation, text: str) -> None:
    text, file = with_file(text, DRAWINGS)
    graph = graph_of(c.session, text)
    if file is None:
        print(shown(graph.text()), end="")
        return
    program_graph.write(graph, file)
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
    name, _, argument = text.strip().partition(" ")
    command = find(name)
    argument = argument.strip()
    if argument and not command.takes:
        raise error("E0971", f"`{command.name}` takes nothing", None, help=(f"write `{command.name}` alone",))
    return command.run(c, argument) is not False


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


SECONDS, FEWEST_RUNS, MOST_RUNS = 0.5, 4, 10_000


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of one run. empty: of a run that computes nothing; memory: bytes held at most, if that is known."""

    runs: int
    least: float
    middle: float
    empty: float
    memory: int | None

    def __str__(self) -> str:
        times = f"{seconds(self.least)} at least, {seconds(self.middle)} in the middle of {self.runs:,} runs"
        memory = "" if self.memory is None else f"\n{in_units(self.memory)} of memory at most"
        return f"{times}; {seconds(self.empty)} of it is the call{memory}"


def bench(session: Session, text: str) -> Measured:
    """Runs an expression again and again, without keeping its value. Raises `DlangError`."""
    source, e = session.expression(text, ":bench")
    run = _prepared(session, source, e)
    empty_source, empty = session.expression("()", ":bench")
    nothing = _prepared(session, empty_source, empty)
    times = _timed(run, SECONDS)
    return Measured(len(times), min(times), median(times), min(_timed(nothing, SECONDS / 10)), _memory(session, run))


def _prepared(session: Session, source: Source, e: s.Expr) -> Callable[[], Any]:
    body = [s.Let(e.span, s.PatternName(e.span, RESULT), None, e)]
    decl, given = session.composed(session.checked, source, body, [RESULT])
    if effects := decl.effects - {"random"}:
        help = ("`:time` runs it once",)
        message = f"an expression with the effect {' and '.join(sorted(effects))} is not run again and again"
        raise error("E0982", message, e.span, help=help)
    decide(decl, {RESULT: decl.result or UNIT}, e.span)
    runner, entry = session.compiled(decl, tiers=False)
    leaves, seed = session.leaves(given), session.state.seed
    return lambda: call(runner, entry, leaves=leaves, seed=seed)


def _timed(run: Callable[[], Any], limit: float) -> list[float]:
    """Seconds of runs, for about so many seconds in all; the first is left out."""
    times: list[float] = []
    until = perf_counter() + limit
    while len(times) < MOST_RUNS:
        started = perf_counter()
        run()
        ended = perf_counter()
        times.append(ended - started)
        if ended > until and len(times) >= FEWEST_RUNS:
            break
    return times[1:]


def _memory(session: Session, run: Callable[[], Any]) -> int | None:
    if session.backend != "cpu":
        return None
    with memory_use() as used:
        run()
    return used.peak


def seconds(time: float) -> str:
    """A time for people."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if time >= scale:
            return f"{time / scale:.3g} {unit}"
    return f"{time / 1e-9:.3g} ns"


def type_of(session: Session, text: str, what: str = ":type") -> str:
    """The type of an expression; of the name of a function, its scheme. Raises `DlangError`."""
    source, e = session.expression(text, what)
    known = type_of_function(session, source, e)
    if known is not None:
        return known
    t = _inferred(session, source, e)
    return Names(scheme=True).prepare(t)(t)


def _inferred(session: Session, source: Source, e: s.Expr) -> Type:
    body = [s.Let(e.span, s.PatternName(e.span, RESULT), None, e)]
    decl, _ = session.composed(session.checked, source, body, [RESULT])
    assert decl.result is not None
    return items_of(decl.result)[0]


# ---- derivatives and code --------------------------------------------------------------------------------------------
def gradient_of(session: Session, text: str) -> str:
    """The type of the gradient of a function; with the word `ir` and perhaps a stage behind it, its program."""
    if not text:
        raise error("E0971", "`:grad` takes a function", None, help=("for example `:grad |x: f64| x ** 2`",))
    text, stage = _with_stage(text, ":grad")
    derivative = f"grad({text})"
    if stage is None:
        return f"{derivative}: {type_of(session, derivative, ':grad')}"
    return code_of(session, derivative, stage, ":grad")


def _with_stage(text: str, what: str) -> tuple[str, str | None]:
    words = text.split()
    if len(words) > 1 and words[-1] == "ir":
        return text.rsplit("ir", 1)[0].strip(), "ad"
    if len(words) > 2 and words[-2] == "ir":
        return text.rsplit("ir", 1)[0].strip(), _stage(words[-1], what)
    return text, None


def ir_of(session: Session, text: str) -> str:
    """The program of an expression, after the stage that stands behind it, or as back ends get it."""
    words = text.split()
    if len(words) > 1 and words[-1] in STAGES:
        return code_of(session, text.rsplit(words[-1], 1)[0], words[-1], ":ir")
    if len(words) > 1 and words[-2][-1:] not in "+-*/%@<>=,(|" and words[-1].isalpha() and _ends_before(text):
        _stage(words[-1], ":ir")
    return code_of(session, text, "opt", ":ir")


def _ends_before(text: str) -> bool:
    """Tells whether the text before the last word is an expression by itself, and with the word is none."""
    whole = parser.parse_expression(Source("<expression>", text))[1]
    return bool(whole) and not parser.parse_expression(Source("<expression>", text.rsplit(None, 1)[0]))[1]


def _stage(word: str, what: str) -> str:
    if word in STAGES:
        return word
    close = closest(word, STAGES)
    help = (f"did you mean `{close}`?",) if close is not None else (f"there are {', '.join(STAGES)}",)
    raise error("E0971", f"`{what}`: there is no stage `{word}`", None, help=help)


def graph_of(session: Session, text: str) -> Graph:
    """The graph of the program of an expression or a function; behind the word `grad`, of the gradient of one."""
    from dlang.tools.program_graph import program_graph

    first, _, function = text.partition(" ")
    program, entries = lower(
        [request(_program_of(session, f"grad({function})" if first == "grad" else text, ":graph"))]
    )
    return program_graph(program, [entry.name for entry in entries])


def code_of(session: Session, text: str, stage: str, what: str) -> str:
    """The program of an expression, or of a function, after a stage. Raises `DlangError`."""
    return session.state.with_places(listing([_program_of(session, text, what)], stage), session.path)


def _program_of(session: Session, text: str, what: str) -> core.FnDecl:
    """A function that computes an expression; if that is a function, with its parameters."""
    source, e = session.expression(text, what)
    functions = session.checked.module.functions
    if isinstance(e, s.Name) and e.name in functions and e.name not in session.state.values:
        return functions[e.name]
    if isinstance(e, s.Lambda):
        return function_of(session, source, e, e.body, e.result)[0]
    if (derived := derivative(session, source, e)) is not None:
        return derived[0]
    body = [s.Let(e.span, s.PatternName(e.span, RESULT), None, e)]
    decl, _ = session.composed(session.checked, source, body, [RESULT])
    assert decl.result is not None
    t = items_of(decl.result)[0]
    if isinstance(t, TypeFn):
        if seen := [n for n in session.state.values if n in mentions(e)]:
            raise error("E0971", f"the code of this function depends on the value `{seen[0]}`", e.span,
                        help=(f"call it, or make `{seen[0]}` a parameter or a `const`",))  # fmt: skip
        names = Names(scheme=True).prepare(t)
        letters = [f"x{k}" for k in range(len(t.params))]
        return calling(e.span.text, letters, [names(p) for p in t.params], session.checked)
    decide(decl, {RESULT: t}, e.span)
    return decl


# ---- names -----------------------------------------------------------------------------------------------------------
def doc_of(session: Session, name: str) -> str:
    """Describes a name: its type or signature, and its documentation. Raises `DlangError`."""
    checked = session.checked
    if name in session.state.values:
        return f"{name}: {session.state.values[name].shown}"
    if not name or not all(part.isidentifier() for part in name.replace("'", "").split(".")):
        raise error("E0971", "`:doc` takes a name", None, help=("for example `:doc sum` or `:doc nn.relu`",))
    entry = meaning(checked, name)
    if entry is None and (library := library_module(session, name.split(".")[0])) is not None:
        checked, entry = library, meaning(library, name)
    if entry is None:
        known = [*session.state.values, *checked.program.value_names(checked.table)]
        known += [*checked.program.type_names(checked.table), *checked.program.constructor_names(checked.table)]
        close = closest(name, known)
        at = Source("<name>", name)
        help = () if close is None else (f"did you mean `{close}`?",)
        raise error("E0201", f"unknown name `{name}`", Span(at, 0, len(name)), help=help)
    return documentation(name, entry, checked)


def variables_of(session: Session, settings: Settings) -> str:
    """The values with their types, then functions, constants and datatypes."""
    rows: list[tuple[str, str, str]] = []
    for name, value in session.state.values.items():
        name = "_" if name == LAST else name
        text = _short(value, settings) if isinstance(value, StoredValue) else ""
        earlier = sorted(value.stale) if isinstance(value, StoredValue) else []
        stale = f"  (computed with an earlier {', '.join(earlier)})" if earlier else ""
        rows.append((name, value.shown, text + stale))
    functions = session.checked.module.functions
    for (kind, name), d in session.state.declarations.items():
        if d.imports:
            rows.append((name, d.text, ""))
        elif kind == "value" and name in functions:
            rows.append((name, scheme_text(functions[name]), ""))
        elif kind == "type":
            rows.append((name, " ".join(d.text[d.lead :].split()), ""))
    if not rows:
        return "nothing is declared or kept"
    first = max(len(r[0]) for r in rows)
    second = max((len(r[1]) for r in rows if r[2]), default=0)
    lines = (f"{n:<{first}} : {t:<{second}}" + (f" = {v}" if v else "") for n, t, v in rows)
    return "\n".join(line.rstrip() for line in lines)


def _short(value: StoredValue, settings: Settings) -> str:
    lines = values.value_text(value.form, value.leaves, replace(settings.style, width=10_000)).splitlines()
    text = " ".join(line.strip() for line in lines)
    return text if len(text) <= 50 else text[:49] + "…"


KINDS = ("lines", "points", "map")
WINDOW = "window"
WIDEST = 100  # columns of a picture
PICTURES = ("png", "svg", "pdf", "jpg", "jpeg", "webp")
_IN_WINDOW = re.compile(rf"\s*>\s*{WINDOW}\s*$")
_KIND = re.compile(r"\s+as\s+(?P<kind>\w+)\s*$")
_AGAINST = re.compile(r"\s+against\s+")
_EXAMPLE = "for example `:plot y, z against x as points > picture.png`"


def plot(session: Session, settings: Settings, text: str, colour: bool) -> str:
    """A picture as lines of text, or where it went. Raises `DlangError`."""
    text, file = with_file(text, PICTURES)
    window = _IN_WINDOW.search(text)
    picture = picture_of(session, text if window is None else text[: window.start()])
    if file is None and window is None:
        return in_characters(picture, settings, colour)
    if file is None:
        pictures.shown(picture)
        return "shown in a window"
    pictures.written(picture, file)
    return f"written to {file}"


def in_characters(picture: Picture, settings: Settings, colour: bool) -> str:
    """A picture as wide as lines may be."""
    return picture.in_characters(min(settings.columns, WIDEST) - 1, colour=colour)


def picture_of(session: Session, text: str) -> Picture:
    """The picture that `:plot` describes. Raises `DlangError`."""
    kind = _KIND.search(text)
    wanted = kind["kind"] if kind is not None else None
    if kind is not None:
        text = text[: kind.start()]
        if wanted not in KINDS:
            close = closest(kind["kind"], KINDS)
            help = f"did you mean `{close}`?" if close is not None else f"there are {', '.join(KINDS)}"
            raise error("E0971", f"`:plot`: there is no kind `{wanted}`", None, help=(help,))
    what, *against = _AGAINST.split(text, maxsplit=1)
    names = [n.strip() for n in split(what, ",")]
    if not all(names):
        raise error("E0971", "`:plot` takes expressions, separated by commas", None, help=(_EXAMPLE,))
    arrays = [_numbers(session.evaluate(n), n) for n in names]
    x = _numbers(session.evaluate(against[0]), against[0].strip()) if against else None
    if len(arrays) == 1 and arrays[0].ndim == 2 and wanted in (None, "map") and x is None:
        return Picture("map", (), arrays[0], tuple(names))
    if wanted == "map":
        raise error("E0981", "a map is of one array with two axes", None, help=(_EXAMPLE,))
    curves: list[tuple[Any, Any]] = []
    shown: list[str] = []
    for name, array in zip(names, arrays):
        columns = [array] if array.ndim == 1 else list(array.T)
        shown += [name] if array.ndim == 1 else [f"{name}[.., {k}]" for k in range(len(columns))]
        curves += [(_along(x, c, name), c) for c in columns]
    return Picture(wanted or "lines", tuple(curves), None, tuple(shown))


def _along(x: Any, y: Any, name: str) -> Any:
    """Returns the values of the horizontal axis: numbers of another array, or indices."""
    if x is None:
        return np.arange(len(y))
    if x.shape != y.shape:
        shapes = [f"{list(a.shape)}" for a in (y, x)]
        raise error("E0981", f"`{name}` has the shape {shapes[0]}, what it is plotted against {shapes[1]}", None)
    return x


def _numbers(value: Shown | None, name: str) -> Any:
    from dlang.specialize.values import ArrayV

    if value is not None and isinstance(value.form, ArrayV):
        array = np.asarray(values.on_host(value.leaves[0]))
        if array.ndim in (1, 2) and array.size and array.dtype != object:
            return array
    what = "()" if value is None else value.type
    help = ("plot an array of numbers with one or two axes that is not empty",)
    raise error("E0981", f"`{name}` can't be plotted: it is {what}", None, help=help)
