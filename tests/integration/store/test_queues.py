"""A source finds what a real queue tells of, however often its process dies before a checkpoint has the objects."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.integration.store.test_listing_a_source import ODD, connect, lister, put
from tests.servers.s3 import S3Server
from tests.servers.sqs import QueueServer, find_elasticmq
from tests.unit.runtime.discovery.test_discoverer import Inbox, Judge
from tests.unit.runtime.discovery.test_notifications import by_sns, of_eventbridge, of_s3

from streamjob.job.connectors.file_source import FileSourceFields
from streamjob_runtime.discovery.discoverer import Discoverer
from streamjob_runtime.discovery.notifications import Notifications, queue_client
from streamjob_runtime.discovery.objects import Page
from streamjob_runtime.discovery.search import Search

pytestmark = pytest.mark.server

HIDDEN_FOR = 2
WITHIN = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[QueueServer]:
    if find_elasticmq() is None:
        pytest.skip("ElasticMQ cannot be fetched")
    with QueueServer() as started:
        yield started


class World:
    """A bucket, whose listing shows nothing more after the first time, a queue, and the log of what was read."""

    def __init__(self, s3: S3Server, queues: QueueServer, folder: Path) -> None:
        self.bucket = f"queue-{uuid.uuid4().hex[:12]}"
        s3.make_bucket(self.bucket)
        self.connection = connect(s3.endpoint)
        self.client = queues.client()
        self.url = queues.make_queue(f"q-{uuid.uuid4().hex[:12]}")
        self.folder = folder
        self.read: list[str] = []

    def page(self, after: str) -> Page:
        return Page([], None)

    def send(self, body: str) -> None:
        self.client.send_message(QueueUrl=self.url, MessageBody=body)

    def write(self, *keys: str) -> None:
        put(self.connection, self.bucket, *(f"in/{key}" for key in keys))

    def left(self) -> int:
        """Return how many messages are in the queue, hidden ones included."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return sum(int(each) for each in found["Attributes"].values())

    def begin(self) -> tuple[Discoverer, Inbox]:
        inbox = Inbox()
        look = lister(self.connection, f"s3://{self.bucket}/in").find
        queue = Notifications(
            who="Source 'in'",
            client=queue_client(self.url, {}, None),
            url=self.url,
            look=look,
            clock=time.time,
            hidden_for=HIDDEN_FOR,
        )
        search = Discoverer(
            who="Source 'in'",
            search=lambda recent, known: partial(Search(recent, known).check, self),
            inbox=inbox,
            judge=Lines(),
            given=FileSourceFields(),
            folder=self.folder,
            clock=time.time,
            queue=queue,
        )
        search.start()
        return search, inbox

    def commit(self, inbox: Inbox) -> int:
        """Read what was offered in one batch; return its entry."""
        entry = len(list(self.folder.iterdir()))
        (self.folder / str(entry)).write_text("\n".join(["v1", *inbox.offered]), "utf-8")
        self.read += [json.loads(each)["path"].removeprefix(f"s3a://{self.bucket}/in/") for each in inbox.offered]
        inbox.offered.clear()
        # Spark commits a batch when the next one begins.
        inbox.done = entry - 1
        return entry


class Lines(Judge):
    """Accepts each object."""

    def line(self, found: Any) -> str:
        fields = {"path": found.key, "size": found.size, "modified": found.modified_ms, "version": found.version}
        return json.dumps(fields, ensure_ascii=False)


@pytest.fixture
def world(
    s3_server: S3Server,
    server: QueueServer,
    s3_credentials: None,
    tmp_path: Path,
) -> Iterator[World]:
    made = World(s3_server, server, tmp_path)
    yield made
    made.connection.close()


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def test_messages_go_with_the_checkpoint_and_come_again_to_the_next_process_before_it(world: World) -> None:
    world.write(*ODD)
    keys = [f"in/{each}" for each in ODD]
    world.send(of_s3(*keys[:5], bucket=world.bucket))
    world.send(by_sns(of_s3(*keys[5:], bucket=world.bucket)))
    world.send(of_eventbridge(keys[0]).replace('"b"', f'"{world.bucket}"'))
    first, lost = world.begin()
    wait(lambda: len(lost.offered) == len(ODD))
    first.stop()

    second, inbox = world.begin()
    wait(lambda: len(inbox.offered) == len(ODD))
    # The batch takes longer than a message is hidden.
    time.sleep(1.5 * HIDDEN_FOR)
    entry = world.commit(inbox)
    assert world.left() == 3
    second.was_read(entry)
    second.covered(-1, entry)
    wait(lambda: world.left() == 0)
    second.stop()

    assert sorted(world.read) == sorted(ODD)
    assert inbox.offered == []


def test_a_message_says_where_to_look_and_not_what_is_there(world: World) -> None:
    world.write("replaced", "twice", "there")
    put(world.connection, world.bucket, "in/replaced", content=b"longer")
    for key in ("replaced", "gone", "twice", "twice", "../out", "_hidden"):
        world.send(of_s3(f"in/{key}", bucket=world.bucket))
    world.send(of_s3("out/other", "in/there", bucket=world.bucket))
    world.send(of_s3("in/there", bucket="another"))
    world.send('{"Service": "Amazon S3", "Event": "s3:TestEvent"}')
    world.send("hello")
    search, inbox = world.begin()

    wait(lambda: len(inbox.offered) == 3 and bool(inbox.figures.get("messagesRefused")))
    sizes = {json.loads(each)["path"].rsplit("/", 1)[1]: json.loads(each)["size"] for each in inbox.offered}
    search.was_read(entry := world.commit(inbox))
    search.covered(-1, entry)
    wait(lambda: world.left() == 1)
    search.stop()

    assert sizes == {"replaced": 6, "twice": 1, "there": 1}
    assert (inbox.failure, inbox.figures["messagesRefused"]) == ("", "1")


@pytest.mark.slow
def test_a_queue_that_is_not_there_ends_the_query(world: World) -> None:
    world.url += "-gone"
    _, inbox = world.begin()

    wait(lambda: bool(inbox.failure))

    assert "create it, or correct queueUrl" in inbox.failure
