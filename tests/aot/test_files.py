"""Files that programs without Python read and write: the same bytes, numbers and messages as those of `dlc run`."""

import zipfile

import numpy as np

from tests.aot.running import built, interpreted, needs_compiler, ran
from tests.limits import file_limit

pytestmark = needs_compiler


def test_texts_in_files(tmp_path, capfd):
    path = tmp_path / "files.dl"
    path.write_text(
        'import io\nfn main(out: str, from: str = "none.txt") {\n  io.save_text(out, "a\\nü")\n'
        '  let there = [io.exists(x) for x in [out, from, "", "a\\0b", "."]]\n  print("{there}")\n'
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
    (tmp_path / "later").symlink_to("new.txt")
    for name in ("link", "later"):
        assert ran(program, "--out", name, "--from", out, cwd=tmp_path)[0] == 0 and (tmp_path / name).is_symlink()
    assert (tmp_path / "new.txt").read_text() == "a\nü"


def test_what_is_no_file_is_written_to(tmp_path):
    path = tmp_path / "out.dl"
    path.write_text('import io\nfn main(out: str) { io.save_text(out, "here") }\n')
    assert ran(built(path, tmp_path), "--out", "/proc/self/fd/1", cwd=tmp_path) == (0, "here", "")


FULL = """
import io
fn main(dir: str) {
  io.save_text("{dir}/old", "short")
  for i < 400 { io.log("{dir}/log.csv", (i, "a,b c", 2.5)) }
}
"""


def test_on_a_full_disk_rows_are_whole_and_old_files_stay(tmp_path, capfd):
    path = tmp_path / "full.dl"
    path.write_text(FULL)
    program, folders = built(path, tmp_path), [tmp_path / "ours", tmp_path / "theirs"]
    for folder in folders:
        folder.mkdir()
        (folder / "old").write_text("before")
        (folder / "old").chmod(0o640)
    with file_limit(1000):
        ours = ran(program, "--dir", str(folders[0]), restore_signals=False)
        theirs = interpreted(capfd, path, "--dir", str(folders[1]), "--backend", "interp")
    said = [words[2].replace(str(folder), "") for words, folder in zip((ours, theirs), folders, strict=True)]
    assert said[0] == said[1] and "error[E0822]: cannot write `/log.csv`: File too large" in said[0]
    rows = [(folder / "log.csv").read_text() for folder in folders]
    assert rows[0] == rows[1] and rows[0].endswith('"a,b c",2.5\n') and 980 < len(rows[0]) <= 1000
    for folder in folders:
        assert (folder / "old").read_text() == "short" and (folder / "old").stat().st_mode & 0o777 == 0o640
    with file_limit(3):
        assert ran(program, "--dir", str(folders[0]), restore_signals=False)[0] == 1
    assert (folders[0] / "old").read_text() == "short" and len(list(folders[0].iterdir())) == 2


FILES = """
import io
fn main(dir: str) {
  let x = [[f64(i) / 3.0 + f64(j) for j < 3] for i < 4]
  io.save_npy("{dir}/a.npy", x)
  io.save_npy("{dir}/b.npy", [f16(0.1), f16(2.5)])
  io.save_npy("{dir}/c.npy", [1u8, 2u8])
  io.save_npy("{dir}/d.npy", 2.5)
  io.save_npy("{dir}/e.npy", [true, false])
  io.save_npy("{dir}/f.npy", ["a", "Grüße", ""])
  io.save_npy("{dir}/g.npy", [bf16(0.1), bf16(-3.0)])
  io.save_npy("{dir}/h.npy", [[f64(i + j) for j < 3] for i < 123456])
  let y: f64[?, ?] = io.npy("{dir}/a.npy")
  let c: i32[?] = io.npy("{dir}/c.npy")
  let b: f32[?] = io.npy("{dir}/b.npy")
  let d: f64 = io.npy("{dir}/d.npy")
  let e: f16[?] = io.npy("{dir}/e.npy")
  let f: str[?] = io.npy("{dir}/f.npy")
  let g: bf16[?] = io.npy("{dir}/g.npy")
  print("{y} {c} {b} {d} {e} {f} {g}")
  io.save_csv("{dir}/t.csv", "a,b,c", x)
  io.save_csv("{dir}/u.csv", "", [1i32, -2i32])
  io.save_csv("{dir}/v.csv", "", [1.0f32, 0.1f32, 1e10f32])
  io.save_csv("{dir}/w.csv", "on", [true, false])
  io.save_csv("{dir}/none.csv", "", zeros(0, 3))
  io.save_csv("{dir}/narrow.csv", "", zeros(2, 0))
  let t: f64[?, ?] = io.csv("{dir}/t.csv", true)
  let u: i64[?] = io.csv("{dir}/u.csv", false)
  let w: bool[?] = io.csv("{dir}/w.csv", true)
  io.save_csv("{dir}/x.csv", "", ["a, \\"b\\"", "", "two\\nlines", " c"])
  let x: str[?] = io.csv("{dir}/x.csv", false)
  let z: bf16[?] = io.csv("{dir}/v.csv", false)
  print("{t} {u} {w} {x} {z}")
  let columns: i64[?, ?, ?] = io.npy("{dir}/columns.npy")
  let swapped: f64[?] = io.npy("{dir}/swapped.npy")
  let mixed: f64[?, ?] = io.csv("{dir}/mixed.csv", true)
  let quoted: str[?, ?] = io.csv("{dir}/quoted.csv", false)
  print("{columns} {swapped} {mixed} {quoted}")
  let of_zip: f32[?, ?] = io.npz("{dir}/packed.npz", "x")
  let empty: i64[?, ?] = io.npz("{dir}/packed.npz", "empty")
  let words: str[?] = io.npz("{dir}/packed.npz", "words")
  let number: f64 = io.npz("{dir}/stored.npz", "n")
  let large: i64[?] = io.npz("{dir}/packed.npz", "large")
  print("{of_zip} {empty} {words} {number} {sum(large)} {large}")
  for k in 0..3 { io.log("{dir}/log.csv", (k, f32(k) / 3.0f32, "a,{k}", k == 1, bf16(0.1))) }
}
"""
WRONG = [
    'let v: f32[?] = io.npy("{dir}/d64.npy")',
    'let v: f64[?] = io.npy("{dir}/a.npy")',
    'let v: f64[?] = io.npy("{dir}/none.npy")',
    'let v: f64[?] = io.npy("{dir}/mixed.csv")',
    'let v: f64[?] = io.npy("{dir}/archive.npz")',
    'let v: f64[?, ?] = io.npy("{dir}/cut.npy")',
    'let v: str[?] = io.npy("{dir}/d64.npy")',
    'let v: bf16[?] = io.npz("{dir}/archive.npz", "fine")',
    'let v: f64[?] = io.npz("{dir}/archive.npz", "y")',
    'let v: f64[?] = io.npz("{dir}/archive.npz", "complex")',
    'let v: f64 = io.npz("{dir}/archive.npz", "x")',
    'let v: f64[?] = io.npz("{dir}/archive.npz", "dates")',
    'let v: f64[?] = io.npz("{dir}/archive.npz", "words")',
    'let v: f64[?] = io.npz("{dir}/archive.npz", "record")',
    'let v: f64[?] = io.npz("{dir}/archive.npz", "object")',
    'let v: f64 = io.npz("{dir}/archive.npz", "bytes")',
    'let v: f64[?] = io.npz("{dir}/a.npy", "x")',
    'let v: f64[?] = io.npz("{dir}/mixed.csv", "x")',
    'let v: f64[?] = io.npz("{dir}/none.npz", "x")',
    'let v: f64[?] = io.npz("{dir}", "x")',
    'let v: f64[?] = io.npz("{dir}/cut.npz", "x")',
    'let v: f64[?] = io.npz("{dir}/flipped.npz", "x")',
    'let v: f64[?] = io.npz("{dir}/packed.npz", "x")',
    'let v: f64[?] = io.npz("{dir}/sealed.npz", "x")',
    'let v: i64[?, ?] = io.csv("{dir}/mixed.csv", true)',
    'let v: f64[?, ?] = io.csv("{dir}/mixed.csv", false)',
    'let v: f64[?] = io.csv("{dir}/mixed.csv", true)',
    'let v: f64[?, ?] = io.csv("{dir}/uneven.csv", false)',
    'let v: f64[?, ?] = io.csv("{dir}/latin.csv", false)',
    'let v: u8[?, ?] = io.csv("{dir}/large.csv", false)',
    'io.save_npy("{dir}/none/v.npy", [1.0])\nlet v = [0.0]',
    'io.save_text("", "a")\nlet v = [0.0]',
    'let v: str[?, ?] = io.csv("{dir}/open.csv", false)',
    'io.log("{dir}/mixed.csv", (1, 2))\nlet v = [0.0]',
    'io.log("{dir}/latin.csv", (1, 2))\nlet v = [0.0]',
    'io.log("{dir}/mac.csv", (1, 2))\nlet v = [0.0]',
    'io.log("{dir}/uneven.csv", (1, 2))\nlet v = [0.0]',
    'io.log("{dir}/none/log.csv", (1, 2))\nlet v = [0.0]',
    'io.save("{dir}/none/v.npz", (1, 2))\nlet v = [0.0]',
]


def test_tables_and_arrays_in_files(tmp_path, capfd):
    folders = [tmp_path / "ours", tmp_path / "theirs"]
    for folder in folders:
        folder.mkdir()
        np.save(folder / "columns.npy", np.asfortranarray(np.arange(24).reshape(2, 3, 4)))
        np.save(folder / "swapped.npy", np.array([1.5, -2.0], ">f8"))
        rng = np.random.default_rng(0)
        arrays = {"x": rng.normal(size=(40, 50)).astype("f4"), "empty": np.zeros((0, 3), int), "n": np.float16(0.1)}
        arrays |= {"words": np.array(["ü", "", "abc"]), "large": rng.integers(0, 9, 100_000)}
        np.savez_compressed(folder / "packed.npz", **arrays)
        np.savez(folder / "stored.npz", **arrays)
        (folder / "log.csv").write_text("\ufeff0, 1,2,3,4\n7,8,9,10,11")
        (folder / "quoted.csv").write_text('"a\nb", "c""d"e\r\n"", f g \n')
        (folder / "mixed.csv").write_text('x, "y"\r\n1.5, "2"\r\n\r\n  ,-3e2\n')
    path = tmp_path / "files.dl"
    path.write_text(FILES)
    ours = ran(built(path, tmp_path), "--dir", str(folders[0]))
    assert ours == interpreted(capfd, path, "--dir", str(folders[1])) and ours[0] == 0
    names = [{f.name: f.read_bytes() for f in folder.iterdir()} for folder in folders]
    assert names[0] == names[1] and len(names[0]) == 22


def test_files_that_are_not_as_expected(tmp_path, capfd):
    np.save(tmp_path / "d64.npy", np.array([1.0]))
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1])
    arrays = {"x": [1.0], "fine": np.float32([1.001]), "complex": [1j], "dates": np.array(["2020-01-01"], "M8[D]")}
    arrays |= {"words": ["ab", "c"], "record": np.zeros(2, [("a", "i4"), ("b", "f8")]), "object": np.array([None])}
    np.savez(tmp_path / "archive.npz", **arrays)
    with zipfile.ZipFile(tmp_path / "archive.npz", "a") as archive:
        archive.writestr("bytes", b"abc")
    np.savez_compressed(tmp_path / "packed.npz", x=np.arange(1000.0))
    packed, stored = (bytearray((tmp_path / name).read_bytes()) for name in ("packed.npz", "archive.npz"))
    (tmp_path / "cut.npz").write_bytes(stored[:-30])
    stored[180] ^= 1
    (tmp_path / "flipped.npz").write_bytes(stored)
    sealed = bytearray(packed)
    sealed[6] = sealed[sealed.find(b"PK\1\2") + 8] = 1
    (tmp_path / "sealed.npz").write_bytes(sealed)
    packed[300] ^= 0xFF
    (tmp_path / "packed.npz").write_bytes(packed)
    (tmp_path / "mixed.csv").write_text("x,y\n1,2\n3,4.5\n")
    (tmp_path / "uneven.csv").write_text("1,2\n\n3\n")
    (tmp_path / "open.csv").write_text('1,2\n"3\n\n')
    (tmp_path / "mac.csv").write_bytes(b"0,1\r1,2\r")
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
