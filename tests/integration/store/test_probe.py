"""A store without an atomic put-if-absent is found out before a job starts on it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.servers.faulty import (
    FaultyProxy,
    Forward,
    Request,
    Response,
    answer,
    cut_after_applying,
    cut_before_applying,
)
from tests.servers.s3 import S3Server

from streamjob.ids import Key
from streamjob.store import (
    BucketMissing,
    CredentialsRejected,
    Store,
    StoreDenied,
    StoreUnavailable,
    UnsuitableStore,
)
from streamjob.store.probe import probe
from streamjob.store.s3 import S3Store
from streamjob.store.s3_connection import S3Connection, S3Settings

pytestmark = pytest.mark.server

NOW = 1_800_000_000.0
ALWAYS = float("inf")


def run_probe(store: Store) -> None:
    probe(store, unique=uuid.uuid4().hex, now=NOW)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.001)


@pytest.fixture
def patient_store(proxy: FaultyProxy, s3_server: S3Server, s3_credentials: None) -> Iterator[S3Store]:
    settings = S3Settings(endpoint=proxy.endpoint, attempts=3, backoff=0.01, read_timeout=20)
    store = S3Store(S3Connection(settings), s3_server.bucket, f"probe/{uuid.uuid4().hex}")
    yield store
    store.close()


def unconditional(request: Request) -> Request:
    """Return a create without its condition, signed again, as a server sees it that ignores the condition."""
    bare = request.without("If-None-Match").without("Authorization")
    host = bare.header("Host")
    signed = AWSRequest(bare.method, f"http://{host}{bare.target}", dict(bare.without("Host").headers), bare.body)
    S3SigV4Auth(Credentials(S3Server.access_key, S3Server.secret_key), "s3", S3Server.region).add_auth(signed)
    headers = [("Host", host or ""), *((name, str(value)) for name, value in signed.headers.items())]
    return Request(bare.method, bare.target, headers, bare.body, bare.operation)


def ignore_the_condition(request: Request, forward: Forward) -> Response:
    return forward(unconditional(request))


class CheckThenWrite:
    """A server that looks whether the object exists and writes it in a second step; racers meet in between."""

    def __init__(self) -> None:
        self._meeting = threading.Barrier(2)
        self._seen: set[str] = set()

    def __call__(self, request: Request, forward: Forward) -> Response:
        if request.target in self._seen:
            return answer(412, "PreconditionFailed")(request, forward)
        if "race" in request.target:
            self._meeting.wait(20)
        self._seen.add(request.target)
        return forward(unconditional(request))


def test_a_store_with_atomic_creates_passes_and_keeps_no_trace(store: Store) -> None:
    run_probe(store)

    assert list(store.list("")) == []


def test_probing_again_and_beside_others_passes(store: Store) -> None:
    failures: list[BaseException] = []

    def prove() -> None:
        try:
            run_probe(store)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=prove) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert list(store.list("")) == []


def test_a_probe_takes_few_requests(patient_store: S3Store, proxy: FaultyProxy) -> None:
    run_probe(patient_store)

    assert sum(proxy.requests.values()) <= 14


def test_what_a_killed_prober_left_is_removed_once_it_is_old(store: Store) -> None:
    old, recent, foreign = (
        Key(f"probe/{int(NOW) - 4000:012d}-x/twice"),
        Key(f"probe/{int(NOW) - 60:012d}-y/race"),
        Key("probe/mine"),
    )
    for key in (old, recent, foreign):
        store.put(key, b"first")
    run_probe(store)

    assert [entry.key for entry in store.list("")] == [recent, foreign]


def test_a_server_that_ignores_the_condition_is_refused(patient_store: S3Store, proxy: FaultyProxy) -> None:
    proxy.on("PutObject", ignore_the_condition, times=ALWAYS)

    with pytest.raises(UnsuitableStore, match="ignores the condition"):
        run_probe(patient_store)

    proxy.clear()
    assert list(patient_store.list("")) == []


def test_a_server_that_checks_and_then_writes_is_refused(patient_store: S3Store, proxy: FaultyProxy) -> None:
    proxy.on("PutObject", CheckThenWrite(), times=ALWAYS)

    with pytest.raises(UnsuitableStore, match=r"let [2-8] of 8 racing"):
        run_probe(patient_store)


def test_a_server_that_does_not_know_the_condition_is_refused(patient_store: S3Store, proxy: FaultyProxy) -> None:
    proxy.on("PutObject", answer(501, "NotImplemented"), times=ALWAYS)

    with pytest.raises(UnsuitableStore, match="no conditional create"):
        run_probe(patient_store)


@pytest.mark.parametrize(
    "fault", [cut_after_applying, cut_before_applying, answer(503), answer(409, "OperationAborted")]
)
@pytest.mark.parametrize("before", range(4))
def test_a_fault_on_the_way_does_not_condemn_a_good_store(
    patient_store: S3Store, proxy: FaultyProxy, fault: object, before: int
) -> None:
    proxy.on("PutObject", lambda request, forward: forward(request), times=before)
    proxy.on("PutObject", fault)  # type: ignore[arg-type]
    run_probe(patient_store)

    assert list(patient_store.list("")) == []


def test_a_store_that_is_away_is_unavailable_and_not_unsuitable(patient_store: S3Store, proxy: FaultyProxy) -> None:
    with proxy.away(), pytest.raises(StoreUnavailable):
        run_probe(patient_store)


@pytest.mark.usefixtures("checks_credentials")
def test_a_wrong_secret_key_is_refused_as_rejected_credentials(
    s3_server: S3Server, s3_credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    store = S3Store(S3Connection(S3Settings(endpoint=s3_server.endpoint)), s3_server.bucket, "probe")

    with pytest.raises(CredentialsRejected, match="AWS_SECRET_ACCESS_KEY") as caught:
        run_probe(store)

    assert s3_server.endpoint in str(caught.value)
    assert "not-the-secret" not in str(caught.value)


@pytest.mark.usefixtures("checks_credentials")
def test_an_unknown_access_key_is_refused_as_rejected_credentials(
    s3_server: S3Server, s3_credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    store = S3Store(S3Connection(S3Settings(endpoint=s3_server.endpoint)), s3_server.bucket, "probe")

    with pytest.raises(CredentialsRejected, match="AWS_ACCESS_KEY_ID"):
        run_probe(store)


def test_a_bucket_that_does_not_exist_has_its_own_error(s3_server: S3Server, s3_credentials: None) -> None:
    store = S3Store(S3Connection(S3Settings(endpoint=s3_server.endpoint)), "no-such-bucket", "probe")

    with pytest.raises(BucketMissing, match="bucket no-such-bucket does not exist at http"):
        run_probe(store)


def test_missing_credentials_are_refused(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    store = S3Store(S3Connection(S3Settings(endpoint=s3_server.endpoint)), s3_server.bucket, "probe")

    with pytest.raises(StoreDenied, match="AWS_ACCESS_KEY_ID"):
        run_probe(store)
