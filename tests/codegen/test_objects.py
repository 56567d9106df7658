"""Machine code from LLVM's text: made once for each text, and the same in every process."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlang.codegen.llvm import objects
from dlang.diagnostics import DlangError, Source
from dlang.driver import Request, call, check, lower
from dlang.host.effects import Host
from dlang.runtime.engine import Engine

TEXT = """define i64 @f(i64 %x) {
  %y = add i64 %x, 1
  ret i64 %y
}
"""
ROWS = """define void @g(ptr %x, i1 %c) {
entry:
  %left = sub i64 16, 16
  %more = icmp slt i64 0, %left
  br i1 %more, label %partial, label %over
partial:
  store i64 1, ptr %x
  br label %over
over:
  ret void
}
"""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that LLVM has been given."""
    given: list[str] = []
    prepared = objects._prepared

    def counted(text: str, made_for: object, optimize: int = 0, context: object = None) -> object:
        given.append(text)
        return prepared(text, made_for, optimize, context)

    monkeypatch.setenv("DLANG_CACHE", str(tmp_path))
    monkeypatch.setattr(objects, "_prepared", counted)
    return given


def test_a_text_is_compiled_once_at_each_level(runs: list[str]) -> None:
    first = objects.compile_object(TEXT)
    assert objects.compile_object(TEXT) == first and len(runs) == 1
    objects.compile_object(TEXT, level=0)
    objects.compile_object(TEXT.replace("1", "2"))
    assert len(runs) == 3


def test_code_is_made_for_the_level_that_is_asked_for(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = objects.this_processor.__wrapped__
    monkeypatch.setenv("DLANG_CPU", "x86-64")
    least, key = asked(), objects.processor.__wrapped__()
    assert (least.bits, least.fma, least.avx512) == (128, False, False)
    monkeypatch.setenv("DLANG_CPU", "native")
    assert asked().bits >= least.bits and objects.processor.__wrapped__() != key


def test_a_level_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_CPU", "x86-64-v9")
    with pytest.raises(DlangError) as unknown:
        objects.this_processor.__wrapped__()
    monkeypatch.setenv("DLANG_CPU", "x86-64-v4")
    monkeypatch.setattr(objects, "lacking", lambda needs: "avx512f")
    with pytest.raises(DlangError) as beyond:
        objects.this_processor.__wrapped__()
    for found, said in ((unknown, "is `x86-64-v9`, not a processor"), (beyond, "this processor has no `avx512f`")):
        (message,) = found.value.diagnostics
        assert message.code == "E0959" and said in message.message and message.help


def test_code_for_another_processor_is_not_taken(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    objects.compile_object(TEXT)
    monkeypatch.setattr(objects, "processor", lambda: "another")
    objects.compile_object(TEXT)
    assert len(runs) == 2


def test_what_known_sizes_decide_is_decided_before_code_is_made() -> None:
    assert "store" not in str(objects.prepared(ROWS))


def test_texts_of_a_program_are_in_its_code() -> None:
    checked = check(Source("<text>", 'fn f(a: bool) -> str = if a { "yes" } else { "no" }\n'))
    program, (entry,) = lower([Request(checked.module.functions["f"])])
    first, second = Engine(Host()), Engine(Host())
    compiled = first.build(program, [entry.name])
    for engine in (first, second):
        loaded = engine.load(compiled, {})
        assert [call(loaded, entry, leaves=[a]) for a in (True, False)] == [["yes"], ["no"]]
