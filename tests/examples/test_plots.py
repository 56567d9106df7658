"""The scripts beside some examples draw their pictures, where matplotlib is there."""

from __future__ import annotations

from runpy import run_path
from typing import Any

import pytest

from tests.examples.running import ROOT, thorough

SMALLER: dict[str, dict[str, Any]] = {
    "billiards": {"tries": 20},
    "flow": {"steps": 50},
    "rendering": {"pixels": 8, "steps": 10},
    "sunspots": {"steps": 20},
    "three_bodies": {"steps": 100},
}


@thorough
@pytest.mark.parametrize("example", SMALLER)
def test_a_picture_is_drawn(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="install '.[plots]'")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    figure = run_path(str(ROOT / "examples" / example / "plot.py"))["picture"](**SMALLER[example])
    figure.canvas.draw()
    assert all(axis.has_data() for axis in figure.axes)


def test_every_script_is_tried() -> None:
    assert {script.parent.name for script in ROOT.glob("examples/*/plot.py")} == set(SMALLER)
