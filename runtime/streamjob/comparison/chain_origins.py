"""Finds each chain's origin in a snapshot: the state, source positions and stream positions that it takes over.

State follows its operators, and a source's position follows the source. Data in flight between two chains follows the
operators that write and read it. Stateless parts may move from chain to chain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from streamjob.comparison.refusals import (
    FinishedAndUnfinished,
    InFlightDataLost,
    StateDivided,
    StateOfSeveralChains,
)
from streamjob.comparison.snapshot_job import SnapshotJob, records_in_flight
from streamjob.comparison.verdicts import Origin
from streamjob.errors import CannotRestore
from streamjob.ids import ChainUid, OperatorUid
from streamjob.job.planning.fusing import inputs_of
from streamjob.job.planning.plan import ChainPlan, Plan
from streamjob.snapshot.manifest import ChannelState


@dataclass(frozen=True, slots=True)
class ChainOrigins:
    """The result of the search.

    Args:
        refusals: the reasons why a part has no origin, by its uid.
        lost: channels with data in flight that no chain reads any more.
    """

    origins: Mapping[ChainUid, Origin]
    refusals: Mapping[OperatorUid, CannotRestore]
    lost: tuple[ChannelState, ...]


def find_origins(plan: Plan, former: SnapshotJob) -> ChainOrigins:
    """Return the origins of a plan's chains."""
    search = _Search(plan, former)
    origins = {chain.uid: search.origin(chain) for chain in plan.chains}
    return ChainOrigins(origins, search.refusals, tuple(search.lost()))


class _Search:
    def __init__(self, plan: Plan, former: SnapshotJob) -> None:
        self._plan = plan
        self._former = former
        self.refusals: dict[OperatorUid, CannotRestore] = {}
        self._home = {uid: chain.uid for chain in plan.chains for uid in _workers(chain)}
        self._state = self._assign_state()
        self._read_on: set[tuple[ChainUid, ChainUid]] = set()

    def origin(self, chain: ChainPlan) -> Origin:
        former = self._former
        consumed = {channel.source: self._position(chain, channel.uid) for channel in chain.channels}
        workers = _workers(chain)
        done = [uid for uid in workers if uid in former.finished]
        if done and len(done) == len(workers):
            return Origin(base=former.chain_of.get(done[-1]), consumed=consumed, finished=True)
        positions = {
            source.uid: former.chain_of[source.uid]
            for source in chain.sources
            if source.uid in former.positions and source.uid in former.chain_of
        }
        if done:
            self._refuse_finished(done, [uid for uid in workers if uid not in former.finished])
        state = self._state.get(chain.uid, {})
        if len(state) > 1:
            self._refuse_several(chain, state)
        base = next(iter(state), None)
        if base is None:
            ran = [*positions.values(), *self._ran_in(chain)]
            base = chain.uid if chain.uid in ran else next(iter(ran), None)
        if base is None:
            return Origin(consumed=consumed)
        numbers = tuple(sorted(state.get(base, ())))
        whole = numbers == tuple(former.chains[base].keepers)
        return Origin(base=base, state=None if whole else numbers, positions=positions, consumed=consumed)

    def lost(self) -> Iterator[ChannelState]:
        """Yield the channels whose data in flight no chain continues to read."""
        for channel in self._former.manifest.channels:
            if records_in_flight(channel) and (channel.source, channel.target) not in self._read_on:
                yield channel

    def _assign_state(self) -> dict[ChainUid, dict[ChainUid, set[int]]]:
        """Return the state for each chain of the job: the snapshot's chains, and numbers of stateful operators."""
        assigned: dict[ChainUid, dict[ChainUid, set[int]]] = defaultdict(lambda: defaultdict(set))
        for uid, chain in self._former.chains.items():
            for number, keepers in chain.keepers.items():
                left = sorted(keepers & self._home.keys())
                targets = {self._home[keeper] for keeper in left if keeper not in self._former.finished}
                if len(targets) > 1:
                    error = StateDivided(
                        f"{', '.join(map(repr, left))} ran in one chain and are to run in several, and the snapshot "
                        "does not tell which of them keeps its state",
                        "leave them in one chain, or give up the state with new uids",
                    )
                    self.refusals.update(dict.fromkeys(left, error))
                for target in targets:
                    assigned[target][uid].add(number)
        return assigned

    def _ran_in(self, chain: ChainPlan) -> list[ChainUid]:
        """Return the snapshot's chains that have run, without state, this chain's parts or its inputs by channel."""
        readers = [each for each in chain.operators if set(inputs_of(each)) & {c.name for c in chain.channels}]
        found = [self._former.chain_of[each.uid] for each in readers if each.uid in self._former.chain_of]
        return [uid for uid in found if uid in self._former.chains and self._former.chains[uid].has_run]

    def _position(self, chain: ChainPlan, producer: OperatorUid) -> int:
        """Return a chain's position in a stream: that of its readers, or the end of the stream."""
        channels = self._former.channels_of(ChainUid(producer))
        name = next(each.name for each in chain.channels if each.uid == producer)
        before = {self._former.chain_of.get(each.uid) for each in chain.operators if name in inputs_of(each)}
        mine = [channel for channel in channels if channel.target in before]
        self._read_on.update((channel.source, channel.target) for channel in mine)
        stood = {channel.consumed for channel in mine}
        if len(stood) > 1 and any(map(records_in_flight, mine)):
            readers = ", ".join(repr(channel.target) for channel in mine)
            self.refusals[OperatorUid(chain.uid)] = InFlightDataLost(
                f"{readers} had read {producer!r} up to different places, and now read it in one chain",
                "start from a savepoint: it has nothing in flight",
            )
        return max(stood or {channel.next for channel in channels}, default=0)

    def _refuse_several(self, chain: ChainPlan, state: Mapping[ChainUid, set[int]]) -> None:
        keepers = [
            uid
            for base, numbers in state.items()
            for number in numbers
            for uid in self._former.chains[base].keepers[number]
            if self._home.get(uid) == chain.uid
        ]
        error = StateOfSeveralChains(
            f"{', '.join(map(repr, dict.fromkeys(keepers)))} kept their state in the chains "
            f"{', '.join(map(repr, state))} and are to run in one: a Spark query has one checkpoint",
            f"give {keepers[-1]!r} `chain: false`, so that it stays a chain of its own",
        )
        self.refusals.update(dict.fromkeys(keepers, error))

    def _refuse_finished(self, done: list[OperatorUid], others: list[OperatorUid]) -> None:
        error = FinishedAndUnfinished(
            f"{', '.join(map(repr, done))} have finished, and are to run in one chain with "
            f"{', '.join(map(repr, others))}, which have not",
            f"give {others[0]!r} `chain: false`",
        )
        self.refusals.update(dict.fromkeys(others, error))


def _workers(chain: ChainPlan) -> tuple[OperatorUid, ...]:
    return tuple(each.uid for each in (*chain.sources, *chain.operators))
