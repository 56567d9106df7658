"""`dlc doctor`: what it finds here, and what it says of what is missing or broken."""

import io
import json

import pytest

from dlang.tools import doctor
from dlang.tools.dlc import main


def test_a_machine_on_which_these_tests_run_is_fine(dlc):
    code, out, err = dlc("doctor", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and err == ""
    assert all(set(f) == {"what", "state", "found", "advice"} for f in found)
    states = {f["what"]: f["state"] for f in found}
    needed = ("dlang", "Python", "packages", "processor", "threads", "library", "BLAS", "compiler", "settings")
    assert all(states[what] == "ok" for what in needed)
    assert {"cache", "C compiler", "C++ compiler", "plots", "editors"} <= states.keys()
    assert all(f["advice"] for f in found if f["state"] in ("warn", "fail"))
    assert "linalg" in next(f["found"] for f in found if f["what"] == "library")


def test_a_line_says_what_to_do(dlc, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(doctor, "_LOOKS", (("C compiler", doctor._c_compiler),))
    code, out, _ = dlc("doctor")
    assert code == 0 and "warn  C compiler" in out and "→ correct CC" in out


def test_what_breaks_hides_no_other(dlc, monkeypatch):
    def broken():
        raise OSError("the library is damaged")
        yield

    monkeypatch.setattr(doctor, "_LOOKS", (("BLAS", broken), ("threads", doctor._threads)))
    code, out, _ = dlc("doctor")
    assert code == 1 and "FAIL  BLAS" in out and "the library is damaged" in out and "ok    threads" in out
    monkeypatch.setenv("DLANG_THREADS", "many")
    code, out, _ = dlc("doctor")
    assert code == 1 and "FAIL  threads" in out and "E0972" in out


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(doctor, "NEEDED", ("lark", "no-such-package"))
    first, second = doctor._packages()
    assert (first.state, first.advice) == ("fail", "pip install no-such-package") and "lark" in second.found


@pytest.mark.parametrize("size, mode, state", [("1G", 0o700, "ok"), ("0", 0o700, "warn"), ("1G", 0o777, "warn")])
def test_a_cache_that_cannot_be_used_is_told(tmp_path, monkeypatch, size, mode, state):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept").chmod(mode)
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path / "kept"))
    monkeypatch.setenv("DLANG_CACHE_SIZE", size)
    (found,) = doctor._cache()
    assert found.state == state
    assert not list((tmp_path / "kept").iterdir())


@pytest.mark.parametrize("name, text, advice", [("DLANG_CACHE", "off", "unset DLANG_CACHE "),
                                                ("DLANG_CACHE_SIZE", "0", "DLANG_CACHE_SIZE=1G ")])  # fmt: skip
def test_what_switches_the_cache_off_is_named(monkeypatch, name, text, advice):
    monkeypatch.setenv(name, text)
    (told,) = doctor._cache()
    assert (told.state, told.found) == ("warn", "nothing is kept") and told.advice.startswith(advice)


def test_a_size_of_the_cache_that_is_none_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path))
    monkeypatch.setenv("DLANG_CACHE_SIZE", "much")
    told, usual = doctor._cache()
    assert (told.state, told.found) == ("warn", "DLANG_CACHE_SIZE is `much`, which says no size")
    assert usual.state == "ok" and usual.found.endswith("of 1.0 GiB")


def test_it_can_be_read_on_a_terminal_of_few_letters(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(doctor, "_LOOKS", (("C compiler", doctor._c_compiler), ("settings", doctor._settings)))
    assert main(["doctor"]) == 0
    text = out.buffer.getvalue().decode("ascii")
    assert "\\u2192 correct CC" in text and "its encoding is ascii" in text
