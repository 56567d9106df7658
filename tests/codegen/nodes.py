"""Programs with nodes of datatypes: lists, trees, rows of arrays; compiled, and compared with the interpreter."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.reader import read_program
from dlang.pipeline import PASSES, optimise
from dlang.runtime.engine import CompiledProgram, Engine

MIB = 1 << 20
OF_NODES = [p for p in PASSES if p.name != "lists"]
"""The passes that leave lists as nodes."""

NUMBERS = 'data "L" { Nil(), Cons(head.0: i64, tail.1: "L") }\n'

LISTS = (
    NUMBERS
    + """
fn total(l.0: "L", sum.1: i64) -> (s.2: i64) {
  t.3: i64 = tag l.0
  nil.4: bool = eq(t.3, 0)
  s.5: i64 = if nil.4 {
    yield sum.1
  } else {
    head.6: i64, tail.7: "L" = fields "L" 1 l.0
    more.8: i64 = add(sum.1, head.6)
    s.9: i64 = call total(tail.7, more.8)
    yield s.9
  }
  yield s.5
}

fn count_down(n.0: i64) -> (l.1: "L") {
  nil.2: "L" = construct "L" 0 ()
  l.3: "L" = for i.4 in 0..n.0 (l.5: "L" = nil.2) {
    l.6: "L" = construct "L" 1 (i.4, l.5)
    yield l.6
  }
  yield l.3
}
"""
)

TREES = """\
data "T" { Leaf(x.0: f64), Branch(l.1: "T", r.2: "T") }

fn build(d.0: i64, x.1: f64) -> (t.2: "T") {
  leaf.3: bool = eq(d.0, 0)
  t.4: "T" = if leaf.3 {
    n.5: "T" = construct "T" 0 (x.1)
    yield n.5
  } else {
    e.6: i64 = sub(d.0, 1)
    y.7: f64 = mul(x.1, 0.5)
    l.8: "T" = call build(e.6, x.1)
    r.9: "T" = call build(e.6, y.7)
    n.10: "T" = construct "T" 1 (l.8, r.9)
    yield n.10
  }
  yield t.4
}

fn total(t.0: "T") -> (s.1: f64) {
  k.2: i64 = tag t.0
  leaf.3: bool = eq(k.2, 0)
  s.4: f64 = if leaf.3 {
    x.5: f64 = fields "T" 0 t.0
    yield x.5
  } else {
    l.6: "T", r.7: "T" = fields "T" 1 t.0
    a.8: f64 = call total(l.6)
    b.9: f64 = call total(r.7)
    c.10: f64 = add(a.8, b.9)
    yield c.10
  }
  yield s.4
}

fn main(d.0: i64) -> (s.1: f64) {
  t.2: "T" = call build(d.0, 1.0)
  s.3: f64 = call total(t.2)
  yield s.3
}
"""


ROWS = """\
data "R" { End(), Row(n.0: i64, x.1: f64[n.0], next.2: "R") }

fn total(r.0: "R", sum.1: f64) -> (s.2: f64) {
  t.3: i64 = tag r.0
  end.4: bool = eq(t.3, 0)
  s.5: f64 = if end.4 {
    yield sum.1
  } else {
    n.6: i64, x.7: f64[n.6], next.8: "R" = fields "R" 1 r.0
    here.9: f64 = comp i.10 in 0..n.6 {
      v.11: f64 = read x.7[i.10]
      w.12: f64 = mul(v.11, v.11)
      yield w.12
    } to keep [] [] sum
    more.13: f64 = add(sum.1, here.9)
    s.14: f64 = call total(next.8, more.13)
    yield s.14
  }
  yield s.5
}
"""


def row(k: str, serial: int) -> str:
    """The lets that make an array of the size k."""
    return f"""\
    row.{serial}: f64[{k}] = comp i.{serial + 1} in 0..{k} {{
      x.{serial + 2}: f64 = cast f64 i.{serial + 1}
      yield x.{serial + 2}
    }} to keep [{k}] [i.{serial + 1}] sum
"""


GROWN = (
    ROWS
    + """
fn main(n.0: i64) -> (s.1: f64) {
  end.2: "R" = construct "R" 0 ()
  r.3: "R" = for k.4 in 0..n.0 (r.5: "R" = end.2) {
"""
    + row("k.4", 30)
    + """\
    r.6: "R" = construct "R" 1 (k.4, row.30, r.5)
    yield r.6
  }
  s.7: f64 = call total(r.3, 0.0)
  yield s.7
}
"""
)


def compiled(text: str, engine: Engine | None = None) -> CompiledProgram:
    program = optimise(read_program(text), ["main"], verify=True, passes=OF_NODES)
    return (engine or Engine(Host(io.StringIO()))).compile(program, ["main"])


def agrees(text: str, *args: Any) -> list[Any]:
    """What compiled code gives, which is what the interpreter gives before and after the passes."""
    program = read_program(text)
    wanted = Interpreter(program).run("main", list(args))
    optimised = optimise(program, ["main"], verify=True, passes=OF_NODES)
    for found in (
        Interpreter(optimised).run("main", list(args)),
        compiled(text).run("main", list(args)),
    ):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(f, w)
    return wanted


def peak(program: CompiledProgram) -> int:
    """The most bytes of the arena that its last run touched."""
    return int(program.engine.contexts[-1].peak)
