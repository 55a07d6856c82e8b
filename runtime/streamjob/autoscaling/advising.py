"""Decisions that are not carried out: advice for jobs that others scale, and moves that the cluster forbids."""

from __future__ import annotations

from dataclasses import replace

from streamjob.autoscaling.deciding import PAUSE_AFTER_FAILURE, Decision, Rule, decide
from streamjob.autoscaling.load import LoadReport
from streamjob.autoscaling.memory import Memory, Move
from streamjob.autoscaling.policy import Policy

_PAUSE_AFTER_REJECTION = 600.0


def advise(policy: Policy, memory: Memory, load: LoadReport) -> Decision:
    """Return the decision for a job at the time of a report. Its memory does not expect that the move is made.

    The reports show every move, also one that a user made.

    Args:
        policy: limits and goals.
        memory: the memory of the last advice.
        load: the job.
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
        memory: the memory with the move.
        now: seconds since 1970.
    """
    return replace(memory, moves=memory.moves[:-1], paused_until=now + _PAUSE_AFTER_REJECTION)


def undo(memory: Memory, slots: int, now: float) -> Memory:
    """Return the memory with the move that undoes the last one, because the job did not run with its slots.

    Args:
        memory: the memory with the move.
        slots: the number of slots from now on.
        now: seconds since 1970.
    """
    last = memory.moves[-1]
    undone = Move(now, last.after, slots, last.means, Rule.FAILED, last.capacity, 1.0)
    return replace(memory, moves=(*memory.moves, undone), paused_until=now + PAUSE_AFTER_FAILURE)
