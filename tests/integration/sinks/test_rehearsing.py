"""A rehearsal asks the systems outside, and changes nothing there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.job_files import job_files
from tests.integration.sinks.topics import UID, Topics
from tests.jobs import job_file, sink, sql, topic

from streamjob.job.loading.load import LoadedJob, load_job
from streamjob.protocol.log.records import JobId
from streamjob_runtime.kafka.errors import TopicMissing
from streamjob_runtime.process.checking.connecting import connect

pytestmark = [pytest.mark.spark, pytest.mark.server]


def loaded(directory: Path, topics: Topics, source: str) -> LoadedJob:
    """Return the job whose sink the topics are for, with a topic as its source."""
    loud = sql("loud", "words", "SELECT upper(CAST(value AS STRING)) AS value FROM words")
    sinks = [sink("loud", "kafka", name=str(UID), options=topics.options())]
    job = job_file(loud, sources=[topic("words", topics.server.bootstrap, source)], sinks=sinks, name=topics.job)
    file = directory / "job.json"
    file.write_text(json.dumps(job))
    return load_job(file, [])


def rehearse(topics: Topics, job: LoadedJob, directory: Path) -> None:
    connect(
        job, JobId("default", topics.job), topics.spark.newSession(), job_files(topics.spark), directory / "outside"
    )


def test_a_rehearsal_fences_nobody_and_leaves_no_record(topics: Topics, tmp_path: Path) -> None:
    running = topics.open()
    topics.commit(running, 1, topics.stage(running, "1"))

    rehearse(topics, loaded(tmp_path, topics, topics.rows), tmp_path)

    assert topics.open_transactions() == []
    assert topics.record()["checkpoint"] == 1
    topics.commit(running, 2, topics.stage(running, "2"))
    assert topics.values() == ["1", "2"]


def test_a_rehearsal_says_what_the_start_would_say(topics: Topics, tmp_path: Path) -> None:
    with pytest.raises(TopicMissing, match="Kafka has no topic 'missing'"):
        rehearse(topics, loaded(tmp_path, topics, "missing"), tmp_path)


def test_a_source_without_records_is_no_reason_to_stop(topics: Topics, tmp_path: Path) -> None:
    rehearse(topics, loaded(tmp_path, topics, topics.rows), tmp_path)

    assert topics.values() == []
