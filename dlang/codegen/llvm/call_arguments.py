"""The arguments of a call from Python, taken apart where CPython and NumPy keep them.

What is not just as the table says jumps to `miss`; nothing has been changed before.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen.llvm.call_emission import Emission
from dlang.codegen.llvm.call_needs import Class, Dtype, Number
from dlang.codegen.llvm.call_trees import Trees
from dlang.codegen.llvm.dispatch import FLOAT, FOUND, INTEGER, TRUTH
from dlang.codegen.llvm.host_calls import to_word
from dlang.codegen.llvm.scalars import memory_type
from dlang.host.platform import objects
from dlang.host.platform.objects import DATA, DESCR, DIMENSIONS, FIELDS, ITEMS, NDIM, TYPE
from dlang.inequalities import LARGEST
from dlang.ir.anf import FLOATS, Size
from dlang.ir.crossing import Choice, Fields, Items, Leaf, Part, Tree, leaf_count
from dlang.ops.dtypes import WHOLE


def is_taken(part: Part, trees: Trees) -> bool:
    """Tells whether a part of an argument is taken apart without Python."""
    match part:
        case Tree(dtype):
            return trees.are_written(dtype)
        case Leaf(dtype, shape):
            return dtype in WHOLE or (dtype == "str" and not shape) or (dtype == "f16" and bool(shape))
        case Items(items):
            return all(is_taken(x, trees) for x in items)
        case Fields(kind, items):
            return objects.slots_of(kind) is not None and all(is_taken(x, trees) for x in items)
        case Choice(types, variants):
            return all(
                (t is None or objects.slots_of(t) is not None)
                and all(is_taken(x, trees) and _in_variant(x) for x in items)
                for t, items in zip(types, variants, strict=True)
            )
        case _:
            return False


def _in_variant(part: Part) -> bool:
    """Tells whether a variant may hold a part: it has no sizes, and its type is known where it is absent."""
    match part:
        case Leaf(_, shape):
            return not shape
        case Items(items):
            return bool(items) and all(map(_in_variant, items))
        case Fields(_, items):
            return all(map(_in_variant, items))
        case Choice(_, variants):
            return all(_in_variant(x) for items in variants for x in items)
        case _:
            return False


def take(e: Emission, part: Part, arg: str, sizes: Sequence[Size]) -> None:
    """Appends the words of the leaves of an argument. sizes: what positions in shapes stand for."""
    if isinstance(part, Leaf) and part.dtype == "str":
        e.leaves.append(e.text(arg, "miss"))
        return
    w = e.w
    kind = e.load("ptr", arg, TYPE)
    match part:
        case Leaf(dtype, ()):
            cls = e.table(Number(dtype))
            how = e.load("i64", "%table", 8 * (e.words - 1))
            e.unless(w.emit(f"icmp eq ptr {kind}, {cls}"))
            e.leaves.append(_number(e, dtype, arg, how))
        case Leaf(dtype, shape):
            e.unless(w.emit(f"icmp eq ptr {kind}, @PyArray_Type"))
            fits = w.emit(f"icmp eq ptr {e.load('ptr', arg, DESCR)}, {e.table(Dtype(dtype))}")
            rank = w.emit(f"icmp eq i32 {e.load('i32', arg, NDIM)}, {len(shape)}")
            e.unless(w.emit(f"and i1 {fits}, {rank}"))
            dims = e.load("ptr", arg, DIMENSIONS)
            for axis, position in enumerate(shape):
                extent = e.load("i64", dims, 8 * axis)
                if len(shape) > 1:  # of no elements it may be any number
                    e.unless(w.emit(f"icmp ule i64 {extent}, {LARGEST}"))
                e.size(sizes[position], extent)
            e.arrays[len(e.leaves)] = arg
            e.leaves.append(w.emit(f"ptrtoint ptr {e.load('ptr', arg, DATA)} to i64"))
        case Items(()):
            e.unless(w.emit(f"icmp eq ptr {arg}, @_Py_NoneStruct"))
        case Items(items):
            e.unless(w.emit(f"icmp eq ptr {kind}, @PyTuple_Type"))
            e.unless(w.emit(f"icmp eq i64 {e.load('i64', arg, objects.COUNT)}, {len(items)}"))
            for k, item in enumerate(items):
                take(e, item, e.load("ptr", arg, ITEMS + 8 * k), sizes)
        case Fields(struct, items):
            e.unless(w.emit(f"icmp eq ptr {kind}, {e.table(Class(None))}"))
            _fields(e, struct, items, arg, sizes)
        case Tree(dtype):
            e.trees[len(e.leaves)] = dtype, arg
            e.leaves.append("0")
        case Choice(types, variants):
            _variant(e, types, variants, arg, kind, sizes)
        case _:
            raise AssertionError("has been asked before")


def _fields(e: Emission, struct: type, items: Sequence[Part], arg: str, sizes: Sequence[Size]) -> None:
    """Takes the fields of a dataclass's object."""
    for at, item in zip(objects.slots_of(struct) or (), items, strict=True):
        value = e.load("ptr", arg, at)
        e.unless(e.w.emit(f"icmp ne ptr {value}, null"))
        take(e, item, value, sizes)
        if isinstance(item, Leaf) and item.shape:
            e.held.append(value)


def _variant(
    e: Emission,
    types: Sequence[type | None],
    variants: Sequence[Sequence[Part]],
    arg: str,
    kind: str,
    sizes: Sequence[Size],
) -> None:
    """The tag of an object and what its variant holds; what the others would hold is zero, and means nothing."""
    w, before, done = e.w, e.leaves, e.w.label("chosen")
    counts = [sum(map(leaf_count, items)) for items in variants]
    ways: list[tuple[str, list[str]]] = []
    for tag, (cls, items) in enumerate(zip(types, variants, strict=True)):
        matching, other = w.label("variant"), w.label("other")
        w.fork(w.emit(f"icmp eq ptr {arg if cls is None else kind}, {e.table(Class(None))}"), matching, other)
        w.begin(matching)
        e.leaves = []
        if cls is not None:
            _fields(e, cls, items, arg, sizes)
        words = [str(tag), *["0"] * sum(counts[:tag]), *e.leaves, *["0"] * sum(counts[tag + 1 :])]
        ways.append((w.block, words))
        w.jump(done)
        w.begin(other)
    w.jump("miss")
    w.begin(done)
    columns = zip(*[words for _, words in ways], strict=True)
    phis = [", ".join(f"[ {word}, %{b} ]" for word, (b, _) in zip(c, ways, strict=True)) for c in columns]
    e.leaves = [*before, *[w.emit(f"phi i64 {phi}") for phi in phis]]


# ---- numbers ---------------------------------------------------------------------------------------------------------
def _number(e: Emission, dtype: str, arg: str, how: str) -> str:
    """The word of a number, which is read in one of several ways."""
    w = e.w
    done, found, array = w.label("read"), w.label("found"), w.label("array")
    ways: list[tuple[str, str]] = []
    if dtype in FLOATS:
        ways = [("float", str(FLOAT)), ("integer", str(INTEGER))]
    elif dtype == "bool":
        ways = [("truth", str(TRUTH))]
    elif dtype != "u64":
        ways = [("integer", str(INTEGER))]
    labels = {name: w.label(name) for name, _ in ways}
    w.code.append(
        f"  switch i64 {how}, label %{array} [ i64 {FOUND}, label %{found} "
        + " ".join(f"i64 {n}, label %{labels[name]}" for name, n in ways)
        + " ]"
    )
    words = []

    def stored(at: str, offset: int) -> None:
        value = e.load(memory_type(dtype), at, offset)
        word = to_word(w, value if dtype != "bool" else w.emit(f"trunc i8 {value} to i1"), dtype)
        words.append((word, w.block))
        w.jump(done)

    w.begin(found)
    stored(arg, FIELDS)
    w.begin(array)  # without axes, of the dtype that the table has in place of a way
    fits = w.emit(f"icmp eq i64 {e.load('i64', arg, DESCR)}, {how}")
    bare = w.emit(f"icmp eq i32 {e.load('i32', arg, NDIM)}, 0")
    e.unless(w.emit(f"and i1 {fits}, {bare}"))
    stored(e.load("ptr", arg, DATA), 0)
    for name, _ in ways:
        w.begin(labels[name])
        match name:
            case "float":
                value = _rounded(e, e.load("double", arg, FIELDS), dtype)
            case "integer" if dtype in FLOATS:
                wide = w.emit(f"call double @PyLong_AsDouble(ptr {arg})")
                wrong = w.emit(f"fcmp oeq double {wide}, -1.0")
                sure, ask = w.label("sure"), w.label("ask")
                w.fork(wrong, ask, sure)
                w.begin(ask)
                error = w.emit("call ptr @PyErr_Occurred()")
                w.fork(w.emit(f"icmp eq ptr {error}, null"), sure, "unclear")
                w.begin(sure)
                value = _rounded(e, wide, dtype)
            case "integer":
                value = e.integer(arg, dtype, "%words", "miss")
            case _:
                value = w.emit(f"icmp eq ptr {arg}, @_Py_TrueStruct")
        words.append((to_word(w, value, dtype), w.block))
        w.jump(done)
    w.begin(done)
    return w.emit("phi i64 " + ", ".join(f"[ {word}, %{block} ]" for word, block in words))


def _rounded(e: Emission, value: str, dtype: str) -> str:
    return value if dtype == "f64" else e.w.emit(f"fptrunc double {value} to float")
