"""Local Jacobians: what an iteration of a loop does to a tangent or cotangent is found before it is applied.

A scalar that a loop carries and that only linear operations touch waits for its last value, and each operation on it
makes the next iteration wait longer. What it is multiplied with waits for nothing:

    (x̄ · a) · b - x̄ · c     becomes     x̄ · (a · b - c)

Each value that is linear in such scalars is written as a sum of them, each times an entry of a Jacobian, and of a rest.
That is done where it takes no more operations than there were. Only products marked as those of derivatives
(`zero_safe_mul`) are changed: a program's own arithmetic stays in the order in which it is written.

The products that come out have no guards. What these would have kept out is infinite or NaN, and sums and products hand
that on to the end of the loop, where it is found: then the loop runs again as it was. So this is for loops with a state
of scalars, in which what depends on such products meets nothing but sums, products and choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import refresh
from dlang.ir.traverse import free_vars, map_bodies, used_by, walk
from dlang.ir.types import BOOL, dtype_of, is_float
from dlang.ops.primitives import GUARDS


def jacobians(program: anf.Program) -> anf.Program:
    """The program with the linear parts of its loops in terms of local Jacobians."""

    def body(block: anf.Block) -> anf.Block:
        guarded = any(isinstance(let.op, anf.Prim) and let.op.name in GUARDS for let in walk(block))
        return _Linearizer().block(block) if guarded else block

    return map_bodies(program, body)


class _Linearizer(Rewriter):
    """The walk of a function."""

    def rule(self, let: anf.Let) -> None:
        op = let.op
        if isinstance(op, anf.Comp):
            self.write(let)  # many loops run at a time, so that none of them waits; and a branch would keep them apart
        elif isinstance(op, anf.For | anf.While) and (quick := _quick(op)) is not None:
            for part in _tried(let, op, *quick):
                self.write(part)
        else:
            super().rule(let)


def carries_scalars(op: anf.For | anf.While) -> bool:
    """Tells whether the state of a loop is only numbers: then this pass wants to see the guards in its body."""
    return all(isinstance(p.type, anf.Scalar) and not anf.is_handle(p.type.dtype) for p in op.params)


def _quick(op: anf.For | anf.While) -> tuple[anf.Block, list[bool]] | None:
    """The body of a loop without the guards of what it carries, and which of its results depend on that.

    None if there are none, or if it could go unnoticed that they were needed.
    """
    if not carries_scalars(op):
        return None
    results = op.body.results[1:] if op.early else op.body.results
    multiplied = _multiplied(op.body)
    derivatives = _derivatives(op.body)
    state = [p for p, r in zip(op.params, results, strict=True) if p in multiplied and r in derivatives]
    if not state:
        return None
    if any(isinstance(let.op, anf.Effect | anf.Foreign) for let in walk(op.body)):
        return None
    dependent = _dependent(op, state)
    if dependent is None:
        return None
    return _accumulated(op.body, state), [p in dependent for p in op.params]


def _dependent(op: anf.For | anf.While, state: list[anf.Var]) -> set[anf.Var] | None:
    """Returns the variables that depend on scalars of the state, if an infinity or NaN in these reaches all of them."""
    dependent = set(state)
    results = op.body.results[1:] if op.early else op.body.results
    while True:
        for let in op.body.lets:
            if dependent.isdisjoint(used_by(let)):
                continue
            match let.op:
                case anf.Prim("add" | "sub" | "neg" | "mul" | "zero_safe_mul" | "zero_safe_mul_both"):
                    dependent.add(let.vars[0])
                case anf.Prim("select", (condition, *_)) if condition not in dependent:
                    dependent.add(let.vars[0])
                case anf.Cast() if is_float(let.vars[0].type):
                    dependent.add(let.vars[0])
                case _:
                    return None
        handed_on = {p for p, r in zip(op.params, results, strict=True) if r in dependent} - dependent
        if not handed_on:
            break
        dependent |= handed_on
    if isinstance(op, anf.While) and not dependent.isdisjoint(free_vars(op.condition)):
        return None
    return None if op.early and op.body.results[0] in dependent else dependent


def _tried(let: anf.Let, op: anf.For | anf.While, body: anf.Block, dependent: list[bool]) -> Iterator[anf.Let]:
    """The loop with another body, and the loop itself where a result that may be wrong is not finite."""
    fast = refresh(anf.Block((anf.Let(let.vars, replace(op, body=body), let.span),), let.vars), {})
    yield from fast.lets
    right: anf.Atom | None = None
    for result, concerned in zip(fast.results, dependent, strict=True):
        if concerned:
            finite = anf.fresh("finite", BOOL)
            yield anf.Let((finite,), anf.Prim("isfinite", (result,)))
            if right is not None:
                both = anf.fresh("finite", BOOL)
                yield anf.Let((both,), anf.Prim("and", (right, finite)))
                finite = both
            right = finite
    assert right is not None
    wrong = anf.fresh("wrong", BOOL)
    yield anf.Let((wrong,), anf.Prim("not", (right,)))
    vars = tuple([anf.fresh(v.name, v.type) for v in let.vars])
    slow = anf.Block((anf.Let(vars, op, let.span),), vars)
    yield anf.Let(let.vars, anf.If(wrong, slow, anf.Block((), fast.results), cold=True), let.span)


@dataclass(frozen=True, slots=True)
class _Signed:
    """A factor or a term and its sign. An atom that is None is 1."""

    atom: anf.Atom | None
    negative: bool = False


@dataclass(slots=True)
class _Form:
    """Σ scalar · entry + rest. A rest that is None is 0."""

    entries: dict[anf.Var, _Signed]
    rest: _Signed | None = None


def _accumulated(body: anf.Block, state: list[anf.Var]) -> anf.Block:
    """The body of a loop without guards of what is linear in the state, in terms of Jacobians if that is shorter."""
    linear = _Linear({p: _Form({p: _Signed(None)}) for p in state})
    plain = []
    for let in body.lets:
        linear.let(let)
        if isinstance(let.op, anf.Prim) and let.op.name in GUARDS and linear.form(let.op.args[0]) is not None:
            let = anf.Let(let.vars, anf.Prim("mul", let.op.args), let.span)
        plain.append(let)
    for result in body.results:
        linear.build(result)
    new = _pruned(anf.Block(tuple(linear.lets), body.results))
    return new if linear.composed and _cost(new) <= _cost(_pruned(body)) else anf.Block(tuple(plain), body.results)


def _multiplied(body: anf.Block) -> set[anf.Var]:
    """The tangents and cotangents that products of derivatives are linear in."""
    factors: set[anf.Var] = set()
    for let in reversed(body.lets):
        match let.op:
            case anf.Prim("zero_safe_mul" | "zero_safe_mul_both", (c, _)):
                factors |= {c} if isinstance(c, anf.Var) else set()
            case anf.Prim("add" | "sub" | "neg", args) if let.vars[0] in factors:
                factors.update(a for a in args if isinstance(a, anf.Var))
            case _:
                pass
    return factors


def _derivatives(body: anf.Block) -> set[anf.Var]:
    """The tangents and cotangents that are sums of products of derivatives."""
    derivatives: set[anf.Var] = set()
    for let in body.lets:
        match let.op:
            case anf.Prim("zero_safe_mul" | "zero_safe_mul_both"):
                derivatives.add(let.vars[0])
            case anf.Prim("add" | "sub" | "neg", args) if any(a in derivatives for a in args if isinstance(a, anf.Var)):
                derivatives.add(let.vars[0])
            case _:
                pass
    return derivatives


def _cost(block: anf.Block) -> int:
    """The operations of a block; a sign becomes part of the sum that it is in."""
    return sum(isinstance(let.op, anf.Prim) and let.op.name != "neg" for let in block.lets)


def _pruned(block: anf.Block) -> anf.Block:
    """Removes primitives that nothing needs."""
    needed = {r for r in block.results if isinstance(r, anf.Var)}
    kept = []
    for let in reversed(block.lets):
        if not isinstance(let.op, anf.Prim) or let.vars[0] in needed:
            kept.append(let)
            needed.update(used_by(let))
    return anf.Block(tuple(kept[::-1]), block.results)


@dataclass(slots=True)
class _Linear:
    """One walk over the body of a loop.

    built: what has a value, not just a form. composite: entries of two factors or more; composed: whether one is used.
    """

    forms: dict[anf.Var, _Form]
    lets: list[anf.Let] = field(default_factory=list)
    built: set[anf.Var] = field(default_factory=set)
    composite: set[anf.Atom | None] = field(default_factory=set)
    composed: bool = False

    def form(self, atom: anf.Atom) -> _Form | None:
        return self.forms.get(atom) if isinstance(atom, anf.Var) else None

    def let(self, let: anf.Let) -> None:
        form = self.linear(let) if isinstance(let.op, anf.Prim) and is_float(let.vars[0].type) else None
        if form is not None:
            self.forms[let.vars[0]] = form
            return
        for v in used_by(let):
            self.build(v)
        self.lets.append(let)

    def linear(self, let: anf.Let) -> _Form | None:
        """The form of what a primitive gives, if it is linear in the state."""
        match let.op:
            case anf.Prim("zero_safe_mul" | "zero_safe_mul_both", (c, d)) if (
                form := self.form(c)
            ) is not None and self.form(d) is None:
                constant = form.rest
                if constant is not None:
                    assert constant.atom is not None
                    constant = _Signed(self.emit("mul", constant.atom, d), constant.negative)
                return _Form({v: self.times(e, d) for v, e in form.entries.items()}, constant)
            case anf.Prim("neg", (c,)) if (form := self.form(c)) is not None:
                return _negated(form)
            case anf.Prim("add" | "sub" as name, (x, y)) if not (self.form(x) is self.form(y) is None):
                left, right = self.form(x) or _Form({}, _Signed(x)), self.form(y) or _Form({}, _Signed(y))
                if name == "sub":
                    right = _negated(right)
                entries = dict(left.entries)
                for v, e in right.entries.items():
                    entries[v] = self.sum(entries[v], e, dtype_of(x)) if v in entries else e
                if left.rest is not None and right.rest is not None:
                    return _Form(entries, self.sum(left.rest, right.rest, dtype_of(x)))
                return _Form(entries, left.rest or right.rest)
            case _:
                return None

    def times(self, entry: _Signed, d: anf.Atom) -> _Signed:
        if entry.atom is None:
            return _Signed(d, entry.negative)
        product = self.emit("mul", entry.atom, d)
        self.composite.add(product)
        return _Signed(product, entry.negative)

    def sum(self, x: _Signed, y: _Signed, dtype: str) -> _Signed:
        """x + y, whose sign is that of x unless only y is positive."""
        if x.negative and not y.negative:
            x, y = y, x
        one = anf.Lit(1.0, dtype)
        total = self.emit("add" if x.negative == y.negative else "sub", x.atom or one, y.atom or one)
        self.composite.add(total)
        return _Signed(total, x.negative)

    def emit(self, name: str, *args: anf.Atom) -> anf.Var:
        var = anf.fresh("t", anf.Scalar(dtype_of(args[0])))
        self.lets.append(anf.Let((var,), anf.Prim(name, args)))
        return var

    def build(self, atom: anf.Atom) -> None:
        """Computes a value that has a form, unless it is there."""
        form = self.form(atom)
        if form is None or not isinstance(atom, anf.Var) or atom in self.built:
            return
        self.built.add(atom)
        if atom in form.entries and form.entries == {atom: _Signed(None)}:
            return  # it is of the state
        terms = [] if form.rest is None else [form.rest]
        for v, e in form.entries.items():
            self.composed |= e.atom in self.composite
            terms.append(_Signed(v if e.atom is None else self.emit("mul", v, e.atom), e.negative))
        terms.sort(key=lambda t: t.negative)
        first, *others = terms
        assert first.atom is not None
        total = first.atom
        for t in others:
            assert t.atom is not None
            total = self.emit("sub" if t.negative != first.negative else "add", total, t.atom)
        if first.negative:
            total = self.emit("neg", total)
        # The last operation is that of the value itself.
        if isinstance(total, anf.Var) and self.lets and self.lets[-1].vars == (total,):
            self.lets[-1] = anf.Let((atom,), self.lets[-1].op)
        else:
            self.lets.append(anf.Let((atom,), anf.Prim("neg", (self.emit("neg", total),))))


def _negated(form: _Form) -> _Form:
    def turned(x: _Signed) -> _Signed:
        return _Signed(x.atom, not x.negative)

    return _Form({v: turned(e) for v, e in form.entries.items()}, None if form.rest is None else turned(form.rest))
