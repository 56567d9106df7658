"""The result of a call from Python, made of what a run gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlang.codegen.entry_points import EntryPoint
from dlang.codegen.llvm.call_emission import Emission
from dlang.codegen.llvm.call_needs import Class, Dtype
from dlang.codegen.llvm.host_calls import put
from dlang.host.platform import objects
from dlang.host.platform.objects import ITEMS
from dlang.ir.anf import Array, Scalar, Var
from dlang.ir.crossing import Choice, Fields, Items, Leaf, Part, leaf_count
from dlang.ir.signatures import Signature
from dlang.ops.dtypes import WHOLE


@dataclass(frozen=True, slots=True)
class Object:
    """An object under way, and its place among them: those are dropped if the result can't be made."""

    at: int
    value: str


def is_made(part: Part) -> bool:
    """Tells whether a part of a result is made without Python."""
    match part:
        case Leaf(dtype, shape):
            return dtype in WHOLE or (dtype == "str" and not shape) or (dtype == "f16" and bool(shape))
        case Items(items):
            return all(map(is_made, items))
        case Fields(kind, items):
            return objects.slots_of(kind) is not None and all(map(is_made, items))
        case Choice(types, variants):
            return all(t is None or objects.slots_of(t) is not None for t in types) and all(
                is_made(x) for items in variants for x in items
            )
        case _:
            return False


def result(e: Emission, signature: Signature, point: EntryPoint, first: int, outs: Sequence[int]) -> str:
    """Makes the result. What the run hands over becomes objects first, so that none of it is left to the run.

    first: the first word of what it gives back. outs: the places of the arrays that it was given to fill.
    """
    w = e.w
    leaves: list[tuple[str, Object | str]] = []
    for formal, order in zip(point.function.results, point.order, strict=True):
        if order is None:
            continue
        kind, position = order
        if kind == "out" and isinstance(formal.type, Array):
            at = outs[position]
            leaves.append((formal.type.dtype, Object(at, w.emit(f"load ptr, ptr {e.place(at)}"))))
        else:
            leaves.append(_leaf(e, formal, w.emit(f"getelementptr i64, ptr %words, i64 {first + position}")))
    return _built(e, signature.layout.result, iter(leaves[len(signature.extra) :])).value


def _leaf(e: Emission, formal: Var, address: str) -> tuple[str, Object | str]:
    """Reads a word that an entry returned: an object for an array, the word itself for a scalar."""
    w = e.w
    match formal.type:
        case Array(dtype, shape):
            e.dimensions(shape)
            arguments = f"i64 {w.emit(f'load i64, ptr {address}')}, ptr {e.table(Dtype(dtype))}"
            adopted = w.emit(f"call ptr @dl_adopted(ptr %state, {arguments}, i32 {len(shape)}, ptr %dims)")
            return dtype, _new(e, adopted)
        case Scalar(dtype):
            word = w.emit(f"load i64, ptr {address}")
            if dtype == "i64":
                w.bind(formal, word)
            return dtype, word
        case _:
            raise AssertionError("a token is not a result")


def _new(e: Emission, value: str) -> Object:
    """An object that has been made, unless there is no memory for it."""
    at = e.new_place()
    e.keep(at, value)
    e.unless(e.w.emit(f"icmp ne ptr {value}, null"), "undo")
    return Object(at, value)


def _built(e: Emission, part: Part, leaves: Iterator[tuple[str, Object | str]]) -> Object:
    w = e.w
    match part:
        case Leaf():
            dtype, leaf = next(leaves)
            return leaf if isinstance(leaf, Object) else _new(e, _scalar(e, leaf, dtype))
        case Items(()):
            return _none(e)
        case Items(items):
            values = [_built(e, x, leaves) for x in items]
            object = _new(e, w.emit(f"call ptr @PyTuple_New(i64 {len(items)})"))
            _fill(e, object, values, [ITEMS + 8 * k for k in range(len(items))])
            return object
        case Fields(struct, items):
            return _object(e, struct, items, leaves)
        case Choice(types, variants):
            return _variant(e, types, variants, leaves)
        case _:
            raise AssertionError("has been asked before")


def _none(e: Emission) -> Object:
    e.w.code.append("  call void @Py_IncRef(ptr @_Py_NoneStruct)")
    return _new(e, "@_Py_NoneStruct")


def _object(e: Emission, struct: type, items: Sequence[Part], leaves: Iterator[tuple[str, Object | str]]) -> Object:
    """An object of a dataclass."""
    values = [_built(e, x, leaves) for x in items]
    object = _new(e, e.w.emit(f"call ptr @PyType_GenericAlloc(ptr {e.table(Class(struct))}, i64 0)"))
    _fill(e, object, values, objects.slots_of(struct) or ())
    return object


def _fill(e: Emission, object: Object, values: Sequence[Object], places: Sequence[int]) -> None:
    for place, value in zip(places, values, strict=True):
        at = e.w.emit(f"getelementptr i8, ptr {object.value}, i64 {place}")
        e.w.code.append(f"  store ptr {value.value}, ptr {at}")
        e.keep(value.at, "null")


def _variant(
    e: Emission,
    types: Sequence[type | None],
    variants: Sequence[Sequence[Part]],
    leaves: Iterator[tuple[str, Object | str]],
) -> Object:
    """The object of the variant that a tag says. Arrays of the others are dropped."""
    w, done, at = e.w, e.w.label("chosen"), e.new_place()
    _, tag = next(leaves)
    rows = [[next(leaves) for x in items for _ in range(leaf_count(x))] for items in variants]
    labels = [w.label("variant") for _ in types]
    cases = " ".join(f"i64 {k}, label %{label}" for k, label in enumerate(labels[:-1]))
    w.code.append(f"  switch i64 {tag}, label %{labels[-1]} [ {cases} ]")
    ways: list[tuple[str, str]] = []
    for k, (cls, label) in enumerate(zip(types, labels, strict=True)):
        w.begin(label)
        for other in (x for j, row in enumerate(rows) if j != k for _, x in row if isinstance(x, Object)):
            w.code.append(f"  call void @Py_DecRef(ptr {other.value})")
            e.keep(other.at, "null")
        object = _none(e) if cls is None else _object(e, cls, variants[k], iter(rows[k]))
        e.keep(at, object.value)
        e.keep(object.at, "null")
        ways.append((object.value, w.block))
        w.jump(done)
    w.begin(done)
    return Object(at, w.emit("phi ptr " + ", ".join(f"[ {value}, %{block} ]" for value, block in ways)))


def _scalar(e: Emission, word: str, dtype: str) -> str:
    w = e.w
    match dtype:
        case "f64":
            return w.emit(f"call ptr @PyFloat_FromDouble(double {w.emit(f'bitcast i64 {word} to double')})")
        case "i64":
            return w.emit(f"call ptr @PyLong_FromLongLong(i64 {word})")
        case "bool":
            return w.emit(f"call ptr @PyBool_FromLong(i64 {w.emit(f'and i64 {word}, 1')})")
        case "str":
            return w.emit(f"call ptr @dl_text_object(i64 {word})")
        case _:
            put(w, word, "%words", 0)
            return w.emit(f"call ptr @PyArray_Scalar(ptr %words, ptr {e.table(Dtype(dtype))}, ptr null)")
