"""Receives notifications of S3 about new objects from a queue, and deletes each one when a checkpoint has its objects.

A notification only says where to look: it may come late, twice, or in another order, and its object may be another one
by then, or gone. Until a checkpoint has the objects, the message is hidden from other readers, and comes again if the
job is killed.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from streamjob.clock import Clock
from streamjob.store.base import StoreDenied, StoreUnavailable
from streamjob.store.s3_connection import S3Credentials
from streamjob.store.s3_errors import code_of, status_of
from streamjob_runtime.discovery.objects import Found

_MOST_IN_REQUEST = 10
_LONGEST_WAIT = 20.0
"""Seconds that SQS lets a request wait for a message, at most."""
_LONGEST_KEY = 1024
_MOST_REFUSED = 1000
"""Messages that are told apart among those that are no notifications."""
_REGION = re.compile(r"(?:^|\.)sqs(?:-fips)?\.([\w-]+)\.|^([\w-]+)\.queue\.")
_MISSING = ("QueueDoesNotExist", "NonExistentQueue", "InvalidAddress")
_LOG = logging.getLogger("streamjob")


class QueueMissing(StoreDenied):
    """The queue of a source does not exist."""


class QueueDenied(StoreDenied):
    """A source may not read its queue."""


@dataclass(slots=True)
class _Message:
    """A message: its receipt, its objects that are the source's, when it was hidden, and the entry that has them."""

    receipt: str
    keys: frozenset[str]
    hidden: float
    entry: int | None = None


class Notifications:
    """The queue of one source. Not for several threads.

    Args:
        who: the source, at the beginning of a message.
        client: boto3's client of SQS.
        url: the queue's.
        look: finds an object of the source by its bucket and key; None if it is none, or is gone.
        clock: seconds since 1970.
        hidden_for: seconds for which a message is hidden from other readers; it is hidden again while it is needed.
    """

    def __init__(
        self,
        *,
        who: str,
        client: Any,
        url: str,
        look: Callable[[str, str], Found | None],
        clock: Clock,
        hidden_for: int = 120,
    ) -> None:
        self._who = who
        self._client = client
        self._url = url
        self._look = look
        self._clock = clock
        self._hidden_for = hidden_for
        self._messages: dict[str, _Message] = {}
        self._refused: set[str] = set()

    @property
    def refused(self) -> int:
        """How many messages are no notifications."""
        return len(self._refused)

    def receive(self, wait: float) -> list[Found]:
        """Return the objects of the source that some messages are about, as they are now; each key once.

        Args:
            wait: seconds to wait for a message, at most; less while a message waits for a checkpoint.

        Raises:
            QueueMissing, QueueDenied: the queue cannot be read.
            StoreUnavailable: the queue, or S3, does not answer.
            StoreError: S3 refuses.
        """
        answer = self._ask(
            "receive_message",
            MaxNumberOfMessages=_MOST_IN_REQUEST,
            VisibilityTimeout=self._hidden_for,
            WaitTimeSeconds=math.ceil(min(wait, _LONGEST_WAIT / 4 if self._messages else _LONGEST_WAIT)),
        )
        now = self._clock()
        places: dict[str, frozenset[tuple[str, str]]] = {}
        receipts: dict[str, str] = {}
        for each in answer.get("Messages", ()):
            try:
                places[each["MessageId"]] = frozenset(created_objects(each["Body"]))
                receipts[each["MessageId"]] = each["ReceiptHandle"]
            except ValueError as error:
                self._refuse(each["MessageId"], error)
        wanted = list(frozenset[tuple[str, str]]().union(*places.values()))
        with ThreadPoolExecutor(_MOST_IN_REQUEST) as pool:
            objects = dict(zip(wanted, pool.map(lambda place: self._look(*place), wanted), strict=True))
        for number, some in places.items():
            keys = frozenset(found.key for place in some if (found := objects[place]) is not None)
            self._messages[number] = _Message(receipts[number], keys, now)
        return [found for found in objects.values() if found is not None]

    def tend(self, waiting: Collection[str], read: int, covered: int) -> None:
        """Delete the messages whose objects a completed checkpoint has, and hide the others further.

        Args:
            waiting: the keys of those objects that were received, and that no committed batch has read.
            read: the last entry that a committed batch has read.
            covered: the last entry that a completed checkpoint has.

        Raises:
            QueueMissing, QueueDenied: the queue cannot be read.
            StoreUnavailable: it does not answer.
        """
        for each in self._messages.values():
            if each.entry is None and each.keys.isdisjoint(waiting):
                each.entry = read if each.keys else -1
        done = {
            number: {"ReceiptHandle": each.receipt}
            for number, each in self._messages.items()
            if each.entry is not None and each.entry <= covered
        }
        for some in _batches(done):
            # A receipt that is not valid any more belongs to a message that comes again.
            self._ask("delete_message_batch", Entries=some)
            for entry in some:
                del self._messages[entry["Id"]]
        now = self._clock()
        shown = {
            number: {"ReceiptHandle": each.receipt, "VisibilityTimeout": self._hidden_for}
            for number, each in self._messages.items()
            if now - each.hidden > self._hidden_for / 2
        }
        for some in _batches(shown):
            self._ask("change_message_visibility_batch", Entries=some)
            for entry in some:
                self._messages[entry["Id"]].hidden = now

    def _refuse(self, number: str, error: ValueError) -> None:
        if number not in self._refused and len(self._refused) < _MOST_REFUSED:
            self._refused.add(number)
            _LOG.warning("%s: message %s of %s stays in the queue: %s", self._who, number, self._url, error)

    def _ask(self, operation: str, **given: Any) -> Any:
        try:
            return getattr(self._client, operation)(QueueUrl=self._url, **given)
        except (ClientError, BotoCoreError) as error:
            code = code_of(error)
            what = f"the queue {self._url} cannot be read: {error}"
            if code.endswith(_MISSING):
                raise QueueMissing(what, "create it, or correct queueUrl") from error
            no_credentials = isinstance(error, NoCredentialsError | PartialCredentialsError)
            if no_credentials or (status_of(error) in (401, 403) and not code.endswith("OverLimit")):
                fix = "allow sqs:ReceiveMessage, sqs:DeleteMessage and sqs:ChangeMessageVisibility, or check the AWS "
                raise QueueDenied(what, f"{fix}variables") from error
            raise StoreUnavailable(what) from error


def created_objects(body: str) -> list[tuple[str, str]]:
    """Return bucket and key of each object that a message says was created; none if it is about something else.

    It is S3's own, also through SNS, or EventBridge's, where keys are not encoded.

    Raises:
        ValueError: it is no notification of S3.
    """
    try:
        event = json.loads(body)
        if event.get("Type") == "Notification":
            event = json.loads(event["Message"])
        if event.get("Event") == "s3:TestEvent":
            return []
        if event.get("source") == "aws.s3":
            detail = event["detail"]
            places = [(detail["bucket"]["name"], detail["object"]["key"])]
            return [*map(_checked, places)] if event["detail-type"] == "Object Created" else []
        created = [each["s3"] for each in event["Records"] if "ObjectCreated:" in each["eventName"]]
        return [_checked((each["bucket"]["name"], unquote_plus(each["object"]["key"]))) for each in created]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is no notification of S3: {error!r:.200}") from None


def _checked(place: tuple[str, str]) -> tuple[str, str]:
    if not 0 < len(place[1].encode()) <= _LONGEST_KEY:
        raise ValueError("its key is empty or too long")
    return place


def _batches(entries: Mapping[str, Mapping[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    left = iter([{"Id": number, **each} for number, each in entries.items()])
    while some := list(islice(left, _MOST_IN_REQUEST)):
        yield some


def queue_client(url: str, environment: Mapping[str, str], credentials: S3Credentials | None) -> Any:
    """Return boto3's client for a queue: the server and the region are those of its URL.

    Args:
        environment: has the region of a server whose name tells none.
        credentials: None to let boto3 find them where AWS tools do.
    """
    import boto3
    from botocore.config import Config

    parts = urlsplit(url)
    session = boto3.Session()
    if credentials is not None:
        session = boto3.Session(credentials.access_key, credentials.secret_key, credentials.session_token)
    named = _REGION.search(parts.netloc)
    given = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or session.region_name
    region = (named[1] or named[2]) if named else given or "us-east-1"
    retries = {"total_max_attempts": 5, "mode": "standard"}
    config = Config(connect_timeout=5, read_timeout=30, retries=retries, user_agent_extra="streamjob")  # type: ignore[arg-type]
    return session.client("sqs", endpoint_url=f"{parts.scheme}://{parts.netloc}", region_name=region, config=config)
