"""Text of values: what a specification writes is known where a function is used."""

from __future__ import annotations

import pytest

from dlang.diagnostics import DlangError
from tests.specialize.support import lowered


@pytest.mark.parametrize("value", ['"a"', "true", "(1.0, true)", '["a", "b"]', 'Cons("a", Nil)', 'Some("a")'])
def test_a_specification_that_does_not_fit_the_instance_is_refused(value):
    with pytest.raises(DlangError, match="E0318"):
        lowered(f'fn show(x: a) -> str = "{{x:.3f}}"\nfn f() -> str = show({value})')


@pytest.mark.parametrize("value, text", [("1.0", "1.000"), ("(1, [2.0])", "(1.000, [2.000])")])
def test_a_specification_that_fits_the_instance_is_used(value, text):
    assert lowered(f'fn show(x: a) -> str = "{{x:.3f}}"\nfn f() -> str = show({value})').run() == [text]
