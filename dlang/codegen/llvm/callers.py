"""What Python calls without a detour: a C function that takes arguments apart, runs an entry and makes its results.

It takes just what a table says that it takes: floats, integers and truth values, arrays of a dtype and a number of
axes, tuples and structs of them. To everything else it answers `MISS`, and the call goes through Python, which knows
all kinds of arguments and all messages. So it is an abbreviation, and never decides what a call means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dlang.codegen import loops
from dlang.codegen.llvm.capi import DECLARATIONS, FAILED, FIRST_WORD, FLOAT, FOUND, INTEGER, MISS, TRUTH
from dlang.codegen.llvm.crossings import put, to_word
from dlang.codegen.llvm.functions import statement
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.scalars import LLVM, Module, bits, constant, memory_type
from dlang.codegen.llvm.symbols import caller_symbol, entry_symbol
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.memory import product
from dlang.codegen.work import LONG
from dlang.ir.anf import FLOATS, SIGNED, UNSIGNED, Array, Scalar, Size, Token, is_handle, poly
from dlang.runtime.compiled import EntryPoint
from dlang.runtime.crossing import Fields, Items, Leaf, Part, leaves_of
from dlang.runtime.faces import Face, Terms
from dlang.runtime.platform import objects
from dlang.runtime.platform.objects import DATA, DESCR, DIMENSIONS, FIELDS, FLAGS, ITEMS, NDIM, TYPE

PLAIN = ("f64", "f32", *SIGNED, *UNSIGNED, "bool")
"""The dtypes of scalars that cross without Python."""


# ---- tables ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Number:
    """Two words: the class of a scalar argument, and how its value is read."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Dtype:
    """A word: NumPy's object for a dtype."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Class:
    """A word: the class of a struct that is made; None for that of an argument."""

    made: type | None


@dataclass(frozen=True, slots=True)
class Given:
    """A word: what is passed at a position, the same at every call."""

    position: int


Need = Number | Dtype | Class | Given


@dataclass(frozen=True, slots=True)
class Caller:
    """The text of the function, and what the words of its table have to be, behind the first."""

    llvm: str
    needs: tuple[Need, ...]


def caller(face: Face, point: EntryPoint, terms: Terms) -> Caller | None:
    """The function that Python calls for an entry; None if some of what it takes or gives needs Python."""
    parts = face.border.params
    crosses = all(_lasts(p) if k in terms.bound else _crosses(p) for k, p in enumerate(parts))
    if not crosses or not _crosses(face.border.result):
        return None
    module = Module()
    emission = _Emission(face, point, terms, Writer(module, loops.Program({}), [], statement))
    body = emission.text()
    return None if body is None else Caller(module.text() + DECLARATIONS + body, tuple(emission.needs))


def _crosses(part: Part) -> bool:
    match part:
        case Leaf(dtype, shape):
            return dtype in PLAIN or (dtype == "f16" and bool(shape))
        case Items(items):
            return all(map(_crosses, items))
        case Fields(kind, items):
            return objects.slots_of(kind) is not None and all(map(_crosses, items))
        case _:
            return False


def _lasts(part: Part) -> bool:
    """Whether what an argument is for compiled code outlives a run, as nodes do not."""
    return not any(is_handle(leaf.dtype) for leaf in leaves_of((part,)))


# ---- the function ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Object:
    """An object under way, and its place among them: those are dropped if the result can't be made."""

    at: int
    value: str


@dataclass(slots=True)
class _Emission:
    """leaves: the words of the arguments so far. waiting: sizes that have to agree. made: the objects so far.

    held: arrays in structs, which another thread might take out of them while this one runs.
    """

    face: Face
    point: EntryPoint
    terms: Terms
    w: Writer
    needs: list[Need] = field(default_factory=list)
    words: int = FIRST_WORD
    leaves: list[str] = field(default_factory=list)
    waiting: list[tuple[Size, str]] = field(default_factory=list)
    made: int = 0
    held: list[str] = field(default_factory=list)

    def text(self) -> str | None:
        w, face, function = self.w, self.face, self.point.function
        bound, values = self.terms.bound, dict(self.terms.sizes)
        parts = face.border.params
        self._unless(w.emit(f"icmp eq i64 %nargs, {len(parts) - len(bound)}"))
        early = face.early(bound)
        for k, var in enumerate(face.sizes):
            if k in early:
                w.bind(var, self._given(k))
        taken = 0
        for k, part in enumerate(parts):
            if k in bound:
                at = len(face.sizes) + face.seed + len(self.leaves)
                self.leaves += [self._given(at + n) for n, _ in enumerate(leaves_of((part,)))]
            else:
                arg = w.emit(f"load ptr, ptr {w.emit(f'getelementptr ptr, ptr %args, i64 {taken}')}")
                taken += 1
                self._argument(part, arg)
            if k in values:
                self._unless(w.emit(f"icmp sge i64 {self.leaves[-1]}, 0"))
                self._size(poly(values[k]), self.leaves[-1])
        known = set(w.values)
        if not known.issuperset(face.sizes) or not all(set(s.atoms()) <= known for s, _ in self.waiting):
            return None  # solving for a size is left to Python
        for size, actual in self.waiting:
            self._unless(w.emit(f"icmp eq i64 {size_value(w, size)}, {actual}"))
        if not self._indices():
            return None
        given = [*[w.values[s] for s in face.sizes], *(["%seed"] if face.seed else []), *self.leaves]
        params = [p for p in function.params if not isinstance(p.type, Token)]
        given += [self._given(k) for k in range(len(given), len(params))]
        for p, word in zip(params, given, strict=True):
            if p.type == Scalar("i64"):
                w.bind(p, word)
        w.code.append("  %state = load ptr, ptr %table")
        w.fork(w.emit("call i1 @dl_begin(ptr %state)"), "begun", "miss")
        w.begin("begun")
        self._run(given)
        result = self._result()
        w.code += [f"  call void @Py_DecRef(ptr {array})" for array in self.held]
        w.code += [f"  %out = call ptr @dl_end(ptr %state, ptr {result})", "  ret ptr %out"]
        head = f"define ptr @{caller_symbol(function.name)}(ptr %table, ptr %args, i64 %nargs, i64 %seed) nounwind {{"
        room = len(given) + len(self.point.outs) + self.point.raw
        depth = max([len(r.type.shape) for r in function.results if isinstance(r.type, Array)], default=0)
        start = [
            "entry:",
            f"  %words = alloca [{max(room, 1)} x i64], align 8",
            f"  %dims = alloca [{max(depth, 1)} x i64], align 8",
            f"  %objects = alloca [{max(self.made, 1)} x ptr], align 8",
            f"  call void @llvm.memset.p0.i64(ptr %objects, i8 0, i64 {8 * self.made}, i1 false)",
        ]
        end = [
            "miss:",
            f"  ret ptr inttoptr (i64 {MISS} to ptr)",
            "unclear:",
            "  call void @PyErr_Clear()",
            "  br label %miss",
            "retreat:",
            "  call void @PyErr_Clear()",
            f"  call void @dl_undo(ptr %state, ptr %objects, i64 {self.made})",
            "  br label %miss",
            "failed:",
            f"  %raisep = getelementptr i64, ptr %state, i64 {FAILED}",
            "  %raise = load ptr, ptr %raisep",
            "  %none = call ptr @PyObject_CallNoArgs(ptr %raise)",
            "  br label %undo",
            "undo:",
            f"  call void @dl_undo(ptr %state, ptr %objects, i64 {self.made})",
            "  ret ptr null",
            "}",
        ]
        declared = f"declare i32 @{entry_symbol(function.name)}(ptr, ptr)\n"
        return declared + "\n".join([head, *start, *w.code, *end]) + "\n"

    # ---- helpers ----
    def _unless(self, condition: str, otherwise: str = "miss") -> None:
        """Goes on if a condition holds."""
        fine = self.w.label("fine")
        self.w.fork(condition, fine, otherwise)
        self.w.begin(fine)

    def _load(self, type: str, base: str, offset: int) -> str:
        return self.w.emit(f"load {type}, ptr {self.w.emit(f'getelementptr i8, ptr {base}, i64 {offset}')}")

    def _table(self, need: Need) -> str:
        """The next word of the table."""
        self.needs.append(need)
        value = self._load("ptr", "%table", 8 * self.words)
        self.words += 2 if isinstance(need, Number) else 1
        return value

    def _given(self, position: int) -> str:
        return self.w.emit(f"ptrtoint ptr {self._table(Given(position))} to i64")

    def _indices(self) -> bool:
        """Compares indices with what they are to be below; False if that is not known here."""
        w, b = self.w, self.face.border
        for k, below in self.terms.indices:
            (leaf,) = leaves_of((b.params[k],))
            if not set(below.atoms()) <= set(w.values):
                return False
            index = self.leaves[sum(1 for _ in leaves_of(b.params[:k]))]
            bound = size_value(w, below)
            if leaf.shape:
                count = size_value(w, product(tuple([b.sizes[n] for n in leaf.shape])))
                data = w.emit(f"inttoptr i64 {index} to ptr")
                self._unless(w.emit(f"call i1 @dl_below(ptr {data}, i64 {count}, i64 {bound})"))
            else:
                self._unless(w.emit(f"icmp ult i64 {index}, {bound}"))
        return True

    # ---- arguments ----
    def _argument(self, part: Part, arg: str) -> None:
        w = self.w
        kind = self._load("ptr", arg, TYPE)
        match part:
            case Leaf(dtype, ()):
                self._unless(w.emit(f"icmp eq ptr {kind}, {self._table(Number(dtype))}"))
                self.leaves.append(self._number(dtype, arg, self._load("i64", "%table", 8 * (self.words - 1))))
            case Leaf(dtype, shape):
                self._unless(w.emit(f"icmp eq ptr {kind}, @PyArray_Type"))
                fits = w.emit(f"icmp eq ptr {self._load('ptr', arg, DESCR)}, {self._table(Dtype(dtype))}")
                rank = w.emit(f"icmp eq i32 {self._load('i32', arg, NDIM)}, {len(shape)}")
                ready = objects.C_CONTIGUOUS | objects.ALIGNED
                flags = w.emit(f"and i32 {self._load('i32', arg, FLAGS)}, {ready}")
                fits = w.emit(f"and i1 {fits}, {rank}")
                self._unless(w.emit(f"and i1 {fits}, {w.emit(f'icmp eq i32 {flags}, {ready}')}"))
                dims = self._load("ptr", arg, DIMENSIONS)
                for axis, position in enumerate(shape):
                    self._size(self.face.border.sizes[position], self._load("i64", dims, 8 * axis))
                self.leaves.append(w.emit(f"ptrtoint ptr {self._load('ptr', arg, DATA)} to i64"))
            case Items(()):
                self._unless(w.emit(f"icmp eq ptr {arg}, @_Py_NoneStruct"))
            case Items(items):
                self._unless(w.emit(f"icmp eq ptr {kind}, @PyTuple_Type"))
                self._unless(w.emit(f"icmp eq i64 {self._load('i64', arg, objects.COUNT)}, {len(items)}"))
                for k, item in enumerate(items):
                    self._argument(item, self._load("ptr", arg, ITEMS + 8 * k))
            case Fields(struct, items):
                self._unless(w.emit(f"icmp eq ptr {kind}, {self._table(Class(None))}"))
                for at, item in zip(objects.slots_of(struct) or (), items, strict=True):
                    value = self._load("ptr", arg, at)
                    self._unless(w.emit(f"icmp ne ptr {value}, null"))
                    self._argument(item, value)
                    if isinstance(item, Leaf) and item.shape:
                        self.held.append(value)
            case _:
                raise AssertionError("has been asked before")

    def _size(self, size: Size, actual: str) -> None:
        """A size that an argument has: says what a variable is, or has to agree."""
        var = next(iter(size.atoms()), None)
        if var is not None and var not in self.w.values and size == poly(var):
            self.w.bind(var, actual)
        else:
            self.waiting.append((size, actual))

    def _number(self, dtype: str, arg: str, how: str) -> str:
        """The word of a number, which is read in one of several ways."""
        w = self.w
        done, found = w.label("read"), w.label("found")
        ways: list[tuple[str, str]] = []
        if dtype in FLOATS:
            ways = [("float", str(FLOAT)), ("integer", str(INTEGER))]
        elif dtype == "bool":
            ways = [("truth", str(TRUTH))]
        elif dtype != "u64":
            ways = [("integer", str(INTEGER))]
        labels = {name: w.label(name) for name, _ in ways}
        w.code.append(
            f"  switch i64 {how}, label %miss [ i64 {FOUND}, label %{found} "
            + " ".join(f"i64 {n}, label %{labels[name]}" for name, n in ways)
            + " ]"
        )
        words = []
        w.begin(found)
        value = self._load(memory_type(dtype), arg, FIELDS)
        words.append((self._word(value if dtype != "bool" else w.emit(f"trunc i8 {value} to i1"), dtype), w.block))
        w.jump(done)
        for name, _ in ways:
            w.begin(labels[name])
            match name:
                case "float":
                    value = self._rounded(self._load("double", arg, FIELDS), dtype)
                case "integer" if dtype in FLOATS:
                    wide = w.emit(f"call double @PyLong_AsDouble(ptr {arg})")
                    wrong = w.emit(f"fcmp oeq double {wide}, -1.0")
                    sure, ask = w.label("sure"), w.label("ask")
                    w.fork(wrong, ask, sure)
                    w.begin(ask)
                    error = w.emit("call ptr @PyErr_Occurred()")
                    w.fork(w.emit(f"icmp eq ptr {error}, null"), sure, "unclear")
                    w.begin(sure)
                    value = self._rounded(wide, dtype)
                case "integer":
                    value = self._integer(arg, dtype)
                case _:
                    value = w.emit(f"icmp eq ptr {arg}, @_Py_TrueStruct")
            words.append((self._word(value, dtype), w.block))
            w.jump(done)
        w.begin(done)
        return w.emit("phi i64 " + ", ".join(f"[ {word}, %{block} ]" for word, block in words))

    def _integer(self, arg: str, dtype: str) -> str:
        """An integer of Python that a dtype holds."""
        w = self.w
        wide = w.emit(f"call i64 @dl_integer(ptr {arg}, ptr %words)")
        self._unless(w.emit("icmp eq i64 0, " + w.emit("load i64, ptr %words")))
        if dtype == "i64":
            return wide
        value = w.emit(f"trunc i64 {wide} to {LLVM[dtype]}")
        back = w.emit(f"{'sext' if dtype in SIGNED else 'zext'} {LLVM[dtype]} {value} to i64")
        self._unless(w.emit(f"icmp eq i64 {back}, {wide}"))
        return value

    def _rounded(self, value: str, dtype: str) -> str:
        return value if dtype == "f64" else self.w.emit(f"fptrunc double {value} to float")

    def _word(self, value: str, dtype: str) -> str:
        """A word that is there where this block ends."""
        return to_word(self.w, value, dtype)

    # ---- the run ----
    def _run(self, given: Sequence[str]) -> None:
        w = self.w
        for k, word in enumerate(given):
            put(w, word, "%words", k)
        self.made = len(self.point.outs) + len(self.held)
        for k, array in enumerate(self.held):
            w.code.append(f"  call void @Py_IncRef(ptr {array})")
            self._keep(len(self.point.outs) + k, array)
        for k, out in enumerate(self.point.outs):
            dtype = self._table(Dtype(out.dtype))
            self._dimensions(out.shape)
            width = bits(out.dtype) // 8
            array = w.emit(f"call ptr @dl_array(ptr %state, ptr {dtype}, i32 {len(out.shape)}, ptr %dims, i64 {width})")
            self._keep(k, array)
            self._unless(w.emit(f"icmp ne ptr {array}, null"), "retreat")
            put(w, w.emit(f"ptrtoint ptr {self._load('ptr', array, DATA)} to i64"), "%words", len(given) + k)
        long = self._is_long(self.point.work)
        failed = w.emit(
            f"call i32 @dl_run(ptr %state, ptr @{entry_symbol(self.point.function.name)}, ptr %words, i1 {long})"
        )
        self._unless(w.emit(f"icmp eq i32 {failed}, 0"), "failed")

    def _is_long(self, estimate: Size | None) -> str:
        """Whether the run takes so long that other threads should not wait for it."""
        w = self.w
        if estimate is None or not all(a in w.values for a in estimate.atoms()):
            return "true"
        if estimate.constant is not None:
            return "true" if estimate.constant > LONG else "false"
        total = "0.0"
        for monomial, c in estimate.terms.items():
            term = constant(float(c), "f64")
            for atom in monomial:
                term = w.emit(f"fmul double {term}, {w.emit(f'sitofp i64 {w.values[atom]} to double')}")
            total = w.emit(f"fadd double {total}, {term}")
        return w.emit(f"fcmp ogt double {total}, {constant(LONG, 'f64')}")

    def _dimensions(self, shape: Sequence[Size]) -> None:
        for k, size in enumerate(shape):
            put(self.w, size_value(self.w, size), "%dims", k)

    def _place(self, k: int) -> str:
        return self.w.emit(f"getelementptr ptr, ptr %objects, i64 {k}")

    def _keep(self, k: int, value: str) -> None:
        self.w.code.append(f"  store ptr {value}, ptr {self._place(k)}")

    # ---- results ----
    def _result(self) -> str:
        """Makes the result. What the run hands over becomes objects first, so that none of it is left to the run."""
        w, function = self.w, self.point.function
        taken = sum(1 for p in function.params if not isinstance(p.type, Token))
        first = taken + len(self.point.outs)
        leaves: list[tuple[str, _Object | str]] = []
        for formal, order in zip(function.results, self.point.order, strict=True):
            if order is None:
                continue
            kind, position = order
            address = w.emit(f"getelementptr i64, ptr %words, i64 {first + position}")
            match formal.type:
                case Array(dtype) if kind == "out":
                    object = w.emit(f"load ptr, ptr {self._place(position)}")
                    leaves.append((dtype, _Object(position, object)))
                case Array(dtype, shape):
                    self._dimensions(shape)
                    arguments = f"i64 {w.emit(f'load i64, ptr {address}')}, ptr {self._table(Dtype(dtype))}"
                    made = w.emit(f"call ptr @dl_adopted(ptr %state, {arguments}, i32 {len(shape)}, ptr %dims)")
                    leaves.append((dtype, self._new(made)))
                case Scalar(dtype):
                    word = w.emit(f"load i64, ptr {address}")
                    leaves.append((dtype, word))
                    if dtype == "i64":
                        w.bind(formal, word)
                case _:
                    raise AssertionError("a token is not a result")
        return self._built(self.face.border.result, iter(leaves[len(self.face.extra) :])).value

    def _new(self, value: str) -> _Object:
        """An object that has been made, unless there is no memory for it."""
        at = self.made
        self.made += 1
        self._keep(at, value)
        self._unless(self.w.emit(f"icmp ne ptr {value}, null"), "undo")
        return _Object(at, value)

    def _built(self, part: Part, leaves: Iterator[tuple[str, _Object | str]]) -> _Object:
        w = self.w
        match part:
            case Leaf():
                dtype, leaf = next(leaves)
                return leaf if isinstance(leaf, _Object) else self._new(self._scalar(leaf, dtype))
            case Items(()):
                w.code.append("  call void @Py_IncRef(ptr @_Py_NoneStruct)")
                return self._new("@_Py_NoneStruct")
            case Items(items):
                values = [self._built(x, leaves) for x in items]
                made = self._new(w.emit(f"call ptr @PyTuple_New(i64 {len(items)})"))
                places: Sequence[int] = [ITEMS + 8 * k for k in range(len(items))]
            case Fields(struct, items):
                values = [self._built(x, leaves) for x in items]
                made = self._new(w.emit(f"call ptr @PyType_GenericAlloc(ptr {self._table(Class(struct))}, i64 0)"))
                places = objects.slots_of(struct) or ()
            case _:
                raise AssertionError("has been asked before")
        for place, part_ in zip(places, values, strict=True):
            w.code.append(
                f"  store ptr {part_.value}, ptr {w.emit(f'getelementptr i8, ptr {made.value}, i64 {place}')}"
            )
            self._keep(part_.at, "null")
        return made

    def _scalar(self, word: str, dtype: str) -> str:
        w = self.w
        match dtype:
            case "f64":
                return w.emit(f"call ptr @PyFloat_FromDouble(double {w.emit(f'bitcast i64 {word} to double')})")
            case "i64":
                return w.emit(f"call ptr @PyLong_FromLongLong(i64 {word})")
            case "bool":
                return w.emit(f"call ptr @PyBool_FromLong(i64 {w.emit(f'and i64 {word}, 1')})")
            case _:
                put(w, word, "%words", 0)
                return w.emit(f"call ptr @PyArray_Scalar(ptr %words, ptr {self._table(Dtype(dtype))}, ptr null)")
