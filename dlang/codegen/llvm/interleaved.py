"""Elements that lie a few apart from lane to lane (`codegen/neighbours.py`), as the coordinates of bodies in one array.

What lies between the first and the last of them is read or written in whole vectors, once for all accesses of a group;
shuffles take the vectors apart, or put them together. Nothing is touched that no access of a lane in use touches, but
for elements between two that are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen.llvm.accesses import element_address, load_vector, store_vector
from dlang.codegen.llvm.indices import size_varies
from dlang.codegen.llvm.scalars import BITS, memory_type
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.loops import Buffer, Load, Store
from dlang.codegen.neighbours import Group
from dlang.ir.anf import poly

REGISTER = 512  # bits that are shuffled at once


def loaded(w: Writer, stmt: Load) -> bool:
    """Writes a load with the others of its group, if it has one; whether that is done."""
    group = w.groups.get(w.number)
    if group is None or w.lane is None or not (stmt.var in w.present or _is_worth_it(w, group)):
        return False
    if stmt.var not in w.present:
        for load, value in zip(group.stmts, _load(w, group), strict=True):
            assert isinstance(load, Load)
            w.bind_lanes(load.var, value)
            w.present.add(load.var)
    return True


def stored(w: Writer, stmt: Store) -> bool:
    """Writes the stores of a group where the last of them is; whether this one needs no writing on its own."""
    group = w.groups.get(w.number)
    if group is None or w.lane is None or not _is_worth_it(w, group):
        return False
    if stmt is group.stmts[-1]:
        values = [w.vector(s.value) for s in group.stmts if isinstance(s, Store)]
        if stmt.monoid != "set":
            ops, dtype = w.ops(width=w.lane.width), group.buffer.dtype
            values = [ops.combine(stmt.monoid, dtype, a, b) for a, b in zip(_load(w, group), values, strict=True)]
        _store(w, group, values)
    return True


def _is_worth_it(w: Writer, group: Group) -> bool:
    """Tells whether vector accesses are possible where a group stands, and less work than one for each element."""
    assert w.lane is not None
    if size_varies(w, group.first - poly(w.lane.var) * group.stride):
        return False
    width, kinds = _chunk(w, group.buffer), len(set(group.places))
    vectors = _vectors(group, width)
    return width > 1 and 4 * (vectors - 1) * kinds + 2 * vectors <= 3 * width * kinds


def _load(w: Writer, group: Group) -> list[str]:
    """The vectors that the loads of a group give, in their order."""
    assert w.lane is not None
    width = _chunk(w, group.buffer)
    parts: dict[int, list[str]] = {place: [] for place in group.places}
    for lane in range(0, w.lane.width, width):
        vectors = [_read(w, group, lane, k) for k in range(_vectors(group, width))]
        for place in parts:
            parts[place].append(_picked(w, group, vectors, place))
    whole = {place: _joined(w, group.buffer, vectors) for place, vectors in parts.items()}
    return [whole[place] for place in group.places]


def _store(w: Writer, group: Group, values: Sequence[str]) -> None:
    """Stores a vector for each store of a group."""
    assert w.lane is not None
    width = _chunk(w, group.buffer)
    for lane in range(0, w.lane.width, width):
        parts = [_part(w, group.buffer, value, lane, width) for value in values]
        for k in range(_vectors(group, width)):
            _write(w, group, lane, k, parts)


def _chunk(w: Writer, buffer: Buffer) -> int:
    """How many lanes are done at once."""
    assert w.lane is not None
    return min(w.lane.width, REGISTER // BITS[buffer.dtype])


def _vectors(group: Group, width: int) -> int:
    """How many vectors there are from the first element of a group to the last, for so many lanes."""
    return -(-(group.stride * (width - 1) + group.span) // width)


def _shuffle(w: Writer, type: str, a: str, b: str, order: Sequence[int]) -> str:
    """The elements of two vectors by their numbers, those of the second after the first's; any where that is -1."""
    picks = ", ".join("i32 poison" if k < 0 else f"i32 {k}" for k in order)
    return w.emit(f"shufflevector {type} {a}, {type} {b}, <{len(order)} x i32> <{picks}>")


def _picked(w: Writer, group: Group, vectors: Sequence[str], place: int) -> str:
    """Every `stride`-th of the elements in vectors, from a place on."""
    width = _chunk(w, group.buffer)
    type = f"<{width} x {memory_type(group.buffer.dtype)}>"
    at = [divmod(group.stride * k + place, width) for k in range(width)]
    out, have = vectors[0], [position if vector == 0 else -1 for vector, position in at]
    for vector in range(1, len(vectors)):
        order = [width + position if v == vector else h for (v, position), h in zip(at, have, strict=True)]
        out = _shuffle(w, type, out, vectors[vector], order)
        have = [k if o >= 0 else -1 for k, o in enumerate(order)]
    return out


def _joined(w: Writer, buffer: Buffer, parts: list[str]) -> str:
    """Vectors of one width, an even number of them or one, as one."""
    width = _chunk(w, buffer)
    while len(parts) > 1:
        type = f"<{width} x {memory_type(buffer.dtype)}>"
        parts = [_shuffle(w, type, a, b, range(2 * width)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        width *= 2
    return parts[0]


def _part(w: Writer, buffer: Buffer, value: str, lane: int, width: int) -> str:
    assert w.lane is not None
    if width == w.lane.width:
        return value
    type = f"<{w.lane.width} x {memory_type(buffer.dtype)}>"
    return _shuffle(w, type, value, "poison", range(lane, lane + width))


def _used(w: Writer, group: Group, lane: int, vector: int) -> list[int]:
    """For each element of a vector the lane that it is of; -1 where no access needs it."""
    width = _chunk(w, group.buffer)
    out = []
    for element in range(vector * width, (vector + 1) * width):
        of, place = divmod(element, group.stride)
        needed = place in group.places if isinstance(group.stmts[0], Store) else place < group.span
        out.append(lane + of if needed and of < width else -1)
    return out


def _mask(w: Writer, used: Sequence[int], gaps: bool) -> str | None:
    """Returns the mask of a vector's accessed elements; None if all are, or if the others may be accessed, too."""
    assert w.lane is not None
    if w.lane.mask is None:
        if all(lane >= 0 for lane in used) or (gaps and used[-1] >= 0):
            return None
        return "<" + ", ".join(f"i1 {'true' if lane >= 0 else 'false'}" for lane in used) + ">"
    order = ", ".join(f"i32 {lane if lane >= 0 else w.lane.width}" for lane in used)
    type = f"<{w.lane.width} x i1>"
    return w.emit(f"shufflevector {type} {w.lane.mask}, {type} zeroinitializer, <{len(used)} x i32> <{order}>")


def _address(w: Writer, group: Group, lane: int, vector: int) -> str:
    return element_address(w, group.buffer, group.first + (group.stride * lane + vector * _chunk(w, group.buffer)))


def _read(w: Writer, group: Group, lane: int, vector: int) -> str:
    address = _address(w, group, lane, vector)
    mask = _mask(w, _used(w, group, lane, vector), gaps=True)
    return load_vector(w, group.buffer, _chunk(w, group.buffer), address, mask)


def _write(w: Writer, group: Group, lane: int, vector: int, values: Sequence[str]) -> None:
    """Stores those elements of a vector that the lanes' values determine."""
    width = _chunk(w, group.buffer)
    type = f"<{width} x {memory_type(group.buffer.dtype)}>"
    used = _used(w, group, lane, vector)
    if max(used) < 0:
        return
    out, have = "poison", [-1] * width
    for place, value in sorted(zip(group.places, values, strict=True)):
        order = have
        for k, of in enumerate(used):
            if of >= 0 and (vector * width + k) % group.stride == place:
                order = [*order[:k], width + of - lane, *order[k + 1 :]]
        if order != have:
            out = _shuffle(w, type, out, value, order)
            have = [k if o >= 0 else -1 for k, o in enumerate(order)]
    address = _address(w, group, lane, vector)
    store_vector(w, group.buffer, width, out, address, _mask(w, used, gaps=False))
