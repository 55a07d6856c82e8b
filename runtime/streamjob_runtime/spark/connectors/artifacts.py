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

PROTOBUF = read_pins(
    """
    com.squareup.wire:wire-schema-jvm:7.1.2 0c6a9adeba1628b4641178a96fb393e02570ce5c2f418ab562498b3d8f15e545
    com.squareup.wire:wire-runtime-jvm:7.1.2 104b97326ed7ca4747def1a5d7d1923e4d96ac35f58f9dcecf4af6c76d5ebbe2
    com.squareup.okio:okio-jvm:3.18.2 681fed549d1d2c63710f42c9eab433d642c71af778babd67035c50f8c425aaff
    org.jetbrains.kotlin:kotlin-stdlib:2.0.21 f31cc53f105a7e48c093683bbd5437561d1233920513774b470805641bedbc09
    """
)
"""The compiler of .proto files; Spark itself has the library that reads and writes messages."""

CONNECTORS: Mapping[str, tuple[Artifact, ...]] = {"kafka": KAFKA, "protobuf": PROTOBUF}
"""By format, of a part or of its records."""
