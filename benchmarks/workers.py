"""Processes that each run one tool, pinned to the same cores, of which one at a time works.

The parent starts a `Worker` for each tool and asks them in turn for one more sample, so that a change in the speed of
the machine meets all of them alike. The child's side is `worker.py`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.tools import ROOT, disagreement

THREADS = (
    "DLANG_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "NPROC",
)  # fmt: skip


@dataclass(slots=True)
class Worker:
    """A process that runs one tool. `problem` says why it gives no times; `missing` if the tool is not installed.

    first_s, peak_bytes, tape_bytes, samples: by the name of a call; samples are seconds for one call.
    prepare_s: what came before the first call, with the tool itself loaded. device: what it computes on, if it says.
    """

    tool: str
    process: subprocess.Popen[str]
    folder: tempfile.TemporaryDirectory[str]
    first_s: dict[str, float] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    tape_bytes: dict[str, int | None] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)
    prepare_s: float = 0.0
    device: dict[str, Any] = field(default_factory=dict)
    results: dict[str, list[Any]] = field(default_factory=dict)
    problem: str | None = None
    missing: bool = False

    def prepare(self) -> None:
        """Waits until the program is compiled and has run once, and reads what it gave."""
        answer = self._receive()
        if answer is None:
            return
        if "missing" in answer:
            self.problem, self.missing = answer["missing"], True
            return
        self.first_s, self.prepare_s = answer["first_s"], answer["prepare_s"]
        self.peak_bytes, self.tape_bytes = answer.get("peak_bytes", {}), answer.get("tape_bytes", {})
        self.device = answer.get("device", {})
        self.samples = {name: [] for name in self.first_s}
        self.results = _read(Path(self.folder.name) / "results.npz")

    def sample(self) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("sample\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # `_receive` tells why
        if (answer := self._receive()) is not None:
            for name, seconds in answer["step_s"].items():
                self.samples[name].append(seconds)

    def _receive(self) -> dict[str, Any] | None:
        """The next answer; None, with the reason in `problem`, when there is none."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.process.wait()
        log = Path(self.folder.name) / "log"
        text = log.read_text(encoding="utf-8", errors="replace").strip()
        self.problem = f"failed with exit status {self.process.returncode}:\n{text[-2000:]}"
        return None

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def median(self, call: str) -> float:
        return statistics.median(self.samples[call])


def _read(path: Path) -> dict[str, list[Any]]:
    """Results by call, its arrays in order."""
    import numpy as np

    found: dict[str, list[Any]] = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            found.setdefault(key.rpartition("/")[0], []).append(arrays[key])
    return found


def start(
    tool: str,
    python: str,
    arguments: Sequence[str],
    cores: Sequence[int],
    options: Sequence[str],
    environment: Mapping[str, str] | None = None,
    module: str = "benchmarks.worker",
) -> Worker:
    """Starts a worker on some cores, with every library told how many threads that makes.

    arguments: workload, size and dtype. environment: variables that come on top. module: what the process runs.
    """
    workload, size, dtype = arguments
    threads = dict.fromkeys(THREADS, str(max(1, len(cores))))
    # calls are measured as they are in the long run, so code is the best there is from the start
    environment = {**os.environ, **threads, "JAX_PLATFORMS": "cpu", "DLANG_TIERS": "off", **(environment or {})}
    if len(cores) == 1:
        environment["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    folder = tempfile.TemporaryDirectory(prefix="benchmark-")
    results = str(Path(folder.name) / "results.npz")
    with (Path(folder.name) / "log").open("w") as log:
        process = subprocess.Popen(
            [python, "-m", module, workload, tool, size, dtype, results, *options],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    if cores:
        os.sched_setaffinity(process.pid, cores)
    return Worker(tool, process, folder)


REST = 0.3
"""Seconds for which threads of OpenMP may still look for work, after what they did, on the cores of who comes next."""


def run_in_turn(workers: Sequence[Worker], rounds: int, rest: float = 0.0) -> None:
    """Takes `rounds` samples of each prepared worker, alternating, with a rest before each, and ends them."""
    for _ in range(rounds):
        for worker in workers:
            if worker.problem is None:
                time.sleep(rest)
                worker.sample()
    for worker in workers:
        worker.close()


def ratio(a: Worker, b: Worker, call: str) -> float:
    """The median over the rounds of `a`'s time over `b`'s in the same round."""
    return statistics.median(x / y for x, y in zip(a.samples[call], b.samples[call], strict=True))


def python_of(named: Sequence[str], tool: str) -> str:
    """The Python that runs a tool: for peers the one named for it, `TOOL=PYTHON`, else the one named for all."""
    if tool in ("dlang", "c"):
        return sys.executable
    own = dict(p.split("=", 1) for p in named if "=" in p)
    others = [p for p in named if "=" not in p]
    return own.get(tool, others[-1] if others else sys.executable)


def differences(ran: Sequence[Worker], tolerance: float) -> list[str]:
    """Which results are further from those of dlang than `tolerance`, and by how much."""
    base = next((w for w in ran if w.tool == "dlang"), None)
    if base is None:
        return []
    return [
        f"{call} of {w.tool} is not that of dlang: {difference}"
        for w in ran
        for call in w.results
        if call in base.results and (difference := disagreement(w.results[call], base.results[call], tolerance))
    ]


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


def idle_core() -> list[int]:
    """The core that has idled most in the last moment; none where processes can't be pinned."""
    if not hasattr(os, "sched_setaffinity"):
        return []

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
    return [max(os.sched_getaffinity(0), key=lambda core: after[core] - before[core])]


def all_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
