"""Decides which packs a checkpoint rewrites, so that a restore reads few of them however long the job has run.

A pack stays in the store as long as one of its files is referred to. Every checkpoint adds one or two, and each of them
shrinks, so after some hours a manifest would refer to hundreds of objects with a few living bytes each. As in a
log-structured merge tree with tiered compaction (O'Neil et al., 1996; the merging compactions of Bigtable, 2006), packs
are sorted into tiers by their living bytes, each `FAN` times as large as the one below, and a full tier is merged into
one pack of the next. The files are in the hold, so nothing is read from the store.

This bounds three things:

- the number of packs: fewer than `FAN` in each of the three tiers, and above these only packs with at least half of
  their bytes alive;
- the work of one checkpoint: it copies at most the bytes of one pack;
- the work in the long run: a byte is copied once for each tier that it rises, and once more for each `FAN` - 1 bytes
  that died in the same pack; only the lowest tier, which is nearly empty, may be merged again and again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from streamjob.snapshot.manifest import FileRef

FAN = 16
"""Number of packs of a tier that are merged, and the ratio of the sizes of neighbouring tiers."""
TIERS = 3


def packs_of(refs: Iterable[FileRef], pack_below: int) -> dict[str, int]:
    """Return the packs among a cut's objects, with their bytes that the cut refers to.

    Args:
        refs: files of one cut.
        pack_below: an object with a file of at least this size in bytes is not a pack.
    """
    living: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
    large = set()
    for ref in refs:
        living[ref.object][ref.offset, ref.length] = ref.length
        if ref.length >= pack_below:
            large.add(ref.object)
    return {name: sum(parts.values()) for name, parts in living.items() if name not in large}


def packs_to_rewrite(packs: Mapping[str, int], pack_target: int) -> frozenset[str]:
    """Return the packs whose living files are packed again.

    Args:
        packs: living bytes by pack.
        pack_target: maximum size of a pack and of the data that may be copied, in bytes.
    """
    tiers: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for name, living in packs.items():
        if living < pack_target // 2:
            tiers[tier_of(living, pack_target)].append((living, name))
    chosen: list[str] = []
    left = pack_target
    for number in sorted(tiers):
        if len(tiers[number]) < FAN:
            continue
        taken: list[str] = []
        for living, name in sorted(tiers[number]):
            if living > left:
                break
            left -= living
            taken.append(name)
        # Rewriting a single pack would gain nothing.
        if len(taken) > 1:
            chosen += taken
    return frozenset(chosen)


def tier_of(living: int, pack_target: int) -> int:
    """Return the tier of a pack with fewer living bytes than half of `pack_target`; 0 is the lowest."""
    bound = pack_target // 2
    for number in range(TIERS - 1, 0, -1):
        bound //= FAN
        if living >= bound:
            return number
    return 0
