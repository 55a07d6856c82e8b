"""The identities that the protocol speaks of, as types: a bare `int` or `str` is never an id."""

from typing import NewType

Epoch = NewType("Epoch", int)
"""One fenced life of a job's coordinator; grows with every claim of the job's log."""

CheckpointId = NewType("CheckpointId", int)
"""Number of a checkpoint or savepoint; grows across epochs and is never used twice."""

LogSeq = NewType("LogSeq", int)
"""Number of a record in a job's log; dense, from 0."""

Attempt = NewType("Attempt", int)
"""The controller's monotone number for a pod; a claimer with a lower one than the last claim is superseded."""

Owner = NewType("Owner", str)
"""Random identity of one claimer; tells one's own write from another's after a lost reply."""

BatchId = NewType("BatchId", int)
"""Number of a chain's micro-batch; -1 stands for 'none yet'."""

OperatorUid = NewType("OperatorUid", str)
"""Stable identity of a source, operator or sink; state is matched by it on restore."""

ChainUid = NewType("ChainUid", str)
"""Identity of a chain: operators fused into one Spark query."""

TriggerId = NewType("TriggerId", str)
"""Identity of a request for a checkpoint, savepoint or stop; a repeated request is the same request."""

Key = NewType("Key", str)
"""Name of an object in a store, relative to the store's root; formed by `streamjob.snapshot.keys` only."""

NO_BATCH = BatchId(-1)
