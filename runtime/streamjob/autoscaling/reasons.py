"""The reason for a decision as a sentence, with the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping

from streamjob.autoscaling.capacity import limit_of
from streamjob.autoscaling.deciding import Decision, Rule
from streamjob.autoscaling.load import LoadReport
from streamjob.autoscaling.policy import Means, Policy

_HOW = {
    Means.IN_PLACE: "in place",
    Means.EXECUTORS: "by executors",
    Means.RESTART: "by a restart",
}
_SKEWED = 3.0
"""Times the average above which a partition is named: partitions of many keys differ less by chance."""


def sentence(decision: Decision, policy: Policy, load: LoadReport) -> str:
    """Return why a decision was made, in one or two sentences.

    Policy and load are those that it was made with.
    """
    text = f"{_subject(decision, load)}{_because(decision, policy, load)}"
    return f"{text} {advice}" if (advice := _advice(decision, policy, load)) else text


def _subject(decision: Decision, load: LoadReport) -> str:
    if decision.slots is None:
        return f"Keep {_slots(load.slots)}: "
    how = _HOW[decision.means] if decision.means is not None else ""
    return f"Change from {load.slots} to {_slots(decision.slots)} {how}: "


def _because(decision: Decision, policy: Policy, load: LoadReport) -> str:
    given = decision.inputs
    load_now = (
        f"{_count(given['rate'])} records/s arrive, {_share(given['utilization'])} of the "
        f"{_count(given['capacity'])} that these slots can process"
        if "capacity" in given
        else ""
    )
    lag = f"the lag is {given.get('lag', 0.0):.0f} s (limit {policy.max_lag:.0f} s)"
    match decision.rule:
        case Rule.NO_DATA:
            return f"{_samples(int(given['samples']))} of the load, too few for a decision."
        case Rule.NOT_RUNNING:
            return "the job does not run."
        case Rule.BUSY:
            return f"the job is busy with {load.hindrance}."
        case Rule.EXCLUDED:
            return f"an excluded period; {load_now}."
        case Rule.PAUSED:
            return f"a change has failed; the next one is possible in {_minutes(given['seconds'])}."
        case Rule.SETTLING:
            return f"the last change is too recent to judge; {load_now}, and {lag}."
        case Rule.UNDO:
            knee = decision.memory.knee
            assert knee is not None
            return (
                f"more than {_slots(knee.slots)} do not help: the last change brought "
                f"{_share(max(knee.gained, 0.0))} of the expected gain. The chain that takes most of the time is "
                f"{knee.chain}."
            )
        case Rule.FAILED:
            return (
                f"the job has completed no checkpoint in the {_minutes(given['seconds'])} since the last change, which "
                "is undone. Scaling is paused for an hour."
            )
        case Rule.OUT_OF_BOUNDS:
            cause = limit_of(policy, load).cause
            return f"{_slots(load.slots)} {_are(load.slots)} out of bounds; the upper limit is set by {cause}."
        case Rule.BEHIND:
            return f"{load_now}, and {lag}. {_process(given)} records/s."
        case Rule.SATURATED:
            knee = decision.memory.knee
            chain = f" The chain that takes most of the time is {knee.chain}." if knee is not None else ""
            return f"{load_now}, and {lag}, but more slots did not help.{chain}"
        case Rule.LIMITED:
            return f"{load_now}, and {lag}, but {decision.limit} allows no more slots."
        case Rule.BUDGET:
            return f"the budget of restarts is spent, with {given['moves']:.0f} in 24 hours; {load_now}."
        case Rule.IDLE:
            return (
                f"in the last {_minutes(given['minutes'] * 60)} at most {_count(given['peak'])} records/s arrived, and "
                f"{_process(given)}."
            )
        case Rule.RIDING:
            return f"{load_now}, a burst that is over before a change would help; {lag}."
        case _:
            return f"{load_now}, and {lag}."


def _advice(decision: Decision, policy: Policy, load: LoadReport) -> str:
    """Return the change of the job that would help where more slots cannot; nothing if none is known."""
    if decision.rule in (Rule.SATURATED, Rule.UNDO) and decision.memory.skew >= _SKEWED:
        return (
            f"One partition of a source has {decision.memory.skew:.0f} times as many unread records as the average: "
            "spread its keys."
        )
    if not decision.limit:
        return ""
    if "of the state" in decision.limit:
        size = f" ({load.state_bytes / 1e6:,.0f} MB)" if load.state_bytes is not None else ""
        return (
            f"A restart with a larger maxParallelism removes this limit. It reads all state{size} three times and "
            "writes it once."
        )
    if "of the sources" in decision.limit:
        return "More partitions in the sources' topics remove this limit."
    return ""


def _process(given: Mapping[str, float]) -> str:
    slots = int(given["target"])
    return f"{_slots(slots)} {'processes' if slots == 1 else 'process'} about {_count(given['reached'])}"


def _slots(number: int) -> str:
    return "1 slot" if number == 1 else f"{number} slots"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _samples(number: int) -> str:
    return "there is 1 sample" if number == 1 else f"there are {number} samples"


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _share(share: float) -> str:
    return f"{share * 100:.0f} %"


def _minutes(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return "1 minute" if minutes == 1 else f"{minutes} minutes"
