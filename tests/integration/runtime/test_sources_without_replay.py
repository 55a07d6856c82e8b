"""A source that cannot be replayed starts over at each start: a kill loses rows of it, and the job goes on."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import write_job
from tests.jobs import job_file, sink, source, sql

from streamjob.client.client import ControlClient
from streamjob.client.discovery import find_endpoint
from streamjob.errors import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@contextmanager
def counting() -> Iterator[int]:
    """Return the port of a server that sends each number once, whoever listens, a hundred a second."""
    ended, lock, numbers = threading.Event(), threading.Lock(), iter(range(1_000_000))

    def serve(client: socket.socket) -> None:
        with client:
            while not ended.wait(0.01):
                with lock:
                    try:
                        client.sendall(f"{next(numbers)}\n".encode())
                    except OSError:
                        return

    def accept(server: socket.socket) -> None:
        while not ended.is_set():
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        yield server.getsockname()[1]
        ended.set()
        # It does not end a thread that waits in `accept`.
        server.shutdown(socket.SHUT_RDWR)


def rows(directory: Path, name: str) -> list[dict[str, int]]:
    files = (directory / name).glob("*.json")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def numbers(directory: Path) -> list[int]:
    return sorted(row["n"] for row in rows(directory, "numbers"))


@pytest.mark.core
@pytest.mark.timeout(400)
def test_a_job_on_a_socket_goes_on_with_its_state_behind_a_kill_and_loses_what_the_plan_says(tmp_path: Path) -> None:
    with counting() as port:
        options = {"host": "127.0.0.1", "port": port, "includeTimestamp": True}
        lines = {**source("lines", "socket"), "options": options, "watermark": {"column": "timestamp", "delay": "0s"}}
        parsed = sql("numbers", "lines", "SELECT CAST(value AS BIGINT) AS n, timestamp FROM {}")
        counts = "SELECT count(*) AS n, min(n) AS first, max(n) AS last FROM {} GROUP BY window(timestamp, '1 second')"
        job = job_file(
            *(parsed, sql("counts", "numbers", counts)),
            sources=[lines],
            sinks=[sink("numbers", "json", tmp_path / "numbers"), sink("counts", "json", tmp_path / "counts")],
            name="socket",
            checkpointing={"interval": "300ms"},
        )
        file = write_job(tmp_path, job)
        with job_runs(file, tmp_path / "snapshots", "socket") as runs:
            killed = runs.start()
            runs.wait(lambda: len(rows(tmp_path, "counts")) > 2, "windows", killed)
            killed.kill()
            before = numbers(tmp_path)

            again = runs.start()
            runs.wait(lambda: len(numbers(tmp_path)) > len(before) + 200, "rows behind the kill", again)
            endpoint = find_endpoint(workdir=file.parent / "work")
            with ControlClient(endpoint.url, endpoint.token) as client:
                assert [(each.uid, each.lossy, each.promise) for each in client.job().sinks] == [
                    ("to-numbers", True, "lossy"),
                    ("to-counts", True, "lossy"),
                ]
            again.send(signal.SIGINT)
            assert again.wait() == ExitCode.OK, again.output()

    found = numbers(tmp_path)
    assert not [number for number, times in Counter(found).items() if times > 1]
    missing = sorted(set(range(found[-1])) - set(found))
    assert missing == list(range(missing[0], missing[-1] + 1)), "lost at another time than the kill"
    assert before[-1] < missing[-1]
    windows = [row for row in rows(tmp_path, "counts") if row["last"] < missing[0] or row["first"] > missing[-1]]
    assert all(row["n"] == row["last"] - row["first"] + 1 for row in windows)
    assert any(row["first"] > missing[-1] for row in windows)
