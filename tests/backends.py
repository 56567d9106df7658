"""The back ends that can run on the machine that the tests are on."""

from __future__ import annotations

from pathlib import Path

from dlang.driver import BACKENDS, Backend, Request, call, check, load, lower, read_source
from dlang.host.effects import Host


def has_gpu() -> bool:
    """Whether there is a GPU, with CuPy."""
    try:
        import cupy
    except ImportError:
        return False
    return bool(cupy.cuda.is_available())


HERE: tuple[Backend, ...] = tuple([b for b in BACKENDS if b != "cuda" or has_gpu()])


def run_tests(file: Path, *backends: Backend) -> None:
    """Runs the `test` blocks of a file, which are compiled once up to the back ends. The first that fails raises."""
    checked = check(read_source(str(file)))
    assert not [d for d in checked.diagnostics if d.severity == "error"], checked.diagnostics
    program, entries = lower([Request(test) for test in checked.module.tests])
    for backend in backends:
        runner = load(program, entries, backend, Host(), tiers=True)
        for entry in entries:
            call(runner, entry)
