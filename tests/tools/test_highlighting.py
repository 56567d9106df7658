"""Colours of programs: made of the one table of words, and in agreement with the lexer of the language."""

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from dlang.grammar.lexer import CONSTANTS, CONTEXTUAL, KEYWORDS, tokenize
from dlang.tools.highlighting import PRELUDE_CONSTRUCTORS, PRELUDE_FUNCTIONS, PRELUDE_TYPES
from dlang.tools.highlighting.__main__ import SCOPES, files
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors/vscode"
PROGRAMS = [*sorted((ROOT / "stdlib").glob("*.dl")), *sorted((ROOT / "examples").rglob("*.dl"))]
TOKENIZE = """\
const fs = require("fs");
const { Registry, parseRawGrammar, INITIAL } = require("vscode-textmate");
const oniguruma = require("vscode-oniguruma");
const [path, ...programs] = process.argv.slice(2);
(async () => {
  await oniguruma.loadWASM(fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm")).buffer);
  const lib = {
    createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
    createOnigString: (text) => new oniguruma.OnigString(text),
  };
  const registry = new Registry({
    onigLib: Promise.resolve(lib),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(path, "utf8"), path),
  });
  const grammar = await registry.loadGrammar("source.dlang");
  const out = programs.map((program) => {
    let stack = INITIAL;
    return fs.readFileSync(program, "utf8").split("\\n").map((line) => {
      const found = grammar.tokenizeLine(line, stack);
      stack = found.ruleStack;
      return found.tokens.map((t) => [t.startIndex, t.endIndex, t.scopes[t.scopes.length - 1], t.scopes.join(" ")]);
    });
  });
  console.log(JSON.stringify(out));
})();
"""


def test_the_files_of_the_extension_are_what_the_table_gives():
    """`python -m dlang.tools.highlighting editors/vscode` writes them."""
    for name, text in files().items():
        assert (EXTENSION / name).read_text() == text, name


def test_every_keyword_has_a_colour_and_every_kind_of_name_a_scope():
    grammar = files()["syntaxes/dlang.tmLanguage.json"]
    for word in (*KEYWORDS, *CONTEXTUAL):
        assert re.search(rf"\W{word}\W", grammar), word
    pytest.importorskip("lsprotocol.types")
    from dlang.tools.language_server.tokens import TYPES

    assert set(SCOPES) == set(TYPES)


def test_the_names_of_the_prelude_are_those_of_its_file():
    text = (ROOT / "stdlib/prelude.dl").read_text()
    assert sorted(re.findall(r"^fn ([a-z]\w*)", text, re.MULTILINE)) == sorted(PRELUDE_FUNCTIONS)
    assert sorted(re.findall(r"^enum (\w+)", text, re.MULTILINE)) == sorted(PRELUDE_TYPES)
    variants = re.findall(r"[{,] ([A-Z]\w*)(?=[(, ])", text)
    assert set(PRELUDE_CONSTRUCTORS) <= set(variants)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_pygments_sees_the_tokens_of_the_language(path):
    pytest.importorskip("pygments")
    from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String

    from dlang.tools.highlighting.pygments_lexer import DlangLexer

    text = path.read_text()
    kinds = {}
    for start, kind, value in DlangLexer().get_tokens_unprocessed(text):
        assert kind is not Error, (start, value)
        kinds[start] = (kind, value)
    for token in tokenize(text):
        if token.kind == "newline":
            continue
        kind, value = kinds.get(token.start, (None, ""))
        match token.kind:
            case word if word in KEYWORDS or (word in CONTEXTUAL and token.text == word):
                assert kind in Keyword or kind is Operator.Word, token
            case "STRING":
                assert kind is String, token
            case "INT" | "FLOAT":
                assert kind in Number and value == token.text, token
            case "NAME" | "UNAME" | "_":
                assert kind in Name or kind is Keyword.Type, token
            case "TUPLE_INDEX":
                assert kind is Punctuation, token
            case _:
                assert kind in Operator or kind is Punctuation, token
    assert any(kind in Comment for kind, _ in kinds.values())


def test_text_with_values_in_it_is_taken_apart():
    pytest.importorskip("pygments")
    from pygments.token import Name, Punctuation, String

    from dlang.tools.highlighting.pygments_lexer import DlangLexer

    found = [(k, v) for k, v in DlangLexer().get_tokens('"a {x.w:.3f} {{ \\n"') if v.strip()]
    assert found == [
        (String, '"'), (String, "a "), (String.Interpol, "{"), (Name, "x"), (Punctuation, "."),
        (Name.Attribute, "w"), (String.Interpol, ":"), (String.Interpol, ".3f"), (String.Interpol, "}"),
        (String.Escape, "{{"), (String.Escape, "\\n"), (String, '"'),
    ]  # fmt: skip


ACTIVATE = """\
const Module = require("module");
const commands = {}, said = [];
let server;
class LanguageClient {
  constructor(id, name, options) { server = options; }
  async start() { if (server.command === "missing") throw new Error("no such file"); }
  isRunning() { return true; }
  async stop() {}
}
const vscode = {
  workspace: { getConfiguration: () => ({ get: () => JSON.parse(process.argv[3]) }) },
  window: {
    terminals: [],
    createTerminal: () => ({ show() {}, sendText: (text) => said.push(text) }),
    showErrorMessage: (text) => said.push(text),
  },
  commands: { registerCommand: (name, action) => { commands[name] = action; } },
};
const mocks = { vscode, "vscode-languageclient/node": { LanguageClient, RevealOutputChannelOn: { Never: 4 } } };
const load = Module._load;
Module._load = (name, ...rest) => mocks[name] || load(name, ...rest);
const extension = require(process.argv[2]);
(async () => {
  await extension.activate({ subscriptions: [] });
  await commands["dlang.test"]("/a b/c.dl", "it's so");
  await commands["dlang.restart"]();
  console.log(JSON.stringify({ server, said, commands: Object.keys(commands).sort() }));
})();
"""


def activated(tmp_path, command):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    (tmp_path / "activate.js").write_text(ACTIVATE)
    words = ["node", "activate.js", EXTENSION / "extension.js", json.dumps(command)]
    return json.loads(subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout)


def test_the_extension_starts_the_server_and_runs_tests_in_a_terminal(tmp_path):
    found = activated(tmp_path, ["/my env/bin/dlc"])
    assert found["server"] == {"command": "/my env/bin/dlc", "args": ["lsp"]}
    assert found["said"] == ["'/my env/bin/dlc' test --filter 'it'\\''s so' '/a b/c.dl'"]
    declared = {c["command"] for c in json.loads(files()["package.json"])["contributes"]["commands"]}
    assert declared < set(found["commands"])
    pytest.importorskip("lsprotocol.types")
    from dlang.tools.language_server.symbols import BENCH, RUN, TEST

    assert {BENCH, RUN, TEST} < set(found["commands"])


def test_the_extension_says_what_to_do_without_dlc(tmp_path):
    found = activated(tmp_path, ["missing"])
    assert "pip install 'dlang[lsp]'" in found["said"][0] and "dlang.command" in found["said"][0]


# ---- what needs npm and the network ----------------------------------------------------------------------------------
def npm(folder, *words):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    done = subprocess.run(["npm", *words], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0 and re.search(r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|network|ETIMEDOUT", done.stderr):
        pytest.skip("there is no network")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_extension_can_be_packaged(tmp_path):
    folder = tmp_path / "editors/vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns("node_modules", "*.vsix", "package-lock.json"))
    shutil.copy(ROOT / "LICENSE", tmp_path)
    npm(folder, "install", "--no-audit", "--no-fund")
    npm(folder, "run", "package")
    (package,) = folder.glob("*.vsix")
    names = "\n".join(zipfile.ZipFile(package).namelist())
    for name in ("extension.js", "syntaxes/dlang.tmLanguage.json", "snippets/dlang.json", "vscode-languageclient"):
        assert name in names


@pytest.mark.slow
def test_the_grammar_of_textmate_sees_the_tokens_of_the_language(tmp_path):
    (tmp_path / "tokenize.js").write_text(TOKENIZE)
    npm(tmp_path, "install", "--no-audit", "--no-fund", "vscode-textmate@9", "vscode-oniguruma@2")
    grammar = EXTENSION / "syntaxes/dlang.tmLanguage.json"
    done = subprocess.run(
        ["node", "tokenize.js", grammar, *PROGRAMS], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    for path, lines in zip(PROGRAMS, json.loads(done.stdout), strict=True):
        text = path.read_text()
        starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
        scopes = {}
        for start, tokens in zip(starts, lines, strict=True):
            line = text[start : text.find("\n", start) % (len(text) + 1)]
            assert line.isascii() or max(map(ord, line)) < 0x10000  # so that columns are offsets
            for first, last, scope, around in tokens:
                for i in range(first, last):
                    scopes[start + i] = (scope, around)
        for token in tokenize(text):
            if token.kind == "newline":
                continue
            scope, around = scopes[token.start]
            where = f"{path.name}:{text.count(chr(10), 0, token.start) + 1}: {token.text} is {scope}"
            match token.kind:
                case word if word in KEYWORDS or (word in CONTEXTUAL and token.text == word):
                    assert scope.startswith("constant.language" if word in CONSTANTS else "keyword."), where
                case "STRING":
                    assert "string.quoted" in around, where
                case "INT" | "FLOAT":
                    assert scope.startswith("constant.numeric"), where
                case "NAME" | "UNAME" | "_":
                    assert scope.startswith(("variable.", "entity.", "support.")), where
                case "TUPLE_INDEX":
                    assert scope.startswith("punctuation"), where
                case _:
                    assert scope.startswith(("keyword.operator", "punctuation")), where
