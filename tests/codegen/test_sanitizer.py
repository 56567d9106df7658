"""Programs that are sanitised: no access to memory escapes, and one that is outside of its array stops at its line."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import dlang
from dlang.codegen import loops
from dlang.codegen.llvm import objects, registry, support
from dlang.codegen.llvm.modules import emit
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import map_inside
from dlang.codegen.vectorize import Lanes
from dlang.diagnostics import DlangError, Source
from dlang.driver import Request, check, errors_of, lower
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Program, fresh, poly
from dlang.ir.types import I64
from dlang.runtime import build
from dlang.runtime.engine import CHECKS, CompiledProgram, Engine
from dlang.runtime.memory import Context
from dlang.runtime.threads import new_pool
from tests.codegen.announced import unannounced
from tests.codegen.cases import CASES

Rewrite = Callable[[loops.Stmt], Sequence[loops.Stmt]]


@cache
def emitted(sanitizes: bool = True) -> list[str]:
    """The texts of all cases, with vectors and with loops in pieces."""
    nests = [schedule(case.program, Lanes(256), 1000, places=True) for case in CASES]
    texts = [emit(program, ["f"], sanitizes=sanitizes).llvm for program in nests]
    objects.target()
    for text in texts:
        llvm.parse_assembly(text).verify()
    return texts


def test_a_check_stands_in_front_of_each_access_to_memory() -> None:
    found: Counter[str] = Counter()
    for text in emitted():
        wrong, counted = unannounced(text)
        assert not wrong
        found.update(counted)
    kinds = {
        "load", "store", "llvm.masked.load", "llvm.masked.store", "llvm.masked.gather", "llvm.masked.scatter",
        "llvm.memcpy", "llvm.memset", "dl_product_f64_256", "dl_add_f64", "dl_free_checked",
    }  # fmt: skip
    assert kinds <= found.keys()
    assert found["load"] > 1000 and found["store"] > 500


def test_the_words_of_a_context_are_each_for_one_purpose() -> None:
    """The words of checks, of the collector, of the rest of a run, and the lists of free blocks do not overlap."""
    own = [value for name, value in vars(support).items() if name in WORDS]
    checks = [registry.OLDEST, registry.NEWEST, registry.KEPT, registry.FOUND]
    assert len(own) == len(WORDS) and len({*own, *checks}) == len(own) + len(checks)
    assert max(*own, *checks) < support.FREE_LISTS


WORDS = (
    "SITE", "STACK_LIMIT", "CALLBACK", "LIVE", "CALLS", "IN_USE", "TAKEN", "PEAK", "ARENA_TOP", "ARENA_LIMIT",
    "ARENA_END", "HOME", "FUEL", "DEADLINE", "INTERVAL", "POOL", "REGION", "PIECE", "MEASURED", "DEVICE", "ARENA_SEEN",
    "ARENA_CREDIT",
)  # fmt: skip


def test_all_accesses_are_found_where_there_are_no_checks() -> None:
    for text in emitted():
        lines = [
            line for line in text.splitlines() if "call i1 @dl_outside" not in line and "@dl_not_alive" not in line
        ]
        wrong, counted = unannounced("\n".join(lines))
        assert len(wrong) == sum(counted.values()) == sum(unannounced(text)[1].values())


def test_other_programs_have_no_checks() -> None:
    assert not any("dl_outside" in text or "_checked" in text for text in emitted(sanitizes=False))


# ---- each kind of access ---------------------------------------------------------------------------------------------
KINDS = """
import nn
import linalg { solve }
fn halves(x: f64[n]) -> f64[n] = [x[i] * 0.5 for i < n]
fn small(x: f32[n], y: bf16[n], z: bool[n]) -> f32[n] = [x[i] + f32(y[i]) + (if z[i] { 1.0 } else { 0.0 }) for i < n]
fn reversed(x: f64[n]) -> f64[n] = [x[n - 1 - i] for i < n]
fn gathered(x: f64[n], t: i64[m]) -> f64[m] = [x[t[i]] for i < m]
fn scattered(x: f64[n], t: i64[m]) -> f64[n] {
  var y = x
  for i < m { y[t[i]] += 1.0 }
  y
}
fn lengths(p: f64[n, 3]) -> f64[n] = [sqrt(p[i, 0] ** 2 + p[i, 1] ** 2 + p[i, 2] ** 2) for i < n]
fn columns(a: f64[n, m]) -> f64[m] = [sum(a[i, j] for i < n) for j < m]
fn product(a: f64[n, k], b: f64[k, m]) -> f64[n, m] = a @ b
fn smoothed(w: f32[k, c, d], x: f32[b, n, c]) -> f32[b, ?, d] = nn.conv1d(w, x)
fn solved(a: f64[n, n], b: f64[n]) -> f64[n] = solve(a, b)
fn running(x: f64[n]) -> f64[n] = cumsum(x)
fn ordered(x: f64[n]) -> f64[n] = sort(x)
fn joined(x: f64[n], y: f64[m]) -> f64[?] = concat(x, y)
fn shown(x: f64[n]) { print(x) }
fn stretch(v: f64, q: f64[k]) -> f64 {
  let (last, all) = scan(|a, w| (sin(w), v), q[0], q)
  last + sum(sin(all))
}
fn nested(x: f64[n], q: f64[k]) -> f64 = sum(logsumexp(stretch(v, q) for i < n) for v in x, j < k)
"""
RNG = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


ARGUMENTS: dict[str, tuple[list[np.ndarray], dict[str, int]]] = {
    "halves": ([floats(21)], {"n": 21}),
    "small": ([floats(21).astype("f4"), floats(21).astype("f4"), floats(21) > 0], {"n": 21}),
    "reversed": ([floats(21)], {"n": 21}),
    "gathered": ([floats(9), np.arange(21) % 9], {"n": 9, "m": 21}),
    "scattered": ([floats(9), np.arange(21) % 9], {"n": 9, "m": 21}),
    "lengths": ([floats(21, 3)], {"n": 21}),
    "columns": ([floats(7, 21)], {"n": 7, "m": 21}),
    "product": ([floats(21, 9), floats(9, 17)], {"n": 21, "k": 9, "m": 17}),
    "smoothed": ([floats(3, 4, 17).astype("f4"), floats(2, 30, 4).astype("f4")],
                 {"k": 3, "c": 4, "d": 17, "b": 2, "n": 30}),
    "solved": ([floats(9, 9), floats(9)], {"n": 9}),
    "running": ([floats(21)], {"n": 21}),
    "ordered": ([floats(21)], {"n": 21}),
    "joined": ([floats(21), floats(9)], {"n": 21, "m": 9}),
    "shown": ([floats(21)], {"n": 21}),
    "nested": ([floats(5), floats(9)], {"n": 5, "k": 9}),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compiled:
    """A function that is sanitised, ready to run. sizes: the names of those that it takes in front of its arguments."""

    program: CompiledProgram
    name: str
    sizes: tuple[str, ...]

    def run(self, *args: object, **sizes: int) -> list[object]:
        return self.program.run(self.name, [*[sizes[s] for s in self.sizes], *args])

    @property
    def in_use(self) -> int:
        return sum(context.in_use for context in self.program.engine.contexts)


def lowered(text: str, name: str) -> tuple[Program, str, tuple[str, ...]]:
    """The program of a function of a text, what the function is called there, and its sizes."""
    checked = check(Source("program.dl", text))
    if errors := errors_of(checked):
        raise DlangError(errors)
    decl = checked.module.functions[name]
    sizes = [v for v in decl.variables if not v.opened]
    program, (entry,) = lower([Request(decl, {v: poly(0) for v in sizes})])
    return program, entry.name, tuple([v.name for v in sizes])


def compiled(text: str, name: str, engine: Engine | None = None) -> Compiled:
    """A function of a text."""
    program, entry, sizes = lowered(text, name)
    engine = engine or Engine(Host(io.StringIO()), level=0, sanitize=True)
    return Compiled(engine.compile(program, [entry]), entry, sizes)


def same_bits(found: list[Any], wanted: list[Any]) -> bool:
    return [np.asarray(x).tobytes() for x in found] == [np.asarray(x).tobytes() for x in wanted]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_array_that_is_an_element_short_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller says that an array has is what is compared with: of each array in turn, an element less."""
    f, (args, sizes) = compiled(KINDS, name), ARGUMENTS[name]
    plain = compiled(KINDS, name, Engine(Host(io.StringIO()), level=0, sanitize=False))
    assert same_bits(f.run(*args, **sizes), plain.run(*args, **sizes))
    whole = Context.lend
    arrays: list[int] = []

    def short(position: int) -> Callable[[Context, Sequence[np.ndarray]], list[tuple[int, int]]]:
        def lend(self: Context, lent: Sequence[np.ndarray]) -> list[tuple[int, int]]:
            arrays[:] = [len(lent)]
            return whole(self, [a.reshape(-1)[: a.size - (k == position)] for k, a in enumerate(lent)])

        return lend

    position = 0
    while position < (arrays or [1])[0]:
        monkeypatch.setattr(Context, "lend", short(position))
        with pytest.raises(RunError, match="this is a bug in dlang") as caught:
            f.run(*args, **sizes)
        assert caught.value.code == "E0811" and caught.value.span is not None
        position += 1
    monkeypatch.setattr(Context, "lend", whole)
    f.run(*args, **sizes)
    assert not f.in_use


# ---- elements that are there only where a loop has an iteration ------------------------------------------------------
ENDS = """
fn first(x: f64[n]) -> f64[n] { var z = zeros(n); for k < n { z[0] += x[k] }; for k < n { z[0] += sin(x[k]) }; z }
fn last(x: f64[n]) -> f64[n] { var z = zeros(n); for k < n { z[n - 1] = maximum(z[n - 1], x[k]) }; z }
fn rows(x: f64[n]) -> f64[n, n] {
  var z = zeros(n, n)
  for i < n { for k in i..n - 1 { z[i, n - 2] += x[k] } }
  for i < n, k in 0..n - 2 { z[i, n - 3] += x[k] }
  z
}
fn middle(x: f64[n]) -> f64[n] = grad(|x: f64[n]| sum(x[i] * x[n - 2] for i < n - 1))(x)
fn ends(x: f64[n]) -> f64[n] = grad(|x: f64[n]| sum((x[i] - x[0]) ** 2 * x[n - 1] for i < n))(x)
"""


@pytest.mark.parametrize("name", ["first", "last", "rows", "middle", "ends"])
def test_elements_are_touched_only_where_a_loop_has_an_iteration(name: str) -> None:
    f = compiled(ENDS, name)
    program, entry, _ = lowered(ENDS, name)
    for n in range(5):
        x = np.arange(1.0, n + 1)
        (got,) = f.run(x, n=n)
        (wanted,) = Interpreter(program).run(entry, [n, x])
        assert np.allclose(np.asarray(got), np.asarray(wanted))


# ---- programs that were broken on the way ----------------------------------------------------------------------------
def broken(monkeypatch: pytest.MonkeyPatch, rewrite: Rewrite) -> None:
    """From now on the loops of every program are changed before they become code: each statement to others."""

    def changed(stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        return tuple([new for stmt in stmts for new in rewrite(map_inside(stmt, changed))])

    def scheduled(*args: object, **options: object) -> loops.Program:
        program = schedule(*args, **options)  # type: ignore[arg-type]
        functions = {
            name: replace(f, body=loops.Body(changed(f.body.stmts), f.body.results))
            for name, f in program.functions.items()
        }
        return replace(program, functions=functions)

    monkeypatch.setattr(build, "schedule", scheduled)


def without_guards(stmt: loops.Stmt) -> list[loops.Stmt]:
    return [] if isinstance(stmt, loops.Assert) else [stmt]


def freed_at_once(stmt: loops.Stmt) -> list[loops.Stmt]:
    return [stmt, loops.Free(stmt.buffer)] if isinstance(stmt, loops.Allocate) else [stmt]


def freed_twice(stmt: loops.Stmt) -> list[loops.Stmt]:
    return [stmt, stmt] if isinstance(stmt, loops.Free) else [stmt]


def stored_further_on(stmt: loops.Stmt) -> list[loops.Stmt]:
    return [replace(stmt, offset=stmt.offset + 100) if isinstance(stmt, loops.Store) else stmt]


def with_smaller_arrays(stmt: loops.Stmt) -> list[loops.Stmt]:
    return [replace(stmt, shape=(stmt.shape[0] - 1,)) if isinstance(stmt, loops.Allocate) else stmt]


def without_stores(stmt: loops.Stmt) -> list[loops.Stmt]:
    return [] if isinstance(stmt, loops.Store) else [stmt]


TABLE = """
fn at(x: f64[n], t: i64[m]) -> f64[m] {
  [x[t[i]] for i < m]
}
fn picked(x: f64[n], k: i64) -> f64 = x[k]
fn twice(x: f64[n]) -> f64 {
  let y = cumsum(x)
  sum(cumsum(y)) + y[0]
}
"""


@pytest.mark.parametrize(
    ("rewrite", "name", "args", "message", "line"),
    [
        (without_guards, "picked", [floats(5), 5], "bytes 40 to 47 of `x` (f64), which has 40, would be read", 5),
        (without_guards, "picked", [floats(5), -1], "bytes -8 to -1 of `x` (f64), which has 40, would be read", 5),
        (without_guards, "picked", [floats(5), 2**60], "which has 40, would be read", 5),
        (without_guards, "at", [floats(9), np.arange(21)], "which has 72, would be read", 3),
        (freed_at_once, "twice", [floats(9)], "would be written after it has been freed", 7),
        (freed_twice, "twice", [floats(9)], "would be freed again", 8),
        (stored_further_on, "twice", [floats(9)], "bytes 800 to 807 of", 7),
        (with_smaller_arrays, "twice", [floats(9)], "bytes 64 to 71 of", 7),
    ],
)
def test_code_that_was_broken_stops_with_its_line(
    rewrite: Rewrite, name: str, args: list[Any], message: str, line: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, rewrite)
    f = compiled(TABLE, name)
    with pytest.raises(RunError) as caught:
        f.run(*args, n=len(args[0]), m=21)
    assert message in caught.value.message
    assert caught.value.span is not None and caught.value.span.line == line
    assert not f.in_use


def test_a_copy_of_a_negative_number_of_elements_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def negative(stmt: loops.Stmt) -> Sequence[loops.Stmt]:
        return [replace(stmt, count=-stmt.count)] if isinstance(stmt, loops.Move) else [stmt]

    text = "fn main(x: f64[n]) -> f64[n] { var y = x; y[0] = 1.0; y }"
    assert compiled(text, "main").run(floats(4), n=4)[0][0] == 1.0
    broken(monkeypatch, negative)
    with pytest.raises(RunError) as caught:
        compiled(text, "main").run(floats(4), n=4)
    assert caught.value.code == "E0811"


def test_an_array_that_is_next_to_another_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, without_guards)
    f, both = compiled(TABLE, "picked"), floats(20)
    with pytest.raises(RunError, match="bytes 80 to 87 of"):
        f.run(both[:10], 10, n=10)
    assert f.run(both, 10, n=20) == [both[10]]


PRODUCT = """
fn layer(x: f64[n, k], w: f64[k, m], b: f64[m]) -> f64[n, m] = tanh(x @ w + b)
"""


def with_a_row_less(stmt: loops.Stmt) -> list[loops.Stmt]:
    is_workspace = isinstance(stmt, loops.Allocate) and stmt.buffer.name == "workspace"
    return [replace(stmt, shape=(stmt.shape[0] - 1, *stmt.shape[1:])) if is_workspace else stmt]


def test_the_workspace_of_a_product_holds_what_is_packed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for n, k, m in ((3, 0, 4), (40, 260, 17), (5, 3, 600)):
        f = compiled(PRODUCT, "layer")
        x, w, b = floats(n, k), floats(k, m), floats(m)
        assert np.allclose(np.asarray(f.run(x, w, b, n=n, k=k, m=m)[0]), np.tanh(x @ w + b))
    broken(monkeypatch, with_a_row_less)
    with pytest.raises(RunError, match="of `workspace`"):
        compiled(PRODUCT, "layer").run(floats(5, 3), floats(3, 600), floats(600), n=5, k=3, m=600)


def test_a_program_that_measures_itself_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHECKS, "1")
    found = dlang.compile(KINDS + "fn powers(x: f64[n], k: i64) -> f64[n] = [power(v, k) for v in x]\n" + POWER)
    assert found.powers.profile(floats(10), 5).rows


POWER = "fn power(x: f64, n: i64) -> f64 = if n == 0 or n < 0 { 1.0 } else { x * power(x, n - 1) }\n"


HANDED_ON = """
fn total(x: f64[n], k: i64) -> f64 = if k == 0 or k < 0 { sum(x) } else { total(x, k - 1) }
fn rest(x: f64[n], y: f64[m]) -> f64 = total(x[1..], 1) + y[0]
"""


def cut_further_on(stmt: loops.Stmt) -> list[loops.Stmt]:
    return [replace(stmt, offset=stmt.offset + 10) if isinstance(stmt, loops.Slice) else stmt]


def test_a_slice_that_a_function_is_given_belongs_to_the_array_that_it_is_cut_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = floats(20)
    broken(monkeypatch, cut_further_on)
    with pytest.raises(RunError, match=r"bytes 88 to 159 of `x` \(f64\), which has 80, would be read"):
        compiled(HANDED_ON, "rest").run(both[:10], both[10:], n=10, m=10)


def test_what_was_never_written_is_not_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, without_stores)
    f = compiled(KINDS, "halves")
    for count in (9, 20_000):
        (y,) = f.run(floats(count), n=count)
        assert np.isnan(y).all()


def test_pieces_of_a_loop_on_other_threads_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "fn main(x: f64[n], t: i64[m]) -> f64 = sum(exp(x[t[i]]) for i < m)"
    t = np.arange(200_000) % 1000
    pool = new_pool(4)
    engine = Engine(Host(io.StringIO()), level=0, sanitize=True, grain=1_000_000, pool=pool)
    try:
        compiled(text, "main", engine).run(floats(1000), t, n=1000, m=t.size)
        broken(monkeypatch, without_guards)
        with pytest.raises(RunError, match="which has 7992, would be read"):
            compiled(text, "main", engine).run(floats(999), t, n=999, m=t.size)
    finally:
        pool.close()


# ---- nodes -----------------------------------------------------------------------------------------------------------
LIST = """
enum List { Nil, Cons(f64[3], List) }
fn build(n: i64) -> List {
  var l = Nil
  for i < n { l = Cons([f64(i), 1.0, 2.0], l) }
  l
}
fn total(l: List) -> f64 = match l {
  Nil => 0.0
  Cons(x, rest) => sum(x) + total(rest)
}
fn main(n: i64) -> f64 = total(build(n))
"""


def words_further_on(stmt: loops.Stmt) -> list[loops.Stmt]:
    return [replace(stmt, word=stmt.word + 2) if isinstance(stmt, loops.LoadField) else stmt]


def elements_further_on(stmt: loops.Stmt) -> list[loops.Stmt]:
    return [replace(stmt, offset=stmt.offset + 3) if isinstance(stmt, loops.Load) else stmt]


def released_early(stmt: loops.Stmt) -> list[loops.Stmt]:
    """What a loop makes is dropped before it is used."""
    mark = fresh("mark", I64)
    return [loops.Mark(mark), stmt, loops.Release(mark)] if isinstance(stmt, loops.For) else [stmt]


@pytest.mark.parametrize(
    ("rewrite", "message"),
    [
        (words_further_on, "which has 16, would be read"),
        (elements_further_on, "bytes 24 to"),
        (released_early, "would be read where there is no array"),
    ],
)
def test_nodes_and_their_arrays_are_checked(rewrite: Rewrite, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled(LIST, "main").run(4) == [18.0]
    broken(monkeypatch, rewrite)
    f = compiled(LIST, "main")
    with pytest.raises(RunError) as caught:
        f.run(4)
    assert caught.value.code == "E0811" and message in caught.value.message


EXTREMES = """
fn flat(x: f64[n], k: i64) -> f64 { var s = 0.0; for t < k { s = s + max(x) * f64(t) }; s }
fn by_rows(x: f64[n, m], k: i64) -> f64 { var s = 0.0; for t < k { s = s + sum(min(x, axis = 1)) * f64(t) }; s }
fn below(x: f64[n], k: i64) -> f64 {
  var s = 0.0
  for t < k { s = s + max(x[i] * x[j] for i < n, j < i + 1) * f64(t) }
  s
}
fn d_flat(x: f64[n], k: i64) = (grad(flat, wrt = x)(x, k), jvp(|x: f64[n]| flat(x, k), x, x))
fn d_by_rows(x: f64[n, m], k: i64) = (grad(by_rows, wrt = x)(x, k), jvp(|x: f64[n, m]| by_rows(x, k), x, x))
fn d_below(x: f64[n], k: i64) = (grad(below, wrt = x)(x, k), jvp(|x: f64[n]| below(x, k), x, x))
"""


@pytest.mark.parametrize(
    ("name", "shape", "slope"),
    [
        ("d_flat", (0,), []),
        ("d_flat", (3,), [0.0, 3.0, 0.0]),
        ("d_by_rows", (2, 0), []),
        ("d_by_rows", (1, 3), [3.0, 0.0, 0.0]),
        ("d_below", (0,), []),
        ("d_below", (3,), [0.0, 12.0, 0.0]),
    ],
)
def test_derivatives_of_extremes_read_nothing_where_there_is_none(
    name: str, shape: tuple[int, ...], slope: list[float]
) -> None:
    """The check that refuses an extreme of nothing stands in a loop that never runs, where there is nothing."""
    x = np.array([0.5, 2.0, 1.0][: int(np.prod(shape))]).reshape(shape)
    sizes = dict(zip("nm", shape, strict=False))
    gradient, _, tangent = compiled(EXTREMES, name).run(x, 3 if x.size else 0, **sizes)
    np.testing.assert_allclose(np.ravel(gradient), slope)
    np.testing.assert_allclose(tangent, np.dot(slope, x.ravel()))


GATHERS = """
fn triangle(x: f64[n], m: f64[q, k], c: i64[q]) -> f64 =
  sum(m[i, j] * x[c[i]] * sin(f64(j)) for i < q, j < minimum(i, k))
fn table(x: f64[n], m: f64[q, k], c: i64[q]) -> f64 = sum([m[i, j] * exp(x[c[i]]) for i, j])
fn slices(x: f64[n], m: f64[q, k], c: i64[q]) -> f64 = sum([m[i, j] * sum(x[c[i]..c[i] + 3]) for i, j])
fn loops(x: f64[n], m: f64[q, k], c: i64[q]) -> f64 = {
  var s = 0.0
  for i < q { for j < k { s += m[i, j] * sin(x[c[i]]) } }
  s
}
fn columns(x: f64[n], m: f64[q, k], c: i64[q]) -> f64 = {
  var a = zeros(q, k)
  for l < 9 { for i < q { for j < k { a[i, j] += m[i, j] * x[c[i]] * f64(l) } } }
  sum(a)
}
fn d_triangle(x: f64[n], m: f64[q, k], c: i64[q]) = value_and_grad(triangle, wrt = (x, m))(x, m, c)
fn d_table(x: f64[n], m: f64[q, k], c: i64[q]) = value_and_grad(table, wrt = (x, m))(x, m, c)
fn d_slices(x: f64[n], m: f64[q, k], c: i64[q]) = value_and_grad(slices, wrt = (x, m))(x, m, c)
fn d_loops(x: f64[n], m: f64[q, k], c: i64[q]) = value_and_grad(loops, wrt = (x, m))(x, m, c)
fn d_columns(x: f64[n], m: f64[q, k], c: i64[q]) = value_and_grad(columns, wrt = (x, m))(x, m, c)
"""


@pytest.mark.parametrize("name", ["triangle", "table", "slices", "loops", "columns"])
def test_an_index_that_nothing_checked_is_not_read_with(name: str) -> None:
    """A check does not run where no point needs its index; nor may an access with it that has moved further out."""
    for entry in (name, f"d_{name}"):
        run = compiled(GATHERS, entry).run
        for n, q, k in [(0, 1, 0), (0, 3, 0), (2, 1, 0), (2, 3, 0), (4, 3, 0), (2, 0, 3)]:
            for index in (0, 1, -5, 10**9):
                found = run(np.ones(n), np.ones((q, k)), np.full(q, index), n=n, q=q, k=k)
                assert all(not np.any(leaf) for leaf in found)
    with pytest.raises(RunError, match="out of range"):
        run(np.ones(4), np.ones((2, 3)), np.full(2, 4), n=4, q=2, k=3)
