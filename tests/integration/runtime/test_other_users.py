"""Another user of the machine reaches Spark's ports on loopback, and gets nothing there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

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


def said_to_a_stranger(port: int, request: bytes) -> bytes:
    # The interpreter of the tests may be where only its owner reads.
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    stranger = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", python, "-I", "-c", STRANGER]
    done = subprocess.run([*stranger, str(port), request.hex()], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def gateway_of(spark: SparkSession) -> Any:
    return spark.sparkContext._gateway


def test_another_user_cannot_call_into_the_jobs_python(spark: SparkSession) -> None:
    assert said_to_a_stranger(gateway_of(spark)._callback_server.port, CALL) == b""


def test_spark_itself_calls_into_the_jobs_python(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
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


def test_no_secret_of_spark_is_in_a_process_list(spark: SparkSession) -> None:
    gateway = gateway_of(spark)
    secrets = [gateway.callback_server_parameters.auth_token, gateway.java_parameters.auth_token]
    listed = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert all(secret and secret not in listed for secret in secrets)
