"""Which known name a misspelt one may have meant."""

from __future__ import annotations

import pytest

from dlang.spelling import closest, distance, plural

KNOWN = ["f16", "f32", "f64", "bf16", "width", "height", "sum", "print", "maximum", "Option", "grad", "square", "n"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("widht", "width"), ("heigth", "height"), ("sqare", "square"), ("Opton", "Option"), ("option", "Option"),
        ("f46", "f64"), ("prnit", "print"), ("maximun", "maximum"), ("summ", "sum"),
    ],
)  # fmt: skip
def test_the_closest_name_is_what_was_meant(written: str, meant: str) -> None:
    assert closest(written, KNOWN) == meant


@pytest.mark.parametrize("written", ["np", "m", "int", "random", "matmul", "nothing", "print"])
def test_a_name_that_is_far_from_all_is_like_none(written: str) -> None:
    assert closest(written, KNOWN) is None


def test_edits_are_letters_put_in_left_out_changed_and_swapped() -> None:
    assert [distance("abcd", other) for other in ("abcd", "abc", "abxd", "abcde", "abdc", "dcba")] == [0, 1, 1, 1, 1, 3]
    assert distance("", "abc") == 3


def test_counted_things() -> None:
    assert (plural(1, "axis", "axes"), plural(2, "axis", "axes"), plural(0, "field")) == (
        "1 axis",
        "2 axes",
        "0 fields",
    )
