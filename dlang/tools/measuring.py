"""The measurements of `dlc run`: memory, and where time goes."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlang.diagnostics import error, shown
from dlang.lazy_modules import json
from dlang.tools.files import replace_file

if TYPE_CHECKING:
    from dlang.runtime.memory import Usage
    from dlang.runtime.profile import Profile


@dataclass(frozen=True, slots=True)
class Measures:
    """memory, profile: whether to print them; trace: the file for the calls of nests, if they are wanted."""

    memory: bool = False
    profile: bool = False
    trace: str | None = None

    @property
    def of_nests(self) -> bool:
        """Tells whether the program has to measure itself."""
        return self.profile or self.trace is not None

    def joined(self, other: Measures) -> Measures:
        return Measures(self.memory or other.memory, self.profile or other.profile, other.trace or self.trace)


def measures(given: argparse.Namespace) -> Measures:
    """Returns the measurements that options ask for."""
    memory, profile = (bool(getattr(given, name, False)) for name in ("memory", "profile"))
    return Measures(memory, profile, getattr(given, "profile_out", None))


def show_memory(used: Usage) -> None:
    """Prints it where errors go."""
    print(f"memory: {used}", file=sys.stderr)


def show_profile(profile: Profile, wanted: Measures) -> None:
    """Prints and writes what was asked for."""
    if wanted.profile:
        print(profile.table(), file=sys.stderr)
    elif wanted.memory:
        show_memory(profile.memory)
    if wanted.trace is not None:
        replace_file(wanted.trace, json.dumps(profile.trace()))
        if profile.lost:
            kept = "a trace has room for the first 65,536"
            print(f"dlc: {profile.lost:,} events are lost in `{shown(wanted.trace)}`: {kept}", file=sys.stderr)


def not_measured(backend: str) -> Exception:
    help = (f"leave `--backend {backend}` out",)
    return error("E0958", "only compiled code can be profiled", None, help=help)
