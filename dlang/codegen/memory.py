"""Keeps the places of arrays and their liveness.

An array variable has a `Place`: a buffer and the offset of an element as a polynomial of its index, so slices,
transposes and reshapes cost nothing until something needs the elements in a row. A buffer is freed by the block that
owns it, after the last use of any array that lives in it. Parameters are borrowed: never written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dlang.codegen.loops import Buffer
from dlang.ir.anf import Block, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.traverse import free_vars
from dlang.ir.types import I64, product
from dlang.ir.update_chains import last_uses


# ---- places ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Place:
    """Element `axes` of the array is buffer[offset]. start: the offset of the first element if they lie in a row."""

    buffer: Buffer
    shape: tuple[Size, ...]
    axes: tuple[Var, ...]
    offset: Size
    start: Size | None

    def at(self, index: tuple[Size, ...]) -> Size:
        """The offset of an element."""
        if self.start is not None:
            return row_major(self.shape, index) + self.start
        entries = dict(zip(self.axes, index, strict=True))
        return self.offset.substitute(entries.get)

    @property
    def whole(self) -> bool:
        """Tells whether the array is the buffer: all of it, in order."""
        return self.start is not None and not self.start.terms

    def seen_through(self, axes: tuple[Var, ...], shape: tuple[Size, ...], index: tuple[Size, ...]) -> Place:
        """The place of the view y[axes] = x[index]."""
        offset = self.at(index)
        start = offset - row_major(shape, tuple(poly(a) for a in axes))
        return Place(self.buffer, shape, axes, offset, None if start.mentions(axes) else start)

    def reshaped(self, shape: tuple[Size, ...]) -> Place:
        """The same elements under another shape; they must lie in a row."""
        assert self.start is not None
        return Place(self.buffer, shape, (), ZERO, self.start)


def row_major(shape: tuple[Size, ...], index: tuple[Size, ...]) -> Size:
    """The position of an element among the elements in order."""
    position = ZERO
    for size, entry in zip(shape, index, strict=True):
        position = position * size + entry
    return position


def whole(buffer: Buffer, shape: tuple[Size, ...]) -> Place:
    """The place of an array that fills a buffer."""
    return Place(buffer, shape, (), ZERO, ZERO)


def fresh_axes(rank: int) -> tuple[Var, ...]:
    return tuple(fresh("ijkl"[min(n, 3)], I64) for n in range(rank))


# ---- liveness --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Frame:
    """A block under way. position: of the let at hand; last_use: of each variable, past the end if it is a result.

    repeated: what of the outside stays alive all through the block, as what it mentions does if it may run again.
    owned: buffers that this block has to free, numbered. ends: by the position of the last let here that uses them, the
    arrays that were settled here, and where. due: buffers of which it is to be asked whether something uses them.
    """

    last_use: dict[Var, int]
    repeated: frozenset[Var] = frozenset()
    position: int = -1
    owned: dict[Buffer, int] = field(default_factory=dict)
    ends: dict[int, list[tuple[Var, Buffer]]] = field(default_factory=dict)
    due: list[Buffer] = field(default_factory=list)
    count: int = 0

    def own(self, buffer: Buffer) -> None:
        """Makes a buffer one that this block has to free."""
        self.count += 1
        self.owned.setdefault(buffer, self.count)
        self.due.append(buffer)

    def given(self, param: Var, buffer: Buffer) -> None:
        """Gives the block an array in a buffer that it has to free."""
        self.own(buffer)
        self.ends.setdefault(self.last_use.get(param, -1), []).append((param, buffer))


def frame_of(body: Block) -> Frame:
    """The frame of a block that runs in every iteration of a loop."""
    return Frame(last_uses(body), frozenset(free_vars(body)))


@dataclass(slots=True)
class Memory:
    """The state of the walk over one function: open blocks, places, and who lives in which buffer and may be used.

    sizes: of the axes of the arrays that have a place, and their numbers of elements.
    """

    frames: list[Frame] = field(default_factory=list)
    places: dict[Var, Place] = field(default_factory=dict)
    sizes: set[Size] = field(default_factory=set)
    holders: dict[Buffer, dict[Var, None]] = field(default_factory=dict)
    writable: set[Buffer] = field(default_factory=set)

    def settle(self, var: Var, place: Place) -> None:
        """Says where an array lives."""
        self.places[var] = place
        self.sizes.update(place.shape, (product(place.shape),))
        self.holders.setdefault(place.buffer, {})[var] = None
        if self.frames:
            frame = self.frames[-1]
            end = max(frame.position, frame.last_use.get(var, -1))
            frame.ends.setdefault(end, []).append((var, place.buffer))

    def live(self, var: Var) -> bool:
        """Tells whether a variable is used after the let at hand."""
        for frame in reversed(self.frames):
            if frame.last_use.get(var, -1) > frame.position or var in frame.repeated:
                return True
        return False

    def busy(self, buffer: Buffer) -> bool:
        """Tells whether any array in a buffer is used after the let at hand."""
        return any(self.live(var) for var in self.holders.get(buffer, ()))

    def consumable(self, array: Var) -> Place | None:
        """The place of an array that an operation may overwrite, or None: it is borrowed, or something holds it."""
        place = self.places[array]
        if place.whole and place.buffer in self.writable and not self.busy(place.buffer):
            return place
        return None

    def disown(self, buffer: Buffer) -> bool:
        """Takes a buffer from the innermost block; whether that owned it."""
        owned = self.frames[-1].owned
        if buffer in owned:
            del owned[buffer]
            return True
        return False

    def dead(self) -> list[Buffer]:
        """The buffers that the innermost block owns and nothing uses any more; it no longer owns them."""
        frame = self.frames[-1]
        asked, frame.due = frame.due, []
        for var, buffer in frame.ends.pop(frame.position, ()):
            self.holders[buffer].pop(var, None)
            asked.append(buffer)
        dead = [buffer for buffer in dict.fromkeys(asked) if buffer in frame.owned and not self.busy(buffer)]
        dead.sort(key=frame.owned.__getitem__)
        for buffer in dead:
            del frame.owned[buffer]
        return dead

    def leave(self) -> None:
        """Ends the innermost block: nothing uses any more what was settled there."""
        for ended in self.frames.pop().ends.values():
            for var, buffer in ended:
                self.holders[buffer].pop(var, None)
