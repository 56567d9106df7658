"""Programs without Python do what `dlc run` does: the same output, the same messages, the same codes."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dlang.tools.dlc import main

ROOT = Path(__file__).parent.parent.parent
TEXTS = Path(__file__).with_name("texts.dl")
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def built(path, folder, *options):
    assert main(["build", "--exe", str(path), "-o", str(folder), *options]) == 0
    return folder / path.stem


def ran(program, *options, **more):
    done = subprocess.run([program, *options], capture_output=True, text=True, timeout=60, **more)
    return done.returncode, done.stdout, done.stderr


def interpreted(capfd, path, *options):
    """What `dlc run` does."""
    capfd.readouterr()
    try:
        code = main(["run", str(path), *options])
    except SystemExit as e:
        code = e.code
    return code, *capfd.readouterr()


def without_usage(said):
    return re.sub(r"^usage:.*?(?=^\S+.*: error)|^.*(?=: error: )", "", said, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return built(TEXTS, tmp_path_factory.mktemp("texts"))


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
    ["--byte 256", "--byte -1", "--n", "--n 1.5", "--scale 0x1", "--scale 1e", "x", "--on maybe", f"--n={2**63}"],
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


def test_texts_in_files(tmp_path, capfd):
    path = tmp_path / "files.dl"
    path.write_text(
        'import io\nfn main(out: str, from: str = "none.txt") {\n  io.save_text(out, "a\\nü")\n'
        '  print("{io.text(out)}")\n  print("{io.text(from)}")\n}\n'
    )
    program = built(path, tmp_path)
    out = str(tmp_path / "out.txt")
    assert ran(program, "--out", out, cwd=tmp_path) == interpreted(capfd, path, "--out", out)
    assert (tmp_path / "out.txt").read_text() == "a\nü"
    assert ran(program, "--out", "none/x", cwd=tmp_path)[2].startswith(
        "error[E0822]: cannot write `none/x`: No such file"
    )
    (tmp_path / "link").symlink_to(out)
    assert ran(program, "--out", "link", "--from", out, cwd=tmp_path)[0] == 0 and (tmp_path / "link").is_symlink()


def test_what_is_no_file_is_written_to(tmp_path):
    path = tmp_path / "out.dl"
    path.write_text('import io\nfn main(out: str) { io.save_text(out, "here") }\n')
    assert ran(built(path, tmp_path), "--out", "/proc/self/fd/1", cwd=tmp_path) == (0, "here", "")


FILES = """
import io
fn main(dir: str) {
  let x = [[f64(i) / 3.0 + f64(j) for j < 3] for i < 4]
  io.save_npy("{dir}/a.npy", x)
  io.save_npy("{dir}/b.npy", [f16(0.1), f16(2.5)])
  io.save_npy("{dir}/c.npy", [1u8, 2u8])
  io.save_npy("{dir}/d.npy", 2.5)
  io.save_npy("{dir}/e.npy", [true, false])
  let y: f64[?, ?] = io.npy("{dir}/a.npy")
  let c: i32[?] = io.npy("{dir}/c.npy")
  let b: f32[?] = io.npy("{dir}/b.npy")
  let d: f64 = io.npy("{dir}/d.npy")
  let e: f16[?] = io.npy("{dir}/e.npy")
  print("{y} {c} {b} {d} {e}")
  io.save_csv("{dir}/t.csv", "a,b,c", x)
  io.save_csv("{dir}/u.csv", "", [1i32, -2i32])
  io.save_csv("{dir}/v.csv", "", [1.0f32, 0.1f32, 1e10f32])
  io.save_csv("{dir}/w.csv", "on", [true, false])
  let t: f64[?, ?] = io.csv("{dir}/t.csv", true)
  let u: i64[?] = io.csv("{dir}/u.csv", false)
  let w: bool[?] = io.csv("{dir}/w.csv", true)
  print("{t} {u} {w}")
  let columns: i64[?, ?, ?] = io.npy("{dir}/columns.npy")
  let swapped: f64[?] = io.npy("{dir}/swapped.npy")
  let mixed: f64[?, ?] = io.csv("{dir}/mixed.csv", true)
  print("{columns} {swapped} {mixed}")
}
"""
WRONG = [
    'let v: f32[?] = io.npy("{dir}/d64.npy")',
    'let v: f64[?] = io.npy("{dir}/a.npy")',
    'let v: f64[?] = io.npy("{dir}/none.npy")',
    'let v: f64[?] = io.npy("{dir}/mixed.csv")',
    'let v: f64[?] = io.npy("{dir}/archive.npz")',
    'let v: f64[?, ?] = io.npy("{dir}/cut.npy")',
    'let v: i64[?, ?] = io.csv("{dir}/mixed.csv", true)',
    'let v: f64[?, ?] = io.csv("{dir}/mixed.csv", false)',
    'let v: f64[?] = io.csv("{dir}/mixed.csv", true)',
    'let v: f64[?, ?] = io.csv("{dir}/uneven.csv", false)',
    'let v: f64[?, ?] = io.csv("{dir}/latin.csv", false)',
    'let v: u8[?, ?] = io.csv("{dir}/large.csv", false)',
    'io.save_npy("{dir}/none/v.npy", [1.0])\nlet v = [0.0]',
]


def test_tables_and_arrays_in_files(tmp_path, capfd):
    folders = [tmp_path / "ours", tmp_path / "theirs"]
    for folder in folders:
        folder.mkdir()
        np.save(folder / "columns.npy", np.asfortranarray(np.arange(24).reshape(2, 3, 4)))
        np.save(folder / "swapped.npy", np.array([1.5, -2.0], ">f8"))
        (folder / "mixed.csv").write_text('x, "y"\r\n1.5, "2"\r\n\r\n  ,-3e2\n')
    path = tmp_path / "files.dl"
    path.write_text(FILES)
    ours = ran(built(path, tmp_path), "--dir", str(folders[0]))
    assert ours == interpreted(capfd, path, "--dir", str(folders[1])) and ours[0] == 0
    names = [{f.name: f.read_bytes() for f in folder.iterdir()} for folder in folders]
    assert names[0] == names[1] and len(names[0]) == 12


def test_files_that_are_not_as_expected(tmp_path, capfd):
    np.save(tmp_path / "d64.npy", np.array([1.0]))
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1])
    np.savez(tmp_path / "archive.npz", x=[1.0])
    (tmp_path / "mixed.csv").write_text("x,y\n1,2\n3,4.5\n")
    (tmp_path / "uneven.csv").write_text("1,2\n\n3\n")
    (tmp_path / "latin.csv").write_bytes(b"1,\xff\n")
    (tmp_path / "large.csv").write_text("\ufeff1,256\n")
    arms = "\n".join(f'  if which == {k} {{ {w}\n print("{{v}}") }}' for k, w in enumerate(WRONG))
    path = tmp_path / "wrong.dl"
    path.write_text(f"import io\nfn main(dir: str, which: i64) {{\n{arms}\n}}\n")
    program = built(path, tmp_path)
    for k in range(len(WRONG)):
        options = ["--dir", str(tmp_path), "--which", str(k)]
        expected = interpreted(capfd, path, *options)
        assert ran(program, *options) == expected and "error[E082" in expected[2], WRONG[k]


def test_threads_change_no_bit(tmp_path):
    path = tmp_path / "large.dl"
    path.write_text('fn main(n: i64 = 300000) { print("{sum(sin(f64(i)) * exp(-f64(i) / 1e5) for i < n)}") }\n')
    program = built(path, tmp_path)
    found = {ran(program, "--threads", t) for t in ("1", "2", "3")} | {ran(program, env={"DLANG_THREADS": "2"})}
    assert len(found) == 1 and next(iter(found))[0] == 0
    assert ran(program, "--threads", "0")[0] == 1


@pytest.mark.parametrize(
    "text, code, message",
    [
        (
            'extern "python:math.sin" fn f(x: f64) -> f64\nfn main() { print("{f(1.0)}") }\n',
            "E0987",
            "is a function of Python",
        ),
        (
            'import io\nfn main() { io.save("x.state", [1.0]) }\n',
            "E0987",
            "this reads or writes a file by means of Python",
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
