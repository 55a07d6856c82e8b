"""Finds the loops of a graph, and decides when one has come to rest.

A channel is a feedback channel if its author declares it; without these the graph has no cycle. Barriers of feedback
channels hold no chain back: a chain that reads one is cut before the chain that writes it, because the barrier reaches
the writer through the reader. So the barrier goes round once, and the entries between the reader's cut and the
returning barrier are part of the checkpoint. Source: Carbone et al., Lightweight Asynchronous Snapshots (2015),
algorithm 2, where the reader logs these records; here the stream keeps them until the writer's cut takes them.

The chains of a loop wait for each other's end, so none of them ends alone: a loop ends as a whole, once nothing can
happen in it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from streamjob.ids import ChainUid
from streamjob.protocol.emissions.emitted import Channel


@dataclass(frozen=True, slots=True)
class Loop:
    """Chains that each read, directly or through others, results of their own output.

    Args:
        chains: its chains, in the job's order.
        outer: channels that lead into the loop.
        inner: channels between its chains, including the feedback channels.
    """

    chains: tuple[ChainUid, ...]
    outer: tuple[Channel, ...]
    inner: tuple[Channel, ...]

    def __str__(self) -> str:
        return f"the loop of {', '.join(self.chains)}"


def loops_of(chains: Iterable[ChainUid], channels: Iterable[Channel], feedback: Set[Channel]) -> tuple[Loop, ...]:
    """Return the loops of a graph, which share no chain.

    Args:
        channels: pairs of producer and consumer, including feedback channels.

    Raises:
        ValueError: the other channels form a cycle, or a feedback channel closes none.
    """
    known, pairs = tuple(chains), tuple(channels)
    reached = _reached(known, [channel for channel in pairs if channel not in feedback])
    if circular := sorted(chain for chain in known if chain in reached[chain]):
        raise ValueError(f"the channels between {', '.join(circular)} form a cycle: no barrier could align there")
    for producer, consumer in feedback:
        if producer != consumer and producer not in reached[consumer]:
            raise ValueError(f"the feedback channel {producer} -> {consumer} closes no cycle")
    everywhere = _reached(known, pairs)
    loops: list[Loop] = []
    for chain in known:
        if chain not in everywhere[chain] or any(chain in loop.chains for loop in loops):
            continue
        members = tuple(each for each in known if each in everywhere[chain] and chain in everywhere[each])
        into = [channel for channel in pairs if channel[1] in members]
        loops.append(
            Loop(
                chains=members,
                outer=tuple(channel for channel in into if channel[0] not in members),
                inner=tuple(channel for channel in into if channel[0] in members),
            )
        )
    return tuple(loops)


def is_quiet(
    loop: Loop, runs: Callable[[ChainUid], bool], ended: Callable[[Channel], bool], unread: Callable[[Channel], int]
) -> bool:
    """Return whether nothing can happen in a loop any more; call this under the emission lock.

    Args:
        runs: returns whether a batch of a chain has begun and is not emitted.
        ended: returns whether the consumer of a channel has consumed all its future content.
        unread: returns the number of unconsumed records of a channel.
    """
    return (
        all(ended(channel) for channel in loop.outer)
        and not any(unread(channel) for channel in loop.inner)
        and not any(runs(chain) for chain in loop.chains)
    )


def _reached(chains: tuple[ChainUid, ...], channels: Iterable[Channel]) -> Mapping[ChainUid, Set[ChainUid]]:
    """Return the chains that the output of each chain reaches; itself only by a cycle."""
    readers: dict[ChainUid, set[ChainUid]] = {chain: set() for chain in chains}
    for producer, consumer in channels:
        readers[producer].add(consumer)
    reached: dict[ChainUid, set[ChainUid]] = {}
    for chain in chains:
        found: set[ChainUid] = set()
        waiting = list(readers[chain])
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting.extend(readers[current])
        reached[chain] = found
    return reached
