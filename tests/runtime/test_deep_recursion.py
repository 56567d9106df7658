"""Recursion goes as deep as there is memory, on every thread, and ends with a message where that is exhausted."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import dlang
from dlang.diagnostics import Source, Span
from dlang.driver import Request, check, lower
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.host.platform import PORTABLE, stack as stacks
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Atom, Block, Function, Program, Scalar, fresh
from dlang.ir.builder import Builder, i64
from dlang.runtime.engine import Engine
from tests.patience import eventually

I64 = Scalar("i64")
SOURCE = Source("deep.dl", "first line\nsecond line\n")
STACKS = ("", "1")  # one of its own, or that of a thread

COUNT = """
fn count(n: i64) -> i64 = if n == 0 { 0 } else { 1 + count(n - 1) }
fn even(n: i64) -> bool = if n == 0 { true } else { odd(n - 1) }
fn odd(n: i64) -> bool = if n == 0 { false } else { even(n - 1) }
fn talk(n: i64) -> i64 {
  if n % 100 == 0 { print("at {n}") }
  if n == 0 { 0 } else { 1 + talk(n - 1) }
}
fn forever(n: i64) -> i64 = 1 + forever(n + 1)
"""


def endless() -> Program:
    n, r = fresh("n", I64), fresh("r", I64)
    b = Builder({"deep": Function("deep", (n,), (r,), Block((), ()))}, Span(SOURCE, 0, 5))
    b.params.append(n)
    deep = b.function("deep", [b.add(b.call("deep", b.add(n, i64(1)))[0], n)], label="deep")
    caller = Builder({"deep": deep}, Span(SOURCE, 11, 17))
    results: list[Atom] = [caller.call("deep", i64(0))[0]]
    return Program({"deep": deep, "f": caller.function("f", results, label="f")})


@pytest.mark.parametrize("portable", STACKS)
def test_a_million_calls_deep(monkeypatch: pytest.MonkeyPatch, portable: str) -> None:
    monkeypatch.setenv(PORTABLE, portable)
    module = dlang.compile(COUNT)
    for n in (1_000_000, 10, 1_000_000):
        assert module.count(n) == n
        assert module.even(n)


def test_the_interpreter_goes_deep_too() -> None:
    assert dlang.compile(COUNT, backend="interp").count(30_000) == 30_000


@pytest.mark.parametrize("portable", STACKS)
def test_any_thread_can_go_deep(monkeypatch: pytest.MonkeyPatch, portable: str) -> None:
    monkeypatch.setenv(PORTABLE, portable)
    module = dlang.compile(COUNT)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(module.count(300_000))) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [300_000] * 3


@pytest.mark.parametrize("portable", STACKS)
def test_what_a_deep_run_prints_comes_from_the_stack_of_its_thread(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], portable: str
) -> None:
    monkeypatch.setenv(PORTABLE, portable)
    assert dlang.compile(COUNT).talk(500) == 500
    assert capsys.readouterr().out.splitlines() == [f"at {n}" for n in range(500, -1, -100)]


def test_a_run_inside_of_a_run_has_a_stack_of_its_own() -> None:
    inner = dlang.compile(COUNT)

    class World:
        def print(self, text: str) -> None:
            self.found = inner.count(int(text))

        def effect(self, name: str, static: Any, args: Any) -> list[Any]:
            raise AssertionError

        def failed(self) -> None:
            raise AssertionError

    text = 'fn down(n: i64) -> i64 {\n  if n == 0 { print("100000") }\n  if n == 0 { 0 } else { 1 + down(n - 1) }\n}\n'
    decl = check(Source("down.dl", text)).module.functions["down"]
    program, (entry,) = lower([Request(decl)])
    world = World()
    assert Engine(world).compile(program, [entry.name]).run(entry.name, [1000]) == [1000]
    assert world.found == 100_000


@pytest.mark.parametrize("portable", STACKS)
def test_an_exhausted_stack_ends_with_the_depth_and_the_place(monkeypatch: pytest.MonkeyPatch, portable: str) -> None:
    monkeypatch.setenv(PORTABLE, portable)
    engine = Engine(Host(), stack=4 << 20)
    compiled = engine.compile(endless(), ["f"])
    for _ in range(2):
        with pytest.raises(RunError, match=r"the stack is exhausted: `deep` is \d{4,} calls deep") as found:
            compiled.run("f", [])
        assert found.value.code == "E0805"
        assert found.value.span == Span(SOURCE, 0, 5)
    assert all(context.in_use == 0 for context in engine.contexts)


ENDLESS = """
fn same(x: f64) -> f64 = same(x)
fn there(x: f64) -> f64 = back(x + 1.0)
fn back(x: f64) -> f64 = there(x * 2.0)
fn arms(x: f64, n: i64) -> f64 = if n > 0 { arms(x, n - 1) } else { arms(x, n + 1) }
fn array(x: f64[n]) -> f64[n] = array(x)
fn by_same(x: f64) -> f64 = same(x)
fn by_there(x: f64) -> f64 = there(x)
fn by_arms(x: f64) -> f64 = arms(x, 3)
fn by_array(x: f64) -> f64 = array([x])[0]
fn by_slope(x: f64) -> f64 = grad(same)(x)
fn by_tangent(x: f64) -> f64 = jvp(there, x, 1.0).1
fn unneeded(x: f64) -> f64 {
  let y = same(x) + there(x) + by_array(x)
  2.0 * x
}
"""


@pytest.mark.parametrize("way", ["same", "there", "arms", "array", "slope", "tangent"])
def test_a_recursion_that_no_arm_ends_exhausts_the_stack(way: str) -> None:
    decl = check(Source("endless.dl", ENDLESS)).module.functions[f"by_{way}"]
    stages: dict[str, Program] = {}
    program, (entry,) = lower([Request(decl)], observe=stages.__setitem__)
    engine = Engine(Host(), stack=4 << 20)
    runs = [lambda: engine.compile(program, [entry.name]).run(entry.name, [1.5])]
    runs += [lambda p=stages[s]: Interpreter(p, depth=1000).run(entry.name, [1.5]) for s in ("ad", "opt")]
    for run in runs:
        with pytest.raises(RunError, match="the stack is exhausted") as found:
            run()
        assert found.value.code == "E0805"


def test_a_recursion_that_never_ends_is_dropped_where_nothing_needs_it() -> None:
    assert dlang.compile(ENDLESS).unneeded(1.5) == 3.0


def test_the_interpreter_says_the_same() -> None:
    with pytest.raises(RunError, match="the stack is exhausted: `deep` is 1000 calls deep") as found:
        Interpreter(endless(), depth=1000).run("f", [])
    assert found.value.code == "E0805"


def test_the_interpreter_ends_a_recursion_when_memory_is_nearly_used_up() -> None:
    left = iter([5_000, 2_000, -1])
    with pytest.raises(RunError) as caught:
        Interpreter(endless(), spare=lambda: next(left)).run("f", [])
    assert caught.value.code == "E0805" and next(left, None) is None


def test_more_stack_is_given_while_there_is_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = {"spare": 4 << 30}
    monkeypatch.setattr(stacks, "spare_memory", lambda: memory["spare"])
    stack = stacks.Stack(lowest=1 << 40, top=(1 << 40) + (64 << 30), limit=(1 << 40) + (63 << 30))
    assert stack.deeper(stack.limit)
    assert stack.limit == (1 << 40) + (61 << 30)  # half of what there is to spare
    memory["spare"] = 1 << 20
    before = stack.limit
    assert not stack.deeper(before)
    assert stack.limit == before


def test_a_deep_run_gives_its_memory_back() -> None:
    def resident() -> int:
        with open("/proc/self/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS"))

    pytest.importorskip("resource")
    module = dlang.compile(COUNT)
    module.count(1000)
    before = resident()
    module.count(5_000_000)  # 240 MB of frames
    # a thread gives back its stack when it ends, after its result is there
    assert eventually(lambda: resident() - before < 100)
