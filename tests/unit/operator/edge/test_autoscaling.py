"""Automatic scaling over the whole edge: the driver's report comes in, and a driver with other slots goes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.operator.edge.bench import NAME, NAMESPACE, START, Bench, FakeDriver, running

from streamjob_operator.cluster.kinds import CONFIG_MAP, STREAM_JOB

SCALED: dict[str, Any] = {
    "parallelism": 4,
    "autoscaling": {"mode": "Act", "max": 32, "maxLag": "1m"},
    "upgradeMode": "savepoint",
}


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


def load(driver: FakeDriver, now: float, rate: float, since: float) -> dict[str, Any]:
    """Return the report of a driver of four slots that process 40,000 records a second, of which `rate` arrive."""
    passed = now - since
    done, arrived = min(rate, 40_000) * passed, rate * passed
    part = {"topic": "t", "partition": 0, "position": int(done), "lag": int(arrived - done)}
    return {
        "graph": {"parallelism": 4, "maxParallelism": 64},
        "recordsIn": int(done),
        "startTime": START + driver.attempt,
        "chains": [
            {
                "uid": "half",
                "operators": ["half"],
                "batch": int(passed),
                "batches": int(passed),
                "batchSeconds": done / 40_000 + 0.02 * passed,
                "recordsIn": int(done),
                "inputs": [{"uid": "numbers", "lagRecords": int(arrived - done), "partitions": [part]}],
            }
        ],
    }


async def busy(bench: Bench, rate: float, *, looks: int) -> None:
    """Let the job run under a load."""
    since = bench.now
    for _ in range(looks):
        assert bench.driver is not None
        bench.driver.load = load(bench.driver, bench.now, rate, since)
        if int(bench.now) % 10 == 0:
            bench.driver.checkpoint(bench.now)
        await bench.step()


async def test_a_driver_with_more_slots_takes_the_place_of_one_that_falls_behind(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    await running(bench, **SCALED)
    await busy(bench, 90_000, looks=60)

    scaling, spec = bench.job["status"]["autoscaling"], bench.job["spec"]
    assert spec["parallelism"] == 4
    assert 9 <= scaling["parallelism"] <= 32
    files = [bench.cluster.objects[(CONFIG_MAP, NAMESPACE, each)] for each in bench.cluster.names(CONFIG_MAP)]
    slots = {yaml.safe_load(each["data"]["job.yaml"])["parallelism"] for each in files}
    assert {4, scaling["parallelism"]} <= slots
    assert {"ScaledUp", "Rescaling"} <= bench.events()
    assert b'streamjob_controller_autoscaling_moves_total{means="Restart"' in bench.metrics.text()


async def test_a_second_controller_decides_from_what_the_first_one_left(tmp_path: Path) -> None:
    first, second = Bench(tmp_path / "one"), Bench(tmp_path / "two")

    async def one() -> None:
        await running(first, **SCALED)
        await busy(first, 30_000, looks=60)

    async def two() -> None:
        nonlocal second
        await running(second, **SCALED)
        since = second.now
        for number in range(60):
            assert second.driver is not None
            second.driver.load = load(second.driver, second.now, 30_000, since)
            if int(second.now) % 10 == 0:
                second.driver.checkpoint(second.now)
            await second.step()
            if number % 7 == 3:
                second = Bench(tmp_path / "two", before=second)

    await one()
    await two()

    assert second.job["status"]["autoscaling"] == first.job["status"]["autoscaling"]
    assert first.job["status"]["autoscaling"]["state"] == "Steady"


async def test_mode_off_leaves_no_trace(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    await running(bench, **SCALED)
    await busy(bench, 30_000, looks=10)
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=bench.job["spec"] | {"autoscaling": {"mode": "Off"}})
    await bench.step()
    assert "autoscaling" not in bench.job["status"]
