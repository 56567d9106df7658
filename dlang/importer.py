"""`import dlang.importer` makes `import model` find `model.dl` where Python looks for `model.py`.

Python's own finders come first: a `model.py` hides a `model.dl`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # what it has beside these methods takes longer to import than a program to run


class DlangLoader(Loader):
    """Checks a file and fills the module with what it defines."""

    def __init__(self, path: str) -> None:
        self.path = path

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from dlang.process import gc_paused

        with gc_paused():  # making classes makes many objects, all of which stay
            from dlang.driver import read_source
            from dlang.python.module import populate

        populate(module, read_source(self.path), "cpu")


class DlangFinder:
    """Finds `.dl` files on `sys.path`, or on the path of a package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = fullname.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            file = Path(folder or ".") / f"{name}.dl"
            if file.is_file():
                return spec_from_file_location(fullname, file, loader=DlangLoader(str(file)))
        return None


def install() -> None:
    """Adds the finder, once; importing this module does it."""
    if not any(isinstance(finder, DlangFinder) for finder in sys.meta_path):
        sys.meta_path.append(DlangFinder())


install()
