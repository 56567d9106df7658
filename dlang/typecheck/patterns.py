"""Patterns: what they bind, the types that they demand, and which arms of a `match` are missing or dead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from dlang.diagnostics import Diagnostic, Fix, Note, Span, error
from dlang.grammar import syntax as s
from dlang.ops.dtypes import DTYPES, PRECISE, SIGNED, UNSIGNED
from dlang.spelling import plural
from dlang.typecheck import core, types as ty
from dlang.typecheck.context import Checker
from dlang.typecheck.messages import did_you_mean, misspelt
from dlang.typecheck.printing import show
from dlang.typecheck.schemes import fresh_like
from dlang.typecheck.scope import LocalEntry, Scope
from dlang.typecheck.state import Term
from dlang.typecheck.terms import BOOL, STR, substitute


def bind_name(
    cx: Checker, scope: Scope, name: str, t: ty.Type, span: Span, *, mutable: bool = False, what: str = "let",
    unknown: tuple[ty.SizeVar, ...] = (),
) -> core.Local:  # fmt: skip
    """A new local in the scope."""
    local = core.Local(name, t, mutable, None, span)
    cx.births[local] = ty.next_serial()
    if cx.observed is not None:
        cx.observed.note(span, t)
    scope.names[name] = LocalEntry(local, scope.border, unknown=unknown, what=what)
    return local


def bind(
    cx: Checker, scope: Scope, p: s.Pattern, t: ty.Type, *, mutable: bool = False, what: str = "let",
    unknown: tuple[ty.SizeVar, ...] = (),
) -> core.Pattern:  # fmt: skip
    """A pattern that cannot fail: a name, `_`, a tuple or a struct of these."""
    match p:
        case s.PatternName(span, name):
            return core.Bind(bind_name(cx, scope, name, t, span, mutable=mutable, what=what, unknown=unknown))
        case s.PatternWildcard():
            return core.Wildcard()
        case s.PatternTuple(span, items):
            types = tuple_items(cx, t, len(items), span)
            return core.TuplePattern(
                tuple(
                    bind(cx, scope, i, x, mutable=mutable, what=what, unknown=unknown)
                    for i, x in zip(items, types, strict=True)
                )
            )
        case s.PatternConstructor(span, name, _):
            decl, variant = cx.find_constructor(name, span)
            if len(decl.variants) > 1:
                raise refutable(span, f"`{name}` is one of several variants of `{decl.name}`")
            arguments = arguments_in_order(p, variant)
            types = variant_types(cx, decl, variant, t, span)
            return core.VariantPattern(
                decl,
                variant,
                tuple(
                    core.Wildcard() if i is None else bind(cx, scope, i, x, mutable=mutable, what=what, unknown=unknown)
                    for i, x in zip(arguments, types, strict=True)
                ),
            )
        case _:
            raise refutable(p.span, "this pattern may not fit")


def refutable(span: Span, why: str) -> Exception:
    return error("E0504", f"{why}: a `let` or a parameter needs a pattern that always fits", span,
                 help=("use `match`",))  # fmt: skip


def tuple_items(cx: Checker, t: ty.Type, count: int, span: Span) -> tuple[ty.Type, ...]:
    """The types of the items of a tuple of `count`."""
    t = ty.resolve(t)
    if not isinstance(t, ty.TypeTuple):
        t = cx.settled(t)
    if isinstance(t, ty.TypeTuple) and len(t.items) == count:
        return t.items
    if isinstance(t, ty.TypeTuple):
        message = f"the tuple has {plural(len(t.items), 'item')}, the pattern has {count}"
        raise error("E0503", message, span, help=(f"write `({', '.join('_' for _ in t.items)})`",))
    if isinstance(t, ty.TypeArray):
        help = ("elements are read one by one: `let a = x[0]`",)
        raise error("E0402", f"a pattern takes tuples apart, and this is an array, {show(t)}", span, help=help)
    types = tuple(cx.st.type_var() for _ in range(count))
    cx.expect(t, ty.TypeTuple(types), span, "the pattern: ")
    return types


def data_type(cx: Checker, decl: ty.DataDecl) -> tuple[ty.TypeData, dict[ty.Var, Term]]:
    """The type at fresh arguments."""
    mapping: dict[ty.Var, Term] = {p: fresh_like(cx.st, p) for p in decl.params}
    return ty.TypeData(decl, tuple(mapping.values())), mapping


def variant_types(cx: Checker, decl: ty.DataDecl, variant: ty.Variant, t: ty.Type, span: Span) -> tuple[ty.Type, ...]:
    """The types of the fields of a variant, given the type of the value."""
    t = ty.resolve(t)
    mapping: dict[ty.Var, Term]
    if isinstance(t, ty.TypeData) and t.decl is decl:
        mapping = dict(zip(decl.params, t.args, strict=True))
    else:
        whole, mapping = data_type(cx, decl)
        cx.expect(t, whole, span, "the pattern: ")
    return tuple(substitute(f, mapping) for _, f in variant.fields)


def arguments_in_order(p: s.PatternConstructor, variant: ty.Variant) -> list[s.Pattern | None]:
    """The patterns of the fields in their order; None for a field that isn't named."""
    names = [n for n, _ in variant.fields]
    out: list[s.Pattern | None] = [None] * len(names)
    named = any(n is not None for n, _ in p.arguments)
    if not named and len(p.arguments) != len(names):
        raise error(
            "E0503",
            f"`{p.name}` has {plural(len(names), 'field')}, the pattern has {len(p.arguments)}",
            p.span,
            help=(f"write `{p.name}({', '.join(n or '_' for n in names)})`",) if names else (f"write `{p.name}`",),
        )
    for i, (n, argument) in enumerate(p.arguments):
        if n is None or n in names:
            place = i if n is None else names.index(n)
            if place >= len(out):
                raise error("E0503", f"`{p.name}` has {plural(len(names), 'field')}, the pattern has more", p.span)
            if out[place] is not None:
                raise error("E0503", f"the field `{n}` of `{p.name}` is matched twice", argument.span)
            out[place] = argument
        else:
            known = [k for k in names if k]
            span = p.span.word(n)
            raise error("E0305", f"`{p.name}` has no field `{n}`", span, help=did_you_mean(n, known),
                        fixes=misspelt(span, n, known))  # fmt: skip
    return out


def refutable_pattern(cx: Checker, scope: Scope, p: s.Pattern, t: ty.Type) -> core.Pattern:
    """A pattern of a `match` arm."""
    match p:
        case s.PatternName() | s.PatternWildcard():
            return bind(cx, scope, p, t, what="pattern")
        case s.PatternTuple(span, items):
            types = tuple_items(cx, t, len(items), span)
            return core.TuplePattern(
                tuple(refutable_pattern(cx, scope, i, x) for i, x in zip(items, types, strict=True))
            )
        case s.PatternConstructor(span, name, _):
            decl, variant = cx.find_constructor(name, span)
            types = variant_types(cx, decl, variant, t, span)
            return core.VariantPattern(
                decl,
                variant,
                tuple(
                    core.Wildcard() if i is None else refutable_pattern(cx, scope, i, x)
                    for i, x in zip(arguments_in_order(p, variant), types, strict=True)
                ),
            )
        case s.PatternLiteral(span, value):
            return core.LiteralPattern(literal(cx, value, t, span))
        case s.PatternAlternatives(_, alternatives):
            return core.Alternatives(alternatives_of(cx, scope, alternatives, t))


def alternatives_of(
    cx: Checker, scope: Scope, alternatives: tuple[s.Pattern, ...], t: ty.Type
) -> tuple[core.Pattern, ...]:
    """All alternatives bind the same locals."""
    out: list[core.Pattern] = []
    first: dict[str, core.Local] | None = None
    for a in alternatives:
        inner = scope.child()
        p = refutable_pattern(cx, inner, a, t)
        bound = {n: e.local for n, e in inner.names.items() if isinstance(e, LocalEntry)}
        if first is None:
            first = bound
            scope.names.update(inner.names)
        elif set(bound) != set(first):
            different = ", ".join(sorted(set(bound) ^ set(first)))
            raise error("E0505", f"alternatives have to bind the same names: {different}", a.span)
        else:
            for n, local in bound.items():
                cx.expect(first[n].type, local.type, a.span, f"`{n}`: ")
            p = renamed(p, {local: first[n] for n, local in bound.items()})
        out.append(p)
    return tuple(out)


def renamed(p: core.Pattern, locals_: dict[core.Local, core.Local]) -> core.Pattern:
    match p:
        case core.Bind(local):
            return core.Bind(locals_.get(local, local))
        case core.TuplePattern(items):
            return core.TuplePattern(tuple(renamed(i, locals_) for i in items))
        case core.VariantPattern(decl, variant, items):
            return core.VariantPattern(decl, variant, tuple(renamed(i, locals_) for i in items))
        case core.Alternatives(items):
            return core.Alternatives(tuple(renamed(i, locals_) for i in items))
        case _:
            return p


def literal(cx: Checker, value: s.Number | s.Boolean | s.String, t: ty.Type, span: Span) -> core.Literal:
    """A literal that a value of a type is compared with."""
    match value:
        case s.Boolean():
            cx.expect(t, BOOL, span, "the pattern: ")
            return core.Literal(BOOL, span, value.value)
        case s.String(parts=parts):
            cx.expect(t, STR, span, "the pattern: ")
            return core.Literal(STR, span, "".join(p for p in parts if isinstance(p, str)))
        case s.Number():
            if value.dtype is not None:
                want: ty.Type = ty.TypeCon(value.dtype)
            elif isinstance(value.value, float):
                want = cx.st.type_var(atomic=True, classes=frozenset({"Float"}), literal="float")
            else:
                want = cx.st.type_var(atomic=True, classes=frozenset({"Num"}), literal="int")
            cx.expect(t, want, span, "the pattern: ")
            number = value.value
            written = replace(value, value=abs(number))
            cx.later.append(partial(representable, want, written, number < 0))
            if value.dtype in ty.FLOATS:
                number = float(number)
            return core.Literal(want, span, number)


def parameter(cx: Checker, scope: Scope, p: s.Parameter, t: ty.Type) -> tuple[core.Local, list[core.Statement]]:
    """The local of a parameter; a pattern becomes a `let` in the body."""
    if isinstance(p.pattern, s.PatternName):
        return bind_name(cx, scope, p.pattern.name, t, p.pattern.span, what="parameter"), []
    local = core.Local("_", t, False, None, p.pattern.span)
    if isinstance(p.pattern, s.PatternWildcard):
        return local, []
    pattern = bind(cx, scope, p.pattern, t, what="parameter")
    return local, [core.Let(pattern, core.Ref(t, p.span, local), (), p.span)]


def with_lets(lets: list[core.Statement], body: core.Expr, returns: bool) -> core.Expr:
    """The body of a function after the `let`s of its parameters; a block, if there is a `return` in it."""
    return core.BlockExpr(body.type, body.span, tuple(lets), body) if lets or returns else body


# ---- missing and dead arms -------------------------------------------------------------------------------------------
# Missing and dead arms of a `match`: the usual matrix of patterns, specialised one constructor at a time.

Row = tuple[core.Pattern, ...]
_ANY = core.Wildcard()
_MOST_ARMS = 20  # that an edit adds
_MOST_STEPS = 200_000  # of a search, beside those that look at each arm for each: a second or two


def check(cx: Checker, e: s.Match, t: ty.Type, arms: tuple[core.Arm, ...]) -> None:
    """Reports the first missing case, and every arm that can't be reached."""
    search = Search(_MOST_STEPS + 4 * len(arms) ** 2)
    rows: list[Row] = []
    above = Above()
    for arm, written in zip(arms, e.arms, strict=True):
        row: Row = (arm.pattern,)
        before = above.meeting(arm.pattern)
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
            above.add(arm.pattern)
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
        r = ty.resolve(t)
        if isinstance(r, ty.TypeData):
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


Place = tuple[int, ...]


def named_parts(p: core.Pattern, place: Place = ()) -> Iterator[tuple[Place, object]]:
    """The constructors of a pattern and of the items of tuples in it, by where they stand."""
    if isinstance(p, core.TuplePattern):
        for k, item in enumerate(p.items):
            yield from named_parts(item, (*place, k))
    elif (constructor := head(p)) is not None:
        yield place, constructor[0]


@dataclass(slots=True)
class Above:
    """The arms above one. named: the numbers of those with a constructor at a place; loose: of those with none there.

    Of the arms above only those can matter that have the same constructor as an arm at a place, or none.
    """

    rows: list[Row] = field(default_factory=list)
    named: dict[Place, dict[object, list[int]]] = field(default_factory=dict)
    loose: dict[Place, list[int]] = field(default_factory=dict)

    def add(self, pattern: core.Pattern) -> None:
        for p in flat(pattern):
            number = len(self.rows)
            self.rows.append((p,))
            parts = dict(named_parts(p))
            for place in parts.keys() - self.named.keys():
                self.named[place], self.loose[place] = {}, list(range(number))
            for place, named in self.named.items():
                if place in parts:
                    named.setdefault(parts[place], []).append(number)
                else:
                    self.loose[place].append(number)

    def meeting(self, pattern: core.Pattern) -> list[Row]:
        """The arms that may match a value that a pattern matches."""
        numbers = {n for p in flat(pattern) for n in self._meeting(p)}
        return [self.rows[n] for n in sorted(numbers)]

    def _meeting(self, p: core.Pattern) -> Sequence[int]:
        fewest: Sequence[int] = range(len(self.rows))
        for place, constructor in named_parts(p):
            if place in self.named:
                named, loose = self.named[place].get(constructor, []), self.loose[place]
                if len(named) + len(loose) < len(fewest):
                    fewest = [*named, *loose]
        return fewest


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
        missing = self.first(rows, row[k], (*row[:k], *row[k + 1 :]))
        return None if missing is None else (*missing[1 : k + 1], missing[0], *missing[k + 1 :])

    def first(self, rows: list[Row], first: core.Pattern, other_columns: Row) -> Row | None:
        """Finds a useful row like `useful`, but decides the first column first, without alternatives in the rows."""
        if isinstance(first, core.Alternatives):
            tried = (self.first(rows, p, other_columns) for p in flat(first))
            return next((witness for witness in tried if witness is not None), None)
        constructor = head(first)
        if constructor is not None:
            witness = self.useful(
                specialised(rows, constructor[0], len(constructor[1])), (*constructor[1], *other_columns)
            )
            return None if witness is None else rebuilt(first, witness, len(constructor[1]))
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
            witness = self.useful([r[1:] for r in others], other_columns)
            return None if witness is None else (lacking, *witness)
        for key, p in heads.items():
            h = head(p)
            assert h is not None
            n = len(h[1])
            witness = self.useful(specialised([*named[key], *others], key, n), (*(_ANY,) * n, *other_columns))
            if witness is not None:
                return rebuilt(p, witness, n)
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


def rebuilt(p: core.Pattern, columns: Row, n: int) -> Row:
    parts, other_columns = columns[:n], columns[n:]
    match p:
        case core.VariantPattern(decl, variant, _):
            return (core.VariantPattern(decl, variant, parts), *other_columns)
        case core.TuplePattern():
            return (core.TuplePattern(parts), *other_columns)
        case _:
            return (p, *other_columns)


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


# ---- numbers ---------------------------------------------------------------------------------------------------------
# Numbers that are written out.

_NUM, _FLOAT = frozenset({"Num"}), frozenset({"Float"})
# What is not larger fits into every dtype of numbers.
_SMALL = 127
_WIDER = (*reversed(SIGNED[:-1]), UNSIGNED[0], *reversed(PRECISE))  # from the narrowest


def number(cx: Checker, scope: Scope, e: s.Number, negative: bool = False) -> core.Expr:
    """negative: a `-` stands in front."""
    if e.dtype is not None:
        t: ty.Type = ty.TypeCon(e.dtype)
        literal = core.Literal(t, e.span, float(e.value) if e.dtype in ty.FLOATS else e.value)
    else:
        exact = not isinstance(e.value, float)
        t = cx.st.type_var(atomic=True, classes=_NUM if exact else _FLOAT, literal="int" if exact else "float")
        literal = core.Literal(t, e.span, e.value)
    if e.value > _SMALL or (negative and e.value > 0):
        cx.later.append(partial(representable, t, e, negative))
    return literal


def representable(t: ty.Type, e: s.Number, negative: bool) -> None:
    """Refuses a literal that the dtype, which its use asks for, does not hold."""
    dtype = ty.resolve(t)
    if not isinstance(dtype, ty.TypeCon) or dtype.name not in ty.FLOATS | ty.INTS:
        return
    if negative and dtype.name[0] == "u":
        raise error("E0109", f"`{dtype.name}` has no negative numbers", e.span)
    if e.value > largest(dtype.name, negative):
        wider = [d for d in _WIDER if (d in ty.FLOATS) == (dtype.name in ty.FLOATS) and e.value <= largest(d, negative)]
        help = (f"`{wider[0]}` holds it",) if wider else ()
        raise error("E0109", f"this number is too large for `{dtype.name}`", e.span, help=help)


def largest(dtype: str, negative: bool = False) -> float:
    """The largest absolute value."""
    if dtype in ty.FLOATS:
        return DTYPES[dtype].largest
    bits = int(dtype[1:])
    return (1 << bits) - 1 if dtype[0] == "u" else (1 << (bits - 1)) - (not negative)
