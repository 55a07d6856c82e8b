"""Lists the objects of a bucket, page by page, with a tenth of the time that botocore takes to read the answers.

Requests, signatures, repetitions and errors are botocore's. Only the body of a good answer is read here, in its event
`before-parse`; a body that is cut counts as an answer with status 500, as botocore has it, and is asked for again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from botocore.exceptions import BotoCoreError, ClientError

from streamjob.store.s3_connection import S3Connection
from streamjob.store.s3_errors import status_of, translate
from streamjob_runtime.discovery.objects import Found, Page, base_of

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ListObjectsV2RequestTypeDef

_FIELDS = re.compile(rb"<(Key|LastModified|ETag|Size)>([^<]*)</|</(Contents)>")
_QUOTES = re.compile(rb'"|&quot;|&#34;')
_FOUND, _MORE = "StreamjobFound", "StreamjobMore"
_CUT = b"<Error><Code>InternalError</Code><Message>the answer is not a whole listing</Message></Error>"


class S3Lister:
    """Lists the objects below a prefix that are a source's; see `objects.Lister`.

    Args:
        connection: of listers only: what lists by its client gets no objects from botocore.
        prefix: what all keys begin with; empty for the whole bucket.
        is_of_source: whether an object is the source's, from its key and the time it was written, in ms since 1970.
        named: the key that the source's path may name instead of a directory; None if it cannot.
    """

    def __init__(
        self,
        connection: S3Connection,
        bucket: str,
        prefix: str,
        is_of_source: Callable[[str, int], bool],
        named: str | None = None,
    ) -> None:
        self.requests = 0
        """How many requests were sent, repeated ones included."""
        self._connection = connection
        self._bucket = bucket
        self._base = base_of(bucket)
        self._prefix = prefix
        self._is_of_source = is_of_source
        self._named = named
        # The wildcard makes it the first: a handler of botocore would parse the whole body before.
        connection.client.meta.events.register("before-parse.*.ListObjectsV2", _parse, "streamjob-lister")

    def page(self, after: str) -> Page:
        """Return the objects whose URIs sort after `after`; if the path names an object, only this one.

        Raises:
            BucketMissing, AccessDenied, CredentialsRejected, CredentialsExpired: S3 refuses.
            StoreUnavailable: S3 does not answer, or breaks off, also after repeated requests.
            UnreadableKey: Spark cannot read an object of the source.
        """
        if self._named and after < self._base + self._named:
            found, _ = self._list(self._named, "", 1)
            if found and found[0].key == self._named:
                return Page(self._of_source(found), None)
        found, more = self._list(self._prefix, after.removeprefix(self._base), 1000)
        if found:
            self._named = None
        return Page(self._of_source(found), self._base + found[-1].key if more else None)

    def find(self, bucket: str, key: str) -> Found | None:
        """Return an object of the source as it is now; None if it is gone, or none of the source.

        Raises:
            StoreError: S3 refuses, or does not answer.
            UnreadableKey: Spark cannot read it.
        """
        if bucket != self._bucket or not (key.startswith(self._prefix) or key == self._named):
            return None
        connection = self._connection
        try:
            there = connection.client.head_object(Bucket=bucket, Key=key)
        except (ClientError, BotoCoreError) as error:
            if status_of(error) == 404:
                return None
            raise translate(error, "look at", bucket, key, connection.settings.shown) from error
        modified_ms = round(there["LastModified"].timestamp() * 1000)
        found = Found(key, there["ContentLength"], modified_ms, there["ETag"].strip('"'))
        return next(iter(self._of_source([found])), None)

    def _of_source(self, found: Sequence[Found]) -> Sequence[Found]:
        of_source = (each for each in found if self._is_of_source(each.key, each.modified_ms))
        return [Found(self._base + each.key, each.size, each.modified_ms, each.version) for each in of_source]

    def _list(self, prefix: str, after: str, number: int) -> tuple[Sequence[Found], bool]:
        request: ListObjectsV2RequestTypeDef = {"Bucket": self._bucket, "Prefix": prefix, "MaxKeys": number}
        if after:
            request["StartAfter"] = after
        settings = self._connection.settings
        try:
            answer: Any = self._connection.client.list_objects_v2(**request)
        except (ClientError, BotoCoreError) as error:
            metadata: Any = error.response["ResponseMetadata"] if isinstance(error, ClientError) else {}
            self.requests += metadata.get("RetryAttempts", settings.attempts - 1) + 1
            raise translate(error, "list", self._bucket, prefix, settings.shown) from error
        self.requests += answer["ResponseMetadata"]["RetryAttempts"] + 1
        return answer[_FOUND], answer[_MORE]


def _parse(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    body = response_dict["body"]
    if response_dict["status_code"] != 200:
        return
    try:
        if not body.rstrip().endswith(b"</ListBucketResult>"):
            raise ValueError("it is cut")
        found = list(_objects(body))
        more = b"<IsTruncated>true</IsTruncated>" in body
        if more and not found:
            raise ValueError("it has no key after which the next page begins")
    except (ElementTree.ParseError, KeyError, ValueError):
        response_dict["status_code"] = 500
        response_dict["body"] = body if b"<Error>" in body else _CUT
    else:
        response_dict["body"] = b""
        customized_response_dict.update({_FOUND: found, _MORE: more})


def _objects(body: bytes) -> Iterator[Found]:
    # XML cannot have each character that a key can, so botocore asks for encoded ones; a server may ignore it.
    decoded: Callable[[str], str] = unquote_plus if b"<EncodingType>url</EncodingType>" in body else str
    fields: dict[bytes, bytes] = {}
    for name, value, end in _FIELDS.findall(body):
        if not end:
            fields[name] = value
            continue
        yield Found(
            decoded(_text(fields[b"Key"])),
            int(fields[b"Size"]),
            round(datetime.fromisoformat(fields[b"LastModified"].decode()).timestamp() * 1000),
            _QUOTES.sub(b"", fields.get(b"ETag", b"")).decode(),
        )
        fields = {}


def _text(value: bytes) -> str:
    return ElementTree.fromstring(b"<a>%b</a>" % value).text or "" if b"&" in value else value.decode()
