"""The texts of EXECUTORS.md, a title and a paragraph for each part."""

from __future__ import annotations

_COST = """\
The windows of a minute over 10,000 keys, from Parquet to Parquet, a million records a batch: in one process
with two task slots, and on two executors with a core each. CPU is that of the whole process tree, agents and
driver included; `per million` leaves out the first batch and the last one, and with them starts and ends; `later half`
leaves out the first half of the batches.
"""

THREADS = """\
What threads do with it in the later half of the batches:
"""

_CHECKPOINTS = """\
A job that keeps the newest payload of 4,000 keys, 4 MB in all. Each checkpoint follows a batch that changes
every key. Requests are all that reach the S3 server from the trigger until the record is in the log. `0` is a
job in one process. Medians, and in brackets the least and the most.
"""

_RESTORE = """\
The same job with more keys, from the start of its process until it runs, and until its first batch has ended;
Java's start is a part of both. Executors that survive the driver's SIGKILL have the files still. With
`streamjob run --executors`, executors start with the driver; in the two last rows they run before it.
"""

_LOSS = """\
One of two executors is killed with SIGKILL while a file a second arrives; a checkpoint every 5 s. Seconds from
the kill to the first new output of a sink, to output that is newer than all before, and until readers see that.
"""

_FLINK = """\
The same job and the same input on Flink 2.3: a JobManager and two TaskManagers with a slot each, RocksDB, a
checkpoint every 5 s, and Flink's defaults. One TaskManager is killed with SIGKILL, and another one starts in the same
moment. The first new output is a printed row; the file sink's rows are published behind a checkpoint.
"""

FLINK_PHASES = """The steps of Flink until its first new output:
"""
FLINK_PHASE_NAMES = ("the JobManager knows", "the job runs again", "first row")

PHASES = """\
The steps of streamjob until its first new output, each behind the one before:
"""
PHASE_NAMES = ("the driver knows", "the agent starts Java", "Spark has it", "restore and first batch")

_START = """\
From the start of `streamjob executor` until Spark has registered its Java, with the archive of classes and
without.
"""

_AGENTS = """\
The driver's real HTTP routes, and as many real clients in another process. Each agent has 4 state partitions of
60 files; at a checkpoint it asks which are known, asks for 4 keys, and reports its files. CPU is the driver's
alone.
"""

_MANIFEST = """\
A manifest with so many files of state, each with an object of its own; CPU seconds to write it as JSON and to
read it, and the memory of its objects.
"""

TEXTS = {
    "cost": ("CPU and batches", _COST),
    "checkpoints": ("Checkpoints", _CHECKPOINTS),
    "restore": ("Restore", _RESTORE),
    "loss": ("Loss of an executor", _LOSS),
    "flink": ("Loss of a TaskManager of Flink", _FLINK),
    "start": ("Start of an executor", _START),
    "agents": ("Agents of many executors", _AGENTS),
    "manifest": ("Manifests", _MANIFEST),
}
"""By the name of the part, in the order of the report."""
