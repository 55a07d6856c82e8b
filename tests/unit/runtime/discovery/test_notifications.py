"""Notifications of S3 are understood in each form, and a message is deleted only when a checkpoint has its objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st

from streamjob.store.base import StoreUnavailable
from streamjob_runtime.discovery.notifications import (
    Notifications,
    QueueDenied,
    QueueMissing,
    created_objects,
    queue_client,
)
from streamjob_runtime.discovery.objects import Found

KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)


def record(key: str, event: str = "ObjectCreated:Put", bucket: str = "b") -> dict[str, Any]:
    return {
        "eventSource": "aws:s3",
        "eventName": event,
        "s3": {"bucket": {"name": bucket}, "object": {"key": quote_plus(key, safe="/"), "size": 1, "eTag": "1"}},
    }


def of_s3(*keys: str, event: str = "ObjectCreated:Put", bucket: str = "b") -> str:
    return json.dumps({"Records": [record(key, event, bucket) for key in keys]})


def by_sns(body: str) -> str:
    return json.dumps({"Type": "Notification", "TopicArn": "arn", "Message": body})


def of_eventbridge(key: str, kind: str = "Object Created") -> str:
    detail = {"bucket": {"name": "b"}, "object": {"key": key, "size": 1, "etag": "1"}}
    return json.dumps({"version": "0", "detail-type": kind, "source": "aws.s3", "detail": detail})


@given(st.lists(KEYS, min_size=1, max_size=3))
def test_each_form_names_the_objects(keys: list[str]) -> None:
    places = [("b", key) for key in keys]

    assert created_objects(of_s3(*keys)) == places
    assert created_objects(by_sns(of_s3(*keys))) == places
    assert created_objects(of_eventbridge(keys[0])) == places[:1]
    assert created_objects(by_sns(of_eventbridge(keys[0]))) == places[:1]


@pytest.mark.parametrize(
    "body",
    [
        '{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}',
        by_sns('{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}'),
        of_s3("a", event="ObjectRemoved:Delete"),
        of_eventbridge("a", "Object Deleted"),
    ],
)
def test_other_notifications_name_none(body: str) -> None:
    assert created_objects(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no JSON",
        "[" * 100_000,
        "1",
        "[]",
        "{}",
        '{"Records": [{}]}',
        by_sns("hello"),
        of_s3("a" * 1025),
        of_s3(""),
        of_eventbridge("\ud800"),
        json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": []}}]}),
    ],
)
def test_what_is_no_notification_is_refused(body: str) -> None:
    with pytest.raises(ValueError, match="no notification of S3"):
        created_objects(body)


class Queue:
    """A queue that knows what is hidden until when; a receipt holds until its message is received again."""

    def __init__(self) -> None:
        self.now = 0.0
        self.messages: dict[str, tuple[str, float]] = {}
        self.receipts = 0
        self.requests: list[str] = []
        self.fails: Exception | None = None

    def send(self, body: str) -> str:
        number = f"m{len(self.messages)}-{self.now}"
        self.messages[number] = body, 0.0
        return number

    def receive_message(self, **given: Any) -> dict[str, Any]:
        self._note("receive")
        visible = [number for number, (_, until) in self.messages.items() if until <= self.now]
        some = visible[: given["MaxNumberOfMessages"]]
        for number in some:
            self.messages[number] = self.messages[number][0], self.now + given["VisibilityTimeout"]
        self.receipts += 1
        bodies = [(number, self.messages[number][0]) for number in some]
        made = [{"MessageId": n, "ReceiptHandle": f"{n} {self.receipts}", "Body": body} for n, body in bodies]
        return {"Messages": made} if made else {}

    def delete_message_batch(self, **given: Any) -> dict[str, Any]:
        self._note("delete")
        for each in given["Entries"]:
            del self.messages[each["ReceiptHandle"].split()[0]]
        return {}

    def change_message_visibility_batch(self, **given: Any) -> dict[str, Any]:
        self._note("hide")
        for each in given["Entries"]:
            number = each["ReceiptHandle"].split()[0]
            self.messages[number] = self.messages[number][0], self.now + each["VisibilityTimeout"]
        return {}

    def _note(self, request: str) -> None:
        self.requests.append(request)
        if self.fails is not None:
            raise self.fails


def notifications(queue: Queue, look: Callable[[str, str], Found | None] | None = None) -> Notifications:
    def found(bucket: str, key: str) -> Found | None:
        return Found(f"s3a://{bucket}/{key}", 1, 0, "1") if bucket == "b" and key.startswith("in/") else None

    return Notifications(
        who="Source 'in'", client=queue, url="http://q/1/a", look=look or found, clock=lambda: queue.now
    )


def test_a_message_goes_when_a_checkpoint_has_all_its_objects() -> None:
    queue = Queue()
    queue.send(of_s3("in/a", "in/b"))
    reading = notifications(queue)
    waiting = {each.key for each in reading.receive(0)}
    assert waiting == {"s3a://b/in/a", "s3a://b/in/b"}

    reading.tend(waiting, 3, 3)
    reading.tend({"s3a://b/in/b"}, 4, 4)
    assert queue.messages
    reading.tend(set(), 5, 4)
    assert queue.messages
    reading.tend(set(), 6, 5)
    assert not queue.messages


def test_what_is_about_nothing_to_read_goes_at_once() -> None:
    queue = Queue()
    for body in ('{"Event": "s3:TestEvent"}', of_s3("out/a"), of_s3("in/a", bucket="c"), of_s3(event="ObjectRemoved:")):
        queue.send(body)
    reading = notifications(queue)

    assert reading.receive(0) == []
    reading.tend(set(), -1, -1)

    assert not queue.messages


def test_an_object_that_several_messages_name_is_found_once() -> None:
    queue = Queue()
    for _ in range(2):
        queue.send(of_s3("in/a", "in/a"))
    reading = notifications(queue)

    assert [each.key for each in reading.receive(0)] == ["s3a://b/in/a"]


def test_a_message_stays_hidden_while_it_is_needed() -> None:
    queue = Queue()
    queue.send(of_s3("in/a"))
    reading = notifications(queue)
    (found,) = reading.receive(0)

    for _ in range(100):
        queue.now += 10
        reading.tend({found.key}, 0, 0)
        assert reading.receive(0) == []

    assert queue.requests.count("hide") < 20


def test_a_message_that_comes_again_is_deleted_by_its_newer_receipt() -> None:
    queue = Queue()
    queue.send(of_s3("in/a"))
    reading = notifications(queue)
    reading.receive(0)
    queue.now += 200
    reading.receive(0)

    reading.tend(set(), 0, 0)

    assert not queue.messages


def test_what_is_no_notification_stays_in_the_queue_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    queue = Queue()
    queue.send("hello")
    queue.send(of_s3("in/a"))
    reading = notifications(queue)

    for _ in range(5):
        reading.receive(0)
        reading.tend(set(), 0, 0)
        queue.now += 200

    assert [body for body, _ in queue.messages.values()] == ["hello"]
    assert reading.refused == 1
    assert len(caplog.messages) == 1


def error(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "ReceiveMessage")  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (error("AWS.SimpleQueueService.NonExistentQueue", 400), QueueMissing),
        (error("QueueDoesNotExist", 400), QueueMissing),
        (error("AccessDenied", 403), QueueDenied),
        (error("OverLimit", 403), StoreUnavailable),
        (error("InternalError", 500), StoreUnavailable),
        (EndpointConnectionError(endpoint_url="http://q"), StoreUnavailable),
    ],
)
def test_a_queue_that_cannot_be_read_is_named(raised: Exception, expected: type[Exception]) -> None:
    queue = Queue()
    queue.fails = raised

    with pytest.raises(expected, match="http://q/1/a cannot be read"):
        notifications(queue).receive(0)


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/123/q", "eu-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/123/q", "cn-north-1"),
        ("https://vpce-1.sqs.eu-west-1.vpce.amazonaws.com/123/q", "eu-west-1"),
        ("https://eu-west-1.queue.amazonaws.com/123/q", "eu-west-1"),
        ("http://127.0.0.1:9324/000/q", "us-east-1"),
    ],
)
def test_a_client_has_the_server_and_region_of_the_url(url: str, region: str) -> None:
    client = queue_client(url, {}, None)

    assert (client.meta.endpoint_url, client.meta.region_name) == (url[: url.index("/", 9)], region)
