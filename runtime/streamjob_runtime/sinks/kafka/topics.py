"""Compares what rows need of their topics with the topics, before the rows are staged; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamjob_runtime.kafka.admin import Topic


@dataclass(frozen=True, slots=True)
class TopicUse:
    """What rows need of a topic.

    Args:
        partition: the highest partition that they name; -1 if none does.
        longest: the bytes of the longest one, including overhead.
        keyless: whether one has no key.
    """

    partition: int
    longest: int
    keyless: bool


def uses(texts: Iterable[str]) -> dict[str, TopicUse]:
    """Return what the rows of all tasks need of each topic.

    Args:
        texts: what `KafkaStager` says of the topics of a task.
    """
    found: dict[str, TopicUse] = {}
    for line in (line for text in texts for line in text.splitlines()):
        name, partition, longest, keyless = line.split("\t")
        use = TopicUse(int(partition), int(longest), keyless == "1")
        known = found.get(name, use)
        found[name] = TopicUse(
            max(known.partition, use.partition), max(known.longest, use.longest), known.keyless or use.keyless
        )
    return found


def refusal(name: str, use: TopicUse, topic: Topic | None, *, compressed: bool) -> tuple[str, str] | None:
    """Return why a topic cannot take rows, and a fix; None if nothing speaks against it.

    Args:
        name: the topic's name.
        use: what the rows need.
        topic: the topic; None if it does not exist, and the brokers do not make it.
        compressed: whether the client compresses records, so that their size in the topic is not known.
    """
    if topic is None:
        return f"a row is for topic {name}, which does not exist", f"make topic {name}, or correct the rows of the job"
    if not topic.writable:
        return f"a row is for topic {name}, to which the sink may not write", "allow Write on it"
    if use.partition >= topic.partitions:
        return (
            f"a row has the partition {use.partition}, and topic {name} has {topic.partitions}",
            "give the topic more partitions, or leave the column partition out",
        )
    if use.keyless and "compact" in topic.settings.get("cleanup.policy", ""):
        return (
            f"a row has no key, and topic {name} is compacted",
            "give each row a key, or set cleanup.policy to delete",
        )
    limit = topic.settings.get("max.message.bytes", "")
    if not compressed and limit.isdigit() and use.longest > int(limit):
        return (
            f"a row has {use.longest} bytes, and max.message.bytes of topic {name} is {limit}",
            "raise max.message.bytes of the topic",
        )
    return None
