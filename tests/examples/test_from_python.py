"""Optimisers of SciPy and Optax work on functions of the language."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "from_python"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"from_python_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_chain_hangs_as_a_catenary() -> None:
    pytest.importorskip("scipy")
    minimise = script("minimise")
    places, found = minimise.hang(11)
    assert np.abs(found.jac).max() < 1e-6
    np.testing.assert_allclose(places[::-1, 1], places[:, 1], atol=1e-6)
    np.testing.assert_allclose(places[::-1, 0], 2.0 - places[:, 0], atol=1e-6)
    assert abs(places[:, 1].min() + minimise.sag_of_a_catenary(3.0, 2.0)) < 0.01


def test_optax_trains_a_reader_of_digits() -> None:
    pytest.importorskip("optax")
    first, last, share = script("train").trained(60)
    assert abs(first - np.log(10.0)) < 1e-9 and last < 0.3 and share > 0.85
