"""How every pass walks and rewrites the IR: what an operation mentions and binds, and the same one with other parts.

`parts` and `rebuild` are the only two functions that know the fields of every operation. A variable is bound once in a
function, so what is free in a block is what it mentions minus what it binds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Any, NamedTuple

from dlang.ir import anf
from dlang.ir.errors import IRError


# ---- what an operation consists of -----------------------------------------------------------------------------------
class Parts(NamedTuple):
    """What an operation mentions itself, its nested blocks, and what it binds for them (or for its own sizes)."""

    atoms: tuple[anf.Atom, ...] = ()
    sizes: tuple[anf.Size, ...] = ()
    blocks: tuple[anf.Block, ...] = ()
    binds: tuple[anf.Var, ...] = ()


def parts(op: anf.Op) -> Parts:
    """The parts of an operation, without looking into its blocks; atoms in the order of evaluation."""
    return _PARTS[type(op)](op)


def _comp_parts(op: anf.Comp) -> Parts:
    sizes: list[anf.Size] = []
    for axis in op.axes:
        sizes += axis.lows
        sizes += axis.highs
    into = []
    for destination in op.destinations:
        sizes += destination.shape
        sizes += destination.index
        if destination.into is not None:
            into.append(destination.into)
    return Parts(tuple(into), tuple(sizes), (op.body,), tuple([axis.var for axis in op.axes]))


def _given(xs: tuple[anf.Atom | None, ...]) -> tuple[anf.Atom, ...]:
    return tuple([x for x in xs if x is not None])


_PARTS: dict[type[anf.Op], Callable[[Any], Parts]] = {
    **dict.fromkeys(
        (anf.Prim, anf.Call, anf.LinalgOp, anf.Format, anf.Construct, anf.Foreign, anf.VjpForward),
        lambda op: Parts(op.args),
    ),
    **dict.fromkeys((anf.Cast, anf.StopGradient), lambda op: Parts((op.arg,))),
    **dict.fromkeys((anf.Tag, anf.Fields), lambda op: Parts((op.node,))),
    **dict.fromkeys((anf.Scan, anf.Copy), lambda op: Parts((op.array,))),
    anf.Read: lambda op: Parts((op.array,), op.index),
    anf.IndexExpr: lambda op: Parts((), (op.size,)),
    anf.Assert: lambda op: Parts((op.condition, *op.values, *op.subjects)),
    anf.Comp: _comp_parts,
    anf.If: lambda op: Parts((op.condition,), (), (op.then, op.otherwise)),
    anf.For: lambda op: Parts(op.init, (op.low, op.high), (op.body,), (op.index, *op.params)),
    anf.While: lambda op: Parts(op.init, (), (op.condition, op.body), op.params),
    anf.View: lambda op: Parts((op.array,), (*op.shape, *op.index), (), op.axes),
    anf.Reshape: lambda op: Parts((op.array,), op.shape),
    anf.Empty: lambda op: Parts((), op.shape),
    anf.Concat: lambda op: Parts(op.arrays),
    anf.Compact: lambda op: Parts((op.mask,)),
    anf.Update: lambda op: Parts((op.array, op.value), op.index),
    anf.Contract: lambda op: Parts((op.a, op.b)),
    anf.Vjp: lambda op: Parts((*op.args, *_given(op.cotangents))),
    anf.Jvp: lambda op: Parts((*op.args, *_given(op.tangents))),
    anf.VjpBackward: lambda op: Parts((op.tape, *op.sizes, *_given(op.cotangents))),
    anf.Effect: lambda op: Parts((op.token, *op.args)),
}
"""One function for each operation: a `match` would ask for one class after another."""


_BLOCKS: dict[type[anf.Op], Callable[[Any], tuple[anf.Block, ...]]] = {
    **dict.fromkeys((anf.Comp, anf.For), lambda op: (op.body,)),
    anf.If: lambda op: (op.then, op.otherwise),
    anf.While: lambda op: (op.condition, op.body),
}
"""The operations that have blocks."""


def op_blocks(op: anf.Op) -> tuple[anf.Block, ...]:
    """The nested blocks of an operation, in the order of evaluation."""
    blocks = _BLOCKS.get(type(op))
    return blocks(op) if blocks is not None else ()


def named_function(op: anf.Op) -> str | None:
    """The function of the program that an operation calls or differentiates."""
    return op.function if isinstance(op, anf.Call | anf.Derivative) else None


def walk(block: anf.Block) -> Iterator[anf.Let]:
    """Every let of a block and of the blocks in it, an outer let before the inner ones."""
    pending = [iter(block.lets)]  # not generators in generators, which would pass each let up through all of them
    while pending:
        let = next(pending[-1], None)
        if let is None:
            pending.pop()
            continue
        yield let
        blocks = _BLOCKS.get(type(let.op))
        if blocks is not None:
            pending += [iter(inner.lets) for inner in reversed(blocks(let.op))]


# ---- variables -------------------------------------------------------------------------------------------------------
def type_vars(type: anf.Type) -> list[anf.Var]:
    """The variables in the sizes of a type, with repetitions."""
    return [a for size in type.shape for m in size.terms for a in m] if isinstance(type, anf.Array) else []


def _mentions(op: anf.Op, used: list[anf.Var], bound: list[anf.Var]) -> None:
    if isinstance(op, anf.Prim):  # most operations are
        used += [a for a in op.args if type(a) is anf.Var]
        return
    if isinstance(op, anf.Read):  # and most others
        used.append(op.array)
        for size in op.index:
            for m in size.terms:
                used += m
        return
    p = _PARTS[type(op)](op)
    used += [a for a in p.atoms if type(a) is anf.Var]
    for size in p.sizes:
        for m in size.terms:
            used += m
    for var in p.binds:
        if type(var.type) is anf.Array:
            used += type_vars(var.type)
    bound += p.binds
    for block in p.blocks:
        _block_mentions(block, used, bound)


def block_mentions(block: anf.Block) -> anf.Mentions:
    """What a block mentions and binds, nested blocks included; it is found once, as most blocks go through many passes
    unchanged."""
    mentions = block.mentions
    if mentions is None:
        inner: tuple[list[anf.Var], list[anf.Var]] = [], []
        _walk_mentions(block, *inner)
        mentions = tuple(inner[0]), tuple(inner[1])
        object.__setattr__(block, "mentions", mentions)
    return mentions


def _block_mentions(block: anf.Block, used: list[anf.Var], bound: list[anf.Var]) -> None:
    """Adds what a block mentions and binds."""
    mentions = block_mentions(block)
    used += mentions[0]
    bound += mentions[1]


def _walk_mentions(block: anf.Block, used: list[anf.Var], bound: list[anf.Var]) -> None:
    for let in block.lets:
        _mentions(let.op, used, bound)
        bound += let.vars
        for var in let.vars:
            if type(var.type) is anf.Array:
                for size in var.type.shape:
                    for m in size.terms:
                        used += m
    used += [a for a in block.results if type(a) is anf.Var]


def mentioned(x: anf.Op | anf.Block) -> list[anf.Var]:
    """Every mention of a variable in an operation or block, nested blocks and the types of bound variables included."""
    used: list[anf.Var] = []
    if isinstance(x, anf.Block):
        _block_mentions(x, used, [])
    else:
        _mentions(x, used, [])
    return used


def free_vars(x: anf.Op | anf.Block | anf.Function) -> list[anf.Var]:
    """What is mentioned and not bound there, once each, in the order of first mention."""
    used: list[anf.Var] = []
    bound: list[anf.Var] = []
    match x:
        case anf.Block():
            _block_mentions(x, used, bound)
        case anf.Function():
            bound += (*x.params, *x.results)
            for var in bound:
                used += type_vars(var.type)
            _block_mentions(x.body, used, bound)
        case _:
            _mentions(x, used, bound)
    inside = set(bound)
    return [v for v in dict.fromkeys(used) if v not in inside]


def bound_vars(x: anf.Op | anf.Block) -> list[anf.Var]:
    """Every variable bound inside an operation or block, at any depth."""
    bound: list[anf.Var] = []
    if isinstance(x, anf.Block):
        _block_mentions(x, [], bound)
    else:
        _mentions(x, [], bound)
    return bound


def count_uses(x: anf.Op | anf.Block) -> dict[anf.Var, int]:
    """How often each variable is mentioned, nested blocks and types included."""
    counts: dict[anf.Var, int] = {}
    for var in mentioned(x):
        counts[var] = counts.get(var, 0) + 1
    return counts


# ---- what blocks do --------------------------------------------------------------------------------------------------
def block_acts(block: anf.Block) -> anf.Acts:
    """Finds what a block does besides binding values; looks at a block once only."""
    acts = block.acts
    if acts is None:
        acts = _acts_of(block)
        object.__setattr__(block, "acts", acts)
    return acts


def _acts_of(block: anf.Block) -> anf.Acts:
    refuses = False
    calls: set[str] = set()
    consumed: list[anf.Var] = []
    consumers: list[anf.Op] = []
    for op in [let.op for let in block.lets if type(let.op) in _ACTING]:
        if isinstance(op, anf.Assert | anf.Effect):
            refuses = True
        if name := named_function(op):
            calls.add(name)
        if isinstance(op, anf.Update | anf.Comp | anf.For | anf.While | anf.Call):
            consumers.append(op)
            consumed += own_consumed(op)
        for inner in map(block_acts, op_blocks(op)):
            refuses = refuses or inner.refuses
            calls |= inner.calls
            consumed += inner.consumed
            if isinstance(op, anf.If):
                consumers += inner.consumers
    return anf.Acts(refuses, frozenset(calls), tuple(consumed), tuple(consumers))


_ACTING = frozenset(
    {anf.Assert, anf.Effect, anf.Call, anf.Vjp, anf.Jvp, anf.VjpForward, anf.VjpBackward, anf.Update, *_BLOCKS}
)


def own_consumed(op: anf.Op) -> list[anf.Var]:
    """The arrays that an operation itself would like to change in place."""
    match op:
        case anf.Update(array=array):
            return [array]
        case anf.Comp():
            return [d.into for d in op.destinations if d.into is not None]
        case anf.For() | anf.While():
            return [a for a in op.init if isinstance(a, anf.Var) and isinstance(a.type, anf.Array)]
        case _:
            return []


# ---- rewriting -------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Mapping:
    """The functions that map the parts of an operation. same: whether all parts so far are what they were."""

    atom: Callable[[anf.Atom], anf.Atom]
    size: Callable[[anf.Size], anf.Size]
    block: Callable[[anf.Block], anf.Block]
    bind: Callable[[anf.Var], anf.Var]
    same: bool = True

    def operand(self, x: anf.Atom) -> anf.Atom:
        new = self.atom(x)
        self.same = self.same and new is x
        return new

    def array(self, v: anf.Var) -> anf.Var:
        return _array(self.operand(v), v)

    def atoms(self, xs: tuple[anf.Atom, ...]) -> tuple[anf.Atom, ...]:
        new = tuple([self.atom(x) for x in xs])
        self.same = self.same and all(map(is_, new, xs))
        return new

    def optional(self, xs: tuple[anf.Atom | None, ...]) -> tuple[anf.Atom | None, ...]:
        return tuple([None if x is None else self.operand(x) for x in xs])

    def entry(self, x: anf.Size) -> anf.Size:
        new = self.size(x)
        self.same = self.same and new is x
        return new

    def sizes(self, xs: tuple[anf.Size, ...]) -> tuple[anf.Size, ...]:
        new = tuple([self.size(x) for x in xs])
        self.same = self.same and all(map(is_, new, xs))
        return new

    def nested(self, b: anf.Block) -> anf.Block:
        new = self.block(b)
        self.same = self.same and new is b
        return new

    def binder(self, v: anf.Var) -> anf.Var:
        new = self.bind(v)
        self.same = self.same and new is v
        return new

    def binders(self, vs: tuple[anf.Var, ...]) -> tuple[anf.Var, ...]:
        return tuple([self.binder(v) for v in vs])


def rebuild(
    op: anf.Op,
    *,
    atom: Callable[[anf.Atom], anf.Atom],
    size: Callable[[anf.Size], anf.Size],
    block: Callable[[anf.Block], anf.Block],
    bind: Callable[[anf.Var], anf.Var],
) -> anf.Op:
    """The operation with each of its parts mapped; what it binds is mapped before the parts that see it.

    It is itself where nothing changes. Most operations are of the three kinds that are looked at first.
    """
    if isinstance(op, anf.Prim):
        args = op.args
        new = tuple([atom(x) for x in args])
        return op if all(map(is_, new, args)) else anf.Prim(op.name, new)
    if isinstance(op, anf.Read):
        a, where = atom(op.array), tuple([size(x) for x in op.index])
        same = a is op.array and all(map(is_, where, op.index))
        return op if same else anf.Read(_array(a, op.array), where)
    if isinstance(op, anf.Cast):
        a = atom(op.arg)
        return op if a is op.arg else anf.Cast(op.dtype, a)
    mapping = _Mapping(atom, size, block, bind)
    built = _REBUILT[type(op)](op, mapping)
    return op if mapping.same else built


def _rebuilt_comp(op: anf.Comp, m: _Mapping) -> anf.Comp:
    axes = []
    for axis in op.axes:
        lows, highs = m.sizes(axis.lows), m.sizes(axis.highs)
        axes.append(anf.Axis(m.binder(axis.var), lows, highs))
    body = m.nested(op.body)
    destinations: list[anf.Destination] = []
    for d in op.destinations:
        into = None if d.into is None else m.array(d.into)
        if isinstance(d, anf.Reduce):
            destinations.append(anf.Reduce(m.sizes(d.shape), m.sizes(d.index), d.monoid, into, d.after))
        else:
            destinations.append(anf.ScatterAdd(m.sizes(d.shape), m.sizes(d.index), into))
    return anf.Comp(tuple(axes), body, tuple(destinations))


def _rebuilt_for(op: anf.For, m: _Mapping) -> anf.For:
    low, high, init = m.entry(op.low), m.entry(op.high), m.atoms(op.init)
    index, params = m.binder(op.index), m.binders(op.params)
    return anf.For(index, low, high, params, init, m.nested(op.body), op.early)


def _rebuilt_while(op: anf.While, m: _Mapping) -> anf.While:
    init, params = m.atoms(op.init), m.binders(op.params)
    return anf.While(params, init, m.nested(op.condition), m.nested(op.body), op.early)


def _rebuilt_view(op: anf.View, m: _Mapping) -> anf.View:
    axes = m.binders(op.axes)
    return anf.View(m.array(op.array), axes, m.sizes(op.shape), m.sizes(op.index))


_REBUILT: dict[type[anf.Op], Callable[[Any, _Mapping], anf.Op]] = {
    anf.IndexExpr: lambda op, m: anf.IndexExpr(m.entry(op.size)),
    anf.Format: lambda op, m: anf.Format(op.parts, m.atoms(op.args)),
    anf.Assert: lambda op, m: anf.Assert(
        m.operand(op.condition), op.code, op.parts, m.atoms(op.values), m.atoms(op.subjects)
    ),
    anf.Comp: _rebuilt_comp,
    anf.If: lambda op, m: anf.If(m.operand(op.condition), m.nested(op.then), m.nested(op.otherwise), rare=op.rare),
    anf.Call: lambda op, m: anf.Call(op.function, m.atoms(op.args)),
    anf.Construct: lambda op, m: anf.Construct(op.variant, m.atoms(op.args)),
    anf.Tag: lambda op, m: anf.Tag(m.operand(op.node)),
    anf.Fields: lambda op, m: anf.Fields(op.variant, m.operand(op.node)),
    anf.For: _rebuilt_for,
    anf.While: _rebuilt_while,
    anf.View: _rebuilt_view,
    anf.Reshape: lambda op, m: anf.Reshape(m.array(op.array), m.sizes(op.shape)),
    anf.Scan: lambda op, m: anf.Scan(op.monoid, m.array(op.array)),
    anf.Concat: lambda op, m: anf.Concat(tuple([m.array(a) for a in op.arrays])),
    anf.Compact: lambda op, m: anf.Compact(m.array(op.mask)),
    anf.Update: lambda op, m: anf.Update(m.array(op.array), m.sizes(op.index), m.operand(op.value)),
    anf.Copy: lambda op, m: anf.Copy(m.array(op.array)),
    anf.Empty: lambda op, m: anf.Empty(op.dtype, m.sizes(op.shape)),
    anf.Contract: lambda op, m: anf.Contract(m.array(op.a), m.array(op.b), op.left, op.right, op.out),
    anf.LinalgOp: lambda op, m: anf.LinalgOp(op.name, m.atoms(op.args)),
    anf.Foreign: lambda op, m: anf.Foreign(op.target, m.atoms(op.args)),
    anf.StopGradient: lambda op, m: anf.StopGradient(m.operand(op.arg)),
    anf.Vjp: lambda op, m: anf.Vjp(op.function, m.atoms(op.args), op.wrt, m.optional(op.cotangents)),
    anf.Jvp: lambda op, m: anf.Jvp(op.function, m.atoms(op.args), m.optional(op.tangents)),
    anf.VjpForward: lambda op, m: anf.VjpForward(op.function, m.atoms(op.args), op.wrt, op.seeded, op.tape),
    anf.VjpBackward: lambda op, m: anf.VjpBackward(
        op.function, op.wrt, op.seeded, m.operand(op.tape), m.atoms(op.sizes), m.optional(op.cotangents)
    ),
    anf.Effect: lambda op, m: anf.Effect(op.name, m.operand(op.token), m.atoms(op.args), op.static),
}


def _array(new: anf.Atom, old: anf.Var) -> anf.Var:
    if not isinstance(new, anf.Var):
        raise IRError(f"{new} stands where {old} is an array")
    return new


def map_blocks(op: anf.Op, f: Callable[[anf.Block], anf.Block]) -> anf.Op:
    """The operation with `f` applied to each nested block; the operation itself if it has none or none changes."""
    match op:
        case anf.Comp():
            body = f(op.body)
            return op if body is op.body else anf.Comp(op.axes, body, op.destinations)
        case anf.If():
            then, otherwise = f(op.then), f(op.otherwise)
            same = then is op.then and otherwise is op.otherwise
            return op if same else anf.If(op.condition, then, otherwise, rare=op.rare)
        case anf.For():
            body = f(op.body)
            return op if body is op.body else anf.For(op.index, op.low, op.high, op.params, op.init, body, op.early)
        case anf.While():
            condition, body = f(op.condition), f(op.body)
            same = condition is op.condition and body is op.body
            return op if same else anf.While(op.params, op.init, condition, body, op.early)
        case _:
            return op


def with_lets(block: anf.Block, lets: Sequence[anf.Let], results: Sequence[anf.Atom]) -> anf.Block:
    """A block of these lets and results: the one given if it has just them."""
    if len(lets) == len(block.lets) and all(map(is_, lets, block.lets)) and all(map(is_, results, block.results)):
        return block
    return anf.Block(tuple(lets), tuple(results))


def with_op(let: anf.Let, vars: tuple[anf.Var, ...], op: anf.Op) -> anf.Let:
    """A let of these variables and this operation: the one given if it has just them."""
    return let if op is let.op and all(map(is_, vars, let.vars)) else anf.Let(vars, op, let.span)


def map_inner(block: anf.Block, f: Callable[[anf.Block], anf.Block]) -> anf.Block:
    """The block with `f` applied to the blocks in its operations: itself if none changes."""
    return with_lets(block, [with_op(let, let.vars, map_blocks(let.op, f)) for let in block.lets], block.results)


def with_body(function: anf.Function, body: anf.Block) -> anf.Function:
    """The function with another body: itself if it is the same one."""
    return function if body is function.body else replace(function, body=body)


def map_bodies(program: anf.Program, f: Callable[[anf.Block], anf.Block]) -> anf.Program:
    """The program with `f` applied to the body of each function."""
    return map_functions(program, lambda function: with_body(function, f(function.body)))


def map_functions(program: anf.Program, f: Callable[[anf.Function], anf.Function]) -> anf.Program:
    """The program with `f` applied to each function."""
    return replace(program, functions={name: f(function) for name, function in program.functions.items()})
