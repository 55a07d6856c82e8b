"""Which rights the Kafka sink needs, on a real broker that gives none by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from pyspark.sql import SparkSession
from tests.integration.sinks.topics import Topics
from tests.servers.kafka import KafkaServer
from tests.servers.process import LOOPBACK, free_port

from streamjob.errors import StreamJobError
from streamjob_runtime.kafka.errors import KafkaRefuses

pytestmark = [pytest.mark.spark, pytest.mark.server]

PASSWORD = "only-for-tests-4b1d"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class GuardedServer(KafkaServer):
    """A broker with a second listener, where a role logs in that has no rights but those that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.guarded = f"{LOOPBACK}:{free_port()}"

    def settings(self) -> dict[str, str]:
        """Return what is written to `server.properties`."""
        controller = f"{LOOPBACK}:{free_port()}"
        own = f"PLAINTEXT://{self.bootstrap},GUARDED://{self.guarded}"
        return {
            **super().settings(),
            "listeners": f"{own},CONTROLLER://{controller}",
            "advertised.listeners": own,
            "controller.quorum.voters": f"1@{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.guarded.plain.sasl.jaas.config": f'{LOGIN} user_writer="{PASSWORD}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    def allow(
        self,
        kind: ResourceType,
        name: str,
        *operations: AclOperation,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    ) -> None:
        """Give the role a right."""
        given = [
            AclBinding(kind, name, pattern, "User:writer", "*", each, AclPermissionType.ALLOW) for each in operations
        ]
        for future in self.admin.create_acls(given).values():
            future.result(30)


@pytest.fixture
def guarded(kafka_server: KafkaServer, spark: SparkSession, tmp_path: Path) -> Iterator[Topics]:
    """Return topics of a broker that guards them; there is one where the shared one can be had."""
    with GuardedServer() as server:
        own = Topics(server, spark, tmp_path / "scratch")
        own.make()
        yield own
        own.close()


@pytest.mark.slow
def test_the_rights_that_are_missing_are_told_one_by_one_and_those_of_the_guide_are_enough(guarded: Topics) -> None:
    server = guarded.server
    assert isinstance(server, GuardedServer)
    options = guarded.options(
        **{
            "kafka.bootstrap.servers": server.guarded,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{LOGIN} username="writer" password="{PASSWORD}";',
        }
    )

    def refusal(**changes: str) -> str:
        with pytest.raises(StreamJobError) as caught:
            guarded.open(options={**options, **changes})
        assert isinstance(caught.value, KafkaRefuses), str(caught.value)
        assert PASSWORD not in str(caught.value)
        return caught.value.what

    wrong = {"kafka.sasl.jaas.config": f'{LOGIN} username="writer" password="wrong";'}
    assert "do not let it in" in refusal(**wrong)
    assert f"could not describe topic {guarded.rows}: it may not" in refusal()
    server.allow(ResourceType.TOPIC, guarded.rows, AclOperation.DESCRIBE)
    assert f"may not write to topic {guarded.rows}" in refusal()
    server.allow(ResourceType.TOPIC, guarded.rows, AclOperation.WRITE)
    assert f"could not describe topic {guarded.commits}: it may not" in refusal()
    server.allow(ResourceType.TOPIC, guarded.commits, AclOperation.DESCRIBE, AclOperation.WRITE)
    assert f"may not read topic {guarded.commits}" in refusal()
    server.allow(ResourceType.TOPIC, guarded.commits, AclOperation.READ)
    assert "may not use the transactional id streamjob/default/" in refusal()
    transactions = (AclOperation.DESCRIBE, AclOperation.WRITE)
    server.allow(ResourceType.TRANSACTIONAL_ID, "streamjob/", *transactions, pattern=ResourcePatternType.PREFIXED)

    sink = guarded.open(options=options)
    staged = guarded.stage(sink, "1")
    guarded.commit(sink, 1, staged)
    guarded.commit(guarded.open(2, options), 1, staged)
    assert guarded.values() == ["1"]
