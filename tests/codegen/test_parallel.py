"""Large loops in pieces: which loops, and the same bits with any number of threads."""

from __future__ import annotations

import ctypes
import io
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest

from dlang.codegen.loops import (
    Branch,
    Compute,
    Evaluate,
    For,
    Invoke,
    Loop,
    Node,
    Parallel,
    Pieces,
    Product,
    Program,
    Runtime,
    Stmt,
)
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import Lanes
from dlang.diagnostics import Source
from dlang.driver import Request, check, errors_of, lower
from dlang.host.effects import Host
from dlang.ir.anf import Var, poly
from dlang.ops.figures import GRAIN
from dlang.runtime.engine import CompiledProgram, Engine
from dlang.runtime.threads import Pool, new_pool
from tests.codegen.cases import CASES, Case
from tests.fuzz.programs import program as random_program
from tests.fuzz.threads import different_bits, outcome

THREADS = (1, 2, 3, 7)
TINY = 2_000  # picoseconds: every loop of a few iterations is in pieces


@pytest.fixture(scope="module")
def pools() -> Iterator[list[Pool]]:
    made = [new_pool(n) for n in THREADS]
    yield made
    for pool in made:
        pool.close()


def lowered(text: str) -> tuple[Any, str]:
    checked = check(Source("program.dl", text))
    assert not errors_of(checked)
    decl = checked.module.functions["main"]
    program, (entry,) = lower([Request(decl, dict.fromkeys(decl.variables, poly(0)))])
    return program, entry.name


def compiled(text: str, pool: Pool, grain: int = TINY) -> tuple[CompiledProgram, str]:
    program, name = lowered(text)
    return Engine(Host(io.StringIO()), grain=grain, pool=pool).compile(program, [name]), name


PROGRAMS = {
    "elementwise": "fn main(x: f64[n], y: f64[n]) -> f64[n] = sin(x) * y + exp(y)",
    "sums": "fn main(x: f64[n], y: f64[n]) -> (f64, f64) = (sum(x * y), prod(1.0 + 0.001 * x))",
    "extrema": "fn main(x: f64[n], y: f64[n]) -> (f64, f64, i64, i64) = (max(x), min(y), argmax(x), argmin(y))",
    "single": "fn main(x: f64[n], y: f64[n]) -> f32 = sum(f32(x) * f32(y))",
    "half": "fn main(x: f64[n], y: f64[n]) -> f16 = sum(f16(0.01 * x[i] * y[i]) for i < n)",
    "integers": "fn main(x: f64[n], y: f64[n]) -> (i64, bool) = (sum(i64(100.0 * x)), all(x < y))",
    "rows": """fn main(x: f64[n], y: f64[n]) -> f64[n] {
  let m = [x[i] * y[j] + x[j] for i < n, j < n]
  [sum(m[i]) / max(m[i]) for i < n]
}""",
    "columns": "fn main(x: f64[n], y: f64[n]) -> f64[n] = sum([x[i] * y[j] + x[j] for i < n, j < n], axis = 0)",
    "product": "fn main(x: f64[n], y: f64[n]) -> f64[n, n] { let m = [x[i] * y[j] for i < n, j < n]; m @ m }",
    "triangle": "fn main(x: f64[n], y: f64[n]) -> f64[n] = [sum(x[j] * y[j] for j < i + 1) for i < n]",
    "gradient": """fn loss(x: f64[n], y: f64[n]) -> f64 = sum(exp(sin(x[i]) * y[i]) for i < n) + sum(x * x) * sum(y)
fn main(x: f64[n], y: f64[n]) -> (f64[n], f64[n]) = grad(loss, wrt = (x, y))(x, y)""",
    "second derivatives of layers": """fn loss(x: f64[n]) -> f64 {
  let ws = [x * f64(k + 1) for k < 3]
  var a = x
  for w in ws { a = tanh(a * w) }
  sum(a)
}
fn main(x: f64[n], y: f64[n]) -> f64[n // 8, n // 8] = hessian(loss)(0.1 * x[..n // 8])""",
    "second derivatives of sums begun anew": """fn loss(x: f64[n]) -> f64 {
  var z = 2.0 * x
  for i < n { z[i] -= x[0] }
  for i < n {
    z = x
    z[i] += x[i]
  }
  sum(z * x)
}
fn main(x: f64[n], y: f64[n]) -> f64[n // 8, n // 8] = hessian(loss)(0.1 * x[..n // 8])""",
    "scatter": """fn loss(x: f64[n], y: f64[n]) -> f64 = sum(x[(i * 7) % n] * y[i] for i < n)
fn main(x: f64[n], y: f64[n]) -> f64[n] = grad(loss)(x, y)""",
    "neighbours": """fn loss(x: f64[n], y: f64[n]) -> f64 =
  sum(sin(x[clip(i - 1, 0, n - 1)] * y[i]) * x[(i + 2) % n] for i < n)
fn main(x: f64[n], y: f64[n]) -> f64[n] = grad(loss)(x, y)""",
    "calls": """fn newton(a: f64) -> f64 { var r = a; while abs(r * r - a) > 1e-9 { r = 0.5 * (r + a / r) }; r }
fn table(a: f64) -> f64 { let t = [a * f64(k) for k < 9]; var s = 0.0; for v in t { s += newton(1.0 + abs(v)) }; s }
fn main(x: f64[n], y: f64[n]) -> f64[n] = [table(x[i] + y[i]) for i < n]""",
    "states": """fn main(x: f64[n], y: f64[n]) -> f64[n, 3] = [
  {
    var total = zeros(3)
    for j < n { total[j % 3] += x[j] * y[i] }
    while total[0] > 1.0 { total[0] *= 0.5 }
    total
  }
  for i < n
]""",
    "rows of states": """fn main(x: f64[n], y: f64[n]) -> f64[n, 4, 2] = [
  { var p = [x[i], y[i]]; for _ < j { p = [p[0] - 0.1 * p[1], p[1] + 0.1 * p[0]] }; p }
  for i < n, j < 4
]""",
    "steps": """fn main(x: f64[n], y: f64[n]) -> f64[n] {
  var s = x
  for k < 5 { s = [0.5 * (s[i] + y[i] * sum(s)) for i < n] }
  s
}""",
    "draws": """import random
fn main(x: f64[n], y: f64[n]) -> f64 = random.run(3, || sum(x[i] * random.normal() for i < n) + y[0])""",
}
SIZES = (1, 63, 300, 1500)


# ---- the same bits ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_same_bits_with_any_number_of_threads(name: str, pools: list[Pool]) -> None:
    rng = np.random.default_rng(5)
    args = [[n, rng.standard_normal(n), rng.standard_normal(n)] for n in SIZES]
    assert any(isinstance(s, Parallel) for s in all_statements(nests(PROGRAMS[name], TINY)))
    programs = [compiled(PROGRAMS[name], pool) for pool in pools]
    outcomes = [[outcome(program, entry, x) for x in args] for program, entry in programs]
    assert all(o == outcomes[0] for o in outcomes)


@pytest.mark.parametrize("name", PROGRAMS)
def test_pieces_change_a_result_by_rounding_alone(name: str, pools: list[Pool]) -> None:
    rng = np.random.default_rng(6)
    pieces, entry = compiled(PROGRAMS[name], pools[1])
    whole, _ = compiled(PROGRAMS[name], pools[0], grain=0)
    tolerance = 1e-2 if name in ("single", "half") else 1e-9
    for n in SIZES:
        x = [n, rng.standard_normal(n), rng.standard_normal(n)]
        for a, b in zip(pieces.run(entry, x), whole.run(entry, x), strict=True):
            np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), tolerance, tolerance)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_case_has_the_same_bits_with_any_number_of_threads(case: Case, pools: list[Pool]) -> None:
    rng = np.random.default_rng(3)
    args = [case.arguments(rng, n) for n in case.sizes]
    outcomes = []
    for pool in pools:
        engine = Engine(Host(io.StringIO()), grain=1, pool=pool)
        program = engine.compile(case.program, ["f"])
        outcomes.append([outcome(program, "f", x) for x in args])
        assert all(context.in_use == 0 for context in engine.contexts)
    assert all(o == outcomes[0] for o in outcomes)


@pytest.mark.parametrize("seed", range(8))
def test_a_random_program_has_the_same_bits_with_any_number_of_threads(seed: int, pools: list[Pool]) -> None:
    assert different_bits(random_program(Random(seed)), pools) is None


def nests(text: str, grain: int = GRAIN) -> Program:
    program, _ = lowered(text)
    return schedule(program, Lanes(256), grain)


def all_statements(program: Program) -> Iterator[Stmt]:
    for function in program.functions.values():
        yield from walk(function.body.stmts)


# ---- which loops -----------------------------------------------------------------------------------------------------
def outermost(text: str, grain: int = GRAIN) -> list[str]:
    """What the outermost loops of `main` are: in pieces, with how many arrays that they add to; or not."""
    found = []
    main = next(f for name, f in nests(text, grain).functions.items() if name.startswith("main"))

    def look(stmts: Iterable[Stmt]) -> None:
        for stmt in stmts:
            match stmt:
                case Parallel():
                    found.append("pieces" + f" adding to {len(stmt.partials)}" * bool(stmt.partials))
                case Loop():
                    found.append("loop")
                case For():
                    found.append("for")
                    look(stmt.body.stmts)
                case Branch():
                    look(stmt.then.stmts)
                    look(stmt.otherwise.stmts)
                case _:
                    pass

    look(main.body.stmts)
    return found


SCATTERED = """
fn f(x: f64[n], k: i64[m]) -> f64 = sum(x[k[j]] * x[k[j]] for j < m)
fn main(x: f64[n], k: i64[m]) -> f64[n] = grad(f)(x, k)
"""
RECURSIVE = """
fn fib(k: i64) -> i64 = if k < 2 { k } else { fib(k - 1) + fib(k - 2) }
fn main(k: i64[n]) -> i64[n] = [fib(j) for j in k]
"""


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("fn main(x: f64[n]) -> f64[n] = sin(x)", ["pieces"]),
        ("fn main(x: f64[n]) -> f64 = sum(x * x)", ["pieces"]),
        ("fn main(x: f64[n, m]) -> f64[m] = sum(x, axis = 0)", ["pieces", "pieces adding to 1"]),
        ("fn main(x: f64[n, m]) -> f64[n] = [sum(x[i]) for i < n]", ["pieces"]),
        ("fn main(x: f64[100]) -> f64[100] = sin(x)", ["loop"]),
        ("fn main(x: f64[3, n]) -> f64[3] = [sum(x[i]) for i < 3]", ["loop"]),
        ("fn main(x: f64[n]) -> f64[n] = cumsum(x)", ["for"]),
        (
            "fn main(x: f64[n]) -> f64[n, 2] = [{ var p = [v, v]; for _ < 9 { p = [p[1], sin(p[0])] }; p } for v in x]",
            ["pieces"],
        ),
        (
            "fn main(x: f64[n], k: i64) -> f64[n] { var s = x; for t < k { s = [sin(v) for v in s] }; s }",
            ["pieces"],
        ),
        (
            "fn main(x: f64[n], k: i64) -> f64[n] { var s = x; for t < k { s = [sin(s[n - 1 - i]) for i < n] }; s }",
            ["for", "pieces"],
        ),
        (SCATTERED, ["pieces", "pieces", "pieces adding to 1"]),
    ],
)
def test_large_loops_of_independent_iterations_are_in_pieces(text: str, loops: list[str]) -> None:
    assert outermost(text) == loops


@pytest.mark.parametrize(("changed", "own"), [("concat(out, x)", False), ("sin(out)", True)], ids=["grows", "stays"])
def test_pieces_add_to_arrays_of_their_own_where_it_is_known_how_large_these_are(changed: str, own: bool) -> None:
    """An array that a loop carries has another size in each iteration if it grows there."""
    program = nests(
        f"""fn main(x: f64[n], idx: i64[n], steps: i64) -> f64[?] {{
  var out: f64[?] = x
  for j < steps {{ if idx[j] > 0 {{ out = {changed} }} }}
  for i < n {{ out[idx[i]] += lgamma(exp(x[i])) }}
  out
}}"""
    )
    pieces = [s for f in program.functions.values() for s in walk(f.body.stmts) if isinstance(s, Parallel)]
    assert any(p.partials for p in pieces) == own


def test_the_first_point_that_fails_is_the_one_reported(pools: list[Pool]) -> None:
    text = """fn main(x: f64[n], k: i64[n]) -> f64[n, 2] = [
  { var p = [0.0, x[i]]; for t < 3 { p[k[i] - t] += 1.0 }; p }
  for i < n
]"""
    core, entry = lowered(text)
    messages = []
    for pool in pools:
        program = Engine(Host(), grain=1, pool=pool).compile(core, [entry])
        messages.append(outcome(program, entry, [500, np.zeros(500), np.arange(1, 501)]))
    assert all(m == messages[0] for m in messages) and "-1" in str(messages[0])


@pytest.mark.parametrize(
    "text",
    [
        'fn main(x: f64[n]) { let y = [{ print("{v}"); sin(v) } for v in x] }',
        'extern "python:math.cbrt" fn cbrt(x: f64) -> f64\nfn main(x: f64[n]) -> f64[n] = [cbrt(sin(v)) for v in x]',
        RECURSIVE,
        "enum List { Nil, Cons(f64, List) }\nfn main(x: f64[n]) -> List[n] = [Cons(sin(v), Nil) for v in x]",
    ],
    ids=["effects", "functions of Python", "recursion", "nodes"],
)
def test_what_has_an_order_of_its_own_stays_in_it(text: str) -> None:
    program = nests(text, 1)
    main = next(f for name, f in program.functions.items() if name.startswith("main"))
    for stmt in walk(main.body.stmts):
        if isinstance(stmt, Parallel):
            assert not any(isinstance(s, Invoke | Runtime | Node) for s in walk(stmt.stmts))


def test_a_large_product_is_in_blocks_and_a_small_one_is_not() -> None:
    large = nests("fn main(a: f64[1000, 500], b: f64[500, 300]) -> f64[1000, 300] = a @ b")
    (pieces,) = [s for s in all_statements(large) if isinstance(s, Parallel)]
    assert pieces.highs == (poly(3 * 3),)  # of 480 rows by 128 columns
    (loop,) = pieces.stmts
    assert isinstance(loop, Loop) and any(isinstance(s, Product) for s in loop.stmts)
    small = nests("fn main(a: f64[50, 60], b: f64[60, 70]) -> f64[50, 70] = a @ b")
    assert not any(isinstance(s, Parallel) for s in all_statements(small))


STEPS = """
fn main(w: f64[k, 4 * k], x: f64[b, k], iterations: i64) -> f64[b, k] {
  var h = x
  for _ < iterations { h = tanh((h @ w)[.., ..k]) }
  h
}
"""
HEADS = """
import nn { softmax }
fn main(q: f64[h, n, d], k: f64[h, n, d], v: f64[h, n, d]) -> f64[h, n, d] {
  let weights = softmax([sum(q[b, i, p] * k[b, j, p] for p) for b, i, j])
  [sum(weights[b, i, j] * v[b, j, p] for j) for b, i, p]
}
"""
WINDOWS = """
fn main(kernel: f64[3, 3, c, d], x: f64[b, h, h, c]) -> f64[b, h - 2, h - 2, d] =
  [
    sum(x[n, i + p, j + q, r] * kernel[p, q, r, o] for p < 3, q < 3, r < c)
    for n < b, i < h - 2, j < h - 2, o < d
  ]
"""


@pytest.mark.parametrize(
    ("text", "sizes", "terms"),
    [
        (STEPS, (256, 64, 10), 64 * 256 * 1024),
        (STEPS, (300, 600, 10), 600 * 300 * 1200),
        (HEADS, (4, 1024, 64), 2 * 4 * 1024 * 1024 * 64),
        (WINDOWS, (64, 64, 8, 30), 8 * 28 * 28 * 9 * 64 * 64),
    ],
    ids=["steps", "large steps", "heads", "windows"],
)
def test_the_work_of_products_is_about_that_of_their_terms(text: str, sizes: Sequence[int], terms: int) -> None:
    program = nests(text)
    main = next(f for name, f in program.functions.items() if name.startswith("main"))
    sized = dict(zip([p for p in main.params if isinstance(p, Var)], sizes, strict=True))
    work = [n for n, pieces in works(main.body.stmts, sized) if any(isinstance(s, Product) for s in walk(pieces))]
    assert work and 0.5 * 30 * terms < max(work) < 8 * 30 * terms


def works(stmts: Sequence[Stmt], env: dict[Var, int]) -> Iterator[tuple[int, Sequence[Stmt]]]:
    """What the loops in pieces are estimated to take, in picoseconds, as a run would compute it: each with its body."""
    work = 0
    for stmt in stmts:
        match stmt:
            case Evaluate(var, size):
                with suppress(KeyError):
                    env[var] = size.evaluate(env.__getitem__)
            case Compute(var, name, args) if name in INTEGERS:
                values = [env.get(a) if isinstance(a, Var) else a.value for a in args]
                if all(isinstance(v, int) for v in values):
                    env[var] = INTEGERS[name](*values)
            case Pieces(work=size):
                work = size.evaluate(env.__getitem__)
            case Parallel(stmts=inside):
                yield work, inside
            case For(index=index, low=low, params=params, body=body):
                env |= {p: 0 for p in params if isinstance(p, Var)}
                yield from works(body.stmts, {**env, index: low.evaluate(env.__getitem__)})
            case Branch(condition, then, otherwise, results):
                assert isinstance(condition, Var)
                arm = then if env.get(condition, True) else otherwise
                yield from works(arm.stmts, env)
                for result, value in zip(results, arm.results, strict=True):
                    if isinstance(result, Var) and isinstance(value, Var) and value in env:
                        env[result] = env[value]
            case _:
                pass


INTEGERS: dict[str, Callable[..., int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
    "minimum": min, "maximum": max, "le": operator.le, "ge": operator.ge, "and": operator.and_,
}  # fmt: skip


def test_sizes_alone_decide_how_many_pieces_there_are() -> None:
    from dlang.codegen.llvm import jit

    length = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(jit.support_address("dl_length"))
    for iterations, work, grain, align in [
        (1000, 10**9, 10**7, 1),
        (1000, 10**9, 10**8, 8),
        (10**9, 10**15, 10**7, 32),
    ]:
        each = length(iterations, work, grain, align)
        count = -(-iterations // each)
        assert each % align == 0 and count <= 64 and count <= work // grain
        assert count == min(64, work // grain) or each * count - iterations < align * count
    assert length(1000, 10**7, 10**7, 1) == 1000
    assert length(1000, -1, 10**7, 1) == 1000


@pytest.mark.parametrize(("dtype", "single"), [("f64", np.float64), ("f32", np.float32), ("i64", np.int64)])
def test_what_further_pieces_add_is_added_in_order_and_without_them_nothing_is_touched(dtype: str, single: Any) -> None:
    from dlang.codegen.llvm import jit

    add = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        jit.support_address(f"dl_add_{dtype}")
    )
    whole = (np.arange(37) / 3 + 1).astype(single)
    parts = (np.arange(74) / 7).astype(single)
    expected = (whole + parts[:37]) + parts[37:]
    add(whole.ctypes.data, parts.ctypes.data, 37, 2)
    np.testing.assert_array_equal(whole, expected)
    add(None, None, 10**9, 0)  # an access would end this process
