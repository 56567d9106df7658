"""Every code has messages that are tested character by character, from programs that a person could write."""

from __future__ import annotations

import io
import re
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dlang
from dlang.codegen.llvm.objects import this_processor
from dlang.diagnostics import DlangError, Source, render
from dlang.driver import Request, call, check, lower
from dlang.host import cuda
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.runtime import memory
from dlang.runtime.engine import Engine
from dlang.tools.dlc import main
from dlang.tools.repl.commands import Conversation, perform
from dlang.tools.repl.session import Session
from dlang.tools.run import call_of_main, printed
from tests.diagnostics import goldens as g

ROOT = Path(dlang.__file__).parent
GOLDENS = g.goldens()
RUN_TIME = re.compile(r"E08\d\d")
OF_TOOLS = re.compile(r"E09(?:49|[5-9]\d)")  # tested beside the tools that give them


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda c: f"{c.code} {c.title}")
def test_a_message_is_as_it_was_read_and_approved(golden: g.Golden) -> None:
    assert f"[{golden.code}]" in golden.message
    for backend in g.BACKENDS if RUN_TIME.fullmatch(golden.code) else ("cpu",):
        assert g.messages(golden.program, backend) == golden.message


def test_every_code_that_the_compiler_can_give_has_a_golden_message() -> None:
    given = {c for f in ROOT.rglob("*.py") for c in re.findall(r'"(E0\d{3})"', f.read_text(encoding="utf-8"))}
    tested = {c.code for c in GOLDENS} | set(re.findall(r"error\[(E0\d{3})\]", Path(__file__).read_text()))
    beside = {c for folder in ("aot", "python", "tools") for f in (Path(__file__).parents[1] / folder).rglob("*.py")
              for c in OF_TOOLS.findall(f.read_text())}  # fmt: skip
    assert given <= tested | beside


# ---- what no program alone shows -------------------------------------------------------------------------------------
def dlc(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(args) == 1
    return capsys.readouterr().err.strip("\n")


def shown(e: pytest.ExceptionInfo[BaseException]) -> str:
    assert isinstance(e.value, DlangError)
    return str(e.value)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_modules_that_import_one_another(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.dl").write_text("import b\n")
    (folder / "b.dl").write_text("import a\n")
    assert dlc(capsys, "check", "a.dl") == (
        "error[E0204]: the modules import one another: a → b → a\n --> b.dl:1:1\n  |\n1 | import a\n  | ^^^^^^^^\n"
        "  = help: put what they share into a module of its own, which each of them imports\n\n1 error"
    )


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("fn f() = " + "(" * 500 + "1" + ")" * 500, "error[E0290]: this is nested too deeply: more than 400 levels"),
        (
            "fn f(x) = " + "f(" * 410 + "x" + ")" * 410,
            "error[E0290]: this is nested too deeply: more than 400 levels",
        ),
        ("fn f(x) = " + "x + " * 2500 + "x", "error[E0290]: this is nested too deeply: more than 2,400 levels"),
        ("fn f() {\n" + "let a = 1\n" * 10_010 + "}", "error[E0290]: this declaration has more than 10,000 statements"),
        ("let a = 1\n" * 10_010, "error[E0290]: this script has more than 10,000 statements"),
    ],
)
def test_what_is_too_deep_or_too_long(text: str, first: str) -> None:
    (d,) = check(Source("deep.dl", text + "\n")).diagnostics
    assert render(d).splitlines()[0] == first
    assert d.help and all(len(line) < 200 for line in render(d).splitlines())


READ = 'import io\nfn main() {{\n  let x: f64[n] = {0}\n  print("{{sum(x)}}")\n}}\n'


@pytest.mark.parametrize("backend", g.BACKENDS)
@pytest.mark.parametrize(
    ("call", "first"),
    [
        ('io.npz("none.npz", "x")', "error[E0821]: cannot read `none.npz`: No such file or directory"),
        ('io.npz("a.npz", "y")', "error[E0823]: cannot read `a.npz`: it has no array `y`; it holds `x`"),
        (
            'io.npz("b.npz", "x")',
            "error[E0824]: cannot read `b.npz`: `x` has 2 axes ([3, 3]), the program asks for 1 axis",
        ),
        (
            'io.npz("c.npz", "x")',
            "error[E0825]: cannot read `c.npz`: `x` holds texts, which f64 cannot hold without loss",
        ),
    ],
)
def test_files_that_are_not_as_expected(
    call: str, first: str, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("a.npz", x=np.zeros(3))
    np.savez("b.npz", x=np.zeros((3, 3)))
    np.savez("c.npz", x=np.array(["a"]))
    Path("m.dl").write_text(READ.format(call))
    assert dlc(capsys, "run", "m.dl", "--backend", backend).splitlines()[0].partition("; read")[0] == first


@pytest.mark.parametrize("backend", g.BACKENDS)
@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("1,2\n3,x\n", "error[E0826]: line 2 of `a.csv`, column 2: `x` is not a number of f64"),
        ("1,2\n3\n", "error[E0827]: line 2 of `a.csv` has 1 cell, line 1 has 2 cells"),
    ],
)
def test_tables_that_are_not_as_expected(
    text: str, first: str, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.csv").write_text(text)
    Path("m.dl").write_text('import io\nfn main() {\n  let x: f64[n, m] = io.csv("a.csv", false)\n  print(sum(x))\n}\n')
    assert dlc(capsys, "run", "m.dl", "--backend", backend).splitlines()[:2] == [first, " --> m.dl:3:22"]


ENDLESS = "fn endless(k: i64) -> i64 = 1 + endless(k + 1)\nfn main() { print(endless(0)) }\n"


def test_a_stack_that_is_exhausted() -> None:
    functions = check(Source("m.dl", ENDLESS)).module.functions
    program, entries = lower([Request(printed(call_of_main("m.dl", functions["main"], [])))])
    small = Engine(Host(io.StringIO()), stack=4 << 20).compile(program, [e.name for e in entries])
    for runner in (Interpreter(program, Host(io.StringIO()), depth=500), small):
        with pytest.raises(DlangError) as e:
            call(runner, entries[0])
        lines = re.sub(r"\d+ (calls deep|times over)", r"many \1", shown(e)).splitlines()
        assert lines[0] == "error[E0805]: the stack is exhausted: `m.endless` is many calls deep"
        assert lines[3:6] == [
            "1 | fn endless(k: i64) -> i64 = 1 + endless(k + 1)",
            "  |                                 ^^^^^^^^^^^^^^",
            "note: in `m.endless`, called here many times over",
        ]


def test_memory_that_a_mistake_of_the_compiler_would_have_touched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("a.npy", np.arange(5.0))
    Path("m.dl").write_text('import io\nfn main() {\n  let x: f64[n] = io.npy("a.npy")\n  print("{sum(x)}")\n}\n')
    monkeypatch.setenv("DLANG_SANITIZE", "")  # which `--sanitize` sets
    monkeypatch.setattr(memory, "block", lambda context, bytes: context.block(bytes - 8))  # as if it were shorter
    assert main(["run", "--sanitize", "m.dl"]) == 70
    error = (
        "error[E0811]: bytes … to 39 of `x` (f64), which has 32, would be read: this is a bug in dlang\n"
        " --> m.dl:4:11\n"
        "  |\n"
        '4 |   print("{sum(x)}")\n'
        "  |           ^^^^^^\n"
        "note: in `m.main`, called here\n"
        " --> m.dl:2:4\n"
        "  |\n"
        "2 | fn main() {\n"
        "  |    ----\n"
        "  = help: the program may be fine: please report it together with this message"
    )
    assert re.sub(r"bytes \d+ to", "bytes … to", capsys.readouterr().err.strip("\n")) == error  # by its vectors
    Path("t.dl").write_text('import io\ntest "sum" {\n  let x: f64[n] = io.npy("a.npy")\n  assert sum(x) == 10.0\n}\n')
    assert main(["test", "--sanitize", "t.dl"]) == 70
    assert "error[E0811]" in capsys.readouterr().err


def test_a_file_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.dl").write_text('import io\nfn main() { io.save_npy("none/a.npy", [1.0]) }\n')
    found = dlc(capsys, "run", "m.dl").splitlines()[0]
    assert found == "error[E0822]: cannot write `none/a.npy`: No such file or directory"


def test_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dlc(capsys, "run", "none.dl") == (
        "error[E0951]: cannot read `none.dl`: No such file or directory\n"
        "  = help: see whether the file is there and may be read"
    )
    (folder / "a.dl").write_bytes(struct.pack("3B", 0x61, 0xFF, 0x62))
    assert dlc(capsys, "run", "a.dl") == (
        "error[E0952]: `a.dl` is not UTF-8 text: byte 0xff in line 1 cannot be decoded\n"
        "  = help: a program is text; save it as UTF-8"
    )
    (folder / "b.dl").write_text("fn f() = 1\n")
    assert dlc(capsys, "run", "b.dl") == (
        "error[E0953]: `b.dl` has no `main` and no statements to run\n"
        "  = help: add `fn main() { … }`; the command `dlc test` runs its `test` blocks"
    )
    (folder / "c.dl").write_text('fn main(x: f64[n]) { print("{n}") }\n')
    assert dlc(capsys, "run", "c.dl").splitlines()[0] == (
        "error[E0954]: the parameter `x` of `main` is no number, text or bool"
    )
    assert dlc(capsys, "ir", "b.dl", "--stage", "mono", "--fn", "g") == (
        "error[E0955]: `b.dl` has no function or test `g`\n  = help: it has `f`"
    )
    (folder / "d.dl").write_text("fn f(x) = x\n")
    assert dlc(capsys, "ir", "d.dl", "--stage", "mono", "--fn", "f").splitlines()[0].startswith("error[E0956]: `f` has")
    (folder / "e.dl").write_text("fn f(n: i64) -> i64 = n\n")
    assert dlc(capsys, "check-grad", "e.dl").splitlines()[0] == (
        "error[E0957]: `e.dl` has no function whose derivatives could be checked"
    )
    assert dlc(capsys, "build", "--shared", "d.dl", "--fn", "f").splitlines() == [
        "error[E0986]: `f` has no types of its own: each of its uses decides them",
        " --> d.dl:1:4",
        "  |",
        "1 | fn f(x) = x",
        "  |    ^",
        "  = help: say which types it has: `--fn f=f64`",
    ]
    (folder / "t.dl").write_text("enum Tree { Leaf, Node(Tree) }\nfn f(t: Tree) -> i64 = 1\n")
    assert dlc(capsys, "build", "--shared", "t.dl", "--fn", "f").splitlines()[0] == (
        "error[E0987]: `f` cannot be called from outside: a value that contains itself has no form in C"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", "none")
        assert dlc(capsys, "build", "--shared", "e.dl") == (
            "error[E0988]: `none`, which `CC` names, is no command, and linking takes one\n"
            "  = help: install gcc or clang, or `pip install ziglang`; `CC` names another one"
        )
    (folder / "p.dl").write_text("print(1)\n")
    assert dlc(capsys, "run", "p.dl", "--profile", "--backend", "interp") == (
        "error[E0958]: only compiled code can be profiled\n  = help: leave `--backend interp` out"
    )


def test_an_emulation_without_a_compiler(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")  # what has been compiled once runs without it
    Path("m.dl").write_text("fn main(n: i64 = 3000) { print(sum([f64(i) * 0.8125 - sin(f64(i)) for i < n])) }\n")
    assert dlc(capsys, "run", "m.dl", "--backend", "cuda-emulated") == (
        "error[E0902]: there is no C++ compiler, which the emulation of a GPU needs\n"
        "  = help: install one, such as g++ or clang++, or say in $CXX which one to use"
    )


def test_kernels_that_a_program_brings_along(capsys: pytest.CaptureFixture[str]) -> None:
    call = "fn main(n: i64 = 3000) { print(twice([f64(i) for i < n], n)) }"
    place = f" --> k.dl:2:32\n  |\n2 | {call}\n  |                                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"

    def found(kernels: str | None, result: str = "f64[n]") -> str:
        Path("k.cu").unlink(missing_ok=True)
        if kernels is not None:
            Path("k.cu").write_text(kernels)
        head = f'extern "cuda:k.cu:twice" fn twice(x: f64[n], nodiff n: size) -> {result}'
        Path("k.dl").write_text(f"{head}\n{call}\n")
        return dlc(capsys, "run", "k.dl", "--backend", "cuda-emulated")

    assert found(None) == (
        "error[E0604]: the kernels of `k.cu` cannot be read: No such file or directory\n"
        f"{place}  = help: a path is relative to the file of the program"
    )
    assert found("") == (
        "error[E0604]: `k.cu` has no kernel `twice`\n"
        f'{place}  = help: it is written `extern "C" __global__ void twice(…)`'
    )
    wrong = found('extern "C" __global__ void twice(const double *x, long long n, double *out) { nothing(); }\n')
    assert wrong.startswith("error[E0604]: the kernel `twice` does not compile: twice.cu:1:")
    assert wrong.endswith(f'{place}  = help: it is CUDA C, written `extern "C" __global__ void twice(…)`')
    number = found("", "f64")
    assert number.startswith("error[E0418]: the kernel `twice` gives a number, and a kernel fills arrays\n --> k.dl:1:")
    assert number.endswith("  = help: have it give an array of one element")


def test_a_gpu_that_is_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("m.dl").write_text("fn main(n: i64 = 3) { print(sum([f64(i) for i < n])) }\n")
    monkeypatch.setitem(sys.modules, "cupy", None)
    cuda.loaded_cupy.cache_clear()
    found = dlc(capsys, "run", "m.dl", "--backend", "cuda")
    assert re.sub(r"loaded: .*", "loaded: why", found) == (
        "error[E0903]: the back end `cuda` needs CuPy, which can't be loaded: why\n"
        "  = help: install it with `pip install 'dlang[cuda]'`"
    )
    runtime = SimpleNamespace(getDeviceCount=lambda: 0, CUDARuntimeError=RuntimeError)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    assert dlc(capsys, "run", "m.dl", "--backend", "cuda") == (
        "error[E0904]: there is no GPU that can be used: there is none\n"
        "  = help: `cuda-emulated` runs the kernels of a program on the processor, more slowly"
    )


def test_the_session() -> None:
    session = Session("interp")
    with pytest.raises(DlangError) as e:
        session.submit("let x = None")
    assert shown(e) == (
        "error[E0970]: the type of `x` is not known: Option<a>\n --> <input 1>:1:1\n  |\n1 | let x = None\n"
        "  | ^^^^^^^^^^^^\n  = help: write it: `let x: Option<f64> = None`"
    )


@pytest.mark.parametrize(
    ("command", "first"),
    [
        (":type let x = 1", "error[E0971]: `:type` takes one expression"),
        (":undo", "error[E0980]: there is nothing to take back"),
        (":plot 1.0", "error[E0981]: `1.0` can't be plotted: it is f64"),
        (":bench print(1)", "error[E0982]: an expression with the effect print is not run again and again"),
    ],
)
def test_commands_of_a_session(command: str, first: str) -> None:
    with pytest.raises(DlangError) as e:
        perform(Conversation(Session("interp")), command)
    assert shown(e).splitlines()[0] == first


def test_a_declaration_that_breaks_another() -> None:
    session = Session("interp")
    session.submit("fn f(x: f64) -> f64 = x")
    session.submit("fn g(x: f64) -> f64 = f(x)")
    with pytest.raises(DlangError) as e:
        session.submit("fn f(x: f64) -> bool = true")
    assert shown(e).splitlines()[0] == "error[E0979]: `g` would no longer be right with this `f`"


def test_a_processor_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_CPU", "x86-64-v9")
    with pytest.raises(DlangError) as e:
        this_processor.__wrapped__()
    assert shown(e) == (
        "error[E0959]: DLANG_CPU is `x86-64-v9`, not a processor\n"
        "  = help: it is `x86-64`, `x86-64-v2`, `x86-64-v3`, `x86-64-v4` or `native`"
    )


def test_python() -> None:
    module = dlang.compile("fn f(x: f64[n]) -> f64 = sum(x)\nfn g(x: f64, k: i64) -> f64 = x\n")
    with pytest.raises(DlangError) as e:
        module.f("a")
    assert shown(e).startswith("error[E0960]: ")
    with pytest.raises(DlangError) as e:
        module.f()
    assert shown(e).startswith("error[E0961]: ")
    with pytest.raises(DlangError) as e:
        dlang.set_threads(0)
    assert shown(e).startswith("error[E0972]: ")
    with pytest.raises(DlangError) as e:
        dlang.grad(len)
    assert shown(e).startswith("error[E0962]: ")
    with pytest.raises(DlangError) as e:
        module.f([1.0], 2.0)
    assert shown(e).startswith("error[E0961]: ")
    with pytest.raises(DlangError) as e:
        dlang.compile("fn f(x) = x.width\n").f(1.0)
    assert shown(e).splitlines()[0] == "error[E0964]: `f` cannot be called with (f64)"
    with pytest.raises(DlangError) as e:
        dlang.compile("fn f(x) = x\n", primitives=[np.sin])
    assert shown(e) == (
        "error[E0965]: `primitives` are functions with a signature, not ufunc\n"
        '  = help: decorate the function: `@dlang.primitive("fn f(x: f64) -> f64")`'
    )
    with pytest.raises(DlangError) as e:
        dlang.compile("fn f() = 1\n", backend="none")
    assert shown(e).startswith("error[E0963]: there is no backend `none`")
