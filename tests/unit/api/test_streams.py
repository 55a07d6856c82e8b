"""Streams of a job's changes, on an event loop without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.models.clocks import SettableClock

from streamjob_runtime.control.api.refusals import TooManyRequests
from streamjob_runtime.control.api.streams import MOST, Streams
from streamjob_runtime.control.event_log import EventLog


class Job:
    """Shows what a test sets."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {"state": "RUNNING"}
        self.events = EventLog()
        self.looks = 0
        self.error: Exception | None = None

    def live(self) -> dict[str, Any]:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return dict(self.document)

    def happens(self) -> None:
        self.events.add(1.0, "state", "so", weight="routine")


def kinds(text: bytes) -> list[str]:
    return [line.removeprefix("event: ") for line in text.decode().split("\n") if line.startswith("event: ")]


async def next_of(texts: AsyncIterator[bytes]) -> bytes:
    return await asyncio.wait_for(anext(texts), 10)


async def next_but_heartbeats(texts: AsyncIterator[bytes]) -> bytes:
    while not kinds(text := await next_of(texts)):
        pass
    return text


def streams_of(job: Job, clock: SettableClock | None = None, heartbeat: float = 15.0) -> Streams:
    return Streams(job.live, job.events, clock or SettableClock(0.0), every=0.001, heartbeat=heartbeat)


async def test_a_stream_begins_with_the_document_and_goes_on_with_patches() -> None:
    job = Job()
    texts = streams_of(job).open(None, None).texts()
    assert await next_of(texts) == b'event: job\ndata: {"state":"RUNNING"}\n\n'
    job.document = {"state": "STOPPED"}
    assert await next_of(texts) == b'event: patch\ndata: {"state":"STOPPED"}\n\n'


async def test_all_streams_share_one_look_at_the_job() -> None:
    job = Job()
    streams = Streams(job.live, job.events, SettableClock(0.0), every=60)
    for texts in [streams.open(None, None).texts() for _ in range(MOST)]:
        assert kinds(await next_of(texts)) == ["job"]
    assert job.looks == 1


async def test_there_is_an_end_to_the_number_of_streams_until_one_is_closed() -> None:
    streams = streams_of(Job())
    opened = [streams.open(None, None) for _ in range(MOST)]
    with pytest.raises(TooManyRequests):
        streams.open(None, None)
    opened[3].close()
    streams.open(None, None)


async def test_nobody_looks_at_the_job_while_nobody_listens() -> None:
    job = Job()
    streams = streams_of(job)
    stream = streams.open(None, None)
    await next_of(stream.texts())
    stream.close()
    while streams._ticking is not None:
        await asyncio.sleep(0)
    looks = job.looks

    second = streams.open(None, None).texts()

    assert kinds(await next_of(second)) == ["job"]
    assert job.looks > looks


@pytest.mark.parametrize(("known", "sent"), [(None, []), (1, [2, 3]), (3, []), (99, [1, 2, 3])])
async def test_events_behind_the_last_one_that_the_reader_knows_come_first(known: int | None, sent: list[int]) -> None:
    job = Job()
    for _ in range(3):
        job.happens()
    texts = streams_of(job).open(known, None).texts()
    text = b""
    while kinds(text).count("job") < 1:
        text += await next_of(texts)
    assert [int(line[4:]) for line in text.decode().split("\n") if line.startswith("id: ")] == sent


async def test_a_new_event_is_sent_with_its_id_though_nothing_changed() -> None:
    job = Job()
    texts = streams_of(job).open(None, None).texts()
    await next_of(texts)
    job.happens()
    text = await next_of(texts)
    assert text.startswith(b"id: 1\nevent: log\n")


async def test_a_silent_stream_shows_that_it_is_alive() -> None:
    texts = streams_of(Job(), heartbeat=0.01).open(None, None).texts()
    await next_but_heartbeats(texts)
    assert await next_of(texts) == b": heartbeat\n\n"


async def test_a_stream_ends_with_its_session() -> None:
    clock = SettableClock(0.0)
    texts = streams_of(Job(), clock, heartbeat=0.01).open(None, 100.0).texts()
    assert kinds(await next_but_heartbeats(texts)) == ["job"]
    clock.now = 100.0
    rest = [text async for text in texts]
    assert kinds(rest[-1]) == ["bye"]


async def test_the_end_of_the_server_shows_the_last_state() -> None:
    job = Job()
    streams = Streams(job.live, job.events, SettableClock(0.0), every=60)
    texts = streams.open(None, None).texts()
    await next_of(texts)
    job.document = {"state": "FINISHED"}
    await asyncio.to_thread(streams.close)
    rest = b"".join([text async for text in texts])
    assert kinds(rest) == ["patch", "bye"]
    assert b"FINISHED" in rest


def test_streams_that_nobody_opened_are_closed_at_once() -> None:
    streams_of(Job()).close()


async def test_a_job_that_cannot_be_shown_ends_the_streams(caplog: pytest.LogCaptureFixture) -> None:
    job = Job()
    job.error = RuntimeError("no JVM")
    streams = streams_of(job)
    rest = b"".join([text async for text in streams.open(None, None).texts()])
    assert kinds(rest) == ["bye"]
    job.error = None
    assert kinds(await next_of(streams.open(None, None).texts())) == ["job"]
    assert "no JVM" in caplog.text
