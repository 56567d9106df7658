"""Forward mode on a block: one walk over its lets, which emits each operation and, where it is active, its tangent.

Notation: ẏ is the tangent of y. Every operation runs once: the tangents of what a comprehension, a loop or a branch
binds are further results of the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.ad.activity import next_state
from dlang.ad.dual import Dual
from dlang.ad.forward_comprehension import push_comp
from dlang.ad.forward_linear_algebra import push_library
from dlang.ad.forward_nodes import push_construct, push_fields
from dlang.ad.refusal import called, refusal
from dlang.ad.rules import cast_tangent, tangent
from dlang.ir.anf import (
    Atom,
    Block,
    Call,
    Cast,
    Check,
    Comp,
    Concat,
    Construct,
    Contract,
    Copy,
    Effect,
    Fields,
    For,
    Foreign,
    If,
    Keep,
    Let,
    Library,
    Lit,
    Prim,
    Read,
    Reshape,
    Scan,
    Size,
    Update,
    Var,
    View,
    While,
    fresh,
    poly,
)
from dlang.ir.builder import axis
from dlang.ir.marks import is_mark, mark_of
from dlang.ir.substitution import Renaming
from dlang.ir.types import array_type, carries, dtype_of


def push_block(lets: Sequence[Let], s: Dual) -> None:
    """Emits lets with the tangents of what is active in them."""
    for let in lets:
        span = s.b.span
        s.b.span = let.span or span
        if any(v in s.active for v in let.vars):
            _push(let, s)
        else:
            s.b.append(let)
        s.b.span = span


def _push(let: Let, s: Dual) -> None:
    op = let.op
    match op:
        case Comp():
            push_comp(let, op, s)
        case If():
            _push_if(let, op, s)
        case For() | While():
            _push_loop(let, op, s)
        case Check() if is_mark(op):
            _push_mark(let, op, s)
        case Check():
            # Tangents are certified with the values: no access to one is moved above the check.
            known = [(v, dot) for v, a in zip(let.vars, op.subjects, strict=True) if (dot := s.dot(a)) is not None]
            dots = tuple([s.bind(v) for v, _ in known])
            subjects = (*op.subjects, *(dot for _, dot in known))
            s.b.append(Let((*let.vars, *dots), replace(op, subjects=subjects), let.span))
        case Call():
            _push_call(let, op, s)
        case Library():
            s.b.append(let)
            push_library(let, op, s)
        case Construct():
            s.b.append(let)
            push_construct(let, op, s)
        case Fields():
            s.b.append(let)
            push_fields(let, op, s)
        case Scan(monoid="prod"):
            _push_running_product(let, op, s)
        case Foreign() | Effect():
            raise refusal(let)
        case _:
            s.b.append(let)
            _push_simple(let, s)


def _push_mark(let: Let, op: Check, s: Dual) -> None:
    """What goes through a mark has the tangent of the variable that it names."""
    mark = mark_of(op)
    assert mark is not None
    s.b.append(let)
    known = [k for k, a in enumerate(op.subjects) if s.dot(a) is not None]
    if known:
        subjects = tuple([s.built(op.subjects[k]) for k in known])
        dots = tuple([s.bind(let.vars[k]) for k in known])
        s.b.append(Let(dots, mark.derived(s.kind, known).check((), subjects), let.span))


def _push_simple(let: Let, s: Dual) -> None:
    b, op = s.b, let.op
    (var,) = let.vars
    match op:
        case Prim(name, args):
            # y = p(x…): ẏ = Σ ẋ ∂p/∂x, from the table.
            s.set(var, tangent(b, name, args, var, [s.dot(a) for a in args]))
        case Cast():
            s.set(var, cast_tangent(b, op, s.dot(op.arg)))
        case Update():
            # y = x[i := v]: ẏ = ẋ[i := v̇].
            if s.dot(op.array) is not None or s.dot(op.value) is not None:
                s.set(var, b.one(Update(s.array(op.array), op.index, s.built(op.value))))
        case Concat(arrays):
            if any(s.dot(a) is not None for a in arrays):
                s.set(var, b.one(Concat(tuple([s.array(a) for a in arrays]))))
        case Contract():
            _push_contract(var, op, s)
        case Read(array=array) | Copy(array=array) | View(array=array) | Reshape(array=array) | Scan(array=array):
            # Linear in the array: the same of its tangent.
            if s.dot(array) is not None:
                same = Renaming({array: s.array(array)}, fresh=True).op(op)
                s.set(var, b.one(same))
        case _:
            raise AssertionError(f"{type(op).__name__} carries no derivative")


def _push_contract(var: Var, op: Contract, s: Dual) -> None:
    """out[o] = Σ a[l] b[r]: the tangent is Σ ȧ[l] b[r] + Σ a[l] ḃ[r]."""
    b = s.b
    sizes: dict[int, Size] = {}
    for array, names in ((op.a, op.left), (op.b, op.right)):
        sizes.update(zip(names, array_type(array).shape, strict=True))
    axes = {name: axis(size) for name, size in sizes.items()}
    left, right = [tuple([poly(axes[n].var) for n in names]) for names in (op.left, op.right)]
    if s.dot(op.a) is None and s.dot(op.b) is None:
        return

    def body(*_: Var) -> Atom:
        terms: list[Atom] = []
        if s.dot(op.a) is not None:
            terms.append(b.prim("guard", b.one(Read(s.array(op.a), left)), b.one(Read(op.b, right))))
        if s.dot(op.b) is not None:
            terms.append(b.prim("guard", b.one(Read(s.array(op.b), right)), b.one(Read(op.a, left))))
        return terms[0] if len(terms) == 1 else b.add(terms[0], terms[1])

    shape = array_type(var).shape if op.out else ()
    kept = Keep(shape, tuple([poly(axes[n].var) for n in op.out]))
    (dot,) = b.comp(list(axes.values()), body, [kept])
    s.set(var, dot)


def _push_running_product(let: Let, op: Scan, s: Dual) -> None:
    """y[i] = y[i-1] x[i], so ẏ[i] = ẏ[i-1] x[i] + y[i-1] ẋ[i]: no division, so zeros are exact to any order."""
    b, (var,) = s.b, let.vars
    if s.dot(op.array) is None:
        b.append(let)
        return
    x, dot = op.array, s.array(op.array)
    (n,) = array_type(x).shape
    dtype = dtype_of(x)
    empty = b.full((n,), Lit(0.0, dtype))

    def body(i: Var, p: Var, dp: Var, y: Var, dy: Var) -> list[Var]:
        here = b.read(x, [i])
        change = b.add(b.prim("guard", dp, here), b.prim("guard", b.read(dot, [i]), p))
        value = b.mul(p, here)
        return [value, change, b.update(y, [i], value), b.update(dy, [i], change)]

    init: list[Atom] = [Lit(1.0, dtype), Lit(0.0, dtype), empty, empty]
    _, _, y, dy = b.for_(0, n, init, body, names=("p", "p_dot", "y", "y_dot"))
    b.append(Let((var,), Reshape(y, (n,)), let.span))
    s.set(var, dy)


# ---- control ---------------------------------------------------------------------------------------------------------
def _push_if(let: Let, op: If, s: Dual) -> None:
    """y = if c { T(x) } else { E(x) }: the tangents of what the arms return come out of the same branch."""
    b = s.b
    arms: list[list[Let]] = []
    for arm in (op.then, op.otherwise):
        with b.scope() as lets:
            s.walk(arm.lets, s)
        arms.append(lets)
    both = list(zip(let.vars, op.then.results, op.otherwise.results, strict=True))
    wanted = [k for k, (v, x, y) in enumerate(both) if v in s.active and not s.dot(x) is s.dot(y) is None]
    blocks = []
    for arm, lets in zip((op.then, op.otherwise), arms, strict=True):
        with b.scope() as more:
            dots = tuple([s.seen(arm.results[k]) for k in wanted])
        blocks.append(Block((*lets, *more), (*arm.results, *dots)))
    vars = tuple([s.bind(let.vars[k]) for k in wanted])
    b.append(Let((*let.vars, *vars), If(op.condition, *blocks), let.span))


def _push_loop(let: Let, op: For | While, s: Dual) -> None:
    """The tangents of the state are more state."""
    b = s.b
    active = [k for k, p in enumerate(op.params) if p in s.active]
    init = (*op.init, *[s.built(op.init[k]) for k in active])
    params = (*op.params, *[s.bind(op.params[k]) for k in active])
    with b.scope() as lets:
        s.walk(op.body.lets, s)
        after = next_state(op)
        results = (*op.body.results, *[s.built(after[k]) for k in active])
    body = Block(tuple(lets), results)
    vars = (*let.vars, *[s.bind(let.vars[k]) for k in active])
    b.append(Let(vars, replace(op, params=params, init=init, body=body), let.span))


# ---- calls -----------------------------------------------------------------------------------------------------------
def _push_call(let: Let, op: Call, s: Dual) -> None:
    """A function with a rule gives its results to the rule; of any other the dual function gives both."""
    b, nodes = s.b, s.nodes
    rules = b.functions[op.function].rules
    if rules is not None and rules.pushforward is not None:
        b.append(let)
        if any(s.dot(op.args[k]) is not None for k in rules.wrt):
            # A rule is in terms of the types of the values.
            seeds = tuple([nodes.from_tangent(b, op.args[k], s.dot(op.args[k])) for k in rules.wrt])
            own = [v for v in let.vars if carries(v.type)]
            dots = [fresh(f"{v.name}_dot", v.type) for v in own]
            b.append(Let(tuple(dots), Call(rules.pushforward, (*op.args, *let.vars, *seeds)), let.span))
            for v, dot in zip(own, dots, strict=True):
                if v in s.active:
                    s.set(v, nodes.to_tangent(b, v, dot))
        return
    marks = tuple([s.dot(a) is not None for a in op.args])
    if not any(marks):
        b.append(let)
        return
    args = (*op.args, *[given for a in op.args if (given := s.dot(a)) is not None])
    vars = tuple([s.bind(v) for v in let.vars if s.carries(v.type)])
    with called(b.functions[op.function], let.span):
        name = s.named(op.function, marks)
    b.append(Let((*let.vars, *vars), Call(name, args), let.span))
