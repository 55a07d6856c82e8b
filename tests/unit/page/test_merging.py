"""Merge patches between the documents of a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.page.merging import Feed, merge_patch, server_sent

leaves = st.booleans() | st.integers(0, 3)
names = st.sampled_from("abc")
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
documents = st.dictionaries(names, values, max_size=3)


def patched(document: Any, patch: Any) -> Any:
    """Apply a patch as RFC 7396 says."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = patched(result.get(name), value)
    return result


@given(documents, documents)
def test_a_patch_makes_the_new_document_out_of_the_old_one(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert patched(old, merge_patch(old, new)) == new


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": [1, 2]}, {"a": [1, 3]}, {"a": [1, 3]}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),
    ],
)
def test_only_what_changed_is_in_a_patch(old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any]) -> None:
    assert merge_patch(old, new) == patch


def parsed(text: bytes) -> tuple[str, Any]:
    event, data = text.decode().strip().split("\n")
    return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_a_reader_gets_the_whole_document_first_and_then_patches() -> None:
    feed = Feed()
    assert feed.advance({"a": 1, "b": 2})
    assert parsed(feed.news(0)) == ("job", {"a": 1, "b": 2})
    assert feed.news(feed.version) == b""

    version = feed.version
    assert feed.advance({"a": 5, "b": 2})

    assert parsed(feed.news(version)) == ("patch", {"a": 5})


def test_an_equal_document_is_no_news() -> None:
    feed = Feed()
    feed.advance({"a": 1})

    assert not feed.advance({"a": 1})
    assert feed.news(feed.version) == b""


def test_a_reader_that_missed_a_version_gets_the_whole_document() -> None:
    feed = Feed()
    feed.advance({"a": 1})
    version = feed.version
    feed.advance({"a": 2})
    feed.advance({"a": 3})

    assert parsed(feed.news(version)) == ("job", {"a": 3})


def test_after_a_pause_the_document_is_sent_whole() -> None:
    feed = Feed()
    feed.advance({"a": 1})
    version = feed.version
    feed.forget()
    assert not feed.has_document
    feed.advance({"a": 1})

    assert parsed(feed.news(version)) == ("job", {"a": 1})


def test_line_breaks_in_a_text_do_not_end_its_event() -> None:
    text = server_sent("log", {"text": "one\ntwo\r\nthree\u2028"}, 7)

    assert text.startswith(b"id: 7\nevent: log\ndata: {")
    assert text.endswith(b"\n\n")
    assert len(text.decode().split("\n")) == 5
    assert b"\r" not in text
