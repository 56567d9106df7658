"""`dlc check`: everything that is known before a program runs.

`dlc check --watch`: checks again whenever a file, or a module that it imports, is written.

Files are looked at ten times a second, less often where there are so many that this would take more than a fiftieth of
a processor; that works in folders of other machines too.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlang.diagnostics import Diagnostic, DlangError, Fix, Source, shown
from dlang.driver import check, read_source
from dlang.lazy_modules import json
from dlang.spelling import plural
from dlang.tools.arguments import Parser, add_json, add_paths, programs, programs_in, replace_file
from dlang.tools.report import CLEARED, coloured, painted, report
from dlang.typecheck.modules import read_exactly
from dlang.typecheck.program import Workspace


def options(parser: Parser) -> None:
    add_json(parser)
    then = parser.add_mutually_exclusive_group()
    then.add_argument("--watch", action="store_true", help="check again whenever a file or an import changes")
    then.add_argument("--fix", action="store_true", help="make the edits that messages suggest and that are certain")
    add_paths(parser)


def main(args: argparse.Namespace) -> int:
    if args.watch:
        return watch(args.paths, args.json)
    if args.fix:
        return fix_files(args.paths, args.json)
    return check_files(args.paths, args.json)


def check_files(paths: Sequence[str], as_json: bool) -> int:
    """Checks files, each with what it imports. 0, or 1 if there is an error."""
    try:
        files = programs(paths)
    except DlangError as e:
        report(e.diagnostics, as_json)
        return 1
    errors = report_all(files, lambda path: check(read_source(path)).diagnostics, as_json)
    if errors and not as_json:
        print(plural(errors, "error"), file=sys.stderr)
    return 1 if errors else 0


def report_all(files: Sequence[str], found_in: Callable[[str], list[Diagnostic]], as_json: bool) -> int:
    """Reports what is found in files, and gives the number of errors; a mistake in a module that several import is
    told once."""
    reported: set[tuple[object, ...]] = set()
    errors = 0
    for path in files:
        try:
            diagnostics = found_in(path)
        except DlangError as e:
            diagnostics = e.diagnostics
        errors += report([d for d in diagnostics if _new(d, reported)], as_json)
    return errors


def _new(d: Diagnostic, reported: set[tuple[object, ...]]) -> bool:
    key = (d.code, d.message, repr(d.span))
    if key in reported:
        return False
    reported.add(key)
    return True


INTERVAL = 0.1  # seconds

State = dict[str, tuple[object, ...]]


@dataclass
class Watcher:
    """The state of the watched files. seen: how they and their imports were when they were last checked."""

    paths: Sequence[str]
    as_json: bool = False
    workspaces: dict[str, Workspace] = field(default_factory=dict)
    imports: dict[str, set[str]] = field(default_factory=dict)
    seen: State = field(default_factory=dict)

    def check(self) -> tuple[int, int]:
        """Reports what is wrong now. Gives the number of files, and of errors."""
        try:
            files = programs(self.paths)
        except DlangError as e:
            self.seen = self._state()
            return 0, report(e.diagnostics, self.as_json)
        self.imports = {file: self.imports.get(file, set()) for file in files}
        self.seen = self._state()  # before they are read: what is written meanwhile is seen as a change
        errors = report_all(files, self._found, self.as_json)
        self.seen = {path: self.seen.get(path, state) for path, state in self._state().items()}
        return len(files), errors

    def changed(self) -> bool:
        return self._state() != self.seen

    def _found(self, path: str) -> list[Diagnostic]:
        checked = self.workspaces.setdefault(path, Workspace()).check(read_source(path))
        self.imports[path] = {module.path for module in checked.modules.values()}
        return checked.diagnostics

    def _state(self) -> State:
        """How the files are, and which programs are in folders: those that are watched, and those beside a file, where
        an import that is missing may appear."""
        files = {*self.imports, *(path for imported in self.imports.values() for path in imported)}
        beside = {os.path.dirname(file) or "." for file in files}
        state: State = {file: _stamp(file) for file in (*self.paths, *files)}
        state |= {f"{folder}/*": tuple(sorted(map(str, Path(folder).glob("*.dl")))) for folder in beside}
        return state | {f"{path}/**": tuple(map(str, programs_in(Path(path)))) for path in self.paths}


def _stamp(file: str) -> tuple[object, ...]:
    """When a file was written, in a form to compare; empty if it can't be known."""
    try:
        status = os.stat(file)
    except OSError:
        return ()
    return () if stat.S_ISDIR(status.st_mode) else (status.st_mtime_ns, status.st_size, status.st_ino)


def watch(paths: Sequence[str], as_json: bool, until: Callable[[], bool] = lambda: False) -> int:
    """Checks, and again after every change, until Ctrl-C; 0. until: asked between two looks, for tests."""
    watcher = Watcher(paths, as_json)
    try:
        while True:
            _round(watcher)
            pause = INTERVAL
            while not until():
                time.sleep(pause)
                start = time.perf_counter()
                if watcher.changed():
                    break
                pause = max(INTERVAL, 50 * (time.perf_counter() - start))
            else:
                return 0
    except KeyboardInterrupt:
        return 0


def _round(watcher: Watcher) -> None:
    """One check, with a line at its end: on a terminal on an empty screen, elsewhere behind what was there."""
    screen = sys.stdout.isatty() and not watcher.as_json
    if screen:
        print(CLEARED, end="", flush=True)
    start = time.perf_counter()
    files, errors = watcher.check()
    seconds = time.perf_counter() - start
    sys.stderr.flush()
    if watcher.as_json:
        print(json.dumps({"checked": files, "errors": errors, "seconds": round(seconds, 4)}), flush=True)
        return
    summary = painted(plural(errors, "error"), "red", screen and coloured(sys.stdout)) if errors else "no errors"
    print(f"{time.strftime('%H:%M:%S')} {plural(files, 'file')}, {summary} ({seconds * 1000:.0f} ms)", flush=True)
    if screen:
        print("Ctrl-C ends this.", flush=True)


# ---- repairs ---------------------------------------------------------------------------------------------------------
# `dlc check --fix`: makes the edits that messages suggest, where nothing else can have been meant.
#
# One edit at a time, because each may settle other messages; one after which its message is still there, or others have
# come, is not made.

MOST = 1_000  # edits of a file


def fix_files(paths: Sequence[str], as_json: bool) -> int:
    """Edits files in place and reports what is left. 0, or 1 if there is still an error."""
    errors = 0
    try:
        files = programs(paths)
    except DlangError as e:
        report(e.diagnostics, as_json)
        return 1
    for path in files:
        try:
            text, left, edits = fixed(path, read_exactly(path))
            if edits:
                replace_file(path, text)
        except DlangError as e:
            errors += report(e.diagnostics, as_json)
            continue
        if not as_json:
            for fix in edits:
                print(shown(f"{path}: {fix}"))
        errors += report(left, as_json)
    if errors and not as_json:
        print(plural(errors, "error"), file=sys.stderr)
    return 1 if errors else 0


def fixed(path: str, text: str) -> tuple[str, list[Diagnostic], list[str]]:
    """The text after the edits, the messages that are left, and what was done."""
    workspace = Workspace()

    def check(text: str) -> list[Diagnostic]:
        return workspace.check(Source(path, text)).diagnostics

    edits: list[str] = []
    seen = {text}
    diagnostics = check(text)
    while len(edits) < MOST:
        step = _step(path, text, diagnostics, seen, check)
        if step is None:
            break
        text, diagnostics, title = step
        edits.append(title)
    return text, check(text), edits


def _step(
    path: str, text: str, diagnostics: list[Diagnostic], seen: set[str], check: Callable[[str], list[Diagnostic]]
) -> tuple[str, list[Diagnostic], str] | None:
    """The first edit that helps: the text after it, what is left to say of that, and what the edit is."""
    edits = [
        (d, fix, fix.span.first, fix.span.last, fix.span.line)
        for d in diagnostics
        if len(d.fixes) == 1
        for fix in d.fixes
        if fix.certain and fix.span.source.path == path
    ]
    for d, fix, first, last, line in edits:  # places as they are before a check of another text moves them
        new = text[:first] + fix.text + text[last:]
        if new in seen:
            continue
        seen.add(new)
        left = check(new)
        settled = all(other.message != d.message or _behind(other, first + len(fix.text)) for other in left)
        if len(left) < len(diagnostics) or (len(left) == len(diagnostics) and settled):
            return new, left, f"line {line}: {_said(fix)}"
    return None


def _behind(d: Diagnostic, offset: int) -> bool:
    """Tells whether a message is about text behind a place: the same mistake, made again."""
    return d.span is not None and d.span.first > offset


def _said(fix: Fix) -> str:
    return fix.title[:1].lower() + fix.title[1:]
