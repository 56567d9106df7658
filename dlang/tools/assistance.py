"""Help while a program is written, in an editor and in the session, whatever shows it.

Finds the situation of a place in a text, perhaps half written: in text or code, behind what, what fits there, and the
call around it. Writes functions in a line, as a person reads them: as inferred, as written, or of what the compiler
knows.

Whether a parameter may take a value is judged by types alone: quick, and wrong only by taking too much.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from dlang.grammar import syntax as s
from dlang.grammar.lexer import CONTEXTUAL, KEYWORDS, Token, tokenize
from dlang.grammar.newlines import CLOSERS, OPENERS
from dlang.lazy_modules import lazy_module
from dlang.ops.functions import SCHEMES, TYPES, about
from dlang.typecheck import builtins, types as ty
from dlang.typecheck.program import Checked
from dlang.typecheck.refinements import written
from dlang.typecheck.schemes import scheme_names
from dlang.typecheck.scope import BuiltinEntry, FnEntry
from dlang.typecheck.terms import variables

if TYPE_CHECKING:
    from dlang.typecheck import declarations
else:
    declarations = lazy_module("dlang.typecheck.declarations")


INTERPOLATION = "interpolation"  # the kind of a token: a string up to the `{` of the interpolation that the place is in
_WORDS = ("NAME", "UNAME", "_", *KEYWORDS, *CONTEXTUAL)
_STATEMENTS = "let var while fn struct enum const import extern".split()  # these stand in no bracket but `{`
_PATTERNS = ("let", "var", "for", "nodiff")
_FUNCTIONS = ("fn", "pullback", "pushforward")
_DECLARED = ("fn", "struct", "enum", "const", "type")
_UNCLOSED = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|(["#])')
_TEXT = re.compile(r"(?:[^{\\]|\\.|\{\{|\\$)*")


@dataclass(frozen=True, slots=True)
class Situation:
    """text: what stands before the place. prefix: the word that has begun; start: where. before: the tokens in front.

    quiet: in a comment, or in a string but in none of its interpolations: nothing is completed there.
    """

    text: str
    prefix: str
    start: int
    before: tuple[Token, ...]
    quiet: bool

    @property
    def previous(self) -> str:
        """The kind of the token in front of the word."""
        return self.before[-1].kind if self.before else ""


def situation(text: str, since: int = 0) -> Situation:
    """Returns the situation at the end of a text, without looking before `since`, the start of a line."""
    tokens, quiet = _tokens(text, since)
    last = tokens[-1] if tokens else None
    if last is not None and not quiet and last.kind in _WORDS and last.end == len(text):
        return Situation(text, last.text, last.start, tuple(tokens[:-1]), quiet)
    return Situation(text, "", len(text), tuple(tokens), quiet)


def _tokens(text: str, since: int) -> tuple[list[Token], bool]:
    """The tokens of a text, those of an interpolation that is open included; whether its end is in a comment or in
    the text of a string."""
    line = max(text.rfind("\n") + 1, since)
    begun = next((m.start() for m in _UNCLOSED.finditer(text, line) if m[1]), None)
    tokens = [t for t in tokenize(text, since, begun) if t.kind != "newline"]
    if begun is None or text[begun] == "#":
        return tokens, begun is not None
    code = _interpolation(text, begun + 1)
    if code is None:
        return [*tokens, Token("unclosed", text[begun:], begun, len(text))], True
    return [*tokens, Token(INTERPOLATION, text[begun:code], begun, code), *tokenize(text, code)], False


def _interpolation(text: str, at: int) -> int | None:
    """Finds where the code begins in which an unclosed string ends; None if it ends in text, or in a format."""
    while (match := _TEXT.match(text, at)) is not None and match.end() < len(text):
        code = at = match.end() + 1
        depth = 0
        while at < len(text) and not (depth == 0 and text[at] in ":}"):
            depth = max(0, depth + (text[at] in OPENERS) - (text[at] in CLOSERS))
            at += 1
        if at == len(text):
            return code
        at = text.find("}", at) + 1
        if not at:
            return None
    return None


# ---- what may stand here ---------------------------------------------------------------------------------------------
def expected(at: Situation) -> str:
    """Returns the sort of word that the place takes: `path` or `member` of an import, `new` (a name that nothing has
    yet), `type`, `size` (in the brackets of an array type), `effect`, or `value`."""
    tokens = at.before
    if (part := _of_import(at)) is not None:
        return part
    if at.previous == "!":
        return "effect"
    return _of_type(tokens, len(tokens)) or ("new" if _binds(tokens) else "value")


def _of_import(at: Situation) -> str | None:
    k = next((k for k in range(len(at.before) - 1, -1, -1) if at.before[k].kind == "import"), None)
    if k is None:
        return None
    kinds = [t.kind for t in at.before[k + 1 :]]
    if "{" in kinds:
        return "member" if set(kinds) <= {"{", ",", ".", "NAME", "UNAME"} else None
    if "\n" in at.text[at.before[k].start :]:
        return None
    return "new" if kinds[-1:] == ["as"] else "path" if set(kinds) <= {".", "NAME"} else None


def path_of_import(at: Situation) -> tuple[str, ...]:
    """The words behind the last `import`, up to its braces."""
    first = next(k for k in range(len(at.before) - 1, -1, -1) if at.before[k].kind == "import")
    return tuple(t.text for t in takewhile(lambda t: t.kind != "{", at.before[first + 1 :]) if t.kind != ".")


def _of_type(tokens: Sequence[Token], end: int) -> str | None:
    """Returns the part of a type that stands behind a token, None if it is none."""
    part = "type"
    while end > 0:
        previous = tokens[end - 1].kind
        if previous in (":", "->", "as") or (previous == "<" and end > 1 and tokens[end - 2].kind == "UNAME"):
            return part
        end = opening = _opening(tokens, end)
        if opening < 1 or tokens[opening].kind not in ("(", "["):
            return None
        if tokens[opening].kind == "(" and previous in ("(", ",") and _of_variant(tokens, opening):
            return part
        if tokens[opening].kind == "[":
            part, end = "size", opening - 1
            if tokens[end].kind not in ("NAME", "UNAME"):
                return None
    return None


def _opening(tokens: Sequence[Token], end: int) -> int:
    """The bracket that is open in front of a token; -1 if there is none."""
    depth = 0
    for k in range(end - 1, -1, -1):
        depth += (tokens[k].kind in CLOSERS) - (tokens[k].kind in OPENERS or tokens[k].kind == INTERPOLATION)
        if depth < 0:
            return k
    return -1


def _binds(tokens: Sequence[Token]) -> bool:
    """Tells whether a name is bound behind tokens: by a keyword, as a parameter, as a field or a variant."""
    previous = tokens[-1].kind if tokens else ""
    if previous in (*_DECLARED, *_PATTERNS):
        return True
    opening = _opening(tokens, len(tokens))
    if opening < 1:
        return False
    if tokens[opening].kind == "{":
        return _declaration(tokens, opening) in ("struct", "enum")
    in_turn = tokens[opening].kind == "(" and previous in ("(", ",")
    return in_turn and (tokens[opening - 1].kind in _PATTERNS or _declaration(tokens, opening) in _FUNCTIONS)


def _of_variant(tokens: Sequence[Token], opening: int) -> bool:
    """Tells whether a bracket has the fields of a variant."""
    brace = _opening(tokens, opening)
    return brace > 0 and tokens[brace].kind == "{" and _declaration(tokens, brace) == "enum"


def _declaration(tokens: Sequence[Token], end: int) -> str:
    """The keyword of what is declared in front of a bracket: the name is between them, perhaps with parameters."""
    k = end - 1
    while k > 0 and tokens[k].kind in ("NAME", "UNAME", "<", ">", ",", "..", ":", "+"):
        k -= 1
    return tokens[k].kind if k < end - 1 else ""


# ---- brackets ------------------------------------------------------------------------------------------------------
def open_brackets(tokens: Sequence[Token]) -> list[Token]:
    """The brackets that are open behind tokens, and the interpolation; the outer ones first."""
    opened: list[Token] = []
    for token in tokens:
        if token.kind in OPENERS or token.kind == INTERPOLATION:
            opened.append(token)
        elif token.kind in CLOSERS and opened:
            opened.pop()
        elif token.kind in _STATEMENTS:  # what is open in front of it was forgotten
            while opened and opened[-1].kind != "{":
                opened.pop()
    return opened


def receiver(at: Situation, end: int) -> tuple[int, int] | None:
    """Finds the expression that ends in front of a token, as far as names, calls, indices and fields go."""
    tokens = at.before
    k = end - 1
    start = None
    while k >= 0:
        kind = tokens[k].kind
        if kind in (")", "]"):
            k = partner(tokens, k)
            if k < 0:
                return None
            start = k
            touching = k > 0 and tokens[k - 1].end == tokens[k].start
            if not (touching and tokens[k - 1].kind in ("NAME", "UNAME", ")", "]", "TUPLE_INDEX")):
                break
            k -= 1
        elif kind in ("NAME", "UNAME", "_", "STRING", "INT", "FLOAT"):
            start = k
            if k < 2 or tokens[k - 1].kind != ".":
                break
            k -= 2
        elif kind == "TUPLE_INDEX":
            k -= 1
        else:
            break
    return (tokens[start].start, tokens[end - 1].end) if start is not None else None


def partner(tokens: Sequence[Token], closing: int) -> int:
    """The bracket that another one closes; -1 if there is none."""
    depth = 0
    for k in range(closing, -1, -1):
        depth += (tokens[k].kind in CLOSERS) - (tokens[k].kind in OPENERS)
        if depth == 0:
            return k
    return -1


# ---- calls -----------------------------------------------------------------------------------------------------------
# The call around a place in a text that may be half written.

GIVE_FUNCTIONS = frozenset({"grad", "value_and_grad", "jacobian", "hessian", "checkpoint"})
"""Forms whose results take what the function takes."""


@dataclass(frozen=True, slots=True)
class CallAt:
    """A call that is not closed. path: what is called, `nn.dense`; start: where that begins. argument: the position of
    the one at hand; name: its name, if it is given one; named: the names of all so far. first: the first argument, if
    it is a path. form: `grad` where `grad(path)` is called, which takes what the function takes.
    """

    path: str
    start: int
    argument: int
    name: str | None
    named: tuple[str, ...]
    first: str = ""
    form: str = ""

    def parameter(self, names: Sequence[str | None]) -> int:
        """The position of the parameter at hand, of those with these names."""
        return names.index(self.name) if self.name is not None and self.name in names else self.argument


def call_at(at: Situation) -> CallAt | None:
    """The innermost call around the place."""
    for bracket in reversed(open_brackets(at.before)):
        if bracket.kind == "{":
            return None
        call = _call(at.before, at.before.index(bracket)) if bracket.kind == "(" else None
        if call is not None:
            return call
    return None


def _call(tokens: Sequence[Token], opening: int) -> CallAt | None:
    """The call whose arguments begin with a bracket; None if nothing is called."""
    first = _path(tokens, opening)
    called = _arguments(tokens, first, opening)
    if first < opening:
        return called
    closing = opening - 1
    if closing > 0 and tokens[closing].kind == ")" and tokens[closing].end == tokens[opening].start:
        inner = _call(tokens[:closing], other) if (other := partner(tokens, closing)) >= 0 else None
        if inner is not None and inner.path in GIVE_FUNCTIONS and inner.first:
            return replace(called, path=inner.first, start=tokens[other + 1].start, form=inner.path)
    return None


def _path(tokens: Sequence[Token], end: int) -> int:
    """Finds where the name begins, perhaps with modules, that touches a token; the token if no name is called."""
    k = first = end
    while k > 0 and tokens[k - 1].kind in ("NAME", "UNAME") and tokens[k - 1].end == tokens[k].start:
        first = k - 1
        if first < 2 or tokens[first - 1].kind != ".":
            break
        k = first - 1
    before = tokens[first - 1].kind if first > 0 else ""
    return end if before in ("fn", "pullback", "pushforward", ".") else first


def _arguments(tokens: Sequence[Token], first: int, opening: int) -> CallAt:
    """Returns the call whose name is from the first token to the bracket, as far as it is written."""
    depth = 0
    argument = 1 if first > 0 and tokens[first - 1].kind == "|>" else 0
    name: str | None = None
    named: list[str] = []
    binds = False  # between the bars of a function
    end = len(tokens)
    for k in range(opening + 1, len(tokens)):
        kind = tokens[k].kind
        depth += (kind in OPENERS or kind == INTERPOLATION) - (kind in CLOSERS)
        if depth == 0 and kind == "for":  # of a comprehension, which is the only argument
            break
        if depth == 0 and kind == "|":
            binds = not binds
        elif depth == 0 and kind == "," and not binds:
            end = min(end, k)
            argument, name = argument + 1, None
        elif depth == 0 and kind == "=" and not binds and tokens[k - 1].kind == "NAME":
            name = tokens[k - 1].text
            named.append(name)
    path, given = _text(tokens[first:opening]), tokens[opening + 1 : end]
    if given and given[0].kind == "..":  # the struct that is updated has no place of its own
        argument = max(0, argument - 1)
    return CallAt(path, tokens[first].start, argument, name, tuple(named), _text(given) if _is_path(given) else "")


def _is_path(tokens: Sequence[Token]) -> bool:
    return bool(tokens) and all(t.kind == (".", "NAME")[k % 2 == 0] for k, t in enumerate(tokens))


def _text(tokens: Sequence[Token]) -> str:
    return "".join(t.text for t in tokens)


# ---- signatures ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Signature:
    """parameters: what each is, `x: f64[n] = …`, in order; names: of those that can be given by name."""

    name: str
    parameters: tuple[str, ...]
    names: tuple[str | None, ...]
    result: str = ""
    bounds: str = ""

    def inside(self, form: str) -> Signature:
        """The signature of `grad(f)`, or of the function; a form's result depends on its other arguments."""
        return replace(self, name=f"{form}({self.name})", result="") if form else self

    def __str__(self) -> str:
        result = f" -> {self.result}" if self.result else ""
        return f"{self.name}{self.bounds}({', '.join(self.parameters)}){result}"


def inferred(name: str, entry: FnEntry, item: s.Fn | s.Extern | None = None) -> Signature:
    """The signature that the checker found. item: the declaration, for patterns and defaults as they are written."""
    scheme, decl = entry.scheme, entry.decl
    names = scheme_names(scheme)
    parameters: list[str] = []
    for k, t in enumerate(scheme.params):
        asked = scheme.asked[k] if k < len(scheme.asked) else None
        pattern = pattern_text(item.parameters[k].pattern) if item else _at(entry.names, k) or "_"
        text = f"{pattern}: {'size' if scheme.size_of(k) is not None else written(t, asked, names)}"
        if k < len(decl.params):
            text = f"nodiff {text}" if decl.params[k].nodiff else text
            default = item.parameters[k].default if item else None
            text += f" = {flat(default.span.text) if default else '…'}" if decl.params[k].has_default else ""
        parameters.append(text)
    result = written(scheme.result, scheme.promised, names)
    if decl.effects:
        result += f" ! {' + '.join(sorted(decl.effects))}"
    inside = variables(*scheme.params, scheme.result)
    bounds = [
        f"{names(v)}: {' + '.join(sorted(v.classes))}"
        for v in scheme.variables
        if isinstance(v, ty.TypeVar) and v.classes and v in inside
    ]
    return Signature(name, tuple(parameters), entry.names, result, f"<{', '.join(bounds)}>" if bounds else "")


def _at(names: tuple[str | None, ...], k: int) -> str | None:
    return names[k] if k < len(names) else None


def as_written(name: str, item: s.Fn | s.Extern) -> Signature:
    names = tuple(p.pattern.name if isinstance(p.pattern, s.PatternName) else None for p in item.parameters)
    result = flat(item.result.span.text) if item.result is not None else ""
    bounds = ", ".join(flat(b.span.text) for b in item.bounds)
    return Signature(name, tuple(flat(p.span.text) for p in item.parameters), names, result, bounds and f"<{bounds}>")


def of_builtin(name: str) -> Signature:
    """Returns the signature of a builtin; if no signature can say its type, one that comes near."""
    return from_text(name, signature(name) or "(x)")


def from_text(name: str, text: str) -> Signature:
    """Parses a signature such as `<a: Num>(x: a[..s]) -> a`."""
    opening = text.index("(")
    *parameters, result = _parts(text[opening + 1 :])
    names = tuple(n if (n := re.split(r"[: ]", p)[0]).isidentifier() else None for p in parameters)
    return Signature(name, tuple(parameters), names, result.removeprefix(" -> "), text[:opening])


def _parts(text: str) -> Iterator[str]:
    """Lists the texts between commas up to the `)` that closes, and the text behind that."""
    depth, start = 0, 0
    for k, letter in enumerate(text):
        closes = letter == ")" and depth == 0
        if closes or (letter == "," and depth == 0):
            if part := text[start:k].strip():
                yield part
            start = k + 1
        if closes:
            break
        depth += (letter in "([{") - (letter in ")]}")
    yield text[start:]


def pattern_text(p: s.Pattern) -> str:
    return p.name if isinstance(p, s.PatternName) else flat(p.span.text)


def flat(text: str) -> str:
    """Code of several lines in one."""
    return re.sub(r"\s+", " ", re.sub(r"#[^\n]*", "", text)).strip()


# ---- the functions of the compiler -----------------------------------------------------------------------------------
# Signatures of functions that the compiler knows, and descriptions of them and of the names in types.

_WORDS_OF_TYPES = {
    "size": "The type of a parameter that is a size: an `i64` that is not negative, which types may mention.",
    "Idx": "`Idx<n>` is an `i64` with 0 ≤ i < n: proven where it is asked for, or checked by `e as Idx<n>`.",
    "Num": "The dtypes of numbers, with `+`, `-` and `*`.",
    "Float": "The dtypes of floats.",
    "Int": "The dtypes of integers.",
    "Ord": "The dtypes whose values have an order.",
    "Eq": "The dtypes whose values can be compared.",
    "Vector": "Types that add up and scale: floats, arrays, tuples and structs of them.",
    "Bits": "Integers and `bool`.",
    "Scalar": "Numbers and `bool`.",
}


def signature(name: str) -> str | None:
    """Returns the signature of a builtin function without its name: `(x: a[n]) -> i64`."""
    return TYPES.get(name)


def words(name: str) -> str:
    """Describes its result."""
    return about(name) or _WORDS_OF_TYPES.get(name, "")


def functions(checked: Checked) -> Iterator[tuple[str, FnEntry | BuiltinEntry]]:
    """All functions in scope, those of the module first; of what the compiler knows those with a signature."""
    for name in dict.fromkeys(checked.program.value_names(checked.table)):
        if name.startswith("_") or name in ty.DTYPES:
            continue
        entry = checked.program.value(checked.table, name)
        if isinstance(entry, BuiltinEntry) and name in SCHEMES:
            entry = builtins.builtin_entry(declarations.checker(checked.program, checked.table), name)
        if isinstance(entry, FnEntry | BuiltinEntry):
            yield name, entry


def taking(checked: Checked, t: ty.Type | None) -> Iterator[tuple[str, FnEntry]]:
    """The functions whose first parameter may be of a type; all that have one, if it is not known."""
    for name, entry in functions(checked):
        if isinstance(entry, FnEntry) and entry.scheme.params and entry.decl.kind != "const":
            if t is None or takes(entry.scheme.params[0], t):
                yield name, entry


def takes(parameter: ty.Type, value: ty.Type) -> bool:
    """Tells whether a value of a type may be an argument, judged by dtypes and ranks."""
    wanted, given = ty.resolve(parameter), ty.resolve(value)
    if isinstance(given, ty.TypeVar):
        return True
    match wanted:
        case ty.TypeVar():
            return _of_classes(wanted, given)
        case ty.TypeArray(element, shape):
            element = ty.resolve(element)
            rank = len(shape.pre) + len(shape.post)
            if not isinstance(given, ty.TypeArray):
                return shape.row is not None and rank == 0 and takes(element, given)
            rank_given = len(given.shape.pre) + len(given.shape.post)
            fits = rank_given >= rank if shape.row is not None else rank_given == rank or given.shape.row is not None
            return fits and takes(element, given.element)
        case ty.TypeTuple(items):
            return (
                isinstance(given, ty.TypeTuple)
                and len(items) == len(given.items)
                and all(map(takes, items, given.items))
            )
        case ty.TypeFn(params):
            return isinstance(given, ty.TypeFn) and len(params) == len(given.params)
        case ty.TypeData(decl):
            return isinstance(given, ty.TypeData) and (given.decl is decl or given.decl.name == decl.name)
        case ty.TypeCon():
            return given == wanted


def _of_classes(v: ty.TypeVar, t: ty.Type) -> bool:
    if v.atomic and isinstance(t, ty.TypeArray):
        return False
    classes = v.classes - {"Vector"}
    if not classes:
        return True
    return isinstance(t, ty.TypeCon) and all(t.name in ty.CLASSES.get(c, ()) for c in classes)
