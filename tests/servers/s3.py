"""A real S3 server as a process of its own: versitygw over a temporary directory, or moto where that is missing.

    with S3Server() as server:
        location = f"s3://{server.bucket}/some/prefix"
        environment = server.environment

versitygw is taken from `$VERSITYGW`, the PATH, or `../shared/servers/run` beside the repository. With `CI=true` it is
required; elsewhere moto's server stands in for it, and `which_server()` says so.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

REPOSITORY = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
_READY_WITHIN = 30.0


class ServerMissing(Exception):
    """No S3 server can be started here, and the run must not go on without one."""


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
    if os.environ.get("CI") == "true":
        raise ServerMissing("versitygw is required when CI=true: set VERSITYGW, or put it on the PATH")
    return "S3 server: moto, because versitygw was not found: its answers under faults and races prove less"


def free_port(host: str = LOOPBACK) -> int:
    """Return a TCP port of an address of this machine that is free now."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])


class S3Server:
    """An S3 server with one empty bucket, started on entry and ended on exit.

    Args:
        directory: where it keeps its data; None for a temporary directory that is removed on exit.
        host: the address of this machine that it listens on.
    """

    access_key = "test"
    secret_key = "testtest"
    region = "us-east-1"
    bucket = "snapshots"

    def __init__(self, directory: Path | None = None, *, host: str = LOOPBACK) -> None:
        self._given = directory
        self._directory = Path()
        self._host = host
        self._cleanup = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.is_versitygw = find_versitygw() is not None

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://{self._host}:{self.port}"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

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

    def __enter__(self) -> S3Server:
        which_server()
        directory = self._given
        if directory is None:
            directory = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="s3-server-")))
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        try:
            for _ in range(5):
                self.port = free_port(self._host)
                self._start(directory)
                if self._ready():
                    break
                self._end()
            else:
                raise ServerMissing(f"the S3 server did not start:\n{(directory / 'server.log').read_text()[-2000:]}")
            self.make_bucket(self.bucket)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._cleanup.close()

    def stop(self) -> None:
        """End it, and keep what it has stored."""
        self._end()

    def start_again(self) -> None:
        """Start it once more behind `stop`, at the same port."""
        self._start(self._directory)
        if not self._ready():
            raise ServerMissing(f"no S3 server started again:\n{(self._directory / 'server.log').read_text()[-2000:]}")

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

    def _start(self, directory: Path) -> None:
        data, sidecar = directory / "data", directory / "sidecar"
        data.mkdir(exist_ok=True)
        command = find_versitygw()
        if command is None:
            arguments = [sys.executable, "-m", "moto.server", "-H", self._host, "-p", str(self.port)]
        else:
            arguments = [*command, "--port", f"{self._host}:{self.port}", "--quiet", "--keep-alive", "posix"]
            if not _has_extended_attributes(data):
                sidecar.mkdir(exist_ok=True)
                arguments += ["--sidecar", str(sidecar)]
            arguments.append(str(data))
        keys = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        with (directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                arguments, env={**os.environ, **keys}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _ready(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + _READY_WITHIN
        while time.monotonic() < deadline and self._process.poll() is None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((self._host, self.port), timeout=1) as connection,
            ):
                connection.settimeout(5)
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if connection.recv(5) == b"HTTP/" and self._process.poll() is None:
                    return True
            time.sleep(0.05)
        return False

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


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
