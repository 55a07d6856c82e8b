"""A user types the commands of the quick start as they are printed, on one volume, with nothing but a cluster.

The images' names are those of the images built here, and Ctrl-C ends the commands that would not end by themselves.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from e2e.harness.cluster import ROOT
from e2e.harness.controller import StreamJobs, condition
from e2e.harness.namespace import Namespace
from e2e.harness.snapshots import wait_for_completed
from tests.architecture.documents import Block, blocks

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1500)]

PAGE = "docs/how-to/first-job-on-kubernetes.md"
FILES = Path("examples/kubernetes/quick-start")
NAME = "views"
WITHIN = 240.0
"""Seconds in which a command that shows what happens has to show it."""
_POLL = 0.3


def printed(language: str) -> list[Block]:
    """Return the blocks of the page in a language."""
    return [each for each in blocks() if each.document == PAGE and each.language == language]


class Terminal:
    """Runs commands in a directory that has the files of the quick start, and in a namespace."""

    def __init__(self, namespace: Namespace, directory: Path) -> None:
        self._namespace = namespace
        self._environment = {**os.environ, "KUBECONFIG": str(namespace.cluster.kubeconfig)}
        self.directory = directory
        shutil.copytree(ROOT / FILES, directory / FILES)
        for file in (directory / FILES).glob("*.yaml"):
            file.write_text(file.read_text().replace("streamjob-runtime:0.1.0", namespace.image))

    def type(self, command: str) -> str:
        """Run a command to its end, and return what it prints."""
        done = subprocess.run(
            self._words(command),
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def watch(self, command: str, shown: Callable[[str], object]) -> str:
        """Run a command until its output is what it is to show, then press Ctrl-C; return the output."""
        output = self.directory / "output"
        with output.open("w") as file:
            running = subprocess.Popen(
                self._words(command),
                cwd=self.directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + WITHIN
        try:
            while not shown(output.read_text()):
                assert running.poll() is None, f"{command}: {output.read_text()}"
                assert time.monotonic() < end, f"{command}: {output.read_text()}"
                time.sleep(_POLL)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGINT)
            running.wait(timeout=30)
        return output.read_text()

    def _words(self, command: str) -> list[str]:
        namespace = shlex.quote(self._namespace.name)
        return ["bash", "-c", f'kubectl() {{ command kubectl --namespace {namespace} "$@"; }}\n{command}']


def change(terminal: Terminal) -> None:
    """Change the job's file as the page proposes."""
    file = terminal.directory / FILES / "job.yaml"
    resource = yaml.safe_load(file.read_text())
    (block,) = printed("yaml")
    proposed = yaml.safe_load(block.text)
    job = resource["spec"]["job"]
    job["operators"] += proposed["operators"]
    for sink in proposed["sinks"]:
        (there,) = (each for each in job["sinks"] if each["name"] == sink["name"])
        there.update(sink)
    file.write_text(yaml.safe_dump(resource, sort_keys=False))


def test_the_quick_start_can_be_followed_from_its_first_to_its_last_command(jobs: StreamJobs, tmp_path: Path) -> None:
    terminal = Terminal(jobs.namespace, tmp_path)
    _cluster, *steps = printed("sh")
    commands = [line for block in steps for line in block.text.splitlines() if line]
    typed = iter(commands)

    def up_to(*last: str) -> str:
        """Type the commands up to the next one that begins with these words, and return what that one prints."""
        for command in typed:
            said = terminal.type(command)
            if shlex.split(command)[: len(last)] == list(last):
                return said
        raise AssertionError(f"{' '.join(last)} is not on the page")

    assert NAME in up_to("kubectl", "get", "streamjobs")
    first = jobs.status(NAME)
    assert condition(first, "Ready")["status"] == "True"
    in_reach = condition(first, "StoreInReach")
    assert (in_reach["status"], in_reach["reason"]) == ("False", "OnVolume")

    up_to("kubectl", "wait", "pod/reader")
    logs = terminal.watch(next(typed), lambda output: output.count("\n") > 1)
    assert {"moment", "page", "views", "visitors"} <= json.loads(logs.splitlines()[0]).keys()

    up_to("kubectl", "delete", "pod")
    jobs.wait(NAME, lambda status: status["jobStatus"]["attempt"] == 2, what="second driver")
    terminal.watch(next(typed), lambda output: NAME in output)
    jobs.wait_for_state(NAME, "STABLE")
    assert NAME in up_to("kubectl", "describe")

    change(terminal)
    terminal.type(next(each for each in commands if each.startswith("kubectl apply -f") and "job.yaml" in each))
    jobs.wait(NAME, lambda status: status["jobStatus"]["attempt"] == 3, what="changed job")
    after = jobs.wait_for_state(NAME, "STABLE")
    assert after["restoredFrom"]["kind"] == "savepoint"
    (upgrade,) = wait_for_completed(jobs, NAME, 1, "upgrade")
    assert upgrade["status"]["path"] == after["restoredFrom"]["path"]
    assert after["savepoint"]["upgradeSnapshotReference"] == {
        "name": upgrade["metadata"]["name"],
        "path": after["restoredFrom"]["path"],
    }

    assert "before-the-change" in up_to("kubectl", "get", "streamsnapshots")
    assert upgrade["metadata"]["name"] in up_to("kubectl", "get", "streamsnapshot")
    up_to("kubectl", "delete", "streamjob")
    rows = jobs.namespace.rows("report")
    often = {key: count for key, count in Counter((row["moment"], row["page"]) for row in rows).items() if count > 1}
    assert rows
    assert not often, "a window was published twice"

    up_to("kubectl", "delete", "-k")
    assert list(typed) == []
    assert jobs.namespace.get("PersistentVolumeClaim", "data") is None
