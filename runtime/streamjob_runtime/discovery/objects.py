"""What a listing of a bucket finds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Found:
    """An object as a listing shows it.

    Args:
        key: its URI: `base_of` its bucket, and its whole key.
        size: bytes.
        modified_ms: when it was written, in ms since 1970.
        version: its ETag, without quotes: another one means another content.
        damage: why nothing can read it; None if it is whole, or was not checked.
    """

    key: str
    size: int
    modified_ms: int
    version: str
    damage: str | None = field(default=None, compare=False, kw_only=True)


def base_of(bucket: str) -> str:
    """Return what the URIs of a bucket's objects begin with, before their keys."""
    return f"s3a://{bucket}/"


def key_of(uri: str) -> str:
    """Return the key of the file or object at a URI, which others may write with `s3:` or `s3n:`."""
    return re.sub("^s3n?:", "s3a:", uri)


@dataclass(frozen=True, slots=True)
class Classified:
    """The objects of a listing that are not known as they are.

    Args:
        new: those whose keys are not known.
        replaced: those that were read in another version, which may be a later one.
    """

    new: list[Found] = field(default_factory=list)
    replaced: list[Found] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing, in the order of the keys' UTF-8 bytes.

    Args:
        objects: those that are a source's, of the keys that were listed.
        end: the last key that was listed, after which the next page begins; None if no key follows.
    """

    objects: Sequence[Found]
    end: str | None


class Lister(Protocol):
    """Lists the objects below a prefix that are a source's."""

    def page(self, after: str) -> Page:
        """Return the objects whose keys sort after `after`, as many as one request brings.

        Raises:
            StoreError: S3 refuses, or does not answer.
        """
        ...


def pages(lister: Lister) -> Iterator[Page]:
    """Yield the pages of a whole listing, each when it is asked for. Raises as `Lister.page` does."""
    end: str | None = ""
    while end is not None:
        page = lister.page(end)
        yield page
        end = page.end


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """What a source does not read, as the text that ends its query."""

    text: str
