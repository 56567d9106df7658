"""Times programs in processes of their own: one for each tool, pinned to one core, of which one at a time works.

The parent starts a `Worker` for each tool and asks them in turn for one more sample, so that a change in the speed of
the machine meets all of them alike. The child's side is `serve`.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "NPROC")


class NotInstalled(Exception):
    """A tool whose package is missing: reported, and no failure."""


def require(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise NotInstalled(f"{package} is not installed (pip install 'dlang[bench]')")


# ---- the child -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Program:
    """What a worker runs. `step()` does one step and gives its loss, and does not return before that is known."""

    step: Callable[[], float]
    check_steps: int


def serve(prepare: Callable[[], Program], min_time: float) -> None:
    """Prepares the program, tells its first losses, then times a sample for each line that comes in.

    Answers are lines of JSON on what was the standard output; what the tools print goes to the standard error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        program = prepare()
    except NotInstalled as e:
        answer(missing=str(e))
        return
    start = time.perf_counter()
    losses = [program.step()]
    first = time.perf_counter() - start
    losses += [program.step() for _ in range(program.check_steps - 1)]
    steps = _steps_for(program.step, min_time)
    answer(losses=losses, first_s=first, steps=steps)
    gc.collect()
    gc.disable()
    for _ in sys.stdin:
        answer(step_s=_time(program.step, steps))


def _steps_for(step: Callable[[], float], min_time: float) -> int:
    steps = 1
    while (elapsed := _time(step, steps) * steps) < min_time:
        steps = max(2 * steps, int(steps * min(50.0, 1.1 * min_time / max(elapsed, 1e-9))))
    return steps


def _time(step: Callable[[], float], steps: int) -> float:
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - start) / steps


# ---- the parent ------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Worker:
    """A process that runs one tool. `problem` says why it gives no times; `missing` if the tool is not installed."""

    tool: str
    process: subprocess.Popen[str]
    log: Path
    losses: list[float] = field(default_factory=list)
    first_s: float = 0.0
    samples: list[float] = field(default_factory=list)
    problem: str | None = None
    missing: bool = False

    def receive(self) -> dict[str, Any] | None:
        """The next answer; None, with the reason in `problem`, when there is none."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.process.wait()
        text = self.log.read_text(encoding="utf-8", errors="replace").strip()
        self.problem = f"failed with exit status {self.process.returncode}:\n{text[-2000:]}"
        return None

    def prepare(self) -> None:
        """Waits until the program is compiled and has run its first steps."""
        answer = self.receive()
        if answer is None:
            return
        if "missing" in answer:
            self.problem, self.missing = answer["missing"], True
            return
        self.losses, self.first_s = answer["losses"], answer["first_s"]

    def sample(self) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("sample\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # `receive` tells why
        if (answer := self.receive()) is not None:
            self.samples.append(answer["step_s"])

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.unlink(missing_ok=True)

    @property
    def median_s(self) -> float:
        return statistics.median(self.samples)


def start(tool: str, python: str, module: str, arguments: Sequence[str], core: int | None) -> Worker:
    """Starts `python -m module arguments` on one core, with every library told to use one thread."""
    environment = dict(os.environ) | dict.fromkeys(_THREADS, "1")
    environment["JAX_PLATFORMS"] = "cpu"
    environment["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    handle, name = tempfile.mkstemp(prefix="benchmark-", suffix=".log")
    with os.fdopen(handle, "w") as log:
        process = subprocess.Popen(
            [python, "-m", module, *arguments],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    if core is not None:
        os.sched_setaffinity(process.pid, {core})
    return Worker(tool, process, Path(name))


def run_in_turn(workers: Sequence[Worker], rounds: int) -> None:
    """Takes `rounds` samples of each prepared worker, alternating, and ends them."""
    for _ in range(rounds):
        for worker in workers:
            if worker.problem is None:
                worker.sample()
    for worker in workers:
        worker.close()


def ratio(worker: Worker, base: Worker) -> float:
    """The median over the rounds of this worker's time over the base's in the same round."""
    return statistics.median(a / b for a, b in zip(worker.samples, base.samples, strict=True))


# ---- the machine -----------------------------------------------------------------------------------------------------
def cpu_model() -> str:
    """What the processor calls itself."""
    import platform

    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def idle_core() -> int | None:
    """The core that has idled most in the last moment; None where processes can't be pinned."""
    if not hasattr(os, "sched_setaffinity"):
        return None

    def idle() -> dict[int, int]:
        times = {}
        with open("/proc/stat", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("cpu") and line[3].isdigit():
                    fields = line.split()
                    times[int(fields[0][3:])] = int(fields[4]) + int(fields[5])
        return times

    before = idle()
    time.sleep(0.2)
    after = idle()
    return max(os.sched_getaffinity(0), key=lambda core: after[core] - before[core])
