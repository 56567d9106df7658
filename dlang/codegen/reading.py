"""Reads the text of the loop-nest IR that `printing` writes, by the same forms.

Comments are skipped, and with them the places in a source that statements come from. A program of a device, or one that
measures itself, is not read: its kernels, and the nests that it measures, are no part of its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, get_args

from dlang.codegen import loops
from dlang.ir import anf
from dlang.ir.forms import Choice, Form, Hole, parsed
from dlang.ir.reader import FormReader, words
from dlang.ir.roles import Leaf, Many, Record, Role, Shape, shapes
from dlang.ops.primitives import PRIMITIVES


def read_program(text: str) -> loops.Program:
    """The program that a text of `print_program` stands for; raises IRError, with the line, if it is none."""
    reader = _LoopReader(text)
    functions = []
    while not reader.tokens.done():
        functions.append(reader.function())
    return loops.Program({f.name: f for f in functions})


UNREAD = (
    loops.Launch, loops.Only, loops.OnDevice, loops.OnHost, loops.Hold, loops.Fetch, loops.Transfer,
    loops.Enter, loops.Leave, loops.Count, loops.At,
)  # fmt: skip
"""The statements that are not read: those for a device and of a profile, and the comments."""


@dataclass(frozen=True, slots=True)
class Start:
    """How the text of a statement begins. bound: the field of what stands before the `=`, if any; rest: its form then.

    word: the first of the rest; or `name`, `buffer` or `size`, where the place of a field comes first.
    """

    cls: Any
    bound: str | None
    word: str
    rest: Form


def _start(cls: Any) -> Start:
    form, bound = parsed(cls.FORM), None
    match form:
        case (Choice(field=field, then=(Hole(how="typed"), _)), *rest):
            bound, form = field, tuple(rest)
        case (Hole(path=(field,)), str(equals), *rest) if equals.startswith(" ="):
            bound, form = field, (equals.removeprefix(" ="), *rest)
    first = form[0] if str(form[0]).strip() else form[1]
    if not isinstance(first, Hole):
        return Start(cls, bound, words(str(first))[0], form)
    shape = shapes(cls)[first.path[0]]
    assert isinstance(shape, Leaf)
    return Start(cls, bound, {Role.STATIC: "name", Role.SIZE: "size"}.get(shape.role, "buffer"), form)


@cache
def starts() -> Mapping[tuple[bool, str], Start]:
    """The statements by how they begin, and whether they bind something before that."""
    listed: dict[tuple[bool, str], Start] = {}
    for cls in get_args(loops.Stmt):
        if cls in UNREAD:
            continue
        start = _start(cls)
        for binds in (True, False) if isinstance(parsed(cls.FORM)[0], Choice) else (start.bound is not None,):
            assert (binds, start.word) not in listed, f"two statements begin with {start.word}"
            listed[binds, start.word] = start
    return listed


class _LoopReader(FormReader):
    def function(self) -> loops.Function:
        self.vars = {}
        self.tokens.expect("fn")
        name = self.name()
        label = self.text() if self.tokens.peek()[0] == "text" else name
        params = self.tokens.several(self.param)
        self.tokens.expect("->")
        outs = self.tokens.several(lambda: loops.ArrayValue(self.binding(), self.sizes()))
        self.tokens.expect("order")
        order = self.tokens.several(self.entry)
        recursive, device = self.tokens.accept("recursive"), self.tokens.accept("device")
        slots, extents = tuple([slot for slot, _ in params]), tuple([extent for _, extent in params])
        return loops.Function(name, slots, outs, self.body(), order, recursive, label, None, device, extents)

    def param(self) -> tuple[loops.Slot, anf.Size | None]:
        """Reads a parameter, and how many elements it has if it is an array."""
        slot = self.binding()
        if not self.tokens.accept("["):
            return slot, None
        extent = self.size()
        self.tokens.expect("]")
        return slot, extent

    def entry(self) -> tuple[str, int] | None:
        """Reads where a result of the core IR is."""
        if self.tokens.accept("_"):
            return None
        for kind in ("out", "result"):
            if self.tokens.accept(kind):
                return kind, self.integer()
        raise self.tokens.fail("`out`, `result` or `_`")

    # ---- statements --------------------------------------------------------------------------------------------------
    def body(self) -> loops.Body:
        self.tokens.expect("{")
        stmts = []
        while self.tokens.peek() not in (("mark", "}"), ("word", "yield")):
            stmts.append(self.statement())
        results = self.tokens.listed(self.value) if self.tokens.accept("yield") else ()
        self.tokens.expect("}")
        return loops.Body(tuple(stmts), results)

    def statement(self) -> loops.Stmt:
        binds = self.tokens.listed(self.binding) if self.tokens.binds() else ()
        if binds:
            self.tokens.expect("=")
        kind, text = self.tokens.peek()
        listed = starts()
        start = listed.get((bool(binds), text)) if kind == "word" else None
        if start is None:
            word = "buffer" if kind == "buffer" else "name" if text in PRIMITIVES else "size"
            start = listed.get((bool(binds), word))
        if start is None or (kind == "word" and start.word == "size"):
            raise self.tokens.fail("a statement")
        before: dict[str, object] = {}
        if start.bound is not None:
            many = isinstance(shapes(start.cls)[start.bound], Many)
            if len(binds) > 1 and not many:
                raise self.tokens.fail("a statement with several results")
            if binds or many:
                before[start.bound] = binds if many else binds[0]
        stmt: loops.Stmt = self.fields(start.cls, start.rest, before)
        return stmt

    # ---- parts -------------------------------------------------------------------------------------------------------
    def value(self) -> loops.Value:
        return self.buffer() if self.tokens.peek()[0] == "buffer" else self.atom()

    def buffer(self) -> loops.Buffer:
        buffer: loops.Buffer = self.var("buffer")
        return buffer

    def binding(self) -> Any:
        if self.tokens.peek()[0] != "buffer":
            return super().binding()
        printed = self.tokens.take("buffer")
        dtype = self.dtype() if self.tokens.accept(":") else ""  # then it comes behind
        self.vars[printed] = buffer = loops.Buffer(printed[1:].rpartition(".")[0], dtype)
        return buffer

    def form(self, form: Form, cls: Any, fields: dict[str, Any]) -> None:
        for piece in form:
            match piece:
                case Hole((name, "dtype")):
                    fields[name].dtype = self.dtype()
                case _:
                    super().form((piece,), cls, fields)

    def part(self, shape: Shape, hole: Hole) -> Any:
        match shape:
            case Leaf(role=Role.RESULT):
                return self.binding()
            case Leaf(role=Role.BLOCK):
                return self.body().stmts
            case Leaf(role=Role.OPERAND, type=anf.Var):
                return self.var()
            case Leaf(role=Role.OPERAND, type=loops.Buffer) | Leaf(role=Role.HINT, type=None):
                return self.buffer()
            case Leaf(role=Role.OPERAND):
                return self.value()
            case _:
                return super().part(shape, hole)

    def record(self, shape: Record, hole: Hole) -> Any:
        classes: Sequence[Any] = shape.classes
        if classes == (loops.Body,):
            return self.body()
        ways = [partial(self.part_of, cls) for cls in classes]
        if shape.otherwise is not None:
            ways.append(partial(self.part, shape.otherwise, hole))
        return self.tokens.any_of(ways)

    def part_of(self, cls: Any) -> Any:
        """Reads a part by its form, what it binds included."""
        return self.fields(cls, parsed(cls.FORM), {})
