"""What is deep or enormous and can be checked is compiled and runs, or ends with a message, in a bounded time."""

from __future__ import annotations

import io
import time

import pytest

from dlang.diagnostics import DlangError, Source, render
from dlang.driver import Request, call, check, errors_of, load, lower
from dlang.dump_ir import request
from dlang.host.effects import Host
from dlang.process import compiling
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


def test_an_array_whose_sizes_have_too_many_factors_together_is_refused() -> None:
    axes = ", ".join(["n * n * n"] * 24)
    text = f"fn f(n: size, x: f64) -> f64 {{\n  let y = zeros({axes})\n  sum(y + x)\n}}\n"
    decl = check(Source("factors.dl", text)).module.functions["f"]
    with pytest.raises(DlangError) as found:
        lower([request(decl)])
    assert found.value.diagnostics[0].code == "E0291"


def test_two_hundred_early_returns_run() -> None:
    guards = "".join(f"  if x > {k}.5 {{ return y * x }}\n  y += x * {k}.0\n" for k in range(200))
    checked = check(Source("guards.dl", f"fn f(x: f64) -> f64 {{\n  var y = 0.0\n{guards}  y\n}}\n"))
    program, (entry,) = lower([Request(checked.module.functions["f"])])
    compiled = load(program, [entry], "cpu", Host(io.StringIO()))
    assert compiled.run(entry.name, [0.25])[0] == pytest.approx(0.25 * sum(range(200)))


def test_a_stage_that_would_recurse_too_deep_ends_with_a_message() -> None:
    span = check(Source("deep.dl", "fn f() = 1\n")).module.functions["f"].span
    with pytest.raises(DlangError) as found, compiling(span):
        raise RecursionError
    (diagnostic,) = found.value.diagnostics
    assert (diagnostic.code, diagnostic.span) == ("E0290", span)
    assert "nested too deeply to be compiled" in render(diagnostic) and diagnostic.help
