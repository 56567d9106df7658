"""Files that are cut short or have other bytes are refused by what is built, which reads nothing that is not theirs.

The runtime in C is compiled here with the sanitizers of addresses and of undefined behaviour, which end the process at
the first wrong access.
"""

import io
import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import numpy as np
import pytest

from dlang.tools.dlc import main
from tests.patience import PATIENCE

PROGRAM = """
import io
struct Inner { w: f64[3], name: str }
enum Kind { Nothing, Numbers(f64[2]) }
enum Tree { Leaf, Node(Tree, f64, Tree) }
struct Whole<n> { a: f64[n], inner: Inner, kind: Kind, tree: Tree, k: i64, t: str[2] }
fn matrix(path: str) -> f64 ! io { let a: f64[n, m] = io.npy(path); sum(a) }
fn whole(path: str) -> i64 ! io { let a: i64[n] = io.npy(path); sum(a) }
fn texts(path: str) -> i64 ! io { let a: str[n] = io.npy(path); len(a) }
fn archive(path: str) -> f64 ! io {
  let a: f64[n] = io.npz(path, "a")
  let b: f32[m] = io.npz(path, "b")
  sum(a) + f64(sum(b))
}
fn load(path: str) -> f64 ! io { let w: Whole<n> = io.load(path); sum(w.a) + sum(w.inner.w) + f64(w.k) }
fn save(path: str) -> () ! io = io.save(path, Whole(
  a = [1.0, 2.0, 3.0, 4.0], inner = Inner(w = [1.0, 2.0, 3.0], name = "inner"), kind = Numbers([1.0, 2.0]),
  tree = Node(Leaf, 1.0, Node(Leaf, 2.0, Leaf)), k = 7, t = ["ab", "c"]))
"""
DRIVER = """
#include <stdio.h>
#include <string.h>
#include "read.h"
int main(void) {
    char how[16], path[4000];
    double real;
    int64_t whole;
    while (scanf("%15s %3999s", how, path) == 2) {
        int failed = !strcmp(how, "matrix")    ? read_matrix(path, &real)
                     : !strcmp(how, "whole")   ? read_whole(path, &whole)
                     : !strcmp(how, "texts")   ? read_texts(path, &whole)
                     : !strcmp(how, "archive") ? read_archive(path, &real)
                     : !strcmp(how, "load")    ? read_load(path, &real)
                                               : read_save(path);
        puts(failed ? read_error_code() : "fine");
    }
}
"""
COMPILER = """#!/bin/sh
for a do shift; [ "$a" = -O2 ] || set -- "$@" "$a"; done
exec cc -O0 -fsanitize=address,undefined -fno-sanitize-recover=undefined "$@"
"""
REFUSALS = {"E0806", *[f"E082{k}" for k in range(1, 9)]}


def has_sanitizers() -> bool:
    if shutil.which("cc") is None:
        return False
    command = ["cc", "-fsanitize=address,undefined", "-xc", "-", "-o", "/dev/null"]
    return subprocess.run(command, input=b"int main(void) { return 0; }", capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Reads files, given with the name of the function that does; gives the code of each failure, or `fine`."""
    if not has_sanitizers():
        pytest.skip("no C compiler with sanitizers")
    folder = tmp_path_factory.mktemp("read")
    (folder / "read.dl").write_text(PROGRAM)
    (folder / "main.c").write_text(DRIVER)
    (folder / "cc").write_text(COMPILER)
    (folder / "cc").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", str(folder / "cc"))
        assert main(["build", "--shared", str(folder / "read.dl"), "-o", str(folder)]) == 0
    link = [folder / "cc", "main.c", "-I.", "-L.", "-lread", f"-Wl,-rpath,{folder}", "-o", "main"]
    subprocess.run(link, cwd=folder, check=True)

    def run(files: list[tuple[str, Path]]) -> list[str]:
        given = "".join(f"{how} {path}\n" for how, path in files)
        done = subprocess.run([folder / "main"], input=given, capture_output=True, text=True, timeout=PATIENCE)
        seen = done.stdout.split()
        at = files[len(seen)] if len(seen) < len(files) else ""
        assert done.returncode == 0 and not done.stderr, f"at {at}: {done.stderr[:2000]}"
        return seen

    return run


def npy(array, version=None) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version)
    return out.getvalue()


def npz(save) -> bytes:
    out = io.BytesIO()
    save(out, a=np.arange(40.0), b=np.ones(3, np.float32))
    return out.getvalue()


def originals(read, folder: Path) -> dict[str, tuple[str, bytes, int]]:
    """By name, with what reads it, its bytes, and how many of these say how the others are to be read."""
    saved = folder / "saved.npz"
    assert read([("save", saved), ("load", saved)]) == ["fine", "fine"]
    matrix = np.arange(6.0).reshape(2, 3)
    arrays = {
        "rows": ("matrix", npy(matrix)),
        "columns": ("matrix", npy(np.asfortranarray(matrix))),
        "swapped": ("matrix", npy(matrix.astype(">f4"))),
        "second version": ("matrix", npy(matrix, (2, 0))),
        "bytes": ("whole", npy(np.arange(5, dtype=np.int8))),
        "truth": ("whole", npy(np.array([True, False]))),
        "texts": ("texts", npy(np.array(["one", "zwölf", ""]))),
    }
    archives = {
        "stored": ("archive", npz(np.savez)),
        "deflated": ("archive", npz(np.savez_compressed)),
        "value": ("load", saved.read_bytes()),
    }
    return {
        **{name: (how, content, 128) for name, (how, content) in arrays.items()},
        **{name: (how, content, len(content)) for name, (how, content) in archives.items()},
    }


def check(read, folder: Path, cases: list[tuple[str, str, bytes]]) -> list[str]:
    files = []
    for k, (how, _, content) in enumerate(cases):
        path = folder / f"{k}"
        path.write_bytes(content)
        files.append((how, path))
    seen = read(files)
    wrong = [(what, code) for (_, what, _), code in zip(cases, seen, strict=True) if code not in {"fine", *REFUSALS}]
    assert not wrong
    return seen


def test_files_that_are_cut_short_are_refused(read, tmp_path):
    cases = []
    for name, (how, content, head) in originals(read, tmp_path).items():
        step = max(1, head // 150)
        cases += [(how, f"{name} cut at {n}", content[:n]) for n in [*range(0, head, step), len(content) - 1]]
    assert len(cases) > 1000
    assert "fine" not in check(read, tmp_path, cases)


def test_files_with_other_bytes_are_refused_or_read(read, tmp_path):
    random, cases = Random(7), []
    for name, (how, content, head) in originals(read, tmp_path).items():
        for _ in range(150):
            changed = bytearray(content)
            for at in random.sample(range(min(head, len(content))), random.choice([1, 1, 2, 5])):
                changed[at] = random.choice([changed[at] ^ 1 << random.randrange(8), 0, 255, random.randrange(256)])
            cases.append((how, f"{name} {bytes(changed)!r}", bytes(changed)))
    seen = check(read, tmp_path, cases)
    assert sum(code != "fine" for code in seen) > 300


def test_headers_that_say_strange_things_are_refused_or_read(read, tmp_path):
    ends = [
        "",
        "'",
        "'<",
        "'<f",
        "'<f8",
        "'<f99999999999999999999'",
        "'<U536870911'",
        "'<M8[",
        "[('a', '<f8')]",
        "'|b1'",
    ]
    shapes = [
        "",
        "(",
        "(2",
        "(2,",
        "(-1,)",
        f"({2**62},)",
        f"({2**63},)",
        "(4294967296, 4294967296)",
        "(0, 9, 0)",
        "()",
    ]
    shapes += [f"({'1, ' * 40})", "(2, 3)"]
    cases = []
    for how in ("matrix", "whole", "texts"):
        for end in ends:
            for shape in shapes:
                for order in ("True", "", "False"):
                    text = f"{{'fortran_order': {order}, 'shape': {shape}, 'descr': {end}".encode()
                    content = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(48)
                    cases.append((how, text.decode(), content))
    assert len(cases) > 900
    check(read, tmp_path, cases)


def test_the_sanitizer_sees_what_is_wrong(tmp_path):
    if not has_sanitizers():
        pytest.skip("no C compiler with sanitizers")
    (tmp_path / "cc").write_text(COMPILER)
    (tmp_path / "wrong.c").write_text(
        "#include <stdlib.h>\nint main(int n, char **s) { char *a = malloc(4); return a[n + 3]; }\n"
    )
    subprocess.run(["sh", "cc", "-O2", "wrong.c", "-o", "wrong"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "wrong"], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode and "AddressSanitizer" in done.stderr
