"""S3 clients, and their settings from the usual AWS variables.

A request is repeated here, by botocore (`attempts`); a conditional write, which it must not repeat, by
`streamjob.store.s3`.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from streamjob.errors import InvalidInput

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_MIB = 1 << 20
PATH_STYLE_VARIABLE = "STREAMJOB_S3_PATH_STYLE"


@dataclass(frozen=True, slots=True)
class S3Settings:
    """The server, timeouts and retries. Credentials are not included: boto3 finds them where AWS tools do.

    Args:
        endpoint: URL of an S3-compatible server; None for AWS.
        region: None takes it from the AWS configuration, or us-east-1 for a custom endpoint.
        path_style: whether the bucket is in the path instead of the host name; None means only for a custom endpoint.
        connect_timeout: seconds to wait for a connection.
        read_timeout: seconds to wait for the next bytes of an answer.
        attempts: tries of a request before the store counts as unavailable.
        backoff: seconds before the second try of requests that botocore does not repeat; doubled for each further one.
        part_size: bytes; larger files are uploaded in parts of this size.
        concurrency: parts of one file that are uploaded at the same time.
        connections: connections kept open; set it to the number of threads that use the store.
    """

    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    attempts: int = 5
    backoff: float = 0.2
    part_size: int = 16 * _MIB
    concurrency: int = 4
    connections: int = 32

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            parts = _split(self.endpoint)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise InvalidInput(
                    "the S3 endpoint is not a URL", "set AWS_ENDPOINT_URL to something like https://host:port"
                )
            if parts.username or parts.password:
                raise InvalidInput(
                    f"the S3 endpoint at {parts.hostname} has a user or password in its URL",
                    "give credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> S3Settings:
        """Return the settings from environment variables.

        Reads AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION and STREAMJOB_S3_PATH_STYLE.

        Args:
            environment: the variables; None for this process's.

        Raises:
            InvalidInput: a variable has a value that cannot be used.
        """
        values = os.environ if environment is None else environment
        return cls(
            endpoint=values.get("AWS_ENDPOINT_URL_S3") or values.get("AWS_ENDPOINT_URL") or None,
            region=values.get("AWS_REGION") or values.get("AWS_DEFAULT_REGION") or None,
            path_style=_boolean(values.get(PATH_STYLE_VARIABLE)),
        )

    def for_a_controller(self) -> S3Settings:
        """Return them with short limits: what asks again later anyway must not delay others by its retries."""
        return replace(self, connect_timeout=3.0, read_timeout=10.0, attempts=2)

    @property
    def shown(self) -> str:
        """The endpoint for messages."""
        return self.endpoint or "AWS"


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """Explicit credentials, for a process that acts for several users."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, values: Mapping[str, str]) -> S3Credentials | None:
        """Return those in the usual AWS variables; None without any."""
        key, secret = values.get("AWS_ACCESS_KEY_ID"), values.get("AWS_SECRET_ACCESS_KEY")
        return cls(key, secret, values.get("AWS_SESSION_TOKEN")) if key and secret else None


# Clients are thread-safe, but the session that creates them is not.
_MAKING = threading.Lock()


@functools.cache
def _session_for_all() -> boto3.Session:
    """Return the shared session for clients with explicit credentials: each session holds 12 MB."""
    return boto3.Session()


class S3Connection:
    """The clients for one S3 server; may be shared between stores and threads.

    Args:
        settings: the server and how to reach it.
        credentials: None to let boto3 find them where AWS tools do.

    Raises:
        InvalidInput: the AWS configuration cannot be used.
    """

    def __init__(self, settings: S3Settings, credentials: S3Credentials | None = None) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._single: S3Client | None = None
        self._credentials = credentials
        try:
            self._session = boto3.Session() if credentials is None else _session_for_all()
            self.client = self._make(settings.attempts)
        except (BotoCoreError, ValueError) as error:
            raise InvalidInput(
                f"S3 at {settings.shown} cannot be set up: {error}", "check the AWS variables"
            ) from error

    @property
    def single(self) -> S3Client:
        """A client that never repeats a request: a hidden second try could find the object of the first."""
        with self._lock:
            if self._single is None:
                self._single = self._make(attempts=1)
            return self._single

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            clients = [self.client] if self._single is None else [self.client, self._single]
        for client in clients:
            client.close()

    def _make(self, attempts: int) -> S3Client:
        settings = self.settings
        custom = settings.endpoint is not None
        # Set explicitly: by default botocore puts a bucket with dots in its name into the path even on AWS, since no
        # certificate fits its host name.
        style: Literal["path", "virtual", "auto"] = "path" if custom else "auto"
        if settings.path_style is not None:
            style = "path" if settings.path_style else "virtual"
        # Many S3-compatible servers do not support AWS's newer checksums. Restores check the sha256 of each file
        # anyway.
        checksums: Literal["when_required", "when_supported"] = "when_required" if custom else "when_supported"
        region = settings.region or self._session.region_name or ("us-east-1" if custom else None)
        handed = self._credentials
        config = Config(
            signature_version="s3v4",
            connect_timeout=settings.connect_timeout,
            read_timeout=settings.read_timeout,
            retries={"total_max_attempts": attempts, "mode": "standard"},
            max_pool_connections=settings.connections,
            request_checksum_calculation=checksums,
            response_checksum_validation=checksums,
            tcp_keepalive=True,
            s3={"addressing_style": style},
            user_agent_extra="streamjob",
            # The variables are those of other credentials.
            ignore_configured_endpoint_urls=self._credentials is not None,  # type: ignore[call-arg]  # its stubs lack it
        )
        with _MAKING:
            client = self._session.client(
                "s3",
                endpoint_url=settings.endpoint,
                region_name=region,
                aws_access_key_id=None if handed is None else handed.access_key,
                aws_secret_access_key=None if handed is None else handed.secret_key,
                aws_session_token=None if handed is None else handed.session_token,
                config=config,
            )
        if custom:
            client.meta.events.register("before-sign.s3.DeleteObjects", _add_content_md5)
        return client


def _add_content_md5(request: Any, **_: Any) -> None:
    # Servers without AWS's newer checksums refuse a bulk deletion that lacks it.
    body = request.data if isinstance(request.data, bytes) else str(request.data).encode()
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()


def _split(url: str) -> Any:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return urlsplit("")
    return parts


def _boolean(value: str | None) -> bool | None:
    if not value:
        return None
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if value.lower() not in known:
        raise InvalidInput(f"{PATH_STYLE_VARIABLE} is {value!r}", "set it to true or false")
    return known[value.lower()]
