"""Pictures by matplotlib, in files and windows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import error
from dlang.drafts import draft
from dlang.tools.files import writing

if TYPE_CHECKING:
    from dlang.tools.pictures.picture import Picture

_PAUSE = 0.02  # seconds between two looks at what happens to windows
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def written(picture: Picture, path: str) -> None:
    """Writes a picture to a file, in the format of its name. Raises `DlangError`."""
    _needed()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    _draw(figure, picture)
    try:
        kind = os.path.splitext(path)[1].removeprefix(".").lower() or "png"
        with writing(path), draft(path) as out:
            figure.savefig(out, format=kind, dpi=150)
    except ValueError as e:  # of a format that it does not know
        raise error("E0981", f"cannot write `{path}`: {e}", None) from None


def image(picture: Picture) -> bytes | None:
    """A picture as PNG; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure, out = Figure(figsize=(8, 5), layout="constrained"), BytesIO()
    _draw(figure, picture)
    figure.savefig(out, format="png", dpi=100)
    return out.getvalue()


def shown(picture: Picture) -> None:
    """Shows a picture in a window, and goes on. Raises `DlangError`."""
    _needed()
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _DISPLAYS):
        help = ("plot in the terminal, or to a file: `:plot y > picture.png`",)
        raise error("E0981", "there is no display to open a window on", None, help=help)
    from matplotlib import pyplot

    try:
        figure = pyplot.figure(layout="constrained")
    except Exception as e:  # toolkits raise what they like
        raise error("E0981", f"no window can be opened: {e}", None) from None
    if figure.canvas.required_interactive_framework is None:
        pyplot.close(figure)
        help = ("install a toolkit, such as PyQt6, or plot to a file: `:plot y > picture.png`",)
        raise error("E0981", "matplotlib has found no toolkit that opens windows here", None, help=help)
    _draw(figure, picture)
    pyplot.show(block=False)
    pyplot.pause(0.1)


def alive(waits: Callable[[], bool]) -> None:
    """Has open windows answer as long as a condition holds, and returns at once if there are none."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    while pyplot is not None and pyplot.get_fignums() and waits():
        for number in pyplot.get_fignums():
            pyplot.figure(number).canvas.flush_events()
        time.sleep(_PAUSE)


def _needed() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        help = ("pip install 'dlang[plots]'",)
        raise error("E0981", "pictures in files and windows are matplotlib's, which is not installed", None, help=help
                    ) from None  # fmt: skip


def _draw(figure: Any, picture: Picture) -> None:
    axes = figure.add_subplot()
    if picture.matrix is not None:
        figure.colorbar(axes.imshow(picture.matrix, aspect="auto", interpolation="nearest"))
        axes.set_title(picture.names[0])
        return
    for name, (x, y) in zip(picture.names, picture.curves, strict=True):
        if picture.kind == "points":
            axes.scatter(x, y, s=12, label=name)
        else:
            axes.plot(x, y, label=name)
    if len(picture.names) > 1:
        axes.legend()
    else:
        axes.set_ylabel(picture.names[0])
    axes.set_xlabel(picture.across)
    axes.grid(alpha=0.3)
