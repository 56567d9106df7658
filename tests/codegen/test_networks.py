"""What the gradients of networks are made of: products of matrices, and passes over memory that are vectors."""

from __future__ import annotations

import re
from functools import cache

from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.ir.anf import Contract, Copy, Program, View
from dlang.pipeline import optimise
from tests.optimize.programs import count
from tests.specialize.support import lowered

MLP = """
import nn { Dense, dense, relu, cross_entropy }

struct Mlp<a> { first: Dense<a, 784, 512>, second: Dense<a, 512, 256>, last: Dense<a, 256, 10> }

fn value(model: Mlp<f32>, x: f32[n, 784], labels: i64[n]) -> f32 {
  let hidden = relu(dense(model.second, relu(dense(model.first, x))))
  cross_entropy(dense(model.last, hidden), labels)
}

fn gradient(model: Mlp<f32>, x: f32[n, 784], labels: i64[n]) -> (f32, Mlp<f32>) =
  value_and_grad(value)(model, x, labels)
"""

CONVOLUTION = """
import nn { conv2d, relu }

fn value(w: f32[3, 3, 4, 8], v: f32[3, 3, 8, 16], x: f32[n, 20, 20, 4]) -> f32 =
  sum(relu(conv2d(v, relu(conv2d(w, x)))))

fn gradient(w: f32[3, 3, 4, 8], v: f32[3, 3, 8, 16], x: f32[n, 20, 20, 4]) -> (f32[3, 3, 4, 8], f32[3, 3, 8, 16]) =
  grad(value, wrt = (w, v))(w, v, x)
"""


@cache
def optimised(text: str) -> Program:
    made = lowered(text, "gradient")
    return optimise(made.program, [made.entry.name], verify=True)


def usual(program: Program) -> str:
    """The loops without what runs only where a product is small or has failed."""
    lines = print_program(schedule(program, Lanes(512))).splitlines()
    out: list[str] = []
    hidden: list[int] = []
    last = "then"
    for line in lines:
        depth = len(line) - len(line.lstrip())
        while hidden and depth < hidden[-1]:
            hidden.pop()
        if re.search(r"(^ *| = )if ", line):
            last = "otherwise" if "fits" in line else "then"
        if hidden and depth >= hidden[-1]:
            continue
        then, otherwise = "if wrong" in line, line.strip().startswith("} else")
        if (then and last == "then") or (otherwise and last == "otherwise"):
            hidden.append(depth + 2)
            continue
        out.append(line)
    return "\n".join(out)


def around_sum(text: str, line: int) -> str:
    """The head of the loop around a line."""
    lines = text.splitlines()
    depth = len(lines[line]) - len(lines[line].lstrip())
    return next(x for x in reversed(lines[:line]) if len(x) - len(x.lstrip()) < depth and x.strip().startswith("loop"))


def test_the_gradient_of_a_network_of_three_layers_is_eight_products_without_copies_or_scalar_sums() -> None:
    program = optimised(MLP)
    assert count(program, Contract) == 8
    assert count(program, View, Copy) == 0
    text = usual(program)
    assert text.count(" · ") == 8
    assert "packed" not in text and "matrix" not in text
    loops = [around_sum(text, k) for k, line in enumerate(text.splitlines()) if " sum= " in line and "[" in line]
    wide = [loop for loop in loops if re.search(r"0\.\.(256|512)\b|\+ 128", loop)]
    assert len(wide) == 2 and all(" by 32" in loop for loop in wide)  # the biases, a row at a time


def test_a_convolution_and_its_gradients_are_products_of_blocks_of_windows() -> None:
    program = optimised(CONVOLUTION)
    assert count(program, Contract) == 4  # two forward, two of kernels; the gradient of an image ends at its border
    text = usual(program)
    allocated = re.findall(r"&(\w+)\.\d+ = allocate f32\[(.*)\]", text)
    assert all(shape.count(",") <= 3 for _, shape in allocated)  # no array of all windows
    # eight columns are done in tiles, sixteen by tables; the windows of the kernels of eight columns are gathered
    assert [name for name, _ in allocated].count("windows") == 1
    assert len(re.findall(r"columns &offsets\.\d+\] · &panels", text)) == 2
    assert [name for name, _ in allocated].count("products") == 1  # added to the windows of the image's gradient
