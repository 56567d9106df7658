"""The files that a server knows: open ones as they are in the editor, others as they are saved.

What is known of a file is found out when it is asked for, and again after any edit, of this file or of another: a
declaration that no edit touches costs little then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from dlang.diagnostics import Diagnostic, DlangError, Source, Span
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.identity import ByIdentity
from dlang.process import recursion
from dlang.tools.arguments import programs_in
from dlang.tools.language_server.names import Known, Names, Occurrence, Scope, names_of
from dlang.tools.language_server.protocol import PartsCache
from dlang.typecheck.cache import Observed
from dlang.typecheck.modules import Finder, library_folders
from dlang.typecheck.program import Checked, Workspace
from dlang.typecheck.types import Type

if TYPE_CHECKING:
    from dlang.tools.language_server.references import Definition
    from dlang.tools.language_server.tokens import Coloured

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Analysis:
    """The analysis of one state of a file. checked: None if the checker failed, which is its mistake. files: the files
    on whose texts it depends, None if that is not known. known_names: of the items of the state before; known_since:
    names that the module has and had not, or had."""

    source: Source
    module: s.Module
    checked: Checked | None
    diagnostics: list[Diagnostic]
    observed: Observed
    files: frozenset[str] | None
    known_names: ByIdentity[s.Item, Names]
    known_since: frozenset[str] = frozenset()

    @cached_property
    def known(self) -> Known:
        constants, values, modules = set(), set(), set()
        for item in self.module.items:
            match item:
                case s.Const(name=name):
                    constants.add(name)
                    values.add(name)
                case s.Fn(name=name) | s.Extern(name=name):
                    values.add(name)
                case s.Import(path=path, alias=alias, names=None) if path:
                    modules.add(alias or path[-1])
                case s.Import(names=tuple(names)):
                    values |= {n.name for n in names if isinstance(n, s.Name)}
                case _:
                    pass
        return Known(frozenset(constants), frozenset(values), frozenset(modules))

    @cached_property
    def functions(self) -> dict[str, s.Fn | s.Extern]:
        return {i.name: i for i in self.module.items if isinstance(i, s.Fn | s.Extern)}

    @cached_property
    def script(self) -> list[s.Statement]:
        """The statements outside of declarations."""
        return [i for i in self.module.items if isinstance(i, s.Statement) and not isinstance(i, s.Fn)]

    @cached_property
    def names(self) -> list[Names]:
        """The names of each declaration, in order, and of the script."""
        script = self.script
        resolved: list[Names] = []
        kept: ByIdentity[s.Item, Names] = ByIdentity()
        with recursion():
            for item in self.module.items:
                if isinstance(item, s.Statement) and not isinstance(item, s.Fn):
                    continue
                names = self.known_names.get(item)
                if names is None or not self._means_the_same(item):
                    names = names_of([item], self.known, self.functions)
                kept[item] = names
                resolved.append(names)
            if script:
                resolved.append(names_of(script, self.known, self.functions))
        self.known_names = kept
        return resolved

    def _means_the_same(self, item: s.Item) -> bool:
        """Tells whether names in an item keep their meaning: the module has all that it had, and no others."""
        text = item.span.text
        return not isinstance(item, s.Rule) and not any(name in text for name in self.known_since)

    @cached_property
    def occurrences(self) -> list[Occurrence]:
        """All names, by their place."""
        return sorted([o for names in self.names for o in names.ordered], key=lambda o: (o.span.first, o.span.last))

    def occurrence(self, offset: int) -> Occurrence | None:
        """The name at an offset, or that ends there."""
        near = [n.ordered for n in self.names if n.ordered and n.ordered[0].span.first <= offset]
        candidates = [o for ordered in near if offset <= ordered[-1].span.last
                for o in ordered if o.span.first <= offset <= o.span.last]  # fmt: skip
        return max(candidates, key=lambda o: (offset < o.span.last, o.span.first), default=None)

    def scope(self, offset: int) -> Scope:
        """The innermost scope around an offset."""
        offset = self._inside(offset)
        best: tuple[int, Scope] | None = None
        for names in self.names:
            for span, scope in names.scopes:
                if span.first <= offset <= span.last and (best is None or span.last - span.first <= best[0]):
                    best = (span.last - span.first, scope)
        return best[1] if best is not None else Scope()

    def _inside(self, offset: int) -> int:
        """An offset; behind an item, where what is written next belongs to it, the end of the item."""
        last = next((i.span.last for i in reversed(self.module.items) if i.span.first <= offset), offset)
        line = self.source.text[last:offset].rpartition("\n")
        goes_on = last < offset and (not line[1] or line[2][:1].isspace())
        return last if goes_on else offset

    def type_at(self, span: Span) -> Type | None:
        return self.observed.at(span)


@dataclass(eq=False)
class Document:
    """A file.

    version: of the editor, None if it isn't open there. declared: what a tree of it declares. coloured: the colours
    that it has; outlined, lenses: what is kept of these answers. workspace: what earlier checks of it found out.
    """

    path: str
    uri: str
    text: str
    project: Project
    version: int | None = None
    declared: tuple[s.Module, dict[tuple[str, str], Definition]] | None = None
    coloured: Coloured | None = None
    outlined: PartsCache[s.Item] = field(default_factory=PartsCache)
    lenses: PartsCache[s.Item] = field(default_factory=PartsCache)
    workspace: Workspace | None = None
    _analysis: tuple[int, Analysis] | None = None
    _outlines: dict[str, s.Module] = field(default_factory=dict)
    _known_names: tuple[Known, ByIdentity[s.Item, Names]] | None = None

    @property
    def outline(self) -> s.Module:
        """The tree; of a file that is not open, or is tried with another text, without a check."""
        if self._analysis is not None and self._analysis[1].source.text == self.text:
            return self._analysis[1].module
        if self.version is not None and self.project.trial is None:
            return self.analysis.module
        if self.text not in self._outlines:
            last = list(self._outlines.items())[-1:]  # a rename looks at two texts in turn
            self._outlines = dict([*last, (self.text, parse(Source(self.path, self.text))[0])])
        return self._outlines[self.text]

    @property
    def analysis(self) -> Analysis:
        """Returns the analysis of the present text."""
        if self._analysis is None or self.project.changed(self._analysis[1].files, self._analysis[0]):
            if self.project.trial is not None:
                self.project.trial.enter_context(self._restored())
            self._analysis = (self.project.edits, self._analyse())
        return self._analysis[1]

    @contextmanager
    def rewritten(self, text: str) -> Iterator[Analysis]:
        """Analyses another text of the file. In the block, the spans of the analysis are those of that text."""
        _ = self.analysis
        with self.project.rewritten({self.path: text}):
            yield self.analysis

    @contextmanager
    def _restored(self) -> Iterator[None]:
        """Forgets at the end of the block all that was found out in it."""
        known = self.workspace, self._analysis, self._known_names, self.declared
        try:
            with self.workspace.trial() if self.workspace is not None else nullcontext():
                yield
        finally:
            self.workspace, self._analysis, self._known_names, self.declared = known

    def _analyse(self) -> Analysis:
        if self.workspace is None:
            self.workspace = Workspace((), self.project.unsaved, Observed(self.path))
        source = Source(self.path, self.text)
        assert self.workspace.observed is not None
        checked: Checked | None = None
        try:
            checked = self.workspace.check(source)
            module = next(m for t, m in checked.program.checked if t is checked.table)
            diagnostics = checked.diagnostics
        except Exception as problem:  # a mistake of the checker must not end an editor's session
            log.exception("cannot check %s", self.path)
            self.workspace = None
            module, diagnostics = parse(source)
            if isinstance(problem, DlangError):
                diagnostics = [*diagnostics, *problem.diagnostics]
        observed = self.workspace.observed if self.workspace is not None else None
        files = frozenset({self.path, *checked.program.files}) if checked is not None else None
        analysis = Analysis(source, module, checked, diagnostics, observed or Observed(self.path), files, ByIdentity())
        if self._known_names is not None:
            analysis.known_names = self._known_names[1]
            analysis.known_since = analysis.known.differs(self._known_names[0])
        _ = analysis.names
        self._known_names = (analysis.known, analysis.known_names)
        return analysis


@dataclass(eq=False)
class Project:
    """All files. unsaved: the texts of open files, by path. edits: counts the changes of any; changes: the last one of
    a text, by path; others: the last one that may concern all, such as a file that was opened. trial: while files have
    other texts to try them, what is left when it ends."""

    folders: list[Path] = field(default_factory=list)
    open: dict[str, Document] = field(default_factory=dict)
    unsaved: dict[str, str] = field(default_factory=dict)
    edits: int = 0
    changes: dict[str, int] = field(default_factory=dict)
    others: int = 0
    trial: ExitStack | None = None
    _saved: dict[str, tuple[int, Document]] = field(default_factory=dict)

    # ---- edits -------------------------------------------------------------------------------------------------------
    def put(self, path: str, uri: str, text: str, version: int | None) -> Document:
        """A file as it is in the editor now."""
        if path not in self.open:
            self.open[path] = Document(path, uri, text, self)
            self.changed_outside()
        document = self.open[path]
        document.text, document.version = text, version
        self.unsaved[path] = text
        self.edits += 1
        self.changes[path] = self.edits
        return document

    def close(self, path: str) -> None:
        """The file is as it is saved."""
        self.open.pop(path, None)
        self.unsaved.pop(path, None)
        self.changed_outside()

    def changed_outside(self) -> None:
        """Files were written, made or removed, or opened or closed."""
        self.edits += 1
        self.others = self.edits

    def changed(self, files: frozenset[str] | None, since: int) -> bool:
        """Tells whether some files may have other texts than they had, or others been found instead of them."""
        if files is None:
            return self.edits > since
        return self.others > since or any(self.changes.get(path, 0) > since for path in files)

    @contextmanager
    def rewritten(self, texts: Mapping[str, str]) -> Iterator[None]:
        """While it lasts, files have other texts. Then all that is known of any file is as it was, and where it was."""
        assert self.trial is None
        documents = [d for path in texts if (d := self.document(path)) is not None]
        before = self.edits, self.changes, dict(self.unsaved), [d.text for d in documents]
        try:
            with ExitStack() as self.trial:
                self.edits += 1
                self.changes = self.changes | dict.fromkeys(texts, self.edits)
                self.unsaved.update(texts)
                for d in documents:
                    d.text = texts[d.path]
                yield
        finally:
            self.trial = None
            self.edits, self.changes, unsaved, old = before
            self.unsaved.clear()
            self.unsaved.update(unsaved)
            for d, text in zip(documents, old, strict=True):
                d.text = text

    # ---- files -------------------------------------------------------------------------------------------------------
    def document(self, path: str) -> Document | None:
        """A file; None if it can't be read."""
        if path in self.open:
            return self.open[path]
        try:
            written = Path(path).stat().st_mtime_ns
            kept = self._saved.get(path)
            if kept is not None and kept[0] == written:
                return kept[1]
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None
        document = Document(path, Path(path).absolute().as_uri(), text, self)
        self._saved[path] = (written, document)
        return document

    def uri(self, path: str) -> str:
        """The URI of a file: that of the editor, if it is open there."""
        return self.open[path].uri if path in self.open else Path(path).absolute().as_uri()

    @property
    def finder(self) -> Finder:
        return Finder((), self.unsaved)

    def imported(self, path: tuple[str, ...], importing: Document) -> Document | None:
        """The module that an import finds."""
        file = self.finder.find(path, Path(importing.path)) if path and all(path) else None
        return self.document(str(file)) if file is not None else None

    @property
    def prelude(self) -> Document | None:
        file = self.finder.standard("prelude")
        return self.document(str(file)) if file is not None else None

    def files(self) -> Iterator[Document]:
        """The files of the folders and the open ones."""
        yield from self.open.values()
        seen = set(self.open)
        for path in self._paths():
            if path not in seen and (document := self.document(path)) is not None:
                seen.add(path)
                yield document

    def _paths(self) -> Iterable[str]:
        return (str(p) for folder in self.folders for p in islice(programs_in(folder), _MOST_FILES))

    @staticmethod
    def standard(path: str) -> bool:
        """Tells whether a file is of the standard library."""
        return any(Path(path).is_relative_to(folder) for folder in library_folders())


_MOST_FILES = 2_000
