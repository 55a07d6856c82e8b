"""Decisions that are not carried out: advice for jobs that others scale, and moves that the cluster forbids."""

from __future__ import annotations

from dataclasses import replace

from streamjob.autoscaling.deciding import Decision, decide
from streamjob.autoscaling.load import LoadReport
from streamjob.autoscaling.memory import Memory
from streamjob.autoscaling.policy import Policy

_PAUSE_AFTER_REJECTION = 600.0
"""Seconds before a move that the cluster forbids is tried again, as documented."""


def advise(policy: Policy, memory: Memory, load: LoadReport) -> Decision:
    """Return the decision for a job at the time of a report. Its memory does not expect that the move is made.

    The reports show every move, also one that a user made.

    Args:
        memory: the memory of the last advice.
    """
    decision = decide(policy, memory, load, load.time)
    if decision.slots is None and len(decision.memory.moves) <= len(memory.moves):
        return decision
    moves = tuple(move for move in decision.memory.moves if move.rule != decision.rule or move.time != load.time)
    unmoved = replace(
        decision.memory,
        moves=moves,
        patience=memory.patience,
        patience_since=memory.patience_since,
        paused_until=memory.paused_until,
    )
    return replace(decision, memory=unmoved)


def take_back(memory: Memory, now: float) -> Memory:
    """Return the memory without its last move, which was not made and is not tried again for a while.

    Args:
        now: seconds since 1970.
    """
    return replace(memory, moves=memory.moves[:-1], paused_until=now + _PAUSE_AFTER_REJECTION)
