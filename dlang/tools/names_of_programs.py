"""Names in programs, for shells that complete a command line: quick, and silent about all that is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from dlang.diagnostics import DlangError
from dlang.driver import read_source
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.tools.arguments import HERE
from dlang.tools.command_line import COMMANDS
from dlang.tools.files import programs_of


def names(kind: str, line: Sequence[str]) -> list[str]:
    """The names of a kind in the programs that are named by a command line; of tests and benchmarks, if none is, in the
    folder that one is in."""
    words = [word for k, word in enumerate(line) if k or word not in COMMANDS]
    paths = [word for word in words if word.endswith(".dl") or os.path.isdir(word)]
    if not paths and kind in ("test", "bench"):
        paths = list(HERE)
    return list(dict.fromkeys(name for path in paths for item in _items(path) for name in KINDS[kind](item)))


def _items(path: str) -> Iterator[s.Item]:
    try:
        for file in programs_of(path):
            yield from parse(read_source(file))[0].items
    except DlangError:
        return


def _functions(item: s.Item) -> list[str]:
    return [item.name] if isinstance(item, s.Fn) else []


def _tests(item: s.Item) -> list[str]:
    return [item.name] if isinstance(item, s.Test) else []


def _benches(item: s.Item) -> list[str]:
    return [item.name] if isinstance(item, s.Bench) else []


def _options(item: s.Item) -> list[str]:
    """Lists the options of a program: the parameters of `main`."""
    if not isinstance(item, s.Fn) or item.name != "main":
        return []
    bound = [p.pattern.name for p in item.parameters if isinstance(p.pattern, s.PatternName)]
    return [f"--{name.replace('_', '-')}" for name in bound]


KINDS: dict[str, Callable[[s.Item], list[str]]] = {
    "fn": _functions,
    "test": _tests,
    "bench": _benches,
    "option": _options,
}
