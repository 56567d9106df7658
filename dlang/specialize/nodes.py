"""Values of types that contain themselves: making nodes and looking into them."""

from __future__ import annotations

from collections.abc import Sequence

from dlang.ir import anf
from dlang.ir.anf import Atom, Scalar
from dlang.ir.types import I64
from dlang.specialize.dynamic import dynamic
from dlang.specialize.frame import Frame
from dlang.specialize.layouts import packed, unpacked
from dlang.specialize.types import MonoNode
from dlang.specialize.values import NodeV, ScalarV, Value


def construct(f: Frame, t: MonoNode, tag: int, values: Sequence[Value]) -> NodeV:
    """A node of a variant. What it holds has the types that the variant has at the arguments."""
    node = f.instances.nodes.of(f, t.dtype)
    types = f.field_types(t.decl, t.args, tag)
    held = [dynamic(f, v, m) for v, m in zip(values, types, strict=True)]
    args = packed(f, node.layouts[tag], held)
    (handle,) = f.emitter.emit(anf.Construct(node.variants[tag], tuple(args)), Scalar(t.dtype), name="node")
    return NodeV(t, ScalarV(handle))


def tag_of(f: Frame, v: NodeV) -> Atom:
    return f.emitter.emit(anf.Tag(handle_of(v)), I64, name="tag")[0]


def fields_of(f: Frame, v: NodeV, tag: int) -> tuple[Value, ...]:
    """Reads the fields of a node, with sizes of their own; it is of the variant `tag`."""
    node = f.instances.nodes.of(f, v.type.dtype)
    vars, values = unpacked(f, node.layouts[tag])
    f.emitter.bind(anf.Fields(node.variants[tag], handle_of(v)), vars)
    return values


def opened(f: Frame, v: NodeV, tag: int, wanted: Sequence[bool] | None = None) -> list[Value]:
    """Reads the fields of a node, under the sizes of its type; `wanted`: for which of the fields that matters."""
    types = f.field_types(v.type.decl, v.type.args, tag)
    held = fields_of(f, v, tag)
    return [f.fit(x, t) if wanted is None or wanted[k] else x for k, (x, t) in enumerate(zip(held, types, strict=True))]


def handle_of(v: NodeV) -> Atom:
    assert isinstance(v.handle, ScalarV)
    return v.handle.atom
