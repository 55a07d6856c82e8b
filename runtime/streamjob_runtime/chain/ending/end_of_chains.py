"""Ensures that the chains of an epoch have ended: a query that runs on keeps its name and its share of Spark."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from streamjob.errors import ProcessUnfit
from streamjob_runtime.spark.text.error_text import describe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamjob_runtime.chain.chain import Chain

_PAUSE = 0.2

log = logging.getLogger("streamjob")


class EpochNotEnded(ProcessUnfit):
    """A part of an epoch still runs, so no other epoch may begin in this process; the next process restores."""


def end_chains(
    spark: SparkSession,
    chains: Collection[Chain],
    timeout: float,
    is_dead: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
) -> tuple[str, ...]:
    """Stop chains; return the parts that still run, empty if all went well.

    Args:
        timeout: seconds for stopping, and the same again for chains that could not be stopped at first.
        is_dead: whether Spark's process has ended, and all queries with it.
        clock: monotonic time in seconds.
    """
    # All at once: each waits for its batch, and a producer's batch may wait for room.
    stoppers = [threading.Thread(target=_stop, args=(chain, timeout), daemon=True) for chain in chains]
    for stopper in stoppers:
        stopper.start()
    for stopper in stoppers:
        stopper.join()
    deadline = clock() + timeout
    again: dict[str, threading.Thread] = {}
    while (left := _left(spark, chains, again)) and clock() < deadline:
        # A dead process does not answer either; waiting for it would only delay the next one.
        if is_dead():
            return ()
        time.sleep(_PAUSE)
    return left


def check_ended(left: Collection[str]) -> None:
    """Raise EpochNotEnded if a part of the previous epoch still runs."""
    if left:
        raise EpochNotEnded(
            f"The job failed, and could not be ended for a restart: {', '.join(left)}",
            "start the job again: it continues from its last checkpoint",
        )


def _stop(chain: Chain, timeout: float) -> None:
    try:
        chain.stop(timeout)
    except Exception as error:
        log.warning("The chain %s could not be stopped at first: %s", chain.uid, describe(error))


def _left(spark: SparkSession, chains: Collection[Chain], again: dict[str, threading.Thread]) -> tuple[str, ...]:
    """Ask the chains again to end; return the parts that have not.

    A chain whose thread has ended may still have its query: a call whose reply was lost leaves it running.
    """
    names = {chain.uid for chain in chains}
    left = [f"the thread of chain {chain.uid!r} is running" for chain in chains if not chain.has_left()]
    try:
        for query in spark.streams.active:
            if query.name in names:
                left.append(f"the query of chain {query.name!r} is active")
                if query.id not in again or not again[query.id].is_alive():
                    again[query.id] = threading.Thread(target=stop_query, args=(query,), daemon=True)
                    again[query.id].start()
    except Exception as error:
        left.append(f"Spark does not say which queries are active: {describe(error)}")
    return tuple(left)


def stop_query(query: Any) -> None:
    """Stop a query; a failure is logged, and the query stays active."""
    try:
        query.stop()
    except Exception as error:
        log.warning("A query could not be stopped: %s", describe(error))
