"""The work and the memory of the compiler grow with the text, or a message ends it: counted, never timed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import TypeVar

import pytest

from dlang.diagnostics import Diagnostic, Source
from dlang.driver import check
from dlang.pipeline import optimise
from dlang.process import gc_paused
from tests.specialize.support import lowered

T = TypeVar("T")
ENUM = "enum E { A, B, C, D }\n"


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")


def calls(text: str) -> tuple[int, list[Diagnostic]]:
    """How many functions are called, of Python and of C, to check a text, and what is said of it."""
    source = Source("text.dl", text)
    count, found = counted(lambda: check(source))
    return count, found.diagnostics


def counted(run: Callable[[], T]) -> tuple[int, T]:
    """Counts the functions that are called, of Python and of C, and gives the result."""
    count = 0

    def one(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    with gc_paused():  # which might call what clears references
        sys.setprofile(one)
        try:
            found = run()
        finally:
            sys.setprofile(None)
    return count, found


def squared(n: int) -> str:
    lines = "".join(f" let s{i + 1} = s{i} * s{i}\n" for i in range(n))
    return f"fn f(a: f64[n], b: f64[m], c: f64[k]) -> f64[?] {{\n let s0 = n + m + k + 1\n{lines} zeros(s{n})\n}}\n"


def factors(n: int) -> str:
    size = "*".join(["(n + m + k + j + 1)"] * n)
    return f"fn f(x: f64[n], m: size, k: size, j: size) -> f64[{size}] = zeros({size})\n"


def nested_calls(n: int) -> str:
    return f"fn sq(x: f64[n]) -> f64[n * n] = zeros(n * n)\nfn g(x: f64[n + m]) = {'sq(' * n}x{')' * n}\n"


def pairs(n: int) -> str:
    """Arms that each decide two of n columns: complete or not is hard to see."""
    rows = []
    for i in range(n):
        for v in "ABCD":
            row = ["_"] * n
            row[i] = row[(i + 3) % n] = v
            rows.append(f"  ({', '.join(row)}) => {len(rows)}\n")
    names = [f"a{i}" for i in range(n)]
    return f"{ENUM}fn f({', '.join(f'{a}: E' for a in names)}) = match ({', '.join(names)}) {{\n{''.join(rows)}}}\n"


def pigeons(n: int) -> str:
    """Arms that say that two of n + 1 pigeons are in one of n holes: they cover all values, and no proof is short."""
    rows = []
    for a in range(n + 1):
        for b in range(a):
            for hole in range(n):
                row = ["_"] * (n + 1)
                row[a] = row[b] = f"H{hole}"
                rows.append(f"  ({', '.join(row)}) => {len(rows)}\n")
    names = [f"a{i}" for i in range(n + 1)]
    holes = ", ".join(f"H{hole}" for hole in range(n))
    params = ", ".join(f"{a}: P" for a in names)
    return f"enum P {{ {holes} }}\nfn f({params}) = match ({', '.join(names)}) {{\n{''.join(rows)}}}\n"


def variants(n: int) -> str:
    arms = "".join(f"  V{k} => {k}\n" for k in range(n))
    return f"enum V {{ {', '.join(f'V{k}' for k in range(n))} }}\nfn f(v: V) = match v {{\n{arms}}}\n"


@pytest.mark.parametrize(
    ("text", "n"),
    [
        (lambda n: f"fn f(x: {'A<' * n}) = x\n", 600),
        (lambda n: f"fn f(x: A<{'A<B>, ' * n}) = x\n", 300),
        (lambda n: f"fn f(x: {'(A, ' * n} ] = x\n", 600),
        (lambda n: f"fn f(x) = {'[x, ' * n}\n", 600),
        (lambda n: f"fn f(x) = {'x + ' * n})\n", 600),
        (lambda n: f"fn f() = [{', '.join(['1'] * n)}]\n", 300),
        (variants, 200),
    ],
    ids=["open type arguments", "type arguments", "open pairs", "open arrays", "operators", "elements", "variants"],
)
def test_twice_the_text_takes_twice_the_calls(text: Callable[[int], str], n: int) -> None:
    calls(text(10))  # what is loaded once
    small, large = calls(text(n))[0], calls(text(4 * n))[0]
    assert large < 6 * small


SUMS = "".join(["  x = x / sum(x * y)\n" for _ in range(16)])


def test_twice_the_comprehensions_that_wait_for_one_another_take_twice_the_calls_to_optimise() -> None:
    def optimised(n: int) -> int:
        made = lowered(f"fn f(z: f64[n], y: f64[n]) -> f64 {{\n  var x = z\n{SUMS * n}  sum(x)\n}}\n")
        return counted(lambda: optimise(made.program, [made.entry.name]))[0]

    optimised(1)  # what is loaded once
    assert optimised(8) < 4.4 * optimised(2)


@pytest.mark.parametrize(
    ("text", "n", "code"),
    [
        (squared, 30, None),
        (factors, 40, "E0291"),
        (nested_calls, 20, "E0291"),
        (pairs, 14, "E0501"),
        (pigeons, 7, "E0501"),
    ],
    ids=["squares", "factors", "calls", "pairs", "pigeons"],
)
def test_what_would_take_exponentially_long_is_refused_or_left(
    text: Callable[[int], str], n: int, code: str | None
) -> None:
    count, found = calls(text(n))
    assert count < 5_000_000
    assert {d.code for d in found} == ({code} if code else set())


def test_sizes_without_end_are_numbers_as_any_other(write, dlc) -> None:
    lines = "".join(f"  let s{i + 1} = s{i} * s{i}\n" for i in range(40))
    text = f"fn f(n: i64, m: i64) -> i64 {{\n  let s0 = n + m + 1\n{lines}  s40\n}}\nfn main() {{ print(f(0, 0)) }}\n"
    assert dlc("run", write(text))[:2] == (0, "1\n")


MEMORY = """
import resource
from dlang.diagnostics import Source
from dlang.driver import check
BEGIN = "fn main() { print(1) }\\n"
TAILS = "\\n" * 400_000, " \\n" * 200_000, "# a\\n" * 100_000, " " * 400_000, "let a = \\"" + "a" * 400_000 + "\\"\\n"
check(Source("a.dl", BEGIN))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert not any(check(Source("b.dl", BEGIN + tail)).diagnostics for tail in TAILS)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 400_000)
"""


def test_text_that_says_little_takes_little_memory() -> None:
    found = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 100  # bytes a character
