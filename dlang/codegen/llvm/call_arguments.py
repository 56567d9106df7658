"""The arguments of a call from Python, taken apart where CPython and NumPy keep them.

What is not just as the table says jumps to `miss`; nothing has been changed before.

Trees are written into the arena of the run as its nodes. What two trees share is written once for each, so this is for
trees of moderate size that are arguments alone; a large one, one that holds itself, and one whose nodes hold arrays go
through Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from dlang.codegen.abi import Class, Dtype, Number, holds_reference, words
from dlang.codegen.llvm import collector
from dlang.codegen.llvm.assembly import joined
from dlang.codegen.llvm.call_emission import Emission
from dlang.codegen.llvm.dispatch import FLOAT, FOUND, INTEGER, TRUTH
from dlang.codegen.llvm.host_calls import to_word
from dlang.codegen.llvm.scalars import memory_type
from dlang.host.platform import objects
from dlang.host.platform.objects import DATA, DESCR, DIMENSIONS, FIELDS, ITEMS, NDIM, TYPE
from dlang.inequalities import LARGEST
from dlang.ir.anf import FLOATS, Datatype, Size
from dlang.ir.crossing import Branch, Choice, Fields, Items, Leaf, Part, Tree, leaf_count
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


# ---- trees -----------------------------------------------------------------------------------------------------------
DEEPEST = 500
_SCALARS = frozenset((*WHOLE, "str")) - {"u64"}


@dataclass(frozen=True, slots=True)
class Trees:
    """The types of nodes: what Python sees of each variant, and how it lies in memory."""

    branches: Mapping[str, Sequence[Branch]]
    datatypes: Mapping[str, Datatype]

    def reached(self, dtype: str) -> list[str]:
        """The datatypes of a node and of all that it may hold."""
        datatypes, open = [dtype], [dtype]
        while open:
            for branch in self.branches[open.pop()]:
                new = [x.dtype for x in branch.items if isinstance(x, Tree) and x.dtype not in datatypes]
                datatypes += dict.fromkeys(new)
                open += dict.fromkeys(new)
        return datatypes

    def are_written(self, dtype: str) -> bool:
        """Tells whether nodes of a datatype are written without Python."""
        return all(_is_written(branch) for name in self.reached(dtype) for branch in self.branches[name])


def _is_written(branch: Branch) -> bool:
    plain = all(isinstance(x, Tree) or (isinstance(x, Leaf) and _is_scalar(x)) for x in branch.items)
    return plain and not branch.own and (branch.type is None or objects.slots_of(branch.type) is not None)


def _is_scalar(leaf: Leaf) -> bool:
    return leaf.dtype in _SCALARS and not leaf.shape


def write(e: Emission, dtype: str, arg: str) -> str:
    """The address of the node of an object, as a word; after the begin of the run."""
    word = e.w.emit(f"call i64 @{_symbol(dtype)}(ptr %table, ptr %state, ptr {arg}, i64 {DEEPEST})")
    e.unless(e.w.emit(f"icmp sgt i64 {word}, 0"), "retreat")
    return word


def _symbol(dtype: str) -> str:
    return '"node.' + "".join(c if c.isalnum() else f".{ord(c):x}." for c in dtype) + '"'


# ---- the functions ---------------------------------------------------------------------------------------------------
def functions(e: Emission, dtypes: Sequence[str], trees: Trees) -> str:
    """Emits the functions that write the nodes of some datatypes, and of all that they hold."""
    names = dict.fromkeys(name for dtype in dtypes for name in trees.reached(dtype))
    return "".join([_function(e, name, trees) for name in names])


def _function(e: Emission, dtype: str, trees: Trees) -> str:
    """The function that writes a node of a datatype behind those that it holds; 0 if that is left to Python."""
    w = e.w
    outer, w.code = w.code, []
    w.begin("entry")
    e.unless(w.emit("icmp ne i64 %depth, 0"), "none")
    kind = e.load("ptr", "%x", TYPE)
    for tag, branch in enumerate(trees.branches[dtype]):
        matching, other = w.label("variant"), w.label("other")
        same = "%x, @_Py_NoneStruct" if branch.type is None else f"{kind}, {e.table(Class(branch.type))}"
        w.fork(w.emit(f"icmp eq ptr {same}"), matching, other)
        w.begin(matching)
        _node(e, tag, branch, trees.datatypes[dtype])
        w.begin(other)
    w.jump("none")
    w.begin("none")
    w.code.append("  ret i64 0")
    body, w.code = w.code, outer
    head = f"define internal i64 @{_symbol(dtype)}(ptr %table, ptr %state, ptr %x, i64 %depth) nounwind {{"
    start = ["%over = alloca i64", "%after = sub i64 %depth, 1"]
    return joined([head, body[0], *[f"  {line}" for line in start], *body[1:], "}"]) + "\n"


def _node(e: Emission, tag: int, branch: Branch, datatype: Datatype) -> None:
    w, variant = e.w, datatype.variants[tag]
    values: list[str] = []
    if branch.type is not None:
        names = [f.name for f in fields(branch.type)]
        slots = dict(zip(names, objects.slots_of(branch.type) or (), strict=True))
        for name, part in zip(branch.names, branch.items, strict=True):
            value = e.load("ptr", "%x", slots[name])
            e.unless(w.emit(f"icmp ne ptr {value}, null"), "none")
            if isinstance(part, Tree):
                values.append(
                    w.emit(f"call i64 @{_symbol(part.dtype)}(ptr %table, ptr %state, ptr {value}, i64 %after)")
                )
                e.unless(w.emit(f"icmp ne i64 {values[-1]}, 0"), "none")
            else:
                assert isinstance(part, Leaf)
                values.append(_scalar(e, part.dtype, value))
    references = sum([holds_reference(f) for f in variant.fields])
    header = collector.node_header(tag, references, len(variant.fields))
    signed = header - 2**64 if header >= 2**63 else header
    node = w.emit(f"call ptr @dl_node(ptr %state, i64 {8 * len(variant.fields) + 8}, i64 {signed})")
    e.unless(w.emit(f"icmp ne ptr {node}, null"), "none")
    for word, value in zip(words(variant), values, strict=True):
        w.code.append(f"  store i64 {value}, ptr {w.emit(f'getelementptr i64, ptr {node}, i64 {word}')}")
    w.code.append(f"  ret i64 {w.emit(f'ptrtoint ptr {node} to i64')}")


def _scalar(e: Emission, dtype: str, x: str) -> str:
    """The word of a number of Python's own, or a text; everything else is left to Python."""
    w = e.w
    if dtype == "str":
        return e.written(e.text(x, "none"), "none")
    kind = e.load("ptr", x, TYPE)

    def of(name: str) -> None:
        e.unless(w.emit(f"icmp eq ptr {kind}, @{name}"), "none")

    match dtype:
        case "f64" | "f32":
            of("PyFloat_Type")
            value = e.load("double", x, FIELDS)
            return to_word(w, value if dtype == "f64" else w.emit(f"fptrunc double {value} to float"), dtype)
        case "bool":
            of("PyBool_Type")
            return to_word(w, w.emit(f"icmp eq ptr {x}, @_Py_TrueStruct"), dtype)
        case _:
            of("PyLong_Type")
            return to_word(w, e.integer(x, dtype, "%over", "none"), dtype)
