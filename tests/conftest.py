"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import hypothesis
import numpy as np
import pytest

from dlang.passes import VARIABLE
from dlang.runtime import tiers
from dlang.tools.dlc import main

os.environ.setdefault(VARIABLE, "1")  # in every test, and in the processes that it starts
# the bytecode of the compiler is kept, wherever that is turned off: hundreds of processes import it
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# the suite tries the same examples each time, so that it passes where it has passed; `make fuzz` tries new ones
hypothesis.settings.register_profile("suite", derandomize=True)
hypothesis.settings.load_profile("suite")

gc.set_threshold(2_000_000, 20, 20)
"""Trees and programs hold no cycles, so there is little garbage, and looking for it seldom is enough."""
MANY = 500_000
"""Objects that files of tests may leave behind until it is looked which of them are garbage."""


GENERATORS = pytest.StashKey[list[tuple[np.random.Generator, Any]]]()
"""The generators of random numbers that modules of tests share, with their states before the first test."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """The tests and the modules that they import stay until the end: no collection of garbage looks at them."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "tests"]
    shared = {id(g): g for m in modules for g in vars(m).values() if isinstance(g, np.random.Generator)}
    session.config.stash[GENERATORS] = [(g, g.bit_generator.state) for g in shared.values()]
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each test draws the same numbers, whatever ran before it in its process."""
    for generator, state in item.config.stash[GENERATORS]:
        generator.bit_generator.state = state


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Collects what files of tests leave behind when it is much; what is no garbage stays until the end as well."""
    if (nextitem is None or nextitem.path != item.path) and gc.get_count()[0] >= MANY:
        collect_and_keep()


def collect_and_keep() -> None:
    """Collects garbage; what is left is not looked at again, here or where a test asks for a collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def interrupts_are_not_ignored() -> Iterator[None]:
    """A shell starts a job in the background with SIGINT ignored, and its children inherit that."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


QUICK = ("ad", "benchmarks", "codegen", "optimize", "programs", "python", "specialize", "stdlib")
"""Folders of tests that compile much and compute little: the level of machine code changes no bit of a result."""


@pytest.fixture(autouse=True)
def machine_code_is_made_quickly(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such tests run in quick code, unless the environment says otherwise: `DLANG_TIERS=off make test`."""
    if request.path.parent.name in QUICK and tiers.VARIABLE not in os.environ:
        monkeypatch.setenv(tiers.VARIABLE, "quick")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a file into an empty working directory; gives its name."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="program.dl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip())
        return name

    return write


@pytest.fixture
def dlc(capsys):
    """Runs a command; gives its code, output and errors."""

    def run(*argv):
        try:
            code = main([str(a) for a in argv])
        except SystemExit as e:
            code = e.code
        out, err = capsys.readouterr()
        return code, out, err

    return run
