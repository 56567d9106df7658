"""The compiler's work grows no faster than the text that it compiles, with its derivative.

Each program repeats one construct n, 2n and 4n times. Counted are the calls of the compiler's functions from the text
to LLVM's text: so the result is the same on every machine. What the work grows by from 2n to 4n is twice what it grows
by from n to 2n, if it is linear, whatever a program of no statements takes; four times, if it is quadratic.
"""

from __future__ import annotations

import cProfile
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

import dlang
from dlang.codegen.llvm.modules import emit
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.diagnostics import Source
from dlang.driver import check, lower, read_source
from dlang.dump_ir import request
from dlang.ir import anf
from dlang.ir.traverse import reachable, walk
from dlang.ops.figures import GRAIN
from dlang.process import recursion
from dlang.specialize.specialize import Specializer
from dlang.typecheck import core

COMPILER = dlang.__path__[0]
MOST = 1.2  # the exponent with which all the work may grow
ALONE = 1.5  # and that of any function with a share of at least `SHARE`
SHARE = 0.02
DERIVATIVE = "fn slope(x: f64[8]) -> f64[8] = grad(f)(x)\n"
Program = Callable[[int], str]
PROGRAMS: dict[str, tuple[Program, int]] = {}
CHECKED: dict[str, tuple[Program, int]] = {}  # those of which more than the check says nothing more
ACTING: dict[str, tuple[Program, int]] = {}  # those of which no derivative is taken, since they have effects


def program(name: str, n: int = 6, programs: dict[str, tuple[Program, int]] = PROGRAMS) -> Callable[[Program], Program]:
    """Registers a function that writes a program, and how often the smallest repeats the construct."""

    def register(write: Program) -> Program:
        programs[name] = write, n
        return write

    return register


checked = partial(program, programs=CHECKED)
acting = partial(program, programs=ACTING)


def body(lines: Sequence[str], result: str, before: str = "") -> str:
    """A function f of eight numbers with these statements and this result."""
    return "\n".join([before, "fn f(x: f64[8]) -> f64 {", *(f"  {line}" for line in lines), f"  {result}", "}", ""])


@program("scalars", 12)
def _(n: int) -> str:
    return body(["let a0 = x[0]", *(f"let a{k + 1} = sin(a{k}) + a{k} * x[{k % 8}]" for k in range(n))], f"a{n}")


@program("elementwise arrays", 4)
def _(n: int) -> str:
    return body(["let a0 = x", *(f"let a{k + 1} = sin(a{k}) * x" for k in range(n))], f"sum(a{n})")


@program("arrays and sums", 4)
def _(n: int) -> str:
    return body(["let a0 = x", *(f"let a{k + 1} = sin(a{k}) * x + sum(a{k})" for k in range(n))], f"sum(a{n})")


@program("halves of an array", 10)
def _(n: int) -> str:
    return body(["var y = x", *("y[..n // 2] = y[..n // 2] * 7.0" for _ in range(n))], "sum(y)").replace("[8]", "[n]")


@program("products", 4)
def _(n: int) -> str:
    lines = [f"let a{k + 1} = tanh(w @ a{k})" for k in range(n)]
    return body(["let w = [[x[i] * x[j] for j < 8] for i < 8]", "let a0 = x", *lines], f"sum(a{n})")


@program("products of a matrix with itself", 20)
def _(n: int) -> str:
    lines = [f"m = tanh(m @ m + transpose(m) * {k}.5)" for k in range(n)]
    return body(["var m = [x[i % 8] * x[j % 8] for i < 800, j < 800]", *lines], "sum(m)")


@program("functions in a chain", 12)
def _(n: int) -> str:
    more = [f"fn g{k + 1}(x: f64[8]) -> f64 = sin(g{k}(x)) + x[{k % 8}]" for k in range(n)]
    return body([], f"g{n}(x)", "\n".join(["fn g0(x: f64[8]) -> f64 = sum(x)", *more]))


@program("functions that call another twice", 4)
def _(n: int) -> str:
    more = [f"fn g{k + 1}(y: f64) -> f64 = g{k}(y) + g{k}(sin(y) * {k}.5)" for k in range(n)]
    return body([], f"g{n}(x[0])", "\n".join(["fn g0(y: f64) -> f64 = sin(y) * y", *more]))


@program("calls of a large function", 24)
def _(n: int) -> str:
    before = "fn g(y: f64) -> f64 {\n  var s = y\n" + "\n".join(f"  s = sin(s) * {k}.5" for k in range(n)) + "\n  s\n}"
    return body(["var s = x[0]", *("s += g(s)" for _ in range(n))], "s", before)


@program("functions that call the next two", 12)
def _(n: int) -> str:
    more = [f"fn g{k + 2}(y: f64) -> f64 = sin(g{k + 1}(y * {k}.5)) * g{k}(y)" for k in range(n)]
    return body([], f"g{n + 1}(x[0])", "\n".join(["fn g0(y: f64) -> f64 = y", "fn g1(y: f64) -> f64 = y * y", *more]))


@program("functions that call one another in a ring", 4)
def _(n: int) -> str:
    functions = [
        f"fn g{k}(y: f64, m: i64) -> f64 = if m < 1 {{ y }} else "
        f"{{ sin(g{(k + 1) % n}(y * {k}.5, m - 1)) * g{(k + 2) % n}(y, m - 2) }}"
        for k in range(n)
    ]
    return body([], "g0(x[0], i64(x[1]))", "\n".join(functions))


@program("functions in a function", 32)
def _(n: int) -> str:
    lines = [f"fn g{k + 1}(y: f64) -> f64 = g{k}(sin(y) * {k}.5)" for k in range(n)]
    return body(["fn g0(y: f64) -> f64 = y * 1.5", *lines], f"g{n}(x[1])")


@program("generic functions", 4)
def _(n: int) -> str:
    before = "\n".join(f"fn g{k}(y) = sin(y) * {k}.0" for k in range(n))
    return body(["var s = x", *(f"s = g{k}(s)" for k in range(n))], "sum(s)", before)


@program("recursive functions", 4)
def _(n: int) -> str:
    functions = [
        f"fn g{k}(y: f64, m: i64) -> f64 = if m < 1 {{ y }} else {{ sin(g{k}(y, m - 1)) * {k}.0 }}" for k in range(n)
    ]
    return body(["var s = x[0]", *(f"s += g{k}(s, 3)" for k in range(n))], "s", "\n".join(functions))


@program("functions in functions", 12)
def _(n: int) -> str:
    def outer(k: int, inner: str) -> str:
        return f"{{ fn f{k}(b{k}: f64) -> f64 {{ {inner} }}\n sin(f{k}(x[{k % 8}])) * x[{(k + 1) % 8}] }}"

    return body([], nested(n, outer, "b0 * b0"))


@program("fields", 24)
def _(n: int) -> str:
    fields = ", ".join(f"a{k}: f64" for k in range(n))
    uses = "\n".join(f"  r += s.a{k} * s.a{max(0, k - 1)}" for k in range(n))
    before = f"struct S {{ {fields} }}\nfn g(s: S) -> f64 {{\n  var r = 0.0\n{uses}\n  r\n}}"
    return body(["let s = S(" + ", ".join(f"a{k} = x[{k % 8}]" for k in range(n)) + ")"], "g(s)", before)


@program("branches")
def _(n: int) -> str:
    return body(["var s = x[0]", *(f"if s > {k}.0 {{ s = sin(s) * x[{k % 8}] }}" for k in range(n))], "s")


@program("branches on one condition", 20)
def _(n: int) -> str:
    lines = [f"s += if c {{ sin(s) * {k}.5 }} else {{ s * x[{k % 8}] }}" for k in range(n)]
    return body(["var s = x[0]", "let c = x[1] > 0.0", *lines], "s")


@program("branches that choose arrays", 4)
def _(n: int) -> str:
    return body(["var s = x", *(f"if x[{k % 8}] > {k}.0 {{ s = s * sin(s) }}" for k in range(n))], "sum(s)")


@program("conditions that hold together", 6)
def _(n: int) -> str:
    lines = [f"let b{k + 1} = b{k} and x[{k % 8}] > {k}.5; if b{k + 1} {{ s += x[{k % 8}] }}" for k in range(n)]
    return body(["var s = 0.0", "let b0 = x[0] > 0.0", *lines], "s")


@program("early returns of loops", 8)
def _(n: int) -> str:
    lines = [f"for i < 8 {{ if x[i] > {k}.5 {{ return s * x[i] }}\n    s += sin(x[i] * {k}.0) }}" for k in range(n)]
    return body(["var s = x[0]", *lines], "s")


@program("loops", 4)
def _(n: int) -> str:
    return body(["var s = x[0]", *(f"for i < 8 {{ s = sin(s) * x[i] + {k}.0 }}" for k in range(n))], "s")


@program("loops that change an array", 4)
def _(n: int) -> str:
    loops = [f"for i in 1..8 {{ s[i] = sin(s[i - 1]) * x[i] + {k}.0 }}" for k in range(n)]
    return body(["var s = x", *loops], "sum(s)")


@program("indices in loops in branches", 4)
def _(n: int) -> str:
    lines = [f"if s > {k}.0 {{ for i < 8 {{ s = sin(s) * x[j % 8]; j = j * 3 + {k} }} }}" for k in range(n)]
    return body(["var s = x[0]", "var j = 1", *lines], "s")


@program("while loops", 4)
def _(n: int) -> str:
    return body(["var s = x[0]", *(f"while s < {k}.0 {{ s = s * 2.0 + x[1] * s }}" for k in range(n))], "s")


@program("loops in branches", 4)
def _(n: int) -> str:
    lines = [f"if x[{k % 8}] > {k}.0 {{ for i < 8 {{ s = s * x[i] }} }}" for k in range(n)]
    return body(["var s = x[0]", *lines], "s")


@program("statements in a loop", 8)
def _(n: int) -> str:
    return body(["var s = x[0]", "for i < 8 {", *(f"  s = sin(s) * x[{k % 8}]" for k in range(n)), "}"], "s")


@program("the state of a loop", 8)
def _(n: int) -> str:
    lines = [*(f"var s{k} = x[{k % 8}]" for k in range(n)), "for i < 8 {"]
    lines += [*(f"  s{k} = sin(s{(k + 1) % n}) * x[i]" for k in range(n)), "}"]
    return body(lines, "s0 + s1")


@program("writes", 12)
def _(n: int) -> str:
    lines = ["var s = [0.0 for i < 500]", *(f"s[{k}] = x[{k % 8}] * {k}.0" for k in range(n))]
    return body(lines, "sum(s * s)")


@program("writes and reads at places that only the run knows", 6)
def _(n: int) -> str:
    lines = [f"s[j + {k + 1}] = s[j + {k}] * x[{k % 8}]" for k in range(n)]
    return body(["var s = [0.5 for i < 500]", "let j = i64(x[0])", *lines], "sum(s * s)")


@program("comprehensions that merge")
def _(n: int) -> str:
    lines = [f"let a{k} = [sin(x[i]) * {k}.0 for i < 8]" for k in range(n)]
    return body([*lines, "var s = 0.0", *(f"s += a{k}[{k % 8}]" for k in range(n))], "s")


@program("comprehensions in comprehensions", 3)
def _(n: int) -> str:
    inner = "sum([sum([sin(x[i] * x[j]) * x[l] * s for l < 8]) * x[j] for j < 8])"
    return body(["var s = x[0]", *(f"s += sum([{inner} * {k}.5 for i < 8])" for k in range(n))], "s")


@program("comprehensions over several axes in turn", 6)
def _(n: int) -> str:
    lines = [f"let a{k} = [sin(x[i % 8]) * {k}.0 for i < {8 + k % 3}]" for k in range(n)]
    return body([*lines, "var s = 0.0", *(f"s += a{k}[{k % 8}]" for k in range(n))], "s")


@program("statements in a comprehension")
def _(n: int) -> str:
    lines = ["let b = [{", "  var s = x[i]", *(f"  s = sin(s) * x[{k % 8}]" for k in range(n)), "  s", "} for i < 8]"]
    return body(lines, "sum(b)")


@program("terms of a sum", 8)
def _(n: int) -> str:
    return body([], " + ".join(f"sin(x[{k % 8}] * {k}.0)" for k in range(n)))


@program("nested expressions", 2)
def _(n: int) -> str:
    deep = "s"
    for k in range(12):
        deep = f"sin({deep} * x[{k % 8}])"
    return body(["var s = x[0]", *[f"s = {deep}"] * n], "s")


@program("elements of a literal", 8)
def _(n: int) -> str:
    return body(["let a = [" + ", ".join(f"x[{k % 8}] * {k}.0" for k in range(n)) + "]"], "sum(a * a)")


@program("numbers of a literal", 24)
def _(n: int) -> str:
    return body(["let a = [" + ", ".join(f"{k}.5" for k in range(n)) + "]"], "sum(a * x[0])")


@program("nodes in nodes", 3)
def _(n: int) -> str:
    before = "fn g(l: List<f64>) -> f64 = match l { Nil => 0.0, Cons(h, t) => sin(h) + g(t) }"
    return body([], f"g({nested(n, lambda k, t: f'Cons(x[{k % 8}], {t})', 'Nil')})", before)


@program("parts of a text")
def _(n: int) -> str:
    lines = [f't = "{{t}}, {{x[{k % 8}]}}"' for k in range(n)]
    return body(['var t = ""', *lines], 'if t == "" { x[0] } else { x[1] * x[1] }')


@program("asserts", 8)
def _(n: int) -> str:
    return body([f"assert x[{k % 8}] > {k}.0" for k in range(n)], "sum(x * x)")


@program("arrays that are joined", 8)
def _(n: int) -> str:
    lines = [f"let a{k + 1} = concat(a{k}[1..], [a{k}[0] * 2.0])" for k in range(n)]
    return body(["let a0 = x", *lines], f"sum(a{n})")


@program("enums", 4)
def _(n: int) -> str:
    functions = [
        f"enum E{k} {{ A{k}(f64), B{k} }}\nfn g{k}(e: E{k}) -> f64 = match e {{ A{k}(y) => sin(y), B{k} => 1.0 }}"
        for k in range(n)
    ]
    return body(["var s = x[0]", *(f"s += g{k}(A{k}(s))" for k in range(n))], "s", "\n".join(functions))


@program("arms of a match", 32)
def _(n: int) -> str:
    variants = ", ".join(f"A{k}(f64)" for k in range(n))
    used = "\n".join(f"  A{k}(y) => y * {k}.0," for k in range(n))
    before = f"enum E {{ {variants} }}\nfn g(s: E) -> f64 = match s {{\n{used}\n}}\n"
    return body(["let e = if x[0] > 0.0 { A0(x[1]) } else { A1(x[2]) }"], "g(e)", before)


@program("arms of a recursion over nodes", 10)
def _(n: int) -> str:
    variants = ", ".join(f"A{k}(E, E)" for k in range(n))
    arms = "\n".join(f"  A{k}(a, b) => g(a, z) * {k}.5 + g(b, z)," for k in range(n))
    before = f"enum E {{ {variants}, End(f64) }}\nfn g(e: E, z: f64) -> f64 = match e {{\n{arms}\n  End(y) => y * z\n}}"
    return body([], "g(A0(End(x[1]), A1(End(x[2]), End(x[3]))), x[0])", before)


@program("arms for numbers", 17)
def _(n: int) -> str:
    arms = "\n".join(f"  {k} => sin(y) + {k}.0," for k in range(n))
    return body([], "h(i64(x[0]), x[1])", f"fn h(i: i64, y: f64) -> f64 = match i {{\n{arms}\n  _ => y,\n}}")


@program("arms for texts", 12)
def _(n: int) -> str:
    arms = "\n".join(f'  "t{k}" => sin(y) + {k}.0,' for k in range(n))
    before = f"fn h(t: str, y: f64) -> f64 = match t {{\n{arms}\n  _ => y,\n}}"
    return body(['let t = "{x[0]}"'], "h(t, x[1])", before)


def nested(n: int, outer: Callable[[int, str], str], inner: str = "s") -> str:
    """Code around code, n times, the kth around the ones before it."""
    for k in range(n):
        inner = outer(k, inner)
    return inner


@program("nested branches")
def _(n: int) -> str:
    return body(["let s = x[0]"], nested(n, lambda k, t: f"if s > {k}.0 {{ {t} }} else {{ s * x[{k % 8}] }}"))


@program("nested branches that assign")
def _(n: int) -> str:
    code = nested(n, lambda k, t: f"if s > {k}.0 {{ s = s * x[{k % 8}]\n {t} }}", "s = sin(s)")
    return body(["var s = x[0]", code], "s")


@program("nested branches that count", 8)
def _(n: int) -> str:
    code = nested(n, lambda k, t: f"if s > {k}.0 {{ s = s * x[j % 8]; j = j * 3 + {k}\n {t} }}", "s = sin(s)")
    return body(["var s = x[0]", "var j = 1", code], "s")


@program("nested branches that change elements", 4)
def _(n: int) -> str:
    code = nested(n, lambda k, t: f"if u[i] > {k}.0 {{ u[i] += sin(s)\n v[i] *= u[i]\n s += x[i]\n {t} }}", "u[i] = s")
    return body(["var u = x", "var v = x", "var s = 0.0", f"for i < 8 {{ {code} }}"], "sum(u * v)")


@program("branches in a chain")
def _(n: int) -> str:
    code = nested(n, lambda k, t: f"if s > {k}.0 {{ sin(s) * x[{k % 8}] }} else {t}", "{ s }")
    return body(["let s = x[0]"], code)


@program("branches in a chain that choose arrays", 5)
def _(n: int) -> str:
    code = nested(n, lambda k, t: f"if u[0] > {k}.0 {{ u = sin(u * {k}.5) * exp(u) * u }} else {{ {t} }}", "u = u * x")
    return body(["var u = x", "for i < 8 {", code, "}"], "sum(u)")


@program("choices in choices")
def _(n: int) -> str:
    return body(["let s = x[0]"], nested(n, lambda k, t: f"where(s > {k}.0, sin(s * {k}.5), {t})"))


@program("recurrences at the same points", 12)
def _(n: int) -> str:
    rows = [f"let r{k} = [{{ var s = v; for t < 8 {{ s = sin(s) * x[t] }}; s * {k}.5 }} for v in x]" for k in range(n)]
    return body(rows, " + ".join(f"sum(r{k})" for k in range(n)))


@program("early returns")
def _(n: int) -> str:
    return body(["var s = x[0]", *(f"if s > {k}.0 {{ return sin(s) * x[{k % 8}] }}" for k in range(n))], "s")


@program("early returns of arrays", 4)
def _(n: int) -> str:
    returns = "\n".join(f"  if x[0] > {k}.0 {{ return sin(x) * x[{k % 8}] }}" for k in range(n))
    return body([], "sum(g(x))", f"fn g(x: f64[8]) -> f64[8] {{\n{returns}\n  x\n}}")


@program("returns in loops", 4)
def _(n: int) -> str:
    lines = [f"for i < 8 {{ s = s * x[i]\n if s > {k}.0 {{ return s * x[{k % 8}] }} }}" for k in range(n)]
    return body(["var s = x[0]", *lines], "s")


@program("early ends of an iteration")
def _(n: int) -> str:
    ends = [f"  if s > {k}.0 {{ s = sin(s) * x[{k % 8}]\n {'continue' if k % 2 else 'break'} }}" for k in range(n)]
    return body(["var s = x[0]", "for i < 8 {", *ends, "  s += x[i]", "}"], "s")


@program("returns of what fails", 6)
def _(n: int) -> str:
    before = 'fn root(y: f64) -> Result<f64, str> = if y >= 0.0 { Ok(sqrt(y)) } else { Err("negative") }\n'
    before += "fn g(y: f64) -> Result<f64, str> {\n  var s = y\n"
    before += "\n".join(
        f"  s = match root(s + {k}.0) {{ Ok(v) => v, Err(e) => {{ return Err(e) }} }}" for k in range(n)
    )
    return body([], "match g(x[0]) { Ok(v) => v, Err(_) => 0.0 }", before + "\n  Ok(s)\n}")


@program("elements of an array of tuples", 6)
def _(n: int) -> str:
    items = ", ".join(f"sin(x[i] * {k}.0)" for k in range(n))
    return body([f"let b = [({items}) for i < 8]"], " + ".join(f"b[{k % 8}].{k}" for k in range(n)))


@program("parameters", 24)
def _(n: int) -> str:
    formals = ", ".join(f"a{k}: f64" for k in range(n))
    before = f"fn g({formals}) -> f64 = " + " + ".join(f"sin(a{k})" for k in range(n))
    return body([], "g(" + ", ".join(f"x[{k % 8}]" for k in range(n)) + ")", before)


@program("items of a tuple", 24)
def _(n: int) -> str:
    items = ", ".join(f"sin(x[{k % 8}])" for k in range(n))
    return body([f"let t = ({items})"], " + ".join(f"t.{k} * {k}.0" for k in range(n)))


@checked("asserts of places", 14)
def _(n: int) -> str:
    lines = [f"  assert j + {k} >= 0 and j + {k} < n\n  s += p(x, j + {k})" for k in range(n)]
    before = "fn p(x: f64[n], i: Idx<n>) -> f64 = x[i]\nfn g(x: f64[n], j: i64) -> f64 {\n  var s = 0.0\n"
    return before + "\n".join(lines) + "\n  s\n}\n"


@checked("statements without types", 12)
def _(n: int) -> str:
    return "fn g(y) {\n  var s = y\n" + "\n".join(f"  s = s * s + {k}" for k in range(n)) + "\n  s\n}\n"


@checked("statements without types on several parameters", 32)
def _(n: int) -> str:
    lines = [f"  let h{k + 2} = h{k + 1} * h{k} + a" for k in range(n)]
    return "\n".join(["fn g(a, b) {", "  let h0 = a * b", "  let h1 = h0 - b", *lines, f"  h{n + 1}", "}", ""])


@checked("statements on arrays without shapes", 16)
def _(n: int) -> str:
    lines = [f"  let h{k + 2} = sin(h{k + 1}) * h{k} + a" for k in range(n)]
    return "\n".join(["fn g(a, b) {", "  let h0 = a * b", "  let h1 = sin(h0) - b", *lines, f"  h{n + 1}", "}", ""])


@checked("lambdas without types", 32)
def _(n: int) -> str:
    lines = [f"  let h{k} = |c| c * a + b * {k}.5" for k in range(n)]
    return "\n".join(["fn g(a, b) {", *lines, "  h0(a)", "}", ""])


@checked("lambdas without types that are called", 24)
def _(n: int) -> str:
    lines = [f"  let h{k} = |c| c * a + b * {k}.5; s = s + h{k}(b)" for k in range(n)]
    return "\n".join(["fn g(a, b) {", "  var s = a", *lines, "  s", "}", ""])


@checked("lambdas without types that call the one before", 24)
def _(n: int) -> str:
    lines = [f"  let h{k + 1} = |c| h{k}(c) * a + b * {k}.5" for k in range(n)]
    return "\n".join(["fn g(a, b) {", "  let h0 = |c| c * a", *lines, f"  h{n}(a)", "}", ""])


@checked("functions without types that call another twice", 16)
def _(n: int) -> str:
    return _twice("g{k}(a, b) + g{k}(b, a)", "a * b", n)


@checked("functions without types that call another with what they compute", 12)
def _(n: int) -> str:
    return _twice("g{k}(g{k}(a * b, b), b) - g{k}(a, b * a) * {k}.5", "a / b", n)


@checked("functions without types that choose", 16)
def _(n: int) -> str:
    return _twice("where(g{k}(a, b) < sum(a), g{k}(b, a), cos(b))", "sin(a) * b", n)


def _twice(body: str, first: str, n: int) -> str:
    """A chain of functions without types, each of which calls the one before a few times."""
    more = [f"fn g{k + 1}(a, b) = {body.replace('{k}', str(k))}\n" for k in range(n)]
    return "".join([f"fn g0(a, b) = {first}\n", *more])


@checked("halves of halves", 24)
def _(n: int) -> str:
    lines = [f"  let h{k + 1} = h{k}[..len(h{k}) // 2]" for k in range(n)]
    return "\n".join(["fn g(x) {", "  let h0 = x", *lines, f"  sum(h{n})", "}", ""])


@checked("what is left of what is left", 24)
def _(n: int) -> str:
    lines = [f"  let h{k + 1} = h{k}[len(h{k}) // m..]" for k in range(n)]
    return "\n".join(["fn g(x: f64[n], m: size) {", "  let h0 = x", *lines, f"  sum(h{n})", "}", ""])


@checked("arms for pairs", 32)
def _(n: int) -> str:
    variants, arms = ", ".join(f"A{k}" for k in range(n)), "\n".join(f"  (A{k}, A{k}) => {k}.5," for k in range(n))
    return f"enum E {{ {variants} }}\nfn g(a: E, b: E) -> f64 = match (a, b) {{\n{arms}\n  _ => 0.0\n}}\n"


@checked("arms with alternatives", 32)
def _(n: int) -> str:
    arms = "\n".join(f"  ({k}, 1) | ({k}, 2) if y > {k}.0 => {k}.5,\n  ({k}, 1) => y," for k in range(n))
    return f"fn g(a: i64, b: i64, y: f64) -> f64 = match (a, b) {{\n{arms}\n  _ => 0.0\n}}\n"


@checked("conditions", 24)
def _(n: int) -> str:
    return "fn g(y: f64) -> bool = " + " and ".join(f"y > {k}.0" for k in range(n)) + "\n"


@checked("constants in a chain", 16)
def _(n: int) -> str:
    return "const c0 = 1.5\n" + "\n".join(f"const c{k + 1} = c{k} * 1.5" for k in range(n)) + "\n"


@checked("gradients of functions in functions, where random numbers are drawn", 16)
def _(n: int) -> str:
    code = nested(n, lambda k, t: f"{{ fn f{k}(y: f64) -> f64 {{ {t} }}\n f{k}(sin(y)) }}", "y * random.normal()")
    return f"import random\nfn g(y: f64) -> f64 ! random {{ {code} }}\nfn h(y: f64) -> f64 ! random = grad(g)(y)\n"


@checked("gradients of functions that call another twice, where random numbers are drawn", 16)
def _(n: int) -> str:
    more = [f"fn g{k + 1}(y: f64) -> f64 ! random = g{k}(y) + g{k}(y * {k}.5)" for k in range(n)]
    before = ["import random", "fn g0(y: f64) -> f64 ! random = y * random.normal()", *more]
    return "\n".join(before) + f"\nfn h(y: f64) -> f64 ! random = grad(g{n})(y)\n"


@checked("structs in structs", 24)
def _(n: int) -> str:
    more = [f"struct S{k + 1} {{ a: S{k}, b: f64 }}\nstruct T{k + 1} {{ a: E{k}, b: E{k} }}" for k in range(n)]
    enums = [f"enum E{k + 1} {{ A{k + 1}(T{k + 1}), B{k + 1}(E{k}), C{k + 1}(E{k + 1}) }}" for k in range(n)]
    return "\n".join(["struct S0 { a: f64 }", "enum E0 { A0, B0(E0) }", *more, *enums, "fn g(y: f64) -> f64 = y", ""])


@checked("patterns in patterns", 8)
def _(n: int) -> str:
    pattern = nested(n, lambda k, t: f"Cons(h{k}, {t})", "_")
    return f"fn g(l: List<f64>) -> f64 = match l {{ {pattern} => h0 * h{n - 1}, _ => 0.0 }}\n"


@acting("nested branches that print", 12)
def _(n: int) -> str:
    code = nested(n, lambda k, t: f"if s > {k}.0 {{ print(s); s = s * x[{k % 8}]\n {t} }}", "s = sin(s)")
    return body(["var s = x[0]", code], "s")


@acting("conditions that print", 12)
def _(n: int) -> str:
    before = "fn h(y: f64) -> bool { print(y)\n y > 1.0 }"
    return body(["var s = x[0]", "if " + " and ".join(f"h(s * {k}.0)" for k in range(n)) + " { s = 2.0 }"], "s", before)


@acting("functions in functions that draw", 8)
def _(n: int) -> str:
    code = nested(n, lambda k, t: f"{{ let f{k} = |a{k}: f64| {t} + random.normal()\n f{k}(x[{k % 8}]) }}", "sin(a0)")
    return body([], code, "import random")


# ---- functions in the place of their calls ---------------------------------------------------------------------------
# Each of them calls others twice, so the calls are as many as there are paths: an exponential number.
TWICE: dict[str, Program] = {
    "local functions": lambda n: body(
        ["fn g0(y: f64) -> f64 = sin(y) * x[1]", "fn g1(y: f64) -> f64 = g0(y) + y", *_calls_both(n)], f"g{n + 1}(x[0])"
    ),
    "generic local functions": lambda n: body(
        [
            "fn g0(y) = sin(y) * x[1]",
            "fn g1(y) = g0(y) + y",
            *[t.replace(": f64) -> f64", ")") for t in _calls_both(n)],
        ],
        f"g{n + 1}(x[0])",
    ),
    "local functions of arrays": lambda n: body(
        [
            "fn g0(y: f64[m]) -> f64[m] = [sin(y[i]) * x[i % 8] for i < m]",
            "fn g1(y: f64[m]) -> f64[m] = g0(y) + y",
            *[t.replace("f64", "f64[m]") for t in _calls_both(n)],
        ],
        f"sum(g{n + 1}(x))",
    ),
    "local functions that recur": lambda n: body(
        [
            "fn g0(y: f64) -> f64 = sin(y) * x[1]",
            "fn g1(y: f64) -> f64 = g0(y) + y",
            *(
                f"fn g{k + 2}(y: f64) -> f64 = if y > {k}.5 {{ g{k + 2}(y - 1.0) }} else {{ g{k + 1}(y) * g{k}(y) }}"
                for k in range(n)
            ),
        ],
        f"g{n + 1}(x[0])",
    ),
    "local functions in loops": lambda n: body(
        [
            "fn g0(y: f64) -> f64 = sin(y) * x[1]",
            "fn g1(y: f64) -> f64 = g0(y) + y",
            *_calls_both(n),
            "var s = x[0]",
            f"for i < 8 {{ s = g{n + 1}(s * x[i]) }}",
        ],
        f"s + sum([g{n}(x[i]) for i < 8])",
    ),
    "local functions that do nothing": lambda n: body(
        ["fn g0(y: f64) -> f64 = y", *(f"fn g{k + 1}(y: f64) -> f64 = g{k}(g{k}(y))" for k in range(n))], f"g{n}(x[0])"
    ),
    "local functions that give functions": lambda n: body(
        [
            "fn g0(a: f64) = |y: f64| sin(y) * x[1] * a",
            "fn g1(a: f64) = |y: f64| g0(a)(y) + y",
            *(f"fn g{k + 2}(a: f64) = |y: f64| g{k + 1}(a)(y) + g{k}(y)(a * {k}.5)" for k in range(n)),
        ],
        f"g{n + 1}(x[0])(x[2])",
    ),
    "lambdas": lambda n: body(
        [
            "let g0 = |y: f64| sin(y) * x[1]",
            "let g1 = |y: f64| g0(y) + y",
            *(f"let g{k + 2} = |y: f64| g{k + 1}(y) + g{k}(y * {k}.5)" for k in range(n)),
        ],
        f"g{n + 1}(x[0])",
    ),
    "lambdas in structs": lambda n: body(
        [
            "let g0 = S(a = |y: f64| sin(y) * x[1])",
            "let g1 = S(a = |y: f64| (g0.a)(y) + y)",
            *(f"let g{k + 2} = S(a = |y: f64| (g{k + 1}.a)(y) + (g{k}.a)(y * {k}.5))" for k in range(n)),
        ],
        f"(g{n + 1}.a)(x[0])",
        "struct S { a: (f64) -> f64 }",
    ),
    "lambdas that only the run chooses": lambda n: body(
        [
            "let g0 = |y: f64| sin(y) * x[1]",
            "let g1 = |y: f64| g0(y) + y",
            *(f"let g{k + 2} = |y: f64| g{k + 1}(y) + g{k}(y * {k}.5)" for k in range(n)),
            f"let h = if x[0] > 1.0 {{ g{n + 1} }} else {{ g{n} }}",
        ],
        "h(x[0])",
    ),
    "lambdas that another function calls twice": lambda n: body(
        [
            "let g0 = |y: f64| sin(y) * x[1]",
            "fn twice(h: (f64) -> f64, y: f64) -> f64 = h(h(y))",
            *(f"let g{k + 1} = |y: f64| twice(g{k}, y) + {k}.5" for k in range(n)),
        ],
        f"g{n}(x[0])",
    ),
    "functions composed with themselves": lambda n: body(
        ["let g0 = |y: f64| sin(y) * x[1]", *(f"let g{k + 1} = compose{k}(g{k}, g{k})" for k in range(n))],
        f"g{n}(x[0])",
        "\n".join(f"fn compose{k}(f: (f64) -> f64, g: (f64) -> f64) = |x: f64| f(g(x)) + {k}.0\n" for k in range(n)),
    ),
    "functions composed with themselves by one function": lambda n: body(
        ["let g0 = |y: f64| sin(y) * x[1]", *(f"let g{k + 1} = compose(g{k}, g{k})" for k in range(n))],
        f"g{n}(x[0])",
        "fn compose(f: (f64) -> f64, g: (f64) -> f64) = |x: f64| f(g(x))",
    ),
    "constants": lambda n: body(
        [],
        f"c{n + 1} * x[0]",
        "const c0 = 1.5\nconst c1 = 2.5\n"
        + "\n".join(f"const c{k + 2} = c{k + 1} * 0.5 + c{k} * {k}.5" for k in range(n)),
    ),
}


def _calls_both(n: int) -> list[str]:
    return [f"fn g{k + 2}(y: f64) -> f64 = g{k + 1}(y) + g{k}(y * {k}.5)" for k in range(n)]


def specialised(functions: Mapping[str, core.FnDecl]) -> anf.Program:
    """The program that f and its gradient become before any pass."""
    specializer = Specializer()
    with recursion():
        for name in ("f", "slope"):
            specializer.entry(functions[name])
        return specializer.program


@pytest.mark.parametrize("name", TWICE)
def test_code_in_the_place_of_calls_is_linear_in_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")
    found, counts = [], []
    for n in (2, 12, 24, 48):
        checked = check(Source("test.dl", TWICE[name](n) + DERIVATIVE))
        assert not checked.diagnostics, [d.message for d in checked.diagnostics]
        programs: list[anf.Program] = []
        found.append(calls(lambda m=checked.module, made=programs: made.append(specialised(m.functions))))
        counts.append(sum(1 for f in programs[0].functions.values() for _ in (*f.params, *walk(f.body))))
    growth = exponent(*counts[1:])
    assert growth <= MOST, f"{name}: the code grows with the power {growth:.2f}: {counts}"
    no_faster_than_squares(name, found[1:])


def test_a_sum_has_as_many_terms_as_people_write() -> None:
    compiled(body([], " + ".join(f"x[{k % 8}] * {k}.0" for k in range(1500))) + DERIVATIVE)


def compiled(text: str, functions: Sequence[str] = ("f", "slope")) -> None:
    """Compiles f and its gradient as far as LLVM's text."""
    checked = check(Source("test.dl", text))
    assert not checked.diagnostics, [d.message for d in checked.diagnostics]
    made, entries = lower([request(checked.module.functions[name]) for name in functions], verify=False)
    names = [e.name for e in entries]
    nests = schedule(reachable(made, names), Lanes(256), GRAIN)
    emit(nests, names)


def calls(work: Callable[[], object]) -> Counter[str]:
    """Counts the calls of functions of the compiler while it works."""
    profile = cProfile.Profile(subcalls=False, builtins=False)
    profile.runcall(work)
    counts: Counter[str] = Counter()
    for entry in profile.getstats():
        code = entry.code
        if not isinstance(code, str) and code.co_filename.startswith(COMPILER) and code.co_name != "<module>":
            counts[f"{code.co_filename.removeprefix(COMPILER)}:{code.co_firstlineno} {code.co_name}"] += entry.callcount
    return counts


def exponent(few: int, more: int, most: int) -> float:
    """The exponent with which something grows, but for what it is from the beginning."""
    return math.log2(max(most - more, 1) / max(more - few, 1))


SELDOM = [pytest.param(name, marks=pytest.mark.slow) if k % 2 else name for k, name in enumerate(PROGRAMS)]
"""Every other program waits for `make test-slow`: all of them take a minute."""


@pytest.mark.parametrize("name", SELDOM)
def test_the_work_of_compiling_is_linear_in_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")  # nothing is kept of a program, nor read
    write, n = PROGRAMS[name]
    compiled(write(2) + DERIVATIVE)  # what is made once
    texts = [write(n * k) + DERIVATIVE for k in (1, 2, 4)]
    compare(name, [calls(partial(compiled, text)) for text in texts])


@pytest.mark.parametrize("name", CHECKED)
def test_the_work_of_checking_is_linear_in_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")  # or the second time is that of reading
    write, n = CHECKED[name]
    found = []
    for k in (0, 1, 2, 4):
        source = Source("test.dl", write(n * k or 2))
        assert not check(source).diagnostics
        found.append(calls(partial(check, source)))
    compare(name, found[1:])


@pytest.mark.parametrize("name", ACTING)
def test_the_work_of_compiling_what_acts_is_linear_in_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")
    write, n = ACTING[name]
    compiled(write(2).replace("-> f64 {", "{"), ["f"])
    texts = [write(n * k).replace("-> f64 {", "{") for k in (1, 2, 4)]
    compare(name, [calls(partial(compiled, text, ["f"])) for text in texts])


REFUSED: dict[str, Program] = {
    "products": lambda n: _twice("g{k}(a @ b, b) + g{k}(a, b @ a)", "a @ b", n),
    "elements": lambda n: _twice("g{k}(a[0], b) + g{k}(b, a)", "a[0]", n),
    "fields": lambda n: _twice("g{k}(a.x, b) + g{k}(b, a)", "a.x", n),
    "sums": lambda n: _twice("g{k}(a @ b, b) * g{k}(b, sum(a, axis = 0))", "sum(a, axis = 0) * b", n),
    "pairs": lambda n: _twice("(g{k}(a, b), g{k}(b, a))", "(a, b)", n),
    "lambdas": lambda n: body(
        ["let f0 = |y| (y, y)", *(f"let f{k + 1} = |y| f{k}(f{k}(y))" for k in range(n)), f"let z = f{n}(x[0])"], "x[1]"
    ),
    "functions that give functions": lambda n: body(
        [
            "let f0 = |y| |z| (y, z)",
            *(f"let f{k + 1} = |y| |z| f{k}(f{k}(y))(f{k}(z))" for k in range(n)),
            f"let z = f{n}(x[0])(x[1])",
        ],
        "x[1]",
    ),
    "pairs of pairs": lambda n: body(
        ["let f0 = (x, x)", *(f"let f{k + 1} = (f{k}, f{k})" for k in range(n)), f"let z = f{n}"], "x[1]"
    ),
    "structs of structs": lambda n: body(
        ["let f0 = P(x, x)", *(f"let f{k + 1} = P(f{k}, f{k})" for k in range(n)), f"let z = f{n}"],
        "x[1]",
        "struct P<a, b> { x: a, y: b }",
    ),
}
"""Programs in which a type, or what is left open about types, has as many parts as a tree that is as deep as they are
long."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_types_without_end_is_refused_soon(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")
    found = []
    for n in (2, 13, 26, 52):
        source = Source("test.dl", REFUSED[name](n))
        found.append(calls(partial(check, source)).total())
        if n > 13:
            assert {d.code for d in check(source).diagnostics} == {"E0291"}
    assert exponent(*found[1:]) <= 2.1


def test_what_branches_in_branches_save_passes_through_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is saved in d arms is a result of each of them."""
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")
    found = []
    for depth in (2, 12, 24, 48):
        code = nested(
            depth,
            lambda k, t: f"if s > {k}.0 {{ let j{k} = i64(s); s = s * x[j{k} % 8]\n {t}\n s *= x[(j{k} + 1) % 8] }}",
            "s = sin(s)",
        )
        found.append(calls(partial(compiled, body(["var s = x[0]", code], "s") + DERIVATIVE)))
    no_faster_than_squares("branches in branches", found[1:])


def test_functions_in_functions_capture_what_is_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of d functions captures what up to d others bind."""
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")
    found = []
    for depth in (2, 12, 24, 48):
        inner = " + ".join(f"sin(a{k})" for k in range(depth))
        code = nested(depth, lambda k, t: f"{{ let f{k} = |a{k}: f64| {t}\n f{k}(x[{k % 8}]) }}", inner)
        found.append(calls(partial(compiled, body([], code) + DERIVATIVE)))
    no_faster_than_squares("functions in functions", found[1:])


def test_what_loops_in_loops_save_passes_through_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is saved in d loops has d indices, in an array that d loops carry."""
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")
    found = []
    for depth in (2, 3, 6, 12):
        code = nested(
            depth, lambda k, t: f"if s > {k}.0 {{ for i{k} < 3 {{ s = cos(s) + x[i{k}]\n {t} }} }}", "s = sin(s)"
        )
        found.append(calls(partial(compiled, body(["var s = x[0]", code], "s") + DERIVATIVE)))
    growth = exponent(*[f.total() for f in found[1:]])
    assert growth <= 2.0, f"loops in loops: calls grow with the power {growth:.2f}"


def test_loops_in_loops_that_change_an_array_are_compared_with_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of d loops writes behind what it reads; a write has the ranges that its index depends on."""
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")
    found = []
    for depth in (2, 4, 8, 16):
        code = nested(depth, lambda k, t: f"for i{k} < 2 {{ y[i{k}] += {k}.5\n {t} }}", "y[0] = sin(y[1])")
        found.append(calls(partial(compiled, body(["var y = x", code], "sum(y)") + DERIVATIVE)))
    growth = exponent(*[f.total() for f in found[1:]])
    assert growth <= 1.7, f"loops that change an array in loops: calls grow with the power {growth:.2f}"


def test_calls_for_each_variant_take_the_fields_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of n calls has the fields of n variants as arguments, and beside that does what one arm does."""
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")
    found = []
    for n in (2, 16, 32, 64):
        variants, arms = ", ".join(f"A{k}(f64)" for k in range(n)), ", ".join(f"A{k}(y) => sin(y)" for k in range(n))
        before = f"enum E {{ {variants} }}\nfn g(e: E) -> f64 = match e {{ {arms} }}"
        text = body(["var s = x[0]", *(f"s += g(A{k}(s))" for k in range(n))], "s", before) + DERIVATIVE
        found.append(calls(partial(compiled, text)))
    few, more, most = [f.total() for f in found[1:]]
    assert exponent(few, more, most) <= 1.5, f"calls grow with the power {exponent(few, more, most):.2f}"


def test_values_inside_of_values_have_types_as_deep_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of d values of one another has a type of up to d parts."""
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")
    found = []
    for depth in (2, 6, 12, 24):
        value, pattern = nested(depth, lambda k, t: f"Some({t})", "x[0]"), nested(depth, lambda k, t: f"Some({t})", "y")
        text = body([f"let s = {value}"], f"match s {{ {pattern} => y * y, _ => 0.0 }}")
        found.append(calls(partial(compiled, text + DERIVATIVE)))
    growth = exponent(*[f.total() for f in found[1:]])
    assert growth <= 2.0, f"values inside of values: calls grow with the power {growth:.2f}"


def test_functions_that_capture_functions_have_as_many_parts_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of d functions has the numbers that up to d others captured, and is asked for them a few times."""
    monkeypatch.setenv("DLANG_CACHE_SIZE", "0")
    found = []
    for depth in (2, 8, 16, 32):
        lines = [f"let f{k + 1} = |a: f64| sin(a) * x[{k % 8}] + f{k}(a)" for k in range(depth)]
        text = body(["let f0 = |a: f64| sin(a)", *lines], f"f{depth}(x[0])")
        found.append(calls(partial(compiled, text + DERIVATIVE)))
    no_faster_than_squares("functions that capture functions", found[1:])


@pytest.mark.parametrize(
    "imports", [lambda k: f"import m{k - 1}\n" if k else "", lambda k: ""], ids=["one another", "all by one"]
)
def test_the_work_of_checking_modules_is_linear_in_their_number(
    imports: Callable[[int], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path / "cache"))
    found = []
    for n in (2, 16, 32, 64):
        folder = tmp_path / str(n)
        folder.mkdir()
        for k in range(n):
            (folder / f"m{k}.dl").write_text(f"{imports(k)}fn f(x: f64) -> f64 = {k}.5 * x\n")
        (folder / "main.dl").write_text("".join([f"import m{k}\n" for k in range(n)]) + f"let y = m{n - 1}.f(1.0)\n")
        source = read_source(str(folder / "main.dl"))
        found.append(calls(partial(check, source)))
    compare("modules", found[1:])


def no_faster_than_squares(name: str, found: Sequence[Counter[str]]) -> None:
    """Refuses calls that grow faster than the square of what they are for. found: of n, 2n and 4n of it."""
    few, more, most = found
    growth = SHARE * (most.total() - more.total())
    worse = [f for f, c in most.items() if c - more[f] > growth and exponent(few[f], more[f], c) > 2.1]
    assert not worse, f"{name}: calls of these grow faster: {worse}"


def compare(name: str, found: Sequence[Counter[str]]) -> None:
    """Refuses calls that grow faster than what they are for. found: of n, 2n and 4n of it."""
    few, more, most = found
    whole = exponent(few.total(), more.total(), most.total())
    growth = most.total() - more.total()
    worse = {
        function: (count, round(found, 2))
        for function, count in most.items()
        if (found := exponent(few[function], more[function], count)) > ALONE and count - more[function] > SHARE * growth
    }
    assert whole <= MOST, f"{name}: calls grow with the power {whole:.2f}: {worse}"
    assert not worse, f"{name}: calls of these functions grow faster: {worse}"
