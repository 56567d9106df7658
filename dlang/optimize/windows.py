"""Views that show a part of an array as it is: what they skip at the start of each axis."""

from __future__ import annotations

from dataclasses import dataclass, field

from dlang.ir.anf import Array, Assert, Atom, Block, Reshape, Size, Var, View, poly
from dlang.ir.traverse import walk
from dlang.polynomials import Poly


@dataclass(slots=True)
class Windows:
    """The views of a block. other: arrays that have the memory of another one, but not as a part of it in order."""

    source: dict[Var, tuple[Var, tuple[Size, ...]]] = field(default_factory=dict)
    other: set[Var] = field(default_factory=set)

    @staticmethod
    def of(block: Block) -> Windows:
        windows = Windows()
        for let in walk(block):
            match let.op:
                case View() as view:
                    skipped = _skipped(view)
                    if skipped is None:
                        windows.other.add(let.vars[0])
                    else:
                        windows.source[let.vars[0]] = view.array, skipped
                case Reshape():
                    windows.other.add(let.vars[0])
                case Assert(guarded=guarded):
                    for var, value in zip(let.vars, guarded, strict=True):
                        if isinstance(var.type, Array) and isinstance(value, Var):
                            if value in windows.other:
                                windows.other.add(var)
                            none = tuple([Poly[Var]({}) for _ in var.type.shape])
                            windows.source[var] = value, none
                case _:
                    pass
        return windows

    def shows(self, atom: Atom) -> bool:
        """Tells whether an array has the memory of another one."""
        return isinstance(atom, Var) and (atom in self.other or atom in self.source)

    def start(self, atom: Atom, array: Var) -> tuple[Size, ...] | None:
        """Returns the start of a part of an array, or of the array itself, within it; None for any other."""
        if atom is array:
            assert isinstance(array.type, Array)
            return tuple([Poly[Var]({}) for _ in array.type.shape])
        if not isinstance(atom, Var) or atom not in self.source:
            return None
        source, skipped = self.source[atom]
        first = self.start(source, array)
        return None if first is None else tuple([a + b for a, b in zip(first, skipped, strict=True)])


def _skipped(view: View) -> tuple[Size, ...] | None:
    if len(view.axes) != len(view.index):
        return None
    skipped = tuple([entry - poly(axis) for axis, entry in zip(view.axes, view.index, strict=True)])
    return None if any(s.mentions(view.axes) for s in skipped) else skipped
