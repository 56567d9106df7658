"""The lines of a function while it is written: instructions, labels and places; text is made of them at the end.

An instruction that may be joined with others is an object with its operands. Any other is text already.

Products and the sums that they are for as one operation, a · b + c rounded once, where the processor has it.

LLVM would fuse what has the flag `contract` at some levels of its code generator and not at others. Here the text
decides: when a function is complete, a product that is used once, in a sum or difference of its basic block, becomes
part of it. There are no flags, so LLVM changes the bits of nothing, whatever it is asked for. The rule is that of
LLVM's code generator, and loops are as short as those that it makes.

Terms that may be added in any order are marked as such; the lanes of a total are added by halves, in the text too. So
level 0 of LLVM gives the bits of level 2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dlang.diagnostics import Span

TERM = "m"
"""The stem of the names of what `Arithmetic` gives, whose uses are counted."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """result = x + y, x - y, x · y or -x of floats: `add`, `sub`, `mul` or `neg`.

    suffix: what names the type in intrinsics. any_order: whether it is a term of a reduction, whose terms may be added
    in any order.
    """

    result: str
    operation: str
    type: str
    suffix: str
    operands: tuple[str, ...]
    any_order: bool = False

    def __str__(self) -> str:
        return f"  {self.result} = f{self.operation} {self.type} {', '.join(self.operands)}"


@dataclass(frozen=True, slots=True)
class Label:
    """The beginning of a block; whole: of one in the midst of what is one block but for this, the only way in."""

    name: str
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.name}:"


@dataclass(frozen=True, slots=True)
class Place:
    """The place in the source of the lines that follow; it has no text."""

    span: Span


Line = str | Arithmetic | Label | Place


def joined(lines: Iterable[Line]) -> str:
    """The text of lines."""
    return "\n".join([str(line) for line in lines if not isinstance(line, Place)])


# ---- products with sums ----------------------------------------------------------------------------------------------
_TERM = re.compile(rf"%{TERM}\d+")
_ZERO = "0x8000000000000000"  # -0.0, which a sum with it is without
_NOTHING = frozenset({_ZERO, f"splat (double {_ZERO})", f"splat (float {_ZERO})"})


@dataclass(frozen=True, slots=True)
class _Product:
    x: str
    y: str
    negated: bool


@dataclass(frozen=True, slots=True)
class _Products:
    """A value whose one use has not been met, and which is a sum of products. lines: where it is computed."""

    lines: tuple[int, ...]
    terms: tuple[_Product, ...]

    def times(self, negated: bool) -> tuple[_Product, ...]:
        return tuple([replace(t, negated=t.negated != negated) for t in self.terms])


@dataclass(slots=True)
class _Fusion:
    """The lines of a function so far. uses: of each term. types: of what has been fused, with their intrinsics."""

    uses: Counter[str]
    lines: list[Line | None] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    ready: dict[str, _Products] = field(default_factory=dict)

    def operation(self, op: Arithmetic) -> None:
        begin = len(self.lines)
        products: _Products | None = None
        match op.operation, op.operands:
            case "mul", (x, y):
                products = _Products((begin,), (_Product(x, y, False),))
            case "neg", (x,):
                if x in self.ready:
                    products = _Products((*self.ready[x].lines, begin), self.ready[x].times(True))
            case _, (x, y):
                fused = self.sum(op, x, y, op.operation == "sub")
                if fused is not None:
                    if self.uses[op.result] == 1 and fused.terms:
                        self.ready[op.result] = replace(fused, lines=(*fused.lines, *range(begin, len(self.lines))))
                    return
        if products is not None and self.uses[op.result] == 1:
            self.ready[op.result] = products
        self.lines.append(op)

    def sum(self, op: Arithmetic, x: str, y: str, subtracts: bool) -> _Products | None:
        """Writes x ± y with a product in it, if that can be; gives what the whole then is, if it is only products."""
        first, second = self.ready.get(x), self.ready.get(y)
        for products, other, addend, is_second in ((first, second, y, False), (second, first, x, True)):
            if products is None or (len(products.terms) > 1 and not op.any_order) or addend in _NOTHING:
                continue
            for k in products.lines:
                self.lines[k] = None
            terms = products.times(subtracts and is_second)
            self.write(op, terms, addend, subtracts and not is_second)
            if other is None:
                return _Products((), ())
            return _Products(other.lines, (*terms, *other.times(subtracts and not is_second)))
        return None

    def write(self, op: Arithmetic, terms: Sequence[_Product], addend: str, subtracted: bool) -> None:
        """The sum of products and a rest, of which the rest may be subtracted."""
        name, type, intrinsic = op.result, op.type, f"llvm.fma.{op.suffix}"
        self.types[type] = intrinsic
        if subtracted:
            self.lines.append(f"  {name}.r = fneg {type} {addend}")
            addend = f"{name}.r"
        for k, term in reversed(list(enumerate(terms))):
            x, result = term.x, f"{name}.{k}" if k else name
            if term.negated:
                self.lines.append(f"  {result}.x = fneg {type} {x}")
                x = f"{result}.x"
            self.lines.append(f"  {result} = call {type} @{intrinsic}({type} {x}, {type} {term.y}, {type} {addend})")
            addend = result


def fused(lines: Sequence[Line], fuses: bool) -> tuple[list[Line], dict[str, str]]:
    """The lines of a function, and the types of which operations have been fused, if that is wanted, with intrinsics.

    Of two products in a sum the first is fused; the other is computed alone. The terms of a reduction may be added in
    any order, so there a sum of products becomes as many operations as it has products.
    """
    operations = [line for line in lines if isinstance(line, Arithmetic)]
    if not fuses or not operations:
        return list(lines), {}
    work = _Fusion(Counter(_TERM.findall("\n".join([line for line in lines if isinstance(line, str)]))))
    for op in operations:
        work.uses.update(op.operands)
    for line in lines:
        match line:
            case Arithmetic():
                work.operation(line)
                continue
            case Label(whole=False):
                work.ready.clear()
            case _:
                pass
        work.lines.append(line)
    return [line for line in work.lines if line is not None], work.types
