"""`:plot`: arrays as pictures, in the terminal, in a file or in a window."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import error
from dlang.lazy_modules import lazy_module, np
from dlang.spelling import closest
from dlang.tools.pictures import Picture, shown, written
from dlang.tools.repl.inputs import split, with_file
from dlang.tools.repl.session import Session, Shown
from dlang.tools.repl.settings import Settings

if TYPE_CHECKING:
    from dlang.specialize import values
else:
    values = lazy_module("dlang.specialize.values")

KINDS = ("lines", "points", "map")
WINDOW = "window"
WIDEST = 100  # columns of a picture
PICTURES = ("png", "svg", "pdf", "jpg", "jpeg", "webp")
_IN_WINDOW = re.compile(rf"\s*>\s*{WINDOW}\s*$")
_KIND = re.compile(r"\s+as\s+(?P<kind>\w+)\s*$")
_AGAINST = re.compile(r"\s+against\s+")
_USAGE = "for example `:plot y, z against x as points > picture.png`"


def plot(session: Session, settings: Settings, text: str, colour: bool) -> str:
    """A picture as lines of text, or where it went. Raises `DlangError`."""
    text, file = with_file(text, PICTURES)
    window = _IN_WINDOW.search(text)
    picture = picture_of(session, text if window is None else text[: window.start()])
    if file is None and window is None:
        return in_characters(picture, settings, colour)
    if file is None:
        shown(picture)
        return "shown in a window"
    written(picture, file)
    return f"written to {file}"


def in_characters(picture: Picture, settings: Settings, colour: bool) -> str:
    """A picture as wide as lines may be."""
    return picture.in_characters(min(settings.columns, WIDEST) - 1, colour=colour)


def picture_of(session: Session, text: str) -> Picture:
    """The picture that `:plot` describes. Raises `DlangError`."""
    kind = _KIND.search(text)
    wanted = kind["kind"] if kind is not None else None
    if kind is not None:
        text = text[: kind.start()]
        if wanted not in KINDS:
            close = closest(kind["kind"], KINDS)
            help = f"did you mean `{close}`?" if close is not None else f"there are {', '.join(KINDS)}"
            raise error("E0971", f"`:plot`: there is no kind `{wanted}`", None, help=(help,))
    what, *against = _AGAINST.split(text, maxsplit=1)
    names = [n.strip() for n in split(what, ",")]
    if not all(names):
        raise error("E0971", "`:plot` takes expressions, separated by commas", None, help=(_USAGE,))
    arrays = [_numbers(session.evaluate(n), n) for n in names]
    x = _numbers(session.evaluate(against[0]), against[0].strip()) if against else None
    if len(arrays) == 1 and arrays[0].ndim == 2 and wanted in (None, "map") and x is None:
        return Picture("map", (), arrays[0], tuple(names))
    if wanted == "map":
        raise error("E0981", "a map is of one array with two axes", None, help=(_USAGE,))
    curves: list[tuple[Any, Any]] = []
    shown: list[str] = []
    for name, array in zip(names, arrays):
        columns = [array] if array.ndim == 1 else list(array.T)
        shown += [name] if array.ndim == 1 else [f"{name}[.., {k}]" for k in range(len(columns))]
        curves += [(_along(x, c, name), c) for c in columns]
    return Picture(wanted or "lines", tuple(curves), None, tuple(shown))


def _along(x: Any, y: Any, name: str) -> Any:
    """Returns the values of the horizontal axis: numbers of another array, or indices."""
    if x is None:
        return np.arange(len(y))
    if x.shape != y.shape:
        shapes = [f"{list(a.shape)}" for a in (y, x)]
        raise error("E0981", f"`{name}` has the shape {shapes[0]}, what it is plotted against {shapes[1]}", None)
    return x


def _numbers(value: Shown | None, name: str) -> Any:
    from dlang.tools.repl.values import on_host

    if value is not None and isinstance(value.form, values.ArrayV):
        array = np.asarray(on_host(value.leaves[0]))
        if array.ndim in (1, 2) and array.size and array.dtype != object:
            return array
    what = "()" if value is None else value.type
    help = ("plot an array of numbers with one or two axes that is not empty",)
    raise error("E0981", f"`{name}` can't be plotted: it is {what}", None, help=help)
