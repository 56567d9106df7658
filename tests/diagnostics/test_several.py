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
