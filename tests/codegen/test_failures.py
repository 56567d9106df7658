"""How compiled runs fail: with the interpreter's message, and without losing memory."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlang.diagnostics import DlangError, Source, Span
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import (
    Array,
    Atom,
    Axis,
    Block,
    Comp,
    Effect,
    Function,
    Let,
    Lit,
    Program,
    Read,
    Reduce,
    Scalar,
    Token,
    Var,
    fresh,
    poly,
)
from dlang.ir.builder import Builder, f64, i64
from dlang.ir.errors import IRError
from dlang.runtime.engine import Engine

I64 = Scalar("i64")
SOURCE = Source("failing.dl", "first line\nsecond line\n")


def program(build: Callable[[Builder], list[Atom]], functions: dict[str, Function] | None = None) -> Program:
    b = Builder(functions or {}, Span(SOURCE, 11, 17))
    results = build(b)
    return Program({**(functions or {}), "f": b.function("f", results, label="f")})


def failures(p: Program, args: list[Any]) -> tuple[RunError, RunError, Engine]:
    engine = Engine(Host(io.StringIO()))
    with pytest.raises(RunError) as wanted:
        Interpreter(p).run("f", args)
    with pytest.raises(RunError) as found:
        engine.compile(p, ["f"]).run("f", args)
    return found.value, wanted.value, engine


def assert_same_failure(p: Program, args: list[Any]) -> RunError:
    found, wanted, engine = failures(p, args)
    assert (found.code, found.message, found.span) == (wanted.code, wanted.message, wanted.span)
    assert list(found.stack) == list(wanted.stack)
    assert all(context.in_use == 0 for context in engine.contexts)
    return found


def checked_gather(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    x, t = b.param("x", Array("f64", (poly(n),))), b.param("t", Array("i64", (poly(n),)))

    def body(i: Var) -> Atom:
        k = b.read(t, [i])
        inside = b.prim("and", b.prim("ge", k, i64(0)), b.prim("lt", k, n))
        (certain,) = b.check(inside, "E0701", ["index ", "", " is out of range for size ", "", ""], [k, n], [k])
        return b.read(x, [certain])

    return [b.map([n], body)]


@pytest.mark.parametrize("wrong", [0, 3, 8, 17, 39])
def test_the_first_failing_point_of_a_comprehension_is_reported(wrong: int) -> None:
    t = np.arange(40)
    t[wrong] = 99
    t[-1] = -7
    error = assert_same_failure(program(checked_gather), [40, np.ones(40), t])
    assert "99" in error.message or wrong == 39


def test_a_check_that_holds_costs_the_result_nothing() -> None:
    t = np.arange(40)[::-1]
    (y,) = Engine(Host()).compile(program(checked_gather), ["f"]).run("f", [40, np.arange(40.0), t])
    np.testing.assert_array_equal(y, np.arange(40.0)[::-1])


def test_a_message_shows_arrays_texts_and_small_numbers() -> None:
    def build(b: Builder) -> list[Atom]:
        n = b.param("n", I64)
        x, s = b.param("x", Array("f32", (poly(n),))), b.param("s", Scalar("str"))
        y = b.map([n], lambda i: b.mul(b.read(x, [i]), Lit(2.0, "f32")))
        parts = ["x = ", "", ", y = ", ".2f", ", s = ", "", ", c = ", "", ""]
        b.check(b.prim("lt", n, i64(2)), "E0702", parts, [x, y, s, b.prim("gt", n, i64(1))])
        return [y]

    assert_same_failure(program(build), [3, np.array([1.5, 2.5, 0.1], np.float32), "hello"])


def test_a_failure_frees_what_callers_and_loops_hold_and_names_the_calls() -> None:
    inner = Builder(span=Span(SOURCE, 0, 5))
    n, k = inner.param("n", I64), inner.param("k", I64)
    held = inner.full([n], f64(1))
    inner.check(inner.prim("lt", k, i64(3)), "E0703", ["k is ", "", ""], [k])
    functions = {"inner": inner.function("inner", [inner.reduce([n], lambda i: inner.read(held, [i]))], label="inner")}

    def build(b: Builder) -> list[Atom]:
        n = b.param("n", I64)
        state = b.full([n], f64(0))

        def body(i: Var, s: Var) -> Atom:
            return b.map([n], lambda j: b.add(b.read(s, [j]), b.call("inner", n, i)[0]))

        return list(b.for_(0, n, [state], body))

    assert_same_failure(program(build, functions), [6])


@pytest.mark.plain_code
def test_memory_is_used_again_after_a_failure() -> None:
    compiled = Engine(Host()).compile(program(checked_gather), ["f"])
    n = 20_000
    t = np.arange(n)
    t[-1] = n
    for _ in range(5):
        with pytest.raises(RunError):
            compiled.run("f", [n, np.ones(n), t])
    (context,) = compiled.engine.contexts
    taken = context.taken
    for _ in range(50):
        with pytest.raises(RunError):
            compiled.run("f", [n, np.ones(n), t])
    assert context.taken == taken


@pytest.mark.plain_code
def test_memory_of_results_comes_back_when_they_die() -> None:
    def build(b: Builder) -> list[Atom]:
        n = b.param("n", I64)
        return [b.full([n], f64(1))]

    compiled = Engine(Host()).compile(program(build), ["f"])
    for _ in range(3):
        compiled.run("f", [100_000])
    taken = compiled.engine.contexts[0].taken
    for _ in range(50):
        compiled.run("f", [100_000])
    assert compiled.engine.contexts[0].taken == taken
    (kept,) = compiled.run("f", [100_000])
    compiled.run("f", [100_000])
    assert kept.sum() == 100_000


def endless() -> Program:
    n, r = fresh("n", I64), fresh("r", I64)
    b = Builder({"deep": Function("deep", (n,), (r,), None)}, Span(SOURCE, 0, 5))
    b.params.append(n)
    deep = b.function("deep", [b.add(b.call("deep", b.add(n, i64(1)))[0], n)], label="deep")
    return program(lambda b: [b.call("deep", i64(0))[0]], {"deep": deep})


def test_endless_recursion_ends_with_a_message() -> None:
    engine = Engine(Host(), stack=4 << 20)
    compiled = engine.compile(endless(), ["f"])
    for _ in range(2):
        with pytest.raises(RunError, match="the stack is exhausted: `deep`"):
            compiled.run("f", [])


def test_exhausted_memory_ends_with_a_message() -> None:
    def build(b: Builder) -> list[Atom]:
        n = b.param("n", I64)
        x = b.full([n, n, n, n], f64(1))
        return [b.reduce([n], lambda i: b.read(x, [i, i, i, i]))]

    for n in (1 << 14, 1 << 20):
        with pytest.raises(RunError, match="the memory is exhausted"):
            Engine(Host()).compile(program(build), ["f"]).run("f", [n])


def test_printing_follows_the_order_of_the_program() -> None:
    def build(b: Builder) -> list[Atom]:
        world = b.param("world", Token())
        n = b.param("n", I64)

        def body(i: Var, world: Var) -> Atom:
            text = b.format(["i = ", "", ", i / 2 = ", ".1f", ""], i, b.mul(b.cast("f64", i), f64(0.5)))
            return b.effect("print", world, [text])[0]

        (world,) = b.for_(0, n, [world], body)
        return [world, n]

    p = program(build)
    wanted, found = io.StringIO(), io.StringIO()
    Interpreter(p, Host(wanted)).run("f", [3])
    assert Engine(Host(found)).compile(p, ["f"]).run("f", [3]) == [3]
    assert found.getvalue() == wanted.getvalue() != ""


def test_an_effect_that_fails_is_a_located_error() -> None:
    def build(b: Builder) -> list[Atom]:
        world = b.param("world", Token())
        world, n = b.effect("io.read_npy", world, [Lit("/no/such/file.npy", "str")], [I64], ["i64", "0"])
        return [world, n]

    assert_same_failure(program(build), [])


def test_effects_give_arrays(tmp_path: Any) -> None:
    np.save(tmp_path / "x.npy", np.arange(5.0))

    def build(b: Builder) -> list[Atom]:
        world = b.param("world", Token())
        n = fresh("n", I64)
        after, x = fresh("world", Token()), fresh("x", Array("f64", (poly(n),)))
        b.emit_as([after, n, x], Effect("io.read_npy", world, (Lit(str(tmp_path / "x.npy"), "str"),), ("f64", "1")))
        return [after, n, b.map([n], lambda i: b.mul(b.read(x, [i]), f64(2)))]

    n, y = Engine(Host()).compile(program(build), ["f"]).run("f", [])
    assert n == 5
    np.testing.assert_array_equal(y, np.arange(5.0) * 2)


def refused(build: Callable[[Builder], list[Atom]]) -> str:
    """The message of the error of a program that the CPU can't run, which has a place in it."""
    with pytest.raises(DlangError) as found:
        Engine(Host()).compile(program(build), ["f"])
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.code == "E0901"
    assert diagnostic.span == Span(SOURCE, 11, 17)
    return diagnostic.message


def test_an_argmax_that_the_cpu_cannot_run_is_refused_at_its_place() -> None:
    def several_bounds(b: Builder) -> list[Atom]:
        n, m = b.param("n", I64), b.param("m", I64)
        i = Axis(fresh("i", I64), (poly(0),), (poly(n), poly(m)))
        return list(b.comp([i], lambda i: i, [Reduce((), (), "argmax")]))

    def data_index(b: Builder) -> list[Atom]:
        n = b.param("n", I64)
        t = b.param("t", Array("i64", (poly(n),)))
        i = Axis(fresh("i", I64), (poly(0),), (poly(n),))
        k = fresh("k", I64)
        body = Block((Let((k,), Read(t, (poly(i.var),)), Span(SOURCE, 11, 17)),), (k,))
        return list(b.emit(Comp((i,), body, (Reduce((poly(n),), (poly(k),), "argmax"),))))

    assert refused(several_bounds) == "`argmax` over an axis with several bounds is not supported on the CPU"
    assert refused(data_index) == "these arguments of extrema in one comprehension are not supported on the CPU"


def test_an_argument_of_the_wrong_shape_is_refused() -> None:
    compiled = Engine(Host()).compile(program(checked_gather), ["f"])
    with pytest.raises(IRError, match="shape"):
        compiled.run("f", [3, np.ones(4), np.arange(3)])


@pytest.mark.plain_code
def test_an_engine_gives_its_memory_back_when_it_dies() -> None:
    import gc
    import resource

    def build(b: Builder) -> list[Atom]:
        n = b.param("n", I64)
        x = b.full([n], f64(1))
        return [b.reduce([n], lambda i: b.read(x, [i])), b.full([n], f64(2))]

    p = program(build)

    def once() -> None:
        total, y = Engine(Host()).compile(p, ["f"]).run("f", [4_000_000])
        assert total * 2 == y.sum()

    once()
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(6):
        once()
        gc.collect()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes; 64,000 for each engine
