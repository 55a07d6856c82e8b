"""A real S3 server as a process of its own: versitygw over a temporary directory, or moto where that is missing.

    with S3Server() as server:
        location = f"s3://{server.bucket}/some/prefix"
        environment = server.environment

versitygw is taken from `$VERSITYGW`, the PATH, or `../shared/servers/run` next to the repository. With `CI=true` it is
required; otherwise moto's server replaces it, and `which_server()` reports it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from tests.servers.process import ServerMissing, ServerProcess, required

REPOSITORY = Path(__file__).resolve().parents[2]


def find_versitygw() -> list[str] | None:
    """Return the command that starts versitygw, or None where there is none."""
    named = os.environ.get("VERSITYGW")
    if named:
        return [named]
    found = shutil.which("versitygw")
    if found:
        return [found]
    run = REPOSITORY.parent / "shared" / "servers" / "run"
    return [str(run), "versitygw"] if run.is_file() else None


def which_server() -> str:
    """Return one line for the head of a test run: which S3 server the tests use.

    Raises:
        ServerMissing: CI=true, and versitygw is not there.
    """
    command = find_versitygw()
    if command is not None:
        return f"S3 server: versitygw ({command[0]})"
    if required():
        raise ServerMissing("versitygw is required when CI=true: set VERSITYGW, or put it on the PATH")
    return "S3 server: moto, because versitygw was not found: its answers under faults and races prove less"


class S3Server(ServerProcess):
    """An S3 server with one empty bucket, started on entry and ended on exit."""

    kind = "S3"
    ready_within = 30.0

    access_key = "test"
    secret_key = "testtest"
    region = "us-east-1"
    bucket = "snapshots"

    @property
    def is_versitygw(self) -> bool:
        """Whether it is versitygw, and not what stands in for it."""
        return find_versitygw() is not None

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://{self.host}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a process reaches it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def make(self) -> None:
        """Make the directory for its data."""
        which_server()
        (self.directory / "data").mkdir(exist_ok=True)

    def command(self) -> list[str]:
        """Return the command that starts it at its port."""
        data, sidecar = self.directory / "data", self.directory / "sidecar"
        versitygw = find_versitygw()
        if versitygw is None:
            return [sys.executable, "-m", "moto.server", "-H", self.host, "-p", str(self.port)]
        arguments = [*versitygw, "--port", f"{self.host}:{self.port}", "--quiet", "--keep-alive", "posix"]
        if not _has_extended_attributes(data):
            sidecar.mkdir(exist_ok=True)
            arguments += ["--sidecar", str(sidecar)]
        return [*arguments, str(data)]

    def how_to_run(self) -> dict[str, Any]:
        """Return its keys, in its environment."""
        keys = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        return {"env": {**os.environ, **keys}}

    def answers(self) -> bool:
        """Return whether it speaks HTTP."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.host, self.port), timeout=1) as connection,
        ):
            connection.settimeout(5)
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(5) == b"HTTP/"
        return False

    def furnish(self) -> None:
        """Make its bucket."""
        self.make_bucket(self.bucket)

    def make_bucket(self, name: str) -> None:
        """Make a bucket unless it is there."""
        import boto3
        from botocore.config import Config

        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(s3={"addressing_style": "path"}),
        )
        try:
            with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
                client.create_bucket(Bucket=name)
        finally:
            client.close()


def _has_extended_attributes(directory: Path) -> bool:
    probe = directory / f".{secrets.token_hex(4)}"
    probe.touch()
    try:
        os.setxattr(probe, "user.probe", b"1")
    except OSError:
        return False
    finally:
        probe.unlink()
    return True
