"""`streamjob advise`: the decision of automatic scaling for a recorded trace or a running job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.autoscaling.jobs import CALM, Life, hours
from typer.testing import CliRunner

from streamjob.autoscaling import Policy, read_load, write_load
from streamjob.cli import advise as cli
from streamjob.cli.main import app
from streamjob.client.client import ControlClient

POLICY = "max: 60\nmeans: [Restart]\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace of a job that is not scaled while its load rises above its capacity."""
    file = tmp_path / "trace.jsonl"
    reports = Life(hours((0.5, 40_000), (0.2, 120_000)), Policy(max=6), CALM).run()
    file.write_text("".join(json.dumps(write_load(load)) + "\n" for load, _ in reports))
    (tmp_path / "policy.yaml").write_text(POLICY)
    return file


def advise(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["advise", *map(str, arguments)])


def test_a_trace_gives_the_advice_when_it_changes_and_the_last_one(trace: Path, tmp_path: Path) -> None:
    done = advise(trace, "--policy", tmp_path / "policy.yaml")

    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert "Learning   Keep 6 slots: there are" in lines[0]
    assert "Steady     Keep 6 slots: 40,0" in lines[1]
    assert "Behind     Change from 6 to" in done.stdout
    assert "Change from 6 to" in lines[-1]
    assert len(lines) < 15


def test_advice_in_json_has_the_numbers_behind_it(trace: Path, tmp_path: Path) -> None:
    done = advise(trace, "--policy", tmp_path / "policy.yaml", "--json", "--all")

    made = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(made) == len(trace.read_text().splitlines())
    last = made[-1]
    assert last["slots"] == 6
    assert last["recommended"] > 12
    assert last["means"] == "Restart"
    assert last["inputs"]["rate"] == pytest.approx(120_000, rel=0.1)


def test_advice_that_nobody_follows_is_repeated_and_not_undone(trace: Path, tmp_path: Path) -> None:
    done = advise(trace, "--policy", tmp_path / "policy.yaml", "--json", "--all")

    rules = [json.loads(line)["rule"] for line in done.stdout.splitlines()]
    assert rules.count("Behind") > 30
    assert not {"MoveFailed", "Undo"} & set(rules)


def test_a_line_that_is_no_report_is_named(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"time": 1, "slots": 2, "rows": 0, "chains": []}\n\n{"time": 2, "slots": 0}\n')

    done = advise(file)

    assert done.exit_code == 2
    assert "line 3, is no report of a load: slots: Input should be greater than or equal to 1" in done.output


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("min: 9\nmax: 3\n", "min 9 is above max 3"),
        ("maxLags: 3s\n", "maxLags: Extra inputs are not permitted"),
        ("excludedPeriods: [{start: 61 * * * *, duration: 1h}]\n", "excludedPeriods.0.start"),
        ("a: [", "is no YAML"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused(trace: Path, tmp_path: Path, policy: str, words: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(policy)

    done = advise(trace, "--policy", file)

    assert done.exit_code == 2
    assert words in done.output


def test_a_trace_and_a_running_job_exclude_each_other(trace: Path) -> None:
    done = advise(trace, "--url", "http://job:8080")

    assert done.exit_code == 2
    assert "Use one of them" in done.output


def test_a_running_job_is_asked_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "http://job:8080/v1/job?include=checkpointing"
        return httpx.Response(200, json=JOB)

    @contextmanager
    def connected(*_: object) -> Iterator[tuple[ControlClient, None]]:
        yield ControlClient("http://job:8080", "secret", transport=httpx.MockTransport(answer)), None

    monkeypatch.setattr(cli, "connected", connected)
    record = tmp_path / "trace.jsonl"

    done = advise("--for", "0.1s", "--record", record)

    assert done.exit_code == 0, done.output
    assert "Keep 4 slots: there are 0 samples" in done.stdout
    load = read_load(record.read_text())
    assert (load.slots, load.max_parallelism, load.rows, load.lag, load.position) == (4, 8, 700, 30, 730)
    assert (load.chains[0].batches, load.chains[0].seconds) == (12, 3.5)
    assert load.stateful is False
    assert (load.checkpoint_interval, load.sources[0].largest_lag, load.sources[0].partitions) == (10, 20, 2)


JOB = {
    "state": "RUNNING",
    "name": "job",
    "namespace": "default",
    "graph": {"parallelism": 4, "maxParallelism": 8},
    "checkpointing": {
        "interval": "10s",
        "timeout": "10m",
        "minPause": "0s",
        "mode": "aligned",
        "tolerableFailedCheckpoints": 10,
        "numRetained": 3,
    },
    "startTime": 1000.0,
    "uptime": 50.0,
    "recordsIn": 700,
    "chains": [
        {
            "uid": "counts",
            "operators": ["counts"],
            "batch": 11,
            "batches": 12,
            "batchSeconds": 3.5,
            "batchTimes": {"batches": 5, "seconds": 0.3},
            "recordsIn": 700,
            "inputs": [
                {
                    "uid": "events",
                    "lagRecords": 30,
                    "partitions": [
                        {"topic": "t", "partition": 0, "position": 400, "lag": 20},
                        {"topic": "t", "partition": 1, "position": 330, "lag": 10},
                    ],
                }
            ],
        }
    ],
}
