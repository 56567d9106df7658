"""The features, bound to the protocol. Nothing is decided here but when things are done.

A check waits until nobody has typed for a moment. Requests give way to what was received after them, so one that was
cancelled, or whose text has changed, is not answered in vain.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from collections.abc import Callable, Generator
from difflib import SequenceMatcher
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcContentModified, JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method
from pygls.uris import to_fs_path

import dlang
from dlang.diagnostics import DlangError
from dlang.format.formatting import format_source
from dlang.tools.explain import PAGES
from dlang.tools.language_server import actions
from dlang.tools.language_server.actions import EXPLAIN, QUICK, REWRITE, code_actions, inlay_hints
from dlang.tools.language_server.completion import completion, resolve_item, signature_help
from dlang.tools.language_server.describe import hover
from dlang.tools.language_server.documents import Analysis, Document, Project
from dlang.tools.language_server.protocol import Steps, converter, range_between
from dlang.tools.language_server.references import Refused, go_to_definition, highlights, prepare, references, rename
from dlang.tools.language_server.symbols import code_lenses, document_symbols, workspace_symbols
from dlang.tools.language_server.tokens import LEGEND, semantic_tokens, semantic_tokens_since

log = logging.getLogger(__name__)
PAUSE = 0.15  # seconds without an edit, after which a file is checked
READING = 0.002  # seconds for what was sent meanwhile: the next edit, or that a request is given up
REQUEST_FAILED = -32803
T = TypeVar("T")


class Protocol(LanguageServerProtocol):
    """Columns are counted in UTF-16, which every client has to know. Answers may be plain data already."""

    def _serialize_message(self, data: Any) -> Any:
        if hasattr(data, "result") and hasattr(data, "jsonrpc"):  # what is in it is asked for by itself
            return {"id": data.id, "jsonrpc": data.jsonrpc, "result": data.result}
        return super()._serialize_message(data)

    def structure_message(self, data: Any) -> Any:
        """Decodes a message. A request that can't be decoded is answered here, and gives None."""
        try:
            return super().structure_message(data)
        except JsonRpcException as e:
            method = data.get("method", "a message")
            log.warning("%s has other parameters than the protocol says: %s", method, str(e.__cause__).split("\n")[0])
            if "method" in data and "id" in data:
                self._send_response(data["id"], error=JsonRpcInvalidParams().to_response_error())
            return None

    def handle_message(self, message: Any) -> None:
        if message is not None:
            super().handle_message(message)

    @lsp_method(lsp.INITIALIZE)
    def lsp_initialize(self, params: lsp.InitializeParams) -> Generator[Any, Any, lsp.InitializeResult]:
        if params.capabilities.general is not None:
            params.capabilities.general.position_encodings = None
        return (yield from super().lsp_initialize(params))


class Server(LanguageServer):
    """project: the files. waiting: the check that is to come; told: by path, the messages that each open file gave;
    checked: what they were told of. turn: who holds it is answered."""

    def __init__(self) -> None:
        super().__init__("dlc", dlang.__version__, protocol_cls=Protocol, converter_factory=converter)
        self.project = Project()
        self.waiting: asyncio.TimerHandle | None = None
        self.told: dict[str, dict[str, list[lsp.Diagnostic]]] = {}
        self.checked: dict[str, Analysis] = {}
        self.turn = asyncio.Lock()

    # ---- files -------------------------------------------------------------------------------------------------------
    def path(self, uri: str) -> str:
        """The path of a file; of a text that is no file, such as one that was never saved, one in the folder."""
        if uri.startswith("file:"):
            return to_fs_path(uri) or uri
        folder = next(iter(self.project.folders), Path.cwd())
        return str(folder / (uri.rpartition("/")[2].rpartition(":")[2] or "untitled"))

    def find(self, uri: str) -> Document | None:
        return self.project.document(self.path(uri))

    def update(self, uri: str, version: int | None) -> None:
        """The file is now as the workspace of the protocol has it."""
        text = self.workspace.get_text_document(uri).source
        self.project.put(self.path(uri), uri, text, version if version is not None else 0)

    def find_folders(self) -> None:
        """The folders are those that the editor has open now."""
        root = self.workspace.root_path
        folders = [self.path(f.uri) for f in self.workspace.folders.values()]
        self.project.folders = [Path(p) for p in folders or ([root] if root else [])]

    def watches(self) -> bool:
        """Tells whether the client can be asked to tell of files that are written outside of it."""
        workspace = self.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace is not None else None
        return watching is not None and bool(watching.dynamic_registration)

    # ---- messages ----------------------------------------------------------------------------------------------------
    def check_soon(self, pause: float = PAUSE) -> None:
        """Checks all open files when nobody has typed for a moment: an edit may concern those that import the file."""
        if self.waiting is not None:
            self.waiting.cancel()
        loop = asyncio.get_running_loop()
        self.waiting = loop.call_later(pause, self._check_next, list(self.project.open), self.project.edits)

    def _check_next(self, paths: list[str], edits: int) -> None:
        """Checks one file, and then the others, unless something has changed."""
        self.waiting = None
        if edits != self.project.edits or not paths:
            return
        document = self.project.open.get(paths[0])
        if document is not None:
            try:
                if self.checked.get(document.path) is not document.analysis:
                    if document.path not in self.checked:
                        gc.freeze()  # to look through large trees for garbage takes longer than most answers
                    self.checked[document.path] = document.analysis
                    self.tell(document.path, actions.of_document(document))
            except Exception:
                log.exception("cannot check %s", document.path)
        self.waiting = asyncio.get_running_loop().call_later(0, self._check_next, paths[1:], edits)

    def tell(self, path: str, diagnostics: dict[str, list[lsp.Diagnostic]]) -> None:
        """Publishes the messages that a file gave: its own, and those of imported files that are not open."""
        before = self.told.get(path, {})
        self.told[path] = diagnostics
        for other in {*before, *diagnostics}:
            if other == path or other not in self.project.open:
                self.publish(other)

    def publish(self, path: str) -> None:
        document = self.project.open.get(path)
        if document is not None:
            diagnostics = self.told.get(path, {}).get(path, [])
            uri, version = document.uri, document.version
        else:
            diagnostics = _without_copies([d for files in self.told.values() for d in files.get(path, [])])
            uri, version = self.project.uri(path), None
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics, version))


def _without_copies(diagnostics: list[lsp.Diagnostic]) -> list[lsp.Diagnostic]:
    return [d for i, d in enumerate(diagnostics) if d not in diagnostics[:i]]


def make_server() -> Server:
    """A server with all features."""
    server = Server()
    logging.getLogger("pygls.protocol.json_rpc").addFilter(_is_news)
    _bind_files(server)
    _bind_names(server)
    _bind_writing(server)
    _bind_shown(server)
    return server


async def answer(server: Server, uri: str, ask: Callable[[Document], T], otherwise: T) -> T:
    """The answer of a feature. What it can't answer is a mistake here, which is written into the log."""
    edits = server.project.edits
    async with server.turn:
        await asyncio.sleep(READING)
        if edits != server.project.edits:
            raise JsonRpcContentModified("the text has changed")
        document = server.find(uri)
        return otherwise if document is None else _answered(document, ask, otherwise)


async def answer_in_steps(server: Server, uri: str, ask: Callable[[Document], Steps[T]], otherwise: T) -> T:
    """The same of a feature that looks at many files. Between two steps others are answered; after an edit it is given
    up, and so it is when nobody waits for it any more."""
    edits = server.project.edits
    steps = await answer(server, uri, ask, None)
    while steps is not None:
        async with server.turn:
            await asyncio.sleep(READING)
            if edits != server.project.edits:
                raise JsonRpcContentModified("the text has changed")
            try:
                next(steps)
            except StopIteration as end:
                found: T = end.value
                return found
            except Exception:
                log.exception("no answer for %s", uri)
                break
    return otherwise


def _answered(document: Document, ask: Callable[[Document], T], otherwise: T) -> T:
    try:
        return ask(document)
    except JsonRpcException:
        raise
    except Exception:
        log.exception("no answer for %s", document.uri)
        return otherwise


def _is_news(record: logging.LogRecord) -> bool:
    """Tells whether something went wrong here: not where a request was refused, which its answer says."""
    refused = record.exc_info is not None and isinstance(record.exc_info[1], JsonRpcException)
    return not refused and not str(record.msg).startswith("Unable to deserialize")


# ---- binding ---------------------------------------------------------------------------------------------------------
def _bind_files(server: Server) -> None:
    @server.feature(lsp.INITIALIZED)
    def initialized(params: lsp.InitializedParams) -> None:
        server.find_folders()
        if server.watches():
            watched = lsp.DidChangeWatchedFilesRegistrationOptions([lsp.FileSystemWatcher("**/*.dl")])
            wanted = lsp.Registration("programs", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, watched)
            server.client_register_capability(lsp.RegistrationParams([wanted]))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.update(params.text_document.uri, params.text_document.version)
        server.check_soon(0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        server.update(params.text_document.uri, params.text_document.version)
        server.check_soon()

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        if not server.watches():
            server.project.changed_outside()  # perhaps, and nobody tells
        server.check_soon(0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        path = server.path(params.text_document.uri)
        server.project.close(path)
        server.tell(path, {})
        server.told.pop(path, None)
        server.checked.pop(path, None)
        gc.unfreeze()
        server.publish(path)
        server.check_soon(0)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def written(params: lsp.DidChangeWatchedFilesParams) -> None:
        server.project.changed_outside()
        server.check_soon()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders_changed(params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        server.find_folders()


def _bind_names(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        return await answer(server, params.text_document.uri, lambda d: hover(d, params.position), None)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def defined(params: lsp.DefinitionParams) -> lsp.Location | None:
        return await answer(server, params.text_document.uri, lambda d: go_to_definition(d, params.position), None)

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    async def used(params: lsp.ReferenceParams) -> list[lsp.Location]:
        def ask(d: Document) -> Steps[list[lsp.Location]]:
            return references(d, params.position, params.context.include_declaration)

        return await answer_in_steps(server, params.text_document.uri, ask, [])

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    async def highlighted(params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
        return await answer(server, params.text_document.uri, lambda d: highlights(d, params.position), [])

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    async def renamable(params: lsp.PrepareRenameParams) -> lsp.Range | None:
        return await answer(server, params.text_document.uri, lambda d: prepare(d, params.position), None)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    async def renamed(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        def ask(d: Document) -> Steps[lsp.WorkspaceEdit | Refused | None]:
            return rename(d, params.position, params.new_name)

        edit = await answer_in_steps(server, params.text_document.uri, ask, None)
        if isinstance(edit, Refused):
            raise JsonRpcException(edit.text, REQUEST_FAILED)
        return edit

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def outlined(params: lsp.DocumentSymbolParams) -> list[Any]:
        return await answer(server, params.text_document.uri, document_symbols, [])

    @server.feature(lsp.WORKSPACE_SYMBOL)
    async def searched(params: lsp.WorkspaceSymbolParams) -> list[lsp.WorkspaceSymbol]:
        async with server.turn:
            await asyncio.sleep(READING)
        return workspace_symbols(server.project, params.query)


def _bind_writing(server: Server) -> None:
    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=["."], resolve_provider=True)
    )
    async def completed(params: lsp.CompletionParams) -> lsp.CompletionList | None:
        return await answer(server, params.text_document.uri, lambda d: completion(d, params.position), None)

    @server.feature(lsp.COMPLETION_ITEM_RESOLVE)
    async def explained(item: lsp.CompletionItem) -> lsp.CompletionItem:
        document = server.project.document(str(item.data.get("path"))) if isinstance(item.data, dict) else None
        return resolve_item(document, item) if document is not None else item

    @server.feature(lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(trigger_characters=["(", ","]))
    async def signed(params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        return await answer(server, params.text_document.uri, lambda d: signature_help(d, params.position), None)

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    async def formatted(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        return await answer(server, params.text_document.uri, formatting, [])

    @server.command(EXPLAIN)
    def explained_code(code: str) -> None:
        page = (PAGES / f"{code}.md").absolute()
        if page.parent == PAGES.absolute() and page.is_file():
            server.window_show_document(lsp.ShowDocumentParams(page.as_uri(), take_focus=True))

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions([QUICK, REWRITE]))
    async def offered(params: lsp.CodeActionParams) -> list[lsp.CodeAction | lsp.Command]:
        only = tuple(k if isinstance(k, str) else k.value for k in params.context.only or ())
        return await answer(server, params.text_document.uri, lambda d: code_actions(d, params.range, only), [])


def _bind_shown(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    async def hinted(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        return await answer(server, params.text_document.uri, lambda d: inlay_hints(d, params.range), [])

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    async def lenses(params: lsp.CodeLensParams) -> list[Any]:
        return await answer(server, params.text_document.uri, code_lenses, [])

    @server.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, LEGEND)
    async def coloured(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens | None:
        return await answer(server, params.text_document.uri, semantic_tokens, None)

    @server.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA, LEGEND)
    async def recoloured(params: lsp.SemanticTokensDeltaParams) -> lsp.SemanticTokens | lsp.SemanticTokensDelta | None:
        def ask(d: Document) -> lsp.SemanticTokens | lsp.SemanticTokensDelta | None:
            return semantic_tokens_since(d, params.previous_result_id)

        return await answer(server, params.text_document.uri, ask, None)

    @server.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, LEGEND)
    async def coloured_lines(params: lsp.SemanticTokensRangeParams) -> lsp.SemanticTokens | None:
        lines = (params.range.start.line, params.range.end.line)
        return await answer(server, params.text_document.uri, lambda d: semantic_tokens(d, lines), None)


def formatting(document: Document) -> list[lsp.TextEdit]:
    """The edits; none for a file that can't be read as a program."""
    source = document.analysis.source
    try:
        text = format_source(source)
    except DlangError:
        return []
    before, after = _lines(source.text), _lines(text)
    starts = [0, *accumulate(map(len, before))]
    return [
        lsp.TextEdit(range_between(source, starts[a], starts[b]), "".join(after[c:d]))
        for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def _lines(text: str) -> list[str]:
    """The lines with their ends; only a newline ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+\Z", text)
