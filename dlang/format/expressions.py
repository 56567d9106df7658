"""The rules of the style: expressions, types and patterns, statements and items, lists in brackets and binders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlang.format.document import (
    HARD,
    INDENT,
    WIDTH,
    Break,
    Choice,
    Concat,
    Doc,
    Either,
    Fill,
    Nest,
    choice,
    concat,
    flat,
    forced,
    join,
    opened,
    width,
)
from dlang.format.printer import Part, Printer, Rule, Tree, alone, spaced
from dlang.grammar.lexer import Token


def angles(p: Printer, opening: Any, items: Any, comma: Any, closing: Any) -> Doc:
    """`<a, n>`, or nothing."""
    if opening is None:
        return ""
    return concat(p.token(opening), filled(p, items, 2 * INDENT), p.dropped(comma), p.token(closing))


def bounds(p: Printer, opening: Any, first: Any, closing: Any) -> Doc:
    """`<a: Float, n>`, or nothing; `first` is the list and its last comma."""
    if opening is None:
        return ""
    items, comma = first.parts
    return angles(p, opening, items, comma, closing)


def _bound(p: Printer, tree: Tree) -> Doc:
    name, colon, cls = tree.parts
    return p.token(name) if colon is None else concat(p.token(name), p.token(colon), " ", p.token(cls))


def _effects(p: Printer, tree: Tree) -> Doc:
    type_, sign, effects = tree.parts
    names = effects.parts[0]
    if effects.kind == "nothing":
        written = alone(p, effects)
    else:
        written = concat(*(f" {d} " if d == "+" else d for d in map(p.token, names)))
    return concat(p.doc(type_), " ", p.token(sign), " ", written)


def _array(p: Printer, tree: Tree) -> Doc:
    element, opening, dims, comma, closing = tree.parts
    return concat(p.doc(element), bracketed(p, opening, dims, comma, closing))


def _size(p: Printer, tree: Tree) -> Doc:
    """`n + 1`; a line ends with the operator, which is possible in all brackets."""
    left, operator, right = tree.parts
    size = p.doc(right)
    gap = Break(" ", hard=p.commented(operator) or (forced(size) and p.broken(right)))
    return Nest(Fill([Nest(concat(p.doc(left), " ", p.token(operator)), -INDENT), gap, size]))


def _constructor(p: Printer, tree: Tree) -> Doc:
    name, *arguments = tree.parts
    return concat(p.token(name), angles(p, *arguments))


def _of_module(p: Printer, tree: Tree) -> Doc:
    module, dot, name, *arguments = tree.parts
    return concat(p.token(module), p.token(dot), p.token(name), angles(p, *arguments))


def parenthesised(p: Printer, tree: Tree) -> Doc:
    """A list in brackets that is nothing else."""
    return bracketed(p, *tree.parts)


def _pattern(p: Printer, tree: Tree) -> Doc:
    """`Name(p, q)`, or `module.Name(p, q)`."""
    *name, opening, items, comma, closing = tree.parts
    written = concat(*map(p.token, name))
    return written if opening is None else concat(written, bracketed(p, opening, items, comma, closing))


TYPE_RULES: Mapping[str, Rule] = {
    "bound": _bound,
    "tparam": alone,
    "type_effects": _effects,
    "type_function": spaced,
    "type_array": _array,
    "type_name": alone,
    "type_constructor": _constructor,
    "type_of_module": _of_module,
    "type_parentheses": parenthesised,
    "size_number": alone,
    "size_name": alone,
    "size_row": alone,
    "size_hole": alone,
    "size_any": alone,
    "size_operator": _size,
    "second": alone,  # a size in parentheses
    "pattern_wildcard": alone,
    "pattern_name": alone,
    "pattern_integer": alone,
    "pattern_float": alone,
    "pattern_string": alone,
    "pattern_true": alone,
    "pattern_false": alone,
    "pattern_constructor": _pattern,
    "pattern_of_module": _pattern,
    "pattern_parentheses": parenthesised,
    "pattern_positional": alone,
    "pattern_named": spaced,
}


# ---- expressions -----------------------------------------------------------------------------------------------------

# Operators that are one chain: `a + b - c`.
_LEVELS = {
    operator: level
    for level, operators in enumerate(["or", "and", "== != < <= > >=", "|>", "+ -", "* / // % @", "**"])
    for operator in operators.split()
}
# An operand that is so wide takes several lines even if it begins one.
_WIDE = WIDTH - 10


def _token(p: Printer, tree: Tree) -> Doc:
    return p.token(tree.parts[0])


def _negated(p: Printer, tree: Tree) -> Doc:
    operator, operand = tree.parts
    return concat(p.token(operator), " " if operator.kind == "not" else "", p.doc(operand))


def _lambda(p: Printer, tree: Tree) -> Doc:
    opening, items, comma, closing, body = tree.parts
    head = _parameters(p, opening, items, comma)
    return concat(head, placed(p, p.token(closing), body, below_first=False))


def _lambda_typed(p: Printer, tree: Tree) -> Doc:
    opening, items, comma, closing, arrow, type_, body = tree.parts
    head = concat(_parameters(p, opening, items, comma), p.token(closing))
    return concat(head, " ", p.token(arrow), " ", p.doc(type_), " ", p.doc(body))


def _parameters(p: Printer, opening: Token, items: list[Any] | None, comma: Token | None) -> Doc:
    """`|x, y`, on as many lines as they need."""
    return concat(p.token(opening), filled(p, items, 2 * INDENT) if items else "", p.dropped(comma))


def _if(p: Printer, tree: Tree) -> Doc:
    forms = branches(p, tree)
    return choice(*(form for form in (forms.line, forms.chain, forms.long, forms.longest) if form is not None))


def _match(p: Printer, tree: Tree) -> Doc:
    match_, value, opening, arms, comma, closing = tree.parts
    separators = [s if s.kind == "," else None for s in arms[1::2]] + [comma]
    block = braced(p, opening, arms[::2], separators, closing, ", ")
    return concat(p.token(match_), " ", Nest(p.doc(value)), " ", block)


def _arm(p: Printer, tree: Tree) -> Doc:
    alternatives, if_, guard, arrow, body = tree.parts
    filled: list[Doc] = [p.doc(alternatives[0])]
    for bar, pattern in zip(alternatives[1::2], alternatives[2::2]):
        doc = p.doc(pattern)
        filled[-1] = concat(filled[-1], " ", p.token(bar))
        filled += [Break(" ", hard=p.commented(bar) or (forced(doc) and p.broken(pattern))), doc]
    head = filled[0] if len(filled) == 1 else Nest(Fill(filled))
    if guard is not None:
        head = concat(head, " ", p.token(if_), " ", p.doc(guard))
    return concat(head, " ", placed(p, p.token(arrow), body, below_first=True))


def _block(p: Printer, tree: Tree) -> Doc:
    opening, statements, closing = tree.parts
    items = (statements or [])[::2]
    return braced(p, opening, items, [None] * len(items), closing, "; ")


def _call(p: Printer, tree: Tree) -> Doc:
    function, *arguments = tree.parts
    return concat(p.doc(function), bracketed(p, *arguments))


def _call_comprehension(p: Printer, tree: Tree) -> Doc:
    function, *comprehension_parts = tree.parts
    return concat(p.doc(function), comprehension(p, comprehension_parts))


def _comprehension(p: Printer, tree: Tree) -> Doc:
    return comprehension(p, tree.parts)


def _slice(p: Printer, tree: Tree) -> Doc:
    low, dots, high, by, step = tree.parts
    written = concat(*(p.doc(part) for part in (low, dots, high) if part is not None))
    return written if by is None else concat(written, " ", p.token(by), " ", p.doc(step))


def _tuple_member(p: Printer, tree: Tree) -> Doc:
    base, index = tree.parts
    return concat(p.doc(base), " " if base.kind == "integer" else "", p.token(index))  # `1.0` would be a float


def _binary(p: Printer, tree: Tree) -> Doc:
    """A chain of operators of one level. Where it takes several lines, these begin with operators in brackets, and end
    with them elsewhere, where a line that begins with one would be a statement."""
    operands, operators = _chain(tree)
    docs = list(map(p.doc, operands))
    signs = list(map(p.token, operators))
    if operators[0].kind == "**":
        return _on_a_line(docs, signs)
    line = _on_a_line(list(map(flat, docs)), signs)
    pipes = operators[0].kind == "|>"
    contents: list[Doc] = [Nest(docs[0], -INDENT)]
    for operator, doc in zip(operators, docs[1:], strict=True):
        if p.bracketed or pipes:
            behind, sign = p.behind_first(operator)
            contents[-1] = concat(contents[-1], behind)
            contents.append(concat(sign, " ", doc))
        else:
            contents[-1] = concat(contents[-1], " ", p.token(operator))
            contents.append(doc)
    begun = [p.broken(o) or p.broken(right) for o, right in zip(operators, operands[1:], strict=True)]
    filled: list[Doc] = [contents[0]]
    for breaks, content in zip(begun, contents[1:], strict=True):
        filled += [HARD if pipes else Break(" ", hard=breaks), content]
    long: Doc = Nest(Fill(filled))
    inner = [*operators, *operands[1:-1]]
    if any(map(p.commented, inner)) or p.behind(operands[0]) or p.starts[operands[-1].start].above:
        return long
    if any(begun) and (pipes or forced(line)):
        return long
    if closed(p, operands[-1]) and width(docs[-1]) > _WIDE and not forced(docs[-1]):
        return choice(line, opened(_on_a_line([*map(flat, docs[:-1]), docs[-1]], signs)), long)
    return choice(line, long)


def _on_a_line(operands: list[Doc], operators: list[Doc]) -> Doc:
    first, *others = operands
    return concat(first, *(part for sign, doc in zip(operators, others, strict=True) for part in (" ", sign, " ", doc)))


def _chain(tree: Tree) -> tuple[list[Part], list[Token]]:
    """The operands and operators of one level, from left to right."""
    level = _LEVELS[tree.parts[1].kind]
    operands: list[Part] = []
    operators: list[Token] = []
    operand: Any = tree
    while isinstance(operand, Tree) and operand.kind == "binary" and _LEVELS[operand.parts[1].kind] == level:
        operand, operator, right = operand.parts
        operands.append(right)
        operators.append(operator)
    return [operand, *reversed(operands)], operators[::-1]


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(["integer", "float", "string", "true", "false", "name", "blank"], _token),
    "parentheses": parenthesised,
    "array": parenthesised,
    "comprehension": _comprehension,
    "call": _call,
    "call_comprehension": _call_comprehension,
    "argument": alone,
    "named_argument": spaced,
    "spread_argument": alone,
    "index": _call,
    "slice": _slice,
    "member": alone,
    "tuple_member": _tuple_member,
    "unary": _negated,
    "binary": _binary,
    "cast": spaced,
    "lambda_": _lambda,
    "lambda_typed": _lambda_typed,
    "if_": _if,
    "match_": _match,
    "arm": _arm,
    "block": _block,
}


# ---- brackets --------------------------------------------------------------------------------------------------------
# Lists in brackets, comprehensions and blocks.

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
    clauses = [concat(q.token(for_), " ", filled(q, binders))]
    gaps = [Break(" ", hard=p.broken(for_) or p.behind(element))]
    if if_ is not None:
        clauses.append(concat(q.token(if_), " ", q.doc(condition)))
        gaps.append(Break(" ", hard=p.broken(if_) or p.behind(binders[-1])))
    lines: list[Doc] = [first]
    for gap, doc in zip(gaps, clauses, strict=True):
        lines += [gap, doc]
    long = Concat([start, Nest(Concat([HARD, Fill(lines, apart=False), *above])), HARD, end])
    last = condition if condition is not None else binders[-1]
    if above or p.behind(opening) or p.broken(element) or any(map(p.commented, [element, for_, last])):
        return long
    if any(map(forced, clauses)) or (forced(first) and (not closed(p, element) or any(gap.hard for gap in gaps))):
        return long
    return choice(concat(start, join(" ", map(flat, [first, *clauses])), end), long)


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


# ---- values behind what is before them -------------------------------------------------------------------------------
# Places a value that belongs to what is before it: behind `=`, `=>` or the parameters of a lambda; and `if`.


def placed(p: Printer, sign: Doc, part: Part, *, below_first: bool) -> Doc:
    """`= value`, the value on the line of the sign or on the next.

    A line that the author began stays. Else the value is on this line if it fits; below_first: on the next one before
    it takes several lines.
    """
    value = p.doc(part)
    kind = part.kind if isinstance(part, Tree) else ""
    below = Concat([sign, Nest(Concat([HARD, value]))])
    on_this_line = concat(sign, " ", value)
    if kind == "block":
        return on_this_line
    if p.broken(part) or forced(sign):
        return below
    if isinstance(part, Tree) and kind == "if_":
        forms = branches(p, part)
        if not forms.chain:
            return Either(on_this_line, below)
        options = [Concat([sign, Nest(Concat([HARD, form]))]) for form in (forms.line, forms.chain) if form]
        if forms.line:
            options.insert(0, Concat([sign, " ", forms.line]))
        return choice(*options, Either(Concat([sign, " ", choice(forms.long, forms.longest)]), below))
    if closed(p, part):
        hugged = Either(on_this_line, below)
        if kind in ("lambda_", "lambda_typed"):  # its body may open a bracket on this line, its parameters no line
            hugged = Either(concat(sign, " ", _with_flat_parameters(value)), choice(on_this_line, below))
        if forced(value) or not below_first or kind == "match_":
            return hugged
        whole = Concat([sign, Nest(Concat([HARD, flat(value)]))])
        return choice(on_this_line, whole, hugged)
    if kind == "binary" and not below_first:
        return Either(on_this_line, below)
    return choice(on_this_line, below)


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
    alternative: Any = tree
    while alternative.kind == "if_":
        if_, condition, block, else_, otherwise = alternative.parts
        heads.append(concat(p.token(if_), " ", Nest(p.doc(condition)), " "))
        blocks.append(block)
        if else_ is None:
            break
        elses.append(else_)
        alternative = otherwise
    else:
        heads.append("")
        blocks.append(alternative)
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


def _body(p: Printer, body: Tree) -> Doc:
    """` = value`, or a block."""
    if body.kind != "second":
        return concat(" ", p.doc(body))
    sign, value = body.parts
    return concat(" ", placed(p, p.token(sign), value, below_first=True))


def _signature(p: Printer, parts: list[Any]) -> Doc:
    """`fn f<a>(x: a) -> a`."""
    fn, name, opening, first, closing, *parameters, arrow, result = parts
    head = concat(p.token(fn), " ", p.token(name), bounds(p, opening, first, closing), bracketed(p, *parameters))
    return head if arrow is None else concat(head, " ", p.token(arrow), " ", p.doc(result))


def _fn(p: Printer, tree: Tree) -> Doc:
    *signature, body = tree.parts
    return concat(_signature(p, signature), _body(p, body))


def _extern(p: Printer, tree: Tree) -> Doc:
    extern, target, *signature = tree.parts
    return concat(p.token(extern), " ", p.token(target), " ", _signature(p, signature))


def _rule(p: Printer, tree: Tree) -> Doc:
    kind, name, *parameters, arrow, result, body = tree.parts
    head = concat(p.token(kind), " ", p.token(name), bracketed(p, *parameters))
    return concat(head, " ", p.token(arrow), " ", p.token(result), _body(p, body))


def _declared(p: Printer, tree: Tree) -> Doc:
    """A `struct` or an `enum`."""
    word, name, less, first, greater, opening, items, comma, closing = tree.parts
    head = concat(p.token(word), " ", p.token(name), bounds(p, less, first, greater), " ")
    return concat(head, _fields(p, opening, items, comma, closing))


def _fields(p: Printer, opening: Any, items: list[Any], comma: Any, closing: Any) -> Doc:
    separators = [s if s.kind == "," else None for s in items[1::2]] + [comma]
    return braced(p, opening, items[::2], separators, closing, ", ")


def _field(p: Printer, tree: Tree) -> Doc:
    name, colon, type_ = tree.parts
    return annotated(p, p.token(name), colon, type_)


def _unnamed_field(p: Printer, tree: Tree) -> Doc:
    return p.doc(tree.parts[0])


def _item_constructor(p: Printer, tree: Tree) -> Doc:
    name, opening, items, comma, closing = tree.parts
    return p.token(name) if opening is None else concat(p.token(name), bracketed(p, opening, items, comma, closing))


def _alias(p: Printer, tree: Tree) -> Doc:
    word, name, less, first, greater, sign, type_ = tree.parts
    head = concat(p.token(word), " ", p.token(name), bounds(p, less, first, greater), " ")
    return concat(head, placed(p, p.token(sign), type_, below_first=True))


def _const(p: Printer, tree: Tree) -> Doc:
    word, name, colon, type_, sign, value = tree.parts
    head = annotated(p, concat(p.token(word), " ", p.token(name)), colon, type_)
    return concat(head, " ", placed(p, p.token(sign), value, below_first=True))


def _path(p: Printer, names: list[Any]) -> Doc:
    return concat(*map(p.token, names))


def _import(p: Printer, tree: Tree) -> Doc:
    word, path, as_, name = tree.parts
    head = concat(p.token(word), " ", _path(p, path))
    return head if as_ is None else concat(head, " ", p.token(as_), " ", p.token(name))


def _import_names(p: Printer, tree: Tree) -> Doc:
    word, path, *names = tree.parts
    return concat(p.token(word), " ", _path(p, path), " ", _fields(p, *names))


def _test(p: Printer, tree: Tree) -> Doc:
    """A `test` or a `bench`."""
    word, name, block = tree.parts
    return concat(p.token(word), " ", p.token(name), " ", p.doc(block))


ITEM_RULES: Mapping[str, Rule] = {
    "fn": _fn,
    "extern": _extern,
    "rule": _rule,
    "struct": _declared,
    "enum": _declared,
    "field": _field,
    "unnamed_field": _unnamed_field,
    "constructor": _item_constructor,
    "alias": _alias,
    "const": _const,
    "import_": _import,
    "import_names": _import_names,
    "test": _test,
    "bench": _test,
}


# ---- statements ------------------------------------------------------------------------------------------------------
# Statements, parameters and binders.


def annotated(p: Printer, name: Doc, colon: Any, type_: Any) -> Doc:
    """`name: type`, or `name` alone."""
    return name if colon is None else concat(name, p.token(colon), " ", p.doc(type_))


def _let(p: Printer, tree: Tree) -> Doc:
    let, pattern, colon, type_, sign, value = tree.parts
    head = annotated(p, concat(p.token(let), " ", p.doc(pattern)), colon, type_)
    return concat(head, " ", placed(p, p.token(sign), value, below_first=False))


def _assign(p: Printer, tree: Tree) -> Doc:
    target, sign, value = tree.parts
    return concat(p.doc(target), " ", placed(p, p.token(sign), value, below_first=False))


def _while(p: Printer, tree: Tree) -> Doc:
    while_, condition, block = tree.parts
    return concat(p.token(while_), " ", Nest(p.doc(condition)), " ", p.doc(block))


def _for(p: Printer, tree: Tree) -> Doc:
    for_, binders, block = tree.parts
    return concat(p.token(for_), " ", Nest(filled(p, binders)), " ", p.doc(block))


def _word(p: Printer, tree: Tree) -> Doc:
    """`break`, `return value`."""
    word, *value = tree.parts
    return concat(p.token(word), *(part for v in value if v is not None for part in (" ", p.doc(v))))


def _assert(p: Printer, tree: Tree) -> Doc:
    word, condition, comma, message = tree.parts
    front = concat(p.token(word), " ", p.doc(condition))
    if message is None:
        return front
    text = p.doc(message)
    hard = p.commented(comma) or p.behind(condition) or (forced(text) and p.broken(message))
    front = Nest(concat(front, p.token(comma)), -INDENT)
    return Nest(Fill([front, Break(" ", hard=hard), text], apart=False))


def _binder_below(p: Printer, tree: Tree) -> Doc:
    name, sign, bound = tree.parts
    return p.token(name) if sign is None else concat(p.token(name), " ", p.token(sign), " ", p.doc(bound))


def _binder_each(p: Printer, tree: Tree) -> Doc:
    pattern, in_, array = tree.parts
    return concat(p.doc(pattern), " ", p.token(in_), " ", p.doc(array))


def _binder_range(p: Printer, tree: Tree) -> Doc:
    pattern, in_, low, dots, high, by, step = tree.parts
    written = concat(p.doc(pattern), " ", p.token(in_), " ", p.doc(low), p.token(dots), p.doc(high))
    return written if by is None else concat(written, " ", p.token(by), " ", p.doc(step))


def _param(p: Printer, tree: Tree) -> Doc:
    nodiff, pattern, colon, type_, sign, default = tree.parts
    written = annotated(p, p.doc(pattern), colon, type_)
    if nodiff is not None:
        written = concat(p.token(nodiff), " ", written)
    return written if sign is None else concat(written, " ", p.token(sign), " ", p.doc(default))


STATEMENT_RULES: Mapping[str, Rule] = {
    "let": _let,
    "var": _let,
    "assign": _assign,
    "while_": _while,
    "for_": _for,
    "break_": _word,
    "continue_": _word,
    "return_": _word,
    "assert_": _assert,
    "binder_below": _binder_below,
    "binder_each": _binder_each,
    "binder_range": _binder_range,
    "param": _param,
}
