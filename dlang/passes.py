"""Passes of either IR: a pass is a function from program to program with a contract, run in phases by one driver.

A program has forms, such as perfect nests or no derivatives. A pass says which it needs, gives and ends; `unmet` finds
the passes of an order whose needs no pass before them gives. `run_phase` yields the program after each pass: to be
verified, printed, compared, or thrown away. The passes of the core IR are listed in `pipeline.py`, those of
the loop IR in `codegen/schedule.py` and, for a device, in `codegen/cuda/placement.py`. The environment says whether
programs are verified after each pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from operator import is_
from typing import Generic, Protocol, TypeVar

from dlang.timings import timed


class Form(Enum):
    """A property of a whole program on which passes rely."""

    NESTS = "perfect nests"  # nothing is computed at more points than it depends on: `ir/sharing.py`
    EXPANDED = "no derivatives"
    CONTRACTED = "products found"  # what is a product of arrays is a `Contract`
    OWNED = "owned"  # an array that is consumed is used nowhere else
    WHOLE = "whole loops"  # each loop is one statement, which no thread or device has a part of
    ONCE = "bound once"  # each variable is, though the host of a device computes some numbers again
    PIECES = "in pieces"  # what is large enough for several threads is a `Parallel`
    SCRATCH = "scratch placed"  # rows of iterations are allocated in front of their loop
    LAUNCHABLE = "iterations apart"  # where memory for each iteration makes a loop a kernel, it is there
    KERNELS = "kernels placed"  # what a device does is in kernels


class HasFunctions(Protocol):
    """A program of either IR."""

    @property
    def functions(self) -> Mapping[str, object]: ...


P = TypeVar("P", bound=HasFunctions)
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Pass(Generic[P, C]):
    """One pass: `function(program, context)`, run in the order of its table in the phase `when`.

    purpose: what it is for, in a line. needs: what holds of a program that it is given; gives, ends: what holds, or no
    longer holds, of the program that it makes. exact: values keep all of their bits, but for derivatives that are not
    expanded. tidies: after it nothing is left for the passes that come `again`, which have nothing to do if no pass
    changed a function since. rounds: it runs until it has nothing to do, with the passes of the first phase after each
    round. device: it runs only where the program is for a device, or only where it is not.
    """

    name: str
    function: Callable[[P, C], P]
    when: str
    purpose: str
    needs: frozenset[Form] = frozenset()
    gives: frozenset[Form] = frozenset()
    ends: frozenset[Form] = frozenset()
    exact: bool = False
    tidies: bool = False
    again: bool = False
    rounds: bool = False
    device: bool | None = None

    def after(self, forms: frozenset[Form]) -> frozenset[Form]:
        """The forms that hold after the pass, if `forms` hold before it."""
        return (forms | self.gives) - self.ends


@dataclass(frozen=True, slots=True)
class Step(Generic[P]):
    """A program as one step leaves it. name: of a pass, or of a stage at its end (`stage` then)."""

    name: str
    program: P
    forms: frozenset[Form]
    stage: bool = False


def run_phase(step: Step[P], context: C, passes: Iterable[Pass[P, C]]) -> Generator[Step[P], None, Step[P]]:
    """The steps of the passes of one phase; the last of them is returned."""
    tidy = step.program
    for p in passes:
        if p.again and same_functions(step.program, tidy):
            continue
        yield (step := run_pass(step, context, p))
        if p.tidies:
            tidy = step.program
    return step


def run_pass(step: Step[P], context: C, p: Pass[P, C]) -> Step[P]:
    """The step of one pass, which ends no form if it changes nothing."""
    with timed(p.name):
        program = p.function(step.program, context)
    same = same_functions(program, step.program)
    return Step(p.name, program, step.forms | p.gives if same else p.after(step.forms))


def unmet(passes: Iterable[Pass[P, C]], forms: frozenset[Form] = frozenset()) -> list[str]:
    """The contracts that an order of passes breaks, if `forms` hold at its beginning."""
    broken: list[str] = []
    for p in passes:
        broken += [f"{p.name} needs {form.value}" for form in Form if form in p.needs - forms]
        forms = p.after(forms)
    return broken


def same_functions(a: HasFunctions, b: HasFunctions) -> bool:
    """Tells whether two programs have the same functions; a pass gives back what it did not change."""
    return len(a.functions) == len(b.functions) and all(map(is_, a.functions.values(), b.functions.values()))


def of_phase(passes: Sequence[Pass[P, C]], when: str) -> list[Pass[P, C]]:
    """The passes of one phase, in order."""
    return [p for p in passes if p.when == when]


VARIABLE = "DLANG_VERIFY"
"""The environment variable that asks for it; 0 says no where it would be done anyhow."""


def verifying() -> bool:
    """Tells whether the environment asks for verification."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


@contextmanager
def verified_by_default() -> Iterator[None]:
    """Asks for verification, in processes that are started in the block too, if the environment says nothing of it."""
    if VARIABLE in os.environ:
        yield
        return
    os.environ[VARIABLE] = "1"
    try:
        yield
    finally:
        del os.environ[VARIABLE]
