"""Decides when a failed job restarts: Flink's exponential-delay strategy, with no attempts for `never`.

A driver restarts its job by `WITHIN_A_PROCESS`. The controller replaces drivers that have ended by delays from the
`restartPolicy` of a StreamJob, without jitter (`streamjob_operator.decisions.states.driver_end`).

The delay grows with every failure, and is reset once the job has run quietly for long enough. Failures reported while a
restart is pending belong to that restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """The strategy's parameters; times in seconds.

    Args:
        initial_delay: delay before the first restart.
        max_delay: maximum delay.
        multiplier: growth of the delay per failure.
        jitter: fraction of the delay by which it varies randomly, up and down.
        reset_after: time without a restart after which count and delays are reset.
        attempts: restarts before the job fails for good, counted since the last reset; None for no limit.
    """

    initial_delay: float = 0.1
    max_delay: float = 60.0
    multiplier: float = 2.0
    jitter: float = 0.1
    reset_after: float = 600.0
    attempts: int | None = None


NEVER = RestartPolicy(attempts=0)
WITHIN_A_PROCESS = RestartPolicy(attempts=10)
"""Of a driver, which exits when they are used up, to be restarted from outside."""


@dataclass(frozen=True, slots=True)
class RestartAt:
    """Restart the job at `time`; `attempt` counts from 1 since the last reset."""

    time: float
    attempt: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The restarts are used up after `attempts` of them: the job has failed."""

    attempts: int


@dataclass(frozen=True, slots=True)
class Restarts:
    """The strategy's memory: restarts since the last reset, the next delay, and the time of the last restart."""

    policy: RestartPolicy
    attempt: int = 0
    delay: float = 0.0
    restart_at: float | None = None

    def after_failure(self, now: float, rng: Callable[[], float]) -> tuple[Restarts, RestartAt | GiveUp]:
        """Return the reaction to a failure, and the memory for the next call.

        Args:
            now: time of the failure, in seconds.
            rng: returns a random number from 0 to below 1, for the jitter.
        """
        if self.restart_at is not None and now < self.restart_at:
            return self, RestartAt(self.restart_at, self.attempt)
        policy = self.policy
        quiet = self.restart_at is not None and now - self.restart_at >= policy.reset_after
        fresh = self.restart_at is None or quiet
        attempt = 1 if fresh else self.attempt + 1
        if policy.attempts is not None and attempt > policy.attempts:
            return self, GiveUp(policy.attempts)
        delay = policy.initial_delay if fresh else min(self.delay * policy.multiplier, policy.max_delay)
        spread = delay * policy.jitter * (2 * rng() - 1)
        restart_at = now + min(max(delay + spread, policy.initial_delay), policy.max_delay)
        return replace(self, attempt=attempt, delay=delay, restart_at=restart_at), RestartAt(restart_at, attempt)
