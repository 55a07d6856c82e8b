"""From what people write for a place to stores and objects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from botocore.awsrequest import AWSPreparedRequest

from streamjob.errors import InvalidInput
from streamjob.ids import Key
from streamjob.store import InvalidKey, LocalStore
from streamjob.store.opening import References, open_location, open_object, snapshot_reference
from streamjob.store.s3_connection import S3Connection, S3Settings


class Sent(Exception):
    """A request was about to be sent."""


S3_ENVIRONMENT = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "eu-central-1"}


@pytest.mark.parametrize(
    ("location", "uri"),
    [
        ("snapshots", "file:///base/snapshots/"),
        ("./a/", "file:///base/a/"),
        ("/abs/with space", "file:///abs/with%20space/"),
        ("file:///abs/with%20space", "file:///abs/with%20space/"),
        ("file:/abs", "file:///abs/"),
        ("file://localhost/abs/", "file:///abs/"),
        ("s3://bucket", "s3://bucket/"),
        ("s3://bucket/", "s3://bucket/"),
        ("s3://bucket/some/prefix", "s3://bucket/some/prefix/"),
        ("s3://bucket/some/prefix//", "s3://bucket/some/prefix/"),
    ],
)
def test_a_location_has_one_absolute_form(location: str, uri: str) -> None:
    assert open_location(location, Path("/base")).uri == uri


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("", "empty"),
        ("file://host/path", "not a file on this machine"),
        ("file:relative", "not a file on this machine"),
        ("s3://", "no usable bucket"),
        ("s3://b", "no usable bucket"),
        ("s3://bucket/a//b", "not a valid key"),
        ("s3://bucket/../b", "not a valid key"),
        ("s3a://bucket/prefix", "write it as s3://bucket/prefix"),
        ("gs://bucket/prefix", "unknown kind"),
        ("https://host/path", "unknown kind"),
    ],
)
def test_a_location_that_cannot_be_used_says_why_and_what_to_write(location: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        open_location(location)

    assert caught.value.fix


def test_a_location_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="is a file"):
        open_location(str(tmp_path / "file"))


def test_a_jobs_store_is_rooted_at_namespace_and_name(tmp_path: Path) -> None:
    store = open_location("snapshots", tmp_path).job("team-a", "departures").store()

    assert store.uri == f"file://{tmp_path}/snapshots/team-a/departures/"


def test_a_jobs_store_in_s3_is_rooted_below_the_prefix() -> None:
    store = open_location("s3://bucket/prefix").job("team-a", "departures").store(S3_ENVIRONMENT)

    assert store.uri == "s3://bucket/prefix/team-a/departures/"
    store.close()


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "a.", "a b", "-a"])
def test_a_name_that_is_no_part_of_a_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be part of a path"):
        open_location(str(tmp_path)).job("default", name)
    with pytest.raises(InvalidInput, match="cannot be part of a path"):
        open_location(str(tmp_path)).job(name, "job")


def test_an_object_is_opened_by_its_absolute_uri(tmp_path: Path) -> None:
    LocalStore(tmp_path / "a b").put(Key("x/y z"), b"content")
    store, key = open_object(f"file://{tmp_path}/a%20b/x/y%20z")

    assert store.get(key) == b"content"


@pytest.mark.parametrize("uri", ["key", "s3://bucket", "file:///a/", "http://host/a"])
def test_a_uri_that_names_no_object_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput):
        open_object(uri)


def test_references_are_relative_to_the_job_or_absolute(tmp_path: Path) -> None:
    home, other = LocalStore(tmp_path / "home"), LocalStore(tmp_path / "other place")
    home.put(Key("shared/1"), b"home")
    other.put(Key("deep/2"), b"other")
    references = References(home)

    for reference, content in (
        ("shared/1", b"home"),
        (f"{home.uri}shared/1", b"home"),
        (f"{other.uri}deep/2", b"other"),
    ):
        store, key = references.find(reference)
        assert store.get(key) == content
    assert references.find(f"{home.uri}shared/1")[0] is home
    references.close()


def test_a_bucket_is_opened_once_for_all_references_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    references = References(LocalStore(tmp_path))
    first, key = references.find("s3://bucket/a/b/1")
    second, _ = references.find("s3://bucket/a/c/2")

    assert first is second
    assert (first.uri, key) == ("s3://bucket/", "a/b/1")
    references.close()


@pytest.mark.parametrize("reference", ["../other/shared/1", "/etc/passwd", "a/../../b", ""])
def test_a_reference_that_leaves_the_root_is_refused(tmp_path: Path, reference: str) -> None:
    with pytest.raises(InvalidKey):
        References(LocalStore(tmp_path)).find(reference)


def test_s3_settings_come_from_the_usual_variables() -> None:
    settings = S3Settings.from_environment(
        {
            "AWS_ENDPOINT_URL": "http://general:1",
            "AWS_ENDPOINT_URL_S3": "http://special:2",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "STREAMJOB_S3_PATH_STYLE": "false",
        }
    )

    assert (settings.endpoint, settings.region, settings.path_style) == ("http://special:2", "eu-west-1", False)
    assert S3Settings.from_environment({}) == S3Settings()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"AWS_ENDPOINT_URL": "host:9000"}, "not a URL"),
        ({"AWS_ENDPOINT_URL": "http://user:hunter2@host"}, "user or password"),
        ({"AWS_ENDPOINT_URL": "http://host:port"}, "not a URL"),
        ({"STREAMJOB_S3_PATH_STYLE": "maybe"}, "set it to true or false"),
    ],
)
def test_s3_settings_that_cannot_be_used_are_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        S3Settings.from_environment(variables)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        (S3Settings(endpoint="http://127.0.0.1:9000"), "http://127.0.0.1:9000/bucket/key"),
        (S3Settings(endpoint="http://s3.example", path_style=False), "http://bucket.s3.example/key"),
        (S3Settings(region="eu-west-1"), "https://bucket.s3.eu-west-1.amazonaws.com/key"),
        (S3Settings(region="eu-west-1", path_style=True), "https://s3.eu-west-1.amazonaws.com/bucket/key"),
    ],
)
def test_the_bucket_is_in_the_path_for_a_custom_endpoint_unless_told_otherwise(
    settings: S3Settings, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    connection = S3Connection(settings)

    def stop(request: AWSPreparedRequest, **_: object) -> None:
        raise Sent(request.url)

    connection.client.meta.events.register("before-send.s3.GetObject", stop)
    with pytest.raises(Sent) as sent:
        connection.client.get_object(Bucket="bucket", Key="key")

    assert sent.value.args == (url,)
    connection.close()


def test_a_local_store_does_not_load_boto3() -> None:
    program = "import sys, streamjob.store.opening; sys.exit('boto3' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_snapshot_is_named_by_uri_by_key_or_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for reference in ("s3://bucket/p/job-4-ab", "file:///p/manifest.json", "checkpoints/1-2", "savepoints/job-4-ab"):
        assert snapshot_reference(reference) == reference
    here = tmp_path.as_uri()
    for path in ("mine/job-4-ab", "./mine/job-4-ab", str(tmp_path / "mine" / "job-4-ab")):
        assert snapshot_reference(path) == f"{here}/mine/job-4-ab"
