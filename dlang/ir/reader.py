"""Reads the textual form that `printer` writes: a recursive-descent parser of one function for each form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, get_args

from dlang.ir import anf
from dlang.ir.forms import Choice, Form, Hole, parsed
from dlang.ir.roles import Leaf, Many, Role, Shape, shapes
from dlang.ir.tokens import Tokens, words
from dlang.ops.primitives import PRIMITIVES
from dlang.polynomials import Poly

_NUMBER = re.compile(r"(?P<value>inf|nan|\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?P<dtype>bf16|[fiu]\d+)?\Z")
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

    def axis(self) -> anf.Axis:
        printed = self.tokens.take("var")
        self.tokens.expect("in")
        lows = self.bound("max")
        self.tokens.expect("..")
        highs = self.bound("min")
        return anf.Axis(self.bind(_I64)(printed), lows, highs)

    def bound(self, pick: str) -> tuple[anf.Size, ...]:
        return self.tokens.several(self.size) if self.tokens.accept(pick) else (self.size(),)

    def destination(self) -> anf.Destination:
        kind = self.tokens.take("word")
        shape, index = self.sizes(), self.sizes()
        monoid = self.tokens.take("word") if kind == "keep" else ""
        into = self.var() if self.tokens.accept("into") else None
        after = int(self.tokens.take("number")) if self.tokens.accept("after") else None
        return anf.Reduce(shape, index, monoid, into, after) if kind == "keep" else anf.ScatterAdd(shape, index, into)

    def state(self) -> tuple[tuple[anf.Var, ...], tuple[anf.Atom, ...]]:
        def one() -> tuple[anf.Var, anf.Atom]:
            param = self.binding()
            self.tokens.expect("=")
            return param, self.atom()

        pairs = self.tokens.several(one)
        return tuple(p for p, _ in pairs), tuple(a for _, a in pairs)

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
        if word in _OPS:
            return _OPS[word](self)
        cls = _FORMS.get(word)
        if cls is None:
            self.tokens.back()
            raise self.tokens.fail("an operation")
        fields: dict[str, Any] = {}
        first, *rest = parsed(cls.FORM)
        self.form((str(first)[len(word) :], *rest), cls, fields)
        op: anf.Op = cls(**fields)
        return op

    def form(self, form: Form, cls: Any, fields: dict[str, Any]) -> None:
        """Reads the pieces of a form; what stands in the places of fields goes to `fields`."""
        for piece in form:
            if isinstance(piece, Hole):
                (name,) = piece.path
                fields[name] = self.field(piece, shapes(cls)[name])
            elif isinstance(piece, Choice):
                first, *rest = piece.then
                word, *others = words(str(first))
                if self.tokens.accept(word):
                    fields[piece.field] = True  # unless a place in what follows says more
                    for other in others:
                        self.tokens.expect(other)
                    self.form(tuple(rest), cls, fields)
            else:
                for word in words(piece):
                    self.tokens.expect(word)

    def field(self, hole: Hole, shape: Shape) -> Any:
        of = shape.of if isinstance(shape, Many) else shape
        assert isinstance(of, Leaf)
        if hole.open:
            text = of.type is str
            return self.tokens.several(lambda: self.text() if text else self.part(of), hole.open, hole.close)
        return self.text() if hole.quoted else self.part(of)

    def part(self, leaf: Leaf) -> Any:
        """Reads a part of an operation by its role and type."""
        if leaf.optional and self.tokens.accept("_"):
            return None
        if leaf.role is Role.OPERAND:
            return self.var() if leaf.type is anf.Var else self.atom()
        if leaf.role is Role.SIZE:
            return self.size()
        if leaf.type is anf.Variant:
            return self.variant()
        if leaf.type is str:
            return self.name()
        return bool(self.integer()) if leaf.type is bool else self.integer()

    def op_comp(self) -> anf.Op:
        axes = () if self.tokens.peek() == ("mark", "{") else self.tokens.listed(self.axis)
        body = self.block()
        return anf.Comp(axes, body, self.tokens.listed(self.destination) if self.tokens.accept("to") else ())

    def op_for(self) -> anf.Op:
        index = self.index_var()
        self.tokens.expect("in")
        low = self.size()
        self.tokens.expect("..")
        high = self.size()
        params, init = self.state()
        early = self.tokens.accept("early")
        return anf.For(index, low, high, params, init, self.block(), early)

    def op_while(self) -> anf.Op:
        params, init = self.state()
        early = self.tokens.accept("early")
        condition = self.block()
        self.tokens.expect("do")
        return anf.While(params, init, condition, self.block(), early)

    def op_if(self) -> anf.Op:
        condition, cold, then = self.atom(), self.tokens.accept("rarely"), self.block()
        self.tokens.expect("else")
        return anf.If(condition, then, self.block(), cold=cold)

    def op_view(self) -> anf.Op:
        axes = self.tokens.listed(self.axis)
        self.tokens.expect("of")
        array = self.var()
        return anf.View(array, tuple(a.var for a in axes), tuple(a.highs[0] for a in axes), self.sizes())


_OPS: dict[str, Callable[[_Reader], anf.Op]] = {
    "comp": _Reader.op_comp,
    "for": _Reader.op_for,
    "while": _Reader.op_while,
    "if": _Reader.op_if,
    "view": _Reader.op_view,
}
"""The operations whose text has no form."""
_FORMS = {cls.FORM.split(" ")[0].split("(")[0]: cls for cls in get_args(anf.Op) if hasattr(cls, "FORM")}
