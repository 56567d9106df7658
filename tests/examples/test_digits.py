"""The digits example learns, from the command line and from Python."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from dlang.tools.dlc import main
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples/digits"


def accuracies(output):
    return [
        float(a) for a in re.findall(r"^epoch \d+: loss \d+\.\d{4}, test accuracy (\d\.\d{4})$", output, re.MULTILINE)
    ]


def test_training_on_the_command_line_reads_96_of_100_unseen_digits(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    saved = tmp_path / "mlp.npz"
    assert main(["run", "examples/digits/train.dl", "--save", str(saved)]) == 0
    found = accuracies(capsys.readouterr().out)
    assert len(found) == 20 and found[-1] >= 0.96
    with np.load(saved) as weights:
        assert {n: weights[n].shape for n in weights.files} == {
            "hidden.w": (64, 128),
            "hidden.b": (128,),
            "output.w": (128, 10),
            "output.b": (10,),
        }


def test_a_batch_of_more_images_than_there_are_is_refused(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(["run", "examples/digits/train.dl", "--batch", "1501"]) == 1
    assert "there are 1,500 images" in capsys.readouterr().err


def test_two_runs_with_one_seed_are_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    command = ["run", "examples/digits/train.dl", "--epochs", "1", "--save", str(tmp_path / "mlp.npz")]
    outputs = []
    for seed in ("3", "3", "4"):
        assert main([*command, "--seed", seed]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


def test_training_from_python_learns():
    done = subprocess.run(
        [sys.executable, str(DIGITS / "train.py"), "5"], capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT
    )
    found = accuracies(done.stdout)
    assert len(found) == 5 and found[-1] >= 0.9, done.stderr
