"""Kills and stops a job at random moments, over and over, and compares each round's output with that of a Spark batch.

Ends with 0 when the time is over, with 1 at the first round that went wrong, whose files are kept.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.chaos.lives import ChaosFailed, Round
from tests.chaos.published import play_published
from tests.integration.runtime import purchases_by_kafka as by_kafka
from tests.integration.runtime.fate import Fate
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import Purchases, Rows, line_rows, table_rows, write_job
from tests.integration.sinks.databases import Database
from tests.integration.sinks.lakes import Lake
from tests.servers.kafka import KafkaServer
from tests.servers.postgresql import PostgresqlServer

from streamjob_runtime.spark.session import SessionSettings, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MOST_LIVES = 12


def say(text: str) -> None:
    """Print a line with the time."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


def draw_shape(chance: random.Random, job: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Draw whether the job is one chain or several, with how much room between them, and how checkpoints cut them.

    Returns:
        Return the change of the job, and its description.
    """
    split = chance.random() < 0.5
    room = chance.choice([None, 100, 2000])
    mode = chance.choice(["aligned", "unaligned", "switching"])
    if not split:
        return {"checkpointing": {}}, "one chain"
    switching = {"mode": "aligned", "alignedCheckpointTimeout": "50ms"}
    changes = {
        "operators": [{**operator, "chain": False} for operator in job["operators"]],
        "channels": {"maxBatchRecords": room or 1_000_000, **({"capacityRecords": room} if room else {})},
        "checkpointing": switching if mode == "switching" else {"mode": mode},
    }
    return changes, f"several chains, {mode}, {'any number of' if room is None else room} records between two"


def compare(expected: Rows, found: Mapping[str, Rows]) -> None:
    """Compare the contents of the sinks with the expected ones. Raises ChaosFailed."""
    for name, rows in found.items():
        missing, surplus = expected - rows, rows - expected
        if missing or surplus:
            raise ChaosFailed(f"sink {name}: {missing.total()} rows missing, {surplus.total()} surplus")


def play(spark: SparkSession, seed: int, directory: Path, *, on_executors: bool = False) -> int:
    """Play one round; return the number of its lives.

    Args:
        spark: a session for the batch.
        seed: decides all.
        directory: where everything is.
        on_executors: whether the job runs on executors, which are killed as well.

    Raises:
        ChaosFailed: the job misbehaved, or its output is wrong.
    """
    chance = random.Random(seed)
    purchases = Purchases.write(
        directory / "input", files=chance.randint(5, 40), rows=chance.choice([10, 60, 300]), seed=seed
    )
    checkpointing = {"interval": chance.choice(["100ms", "400ms", "2s"]), "numRetained": chance.choice([1, 2, 3, 10])}
    changes, shape = draw_shape(chance, purchases.job())
    checkpointing |= changes.pop("checkpointing")
    say(f"  {shape}")
    file = write_job(directory / "job", purchases.job(checkpointing=checkpointing, **changes))
    with job_runs(file, directory / "snapshots", "purchases") as runs:
        played = Round(runs, chance, lambda text: say(f"  {text}"), on_executors=on_executors)
        played.run()
    found = {"table": table_rows(spark, file.parent / "table"), "lines": line_rows(spark, file.parent / "lines")}
    compare(purchases.batch(spark), found)
    return played.lives


def play_on_servers(spark: SparkSession, seed: int, directory: Path) -> int:
    """Play one round of a job from Kafka to Kafka, PostgreSQL and Iceberg, whose servers crash too; return its lives.

    Raises:
        ChaosFailed: its output is wrong, or something is left open.
        AssertionError: the job misbehaved.
    """
    chance = random.Random(seed)
    purchases = Purchases.write(directory / "input", files=chance.randint(10, 40), rows=by_kafka.BATCH, seed=seed)
    with KafkaServer() as broker, PostgresqlServer() as server:
        server.make_database("purchases")
        warehouse = directory / "warehouse"
        warehouse.mkdir()
        places = by_kafka.make_places(broker, Lake(Database(server, "purchases"), warehouse.as_uri()))
        interval = chance.choice(["100ms", "400ms", "2s"])
        job = {**by_kafka.job(broker, purchases, places), "checkpointing": {"interval": interval}}
        file, lives = write_job(directory / "job", job), 1
        with job_runs(file, directory / "snapshots", "purchases") as runs:
            fate = Fate(chance, runs)
            while lives < _MOST_LIVES:
                victims = chance.sample([broker, server], chance.randint(0, 2))
                named = ", ".join(victim.kind for victim in victims) or "nobody"
                say(f"  checkpoints every {interval}, life {lives}: crashes of {named}, a kill")
                if not fate.take(runs.start(environment=places.environment), victims):
                    break
                lives += 1
            last = runs.start(environment=places.environment)
            if last.wait() != 0:
                raise ChaosFailed(f"the last life failed:\n{last.output()}")
        compare(purchases.batch(spark), places.rows())
        if left := places.left_behind():
            raise ChaosFailed(f"left behind: {left}")
    return lives


def play_publishing(_: SparkSession, seed: int, directory: Path) -> int:
    """Play one round of a job that publishes each batch; return the number of its lives. Raises ChaosFailed."""
    return play_published(seed, directory, lambda text: say(f"  {text}"))


def main() -> int:
    """Read the command line and play until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to go on (60)")
    parser.add_argument("--seed", type=int, help="of the first round; each further one adds 1 (drawn)")
    parser.add_argument(
        "--servers", action="store_true", help="from Kafka to Kafka, PostgreSQL and Iceberg, whose servers crash too"
    )
    parser.add_argument("--executors", action="store_true", help="on two executors, which are killed as well")
    parser.add_argument(
        "--published", action="store_true", help="each batch published to Kafka, PostgreSQL or Delta; servers crash too"
    )
    options = parser.parse_args()
    if options.servers + options.executors + options.published > 1:
        parser.error("give one of --servers, --executors and --published")
    play_once: Callable[[SparkSession, int, Path], int] = partial(play, on_executors=options.executors)
    if options.servers or options.published:
        play_once = play_on_servers if options.servers else play_publishing
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    # The jobs run in sessions of their own: being told to end has to reach them.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    deadline = time.monotonic() + options.minutes * 60
    top = Path(tempfile.mkdtemp(prefix="streamjob-chaos-"))
    spark = start_session(SessionSettings(name="chaos", parallelism=2, max_parallelism=2, workdir=top / "spark"))
    rounds = lives = 0
    try:
        while time.monotonic() < deadline:
            directory = top / f"seed-{seed}"
            directory.mkdir()
            say(f"round {rounds + 1}, --seed {seed}")
            try:
                lives += play_once(spark, seed, directory)
            except (ChaosFailed, AssertionError) as failure:
                say(f"FAILED with --seed {seed}: {failure}\neverything is kept in {directory}")
                return 1
            shutil.rmtree(directory)
            rounds, seed = rounds + 1, seed + 1
    finally:
        spark.stop()
    say(f"{rounds} rounds of {lives} lives: all outputs are those of the batch")
    shutil.rmtree(top, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
