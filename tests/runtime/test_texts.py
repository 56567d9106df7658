"""Texts of compiled code: the same as the interpreter's in every kind of program, and gone when nothing needs them."""

from __future__ import annotations

import ctypes
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen.abi import NURSERY
from dlang.codegen.llvm import jit, support, texts
from dlang.diagnostics import Source
from dlang.driver import check, errors_of, lower
from dlang.dump_ir import request
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.runtime.engine import CompiledProgram, Engine
from dlang.runtime.marshalling import read_text, write_text
from dlang.runtime.memory import Context
from dlang.runtime.threads import default_pool

PROGRAMS = {
    "a loop that carries a text": """
        fn f(n: i64) -> str { var s = ""; for i < n { s = "{s}{i % 10}" }; s }""",
    "a loop that puts texts in front": """
        fn f(n: i64) -> str { var s = "."; for i < n { s = "<{i}>{s}" }; s }""",
    "a loop that doubles a text": """
        fn f(n: i64) -> str { var s = "äb"; for i < minimum(n, 12) { s = "{s}{s}" }; s }""",
    "a loop that carries several texts, and swaps them": """
        fn f(n: i64) -> str {
          var a = "a"; var b = "ü"
          for i < n { let c = "{b}{i}"; b = a; a = c }
          "{a}|{b}"
        }""",
    "a loop that makes texts and carries none": """
        fn f(n: i64) -> i64 { var c = 0; for i < n { if "row {i}" < "row 5" and "{i}" != "13" { c += 1 } }; c }""",
    "while": """
        fn f(n: i64) -> str { var s = "x"; var k = 0;
          while s != "x0123" and k < n { s = "{s}{k}"; k += 1 }
          "{s} {k}"
        }""",
    "branches": """
        fn f(n: i64) -> str {
          var s = ""
          for i < n { if i % 3 == 0 { s = "{s}-" } else if i % 3 == 1 { s = "{i}" } else { s = "{s}{s}" }
            if s > "5" { s = "" } }
          s
        }""",
    "break, continue and return": """
        fn f(n: i64) -> str {
          var s = "é"
          for i < n {
            if i == 7 { continue }
            if i == 200 { return "early {s}" }
            if i == 250 { break }
            s = "{s}{i}"
          }
          s
        }""",
    "arrays of texts": """
        fn f(n: i64) -> str {
          var a = ["", "one", "zwölf"]
          for i < n { a[i % 3] = "{a[(i + 1) % 3]:.20}{i}" }
          "{a} {a[0]} {len(a)}"
        }""",
    "a comprehension of texts": """
        fn f(n: i64) -> str {
          let m: size = n % 50
          let odd = "odd"
          let a = [if i % 2 == 0 { "{i}" } else { "{i}{odd}" } for i < m]
          var s = ""
          for t in a { s = "{s}{t};" }
          let found = [t == "7odd" for t in a]
          "{s}{sort(a)} {found}"
        }""",
    "a long text in many elements": """
        fn f(n: i64) -> str {
          var s = ""
          for i < n { s = "{s}long and longer" }
          let a = [s for i < 3]
          "{a[2]}{a[0] == a[1]}"
        }""",
    "structs, enums and tuples": """
        struct Writer { out: str, lines: i64 }
        enum Mode { Quiet, Loud(prefix: str, times: i64) }
        fn say(w: Writer, m: Mode, t: str) -> Writer = match m {
          Quiet => w,
          Loud(p, k) => Writer(out = "{w.out}{p}{t}{k}", lines = w.lines + 1),
        }
        fn f(n: i64) -> str {
          var w = Writer(out = "", lines = 0)
          var m = Loud("> ", 1)
          for i < n {
            w = say(w, m, "{i}")
            m = if i % 5 == 4 { Quiet } else { Loud(w.out, i) }
            w = Writer(out = if w.lines % 9 == 8 { "" } else { w.out }, lines = w.lines)
            if i > 12 { m = Loud("+", i) }
          }
          "{w} {m} {(w.out, n)}"
        }""",
    "lists of texts": """
        fn f(n: i64) -> str {
          var l: List<str> = Nil
          var all = ""
          for i < n { l = Cons("{i}{all:.3}", l); all = "{all}{i}" }
          "{l}"
        }""",
    "a list whose texts are taken apart": """
        fn joined(l: List<str>, before: str) -> str = match l {
          Nil => before,
          Cons(t, rest) => joined(rest, "{before}{t},"),
        }
        fn f(n: i64) -> str {
          var l: List<str> = Nil
          for i < n { l = match l { Cons(t, rest) if i % 4 == 3 => Cons("{t}{i}", rest), _ => Cons("{i}ß", l) } }
          joined(l, "")
        }""",
    "nodes with arrays of texts": """
        enum Rows { End, Row(words: str[3], rest: Rows) }
        fn f(n: i64) -> str {
          var r = End
          for i < n { r = Row(["a{i}", "", "c{i}{i}"], if i % 7 == 6 { End } else { r }) }
          "{r}"
        }""",
    "recursion": """
        fn deep(k: i64, s: str) -> str = if k == 0 { s } else { let t = deep(k - 1, "{s}{k % 7}"); "({t})" }
        fn f(n: i64) -> str = deep(n, "")""",
    "a tree as text": """
        enum Tree { Leaf(name: str), Fork(left: Tree, right: Tree) }
        fn grown(d: i64, s: str) -> Tree = if d == 0 { Leaf(s) } else {
          Fork(grown(d - 1, "{s}l"), grown(d - 1, "{s}r"))
        }
        fn f(n: i64) -> str { let t = grown(n % 8, ""); "{t}" }""",
    "order and equality of long texts": """
        fn f(n: i64) -> (bool, bool, bool, bool, bool) {
          var a = ""; var b = ""
          for i < n { a = "{a}{i % 7}"; b = "{i % 7}{b}" }
          let c = "{a}!"
          (a == b, a < b, a != "{a}", c > a, "{a}{b}" == "{a}{b}")
        }""",
    "numbers among texts": """
        fn f(n: i64) -> str {
          var s = "n"
          for i < n { let first = s == "n"; s = "{f64(i) / 4.0:.2f}{s:.40}{i:>4}{first}" }
          s
        }""",
    "a text that is not changed": """
        fn f(n: i64) -> str {
          let s = "abc{n}"
          var t = s
          for i < n { t = "{s}"; if t != s { return "no" } }
          "{t}"
        }""",
    "nested loops": """
        fn f(n: i64) -> str {
          var s = ""
          for i < n % 40 {
            var t = ""
            for j < i { t = "{t}{j % 10}"; if "{t}{s}" == "01" { s = "{s}." } }
            s = "{s}{t}|"
          }
          s
        }""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_texts_do_what_the_interpreter_does(name: str) -> None:
    text = PROGRAMS[name]
    compiled, wanted = dlang.compile(text), dlang.compile(text, "interp")
    for n in (0, 1, 2, 9, 60, 300):
        assert compiled.f(n) == wanted.f(n), n


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_texts_touch_no_other_memory(name: str) -> None:
    program = _compiled(PROGRAMS[name], sanitize=True)
    wanted = _compiled(PROGRAMS[name])
    assert program.run(40) == wanted.run(40)


@dataclass
class Compiled:
    """A program with one entry."""

    program: CompiledProgram
    entry: str

    def run(self, *args: Any) -> list[Any]:
        return self.program.run(self.entry, args)

    @property
    def peak(self) -> int:
        """The most bytes of the arena that its runs touched."""
        return int(self.program.engine.contexts[-1].peak)


def _compiled(text: str, **options: Any) -> Compiled:
    checked = check(Source("program.dl", text))
    assert not errors_of(checked), [d.message for d in checked.diagnostics]
    (decl,) = [d for d in checked.module.functions.values() if d.name == "f"]
    program, (entry,) = lower([request(decl)], verify=True)
    return Compiled(Engine(Host(StringIO()), **options).compile(program, [entry.name]), entry.name)


# ---- memory ----------------------------------------------------------------------------------------------------------
GROWING = """
    fn f(n: i64) -> str { var s = ""; for i < n { s = "{s}x" }; s }"""
IN_FRONT = """
    fn f(n: i64) -> str { var s = ""; for i < n { s = "y{s}" }; s }"""
LEVEL = {
    "texts that no iteration hands on": """
        fn f(n: i64) -> i64 { var c = 0; for i < n { if "row {i} of the table" == "x" { c += 1 } }; c }""",
    "a text that is made anew in each iteration": """
        fn f(n: i64) -> i64 { var s = ""; for i < n { s = "{i} of many, and a word" }; if s == "" { 1 } else { 0 } }""",
    "long texts that are joined and dropped": """
        fn f(n: i64) -> i64 {
          var c = 0
          for i < n // 100 { var s = ""; for j < 200 { s = "{s}{j} " }; if s < "0 1 2 4" { c += 1 } }
          c
        }""",
    "texts in an array": """
        fn f(n: i64) -> i64 {
          var a = ["", "", ""]
          for i < n { a[i % 3] = "element {i} of an array" }
          if a[0] == a[1] { 1 } else { 0 }
        }""",
    "texts in short lists": """
        fn f(n: i64) -> i64 {
          var l: List<str> = Nil
          for i < n { l = if i % 10 == 0 { Nil } else { Cons("node {i}", l) } }
          match l { Nil => 0, Cons(_, _) => 1 }
        }""",
}


@pytest.mark.parametrize("name", LEVEL)
def test_loops_drop_the_texts_that_nothing_needs(name: str) -> None:
    program = _compiled(LEVEL[name])
    program.run(40_000)
    assert program.peak <= 6 * NURSERY


def test_texts_that_are_arguments_go_with_the_call() -> None:
    program = _compiled('fn f(s: str) -> bool = s == ""')
    for k in range(50):
        assert program.run(f"{k}" + "x" * 500_000) == [False]
    assert program.peak <= 2 * NURSERY


@pytest.mark.parametrize("text", [GROWING, IN_FRONT])
def test_a_text_that_grows_takes_memory_as_it_is_long(text: str) -> None:
    program = _compiled(text)
    lengths, peaks = (100_000, 800_000), []
    for n in lengths:
        (found,) = program.run(n)
        assert len(found) == n and len(set(found)) == 1
        peaks.append(program.peak)
    assert peaks[1] <= 300 * lengths[1]  # copies of all that there were would be 3 * 10**11 bytes


def test_the_text_of_a_list_takes_memory_as_it_is_long() -> None:
    program = _compiled("""
        fn f(n: i64) -> str { var l: List<i64> = Nil; for i < n { l = Cons(i % 10, l) }; "{l}" }""")
    n = 30_000
    (found,) = program.run(n)
    assert found.startswith("Cons(9, Cons(8,") and found.endswith("Nil" + ")" * n)
    assert program.peak <= 400 * n + 4 * NURSERY


SHARED = {
    "an array": """
        fn f(n: i64) -> i64 {
          var s = "{n}"
          for i < 12 { s = "{s}{s}" }
          let m: size = n
          let a = [if i % 2 == 0 { s } else { "odd" } for i < m]
          var b = ["" for i < m]
          for i < n { b[i] = s }
          if a[0] == b[n - 1] { len(a) } else { 0 }
        }""",
    "a list": """
        fn f(n: i64) -> i64 {
          var s = "{n}"
          for i < 12 { s = "{s}{s}" }
          var l: List<str> = Nil
          for i < n { l = Cons(s, l) }
          var k = 0
          while k < n { l = match l { Nil => Nil, Cons(t, rest) => if t == s { rest } else { Nil } }; k += 1 }
          match l { Nil => n, Cons(_, _) => 0 }
        }""",
}


@pytest.mark.parametrize("name", SHARED)
def test_a_long_text_in_many_places_is_there_once(name: str) -> None:
    program = _compiled(SHARED[name])
    assert program.run(1000) == [1000]  # of 16 KiB each
    assert program.peak <= 4 * NURSERY


def test_an_arena_that_is_full_of_texts_is_an_error() -> None:
    program = _compiled(
        """
        fn f(n: i64) -> str { var s = "abcdefgh"; for i < n { s = "{s}{s}{i}" }; s }""",
        arena=1 << 22,
    )
    assert len(program.run(10)[0]) > 8 * 2**10
    with pytest.raises(RunError) as e:
        program.run(60)
    assert e.value.code == "E0806"
    assert len(program.run(3)[0]) == 8 * 8 + 4 + 2 + 1


def test_a_failure_in_the_middle_shows_texts_and_leaves_nothing() -> None:
    module = dlang.compile("""
        fn f(n: i64) -> str {
          var s = ""
          for i < n { s = "{s}{i},"; assert i < 60, "after {s:.8} and {s}" }
          s
        }""")
    for _ in range(3):
        with pytest.raises(dlang.DlangError, match=r"after 0,1,2,3, and 0,1,2,.*59,60,"):
            module.f(100)
        assert module.f(3) == "0,1,2,"


# ---- the border ------------------------------------------------------------------------------------------------------
UNUSUAL = ["", "a", "é", "\0", "a\0b", "😀" * 5, "\ud800", "x" * 7, "x" * 8, "x" * 9, "ü" * 1000, '\n\r\t"\\']


def test_texts_cross_the_border_as_they_are() -> None:
    module = dlang.compile("""
        struct Pair { a: str, b: str }
        enum Choice { None_, One(x: str, k: i64), Two(y: str) }
        fn same(s: str) -> str = s
        fn twice(s: str) -> str = "{s}{s}"
        fn swapped(p: Pair) -> Pair = Pair(a = p.b, b = p.a)
        fn other(c: Choice) -> Choice = match c { None_ => Two("none"), One(x, k) => Two(x), Two(y) => One(y, 3) }
        fn rows(a: str[n]) -> str[n] = ["{s}." for s in a]
        fn listed(a: List<str>, s: str) -> List<str> = Cons(s, a)
    """)
    for s in UNUSUAL:
        for _ in range(3):  # the first calls go through Python, the others need not
            assert module.same(s) == s and module.twice(s) == s + s
            assert module.swapped(module.Pair(a=s, b="b")) == module.Pair(a="b", b=s)
            assert module.other(module.One(s, 1)) == module.Two(s)
            assert module.other(module.Two(s)) == module.One(s, 3)
            assert module.other(module.None_()) == module.Two("none")
    rows = module.rows(np.array(UNUSUAL, object))
    assert list(rows) == [s + "." for s in UNUSUAL]


def test_the_order_of_texts_is_that_of_their_characters() -> None:
    module = dlang.compile(
        "fn f(a: str, b: str) -> (bool, bool, bool, bool, bool) = (a < b, a <= b, a > b, a >= b, a == b)"
    )
    for a in UNUSUAL:
        for b in UNUSUAL:
            assert module.f(a, b) == (a < b, a <= b, a > b, a >= b, a == b)


def test_runs_in_several_threads_have_texts_of_their_own() -> None:
    module = dlang.compile(PROGRAMS["a loop that carries a text"])
    with ThreadPoolExecutor(4) as pool:
        for n, found in zip(range(200), pool.map(module.f, range(200)), strict=True):
            assert found == "".join([str(i % 10) for i in range(n)])


# ---- the functions that programs share -------------------------------------------------------------------------------
def _shared(name: str) -> Any:
    result, arguments = texts.DECLARATIONS[name]
    types = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i1": ctypes.c_bool}
    return ctypes.CFUNCTYPE(types[result], *[types[a] for a in arguments])(jit.support_address(name))


@pytest.mark.parametrize("seed", range(4))
def test_texts_joined_in_any_order_have_all_their_bytes(seed: int) -> None:
    context, draw = Context(0, default_pool()), random.Random(seed)
    context.open_arena()
    join, flat, order = _shared("dl_text_joined"), _shared("dl_text_flat"), _shared("dl_text_order")
    made = [(write_text(context, t), t) for t in ("", "a", "üb", "c" * 100, "d" * 129, "e" * 1000)]
    for _ in range(300):
        (a, s), (b, t) = draw.choice(made), draw.choice(made[-20:])
        if len(s) + len(t) < 50_000:
            made.append((join(context.address, a, b), s + t))
    for word, text in made:
        assert read_text(flat(context.address, word)) == text
    for _ in range(300):
        (a, s), (b, t) = draw.choice(made), draw.choice(made)
        top = context.words[support.ARENA_TOP]
        assert order(context.address, a, b, False) == (s > t) - (s < t)
        assert (order(context.address, a, b, True) == 0) == (s == t)
        assert context.words[support.ARENA_TOP] == top


@pytest.mark.parametrize("in_front", [False, True])
def test_texts_of_many_parts_need_no_stack(in_front: bool) -> None:
    context = Context(0, default_pool())
    context.open_arena()
    join, flat = _shared("dl_text_joined"), _shared("dl_text_flat")
    part, whole, n = write_text(context, "p" * 130), 0, 200_000
    for _ in range(n):
        whole = join(context.address, *((part, whole) if in_front else (whole, part)))
    word = flat(context.address, whole)
    assert ctypes.c_int64.from_address(word).value == 130 * n
    assert ctypes.string_at(word + 8, 130 * n).count(b"p") == 130 * n
    context.close_arena()
