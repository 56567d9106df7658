"""How passes walk and rewrite the loop-nest IR: what a statement uses and binds, what is inside of it, and the same
one with other parts.

Nothing here knows the statements: what a field is, its type says (`ir/roles.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from dlang.codegen import loops
from dlang.ir.anf import Lit, Size, Var
from dlang.ir.errors import IRError
from dlang.ir.roles import Generated, Leaf, Record, Role, Trait, collected, defined, leaves, rebuilding, shapes
from dlang.polynomials import Poly


# ---- what is inside --------------------------------------------------------------------------------------------------
def blocks(stmt: loops.Stmt) -> tuple[tuple[loops.Stmt, ...], ...]:
    """The lists of statements right inside a statement, in order."""
    return _BLOCKS[type(stmt)](stmt)


def _collecting(wanted: Callable[[Leaf], bool]) -> Callable[[type], Callable[[Any], tuple[Any, ...]]]:
    """Makes functions for the parts of a statement that are wanted."""

    def made(cls: type) -> Callable[[Any], tuple[Any, ...]]:
        text = collected(cls, "op", wanted)
        return _nothing if text == "()" else defined(f"made = lambda op: {text}", cls)

    return made


def _nothing(stmt: loops.Stmt) -> tuple[()]:
    """Returns nothing, which is right for most statements."""
    return ()


_BLOCKS = Generated(_collecting(lambda leaf: leaf.role is Role.BLOCK))


def walk(stmts: Iterable[loops.Stmt]) -> Iterator[loops.Stmt]:
    """Statements and those inside them, in order."""
    pending = [iter(stmts)]  # not generators in generators, which would pass each statement up through all of them
    while pending:
        stmt = next(pending[-1], None)
        if stmt is None:
            pending.pop()
            continue
        yield stmt
        if inside := _BLOCKS[type(stmt)](stmt):
            pending += [iter(inner) for inner in reversed(inside)]


def map_inside(stmt: loops.Stmt, change: Callable[[Sequence[loops.Stmt]], tuple[loops.Stmt, ...]]) -> loops.Stmt:
    """A statement with the lists of statements right inside it changed; itself, if none of them becomes another."""
    new: loops.Stmt = _MAPPED[type(stmt)](stmt, change)
    return new


def _written_map(cls: type) -> Callable[..., Any]:
    if all(leaf.role is not Role.BLOCK for leaf in leaves(cls)):
        return lambda stmt, change: stmt
    return defined(rebuilding(cls, {Role.BLOCK: "block"}), cls, is_=is_, rebuilt=_MAPPED)


_MAPPED = Generated(_written_map)


def with_stmts(body: loops.Body, stmts: tuple[loops.Stmt, ...]) -> loops.Body:
    """A body with other statements; itself, if they are its own."""
    return body if stmts is body.stmts else loops.Body(stmts, body.results)


def kept(before: Sequence[loops.Stmt], after: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
    """Statements that became others; the tuple that they came in, if each is what it was."""
    return tuple(before if len(before) == len(after) and all(map(is_, before, after)) else after)


def rebuild(
    stmt: loops.Stmt,
    *,
    value: Callable[[Any], Any] = lambda x: x,
    size: Callable[[Size], Size] = lambda x: x,
    block: Callable[[Sequence[loops.Stmt]], tuple[loops.Stmt, ...]] = tuple,
    bind: Callable[[Any], Any] = lambda x: x,
) -> loops.Stmt:
    """The statement with each of its parts mapped; itself if nothing changes."""
    new: loops.Stmt = _REBUILT[type(stmt)](stmt, value, size, block, bind)
    return new


def _stands(new: object, old: object) -> object:
    raise IRError(f"{new!r} stands where {old!r} does")


_ALL = {
    Role.OPERAND: "value",
    Role.SIZE: "size",
    Role.BLOCK: "block",
    Role.BINDER: "bind",
    Role.RESULT: "bind",
}


def _written_rebuild(cls: type) -> Callable[..., Any]:
    return defined(rebuilding(cls, _ALL), cls, is_=is_, stands=_stands, rebuilt=_REBUILT)


_REBUILT = Generated(_written_rebuild)


def map_bodies(stmt: loops.Stmt, change: Callable[[loops.Body], loops.Body]) -> loops.Stmt:
    """A statement with each `Body` in it changed."""
    new: dict[str, Any] = {name: change(getattr(stmt, name)) for name in _BODIES[type(stmt)]}
    return replace(stmt, **new) if new else stmt


def _names_of_bodies(cls: type) -> list[str]:
    return [name for name, shape in shapes(cls).items() if isinstance(shape, Record) and loops.Body in shape.classes]


_BODIES = Generated(_names_of_bodies)


# ---- what is bound ---------------------------------------------------------------------------------------------------
def bound_by(stmt: loops.Stmt) -> tuple[loops.Slot, ...]:
    """Returns the variables and buffers that a statement binds for those behind it."""
    open = _OPEN[type(stmt)](stmt)
    results = _RESULTS[type(stmt)](stmt)
    return (*results, *[slot for block in open for inner in block for slot in bound_by(inner)]) if open else results


def binds_inside(stmt: loops.Stmt) -> tuple[loops.Slot, ...]:
    """The variables that a statement binds for those inside it."""
    return _BINDERS[type(stmt)](stmt)


def indices(stmt: loops.Stmt) -> tuple[Var, ...]:
    """The numbers that a loop binds for each of its iterations."""
    return _INDICES[type(stmt)](stmt)


def binds(stmt: loops.Stmt) -> tuple[loops.Slot, ...]:
    """Returns the variables and buffers that a statement binds, for those behind it and for those inside it."""
    return (*binds_inside(stmt), *bound_by(stmt))


_RESULTS = Generated(_collecting(lambda leaf: leaf.role is Role.RESULT))
_BINDERS = Generated(_collecting(lambda leaf: leaf.role is Role.BINDER))
_INDICES = Generated(_collecting(lambda leaf: Trait.INDEX in leaf.traits))
_OPEN = Generated(_collecting(lambda leaf: Trait.OPEN in leaf.traits))


# ---- what is used ----------------------------------------------------------------------------------------------------
def sizes(stmt: loops.Stmt) -> tuple[Size, ...]:
    """The polynomials of a statement, those of the statements inside it left out."""
    return _SIZES[type(stmt)](stmt)


def operands(stmt: loops.Stmt) -> tuple[loops.Value, ...]:
    """The values that a statement itself takes, polynomials left out."""
    return _OPERANDS[type(stmt)](stmt)


def offsets(stmt: loops.Stmt) -> tuple[Size, ...]:
    """The places of the elements that a statement loads, stores or finds."""
    return _OFFSETS[type(stmt)](stmt)


def lows(stmt: loops.Stmt) -> tuple[Size, ...]:
    """The lower bounds of the iterations of a statement; none if it has no bounds."""
    return _LOWS[type(stmt)](stmt)


def highs(stmt: loops.Stmt) -> tuple[Size, ...]:
    """The upper bounds of the iterations of a statement."""
    return _HIGHS[type(stmt)](stmt)


def written(stmt: loops.Stmt) -> tuple[loops.Buffer, ...]:
    """The buffers whose elements a statement changes, those inside it left out."""
    return _WRITTEN[type(stmt)](stmt)


def callee(stmt: loops.Stmt) -> str | None:
    """The function of the program that a statement calls."""
    names = _CALLEES[type(stmt)](stmt)
    return names[0] if names else None


def changed(stmt: loops.Stmt) -> tuple[loops.Value, ...]:
    """The same, with what goes to other code, which may change it."""
    return _CHANGED[type(stmt)](stmt)


_OFFSETS = Generated(_collecting(lambda leaf: Trait.OFFSET in leaf.traits))
_LOWS = Generated(_collecting(lambda leaf: Trait.LOW in leaf.traits))
_HIGHS = Generated(_collecting(lambda leaf: Trait.HIGH in leaf.traits))
_WRITTEN = Generated(_collecting(lambda leaf: Trait.WRITTEN in leaf.traits))
_CALLEES = Generated(_collecting(lambda leaf: Trait.FUNCTION in leaf.traits))
_CHANGED = Generated(_collecting(lambda leaf: not leaf.traits.isdisjoint((Trait.WRITTEN, Trait.HANDED))))
_OPERANDS = Generated(_collecting(lambda leaf: leaf.role is Role.OPERAND and Trait.INSIDE not in leaf.traits))
_USES = (Role.OPERAND, Role.SIZE)
_SIZES = Generated(_collecting(lambda leaf: leaf.role is Role.SIZE))
_USED = Generated(_collecting(lambda leaf: leaf.role in _USES and Trait.INSIDE not in leaf.traits))
_USED_INSIDE = Generated(_collecting(lambda leaf: leaf.role is Role.BLOCK or Trait.INSIDE in leaf.traits))


def mentions(stmt: loops.Stmt) -> Iterator[loops.Value]:
    """The values that a statement takes, in polynomials too, and those that the bodies in it give."""
    cls = type(stmt)
    for part in (*_USED[cls](stmt), *_USED_INSIDE[cls](stmt)):
        if not isinstance(part, tuple):  # of statements
            yield from part.atoms() if isinstance(part, Poly) else (part,)


def captures(stmts: Sequence[loops.Stmt], inside: Iterable[loops.Slot]) -> tuple[loops.Slot, ...]:
    """The free variables of statements that `inside` does not bind either, in order."""
    free: dict[loops.Slot, None] = {}
    _capture(stmts, set(inside), free)
    return tuple(free)


def _capture(stmts: Iterable[loops.Stmt], bound: set[loops.Slot], captured: dict[loops.Slot, None]) -> None:
    for stmt in stmts:
        cls = type(stmt)
        _use(_USED[cls](stmt), bound, captured)
        bound.update(_BINDERS[cls](stmt))
        for part in _USED_INSIDE[cls](stmt):
            if isinstance(part, tuple):
                _capture(part, bound, captured)
            else:
                _use((part,), bound, captured)
        bound.update(_RESULTS[cls](stmt))


def _use(parts: Iterable[loops.Value | Size], bound: set[loops.Slot], captured: dict[loops.Slot, None]) -> None:
    for part in parts:
        for value in part.atoms() if isinstance(part, Poly) else (part,):
            if not isinstance(value, Lit) and value not in bound:
                captured[value] = None
