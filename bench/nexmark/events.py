"""Makes Nexmark's persons, auctions and bids: the same ones for the same number of events.

Of 50 events, one is a person, three are auctions, 46 are bids, as in Flink's generator
(github.com/nexmark/nexmark, GeneratorConfig): half of the bids go to the newest hot auction, three quarters come from
the newest hot bidder. 10,000 events happen in a second.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

TABLES = ("person", "auction", "bid")
CYCLE = 50
_AUCTIONS = 3
_PER_SECOND = 10_000
_BEGIN_US = 1_704_067_200_000_000  # 2024-01-01
_MADE_AT = 1_704_067_200
_FIRST_ID = 1000
_HOT = 100
_ACTIVE_PEOPLE = 1000
_IN_FLIGHT = 100
_TEXTS = 4096
_COLD_CHANNELS = 10_000
_STATES = ("az", "ca", "id", "or", "wa", "wy")
_CITIES = ("phoenix", "los angeles", "san francisco", "boise", "portland", "bend", "seattle", "cheyenne")
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")

Numbers = NDArray[np.int64]


def make_events(cache: Path, events: int, chunk: int) -> Path:
    """Return a directory with the events twice: `spark/<table>` in files of a chunk, `flink/<table>` in two files.

    Flink's source takes files in any order. Two files for two tasks, each in the order of time, keep rows from being
    late; the rows are the same.

    Args:
        cache: directory that outlasts the run.
        events: how many.
        chunk: events a file for Spark.
    """
    directory = cache / f"nexmark-{events}-{chunk}"
    if directory.is_dir():
        return directory
    making = directory.with_name(f".{directory.name}-{os.getpid()}")
    shutil.rmtree(making, ignore_errors=True)
    for side in ("spark", "flink"):
        for table in TABLES:
            (making / side / table).mkdir(parents=True)
    writers: dict[tuple[str, int], parquet.ParquetWriter] = {}
    for number, begin in enumerate(range(0, events, chunk)):
        for table, rows in _tables(number, np.arange(begin, min(begin + chunk, events))).items():
            file = making / "spark" / table / f"{number:05}.parquet"
            parquet.write_table(rows, file, compression="snappy")
            # Spark reads files in the order of these times.
            os.utime(file, (_MADE_AT + number, _MADE_AT + number))
            for half in (0, 1):
                if (table, half) not in writers:
                    target = making / "flink" / table / f"{half}.parquet"
                    writers[table, half] = parquet.ParquetWriter(target, rows.schema, compression="snappy")
                writers[table, half].write_table(rows.take(np.arange(half, rows.num_rows, 2)))
    for writer in writers.values():
        writer.close()
    making.rename(directory)
    return directory


def _tables(seed: int, numbers: Numbers) -> Mapping[str, pa.Table]:
    chance = np.random.default_rng(seed)
    kind = numbers % CYCLE
    return {
        "person": _persons(chance, numbers[kind == 0]),
        "auction": _auctions(chance, numbers[(kind >= 1) & (kind <= _AUCTIONS)]),
        "bid": _bids(chance, numbers[kind > _AUCTIONS]),
    }


@cache
def _texts() -> NDArray[np.object_]:
    letters = np.random.default_rng(7).integers(97, 123, (_TEXTS, 80), dtype=np.uint8)
    return np.array([bytes(each).decode() for each in letters], dtype=object)


@cache
def _pages() -> NDArray[np.object_]:
    pages = (
        f"https://www.nexmark.com/{each[:5]}/{each[5:10]}/item.htm?query=1&channel_id={number}"
        for number, each in enumerate(_texts())
    )
    return np.array(list(pages), dtype=object)


@cache
def _cold_channels() -> NDArray[np.object_]:
    return np.array([f"channel-{each}" for each in range(_COLD_CHANNELS)], dtype=object)


def _times(numbers: Numbers) -> pa.Array:
    return pa.array(_BEGIN_US + numbers * (1_000_000 // _PER_SECOND), pa.timestamp("us", tz="UTC"))


def _newest_person(numbers: Numbers) -> Numbers:
    return numbers // CYCLE


def _newest_auction(numbers: Numbers) -> Numbers:
    return numbers // CYCLE * _AUCTIONS + np.clip(numbers % CYCLE - 1, 0, _AUCTIONS - 1)


def _people(chance: np.random.Generator, numbers: Numbers, hot: float) -> Numbers:
    """Return a person for each event: the newest hot one, or one of the newest thousand."""
    newest = _newest_person(numbers)
    some = newest - chance.integers(0, np.minimum(newest, _ACTIVE_PEOPLE - 1) + 1)
    return _FIRST_ID + np.where(chance.random(len(numbers)) < hot, newest // _HOT * _HOT, some)


def _persons(chance: np.random.Generator, numbers: Numbers) -> pa.Table:
    ids = _newest_person(numbers) + _FIRST_ID
    count = len(ids)
    return pa.table(
        {
            "id": ids,
            "name": [f"person {each}" for each in ids],
            "city": chance.choice(_CITIES, count),
            "state": chance.choice(_STATES, count),
            "ts": _times(numbers),
            "extra": _texts()[chance.integers(0, _TEXTS, count)],
        }
    )


def _auctions(chance: np.random.Generator, numbers: Numbers) -> pa.Table:
    ids = _newest_auction(numbers) + _FIRST_ID
    count = len(ids)
    return pa.table(
        {
            "id": ids,
            "itemName": _texts()[chance.integers(0, _TEXTS, count)],
            "initialBid": _prices(chance, count),
            "seller": _people(chance, numbers, 0.75),
            "category": chance.integers(10, 15, count),
            "ts": _times(numbers),
            "extra": _texts()[chance.integers(0, _TEXTS, count)],
        }
    )


def _prices(chance: np.random.Generator, count: int) -> Numbers:
    return np.round(10 ** (chance.random(count) * 6) * 100).astype(np.int64)


def _bids(chance: np.random.Generator, numbers: Numbers) -> pa.Table:
    count = len(numbers)
    newest = _newest_auction(numbers)
    some = newest - chance.integers(0, np.minimum(newest, _IN_FLIGHT - 1) + 1)
    auctions = _FIRST_ID + np.where(chance.random(count) < 0.5, newest // _HOT * _HOT, some)
    chosen = chance.integers(0, _COLD_CHANNELS, count)
    channels = np.where(
        chance.random(count) < 0.5,
        np.array(_HOT_CHANNELS, dtype=object)[chosen % len(_HOT_CHANNELS)],
        _cold_channels()[chosen],
    )
    return pa.table(
        {
            "auction": auctions,
            "bidder": _people(chance, numbers, 0.75),
            "price": _prices(chance, count),
            "channel": pa.array(channels, pa.string()),
            "url": pa.array(_pages()[chosen % _TEXTS], pa.string()),
            "ts": _times(numbers),
            "extra": pa.array(_texts()[chance.integers(0, _TEXTS, count)], pa.string()),
        }
    )
