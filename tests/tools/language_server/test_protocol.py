"""Every feature of `dlc lsp` as an editor meets it: a process, spoken to over its pipes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from subprocess import PIPE

import pytest

from dlang.tools.dlc import main
from tests.patience import PATIENCE

lsp = pytest.importorskip("lsprotocol.types")
from pygls.exceptions import JsonRpcException  # noqa: E402


def test_columns_are_counted_in_utf_16_whatever_a_client_offers(files):
    assert files.capabilities.position_encoding == "utf-16"
    hover = files.run(files.client.text_document_hover_async(lsp.HoverParams(*files.at("main.dl", "{y}", 1))))
    assert "let y: f64[1]" in hover.contents.value
    assert files.text_at(lsp.Location(files.uri("main.dl"), hover.range)) == ("main.dl", "y")


def test_messages_come_as_one_types_with_their_reasons_and_pages(files):
    assert files.diagnostics("main.dl") == []
    files.show("main.dl", files.texts["main.dl"].replace("[1.0, 2.0])\n", "[1.0, 2.0, 3.0])\n"))
    (found,) = files.diagnostics("main.dl")
    assert found.code == "E0401" and found.source == "dlc" and found.severity == lsp.DiagnosticSeverity.Error
    assert "expected f64[2], found f64[3]" in found.message
    assert found.code_description.href.endswith("explain/E0401.md")
    assert {files.text_at(r.location) for r in found.related_information} >= {("main.dl", "[1.0, 2.0, 3.0]")}
    files.show("main.dl", files.texts["main.dl"].replace("3.0])\n", "3.0)\n"))
    assert [d.code for d in files.diagnostics("main.dl")] == ["E0102"]


def test_an_edit_of_an_imported_file_is_seen_before_it_is_saved(files):
    assert files.diagnostics("main.dl") == []
    known = len(files.messages[files.uri("main.dl")])
    files.show("model.dl", files.texts["model.dl"].replace("fn loss(w: f64[n], x", "fn loss(w: f64[n], s: f64, x"))
    codes = [d.code for d in files.next_diagnostics("main.dl", known)]
    assert codes == ["E0303"]


def test_a_closed_file_with_a_mistake_is_told_where_it_is(files, editor):
    (editor.folder / "broken.dl").write_text("fn f() -> f64 = true\n")
    files.show("main.dl", "import broken\n\nfn main() {}\n")
    (found,) = files.next_diagnostics("broken.dl", 0)
    assert found.code == "E0301"
    files.show("main.dl", "fn main() {}\n")
    assert files.next_diagnostics("broken.dl", 1) == []


def test_definitions_are_found_in_other_files(files):
    def definition(words, within):
        place = files.at("main.dl", words, within)
        return files.text_at(files.run(files.client.text_document_definition_async(lsp.DefinitionParams(*place))))

    assert definition("model.apply", 7) == ("model.dl", "apply")
    assert definition("{loss(", 2) == ("model.dl", "loss")
    assert definition("b = [0.5]", 0) == ("model.dl", "b")
    assert definition("(layer, [", 1) == ("main.dl", "layer")


def test_references_are_found_in_all_files(files):
    found = files.run(
        files.client.text_document_references_async(
            lsp.ReferenceParams(lsp.ReferenceContext(True), *files.at("model.dl", "fn loss", 3))
        )
    )
    assert sorted(files.text_at(f) for f in found) == [("main.dl", "loss")] * 2 + [("model.dl", "loss")] * 2


def test_a_name_is_changed_everywhere_or_nowhere(files):
    def rename(words, within, name):
        params = lsp.RenameParams(*files.at("model.dl", words, within), new_name=name)
        return files.run(files.client.text_document_rename_async(params)).changes

    changes = rename("fn loss", 3, "error")
    assert {uri.rpartition("/")[2]: len(edits) for uri, edits in changes.items()} == {"main.dl": 2, "model.dl": 2}
    with pytest.raises(JsonRpcException, match=r"E0978.*would stand for something else"):
        rename("d ** 2", 0, "sum")
    with pytest.raises(JsonRpcException, match=r"E0978.*can't be the new name"):
        rename("fn loss", 3, "Loss")
    place = files.at("model.dl", "sum(d")
    assert files.run(files.client.text_document_prepare_rename_async(lsp.PrepareRenameParams(*place))) is None


def test_a_parameter_is_renamed_where_other_files_name_it(files):
    files.show("main.dl", files.texts["main.dl"].replace("loss([1.0], [2.0])", "loss([1.0], x = [2.0])"))
    params = lsp.RenameParams(*files.at("model.dl", "x: f64[n]) -> f64 {"), new_name="target")
    changes = files.run(files.client.text_document_rename_async(params)).changes
    assert {uri.rpartition("/")[2]: len(edits) for uri, edits in changes.items()} == {"main.dl": 1, "model.dl": 2}


def test_completion_knows_what_fits(files):
    def complete(text, words):
        files.show("main.dl", text)
        place = files.at("main.dl", words, len(words))
        found = files.run(files.client.text_document_completion_async(lsp.CompletionParams(*place)))
        return {item.label: item for item in found.items}

    text = files.texts["main.dl"]
    names = complete(text.replace('print("', 'let z = \n  print("'), "let z = ")
    assert {"layer", "steps", "loss", "model", "sqrt", "Some", "while"} <= set(names) and "apply" not in names
    begun = set(complete(text.replace('print("', 'lo\n  print("'), "  lo"))
    assert {"loss", "floor"} <= begun and not {"layer", "steps", "model"} & begun
    fields = set(complete(text.replace('print("', 'layer.\n  print("'), "  layer."))
    assert {"w", "b"} <= fields and not {"steps", "let", "sqrt"} & fields
    assert {"apply", "loss", "next", "Linear"} <= set(complete(text.replace("model.apply", "model."), "= model."))
    assert {"w =", "b ="} <= set(complete(text.replace("w = [[1.0, 2.0]], b", ""), "= Linear("))
    assert "linalg" in complete("import \n" + text, "import ")
    assert {"apply", "Step"} <= set(complete("import model {  }\n", "import model { "))
    assert "f64" in complete("fn f(x: ) = x\n", "x: ")
    shown = files.run(files.client.completion_item_resolve_async(names["loss"]))
    assert shown.detail == "fn loss(w: f64[n], x: f64[n]) -> f64"


def test_the_signature_of_a_call_shows_which_argument_is_written(files):
    files.show("main.dl", files.texts["main.dl"].replace("model.apply(layer, [1.0, 2.0])", "model.apply(layer, "))
    params = lsp.SignatureHelpParams(*files.at("main.dl", "apply(layer, ", 13))
    found = files.run(files.client.text_document_signature_help_async(params))
    assert found.signatures[0].label == "apply(layer: Linear<n, m>, x: f64[n]) -> f64[m]"
    assert found.active_parameter == 1
    assert found.signatures[0].documentation.value == "Applies a layer."


def test_types_that_are_not_written_are_shown(files):
    def hints(name, lines):
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(lines, 0))
        params = lsp.InlayHintParams(lsp.TextDocumentIdentifier(files.uri(name)), whole)
        return [h.label for h in files.run(files.client.text_document_inlay_hint_async(params))]

    assert hints("main.dl", 20) == [": Linear<2, 1>", ": f64[1]"]
    assert hints("model.dl", 40) == [": f64[n]", "<a: Float>", ": a[..s]", " -> a[..s]"]


def test_the_outline_of_a_file_and_the_names_of_all(files):
    params = lsp.DocumentSymbolParams(lsp.TextDocumentIdentifier(files.uri("model.dl")))
    found = files.run(files.client.text_document_document_symbol_async(params))
    assert [s.name for s in found] == ["Linear", "Step", "apply", "loss", "next", 'test "a loss"']
    assert [s.name for s in found[0].children] == ["w", "b"]
    found = files.run(files.client.workspace_symbol_async(lsp.WorkspaceSymbolParams("lnr")))
    assert [s.name for s in found] == ["Linear"]


def test_names_are_coloured_by_what_they_are(files):
    params = lsp.SemanticTokensParams(lsp.TextDocumentIdentifier(files.uri("main.dl")))
    data = files.run(files.client.text_document_semantic_tokens_full_async(params)).data
    legend = files.capabilities.semantic_tokens_provider.legend.token_types
    lines = files.texts["main.dl"].splitlines()
    line = column = 0
    found = []
    for i in range(0, len(data), 5):
        line, column = line + data[i], data[i + 1] + (0 if data[i] else column)
        text = lines[line].encode("utf-16-le")[2 * column : 2 * (column + data[i + 2])].decode("utf-16-le")
        found.append((text, legend[data[i + 3]]))
    assert found[:6] == [
        ("model", "namespace"), ("model", "namespace"), ("loss", "function"), ("Linear", "struct"),
        ("main", "function"), ("steps", "parameter"),
    ]  # fmt: skip
    assert ("apply", "function") in found and ("b", "property") in found and ("layer", "variable") in found


def test_the_colours_of_some_lines_are_a_part_of_all(files):
    uri = lsp.TextDocumentIdentifier(files.uri("main.dl"))
    lines = lsp.Range(lsp.Position(0, 0), lsp.Position(1, 0))
    some = files.run(files.client.text_document_semantic_tokens_range_async(lsp.SemanticTokensRangeParams(uri, lines)))
    whole = files.run(files.client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(uri)))
    assert 0 < len(some.data) < len(whole.data) and whole.data[: len(some.data)] == some.data


def test_the_uses_of_a_name_in_a_file_are_marked_as_read_or_written(files):
    files.show("main.dl", 'fn main() {\n  var x = 1\n  x += 2\n  print("{x}")\n}\n')
    place = lsp.DocumentHighlightParams(*files.at("main.dl", "var x", 4))
    found = files.run(files.client.text_document_document_highlight_async(place))
    kinds = lsp.DocumentHighlightKind
    assert [(h.range.start.line, h.kind) for h in found] == [(1, kinds.Write), (2, kinds.Write), (3, kinds.Read)]


def test_a_file_that_is_closed_is_as_it_is_saved(files):
    assert files.diagnostics("main.dl") == []
    known = len(files.messages[files.uri("main.dl")])
    files.show("model.dl", files.texts["model.dl"].replace("fn loss(", "fn cost("))
    assert [d.code for d in files.next_diagnostics("main.dl", known)] == ["E0206"]
    known = len(files.messages[files.uri("main.dl")])
    files.close("model.dl")
    assert files.next_diagnostics("main.dl", known) == []


def test_lenses_run_what_they_stand_above_and_show_gradients(files):
    params = lsp.CodeLensParams(lsp.TextDocumentIdentifier(files.uri("model.dl")))
    found = files.run(files.client.text_document_code_lens_async(params))
    assert [lens.command.title for lens in found] == ["grad: (f64[n], f64[n]) -> f64[n]", "▶ Run test"]
    assert list(found[1].command.arguments) == [str(files.folder / "model.dl"), "a loss"]


def test_the_type_of_a_let_can_be_written_out(files):
    place = files.place("model.dl", "let d", 4)
    params = lsp.CodeActionParams(
        lsp.TextDocumentIdentifier(files.uri("model.dl")), lsp.Range(place, place), lsp.CodeActionContext([])
    )
    (found,) = files.run(files.client.text_document_code_action_async(params))
    assert found.title == "Write the type of `d`"
    (edit,) = found.edit.changes[files.uri("model.dl")]
    assert edit.new_text == ": f64[n]" and edit.range.start == files.place("model.dl", "let d", 5)


def test_a_file_is_formatted_by_edits_of_the_lines_that_differ(files):
    def edits(text):
        files.show("main.dl", text)
        identifier = lsp.TextDocumentIdentifier(files.uri("main.dl"))
        params = lsp.DocumentFormattingParams(identifier, lsp.FormattingOptions(2, True))
        return files.run(files.client.text_document_formatting_async(params))

    text = files.texts["main.dl"]
    assert not edits(text)
    (edit,) = edits(text.replace("let layer = Linear", "let   layer=Linear"))
    assert edit.new_text == "  let layer = Linear(w = [[1.0, 2.0]], b = [0.5])\n"
    assert (edit.range.start.line, edit.range.end.line) == (4, 5)
    assert not edits("fn f( {")


def test_what_a_message_suggests_is_an_edit(files):
    files.show("main.dl", files.texts["main.dl"].replace("{loss(", "{los("))
    place = files.place("main.dl", "{los(", 2)
    params = lsp.CodeActionParams(
        lsp.TextDocumentIdentifier(files.uri("main.dl")), lsp.Range(place, place), lsp.CodeActionContext([])
    )
    found, explain = files.run(files.client.text_document_code_action_async(params))
    assert found.kind == "quickfix" and found.is_preferred and found.diagnostics[0].code == "E0201"
    (edit,) = found.edit.changes[files.uri("main.dl")]
    assert edit.new_text == "loss" and edit.range.start == files.place("main.dl", "los(")
    assert explain.title == "Explain E0201"
    command = lsp.ExecuteCommandParams(explain.command, explain.arguments)
    files.run(files.client.workspace_execute_command_async(command))
    assert files.shown[-1].endswith("explain/E0201.md")


def test_requests_about_half_written_files_are_answered(files):
    text = files.texts["main.dl"]
    for end in range(0, len(text), 7):
        files.show("main.dl", text[:end])
        place = files.at("main.dl", text[:end], end)
        assert files.run(files.client.text_document_completion_async(lsp.CompletionParams(*place))) is not None
        files.run(files.client.text_document_hover_async(lsp.HoverParams(*place)))
    assert files.diagnostics("main.dl") is not None


def test_edits_of_parts_are_counted_in_utf_16(files):
    text = files.texts["main.dl"].replace("main(steps", 'main(a: str = "𝔸𝔹", steps')
    files.show("main.dl", text)
    start = files.place("main.dl", "steps")
    files.change("main.dl", lsp.Range(start, lsp.Position(start.line, start.character + 5)), "count")
    hover = files.run(files.client.text_document_hover_async(lsp.HoverParams(*files.at("main.dl", "count"))))
    assert "count: i64" in hover.contents.value


def test_what_nobody_waits_for_is_not_computed(tmp_path):
    from dlang.tools.language_server.server import answer, make_server

    asked = []

    async def ask():
        server = make_server()
        path = str(tmp_path / "a.dl")
        server.project.put(path, "file://" + path, "fn f() = 1\n", 1)
        given_up = asyncio.ensure_future(answer(server, "file://" + path, asked.append, None))
        outrun = asyncio.ensure_future(answer(server, "file://" + path, asked.append, None))
        await asyncio.sleep(0)
        given_up.cancel()
        server.project.put(path, "file://" + path, "fn f() = 2\n", 2)
        found = await asyncio.gather(given_up, outrun, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError) and found[1].code == -32801 and not asked
        await answer(server, "file://" + path, asked.append, None)
        assert len(asked) == 1

    asyncio.run(ask())


def test_a_question_is_answered_before_a_rename_of_many_files_and_an_edit_ends_it(tmp_path):
    from dlang.tools.language_server.server import answer, answer_in_steps, make_server

    path = str(tmp_path / "a.dl")
    order = []

    def rename(document):
        for step in range(50):
            order.append(step)
            yield
        return "renamed"

    async def ask():
        server = make_server()
        server.project.put(path, "file://" + path, "fn f() = 1\n", 1)
        long = asyncio.ensure_future(answer_in_steps(server, "file://" + path, rename, None))
        short = asyncio.ensure_future(answer(server, "file://" + path, lambda d: order.append("hover"), None))
        await short
        assert "hover" in order[:3]
        assert await long == "renamed" and order[-1] == 49
        long = asyncio.ensure_future(answer_in_steps(server, "file://" + path, rename, None))
        while order[-1] != 3:
            await asyncio.sleep(0)
        server.project.put(path, "file://" + path, "fn f() = 2\n", 2)
        (refused,) = await asyncio.gather(long, return_exceptions=True)
        assert refused.code == -32801 and order[-1] == 3

    asyncio.run(ask())


def test_requests_that_are_given_up_or_outrun_are_refused_and_the_next_is_answered(files):
    async def ask():
        place = lsp.HoverParams(*files.at("main.dl", "layer"))
        protocol = files.client.protocol
        waiting = [protocol.send_request_async(lsp.TEXT_DOCUMENT_HOVER, place, msg_id=f"{i}") for i in range(20)]
        tasks = [asyncio.ensure_future(w) for w in waiting]
        await asyncio.sleep(0)
        for i in range(20):
            protocol.notify(lsp.CANCEL_REQUEST, lsp.CancelParams(f"{i}"))
        files.show("main.dl", files.texts["main.dl"] + "\n")
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = files.run(ask())
    assert all(isinstance(answer, lsp.Hover) or answer.code in (-32800, -32801) for answer in answers)
    hover = files.run(files.client.text_document_hover_async(lsp.HoverParams(*files.at("main.dl", "layer"))))
    assert "Linear<2, 1>" in hover.contents.value


def test_a_file_that_is_written_outside_of_the_editor_is_seen(files):
    assert files.registered == [lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES]
    other = files.folder / "other.dl"
    other.write_text("fn one() = 1.0\n")
    files.show("main.dl", 'import other\n\nfn main() { print("{other.one() + 1.0}") }\n')
    assert files.diagnostics("main.dl") == []
    known = len(files.messages[files.uri("main.dl")])
    other.write_text("fn one() = 1\n")
    changed = [lsp.FileEvent(other.as_uri(), lsp.FileChangeType.Changed)]
    files.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams(changed))
    assert [d.code for d in files.next_diagnostics("main.dl", known)] == ["E0301"]


def test_folders_that_are_opened_later_are_searched(files, tmp_path):
    def found():
        return [s.name for s in files.run(files.client.workspace_symbol_async(lsp.WorkspaceSymbolParams("far_away")))]

    def change(added, removed):
        event = lsp.WorkspaceFoldersChangeEvent(added, removed)
        files.client.workspace_did_change_workspace_folders(lsp.DidChangeWorkspaceFoldersParams(event))

    (tmp_path / "far.dl").write_text("fn far_away() = 1.0\n")
    folder = lsp.WorkspaceFolder(tmp_path.as_uri(), "far")
    change([folder], [])
    assert found() == ["far_away"]
    change([], [folder])
    assert found() == []


def test_a_text_that_was_never_saved_has_the_modules_of_the_folder(files):
    item = lsp.TextDocumentItem("untitled:Untitled-1", "dlang", 1, "import model\nfn f() = model.loss([1.0], 2)\n")
    files.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
    files.versions[item.uri] = 1
    assert [d.code for d in files.diagnostics_of(item.uri)] == ["E0301"]
    params = lsp.HoverParams(lsp.TextDocumentIdentifier(item.uri), lsp.Position(1, 16))
    assert "fn loss" in files.run(files.client.text_document_hover_async(params)).contents.value


def test_a_module_that_is_removed_is_missed(files):
    other = files.folder / "gone.dl"
    other.write_text("fn one() = 1.0\n")
    files.show("main.dl", "import gone\n\nfn f() = gone.one()\n")
    assert files.diagnostics("main.dl") == []
    known = len(files.messages[files.uri("main.dl")])
    other.unlink()
    removed = [lsp.FileEvent(other.as_uri(), lsp.FileChangeType.Deleted)]
    files.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams(removed))
    assert [d.code for d in files.next_diagnostics("main.dl", known)] == ["E0203"]


def test_the_server_ends_when_its_editor_does():
    server = [sys.executable, "-m", "dlang.tools.dlc", "lsp"]
    done = subprocess.run(server, input=b"", capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_what_is_malformed_is_answered_and_no_answer_is_a_traceback():
    def message(method, number=None, **params):
        numbered = {} if number is None else {"id": number}
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | numbered).encode()
        return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    def opened(name, text):
        document = {"uri": f"file:///{name}.dl", "languageId": "dlang", "version": 1, "text": text}
        return message("textDocument/didOpen", textDocument=document)

    def at(name, line=0, **more):
        return {"textDocument": {"uri": f"file:///{name}.dl"}, "position": {"line": line, "character": 3}, **more}

    said = [
        message("initialize", 1, processId=None, rootUri=None, capabilities={}),
        message("initialized"),
        opened("f", 'fn f(x: f64[n]) -> f64 = x[\0 "{" { ((('),
        opened("g", "fn g(x: f64[n]) -> f64 = sum(x)\n"),
        message("textDocument/hover", 2),
        message("textDocument/hover", 3, **at("f", line=-1)),
        message("textDocument/hover", 4, **at("f")),
        message("textDocument/rename", 5, **at("g", newName="a b")),
        message("textDocument/didChange", textDocument=3),
    ]
    server = subprocess.Popen(
        [sys.executable, "-m", "dlang.tools.dlc", "lsp"], stdin=PIPE, stdout=PIPE, stderr=PIPE, bufsize=0
    )
    server.stdin.write(b"".join(said))
    answers = {}
    while len(answers) < 5:
        length = 0
        while (line := server.stdout.readline()) != b"\r\n":
            length = int(line.split(b":")[1]) if line.startswith(b"Content-Length") else length
        body = b""
        while len(body) < length:
            body += server.stdout.read(length - len(body))
        answer = json.loads(body)
        if "method" not in answer:
            answers[answer["id"]] = answer
    server.stdin.close()
    log = server.stderr.read().decode()
    server.stdout.close()
    server.stderr.close()
    assert server.wait(timeout=PATIENCE) == 0
    assert [answers[k]["error"]["code"] for k in (2, 3)] == [-32602, -32602]
    assert "fn f(x: f64[n])" in str(answers[4]) and "_hole" not in str(answers[4])
    assert "E0978" in answers[5]["error"]["message"]
    assert "Traceback" not in log and log.count("has other parameters than the protocol says") == 3


def test_in_a_terminal_the_server_says_what_it_is_and_can_be_interrupted():
    terminal, inside = os.openpty()
    code = "import sys; from dlang.tools.dlc import main; sys.exit(main(['lsp', '--stdio']))"
    command = [sys.executable, "-c", code]
    server = subprocess.Popen(command, stdin=inside, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = server.stderr.readline()
    server.send_signal(signal.SIGINT)
    _, more = server.communicate(timeout=PATIENCE)
    os.close(inside)
    os.close(terminal)
    assert "speaks with editors" in said and more == "" and server.returncode == -signal.SIGINT


def test_a_log_that_cannot_be_written_is_a_message(tmp_path, capsys):
    assert main(["lsp", "--log", str(tmp_path)]) == 1
    assert "error[E0822]: cannot write" in capsys.readouterr().err


def test_without_pygls_the_command_says_what_to_install(monkeypatch, tmp_path):
    (tmp_path / "pygls.py").write_text("raise ModuleNotFoundError('no pygls', name='pygls')\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from dlang.tools.dlc import main; sys.exit(main(['lsp']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and done.stdout == ""
    assert "error[E0977]" in done.stderr and "pip install 'dlang[lsp]'" in done.stderr
