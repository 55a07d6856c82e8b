"""The executors of a job, as its driver knows them: who is there, who is lost, and commands for their agents.

An executor joins in two steps: its agent registers and gets a number, then its Java registers with Spark under that
number. Only then it is live. It is lost once Spark has lost it or its agent says so; a number never comes back. An
executor that is to end says so first, and leaves once the driver lets it go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, field
from typing import Any

from streamjob.clock import Clock
from streamjob.errors import StreamJobError
from streamjob_runtime.executors.build_id import differences
from streamjob_runtime.executors.messages import LEAVE, POLL_SECONDS, Command, Commands, Registration, Welcome

_LOOK_SECONDS = 0.2

log = logging.getLogger("streamjob")


class RefusedByDriver(StreamJobError):
    """The driver refuses an agent's request."""


class UnknownExecutor(RefusedByDriver):
    """An executor is not, or no longer, one of the job's."""


class NotReady(RefusedByDriver):
    """The driver cannot take executors yet."""


class ExecutorLost(StreamJobError):
    """An executor is gone, or has not answered in time."""


class CommandFailed(StreamJobError):
    """An executor's agent could not do something."""


class NoExecutors(StreamJobError):
    """No executor has come."""


@dataclass(frozen=True, slots=True)
class Executor:
    """A live executor: its number in Spark, its name, its host for Spark, its cores; `leaving` if it is to end."""

    id: str
    name: str
    host: str
    cores: int
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """An executor that is gone, with the reason in words."""

    id: str
    name: str
    reason: str


class FleetListener:
    """Learns about changes of the executors, on any thread. This one reacts to none of them."""

    def joined(self, executor: Executor) -> None:
        """An executor has become live."""

    def leaving(self, executor: Executor) -> None:
        """A live executor is to end, and waits for `Fleet.release`."""

    def lost(self, lost: Lost) -> None:
        """A live executor is gone."""


@dataclass
class _Member:
    id: str
    name: str
    instance: str
    host: str
    cores: int
    live: bool = False
    leaving: bool = False
    released: bool = False
    commands: list[Command] = field(default_factory=list)
    asked: dict[str, Future[dict[str, Any]]] = field(default_factory=dict)
    wake: Callable[[], None] | None = None

    def view(self) -> Executor:
        return Executor(self.id, self.name, self.host, self.cores, self.leaving)


class Fleet:
    """The executors of one attempt; any thread may call it.

    Args:
        wanted: the number of executors that the job asks for.
        clock: seconds since 1970.
    """

    def __init__(self, wanted: int, build: Mapping[str, str], clock: Clock) -> None:
        self.wanted = wanted
        self._expected = wanted
        self._build = dict(build)
        self._clock = clock
        self._changed = threading.Condition()
        self._members: dict[str, _Member] = {}
        self._last = 0
        self._lost: list[Lost] = []
        self._invitation: Welcome | None = None
        self._closed = False
        self._listener = FleetListener()

    def open(self, invitation: Welcome) -> None:
        """Take executors from now on; `invitation` is what they need, without their number."""
        with self._changed:
            self._invitation = invitation

    def close(self) -> None:
        """Let all executors go, and take no more."""
        with self._changed:
            self._invitation, self._closed = None, True
            there = list(self._members)
        for executor in there:
            self.lose(executor, "the job has ended")

    def listen(self, listener: FleetListener) -> None:
        """Report changes to one listener from now on, in place of the one before."""
        self._listener = listener

    def register(self, name: str, instance: str, offer: Registration) -> Welcome:
        """Take an executor, in place of a former one with its name.

        Args:
            instance: its agent's process.

        Raises:
            RefusedByDriver: it is of another build.
            NotReady: Spark has not started yet.
        """
        if found := differences(self._build, offer.build):
            raise RefusedByDriver(
                f"Executor {name!r} is of another build than the job: {'; '.join(found)}",
                "start job and executors from the same image",
            )
        with self._changed:
            invitation = self._invitation
            if invitation is None:
                raise NotReady("The job has ended" if self._closed else "Spark is starting")
            former = [member.id for member in self._members.values() if member.name == name]
        for each in former:
            self.lose(each, "its agent has registered again")
        with self._changed:
            self._last += 1
            member = _Member(str(self._last), name, instance, offer.address, offer.cores)
            self._members[member.id] = member
        log.info("Executor %s (%s) starts on %s with %d cores", member.id, name, offer.address, offer.cores)
        return invitation.model_copy(update={"executor": member.id})

    def registered_in_spark(self, executor: str, host: str) -> None:
        """Spark has an executor, on a host by Spark's name."""
        with self._changed:
            member = self._members.get(executor)
            if member is None:
                return
            member.live, member.host = True, host
            self._expected = max(self._expected, len(self._staying()))
            self._changed.notify_all()
            wake = member.wake
            joined = member.view()
        log.info("Executor %s (%s) is here", executor, member.name)
        if wake is not None:
            wake()
        self._listener.joined(joined)

    def drain(self, executor: str, instance: str) -> None:
        """Note that an executor is to end; it waits until it is released. Raises UnknownExecutor."""
        with self._changed:
            member = self._member(executor, instance)
            if member.leaving:
                return
            member.leaving = True
            if member.live:
                # Nobody waits for its successor while the others can do its work.
                self._expected = max(1, self._expected - 1)
            leaving = member.view() if member.live else None
        log.info("Executor %s (%s) is to end", executor, member.name)
        if leaving is None:
            self.release(executor)
        else:
            self._listener.leaving(leaving)

    def release(self, executor: str) -> None:
        """Release an executor that is to end."""
        with self._changed:
            member = self._members.get(executor)
            if member is None or member.released:
                return
            member.released = True
        self.tell(executor, LEAVE, {})

    def release_all(self) -> None:
        """Release all executors that are to end."""
        for each in self.live():
            if each.leaving:
                self.release(each.id)

    def lose(self, executor: str, reason: str) -> None:
        """An executor is gone."""
        with self._changed:
            member = self._members.pop(executor, None)
            if member is None:
                return
            asked, member.asked = member.asked, {}
            self._changed.notify_all()
            wake = member.wake
            lost = Lost(executor, member.name, reason)
            if member.live and not member.released:
                self._lost.append(lost)
        if wake is not None:
            wake()
        for answer in asked.values():
            answer.set_exception(_lost(lost))
        if member.live and not self._closed:
            if member.released:
                log.info("Executor %s (%s) has left", executor, member.name)
            else:
                log.warning("Executor %s (%s) is lost: %s", executor, member.name, reason)
            self._listener.lost(lost)

    def live(self) -> tuple[Executor, ...]:
        """Return the executors that Spark has, in the order in which they came."""
        with self._changed:
            return self._live()

    def lost(self) -> int:
        """Return how many were lost since the start."""
        with self._changed:
            return len(self._lost)

    def _live(self) -> tuple[Executor, ...]:
        return tuple(member.view() for member in self._members.values() if member.live)

    def _staying(self) -> tuple[Executor, ...]:
        return tuple(each for each in self._live() if not each.leaving)

    def wait(self, seconds: float, stopped: Callable[[], bool] = lambda: False) -> Sequence[Executor]:
        """Return the executors that stay once there are as many as the job asks for, or those that are there in time.

        Executors that have left are not waited for, until others take their place.

        Args:
            seconds: how long to wait for all of them.
            stopped: whether nobody needs them any more, so that those that are there are returned, or none.

        Raises:
            NoExecutors: there was none.
        """
        deadline = time.monotonic() + seconds
        while True:
            gives_up = stopped()
            with self._changed:
                left = 0.0 if gives_up else min(_LOOK_SECONDS, deadline - time.monotonic())
                self._changed.wait_for(lambda: len(self._staying()) >= self._expected, max(0.0, left))
                there, expected = self._staying(), self._expected
            if gives_up:
                return there
            if len(there) >= expected or time.monotonic() >= deadline:
                break
        if not there:
            raise NoExecutors(
                f"No executor has come within {seconds:.0f} seconds, and the job asks for {self.wanted}",
                "look at the executors' own logs: `streamjob executor` says why the driver refuses it",
            )
        if len(there) < expected:
            log.warning("The job starts on %d of %d executors: the others have not come", len(there), expected)
        return there

    def check(self, executor: str, instance: str) -> None:
        """Check that an executor is one of the job's, and that its own agent asks. Raises UnknownExecutor."""
        with self._changed:
            self._member(executor, instance)

    async def poll(self, executor: str, instance: str, *, registered: bool) -> Commands:
        """Return the commands for an agent as soon as there are any.

        Args:
            instance: its process.
            registered: whether it knows that Spark has its executor; it learns at once if that changes.

        Raises:
            UnknownExecutor: the executor is lost, or another process has taken its name.
        """
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # The server may have ended, and nobody waits any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(woken.set)

        with self._changed:
            member = self._member(executor, instance)
            member.wake = wake
            waits = not member.commands and member.live == registered
        if waits:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), POLL_SECONDS)
        with self._changed:
            member = self._member(executor, instance)
            if member.wake is wake:
                member.wake = None
            commands, member.commands = tuple(member.commands), []
            return Commands(commands=commands, registered=member.live)

    def tell(self, executor: str, kind: str, body: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Give a command to an executor's agent; the future has its answer.

        The future raises CommandFailed if the agent could not do it, and ExecutorLost if the executor is lost.
        """
        command = Command(id=uuid.uuid4().hex, kind=kind, body=dict(body))
        answer: Future[dict[str, Any]] = Future()
        with self._changed:
            member = self._members.get(executor)
            if member is None:
                answer.set_exception(_lost(Lost(executor, executor, "it is not there any more")))
                return answer
            member.commands.append(command)
            member.asked[command.id] = answer
            wake = member.wake
        if wake is not None:
            wake()
        return answer

    def ask(self, executor: str, kind: str, body: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Give a command to an executor's agent, and return its answer.

        Raises:
            CommandFailed: the agent could not do it.
            ExecutorLost: the executor is lost, or its agent has not answered in time.
        """
        try:
            return self.tell(executor, kind, body).result(seconds)
        except NotInTime:
            raise ExecutorLost(f"Executor {executor} has not answered {kind!r} within {seconds:.0f} seconds") from None

    def done(self, executor: str, instance: str, command: str, error: str | None, body: dict[str, Any]) -> None:
        """Take the answer to a command. Raises UnknownExecutor."""
        with self._changed:
            member = self._member(executor, instance)
            answer = member.asked.pop(command, None)
        if answer is None:
            return
        if error is None:
            answer.set_result(body)
        else:
            answer.set_exception(CommandFailed(f"Executor {executor} ({member.name}): {error}"))

    def _member(self, executor: str, instance: str) -> _Member:
        member = self._members.get(executor)
        if member is None or member.instance != instance:
            raise UnknownExecutor(f"Executor {executor} is not one of the job's any more")
        return member


def slots_of(executors: Collection[Executor]) -> dict[str, int]:
    """Return the cores of each executor that takes files: those that are to end take none, unless all are."""
    staying = [each for each in executors if not each.leaving]
    return {each.id: each.cores for each in staying or executors}


def _lost(lost: Lost) -> ExecutorLost:
    return ExecutorLost(f"Executor {lost.id} ({lost.name}) is lost: {lost.reason}")
