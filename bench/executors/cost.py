"""Measures the CPU per record and the batches of a job on two executors, against the same job in one process."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from bench.compare import count_rows, our_batches, used_between
from bench.data import EventFiles
from bench.executors.results import Cost
from bench.executors.setting import Setting, on_executors
from bench.executors.threads import Sampler, between
from bench.processes import measure
from bench.rounds import rounds

LOCAL, REMOTE = "local[2]", "2 executors"
_FILE_RECORDS, _FILES_OF_A_BATCH = 250_000, 4
_KEYS = 10_000


def cost(setting: Setting, records: int, count: int, on_run: Callable[[Cost], None]) -> tuple[Cost, ...]:
    """Run both sides in turn, in several rounds. Raises RunFailed if one fails."""
    runs = []
    for number, turn in rounds((LOCAL, REMOTE), count, None):
        for side in turn:
            runs.append(_run(setting, side, number, records))
            on_run(runs[-1])
    return tuple(runs)


def _run(setting: Setting, side: str, number: int, records: int) -> Cost:
    name = f"cost-{side.replace(' ', '-').replace('[', '-').rstrip(']')}-{number}"
    directory = setting.work / name
    directory.mkdir(parents=True)
    changes: dict[str, object] = {
        "sources.events.options.path": EventFiles(records, _KEYS, _FILE_RECORDS).make(setting.cache),
        "sinks.report.options.path": directory / "output",
    }
    executors = 2 if side == REMOTE else 0
    job = on_executors("windows.yaml", setting.location(name), directory / "work", changes, executors)
    with Sampler() as sampler:
        used = measure(job, directory, setting.timeout)
    batches = our_batches(directory / "work")
    batch_records = _FILE_RECORDS * _FILES_OF_A_BATCH
    full = records // batch_records
    half, end = batches[full // 2 - 1].end, batches[full - 1].end
    result = Cost(
        side=side,
        round=number,
        records=records,
        rows=count_rows(directory / "output"),
        wall=used.wall,
        cpu=used.user + used.system,
        warm_cpu=used_between(used.samples, batches[0].end, end),
        warm_records=(full - 1) * batch_records,
        late_cpu=used_between(used.samples, half, end),
        late_records=(full - full // 2) * batch_records,
        late_threads=between(sampler.samples, half, end),
        batches_ms=tuple(batch.milliseconds for batch in batches[1 : full - 1]),
        load_before=used.load_before,
    )
    shutil.rmtree(directory)
    return result
