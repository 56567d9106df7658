"""Whole values in files: programs without Python write what `dlc run` writes, and each reads what the other wrote."""

import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dlang.tools.dlc import main
from tests.aot.running import built, interpreted, needs_compiler, ran

VALUES = Path(__file__).with_name("values.dl")
ROOT = Path(__file__).parents[2]
pytestmark = needs_compiler


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return built(VALUES, tmp_path_factory.mktemp("values"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file that `dlc run` has written: its members and its page."""
    path = str(tmp_path_factory.mktemp("saved") / "s.npz")
    assert main(["run", str(VALUES), "--out", path, "--from", path]) == 0
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}, archive.zip.comment


@pytest.mark.parametrize("n", ["0", "1", "7"])
def test_both_write_the_same_and_read_what_the_other_wrote(program, tmp_path, capfd, n):
    ours, theirs = str(tmp_path / "ours.npz"), str(tmp_path / "theirs.npz")
    written = ran(program, "--n", n, "--out", ours, "--from", ours)
    assert interpreted(capfd, VALUES, "--n", n, "--out", theirs, "--from", ours) == written and written[0] == 0
    assert Path(ours).read_bytes() == Path(theirs).read_bytes()
    assert ran(program, "--n", n, "--out", ours, "--from", theirs) == written
    assert not list(tmp_path.glob("*.part"))


def test_one_that_is_compressed_or_in_other_orders_and_dtypes_is_read(program, saved, tmp_path, capfd):
    members, page = saved
    changed = {name: a.astype(a.dtype.newbyteorder(">"), order="F") for name, a in reversed(members.items())}
    changed |= {
        "kind.tag": np.uint8(1),
        "Tree.node": members["Tree.node"].astype(np.int8),
        "inner.w": np.zeros(3, bool),
    }
    put(tmp_path / "c.npz", changed, b"", zipfile.ZIP_DEFLATED)
    options = ["--out", str(tmp_path / "x.npz"), "--from", str(tmp_path / "c.npz")]
    assert "E0828" in ran(program, *options)[2]
    put(tmp_path / "c.npz", changed, page + b" ", zipfile.ZIP_DEFLATED)
    found = ran(program, *options)
    assert found[0] == 0 and found == interpreted(capfd, VALUES, *options)


def test_names_that_earlier_versions_wrote_are_read(program, saved, tmp_path, capfd):
    members, page = saved

    def former(name):
        return re.sub(r"^([AB]\.One[AB])\.(\d)", r"\1._\2", name).replace("θ'", "θ_")

    assert sum(former(name) != name for name in members) == 4
    put(tmp_path / "c.npz", {former(n): a for n, a in members.items()}, re.sub(rb'"(\d)":', rb'"_\1":', page))
    options = ["--out", str(tmp_path / "x.npz"), "--from", str(tmp_path / "c.npz")]
    found = ran(program, *options)
    assert found[0] == 0 and found == interpreted(capfd, VALUES, *options)


def put(path, members, page, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as out:
        for name, value in members.items():
            memory = io.BytesIO()
            np.save(memory, value)
            out.writestr(f"{name}.npy", memory.getvalue())
        out.comment = page


def paged(**changes):
    """Changes the page of a file."""

    def change(members, page):
        return members, json.dumps(json.loads(page) | changes, separators=(",", ":")).encode()

    return change


def other(**arrays):
    """Changes members; None leaves one out, a function changes what is there."""

    def change(members, page):
        named = {name.replace("__", "."): value for name, value in arrays.items()}
        new = {n: v(members[n].copy()) if callable(v) else v for n, v in named.items()}
        return {n: v for n, v in (members | new).items() if v is not None}, page

    return change


def at(k, value):
    def change(array):
        array.reshape(-1)[k] = value
        return array

    return change


TREE = {"Leaf": {"value": "f64", "on": "bool"}, "Node": {}}


@pytest.mark.parametrize(
    "change, code",
    [
        (other(w=None), "E0823"),
        (other(w=np.zeros(3)), "E0824"),
        (other(w=np.zeros((4, 2))), "E0807"),
        (other(on=np.float64(1)), "E0825"),
        (other(half=np.float32(1.001)), "E0825"),
        (other(name=np.float64(1)), "E0825"),
        (other(t=np.int64(-1)), "E0821"),
        (other(t=np.int64(99)), "E0821"),
        (other(t=np.float64(1)), "E0821"),
        (other(kind__tag=np.int64(2)), "E0821"),
        (other(kinds__tag=np.zeros(2, int)), "E0807"),
        (other(held__tag=at(0, 1)), "E0821"),
        (other(held__tag=np.zeros(4, int)), "E0821"),
        (other(Tree__tag=at(0, 3)), "E0821"),
        (other(Tree__node=at(0, 5)), "E0821"),
        (other(Tree__node=np.zeros((2, 2), int)), "E0821"),
        (other(Tree__Node__left=at(0, 5)), "E0821"),
        (other(Tree__Node__left=at(0, -1)), "E0821"),
        (other(Tree__Leaf__value=np.zeros(1)), "E0821"),
        (other(Tree__Leaf__value__axes=at(0, -2)), "E0821"),
        (other(Tree__Wide__w__axes=at(1, 4)), "E0821"),
        (other(Tree__Wide__h__axes=at(0, 1)), "E0821"),
        (other(Tree__Wide__texts=np.array([0x110000, 97], np.uint32).view("U1")), "E0821"),
        (other(Tree__Wide__small__tag=at(0, 9)), "E0821"),
        (paged(dlang=2), "E0828"),
        (paged(dlang="new"), "E0828"),
        (paged(variants=[]), "E0821"),
        (paged(variants={"kind.tag": [1]}), "E0821"),
        (paged(variants={"kind.tag": ["Large", "Sm\u00e4ll"]}), "E0828"),
        (paged(types={"Tree": {"Leaf": []}}), "E0821"),
        (paged(types={}), "E0828"),
        (paged(types={"Tree": TREE}), "E0828"),
        (paged(types={"Tree": {**TREE, "Wide": {}}}), "E0828"),
        (lambda members, page: (members, page[:-1]), "E0821"),
    ],
)
def test_what_does_not_fit_is_refused_in_the_same_words(program, saved, tmp_path, capfd, change, code):
    put(tmp_path / "c.npz", *change(*saved))
    options = ["--out", str(tmp_path / "x.npz"), "--from", str(tmp_path / "c.npz")]
    expected = interpreted(capfd, VALUES, *options)
    assert ran(program, *options) == expected and expected[0] == 1 and f"error[{code}]" in expected[2]


def test_files_that_are_damaged_anywhere_end_in_a_message(program, saved, tmp_path):
    """Or in what they held, where the damage is in what is not read."""
    rng = np.random.default_rng(0)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        put(tmp_path / "c.npz", *saved, method)
        whole = (tmp_path / "c.npz").read_bytes()
        for _ in range(40):
            data = bytearray(whole[: rng.integers(len(whole)) if rng.random() < 0.1 else None])
            for place in rng.integers(len(data), size=rng.integers(1, 4)):
                data[place] = rng.integers(256)
            (tmp_path / "d.npz").write_bytes(data)
            code, _, said = ran(program, "--out", str(tmp_path / "x.npz"), "--from", str(tmp_path / "d.npz"))
            assert code == 0 or (code == 1 and "error[E08" in said)


def test_deep_lists_are_written_and_read_without_recursion(tmp_path, capfd):
    path = tmp_path / "deep.dl"
    path.write_text(
        "import io\nenum List { End, Cons(head: f64, rest: List) }\nenum Twin { One(x: f64), Two(a: Twin, b: Twin) }\n"
        "fn main(file: str, n: i64 = 2000) {\n  var l = End\n  for i < n { l = Cons(1.0, l) }\n"
        '  io.save("{file}.npz", l)\n'
        '  let back: List = io.load("{file}.npz")\n  var sum = 0.0\n  var at = back\n'
        "  for i < n { match at { Cons(h, rest) => { sum += h; at = rest }, End => () } }\n"
        '  var t = One(1.0)\n  for i < 30 { t = Two(t, t) }\n  io.save("{file}.twin", (t, t))\n  print("{sum}")\n}\n'
    )
    file = str(tmp_path / "l")
    program = built(path, tmp_path)
    assert ran(program, "--file", file, "--n", "300000") == (0, "300000.0\n", "")
    assert ran(program, "--file", file) == (0, "2000.0\n", "")
    with np.load(f"{file}.twin") as archive:
        assert len(archive["Twin.node"]) == 31
    data = [Path(file + end).read_bytes() for end in (".npz", ".twin")]
    assert interpreted(capfd, path, "--file", file) == (0, "2000.0\n", "")
    assert data == [Path(file + end).read_bytes() for end in (".npz", ".twin")]


def test_the_training_of_the_digits_needs_no_python(tmp_path, capfd):
    path = ROOT / "examples/digits/train.dl"
    program = built(path, tmp_path)
    digits = str(ROOT / "examples/digits/digits.npz")
    ours, theirs = ["--epochs", "2", "--digits", digits, "--save"], ["--epochs", "2", "--digits", digits, "--save"]
    assert ran(program, *ours, str(tmp_path / "ours.npz")) == interpreted(capfd, path, *theirs, str(tmp_path / "x.npz"))
    with np.load(tmp_path / "ours.npz") as a, np.load(tmp_path / "x.npz") as b:
        assert a.files == b.files == ["hidden.w", "hidden.b", "output.w", "output.b"]
        for name in a.files:  # processors of other levels round in other orders
            np.testing.assert_allclose(a[name], b[name], rtol=0, atol=1e-12)
