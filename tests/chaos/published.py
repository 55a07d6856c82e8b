"""A round of a job that publishes each batch to Kafka and PostgreSQL, which crash as its processes do."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.lives import SUPERSEDED, ChaosFailed
from tests.integration.runtime.executor_processes import LONG, ON_TWO
from tests.integration.runtime.processes import WITHIN, JobProcess, job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.test_published_batches import (
    EXPERIMENT,
    expected,
    fill,
    make_topics,
    name_of,
    published,
    publishing_job,
)
from tests.integration.runtime.test_published_tables import TABLES, found, options_in, table_job, wanted
from tests.integration.sinks.databases import Database
from tests.servers.kafka import KafkaServer
from tests.servers.postgresql import PostgresqlServer

_TOPIC = "chaos-published"
_RECORDS = 3600
_MOST_LIVES = 25


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
    with KafkaServer() as broker, PostgresqlServer() as server:
        server.make_database("chaos")
        database = Database(server, "chaos")
        fill(broker, _TOPIC, records=_RECORDS)
        make_topics(broker, _TOPIC)
        for name, columns in TABLES.items():
            database.execute(f"CREATE TABLE {name} ({columns})")
        file = directory / "job" / "job.yaml"
        file.parent.mkdir()
        sleepers: list[JobProcess] = []
        with job_runs(file, directory / "snapshots", name_of(_TOPIC)) as runs:

            def start() -> JobProcess:
                parallelism = chance.choice([1, 2])
                write_job(file.parent, _job(broker, database, interval, parallelism))
                on = ON_TWO if chance.random() < 0.2 else ()
                say(f"checkpoints every {interval}, {parallelism} slots{', two executors' if on else ''}")
                environment = {**EXPERIMENT, "SECRET": server.password}
                return runs.start(*on, workdir=f"work-{len(sleepers)}", environment=environment)

            for life in range(1, _MOST_LIVES):
                process = start()
                if _is_over(process, lambda: _seen(broker, database), chance):
                    return _end(life, process, sleepers, broker, database)
                _wake(sleepers, chance, say)
                for victim in chance.sample([broker, server], chance.choice([0, 0, 0, 1, 2])):
                    say(f"a crash of {victim.kind}")
                    victim.kill()
                    time.sleep(chance.uniform(0, 0.7))
                    victim.start()
                    time.sleep(chance.uniform(0, 6))
                if chance.random() < 0.2:
                    process.stop()
                    sleepers.append(process)
                    say("the process sleeps")
                else:
                    process.kill()
                    say("the process is killed")
            process = start()
            process.wait(LONG)
            return _end(_MOST_LIVES, process, sleepers, broker, database)


def _job(broker: KafkaServer, database: Database, interval: str, parallelism: int) -> dict[str, Any]:
    """Return a job of five chains that publish each batch, two to topics and three to tables."""
    to_topics = publishing_job(broker, _TOPIC, interval=interval, bounded=True)
    to_tables = table_job(broker, _TOPIC, interval, options_in(database))
    for sink in to_tables["sinks"]:
        sink["name"] = f"table_{sink['name']}"
    parts = {part: [*to_topics[part], *to_tables[part]] for part in ("sources", "operators", "sinks")}
    return {**to_topics, **parts, "parallelism": parallelism}


def _seen(broker: KafkaServer, database: Database) -> int:
    """Return how many rows readers of committed ones see."""
    return sum(each.total() for rows in (published(broker, _TOPIC), found(database)) for each in rows.values())


def _is_over(process: JobProcess, seen: Callable[[], int], chance: random.Random) -> bool:
    """Wait for a moment to kill it, or until it has ended by itself; return whether it has ended."""
    if chance.random() < 0.4:
        # Any moment of a start, and of what runs again.
        deadline = time.monotonic() + chance.uniform(0, 20)
        while process.exit_code is None and time.monotonic() < deadline:
            time.sleep(0.1)
        return process.exit_code is not None
    wanted_rows, deadline = seen() + chance.randint(1, 900), time.monotonic() + LONG
    while process.exit_code is None and seen() < wanted_rows:
        if time.monotonic() > deadline:
            raise ChaosFailed(f"no more rows within {LONG:.0f} s:\n{process.output()}")
    time.sleep(chance.uniform(0, 0.5))
    return process.exit_code is not None


def _wake(sleepers: list[JobProcess], chance: random.Random, say: Callable[[str], None]) -> None:
    """Wake a process behind which another has taken over, or leave it for later."""
    if sleepers and chance.random() < 0.5:
        sleeper = sleepers.pop(chance.randrange(len(sleepers)))
        sleeper.wake()
        code = sleeper.wait(WITHIN)
        say(f"a sleeper woke and ended with {code}")
        if code not in (0, SUPERSEDED):
            raise ChaosFailed(f"a sleeper ended with {code}:\n{sleeper.output()}")


def _end(life: int, process: JobProcess, sleepers: list[JobProcess], broker: KafkaServer, database: Database) -> int:
    """Compare what is there with what a batch makes of all records; return the number of lives."""
    if process.exit_code != 0:
        raise ChaosFailed(f"life {life} ended with {process.exit_code}:\n{process.output()}")
    for sleeper in sleepers:
        sleeper.wake()
        if (code := sleeper.wait(WITHIN)) not in (0, SUPERSEDED):
            raise ChaosFailed(f"a sleeper ended with {code}:\n{sleeper.output()}")
    topics, tables = published(broker, _TOPIC), found(database)
    for place, expected_rows in ((topics, expected(_RECORDS)), (tables, wanted(_RECORDS))):
        for name, rows in expected_rows.items():
            missing, surplus = rows - place[name], place[name] - rows
            if missing or surplus:
                raise ChaosFailed(f"{name}: {missing.total()} rows missing, {surplus.total()} surplus")
    return life
