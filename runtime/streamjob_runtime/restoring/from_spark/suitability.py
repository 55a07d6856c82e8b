"""Decides from a plain query's small files whether a job can continue it; pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from streamjob.job.model.spark_settings import ROCKSDB, STATE_PROVIDER
from streamjob.job.planning.plan import ChainPlan, Plan
from streamjob.job.query.sql import stateful_parts
from streamjob.stored.start_snapshot import FROM_SPARK
from streamjob.stored.state_owners import KINDS
from streamjob_runtime.restoring.from_spark.errors import NotOneChain, OtherState, UnsupportedState
from streamjob_runtime.spark.checkpoint_dir.logs import OffsetEntry

_DEFAULT = "HDFSBackedStateStoreProvider"
_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_NEWEST_JOIN_FORMAT = 2
_ANEW = "start the job from nothing, with --from none"


def places_in(named: str, plan: Plan) -> dict[str, str]:
    """Return the places of checkpoints by the chains that continue them; without its name for the only one.

    Args:
        named: `DIRECTORY`, or `CHAIN=DIRECTORY,CHAIN=DIRECTORY`, with or without the prefix `spark:`.

    Raises:
        NotOneChain: a chain or a place is named twice.
    """
    text = named.removeprefix(FROM_SPARK)
    chains = "|".join(re.escape(chain.uid) for chain in plan.chains)
    before, *parts = re.split(rf"(?:^|,)({chains})=", text)
    if before or not parts:
        return {"": text}
    places = dict(sorted(zip(parts[::2], parts[1::2], strict=True)))
    if len(places) < len(parts) // 2 or len({*places.values()}) < len(places):
        raise NotOneChain(
            f"{named} names a chain or a checkpoint twice", "name each chain once, with the checkpoint of its own query"
        )
    return places


def chains_of(named: str, plan: Plan) -> list[tuple[ChainPlan, str]]:
    """Return the job's chains, each with the place of the checkpoint that it continues.

    Args:
        named: see `places_in`.

    Raises:
        NotOneChain: the job's chains are not the queries.
    """
    places, chains = places_in(named, plan), {str(chain.uid): chain for chain in plan.chains}
    if list(places) == [""] and len(chains) == 1:
        return [(plan.chains[0], places[""])]
    if places.keys() != chains.keys():
        raise NotOneChain(
            f"{named} has a checkpoint for {', '.join(filter(None, places)) or 'one Spark query'}, and the job runs as "
            f"{len(chains)}: {', '.join(chains)}",
            "name one for each chain of `streamjob plan`, as in spark:counts=DIRECTORY,totals=DIRECTORY; or begin with "
            "a job of one chain, and change it from a savepoint on",
        )
    for channel in plan.channels:
        raise NotOneChain(
            f"Chain {channel.target} of the job reads chain {channel.source}, and a Spark query reads no other one",
            "give each query its sources, also if two of them read the same, and the operators in front",
        )
    return [(chains[uid], place) for uid, place in places.items()]


def check_state(
    chain: ChainPlan, static: frozenset[str], operators: Sequence[str], offsets: OffsetEntry, uri: str
) -> None:
    """Check that the query's state belongs to the job's operators, and is kept in a supported way.

    Args:
        static: the names, in lower case, of the job's tables.
        operators: Spark's names of the query's stateful operators.
        offsets: the plan of its last batch, with the settings fixed by the checkpoint.

    Raises:
        OtherState: the query's state differs from that of the job's SQL.
        UnsupportedState: it is kept in an unsupported way.
    """
    if operators:
        _check_settings(offsets.metadata.get("conf") or {}, uri)
    parts = [stateful_parts(each.sql, static) if each.sql is not None else None for each in chain.operators]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return
    needed = Counter(each for part in known for each in part)
    found = Counter(KINDS.get(name, name) for name in operators)
    if needed != found:
        raise OtherState(
            f"The query at {uri} keeps the state of {_listed(found)}, and the job's operators keep that of "
            f"{_listed(needed)}",
            f"give the job the operators of the query, or {_ANEW}",
        )


def _check_settings(conf: Mapping[str, str], uri: str) -> None:
    provider = str(conf.get(STATE_PROVIDER, "")).rpartition(".")[2]
    if provider not in (_DEFAULT, ROCKSDB.rpartition(".")[2]):
        raise UnsupportedState(
            f"The state at {uri} is kept by {provider or 'an unknown provider'}, and neither by RocksDB nor by Spark's "
            "default",
            f"{_ANEW}, or run the query from a new checkpoint with {STATE_PROVIDER}={ROCKSDB} until its state is there",
        )
    join_format = conf.get(_JOIN_FORMAT, str(_NEWEST_JOIN_FORMAT))
    if int(join_format) > _NEWEST_JOIN_FORMAT:
        raise UnsupportedState(
            f"The joins at {uri} keep their state in format {join_format}, which cannot be rewritten safely",
            f"run the query from a new checkpoint with {_JOIN_FORMAT}={_NEWEST_JOIN_FORMAT}, or {_ANEW}",
        )


def partitions_of(offsets: OffsetEntry, uri: str) -> int:
    """Return the number of state partitions.

    Raises:
        UnsupportedState: the checkpoint does not contain the number.
    """
    if offsets.partitions is None:
        raise UnsupportedState(f"The checkpoint at {uri} does not say how many state partitions it has", _ANEW)
    return offsets.partitions


def _listed(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items())) or "nothing"
