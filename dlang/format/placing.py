"""Places a value that belongs to what is before it: behind `=`, `=>` or the parameters of a lambda; and `if`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlang.format.brackets import closed
from dlang.format.concrete import Tree
from dlang.format.document import HARD, Choice, Concat, Doc, Either, Nest, choice, concat, flat, forced
from dlang.format.printer import Part, Printer


def placed(p: Printer, sign: Doc, part: Part, *, below_first: bool) -> Doc:
    """`= value`, the value on the line of the sign or on the next.

    A line that the author began stays. Else the value is on this line if it fits; below_first: on the next one before
    it takes several lines.
    """
    value = p.doc(part)
    kind = part.kind if isinstance(part, Tree) else ""
    below = Concat([sign, Nest(Concat([HARD, value]))])
    here = concat(sign, " ", value)
    if kind == "block":
        return here
    if p.broken(part) or forced(sign):
        return below
    if isinstance(part, Tree) and kind == "if_":
        forms = branches(p, part)
        if not forms.chain:
            return Either(here, below)
        options = [Concat([sign, Nest(Concat([HARD, form]))]) for form in (forms.line, forms.chain) if form]
        if forms.line:
            options.insert(0, Concat([sign, " ", forms.line]))
        return choice(*options, Either(Concat([sign, " ", forms.long]), below))
    if closed(p, part):
        hugged = Either(here, below)
        if kind in ("lambda_", "lambda_typed"):  # its body may open a bracket on this line, its parameters no line
            hugged = Either(concat(sign, " ", _with_flat_parameters(value)), choice(here, below))
        if forced(value) or not below_first or kind == "match_":
            return hugged
        whole = Concat([sign, Nest(Concat([HARD, flat(value)]))])
        return choice(here, whole, hugged)
    if kind == "binary" and not below_first:
        return Either(here, below)
    return choice(here, below)


def _with_flat_parameters(function: Doc) -> Doc:
    """A lambda with its parameters on one line."""
    match function:
        case Concat(parts=[head, *tail]):
            return concat(flat(head), *tail)
        case _:
            return function


@dataclass(slots=True)
class Branches:
    """The forms of an `if`: on one line, with a line for each branch, with lines for each block, and also for each
    condition; None where the author chose a longer one."""

    line: Doc | None
    chain: Doc | None
    long: Doc
    longest: Doc


def branches(p: Printer, tree: Tree) -> Branches:
    """The forms in which `if … else if … else` may be written."""
    heads: list[Doc] = []
    blocks: list[Tree] = []
    elses: list[Any] = []
    rest: Any = tree
    while rest.kind == "if_":
        if_, condition, block, else_, otherwise = rest.parts
        heads.append(concat(p.token(if_), " ", Nest(p.doc(condition)), " "))
        blocks.append(block)
        if else_ is None:
            break
        elses.append(else_)
        rest = otherwise
    else:
        heads.append("")
        blocks.append(rest)
    docs = [p.doc(block) for block in blocks]
    words = ["", *(concat(p.token(e), " ") for e in elses)]
    parts = [concat(word, flat(head), flat(doc)) for word, head, doc in zip(words, heads, docs)]
    commented = [p.commented(block) for block in blocks]
    long = _joined([concat(word, flat(head), _long(doc)) for word, head, doc in zip(words, heads, docs)], commented)
    longest = _joined([concat(word, head, _long(doc)) for word, head, doc in zip(words, heads, docs)], commented)
    if not elses:
        return Branches(parts[0], None, long, longest)
    if any(map(forced, docs)):
        mixed = [commented[n] or (not forced(docs[n]) and p.broken(e)) for n, e in enumerate(elses)]
        return Branches(_joined(parts, mixed), None, long, longest)
    chain = _joined(parts, [True] * len(elses))
    if any(map(p.broken, elses)):
        return Branches(None, chain, long, longest)
    return Branches(_joined(parts, [False] * len(elses)), chain, long, longest)


def _joined(parts: list[Doc], lines: list[bool]) -> Doc:
    """Branches one after the other; lines: which of them end a line."""
    joined: list[Doc] = [parts[0]]
    for line, part in zip(lines, parts[1:]):
        joined += [HARD if line else " ", part]
    return concat(*joined)


def _long(doc: Doc) -> Doc:
    return doc.options[-1] if isinstance(doc, Choice) else doc
