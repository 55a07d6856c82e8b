"""Extrapolates from the measured parts to a hundred executors and a terabyte of state."""

from __future__ import annotations

from statistics import median

from bench.executors.restore import EMPTY, MEASURED_EXECUTORS
from bench.executors.results import Checkpoints, Executors, Restored
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


def paper(results: Executors) -> list[str]:
    """Return the section, if the parts that it needs were measured."""
    if not (results.agents and results.manifest):
        return []
    text = _TEXT.format(
        executors=EXECUTORS, cores=CORES, partitions=PARTITIONS, state=STATE_TB, interval=INTERVAL, others=_OTHERS
    )
    return [text, table(results).markdown() + "\n", _CONCLUSION.format(connections=CONNECTIONS)]


def puts_of_executor(runs: tuple[Checkpoints, ...]) -> float:
    """Return the most PUT requests that a further executor adds to a checkpoint, over the numbers of partitions."""
    slopes = [0.0]
    for partitions in {run.partitions for run in runs}:
        mine = {run.executors: _puts(run) for run in runs if run.partitions == partitions and run.executors}
        if len(mine) > 1:
            few, many = min(mine), max(mine)
            slopes.append((mine[many] - mine[few]) / (many - few))
    return max(slopes)


def _puts(run: Checkpoints) -> float:
    return median(each.requests.get("PutObject", 0) for each in run.samples)


def _requests(puts: float) -> tuple[tuple[str, str, str], ...]:
    """Return the rows on requests to the bucket, given how many an executor adds to a checkpoint."""
    return (
        ("PUT of a checkpoint", f"{puts * EXECUTORS:,.0f}", f"{puts:.1f} for each executor"),
        ("PUT a second", f"{puts * EXECUTORS / INTERVAL:.0f}", "a bucket takes 3,500 a second for each prefix"),
    )


def _restores(runs: tuple[Restored, ...]) -> tuple[tuple[str, str, str], ...]:
    """Return the rows on a restore onto empty disks, by the largest one that was measured; none without one."""
    empty = [run for run in runs if run.way == EMPTY]
    if not empty:
        return ()
    largest = max(empty, key=lambda run: run.state_bytes)
    rate = largest.state_bytes / MEASURED_EXECUTORS / (largest.first_batch - largest.running)
    each = STATE_TB * 1e12 / EXECUTORS
    measured = f"measured with {largest.state_bytes / MB:.0f} MB on {MEASURED_EXECUTORS} executors"
    return (
        ("an executor's state, GB", f"{each / 1e9:.0f}", "1 TB over all executors"),
        ("an executor fetches, MB/s", f"{rate / MB:.0f}", measured),
        ("restore onto empty disks, s", f"{each / rate:.0f}", "besides the start of Java"),
        ("the bucket sends, GB/s", f"{rate * EXECUTORS / 1e9:.1f}", "all executors at once"),
    )


def table(results: Executors) -> Table:
    """Return the figures, each with how it was computed."""
    assert results.agents
    assert results.manifest
    files = STATE_TB * 1e12 / _SST_BYTES + PARTITIONS * _OTHERS
    largest = max(results.manifest.runs, key=lambda each: each.files)
    share = files / largest.files
    most = max(each.agents for each in results.agents.runs)
    crowd = [each for each in results.agents.runs if each.agents == most]
    agents_cpu = median(each.cpu for each in crowd) * EXECUTORS / most
    write = largest.write_cpu * share
    rows = (
        ("files of a checkpoint", f"{files:,.0f}", "1 TB / 64 MB, and the small files of all partitions"),
        ("manifest, MB", f"{largest.size / 1e6 * share:.0f}", f"{largest.size / largest.files:.0f} bytes a file"),
        ("manifests, MB/s to the bucket", f"{largest.size / 1e6 * share / INTERVAL:.1f}", "one for each checkpoint"),
        ("manifest in the driver, MB", f"{largest.memory / 1e6 * share:.0f}", "each; up to three at a time"),
        ("driver CPU s to write it", f"{write:.2f}", f"measured with {largest.files:,} files"),
        *(_requests(puts_of_executor(results.checkpoints.runs)) if results.checkpoints else ()),
        *(_restores(results.restore.runs) if results.restore else ()),
        ("agents' requests of a checkpoint", f"{crowd[0].requests * EXECUTORS / most:,.0f}", "as measured"),
        ("driver CPU s to answer agents", f"{agents_cpu:.2f}", f"measured with {most} agents"),
        ("polls a second", f"{EXECUTORS * _HEARTBEATS:.0f}", "while nothing happens"),
        (
            "driver's share of a core for checkpoints",
            f"{(agents_cpu + write) / INTERVAL:.0%}",
            "both of these, every interval",
        ),
        (
            "connections of agents, at most",
            f"{EXECUTORS * CONNECTIONS:,}",
            f"{CONNECTIONS} for each",
        ),
    )
    return Table(("figure", "value", "from"), rows)
