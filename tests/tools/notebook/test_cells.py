"""Notebooks: cells of the language in one of Python, and notebooks whose kernel is ours."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.patience import PATIENCE

nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

import nbformat  # noqa: E402
from nbclient.exceptions import CellExecutionError  # noqa: E402


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Where Jupyter finds the kernels: ours, and that of Python."""
    folder = tmp_path_factory.mktemp("jupyter")
    for command in (["dlang.tools.notebook", "install", "--prefix"], ["ipykernel", "install", "--prefix"]):
        subprocess.run([sys.executable, "-m", *command, str(folder)], check=True, capture_output=True, timeout=PATIENCE)
    before = os.environ.get("JUPYTER_PATH")
    os.environ["JUPYTER_PATH"] = str(folder / "share/jupyter")
    yield folder
    if before is None:
        del os.environ["JUPYTER_PATH"]
    else:
        os.environ["JUPYTER_PATH"] = before


def executed(cells, kernel, folder, **settings):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    client = nbclient.NotebookClient(
        notebook, timeout=PATIENCE, kernel_name=kernel, resources={"metadata": {"path": str(folder)}}, **settings
    )
    client.execute()
    return [c.outputs for c in notebook.cells]


def text(outputs):
    """What is written and shown, as plain text."""
    parts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs]
    return "".join(p if p.endswith("\n") else f"{p}\n" for p in parts)


PAGE = Path(__file__).parents[3] / "docs/notebooks.md"


def test_the_cells_of_the_page_run(kernels, tmp_path):
    shown = PAGE.read_text().split("\n## ")[1]
    cells = [textwrap.dedent(cell) for cell in re.findall(r"(?:^    .*\n)+", shown, re.MULTILINE)]
    before = "import dlang, numpy as np\nx = np.linspace(0.0, 1.0, 5)\ny = 2.0 * x + 1.0"
    *_, slope, best, found = executed([before, *cells, "best"], "python3", tmp_path)
    assert len(cells) == 4 and text(slope).startswith("Line(slope=") and not best
    assert re.match(r"Line\(slope=1\.[6-9]", text(found))


# ---- in a notebook of Python -----------------------------------------------------------------------------------------
DECLARED = """%%dl
struct Line { slope: f64, shift: f64 }
fn at(l: Line, x: f64[n]) -> f64[n] = l.slope * x + l.shift
fn loss(l: Line, x: f64[n]) -> f64 = sum(at(l, x) ** 2)"""
TAKEN = """%%dl -i x,k -o y,best
let y = [t ** k for t in x]
let best = Line(slope = max(y), shift = 0.0)
print("in the cell")
sum(y)"""
CELLS = [
    "%load_ext dlang\nimport numpy as np\nx = np.array([1.0, 2.0, 3.0])\nk = 2",
    DECLARED,
    "line = Line(2.0, 1.0)\nat(line, x)",
    "import dlang\ndlang.grad(loss)(line, x)",
    TAKEN,
    "(y, best.slope, type(best) is Line)",
    "%dl loss(best, x) / 2.0",
    "%%dl\n:type loss\n:ir at\n:graph grad loss",
    "%%dl\nfn at(l: Line, x: f64[n]) -> f64[n] = l.slope * x - l.shift",
    "at(line, x), loss(line, x)",
    "lines, rows = [line, best], (np.arange(2), 'a')\nimport dataclasses\nbest = dataclasses.replace(best, shift=0.5)",
    "%%dl -i best,lines,rows -o many\nlet many = [l.slope for l in lines]\n(best.shift, rows.0[1], rows.1, many)",
    "many, %dl [best, lines[0]]".replace("many, ", ""),
    "%%dl\nfn kept(x: f64) -> f64 = x\n:nope",
    "kept(2.0)",
    "%dl fn once(x: f64) -> f64 = kept(x) + 1.0\nonce(2.0)",
]


def test_cells_of_a_notebook_of_python(kernels, tmp_path):
    found = executed(CELLS, "python3", tmp_path, allow_errors=True)
    shown = [text(o) for o in found]
    assert shown[1] == ""
    assert shown[2] == "array([3., 5., 7.])\n" and "slope=68.0" in shown[3] and "shift=30.0" in shown[3]
    assert shown[4] == "in the cell\n14.0 : f64\n"
    html = found[4][-1]["data"]["text/html"]
    assert html.startswith("<pre>14.0</pre>") and "f64" in html
    assert shown[5] == "(array([1., 4., 9.]), 9.0, True)\n" and shown[6] == f"{81.0 * 14.0 / 2.0}\n"
    assert "(l: Line, x: f64[n]) -> f64" in shown[7].replace("(Line, f64[n])", "(l: Line, x: f64[n])")
    assert "comp " in shown[7] and "<span" in found[7][-2]["data"]["text/html"]
    assert "digraph" in shown[7] and (shutil.which("dot") is None or "<svg" in found[7][-1]["data"]["image/svg+xml"])
    assert shown[9] == "(array([1., 3., 5.]), 35.0)\n"
    assert shown[11] == '(0.5, 1, "a", [2. 9.]) : (f64, i64, str, f64[2])\n'
    assert shown[12] == "[Line(slope=9.0, shift=0.5), Line(slope=2.0, shift=1.0)]\n"
    assert found[13][-1]["output_type"] == "error" and shown[14] == "2.0\n"  # what stood before the mistake is there
    assert shown[15] == "3.0\n"


MISTAKES = {
    "%%dl\nlet z = unknown": ["E0201", "`unknown`", "<cell 2>:2:9"],
    "%%dl -i missing\n1": ["E0998", "`missing`"],
    "%%dl -i nothing\n1": ["E0998", "NoneType"],
    "%%dl -o f\nfn f(x: f64) -> f64 = x": ["E0998", "`f`"],
    "%dl [1.0][3]": ["E0801"],
    "%%dl\n:nope": ["E0971"],
}


def test_a_mistake_in_a_cell_is_a_message_without_a_traceback(kernels, tmp_path):
    _, *found = executed(["%load_ext dlang\nnothing = None", *MISTAKES], "python3", tmp_path, allow_errors=True)
    for outputs, words in zip(found, MISTAKES.values(), strict=True):
        (failed,) = [o for o in outputs if o["output_type"] == "error"]
        message = "\n".join(failed["traceback"])
        assert all(w in message for w in words) and "Traceback" not in message


# ---- the kernel ------------------------------------------------------------------------------------------------------
def test_a_notebook_of_the_language(kernels, tmp_path):
    found = executed(
        [
            "fn f(x: f64) -> f64 = x ** 3\nlet a = 2.0",
            "f(a)",
            ":type grad(f)",
            "grad(f)(a)\n:ir f",
            'print("out")',
            ":plot [1.0, 2.0]\n:asm |x: f64| 2.0 * x\n:graph |x: f64| 2.0 * x",
        ],
        "dlang",
        tmp_path,
    )
    shown = [text(o) for o in found]
    assert shown[0] == "" and shown[1] == "8.0 : f64\n" and shown[2] == "(f64) -> f64\n"
    assert shown[3].startswith("12.0 : f64\n") and "mul" in shown[3] and shown[4] == "out\n"
    assert "┤" in shown[5] and "ret" in shown[5] and "digraph" in shown[5]
    picture, code, _ = (o["data"] for o in found[5])
    assert "<span" in code["text/html"]
    if find_spec("matplotlib") is not None:
        assert base64.b64decode(picture["image/png"]).startswith(b"\x89PNG")


def test_a_mistake_ends_a_notebook_of_the_language(kernels, tmp_path):
    with pytest.raises(CellExecutionError) as caught:
        executed([":type 1", ":type 2\n\nlet a = 1\n:type a\nlet b = nope", "3"], "dlang", tmp_path)
    assert (caught.value.ename, caught.value.evalue) == ("error[E0201]", "unknown name `nope`")
    assert "<cell 2>:5:9" in caught.value.traceback and "let b = nope" in caught.value.traceback


def test_the_kernel_completes_and_explains_and_can_be_interrupted(kernels, tmp_path):
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="dlang")
    try:
        client.execute("## Cubes.\nfn cubed(x: f64) -> f64 = x ** 3", reply=True, timeout=PATIENCE)
        found = client.complete("let y = cub", reply=True, timeout=PATIENCE)["content"]
        assert "cubed" in str(found["matches"]) and found["cursor_start"] == 8 and found["cursor_end"] == 11
        assert client.complete(":ty", reply=True, timeout=PATIENCE)["content"]["matches"] == [":type "]
        page = client.inspect("cubed(2.0)", 3, reply=True, timeout=PATIENCE)["content"]["data"]["text/plain"]
        assert "cubed" in page and "Cubes." in page
        for code in ("cubed(", "let θ = cubed(1.0 + "):
            assert (
                "Cubes."
                in client.inspect(code, len(code), reply=True, timeout=PATIENCE)["content"]["data"]["text/plain"]
            )
        assert not client.inspect("nowhere", 3, reply=True, timeout=PATIENCE)["content"]["found"]
        for code, wanted in (("f(", {"status": "incomplete", "indent": "  "}), ("f(1)", {"status": "complete"})):
            client.is_complete(code)
            assert client.get_shell_msg(timeout=PATIENCE)["content"] == wanted
        endless = 'print("here")\nvar i = 0\nwhile true { i += 1 }'
        client.execute(endless, stop_on_error=False)  # or what is asked soon after the error may be aborted
        while client.get_iopub_msg(timeout=PATIENCE)["content"].get("text") != "here\n":
            pass
        manager.interrupt_kernel()
        reply = client.get_shell_msg(timeout=PATIENCE)["content"]
        assert reply["status"] == "error" and reply["ename"] == "interrupted"
        assert client.execute("cubed(2.0)", reply=True, timeout=PATIENCE)["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_the_kernel_says_what_it_is(kernels):
    spec = json.loads((kernels / "share/jupyter/kernels/dlang/kernel.json").read_text())
    assert spec["display_name"] == "dlang" and spec["argv"][1:3] == ["-m", "dlang.tools.notebook"]


def test_a_kernel_that_can_not_be_installed_is_told(tmp_path):
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "dlang.tools.notebook", "install", "--prefix", str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and done.stderr.startswith("the kernel can't be installed: [Errno")
