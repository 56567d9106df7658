"""Lists in brackets, comprehensions and blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlang.format.document import (
    HARD,
    INDENT,
    Break,
    Concat,
    Doc,
    Fill,
    Nest,
    choice,
    concat,
    flat,
    forced,
    join,
    opened,
)
from dlang.format.printer import Part, Printer
from dlang.grammar.lexer import Token

# What ends with a closing bracket, so that a line that it begins on can go on behind that bracket.
_CLOSED = frozenset(
    "block match_ array comprehension parentheses call call_comprehension index"
    " pattern_constructor pattern_of_module pattern_parentheses type_parentheses type_array".split()
)


def closed(p: Printer, part: Part) -> bool:
    """Tells whether lines can go on behind a part of several lines: it begins like a word and ends with its bracket."""
    if isinstance(part, Token):
        return False
    match part.kind:
        case "lambda_" | "lambda_typed":
            *_, sign, body = part.parts
            return not p.broken(body) and not p.commented(sign) and closed(p, body)
        case "member" | "tuple_member":
            return closed(p, part.parts[0])
        case "unary" | "argument" | "named_argument" | "spread_argument":
            return closed(p, part.parts[-1])
        case kind:
            return kind in _CLOSED


def _opens(part: Part, alone: bool) -> bool:
    """Tells whether a list may end with this part in its long form, while the list itself stays on the line."""
    if isinstance(part, Token):
        return False
    match part.kind:
        case "lambda_" | "lambda_typed" | "argument":
            return _opens(part.parts[-1], alone)
        case "block" | "match_":
            return True
        case "array" | "comprehension":
            return alone
        case _:
            return False


def bracketed(p: Printer, opening: Token, items: list[Any] | None, comma: Token | None, closing: Token) -> Doc:
    """A list in `(` `)` or `[` `]`: on one line; or with items that take several lines between their own brackets; or
    all between two lines that are the brackets, where the author's lines are kept."""
    q = p.inside
    above, end = p.closing(closing)
    start = p.token(opening)
    if not items:
        return _empty(p, opening, closing)
    parts: list[Part] = items[::2]
    docs: list[Doc] = [q.doc(part) for part in parts]
    for number, separator in enumerate(items[1::2]):
        docs[number] = concat(docs[number], q.token(separator))
    if comma is not None:
        docs[-1] = concat(docs[-1], q.dropped(comma))
    lines: list[Doc] = [docs[0]]
    kept = False
    for before, separator, part, doc in zip(items[::2], items[1::2], parts[1:], docs[1:], strict=False):
        hard = p.broken(part) or p.behind(before) or p.behind(separator)
        kept = kept or hard
        lines += [Break(" ", hard=hard or (forced(doc) and not closed(p, part))), doc]
    long = Concat([start, Nest(Concat([HARD, Fill(lines), *above])), HARD, end])
    edges = [*items, comma] if comma is not None else items
    if above or p.behind(opening) or p.broken(parts[0]) or any(map(p.commented, edges)):
        return long
    several = [part for part, doc in zip(parts, docs, strict=True) if forced(doc)]
    if several and (kept or not all(closed(p, part) for part in several)):
        return long
    docs = list(map(flat, docs))
    options = [concat(start, join(" ", docs), end)]
    if not several and _opens(parts[-1], len(parts) == 1):
        options.append(concat(start, join(" ", [*docs[:-1], opened(lines[-1])]), end))
    return choice(*options, long)


def _empty(p: Printer, opening: Token, closing: Token) -> Doc:
    above, end = p.closing(closing)
    start = p.token(opening)
    if above or p.behind(opening):
        return Concat([start, Nest(Concat(above)), HARD, end])
    return concat(start, end)


def comprehension(p: Printer, parts: Sequence[Any]) -> Doc:
    """`[e for i < n if c]`, in either kind of brackets."""
    opening, element, for_, binders, if_, condition, closing = parts
    q = p.inside
    above, end = p.closing(closing)
    start = p.token(opening)
    first = q.doc(element)
    rest = [concat(q.token(for_), " ", filled(q, binders))]
    gaps = [Break(" ", hard=p.broken(for_) or p.behind(element))]
    if if_ is not None:
        rest.append(concat(q.token(if_), " ", q.doc(condition)))
        gaps.append(Break(" ", hard=p.broken(if_) or p.behind(binders[-1])))
    lines: list[Doc] = [first]
    for gap, doc in zip(gaps, rest, strict=True):
        lines += [gap, doc]
    long = Concat([start, Nest(Concat([HARD, Fill(lines, apart=False), *above])), HARD, end])
    last = condition if condition is not None else binders[-1]
    if above or p.behind(opening) or p.broken(element) or any(map(p.commented, [element, for_, last])):
        return long
    if any(map(forced, rest)) or (forced(first) and (not closed(p, element) or any(gap.hard for gap in gaps))):
        return long
    return choice(concat(start, join(" ", map(flat, [first, *rest])), end), long)


def filled(p: Printer, items: list[Any], by: int = INDENT) -> Doc:
    """`i < n, x in xs`, as many on each line as fit, the other lines indented."""
    docs: list[Doc] = [p.doc(items[0])]
    for comma, item in zip(items[1::2], items[2::2], strict=True):
        doc = p.doc(item)
        docs[-1] = concat(docs[-1], p.token(comma))
        docs += [Break(" ", hard=p.commented(comma) or (forced(doc) and p.broken(item))), doc]
    return Nest(Fill(docs), by) if len(docs) > 1 else docs[0]


def braced(
    p: Printer,
    opening: Token,
    items: Sequence[Part],
    separators: Sequence[Token | None],
    closing: Token,
    separator: str,
) -> Doc:
    """Lays out the content of `{` `}`: on one line if it was on one and fits, else with a line for each item.

    separators: the tokens behind the items, None where there is none. separator: what is written on one line.
    """
    q = p.outside
    above, end = p.closing(closing)
    start = p.token(opening)
    docs = [q.doc(item) for item in items]
    if not docs:
        return _empty(p, opening, closing)
    behind = [q.dropped(token) for token in separators]
    lines: list[Doc] = []
    for number, (item, doc) in enumerate(zip(items, docs, strict=True)):
        lines += [Break(blank=number > 0 and p.apart(item)), doc, *behind[number : number + 1]]
    long = Concat([start, Nest(Concat([*lines, *above])), HARD, end])
    if above or p.behind(opening) or any(map(forced, [*docs, *behind])) or any(map(p.broken, [*items, closing])):
        return long
    return choice(concat(start, " ", join(separator, map(flat, docs)), " ", end), long)
