"""What is computed from the elements of a product is computed on each of its blocks."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.optimize.programs import I64
from tests.specialize.support import lowered


def loops(text: str, name: str = "main") -> list[str]:
    """The lines of the loop nests, with numbers of variables left out."""
    made = lowered(text, name)
    nests = schedule(optimise(made.program, [made.entry.name]), Lanes(512))
    return [re.sub(r"(?<=[a-z])\.\d+", "", line) for line in print_program(nests).splitlines()]


LAYER = "fn main(w: f64[784, 512], b: f64[512], x: f64[n, 784]) -> f64[n, 512] = maximum(0.0, x @ w + b)"


def test_a_layer_is_one_product_with_bias_and_activation_on_each_block_and_no_other_pass_over_memory() -> None:
    lines = loops(LAYER)
    text = "\n".join(lines)
    assert text.count(" · ") == 1 and [line.strip() for line in lines if "allocate" in line] == [
        "&workspace = allocate f64[128, 192]"
    ]
    depths = [len(line) - len(line.lstrip()) for line in lines if " in " in line and "loop" in line]
    assert len(depths) == 3 and depths == sorted(depths)  # over blocks, their rows, their columns
    assert len(re.findall(r"&a\[.*\] (?:=|sum=) ", text)) == 2  # the product, and the result in its place


def test_the_weights_of_a_loop_are_packed_once_in_front_of_it() -> None:
    text = """
fn main(w: f64[k, k], x: f64[n, k], steps: i64) -> f64[n, k] {
  var h = x
  for _ < steps { h = tanh(h @ w) }
  h
}"""
    lines = loops(text)
    (pack,) = [k for k, line in enumerate(lines) if "pack " in line]
    (loop,) = [k for k, line in enumerate(lines) if "for " in line]
    (product,) = [k for k, line in enumerate(lines) if " · &panels" in line]
    (free,) = [k for k, line in enumerate(lines) if "free &panels" in line]
    assert pack < loop < product < free
    assert len(lines[pack]) - len(lines[pack].lstrip()) == len(lines[free]) - len(lines[free].lstrip()) == 2


def test_a_product_that_something_else_reads_too_stays_as_it_is() -> None:
    text = (
        "fn main(x: f64[n, 300], w: f64[300, 200]) -> (f64[n, 200], f64[n, 200]) {\n  let m = x @ w\n  (tanh(m), m)\n}"
    )
    lines = loops(text)
    assert len([line for line in lines if "loop" in line]) == 3


PROGRAMS = {
    "bias": "fn main(x: f64[n, k], w: f64[k, m], b: f64[m]) -> f64[n, m] = maximum(0.0, x @ w + b)",
    "transposed": "fn main(x: f64[n, k], w: f64[k, m], b: f64[m]) -> f64[m, n] = transpose(exp(x @ w * 0.01 + b))",
    "columns": "fn main(x: f64[n, k], w: f64[k, m], b: f64[m]) -> f64[m] = sum(maximum(0.0, x @ w + b), axis = 0)",
    "scalar": "fn main(x: f64[n, k], w: f64[k, m], b: f64[m]) -> f64 = sum((x @ w - b) ** 2)",
    "largest": "fn main(x: f64[n, k], w: f64[k, m], b: f64[m]) -> f64 = max(x @ w + b)",
    "several": """
fn main(x: f64[n, k], w: f64[k, m], b: f64[m]) -> (f64[n, m], f64[m], f64) {
  let a = maximum(0.0, x @ w + b)
  (a, sum(a, axis = 0), sum(a))
}""",
    "gradient": """
fn main(x: f64[n, k], w: f64[k, m], b: f64[m]) -> (f64[n, k], f64[k, m], f64[m]) =
  grad(|x, w, b| sum(tanh(x @ w * 0.01 + b) ** 2), wrt = (x, w, b))(x, w, b)
""",
}


SIZES = [(1, 1, 1), (0, 3, 4), (3, 0, 4), (7, 5, 129), (481, 3, 130), (40, 260, 17), (20, 30, 600)]
# of no elements there is no largest
CASES = [(name, sizes) for name in PROGRAMS for sizes in SIZES if name != "largest" or sizes[0] > 0]


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_epilogues_are_what_the_interpreter_computes(name: str, sizes: tuple[int, int, int]) -> None:
    n, k, m = sizes
    rng = np.random.default_rng(3)
    x, w, b = rng.normal(size=(n, k)), rng.normal(size=(k, m)), rng.normal(size=m)
    check(PROGRAMS[name], x, w, b)
    check(PROGRAMS[name], x, w, b, grain=1)


def check(text: str, *arrays: np.ndarray, grain: int = 0) -> None:
    made = lowered(text, "main")
    name = made.entry.name
    program = optimise(made.program, [name])
    params = program.functions[name].params
    kinds = [p.type for p in params if isinstance(p.type, Array)]
    known = {size.atom: n for t, a in zip(kinds, arrays, strict=True) for size, n in zip(t.shape, a.shape, strict=True)}
    sizes = [known[p] for p in params if p.type == I64]
    compiled = Engine(Host(), grain=grain).compile(program, [name])
    found, expected = (runs.run(name, [*sizes, *arrays]) for runs in (compiled, Interpreter(program)))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
