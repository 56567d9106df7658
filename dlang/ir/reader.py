"""Reads the textual form that `printer` writes: its tokens, and a recursive-descent parser of one function for each
form.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar, get_args

from dlang.ir import anf
from dlang.ir.errors import Unreadable
from dlang.ir.forms import BOUNDS, Choice, Each, Form, Hole, parsed
from dlang.ir.roles import Leaf, Many, Record, Role, Shape, shapes
from dlang.ops.dtypes import NUMBERS
from dlang.ops.primitives import PRIMITIVES
from dlang.polynomials import Poly

# ---- tokens ----------------------------------------------------------------------------------------------------------
_TOKEN = re.compile(
    rf"""(?P<skip>\s+|\#[^\n]*)
      | (?P<text>"(?:\\.|[^"\\])*")
      | (?P<buffer>&[^\W\d][\w']*\.\d+)
      | (?P<var>[^\W\d][\w']*\.\d+)
      | (?P<word>[^\W\d]\w*)
      | (?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:{"|".join(NUMBERS)})?)
      | (?P<mark>->|<-|\.\.|[()\[\]{{}},:=*/+·×-])""",
    re.VERBOSE,
)

T = TypeVar("T")


def words(text: str) -> list[str]:
    """The tokens of a piece of text, as they are written."""
    return [m.group() for m in _TOKEN.finditer(text) if m.lastgroup != "skip"]


class Tokens:
    """The tokens of a text, and where the reader is among them. Raises IRError, with the line, where one is missing."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []  # kind, text, offset
        at = 0
        while at < len(text):
            m = _TOKEN.match(text, at)
            if m is None:
                raise Unreadable(text, at, f"{text[at]!r} starts nothing")
            if m.lastgroup != "skip":
                self._tokens.append((str(m.lastgroup), m.group(), at))
            at = m.end()
        self._at = 0

    def done(self) -> bool:
        return self._at >= len(self._tokens)

    def fail(self, wanted: str) -> Unreadable:
        _, text, offset = ("end", "the end", len(self._text)) if self.done() else self._tokens[self._at]
        return Unreadable(self._text, offset, f"expected {wanted}, found {text}")

    def peek(self) -> tuple[str, str]:
        return ("end", "") if self.done() else self._tokens[self._at][:2]

    def binds(self) -> bool:
        """Tells whether the name of what is bound comes next: its type is behind it, or the operation is."""
        coming = self._tokens[self._at : self._at + 2]
        return len(coming) == 2 and coming[0][0] in ("var", "buffer") and coming[1][1] in (":", "=")

    def take(self, kind: str) -> str:
        if self.peek()[0] != kind:
            raise self.fail(f"a {kind}")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def accept(self, *texts: str) -> bool:
        """Goes on behind these texts if they come next, and tells whether they did."""
        coming = self._tokens[self._at : self._at + len(texts)]
        if [text for kind, text, _ in coming if kind in ("mark", "word", "number")] != list(texts):
            return False
        self._at += len(texts)
        return True

    def expect(self, *texts: str) -> None:
        for text in texts:
            if not self.accept(text):
                raise self.fail(repr(text))

    def any_of(self, items: Sequence[Callable[[], T]]) -> T:
        """Reads by the first of these that can; if none can, the error is that of the one that read furthest."""
        begin, failures = self._at, list[Unreadable]()
        for item in items:
            try:
                return item()
            except Unreadable as e:
                failures.append(e)
                self._at = begin
        raise max(failures, key=lambda e: e.offset)

    def several(self, item: Callable[[], T], open: str = "(", close: str = ")") -> tuple[T, ...]:
        """open item, item, … close"""
        self.expect(open)
        out: list[T] = []
        while not self.accept(close):
            if out:
                self.expect(",")
            out.append(item())
        return tuple(out)

    def listed(self, item: Callable[[], T]) -> tuple[T, ...]:
        """item, item, …: at least one"""
        out = [item()]
        while self.accept(","):
            out.append(item())
        return tuple(out)

    def skip(self) -> None:
        """Goes to the next token."""
        self._at += 1

    def back(self) -> None:
        """Returns to the token before, so that an error is said to be there."""
        self._at -= 1


_NUMBER = re.compile(rf"(?P<value>inf|nan|\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?P<dtype>{'|'.join(NUMBERS)})?\Z")
_I64 = anf.Scalar("i64")


def read_program(text: str) -> anf.Program:
    """The program that a text of `print_program` stands for; raises IRError, with the line, if it is none."""
    reader = _Reader(text)
    while reader.tokens.accept("data"):
        reader.datatype()
    functions = []
    while not reader.tokens.done():
        functions.append(reader.function())
    return anf.Program({f.name: f for f in functions}, reader.datatypes)


class FormReader:
    """Reads operations of either IR by their forms; the names of variables stand for those that were bound last."""

    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text)
        self.vars: dict[str, Any] = {}

    # ---- small parts -------------------------------------------------------------------------------------------------
    def name(self) -> str:
        return self.text() if self.tokens.peek()[0] == "text" else self.tokens.take("word")

    def text(self) -> str:
        value: str = json.loads(self.tokens.take("text"))
        return value

    def integer(self) -> int:
        return int(self.tokens.take("number"))

    def bound(self, printed: str, type: anf.Type) -> anf.Var:
        self.vars[printed] = var = anf.fresh(printed.rpartition(".")[0], type)
        return var

    def binding(self) -> Any:
        """Reads what is bound, with its type."""
        printed = self.tokens.take("var")
        self.tokens.expect(":")
        return self.bound(printed, self.type())

    def index_var(self) -> anf.Var:
        return self.bound(self.tokens.take("var"), _I64)

    def var(self, kind: str = "var") -> Any:
        printed = self.tokens.take(kind)
        if printed not in self.vars:
            self.tokens.back()
            raise self.tokens.fail("a variable in scope")
        return self.vars[printed]

    def atom(self) -> anf.Atom:
        kind, text = self.tokens.peek()
        if kind == "var":
            var: anf.Var = self.var()
            return var
        if self.tokens.accept("null"):
            return anf.Lit(0, self.text())
        if kind == "text":
            return anf.Lit(self.text(), "str")
        negative = self.tokens.accept("-")
        _, text = self.tokens.peek()
        if text in ("true", "false"):
            self.tokens.skip()
            return anf.Lit(text == "true", "bool")
        m = _NUMBER.match(text)
        if m is None:
            raise self.tokens.fail("an operand")
        self.tokens.skip()
        value, dtype = m.group("value"), m.group("dtype")
        dtype = dtype or ("i64" if value.isdigit() else "f64")
        if dtype not in anf.DTYPES:
            raise self.tokens.fail("a number of a known dtype")
        sign = "-" if negative else ""
        return anf.Lit(float(sign + value) if dtype in anf.FLOATS else int(sign + value), dtype)

    def size(self) -> anf.Size:
        total: anf.Size = Poly({})
        negative = self.tokens.accept("-")
        while True:
            term = self.term()
            total = total - term if negative else total + term
            if self.tokens.accept("-"):
                negative = True
            elif self.tokens.accept("+"):
                negative = False
            else:
                return total

    def term(self) -> anf.Size:
        product = anf.poly(1)
        while True:
            if self.tokens.peek()[0] == "number":
                value = Fraction(self.integer())
                scale: anf.Size = Poly({(): value / self.integer() if self.tokens.accept("/") else value})
                product = product * scale
            else:
                product = product * self.var()
            if not self.tokens.accept("*"):
                return product

    def sizes(self) -> tuple[anf.Size, ...]:
        return self.tokens.several(self.size, "[", "]")

    def type(self) -> anf.Type:
        if self.tokens.accept("token"):
            return anf.Token()
        dtype = self.dtype()
        return anf.Array(dtype, self.sizes()) if self.tokens.peek() == ("mark", "[") else anf.Scalar(dtype)

    def dtype(self) -> str:
        kind, dtype = self.tokens.peek()
        if kind == "text":
            return self.text()
        if dtype not in anf.DTYPES:
            raise self.tokens.fail("a type")
        self.tokens.skip()
        return dtype

    # ---- operations by their forms -----------------------------------------------------------------------------------
    def fields(self, cls: Any, form: Form, before: Mapping[str, Any]) -> Any:
        """Reads an operation of which this much of the form is left, behind the fields that stood before."""
        fields = dict(before)
        self.form(form, cls, fields)
        unsaid = [f.name for f in dataclasses.fields(cls) if f.name not in fields and f.default is dataclasses.MISSING]
        return cls(**fields, **dict.fromkeys(unsaid))

    def form(self, form: Form, cls: Any, fields: dict[str, Any]) -> None:
        """Reads the pieces of a form; what stands in the places of fields goes to `fields`."""
        for piece in form:
            match piece:
                case Hole((name,)):
                    fields[name] = self.field(piece, shapes(cls)[name])
                case Each(inner):
                    names = [hole.path[0] for hole in piece.holes]
                    none = self.tokens.peek() == ("mark", ")")
                    rows = () if none else self.tokens.listed(partial(self.row, inner, cls))
                    fields.update(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True))
                case Choice(field, _, then, otherwise):
                    first, *others = then
                    start = words(str(first)) if isinstance(first, str) else []
                    if self.tokens.accept(*start) if start else self.tokens.peek()[0] == "var":
                        fields[field] = True  # unless a place in what follows says more
                        self.form(tuple(others) if start else then, cls, fields)
                    else:
                        shape = shapes(cls)[field]
                        if isinstance(shape, Many):
                            fields[field] = ()
                        elif isinstance(shape, Leaf) and shape.type is bool:
                            fields[field] = False
                        self.form(otherwise, cls, fields)
                case _:
                    self.tokens.expect(*words(str(piece)))

    def row(self, form: Form, cls: Any) -> list[Any]:
        """Reads one of each of several fields."""
        out = []
        for piece in form:
            if isinstance(piece, Hole):
                of = shapes(cls)[piece.path[0]]
                assert isinstance(of, Many)
                out.append(self.part(of.of, piece))
            else:
                self.tokens.expect(*words(str(piece)))
        return out

    def field(self, hole: Hole, shape: Shape) -> Any:
        if hole.open and isinstance(shape, Leaf) and shape.role in (Role.STATIC, Role.HINT):  # a list, shaped as one
            one = self.text if shape.type is str else partial(self.part, shape, hole)
            return self.tokens.several(one, hole.open, hole.close)
        inner = shape.of if isinstance(shape, Many) else shape
        if inner is shape:
            self.tokens.expect(*hole.open)
            part = self.text() if hole.quoted else self.monoid() if hole.how == "assign" else self.part(inner, hole)
            self.tokens.expect(*hole.close)
            return part
        if hole.open:
            return self.tokens.several(lambda: self.part(inner, hole), hole.open, hole.close)
        if hole.how in BOUNDS and not self.tokens.accept(hole.how):
            return (self.part(inner, hole),)
        return (self.tokens.several if hole.how in BOUNDS else self.tokens.listed)(lambda: self.part(inner, hole))

    def monoid(self) -> str:
        """Reads how a store combines its value with what is there."""
        if self.tokens.accept("="):
            return "set"
        monoid = self.tokens.take("word")
        self.tokens.expect("=")
        return monoid

    def part(self, shape: Shape, hole: Hole) -> Any:
        """Reads a part of an operation by its role and type."""
        if isinstance(shape, Record):
            return self.record(shape, hole)
        assert isinstance(shape, Leaf)
        if shape.optional and self.tokens.accept("_"):
            return None
        match shape.role:
            case Role.OPERAND:
                return self.var() if shape.type is anf.Var else self.atom()
            case Role.BINDER | Role.RESULT:
                return self.binding() if hole.how == "typed" else self.index_var()
            case Role.SIZE:
                return self.size()
            case _ if shape.type is str:
                return self.name()
            case _:
                return bool(self.integer()) if shape.type is bool else self.integer()

    def record(self, shape: Record, hole: Hole) -> Any:
        """Reads a part that has parts of its own."""
        classes: tuple[Any, ...] = shape.classes
        (cls,) = classes
        return self.fields(cls, parsed(cls.FORM), {})


class _Reader(FormReader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.datatypes: dict[str, anf.Datatype] = {}

    # ---- datatypes, functions, blocks, lets --------------------------------------------------------------------------
    def datatype(self) -> None:
        name = self.text()
        label = self.text() if self.tokens.peek()[0] == "text" else ""

        def variant() -> tuple[str, tuple[anf.Var, ...]]:
            self.vars = {}
            return self.name(), self.tokens.several(self.binding)

        variants = self.tokens.several(variant, "{", "}")
        numbered = [anf.Variant(name, tag, form, fields) for tag, (form, fields) in enumerate(variants)]
        self.datatypes[name] = anf.Datatype(name, tuple(numbered), label)

    def variant(self) -> anf.Variant:
        name, tag = self.text(), self.integer()
        if name not in self.datatypes or tag >= len(self.datatypes[name].variants):
            self.tokens.back()
            raise self.tokens.fail("a variant of a datatype")
        return self.datatypes[name].variants[tag]

    def function(self) -> anf.Function:
        self.vars = {}
        self.tokens.expect("fn")
        name = self.name()
        label = self.text() if self.tokens.peek()[0] == "text" else name
        params = self.tokens.several(self.binding)
        self.tokens.expect("->")
        results = self.tokens.several(self.binding)
        rules = self.rules() if self.tokens.accept("wrt") else None
        continues = (
            self.tokens.several(lambda: (self.integer(), self.integer())) if self.tokens.accept("continues") else ()
        )
        consumes = self.tokens.several(self.integer) if self.tokens.accept("consumes") else ()
        sizes = frozenset(self.tokens.several(self.var)) if self.tokens.accept("sizes") else frozenset()
        return anf.Function(name, params, results, self.block(), label, None, rules, continues, consumes, sizes)

    def rules(self) -> anf.Rules:
        wrt = self.tokens.several(self.integer)
        pullback = self.name() if self.tokens.accept("pullback") else None
        pushforward = self.name() if self.tokens.accept("pushforward") else None
        return anf.Rules(wrt, pullback, pushforward, self.tokens.accept("checkpoint"))

    def block(self) -> anf.Block:
        self.tokens.expect("{")
        lets = []
        while not self.tokens.accept("yield"):
            lets.append(self.let())
        results = () if self.tokens.accept("}") else self.tokens.listed(self.atom)
        if results:
            self.tokens.expect("}")
        return anf.Block(tuple(lets), results)

    def let(self) -> anf.Let:
        if self.tokens.peek()[0] != "var":
            return anf.Let((), self.op())
        vars = self.tokens.listed(self.binding)
        self.tokens.expect("=")
        return anf.Let(vars, self.op())

    def op(self) -> anf.Op:
        word = self.tokens.take("word")
        if word in PRIMITIVES:
            return anf.Prim(word, self.tokens.several(self.atom))
        cls = _FORMS.get(word)
        if cls is None:
            self.tokens.back()
            raise self.tokens.fail("an operation")
        op: anf.Op = self.fields(cls, _behind(word, cls), {})
        return op

    def part(self, shape: Shape, hole: Hole) -> Any:
        if isinstance(shape, Leaf) and shape.role is Role.BLOCK:
            return self.block()
        if isinstance(shape, Leaf) and shape.type is anf.Variant:
            return self.variant()
        return super().part(shape, hole)

    def record(self, shape: Record, hole: Hole) -> Any:
        if len(shape.classes) == 1:
            return super().record(shape, hole)
        word = self.tokens.take("word")
        classes: tuple[Any, ...] = shape.classes
        for cls in classes:
            if cls.FORM.startswith(f"{word} "):
                return self.fields(cls, _behind(word, cls), {})
        self.tokens.back()
        raise self.tokens.fail(" or ".join([f"`{cls.FORM.split(' ')[0]}`" for cls in classes]))


def _behind(word: str, cls: Any) -> Form:
    """The form of an operation behind its first word."""
    first, *others = parsed(cls.FORM)
    return (first[len(word) :], *others) if isinstance(first, str) else (first, *others)


_FORMS = {re.split(r"\W", cls.FORM)[0]: cls for cls in get_args(anf.Op) if cls is not anf.Prim}
"""The operations by the words with which their texts begin."""
