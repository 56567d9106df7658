"""Missing and dead arms of a `match`: the usual matrix of patterns, specialised one constructor at a time."""

from __future__ import annotations

from dataclasses import dataclass

from dlang.diagnostics import Diagnostic, Fix, Note, Span
from dlang.grammar import syntax as s
from dlang.typecheck import core
from dlang.typecheck.context import Checker
from dlang.typecheck.types import Type, TypeData, resolve

Row = tuple[core.Pattern, ...]
_ANY = core.Wildcard()
_MOST_ARMS = 20  # that an edit adds
_MOST_STEPS = 200_000  # of a search, beside those that look at each arm for each: a second or two


def check(cx: Checker, e: s.Match, t: Type, arms: tuple[core.Arm, ...]) -> None:
    """Reports the first missing case, and every arm that can't be reached."""
    search = Search(_MOST_STEPS + 4 * len(arms) ** 2)
    rows: list[Row] = []
    named: dict[object, list[Row]] = {}  # by their heads: no other one says whether an arm with that can be reached
    loose: list[Row] = []  # without one
    for arm, written in zip(arms, e.arms, strict=True):
        row: Row = (arm.pattern,)
        own = head(arm.pattern)
        before = rows if own is None else [*named.get(own[0], ()), *loose]
        if before and not search.can_be_reached(before, row):
            cx.report(
                Diagnostic(
                    "E0502",
                    "this arm is unreachable",
                    written.pattern.span,
                    "the arms above match every value of it",
                )
            )
        if arm.guard is None:
            rows.append(row)
            (loose if own is None else named.setdefault(own[0], [])).append(row)
    matched = Span(e.span.source, e.span.start, e.value.span.end)
    try:
        missing = search.useful(rows, (_ANY,))
    except TooComplicated:
        message = "this `match` is too complicated: there is no telling whether it covers all values"
        advice = "add an arm `_ => …` for what is left, or decide one value after the other"
        cx.report(Diagnostic("E0501", message, matched, "", (), (advice,)))
        return
    if missing is not None:
        name = shown(missing[0])
        notes: tuple[Note, ...] = ()
        r = resolve(t)
        if isinstance(r, TypeData):
            notes = (Note(f"`{r.decl.name}` is declared here", r.decl.span),)
        what, help = f"`{name}` is missing", f"add an arm `{name} => …`, or `_ => …` for all the rest"
        if name == "_":
            what, help = "other values are missing", "add an arm `_ => …` for all the rest"
        fixes = _arms(e, rows)
        message = f"this `match` does not cover all values: {what}"
        cx.report(Diagnostic("E0501", message, matched, "", notes, (help,), fixes=fixes))


def _arms(e: s.Match, rows: list[Row]) -> tuple[Fix, ...]:
    """The edit that adds the arms that are missing, each of which fails until it is written."""
    rows = list(rows)
    names: list[str] = []
    search = Search(_MOST_STEPS)
    try:
        while (missing := search.useful(rows, (_ANY,))) is not None and len(names) < _MOST_ARMS:
            rows.append(missing)
            names.append(shown(missing[0]))
    except TooComplicated:
        return ()
    last = e.arms[-1].span if e.arms else None
    if missing is not None or last is None or last.source is not e.span.source or not e.span.text.endswith("}"):
        return ()
    tail = Span(last.source, last.end, e.span.end).text
    line = last.source.text[last.source.text.rfind("\n", 0, last.start) + 1 : last.start]
    between = "\n" + line[: len(line) - len(line.lstrip())] if "\n" in tail else ", "
    text = "".join(f'{between}{name} => fail("not written yet")' for name in names)
    title = f"Add the arm `{names[0]}`" if len(names) == 1 else f"Add the {len(names)} arms that are missing"
    return (Fix(title, Span(last.source, last.end, last.end), text, certain=False),)


def flat(p: core.Pattern) -> tuple[core.Pattern, ...]:
    return tuple(q for a in p.items for q in flat(a)) if isinstance(p, core.Alternatives) else (p,)


def head(p: core.Pattern) -> tuple[object, tuple[core.Pattern, ...]] | None:
    """The constructor of a pattern and its parts; None if it matches anything."""
    match p:
        case core.VariantPattern(_, variant, items):
            return variant, items
        case core.TuplePattern(items):
            return "tuple", items
        case core.LiteralPattern(literal):
            return (type(literal.value), literal.value), ()
        case _:
            return None


class TooComplicated(Exception):
    """The patterns of a `match` take more steps than there is time for: the problem is NP-complete."""


@dataclass(slots=True)
class Search:
    """Looks for values that a row of patterns matches and others do not, in a number of steps for all questions."""

    steps: int

    def can_be_reached(self, rows: list[Row], row: Row) -> bool:
        """Tells whether `row` may match a value that none of `rows` does; true if that takes too long to find out."""
        try:
            return self.useful(rows, row) is not None
        except TooComplicated:
            return True

    def useful(self, rows: list[Row], row: Row) -> Row | None:
        """A value, as patterns, that `row` matches and none of `rows` does; None if there is none.

        Raises TooComplicated.
        """
        self.steps -= 1 + len(rows)
        if self.steps < 0:
            raise TooComplicated
        if any(all(map(matches_all, r)) for r in rows):
            return None
        if not row:
            return ()
        k = _column(rows, row)
        rows = [(p, *r[:k], *r[k + 1 :]) for r in rows for p in flat(r[k])]
        found = self.first(rows, row[k], (*row[:k], *row[k + 1 :]))
        return None if found is None else (*found[1 : k + 1], found[0], *found[k + 1 :])

    def first(self, rows: list[Row], first: core.Pattern, rest: Row) -> Row | None:
        """Finds a useful row like `useful`, but decides the first column first, without alternatives in the rows."""
        if isinstance(first, core.Alternatives):
            tried = (self.first(rows, p, rest) for p in flat(first))
            return next((found for found in tried if found is not None), None)
        own = head(first)
        if own is not None:
            found = self.useful(specialised(rows, own[0], len(own[1])), (*own[1], *rest))
            return None if found is None else rebuilt(first, found, len(own[1]))
        heads: dict[object, core.Pattern] = {}
        named: dict[object, list[Row]] = {}
        others: list[Row] = []
        for r in rows:
            h = head(r[0])
            if h is None:
                others.append(r)
            else:
                heads.setdefault(h[0], r[0])
                named.setdefault(h[0], []).append(r)
        lacking = missing_head(heads)
        if lacking is not None:  # a value with a head that no row names: only rows that match anything count
            found = self.useful([r[1:] for r in others], rest)
            return None if found is None else (lacking, *found)
        for key, p in heads.items():
            h = head(p)
            assert h is not None
            n = len(h[1])
            found = self.useful(specialised([*named[key], *others], key, n), (*(_ANY,) * n, *rest))
            if found is not None:
                return rebuilt(p, found, n)
        return None


def matches_all(p: core.Pattern) -> bool:
    """Tells whether a pattern matches every value of its type, as far as its form says."""
    return head(p) is None and not isinstance(p, core.Alternatives)


def _column(rows: list[Row], row: Row) -> int:
    """The column to decide first: one in which `row` says what it is, else the one that most rows decide."""
    for k, p in enumerate(row):
        if not matches_all(p):
            return k
    return max(range(len(row)), key=lambda k: (sum(not matches_all(r[k]) for r in rows), -k))


def specialised(rows: list[Row], key: object, n: int) -> list[Row]:
    out: list[Row] = []
    for r in rows:
        h = head(r[0])
        if h is None:
            out.append((*(_ANY,) * n, *r[1:]))
        elif h[0] == key:
            out.append((*h[1], *r[1:]))
    return out


def missing_head(heads: dict[object, core.Pattern]) -> core.Pattern | None:
    """A pattern with a head that isn't among these; None if they are all."""
    if not heads:
        return _ANY
    match next(iter(heads.values())):
        case core.VariantPattern(decl, _, _):
            for v in decl.variants:
                if v not in heads:
                    return core.VariantPattern(decl, v, (_ANY,) * len(v.fields))
            return None
        case core.TuplePattern():
            return None
        case core.LiteralPattern(literal):
            if isinstance(literal.value, bool):
                for value in (True, False):
                    if (bool, value) not in heads:
                        return core.LiteralPattern(core.Literal(literal.type, literal.span, value))
                return None
            return _ANY
        case _:
            return _ANY


def rebuilt(p: core.Pattern, found: Row, n: int) -> Row:
    parts, rest = found[:n], found[n:]
    match p:
        case core.VariantPattern(decl, variant, _):
            return (core.VariantPattern(decl, variant, parts), *rest)
        case core.TuplePattern():
            return (core.TuplePattern(parts), *rest)
        case _:
            return (p, *rest)


def shown(p: core.Pattern) -> str:
    match p:
        case core.VariantPattern(_, variant, items):
            return variant.name + (f"({', '.join(map(shown, items))})" if items else "")
        case core.TuplePattern(items):
            return f"({', '.join(map(shown, items))})"
        case core.LiteralPattern(literal):
            value = literal.value
            return str(value).lower() if isinstance(value, bool) else repr(value)
        case _:
            return "_"
