"""The problems of ADBench: arguments from its files or from a seed, and results in the order in which it compares them.

Šrajer, Kukelova, Fitzgibbon: A benchmark of selected algorithmic differentiation tools on some problems in computer
vision and machine learning (2018). https://github.com/microsoft/ADBench
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-8


@dataclass(frozen=True, slots=True)
class Problem:
    """A program with its objective and derivative, and how their arguments and results are laid out.

    read: the arguments in a file of the benchmark, for a loaded module
    made: the arguments of random instances with these sizes
    value, derivative: results as one vector, in the order of the benchmark
    """

    name: str
    derivative_name: str
    read: Callable[[Any, Path], list[Any]]
    made: Callable[..., list[Any]]
    value: Callable[[Any], Array]
    derivative: Callable[[Any], Array]

    @property
    def path(self) -> Path:
        return HERE / f"{self.name}.dl"


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance that is timed: a file of the benchmark, its name in the file of references, and its sizes."""

    problem: Problem
    file: str
    reference: str | None
    sizes: tuple[int, ...]


class _Numbers:
    """The numbers of a file, handed out in order."""

    def __init__(self, path: Path) -> None:
        import numpy as np

        self.words = path.read_text(encoding="ascii").split()
        self.numbers = np.array(self.words, dtype=np.float64)
        self.at = 0

    def integers(self, count: int) -> list[int]:
        self.at += count
        return [int(w) for w in self.words[self.at - count : self.at]]

    def array(self, *shape: int) -> Array:
        import numpy as np

        count = int(np.prod(shape))
        self.at += count
        return self.numbers[self.at - count : self.at].reshape(shape)


def _joined(*parts: Any) -> Array:
    import numpy as np

    return np.concatenate([np.ravel(p) for p in parts])


def worst(found: Array, wanted: Array) -> float:
    """The benchmark's measure of an error, |a - b| / max(1, |a| + |b|), where it is largest; NaN counts as infinite."""
    import numpy as np

    errors = np.abs(found - wanted) / np.maximum(1.0, np.abs(found) + np.abs(wanted))
    return float(np.max(np.where(np.isnan(errors), np.inf, errors)))


# ---- mixtures of Gaussians -------------------------------------------------------------------------------------------
def _read_gmm(module: Any, path: Path) -> list[Any]:
    numbers = _Numbers(path)
    d, k, n = numbers.integers(3)
    arrays = [numbers.array(*s) for s in ((k,), (k, d), (k, d * (d + 1) // 2), (n, d))]
    (gamma,) = numbers.array(1)
    (m,) = numbers.integers(1)
    return [*arrays, module.Wishart(gamma=float(gamma), m=m)]


def _made_gmm(module: Any, d: int, k: int, n: int) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(2016)
    means, x = random.uniform(size=(k, d)), random.normal(size=(n, d))
    return [random.normal(size=k), means, random.normal(size=(k, d * (d + 1) // 2)), x, module.Wishart(gamma=1.0, m=0)]


GMM = Problem("gmm", "gradient", _read_gmm, _made_gmm, lambda value: _joined(value), lambda parts: _joined(*parts))


# ---- bundle adjustment -----------------------------------------------------------------------------------------------
def _ba(module: Any, sizes: tuple[int, int, int], camera: Array, point: Array, weight: float, seen: Array) -> list[Any]:
    """One camera, point, weight and place, as often as is asked for: so the benchmark's files are to be read."""
    import numpy as np

    n, m, p = sizes
    scene = module.Scene(cameras=np.tile(camera, (n, 1)), points=np.tile(point, (m, 1)), weights=np.full(p, weight))
    u, v = np.full(p, seen[0]), np.full(p, seen[1])
    return [scene, module.Seen(cameras=np.arange(p) % n, points=np.arange(p) % m, u=u, v=v)]


def _read_ba(module: Any, path: Path) -> list[Any]:
    numbers = _Numbers(path)
    n, m, p = numbers.integers(3)
    camera, point, weight, seen = (numbers.array(k) for k in (11, 3, 1, 2))
    return _ba(module, (n, m, p), camera, point, float(weight[0]), seen)


def _made_ba(module: Any, n: int, m: int, p: int) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(2016)
    camera = random.normal(size=11) * [1, 1, 1, 50, 50, 50, 500, 10, 10, 0.1, 0.01]
    return _ba(module, (n, m, p), camera, random.normal(size=3) * 5, random.uniform(), random.normal(size=2) * 500)


def _ba_value(result: Any) -> Array:
    errors, of_weights = result
    return _joined(errors.T, of_weights)


def _ba_derivative(result: Any) -> Array:
    import numpy as np

    of_u, of_v, of_weights = result
    return _joined(np.stack([of_u, of_v]).transpose(2, 0, 1), of_weights)


BA = Problem("ba", "jacobian_rows", _read_ba, _made_ba, _ba_value, _ba_derivative)


# ---- long short-term memory ------------------------------------------------------------------------------------------
def _read_lstm(module: Any, path: Path) -> list[Any]:
    numbers = _Numbers(path)
    layers, c, b = numbers.integers(3)
    network = module.Network(numbers.array(layers, 2, 4, b), *numbers.array(3, b))
    return [network, numbers.array(layers, 2, b), numbers.array(c, b)]


def _made_lstm(module: Any, layers: int, c: int, b: int) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(2016)
    network = module.Network(random.uniform(size=(layers, 2, 4, b)), *random.uniform(size=(3, b)))
    # a sequence is the bits of characters
    return [network, random.uniform(size=(layers, 2, b)), random.integers(0, 2, size=(c, b)).astype(np.float64)]


def _lstm_derivative(g: Any) -> Array:
    return _joined(g.gates, g.input, g.output, g.bias)


LSTM = Problem("lstm", "gradient", _read_lstm, _made_lstm, lambda value: _joined(value), _lstm_derivative)


PROBLEMS = (GMM, BA, LSTM)

INSTANCES = (
    Instance(GMM, "gmm_d2_K5.txt", None, (2, 5, 1000)),
    Instance(GMM, "gmm_d10_K25.txt", "gmm_d10_k25_n1k", (10, 25, 1000)),
    Instance(GMM, "gmm_d32_K25.txt", None, (32, 25, 1000)),
    Instance(BA, "ba1_n49_m7776_p31843.txt", "ba1", (49, 7776, 31843)),
    Instance(BA, "ba4_n372_m47423_p204472.txt", "ba4", (372, 47423, 204472)),
    Instance(LSTM, "lstm_l2_c1024.txt", "lstm_l2_c1024", (2, 1024, 14)),
    Instance(LSTM, "lstm_l4_c1024.txt", "lstm_l4_c1024", (4, 1024, 14)),
)
