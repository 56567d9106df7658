"""Emits the C functions that Python calls: each takes arguments apart, runs an entry and makes its results.

It takes just what a table says that it takes: numbers, truth values and texts, arrays of a dtype and a number of axes,
tuples, structs and enums of them, and trees of numbers. To everything else it answers `MISS`, and the call goes through
Python, which knows all kinds of arguments and all messages. So it is an abbreviation, and never decides what a call
means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from dlang.codegen import loops
from dlang.codegen.abi import Class, Dtype, EntryPoint, Need, caller_symbol
from dlang.codegen.llvm.accesses import is_too_large
from dlang.codegen.llvm.assembly import joined
from dlang.codegen.llvm.call_arguments import Trees, functions, is_taken, take, write
from dlang.codegen.llvm.call_emission import Emission
from dlang.codegen.llvm.capi import DECLARATIONS, FAILED
from dlang.codegen.llvm.dispatch import MISS
from dlang.codegen.llvm.functions import StatementWriter
from dlang.codegen.llvm.host_calls import put
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.scalars import Module, bits, constant
from dlang.host.platform import objects
from dlang.host.platform.objects import DATA, ITEMS
from dlang.inequalities import LARGEST
from dlang.ir.anf import Array, Datatype, Scalar, Size, Token, Var, is_handle, poly
from dlang.ir.crossing import Choice, Fields, Items, Leaf, Part, Signature, Terms, leaf_count, leaves_of
from dlang.ir.types import product
from dlang.ops import figures
from dlang.ops.dtypes import WHOLE


@dataclass(frozen=True, slots=True)
class Caller:
    """The text of the function, and what the words of its table have to be, behind the first."""

    llvm: str
    needs: tuple[Need, ...]


def caller(signature: Signature, point: EntryPoint, terms: Terms, datatypes: Mapping[str, Datatype]) -> Caller | None:
    """The function that Python calls for an entry; None if some of what it takes or gives needs Python.

    datatypes: those of the program.
    """
    parts, trees = signature.layout.params, Trees(signature.layout.trees, datatypes)
    crosses = all(_lasts(p) if k in terms.bound else is_taken(p, trees) for k, p in enumerate(parts))
    if not crosses or not is_made(signature.layout.result):
        return None
    module = Module()
    emission = Emission(StatementWriter(module, loops.Program({}), []))
    body = _text(emission, signature, point, terms)
    if body is None:
        return None
    body += functions(emission, [dtype for dtype, _ in emission.trees.values()], trees)
    return Caller(module.text() + DECLARATIONS + body, tuple(emission.needs))


def _lasts(part: Part) -> bool:
    """Tells whether an argument, as compiled code has it, outlives a run."""
    return all(_outlives(leaf.dtype, bool(leaf.shape)) for leaf in leaves_of((part,)))


def _outlives(dtype: str, is_array: bool) -> bool:
    """Tells whether a scalar or an array outlives a run: nodes and arrays of texts do not."""
    return not is_handle(dtype) and not (dtype == "str" and is_array)


# ---- the function ----------------------------------------------------------------------------------------------------
def _text(e: Emission, signature: Signature, point: EntryPoint, terms: Terms) -> str | None:
    w, function = e.w, point.function
    given = _arguments(e, signature, terms)
    if given is None or not _indices(e, signature, terms):
        return None
    params = [p for p in function.params if not isinstance(p.type, Token)]
    early = [p.type for p in params[len(given) :] if not isinstance(p.type, Token)]
    if not all(_outlives(t.dtype, isinstance(t, Array)) for t in early):
        return None
    given += [e.given(k) for k in range(len(given), len(params))]
    for p, word in zip(params, given, strict=True):
        if p.type == Scalar("i64"):
            w.bind(p, word)
    w.code.append("  %state = load ptr, ptr %table")
    work = _work(e, point.work)
    w.fork(w.emit(f"call i1 @dl_begin(ptr %state, double {work or '0.0'})"), "begun", "miss")
    w.begin("begun")
    first = len(signature.sizes) + signature.seed
    for k, (dtype, tree) in e.trees.items():
        given[first + k] = write(e, dtype, tree)
    owners = [k for k, part in enumerate(signature.layout.params) for _ in leaves_of((part,))]
    for n, (k, leaf) in enumerate(zip(owners, leaves_of(signature.layout.params), strict=True)):
        if leaf.dtype == "str" and not leaf.shape and k not in terms.bound:
            given[first + n] = e.written(given[first + n], "retreat")
    for array in e.held:
        w.code.append(f"  call void @Py_IncRef(ptr {array})")
        e.keep(e.new_place(), array)
    for k, array in e.arrays.items():
        given[first + k] = _in_rows(e, array)
    dropped = e.made
    outs = _run(e, point, given, work)
    result_pointer = result(e, signature, point, len(given) + len(outs), outs)
    w.code += [
        f"  %out = call ptr @dl_end(ptr %state, ptr {result_pointer}, ptr %objects, i64 {dropped})",
        "  ret ptr %out",
    ]
    head = f"define ptr @{caller_symbol(function.name)}(ptr %table, ptr %args, i64 %seed) nounwind {{"
    room = len(given) + len(point.outs) + point.raw
    depth = max([len(r.type.shape) for r in function.results if isinstance(r.type, Array)], default=0)
    start = [
        "entry:",
        f"  %words = alloca [{max(room, 1)} x i64], align 8",
        f"  %dims = alloca [{max(depth, 1)} x i64], align 8",
        f"  %objects = alloca [{max(e.made, 1)} x ptr], align 8",
        f"  call void @llvm.memset.p0.i64(ptr %objects, i8 0, i64 {8 * e.made}, i1 false)",
    ]
    return joined([head, *start, *w.code, *_ends(e.made)]) + "\n"


def _ends(objects: int) -> list[str]:
    """Emits the ends of a call that can't go on: by a miss, so that Python takes over, or by an exception."""
    return [
        "miss:",
        f"  ret ptr inttoptr (i64 {MISS} to ptr)",
        "unclear:",
        "  call void @PyErr_Clear()",
        "  br label %miss",
        "retreat:",
        "  call void @PyErr_Clear()",
        f"  call void @dl_undo(ptr %state, ptr %objects, i64 {objects})",
        "  br label %miss",
        "failed:",
        f"  %raisep = getelementptr i64, ptr %state, i64 {FAILED}",
        "  %raise = load ptr, ptr %raisep",
        "  %none = call ptr @PyObject_CallNoArgs(ptr %raise)",
        "  br label %undo",
        "undo:",
        f"  call void @dl_undo(ptr %state, ptr %objects, i64 {objects})",
        "  ret ptr null",
        "}",
    ]


# ---- arguments -------------------------------------------------------------------------------------------------------
def _arguments(e: Emission, signature: Signature, terms: Terms) -> list[str] | None:
    """The words of sizes, seed and arguments; None if Python has to find a size."""
    w, bound, values = e.w, terms.bound, dict(terms.sizes)
    early = signature.early(bound)
    for k, var in enumerate(signature.sizes):
        if k in early:
            w.bind(var, e.given(k))
    taken = 0
    for k, part in enumerate(signature.layout.params):
        if k in bound:
            at = len(signature.sizes) + signature.seed + len(e.leaves)
            e.leaves += [e.given(at + n) for n, _ in enumerate(leaves_of((part,)))]
        else:
            arg = w.emit(f"load ptr, ptr {w.emit(f'getelementptr ptr, ptr %args, i64 {taken}')}")
            taken += 1
            take(e, part, arg, signature.layout.sizes)
        if k in values:
            e.unless(w.emit(f"icmp ule i64 {e.leaves[-1]}, {LARGEST}"))
            e.size(poly(values[k]), e.leaves[-1])
    waiting, before = e.waiting, None
    while waiting != before:
        before, waiting = waiting, [entry for entry in waiting if not _solved(e, *entry)]
    for var, dividend, divisor in terms.quotients:
        if not w.values.keys() >= {*dividend.atoms(), *divisor.atoms()}:
            return None
        below = _size(e, divisor)
        e.unless(w.emit(f"icmp ne i64 {below}, 0"))
        w.bind(var, w.ops().primitive("floordiv", ("i64", "i64"), [_size(e, dividend), below]))
    waiting += [(size, w.values[var]) for var, size in terms.compared if var in w.values]
    if not w.values.keys() >= {*signature.sizes, *[a for size, _ in waiting for a in size.atoms()]}:
        return None
    for size, actual in waiting:
        e.unless(w.emit(f"icmp eq i64 {_size(e, size)}, {actual}"))
    return [*[w.values[s] for s in signature.sizes], *(["%seed"] if signature.seed else []), *e.leaves]


def _solved(e: Emission, size: Size, actual: str) -> bool:
    """Binds the one variable of a size that is not known yet, in which it is linear; whether there is one."""
    w = e.w
    unknown = [a for a in dict.fromkeys(size.atoms()) if a not in w.values]
    if len(unknown) != 1 or not size.is_linear(unknown[0]) or _scale(size) != 1:
        return False
    (var,) = unknown
    factor = _size(e, size.coefficient(var))
    e.unless(w.emit(f"icmp ne i64 {factor}, 0"))
    solution = _quotient(e, w.emit(f"sub i64 {actual}, {_size(e, size.without(var))}"), factor)
    e.unless(w.emit(f"icmp sge i64 {solution}, 0"))
    w.bind(var, solution)
    return True


def _size(e: Emission, size: Size) -> str:
    """The value of a size whose variables are known; Python takes over where it is too large, or no whole number."""
    if any(len(m) > 1 for m in size.terms):
        e.unless(e.w.emit(f"xor i1 {is_too_large(e.w, size)}, true"))
    scale = _scale(size)
    return size_value(e.w, size) if scale == 1 else _quotient(e, size_value(e.w, size * scale), str(scale))


def _quotient(e: Emission, dividend: str, divisor: str) -> str:
    """An exact quotient; Python takes over where there is none."""
    e.unless(e.w.emit(f"icmp eq i64 0, {e.w.emit(f'srem i64 {dividend}, {divisor}')}"))
    return e.w.emit(f"sdiv i64 {dividend}, {divisor}")


def _scale(size: Size) -> int:
    """The least number by which a size has whole coefficients."""
    return lcm(*[c.denominator for c in size.terms.values()])


def _indices(e: Emission, signature: Signature, terms: Terms) -> bool:
    """Compares indices with what they are to be below; False if that is not known here."""
    w, b = e.w, signature.layout
    for k, below in terms.indices:
        (leaf,) = leaves_of((b.params[k],))
        if not set(below.atoms()) <= set(w.values):
            return False
        at = sum(1 for _ in leaves_of(b.params[:k]))
        bound = size_value(w, below)
        if leaf.shape:
            if at in e.arrays:
                e.unless(w.emit(f"call i1 @dl_in_rows(ptr {e.arrays[at]})"))
            count = size_value(w, product(tuple([b.sizes[n] for n in leaf.shape])))
            data = w.emit(f"inttoptr i64 {e.leaves[at]} to ptr")
            e.unless(w.emit(f"call i1 @dl_below(ptr {data}, i64 {count}, i64 {bound})"))
        else:
            e.unless(w.emit(f"icmp ult i64 {e.leaves[at]}, {bound}"))
    return True


def _in_rows(e: Emission, array: str) -> str:
    """The address of the elements of an array as compiled code wants them, of a copy if need be."""
    w = e.w
    data = w.emit(f"call ptr @dl_rows(ptr {array}, ptr {e.place(e.new_place())})")
    e.unless(w.emit(f"icmp ne ptr {data}, null"), "retreat")
    return w.emit(f"ptrtoint ptr {data} to i64")


# ---- the run ---------------------------------------------------------------------------------------------------------
def _run(e: Emission, point: EntryPoint, given: Sequence[str], work: str | None) -> list[int]:
    """Calls the entry; the places of the arrays that it fills. work: about how much it does, if that is known."""
    w = e.w
    for k, word in enumerate(given):
        put(w, word, "%words", k)
    outs = []
    for k, out in enumerate(point.outs):
        dtype = e.table(Dtype(out.dtype))
        e.dimensions(out.shape)
        width = bits(out.dtype) // 8
        array = w.emit(f"call ptr @dl_array(ptr %state, ptr {dtype}, i32 {len(out.shape)}, ptr %dims, i64 {width})")
        outs.append(e.new_place())
        e.keep(outs[-1], array)
        e.unless(w.emit(f"icmp ne ptr {array}, null"), "retreat")
        put(w, w.emit(f"ptrtoint ptr {e.load('ptr', array, DATA)} to i64"), "%words", len(given) + k)
    # other threads should not wait for a run that takes long
    long = "true" if work is None else w.emit(f"fcmp ogt double {work}, {constant(figures.LONG_CALL, 'f64')}")
    failed = w.emit(f"call i32 @dl_run(ptr %state, ptr %words, i1 {long})")
    e.unless(w.emit(f"icmp eq i32 {failed}, 0"), "failed")
    return outs


def _work(e: Emission, estimate: Size | None) -> str | None:
    """About how many picoseconds the run takes, as an f64 from 0; None if that isn't known."""
    w = e.w
    if estimate is None or not all(a in w.values for a in estimate.atoms()):
        return None
    total = constant(0.0, "f64")
    for monomial, c in estimate.terms.items():
        term = constant(float(c), "f64")
        for atom in monomial:
            term = w.emit(f"fmul double {term}, {w.emit(f'sitofp i64 {w.values[atom]} to double')}")
        total = w.emit(f"fadd double {total}, {term}")
    return w.emit(f"select i1 {w.emit(f'fcmp ogt double {total}, 0.0')}, double {total}, double 0.0")


# ---- results ---------------------------------------------------------------------------------------------------------
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
