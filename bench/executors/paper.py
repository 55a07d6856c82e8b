"""Extrapolates from the measured parts to a hundred executors and a terabyte of state."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.executors.results import EMPTY, MEASURED_EXECUTORS, Crowd, Manifested, Restored, Taken
from bench.tables import MB, Table

from streamjob_runtime.executors.messages import CONNECTIONS

EXECUTORS, CORES, STATE_TB, INTERVAL = 100, 4, 1.0, 10.0
PARTITIONS = EXECUTORS * CORES
_SST_BYTES = 64e6
"""RocksDB's target."""
_OTHERS = 60
"""Files of a partition that are no SSTs, at most: changelogs between two snapshots, archives, schemas."""
_HEARTBEATS = 1 / 20
"""Polls a second of an agent that has nothing to do."""

_CONCLUSION = """\
Manifests do not break first: one of this size takes the driver less than a second in ten, and a request. They would
need to be written in parts from about ten times as many files. Connections did: a control API of 128 connections
refuses the agents of more than about a dozen executors when all open their state at once. An agent now has at most
{connections} connections, and the driver has room for those of all executors, besides the 128.
"""

_TEXT = """\
## A hundred executors and a terabyte of state, on paper

{executors} executors of {cores} cores, {partitions} state partitions, {state:g} TB of state, a checkpoint every
{interval:g} s. RocksDB's files have 64 MB each, and a partition has up to {others} changelogs and other small files
between two of its snapshots. Each figure is a measured one times a count; nothing of this size was run.
"""


def paper(
    crowds: Sequence[Crowd], manifests: Sequence[Manifested], taken: Sequence[Taken], restores: Sequence[Restored]
) -> list[str]:
    """Return the section."""
    text = _TEXT.format(
        executors=EXECUTORS, cores=CORES, partitions=PARTITIONS, state=STATE_TB, interval=INTERVAL, others=_OTHERS
    )
    table = Table(("figure", "value", "from"), _rows(crowds, manifests, taken, restores))
    return [text, table.markdown(), _CONCLUSION.format(connections=CONNECTIONS)]


def puts_of_executor(taken: Sequence[Taken]) -> float:
    """Return the most PUT requests that a further executor adds to a checkpoint, over the numbers of partitions."""
    slopes = [0.0]
    for partitions in {each.partitions for each in taken}:
        mine = [each for each in taken if each.partitions == partitions and each.executors]
        puts = {
            executors: median(each.puts for each in mine if each.executors == executors)
            for executors in {each.executors for each in mine}
        }
        if len(puts) > 1:
            few, many = min(puts), max(puts)
            slopes.append((puts[many] - puts[few]) / (many - few))
    return max(slopes)


def _rows(
    crowds: Sequence[Crowd], manifests: Sequence[Manifested], taken: Sequence[Taken], restores: Sequence[Restored]
) -> tuple[tuple[str, str, str], ...]:
    """Return the figures, each with how it was computed."""
    files = STATE_TB * 1e12 / _SST_BYTES + PARTITIONS * _OTHERS
    largest = max(manifests, key=lambda each: each.files)
    share = files / largest.files
    write = largest.write_cpu * share
    puts = puts_of_executor(taken)
    restore = max((run for run in restores if run.way == EMPTY), key=lambda run: run.state_bytes)
    rate = restore.state_bytes / MEASURED_EXECUTORS / (restore.first_batch - restore.running)
    each = STATE_TB * 1e12 / EXECUTORS
    measured = f"measured with {restore.state_bytes / MB:.0f} MB on {MEASURED_EXECUTORS} executors"
    most = max(crowd.agents for crowd in crowds)
    crowd = [crowd for crowd in crowds if crowd.agents == most]
    agents_cpu = median(crowd.cpu for crowd in crowd) * EXECUTORS / most
    share_of_core = f"{(agents_cpu + write) / INTERVAL:.0%}"
    return (
        ("files of a checkpoint", f"{files:,.0f}", "1 TB / 64 MB, and the small files of all partitions"),
        ("manifest, MB", f"{largest.size / 1e6 * share:.0f}", f"{largest.size / largest.files:.0f} bytes a file"),
        ("manifests, MB/s to the bucket", f"{largest.size / 1e6 * share / INTERVAL:.1f}", "one for each checkpoint"),
        ("manifest in the driver, MB", f"{largest.memory / 1e6 * share:.0f}", "each; up to three at a time"),
        ("driver CPU s to write it", f"{write:.2f}", f"measured with {largest.files:,} files"),
        ("PUT of a checkpoint", f"{puts * EXECUTORS:,.0f}", f"{puts:.1f} for each executor"),
        ("PUT a second", f"{puts * EXECUTORS / INTERVAL:.0f}", "a bucket takes 3,500 a second for each prefix"),
        ("an executor's state, GB", f"{each / 1e9:.0f}", "1 TB over all executors"),
        ("an executor fetches, MB/s", f"{rate / MB:.0f}", measured),
        ("restore onto empty disks, s", f"{each / rate:.0f}", "besides the start of Java"),
        ("the bucket sends, GB/s", f"{rate * EXECUTORS / 1e9:.1f}", "all executors at once"),
        ("agents' requests of a checkpoint", f"{crowd[0].requests * EXECUTORS / most:,.0f}", "as measured"),
        ("driver CPU s to answer agents", f"{agents_cpu:.2f}", f"measured with {most} agents"),
        ("polls a second", f"{EXECUTORS * _HEARTBEATS:.0f}", "while nothing happens"),
        ("driver's share of a core for checkpoints", share_of_core, "both of these, every interval"),
        ("connections of agents, at most", f"{EXECUTORS * CONNECTIONS:,}", f"{CONNECTIONS} for each"),
    )
