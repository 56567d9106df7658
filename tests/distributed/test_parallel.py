"""The digits on several workers: the same loss whoever computes, and whoever dies meanwhile."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.patience import PATIENCE

DIGITS = Path(__file__).parents[2] / "examples/digits"
sys.path.insert(0, str(DIGITS))

import engines  # noqa: E402
import parallel  # noqa: E402

EPOCHS, BATCH, SHARDS = 3, 300, 4
IMAGES, LABELS = parallel.digits(0)
DATA = IMAGES[: parallel.SPLIT], LABELS[: parallel.SPLIT]


def losses(engine, after=lambda step: None, **settings):
    """The loss of every step."""
    found = []

    def note(step, loss):
        found.append(loss)
        after(step)

    parallel.train(engine, EPOCHS, BATCH, SHARDS, after_step=note, **settings)
    return found


@pytest.fixture(scope="module")
def expected():
    return losses(engines.Alone(DATA))


def test_parts_are_those_of_whole_batches(expected):
    program = engines.program()
    state = program.start(program.Settings(0, BATCH, SHARDS))
    rows = np.random.default_rng([0, 0]).permutation(parallel.SPLIT)[:BATCH]
    whole = program.part(state.params, DATA[0][rows], DATA[1][rows])
    assert expected[0] == pytest.approx(whole.loss / whole.rows, rel=1e-12) and expected[-1] < 0.8 * expected[0]


def test_a_run_that_was_cut_short_goes_on_where_it_was(expected, tmp_path):
    class Stop(Exception):
        pass

    def stop(step):
        if step == 7:
            raise Stop

    file = str(tmp_path / "state.npz")
    with pytest.raises(Stop):
        losses(engines.Alone(DATA), stop, checkpoint=file)
    assert losses(engines.Alone(DATA), checkpoint=file, resume=True) == expected[5:]
    with pytest.raises(SystemExit, match=r"Settings\(seed=0, .* and this has Settings\(seed=1, "):
        losses(engines.Alone(DATA), checkpoint=file, resume=True, seed=1)


def test_a_run_that_is_cut_short_before_its_first_checkpoint_begins_again(expected, tmp_path):
    assert losses(engines.Alone(DATA), checkpoint=str(tmp_path / "none.npz"), resume=True) == expected


@pytest.mark.parametrize("options", ["--shards 0", "--shards 301", "--batch 1501", "--workers 0"])
def test_what_cannot_be_shared_is_refused(options, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["parallel.py", *options.split()])
    with pytest.raises(SystemExit):
        parallel.main()
    assert "a batch has at most 1500 images" in capsys.readouterr().err


@pytest.mark.slow
def test_workers_of_ray_that_are_killed_change_nothing(expected):
    """One, then all of them."""
    ray = pytest.importorskip("ray")
    engine = engines.OnRay(DATA, 2)
    killed = []

    @ray.remote
    def process():
        time.sleep(0.2)
        return os.getpid()

    def kill(step):
        if step in (1, 6):
            found = sorted(set(ray.get([process.remote() for _ in range(2)])))
            for pid in found[: 1 if step == 1 else None]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    try:
        found = losses(engine, kill)
    finally:
        engine.close()
    assert len(killed) >= 2 and not any(map(alive, killed)) and found == expected


@pytest.mark.slow
def test_a_worker_of_ray_that_is_killed_while_it_computes_changes_nothing(expected, tmp_path):
    ray = pytest.importorskip("ray")
    engine = engines.OnRay(DATA, 2)
    marker = tmp_path / "killed"
    plain = engine.part

    def suicidal(params, data, rows):
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return engines.part(params, data, rows)

    def kill(step):
        engine.part = ray.remote(max_retries=3)(suicidal) if step == 3 else plain

    try:
        found = losses(engine, kill)
        assert marker.exists()
    finally:
        engine.close()
    assert found == expected


@pytest.mark.slow
def test_workers_of_dask_that_are_killed_change_nothing(expected):
    """One, then all of them, with the data."""
    pytest.importorskip("distributed")
    engine = engines.OnDask(DATA, 2)
    killed = []

    def kill(step):
        if step in (1, 6):
            pids = list(engine.client.run(os.getpid).values())
            for pid in pids[: 1 if step == 1 else None]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    try:
        found = losses(engine, kill)
    finally:
        engine.close()
    assert len(killed) >= 2 and not any(map(alive, killed)) and found == expected


@pytest.mark.slow
def test_two_ranks_of_mpi_compute_the_same_and_go_on_after_one_was_killed(expected, tmp_path):
    pytest.importorskip("mpi4py")
    found = Path(sys.executable).with_name("mpirun")
    mpirun = str(found) if found.exists() else shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("there is no mpirun")
    options = ["--epochs", str(EPOCHS), "--batch", str(BATCH), "--shards", str(SHARDS)]
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    script = [sys.executable, str(DIGITS / "parallel.py"), *options]
    command = [mpirun, *root, "--oversubscribe", "-n", "2", *script, "--engine", "mpi"]

    def run(command, name, *more, check=True):
        done = subprocess.run(
            [*command, "--checkpoint", str(tmp_path / name), *more],
            capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    alone = run(script, "alone.npz")
    assert run(command, "mpi.npz") == alone
    stop = tmp_path / "stop.py"
    stop.write_text(
        "import os, runpy, signal, sys\n"
        "from mpi4py import MPI\n"
        f"sys.path.insert(0, {str(DIGITS)!r})\n"
        "import engines\n"
        "calls, whole = [0], engines.OnMpi.whole\n"
        "def deadly(self, params, shards):\n"
        "    calls[0] += 1\n"
        "    if calls[0] == 7 and MPI.COMM_WORLD.rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return whole(self, params, shards)\n"
        "engines.OnMpi.whole = deadly\n"
        f"sys.argv = {[str(DIGITS / 'parallel.py'), *options, '--engine', 'mpi']!r} + sys.argv[1:]\n"
        f"runpy.run_path({str(DIGITS / 'parallel.py')!r}, run_name='__main__')\n"
    )
    before = run([*command[: command.index(sys.executable)], sys.executable, str(stop)], "cut.npz", check=False)
    assert [line for line in before if line.startswith("epoch")] == alone[:1]
    assert run(command, "cut.npz", "--resume") == alone[1:]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
