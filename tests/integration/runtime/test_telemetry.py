"""A real job, the traces and metrics that it sends to a real collector, and its log as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.runtime.processes import JobProcess, JobRuns
from tests.servers.collector import Collector, ReceivedSpan
from tests.servers.process import LOOPBACK, ServerMissing, free_port, required

from streamjob.client.discovery import Endpoint, find_endpoint
from streamjob.telemetry.spans import SpanContext

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

WITHIN = 120.0
JOB = """
name: counted
checkpointing: {interval: 1s, numRetained: 2}
sources:
- {name: words, format: text, options: {path: in}}
operators:
- name: counts
  inputs: [words]
  sql: SELECT value, count(*) AS n FROM words GROUP BY value
  outputMode: update
sinks:
- {name: out, input: counts, format: memory, delivery: at-least-once}
"""

JAVA = """
import sys
from pathlib import Path
from streamjob.telemetry.logs import describe_process
from streamjob_runtime.spark.session import SessionSettings, start_session

describe_process(job="flights", namespace="shop", attempt=3)
spark = start_session(SessionSettings("logging", 1, 1, Path(sys.argv[1])))
java = spark._jvm
logger = java.org.apache.logging.log4j.LogManager.getLogger("org.example.Thing")
logger.error('hostile\\n\\x1b"text"', java.java.lang.IllegalStateException("wrong\\nvalue"))
spark.stop()
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    try:
        with Collector() as running:
            yield running
    except ServerMissing as error:
        if required():
            raise
        pytest.skip(str(error))


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[JobRuns]:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("a\nb\na\n")
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    made = JobRuns(file, tmp_path / "snapshots", "counted")
    yield made
    made.end()


def started(runs: JobRuns, endpoint: str, **environment: str) -> JobProcess:
    return runs.start(
        "--log-format",
        "json",
        environment={
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
            "STREAMJOB_TRACED_BATCHES": "1",
            **environment,
        },
    )


def asked(endpoint: Endpoint, method: str, path: str, **headers: str) -> Any:
    headers["Authorization"] = f"Bearer {endpoint.token}"
    answer = httpx.request(method, endpoint.url + path, headers=headers, timeout=WITHIN)
    answer.raise_for_status()
    return answer.json()


def completed(endpoint: Endpoint) -> dict[int, Any]:
    """Return the completed checkpoints of the history, as far as they stay in it while it is read."""
    found = {}
    for entry in asked(endpoint, "GET", "/v1/checkpoints")["history"]:
        with contextlib.suppress(httpx.HTTPStatusError):
            found[entry["id"]] = asked(endpoint, "GET", f"/v1/checkpoints/{entry['id']}")
    return {number: detail for number, detail in found.items() if detail["status"] == "COMPLETED"}


def endpoint_of(runs: JobRuns) -> Endpoint:
    return find_endpoint(workdir=runs.file.parent / "work")


def milliseconds(span: ReceivedSpan) -> float:
    return (span.end - span.start) * 1000


def lines(process: JobProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in process.output().splitlines()]


def test_spans_of_a_job_add_up_to_its_statistics_and_have_their_parents(collector: Collector, runs: JobRuns) -> None:
    waits_for_start, asks = SpanContext.root("start"), SpanContext.root("savepoint")
    process = started(runs, collector.url, TRACEPARENT=waits_for_start.traceparent, OTEL_SERVICE_NAME="words")
    runs.wait(lambda: len(runs.completions()) >= 2, "two checkpoints", process)
    collector.received.wait_for(lambda spans: any(each.name == "first batch" for each in spans), WITHIN)
    endpoint = endpoint_of(runs)
    asked(endpoint, "POST", "/v1/savepoints", traceparent=asks.traceparent)
    collector.received.wait_for(lambda spans: any(each.name == "savepoint" for each in spans), WITHIN)
    details = completed(endpoint)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    spans = collector.received.wait_for(lambda spans: any(each.name == "start" for each in spans), WITHIN)

    roots = [each for each in spans if each.name in ("checkpoint", "savepoint")]
    compared = 0
    for root in roots:
        statistics = details.get(root.attributes["streamjob.checkpoint"])
        if statistics is None:
            continue
        compared += 1
        parts = {each.name: each for each in spans if each.parent == root.id}
        assert root.attributes["streamjob.end_to_end_ms"] == pytest.approx(statistics["end_to_end_duration"], abs=1)
        assert root.attributes["streamjob.checkpointed_bytes"] == statistics["checkpointed_size"]
        assert root.start * 1000 == pytest.approx(statistics["trigger_timestamp"], abs=1)
        assert parts["complete"].start * 1000 == pytest.approx(statistics["latest_ack_timestamp"], abs=1)
        for uid, task in statistics["tasks"].items():
            chain = parts[f"chain {uid}"]
            assert milliseconds(chain) == pytest.approx(task["end_to_end_duration"], abs=1)
            own = {each.name: milliseconds(each) for each in spans if each.parent == chain.id}
            assert own.get("upload", 0) == pytest.approx(task["async_duration"], abs=1)
            assert own.get("hold", 0) == pytest.approx(task["sync_duration"], abs=1)
            assert sum(own.values()) + task["start_delay"] == pytest.approx(milliseconds(chain), abs=2)
    assert compared >= 2
    _check_parents(spans)

    (start,) = [each for each in spans if each.name == "start"]
    assert (start.trace, start.parent) == (f"{waits_for_start.trace_id:032x}", f"{waits_for_start.span_id:016x}")
    assert {"session", "assemble", "first batch"} <= {each.name for each in spans if each.parent == start.id}
    (savepoint,) = [each for each in roots if each.name == "savepoint"]
    assert (savepoint.trace, savepoint.parent) == (f"{asks.trace_id:032x}", f"{asks.span_id:016x}")
    assert any(each.name == "batch" for each in spans)
    assert {each.resource["service.name"] for each in spans} == {"words"}
    _check_metrics(collector)
    _check_log(process, savepoint)


def _check_parents(spans: Sequence[ReceivedSpan]) -> None:
    by_id = {each.id: each for each in spans}
    assert len(by_id) == len(spans)
    for span in spans:
        above = by_id.get(span.parent)
        if above is not None:
            assert above.trace == span.trace
            # OTLP's JSON has nanoseconds, of which a float here keeps a microsecond.
            assert above.start - 1e-5 <= span.start
            assert span.end <= above.end + 1e-5
        else:
            assert span.name in ("checkpoint", "savepoint", "start", "batch")


def _check_metrics(collector: Collector) -> None:
    metrics = {each.name: each for each in collector.received.metrics}
    assert {"streamjob_checkpoints_total", "streamjob_batch_duration_seconds", "streamjob_state"} <= set(metrics)
    assert metrics["streamjob_checkpoints_total"].content["sum"]["isMonotonic"]
    assert metrics["streamjob_info"].resource["streamjob.job"] == "counted"


def _check_log(process: JobProcess, savepoint: ReceivedSpan) -> None:
    logged = lines(process)
    assert all(each["job"] == "counted" for each in logged if each["logger"].startswith("streamjob"))
    about = [each for each in logged if each.get("checkpoint") == savepoint.attributes["streamjob.checkpoint"]]
    assert [each["trace_id"] for each in about] == [savepoint.trace] * len(about)
    assert about, "the log has no line about the savepoint: the test proves nothing"


def test_a_collector_that_is_away_does_not_disturb_the_job(runs: JobRuns) -> None:
    process = started(runs, f"http://{LOOPBACK}:{free_port()}")
    runs.wait(lambda: "checkpoint 5 completed" in process.output(), "five checkpoints", process)
    process.send(signal.SIGTERM)

    assert process.wait() == 0
    warned = [each for each in lines(process) if each["level"] == "warning"]
    assert len([each for each in warned if "metrics" in each["message"]]) == 1
    assert len([each for each in warned if "spans" in each["message"]]) <= 1


def test_an_entry_of_javas_log_is_one_json_object_about_its_job(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", JAVA, str(tmp_path)],
        env={**os.environ, "STREAMJOB_LOG_FORMAT": "json"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    (entry,) = [json.loads(line) for line in done.stderr.splitlines() if "hostile" in line]
    assert (entry["level"], entry["logger"]) == ("error", "org.example.Thing")
    assert entry["message"] == 'hostile\n\x1b"text"'
    assert (entry["job"], entry["namespace"], entry["attempt"]) == ("flights", "shop", "3")
    assert entry["exception"].startswith("java.lang.IllegalStateException: wrong\nvalue\n\tat ")
    datetime.fromisoformat(entry["timestamp"])
