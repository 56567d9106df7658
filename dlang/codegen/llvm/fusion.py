"""Products and the sums that they are for as one operation, a · b + c rounded once, where the processor has it.

LLVM would fuse what has the flag `contract` at some levels of its code generator and not at others. Here the text
decides: what may be fused is written with that flag, and when a function is complete, a product that is used once, in
a sum or difference of its basic block, becomes part of it. No flag is left, so LLVM changes the bits of nothing,
whatever it is asked for. The rule is that of LLVM's code generator, and loops are as short as those that it makes.

Terms that may be added in any order have `reassoc` until then; the lanes of a total are added by halves, in the text
too. So level 0 of LLVM gives the bits of level 2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

TERM = "m"
"""The stem of the names of products, sums and negatives, whose uses are counted."""

WHOLE = "whole"
"""The stem of labels that stand in the midst of what is one block but for them: the only way there is from above."""

_TERM = re.compile(rf"%{TERM}\d+")
_OPERAND = r"splat \([^)]*\)|[^\s,]+"
_MARKED = re.compile(
    r"  (?P<name>%\S+) = f(?P<operation>add|sub|mul|neg) (?P<order>reassoc )?contract (?P<type><\d+ x \w+>|\w+) "
    rf"(?P<x>{_OPERAND})(?:, (?P<y>{_OPERAND}))?"
)
_NOTHING = re.compile(r"(?:splat \(\w+ )?0x80{15}\)?")  # -0.0, which a sum with it is without
_FLAGS = re.compile(" (?:reassoc )?contract ")


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
    """The lines of a function so far. uses: of each term, with the place where it is computed."""

    uses: Counter[str]
    lines: list[str | None] = field(default_factory=list)
    types: set[str] = field(default_factory=set)
    ready: dict[str, _Products] = field(default_factory=dict)

    def operation(self, line: str) -> None:
        """A line with the flag."""
        found = _MARKED.fullmatch(line)
        if found is None:
            raise AssertionError(f"not an operation on floats: {line}")
        operation, name, type, x, y = found.group("operation", "name", "type", "x", "y")
        any_order = found["order"] is not None
        begin = len(self.lines)
        made: _Products | None = None
        match operation:
            case "mul":
                made = _Products((begin,), (_Product(x, y, False),))
            case "neg":
                if x in self.ready:
                    made = _Products((*self.ready[x].lines, begin), self.ready[x].times(True))
            case _:
                fused = self.sum(name, type, x, y, operation == "sub", any_order)
                if fused is not None:
                    if self.uses[name] == 2 and fused.terms:
                        self.ready[name] = replace(fused, lines=(*fused.lines, *range(begin, len(self.lines))))
                    return
        if made is not None and self.uses[name] == 2:
            self.ready[name] = made
        self.lines.append(plain(line))

    def sum(self, name: str, type: str, x: str, y: str, subtracts: bool, any_order: bool) -> _Products | None:
        """Writes x ± y with a product in it, if that can be; gives what the whole then is, if it is only products."""
        first, second = self.ready.get(x), self.ready.get(y)
        for own, other, rest, is_second in ((first, second, y, False), (second, first, x, True)):
            if own is None or (len(own.terms) > 1 and not any_order) or _NOTHING.fullmatch(rest):
                continue
            for k in own.lines:
                self.lines[k] = None
            terms = own.times(subtracts and is_second)
            self.write(name, type, terms, rest, subtracts and not is_second)
            if other is None:
                return _Products((), ())
            return _Products(other.lines, (*terms, *other.times(subtracts and not is_second)))
        return None

    def write(self, name: str, type: str, terms: Sequence[_Product], rest: str, subtracted: bool) -> None:
        """The sum of products and a rest, of which the rest may be subtracted."""
        self.types.add(type)
        if subtracted:
            self.lines.append(f"  {name}.r = fneg {type} {rest}")
            rest = f"{name}.r"
        for k, term in reversed(list(enumerate(terms))):
            x, result = term.x, f"{name}.{k}" if k else name
            if term.negated:
                self.lines.append(f"  {result}.x = fneg {type} {x}")
                x = f"{result}.x"
            self.lines.append(f"  {result} = call {type} @{symbol(type)}({type} {x}, {type} {term.y}, {type} {rest})")
            rest = result


def fused(text: Sequence[str], fuses: bool) -> tuple[list[str], set[str]]:
    """The lines of a function without flags, and the types of which operations have been fused, if that is wanted.

    Of two products in a sum the first is fused; the other is computed alone. The terms of a reduction may be added in
    any order (`reassoc`), so there a sum of products becomes as many operations as it has products.
    """
    if not fuses:
        return [plain(line) for line in text], set()
    whole = "\n".join(text)
    if " contract " not in whole:
        return list(text), set()
    work = _Fusion(Counter(_TERM.findall(whole)))
    for line in whole.split("\n"):
        if " contract " in line:
            work.operation(line)
            continue
        if line.endswith(":") and not line.startswith(WHOLE):
            work.ready.clear()
        work.lines.append(line)
    return [line for line in work.lines if line is not None], work.types


def plain(line: str) -> str:
    """A line without flags."""
    return _FLAGS.sub(" ", line, count=1) if " contract " in line else line


def symbol(type: str) -> str:
    """The intrinsic of a type."""
    count, _, scalar = type.strip("<>").rpartition(" x ")
    return f"llvm.fma.{'v' + count if count else ''}{'f64' if scalar == 'double' else 'f32'}"
