"""Checking again and again, as an editor or a REPL does: only what an edit touches is checked a second time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dlang.diagnostics import Source
from dlang.typecheck.cache import Cache, Observed
from dlang.typecheck.program import Checked, check_source


@dataclass(slots=True)
class Workspace:
    """Keeps what was found out about one open file and the modules that it imports.

    A declaration is parsed and checked again if its own text, or anything that it uses has changed: a function that it
    names, a type of the module, an imported module; so is one with a mistake. Where it stands does not matter: spans of
    an earlier check move with their declaration. Imported files are read again at every check, unless their texts are
    `unsaved`, by path. observed: gets the types of what is written in its file.
    """

    search_path: Sequence[Path | str] = ()
    unsaved: Mapping[str, str] = field(default_factory=dict)
    observed: Observed | None = None
    _cache: Cache = field(default_factory=Cache)

    def check(self, source: Source) -> Checked:
        """The program with its mistakes; the text is that of the editor, which need not be saved."""
        self._cache.observed = self.observed
        return check_source(source, self.search_path, cache=self._cache, unsaved=self.unsaved)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Checks of other texts, after which all that is known, and where it stands, is as it was before."""
        cache, observed = self._cache, self.observed
        types = dict(observed.types) if observed is not None else {}
        self._cache = cache.copied()
        places = [(x, x.first_line, x.offset, x.whole) for x in cache.parts.sources()]
        try:
            yield
        finally:
            self._cache = cache
            for x, line, offset, whole in places:
                x.first_line, x.offset, x.whole = line, offset, whole
            if observed is not None:
                observed.types = types

    @property
    def rechecked(self) -> tuple[str, ...]:
        """The functions, constants and tests that the last check could not take over from the ones before."""
        return tuple(self._cache.checked)
