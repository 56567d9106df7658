"""A library for C, with its header: `dlc build --shared`."""

from __future__ import annotations

from pathlib import Path

from dlang.aot import calls, program
from dlang.aot.exports import Built
from dlang.aot.interface import header, prefix_of
from dlang.aot.toolchain import SOURCES, link, refuse_other_systems
from dlang.drafts import write

PUBLIC = '#define PUBLIC __attribute__((visibility("default")))'


def build_shared(built: Built, name: str, folder: Path) -> list[Path]:
    """Writes `libNAME.so` and `NAME.h`; gives the files."""
    refuse_other_systems()
    library, declarations = folder / f"lib{prefix_of(name)}.so", folder / f"{prefix_of(name)}.h"
    text = header(built, name)
    parts = ['#include "runtime.h"', program.definitions(built), text, PUBLIC, calls.definitions(built, name)]
    options = ["-shared", f"-Wl,-soname,{library.name}"]
    made = link(built, "\n".join(parts), library, options, SOURCES, visible=f"{prefix_of(name)}_*")
    write(declarations, text)
    return [declarations, *made]
