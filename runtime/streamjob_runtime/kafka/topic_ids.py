"""Tells a topic from another one with the same name, which was made after the first one was deleted.

Offsets belong to a topic, and begin again in another one. So a snapshot has the id of each topic that it has positions
of. They are compared when an epoch starts, and again behind the cut of each checkpoint: a topic that still has its id
then had it whenever the rows of the checkpoint were read, as no id is given twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from streamjob_runtime.kafka.admin import KafkaAdmin
from streamjob_runtime.kafka.errors import KafkaUnreachable, TopicMadeAgain
from streamjob_runtime.kafka.positions import Offsets

TopicIds = Mapping[str, str]
"""The ids of topics, by name."""


def same_topics(who: str, before: TopicIds, now: TopicIds) -> TopicIds:
    """Return the ids of all topics that a source has read or reads now.

    Args:
        who: the source, at the beginning of a message.
        before: the ids when it was last read.
        now: the ids of the topics that exist; others are gone, which their offsets tell.

    Raises:
        TopicMadeAgain: a topic has another id.
    """
    for topic, known in sorted(before.items()):
        if now.get(topic, known) != known:
            raise TopicMadeAgain(
                f"{who}: topic {topic!r} is not the one that the snapshot has read: that had the id {known}, this has "
                f"the id {now[topic]}; it was deleted and made again, and the positions of the snapshot mean nothing "
                "in it",
                "give the source another uid and startingOffsets: earliest, and start with --allow-non-restored-state: "
                "it reads the new topic from its beginning, and other sources and state continue; or start without "
                "state with --from none",
            )
    return {**before, **now}


class KnownTopics:
    """The topics that a source reads in an epoch; any thread may call it.

    Args:
        who: the source, at the beginning of a message.
        ids: the ids of its topics at the start.
        bounded: whether it reads no other topics.
        made_again: is told if a topic was made again: the job must not continue.
    """

    def __init__(
        self,
        who: str,
        ids: TopicIds,
        connect: Callable[[], KafkaAdmin],
        made_again: Callable[[TopicMadeAgain], None],
        *,
        bounded: bool,
    ) -> None:
        self._who = who
        self._made_again = made_again
        self._ids = ids
        self._bounded = bounded
        self._connect = connect
        self._admin: KafkaAdmin | None = None
        self._checked: Offsets = {}
        self._lock = threading.Lock()

    def check(self, position: Offsets) -> dict[str, str]:
        """Return the ids of the topics in a position, which has been read.

        Raises:
            TopicMadeAgain: a topic has another id than before.
            KafkaUnreachable, KafkaRefuses: Kafka does not tell, and something has been read since it last did.
        """
        with self._lock:
            topics = {each.topic for each in position if not self._bounded or each.topic in self._ids}
            if not topics:
                return {}
            try:
                if self._admin is None:
                    self._admin = self._connect()
                self._ids = same_topics(self._who, self._ids, self._admin.topic_ids(topics))
                self._checked = position
            except TopicMadeAgain as error:
                self._made_again(error)
                raise
            except KafkaUnreachable:
                # A job that reads nothing needs no brokers.
                if position != self._checked:
                    raise
            return {topic: self._ids[topic] for topic in sorted(topics & self._ids.keys())}

    def close(self) -> None:
        """Close the client."""
        with self._lock:
            if self._admin is not None:
                self._admin.close()
