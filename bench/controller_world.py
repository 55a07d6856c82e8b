"""The controller's environment in its benchmark: nodes by kwok, an S3 server, drivers, and the process itself."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

from bench.controller_cluster import ADDRESS
from bench.controller_report import INTERVAL
from bench.proc import cpu_seconds
from bench.processes import REPOSITORY, RunFailed, environment, started
from e2e.harness.cluster import Cluster, Where, find_kubeconfig
from e2e.harness.controller import define_resources
from prometheus_client.parser import text_string_to_metric_families
from tests.servers.process import free_port
from tests.servers.s3 import S3Server

from streamjob_operator.cluster.kinds import STREAM_JOB, STREAM_SNAPSHOT, Object

_NODES = 10
_LABEL = "bench.streamjob.io/run"
_OWN_LABELS = "app.kubernetes.io/name=streamjob,app.kubernetes.io/component=controller"
_SECRET = "s3"


def find_kwok() -> list[str]:
    """Return the command that starts kwok: `$KWOK`, from the PATH, or `../shared/servers/run` next to the repository.

    Raises:
        RunFailed: there is none.
    """
    named = os.environ.get("KWOK") or shutil.which("kwok")
    if named:
        return [named]
    run = REPOSITORY.parent / "shared" / "servers" / "run"
    if not run.is_file():
        raise RunFailed("kwok is needed: put it on the PATH, or set KWOK")
    return [str(run), "kwok"]


class World:
    """A namespace of the run's own, nodes that only its pods tolerate, and the server of their snapshots.

    Args:
        cluster: where they are.
        s3: the server.
        work: a directory for logs.
    """

    def __init__(self, cluster: Cluster, s3: S3Server, work: Path) -> None:
        self._cluster = cluster
        self._s3 = s3
        self._work = work
        self.namespace = f"bench-{uuid.uuid4().hex[:8]}"
        self.location = f"s3://{s3.bucket}/{self.namespace}"
        self.drivers_log = work / "drivers.jsonl"
        self._hold = work / "hold"

    def job(self, number: int) -> Object:
        """Return a StreamJob; each has a loopback address of its own."""
        driver = {
            "nodeSelector": {_LABEL: self.namespace},
            "tolerations": [{"key": _LABEL, "operator": "Exists"}],
            "annotations": {ADDRESS: f"127.77.{number // 250}.{number % 250 + 1}"},
        }
        spec = {
            "job": {
                "sources": [{"name": "numbers", "format": "rate", "options": {"rowsPerSecond": "10"}}],
                "operators": [{"name": "half", "inputs": ["numbers"], "sql": "SELECT value / 2 AS v FROM numbers"}],
                "sinks": [{"name": "out", "input": "half", "format": "console", "delivery": "at-least-once"}],
            },
            "image": "example.org/streamjob-runtime:simulated",
            "parallelism": 1,
            "maxParallelism": 8,
            "checkpointing": {"interval": INTERVAL, "location": self.location},
            "storage": {
                "endpoint": self._s3.endpoint,
                "region": self._s3.region,
                "credentialsSecretRef": {"name": _SECRET},
            },
            "driver": driver,
        }
        meta = {"name": f"job-{number:04}", "namespace": self.namespace}
        return {"apiVersion": STREAM_JOB.api_version, "kind": STREAM_JOB.kind, "metadata": meta, "spec": spec}

    def hold_checkpoints(self, hold: bool) -> None:
        """Have drivers take no periodic checkpoints, or go on with them."""
        if hold:
            self._hold.touch()
        else:
            self._hold.unlink(missing_ok=True)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Make it all, and take it away, StreamJobs that are left included."""
        define_resources(self._cluster)
        try:
            self._cluster.create(
                _thing("Namespace", self.namespace),
                _thing("Secret", _SECRET, self.namespace, stringData=_credentials(self._s3)),
                *(self._node(number) for number in range(_NODES)),
            )
            with self._kwok(), self._drivers():
                yield
        finally:
            # No process is left that would release them.
            for kind in (STREAM_JOB.kind, STREAM_SNAPSHOT.kind):
                for thing in self._cluster.all(kind, self.namespace):
                    where = Where(kind, thing["metadata"]["name"], self.namespace)
                    self._cluster.patch(where, {"metadata": {"finalizers": None}})
            self._cluster.delete(Where("Namespace", self.namespace))
            for number in range(_NODES):
                self._cluster.delete(Where("Node", f"{self.namespace}-{number}"))

    @contextlib.contextmanager
    def controller(self) -> Iterator[ControllerProcess]:
        """Run the controller as its chart does."""
        ports = free_port(), free_port()
        command = [sys.executable, "-m", "streamjob_operator", "--namespace", self.namespace, "--host", "127.0.0.1"]
        command += ["--metrics-port", str(ports[0]), "--probes-port", str(ports[1]), "--log-format", "json"]
        command += ["--own-namespace", self.namespace, "--own-labels", _OWN_LABELS]
        log = self._work / "controller.log"
        with started(command, log) as process:
            controller = ControllerProcess(process, ports[0], log)
            controller.wait_until_it_leads()
            yield controller

    def _node(self, number: int) -> Object:
        thing = _thing("Node", f"{self.namespace}-{number}", spec={"taints": [{"key": _LABEL, "effect": "NoSchedule"}]})
        thing["metadata"]["labels"] = {_LABEL: self.namespace}
        return thing

    @contextlib.contextmanager
    def _kwok(self) -> Iterator[None]:
        command = [*find_kwok(), "--kubeconfig", str(self._cluster.kubeconfig), "--server-address", "127.0.0.1:0"]
        command += ["--config", str(REPOSITORY / "bench" / "controller_nodes.yaml"), "--manage-all-nodes=false"]
        command += ["--manage-nodes-with-label-selector", f"{_LABEL}={self.namespace}"]
        with started([*command, "--node-lease-duration-seconds=40"], self._work / "kwok.log"):
            yield

    @contextlib.contextmanager
    def _drivers(self) -> Iterator[None]:
        self.drivers_log.touch()
        command = [sys.executable, "-m", "bench.controller_drivers", self.namespace, self.location]
        with contextlib.ExitStack() as stack:
            # The controller must find logins in Secrets only.
            with environment(self._s3.environment):
                drivers = started([*command, str(self.drivers_log), str(self._hold)], self._work / "drivers.log")
                stack.enter_context(drivers)
            yield


class ControllerProcess:
    """The controller's process, and its metrics.

    Args:
        process: it.
        port: of its metrics.
        log: its output.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self._process = process
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._log = log

    def wait_until_it_leads(self, within: float = 60.0) -> None:
        """Wait until it acts. Raises RunFailed."""
        end = time.monotonic() + within
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError):
                if self.metrics().get("streamjob_controller_leader"):
                    return
            time.sleep(0.1)
        raise RunFailed(f"the controller does not lead; {self._log} ends:\n{self._log.read_text()[-2000:]}")

    def metrics(self) -> dict[str, float]:
        """Return its metrics: those with labels by `name value value`."""
        with urllib.request.urlopen(self._url, timeout=10) as answer:
            return samples(answer.read().decode())

    def cpu(self) -> float:
        """Return the seconds of processor time that it has used."""
        if self._process.poll() is not None:
            raise RunFailed.told_by(self._log, "the controller has ended")
        return cpu_seconds(self._process.pid)

    def memory(self, field: str = "VmRSS") -> int:
        """Return the bytes of memory that it has, or with VmHWM the most that it had."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
        raise RunFailed("the controller has ended")


def samples(text: str) -> dict[str, float]:
    """Return the samples in Prometheus' text form: by name, followed by the values of its labels."""
    return {
        " ".join((sample.name, *(sample.labels[key] for key in sorted(sample.labels)))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def open_cluster() -> Cluster:
    """Return the cluster that KUBECONFIG names, or a local one; it is in the environment from here on."""
    kubeconfig = find_kubeconfig()
    os.environ["KUBECONFIG"] = str(kubeconfig)
    return Cluster(kubeconfig)


def _credentials(s3: S3Server) -> dict[str, str]:
    return {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}


def _thing(kind: str, name: str, namespace: str | None = None, **content: object) -> Object:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **content}
