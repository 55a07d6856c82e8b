"""The search of a source offers each new object once, whatever S3 does meanwhile, and says what it does not read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from streamjob.job.connectors.file_source import FileSourceFields
from streamjob.store.base import AccessDenied, StoreUnavailable
from streamjob_runtime.discovery.discoverer import Discoverer
from streamjob_runtime.discovery.objects import Found, Page, Refused
from streamjob_runtime.discovery.search import Search, check_all

PAGE = 2
WITHIN = 20.0


class Bucket:
    """Objects by key, listed two at a time; `fails` is raised by the page after that many pages."""

    def __init__(self, *keys: str) -> None:
        self.objects = {key: Found(key, 1, number, "1") for number, key in enumerate(keys)}
        self.fails: list[tuple[int, Exception]] = []
        self.pages = 0

    def page(self, after: str) -> Page:
        self.pages += 1
        if self.fails and self.pages > self.fails[0][0]:
            raise self.fails.pop(0)[1]
        keys = [key for key in sorted(self.objects) if key > after]
        found = [self.objects[key] for key in keys[:PAGE]]
        return Page(found, found[-1].key if len(keys) > PAGE else None)


class Inbox:
    """What was offered, in order."""

    def __init__(self) -> None:
        self.offered: list[str] = []
        self.failure = ""
        self.figures: Mapping[str, str] = {}
        self.done = -1

    def offer(self, lines: str) -> None:
        self.offered += lines.split("\n")

    def size(self) -> int:
        return 0

    def fail(self, message: str) -> None:
        self.failure = message

    def report(self, more: Mapping[str, str]) -> None:
        self.figures = more

    def committed(self) -> int:
        return self.done


class Judge:
    """Refuses what has "refused" in its key, and each other version."""

    def line(self, found: Found) -> str:
        return f"{found.key}:{found.version}"

    def placed(self, found: Found) -> None:
        if "refused" in found.key:
            raise Refused(f"no {found.key}")

    def replaced(self, found: Found) -> None:
        raise Refused(f"{found.key} was replaced")


class Searching:
    """A search that runs."""

    def __init__(
        self, bucket: Bucket, folder: Path, whole: list[Found] | None = None, *, once: bool = False, **options: str
    ) -> None:
        self.inbox = Inbox()
        given = FileSourceFields.model_validate({"checkInterval": "10ms", **options})
        self.discoverer = Discoverer(
            who="Source 'rows'",
            search=lambda recent, known: partial(Search(recent, known, given.list_all_every).check, bucket),
            inbox=self.inbox,
            judge=Judge(),
            given=given,
            folder=folder,
            clock=time.time,
            whole=whole,
            once=once,
        )
        self.discoverer.start()

    def wait(self, condition: Callable[[Inbox], bool]) -> None:
        deadline = time.monotonic() + WITHIN
        while not condition(self.inbox):
            assert time.monotonic() < deadline, (self.inbox.offered, self.inbox.failure, self.inbox.figures)
            threading.Event().wait(0.005)
        self.discoverer.stop()


def test_a_failure_about_a_name_that_is_no_text_ends_the_query(tmp_path: Path) -> None:
    bucket = Bucket("a")
    bucket.fails = [(0, AccessDenied("cannot list /in/\udcff", "rename it"))]
    searching = Searching(bucket, tmp_path)

    searching.wait(lambda inbox: bool(inbox.failure))

    assert searching.inbox.failure == "Source 'rows': cannot list /in/?: rename it"


def test_a_backlog_does_not_delay_the_next_search(tmp_path: Path) -> None:
    now = [0.0]

    class Full(Inbox):
        def size(self) -> int:
            now[0] += 1000.0
            return 0 if now[0] > 50_000 else 1_000_000

    bucket = Bucket("a")
    discoverer = Discoverer(
        who="Source 'rows'",
        search=lambda recent, known: partial(check_all, bucket),
        inbox=(inbox := Full()),
        judge=Judge(),
        given=FileSourceFields(),
        folder=tmp_path,
        clock=lambda: now[0],
        cheap=True,
    )
    discoverer.start()
    deadline = time.monotonic() + WITHIN
    while not inbox.offered:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    bucket.objects["b"] = Found("b", 1, 1, "1")
    while len(inbox.offered) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    discoverer.stop()


def test_objects_are_offered_by_their_times_or_by_their_names(tmp_path: Path) -> None:
    bucket = Bucket("c", "a", "d", "b")
    by_time, by_name = Searching(bucket, tmp_path), Searching(bucket, tmp_path, order="name")

    by_time.wait(lambda inbox: len(inbox.offered) == 4)
    by_name.wait(lambda inbox: len(inbox.offered) == 4)

    assert by_time.inbox.offered == ["c:1", "a:1", "d:1", "b:1"]
    assert by_name.inbox.offered == ["a:1", "b:1", "c:1", "d:1"]


def test_what_was_found_before_s3_failed_is_offered_once_and_the_rest_later(tmp_path: Path) -> None:
    bucket = Bucket("a", "b", "c", "d", "e")
    bucket.fails = [(1, StoreUnavailable("no answer")), (3, StoreUnavailable("no answer"))]
    searching = Searching(bucket, tmp_path)

    searching.wait(lambda inbox: len(inbox.offered) == 5)

    assert sorted(searching.inbox.offered) == ["a:1", "b:1", "c:1", "d:1", "e:1"]
    assert searching.inbox.failure == ""


def test_a_refusal_of_s3_ends_the_query_with_what_to_do(tmp_path: Path) -> None:
    bucket = Bucket("a")
    bucket.fails = [(0, AccessDenied("cannot list s3://b/a", "allow s3:ListBucket"))]
    searching = Searching(bucket, tmp_path)

    searching.wait(lambda inbox: bool(inbox.failure))

    assert searching.inbox.failure == "Source 'rows': cannot list s3://b/a: allow s3:ListBucket"


def test_an_object_that_is_refused_ends_the_query(tmp_path: Path) -> None:
    searching = Searching(Bucket("refused"), tmp_path)

    searching.wait(lambda inbox: bool(inbox.failure))

    assert (searching.inbox.failure, searching.inbox.offered) == ("no refused", [])


@pytest.mark.parametrize(
    ("then", "offered", "changed", "failure"),
    [("fail", ["a:1"], None, "a was replaced"), ("read", ["a:1", "a:2"], None, ""), ("ignore", ["a:1"], "1", "")],
)
def test_another_version_is_handled_as_the_source_says(
    tmp_path: Path, then: str, offered: list[str], changed: str | None, failure: str
) -> None:
    bucket = Bucket("a")
    searching = Searching(bucket, tmp_path, onReplaced=then)
    deadline = time.monotonic() + WITHIN
    while not searching.inbox.offered:
        assert time.monotonic() < deadline
    (tmp_path / "0").write_text('v1\n{"path":"a","size":1,"modified":0,"version":"1"}')
    searching.inbox.done = 0
    pages = bucket.pages
    while bucket.pages < pages + 3:
        assert time.monotonic() < deadline
    bucket.objects["a"] = replace(bucket.objects["a"], version="2")

    searching.wait(
        lambda inbox: (inbox.offered, inbox.figures.get("filesChanged"), inbox.failure) == (offered, changed, failure)
    )


def test_an_object_that_is_forgotten_counts_as_read(tmp_path: Path) -> None:
    bucket = Bucket("a")
    bucket.objects["b"] = Found("b", 1, round(time.time() * 1000), "1")
    searching = Searching(bucket, tmp_path, forgetAfter="1d")

    searching.wait(lambda inbox: len(inbox.offered) == 2 and bucket.pages > 3)

    assert (searching.inbox.offered, searching.inbox.figures) == (["a:1", "b:1"], {})


def test_what_was_replaced_before_it_was_read_is_left_to_the_next_attempt(tmp_path: Path) -> None:
    bucket = Bucket("a")
    searching = Searching(bucket, tmp_path)
    deadline = time.monotonic() + WITHIN
    while not searching.inbox.offered:
        assert time.monotonic() < deadline
    bucket.objects["a"] = replace(bucket.objects["a"], version="2")

    searching.wait(lambda inbox: "a was replaced before it was read" in inbox.failure)


def test_a_bounded_source_is_offered_its_files_before_it_starts_and_no_others(tmp_path: Path) -> None:
    bucket = Bucket("a", "b")
    (tmp_path / "0").write_text('v1\n{"path":"a","size":1,"modified":0,"version":"1"}')

    searching = Searching(bucket, tmp_path, whole=list(bucket.objects.values()))
    searching.discoverer.stop()

    assert searching.inbox.offered == ["b:1"]
    assert bucket.pages == 0


def test_a_search_for_what_is_there_ends_with_its_first_whole_check(tmp_path: Path) -> None:
    bucket = Bucket("a", "b", "c", "d", "e")
    bucket.fails = [(1, StoreUnavailable("S3 does not answer"))]
    searching = Searching(bucket, tmp_path, once=True)

    searching.wait(lambda inbox: searching.discoverer.is_read)

    assert sorted(searching.inbox.offered) == [f"{key}:1" for key in "abcde"]
    assert searching.discoverer.checks == 1


def test_what_comes_behind_that_check_is_not_looked_for(tmp_path: Path) -> None:
    bucket, compactions = Bucket("a"), threading.Semaphore(0)
    searching = Searching(bucket, tmp_path, once=True)
    committed = searching.inbox.committed

    def counted() -> int:
        compactions.release()
        return committed()

    searching.inbox.committed = counted  # type: ignore[method-assign]
    try:
        while not searching.discoverer.is_read:
            compactions.acquire(timeout=WITHIN)
        bucket.objects["b"] = Found("b", 1, 1, "1")
        for _ in range(5):
            assert compactions.acquire(timeout=WITHIN)
    finally:
        searching.discoverer.stop()

    assert searching.inbox.offered == ["a:1"]
