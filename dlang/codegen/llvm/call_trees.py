"""Trees among the arguments of a call from Python: written into the arena of the run as its nodes.

What two trees share is written once for each, so this is for trees of moderate size that are arguments alone; a large
one, one that holds itself, and one whose nodes hold arrays go through Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from dlang.codegen.llvm import collector
from dlang.codegen.llvm.assembly import joined
from dlang.codegen.llvm.call_emission import Emission
from dlang.codegen.llvm.call_needs import Class
from dlang.codegen.llvm.host_calls import to_word
from dlang.codegen.node_layout import holds_reference, words
from dlang.host.platform import objects
from dlang.host.platform.objects import FIELDS, TYPE
from dlang.ir.anf import Datatype
from dlang.ir.crossing import Branch, Leaf, Tree
from dlang.ops.dtypes import INTEGERS, WHOLE

DEEPEST = 500
_SCALARS = frozenset((*WHOLE, "str")) - {"u64"}
_WHOLE = _SCALARS.intersection(INTEGERS)


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
