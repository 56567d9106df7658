"""What is deep or enormous and can be checked is compiled and runs, or ends with a message, in a bounded time."""

from __future__ import annotations

import io
import time

import pytest

from dlang.diagnostics import DlangError, Source, render
from dlang.driver import Request, call, check, errors_of, load, lower
from dlang.host.effects import Host
from tests.robustness.programs import nested

DEEP = {name: text for name, text in nested(60) if not text.startswith("fn f(x")}
LONGEST = 60.0  # seconds of processor time


@pytest.mark.parametrize("backend", ["interp", "cpu"])
@pytest.mark.parametrize("name", DEEP)
def test_what_is_deep_runs(name: str, backend: str) -> None:
    checked = check(Source("deep.dl", DEEP[name]))
    function = checked.module.functions.get("f")
    if errors_of(checked) or function is None:
        assert all(render(d) for d in checked.diagnostics)
        return
    begun = time.process_time()
    try:
        program, (entry,) = lower([Request(function)])
        call(load(program, [entry], backend, Host(io.StringIO())), entry)
    except DlangError as e:
        assert e.diagnostics[0].code in ("E0690", "E0805", "E0806")
    assert time.process_time() - begun < LONGEST


@pytest.mark.parametrize("text", ["[" * 40 + "1" + "]" * 40, "[" * 40 + "1" + " for i < 2]" * 40])
def test_an_array_of_too_many_axes_is_refused(text: str) -> None:
    (found,) = check(Source("axes.dl", f"fn f() = {text}\n")).diagnostics
    assert found.code == "E0291"
