"""A round of a job that publishes each batch to Kafka, PostgreSQL or Delta; servers crash as its processes do."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.lives import SUPERSEDED, ChaosFailed
from tests.integration.runtime.executor_processes import LONG, ON_TWO
from tests.integration.runtime.processes import WITHIN, JobProcess, job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.test_published_batches import (
    expected,
    fill,
    make_topics,
    name_of,
    published,
    publishing_job,
)
from tests.integration.runtime.test_published_lake_tables import found as found_in_lake
from tests.integration.runtime.test_published_tables import TABLES, found, options_in, table_job, wanted
from tests.integration.sinks.databases import Database
from tests.servers.kafka import KafkaServer
from tests.servers.postgresql import PostgresqlServer

_TOPIC = "chaos-published"
_RECORDS = 1800
_MOST_LIVES = 40
_SHORT_LIFE = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Most processes live for seconds: what the second compiler costs never pays off."""


@dataclass(frozen=True)
class Target:
    """Where a job of a round publishes, what is there, and what a batch makes of all records."""

    job: dict[str, Any]
    found: Callable[[], Mapping[str, Counter[Any]]]
    wanted: Mapping[str, Counter[Any]]
    servers: tuple[KafkaServer | PostgresqlServer, ...]


def play_published(seed: int, directory: Path, say: Callable[[str], None]) -> int:
    """Play one round; return the number of its lives.

    Args:
        seed: decides all.
        directory: where everything is.
        say: told what happens.

    Raises:
        ChaosFailed: a row is missing or there twice, or the job misbehaved.
    """
    chance = random.Random(seed)
    interval = chance.choice(["500ms", "3s", "1h"])
    kind = chance.choice(["kafka", "postgresql", "delta"])
    with ExitStack() as stack:
        broker = stack.enter_context(KafkaServer())
        fill(broker, _TOPIC, records=_RECORDS)
        database = None
        if kind == "postgresql":
            server = stack.enter_context(PostgresqlServer())
            server.make_database("chaos")
            database = Database(server, "chaos")
        target = _target(kind, broker, database, directory, interval)
        # One or two chains: each further one makes all starts slower.
        sinks = chance.sample(sorted(target.wanted), chance.choice([1, 1, 2]))
        job = _with_sinks(target.job, sinks)
        say(f"{' and '.join(sinks)} to {kind}, checkpoints every {interval}")
        file = directory / "job" / "job.yaml"
        file.parent.mkdir()
        sleepers: list[JobProcess] = []
        environment = {**_SHORT_LIFE, **({"SECRET": database.server.password} if database else {})}
        runs = stack.enter_context(job_runs(file, directory / "snapshots", name_of(_TOPIC)))

        def start() -> JobProcess:
            parallelism = chance.choice([1, 2])
            write_job(file.parent, {**job, "parallelism": parallelism})
            on = ON_TWO if kind == "kafka" and chance.random() < 0.1 else ()
            say(f"{parallelism} slots{', two executors' if on else ''}")
            return runs.start(*on, workdir=f"work-{len(sleepers)}", environment=environment)

        for life in range(1, _MOST_LIVES):
            process = start()
            if _is_over(process, target, chance):
                return _end(life, process, sleepers, target, sinks)
            _wake(sleepers, chance, say)
            for victim in chance.sample(target.servers, chance.choice([0, 0, 0, 0, 1])):
                say(f"a crash of {victim.kind}")
                victim.kill()
                time.sleep(chance.uniform(0, 0.7))
                victim.start()
                time.sleep(chance.uniform(0, 6))
            if chance.random() < 0.15:
                process.stop()
                sleepers.append(process)
                say("the process sleeps")
            else:
                process.kill()
                say("the process is killed")
        process = start()
        process.wait(LONG)
        return _end(_MOST_LIVES, process, sleepers, target, sinks)


def _target(kind: str, broker: KafkaServer, database: Database | None, directory: Path, interval: str) -> Target:
    if kind == "kafka":
        make_topics(broker, _TOPIC)
        job = publishing_job(broker, _TOPIC, interval=interval, bounded=True)
        return Target(job, lambda: published(broker, _TOPIC), expected(_RECORDS), (broker,))
    if database is None:
        job = table_job(broker, _TOPIC, interval, lambda table: {"path": str(directory / table)}, "delta")
        return Target(job, lambda: found_in_lake(directory), wanted(_RECORDS), (broker,))
    for name, columns in TABLES.items():
        database.execute(f"CREATE TABLE {name} ({columns})")
    job = table_job(broker, _TOPIC, interval, options_in(database))
    return Target(job, lambda: found(database), wanted(_RECORDS), (broker, database.server))


def _with_sinks(job: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return a job with some of its sinks, and with what these read."""
    sinks = [each for each in job["sinks"] if each["name"] in names]
    operators = [each for each in job["operators"] if each["name"] in {sink["input"] for sink in sinks}]
    read = {name for each in operators for name in each["inputs"]}
    return {**job, "sinks": sinks, "operators": operators, "sources": [s for s in job["sources"] if s["name"] in read]}


def _is_over(process: JobProcess, target: Target, chance: random.Random) -> bool:
    """Wait for a moment to kill it, or until it has ended by itself; return whether it has ended."""
    if chance.random() < 0.3:
        # Any moment of a start, and of what runs again.
        _wait(process, lambda: False, chance.uniform(2, 20))
        return process.exit_code is not None
    wanted_rows = _seen(target) + 1
    if not _wait(process, lambda: _seen(target) >= wanted_rows, LONG):
        raise ChaosFailed(f"no more rows within {LONG:.0f} s:\n{process.output()}")
    _wait(process, lambda: False, chance.expovariate(1.0))
    return process.exit_code is not None


def _wait(process: JobProcess, condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether a condition holds, or the process has ended, within `seconds`."""
    deadline = time.monotonic() + seconds
    while process.exit_code is None and not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _seen(target: Target) -> int:
    """Return how many rows readers of committed ones see."""
    return sum(each.total() for each in target.found().values())


def _wake(sleepers: list[JobProcess], chance: random.Random, say: Callable[[str], None]) -> None:
    """Wake a process behind which another has taken over, or leave it for later."""
    if sleepers and chance.random() < 0.5:
        code = _woken(sleepers.pop(chance.randrange(len(sleepers))))
        say(f"a sleeper woke and ended with {code}")


def _woken(sleeper: JobProcess) -> int:
    """Wake a process, and return its exit code. Raises ChaosFailed if it is not that of a superseded one."""
    sleeper.wake()
    if (code := sleeper.wait(WITHIN)) not in (0, SUPERSEDED):
        raise ChaosFailed(f"a sleeper ended with {code}:\n{sleeper.output()}")
    return code


def _end(life: int, process: JobProcess, sleepers: list[JobProcess], target: Target, sinks: Sequence[str]) -> int:
    """Compare what is there with what a batch makes of all records; return the number of lives."""
    if process.exit_code != 0:
        raise ChaosFailed(f"life {life} ended with {process.exit_code}:\n{process.output()}")
    for sleeper in sleepers:
        _woken(sleeper)
    there = target.found()
    for name in sinks:
        rows = target.wanted[name]
        missing, surplus = rows - there[name], there[name] - rows
        if missing or surplus:
            raise ChaosFailed(f"{name}: {missing.total()} rows missing, {surplus.total()} surplus")
    return life
