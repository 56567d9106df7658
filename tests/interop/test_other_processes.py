"""What sends work to other processes: joblib, Dask and Ray, by pickle or cloudpickle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dlang
from tests.patience import PATIENCE

TEXT = """
struct Net<n> { w: f64[n], b: f64 }
fn loss(p: Net<n>, x: f64[n]) -> f64 = sum(p.w * x) + p.b ** 2
"""
ENVIRONMENT = {"PYTHONPATH": str(Path(dlang.__file__).parents[1])}


@pytest.fixture(scope="module")
def m(tmp_path_factory):
    file = tmp_path_factory.mktemp("sources") / "net.dl"
    file.write_text(TEXT)
    return dlang.load(file)


@pytest.fixture(autouse=True)
def workers_find_the_language(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def test_cloudpickle_takes_a_closure_over_a_module_and_a_value(m):
    cloudpickle = pytest.importorskip("cloudpickle")
    net, slope = m.Net(np.ones(2), 3.0), dlang.grad(m.loss)
    sent = cloudpickle.dumps(lambda x: (m.loss(net, x), slope(net, x).b, type(m.Net(x, 1.0)).__name__))
    program = "import pickle, sys, numpy; print(pickle.load(sys.stdin.buffer)(numpy.ones(2)))"
    run = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, timeout=PATIENCE)
    assert run.stdout.decode().strip() == "(11.0, 6.0, 'Net')", run.stderr.decode()


def test_joblib_computes_in_processes_of_its_own(m):
    joblib = pytest.importorskip("joblib")
    nets = [m.Net(np.full(2, float(k)), 1.0) for k in range(4)]
    with joblib.Parallel(n_jobs=2, backend="loky") as parallel:
        assert parallel(joblib.delayed(m.loss)(net, np.ones(2)) for net in nets) == [1.0, 3.0, 5.0, 7.0]
        slopes = parallel(joblib.delayed(dlang.grad(m.loss))(net, np.ones(2)) for net in nets[:2])
        assert [type(s) for s in slopes] == [m.Net, m.Net]
        assert parallel([joblib.delayed(os.getpid)()]) != [os.getpid()]


def test_dask_computes_in_processes_of_its_own(m):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        made = client.map(m.loss, [m.Net(np.full(2, float(k)), 1.0) for k in range(3)], x=np.ones(2))
        assert client.gather(made) == [1.0, 3.0, 5.0]


def test_ray_computes_in_processes_of_its_own(m):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": ENVIRONMENT})
    try:
        loss, net = ray.remote(lambda net, x: m.loss(net, x)), m.Net(np.ones(2), 1.0)
        assert ray.get(loss.remote(net, np.ones(2)), timeout=PATIENCE) == 3.0
    finally:
        ray.shutdown()
