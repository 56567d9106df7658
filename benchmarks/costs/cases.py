"""What is counted: functions of the files beside this one, each at two sizes, so that growth is seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """A function of a file, and the values of its sizes (and of integers that it takes), smaller and larger."""

    name: str
    file: str
    function: str
    small: Mapping[str, int]
    large: Mapping[str, int]


def _models(function: str, small: Mapping[str, int], **larger: int) -> Case:
    return Case(function, "models.dl", function, small, {**small, **larger})


def _traps(function: str, small: Mapping[str, int], **larger: int) -> Case:
    return Case(function, "traps.dl", function, small, {**small, **larger})


MODELS = (
    _models("mlp", {"batch": 8, "n": 6, "m": 10}, batch=16, n=12, m=20),
    _models("lstm", {"steps": 4, "batch": 3, "n": 5, "m": 6}, steps=8, m=12),
    _models("tree_lstm", {"m": 6, "depth": 3}, depth=5),
    _models("transformer", {"t": 6, "heads": 2, "features": 8, "d": 4, "wide": 16}, t=12, features=16),
    _models("convnet", {"batch": 2, "size": 8, "c": 3, "d": 4}, batch=4, size=12),
    _models("nbody", {"n": 4, "steps": 4}, n=8, steps=8),
    _models("rk4", {"n": 5, "steps": 4}, n=10, steps=8),
    _models("dopri", {"n": 4, "times": 3}, times=6),
    _models("gaussian_process", {"n": 10, "d": 3}, n=20),
)

ADBENCH = tuple(
    Case(f"adbench {name}", f"../adbench/{name}.dl", "objective", small, {**small, **larger})
    for name, small, larger in (
        ("gmm", {"d": 3, "k": 4, "n": 10}, {"d": 6, "n": 40}),
        ("lstm", {"l": 2, "b": 5, "c": 5}, {"b": 10, "c": 20}),
    )
)

TRAPS = (
    _traps("nested_sums", {"n": 8}, n=16),
    _traps("softmax", {"n": 6, "m": 8}, n=12, m=16),
    _traps("mixture", {"n": 8, "k": 3, "d": 3}, n=16, k=6, d=4),
    _traps("product", {"n": 5, "m": 6, "p": 7}, n=10, m=12, p=14),
    _traps("products", {"n": 5, "m": 6}, m=24),
    _traps("gather", {"n": 9, "m": 5, "k": 12}, n=18, k=36),
    _traps("accumulate", {"n": 10}, n=40),
    _traps("stencil", {"n": 8, "m": 8}, n=20, m=20),
    _traps("clipped", {"n": 8, "m": 8}, n=20, m=20),
    _traps("wrapped", {"n": 8, "m": 8}, n=20, m=20),
    _traps("weighted", {"n": 12, "m": 12}, n=24, m=24),
    _traps("flow", {"n": 12}, n=40),
    _traps("diffusion", {"n": 16, "steps": 4}, n=48, steps=12),
    _traps("convolution", {"n": 16, "c": 3, "d": 4}, n=40, c=5),
    _traps("changed_spaces", {"n": 4, "m": 5, "k": 6}, n=8, m=10, k=12),
    _traps("columns", {"n": 6}, n=24),
    _traps("heat", {"n": 8, "steps": 4}, n=16, steps=12),
    _traps("pairs", {"n": 10}, n=40),
    _traps("running_rows", {"n": 8, "m": 5}, n=16, m=20),
    _traps("updates", {"n": 20}, n=80),
    _traps("with_helper", {"n": 20}, n=80),
    _traps("recurrent", {"n": 6, "steps": 4}, n=12, steps=16),
    _traps("wavefront", {"n": 5, "m": 6}, n=15, m=18),
    _traps("nested_loops", {"n": 5, "m": 6}, n=15, m=18),
    _traps("loop_in_arm", {"n": 6, "m": 6}, n=18, m=18),
    _traps("one_element", {"n": 10}, n=40),
    _traps("until", {"n": 10}, n=40),
    _traps("recursive", {"n": 20}, n=80),
    _traps("divided", {"n": 16}, n=64),
)
