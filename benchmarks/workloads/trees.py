"""Networks whose shape is that of a tree: recursion, small products, and a tape that is a tree too."""

from __future__ import annotations

from typing import Any

from benchmarks.tools import Calls, program, scalar

TITLE = "recursive networks of 64 units on 32 random trees"
SIZES = ("recursive", "lstm")
DTYPES = ("f32",)
TOLERANCE = {"f64": 1e-10, "f32": 1e-3}
EAGER = True
UNITS, TREES, WORDS, DEPTH = 64, 32, 1000, 8

Tree = Any
"""A word, or a pair of trees."""


def data(size: str, dtype: str) -> Any:
    """The name of the network, its vectors of words, weights and bias, and the trees."""
    import numpy as np

    random = np.random.default_rng(0)

    def tree(depth: int) -> Tree:
        if depth == 0 or (depth < DEPTH - 2 and random.random() < 0.15):
            return int(random.integers(0, WORDS))
        return tree(depth - 1), tree(depth - 1)

    trees = [tree(DEPTH) for _ in range(TREES)]
    gates = UNITS if size == "recursive" else 5 * UNITS
    s = (2 * UNITS) ** -0.5
    weights = [random.normal(size=(WORDS, UNITS)) * 0.5, random.uniform(-s, s, (2, UNITS, gates)), np.zeros(gates)]
    return size, [a.astype(scalar(dtype)) for a in weights], trees


def words(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else words(tree[0]) + words(tree[1])


def code(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else [-1, *code(tree[0]), *code(tree[1])]


def dlang(given: Any) -> Calls:
    import numpy as np

    name, weights, trees = given
    m = program("trees")
    codes = [code(t) for t in trees]
    starts = np.cumsum([0, *map(len, codes[:-1])])
    joined = np.concatenate(codes)
    w = m.Weights(*weights)
    value, slope = getattr(m, f"{name}_value"), getattr(m, f"{name}_gradient")

    def gradient() -> Any:
        v, g = slope(w, joined, starts)
        return v, (g.words, g.children, g.bias)

    return {"value": lambda: value(w, joined, starts), "gradient": gradient}


def torch(given: Any, wrap: Any) -> Calls:
    import torch

    name, weights, trees = given
    active = [torch.tensor(a).requires_grad_() for a in weights]
    table, children, bias = active
    index = torch.tensor([word for tree in trees for word in words(tree)])
    zero = torch.zeros(UNITS, dtype=table.dtype)

    def recursive(tree: Tree, leaves: Any) -> Any:
        if isinstance(tree, int):
            return next(leaves)
        x, y = recursive(tree[0], leaves), recursive(tree[1], leaves)
        return torch.tanh(x @ children[0] + y @ children[1] + bias)

    def lstm(tree: Tree, leaves: Any) -> Any:
        if isinstance(tree, int):
            return next(leaves), zero
        (x, of_left), (y, of_right) = lstm(tree[0], leaves), lstm(tree[1], leaves)
        take, left, right, show, change = (x @ children[0] + y @ children[1] + bias).chunk(5)
        memory = torch.sigmoid(take) * torch.tanh(change)
        memory = memory + torch.sigmoid(left) * of_left + torch.sigmoid(right) * of_right
        return torch.sigmoid(show) * torch.tanh(memory), memory

    def loss() -> Any:
        # all leaves are gathered at once: a gather for each would make a whole table of zeros for each
        leaves = iter(torch.nn.functional.embedding(index, table).unbind(0))
        roots = [recursive(t, leaves) if name == "recursive" else lstm(t, leaves)[0] for t in trees]
        return torch.stack([(root**2).mean() for root in roots]).mean()

    def value() -> Any:
        with torch.no_grad():
            return loss()

    def gradient() -> Any:
        v = loss()
        return v.detach(), torch.autograd.grad(v, active)

    return {"value": value, "gradient": gradient}


def numpy(given: Any) -> Calls:
    """By hand, with a tape that is a tree; the Tree-LSTM is not written out."""
    import numpy as np

    name, (table, children, bias), trees = given
    if name != "recursive":
        return {}
    stacked = children.reshape(2 * UNITS, UNITS)

    def forward(tree: Tree) -> Any:
        if isinstance(tree, int):
            return table[tree], tree
        left, right = forward(tree[0]), forward(tree[1])
        x = np.concatenate([left[0], right[0]])
        return np.tanh(x @ stacked + bias), (x, left, right)

    def loss() -> Any:
        return np.mean([(forward(t)[0] ** 2).mean() for t in trees])

    def gradient() -> Any:
        of_table, of_stacked, of_bias = (np.zeros_like(a) for a in (table, stacked, bias))

        def backward(node: Any, g: Any) -> None:
            h, tape = node
            if isinstance(tape, int):
                of_table[tape] += g
                return
            x, left, right = tape
            g = g * (1 - h * h)
            of_bias.__iadd__(g)
            of_stacked.__iadd__(np.outer(x, g))
            of_x = stacked @ g
            backward(left, of_x[:UNITS])
            backward(right, of_x[UNITS:])

        v = 0.0
        for tree in trees:
            root = forward(tree)
            v += (root[0] ** 2).mean() / len(trees)
            backward(root, root[0] * table.dtype.type(2.0 / UNITS / len(trees)))
        return v, (of_table, of_stacked.reshape(children.shape), of_bias)

    return {"value": loss, "gradient": gradient}
