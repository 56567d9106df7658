"""Writes the files of the extension for VS Code that are made: `python -m dlang.tools.highlighting editors/vscode`."""

from __future__ import annotations

import sys
from pathlib import Path

from dlang.drafts import write
from dlang.tools.highlighting.vscode import files


def main(folder: Path) -> None:
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text)


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]))
