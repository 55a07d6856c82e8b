"""Decides which packs a checkpoint writes anew, so that a restore reads few of them however long the job has run.

A pack stays in the store as long as one file in it is referred to. Every checkpoint adds one or two, and what is left
of each shrinks, so after some hours a manifest would refer to hundreds of objects with a few living bytes each. As in a
log-structured merge tree with tiered compaction (O'Neil et al., 1996; the merging compactions of Bigtable, 2006), packs
are sorted into tiers by their living bytes, each `FAN` times as large as the one below, and a full tier is merged into
one pack of the next. The files are at hand in the hold, so nothing is read from the store.

This bounds three things:

- packs: fewer than `FAN` in each of the three tiers, and above these only packs with half a pack's bytes alive;
- work: one checkpoint copies the bytes of one pack at most;
- work in the long run: a byte is copied once for each tier that it rises, and once more for each `FAN` - 1 bytes that
  died beside it; only the lowest tier, which holds next to nothing, may be merged again and again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from streamjob.snapshot.manifest import FileRef

FAN = 16
"""Packs of one tier that are merged, and how much larger the packs of the next tier are."""
TIERS = 3


def packs_of(refs: Iterable[FileRef], pack_below: int) -> dict[str, int]:
    """Return the packs among the objects that a cut refers to, with the bytes in them that it refers to.

    Args:
        refs: files of one cut.
        pack_below: files of this size and larger are no pack, whatever is beside them, in bytes.
    """
    living: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
    large = set()
    for ref in refs:
        living[ref.object][ref.offset, ref.length] = ref.length
        if ref.length >= pack_below:
            large.add(ref.object)
    return {name: sum(parts.values()) for name, parts in living.items() if name not in large}


def packs_to_rewrite(packs: Mapping[str, int], pack_target: int) -> frozenset[str]:
    """Return the packs whose living files are to be packed again.

    Args:
        packs: living bytes by pack.
        pack_target: how large a pack may be, and how many bytes may be copied.
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
        # One alone would be copied for nothing.
        if len(taken) > 1:
            chosen += taken
    return frozenset(chosen)


def tier_of(living: int, pack_target: int) -> int:
    """Return the tier of a pack with fewer living bytes than half of `pack_target`: 0 is the lowest."""
    bound = pack_target // 2
    for number in range(TIERS - 1, 0, -1):
        bound //= FAN
        if living >= bound:
            return number
    return 0
