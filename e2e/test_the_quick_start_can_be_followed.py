"""A user follows the first steps of the documentation: on one volume, with nothing but a cluster."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.harness.cluster import ROOT, Object
from e2e.harness.controller import API, StreamJobs, condition
from e2e.harness.snapshots import wait_for_completed

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1200)]

QUICK_START = ROOT / "examples" / "kubernetes" / "quick-start"
NAME = "views"


def loaded(file: Path) -> Object:
    """Return what a file of the example holds."""
    found: Object = yaml.safe_load(file.read_text())
    return found


def changed(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with the change that the documentation proposes."""
    job = spec["job"]
    busy = {"name": "busy", "inputs": ["moments"], "sql": "SELECT * FROM moments WHERE views > 20"}
    sinks = [{**sink, "input": "busy"} for sink in job["sinks"]]
    return {**spec, "job": {**job, "operators": [*job["operators"], busy], "sinks": sinks}}


def test_the_quick_start_can_be_followed_from_its_first_to_its_last_command(jobs: StreamJobs) -> None:
    namespace = jobs.namespace
    for file in ("volume.yaml", "traffic.yaml"):
        thing = loaded(QUICK_START / file)
        for container in thing["spec"].get("containers", ()):
            container["image"] = namespace.image
        namespace.apply(thing["apiVersion"], thing["kind"], thing["metadata"]["name"], spec=thing["spec"])
    spec = loaded(QUICK_START / "job.yaml")["spec"]
    namespace.apply(API, "StreamJob", NAME, spec=spec)
    first = jobs.wait_for_state(NAME, "STABLE")
    assert condition(first, "Ready")["status"] == "True"
    in_reach = condition(first, "StoreInReach")
    assert (in_reach["status"], in_reach["reason"]) == ("False", "OnVolume")

    (driver,) = jobs.drivers(NAME)
    namespace.delete("Pod", driver, grace=0)
    jobs.wait(NAME, lambda status: status["jobStatus"]["attempt"] == 2, what="second driver")
    jobs.wait_for_state(NAME, "STABLE")

    namespace.apply(API, "StreamJob", NAME, spec=changed(spec))
    after = jobs.wait(NAME, lambda status: status["jobStatus"]["attempt"] == 3, what="changed job")
    after = jobs.wait_for_state(NAME, "STABLE")
    assert after["restoredFrom"]["kind"] == "savepoint"
    (upgrade,) = wait_for_completed(jobs, NAME, 1, "upgrade")
    assert upgrade["status"]["path"] == after["restoredFrom"]["path"]
    assert after["savepoint"]["upgradeSnapshotReference"] == {
        "name": upgrade["metadata"]["name"],
        "path": after["restoredFrom"]["path"],
    }

    jobs.snapshot("before-the-change", NAME)
    jobs.change(NAME, suspend=True)
    jobs.wait_for_state(NAME, "SUSPENDED")
    jobs.change(NAME, suspend=False)
    jobs.wait_for_state(NAME, "STABLE")

    namespace.delete("StreamJob", NAME)
    namespace.wait_gone("StreamJob", NAME)
    rows = namespace.rows("report")
    often = {key: count for key, count in Counter((row["moment"], row["page"]) for row in rows).items() if count > 1}
    assert rows
    assert not often, "a window was published twice"
    # The pod writes until it is gone, and the namespace with it.
    namespace.delete("Pod", "traffic", grace=0)
