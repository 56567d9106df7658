"""Programs that were built, beside what `dlc run` does."""

import shutil
import subprocess

import pytest

from dlang.tools.dlc import main
from tests.patience import PATIENCE

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def built(path, folder, *options):
    assert main(["build", "--exe", str(path), "-o", str(folder), *options]) == 0
    return folder / path.stem


def ran(program, *options, **more):
    done = subprocess.run([program, *options], capture_output=True, text=True, timeout=PATIENCE, **more)
    return done.returncode, done.stdout, done.stderr


def interpreted(capfd, path, *options):
    """What `dlc run` does."""
    capfd.readouterr()
    try:
        code = main(["run", str(path), *options])
    except SystemExit as e:
        code = e.code
    return code, *capfd.readouterr()
