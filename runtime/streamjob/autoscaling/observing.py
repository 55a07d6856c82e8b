"""Takes a report into the memory: fits the chains, the arrivals, restarts, saturation; decides nothing."""

from __future__ import annotations

import copy
from dataclasses import replace
from math import ceil, exp, log, sqrt

from streamjob.autoscaling.chain_model import ChainModel, first_model, fitted
from streamjob.autoscaling.load import ChainLoad, LoadReport
from streamjob.autoscaling.memory import MOVES_KEPT, PAUSES_KEPT, WIDTHS_KEPT, FullLoad, Knee, Memory, Move
from streamjob.autoscaling.policy import Means

DAY = 86_400.0
EXTERNAL = "External"
"""The rule of a move that somebody else made."""
HELPED = 0.4
"""Share of the expected gain below which a move has not helped."""
_MEASURABLE = 0.15
"""Gain of capacity below which a move is too small to judge."""
JUDGED_SECONDS = 240.0
"""Seconds under full load after which a number of slots is judged."""
_MEMORY_SECONDS = 600.0
_ALPHA_STEP = 0.02
_NOISE, _MODEL_ERROR = 0.1, 0.07
_FIRST_LASTS, _CONFIRMED_LASTS = 14_400.0, 86_400.0
"""Seconds after which more slots are tried again: a measured limit may have been an accident, or have gone."""
_ALPHA_BOUNDS = (0.7, 1.0)
_BACKLOG = 3.0
"""Batches, or seconds of throughput, that wait at least for a job to be under full load."""
_BUSY_BOUNDS = (0.5, 2.0)
_QUIET_START = 60.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 1800.0


def observe(memory: Memory, load: LoadReport) -> Memory:
    """Return the memory with a report taken in; a report that is not newer than the last one changes nothing."""
    if memory.heard is not None and load.time <= memory.heard:
        return memory
    new = copy.copy(memory)
    heard, new.heard = memory.heard, load.time
    if not load.running:
        if new.down_since is None:
            new.down_since = heard if heard is not None else load.time
            new.running_since = None
        return new
    seen = memory.seen
    restarted = seen is not None and _restarted(seen, load)
    if seen is None or restarted:
        if restarted and new.down_since is None:
            new.down_since = heard
            new.running_since = None
        base = _beginning(seen, load) if seen is not None and restarted else load
    else:
        base = seen
    if seen is None and any(chain.batches for chain in load.chains):
        # A first start may have waited for an image: it says nothing of how long restarts take.
        new.down_since = None
    if new.down_since is not None:
        if not _has_progress(base, load):
            if restarted:
                new.seen = base
            if new.running_since is None:
                new.running_since = load.time
            if load.time - new.running_since < _QUIET_START:
                return new
            # It runs and has nothing to read: this says nothing of how long restarts take.
            new.down_since = None
        else:
            _end_of_pause(new, load, heard)
    if new.running_since is None:
        new.running_since = load.time
    if not load.is_complete:
        # Its work is that of another number of slots than the reported one.
        new.seen = _take_in_arrivals(new, base, load)
        return new
    _width(new, load)
    new.seen = _take_in(new, base, load, after_restart=restarted)
    _judge(new, load)
    if new.moves and load.time - new.moves[0].time > DAY:
        new.moves = tuple(move for move in new.moves if load.time - move.time <= DAY)[-MOVES_KEPT:]
    return new


def _restarted(seen: LoadReport, load: LoadReport) -> bool:
    return seen.process != load.process or load.rows < seen.rows or len(seen.chains) > len(load.chains)


def _beginning(seen: LoadReport, load: LoadReport) -> LoadReport:
    """Return a process's report before its first batch: its counters are 0, its sources as the last one left them."""
    return LoadReport(
        time=seen.time,
        slots=load.slots,
        rows=0.0,
        chains=tuple(ChainLoad(chain.uid, 0.0, 0, 0.0) for chain in load.chains),
        sources=seen.sources,
        process=load.process,
    )


def _has_progress(base: LoadReport, load: LoadReport) -> bool:
    before = {chain.uid: chain.batches for chain in base.chains}
    return any(chain.batches > before.get(chain.uid, 0) for chain in load.chains)


def _end_of_pause(new: Memory, load: LoadReport, heard: float | None) -> None:
    assert new.down_since is not None
    # On average the job stopped half an interval between two reports behind the last one, and began half before this.
    interval = load.time - heard if heard is not None else 0.0
    pause = load.time - new.down_since - interval
    new.pauses = (*new.pauses, min(max(pause, _SHORTEST_PAUSE), _LONGEST_PAUSE))[-PAUSES_KEPT:]
    new.down_since = None
    new.running_since = load.time


def _width(new: Memory, load: LoadReport) -> None:
    """Adapt the model of the chains to a new number of slots."""
    if new.slots == load.slots:
        return
    if new.slots is not None:
        _external(new, load, new.slots)
        factor = (new.slots / load.slots) ** new.alpha
        if new.knee is not None:
            factor = (min(new.slots, new.knee.slots) / min(load.slots, new.knee.slots)) ** new.alpha
        new.chains = tuple(chain.at_width(factor) for chain in new.chains)
    new.slots = load.slots


def _external(new: Memory, load: LoadReport, before: int) -> None:
    """Remember a change of the slots by somebody else as a move: it is measured and rested after like any other."""
    if new.moves and new.moves[-1].after == load.slots:
        return
    row = sum(chain.row_seconds * chain.ratio for chain in new.chains)
    in_place = new.running_since is not None and new.running_since < load.time
    move = Move(
        time=load.time,
        before=before,
        after=load.slots,
        means=_means_of_others(load, in_place=in_place),
        rule=EXTERNAL,
        capacity=new.busy / row if row > 0 else 0.0,
        expected=float((load.slots / before) ** new.alpha),
        confirmed=True,
    )
    new.moves = (*new.moves, move)


def _means_of_others(load: LoadReport, *, in_place: bool) -> Means:
    if load.executor_slots is not None:
        return Means.EXECUTORS
    return Means.IN_PLACE if in_place else Means.RESTART


def _take_in(new: Memory, base: LoadReport, load: LoadReport, *, after_restart: bool) -> LoadReport:
    """Take in the counters between two reports, and return the report that the next one is compared with."""
    elapsed = load.time - base.time
    if base is load or elapsed <= 0:
        return load
    if after_restart and (base.position is None or load.position is None):
        _fit(new, base, load, elapsed, due=_due(new, load.lag))
        return load
    taken = _take_in_arrivals(new, base, load)
    if taken is load and _has_progress(base, load):
        waited = base.lag or 0.0
        _fit(new, base, load, elapsed, due=_due(new, waited))
        if not after_restart:
            _backlog(new, base, load, elapsed, waited)
    return taken


def _take_in_arrivals(new: Memory, base: LoadReport, load: LoadReport) -> LoadReport:
    """Take in the records that arrived between two reports, and return the report to compare the next one with."""
    elapsed = load.time - base.time
    if elapsed <= 0:
        return load
    if not _has_progress(base, load):
        # A batch is under way, or there is nothing to read: silence is believed once a batch would have ended.
        longest = max((c.seconds / c.batches for c in base.chains if c.batches), default=0.0)
        if elapsed < max(30.0, 2.0 * longest):
            return base
    new.arrivals = new.arrivals.add(load.time, max(0.0, _arrived(base, load)), elapsed)
    return load


def _due(new: Memory, waited: float | None) -> float:
    return new.arrivals.rate(30.0) + (waited or 0.0)


def _arrived(base: LoadReport, load: LoadReport) -> float:
    before, after = base.position, load.position
    if before is None or after is None:
        before, after = base.rows, load.rows
    return after + (load.lag or 0.0) - before - (base.lag or 0.0)


def _fit(new: Memory, base: LoadReport, load: LoadReport, elapsed: float, *, due: float) -> None:
    before = {chain.uid: chain for chain in base.chains}
    models = {model.uid: model for model in new.chains}
    source_rows = load.rows - base.rows
    fits: list[ChainModel] = []
    for chain in load.chains:
        old = before.get(chain.uid)
        batches = chain.batches - (old.batches if old else 0)
        rows = chain.rows - (old.rows if old else 0.0)
        seconds = chain.seconds - (old.seconds if old else 0.0)
        model = models.get(chain.uid)
        if batches <= 0 or rows <= 0 or seconds <= 0:
            if model is not None:
                fits.append(model)
            continue
        if model is None:
            model = first_model(chain.uid)
        fits.append(
            fitted(
                model,
                batches=batches,
                rows=rows,
                seconds=seconds,
                due=due,
                source_rows=source_rows,
                covered=max(elapsed, 1.0),
            )
        )
    new.chains = tuple(fits)


def _backlog(new: Memory, base: LoadReport, load: LoadReport, elapsed: float, waited: float) -> None:
    """Learn from a time in which records waited all along: throughput under full load, and skew."""
    rows, left = load.rows - base.rows, load.lag or 0.0
    batches = max((chain.batches for chain in load.chains), default=0) - max(
        (chain.batches for chain in base.chains), default=0
    )
    # The lag is as of the last batch, and another batch may have taken its records by now.
    if batches <= 0 or rows <= 0 or min(waited, left) < _BACKLOG * max(rows / batches, rows / elapsed):
        return
    share = 1 - exp(-elapsed / 120.0)
    row = sum(chain.fixed * batches / rows + chain.row_seconds * chain.ratio for chain in new.chains)
    if row > 0:
        new.busy += share * (min(max(rows / elapsed * row, _BUSY_BOUNDS[0]), _BUSY_BOUNDS[1]) - new.busy)
    _full_load(new, load, rows / elapsed, elapsed)
    parts = [(s.largest_lag, s.lag, s.partitions) for s in load.sources]
    uneven = [part / whole * count for part, whole, count in parts if part is not None and whole and count]
    if uneven:
        new.skew += share * (max(uneven) - new.skew)


def _full_load(new: Memory, load: LoadReport, rate: float, elapsed: float) -> None:
    known = next((full for full in new.full if full.slots == load.slots), None)
    others = tuple(full for full in new.full if full.slots != load.slots)
    if known is None or load.time - known.time > DAY:
        known = FullLoad(load.slots, rate, elapsed, load.time)
    else:
        # Old measurements count less: the rows may cost more by now.
        before = min(known.seconds, _MEMORY_SECONDS) * (1.0 if load.time - known.time < 3600.0 else 0.3)
        total = before + elapsed
        known = FullLoad(load.slots, (known.rate * before + rate * elapsed) / total, total, load.time)
    new.full = (*others[-WIDTHS_KEPT + 1 :], known)


def _judge(new: Memory, load: LoadReport) -> None:
    """Confirm the last move, and compare it with what was expected of it once both sides of it are known."""
    if not new.moves:
        return
    move = new.moves[-1]
    if load.slots != move.after or new.running_since is None:
        return
    begun = max(new.running_since, move.time)
    if not move.confirmed and (
        load.checkpoint_interval is None
        or (load.checkpoint_age is not None and load.time - load.checkpoint_age >= begun)
    ):
        move = _replaced(new, replace(move, confirmed=True))
    known = {full.slots: full for full in new.full if load.time - full.time < DAY}
    after, before = known.get(move.after), known.get(move.before)
    if after is None or after.seconds < JUDGED_SECONDS or after.time <= begun:
        return
    rate_before, error_before = _before(move, before)
    if rate_before <= 0:
        return
    reached = after.rate / rate_before
    _replaced(new, replace(move, reached=reached))
    expected = float((move.after / move.before) ** new.alpha)
    if move.after <= move.before or expected - 1.0 < _MEASURABLE:
        return
    gained = (reached - 1.0) / (expected - 1.0)
    error = reached * sqrt(_error(after) ** 2 + error_before**2) / (expected - 1.0)
    if gained + 2 * error < HELPED:
        _saturated(new, load, move, reached, gained)
    elif gained >= HELPED:
        if new.knee is not None and move.after > new.knee.slots:
            new.knee = None
        if before is not None and before.seconds >= JUDGED_SECONDS:
            low, high = _ALPHA_BOUNDS
            measured = min(max(log(reached) / log(move.after / move.before), low), high)
            new.alpha += _ALPHA_STEP * (measured - new.alpha)


def _before(move: Move, full: FullLoad | None) -> tuple[float, float]:
    """Return the throughput before a move and its relative error: what was measured, and what the model gave."""
    if full is None or full.seconds < 60.0 or move.capacity <= 0:
        return (
            (move.capacity, _MODEL_ERROR)
            if full is None or full.seconds < JUDGED_SECONDS
            else (full.rate, _error(full))
        )
    if full.seconds >= JUDGED_SECONDS:
        return full.rate, _error(full)
    measured, modelled = _error(full) ** -2, _MODEL_ERROR**-2
    total = measured + modelled
    return (full.rate * measured + move.capacity * modelled) / total, total**-0.5


def _error(full: FullLoad) -> float:
    """Return the relative standard error of a throughput: the machine is slow or fast for a minute at a time."""
    return _NOISE * sqrt(60.0 / max(full.seconds, 60.0))


def _saturated(new: Memory, load: LoadReport, move: Move, reached: float, gained: float) -> None:
    old = new.knee
    if old is not None and old.slots <= move.before and load.time - old.found < old.lasts:
        return
    slowest = max(new.chains, key=lambda chain: chain.row_seconds * chain.ratio)
    effective = move.before * max(reached, 1.0) ** (1.0 / new.alpha)
    slots = min(max(ceil(effective - 0.25), move.before), move.after)
    confirmed = old is not None and abs(old.slots - slots) <= max(1, slots // 5)
    new.knee = Knee(slots, slowest.uid, load.time, gained, _CONFIRMED_LASTS if confirmed else _FIRST_LASTS)


def _replaced(new: Memory, changed: Move) -> Move:
    """Put a move in the place of the last one."""
    new.moves = (*new.moves[:-1], changed)
    return changed
