"""Several mistakes in one text: one message each, in the order of the text."""

from __future__ import annotations

from random import Random

import pytest

from dlang.diagnostics import Source
from dlang.driver import check

# Each is one mistake, in a declaration of its own; `NAME` is the name of the declaration.
MISTAKES = {
    "E0201": "fn NAME(x: f64) -> f64 = nope(x)\n",
    "E0207": "fn NAME(x: f46) -> f64 = 1.0\n",
    "E0208": "fn NAME(x: f64) -> f64 {\n  let y = x\n  y = 2.0\n  y\n}\n",
    "E0301": "fn NAME(x: f64, y: f32) -> f64 = x + y\n",
    "E0302": "fn NAME(x: i64) -> f64 = sqrt(x)\n",
    "E0303": "fn NAME(x: f64) -> f64 = abs(x, x)\n",
    "E0315": "fn NAME(x: f64[n], i: f64) -> f64 = x[i]\n",
    "E0401": "fn NAME(x: f64[n], y: f64[m]) -> f64[n] = y\n",
    "E0402": "fn NAME(x: f64[n]) -> f64 = x[0, 0]\n",
    "E0403": "fn NAME(x: f64[n]) -> f64[n] = [v for v in x if v > 0.0]\n",
    "E0405": "fn NAME() -> f64[n] = zeros(n)\n",
    "E0408": "fn NAME() -> f64 = sum(1.0 for i)\n",
    "E0409": "fn NAME(a: f64[n, k], x: f64[n]) = a @ x\n",
    "E0410": "fn NAME(x: f64[n], y: f64[m]) = x * y\n",
    "E0801": "fn NAME(x: f64[n]) -> f64 = x[-1]\n",
    "E0102": "fn NAME(x: f64) -> f64 = (x + 1.0\n",
    "E0312": "fn NAME(x: f64) -> f64 ! () {\n  print(x)\n  x\n}\n",
    "E0501": "fn NAME(o: Option<f64>) -> f64 = match o { Some(x) => x }\n",
}
GOOD = "fn NAME(x: f64[n]) -> f64 = sum(x * x)\n"


def text_of(codes: list[str]) -> tuple[str, list[int]]:
    """A text with these mistakes between good declarations, and the lines that each of them takes."""
    out, lines = "", []
    for k, code in enumerate(codes):
        out += GOOD.replace("NAME", f"good{k}") + "\n"
        lines.append(out.count("\n") + 1)
        out += MISTAKES[code].replace("NAME", f"bad{k}") + "\n"
    return out, lines


@pytest.mark.parametrize("code", MISTAKES)
def test_each_mistake_alone_has_its_code(code: str) -> None:
    assert [d.code for d in check(Source("one.dl", text_of([code])[0])).diagnostics] == [code]


@pytest.mark.parametrize("seed", range(12))
def test_five_mistakes_give_five_messages_in_the_order_of_the_text(seed: int) -> None:
    codes = Random(seed).sample(sorted(MISTAKES), 5)
    text, starts = text_of(codes)
    found = check(Source("five.dl", text)).diagnostics
    assert [d.code for d in found] == codes
    ends = [*starts[1:], text.count("\n") + 1]
    for d, start, end in zip(found, starts, ends, strict=True):
        assert d.span is not None and start <= d.span.line < end


def test_mistakes_in_one_function_are_reported_in_the_order_of_its_text() -> None:
    text = 'fn f(x: f64[n]) -> f64 {\n  let a = nope\n  let b: i64 = "s"\n  let c = x[-1]\n  sum(x) + other\n}\n'
    lines = [d.span.line for d in check(Source("f.dl", text)).diagnostics if d.span]
    assert lines == [2, 3, 4, 5]


# ---- one mistake that much follows from ------------------------------------------------------------------------------
CONSEQUENCES = {
    "a field of an unknown type": (
        "E0207",
        """\
struct P { a: f64, b: Vektor }
fn f1(p: P) = p.a
fn f2(p: P) = p.b
fn f3(p: P) = p.b + 1.0
fn f4() = P(1.0, 2.0)
fn f5(p: P) = P(..p, b = 3.0)
fn f6(p: P) -> f64 = p.b
fn f7(p: P) = p.b[0]
fn f8(p: P) = p.b.width
fn f9(p: P) = match p { P(a, b) => a + b }
fn f10(ps: P[n]) = sum(p.b for p in ps)
""",
    ),
    "a struct without its parameter": (
        "E0207",
        "struct L { w: f64[n] }\nfn f(l: L) = sum(l.w)\nfn g() = L([1.0])\nfn h(l: L, x: f64[n]) = l.w + x\n",
    ),
    "an alias of an unknown type": ("E0207", "type V = f46[3]\nfn f(v: V) = sum(v)\nfn g() -> V = [1.0, 2.0]\n"),
    "an unknown module that is used twenty times": (
        "E0203",
        "import numpy as np\nfn f(x: f64[n]) = np.sum(x) + np.exp(np.zeros(3)) * np.pi\n"
        + "".join(f"fn g{k}(x: f64[n]) -> f64[n] = np.exp(x) * np.log(x) + np.norm(x)\n" for k in range(6)),
    ),
    "a name that a module lacks": (
        "E0206",
        "import nn { reluu }\nfn f(x: f64[n]) = reluu(x) + reluu(1.0)\nfn g(x: f64[n]) = sum(reluu(reluu(x)))\n",
    ),
    "an unknown type of a parameter": (
        "E0207",
        'fn f(x: f46) -> f64 = x + 1.0\npullback f(x) -> y = |dy| dy\nfn g() = f("a") + grad(f)(1.0)\n',
    ),
    "a body that gives nothing known": (
        "E0201",
        "fn f(x: f64) = x + nope\nfn g(x: f64) = f(x) + 1.0\nfn h(x: f64) -> str = f(x)\nfn k(x: f64) = f(x)[0]\n",
    ),
    "a `let` whose value is a mistake": (
        "E0201",
        """\
fn f(x: f64) -> f64 {
  let y = nope(x)
  let z = y + 1.0
  let w = y[0] + y.width
  for v in y { print(v) }
  if y { z } else { w }
}
""",
    ),
    "a constant whose value is a mistake": (
        "E0201",
        "const c = nope + 1\nfn f(x: f64) = x * c\nfn g() -> f64[c] = zeros(c)\n",
    ),
    "a name that is assigned and not declared": (
        "E0201",
        "fn f(x: f64) -> f64 {\n  total = 0.0\n  for k < 3 { total += x }\n  total\n}\n",
    ),
    "a call without an argument": (
        "E0303",
        "fn g(a: f64, b: f64) -> f64 = a\nfn f(x: f64) -> f64 {\n  let y = g(x)\n  y + 1.0\n}\n",
    ),
    "a missing arm": (
        "E0501",
        "fn f(o: Option<f64>) -> f64 {\n  let y = match o { Some(v) => v }\n  y + 1.0\n}\n",
    ),
    "a loss with a mistake": (
        "E0201",
        "fn loss(w: f64[n]) -> f64 = sum(w * nope)\nfn step(w: f64[n]) -> f64[n] = w - grad(loss)(w)\n",
    ),
}


@pytest.mark.parametrize("what", CONSEQUENCES)
def test_a_mistake_that_much_follows_from_gives_one_message(what: str) -> None:
    code, text = CONSEQUENCES[what]
    assert [d.code for d in check(Source("one.dl", text)).diagnostics] == [code]


@pytest.mark.parametrize(
    "broken",
    [
        "fn f(x: f64) -> f64 {\n  let y = x\n  y\n",
        "fn f(x: f64) -> f64 {\n  if x > 0.0 {\n    let y = x\n  x\n}\n",
        "fn f(x: f64) -> f64 {\n  x\n}}\n",
        "fn f(x: f64) -> f64 = (x * 2.0\n",
        'fn f() -> str = "abc\n',
        "def f(x):\n    return x\n",
        "fn f(x: f64) -> f64:\n    return x\n",
        "struct P { a f64 }\n",
        "/* not a comment */\n",
        "import nn, math\n",
    ],
)
def test_a_mistake_of_grammar_in_the_first_declaration_hides_no_mistake_of_types_in_the_last(broken: str) -> None:
    found = check(Source("two.dl", broken + "\nfn g(x: f64) -> f64 = x\n\nfn h(x: f64) -> i64 = x\n")).diagnostics
    assert [d.code[:3] for d in found] == ["E01", "E03"]
