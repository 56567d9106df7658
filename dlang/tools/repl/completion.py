"""Completions of an input: by the names in scope, and by type."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlang.diagnostics import DlangError, Source
from dlang.dump_ir import STAGES
from dlang.grammar import syntax as s
from dlang.grammar.lexer import KEYWORDS, tokenize
from dlang.grammar.newlines import CLOSERS, NEEDS_MORE, OPENERS
from dlang.grammar.parser import parse
from dlang.tools.assistance import (
    Signature,
    Situation,
    call_at,
    expected,
    functions,
    open_brackets,
    path_of_import,
    receiver,
    situation,
    takes,
    taking,
)
from dlang.tools.repl.commands import COMMANDS, SETTINGS, Command
from dlang.tools.repl.compose import RESULT
from dlang.tools.repl.inputs import split
from dlang.tools.repl.names import imported_module, meaning, signature, signature_of
from dlang.tools.repl.session import Session
from dlang.tools.repl.state import LAST, StoredValue, items_of
from dlang.typecheck.annotations import EFFECTS
from dlang.typecheck.printing import Names
from dlang.typecheck.program import Checked, check_function, scheme_text
from dlang.typecheck.scope import BuiltinEntry, FnEntry, ModuleEntry, ModuleTable
from dlang.typecheck.types import DTYPES, Type, TypeData, TypeTuple, resolve

_STATEMENTS = sorted(KEYWORDS - {"as", "by", "in", "and", "or", "not", "else", "extern"})
_OPERATORS = ("and", "as", "else", "for", "in", "or", "by")


@dataclass(frozen=True, slots=True)
class Candidate:
    """text: what takes the place of what stands from `start` to the cursor. shown: in the list; meta: beside it."""

    text: str
    start: int
    shown: str
    meta: str = ""


def candidates(session: Session, text: str) -> list[Candidate]:
    """Lists the completions at the end of a text, the best first."""
    if text.startswith(":"):
        return list(_of_command(session, text))
    at = situation(text)
    return [] if at.quiet else _unique(_of_input(session, at))


def _unique(candidates: Iterable[Candidate]) -> list[Candidate]:
    return list({c.text: c for c in reversed(list(candidates))}.values())[::-1]


# ---- commands --------------------------------------------------------------------------------------------------------
def _of_command(session: Session, text: str) -> Iterator[Candidate]:
    name, space, arguments = text.partition(" ")
    if not space:
        for c in COMMANDS:
            if c.name.startswith(name):
                yield Candidate(c.name + (" " if c.takes else ""), 0, c.name, c.help)
        return
    offset = len(name) + 1
    command = next((c for c in COMMANDS if name in (c.name, c.short)), None)
    for candidate in _of_kind(session, command, arguments) if command is not None else ():
        yield replace(candidate, start=candidate.start + offset)


def _of_kind(session: Session, command: Command, arguments: str) -> Iterable[Candidate]:
    match command.kind:
        case "file":
            return _files(arguments)
        case "setting":
            return _settings(arguments)
        case "command":
            return [Candidate(c.name, 0, c.name, c.help) for c in COMMANDS if c.name.startswith(arguments)]
        case "expression" | "name":
            at = situation(arguments)
            candidates = [] if at.quiet else _unique(_of_input(session, at))
            return [*_stages(command, at), *candidates]
        case _:
            return []


def _stages(command: Command, at: Situation) -> Iterator[Candidate]:
    """Behind an expression, the stages of the compiler."""
    behind = at.previous in (*CLOSERS, "NAME", "INT", "FLOAT")
    if behind and command.name == ":grad" and at.before[-1].text != "ir":
        yield from _matching(at, [("ir", "its program")])
    elif behind and command.name in (":ir", ":grad"):
        yield from _matching(at, ((stage, "stage") for stage in STAGES))


def _settings(words: str) -> Iterator[Candidate]:
    name, space, value = words.partition(" ")
    for setting in SETTINGS:
        if not space and setting.name.startswith(name):
            yield Candidate(setting.name + " ", 0, setting.name, setting.values)
        elif space and setting.name == name:
            for choice in setting.choices:
                if choice.startswith(value):
                    yield Candidate(choice, len(name) + 1, choice)


def _files(words: str) -> Iterator[Candidate]:
    """Folders, and files of the language."""
    folder, _, begun = words.rpartition("/")
    where = Path(os.path.expanduser(folder + "/" if folder or words.startswith("/") else "."))
    try:
        entries = sorted(where.iterdir(), key=lambda p: (not p.is_dir(), p.name))
    except OSError:
        return
    start = len(words) - len(begun)
    for p in entries:
        if not p.name.startswith(begun) or (p.name.startswith(".") and not begun):
            continue
        if p.is_dir():
            yield Candidate(p.name + "/", start, p.name + "/")
        elif p.suffix == ".dl":
            yield Candidate(p.name, start, p.name)


# ---- inputs ----------------------------------------------------------------------------------------------------------
def _of_input(session: Session, at: Situation) -> Iterator[Candidate]:
    checked = session.checked
    match expected(at):
        case "new":
            return
        case "path":
            known = checked.program.finder.known(Path(checked.table.path), path_of_import(at))
            yield from _matching(at, ((name, "") for name in known))
        case "member":
            table = imported_module(session, path_of_import(at))
            yield from _matching(at, _members(table) if table is not None else ())
        case _ if at.previous == ".":
            yield from _behind_point(session, checked, at)
        case _ if at.previous == "|>":
            t = type_at(session, at, value_before(at, len(at.before) - 1))
            yield from _functions(checked, at, t)
        case "type":
            yield from _types(checked, at)
        case "effect":
            yield from _matching(at, ((name, "") for name in sorted(EFFECTS)))
        case _:
            yield from _anywhere(session, checked, at)


def _matching(at: Situation, named: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    for name, meta in named:
        if name.startswith(at.prefix) and (at.prefix or not name.startswith("_")):
            yield Candidate(name, at.start, name, meta)


def _behind_point(session: Session, checked: Checked, at: Situation) -> Iterator[Candidate]:
    """Lists members of a module, or fields of a value; then functions that take it, which are called by `|>`."""
    expression = value_before(at, len(at.before) - 1)
    if not expression:
        return
    entry = meaning(checked, expression) if expression not in session.state.values else None
    if isinstance(entry, ModuleTable):
        yield from _matching(at, _members(entry))
        return
    t = type_at(session, at, expression)
    if t is None:
        return
    yield from _matching(at, _fields(resolve(t)))
    point = at.before[-1].start
    for c in _functions(checked, at, t):
        yield Candidate(f" |> {c.text}", point, c.text, c.meta)


def _members(table: ModuleTable) -> Iterator[tuple[str, str]]:
    for name in sorted(table.core.functions):
        if not name.startswith("_"):
            yield name, scheme_text(table.core.functions[name])
    for name in sorted([*table.types, *table.constructors]):
        yield name, ""


def _fields(t: Type) -> Iterator[tuple[str, str]]:
    if isinstance(t, TypeData) and t.decl.is_struct:
        for name, field in t.decl.variants[0].fields:
            if name:
                yield name, Names(scheme=True).prepare(field)(field)
    elif isinstance(t, TypeTuple):
        for k, item in enumerate(t.items):
            yield str(k), Names(scheme=True).prepare(item)(item)


def _functions(checked: Checked, at: Situation, t: Type | None) -> Iterator[Candidate]:
    """The functions whose first parameter may be of a type."""
    for name, entry in taking(checked, t):
        if name.startswith(at.prefix):
            yield Candidate(name, at.start, name, _meta(entry, checked))


def _meta(entry: FnEntry | BuiltinEntry, checked: Checked) -> str:
    shown = signature("", entry, checked)
    return shown.result if isinstance(entry, FnEntry) and entry.decl.kind == "const" else str(shown)


def _types(checked: Checked, at: Situation) -> Iterator[Candidate]:
    names = [*checked.program.type_names(checked.table), *sorted(DTYPES), "size"]
    yield from _matching(at, ((name, "") for name in names))


def _anywhere(session: Session, checked: Checked, at: Situation) -> Iterator[Candidate]:
    wanted: Type | None = None
    call = call_at(at)
    if call is not None and at.previous in ("(", ","):
        shown = signature_of(call.path, checked)
        if shown is not None:
            yield from _named(at, shown, call.argument, call.named)
        called_entry = meaning(checked, call.path)
        if isinstance(called_entry, FnEntry) and call.argument < len(called_entry.scheme.params):
            wanted = called_entry.scheme.params[call.argument]
    yield from _fitting(session, at, wanted)
    yield from _matching(at, ((name, "") for name in local_names(at) if name != at.prefix))
    for name, entry in functions(checked):
        if name.startswith(at.prefix):
            yield Candidate(name, at.start, name, _meta(entry, checked))
    yield from _matching(at, ((name, "") for name in _types_and_constructors(checked)))
    yield from _matching(at, ((table, "module") for table in _imported(checked)))
    yield from _matching(at, ((word, "") for word in _STATEMENTS))
    yield from _matching(at, ((word, "") for word in _OPERATORS if at.before))
    yield from _matching(at, ((name, "") for name in sorted(DTYPES)))


def _named(at: Situation, shown: Signature, argument: int, given: tuple[str, ...]) -> Iterator[Candidate]:
    """Arguments by name, of the parameters from the one at hand on."""
    for name, parameter in list(zip(shown.names, shown.parameters))[argument:]:
        if name and name not in given and name.startswith(at.prefix):
            yield Candidate(f"{name} = ", at.start, f"{name} =", parameter.partition(": ")[2])


def _fitting(session: Session, at: Situation, wanted: Type | None) -> Iterator[Candidate]:
    """The values of the session; if a type is wanted, first those of it."""
    values = {n: v for n, v in session.state.values.items() if n != LAST}

    def fits(value: object) -> bool:
        return wanted is not None and isinstance(value, StoredValue) and takes(wanted, value.inferred)

    order = sorted(values, key=lambda n: not fits(values[n]))
    yield from _matching(at, ((n, values[n].shown) for n in order))


def _types_and_constructors(checked: Checked) -> list[str]:
    program, table = checked.program, checked.table
    return sorted({*program.type_names(table), *program.constructor_names(table)})


def _imported(checked: Checked) -> list[str]:
    return [n for n, e in checked.table.entries.items() if isinstance(e, ModuleEntry)]


def value_before(at: Situation, end: int) -> str:
    """The expression that ends in front of a token; or ""."""
    base = receiver(at, end)
    return at.text[slice(*base)] if base is not None else ""


def local_names(at: Situation) -> list[str]:
    """The names that the input itself binds before the cursor: by `let`, `var`, `for`, and as parameters."""
    names: dict[str, None] = {}
    tokens = at.before
    bars = 0
    for k, token in enumerate(tokens):
        before = tokens[k - 1].kind if k else ""
        after = tokens[k + 1].kind if k + 1 < len(tokens) else ""
        bars += token.kind == "|"
        if token.kind == "NAME":
            binds = before in ("let", "var", "for", "nodiff") or after == "in"
            parameter = before in ("(", ",", "|") and (after in (":", "|") or (bars % 2 == 1 and after == ","))
            if binds or parameter or (before == "fn" and after == "("):
                names[token.text] = None
    return list(names)


# ---- types of what stands before ------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Around:
    """The context of the cursor: the parameters and the statements before it. declared: in a `fn`, which does not see
    the values of the session."""

    declared: bool = False
    parameters: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)


def type_at(session: Session, at: Situation, expression: str) -> Type | None:
    """The type that an expression has where the cursor stands; None if that is not known."""
    around = _around(at)
    statements = "\n".join([*around.statements, expression])
    head = f"fn input({', '.join(around.parameters)})"
    try:
        if around.declared:
            decl, _ = check_function(session.checked, Source("<completion>", f"{head} {{\n{statements}\n}}"))
            return decl.result if decl is not None else None
        function = parse(Source("<completion>", f"{head} = 0"))[0].items
        module = session.parsed(Source("<completion>", statements))
        body = [i for i in module.items if isinstance(i, s.Statement) and not isinstance(i, s.Fn)]
        last = body[-1] if body else None
        if not isinstance(last, s.Expr) or not function or not isinstance(function[0], s.Fn):
            return None
        body[-1] = s.Let(last.span, s.PatternName(last.span, RESULT), None, last)
        decl, _ = session.composed(session.checked, module.source, body, [RESULT], more=function[0].parameters)
        return items_of(decl.result)[0] if decl.result is not None else None
    except DlangError:
        return None


def _around(at: Situation) -> _Around:
    """Returns the bindings of the blocks around the cursor, the outer ones first."""
    around = _Around()
    start, arms = 0, False
    for brace in [b for b in open_brackets(at.before) if b.kind == "{"]:
        done, head = _finished(at.text[start : brace.start])
        around.statements += [] if arms else [done]
        parameters = _parameters(head)
        if parameters is not None:
            outer = around if around.declared else _Around()
            around = _Around(True, [*outer.parameters, parameters], outer.statements)
        else:
            around.parameters += _of_lambdas(head)
            around.statements += _of_loop(head)
        start, arms = brace.end, any(t.kind == "match" for t in tokenize(head))
    done, head = _finished(at.text[start : at.before[-1].end if at.before else start])
    around.statements += [] if arms else [done]
    around.parameters += _of_lambdas(head)
    return around


def _finished(text: str) -> tuple[str, str]:
    """The statements that are whole at the start of a text, and what follows them."""
    start = depth = 0
    previous = ""
    for token in tokenize(text):
        if token.kind in ("newline", ";"):
            if depth == 0 and previous not in NEEDS_MORE:
                start = token.end
        else:
            depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
            previous = token.kind
    return text[:start].strip(), text[start:]


def _parameters(text: str) -> str | None:
    """Returns the text in the brackets of `fn f(…)`."""
    tokens = [t for t in tokenize(text) if t.kind != "newline"]
    if len(tokens) < 3 or tokens[0].kind != "fn" or tokens[2].kind != "(":
        return None
    depth = 0
    for token in tokens[2:]:
        depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        if depth == 0:
            return text[tokens[2].end : token.start]
    return None


def _of_lambdas(text: str) -> list[str]:
    """The parameters with types of the lambdas that are not finished: `|v: f64|`."""
    open_lambdas: list[tuple[int, str]] = []  # with how many brackets were open
    depth, opened = 0, -1
    for token in tokenize(text):
        depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        if token.kind == "|":
            if opened >= 0:
                open_lambdas += [(depth, p) for p in split(text[opened : token.start], ",") if ":" in p]
            opened = token.end if opened < 0 else -1
        ended = depth if opened < 0 and token.kind in (",", ";") else depth + 1
        open_lambdas = [(d, p) for d, p in open_lambdas if d < ended]
    return [p for _, p in open_lambdas]


def _of_loop(text: str) -> list[str]:
    """Returns statements that bind the variables of a loop: `for i < n`, `for i in a..b`, `for x in xs`."""
    head = text.strip()
    if not head.startswith("for "):
        return []
    statements = []
    for binder in split(head.removeprefix("for "), ","):
        name, _, array = (part.strip() for part in binder.partition(" in "))
        counted = not array or any(t.kind == ".." for t in tokenize(array))
        statements.append(f"let {name.split('<')[0].strip()} = " + ("0" if counted else f"({array})[0]"))
    return statements
