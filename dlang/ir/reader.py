"""Reads the textual form that `printer` writes: a recursive-descent parser of one function for each form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, get_args

from dlang.ir import anf
from dlang.ir.forms import Choice, Each, Form, Hole, parsed
from dlang.ir.roles import Leaf, Many, Record, Role, Shape, shapes
from dlang.ir.tokens import Tokens, words
from dlang.ops.dtypes import NUMBERS
from dlang.ops.primitives import PRIMITIVES
from dlang.polynomials import Poly

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


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text)
        self._vars: dict[str, anf.Var] = {}
        self.datatypes: dict[str, anf.Datatype] = {}

    # ---- small parts -------------------------------------------------------------------------------------------------
    def name(self) -> str:
        return self.text() if self.tokens.peek()[0] == "text" else self.tokens.take("word")

    def text(self) -> str:
        value: str = json.loads(self.tokens.take("text"))
        return value

    def integer(self) -> int:
        return int(self.tokens.take("number"))

    def bind(self, type: anf.Type) -> Callable[[str], anf.Var]:
        def make(printed: str) -> anf.Var:
            self._vars[printed] = anf.fresh(printed.rpartition(".")[0], type)
            return self._vars[printed]

        return make

    def binding(self) -> anf.Var:
        printed = self.tokens.take("var")
        self.tokens.expect(":")
        return self.bind(self.type())(printed)

    def index_var(self) -> anf.Var:
        return self.bind(_I64)(self.tokens.take("var"))

    def var(self) -> anf.Var:
        printed = self.tokens.take("var")
        if printed not in self._vars:
            self.tokens.back()
            raise self.tokens.fail("a variable in scope")
        return self._vars[printed]

    def atom(self) -> anf.Atom:
        kind, text = self.tokens.peek()
        if kind == "var":
            return self.var()
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

    def atoms(self) -> tuple[anf.Atom, ...]:
        return self.tokens.several(self.atom)

    def optional(self) -> anf.Atom | None:
        return None if self.tokens.accept("_") else self.atom()

    def texts(self) -> tuple[str, ...]:
        return self.tokens.several(self.text)

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
        kind, dtype = self.tokens.peek()
        if kind == "text":
            dtype = self.text()
        elif dtype not in anf.DTYPES:
            raise self.tokens.fail("a type")
        else:
            self.tokens.skip()
        return anf.Array(dtype, self.sizes()) if self.tokens.peek() == ("mark", "[") else anf.Scalar(dtype)

    # ---- datatypes, functions, blocks, lets --------------------------------------------------------------------------
    def datatype(self) -> None:
        name = self.text()
        label = self.text() if self.tokens.peek()[0] == "text" else ""

        def variant() -> tuple[str, tuple[anf.Var, ...]]:
            self._vars = {}
            return self.name(), self.tokens.several(self.binding)

        variants = self.tokens.several(variant, "{", "}")
        made = [anf.Variant(name, tag, form, fields) for tag, (form, fields) in enumerate(variants)]
        self.datatypes[name] = anf.Datatype(name, tuple(made), label)

    def variant(self) -> anf.Variant:
        name, tag = self.text(), self.integer()
        if name not in self.datatypes or tag >= len(self.datatypes[name].variants):
            self.tokens.back()
            raise self.tokens.fail("a variant of a datatype")
        return self.datatypes[name].variants[tag]

    def function(self) -> anf.Function:
        self._vars = {}
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
        return anf.Function(name, params, results, self.block(), label, None, rules, continues, consumes)

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
            return anf.Prim(word, self.atoms())
        cls = _FORMS.get(word)
        if cls is None:
            self.tokens.back()
            raise self.tokens.fail("an operation")
        op: anf.Op = self.fields(cls, word)
        return op

    def fields(self, cls: Any, word: str = "") -> Any:
        """Reads what stands behind the first word of a form."""
        fields: dict[str, Any] = {}
        first, *rest = parsed(cls.FORM)
        self.form((first[len(word) :], *rest) if isinstance(first, str) else (first, *rest), cls, fields)
        return cls(**fields)

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
                case Choice(field, _, (first, *rest)):
                    start = words(str(first)) if isinstance(first, str) else []
                    if self.tokens.accept(start[0]) if start else self.tokens.peek()[0] == "var":
                        fields[field] = True  # unless a place in what follows says more
                        for other in start[1:]:
                            self.tokens.expect(other)
                        self.form(tuple(rest), cls, fields)
                    elif isinstance(shapes(cls)[field], Many):
                        fields[field] = ()
                case _:
                    for word in words(str(piece)):
                        self.tokens.expect(word)

    def row(self, form: Form, cls: Any) -> list[Any]:
        """Reads one of each of several fields."""
        out = []
        for piece in form:
            if isinstance(piece, Hole):
                of = shapes(cls)[piece.path[0]]
                assert isinstance(of, Many)
                out.append(self.part(of.of, piece))
            else:
                for word in words(str(piece)):
                    self.tokens.expect(word)
        return out

    def field(self, hole: Hole, shape: Shape) -> Any:
        inner = shape.of if isinstance(shape, Many) else shape  # a list of what is static has the role of a part
        if hole.open:
            text = isinstance(inner, Leaf) and inner.type is str
            return self.tokens.several(lambda: self.text() if text else self.part(inner, hole), hole.open, hole.close)
        if inner is shape:
            return self.text() if hole.quoted else self.part(inner, hole)
        if hole.how and not self.tokens.accept(hole.how):
            return (self.part(inner, hole),)
        return (self.tokens.several if hole.how else self.tokens.listed)(lambda: self.part(inner, hole))

    def part(self, shape: Shape, hole: Hole) -> Any:
        """Reads a part of an operation by its role and type."""
        if isinstance(shape, Record):
            classes: tuple[Any, ...] = shape.classes
            return self.fields(classes[0]) if len(classes) == 1 else self.fields(*self.told(classes))
        assert isinstance(shape, Leaf)
        if shape.optional and self.tokens.accept("_"):
            return None
        match shape.role:
            case Role.OPERAND:
                return self.var() if shape.type is anf.Var else self.atom()
            case Role.BINDER:
                return self.binding() if hole.how == "typed" else self.index_var()
            case Role.SIZE:
                return self.size()
            case Role.BLOCK:
                return self.block()
            case _ if shape.type is anf.Variant:
                return self.variant()
            case _ if shape.type is str:
                return self.name()
            case _:
                return bool(self.integer()) if shape.type is bool else self.integer()

    def told(self, classes: Sequence[Any]) -> tuple[Any, str]:
        """The one of several records whose first word comes next, and the word."""
        word = self.tokens.take("word")
        for cls in classes:
            if cls.FORM.startswith(f"{word} "):
                return cls, word
        self.tokens.back()
        raise self.tokens.fail(" or ".join([f"`{cls.FORM.split(' ')[0]}`" for cls in classes]))


_FORMS = {re.split(r"\W", cls.FORM)[0]: cls for cls in get_args(anf.Op) if cls is not anf.Prim}
"""The operations by the words with which their texts begin."""
