"""Programs without Python do what `dlc run` does: the same output, the same messages, the same codes."""

import re
import signal
import subprocess
from pathlib import Path

import pytest

from dlang.tools.dlc import main
from tests.aot.running import built, interpreted, needs_compiler, ran
from tests.patience import PATIENCE

ROOT = Path(__file__).parent.parent.parent
TEXTS = Path(__file__).with_name("texts.dl")
JOINED = Path(__file__).with_name("joined_texts.dl")
LOADED = Path(__file__).with_name("loaded_texts.dl")
pytestmark = needs_compiler


def without_usage(said):
    return re.sub(r"^usage:.*?(?=^\S+.*: error)|^.*(?=: error: )", "", said, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return built(TEXTS, tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def joined_texts(tmp_path_factory):
    return built(JOINED, tmp_path_factory.mktemp("joined"))


# ---- options and text ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    ["", "--n -5 --scale -1e-3", "--on false --name x", "--small=1e10 --on --name=", "--n 1_000 --scale inf"],
)
def test_values_are_written_as_dlc_run_writes_them(texts, options, capfd):
    expected = interpreted(capfd, TEXTS, *options.split())
    assert ran(texts, *options.split()) == expected and expected[0] == 0


@pytest.mark.parametrize(
    "options",
    [
        "--byte 256",
        "--byte -1",
        "--n",
        "--n 1.5",
        "--scale 0x1",
        "--scale 1e",
        "x",
        "--on maybe",
        f"--n={2**63}",
        "--sacle 1",
        "--nam=x",
        "--NAME x",
        "--zzz",
    ],
)
def test_a_wrong_command_line_is_refused_in_the_same_words(texts, options, capfd):
    code, out, said = interpreted(capfd, TEXTS, *options.split())
    own = ran(texts, *options.split())
    assert (own[0], own[1]) == (code, out) == (2, "")
    assert without_usage(own[2]) == without_usage(said) and "error: " in said


def test_help_and_names_of_options(tmp_path):
    path = tmp_path / "p.dl"
    path.write_text('## Prints 10 % more.\nfn main(batch_size: i64, θ: f64 = 0.5) { print("{batch_size} {θ}") }\n')
    program = built(path, tmp_path)
    code, out, _ = ran(program, "--help")
    assert code == 0 and "Prints 10 % more." in out and "--batch-size i64" in out and "f64, 0.5 unless given" in out
    assert ran(program, "--batch_size", "3", "--θ=2")[1] == ran(program, "--batch-size=3", "--θ", "2")[1] == "3 2.0\n"
    assert "error: expected --batch-size" in ran(program)[2]


# ---- what ends a run -------------------------------------------------------------------------------------------------
FAILURES = """
enum Tree { Leaf, Fork(Tree, Tree) }
fn at(x: f64[n], i: i64) -> f64 {
  assert i < 100, "i is {i} of {n}, {x:.1f}"
  x[i]
}
fn deeper(k: i64, x: f64[n]) -> f64 = if k == 0 { at(x, n + k) } else { 1.0 + deeper(k - 1, x) }
fn left(k: i64) -> f64 = deeper(k, [1.0, 2.0])
fn right(k: i64) -> f64 = left(k) + 1.0

fn main(which: i64, size: i64 = 3) {
  print("begin")
  let x = [f64(i) for i < size]
  if which == 0 { print("{at(x, 7)}") }
  if which == 1 { print("{at(x, 700)}") }
  if which == 2 { print("{right(20)}") }
  if which == 3 { print("{1 // (size - 3)}") }
  if which == 4 { fail("that is all: {x}") }
  if which == 5 { print("{right(0)}") }
  if which == 6 { print("{sort([f64(i) for i < size * 1000000000000])[5]}") }
}
"""


def test_failures_have_the_same_messages_and_places(tmp_path, capfd):
    path = tmp_path / "failures.dl"
    path.write_text(FAILURES)
    program = built(path, tmp_path)
    for which in range(7):
        expected = interpreted(capfd, path, "--which", str(which))
        assert expected[0] == 1 and "error[E08" in expected[2]
        assert ran(program, "--which", str(which)) == expected


# ---- the world -------------------------------------------------------------------------------------------------------
def test_scripts_seeds_and_values_of_main(tmp_path, capfd):
    script = tmp_path / "script.dl"
    script.write_text(
        "import random\nlet x = [random.normal() for i < 3]\n"
        'print("{x}")\nvar total = 0.0\ntotal += sum(x)\nprint("{total}")\n'
    )
    value = tmp_path / "value.dl"
    value.write_text("fn main(n = 20, x = 0.5) = (n, [x for i < 3])\n")
    for path, options in [(script, []), (script, ["--seed", "7"]), (value, []), (value, ["--n", "3", "--x", "2"])]:
        program = built(path, tmp_path)
        assert ran(program, *options) == interpreted(capfd, path, *options)


@pytest.mark.parametrize("options", [[], ["--wide"]])
def test_an_interruption_ends_it(options, tmp_path):
    """Also where several threads compute."""
    path = tmp_path / "endless.dl"
    path.write_text(
        'fn main(wide: bool = false) {\n  print("begin")\n  var t = 0.0\n'
        '  if wide { print("{sum(sin(f64(i)) for i < 1000000000000)}") }\n'
        "  for i < 1000000000000 { t += sin(f64(i) + t) }\n" + '  print("{t}")\n}\n'
    )
    with subprocess.Popen([built(path, tmp_path), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"begin\n"
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=PATIENCE) == (b"", b"endless: interrupted in `main`\n")
        assert running.returncode == 130


def test_nobody_reads_what_it_prints(tmp_path):
    path = tmp_path / "lines.dl"
    path.write_text('fn main(n: i64 = 100000) { for i < n { print("line {i}") } }\n')
    program = built(path, tmp_path)
    with subprocess.Popen([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"line 0\n"
        running.stdout.close()
        assert (running.wait(timeout=PATIENCE), running.stderr.read()) == (0, b"")
    assert subprocess.run(f"{program} --n 10 >&-", shell=True, capture_output=True).returncode == 0


def test_keys_of_all_dtypes_are_sorted(tmp_path, capfd):
    path = tmp_path / "sorting.dl"
    path.write_text("""
fn main(n: i64 = 9) {
  let halves = [f16((i * 7) % 4) - f16(1.5) for i < n]
  let nan = 0.0 / 0.0
  let b = [bf16(if i == 3 { nan } else if i == 5 { -0.0 } else if i == 1 { 0.0 } else { -f64((i * 5) % 4) }) for i < n]
  let words = ["b", "", "ü", "ab", "a", "b", "€"]
  print("{argsort(halves)} {sort(halves)} {argsort(b)} {sort(b)} {argsort(words)} {sort(words)}")
  let none: u8[0] = []
  print("{argsort([i8((i * 5) % 7 - 3) for i < n])} {argsort([u16((i * 50000) % 65536) for i < n])} {argsort(none)}")
  print("{argsort([i16(i * 5 % 3) for i < 5000])[4900..]} {argsort([u64(n - i) for i < n])}")
}
""")
    assert ran(built(path, tmp_path)) == interpreted(capfd, path)


def test_threads_change_no_bit(tmp_path):
    path = tmp_path / "large.dl"
    path.write_text('fn main(n: i64 = 300000) { print("{sum(sin(f64(i)) * exp(-f64(i) / 1e5) for i < n)}") }\n')
    program = built(path, tmp_path)
    found = {ran(program, "--threads", t) for t in ("1", "2", "3")} | {ran(program, env={"DLANG_THREADS": "2"})}
    assert len(found) == 1 and next(iter(found))[0] == 0
    assert ran(program, "--threads", "0")[0] == 1


EXAMPLES = [p for p in sorted((ROOT / "examples").rglob("*.dl")) if "\nfn main" in p.read_text()]


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_all_examples_but_those_that_call_python_can_be_built(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    code = main(["build", "--exe", str(path), "-o", str(tmp_path)])
    assert code == ('"python:' in path.read_text()), capsys.readouterr().err
    assert code or ran(tmp_path / path.stem, "--help")[0] == 0


@pytest.mark.parametrize(
    "text, code, message",
    [
        (
            'extern "python:math.sin" fn f(x: f64) -> f64\nfn main() { print("{f(1.0)}") }\n',
            "E0987",
            "is a function of Python",
        ),
        ("fn main(n: i64, k: i64 = n + 1) = k\n", "E0987", "the default of `k` is computed"),
        ("fn main(x: f64[n]) = sum(x)\n", "E0954", "is no number, text or bool"),
        ("fn f() = 1\n", "E0953", "has no `main`"),
    ],
)
def test_programs_that_cannot_be_built(text, code, message, tmp_path, capsys):
    (tmp_path / "p.dl").write_text(text)
    assert main(["build", "--exe", str(tmp_path / "p.dl"), "-o", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"error[{code}]" in said and message in said


@pytest.mark.parametrize("options", ["", "--n 0 --name=", "--n 1", "--n 399", "--n 450 --name é"])
def test_texts_that_are_joined_are_those_of_dlc_run(options, capfd, joined_texts):
    expected = interpreted(capfd, JOINED, *options.split())
    assert ran(joined_texts, *options.split()) == expected
    assert (expected[0] != 0) == ("450" in options)


def test_texts_of_loaded_values_are_kept_while_something_holds_them(tmp_path, capfd):
    program = built(LOADED, tmp_path)
    expected = interpreted(capfd, LOADED, "--path", str(tmp_path / "rows.npz"))
    assert ran(program, "--path", str(tmp_path / "rows.npz")) == expected and expected[0] == 0
