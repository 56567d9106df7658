"""The commands of docs/building.md do what it says."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dlang.tools.dlc import main

ROOT = Path(__file__).parent.parent.parent
BLOCKS = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/building.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("block", BLOCKS, ids=["file", "wheel", "shared", "exe", "files"])
def test_the_commands_of_the_page_run(block, tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "dlc":
            assert main(words[1:]) == 0
        elif words[0] == "pip":
            subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)
        else:
            subprocess.run(words, check=True, capture_output=True)
