"""Functions, lists and trees as values of a session. They can't leave a run, so what is kept is the `let` that they
come from, with the values that it saw: they are made where they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlang.diagnostics import DlangError, Span, error
from dlang.grammar import syntax as s
from dlang.tools.repl.compose import RESULT, assigned, bound
from dlang.tools.repl.state import LAST, Kept, Recipe, mentions


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value of an input. own: the names of the input itself that its `let` sees."""

    let: s.Let
    own: frozenset[str]


def origin(body: Sequence[s.Statement], name: str, harmless: bool) -> Origin:
    """The `let` of a name. harmless: whether nothing happens that is not to happen again. Raises `DlangError`."""
    k = max(k for k, statement in enumerate(body) if name in _named(statement))
    let = body[k]
    if not isinstance(let, s.Let):
        raise _refused(let.span, "a `var` can't keep a function, a list or a tree", "name it by `let`")
    reads = mentions(let)
    before, after = ({n for statement in part for n in _named(statement)} for part in (body[:k], body[k + 1 :]))
    if changed := sorted(reads & before & after):
        message = f"a function, a list or a tree can't be kept here: `{changed[0]}` changes after it"
        raise _refused(let.span, message, "give it an input of its own")
    if not harmless and not isinstance(let.value, s.Lambda | s.Name):
        raise _refused(
            let.span,
            "a list or a tree can't be kept from an input with effects",
            "give it an input of its own, without effects: it is made again where it is used",
        )
    value = let.value
    if not isinstance(let.pattern, s.PatternName):
        value = s.Block(let.span, (let, s.Name(let.span, name)))
    pattern = s.PatternName(let.span, LAST if name == RESULT else name)
    made = s.Let(let.span, pattern, let.type if value is let.value else None, value)
    return Origin(made, frozenset(reads & before))


def recipe(found: Origin, values: Mapping[str, Kept | Recipe], shown: str, function: bool) -> Recipe:
    """A value that is made by a `let`. values: those that it may see; shown: its type; function: whether it is one."""
    seen = {n: v for n, v in values.items() if n in mentions(found.let)}
    given = {n: v for n, v in seen.items() if isinstance(v, Kept)}
    uses = {n: v for n, v in seen.items() if isinstance(v, Recipe)}
    return Recipe(found.let, given, uses, shown, function)


def _named(statement: s.Statement) -> set[str]:
    """The names that a statement binds or assigns to."""
    own = bound(statement.pattern) if isinstance(statement, s.Let | s.Var) else ()
    return {*own, *assigned((statement,))}


def _refused(span: Span, message: str, help: str) -> DlangError:
    return error("E0970", message, span, help=(help,))
