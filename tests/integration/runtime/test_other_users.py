"""Another user of the machine reaches Spark's ports on loopback, and gets nothing there."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.processes import kill_session, members_of

from streamjob_runtime.spark.gateway import java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"),
]

CALL = b"c\np0\ngetClass\ne\n"
"""A call of a method of the first function that was handed to Spark, in py4j's protocol."""
RPC = bytes.fromhex("000000000000001d03") + bytes(8) + bytes.fromhex("00000000") + b"\xac\xed\x00\x05spark"
"""A request of Spark's RPC without a login before it."""

CONNECT = """
import os, socket, sys
assert os.getuid() != 0
with socket.socket(socket.AF_UNIX) as connection:
    try:
        connection.connect(sys.argv[1])
    except PermissionError:
        print("refused")
"""
WITH_A_PAGE = """
import sys
from pathlib import Path
from streamjob_runtime.spark.session import SessionSettings, start_session

conf = {"spark.ui.enabled": "true"}
spark = start_session(SessionSettings("page", 1, 1, Path(sys.argv[1]), conf=conf))
spark.sparkContext.parallelize([1], 1).map(lambda number: number).collect()
print(spark.sparkContext.uiWebUrl, flush=True)
sys.stdin.read()
spark.stop()
"""
LISTENING = "0A"
WORKERS = b"-m\0streamjob_runtime.spark.python_workers\0"
"""In the command lines of Python workers."""

STRANGER = """
import os, socket, sys
assert os.getuid() != 0
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10) as connection:
    connection.sendall(bytes.fromhex(sys.argv[2]))
    connection.settimeout(10)
    try:
        sys.stdout.buffer.write(connection.recv(4096))
    except ConnectionResetError:
        pass
"""


def stranger(program: str, *arguments: str) -> bytes:
    """Run a program as another user; return its output."""
    # The interpreter of the tests may be where only its owner reads.
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", python, "-I", "-c", program]
    done = subprocess.run([*other, *arguments], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def said_to_a_stranger(port: int, request: bytes) -> bytes:
    return stranger(STRANGER, str(port), request.hex())


def listening(processes: list[int]) -> dict[int, str]:
    """Return the TCP ports on which processes listen, and the addresses in the kernel's notation."""
    inodes = set()
    for process in processes:
        for each in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(each.readlink()).removeprefix("socket:[").removesuffix("]"))
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in inodes:
                address, _, port = fields[1].rpartition(":")
                found[int(port, 16)] = address
    return found


def gateway_of(spark: SparkSession) -> Any:
    return spark.sparkContext._gateway


def test_another_user_cannot_call_into_the_jobs_python(spark: SparkSession) -> None:
    assert said_to_a_stranger(gateway_of(spark)._callback_server.port, CALL) == b""


def test_spark_itself_calls_into_the_jobs_python(spark: SparkSession) -> None:
    jvm = java_of(spark)
    called: list[str] = []

    class Listener:
        class Java:
            implements = ("java.lang.Runnable",)

        def run(self) -> None:
            called.append("run")

    thread = jvm.java.lang.Thread(Listener())
    thread.start()
    thread.join(10_000)

    assert called == ["run"]


def test_another_user_gets_no_answer_of_the_drivers_rpc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.authenticate") == "true"
    port = spark.conf.get("spark.driver.port")
    assert port is not None
    answer = said_to_a_stranger(int(port), RPC)
    # It closes the connection, or says that it expected a login.
    assert not answer or b"sasl" in answer.lower()


def test_another_user_cannot_reach_what_spark_and_its_python_processes_say_to_each_other(spark: SparkSession) -> None:
    spark.sparkContext.parallelize([1], 1).map(lambda number: number).collect()

    directory = Path(str(spark.conf.get("spark.python.unix.domain.socket.dir")))
    sockets = list(directory.glob(".*.sock"))
    assert len(sockets) >= 2, "the accumulators' server and the one that starts workers"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stranger(CONNECT, str(each)) for each in sockets} == {b"refused\n"}


@pytest.mark.slow
def test_all_that_spark_and_its_python_processes_listen_on_is_loopback_also_with_sparks_page(tmp_path: Path) -> None:
    started = subprocess.Popen(
        [sys.executable, "-c", WITH_A_PAGE, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdin is not None
    assert started.stdout is not None
    try:
        page = int(started.stdout.readline().strip().rpartition(":")[2])
        processes = members_of(started.pid)
        ports = listening(processes)
        workers = [each for each in processes if WORKERS in Path(f"/proc/{each}/cmdline").read_bytes()]
        of_workers = listening(workers)
        started.stdin.close()
        assert started.wait(60) == 0
    finally:
        kill_session(started)

    assert page in ports
    assert workers
    assert of_workers == {}
    assert all(address.endswith("0100007F") for address in ports.values()), ports


def test_no_secret_of_spark_is_in_a_process_list(spark: SparkSession) -> None:
    gateway = gateway_of(spark)
    secrets = [gateway.callback_server_parameters.auth_token, gateway.java_parameters.auth_token]
    listed = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert all(secret and secret not in listed for secret in secrets)
