import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dlang.host.effects import Host
from dlang.host.errors import RunError


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Host(io.StringIO())


def test_print_writes_a_line(host):
    host.print("x = 1")
    assert host.out.getvalue() == "x = 1\n"


@pytest.mark.parametrize(
    ("encoding", "text", "written"),
    [("ascii", "θ = 1", "\\u03b8 = 1"), ("utf-8", "a\ud800", "a\\ud800"), ("latin-1", "é", "é")],
)
def test_a_character_that_the_output_has_not_is_written_by_its_number(encoding, text, written):
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    Host(out).print(text)
    assert out.buffer.getvalue().decode(encoding) == written + "\n"


def test_a_member_comes_with_its_sizes_and_the_dtype_that_was_asked_for(host):
    np.savez("a.npz", x=np.arange(6, dtype=np.uint8).reshape(2, 3))
    rows, columns, x = host.effect("read_npz", ("f64", "2"), ["a.npz", "x"])
    assert (rows, columns) == (2, 3)
    assert x.dtype == np.float64 and x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_member_without_axes_is_a_number(host):
    np.savez("a.npz", x=2.5)
    assert host.effect("read_npz", ("f64", "0"), ["a.npz", "x"]) == [2.5]


def test_an_npy_file_reads_back_as_it_was_written(host):
    x = np.array([1.5, 2.5], dtype=np.float32)
    assert host.effect("write_npy", (), ["x.npy", x]) == []
    size, back = host.effect("read_npy", ("f32", "1"), ["x.npy"])
    assert size == 2 and back.dtype == np.float32 and np.array_equal(back, x)


def test_an_array_in_columns_is_read_in_rows(host):
    np.save("x.npy", np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    *_, x = host.effect("read_npy", ("f64", "2"), ["x.npy"])
    assert x.flags.c_contiguous and x.tolist() == [[0, 1, 2], [3, 4, 5]]


def header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "name, static, args, code, words",
    [
        ("read_npz", ("f64", "1"), ["none.npz", "x"], "E0821", ["none.npz", "No such file"]),
        ("read_npz", ("f64", "1"), ["text.npz", "x"], "E0821", ["text.npz", "not a file of NumPy arrays"]),
        ("read_npz", ("f64", "1"), ["one.npy", "x"], "E0821", ["io.npy"]),
        ("read_npy", ("f64", "1"), ["a.npz"], "E0821", ["io.npz"]),
        ("read_npz", ("f64", "1"), ["a.npz", "z"], "E0823", ["`z`", "`x`, `wide`"]),
        ("read_npz", ("f64", "2"), ["a.npz", "x"], "E0824", ["1 axis ([3])", "2 axes"]),
        ("read_npz", ("f32", "1"), ["a.npz", "wide"], "E0825", ["f64", "f32"]),
        ("read_npz", ("i64", "1"), ["a.npz", "wide"], "E0825", ["f64", "i64"]),
        ("read_npz", ("f64", "1"), ["packed.npz", "x"], "E0821", ["packed.npz", "`x` is damaged"]),
        ("read_npz", ("f64", "1"), ["packed.npz", "other"], "E0821", ["`other` is no array"]),
        ("read_npy", ("f64", "1"), ["head.npy"], "E0821", ["head.npy", "not a file of NumPy arrays"]),
        ("read_npy", ("f64", "1"), ["large.npy"], "E0821", ["large.npy", "memory"]),
        ("read_text", (), [""], "E0821", ["no name of a file"]),
        ("read_npy", ("f64", "1"), ["a\0b"], "E0821", ["no name of a file"]),
        ("write_npy", (), ["no/such/folder.npy", np.ones(1)], "E0822", ["no/such/folder.npy"]),
        ("write_text", (), ["", "x"], "E0822", ["no name of a file"]),
        ("write_text", (), ["/", "x"], "E0822", ["Is a directory"]),
        ("write_text", (), ["x" * 300, "x"], "E0822", ["too long"]),
        ("read_text", (), ["a\ud800"], "E0821", ["no name of a file"]),
        ("write_text", (), ["a.txt", "a\ud800"], "E0822", ["U+D800 is no character"]),
        ("write_csv", (), ["a.csv", "a\ud800", np.ones(1)], "E0822", ["U+D800 is no character"]),
        ("write_row", ("x",), ["a.csv", "a\ud800"], "E0822", ["U+D800 is no character"]),
    ],
)
def test_a_refusal_says_which_file_and_why(host, name, static, args, code, words):
    np.savez("a.npz", x=np.zeros(3, np.uint8), wide=np.zeros(2))
    np.save("one.npy", np.zeros(3))
    Path("text.npz").write_text("hello")
    with zipfile.ZipFile("packed.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00v\x00{'descr'")
        archive.writestr("other.npy", b"no array")
    head = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }"
    Path("head.npy").write_bytes(header(head[:20]))
    Path("large.npy").write_bytes(header(head % 10**15))
    with pytest.raises(RunError) as caught:
        host.effect(name, static, args)
    assert caught.value.code == code
    assert all(word in caught.value.message for word in words)


def test_texts_and_bf16_are_written_and_read(host):
    texts, halves = np.array(["a", "ü,b", "", "c\rd", '"'], object), np.array([0.5, 3.0], np.float32)
    host.effect("write_npy", (), ["t.npy", texts])
    host.effect("write_npy", (), ["h.npy", halves])
    host.effect("write_csv", (), ["t.csv", "", texts])
    host.effect("write_csv", (), ["h.csv", "", halves])
    for name, static in (("t", ("str", "1")), ("h", ("bf16", "1"))):
        for kind, more in (("npy", []), ("csv", [False])):
            _, back = host.effect(f"read_{kind}", static, [f"{name}.{kind}", *more])
            assert back.tolist() == (texts if name == "t" else halves).tolist()
    with pytest.raises(RunError, match=r"`h.npy` holds f32, and the program asks for texts"):
        host.effect("read_npy", ("str", "1"), ["h.npy"])
    np.save("h.npy", np.array([1.001], np.float32))
    with pytest.raises(RunError, match=r"E0825.*holds f32, which bf16 cannot hold"):
        host.effect("read_npy", ("bf16", "1"), ["h.npy"])
    np.save("t.npy", np.array([0x110000, 0xD800], np.uint32).view("U1"))
    with pytest.raises(RunError, match=r"E0821.*holds what is no text"):
        host.effect("read_npy", ("str", "1"), ["t.npy"])


def test_an_archive_that_is_encrypted_is_refused(host):
    np.savez("a.npz", x=np.zeros(3))
    data = bytearray(Path("a.npz").read_bytes())
    data[6] |= 1
    data[data.find(b"PK\1\2") + 8] |= 1
    Path("a.npz").write_bytes(data)
    with pytest.raises(RunError, match=r"E0821.*`x` is damaged"):
        host.effect("read_npz", ("f64", "1"), ["a.npz", "x"])


def test_a_damaged_archive_is_refused(host):
    np.savez("a.npz", x=np.zeros(1000))
    with open("a.npz", "r+b") as out:
        out.seek(200)
        out.write(b"\xff" * 64)
    with pytest.raises(RunError, match="damaged"):
        host.effect("read_npz", ("f64", "1"), ["a.npz", "x"])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_with_another_byte_anywhere_is_read_or_refused(host, save):
    save("a.npz", x=np.arange(40.0) % 7)
    whole = Path("a.npz").read_bytes()
    for k in range(0, len(whole), 3):
        Path("b.npz").write_bytes(whole[:k] + bytes([whole[k] ^ 0x55]) + whole[k + 1 :])
        try:
            host.effect("read_npz", ("f64", "1"), ["b.npz", "x"])
        except RunError as e:
            assert e.code in ("E0821", "E0823")
