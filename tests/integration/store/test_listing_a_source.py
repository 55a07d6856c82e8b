"""A source's objects are listed page by page, whatever their keys, and never in part when S3 fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from tests.servers.faulty import Fault, FaultyProxy, Response, answer, cut_before_applying, cut_halfway
from tests.servers.s3 import S3Server

from streamjob.store import AccessDenied, BucketMissing, CredentialsRejected, StoreError, StoreUnavailable
from streamjob.store.s3_connection import S3Connection, S3Settings
from streamjob_runtime.discovery.objects import Found
from streamjob_runtime.discovery.patterns import SourceFiles, UnreadableKey
from streamjob_runtime.discovery.s3_lister import S3Lister

pytestmark = pytest.mark.server

ODD = [
    "a b", "a+b", "a%20b", "a:b", "a\nb", "a*b", "ü€😀", "é", "e\u0301", "a#b?c&d=e<f>\"'", "a&amp;b", " ", "{a}",
    "a\\b", "\xa0", "\uffee", "-a/b", "A/z", "a/z", "a-/z", "a.z",
]  # fmt: skip


def connect(endpoint: str) -> S3Connection:
    return S3Connection(S3Settings(endpoint=endpoint, attempts=3, backoff=0.01, connect_timeout=2, read_timeout=2))


@pytest.fixture
def connection(s3_server: S3Server, s3_credentials: None) -> Iterator[S3Connection]:
    made = connect(s3_server.endpoint)
    yield made
    made.close()


@pytest.fixture
def faulty(proxy: FaultyProxy, s3_credentials: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Connection]:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.001)
    made = connect(proxy.endpoint)
    yield made
    made.close()


def put(connection: S3Connection, bucket: str, *keys: str, content: bytes = b"x") -> None:
    def one(key: str) -> object:
        return connection.client.put_object(Bucket=bucket, Key=key, Body=content)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, keys))


def lister(connection: S3Connection, path: str) -> S3Lister:
    of = SourceFiles(path, {"recursiveFileLookup": "true"})
    return S3Lister(connection, of.base.split("/")[2], of.prefix, of.is_of_source, of.named)


def listed(of: S3Lister) -> list[Found]:
    found: list[Found] = []
    after = ""
    while True:
        page = of.page(after)
        found += page.objects
        if page.end is None:
            return found
        after = page.end


def test_objects_are_listed_with_size_time_and_version(connection: S3Connection, s3_server: S3Server) -> None:
    s3_server.make_bucket("facts")
    started = time.time()
    put(connection, "facts", "in/empty", content=b"")
    put(connection, "facts", "in/full", content=b"content")
    put(connection, "facts", "in/marker/", content=b"")
    one = listed(lister(connection, "s3://facts/in"))
    put(connection, "facts", "in/full", content=b"CONTENT")
    other = listed(lister(connection, "s3://facts/in"))

    assert [(each.key, each.size) for each in one] == [("s3a://facts/in/empty", 0), ("s3a://facts/in/full", 7)]
    assert all(abs(each.modified_ms / 1000 - started) < 60 for each in one)
    assert one[1].version == "9a0364b9e99bb480dd25e1f0284c8555"
    assert other[0] == one[0]
    assert other[1].version not in ("", one[1].version)


def test_keys_with_odd_characters_are_listed_as_they_are(connection: S3Connection, s3_server: S3Server) -> None:
    s3_server.make_bucket("odd")
    put(connection, "odd", *(f"in/{each}" for each in ODD))
    of = lister(connection, "s3://odd/in")

    assert sorted(each.key for each in listed(of)) == sorted(f"s3a://odd/in/{each}" for each in ODD)
    for each in ODD:
        assert f"s3a://odd/in/{each}" not in [found.key for found in of.page(f"s3a://odd/in/{each}").objects]


def test_many_objects_are_listed_in_pages_of_a_thousand(connection: S3Connection, s3_server: S3Server) -> None:
    s3_server.make_bucket("many")
    keys = [f"in/day={number // 1000}/{number:05}.json" for number in range(2500)]
    put(connection, "many", *keys, "in-2/other", "in/day=1/_hidden", "in2/other")
    of = lister(connection, "s3://many/in/")

    uris = [f"s3a://many/{key}" for key in keys]
    assert [each.key for each in listed(of)] == uris
    assert of.requests == 3
    assert [each.key for each in of.page(uris[1999]).objects] == uris[2000:]


def test_a_path_may_name_one_object_or_nothing(connection: S3Connection, s3_server: S3Server) -> None:
    s3_server.make_bucket("single")
    put(connection, "single", "in/a.json", "in/a.json2", "in/a.json.d/b")

    assert [each.key for each in listed(lister(connection, "s3://single/in/a.json"))] == ["s3a://single/in/a.json"]
    assert lister(connection, "s3://single/in/a.json").page("s3a://single/in/a.jso").objects != []
    assert listed(lister(connection, "s3://single/in/a")) == []
    of = lister(connection, "s3://single/in")
    assert len(listed(of)) == len(listed(of)) == 3
    assert of.requests == 3


FAULTS: dict[str, Fault] = {
    "503": answer(503),
    "500": answer(500, "InternalError"),
    "429": answer(429, "TooManyRequests"),
    "error with 200": answer(200, "InternalError"),
    "cut before": cut_before_applying,
    "cut halfway": cut_halfway,
}


def shortened(request: object, forward: Callable[[object], Response]) -> Response:
    """Answer with a half of the body, as a server does that knows no length and breaks off."""
    response = forward(request)
    response.body = response.body[: response.body.rindex(b"<Contents>")]
    return response


FAULTS["a half for the whole"] = shortened  # type: ignore[assignment]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_listing_outlives_a_fault_that_passes_and_reports_one_that_stays(
    faulty: S3Connection, proxy: FaultyProxy, s3_server: S3Server, fault: str
) -> None:
    put(faulty, s3_server.bucket, *(f"listing/{number}" for number in range(10)))
    of = lister(faulty, f"s3://{s3_server.bucket}/listing/")
    proxy.on("ListObjectsV2", FAULTS[fault], times=2)

    assert len(listed(of)) == 10
    assert of.requests == 3
    proxy.on("ListObjectsV2", FAULTS[fault], times=3)
    with pytest.raises(StoreUnavailable, match=f"cannot list s3://{s3_server.bucket}/listing/ at {proxy.endpoint}"):
        of.page("")
    assert of.requests == 6


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (404, "NoSuchBucket", BucketMissing),
        (403, "AccessDenied", AccessDenied),
        (403, "SignatureDoesNotMatch", CredentialsRejected),
    ],
)
def test_a_refusal_has_its_own_error(
    faulty: S3Connection, proxy: FaultyProxy, status: int, code: str, error: type[StoreError]
) -> None:
    proxy.on("ListObjectsV2", answer(status, code))
    of = lister(faulty, "s3://refusing/in/")

    with pytest.raises(error, match="refusing"):
        of.page("")
    assert of.requests == 1


def encoded(body: bytes, request: object, forward: Callable[[object], Response]) -> Response:
    forward(request)
    return Response(200, [("Content-Type", "application/xml")], body)


def test_encoded_keys_are_decoded_and_one_that_spark_cannot_read_is_an_error(
    faulty: S3Connection, proxy: FaultyProxy
) -> None:
    def of_keys(*keys: str) -> Fault:
        contents = "".join(
            f"<Contents><ETag>&quot;e&#34;</ETag><Size>1</Size><Key>{key}</Key><Owner><ID>i</ID></Owner>"
            "<LastModified>1970-01-01T00:00:01.5Z</LastModified></Contents>"
            for key in keys
        )
        head = "<IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>"
        body = f'<ListBucketResult xmlns="x">{head}{contents}</ListBucketResult>\n'
        return partial(encoded, body.encode())

    of = lister(faulty, "s3://snapshots/in/")
    proxy.on("ListObjectsV2", of_keys("in/a+b%2B%25%01", "in%2F%C3%BC"))
    assert of.page("").objects == [
        Found("s3a://snapshots/in/a b+%\x01", 1, 1500, "e"),
        Found("s3a://snapshots/in/ü", 1, 1500, "e"),
    ]

    proxy.on("ListObjectsV2", of_keys("in/a", "in//b"))
    with pytest.raises(UnreadableKey, match="s3a://snapshots/in//b"):
        of.page("")
