"""The textual form of a program: for a person, for golden files, and for `reader` to read back.

    fn dot(n.0: i64, x.1: f64[n.0], y.2: f64[n.0]) -> (s.3: f64) {
      s.4: f64 = comp i.5 in 0..n.0 {
        t.6: f64 = read x.1[i.5]  # dot.dl:1:23
        u.7: f64 = read y.2[i.5]
        v.8: f64 = mul(t.6, u.7)
        yield v.8
      } to keep [] [] sum
      yield s.4
    }

Variables are numbered in each function in the order in which they appear, so equal programs print equally.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.forms import BOUNDS, Hole, written
from dlang.polynomials import Poly

_WORD = re.compile(r"[^\W\d]\w*\Z")


def print_program(program: anf.Program) -> str:
    """The text of a program."""
    datatypes = "".join(map(print_datatype, program.datatypes.values()))
    functions = "\n".join(map(print_function, program.functions.values()))
    return f"{datatypes}\n{functions}" if datatypes else functions


def print_datatype(datatype: anf.Datatype) -> str:
    """The text of a datatype."""
    label = f" {quoted(datatype.label)}" if datatype.label else ""
    variants = []
    for variant in datatype.variants:
        variants.append(f"{name_text(variant.name)}({Printer().bindings(variant.fields)})")
    return f"data {quoted(datatype.name)}{label} {{ {', '.join(variants)} }}\n"


def print_function(function: anf.Function) -> str:
    """The text of a function."""
    return "\n".join(Printer.of(function).lines) + "\n"


def print_let(let: anf.Let) -> str:
    """The text of a let, for messages; its variables are numbered on their own."""
    printer = Printer()
    printer.let(let)
    return "\n".join(printer.lines)


def written_sizes(params: Sequence[anf.Var]) -> tuple[str, Callable[[anf.Size], str]]:
    """The text of parameters, and how sizes are written in terms of them."""
    printer = Printer()
    return printer.bindings(tuple(params)), printer.size


class FormPrinter:
    """Writes operations of either IR by their forms; variables are numbered as they come.

    since: the variables that another has written keep the names that they have there.
    """

    def __init__(self, since: FormPrinter | None = None) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.names: dict[object, str] = {} if since is None else since.names
        self.numbers: dict[object, int] = {} if since is None else since.numbers

    def line(self, text: str, span: Span | None = None) -> None:
        comment = "" if span is None else f"  # {span!r}"
        self.lines.append("  " * self.depth + text + comment)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Lines that are written meanwhile are those of a block."""
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """The list of the lines that are written meanwhile, which are part of an operation."""
        around, self.lines = self.lines, []
        yield self.lines
        self.lines = around

    def in_braces(self, lines: Sequence[str]) -> str:
        return "\n".join(["{", *lines, "  " * self.depth + "}"])

    # ---- small parts -------------------------------------------------------------------------------------------------
    def named(self, thing: object, name: str, serial: int, mark: str = "") -> str:
        """The text of a variable, or of what else has a name and a serial number, that has none yet."""
        number = self.numbers[thing] = len(self.numbers)
        name = re.sub(r"[^\w']", "_", name)
        self.names[thing] = f"{mark}{name if name[:1].isalpha() or name[:1] == '_' else '_' + name}.{number}"
        return self.names[thing]

    def var(self, var: anf.Var) -> str:
        return self.names.get(var) or self.named(var, var.name, var.serial)

    def atom(self, atom: anf.Atom) -> str:
        return self.var(atom) if isinstance(atom, anf.Var) else _literal(atom)

    def size(self, size: anf.Size) -> str:
        for m in sorted(size.terms, key=lambda m: (-len(m), [a.serial for a in m])):
            for a in m:
                self.var(a)
        number = self.numbers
        terms = [(tuple(sorted(m, key=number.__getitem__)), c) for m, c in size.terms.items()]
        out = ""
        for m, c in sorted(terms, key=lambda mc: (-len(mc[0]), [number[a] for a in mc[0]])):
            factors = [self.names[a] for a in m]
            if abs(c) != 1 or not m:
                factors.insert(0, str(abs(c)))
            sign = ("-" if c < 0 else "") if not out else (" - " if c < 0 else " + ")
            out += sign + "*".join(factors)
        return out or "0"

    def sizes(self, sizes: Iterable[anf.Size]) -> str:
        return "[" + ", ".join([self.size(s) for s in sizes]) + "]"

    def type(self, type: anf.Type) -> str:
        match type:
            case anf.Token():
                return "token"
            case anf.Array(dtype, shape):
                return self.dtype(dtype) + self.sizes(shape)
            case _:
                return self.dtype(type.dtype)

    def dtype(self, dtype: str) -> str:
        return quoted(dtype) if anf.is_handle(dtype) else dtype

    def binding(self, bound: object) -> str:
        """The text of what is bound, with its type."""
        assert isinstance(bound, anf.Var)
        type = self.type(bound.type)
        return f"{self.var(bound)}: {type}"

    def bindings(self, bound: Iterable[object]) -> str:
        return ", ".join([self.binding(x) for x in bound])

    # ---- operations --------------------------------------------------------------------------------------------------
    def field(self, hole: Hole, value: object) -> str:
        """The text of what an operation holds."""
        if hole.quoted:
            return quoted(str(value))
        if hole.how == "assign":
            return "=" if value == "set" else f"{value}="
        if not isinstance(value, tuple):
            return f"{hole.open}{self.part(value, hole)}{hole.close}"
        parts = [quoted(v) if isinstance(v, str) else self.part(v, hole) for v in value]
        text = ", ".join(parts)
        return f"{hole.how}({text})" if hole.how in BOUNDS and len(parts) > 1 else f"{hole.open}{text}{hole.close}"

    def part(self, value: object, hole: Hole) -> str:
        match value:
            case None:
                return "_"
            case anf.Var():
                return self.binding(value) if hole.how == "typed" else self.var(value)
            case anf.Lit():
                return _literal(value)
            case Poly():
                return self.size(value)
            case str():
                return name_text(value)
            case int():
                return str(int(value))  # of a truth value, too
            case _:
                raise AssertionError(f"{type(value).__name__} in an operation")


class Printer(FormPrinter):
    """Writes programs of the core IR, or parts of one function."""

    @classmethod
    def of(cls, function: anf.Function, since: Printer | None = None) -> Printer:
        """One that has written a function: what it writes then names its variables as its text does."""
        printer = cls(since)
        params = printer.bindings(function.params)
        results = printer.bindings(function.results)
        label = f" {quoted(function.label)}" if function.label != function.name else ""
        rules = f" {_rules(function.rules)}" if function.rules is not None else ""
        pairs = ", ".join([f"{j} {k}" for j, k in function.continues])
        continues = f" continues ({pairs})" if pairs else ""
        consumes = f" consumes ({', '.join(map(str, function.consumes))})" if function.consumes else ""
        named = ", ".join([printer.var(p) for p in function.params if p in function.sizes])
        sizes = f" sizes ({named})" if named else ""
        head = f"fn {name_text(function.name)}{label}({params}) -> ({results}){rules}{continues}{consumes}{sizes} {{"
        printer.line(head, function.span)
        printer.block(function.body)
        printer.line("}")
        return printer

    def block(self, block: anf.Block) -> None:
        with self.indented():
            for let in block.lets:
                self.let(let)
            results = ", ".join([self.atom(r) for r in block.results])
            self.line(f"yield {results}" if results else "yield")

    def let(self, let: anf.Let) -> None:
        binds = self.bindings(let.vars)
        head, *more_lines = ((f"{binds} = " if let.vars else "") + self.op(let.op)).split("\n")
        self.line(head, let.span)
        self.lines += more_lines

    def op(self, op: anf.Op | anf.Axis | anf.Destination) -> str:
        """The text of an operation, or of a part of a comprehension."""
        return written(op.FORM, op, self.field)

    def part(self, value: object, hole: Hole) -> str:
        match value:
            case anf.Variant(datatype, tag):
                return f"{quoted(datatype)} {tag}"
            case anf.Block():
                with self.apart() as lines:
                    self.block(value)
                return self.in_braces(lines)
            case anf.Axis() | anf.Reduce() | anf.ScatterAdd():
                return self.op(value)
            case _:
                return super().part(value, hole)


def _rules(rules: anf.Rules) -> str:
    named = [("pullback", rules.pullback), ("pushforward", rules.pushforward)]
    words = [f"{kind} {name_text(name)}" for kind, name in named if name is not None]
    return " ".join([f"wrt {_numbers(rules.wrt)}", *words, *(["checkpoint"] if rules.checkpoint else [])])


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _numbers(numbers: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, numbers)) + ")"


def name_text(name: str) -> str:
    return name if _WORD.match(name) else quoted(name)


def _literal(lit: anf.Lit) -> str:
    match lit.dtype:
        case "str":
            return quoted(str(lit.value))
        case "bool":
            return "true" if lit.value else "false"
        case dtype if dtype in anf.FLOATS:
            return repr(float(lit.value)) + ("" if dtype == "f64" else dtype)
        case dtype if anf.is_handle(dtype):
            return f"null {quoted(dtype)}"
        case dtype:
            return str(int(lit.value)) + ("" if dtype == "i64" else dtype)
