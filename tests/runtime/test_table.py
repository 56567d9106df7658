"""Tables of comma-separated values as the host reads and writes them."""

import numpy as np
import pytest

from dlang.host import effects
from dlang.host.errors import RunError


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
        return "t.csv"

    return write


def test_a_table_has_its_sizes_and_the_dtype_that_was_asked_for(file):
    rows, columns, x = effects.read(file("1,2,3\n4,5,6\n"), False, "f32", "2")
    assert (rows, columns) == (2, 3) and x.dtype == np.float32 and x.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_header_is_left_out_and_nothing_may_follow_it(file):
    rows, columns, x = effects.read(file("a,b\n"), True, "f64", "2")
    assert (rows, columns) == (0, 2) and x.shape == (0, 2)
    assert effects.read(file(""), False, "f64", "2")[:2] == [0, 0]


def test_quotes_blanks_empty_lines_and_other_line_ends(file):
    _, _, x = effects.read(file('"first, second",b\r\n "1" ,2\r\n\r\n3, 4\r\n'), True, "i64", "2")
    assert x.tolist() == [[1, 2], [3, 4]]


def test_what_a_spreadsheet_puts_before_a_table_and_into_a_header_is_no_cell(file):
    assert effects.read(file("\ufeff1,2\n"), False, "i64", "2")[2].tolist() == [[1, 2]]
    assert effects.read(file("a\u2028b,c\n1,2\n"), True, "i64", "2")[2].tolist() == [[1, 2]]


def test_one_column_may_be_a_vector(file):
    size, x = effects.read(file("true\nFalse\n1\n"), False, "bool", "1")
    assert size == 3 and x.tolist() == [True, False, True]


@pytest.mark.parametrize(
    "text, dtype, rank, code, words",
    [
        ("1,2\n3,x\n", "f64", "2", "E0826", ["line 2", "column 2", "`x`", "f64"]),
        ("1\n\n256\n", "u8", "2", "E0826", ["line 3", "`256`", "u8"]),
        ("1.5\n", "i64", "2", "E0826", ["`1.5`", "i64"]),
        ("1_0\n", "i64", "2", "E0826", ["`1_0`"]),
        ("1,\n", "i64", "2", "E0826", ["column 2"]),
        ("1,2\n3\n", "f64", "2", "E0827", ["line 2", "1 cell", "2 cells"]),
        ("1,2\n", "f64", "1", "E0824", ["2 columns"]),
        ("1,2\n", "f64", "3", "E0824", ["not 3"]),
        (b"\xff\xfe", "f64", "2", "E0821", ["UTF-8"]),
    ],
)
def test_a_refusal_has_a_code_and_says_where(file, text, dtype, rank, code, words):
    with pytest.raises(RunError) as caught:
        effects.read(file(text), False, dtype, rank)
    assert caught.value.code == code
    assert all(w in str(caught.value) for w in ["t.csv", *words])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_written_reads_back_bit_for_bit(file, dtype):
    x = np.array([[0.1, 1e-30, np.inf], [-0.0, 1 / 3, np.nan]], dtype)
    back = effects.read(file(effects.written("a,b,c", x)), True, {8: "f64", 4: "f32"}[x.itemsize], "2")[2]
    assert back.tobytes() == x.tobytes()


def test_a_vector_is_a_column(file):
    assert effects.written("", np.array([1, 2])) == "1\n2\n"
