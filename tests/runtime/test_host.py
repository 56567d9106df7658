import io

import numpy as np
import pytest

from dlang.runtime.errors import RunError
from dlang.runtime.host import Host


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Host(io.StringIO())


def test_print_writes_a_line(host):
    host.print("x = 1")
    assert host.out.getvalue() == "x = 1\n"


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
        ("write_npy", (), ["no/such/folder.npy", np.ones(1)], "E0822", ["no/such/folder.npy"]),
    ],
)
def test_a_refusal_says_which_file_and_why(host, name, static, args, code, words):
    np.savez("a.npz", x=np.zeros(3, np.uint8), wide=np.zeros(2))
    np.save("one.npy", np.zeros(3))
    with open("text.npz", "w") as out:
        out.write("hello")
    with pytest.raises(RunError) as caught:
        host.effect(name, static, args)
    assert caught.value.code == code
    assert all(word in caught.value.message for word in words)


def test_a_damaged_archive_is_refused(host):
    np.savez("a.npz", x=np.zeros(1000))
    with open("a.npz", "r+b") as out:
        out.seek(200)
        out.write(b"\xff" * 64)
    with pytest.raises(RunError, match="damaged"):
        host.effect("read_npz", ("f64", "1"), ["a.npz", "x"])
