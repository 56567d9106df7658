"""An editor: a client of `dlc lsp`, whose process all tests of a module share."""

import asyncio
import sys
from pathlib import Path

import pytest

lsp = pytest.importorskip("lsprotocol.types")
from pygls.lsp.client import LanguageClient  # noqa: E402

MODEL = """\
## A layer.
struct Linear<n, m> {
  w: f64[m, n]
  b: f64[m]
}

enum Step { Small, Large(rate: f64) }

## Applies a layer.
fn apply(layer: Linear<n, m>, x: f64[n]) -> f64[m] = layer.w @ x + layer.b

fn loss(w: f64[n], x: f64[n]) -> f64 {
  let d = w - x
  sum(d ** 2)
}

fn next(x) = x + 1.0

test "a loss" {
  assert loss([1.0], [1.0]) == 0.0
}
"""
MAIN = """\
import model
import model { loss, Linear }

fn main(steps: i64 = 3) {
  let layer = Linear(w = [[1.0, 2.0]], b = [0.5])
  let y = model.apply(layer, [1.0, 2.0])
  print("𝔸 {y} {loss([1.0], [2.0])}")
}
"""


class Editor:
    """A client with its own event loop, so that tests are ordinary functions."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.client = LanguageClient("test", "1")
        self.folder = folder
        self.messages: dict[str, list] = {}
        self.arrived = asyncio.Event()
        self.versions: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.shown: list[str] = []
        self.registered: list[str] = []

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params):
            self.messages.setdefault(params.uri, []).append(params)
            self.arrived.set()

        @self.client.feature(lsp.WINDOW_SHOW_DOCUMENT)
        def shown(params):
            self.shown.append(params.uri)
            return lsp.ShowDocumentResult(True)

        @self.client.feature(lsp.CLIENT_REGISTER_CAPABILITY)
        def registered(params):
            self.registered += [r.method for r in params.registrations]

    def run(self, awaitable, seconds=10):
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, seconds))

    def start(self):
        async def start():
            await self.client.start_io(sys.executable, "-m", "dlang.tools.dlc", "lsp")
            folders = [lsp.WorkspaceFolder(self.folder.as_uri(), "test")]
            general = lsp.GeneralClientCapabilities(position_encodings=["utf-8", "utf-16"])
            watching = lsp.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True)
            workspace = lsp.WorkspaceClientCapabilities(did_change_watched_files=watching)
            params = lsp.InitializeParams(
                lsp.ClientCapabilities(general=general, workspace=workspace),
                workspace_folders=folders,
                root_uri=self.folder.as_uri(),
            )
            result = await self.client.initialize_async(params)
            self.client.initialized(lsp.InitializedParams())
            return result

        return self.run(start(), 30)

    def stop(self):
        async def stop():
            await self.client.shutdown_async(None)
            self.client.exit(None)

        self.run(stop())
        self.run(self.client.stop())
        self.loop.close()

    def uri(self, name):
        return (self.folder / name).as_uri()

    def show(self, name, text):
        """Opens a file, or changes all of it."""
        uri = self.uri(name)
        self.texts[name] = text
        if uri not in self.versions:
            self.versions[uri] = 1
            item = lsp.TextDocumentItem(uri, "dlang", 1, text)
            self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        else:
            self.versions[uri] += 1
            whole = lsp.TextDocumentContentChangeWholeDocument(text)
            known = lsp.VersionedTextDocumentIdentifier(self.versions[uri], uri)
            self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(known, [whole]))

    def change(self, name, where, text):
        """Changes a part of a file."""
        lines = self.texts[name].split("\n")
        line = lines[where.start.line].encode("utf-16-le")
        before, after = line[: 2 * where.start.character], line[2 * where.end.character :]
        lines[where.start.line] = before.decode("utf-16-le") + text + after.decode("utf-16-le")
        self.texts[name] = "\n".join(lines)
        self.versions[self.uri(name)] += 1
        known = lsp.VersionedTextDocumentIdentifier(self.versions[self.uri(name)], self.uri(name))
        part = lsp.TextDocumentContentChangePartial(where, text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(known, [part]))

    def close(self, name):
        del self.versions[self.uri(name)]
        known = lsp.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_close(lsp.DidCloseTextDocumentParams(known))

    def diagnostics(self, name):
        """The messages about the present version of a file."""
        return self.diagnostics_of(self.uri(name))

    def diagnostics_of(self, uri):

        async def wait():
            while not any(p.version == self.versions[uri] for p in self.messages.get(uri, [])):
                self.arrived.clear()
                await self.arrived.wait()
            return list(self.messages[uri][-1].diagnostics)

        return self.run(wait())

    def next_diagnostics(self, name, known):
        """The messages about a file that were sent after the first `known`."""
        uri = self.uri(name)

        async def wait():
            while len(self.messages.get(uri, [])) <= known:
                self.arrived.clear()
                await self.arrived.wait()
            return list(self.messages[uri][-1].diagnostics)

        return self.run(wait())

    def place(self, name, words, within=0):
        """The position of words in a file, and that of a character in them."""
        offset = self.texts[name].index(words) + within
        before = self.texts[name][:offset]
        column = before[before.rfind("\n") + 1 :]
        return lsp.Position(before.count("\n"), len(column.encode("utf-16-le")) // 2)

    def text_at(self, location):
        """The name of a file, and what is written at a place in it."""
        name = location.uri.rpartition("/")[2]
        line = self.texts[name].splitlines()[location.range.start.line].encode("utf-16-le")
        return name, line[2 * location.range.start.character : 2 * location.range.end.character].decode("utf-16-le")

    def at(self, name, words, within=0):
        return lsp.TextDocumentIdentifier(self.uri(name)), self.place(name, words, within)


@pytest.fixture(scope="module")
def editor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    (folder / "model.dl").write_text(MODEL)
    (folder / "main.dl").write_text(MAIN)
    editor = Editor(folder)
    editor.capabilities = editor.start().capabilities
    yield editor
    editor.stop()


@pytest.fixture
def files(editor):
    """Both files are open, as they are saved."""
    editor.show("model.dl", MODEL)
    editor.show("main.dl", MAIN)
    return editor
