"""A loop that rescales its sums whenever an exponent is larger finds the largest exponent first, and then the sums.

    for i (l = first, s = start) {            x = [v for i]
      m = max(l, v)                           m = max(first, max(x))
      s' = s * exp(l - m) + w * exp(v - m) →  s' = start * exp(first - m) + sum(w * exp(x - m))
      yield m, s'
    }

Each iteration of the first waits for the exponential of the one before. There may be several sums, of factors w that
need nothing of the state. An iteration is followed twice, once where l is the larger and once where v is: what it
computes has to be the same sums of products of exponentials in both cases, however it branches. Where an exponent is
infinite or NaN, or the first two are both minus infinity, the loop runs as it is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.builder import Builder
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import mentioned, walk
from dlang.ir.types import dtype_of
from dlang.ops import figures
from dlang.ops.dtypes import WHOLE
from dlang.optimize.log_sums import as_written_unless_ordinary, iterations

Factors = tuple[anf.Atom, ...]
Term = tuple[int, int, Factors]
"""exp(a * l + b * v) times factors, of two exponents a and b."""
Sum = Mapping[Term, float]


def rescaled(let: anf.Let, loop: anf.For, known: Knowledge) -> list[anf.Let] | None:
    """Returns lets that replace a loop; None if its state is not a maximum and sums that are rescaled with it.

    What an iteration does may be done at a point of a comprehension.
    """
    dtypes = {dtype_of(p) if isinstance(p.type, anf.Scalar) else "" for p in loop.params}
    if len(loop.params) < 2 or len(dtypes) != 1 or not dtypes <= set(anf.FLOATS) & set(WHOLE):
        return None
    before, dependent = _independent(loop)
    if any(isinstance(v.type, anf.Array) for x in before for v in x.vars):
        return None
    for inner in loop.body.lets:
        match inner.op:
            case anf.Prim("maximum" | "lt" | "le" | "gt" | "ge", (a, b)) if (a in dependent) != (b in dependent):
                param, value = (a, b) if a in dependent else (b, a)
                if param in loop.params and isinstance(param, anf.Var):
                    sums = _sums(loop, (param, value))
                    return None if sums is None else _replacement(let, loop, before, (param, value), sums, known)
            case _:
                pass
    return None


def _independent(loop: anf.For) -> tuple[tuple[anf.Let, ...], set[anf.Atom]]:
    """The lets of an iteration that need nothing of the state, and the values that do, those of branches included."""
    dependent: set[anf.Atom] = set(loop.params)
    before: list[anf.Let] = []
    for let in loop.body.lets:
        if dependent.isdisjoint(mentioned(let.op)):
            before.append(let)
        else:
            dependent.update(v for inner in walk(anf.Block((let,), ())) for v in inner.vars)
    return tuple(before), dependent


def _sums(loop: anf.For, compared: tuple[anf.Var, anf.Atom]) -> list[Mapping[Factors, float] | None] | None:
    """The factors that each part of the state adds up, None for the maximum; None if a part is anything else."""
    l_larger, v_larger = (_Case.of(loop, compared, larger) for larger in compared)
    sums: list[Mapping[Factors, float] | None] = []
    for param, result in zip(loop.params, loop.body.results, strict=True):
        if param is compared[0]:
            if l_larger.exponents.get(result) != (1, 0) or v_larger.exponents.get(result) != (0, 1):
                return None
            sums.append(None)
            continue
        added = _added(l_larger.number(result), param, (0, 0), (-1, 1), loop.params)
        if not added or added != _added(v_larger.number(result), param, (1, -1), (0, 0), loop.params):
            return None
        sums.append(added)
    return sums


def _added(
    total: Sum | None, param: anf.Var, scaled: tuple[int, int], scale: tuple[int, int], state: Sequence[anf.Var]
) -> Mapping[Factors, float] | None:
    """The factors of an exponential `scale` in a sum that is, beside these, a parameter times an exponential."""
    if total is None or total.get((*scaled, (param,))) != 1.0:
        return None
    others = {term: f for term, f in total.items() if term != (*scaled, (param,)) and f}
    if any(term[:2] != scale or not set(term[2]).isdisjoint(state) for term in others):
        return None
    return {factors: f for (_, _, factors), f in others.items()}


@dataclass(frozen=True, slots=True)
class _Case:
    """Follows an iteration where one of a parameter l and a value v is the larger one.

    exponents: how often a value is l and how often it is v. numbers: values that are sums of products of exponentials
    and factors; None where one is anything else. holds: the comparisons of l and v.
    """

    compared: tuple[anf.Var, anf.Atom]
    larger: anf.Atom
    exponents: dict[anf.Atom, tuple[int, int]]
    numbers: dict[anf.Atom, Sum | None]
    holds: dict[anf.Atom, bool]

    @staticmethod
    def of(loop: anf.For, compared: tuple[anf.Var, anf.Atom], larger: anf.Atom) -> _Case:
        """The case in which one of both is the larger one, with the values of an iteration."""
        param, value = compared
        case = _Case(compared, larger, {param: (1, 0), value: (0, 1)}, {param: None}, {})
        case._follow(loop.body.lets, set(loop.params))
        return case

    def number(self, x: anf.Atom) -> Sum | None:
        """An atom as such a sum; what needs nothing of the state is a factor."""
        if isinstance(x, anf.Lit):
            return {(0, 0, ()): float(x.value)}
        return self.numbers.get(x, {(0, 0, (x,)): 1.0})

    def _follow(self, lets: Sequence[anf.Let], dependent: set[anf.Atom]) -> None:
        for let in lets:
            if dependent.isdisjoint(mentioned(let.op)):
                continue
            dependent.update(let.vars)
            match let.op:
                case anf.If(condition, then, otherwise) if condition in self.holds:
                    arm = then if self.holds[condition] else otherwise
                    self._follow(arm.lets, dependent)
                    for v, result in zip(let.vars, arm.results, strict=True):
                        self._is(v, result)
                case anf.Prim("select", (condition, a, b)) if condition in self.holds:
                    self._is(let.vars[0], a if self.holds[condition] else b)
                case anf.Prim("maximum", (a, b)) if {a, b} == set(self.compared):
                    self._is(let.vars[0], self.larger)
                case anf.Prim(name, args):
                    self._primitive(let.vars[0], name, args)
                case _:
                    self.numbers.update(dict.fromkeys(let.vars))

    def _is(self, v: anf.Var, x: anf.Atom) -> None:
        """Notes that a variable is another value."""
        self.numbers[v] = self.number(x)
        if x in self.exponents:
            self.exponents[v] = self.exponents[x]
        if x in self.holds:
            self.holds[v] = self.holds[x]

    def _primitive(self, v: anf.Var, name: str, args: Sequence[anf.Atom]) -> None:
        powers = [self.exponents.get(a) for a in args]
        self.numbers[v] = None
        match name, powers, args:
            case "lt" | "le" | "gt" | "ge", _, (a, b) if {a, b} == set(self.compared):
                self.holds[v] = (name in ("gt", "ge")) == (a == self.larger)
            case "not", _, (a,) if a in self.holds:
                self.holds[v] = not self.holds[a]
            case "exp", [(int() as i, int() as j)], _ if i + j == 0:
                self.numbers[v] = {(i, j, ()): 1.0}
            case "neg", [(int() as i, int() as j)], _:
                self.exponents[v] = (-i, -j)
            case "add", [(int() as i, int() as j), (int() as p, int() as q)], _:
                self.exponents[v] = (i + p, j + q)
            case "sub", [(int() as i, int() as j), (int() as p, int() as q)], _:
                self.exponents[v] = (i - p, j - q)
            case "add", _, (a, b):
                self.numbers[v] = _total(self.number(a), self.number(b))
            case "sub", _, (a, b):
                self.numbers[v] = _total(self.number(a), _product({(0, 0, ()): -1.0}, self.number(b)))
            case "mul", _, (a, b):
                self.numbers[v] = _product(self.number(a), self.number(b))
            case _:
                pass


def _total(a: Sum | None, b: Sum | None) -> Sum | None:
    if a is None or b is None or len(a) + len(b) > figures.RESCALED_TERMS:
        return None
    return {term: a.get(term, 0.0) + b.get(term, 0.0) for term in {**a, **b}}


def _product(a: Sum | None, b: Sum | None) -> Sum | None:
    if a is None or b is None or len(a) * len(b) > figures.RESCALED_TERMS:
        return None
    total: dict[Term, float] = {}
    for (i, j, xs), x in a.items():
        for (p, q, ys), y in b.items():
            term = (i + p, j + q, tuple(sorted((*xs, *ys), key=repr)))
            total[term] = total.get(term, 0.0) + x * y
    return total


def _replacement(
    let: anf.Let,
    loop: anf.For,
    before: Sequence[anf.Let],
    compared: tuple[anf.Var, anf.Atom],
    sums: Sequence[Mapping[Factors, float] | None],
    known: Knowledge,
) -> list[anf.Let]:
    b = Builder(span=let.span)
    first = loop.init[loop.params.index(compared[0])]
    dtype = dtype_of(compared[0])
    with b.scope() as replacement:
        count = iterations(b, loop, known)
        keep = anf.Reduce((count,), (anf.poly(loop.index) - loop.low,), "set")
        axis = anf.Axis(loop.index, (loop.low,), (loop.low + count,))

        def exponents_and_factors() -> tuple[anf.Atom, ...]:
            for x in before:
                b.append(x)
            return compared[1], *(_factor(b, s, dtype) for s in sums if s is not None)

        block = b.block(exponents_and_factors)
        kept = anf.Comp((axis,), block, tuple([keep] * len(block.results)))
        x, *factors = b.emit(Renaming({}, renew=True).op(kept))
        largest = b.reduce(keep.shape, lambda i: b.read(x, (i,)), "max")
        top = b.prim("maximum", first, largest)

        def at_once() -> tuple[anf.Atom, ...]:
            def terms(i: anf.Var) -> tuple[anf.Atom, ...]:
                share = b.prim("exp", b.sub(b.read(x, (i,)), top))
                return tuple([b.mul(share, b.read(f, (i,))) for f in factors])

            added = iter(b.comp(keep.shape, terms, [anf.Reduce((), (), "sum")] * len(factors)))
            scale = b.prim("exp", b.sub(first, top))
            return tuple(
                [
                    top if s is None else b.add(b.mul(start, scale), next(added))
                    for s, start in zip(sums, loop.init, strict=True)
                ]
            )

        as_written_unless_ordinary(b, let, loop, (first, x, top), at_once)
    return replacement


def _factor(b: Builder, added: Mapping[Factors, float], dtype: str) -> anf.Atom:
    """Emits a sum of products."""
    total: anf.Atom | None = None
    for factors, times in added.items():
        product: anf.Atom = anf.Lit(times, dtype)
        for factor in factors:
            product = factor if product == anf.Lit(1.0, dtype) else b.mul(product, factor)
        total = product if total is None else b.add(total, product)
    assert total is not None
    return total
