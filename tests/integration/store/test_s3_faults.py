"""S3 that fails: what a verb does when the server is busy, the connection breaks, or an answer gets lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.servers.faulty import (
    Fault,
    FaultyProxy,
    Hold,
    answer,
    answer_after_applying,
    cut_after_applying,
    cut_before_applying,
    cut_halfway,
)

from streamjob.ids import Key
from streamjob.store import (
    AccessDenied,
    BucketMissing,
    CredentialsExpired,
    CredentialsRejected,
    ObjectMissing,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from streamjob.store.s3 import S3Store

pytestmark = [pytest.mark.server, pytest.mark.slow]

ALWAYS = float("inf")
KEY, OTHER = Key("log/0"), Key("log/1")
LARGE = os.urandom((5 << 20) * 2 + 99)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.001)


@dataclass(frozen=True)
class Verb:
    """A method of the store: its request, its call on a store that holds KEY, and a check of its success."""

    operation: str
    act: Callable[[S3Store, Path], object]
    holds: Callable[[S3Store, Path], bool]


def listed(store: S3Store) -> list[str]:
    return [entry.key for entry in store.list("")]


VERBS = {
    "get": Verb("GetObject", lambda store, _: store.get(KEY), lambda store, _: store.get(KEY) == b"content"),
    "get_range": Verb(
        "GetObject", lambda store, _: store.get_range(KEY, 1, 3), lambda store, _: store.get_range(KEY, 1, 3) == b"ont"
    ),
    "download": Verb(
        "GetObject",
        lambda store, path: store.download(KEY, path / "target"),
        lambda _, path: (path / "target").read_bytes() == b"content",
    ),
    "put": Verb("PutObject", lambda store, _: store.put(OTHER, b"new"), lambda store, _: store.get(OTHER) == b"new"),
    "put of parts": Verb(
        "UploadPart",
        lambda store, path: store.put(OTHER, path / "large"),
        lambda store, _: store.get(OTHER) == LARGE,
    ),
    "end of parts": Verb(
        "CompleteMultipartUpload",
        lambda store, path: store.put(OTHER, path / "large"),
        lambda store, _: store.get(OTHER) == LARGE,
    ),
    "list": Verb("ListObjectsV2", lambda store, _: listed(store), lambda store, _: listed(store) == [KEY]),
    "delete": Verb("DeleteObject", lambda store, _: store.delete([KEY]), lambda store, _: listed(store) == []),
    "delete of many": Verb(
        "DeleteObjects", lambda store, _: store.delete([KEY, OTHER]), lambda store, _: listed(store) == []
    ),
}
FAULTS: dict[str, Fault] = {
    "503": answer(503),
    "500": answer(500, "InternalError"),
    "429": answer(429, "TooManyRequests"),
    "cut before applying": cut_before_applying,
    "cut after applying": cut_after_applying,
    "500 after applying": answer_after_applying(500),
}


@pytest.fixture
def prepared(faulty_store: S3Store, proxy: FaultyProxy, tmp_path: Path) -> S3Store:
    faulty_store.put(KEY, b"content")
    (tmp_path / "large").write_bytes(LARGE)
    proxy.clear()
    return faulty_store


# An upload whose parts were joined by a request without an answer cannot be joined again: S3 says NoSuchUpload.
JOINED = {("end of parts", "cut after applying"), ("end of parts", "500 after applying")}


@pytest.mark.parametrize(
    ("verb", "fault"), [(verb, fault) for verb in VERBS for fault in FAULTS if (verb, fault) not in JOINED]
)
def test_a_verb_outlives_a_fault_that_passes(
    prepared: S3Store, proxy: FaultyProxy, tmp_path: Path, verb: str, fault: str
) -> None:
    proxy.on(VERBS[verb].operation, FAULTS[fault], times=2)
    VERBS[verb].act(prepared, tmp_path)

    assert proxy.requests[VERBS[verb].operation] >= 3
    assert VERBS[verb].holds(prepared, tmp_path)


@pytest.mark.parametrize("fault", ["503", "cut before applying"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_reports_a_fault_that_stays(
    prepared: S3Store, proxy: FaultyProxy, tmp_path: Path, verb: str, fault: str
) -> None:
    proxy.on(VERBS[verb].operation, FAULTS[fault], times=ALWAYS)

    with pytest.raises(StoreUnavailable, match=f"s3://snapshots/faulty/.* at {proxy.endpoint}"):
        VERBS[verb].act(prepared, tmp_path)


@pytest.mark.parametrize("fault", ["cut after applying", "500 after applying"])
def test_an_upload_whose_last_answer_was_lost_counts_as_unavailable_or_is_whole(
    prepared: S3Store, proxy: FaultyProxy, tmp_path: Path, fault: str
) -> None:
    proxy.on("CompleteMultipartUpload", FAULTS[fault])
    try:
        prepared.put(OTHER, tmp_path / "large")
    except StoreUnavailable:
        prepared.put(OTHER, tmp_path / "large")

    assert prepared.get(OTHER) == LARGE


@pytest.mark.parametrize("verb", ["get", "put", "delete of many"])
def test_a_verb_gives_up_on_a_server_that_does_not_answer(
    prepared: S3Store, proxy: FaultyProxy, tmp_path: Path, verb: str
) -> None:
    silent = Hold()
    proxy.on(VERBS[verb].operation, silent, times=ALWAYS)
    try:
        with pytest.raises(StoreUnavailable, match="Read timeout"):
            VERBS[verb].act(prepared, tmp_path)
    finally:
        silent.release()


@pytest.mark.core
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_works_again_when_the_server_is_back(
    prepared: S3Store, proxy: FaultyProxy, tmp_path: Path, verb: str
) -> None:
    with proxy.away(), pytest.raises(StoreUnavailable):
        VERBS[verb].act(prepared, tmp_path)
    VERBS[verb].act(prepared, tmp_path)

    assert VERBS[verb].holds(prepared, tmp_path)


@pytest.mark.core
def test_a_download_that_breaks_off_goes_on_where_it_broke(
    prepared: S3Store, proxy: FaultyProxy, tmp_path: Path
) -> None:
    prepared.put(OTHER, LARGE)
    proxy.clear()
    proxy.on("GetObject", cut_halfway, times=2)
    prepared.download(OTHER, tmp_path / "target")

    assert (tmp_path / "target").read_bytes() == LARGE
    assert proxy.requests["GetObject"] == 3


def test_an_answer_that_breaks_off_is_never_taken_for_the_whole(
    prepared: S3Store, proxy: FaultyProxy, tmp_path: Path
) -> None:
    proxy.on("GetObject", cut_halfway, times=ALWAYS)
    for act in (VERBS["get"].act, VERBS["get_range"].act, VERBS["download"].act):
        with pytest.raises(StoreUnavailable):
            act(prepared, tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["large"]


def test_a_failed_upload_leaves_no_object_and_no_parts(prepared: S3Store, proxy: FaultyProxy, tmp_path: Path) -> None:
    proxy.on("UploadPart", answer(503), times=ALWAYS)
    with pytest.raises(StoreUnavailable):
        prepared.put(OTHER, tmp_path / "large")

    assert listed(prepared) == [KEY]
    assert proxy.requests["AbortMultipartUpload"] == 1


def test_a_create_that_was_turned_away_is_tried_again(faulty_store: S3Store, proxy: FaultyProxy) -> None:
    proxy.on("PutObject", answer(503))
    proxy.on("PutObject", cut_before_applying)

    assert faulty_store.put_if_absent(KEY, b"mine") is True
    assert faulty_store.get(KEY) == b"mine"
    assert proxy.requests["PutObject"] == 3


def test_a_create_in_conflict_with_another_is_tried_again(faulty_store: S3Store, proxy: FaultyProxy) -> None:
    proxy.on("PutObject", answer(409, "ConditionalRequestConflict"), times=2)

    assert faulty_store.put_if_absent(KEY, b"mine") is True


def test_a_conflict_that_another_won_is_a_plain_loss(faulty_store: S3Store, proxy: FaultyProxy) -> None:
    faulty_store.put(KEY, b"other")
    proxy.on("PutObject", answer(409, "ConditionalRequestConflict"))

    assert faulty_store.put_if_absent(KEY, b"mine") is False


@pytest.mark.core
@pytest.mark.parametrize("fault", [cut_after_applying, answer_after_applying(500), answer_after_applying(503)])
def test_a_create_whose_answer_was_lost_is_never_reported_as_anothers(
    faulty_store: S3Store, proxy: FaultyProxy, fault: Fault
) -> None:
    proxy.on("PutObject", fault)

    with pytest.raises(StoreUnavailable, match="read it back") as caught:
        faulty_store.put_if_absent(KEY, b"mine")

    assert "earlier try" in caught.value.what
    assert faulty_store.get(KEY) == b"mine"
    assert proxy.requests["PutObject"] == 2


def test_a_create_whose_time_ran_out_is_never_reported_as_anothers(faulty_store: S3Store, proxy: FaultyProxy) -> None:
    silent = Hold()
    proxy.on("PutObject", silent)
    try:
        with pytest.raises(StoreUnavailable, match="read it back"):
            faulty_store.put_if_absent(KEY, b"mine")
    finally:
        silent.release()

    assert faulty_store.get(KEY) == b"mine"


def test_a_create_that_lost_after_an_unclear_try_leaves_the_verdict_to_the_reader(
    faulty_store: S3Store, proxy: FaultyProxy
) -> None:
    faulty_store.put(KEY, b"other")
    proxy.on("PutObject", cut_before_applying)

    with pytest.raises(StoreUnavailable, match="read it back"):
        faulty_store.put_if_absent(KEY, b"mine")

    assert faulty_store.get(KEY) == b"other"


def test_a_create_gives_up_after_its_tries(faulty_store: S3Store, proxy: FaultyProxy) -> None:
    proxy.on("PutObject", answer(503), times=ALWAYS)

    with pytest.raises(StoreUnavailable, match="SlowDown"):
        faulty_store.put_if_absent(KEY, b"mine")

    assert proxy.requests["PutObject"] == 3


def test_many_deletions_take_one_request(prepared: S3Store, proxy: FaultyProxy) -> None:
    prepared.delete([Key(f"log/{number}") for number in range(1000)])

    assert proxy.requests == {"DeleteObjects": 1}
    assert listed(prepared) == []


@pytest.mark.parametrize(
    ("status", "code"),
    [(501, "NotImplemented"), (405, "MethodNotAllowed"), (400, "InvalidRequest"), (400, "MissingContentMD5")],
)
def test_a_server_without_bulk_deletion_is_asked_for_one_after_another(
    prepared: S3Store, proxy: FaultyProxy, status: int, code: str
) -> None:
    proxy.on("DeleteObjects", answer(status, code), times=ALWAYS)
    prepared.put(OTHER, b"")
    proxy.clear()
    proxy.on("DeleteObjects", answer(status, code), times=ALWAYS)
    prepared.delete([KEY, OTHER])
    prepared.delete([KEY, OTHER])

    assert proxy.requests == {"DeleteObjects": 1, "DeleteObject": 4}
    assert listed(prepared) == []


def test_what_a_bulk_deletion_refused_is_deleted_by_itself(prepared: S3Store, proxy: FaultyProxy) -> None:
    refused = prepared.uri.removeprefix("s3://snapshots/") + KEY
    body = f"<DeleteResult><Error><Key>{refused}</Key><Code>InternalError</Code></Error></DeleteResult>"

    def partly(request: object, forward: object) -> object:
        response = answer(200)(request, forward)  # type: ignore[arg-type]
        response.body = body.encode()
        return response

    proxy.on("DeleteObjects", partly)  # type: ignore[arg-type]
    prepared.delete([KEY, OTHER])

    assert proxy.requests == {"DeleteObjects": 1, "DeleteObject": 1}
    assert listed(prepared) == []


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (403, "AccessDenied", AccessDenied),
        (403, "InvalidAccessKeyId", CredentialsRejected),
        (403, "SignatureDoesNotMatch", CredentialsRejected),
        (403, "RequestTimeTooSkewed", StoreDenied),
        (400, "ExpiredToken", CredentialsExpired),
        (404, "NoSuchBucket", BucketMissing),
        (301, "PermanentRedirect", StoreDenied),
        (507, "InsufficientStorage", StoreFull),
        (403, "QuotaExceeded", StoreFull),
        (400, "InvalidArgument", StoreError),
    ],
)
@pytest.mark.parametrize("verb", ["get", "put", "list", "delete"])
def test_a_refusal_has_its_own_error_and_is_not_tried_again(
    prepared: S3Store, proxy: FaultyProxy, tmp_path: Path, verb: str, status: int, code: str, error: type[StoreError]
) -> None:
    proxy.on(VERBS[verb].operation, answer(status, code), times=ALWAYS)

    with pytest.raises(StoreError) as caught:
        VERBS[verb].act(prepared, tmp_path)

    assert type(caught.value) is error
    assert "snapshots" in caught.value.what
    assert proxy.endpoint in caught.value.what
    assert "testtest" not in str(caught.value)
    assert proxy.requests[VERBS[verb].operation] <= 2


def test_a_refused_create_is_not_taken_for_a_lost_race(faulty_store: S3Store, proxy: FaultyProxy) -> None:
    proxy.on("PutObject", answer(403, "AccessDenied"), times=ALWAYS)

    with pytest.raises(StoreDenied):
        faulty_store.put_if_absent(KEY, b"mine")


def test_a_missing_object_is_missing_also_through_the_proxy(faulty_store: S3Store) -> None:
    with pytest.raises(ObjectMissing):
        faulty_store.get(KEY)
