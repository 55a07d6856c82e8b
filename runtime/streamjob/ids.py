"""Identities as types, so that the protocol never handles an id as a bare `int` or `str`."""

from typing import NewType

Epoch = NewType("Epoch", int)
"""Number of one coordinator's ownership of the job; grows with every claim of the job's log."""

CheckpointId = NewType("CheckpointId", int)
"""Number of a checkpoint or savepoint; grows across epochs and is never reused."""

LogSeq = NewType("LogSeq", int)
"""Number of a record in a job's log: 0, 1, 2, …, without gaps."""

Attempt = NewType("Attempt", int)
"""The controller's increasing number of a pod. A claimer with a lower number than the last claim's is superseded."""

Owner = NewType("Owner", str)
"""Random identity of one claimer. After a lost reply, it tells one's own write from another's."""

BatchId = NewType("BatchId", int)
"""Number of a chain's micro-batch; -1 means none yet."""

OperatorUid = NewType("OperatorUid", str)
"""Stable identity of a source, operator or sink; a restore matches state by it."""

ChainUid = NewType("ChainUid", str)
"""Identity of a chain: operators fused into one Spark query."""

TriggerId = NewType("TriggerId", str)
"""Identity of a request for a checkpoint, savepoint or stop. A request that repeats an id is the same request."""

Key = NewType("Key", str)
"""Name of an object relative to the root of its store; only `streamjob.snapshot.keys` forms them."""

NO_BATCH = BatchId(-1)
