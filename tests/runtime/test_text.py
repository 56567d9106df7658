"""Text from values, as every back end prints it, and the message of a refused run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.diagnostics import Source, Span
from dlang.host.errors import RunError
from dlang.host.text import format_parts, format_value


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (2.0, "", "2.0"),
        (np.float64(0.1), "", "0.1"),
        (np.float64(1e300), "", "1e+300"),
        (np.float32(0.1), "", "0.1"),
        (np.float32(1) / np.float32(3), "", "0.33333334"),
        (np.float64("nan"), "", "nan"),
        (-np.inf, "", "-inf"),
        (np.float32(2.5), "8.2f", "    2.50"),
        (np.int8(-5), "", "-5"),
        (7, "03d", "007"),
        (np.int64(255), "x", "ff"),
        (True, "", "true"),
        (np.bool_(False), "", "false"),
        (np.bool_(True), ">6", "  true"),
        (np.int64(233), ">3c", "  é"),
        (np.int64(-1), "c", "\ufffd"),
        (0xD7FF, "c", "\ud7ff"),
        (0xD800, "c", "\ufffd"),
        (0xDFFF, "<2c", "\ufffd "),
        (0x10FFFF, "c", "\U0010ffff"),
        (0x110000, "c", "\ufffd"),
        (np.array([65, -1]), "c", "[A \ufffd]"),
        ("é", "", "é"),
        ("ab", ">4", "  ab"),
        (np.array([1.0, 2.5]), "", "[1.  2.5]"),
        (np.array([1.0, 2.5]), ".1f", "[1.0 2.5]"),
        (np.arange(3), "", "[0 1 2]"),
        (np.arange(2000), "", "[   0    1    2 ... 1997 1998 1999]"),
        (np.array(["a", "b"], object), "", "[a b]"),
        (np.array([True, False]), "", "[ True False]"),
    ],
)
def test_a_value_is_written_as_in_python_and_numpy(value: Any, spec: str, text: str) -> None:
    assert format_value(value, spec) == text


def test_parts_alternate_text_and_specifications() -> None:
    assert format_parts(["x = ", ".2f", "; {", "", "}"], [1.0, "a"]) == "x = 1.00; {a}"
    assert format_parts(["nothing"], []) == "nothing"


def test_a_refusal_becomes_a_diagnostic_with_its_calls_and_leaves_out_the_middle_of_many() -> None:
    source = Source("a.dl", "f(x)\ng(x)\n")
    error = RunError("E0701", "index 3 is out of range", Span(source, 0, 4), [("g", Span(source, 5, 9))])
    assert str(error) == "E0701: index 3 is out of range"
    assert error.diagnostic().code == "E0701"
    assert [n.text for n in error.diagnostic().notes] == ["in the call of `g` here"]
    error.stack *= 100
    notes = error.diagnostic().notes
    assert len(notes) == 13 and notes[6].text == "88 more calls"


def test_arrays_hold_empty_texts():
    assert format_value(np.array(["", "b"], object)) == "[ b]"
    assert format_value(np.array(["", "b"], object), ">2") == "[    b]"
