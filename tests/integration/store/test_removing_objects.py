"""An object goes in the version that was read alone, and comes into the archive once."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from boto3.s3.transfer import TransferConfig
from tests.integration.store.test_listing_a_source import ODD, connect, listed, lister, put
from tests.servers.faulty import FaultyProxy, Request, Response, answer, cut_after_applying
from tests.servers.s3 import S3Server

from streamjob.store import AccessDenied, BucketMissing, StoreUnavailable
from streamjob.store.s3_connection import S3Connection
from streamjob_runtime.discovery import after_reading
from streamjob_runtime.discovery.after_reading import BucketRemover
from streamjob_runtime.discovery.objects import Found

pytestmark = pytest.mark.server


class World:
    """A bucket with a source's objects below `in/`, and an archive."""

    def __init__(self, server: S3Server, connection: S3Connection, through: S3Connection) -> None:
        self.lists = connect(server.endpoint)
        self.bucket, self.archive = f"in-{secrets.token_hex(6)}", f"archive-{secrets.token_hex(6)}"
        server.make_bucket(self.bucket)
        server.make_bucket(self.archive)
        self.connection = connection
        self.client = connection.client
        self.delete = BucketRemover(through, self.bucket, "in/", None)
        self.move = BucketRemover(through, self.bucket, "in/", (self.archive, "done/"))

    def put(self, *keys: str, content: bytes = b"x") -> list[Found]:
        put(self.connection, self.bucket, *(f"in/{each}" for each in keys), content=content)
        return self.found()

    def found(self) -> list[Found]:
        return listed(lister(self.lists, f"s3://{self.bucket}/in"))

    def archived(self) -> dict[str, bytes]:
        keys = [each["Key"] for each in self.client.list_objects_v2(Bucket=self.archive).get("Contents", ())]
        return {each: self.client.get_object(Bucket=self.archive, Key=each)["Body"].read() for each in keys}


@pytest.fixture
def world(
    s3_server: S3Server, proxy: FaultyProxy, s3_credentials: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.001)
    direct, through = connect(s3_server.endpoint), connect(proxy.endpoint)
    world = World(s3_server, direct, through)
    yield world
    for each in (direct, through, world.lists):
        each.close()


def test_objects_keep_their_keys_below_the_root_whatever_those_are(world: World) -> None:
    keys = [*ODD, "day=1/a.json", "e"]
    found = world.put(*keys)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(world.move, found))

    assert world.found() == []
    assert world.archived() == {f"done/{each}": b"x" for each in keys}


def test_an_object_that_the_path_names_is_archived_under_its_name(world: World) -> None:
    (found,) = world.put("a.json")

    BucketRemover(world.connection, world.bucket, "in/a.json/", (world.archive, ""))(found)

    assert list(world.archived()) == ["a.json"]


def test_metadata_and_encoding_are_kept(world: World) -> None:
    world.client.put_object(
        Bucket=world.bucket, Key="in/a", Body=b"x", Metadata={"who": "me"}, ContentEncoding="gzip", ContentType="a/b"
    )

    world.move(*world.found())

    there = world.client.head_object(Bucket=world.archive, Key="done/a")
    assert (there["Metadata"]["who"], there["ContentEncoding"], there["ContentType"]) == ("me", "gzip", "a/b")


def test_a_large_object_is_copied_in_parts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        after_reading,
        "_COPY",
        TransferConfig(multipart_threshold=6 << 20, multipart_chunksize=5 << 20, use_threads=False),
    )
    content = secrets.token_bytes(12 << 20)
    found = world.put("a", content=content)

    world.move(*found)
    world.put("a", content=content)
    world.move(*found)

    assert world.found() == []
    assert world.archived() == {"done/a": content}


@pytest.mark.parametrize("remover", ["move", "delete"])
def test_another_version_stays(world: World, remover: str) -> None:
    found = world.put("a")
    now = world.put("a", content=b"y")

    getattr(world, remover)(*found)

    assert world.found() == now
    assert world.archived() == {}


@pytest.mark.parametrize("remover", ["move", "delete"])
def test_an_object_that_is_gone_is_passed_over(world: World, remover: str) -> None:
    (found,) = world.put("a")
    getattr(world, remover)(found)
    archived = world.archived()

    getattr(world, remover)(found)

    assert world.archived() == archived


def test_what_was_copied_before_a_crash_is_deleted_and_not_copied_again(world: World, proxy: FaultyProxy) -> None:
    (found,) = world.put("a")
    proxy.on("DeleteObject", answer(503), times=3)
    with pytest.raises(StoreUnavailable):
        world.move(found)
    copies = proxy.requests["CopyObject"]

    world.move(found)

    assert proxy.requests["CopyObject"] == copies
    assert (world.found(), world.archived()) == ([], {"done/a": b"x"})


@pytest.mark.parametrize("operation", ["CopyObject", "DeleteObject"])
def test_an_answer_that_is_lost_does_no_harm(world: World, proxy: FaultyProxy, operation: str) -> None:
    (found,) = world.put("a")
    proxy.on(operation, cut_after_applying)

    world.move(found)

    assert (world.found(), world.archived()) == ([], {"done/a": b"x"})


def test_an_archive_that_has_the_key_keeps_both(world: World) -> None:
    (first,) = world.put("day=1/a.gz", content=b"1")
    world.move(first)
    (second,) = world.put("day=1/a.gz", content=b"2")

    world.move(second)
    world.put("day=1/a.gz", content=b"2")
    world.move(second)

    assert world.found() == []
    assert world.archived() == {"done/day=1/a.gz": b"1", f"done/day=1/{second.version}-a.gz": b"2"}


def replaced_before(world: World) -> Callable[[Request, Callable[[Request], Response]], Response]:
    def fault(request: Request, forward: Callable[[Request], Response]) -> Response:
        world.put("a", content=b"new")
        return forward(request)

    return fault


@pytest.mark.parametrize(
    ("remover", "operation"), [("move", "CopyObject"), ("move", "DeleteObject"), ("delete", "DeleteObject")]
)
def test_an_object_that_is_replaced_meanwhile_stays(
    world: World, proxy: FaultyProxy, remover: str, operation: str
) -> None:
    """Between the comparison of its version and the request that uses it."""
    (found,) = world.put("a")
    proxy.on(operation, replaced_before(world))

    getattr(world, remover)(found)

    assert [each.size for each in world.found()] == [3]


def test_a_server_without_conditional_deletions_deletes_as_well(world: World, proxy: FaultyProxy) -> None:
    (found,) = world.put("a")
    proxy.on("DeleteObject", answer(501, "NotImplemented"))

    world.delete(found)

    assert world.found() == []


@pytest.mark.parametrize("operation", ["HeadObject", "CopyObject", "DeleteObject"])
def test_refused_access_is_said_with_what_to_allow(world: World, proxy: FaultyProxy, operation: str) -> None:
    (found,) = world.put("a")
    proxy.on(operation, answer(403, "AccessDenied"), times=9)

    with pytest.raises(AccessDenied, match=f"cannot archive s3://{world.bucket}/in/a") as refused:
        world.move(found)

    assert "DeleteObject" in refused.value.fix
    assert world.found() == [found]


def test_a_missing_archive_is_said(world: World) -> None:
    (found,) = world.put("a")

    with pytest.raises(BucketMissing):
        BucketRemover(world.connection, world.bucket, "in/", ("no-such-bucket", ""))(found)

    assert world.found() == [found]
