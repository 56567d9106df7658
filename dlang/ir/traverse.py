"""How every pass walks and rewrites the IR: what an operation mentions and binds, substitution, fresh copies.

`parts` and `rebuild` are the only two functions that know the fields of every operation. A variable is bound once in a
function, so substitution needs no scopes: what is free in a block is what it mentions minus what it binds. Each is one
walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import is_
from typing import NamedTuple, assert_never, overload

from dlang.diagnostics import CallSite, Span
from dlang.ir.anf import (
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
    Lit,
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
    fresh,
    poly,
)
from dlang.ir.errors import IRError
from dlang.polynomials import Poly

Replacement = Atom | Size  # a polynomial may stand for an i64 variable wherever only polynomials mention it


# ---- what an operation consists of -----------------------------------------------------------------------------------
class Parts(NamedTuple):
    """What an operation mentions itself, its nested blocks, and what it binds for them (or for its own sizes)."""

    atoms: tuple[Atom, ...] = ()
    sizes: tuple[Size, ...] = ()
    blocks: tuple[Block, ...] = ()
    binds: tuple[Var, ...] = ()


def parts(op: Op) -> Parts:
    """The parts of an operation, without looking into its blocks; atoms in the order of evaluation."""
    match op:
        case Prim(args=args) | Call(args=args) | Library(args=args) | Format(args=args) | Construct(args=args):
            return Parts(args)
        case Foreign(args=args):
            return Parts(args)
        case Read():
            return Parts((op.array,), op.index)
        case Cast(arg=arg) | Stop(arg=arg) | Tag(node=arg) | Fields(node=arg):
            return Parts((arg,))
        case SizeOf():
            return Parts((), (op.size,))
        case Check():
            return Parts((op.condition, *op.values, *op.subjects))
        case Comp():
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
            return Parts(tuple(into), tuple(sizes), (op.body,), tuple(axis.var for axis in op.axes))
        case If():
            return Parts((op.condition,), (), (op.then, op.otherwise))
        case For():
            return Parts(op.init, (op.low, op.high), (op.body,), (op.index, *op.params))
        case While():
            return Parts(op.init, (), (op.condition, op.body), op.params)
        case View():
            return Parts((op.array,), (*op.shape, *op.index), (), op.axes)
        case Reshape():
            return Parts((op.array,), op.shape)
        case Scan(array=array) | Copy(array=array):
            return Parts((array,))
        case Empty():
            return Parts((), op.shape)
        case Concat():
            return Parts(op.arrays)
        case Compact():
            return Parts((op.mask,))
        case Update():
            return Parts((op.array, op.value), op.index)
        case Contract():
            return Parts((op.a, op.b))
        case Vjp():
            return Parts((*op.args, *(c for c in op.cotangents if c is not None)))
        case Jvp():
            return Parts((*op.args, *(t for t in op.tangents if t is not None)))
        case Record(args=args):
            return Parts(args)
        case Pull():
            return Parts((op.tape, *op.sizes, *(c for c in op.cotangents if c is not None)))
        case Effect():
            return Parts((op.token, *op.args))
        case _:
            assert_never(op)


_NESTING = frozenset((Comp, If, For, While))
"""The operations that have blocks."""


def op_atoms(op: Op) -> tuple[Atom, ...]:
    """The operands of an operation, without those of nested blocks and without what its polynomials mention."""
    return parts(op).atoms


def op_sizes(op: Op) -> tuple[Size, ...]:
    """The polynomials of an operation: sizes, bounds, indices; without those of nested blocks."""
    return parts(op).sizes


def op_blocks(op: Op) -> tuple[Block, ...]:
    """The nested blocks of an operation, in the order of evaluation."""
    return parts(op).blocks


def op_binds(op: Op) -> tuple[Var, ...]:
    """What an operation binds inside itself: axes, a loop's index and state."""
    return parts(op).binds


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
        if type(let.op) in _NESTING:
            pending += [iter(inner.lets) for inner in reversed(parts(let.op).blocks)]


# ---- variables -------------------------------------------------------------------------------------------------------
def type_vars(type: Type) -> list[Var]:
    """The variables in the sizes of a type, with repetitions."""
    return [a for size in type.shape for m in size.terms for a in m] if isinstance(type, Array) else []


def _mentions(op: Op, used: list[Var], bound: list[Var]) -> None:
    if isinstance(op, Prim):  # most operations are
        used += [a for a in op.args if isinstance(a, Var)]
        return
    p = parts(op)
    used += [a for a in p.atoms if isinstance(a, Var)]
    for size in p.sizes:
        for m in size.terms:
            used += m
    for var in p.binds:
        if isinstance(var.type, Array):
            used += type_vars(var.type)
    bound += p.binds
    for block in p.blocks:
        _block_mentions(block, used, bound)


def _block_mentions(block: Block, used: list[Var], bound: list[Var]) -> None:
    for let in block.lets:
        _mentions(let.op, used, bound)
        bound += let.vars
        for var in let.vars:
            if isinstance(var.type, Array):
                used += type_vars(var.type)
    used += [a for a in block.results if isinstance(a, Var)]


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


# ---- rewriting -------------------------------------------------------------------------------------------------------
def rebuild(
    op: Op,
    *,
    atom: Callable[[Atom], Atom],
    size: Callable[[Size], Size],
    block: Callable[[Block], Block],
    bind: Callable[[Var], Var],
) -> Op:
    """The operation with each of its parts mapped; what it binds is mapped before the parts that see it.

    One without blocks is itself where nothing changes: most operations are of the three kinds that are looked at first.
    """
    match op:
        case Prim(name, args):
            new = tuple([atom(a) for a in args])
            return op if all(map(is_, new, args)) else Prim(name, new)
        case Read():
            a, where = atom(op.array), tuple([size(x) for x in op.index])
            if a is op.array and all(map(is_, where, op.index)):
                return op
            return Read(_array(a, op.array), where)
        case Cast(dtype, arg):
            a = atom(arg)
            return op if a is arg else Cast(dtype, a)
        case _:
            pass

    def array(v: Var) -> Var:
        return _array(atom(v), v)

    def atoms(xs: tuple[Atom, ...]) -> tuple[Atom, ...]:
        return tuple([atom(x) for x in xs])

    def sizes(xs: tuple[Size, ...]) -> tuple[Size, ...]:
        return tuple([size(x) for x in xs])

    def optional(xs: tuple[Atom | None, ...]) -> tuple[Atom | None, ...]:
        return tuple([None if x is None else atom(x) for x in xs])

    match op:
        case SizeOf(value):
            return SizeOf(size(value))
        case Format():
            return Format(op.parts, atoms(op.args))
        case Check():
            return Check(atom(op.condition), op.code, op.parts, atoms(op.values), atoms(op.subjects))
        case Comp():
            axes = []
            for axis in op.axes:
                lows, highs = sizes(axis.lows), sizes(axis.highs)
                axes.append(Axis(bind(axis.var), lows, highs))
            body = block(op.body)
            destinations: list[Destination] = []
            for d in op.destinations:
                into = None if d.into is None else array(d.into)
                if isinstance(d, Keep):
                    destinations.append(Keep(sizes(d.shape), sizes(d.index), d.monoid, into))
                else:
                    destinations.append(Add(sizes(d.shape), sizes(d.index), into))
            return Comp(tuple(axes), body, tuple(destinations))
        case If():
            return If(atom(op.condition), block(op.then), block(op.otherwise), rare=op.rare)
        case Call():
            return Call(op.function, atoms(op.args))
        case Construct():
            return Construct(op.variant, atoms(op.args))
        case Tag(node):
            return Tag(atom(node))
        case Fields(variant, node):
            return Fields(variant, atom(node))
        case For():
            low, high, init = size(op.low), size(op.high), atoms(op.init)
            index, params = bind(op.index), tuple([bind(p) for p in op.params])
            return For(index, low, high, params, init, block(op.body), op.early)
        case While():
            init, params = atoms(op.init), tuple([bind(p) for p in op.params])
            return While(params, init, block(op.condition), block(op.body), op.early)
        case View():
            view_axes = tuple([bind(a) for a in op.axes])
            return View(array(op.array), view_axes, sizes(op.shape), sizes(op.index))
        case Reshape():
            return Reshape(array(op.array), sizes(op.shape))
        case Scan():
            return Scan(op.monoid, array(op.array))
        case Concat():
            return Concat(tuple([array(a) for a in op.arrays]))
        case Compact():
            return Compact(array(op.mask))
        case Update():
            return Update(array(op.array), sizes(op.index), atom(op.value))
        case Copy():
            return Copy(array(op.array))
        case Empty():
            return Empty(op.dtype, sizes(op.shape))
        case Contract():
            return Contract(array(op.a), array(op.b), op.left, op.right, op.out)
        case Library():
            return Library(op.name, atoms(op.args))
        case Foreign():
            return Foreign(op.target, atoms(op.args))
        case Stop():
            return Stop(atom(op.arg))
        case Vjp():
            return Vjp(op.function, atoms(op.args), op.wrt, optional(op.cotangents))
        case Jvp():
            return Jvp(op.function, atoms(op.args), optional(op.tangents))
        case Record():
            return Record(op.function, atoms(op.args), op.wrt, op.seeded, op.tape)
        case Pull():
            return Pull(op.function, op.wrt, op.seeded, atom(op.tape), atoms(op.sizes), optional(op.cotangents))
        case Effect():
            return Effect(op.name, atom(op.token), atoms(op.args), op.static)
        case _:
            assert_never(op)


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


def map_functions(program: Program, f: Callable[[Function], Function]) -> Program:
    """The program with `f` applied to each function."""
    return replace(program, functions={name: f(function) for name, function in program.functions.items()})


_TOTAL = (Prim, Cast, SizeOf, Read, Stop, Format)  # what can't fail has no need of a place


class Renaming:
    """A substitution under way: `env` grows as bound variables get replaced, so one value serves one walk.

    A bound variable is replaced where its type changes, or always if `fresh` is set. site: of the call whose place the
    code takes; what can fail remembers it.
    """

    __slots__ = ("env", "fresh", "site")

    def __init__(self, mapping: Mapping[Var, Replacement], fresh: bool = False, site: CallSite | None = None) -> None:
        self.env: dict[Var, Replacement] = dict(mapping)
        self.fresh = fresh
        self.site = site

    def atom(self, atom: Atom) -> Atom:
        new = self.env.get(atom) if isinstance(atom, Var) else None
        if new is None:
            return atom
        if isinstance(new, Poly):
            if new.atom is not None:
                return new.atom
            if new.constant is not None:
                return Lit(int(new.constant), "i64")
            raise IRError(f"the polynomial {new} stands where {atom} is an operand")
        return new

    def size(self, size: Size) -> Size:
        env = self.env
        if not env:
            return size
        for m in size.terms:
            for a in m:
                if a in env:
                    return size.substitute(self._poly)
        return size

    def _poly(self, var: Var) -> Size | None:
        new = self.env.get(var)
        return None if new is None else poly(new)

    def type(self, type: Type) -> Type:
        if not isinstance(type, Array):
            return type
        shape = tuple([self.size(s) for s in type.shape])
        return type if all(a is b for a, b in zip(shape, type.shape, strict=True)) else Array(type.dtype, shape)

    def bind(self, var: Var) -> Var:
        type = self.type(var.type)
        if type is var.type and not self.fresh:
            return var
        new = fresh(var.name, type)
        self.env[var] = new
        return new

    def op(self, op: Op) -> Op:
        return rebuild(op, atom=self.atom, size=self.size, block=self.block, bind=self.bind)

    def let(self, let: Let) -> Let:
        op = self.op(let.op)
        span = let.span
        if self.site is not None and span is not None and not isinstance(op, _TOTAL):
            span = span.reached(self.site)
        vars = tuple([self.bind(v) for v in let.vars])
        if op is let.op and span is let.span and all(map(is_, vars, let.vars)):
            return let
        return Let(vars, op, span)

    def block(self, block: Block) -> Block:
        lets = tuple([self.let(let) for let in block.lets])
        return Block(lets, tuple([self.atom(r) for r in block.results]))


@overload
def substitute(x: Block, mapping: Mapping[Var, Replacement]) -> Block: ...
@overload
def substitute(x: Size, mapping: Mapping[Var, Replacement]) -> Size: ...
@overload
def substitute(x: Type, mapping: Mapping[Var, Replacement]) -> Type: ...
@overload
def substitute(x: Op, mapping: Mapping[Var, Replacement]) -> Op: ...
def substitute(x: Block | Op | Type | Size, mapping: Mapping[Var, Replacement]) -> Block | Op | Type | Size:
    """A block, operation, type or polynomial with variables replaced.

    A bound variable whose type mentions a replaced one becomes a fresh variable; an operation's own results do not
    change, so use it on an operation only if the types of what it binds are substituted too.
    """
    if not mapping:
        return x
    renaming = Renaming(mapping)
    match x:
        case Block():
            return renaming.block(x)
        case Poly():
            return renaming.size(x)
        case _ if isinstance(x, Type):
            return renaming.type(x)
        case _:
            return renaming.op(x)


def refresh(block: Block, mapping: Mapping[Var, Replacement] | None = None) -> Block:
    """A copy of a block in which every bound variable is fresh, and `mapping` replaces free ones."""
    return Renaming(mapping or {}, fresh=True).block(block)


def inlined(function: Function, args: tuple[Atom, ...], span: Span | None = None) -> Block:
    """A fresh copy of the body of a function applied to arguments, in the place of a call at `span`."""
    site = CallSite(function.label or function.name, span)
    return Renaming(dict(zip(function.params, args, strict=True)), fresh=True, site=site).block(function.body)


def refresh_vars(vars: tuple[Var, ...], mapping: Mapping[Var, Replacement]) -> tuple[Var, ...]:
    """Fresh copies of variables whose types may mention earlier ones of them, and what `mapping` replaces."""
    renaming = Renaming(mapping, fresh=True)
    return tuple([renaming.bind(v) for v in vars])
