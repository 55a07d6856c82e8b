"""Refuses what does not work on executors in processes of their own, before anything is started."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from streamjob.errors import InvalidInput, refuse
from streamjob.ids import ChainUid
from streamjob.job.formats import FILE_FORMATS
from streamjob.job.options import option
from streamjob.job.plan import Plan
from streamjob.job.spec import JobSpec

_ELSEWHERE = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*:/")


_UNPROVEN = {"transformWithState": "the restore of such state from executors is not proven yet"}
"""Kinds of state that are refused, with the reason."""


class NotOnExecutors(InvalidInput):
    """A job has parts that do not work on executors."""


def check_on_executors(spec: JobSpec, plan: Plan, *, local_files: bool) -> None:
    """Check that a job can run on executors.

    Args:
        spec: the job.
        plan: its chains.
        local_files: whether the executors reach the local paths of sources and sinks.

    Raises:
        NotOnExecutors: it cannot; the error names each part and the reason.
    """
    refuse(NotOnExecutors, f"Job {spec.name!r} cannot run on executors:", _problems(spec, plan, local_files))


def check_state_on_executors(kinds: Mapping[ChainUid, Iterable[str]]) -> None:
    """Check that executors may keep the state of a job's chains.

    Args:
        kinds: the kinds of state of each chain, as the forms of state name them.

    Raises:
        NotOnExecutors: they may not keep some of it; the error names the chain and the reason.
    """
    for chain, found in kinds.items():
        for kind in found:
            if (reason := _UNPROVEN.get(kind)) is not None:
                raise NotOnExecutors(
                    f"Chain {chain!r} cannot run on executors: it keeps state of {kind}, and {reason}",
                    "run the job without --executors",
                )


def _problems(spec: JobSpec, plan: Plan, local_files: bool) -> Iterator[tuple[str, str]]:
    for channel in plan.channels:
        yield (
            f"chain {channel.target!r} reads the rows of {channel.name!r} from files of another process",
            "run it without --executors, or as one chain: `streamjob plan` shows why there are several",
        )
    if local_files:
        return
    for source in spec.sources:
        if source.format in FILE_FORMATS and _is_local(option(source.options, "path") or ""):
            yield (
                f"source {source.name!r} reads files of a local path, which other machines do not have",
                "read them from s3://, or name a shared volume and say --executors-share-files",
            )
    for sink in spec.sinks:
        if sink.format in FILE_FORMATS and _is_local(option(sink.options, "path") or ""):
            yield (
                f"sink {sink.name!r} writes files to a local path, which other machines do not have",
                "write them to s3://, or name a shared volume and say --executors-share-files",
            )
        if sink.format == "kafka" and sink.delivery == "exactly-once":
            yield (
                f"sink {sink.name!r} stages what it publishes in a directory of the driver",
                "say delivery: at-least-once, or run the job on one machine",
            )


def _is_local(path: str) -> bool:
    return _ELSEWHERE.match(path) is None
