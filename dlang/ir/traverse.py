"""How every pass walks and rewrites the IR: what an operation mentions and binds, and the same one with other parts.

Nothing here knows the operations: what a field is, its type in `anf.py` says (`roles.py`). A variable is bound once in
a function, so what is free in a block is what it mentions minus what it binds. Also slices pure blocks, to the lets
that some of their values depend on, and finds the functions that functions call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from operator import is_
from typing import Any, NamedTuple

from dlang.graphs import components, in_cycles, reached
from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Call, Function, Let, Program, Size, Var
from dlang.ir.errors import IRError
from dlang.ir.roles import Generated, Leaf, Role, Trait, collected, defined, leaves, rebuilding


# ---- what an operation consists of -----------------------------------------------------------------------------------
class Parts(NamedTuple):
    """The operands of an operation, its nested blocks, and the variables bound for these (or for its own sizes)."""

    atoms: tuple[anf.Atom, ...] = ()
    sizes: tuple[anf.Size, ...] = ()
    blocks: tuple[anf.Block, ...] = ()
    binds: tuple[anf.Var, ...] = ()


def parts(op: anf.Op) -> Parts:
    """The parts of an operation, without looking into its blocks; atoms in the order of evaluation."""
    return _PARTS[type(op)](op)


def _of_role(cls: type, role: Role) -> str:
    """A text for the parts of an operation that have a role."""
    return collected(cls, "op", lambda leaf: leaf.role is role)


def _written_parts(cls: type) -> Callable[[Any], Parts]:
    fields = [_of_role(cls, role) for role in (Role.OPERAND, Role.SIZE, Role.BLOCK, Role.BINDER)]
    return defined(f"made = lambda op: Parts({', '.join(fields)})", cls, Parts=Parts)


def _written_blocks(cls: type) -> Callable[[Any], tuple[anf.Block, ...]]:
    return _collecting(cls, lambda leaf: leaf.role is Role.BLOCK)


def _collecting(cls: type, wanted: Callable[[Leaf], bool]) -> Callable[[Any], tuple[Any, ...]]:
    """A function for the parts of an operation that are wanted."""
    text = collected(cls, "op", wanted)
    return _nothing if text == "()" else defined(f"made = lambda op: {text}", cls)


def _nothing(op: anf.Op) -> tuple[()]:
    """Returns nothing, which is right for most operations."""
    return ()


def _with_trait(trait: Trait) -> Generated[Callable[[Any], tuple[Any, ...]]]:
    """Functions for the parts of operations that have a trait."""
    return Generated(lambda cls: _collecting(cls, lambda leaf: trait in leaf.traits))


_PARTS = Generated(_written_parts)
_OP_BLOCKS = Generated(_written_blocks)


def op_blocks(op: anf.Op) -> tuple[anf.Block, ...]:
    """The nested blocks of an operation, in the order of evaluation."""
    return _OP_BLOCKS[type(op)](op)


def outer_sizes(op: anf.Op) -> tuple[anf.Size, ...]:
    """The polynomials of an operation that see what is in scope around it."""
    return _OUTER[type(op)](op)


def offsets(op: anf.Op) -> tuple[anf.Size, ...]:
    """The place, one entry for each axis, of the elements that an operation reads or changes."""
    return _OFFSETS[type(op)](op)


def inner_sizes(op: anf.Op) -> tuple[anf.Size, ...]:
    """The polynomials of an operation that also see what it and its blocks bind."""
    return _INNER[type(op)](op)


def _written_outer(cls: type) -> Callable[[Any], tuple[anf.Size, ...]]:
    return _collecting(cls, lambda leaf: leaf.role is Role.SIZE and Trait.INSIDE not in leaf.traits)


def _written_inner(cls: type) -> Callable[[Any], tuple[anf.Size, ...]]:
    return _collecting(cls, lambda leaf: leaf.role is Role.SIZE and Trait.INSIDE in leaf.traits)


_OUTER = Generated(_written_outer)
_INNER = Generated(_written_inner)


def named_function(op: anf.Op) -> str | None:
    """The function of the program that an operation calls or differentiates."""
    names = _NAMED[type(op)](op)
    return names[0] if names else None


_NAMED = _with_trait(Trait.FUNCTION)


def application(op: anf.Op) -> tuple[str, tuple[anf.Atom, ...]] | None:
    """The function of the program that an operation applies, or applies and differentiates, and its arguments."""
    return (*_NAMED[type(op)](op), _ARGUMENTS[type(op)](op)) if _APPLIES[type(op)] else None


_APPLIES = Generated(lambda cls: any(Trait.ARGUMENTS in leaf.traits for leaf in leaves(cls)))
_ARGUMENTS = _with_trait(Trait.ARGUMENTS)


def element_sources(op: anf.Op) -> tuple[anf.Atom, ...]:
    """The operands whose elements those of the result are among; none where the result may have others."""
    return _ELEMENTS[type(op)](op)


_ELEMENTS = _with_trait(Trait.ELEMENTS)
_OFFSETS = _with_trait(Trait.OFFSET)


def walk(block: anf.Block) -> Iterator[anf.Let]:
    """Every let of a block and of the blocks in it, an outer let before the inner ones."""
    pending = [iter(block.lets)]  # not generators in generators, which would pass each let up through all of them
    while pending:
        for let in pending[-1]:
            yield let
            blocks = _OP_BLOCKS[type(let.op)]
            if blocks is not _nothing:
                pending += [iter(inner.lets) for inner in reversed(blocks(let.op))]
                break
        else:
            pending.pop()


# ---- variables -------------------------------------------------------------------------------------------------------
def type_vars(type: anf.Type) -> list[anf.Var]:
    """The variables in the sizes of a type, with repetitions."""
    return [a for size in type.shape for m in size.terms for a in m] if isinstance(type, anf.Array) else []


def _mentions(op: anf.Op, used: list[anf.Var], bound: list[anf.Var]) -> None:
    _MENTIONS[type(op)](op, used, bound)


def _written_mentions(cls: type, inner: bool = True) -> Callable[[Any, list[anf.Var], list[anf.Var]], None]:
    lines = ["def made(op, used, bound):"]
    if (vars := collected(cls, "op", lambda leaf: leaf.role is Role.OPERAND)) != "()":
        lines.append(f"    used += [a for a in {vars} if type(a) is Var]")
    if (sizes := _of_role(cls, Role.SIZE)) != "()":
        lines += [f"    for size in {sizes}:", "        for m in size.terms: used += m"]
    if (binders := _of_role(cls, Role.BINDER)) != "()":
        lines += [f"    binders = {binders}", "    for var in binders:", "        used += type_vars(var.type)"]
        lines.append("    bound += binders")
    if inner and (blocks := _of_role(cls, Role.BLOCK)) != "()":
        lines.append(f"    for block in {blocks}: add_mentions(block, used, bound)")
    text = "\n".join([*lines, "    return"])
    return defined(text, cls, Var=anf.Var, type_vars=type_vars, add_mentions=_block_mentions)


_MENTIONS = Generated(_written_mentions)
_OWN_MENTIONS = Generated(partial(_written_mentions, inner=False))  # without those in blocks


def block_mentions(block: anf.Block) -> anf.Mentions:
    """The variables that a block mentions and binds, inner blocks included; found once, as passes seldom change a
    block."""
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


def outer_mentions(block: anf.Block) -> Mapping[anf.Var, int]:
    """How often a block mentions each variable from around it, in the order of first mention; found once.

    So what asks of each of many blocks inside of blocks does not go through all that is inside each time.
    """
    outer = block.outer
    if outer is None:
        bound: list[anf.Var] = []
        counts = _counted(block, bound)
        for var in bound:
            counts.pop(var, None)
        outer = counts
        object.__setattr__(block, "outer", outer)
    return outer


def _counted(block: anf.Block, bound: list[anf.Var]) -> dict[anf.Var, int]:
    """How often a block mentions each variable that it binds itself, or that is from around it. bound: gets the
    former."""
    counts: dict[anf.Var, int] = {}
    for let in block.lets:
        _count(let.op, counts, bound)
        bound += let.vars
        for bound_here in let.vars:
            for var in type_vars(bound_here.type):
                counts[var] = counts.get(var, 0) + 1
    for result in block.results:
        if type(result) is anf.Var:
            counts[result] = counts.get(result, 0) + 1
    return counts


def _count(op: anf.Op, counts: dict[anf.Var, int], bound: list[anf.Var]) -> None:
    """Counts what an operation mentions of what is around its blocks."""
    used: list[anf.Var] = []
    _OWN_MENTIONS[type(op)](op, used, bound)
    for var in used:
        counts[var] = counts.get(var, 0) + 1
    blocks = _OP_BLOCKS[type(op)]
    if blocks is _nothing:
        return
    for inner in blocks(op):
        for var, count in outer_mentions(inner).items():
            counts[var] = counts.get(var, 0) + count
        bound += [var for let in inner.lets for var in let.vars]  # of which the operation itself may mention sizes


def count_own_uses(block: anf.Block) -> dict[anf.Var, int]:
    """How often each variable is mentioned that a block binds itself, or that is from around it; nested blocks and
    types included."""
    return _counted(block, [])


def free_vars(x: anf.Op | anf.Block | anf.Function) -> list[anf.Var]:
    """Lists the free variables, once each, in the order of first mention."""
    counts: dict[anf.Var, int] = {}
    bound: list[anf.Var] = []
    match x:
        case anf.Block():
            return list(outer_mentions(x))
        case anf.Function():
            bound += (*x.params, *x.results)
            counts.update(dict.fromkeys([v for var in bound for v in type_vars(var.type)], 1))
            counts.update(outer_mentions(x.body))
        case _ if _OP_BLOCKS[type(x)] is _nothing:
            used: list[anf.Var] = []
            _OWN_MENTIONS[type(x)](x, used, bound)
            counts = dict.fromkeys(used, 1)
        case _:
            _count(x, counts, bound)
    inside = set(bound)
    return [v for v in counts if v not in inside] if inside else list(counts)


def used_by(let: anf.Let) -> tuple[anf.Var, ...]:
    """The free variables of the operation of a let, once each, in the order of first mention; found once."""
    used = let.used
    if used is None:
        used = tuple(free_vars(let.op))
        object.__setattr__(let, "used", used)
    return used


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
    for op in [let.op for let in block.lets if ACTING[type(let.op)]]:
        if op.IS.stays:
            refuses = True
        if name := named_function(op):
            calls.add(name)
        if isinstance(op, anf.Call) or _CONSUMED[type(op)] is not _nothing:
            consumers.append(op)
            consumed += own_consumed(op)
        for inner in map(block_acts, op_blocks(op)):
            refuses = refuses or inner.refuses
            calls |= inner.calls
            consumed += inner.consumed
            if isinstance(op, anf.If):
                consumers += inner.consumers
    if consumers:  # nobody around knows what is made here
        made = {v for let in block.lets for v in let.vars}
        consumed = [v for v in consumed if v not in made]
        consumers = [op for op in consumers if not made.issuperset(_arrays(op))]
    return anf.Acts(refuses, frozenset(calls), tuple(consumed), tuple(consumers))


def _arrays(op: anf.Op) -> list[anf.Var]:
    """The arrays that an operation takes, not those that only its blocks use."""
    return [a for a in parts(op).atoms if isinstance(a, anf.Var) and isinstance(a.type, anf.Array)]


def _acts(cls: type[anf.Op]) -> bool:
    """Tells whether operations of a class have to be looked at to know what a block does."""
    traits = {mark for leaf in leaves(cls) for mark in leaf.traits}
    has_blocks = any(leaf.role is Role.BLOCK for leaf in leaves(cls))
    return has_blocks or cls.IS.stays or not traits.isdisjoint((Trait.FUNCTION, Trait.CONSUMED))


ACTING = Generated(_acts)
"""Tells of a class whether its operations may do anything besides binding values; most do not."""


def own_consumed(op: anf.Op) -> list[anf.Var]:
    """The arrays that an operation itself would like to change in place."""
    consumed = _CONSUMED[type(op)]
    return [] if consumed is _nothing else [a for a in consumed(op) if isinstance(a.type, anf.Array)]


_CONSUMED = _with_trait(Trait.CONSUMED)


# ---- rewriting -------------------------------------------------------------------------------------------------------
def rebuild(
    op: anf.Op,
    *,
    atom: Callable[[anf.Atom], anf.Atom],
    size: Callable[[anf.Size], anf.Size],
    block: Callable[[anf.Block], anf.Block],
    bind: Callable[[anf.Var], anf.Var],
) -> anf.Op:
    """The operation with each of its parts mapped; what it binds is mapped before the parts that see it.

    It is itself where nothing changes.
    """
    new: anf.Op = _REBUILT[type(op)](op, atom, size, block, bind)
    return new


def _stands(new: anf.Atom, old: anf.Var) -> anf.Var:
    raise IRError(f"{new} stands where {old} is an array")


_ALL = {Role.OPERAND: "atom", Role.SIZE: "size", Role.BLOCK: "block", Role.BINDER: "bind"}


def _written_rebuild(cls: type) -> Callable[..., Any]:
    return defined(rebuilding(cls, _ALL), cls, is_=is_, stands=_stands, rebuilt=_REBUILT)


def _written_map(cls: type) -> Callable[[Any, Callable[[anf.Block], anf.Block]], Any]:
    if all(leaf.role is not Role.BLOCK for leaf in leaves(cls)):
        return _same
    return defined(rebuilding(cls, {Role.BLOCK: "block"}), cls, is_=is_, rebuilt=_MAPPED)


def _same(op: anf.Op, f: Callable[[anf.Block], anf.Block]) -> anf.Op:
    """Most operations have no blocks."""
    return op


_REBUILT = Generated(_written_rebuild)
_MAPPED = Generated(_written_map)


def map_blocks(op: anf.Op, f: Callable[[anf.Block], anf.Block]) -> anf.Op:
    """The operation with `f` applied to each nested block; the operation itself if it has none or none changes."""
    new: anf.Op = _MAPPED[type(op)](op, f)
    return new


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
    lets: list[anf.Let] = []
    changed = False
    for let in block.lets:
        map_op = _MAPPED[type(let.op)]
        if map_op is not _same:
            op = map_op(let.op, f)
            if op is not let.op:
                changed, let = True, anf.Let(let.vars, op, let.span)
        lets.append(let)
    return anf.Block(tuple(lets), block.results) if changed else block


def with_body(function: anf.Function, body: anf.Block) -> anf.Function:
    """The function with another body: itself if it is the same one."""
    return function if body is function.body else replace(function, body=body)


def map_bodies(program: anf.Program, f: Callable[[anf.Block], anf.Block]) -> anf.Program:
    """The program with `f` applied to the body of each function."""
    return map_functions(program, lambda function: with_body(function, f(function.body)))


def map_functions(program: anf.Program, f: Callable[[anf.Function], anf.Function]) -> anf.Program:
    """The program with `f` applied to each function that is not finished."""
    done = program.finished.get
    return replace(program, functions={n: g if done(n) is g else f(g) for n, g in program.functions.items()})


# ---- slices of pure blocks -------------------------------------------------------------------------------------------
def pruned(
    lets: Sequence[Let], atoms: Iterable[Atom], sizes: Iterable[Size] = (), stay: Set[int] = frozenset()
) -> list[Let]:
    """The lets that compute what is mentioned. All of them are pure, but those at the positions that stay."""
    return [lets[k] for k in needed(lets, atoms, sizes, stay)]


def needed(
    lets: Sequence[Let], atoms: Iterable[Atom], sizes: Iterable[Size] = (), stay: Set[int] = frozenset()
) -> list[int]:
    """The positions of the lets that compute what is mentioned."""
    wanted = {a for a in atoms if isinstance(a, Var)} | {a for s in sizes for a in s.atoms()}
    out = []
    for k in range(len(lets) - 1, -1, -1):
        let = lets[k]
        if k in stay or not wanted.isdisjoint(let.vars):
            out.append(k)
            wanted.update(used_by(let))
            for v in let.vars:
                wanted.update(type_vars(v.type))
    return out[::-1]


def split_by_need(lets: Iterable[Let], vars: Iterable[Var]) -> tuple[list[Let], list[Let]]:
    """The lets that need none of some variables, not through others either, and those that do."""
    needed = set(vars)
    apart: list[Let] = []
    needing: list[Let] = []
    for let in lets:
        if needed.isdisjoint(mentioned(let.op)):
            apart.append(let)
        else:
            needing.append(let)
            needed.update(let.vars)
    return apart, needing


def pruned_block(block: Block) -> Block:
    """A pure block without the lets that its results do not need."""
    return Block(tuple(pruned(block.lets, block.results)), block.results)


# ---- calls -----------------------------------------------------------------------------------------------------------
def recursive_functions(program: Program) -> set[str]:
    """The functions that may call themselves, directly or through others: only these have to watch the stack."""
    calls = {name: sorted(set(called_by(f))) for name, f in program.functions.items()}
    return in_cycles(calls, components(calls))


def reachable(program: Program, entries: Sequence[str]) -> Program:
    """The part of a program that some functions reach."""
    names = set(reached(entries, lambda name: called_by(program.functions[name])))
    return replace(program, functions={name: f for name, f in program.functions.items() if name in names})


def reaching(callees: Mapping[str, Iterable[str]], starts: Iterable[str]) -> set[str]:
    """The functions that reach one of some, these included. callees: what each function calls."""
    callers: dict[str, list[str]] = {}
    for name, called in callees.items():
        for callee in called:
            callers.setdefault(callee, []).append(name)
    return set(reached(starts, lambda name: callers.get(name, ())))


def called_by(f: Function) -> list[str]:
    """The functions that one calls, once for each place."""
    return [let.op.function for let in walk(f.body) if isinstance(let.op, Call)]
