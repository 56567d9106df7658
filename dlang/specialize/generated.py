"""Values of types that contain themselves: their nodes, and the functions that the compiler writes for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Function, Scalar, Size, fresh, poly
from dlang.ir.types import I64
from dlang.specialize.dynamic import dynamic
from dlang.specialize.emitter import Emitter
from dlang.specialize.frame import Frame, World
from dlang.specialize.instances import Instance, Use
from dlang.specialize.layouts import packed, unpacked
from dlang.specialize.types import MonoNode
from dlang.specialize.values import NodeV, ScalarV, Value, formal, leaf_vars, leaves, shape_key, size_labels

# ---- nodes -----------------------------------------------------------------------------------------------------------
# Values of types that contain themselves: making nodes and looking into them.


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


# ---- functions -------------------------------------------------------------------------------------------------------


def generated(
    f: Frame,
    name: str,
    what: object,
    args: Sequence[Value],
    result: Callable[[Sequence[Value]], Value],
    body: Callable[[Frame, Sequence[Value]], Value],
    acts: bool = False,
) -> Value:
    """A call of a function that the compiler writes: one for each structure of arguments.

    what: identifies it. result: a value of the type of the result, which has no sizes but those of the arguments.
    acts: whether it touches the world.
    """
    order: dict[Size, int] = {}
    size_label = size_labels(order)
    key = ("generated", name, what, acts, tuple([shape_key(a, size_label) for a in args]))
    sizes = list(order)
    if key not in f.instances.table:
        instance = f.instances.table[key] = Instance(f"{name}.{next(f.instances.serial)}", token=acts)
        _write(f, instance, name, args, sizes, result, body)
    instance = f.instances.table[key]
    world = [f.world.token] if acts and f.world.token is not None else []
    actuals = (*[f.emitter.atom(s) for s in sizes], *world, *[a for v in args for a in leaves(v)])
    use = Use(instance, actuals, dict(zip(instance.sizes, sizes, strict=True)))
    bound = f.instances.result_vars(use)
    f.emitter.bind(anf.Call(instance.name, use.actuals), bound)
    return f.instances.returned(f, use, bound)


def _write(
    f: Frame,
    instance: Instance,
    name: str,
    args: Sequence[Value],
    sizes: list[Size],
    result: Callable[[Sequence[Value]], Value],
    body: Callable[[Frame, Sequence[Value]], Value],
) -> None:
    """Fills a new instance, which its own body may call, and adds its function to the program."""
    e = Emitter()  # no place in the source: what fails there, fails where it is called
    formals = {s: fresh("n", I64) for s in sizes}
    for k in formals.values():
        e.facts.size(k)

    def translate(s: Size) -> Size:
        return s if s.constant is not None else poly(formals[s])

    instance.sizes = tuple(formals.values())
    instance.args = tuple([formal(a, translate) for a in args])
    instance.result = formal(result(instance.args), lambda s: s)
    token, after = [[fresh("world", anf.Token())] if instance.token else [] for _ in range(2)]
    instance.results = (*after, *leaf_vars(instance.result))
    frame = Frame(e, World(token[0] if token else None), f.instances)
    value = body(frame, instance.args)
    params = (*instance.sizes, *token, *[v for argument in instance.args for v in leaf_vars(argument)])
    last = [frame.world.token] if frame.world.token is not None else []
    block = Block(tuple(e.lets), (*last, *leaves(value)))
    f.instances.functions[instance.name] = Function(instance.name, params, instance.results, block, name)
