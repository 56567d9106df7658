"""Values as a person reads them: arrays as NumPy writes them, structs and enums as the language does.

What is too long for one line takes several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dlang.host.text import format_value
from dlang.lazy_modules import np
from dlang.specialize.values import ArrayV, DataV, EnumV, Many, NodeV, ScalarV, TupleV, Value, leaves as atoms_of

SUMMARISED, SUMMARISED_STRUCTURES = 1000, 20  # elements; of a larger array the ends are shown
_EDGE = 3  # elements at each end of an axis
_STEP = 2


@dataclass(frozen=True, slots=True)
class Style:
    """width: columns. precision: digits behind the point, at most; None for as many as tell a float from the next, in
    arrays 8."""

    width: int = 80
    precision: int | None = None

    def narrower(self, columns: int) -> Style:
        return replace(self, width=max(self.width - columns, 20))


def value_text(form: Value, leaves: Sequence[Any], style: Style) -> str:
    """A value, which is a form and its leaves."""
    return _text(form, map(on_host, leaves), style)


def on_host(leaf: Any) -> Any:
    """A leaf that the host can read."""
    from dlang.host.placed import fetched, placed

    return leaf if placed(leaf) is None else fetched(leaf)


def _text(form: Value, leaves: Iterator[Any], style: Style) -> str:
    match form:
        case ScalarV():
            return _scalar(next(leaves), style)
        case ArrayV():
            leaf = next(leaves)  # in an element of an array of structures perhaps a number
            return array_text(leaf, style) if getattr(leaf, "ndim", 0) else _scalar(leaf, style)
        case TupleV(items):
            return _listed("(", [("", i) for i in items], ")", leaves, style)
        case DataV(decl, fields):
            names = [name or "" for name, _ in decl.variants[0].fields]
            return _listed(f"{decl.name}(", list(zip(names, fields, strict=True)), ")", leaves, style)
        case EnumV(decl, _, variants):
            tag = int(next(leaves))
            shown = decl.variants[tag].name
            for k, fields in enumerate(variants):
                leaves_of_variant = [next(leaves) for f in fields for _ in atoms_of(f)]
                if k == tag and fields:
                    shown = _listed(
                        f"{decl.variants[k].name}(", [("", f) for f in fields], ")", iter(leaves_of_variant), style
                    )
            return shown
        case Many(shape, element):
            return _many(element, [next(leaves) for _ in atoms_of(element)], len(shape), style)
        case NodeV():
            next(leaves)
            return "…"
        case _:
            for _ in atoms_of(form):
                next(leaves)
            return "a function"


def _scalar(value: Any, style: Style) -> str:
    if isinstance(value, str):
        return quoted(value)
    item = value.item() if hasattr(value, "item") else value
    if style.precision is None or not isinstance(item, float):
        return format_value(value)
    text = np.array2string(np.asarray(item), precision=style.precision)
    return text + "0" if text.endswith(".") else text.replace(".e", "e")


def quoted(text: str) -> str:
    """A text as it is written in a program."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "{": "{{", "}": "}}"}
    return '"' + "".join(escapes.get(c, c) for c in text) + '"'


def array_text(array: Any, style: Style) -> str:
    """Columns are aligned; of an array of many elements only the ends of its axes are shown."""
    array = np.asarray(array)
    formatter: Any = None
    if array.dtype == object:
        formatter = {"all": quoted}
    elif array.dtype == bool:
        width = 0 if array.size and array.all() else 5
        formatter = {"bool": lambda v: f"{'true' if v else 'false':>{width}}"}
    text = np.array2string(
        array,
        max_line_width=style.width,
        precision=style.precision,
        threshold=SUMMARISED,
        edgeitems=_EDGE,
        formatter=formatter,
    )
    return text if array.dtype == object else text.replace("...", "…")


# ---- structures ------------------------------------------------------------------------------------------------------
def _listed(opening: str, parts: Sequence[tuple[str, Value]], closing: str, leaves: Iterator[Any], style: Style) -> str:
    """Named parts in brackets: in one line if there is room, else each in its own."""
    inner = style.narrower(_STEP)
    texts: list[str] = []
    for name, form in parts:
        lead = f"{name} = " if name else ""
        texts.append(lead + _indented(_text(form, leaves, inner.narrower(len(lead))), len(lead)))
    return _joined(opening, texts, closing, style)


def _joined(opening: str, texts: Sequence[str], closing: str, style: Style) -> str:
    line = opening + ", ".join(texts) + closing
    if "\n" not in line and len(line) <= style.width:
        return line
    return "\n".join([opening, *(" " * _STEP + _indented(t, _STEP) + "," for t in texts), closing])


def _indented(text: str, columns: int) -> str:
    """All lines but the first moved to the right."""
    return text.replace("\n", "\n" + " " * columns)


def _many(element: Value, columns: Sequence[Any], depth: int, style: Style, cut: bool | None = None) -> str:
    """An array of structures, of which each leaf is a column."""
    if not depth:
        return _text(element, iter(columns), style)
    count = len(columns[0]) if columns else 0
    if cut is None:
        cut = _elements(columns[0], depth) > SUMMARISED_STRUCTURES if columns else False
    shown = range(count) if not cut or count <= 2 * _EDGE else [*range(_EDGE), *range(count - _EDGE, count)]
    texts = [_many(element, [c[k] for c in columns], depth - 1, style.narrower(_STEP), cut) for k in shown]
    if len(texts) < count:
        texts.insert(_EDGE, "…")
    return _joined("[", texts, "]", style)


def _elements(column: Any, depth: int) -> int:
    count = 1
    for n in column.shape[:depth]:
        count *= n
    return count
