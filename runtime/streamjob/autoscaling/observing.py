"""Takes a report into the memory: fits the chains, the arrivals, restarts, saturation; decides nothing."""

from __future__ import annotations

import copy
from dataclasses import replace
from math import ceil, exp, sqrt

from streamjob.autoscaling.capacity import ALPHA, BUSY, DAY, MODEL_ERROR, error_of, gain
from streamjob.autoscaling.chain_model import ChainModel, fitted
from streamjob.autoscaling.load import ChainLoad, LoadReport
from streamjob.autoscaling.memory import MOVES_KEPT, PAUSES_KEPT, WIDTHS_KEPT, FullLoad, Knee, Memory, Move
from streamjob.autoscaling.policy import Means

EXTERNAL = "External"
"""The rule of a move that somebody else made."""
HELPED = 0.4
"""Share of the expected gain below which a move has not helped: two errors of a judged throughput below all of it."""
JUDGED_SECONDS = 240.0
"""Seconds under full load after which a number of slots is judged: its error is then that of the fit."""
_MEASURABLE = 0.15
"""Gain of capacity below which a move is too small to judge: it is that of two judged throughputs by their errors."""
_MEMORY_SECONDS = 600.0
"""Most seconds under full load that older measurements count for, so that rows that have become costly show."""
_BACKLOG = 3.0
"""Batches, or seconds of throughput, that wait at least for a job to be under full load: the reported lag is as of the
last batch, another may have taken its records by now, and the next one is about to."""
_IDLE_PART = 0.25
"""Part of a slot that is not worth another one."""
_SKEW_SECONDS = 120.0
"""Time constant of the mean of the skew: a reason is to name it within a few minutes, and not for one batch."""
_QUIET_START = 60.0
"""Seconds without a batch after which a job that runs has nothing to read."""
_SILENCE, _SILENT_BATCHES = 30.0, 2.0
"""Seconds, and usual batches, without a batch after which nothing has arrived: three reports."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 1800.0
"""Seconds that a restart takes: never none, and a longer pause was waiting for something else."""


def observe(memory: Memory, load: LoadReport) -> Memory:
    """Return the memory with a report taken in; a report that is not newer than the last one changes nothing."""
    heard, seen = memory.heard, memory.seen
    if heard is not None and load.time <= heard:
        return memory
    new = copy.copy(memory)
    new.heard = load.time
    restarted = seen is not None and load.running and _restarted(seen, load)
    if (restarted or not load.running) and new.down_since is None:
        new.down_since, new.running_since = load.time if heard is None else heard, None
    if not load.running:
        return new
    if seen is None and any(chain.batches for chain in load.chains):
        # A first start may have waited for an image: it says nothing of how long restarts take.
        new.down_since = None
    base = load if seen is None else _beginning(seen, load) if restarted else seen
    if new.running_since is None:
        new.running_since = load.time
    if new.down_since is not None:
        if _has_progress(base, load):
            # On average the job stopped half an interval between two reports behind the last one before the pause, and
            # began half of one before this.
            pause = load.time - new.down_since - (load.time - heard if heard is not None else 0.0)
            new.pauses = (*new.pauses, min(max(pause, _SHORTEST_PAUSE), _LONGEST_PAUSE))[-PAUSES_KEPT:]
            new.running_since = load.time
        else:
            new.seen = base if restarted else seen
            if load.time - new.running_since < _QUIET_START:
                return new
            # It runs and has nothing to read: this says nothing of how long restarts take.
        new.down_since = None
    if not load.is_complete:
        # Its work is that of another number of slots than the reported one.
        new.seen = _take_in_arrivals(new, base, load)
        return new
    _width(new, load)
    new.seen = _take_in(new, base, load, restarted=restarted)
    _judge(new, load)
    new.moves = tuple(move for move in new.moves if load.time - move.time <= DAY)[-MOVES_KEPT:]
    return new


def _restarted(seen: LoadReport, load: LoadReport) -> bool:
    return seen.process != load.process or load.rows < seen.rows or len(seen.chains) > len(load.chains)


def _beginning(seen: LoadReport, load: LoadReport) -> LoadReport:
    """Return a process's report before its first batch: its counters are 0, its sources as the last one left them."""
    chains = tuple(ChainLoad(chain.uid, 0.0, 0, 0.0) for chain in load.chains)
    return LoadReport(seen.time, load.slots, 0.0, chains, seen.sources, process=load.process)


def _has_progress(base: LoadReport, load: LoadReport) -> bool:
    before = {chain.uid: chain.batches for chain in base.chains}
    return any(chain.batches > before.get(chain.uid, 0) for chain in load.chains)


def _width(new: Memory, load: LoadReport) -> None:
    """Adapt the model of the chains to a new number of slots, and remember a change that somebody else made."""
    before, new.slots = new.slots, load.slots
    if before is None or before == load.slots:
        return
    if not new.moves or new.moves[-1].after != load.slots:
        row = sum(chain.row_seconds * chain.ratio for chain in new.chains)
        in_place = new.running_since is not None and new.running_since < load.time
        move = Move(
            time=load.time,
            before=before,
            after=load.slots,
            means=Means.EXECUTORS if load.executor_slots else Means.IN_PLACE if in_place else Means.RESTART,
            rule=EXTERNAL,
            capacity=BUSY / row if row > 0 else 0.0,
            expected=gain(before, load.slots),
            confirmed=True,
        )
        new.moves = (*new.moves, move)
    factor = 1 / gain(before, load.slots, new.knee.slots if new.knee else None)
    new.chains = tuple(chain.at_width(factor) for chain in new.chains)


def _take_in(new: Memory, base: LoadReport, load: LoadReport, *, restarted: bool) -> LoadReport:
    """Take in the counters between two reports, and return the report that the next one is compared with."""
    elapsed = load.time - base.time
    if elapsed <= 0:
        return load
    if restarted and (base.position is None or load.position is None):
        # What was read again cannot be told from what has arrived.
        _fit(new, base, load, elapsed, load.lag or 0.0)
        return load
    taken = _take_in_arrivals(new, base, load)
    if taken is load and _has_progress(base, load):
        _fit(new, base, load, elapsed, base.lag or 0.0)
        if not restarted:
            _full_load(new, base, load, elapsed)
    return taken


def _take_in_arrivals(new: Memory, base: LoadReport, load: LoadReport) -> LoadReport:
    """Take in the records that arrived between two reports, and return the report to compare the next one with."""
    elapsed = load.time - base.time
    if elapsed <= 0:
        return load
    if not _has_progress(base, load):
        # A batch is under way, or there is nothing to read: silence is believed once a batch would have ended.
        longest = max((c.seconds / c.batches for c in base.chains if c.batches), default=0.0)
        if elapsed < max(_SILENCE, _SILENT_BATCHES * longest):
            return base
    before, after = base.position, load.position
    if before is None or after is None:
        before, after = base.rows, load.rows
    arrived = after + (load.lag or 0.0) - before - _lag_before(base, load)
    new.arrivals = new.arrivals.add(load.time, max(0.0, arrived), elapsed)
    return load


def _lag_before(base: LoadReport, load: LoadReport) -> float:
    """Return the lag of a report as the next one counts: an estimate that becomes better is no arrival of records."""
    if load.lag is None:
        return base.lag or 0.0
    now, lag = {source.uid: source for source in load.sources}, 0.0
    for before in base.sources:
        after = now.get(before.uid, before)
        if after.record_bytes and before.record_bytes:
            lag += (before.lag or 0.0) * before.record_bytes / after.record_bytes
        else:
            lag += (after.lag if after.record_bytes and before.lag is None else before.lag) or 0.0
    return lag


def _fit(new: Memory, base: LoadReport, load: LoadReport, elapsed: float, waited: float) -> None:
    before = {chain.uid: chain for chain in base.chains}
    models = {model.uid: model for model in new.chains}
    for chain in load.chains:
        old = before.get(chain.uid) or ChainLoad(chain.uid, 0.0, 0, 0.0)
        batches, rows, seconds = chain.batches - old.batches, chain.rows - old.rows, chain.seconds - old.seconds
        if batches > 0 and rows > 0 and seconds > 0:
            models[chain.uid] = fitted(
                models.get(chain.uid) or ChainModel(chain.uid),
                batches=batches,
                rows=rows,
                seconds=seconds,
                due=new.arrivals.rate(_SILENCE) + waited,
                source_rows=load.rows - base.rows,
                covered=max(elapsed, 1.0),
            )
    new.chains = tuple(models[chain.uid] for chain in load.chains if chain.uid in models)


def _full_load(new: Memory, base: LoadReport, load: LoadReport, elapsed: float) -> None:
    """Learn from a time in which records waited all along: throughput under full load, and skew."""
    rows, waited = load.rows - base.rows, min(base.lag or 0.0, load.lag or 0.0)
    batches = max(chain.batches for chain in load.chains) - max((chain.batches for chain in base.chains), default=0)
    if batches <= 0 or rows <= 0 or waited < _BACKLOG * max(rows / batches, rows / elapsed):
        return
    known = next((full for full in new.full if full.slots == load.slots and load.time - full.time < DAY), None)
    before, rate = (min(known.seconds, _MEMORY_SECONDS), known.rate) if known else (0.0, 0.0)
    total = before + elapsed
    others = tuple(full for full in new.full if full.slots != load.slots)[-WIDTHS_KEPT + 1 :]
    new.full = (*others, FullLoad(load.slots, (rate * before + rows) / total, total, load.time))
    parts = [(s.largest_lag, s.lag, s.partitions) for s in load.sources]
    uneven = [part / whole * count for part, whole, count in parts if part is not None and whole and count]
    if uneven:
        new.skew += (1 - exp(-elapsed / _SKEW_SECONDS)) * (max(uneven) - new.skew)


def _judge(new: Memory, load: LoadReport) -> None:
    """Confirm the last move, and compare it with what was expected of it once both sides of it are known."""
    move = new.moves[-1] if new.moves else None
    if move is None or load.slots != move.after or new.running_since is None:
        return
    begun = max(new.running_since, move.time)
    age, is_periodic = load.checkpoint_age, load.checkpoint_interval is not None
    if not is_periodic or (age is not None and load.time - age >= begun):
        move = replace(move, confirmed=True)
    known = {full.slots: full for full in new.full if load.time - full.time < DAY}
    after, before = known.get(move.after), known.get(move.before)
    rates = [(move.capacity, MODEL_ERROR)] if move.capacity > 0 else []
    if before is not None:
        rates.append((before.rate, error_of(before)))
    if after is not None and after.seconds >= JUDGED_SECONDS and after.time > begun and rates:
        # By what was measured and what the model gave, each counting by its error.
        weight = sum(error**-2 for _, error in rates)
        reached = after.rate * weight / sum(rate * error**-2 for rate, error in rates)
        expected = gain(move.before, move.after)
        move = replace(move, reached=reached)
        if expected - 1.0 >= _MEASURABLE:
            gained = (reached - 1.0) / (expected - 1.0)
            error = reached * sqrt(error_of(after) ** 2 + 1 / weight) / (expected - 1.0)
            if gained + 2 * error < HELPED:
                _saturated(new, load, move, reached, gained)
            elif gained >= HELPED and new.knee is not None and move.after > new.knee.slots:
                new.knee = None
    new.moves = (*new.moves[:-1], move)


def _saturated(new: Memory, load: LoadReport, move: Move, reached: float, gained: float) -> None:
    if new.knee is not None and new.knee.slots <= move.before and load.time - new.knee.found < DAY:
        return
    slowest = max(new.chains, key=lambda chain: chain.row_seconds * chain.ratio)
    slots = ceil(move.before * max(reached, 1.0) ** (1 / ALPHA) - _IDLE_PART)
    new.knee = Knee(min(max(slots, move.before), move.after), slowest.uid, load.time, gained)
