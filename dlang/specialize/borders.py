"""How values cross the border to Python, said for `ir/crossing.py`: without types, sizes by their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.anf import Size, poly
from dlang.ir.crossing import Branch, Choice, Code, Fields, Items, Leaf, Part, Rows, Tree
from dlang.ir.faces import Border
from dlang.specialize.frame import Frame
from dlang.specialize.structs import field_names, is_none
from dlang.specialize.types import Mono, MonoArray, MonoData, MonoEnum, MonoFn, MonoNode, MonoTuple
from dlang.specialize.values import mono_of
from dlang.typecheck.types import DataDecl, Variant

Axes = Callable[[tuple[Size, ...]], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Describer:
    """Describes types; those that contain themselves are collected in `trees`."""

    frame: Frame
    trees: dict[str, tuple[Branch, ...]] = field(default_factory=dict)

    def part(self, m: Mono, axes: Axes) -> Part:
        """axes: the positions of sizes."""
        match m:
            case anf.Scalar(dtype):
                return Leaf(dtype)
            case MonoArray(anf.Scalar(dtype), shape):
                return Leaf(dtype, axes(shape))
            case MonoArray(element, shape):
                return Rows(axes(shape), self.part(element, axes))
            case MonoTuple(items):
                return Items(tuple([self.part(i, axes) for i in items]))
            case MonoData(decl, fields):
                return Fields(self.frame.instances.structs.of(decl), tuple([self.part(x, axes) for x in fields]))
            case MonoEnum(decl, variants):
                types = tuple([self._class(decl, v) for v in decl.variants])
                return Choice(types, tuple([tuple([self.part(x, axes) for x in fields]) for fields in variants]))
            case MonoNode(decl, _, dtype):
                if dtype not in self.trees:
                    self.trees[dtype] = ()  # while its own fields are described
                    self.trees[dtype] = self._branches(decl, dtype)
                return Tree(dtype)
            case MonoFn():
                return Code()
            case _:
                raise AssertionError("a type by its name has no form")

    def _branches(self, decl: DataDecl, dtype: str) -> tuple[Branch, ...]:
        out = []
        layouts = self.frame.instances.nodes.of(self.frame, dtype).layouts
        for variant, layout in zip(decl.variants, layouts, strict=True):
            positions = Positions([poly(s) for s in layout.sizes])
            items = tuple([self.part(mono_of(v), positions.axes) for v in layout.values])
            literals = tuple([int(s.constant or 0) for s in positions.sizes[len(layout.sizes) :]])
            names = tuple(field_names(variant))
            out.append(Branch(self._class(decl, variant), len(layout.sizes), literals, items, names))
        return tuple(out)

    def _class(self, decl: DataDecl, variant: Variant) -> type | None:
        structs = self.frame.instances.structs
        if decl.is_struct:
            return structs.of(decl)
        return None if is_none(variant) else structs.variant(decl, variant)


class Positions:
    """Numbers sizes in the order in which they are met. sizes: those that have numbers."""

    def __init__(self, first: Sequence[Size] = ()) -> None:
        self.sizes = list(first)
        self._of = {s: k for k, s in enumerate(first)}

    def axes(self, shape: tuple[Size, ...]) -> tuple[int, ...]:
        for s in shape:
            if s not in self._of:
                self._of[s] = len(self.sizes)
                self.sizes.append(s)
        return tuple([self._of[s] for s in shape])


def border_of(f: Frame, params: Sequence[Mono], result: Mono) -> Border:
    """The border of a function. What its result is made of does not depend on sizes."""
    describer, positions = Describer(f), Positions()
    given = tuple([describer.part(p, positions.axes) for p in params])
    gives = describer.part(result, unsized)
    return Border(given, gives, tuple(positions.sizes), describer.trees)


def unsized(shape: tuple[Size, ...]) -> tuple[int, ...]:
    """Axes where only their number matters."""
    return (0,) * len(shape)
