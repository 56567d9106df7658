"""A Python that has NumPy and nothing of the compiler's, to run what was built."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.patience import PATIENCE

NEEDED = ("numpy", "numpy.libs", "scipy_openblas32")
GONE = """
import sys
for name in ("dlang", "lark", "llvmlite", "prompt_toolkit"):
    try:
        __import__(name)
    except ImportError:
        continue
    raise AssertionError(f"{name} can be imported")
"""


def run_alone(folder, text, path=(), env=None):
    """Runs a text with the packages of `NEEDED` and of some folders alone; gives what it prints."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    packages = Path(find_spec("numpy").origin).parent.parent
    for name in NEEDED:
        if (packages / name).exists() and not (site / name).exists():
            (site / name).symlink_to(packages / name)
    begin = f"import sys\nsys.path += {[*map(str, path), str(site)]!r}\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", begin + GONE + text],
        capture_output=True, text=True, env=env or {}, cwd=folder, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
