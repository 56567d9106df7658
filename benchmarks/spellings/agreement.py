"""Checks that spellings of one function agree in value and gradient, and that the gradient is the slope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STEP = 1e-6
"""How far the arguments move for a central difference."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a spelling: its value, and an array for each parameter of the gradient."""

    value: float
    gradient: tuple[Any, ...]


def answer(result: tuple[Any, Any]) -> Answer:
    """The answer in the result of a `value_and_grad`."""
    import numpy as np

    value, gradient = result
    parts = gradient if isinstance(gradient, tuple) else (gradient,)
    return Answer(float(value), tuple(np.asarray(part, np.float64) for part in parts))


def difference(a: Answer, b: Answer, tolerance: float) -> str | None:
    """In what two answers differ by more than rounding; None if they agree."""
    import numpy as np

    if not abs(a.value - b.value) <= tolerance * max(abs(a.value), abs(b.value)):
        return f"the values are {a.value!r} and {b.value!r}"
    for k, (x, y) in enumerate(zip(a.gradient, b.gradient, strict=True)):
        if x.shape != y.shape:
            return f"part {k} of the gradients has the shapes {x.shape} and {y.shape}"
        largest = max(np.max(np.abs(x), initial=0.0), np.max(np.abs(y), initial=0.0))
        apart = np.abs(x - y)
        if not np.all(apart <= tolerance * largest):
            return f"part {k} of the gradients differs by {np.max(apart):.3g} of {largest:.3g}"
    return None


def finite(a: Answer) -> bool:
    import numpy as np

    return bool(np.isfinite(a.value)) and all(np.all(np.isfinite(part)) for part in a.gradient)


def outliers(answers: Mapping[str, Answer], tolerance: float) -> dict[str, str]:
    """The spellings that differ from what most agree on, each with its difference."""
    if not answers:
        return {}
    votes = {
        name: sum(difference(one, other, tolerance) is None for other in answers.values())
        for name, one in answers.items()
    }
    right = max(votes, key=lambda name: votes[name])
    found = {name: difference(one, answers[right], tolerance) for name, one in answers.items()}
    return {name: f"differs from {right}: {text}" for name, text in found.items() if text is not None}


def along_a_line(
    function: Any, arguments: Mapping[str, Any], wrt: tuple[str, ...], found: Answer
) -> tuple[float, float]:
    """The slope of the value along one direction: by the gradient, and by a central difference."""
    import numpy as np

    random = np.random.default_rng(1)
    directions = {name: random.normal(size=np.shape(arguments[name])) for name in wrt}

    def at(step: float) -> float:
        moved = {name: value + step * directions[name] if name in wrt else value for name, value in arguments.items()}
        return float(function(*(float(v) if np.ndim(v) == 0 and name in wrt else v for name, v in moved.items())))

    slope = sum(float(np.sum(directions[name] * part)) for name, part in zip(wrt, found.gradient, strict=True))
    return slope, (at(STEP) - at(-STEP)) / (2 * STEP)
