"""A power cut inside the tests' process: from a chosen moment on, nothing that a job does reaches its store or sinks.

The remains are the same as those of a process killed there. To end the rest of the job, an unrecoverable failure is
reported to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob

from streamjob.ids import Key, OperatorUid
from streamjob.protocol.coordination.messages import ChainStateChanged, ChainStatus
from streamjob.protocol.manifests.stored_manifests import MANIFEST_NAME
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord
from streamjob.store.base import StoreUnavailable
from streamjob.store.local import LocalStore
from streamjob_runtime.chain.emissions.outputs import Outputs


class Moment(StrEnum):
    """When the power goes."""

    MANIFEST = "before the manifest"
    RECORD = "between manifest and record"
    COMMIT = "between record and commit"
    FINAL = "between finished and final"


class Power:
    """Cuts the power of one job after the other, at the moment each is given.

    Args:
        monkeypatch: undoes what is intercepted.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_off = False
        self._job: EmbeddedJob | None = None
        self._moment: Moment | None = None
        self._on_cut: Callable[[], None] = lambda: None
        put, put_if_absent, delete = LocalStore.put, LocalStore.put_if_absent, LocalStore.delete
        commit, abort = Outputs.commit_in, Outputs.abort

        def _put(store: LocalStore, key: Key, content: bytes | Path) -> None:
            if key.rpartition("/")[2] == MANIFEST_NAME:
                self._at(Moment.MANIFEST)
            if self._has_finished():
                self._at(Moment.FINAL)
            self._check()
            put(store, key, content)

        def _put_if_absent(store: LocalStore, key: Key, content: bytes) -> bool:
            completes = keys.log_seq(key) is not None and LogRecord.model_validate_json(content).completes
            if completes:
                self._at(Moment.RECORD)
            self._check()
            created = put_if_absent(store, key, content)
            if completes:
                self._at(Moment.COMMIT)
            return created

        def _delete(store: LocalStore, doomed: Iterable[Key]) -> None:
            self._check()
            delete(store, doomed)

        def _commit(outputs: Outputs, *given: Any) -> None:
            self._check()
            commit(outputs, *given)

        def _abort(outputs: Outputs, sink: OperatorUid) -> None:
            self._check()
            abort(outputs, sink)

        replaced: list[tuple[type[Any], str, Callable[..., Any]]] = [
            (LocalStore, "put", _put),
            (LocalStore, "put_if_absent", _put_if_absent),
            (LocalStore, "delete", _delete),
            (Outputs, "commit_in", _commit),
            (Outputs, "abort", _abort),
        ]
        for owner, name, function in replaced:
            monkeypatch.setattr(owner, name, function)

    def goes(self, moment: Moment, job: EmbeddedJob, on_cut: Callable[[], None]) -> None:
        """Cut the power when the job next comes to a moment; `on_cut` is called then."""
        self._job, self._moment, self._on_cut = job, moment, on_cut

    def cut(self, job: EmbeddedJob, on_cut: Callable[[], None]) -> None:
        """Cut the power now."""
        self._job, self._on_cut = job, on_cut
        self._cut()

    def comes_back(self) -> None:
        """Let the next job work."""
        self.is_off, self._job, self._moment = False, None, None

    def _has_finished(self) -> bool:
        epoch = self._job.runner.epoch if self._job else None
        chains = epoch.chains.values() if epoch else ()
        return bool(chains) and all(chain.ended or chain.drained for chain in chains)

    def _at(self, moment: Moment) -> None:
        if moment is self._moment and not self.is_off:
            self._cut()

    def _cut(self) -> None:
        self.is_off = True
        assert self._job is not None
        runner = self._job.runner
        chain = runner.job.plan.chains[0].uid
        event = ChainStateChanged(
            now=runner.job.clock(), chain=chain, status=ChainStatus.FAILED, message="the power is gone"
        )
        assert runner.coordination.post(event), "no epoch runs whose power could go"
        self._on_cut()

    def _check(self) -> None:
        if self.is_off:
            raise StoreUnavailable("The power is gone")
