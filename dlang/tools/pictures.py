"""Pictures of arrays: in characters, and by matplotlib in files and windows."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from dlang.diagnostics import error
from dlang.drafts import draft
from dlang.lazy_modules import np
from dlang.tools.arguments import writing

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column in a cell
_BLANK = 0x2800
_COLOURS = (36, 33, 35, 32, 34, 31)
_SHADES = " ░▒▓█"
_STEPS = 24  # greys of a terminal, from black to white
_GREY = 232


@dataclass(slots=True)
class Canvas:
    """width, height: in cells of 2 × 4 dots. series: which drew last in each cell, for its colour."""

    width: int
    height: int
    cells: dict[tuple[int, int], int] = field(default_factory=dict)
    series: dict[tuple[int, int], int] = field(default_factory=dict)

    def dot(self, x: int, y: int, series: int) -> None:
        """Sets a dot; `x` counts from the left, `y` from the top."""
        cell = (y // 4, x // 2)
        self.cells[cell] = self.cells.get(cell, 0) | _DOTS[y % 4][x % 2]
        self.series[cell] = series

    def line(self, start: tuple[int, int], end: tuple[int, int], series: int) -> None:
        (x0, y0), (x1, y1) = start, end
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for k in range(steps + 1):
            self.dot(round(x0 + (x1 - x0) * k / steps), round(y0 + (y1 - y0) * k / steps), series)

    def rows(self, colour: bool) -> list[str]:
        """Its lines of text."""
        out = []
        for r in range(self.height):
            row = ""
            for c in range(self.width):
                character = chr(_BLANK + self.cells[r, c]) if (r, c) in self.cells else " "
                row += painted(character, self.series[r, c]) if colour and (r, c) in self.cells else character
            out.append(row.rstrip())
        return out


def painted(text: str, series: int) -> str:
    """A text in the colour of a series."""
    return f"\x1b[{_COLOURS[series % len(_COLOURS)]}m{text}\x1b[0m"


def graph(
    curves: Sequence[tuple[Any, Any]],
    names: Sequence[str],
    width: int,
    height: int,
    *,
    points: bool,
    colour: bool,
    across: str = "",
) -> str:
    """Curves of `x` and `y` in one frame with the ends of its axes. Points that aren't finite are left out.

    width: columns in all. names: of the curves, which are shown if there are several. across: the name of what is
    below, which is shown if there is room.
    """
    xs, ys = (np.concatenate([np.asarray(c[k], float) for c in curves]) for k in (0, 1))
    finite = np.isfinite(xs) & np.isfinite(ys)
    if not finite.any():
        return "nothing to plot: no point is finite"
    left, right = _range(xs[finite])
    low, high = _range(ys[finite])
    labels = [f"{high:.4g}", f"{low:.4g}"]
    margin = max(map(len, labels))
    canvas = Canvas(max(width - margin - 2, 10), height)
    dots = 2 * canvas.width - 1, 4 * canvas.height - 1
    for number, (x, y) in enumerate(curves):
        before: tuple[int, int] | None = None
        for a, b in zip(np.asarray(x, float).tolist(), np.asarray(y, float).tolist()):
            if not (np.isfinite(a) and np.isfinite(b)):
                before = None
                continue
            at = round(_share(a, left, right) * dots[0]), round(_share(b, high, low) * dots[1])
            if before is None or points:
                canvas.dot(*at, number)
            else:
                canvas.line(before, at, number)
            before = at
    lines = []
    for k, row in enumerate(canvas.rows(colour)):
        label = labels[0] if k == 0 else labels[1] if k == height - 1 else ""
        lines.append(f"{label:>{margin}} ┤{row}" if label else f"{'':>{margin}} │{row}")
    ends = f"{left:.4g}", f"{right:.4g}"
    lines.append(" " * margin + " └" + "─" * canvas.width)
    room = canvas.width - sum(map(len, ends))
    lines.append(" " * (margin + 2) + ends[0] + (across if len(across) < room - 1 else "").center(room) + ends[1])
    if len(names) > 1:
        shown = [painted(n, k) if colour else n for k, n in enumerate(names)]
        lines.append(" " * (margin + 2) + "   ".join(shown))
    return "\n".join(lines)


def _range(values: Any) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    apart = max(0.5, 1e-3 * abs(low)) if high == low else 0.0
    return low - apart, high + apart


def _share(value: Any, start: float, end: float) -> Any:
    """How far it is from one to the other, between 0 and 1."""
    if math.isinf(end - start):
        return _share(value / 2, start / 2, end / 2)
    return (value - start) / (end - start)


def heat_map(values: Any, width: int, height: int, *, colour: bool) -> str:
    """A matrix as cells, the first row above; of a larger one each cell is the mean of a block.

    In colour a character shows two rows, one above the other.
    """
    values = np.asarray(values, float)
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "nothing to plot: no element is finite"
    low, high = _range(finite)
    rows = 2 * height if colour else height
    small = _shrunk(values, rows, width if colour else width // 2)
    level = np.where(np.isfinite(small), np.clip(_share(small, low, high), 0.0, 1.0), 0.0)
    lines = _coloured(level) if colour else _shaded(level)
    shape = " × ".join(map(str, values.shape))
    lines.append(f"{shape}, from {finite.min():.4g} to {finite.max():.4g}")
    return "\n".join(lines)


def _shrunk(values: Any, rows: int, columns: int) -> Any:
    """Means of blocks, at most so many."""
    for axis, most in ((0, rows), (1, columns)):
        count = values.shape[axis]
        if count > most:
            starts = np.linspace(0, count, most, endpoint=False).astype(int)
            sizes = np.diff([*starts, count])
            shape = (-1, 1) if axis == 0 else (1, -1)
            values = np.add.reduceat(values, starts, axis=axis) / sizes.reshape(shape)
    return values


def _shaded(level: Any) -> list[str]:
    top = len(_SHADES) - 1
    return ["".join(_SHADES[round(v * top)] * 2 for v in row).rstrip() for row in level.tolist()]


def _coloured(level: Any) -> list[str]:
    out = []
    rows = [[_GREY + round(v * (_STEPS - 1)) for v in row] for row in level.tolist()]
    for k in range(0, len(rows), 2):
        above, below = rows[k], rows[k + 1] if k + 1 < len(rows) else None
        if below is None:
            cells = [f"\x1b[38;5;{a}m▀" for a in above]
        else:
            cells = [f"\x1b[38;5;{a}m\x1b[48;5;{b}m▀" for a, b in zip(above, below)]
        out.append("".join(cells) + "\x1b[0m")
    return out


# ---- content ---------------------------------------------------------------------------------------------------------
# The content of a picture.

HEIGHT = 16  # lines of characters, unless there is a reason


@dataclass(frozen=True, slots=True)
class Picture:
    """kind: `lines` or `points` of curves, which are pairs of arrays of equal length, with their names; or the `map` of
    a matrix. across: what the curves are drawn against, if that has a name."""

    kind: str
    curves: tuple[tuple[Any, Any], ...]
    matrix: Any
    names: tuple[str, ...]
    across: str = ""

    def in_characters(self, width: int, *, colour: bool, height: int = HEIGHT) -> str:
        """The picture as lines of text, of so many columns."""
        if self.matrix is not None:
            return heat_map(self.matrix, width, height, colour=colour)
        points = self.kind == "points"
        return graph(self.curves, self.names, width, height, points=points, colour=colour, across=self.across)


# ---- matplotlib ------------------------------------------------------------------------------------------------------
# Pictures by matplotlib, in files and windows.

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
