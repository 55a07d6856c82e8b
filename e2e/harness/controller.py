"""A controller outside the cluster, and StreamJobs as their users see them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.harness.cluster import ROOT, Cluster, Object, objects
from e2e.harness.namespace import Namespace
from e2e.harness.stores import opened
from e2e.harness.visits import expected, last_visit, visits_job

from streamjob.ids import Key
from streamjob.protocol.log.records import JobId, LogView, read
from streamjob.store import ObjectMissing
from streamjob.store.effects import drive
from streamjob.store.opening import open_location

API = "streamjob.io/v1alpha1"
ALONE = ("--no-leader-election",)
_PATIENCE = 240.0


def define_resources(cluster: Cluster) -> None:
    """Give the cluster the definitions of the resources."""
    cluster.apply(*objects(file.read_text() for file in sorted((ROOT / "crds").glob("*.yaml"))))
    cluster.refresh()


class ControllerProcess:
    """A controller of one namespace, as a process of this machine.

    Args:
        namespace: the one that it looks after.
        log: the file that it logs to.
        options: how it is elected.
        environment: variables that it gets besides.
    """

    def __init__(
        self,
        namespace: Namespace,
        log: Path,
        options: Sequence[str] = ALONE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._namespace = namespace
        self._log = log
        self._options = options
        self._environment = environment or {}
        self._process = self._start()

    @property
    def exit_code(self) -> int | None:
        """How it has ended; None while it runs."""
        return self._process.poll()

    def wait_end(self, within: float = 60.0) -> int:
        """Wait until it has ended by itself, and return its exit code."""
        return self._process.wait(timeout=within)

    def kill(self) -> None:
        """End it without a word."""
        self._process.kill()
        self._process.wait(timeout=30)

    def start_again(self) -> None:
        """Start another one in its place."""
        self._process = self._start()

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self._process.terminate()
        self._process.wait(timeout=30)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "streamjob_operator", "--namespace", self._namespace.name]
        command += ["--host", "127.0.0.1", "--probes-port", "0", "--metrics-port", "0", *self._options]
        environment = {**os.environ, "STREAMJOB_IMAGE": self._namespace.image, "STREAMJOB_INTERVAL": "5s"}
        environment |= self._environment
        with self._log.open("a") as file:
            return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=ROOT)


@contextmanager
def running_controller(
    namespace: Namespace, options: Sequence[str] = ALONE, environment: Mapping[str, str] | None = None
) -> Iterator[ControllerProcess]:
    """Run a controller of one namespace; its log is printed in the end."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "controller.log"
        controller = ControllerProcess(namespace, log, options, environment)
        try:
            yield controller
        finally:
            controller.stop()
            sys.stdout.write(log.read_text())


class StreamJobs:
    """The StreamJobs of a namespace: each counts visits per page and ten seconds, exactly once."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace

    def apply(self, name: str, *, bounded: bool = False, **spec: Any) -> None:
        """Create a StreamJob, or change it to what is given."""
        wanted = {
            "job": visits_job(name, bounded=bounded),
            "parallelism": 1,
            "maxParallelism": 2,
            "checkpointing": {"location": self.namespace.location, "interval": "1s"},
            "storage": self.namespace.storage,
            "driver": self.namespace.driver,
            "volumes": self.namespace.volumes,
        }
        self.namespace.apply(API, "StreamJob", name, spec={**wanted, **spec})

    def change(self, name: str, **spec: Any) -> None:
        """Change fields of a spec."""
        self.namespace.patch("StreamJob", name, {"spec": spec})

    def status(self, name: str) -> Object:
        """Return a StreamJob's status."""
        found = self.namespace.get("StreamJob", name)
        assert found is not None
        status: Object = found.get("status") or {}
        return status

    def wait(self, name: str, condition: Callable[[Object], object], *, what: str, within: float = _PATIENCE) -> Object:
        """Wait until a StreamJob's status, of the spec as it is, fulfils a condition, and return the status."""

        def is_so(thing: Object) -> bool:
            status = thing.get("status") or {}
            return status.get("observedGeneration") == thing["metadata"]["generation"] and bool(condition(status))

        found = self.namespace.wait("StreamJob", name, is_so, within=within, what=what)
        status: Object = found["status"]
        return status

    def wait_for_state(self, name: str, *states: str, within: float = _PATIENCE) -> Object:
        """Wait until a StreamJob has come to a lifecycle state, and return its status.

        A job is STABLE also while a changed spec is checked in a preflight; this is not waited for.
        """

        def is_there(status: Object) -> bool:
            state = status.get("lifecycleState")
            return state in states and (state != "STABLE" or condition(status, "Reconciling")["status"] == "False")

        return self.wait(name, is_there, what=" or ".join(states), within=within)

    def wait_until_ready(self, name: str, *, attempt: int | None = None, within: float = _PATIENCE) -> Object:
        """Wait as `kubectl wait --for=condition=Ready` does, and return the status: it is of the spec as it is.

        Args:
            name: of the StreamJob.
            attempt: of the driver that is to run; None for any.
            within: seconds that it may take.
        """

        def is_ready(status: Object) -> bool:
            known = attempt in (None, status.get("jobStatus", {}).get("attempt"))
            return known and bool(status.get("conditions")) and condition(status, "Ready")["status"] == "True"

        which = "" if attempt is None else f" with driver {attempt}"
        return self.wait(name, is_ready, what=f"Ready{which}", within=within)

    def wait_for_checkpoint(self, name: str, number: int = 2) -> Object:
        """Wait until a StreamJob's status mentions a checkpoint with this number or a later one, and return it."""
        return self.wait(name, lambda status: last_checkpoint(status) >= number, what=f"checkpoint {number}")

    def wait_until_no_driver(self, name: str) -> None:
        """Wait until no pod of a StreamJob is left: when its driver has ended, the pod still has to go."""
        for driver in self.drivers(name):
            self.namespace.wait_gone("Pod", driver)
        assert self.drivers(name) == []

    def snapshot(self, name: str, job: str, *, within: float = _PATIENCE, **savepoint: Any) -> Object:
        """Ask for a savepoint by a resource, wait until it is complete, and return its status."""
        self.namespace.apply(API, "StreamSnapshot", name, spec={"jobRef": {"name": job}, "savepoint": savepoint})
        found = self.namespace.wait(
            "StreamSnapshot",
            name,
            lambda thing: (thing.get("status") or {}).get("state") in ("Completed", "Failed", "Abandoned"),
            within=within,
            what="outcome",
        )
        status: Object = found["status"]
        assert status["state"] == "Completed", status
        return status

    def drivers(self, name: str) -> list[str]:
        """Return the names of a StreamJob's driver pods."""
        labels = f"streamjob.io/name={name},app.kubernetes.io/component=driver"
        pods = self.namespace.all("Pod", labels)
        return sorted(pod["metadata"]["name"] for pod in pods)

    def events(self, name: str, reason: str) -> list[str]:
        """Return what the events of a StreamJob with a reason say, the oldest first."""
        found = [
            event
            for event in self.namespace.all("Event")
            if event["involvedObject"]["kind"] == "StreamJob"
            and event["involvedObject"]["name"] == name
            and event["reason"] == reason
        ]
        return [str(event["message"]) for event in sorted(found, key=lambda event: str(event["firstTimestamp"]))]

    def wait_for_events(
        self, name: str, reason: str, *, number: int = 1, saying: str = "", within: float = _PATIENCE
    ) -> list[str]:
        """Wait until there are events of a StreamJob with a reason, and return what they say, the oldest first.

        The controller records events after it has stored the status that they are about.

        Args:
            name: of the StreamJob.
            reason: of the events.
            number: how many there have to be at least.
            saying: a part of what so many of them say.
            within: seconds that it may take.
        """
        end = time.monotonic() + within
        while True:
            found = self.events(name, reason)
            if sum(saying in each for each in found) >= number:
                return found
            wanted = f"{number} {reason}" + (f" with {saying!r}" if saying else "")
            assert time.monotonic() < end, f"after {within:g} s the events of {name} are {found}, and not {wanted}"
            time.sleep(0.5)

    def remove_all(self) -> None:
        """Delete all StreamJobs and wait until the controller has let them go."""
        names = [each["metadata"]["name"] for each in self.namespace.all("StreamJob")]
        for name in names:
            self.namespace.delete("StreamJob", name)
        for name in names:
            self.namespace.wait_gone("StreamJob", name, within=_PATIENCE)

    def report(self, name: str) -> Counter[tuple[str, str]]:
        """Return what a StreamJob's sink has published."""
        counts: Counter[tuple[str, str]] = Counter()
        for row in self.namespace.rows(f"report-{name}"):
            key = (row["moment"], row["page"])
            assert key not in counts, f"{key} was published twice"
            counts[key] = row["visits"]
        return counts

    def wait_for_report(self, name: str, wanted: Counter[tuple[str, str]], *, within: float = _PATIENCE) -> None:
        """Wait until a StreamJob's sink has published as many rows as are wanted, and see that they are those."""
        end = time.monotonic() + within
        while len(found := self.report(name)) < len(wanted):
            assert time.monotonic() < end, f"after {within:g} s {name} has published {found}, and not {wanted}"
        assert found == wanted, f"{name} has published {found}, and not {wanted}"

    def wait_for_whole_report(self, name: str, seconds: int) -> None:
        """Write the last visit, and wait until a StreamJob has published exactly the expected result."""
        self.namespace.write(last_visit())
        self.wait_for_report(name, expected(seconds))

    def log(self, name: str) -> LogView:
        """Return a StreamJob's log as it is stored at the moment."""
        place = open_location(self.namespace.location).job(self.namespace.name, name)
        with opened(self.namespace, place.uri) as store:
            return drive(store, read(JobId(self.namespace.name, name), checkpoints=100))

    def wait_for_stored_checkpoint(self, name: str, later_than: int, *, within: float = _PATIENCE) -> None:
        """Wait until a StreamJob's log, and not its status, has a checkpoint with a higher number."""
        end = time.monotonic() + within
        while self.log(name).last_id <= later_than:
            assert time.monotonic() < end, f"after {within:g} s {name} has no checkpoint after {later_than}"
            time.sleep(0.5)

    def is_stored(self, uri: str) -> bool:
        """Return whether an object is on S3."""
        directory, _, key = uri.rpartition("/")
        with opened(self.namespace, directory) as store:
            try:
                store.get(Key(key))
            except ObjectMissing:
                return False
        return True


def last_checkpoint(status: Object) -> int:
    """Return the id of the last checkpoint in a status; 0 if there is none."""
    return int((status.get("checkpoint", {}).get("lastCompleted") or {}).get("id", 0))


def condition(status: Object, kind: str) -> Object:
    """Return a condition of a status."""
    found: Object = next(each for each in status["conditions"] if each["type"] == kind)
    return found
