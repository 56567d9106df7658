"""Values of what was recorded, by programs that are compiled once for all that has the same form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dlang.diagnostics import Source, error
from dlang.python.lazy.nodes import Node, modules, wanted
from dlang.python.lazy.pieces import pieces
from dlang.python.lazy.text import NAME, program
from dlang.python.module import populate
from dlang.typecheck.modules import library_folders

KEPT = 256  # programs


def compute(outputs: Sequence[Node]) -> None:
    """Gives nodes their values. Raises `DlangError`."""
    nodes = wanted(outputs)
    folder = _folder(nodes)
    known: dict[Node, Any] = {}  # what is needed until the end, and no longer
    for piece in pieces(nodes, outputs):
        left = set(piece.left)
        given = [n for n in piece.nodes if n in left]
        written = program(piece.nodes, given)
        found = _compiled(written.text, folder)(*[known.get(n, n.value) for n in written.inputs])
        known = {n: value for n, value in known.items() if n in left}
        for n, value in zip(given, found if len(given) > 1 else (found,), strict=True):
            known[n] = value if n.shape is None else _kept(np.asarray(value, n.dtype))
    for n, value in known.items():
        n.value = value


def _kept(array: Any) -> Any:
    """An array that nobody writes to, since what is computed later takes it as it is."""
    array.flags.writeable = False
    return array


def _folder(nodes: Sequence[Node]) -> str:
    """Returns the folder of the modules of recorded functions."""
    folders = {str(Path(path).parent) for path in modules(nodes)} - {str(f) for f in library_folders()}
    if len(folders) > 1:
        message = f"functions of modules in several folders are recorded: {', '.join(sorted(folders))}"
        raise error("E0999", message, None, help=("compute what the first gives before it goes on: `x.value()`",))
    return folders.pop() if folders else ""


@lru_cache(maxsize=KEPT)
def _compiled(text: str, folder: str) -> Any:
    module = ModuleType("dlang_lazy")
    populate(module, Source(str(Path(folder) / "<recorded>"), text), "cpu")
    return getattr(module, NAME)
