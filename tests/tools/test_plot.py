"""`dlc plot`: tables as curves."""

import os
import signal
import subprocess
import sys
import threading

import pytest

RUN = "epoch,loss,note,done\n0,100.0,a,false\n1,10.0,b,false\n2,1.0,c,true\n"


def test_all_columns_of_numbers_are_drawn_against_the_first(write, dlc):
    code, out, err = dlc("plot", write(RUN, "run.csv"))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("100 ┤") and lines[-1].split() == ["loss", "done"]
    assert lines[-2].split() == ["0", "epoch", "2"]


def test_one_column_is_named_above_and_may_be_drawn_as_logarithms(write, dlc):
    lines = dlc("plot", write(RUN, "run.csv"), "-y", "loss", "--log")[1].splitlines()
    assert lines[0] == "log10(loss)" and lines[1].lstrip().startswith("2 ┤") and lines[16].startswith("0 ┤")


def test_a_table_of_one_column_is_drawn_against_the_number_of_the_row(write, dlc):
    lines = dlc("plot", write("x\n5\n\n7\n", "x.csv"))[1].splitlines()
    assert lines[0] == "x" and lines[-1].split() == ["0", "row", "1"]


def test_files_are_compared(write, dlc):
    write(RUN, "a.csv")
    write(RUN, "b.csv")
    out = dlc("plot", "a.csv", "b.csv", "-y", "loss")[1]
    assert out.splitlines()[-1].strip() == "loss in a.csv   loss in b.csv"


@pytest.mark.parametrize("cut", ["2", "2,", "2,1e", "2,-"])
def test_a_row_that_is_being_written_does_not_disturb(write, dlc, cut):
    code, out, _ = dlc("plot", write(f"epoch,loss\n0,1.0\n1,0.5\n{cut}", "run.csv"))
    assert code == 0 and out.startswith("loss\n")


@pytest.mark.parametrize("text", ["0,1\n2,3\n", "a;b\n0;1\n2;3\n", "a\tb\r\n0\t1\r\n2\t3\r\n", "\ufeffa,b\n0,1\n2,3"])
def test_tables_of_others(write, dlc, text):
    code, out, _ = dlc("plot", write(text, "run.csv"))
    lines = out.splitlines()
    assert code == 0 and lines[0] in "b2" and lines[1].startswith("3 ┤") and lines[-1].split()[::2] == ["0", "2"]


@pytest.mark.parametrize(
    "values", ["1e308\n-1e308", "1e20\n1e20", "5e-324\n0", "-inf\n2", "nan\nnan", "1e-320\n2e-320"]
)
def test_numbers_of_every_size_are_drawn(write, dlc, values):
    assert dlc("plot", write(f"loss\n{values}\n", "run.csv"))[::2] == (0, "")


def test_a_picture_in_a_file(write, dlc, tmp_path):
    pytest.importorskip("matplotlib")
    assert dlc("plot", write(RUN, "run.csv"), "-o", "run.png") == (0, "written to run.png\n", "")
    assert (tmp_path / "run.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    "text, options, message",
    [
        (RUN, ["-y", "los"], "error[E0997]: `run.csv` has no column of numbers `los`\n  = help: did you mean `loss`?"),
        (RUN, ["-x", "note"], "error[E0997]: `run.csv` has no column of numbers `note`"),
        ("a,b\nx,y\n", [], "error[E0997]: `run.csv` has no column of numbers"),
        ("", [], "error[E0997]: `run.csv` has no rows yet"),
        ("epoch,loss\n", [], "error[E0997]: `run.csv` has no rows yet"),
        ("a,b\n1,2\n2,x\n3,4\n", [], "error[E0997]: line 3 of `run.csv`, column `b`: `x` is not a number"),
        ("a\n1\n", ["-o", "run.xyz"], "error[E0981]: "),
        ("a\n1\n", ["none.csv"], "error[E0951]: cannot read `none.csv`: No such file or directory"),
    ],
)
def test_what_cannot_be_drawn_is_a_message(write, dlc, text, options, message):
    if "-o" in options:
        pytest.importorskip("matplotlib")
    code, out, err = dlc("plot", write(text, "run.csv"), *options)
    assert (code, out) == (1, "") and err.startswith(message)


def test_it_follows_a_file_that_grows_until_it_is_interrupted(write):
    command = [sys.executable, "-m", "dlang.tools.dlc", "plot", "run.csv", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        limit = threading.Timer(60, run.kill)  # if what is waited for never comes
        limit.start()
        assert run.stdout.readline() == "cannot read `run.csv`: No such file or directory\n"
        for rows, seen in (("0,8.0\n", "loss\n"), ("0,8.0\n1,9.0\n", "9 ┤")):
            os.replace(write(f"epoch,loss\n{rows}", "new.csv"), "run.csv")
            assert any(line.startswith(seen) for line in iter(run.stdout.readline, ""))
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 0
        limit.cancel()
