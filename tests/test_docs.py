"""What the documents show is true: programs check, run or are refused as they say, and commands exist.

A block of code that begins with

    ```dlang                   checks; on the pages of docs/ its tests pass, its `main` prints the ```text after it
    ```dlang refused E0301     is refused by the checker, with this code, and the message in the ```text after it
    ```dlang stops E0801       checks, and a run of its tests or its `main` ends with this code
    ```dlang unfinished E0690  checks, and should run, but ends with this code until the compiler has learned it
    ```debug                   what `dlc debug` says of the program before it
    ```ir                      is read back, is well formed, and prints as it stands there
    ```python                  runs, but on the pages of codes, after those before it; its libraries may be missing
    ```python shown            needs a GPU
    ```sh                      its lines with `dlc`, and with what was built, run before the Python of a page
    ```pycon                   prints what it shows
    ```repl                    is a session: behind `> ` and `| ` inputs, then what they print, where `…` is anything

On the page of a code, the code is that of the page.
"""

import doctest
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest

from dlang.diagnostics import DlangError, Source, render
from dlang.driver import Request, call, check, errors_of, load, lower
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.printer import print_program
from dlang.ir.reader import read_program
from dlang.ir.verify import verify
from dlang.tools.debugger.commands import Conversation as Debugging
from dlang.tools.debugger.debugger import debugger_of
from dlang.tools.dlc import main
from dlang.tools.repl.commands import Conversation
from dlang.tools.repl.conversation import answered
from dlang.tools.repl.session import Session
from dlang.tools.run import start_of
from dlang.typecheck import builtins
from dlang.typecheck.types import DTYPES
from tests.patience import PATIENCE
from tools.tables import fresh

ROOT = Path(__file__).parent.parent
RUN_TIME = re.compile(r"E08\d\d")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "dlang/explain").glob("*.md"))]
OF_PYTHON = [
    p for p in DOCUMENTS if p.parent.name != "explain" and re.search(r"^```py\w+$", p.read_text(), re.MULTILINE)
]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```(?:\n+```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
LANGUAGE = ROOT / "docs/language.md"


def blocks(language):
    return [
        pytest.param(document, info.split(), text, output, id=f"{document.name}:{number}")
        for document in DOCUMENTS
        for number, (tag, info, text, output) in enumerate(BLOCK.findall(document.read_text()), 1)
        if tag == language
    ]


def agrees(shown, expected):
    """Whether a document shows what was printed; `…` stands for anything."""
    pattern = ".*".join(map(re.escape, expected.strip("\n").split("…")))
    return re.fullmatch(pattern, "\n".join(map(str.rstrip, shown.strip("\n").splitlines())), re.DOTALL)


def section(title):
    """The text of a section of the reference."""
    return LANGUAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


def code_of_run(checked):
    """The code with which the first test or `main` that fails ends; None if all is well."""
    main_function = checked.module.functions.get("main")
    for decl in [*checked.module.tests, *([main_function] if main_function else [])]:
        try:
            program, entries = lower([Request(decl)])
            call(load(program, entries, "cpu", Host(), tiers=True), entries[0])
        except DlangError as e:
            return e.diagnostics[0].code
    return None


@pytest.mark.parametrize("document, info, text, output", blocks("dlang"))
def test_a_program_in_a_document_does_what_it_says(document, info, text, output, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checked = check(Source("example.dl", text))
    codes = [d.code for d in errors_of(checked)]
    explains = document.parent.name == "explain"
    kind, code = (info[0] if info else ""), (info[1] if len(info) > 1 else document.stem if explains else None)
    if kind == "refused":
        assert set(codes) == {code} if explains else codes and code in [None, *codes]
        if output:
            assert agrees("\n".join(map(render, errors_of(checked))), output)
        return
    assert not codes
    if explains and kind == "stops":
        return  # `tests/diagnostics/messages` have it with a `main`
    if kind in ("stops", "unfinished"):
        assert code == code_of_run(checked)
        return
    assert kind == ""
    if explains:
        assert code_of_run(checked) in (None, "E0821")  # of a file that is not there
        if RUN_TIME.fullmatch(code):
            assert checked.module.tests or "main" in checked.module.functions
        return
    file = tmp_path / "example.dl"
    file.write_text(text)
    if checked.module.tests:
        assert main(["test", str(file)]) == 0, "".join(capsys.readouterr())
    if "main" in checked.module.functions:
        capsys.readouterr()
        assert main(["run", str(file)]) == 0
        assert not output or capsys.readouterr().out == output


@pytest.mark.parametrize("document", OF_PYTHON, ids=lambda d: d.name)
def test_the_python_of_a_page_runs(document, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT if document.parent == ROOT else tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setitem(sys.modules, "model", None)
    del sys.modules["model"]  # and the one of the page goes with it
    names = {}
    for block in BLOCK.finditer(document.read_text()):
        tag, info, text, _ = block.groups()
        if tag == "python" and not info:
            for library in re.findall(r"^\s*(?:import|from) (torch|jax|scipy)\b", text, re.MULTILINE):
                pytest.importorskip(library)
            above = block.string.count("\n", 0, block.start(3))
            exec(compile("\n" * above + text, str(document), "exec"), names)
        elif tag == "sh" and document.parent != ROOT:
            for line in text.splitlines():
                if line.startswith("dlc "):
                    assert main(shlex.split(line)[1:]) == 0
                elif shutil.which("cc") and not line.startswith("pip "):
                    subprocess.run(line, shell=True, check=True, timeout=PATIENCE)
        elif tag == "pycon":
            found = doctest.DocTestParser().get_doctest(text, names, document.name, str(document), 0)
            assert not doctest.DocTestRunner().run(found, clear_globs=False).failed
    assert names


def test_every_code_that_the_compiler_can_give_has_a_page():
    given = {code for file in (ROOT / "dlang").rglob("*.py") for code in re.findall(r'"(E0\d{3})"', file.read_text())}
    pages = {page.stem for page in (ROOT / "dlang/explain").glob("*.md")}
    assert pages == given


def readme_commands():
    lines = "".join(
        text for tag, _, text, _ in BLOCK.findall((ROOT / "README.md").read_text()) if tag == "sh"
    ).splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def test_the_make_targets_of_the_readme_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wanted = {command[1] for command in readme_commands() if command[0] == "make"}
    assert wanted and wanted <= targets


def test_the_dlc_commands_of_the_readme_run(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    commands = [command[1:] for command in readme_commands() if command[0].endswith("dlc")]
    assert commands
    for command in commands:
        assert main(command) == 0, capsys.readouterr().err
    assert "w = [2.000 3.000]" in capsys.readouterr().out


def test_the_program_of_the_readme_is_the_example():
    first = next(text for tag, info, text, _ in BLOCK.findall((ROOT / "README.md").read_text()) if tag == "dlang")
    assert first in (ROOT / "examples/fit.dl").read_text()


def test_the_versions_of_the_package_and_the_changelog_agree():
    import dlang

    assert re.fullmatch(r"\d+\.\d+\.\d+", dlang.__version__)
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("document, info, text, output", blocks("ir"))
def test_a_program_of_the_ir_in_a_document_is_well_formed(document, info, text, output):
    program = read_program(text)
    verify(program)
    assert print_program(program).strip() == text.strip()


@pytest.mark.parametrize("document, info, text, output", blocks("repl"))
def test_a_session_in_a_document_goes_as_it_says(document, info, text, output, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    conversation = Conversation(Session("cpu"))
    turns = re.findall(r"^> (.*\n(?:\| ?.*\n)*)((?:(?!> ).*\n)*)", text, re.MULTILINE)
    assert turns and "".join(f"> {said}{answer}" for said, answer in turns) == text
    for said, expected in turns:
        answered(conversation, re.sub(r"^\| ?", "", said, flags=re.MULTILINE))
        out, err = capsys.readouterr()
        assert agrees(out + err, expected), f"> {said}{out}{err}"


def debugged():
    """The sessions of the debugger in the documents, each with the program before it."""
    for document in DOCUMENTS:
        program = ""
        for number, (tag, _, text, _) in enumerate(BLOCK.findall(document.read_text()), 1):
            if tag == "dlang":
                program = text
            elif tag == "debug":
                yield pytest.param(program, text, id=f"{document.name}:{number}")


@pytest.mark.parametrize("program, session", list(debugged()))
def test_a_session_of_the_debugger_in_a_document_goes_as_it_says(program, session):
    source, out = Source("descent.dl", program), StringIO()
    checked = check(source)
    debugger = debugger_of(checked, start_of(checked, source.path, []), source, host=Host(out))
    debugger.step()
    conversation = Debugging(debugger)
    shown = []
    for command in re.findall(r"^\(debug\) (.*)", session, re.MULTILINE):
        begun = out.tell()
        said = conversation.say(command)
        shown += [f"(debug) {command}", *out.getvalue()[begun:].splitlines(), *"\n".join(said).splitlines()]
    assert [line.rstrip() for line in shown] == session.splitlines()


def test_the_counts_in_the_semantics_are_those_of_the_interpreter():
    text = (ROOT / "docs/semantics.md").read_text()
    (program,) = [read_program(b) for tag, info, b, _ in BLOCK.findall(text) if tag == "ir" and "counted" in info]
    x, n = [1.0, -2.0, 3.0, 4.0], 4
    interpreter = Interpreter(program)
    interpreter.run("main", [n, x])
    stated = {op: int(count) for op, count in re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE)}
    assert stated and Counter(stated) == interpreter.counts
    assert f"takes {interpreter.operations}:" in text


UPDATES = """
fn shift(x: f64[n], k: i64) -> f64 {
  var y = x
  for j < k { y[j] = 0.5 * y[j] + y[j + 1] }
  sum(y)
}
fn slope(x: f64[n], k: i64) -> f64 = sum(grad(shift)(x, k))
fn slices(x: f64[n], k: i64) -> f64 {
  var total = 0.0
  for j < k { total += reverse(x[j..])[0] }
  total
}
fn run_shift(n: i64, k: i64) -> f64 = shift([f64(i) for i < n], k)
fn run_slope(n: i64, k: i64) -> f64 = slope([f64(i) for i < n], k)
fn run_slices(n: i64, k: i64) -> f64 = slices([f64(i) for i < n], k)
"""


@pytest.mark.parametrize("name", ["run_shift", "run_slope", "run_slices"])
def test_reads_updates_slices_and_their_adjoints_cost_the_same_in_arrays_of_every_size(name):
    checked = check(Source("updates.dl", UPDATES))
    program, (entry,) = lower([Request(checked.module.functions[name])])

    def operations(n, k):
        interpreter = Interpreter(program)
        call(interpreter, entry, [], [n, k])
        return interpreter.operations

    per_iteration = [(operations(n, 40) - operations(n, 20)) / 20 for n in (100, 1000)]
    assert per_iteration[0] == per_iteration[1] < 40


def test_every_operation_of_the_ir_is_in_the_semantics():
    from typing import get_args

    from dlang.ir.anf import Op

    text = (ROOT / "docs/semantics.md").read_text()
    assert not [op.__name__ for op in get_args(Op) if f"`{op.__name__}`" not in text]


def test_the_tables_of_functions_are_those_of_the_code():
    stale = [str(path) for path, text in fresh().items() if path.read_text() != text]
    assert not stale, "write them anew: make tables"


def test_every_name_of_the_prelude_is_in_the_reference():
    prelude = check(Source("prelude.dl", (ROOT / "stdlib/prelude.dl").read_text())).module
    listed = "".join(re.findall(r"`[^`\n]+`", section("The prelude")))
    names = [*builtins.names(), *prelude.functions, *prelude.types]
    assert not [name for name in names if name not in DTYPES and not re.search(rf"\b{name}\b", listed)]


def test_the_grammar_of_the_reference_has_the_tokens_of_the_grammar():
    grammar = re.sub(r"^//.*", "", (ROOT / "dlang/grammar/dl.lark").read_text(), flags=re.MULTILINE)
    tokens = re.compile(r'"([^"\s]+)"')
    assert set(tokens.findall(section("Grammar"))) == set(tokens.findall(grammar))
