"""The names of a sink's objects, relative to its path in the bucket.

    part-<epoch>-<random>-<number>.snappy.parquet         visible once its upload is completed
    day=2013-01-01/part-<epoch>-<random>-<number>.…       with `partitionBy: [day]`
    _streamjob/owner                                      the sink that writes here
    _streamjob/committed/<time>-<checkpoint>-<random>     record of a commit that has begun

A file has its name from the moment when its upload begins, since an upload cannot be renamed. Objects below
`_streamjob` have no suffix, so that a pattern such as `**/*.json` does not match them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from streamjob.ids import CheckpointId, Epoch, Key

OWN = "_streamjob"
OWNER = Key(f"{OWN}/owner")
COMMITTED = f"{OWN}/committed/"
PROBES = f"{OWN}/probe-"

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# As Spark and Hive escape them.
_ESCAPED = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_FILE = re.compile(r"(?:.*/)?part-(\d+)-[0-9a-f]{32}-\d+\.[a-z0-9.]+")
_PROBE = re.compile(rf"{PROBES}(\d+)-[0-9a-f]+")


def file_name(epoch: Epoch, unique: str, number: int, suffix: str) -> str:
    """Return the name of a file, without its partition directories.

    Args:
        epoch: the epoch that writes it.
        unique: 32 hexadecimal digits that no other task and no other batch uses.
        number: its number among the files with the same digits.
        suffix: shows format and compression; begins with a dot.
    """
    return f"part-{epoch}-{unique}-{number}{suffix}"


def probe_key(epoch: Epoch, unique: str) -> Key:
    """Return the key of an object that tests the server.

    Args:
        epoch: the epoch that tests it.
        unique: hexadecimal digits that no other prober uses.
    """
    return Key(f"{PROBES}{epoch}-{unique}")


def epoch_of(key: str) -> Epoch | None:
    """Return the epoch that has begun to upload a file or a probe; None if the key is neither."""
    match = _FILE.fullmatch(key) or _PROBE.fullmatch(key)
    return Epoch(int(match[1])) if match else None


def partition_directory(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """Return the directory of a partition with a slash at its end, as Spark names it; empty without columns."""
    parts = (
        f"{_escaped(column)}={_escaped(value) if value else _NO_VALUE}"
        for column, value in zip(columns, values, strict=True)
    )
    return "".join(f"{part}/" for part in parts)


def record_key(time: float, checkpoint: CheckpointId, first_batch: str) -> Key:
    """Return the key of the record of a commit. Keys sort by time.

    Args:
        time: seconds since 1970.
        checkpoint: its id; another location of the same job starts at 1 again.
        first_batch: the id of the first batch, which makes the key unique.
    """
    return Key(f"{COMMITTED}{int(time):012d}-{checkpoint}-{first_batch}")


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)
