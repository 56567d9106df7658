"""An axis by whose quotients and remainders elements are read is two axes.

    comp i, c in 0..h * e { p[c // e, i] * v[i, c] }   →   comp i, g in 0..h, r in 0..e { p[g, i] * v[i, e * g + r] }

So what is written with one index for heads and their columns, for blocks, or for an image and a smaller one that it
repeats, reads by axes alone: it needs no check, is fused and differentiated without scatters, and its products are
found. The divisor has to be the same at all points, and to divide the size of the axis; a remainder of a quotient is
split in turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.rewriting import Rewriter
from dlang.ir.sizes import learn
from dlang.ir.traverse import map_functions, op_blocks, parts, walk, with_body
from dlang.ir.types import I64
from dlang.polynomials import Poly


def split_axes(program: anf.Program) -> anf.Program:
    """The program with two axes for each that is divided."""
    return map_functions(program, _function)


def _function(f: anf.Function) -> anf.Function:
    while (found := _found(f)).halves or found.digits:
        f = with_body(f, _Splitter(found).block(f.body))
    return f


@dataclass(frozen=True, slots=True)
class _Halves:
    """The axes for one that a number divides: quotients 0 <= outer < size and remainders 0 <= inner < by."""

    by: anf.Size
    size: anf.Size
    outer: anf.Var
    inner: anf.Var

    @property
    def place(self) -> anf.Size:
        return self.by * anf.poly(self.outer) + anf.poly(self.inner)


@dataclass(frozen=True, slots=True)
class _Found:
    """The divisions of a function that need not be there.

    halves: of the axes that can be split. digits: the results of divisions of numbers of which an axis is the last
    digit. sizes: the numbers that are polynomials.
    """

    halves: dict[anf.Var, _Halves]
    digits: dict[anf.Var, anf.Size]
    sizes: dict[anf.Var, anf.Size]


def _found(f: anf.Function) -> _Found:
    sizes: dict[anf.Var, anf.Size] = {}
    digits: dict[anf.Var, anf.Size] = {}
    known = Knowledge.of(f)
    ends: dict[anf.Var, anf.Size] = {}
    divisors: dict[anf.Var, list[anf.Size]] = {}
    for let in walk(f.body):
        learn(let, sizes)
        match let.op:
            case anf.Prim("floordiv" | "mod" as name, (x, y)) if x.type == I64:
                number, by = (anf.poly(a).substitute(sizes.get) for a in (x, y))
                if number.atom in ends:
                    divisors.setdefault(number.atom, []).append(by)
                elif (last := next((v for v in number.atoms() if v in ends and ends[v] == by), None)) is not None:
                    if (times := _quotient(number - anf.poly(last), by)) is not None:
                        digits[let.vars[0]] = times if name == "floordiv" else anf.poly(last)
                if name == "floordiv" and isinstance(y, anf.Lit) and by != 0 and known.at_least_zero(number * by):
                    known.facts.size(let.vars[0])
            case anf.Comp(axes, body) if not any(isinstance(r.type, anf.Array) for r in body.results):
                for axis in axes:
                    if axis.lows == (anf.ZERO,) and len(axis.highs) == 1:
                        ends[axis.var] = axis.highs[0].substitute(sizes.get)
            case _:
                pass
    halves = {}
    for var, all_divisors in divisors.items():
        fits = [by for by in all_divisors if by != ends[var] and known.at_least_zero(by)]
        fits = [by for by in fits if _quotient(ends[var], by) is not None]
        if fits:  # by the one that divides others first: the remainders of its quotients are split then
            by = max(fits, key=lambda by: sum(_quotient(other, by) is not None for other in fits))
            size = _quotient(ends[var], by)
            assert size is not None
            halves[var] = _Halves(by, size, anf.fresh("quotient", I64), anf.fresh("remainder", I64))
    return _Found(halves, digits, sizes)


def _quotient(size: anf.Size, by: anf.Size) -> anf.Size | None:
    """A size divided by one that has a single term; None if that leaves a rest, or is not known to be exact."""
    if len(by.terms) != 1 or by == 1:
        return None
    ((divisor, factor),) = by.terms.items()
    out = {}
    for monomial, c in size.terms.items():
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % factor:
            return None
        out[tuple(rest)] = c // factor
    return Poly(out)


class _Splitter(Rewriter):
    """Replaces axes by their halves, and the results of divisions. An axis that is an operand is computed of these."""

    def __init__(self, found: _Found) -> None:
        super().__init__({var: h.place for var, h in found.halves.items()})
        self.halves, self.digits, self.sizes = found.halves, found.digits, found.sizes

    def atom(self, atom: anf.Atom) -> anf.Atom:
        return atom if atom in self.halves else super().atom(atom)

    def rule(self, let: anf.Let) -> None:
        match let.op:
            case anf.Prim() if (digit := self.digits.get(let.vars[0])) is not None:
                self.replaced(let, self.size(digit))
            case anf.Prim("floordiv" | "mod" as name, (x, y)) if x.type == I64:
                number = anf.poly(x).substitute(self.sizes.get).atom
                halves = None if number is None else self.halves.get(number)
                times = None if halves is None else _times(anf.poly(y).substitute(self.sizes.get), halves.by)
                if halves is None or times is None:
                    self.write(self.let(let))
                else:
                    self.divided(let, name == "floordiv", halves, times)
            case anf.Comp() as op:
                new = self.op(op)
                assert isinstance(new, anf.Comp)
                axes: list[anf.Axis] = []
                for axis in new.axes:
                    if (halves := self.halves.get(axis.var)) is None:
                        axes.append(axis)
                    else:
                        axes += [_axis(halves.outer, halves.size), _axis(halves.inner, halves.by)]
                body = self.with_operands(new.body, [a.var for a in new.axes])
                self.keep(let, anf.Comp(tuple(axes), body, new.destinations))
            case _:
                self.write(self.let(let))

    def divided(self, let: anf.Let, is_quotient: bool, halves: _Halves, times: anf.Size) -> None:
        """Replaces the quotient, or the remainder, of an axis by so many times what its halves are divided by."""
        number = anf.poly(halves.outer if is_quotient else 0)
        if times != 1:
            divisor = self.emit(anf.IndexExpr(times), I64, "n", let.span)
            name = "floordiv" if is_quotient else "mod"
            number = anf.poly(self.emit(anf.Prim(name, (halves.outer, divisor)), I64, "t", let.span))
        self.replaced(let, number if is_quotient else halves.by * number + anf.poly(halves.inner))

    def replaced(self, let: anf.Let, number: anf.Size) -> None:
        """Puts a number in the place of what a let binds."""
        self.env[let.vars[0]] = number.atom or self.emit(anf.IndexExpr(number), I64, "t", let.span)

    def with_operands(self, body: anf.Block, axes: list[anf.Var]) -> anf.Block:
        """A body that computes the axes that are operands in it."""
        split = [var for var in axes if var in self.halves]
        if not split:
            return body
        used = {*body.results}
        for let in walk(body):
            used.update(parts(let.op).atoms, *[inner.results for inner in op_blocks(let.op)])
        lets = [anf.Let((var,), anf.IndexExpr(self.halves[var].place)) for var in split if var in used]
        return anf.Block((*lets, *body.lets), body.results)


def _axis(var: anf.Var, size: anf.Size) -> anf.Axis:
    return anf.Axis(var, (anf.ZERO,), (size,))


def _times(size: anf.Size, by: anf.Size) -> anf.Size | None:
    """By what a divisor is a multiple of the one that an axis is split by; None if it is none."""
    return anf.poly(1) if size == by else _quotient(size, by)
