"""The spellings of a kernel agree, and the law of spellings counts what breaks it."""

from __future__ import annotations

import inspect
import json
import math
import signal
from typing import Any

import pytest

import dlang
from benchmarks.__main__ import main
from benchmarks.spellings.agreement import Answer, along_a_line, answer, difference, finite, outliers
from benchmarks.spellings.kernel import HERE, Kernel, differentiated, spellings
from benchmarks.spellings.kernels import KERNELS
from benchmarks.spellings.measure import Failure, Result, noted, reason
from benchmarks.spellings.report import breaches, exponents, overview, summary, table
from benchmarks.spellings.worker import limit, seconds, tried
from dlang import pipeline
from dlang.passes import VARIABLE

NAMES = [kernel.name for kernel in KERNELS]


def test_every_file_is_a_kernel() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in HERE.glob("*.dl"))


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_spellings_agree_in_value(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values only, of programs in normal form, which the interpreter runs: what that takes is little for so many."""
    monkeypatch.setenv(VARIABLE, "0")
    monkeypatch.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p.when == pipeline.NORMAL))
    functions = spellings(dlang.load(kernel.path, backend="interp"))
    arguments = kernel.made(kernel.small)
    assert len(functions) >= 6
    assert all(list(inspect.signature(f).parameters) == list(arguments) for f in functions.values())
    answers = {name: Answer(float(f(*arguments.values())), ()) for name, f in functions.items()}
    assert all(finite(a) for a in answers.values()) and outliers(answers, kernel.tolerance) == {}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_spellings_agree_in_value_and_gradient(kernel: Kernel) -> None:
    """All passes, verified, and machine code; the gradient is the slope of the value."""
    functions = spellings(dlang.load(kernel.path))
    arguments = kernel.made(kernel.small)
    answers = {name: answer(differentiated(kernel, f)(*arguments.values())) for name, f in functions.items()}
    assert all(finite(a) for a in answers.values()) and outliers(answers, kernel.tolerance) == {}
    if kernel.dtype == "f64":
        name = next(iter(functions))
        slope, found = along_a_line(functions[name], arguments, kernel.wrt, answers[name])
        assert slope == pytest.approx(found, rel=1e-5, abs=1e-7)


# ---- agreement -------------------------------------------------------------------------------------------------------
def an_answer(value: float, *gradient: float) -> Answer:
    import numpy as np

    return Answer(value, (np.array(gradient),))


def test_what_most_agree_on_is_right() -> None:
    answers = {"by_a": an_answer(1.0, 2.0), "by_b": an_answer(1.0, 2.5), "by_c": an_answer(1.0, 2.0 + 1e-12)}
    assert outliers(answers, 1e-8) == {"by_b": "differs from by_a: part 0 of the gradients differs by 0.5 of 2.5"}
    assert outliers({}, 1e-8) == {}


def test_a_gradient_that_is_not_a_number_agrees_with_nothing() -> None:
    assert difference(an_answer(1.0, math.nan), an_answer(1.0, math.nan), 1e-8) is not None
    assert difference(an_answer(math.nan, 1.0), an_answer(1.0, 1.0), 1e-8) is not None
    assert not finite(an_answer(1.0, math.inf))


def test_a_spelling_that_stops_gives_the_first_line_of_its_message() -> None:
    kernel = Kernel("stopped", {"n": 3}, {"n": 3}, ("x",), lambda draw, n: {"x": draw.normal(n)})
    module = dlang.compile(
        'fn by_failing(x: f64[n]) -> f64 = if x[0] < 99.0 { fail("too small") } else { x[0] }', "interp"
    )
    why = tried(kernel, module.by_failing, list(kernel.made(kernel.small).values()))
    assert isinstance(why, str) and "too small" in why and "\n" not in why


# ---- the law ---------------------------------------------------------------------------------------------------------
def result(**times: tuple[float, float, float, float]) -> Result:
    """Times of spellings: value and gradient at n, and both at 4n."""
    made = Result("kernel", "what it computes", list(times))
    for name, (value, gradient, later_value, later_gradient) in times.items():
        small, large = {"value": value, "gradient": gradient}, {"value": later_value, "gradient": later_gradient}
        made.times[name] = {1: small, 4: large}
    return made


def broken(made: Result) -> dict[str, str]:
    return {b.spelling: b.what for b in breaches(made)}


def test_a_spelling_may_take_half_more_than_the_best_and_recursion_three_times() -> None:
    made = result(by_arrays=(1, 2, 4, 8), by_loops=(1.4, 2.8, 5.6, 11.2), by_recursion=(2.9, 2, 4, 8))
    assert broken(made) == {}
    made = result(by_arrays=(1, 2, 4, 8), by_loops=(1.6, 2, 4, 8), by_list=(1, 6.2, 4, 8))
    assert broken(made) == {"by_loops": "value n 1.60 ×", "by_list": "gradient n 3.10 ×"}


def test_no_spelling_grows_faster_than_the_best() -> None:
    made = result(by_arrays=(1, 2, 4, 8), by_rows=(0.2, 1.4, 4, 8))
    assert exponents(made, "value")["by_arrays"] == pytest.approx(1.0)
    assert "value grows with 2.16 (1.00)" in broken(made)["by_rows"]


def test_a_failure_breaks_the_law() -> None:
    made = result(by_arrays=(1, 2, 4, 8))
    made.failures.append(Failure("by_loops", 4, "it took more than 30 s"))
    assert broken(made) == {"by_loops": "fails at 4n: it took more than 30 s"}


def test_the_tables_show_all_spellings_and_means_over_kernels() -> None:
    made = result(by_arrays=(1e-3, 2e-3, 4e-3, 8e-3), by_loops=(2e-3, 2e-3, 4e-3, 8e-3))
    assert table(made).splitlines()[3].split()[:5] == ["by_arrays", "1", "ms", "1.00", "2"]
    total = summary([made, result(by_arrays=(1, 1, 1, 1))])
    assert total["value n"] == {"mean": pytest.approx(math.sqrt(2)), "max": 2.0} and total["breaking"] == 1
    text = overview([made])
    assert "1 of 2 spellings break it" in text and text.splitlines()[-1].split()[0] == "kernel.by_loops"


def test_a_limit_of_time_does_not_stop_the_clock() -> None:
    limit(600.0)
    try:
        assert all(seconds(sum, [range(1000)], 5) > 0 for _ in range(20))
    finally:
        limit(0)


# ---- processes -------------------------------------------------------------------------------------------------------
def test_the_last_word_of_a_process_says_what_it_was_at() -> None:
    made = Result("kernel", "")
    said: list[dict[str, Any]] = [
        {"names": ["by_a", "by_b"]},
        {"begin": "by_a", "scale": 1},
        {"failed": "by_a", "scale": 1, "why": "no"},
        {"begin": "by_b", "scale": 1},
    ]
    assert noted(made, said) == ("by_b", 1)
    assert made.spellings == ["by_a", "by_b"] and made.failures == [Failure("by_a", 1, "no")]
    assert reason(-signal.SIGPROF, "") == "it took more than 30 s"
    assert reason(-11, "a\nSegmentation fault\n") == "the process ended with -11: Segmentation fault"


@pytest.mark.slow
def test_the_command_measures_a_kernel(tmp_path: Any, capsys: Any) -> None:
    path = tmp_path / "numbers.json"
    assert main(["spellings", "log_sum_exp", "--quick", "--json", str(path)]) == 0
    numbers = json.loads(path.read_text())
    assert numbers["kernels"][0]["name"] == "log_sum_exp" and numbers["summary"]["spellings"] == 8
    assert "worst over best" in capsys.readouterr().out


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["spellings", "nothing"])
