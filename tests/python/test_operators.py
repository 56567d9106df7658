"""Operators of libraries that are not installed."""

import sys

import pytest

import dlang


@pytest.mark.parametrize("method, library, module", [("to_torch", "PyTorch", "torch"), ("to_jax", "JAX", "jax")])
def test_a_library_that_is_not_installed_is_named(monkeypatch, method, library, module):
    monkeypatch.setitem(sys.modules, module, None)
    f = dlang.compile("fn f(x: f64) -> f64 = x").f
    with pytest.raises(dlang.DlangError) as caught:
        getattr(f, method)()
    assert str(caught.value) == f"error[E0969]: {library} is not installed\n  = help: pip install {module}"
