"""The connectors' jars, pinned by version and hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Artifact:
    """A jar of a Maven repository.

    Args:
        group: its group id.
        name: its artifact id.
        version: its version.
        sha256: hash of its bytes, in hexadecimal.
    """

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Its file name everywhere."""
        return f"{self.name}-{self.version}.jar"


def read_pins(text: str) -> tuple[Artifact, ...]:
    """Parse artifacts from lines of the form `group:name:version sha256`."""
    pins = []
    for line in filter(str.strip, text.splitlines()):
        coordinates, sha256 = line.split()
        group, name, version = coordinates.split(":")
        pins.append(Artifact(group, name, version, sha256))
    return tuple(pins)


KAFKA = read_pins(
    """
    org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705
    org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0 f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767
    org.apache.kafka:kafka-clients:3.9.2 014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8
    org.apache.commons:commons-pool2:2.13.1 f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f
    """  # noqa: E501
)
"""Spark's Kafka connector with its dependencies; Spark itself has the rest, such as the codecs."""

CONNECTORS: Mapping[str, tuple[Artifact, ...]] = {"kafka": KAFKA}
"""By format."""
