"""The settings of `:set`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from dlang.diagnostics import error
from dlang.driver import BACKENDS
from dlang.lazy_modules import lazy_module
from dlang.runtime.devices import driver_of
from dlang.spelling import closest
from dlang.tools.repl.session import Session

if TYPE_CHECKING:
    from dlang.runtime import threads
    from dlang.tools.repl.values import Style
else:
    threads = lazy_module("dlang.runtime.threads")

NARROWEST, MOST_DIGITS = 20, 17


@dataclass(slots=True)
class Settings:
    """precision: digits behind the point; width: columns, None for those of the terminal."""

    precision: int | None = None
    width: int | None = None

    @property
    def style(self) -> Style:
        from dlang.tools.repl.values import Style

        return Style(self.columns, self.precision)

    @property
    def columns(self) -> int:
        return self.width if self.width is not None else max(shutil.get_terminal_size().columns, NARROWEST)


@dataclass(frozen=True, slots=True)
class Setting:
    """values: what it can be, in words; choices: if they are few."""

    name: str
    values: str
    help: str
    get: Callable[[Session, Settings], object]
    set: Callable[[Session, Settings, str], None]
    choices: tuple[str, ...] = ()


def _whole(text: str, least: int, most: int, what: str) -> int:
    if not re.fullmatch("-?[0-9]{1,19}", text) or not least <= int(text) <= most:
        _refuse(what, text, f"a number from {least} to {most}")
    return int(text)


def _refuse(what: str, text: str, wanted: str) -> NoReturn:
    raise error("E0980", f"`{what}` is {wanted}, not `{text}`", None, help=("`:set` alone shows all settings",))


def _set_precision(session: Session, settings: Settings, text: str) -> None:
    settings.precision = None if text == "auto" else _whole(text, 0, MOST_DIGITS, "precision")


def _set_width(session: Session, settings: Settings, text: str) -> None:
    settings.width = None if text == "auto" else _whole(text, NARROWEST, 10_000, "width")


def _set_seed(session: Session, settings: Settings, text: str) -> None:
    session.state = replace(session.state, seed=_whole(text, -(2**63), 2**63 - 1, "seed"))


def _threads() -> int:
    return threads.default_pool().threads


def _set_threads(session: Session, settings: Settings, text: str) -> None:
    threads.default_pool().limit(_whole(text, 1, threads.MOST, "threads"))


def _set_backend(session: Session, settings: Settings, text: str) -> None:
    for backend in BACKENDS:
        if backend == text:
            driver_of(backend)  # or an error that says what is missing
            session.backend = backend
            return
    _refuse("backend", text, f"one of {', '.join(BACKENDS)}")


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "backend",
        "cpu, interp, cuda or cuda-emulated",
        "what runs inputs",
        lambda session, _: session.backend,
        _set_backend,
        ("cpu", "interp", "cuda", "cuda-emulated"),
    ),
    Setting(
        "precision",
        "digits, or auto",
        "digits of floats behind the point",
        lambda _, settings: "auto" if settings.precision is None else settings.precision,
        _set_precision,
        ("auto",),
    ),
    Setting("seed", "a number", "of the next random numbers", lambda session, _: session.state.seed, _set_seed),
    Setting("threads", "a number", "that work on large loops", lambda *_: _threads(), _set_threads),
    Setting(
        "width",
        "columns, or auto",
        "of lines of values",
        lambda _, settings: "auto" if settings.width is None else settings.width,
        _set_width,
        ("auto",),
    ),
)


def setting(name: str) -> Setting:
    """A setting by its name. Raises `DlangError`."""
    for s in SETTINGS:
        if s.name == name:
            return s
    names = [s.name for s in SETTINGS]
    close = closest(name, names)
    help = (f"did you mean `{close}`?",) if close is not None else (f"there are {', '.join(names)}",)
    raise error("E0980", f"there is no setting `{name}`", None, help=help)
