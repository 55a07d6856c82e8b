"""A real server with SQS's protocol on loopback: ElasticMQ, with its messages in memory.

    with QueueServer() as server:
        url = server.make_queue("arrivals")

Its 37 MB of jars are downloaded once and kept next to the connectors. With `CI=true` they are required.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.servers.process import ServerMissing, ServerProcess, required

from streamjob.errors import StreamJobError
from streamjob_runtime.spark.connectors.artifacts import read_pins
from streamjob_runtime.spark.connectors.fetching import Repositories, fetch
from streamjob_runtime.spark.connectors.finding import cache_directory
from streamjob_runtime.spark.process.java import find_java

_PINS = Path(__file__).with_name("elasticmq.txt")
_CONFIGURATION = """
include classpath("application.conf")
rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = "{host}" }}
rest-stats {{ enabled = false }}
"""


@functools.cache
def find_elasticmq() -> Path | None:
    """Return the directory of the server's jars, fetched on the first call; None where they cannot be had."""
    directory = cache_directory(os.environ) / "elasticmq"
    try:
        fetch(read_pins(_PINS.read_text()), directory, os.environ, Repositories())
    except StreamJobError:
        if required():
            raise
        return None
    return directory


class QueueServer(ServerProcess):
    """A server of queues, started on entry and ended on exit."""

    kind = "SQS"
    # Nothing of it is needed later.
    last = signal.SIGKILL

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://{self.host}:{self.port}"

    def client(self) -> Any:
        """Return boto3's client of it."""
        import boto3

        return boto3.client(
            "sqs",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="testtest",
        )

    def make_queue(self, name: str) -> str:
        """Make a queue; return its URL."""
        return f"{self.endpoint}{urlsplit(self.client().create_queue(QueueName=name)['QueueUrl']).path}"

    def make(self) -> None:
        """Write its configuration."""
        text = _CONFIGURATION.format(host=self.host, port=self.port)
        (self.directory / "elasticmq.conf").write_text(text)

    def command(self) -> list[str]:
        """Return the command that starts it at its port."""
        jars = find_elasticmq()
        if jars is None:
            raise ServerMissing("ElasticMQ's jars cannot be fetched")
        java = find_java(os.environ, self.directory / "java").executable
        options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        options += [f"-Dconfig.file={self.directory / 'elasticmq.conf'}"]
        return [str(java), *options, "-cp", f"{jars}/*", "org.elasticmq.server.Main"]

    def answers(self) -> bool:
        """Return whether it can be connected to."""
        with socket.socket() as connection:
            connection.settimeout(1)
            return connection.connect_ex((self.host, self.port)) == 0
