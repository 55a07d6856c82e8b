"""Proves that a driver and its executors know the same secret, which neither ever sends.

Each attempt of a job, which is one process of its driver, has a random id. The keys for its requests and for Spark's
own connections are derived from the secret and that id, so an executor of another attempt is a stranger.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass

from streamjob.errors import InvalidInput

SECRET_VARIABLE = "STREAMJOB_EXECUTOR_SECRET"
_MINIMUM_LENGTH = 16
_WINDOW = 1024


class NoSecret(InvalidInput):
    """The environment has no usable secret for executors."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The keys of one attempt.

    Args:
        attempt: its random id.
        key: signs requests of agents and the answers to them.
        spark_secret: authenticates and encrypts Spark's own connections.
    """

    attempt: str
    key: bytes
    spark_secret: str

    @staticmethod
    def derive(secret: str, attempt: str) -> Credentials:
        """Return the keys of an attempt.

        Args:
            secret: the secret that the job's processes share.
            attempt: the attempt's id.
        """
        return Credentials(attempt, _derived(secret, "agents", attempt), _derived(secret, "spark", attempt).hex())

    def sign(self, *parts: bytes) -> str:
        """Return the signature of a message, given its parts in order."""
        signature = hmac.new(self.key, digestmod=hashlib.sha256)
        for part in parts:
            signature.update(len(part).to_bytes(8, "big"))
            signature.update(part)
        return signature.hexdigest()

    def proves(self, signature: str, *parts: bytes) -> bool:
        """Return whether a signature is that of a message."""
        return hmac.compare_digest(signature.encode(), self.sign(*parts).encode())


class Counts:
    """Accepts each number of a sender once, in roughly ascending order, so that no request can be repeated."""

    def __init__(self) -> None:
        self._highest = 0
        self._seen: set[int] = set()

    def accept(self, count: int) -> bool:
        """Return whether a number is new; it is not from then on."""
        if count <= self._highest - _WINDOW or count in self._seen:
            return False
        self._seen.add(count)
        if count > self._highest:
            self._highest = count
            self._seen = {each for each in self._seen if each > count - _WINDOW}
        return True


def secret_of(environment: Mapping[str, str] = os.environ) -> str:
    """Return the secret in the environment.

    Raises:
        NoSecret: there is none, or it is too short.
    """
    secret = environment.get(SECRET_VARIABLE, "")
    if len(secret) < _MINIMUM_LENGTH:
        state = "not set" if not secret else f"shorter than {_MINIMUM_LENGTH} characters"
        raise NoSecret(
            f"The environment variable {SECRET_VARIABLE} is {state}",
            "set it to the same long random text for the job and its executors, such as `openssl rand -hex 32` prints",
        )
    return secret


def _derived(secret: str, purpose: str, attempt: str) -> bytes:
    return hmac.new(secret.encode(), f"streamjob {purpose} {attempt}".encode(), hashlib.sha256).digest()
