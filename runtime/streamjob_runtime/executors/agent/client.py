"""An agent's requests to the driver."""

from __future__ import annotations

import itertools
import json
import threading
import uuid
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from streamjob.errors import StreamJobError
from streamjob_runtime.executors.credentials import Credentials
from streamjob_runtime.executors.messages import (
    CONNECTIONS,
    COUNT_HEADER,
    INSTANCE_HEADER,
    NAME_HEADER,
    PREFIX,
    SIGNATURE_HEADER,
    Attempt,
    Refusal,
)

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 60.0
_IDLE_SECONDS = 2.0

Answer = TypeVar("Answer", bound=BaseModel)


class DriverAway(StreamJobError):
    """The driver does not answer, or somebody answers who does not know the secret."""


class Refused(StreamJobError):
    """The driver refuses a request; `status` is HTTP's."""

    def __init__(self, what: str, status: int) -> None:
        super().__init__(what)
        self.status = status


class DriverClient:
    """Asks the driver; thread-safe.

    Args:
        url: of the driver's control API, without a slash at its end.
        secret: the secret that the job's processes share.
    """

    def __init__(self, url: str, name: str, secret: str) -> None:
        self.url = url
        self._name = name
        self._secret = secret
        self._instance = uuid.uuid4().hex
        self._counts = itertools.count(1)
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None
        timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
        # No proxy of the environment: the driver is in the same network.
        # The server closes idle connections after some seconds; a request must not be on its way at that moment.
        limits = httpx.Limits(max_connections=CONNECTIONS, keepalive_expiry=_IDLE_SECONDS)
        self._http = httpx.Client(timeout=timeout, limits=limits, trust_env=False)

    @property
    def credentials(self) -> Credentials:
        """The keys of the driver's attempt; `meet` has found it."""
        assert self._credentials is not None
        return self._credentials

    def meet(self) -> Credentials:
        """Find the driver's attempt, and return its keys.

        Raises:
            DriverAway: nobody answers.
        """
        try:
            answer = self._http.get(f"{self.url}{PREFIX}attempt")
            answer.raise_for_status()
            attempt = Attempt.model_validate_json(answer.content).attempt
        except (httpx.HTTPError, ValidationError) as error:
            raise DriverAway(f"{self.url} does not answer: {_reason(error)}") from None
        self._credentials = Credentials.derive(self._secret, attempt)
        return self._credentials

    def ask(self, path: str, message: BaseModel, kind: type[Answer], seconds: float = _ANSWER_SECONDS) -> Answer:
        """Make a request, and return the answer.

        Args:
            path: the last part of the request's path.
            message: its body.
            kind: the class of the answer.
            seconds: how long to wait for it.

        Raises:
            DriverAway: the driver does not answer, or its answer is not signed with the secret.
            Refused: the driver refuses the request.
        """
        credentials = self.credentials
        with self._lock:
            count = str(next(self._counts))
        body = json.dumps(message.model_dump(mode="json")).encode()
        parts = ("POST", PREFIX + path, self._name, self._instance, count)
        signature = credentials.sign(*(each.encode() for each in parts), body)
        headers = {
            NAME_HEADER: self._name,
            INSTANCE_HEADER: self._instance,
            COUNT_HEADER: count,
            SIGNATURE_HEADER: signature,
            "content-type": "application/json",
        }
        try:
            answer = self._http.post(f"{self.url}{PREFIX}{path}", content=body, headers=headers, timeout=seconds)
        except httpx.HTTPError as error:
            raise DriverAway(f"{self.url} does not answer: {_reason(error)}") from None
        signed = answer.headers.get(SIGNATURE_HEADER, "")
        proven = credentials.proves(signed, signature.encode(), str(answer.status_code).encode(), answer.content)
        if not proven:
            if answer.status_code == 401:
                raise Refused(_error_in(answer.content), 401)
            raise DriverAway(f"{self.url} does not know the secret of the job's executors")
        if answer.status_code != 200:
            raise Refused(_error_in(answer.content), answer.status_code)
        return kind.model_validate_json(answer.content)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _error_in(content: bytes) -> str:
    try:
        return Refusal.model_validate_json(content).error
    except ValidationError:
        return "it gives no reason"


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
