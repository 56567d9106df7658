"""How every pass walks and rewrites the IR: what an operation mentions and binds, and the same one with other parts.

`parts` and `rebuild` are the only two functions that know the fields of every operation. A variable is bound once in a
function, so what is free in a block is what it mentions minus what it binds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Any, NamedTuple

from dlang.ir.anf import (
    Acts,
    Add,
    Array,
    Atom,
    Axis,
    Block,
    Call,
    Cast,
    Check,
    Comp,
    Compact,
    Concat,
    Construct,
    Contract,
    Copy,
    Derivative,
    Destination,
    Effect,
    Empty,
    Fields,
    For,
    Foreign,
    Format,
    Function,
    If,
    Jvp,
    Keep,
    Let,
    Library,
    Mentions,
    Op,
    Prim,
    Program,
    Pull,
    Read,
    Record,
    Reshape,
    Scan,
    Size,
    SizeOf,
    Stop,
    Tag,
    Type,
    Update,
    Var,
    View,
    Vjp,
    While,
)
from dlang.ir.errors import IRError


# ---- what an operation consists of -----------------------------------------------------------------------------------
class Parts(NamedTuple):
    """What an operation mentions itself, its nested blocks, and what it binds for them (or for its own sizes)."""

    atoms: tuple[Atom, ...] = ()
    sizes: tuple[Size, ...] = ()
    blocks: tuple[Block, ...] = ()
    binds: tuple[Var, ...] = ()


def parts(op: Op) -> Parts:
    """The parts of an operation, without looking into its blocks; atoms in the order of evaluation."""
    return _PARTS[type(op)](op)


def _comp_parts(op: Comp) -> Parts:
    sizes: list[Size] = []
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


def _given(xs: tuple[Atom | None, ...]) -> tuple[Atom, ...]:
    return tuple([x for x in xs if x is not None])


_PARTS: dict[type[Op], Callable[[Any], Parts]] = {
    **dict.fromkeys((Prim, Call, Library, Format, Construct, Foreign, Record), lambda op: Parts(op.args)),
    **dict.fromkeys((Cast, Stop), lambda op: Parts((op.arg,))),
    **dict.fromkeys((Tag, Fields), lambda op: Parts((op.node,))),
    **dict.fromkeys((Scan, Copy), lambda op: Parts((op.array,))),
    Read: lambda op: Parts((op.array,), op.index),
    SizeOf: lambda op: Parts((), (op.size,)),
    Check: lambda op: Parts((op.condition, *op.values, *op.subjects)),
    Comp: _comp_parts,
    If: lambda op: Parts((op.condition,), (), (op.then, op.otherwise)),
    For: lambda op: Parts(op.init, (op.low, op.high), (op.body,), (op.index, *op.params)),
    While: lambda op: Parts(op.init, (), (op.condition, op.body), op.params),
    View: lambda op: Parts((op.array,), (*op.shape, *op.index), (), op.axes),
    Reshape: lambda op: Parts((op.array,), op.shape),
    Empty: lambda op: Parts((), op.shape),
    Concat: lambda op: Parts(op.arrays),
    Compact: lambda op: Parts((op.mask,)),
    Update: lambda op: Parts((op.array, op.value), op.index),
    Contract: lambda op: Parts((op.a, op.b)),
    Vjp: lambda op: Parts((*op.args, *_given(op.cotangents))),
    Jvp: lambda op: Parts((*op.args, *_given(op.tangents))),
    Pull: lambda op: Parts((op.tape, *op.sizes, *_given(op.cotangents))),
    Effect: lambda op: Parts((op.token, *op.args)),
}
"""One function for each operation: a `match` would ask for one class after another."""


_BLOCKS: dict[type[Op], Callable[[Any], tuple[Block, ...]]] = {
    **dict.fromkeys((Comp, For), lambda op: (op.body,)),
    If: lambda op: (op.then, op.otherwise),
    While: lambda op: (op.condition, op.body),
}
"""The operations that have blocks."""


def op_blocks(op: Op) -> tuple[Block, ...]:
    """The nested blocks of an operation, in the order of evaluation."""
    blocks = _BLOCKS.get(type(op))
    return blocks(op) if blocks is not None else ()


def named_function(op: Op) -> str | None:
    """The function of the program that an operation calls or differentiates."""
    return op.function if isinstance(op, Call | Derivative) else None


def walk(block: Block) -> Iterator[Let]:
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
def type_vars(type: Type) -> list[Var]:
    """The variables in the sizes of a type, with repetitions."""
    return [a for size in type.shape for m in size.terms for a in m] if isinstance(type, Array) else []


def _mentions(op: Op, used: list[Var], bound: list[Var]) -> None:
    if isinstance(op, Prim):  # most operations are
        used += [a for a in op.args if type(a) is Var]
        return
    if isinstance(op, Read):  # and most others
        used.append(op.array)
        for size in op.index:
            for m in size.terms:
                used += m
        return
    p = _PARTS[type(op)](op)
    used += [a for a in p.atoms if type(a) is Var]
    for size in p.sizes:
        for m in size.terms:
            used += m
    for var in p.binds:
        if type(var.type) is Array:
            used += type_vars(var.type)
    bound += p.binds
    for block in p.blocks:
        _block_mentions(block, used, bound)


def block_mentions(block: Block) -> Mentions:
    """What a block mentions and binds, nested blocks included; it is found once, as most blocks go through many passes
    unchanged."""
    mentions = block.mentions
    if mentions is None:
        inner: tuple[list[Var], list[Var]] = [], []
        _walk_mentions(block, *inner)
        mentions = tuple(inner[0]), tuple(inner[1])
        object.__setattr__(block, "mentions", mentions)
    return mentions


def _block_mentions(block: Block, used: list[Var], bound: list[Var]) -> None:
    """Adds what a block mentions and binds."""
    mentions = block_mentions(block)
    used += mentions[0]
    bound += mentions[1]


def _walk_mentions(block: Block, used: list[Var], bound: list[Var]) -> None:
    for let in block.lets:
        _mentions(let.op, used, bound)
        bound += let.vars
        for var in let.vars:
            if type(var.type) is Array:
                for size in var.type.shape:
                    for m in size.terms:
                        used += m
    used += [a for a in block.results if type(a) is Var]


def mentioned(x: Op | Block) -> list[Var]:
    """Every mention of a variable in an operation or block, nested blocks and the types of bound variables included."""
    used: list[Var] = []
    if isinstance(x, Block):
        _block_mentions(x, used, [])
    else:
        _mentions(x, used, [])
    return used


def free_vars(x: Op | Block | Function) -> list[Var]:
    """What is mentioned and not bound there, once each, in the order of first mention."""
    used: list[Var] = []
    bound: list[Var] = []
    match x:
        case Block():
            _block_mentions(x, used, bound)
        case Function():
            bound += (*x.params, *x.results)
            for var in bound:
                used += type_vars(var.type)
            _block_mentions(x.body, used, bound)
        case _:
            _mentions(x, used, bound)
    inside = set(bound)
    return [v for v in dict.fromkeys(used) if v not in inside]


def bound_vars(x: Op | Block) -> list[Var]:
    """Every variable bound inside an operation or block, at any depth."""
    bound: list[Var] = []
    if isinstance(x, Block):
        _block_mentions(x, [], bound)
    else:
        _mentions(x, [], bound)
    return bound


def count_uses(x: Op | Block) -> dict[Var, int]:
    """How often each variable is mentioned, nested blocks and types included."""
    counts: dict[Var, int] = {}
    for var in mentioned(x):
        counts[var] = counts.get(var, 0) + 1
    return counts


# ---- what blocks do --------------------------------------------------------------------------------------------------
def block_acts(block: Block) -> Acts:
    """Finds what a block does besides binding values; looks at a block once only."""
    acts = block.acts
    if acts is None:
        acts = _acts_of(block)
        object.__setattr__(block, "acts", acts)
    return acts


def _acts_of(block: Block) -> Acts:
    refuses = False
    calls: set[str] = set()
    consumed: list[Var] = []
    consumers: list[Op] = []
    for op in [let.op for let in block.lets if type(let.op) in _ACTING]:
        if isinstance(op, Check | Effect):
            refuses = True
        if name := named_function(op):
            calls.add(name)
        if isinstance(op, Update | Comp | For | While | Call):
            consumers.append(op)
            consumed += own_consumed(op)
        for inner in map(block_acts, op_blocks(op)):
            refuses = refuses or inner.refuses
            calls |= inner.calls
            consumed += inner.consumed
            if isinstance(op, If):
                consumers += inner.consumers
    return Acts(refuses, frozenset(calls), tuple(consumed), tuple(consumers))


_ACTING = frozenset({Check, Effect, Call, Vjp, Jvp, Record, Pull, Update, *_BLOCKS})


def own_consumed(op: Op) -> list[Var]:
    """The arrays that an operation itself would like to change in place."""
    match op:
        case Update(array=array):
            return [array]
        case Comp():
            return [d.into for d in op.destinations if d.into is not None]
        case For() | While():
            return [a for a in op.init if isinstance(a, Var) and isinstance(a.type, Array)]
        case _:
            return []


# ---- rewriting -------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Mapping:
    """The functions that map the parts of an operation. same: whether all parts so far are what they were."""

    atom: Callable[[Atom], Atom]
    size: Callable[[Size], Size]
    block: Callable[[Block], Block]
    bind: Callable[[Var], Var]
    same: bool = True

    def operand(self, x: Atom) -> Atom:
        new = self.atom(x)
        self.same = self.same and new is x
        return new

    def array(self, v: Var) -> Var:
        return _array(self.operand(v), v)

    def atoms(self, xs: tuple[Atom, ...]) -> tuple[Atom, ...]:
        new = tuple([self.atom(x) for x in xs])
        self.same = self.same and all(map(is_, new, xs))
        return new

    def optional(self, xs: tuple[Atom | None, ...]) -> tuple[Atom | None, ...]:
        return tuple([None if x is None else self.operand(x) for x in xs])

    def entry(self, x: Size) -> Size:
        new = self.size(x)
        self.same = self.same and new is x
        return new

    def sizes(self, xs: tuple[Size, ...]) -> tuple[Size, ...]:
        new = tuple([self.size(x) for x in xs])
        self.same = self.same and all(map(is_, new, xs))
        return new

    def nested(self, b: Block) -> Block:
        new = self.block(b)
        self.same = self.same and new is b
        return new

    def binder(self, v: Var) -> Var:
        new = self.bind(v)
        self.same = self.same and new is v
        return new

    def binders(self, vs: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple([self.binder(v) for v in vs])


def rebuild(
    op: Op,
    *,
    atom: Callable[[Atom], Atom],
    size: Callable[[Size], Size],
    block: Callable[[Block], Block],
    bind: Callable[[Var], Var],
) -> Op:
    """The operation with each of its parts mapped; what it binds is mapped before the parts that see it.

    It is itself where nothing changes. Most operations are of the three kinds that are looked at first.
    """
    if isinstance(op, Prim):
        args = op.args
        new = tuple([atom(x) for x in args])
        return op if all(map(is_, new, args)) else Prim(op.name, new)
    if isinstance(op, Read):
        a, where = atom(op.array), tuple([size(x) for x in op.index])
        same = a is op.array and all(map(is_, where, op.index))
        return op if same else Read(_array(a, op.array), where)
    if isinstance(op, Cast):
        a = atom(op.arg)
        return op if a is op.arg else Cast(op.dtype, a)
    mapping = _Mapping(atom, size, block, bind)
    built = _REBUILT[type(op)](op, mapping)
    return op if mapping.same else built


def _rebuilt_comp(op: Comp, m: _Mapping) -> Comp:
    axes = []
    for axis in op.axes:
        lows, highs = m.sizes(axis.lows), m.sizes(axis.highs)
        axes.append(Axis(m.binder(axis.var), lows, highs))
    body = m.nested(op.body)
    destinations: list[Destination] = []
    for d in op.destinations:
        into = None if d.into is None else m.array(d.into)
        if isinstance(d, Keep):
            destinations.append(Keep(m.sizes(d.shape), m.sizes(d.index), d.monoid, into, d.after))
        else:
            destinations.append(Add(m.sizes(d.shape), m.sizes(d.index), into))
    return Comp(tuple(axes), body, tuple(destinations))


def _rebuilt_for(op: For, m: _Mapping) -> For:
    low, high, init = m.entry(op.low), m.entry(op.high), m.atoms(op.init)
    index, params = m.binder(op.index), m.binders(op.params)
    return For(index, low, high, params, init, m.nested(op.body), op.early)


def _rebuilt_while(op: While, m: _Mapping) -> While:
    init, params = m.atoms(op.init), m.binders(op.params)
    return While(params, init, m.nested(op.condition), m.nested(op.body), op.early)


def _rebuilt_view(op: View, m: _Mapping) -> View:
    axes = m.binders(op.axes)
    return View(m.array(op.array), axes, m.sizes(op.shape), m.sizes(op.index))


_REBUILT: dict[type[Op], Callable[[Any, _Mapping], Op]] = {
    SizeOf: lambda op, m: SizeOf(m.entry(op.size)),
    Format: lambda op, m: Format(op.parts, m.atoms(op.args)),
    Check: lambda op, m: Check(m.operand(op.condition), op.code, op.parts, m.atoms(op.values), m.atoms(op.subjects)),
    Comp: _rebuilt_comp,
    If: lambda op, m: If(m.operand(op.condition), m.nested(op.then), m.nested(op.otherwise), rare=op.rare),
    Call: lambda op, m: Call(op.function, m.atoms(op.args)),
    Construct: lambda op, m: Construct(op.variant, m.atoms(op.args)),
    Tag: lambda op, m: Tag(m.operand(op.node)),
    Fields: lambda op, m: Fields(op.variant, m.operand(op.node)),
    For: _rebuilt_for,
    While: _rebuilt_while,
    View: _rebuilt_view,
    Reshape: lambda op, m: Reshape(m.array(op.array), m.sizes(op.shape)),
    Scan: lambda op, m: Scan(op.monoid, m.array(op.array)),
    Concat: lambda op, m: Concat(tuple([m.array(a) for a in op.arrays])),
    Compact: lambda op, m: Compact(m.array(op.mask)),
    Update: lambda op, m: Update(m.array(op.array), m.sizes(op.index), m.operand(op.value)),
    Copy: lambda op, m: Copy(m.array(op.array)),
    Empty: lambda op, m: Empty(op.dtype, m.sizes(op.shape)),
    Contract: lambda op, m: Contract(m.array(op.a), m.array(op.b), op.left, op.right, op.out),
    Library: lambda op, m: Library(op.name, m.atoms(op.args)),
    Foreign: lambda op, m: Foreign(op.target, m.atoms(op.args)),
    Stop: lambda op, m: Stop(m.operand(op.arg)),
    Vjp: lambda op, m: Vjp(op.function, m.atoms(op.args), op.wrt, m.optional(op.cotangents)),
    Jvp: lambda op, m: Jvp(op.function, m.atoms(op.args), m.optional(op.tangents)),
    Record: lambda op, m: Record(op.function, m.atoms(op.args), op.wrt, op.seeded, op.tape),
    Pull: lambda op, m: Pull(
        op.function, op.wrt, op.seeded, m.operand(op.tape), m.atoms(op.sizes), m.optional(op.cotangents)
    ),
    Effect: lambda op, m: Effect(op.name, m.operand(op.token), m.atoms(op.args), op.static),
}


def _array(new: Atom, old: Var) -> Var:
    if not isinstance(new, Var):
        raise IRError(f"{new} stands where {old} is an array")
    return new


def map_blocks(op: Op, f: Callable[[Block], Block]) -> Op:
    """The operation with `f` applied to each nested block; the operation itself if it has none or none changes."""
    match op:
        case Comp():
            body = f(op.body)
            return op if body is op.body else Comp(op.axes, body, op.destinations)
        case If():
            then, otherwise = f(op.then), f(op.otherwise)
            same = then is op.then and otherwise is op.otherwise
            return op if same else If(op.condition, then, otherwise, rare=op.rare)
        case For():
            body = f(op.body)
            return op if body is op.body else For(op.index, op.low, op.high, op.params, op.init, body, op.early)
        case While():
            condition, body = f(op.condition), f(op.body)
            same = condition is op.condition and body is op.body
            return op if same else While(op.params, op.init, condition, body, op.early)
        case _:
            return op


def with_lets(block: Block, lets: Sequence[Let], results: Sequence[Atom]) -> Block:
    """A block of these lets and results: the one given if it has just them."""
    if len(lets) == len(block.lets) and all(map(is_, lets, block.lets)) and all(map(is_, results, block.results)):
        return block
    return Block(tuple(lets), tuple(results))


def with_op(let: Let, vars: tuple[Var, ...], op: Op) -> Let:
    """A let of these variables and this operation: the one given if it has just them."""
    return let if op is let.op and all(map(is_, vars, let.vars)) else Let(vars, op, let.span)


def map_inner(block: Block, f: Callable[[Block], Block]) -> Block:
    """The block with `f` applied to the blocks in its operations: itself if none changes."""
    return with_lets(block, [with_op(let, let.vars, map_blocks(let.op, f)) for let in block.lets], block.results)


def with_body(function: Function, body: Block) -> Function:
    """The function with another body: itself if it is the same one."""
    return function if body is function.body else replace(function, body=body)


def map_bodies(program: Program, f: Callable[[Block], Block]) -> Program:
    """The program with `f` applied to the body of each function."""
    return map_functions(program, lambda function: with_body(function, f(function.body)))


def map_functions(program: Program, f: Callable[[Function], Function]) -> Program:
    """The program with `f` applied to each function."""
    return replace(program, functions={name: f(function) for name, function in program.functions.items()})
