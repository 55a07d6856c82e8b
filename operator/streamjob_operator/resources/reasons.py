"""The reasons of conditions and events, and what each means: words that alerts and scripts may rely on."""

from __future__ import annotations

from collections.abc import Mapping

ON_ITS_WAY: Mapping[str, str] = {
    "Pending": "The controller has not seen the resource yet, or the StreamSnapshot is not asked for yet.",
    "Created": "Nothing was deployed yet.",
    "Submit": "A driver was decided on: for the first time, after a suspension, or for a changed spec.",
    "CreatingDriver": "The driver's pod is being made.",
    "Deploying": "The driver was decided on, and has not been seen to run.",
    "Starting": "The driver's pod is there, and the job does not run yet.",
    "RewritingState": "The driver rewrites the state for another `maxParallelism`, before the job runs. This counts "
    "towards `upgrade.rollback.readinessTimeout`: allow more where there is much state.",
    "Running": "The job runs.",
    "WaitingForCheckpoint": "The job runs, and the revision has not completed a checkpoint.",
    "Stable": "The job runs, and the revision has completed a checkpoint.",
    "UpToDate": "What runs is what the spec asks for.",
    "Progressing": "Nothing keeps the controller from going on.",
    "SpecChanged": "The spec has changed, and what runs is about to.",
    "PatchingCheckpointing": "The running driver takes over another checkpointing policy.",
    "Stopping": "The driver is being stopped; the message says with a savepoint or without.",
    "Upgrading": "The driver stops for another revision.",
    "Redeploying": "`savepointRedeployNonce` has changed: the driver stops for a start from another snapshot.",
    "Suspending": "The driver stops, as `suspend` asks.",
    "Suspended": "The job is suspended.",
    "Resuming": "The job is to be resumed.",
    "Finished": "All input has ended, and all of it is processed.",
    "Deleting": "The StreamJob is being deleted.",
    "RecordingSavepoint": "The savepoint of the deletion gets its StreamSnapshot.",
    "Disposing": "The checkpoints are being deleted, as `deletionPolicy` asks.",
    "WaitingForOldDriver": "An older driver's pod has to go first.",
    "WaitingForSnapshot": "The StreamSnapshot of `initialSnapshotRef` is not complete, or not there.",
    "WaitingForJob": "The StreamSnapshot is taken once its StreamJob runs; the message says what the job does instead.",
    "WaitingToRestart": "The next driver is started when the delay is over.",
}
"""What is as it should be, or on its way there."""

WRONG: Mapping[str, str] = {
    "InvalidSpec": "The spec cannot be used; the message has what `streamjob validate` says. What ran before runs on. "
    "Correct the spec.",
    "InvalidJob": "The driver refuses the job: something that only Spark or the image can tell is wrong. Correct the "
    "job, or the image.",
    "StateIncompatible": "The spec cannot go on from the job's state, and the job runs on with the old one. Change the "
    "spec, or allow what the message names.",
    "CannotRestore": "The driver cannot start from its snapshot; the message says why. Change the spec, or start from "
    "another snapshot by `savepointRedeployNonce`.",
    "SnapshotUnusable": "The StreamSnapshot of `initialSnapshotRef` has failed. Name another one.",
    "Superseded": "Another owner has claimed the job's log: a second StreamJob or process with the same name and "
    "place. Find and stop it, or give this job another place.",
    "PodRejected": "The API server rejects the driver's pod: a ServiceAccount or PriorityClass is missing, or Pod "
    "Security, a quota, an admission webhook or its validation forbids the pod; the message quotes it. A job that runs "
    "is not stopped. Correct the spec or what the message names: the pod is tried again once a minute at least.",
    "JobFailed": "The job failed, and the driver has ended. It is replaced, as `restartPolicy` says.",
    "DriverFailed": "The driver's process has ended, and left no word of why. It is replaced.",
    "DriverLost": "The driver's pod is gone, with its node or by hand. It is replaced.",
    "Evicted": "The cluster has no place for the driver any longer: its node is drained or short of something, or a "
    "pod of higher priority wants it. The driver stops behind a last checkpoint, and is replaced.",
    "OOMKilled": "The driver took more memory than its container may. It is replaced; raise `driver.memory` or "
    "`driver.memoryOverhead`, or lower the parallelism.",
    "NoAnswer": "The driver runs, and has not answered for a minute; whether the job does, nobody knows. It is "
    "replaced if no checkpoint was completed for longer than `healthCheck` allows.",
    "DriverStopped": "Somebody else has stopped the driver. It is replaced.",
    "RestartsExhausted": "The job failed as often as `restartPolicy.onFailureRetries` allows. It is started again when "
    "the spec changes, such as its `restartNonce`.",
    "RestartUnhealthyJob": "No checkpoint was completed for longer than `healthCheck` allows: the driver is replaced.",
    "Failed": "The job has failed, or the StreamSnapshot as often as `backoffLimit` allows.",
    "RevisionMissing": "The ControllerRevision that was to run is gone. Change the spec back to it, or to another.",
    "Rollback": "The revision did not get going: the last stable one takes its place.",
    "RollingBack": "The driver stops for the last stable revision.",
    "RolledBack": "The last stable revision runs, and this spec will not be tried again. Change the spec.",
    "RollbackCancelled": "The revision completed a checkpoint at its very end, and is kept.",
    "SavepointError": "The savepoint of an upgrade, a suspension or a deletion failed. The job runs on, and it is "
    "tried again later.",
    "LastStateFallback": "The job cannot take the savepoint of a stop: it stops behind its last checkpoint.",
    "LogDamaged": "A record of the job's log is missing or altered; the message names it. No driver is started and "
    "nothing is deleted until the log is whole: see `streamjob log repair`. It is read again.",
    "StoreUnreachable": "The store does not answer, and without it the next step might lose state. It is asked again.",
    "ReconcileFailed": "The controller came upon an error; the message has it. It tries again, with growing delays. A "
    "resource that is being deleted goes without what failed, if the error is a defect of the controller's own.",
    "CleanupFailed": "Checkpoints of a StreamJob that were to be deleted are left in the store; or the files of a "
    "StreamSnapshot cannot be deleted, and it stays until they can, or its finalizer is taken off. The message says "
    "why.",
    "Cleanup": "Files of a deleted StreamSnapshot are left, or kept for as long as the job needs them.",
    "SavepointClaimed": "A StreamSnapshot is deleted, and another job has claimed its savepoint: it runs, or what it "
    "has stored may need the files. The message names the job, and what to delete.",
    "SavepointNeeded": "A StreamSnapshot is deleted, and its job would restart from the savepoint. The files go once a "
    "newer checkpoint is complete.",
    "SnapshotError": "A StreamSnapshot failed; it is tried again, as `backoffLimit` says.",
    "SnapshotAbandoned": "The job went away, or ended, before its StreamSnapshot was taken.",
}
"""What is not as it should be, and what to do."""

ELSEWHERE: Mapping[str, str] = {
    "NoDriver": "`Running` is False: there is no driver.",
    "DriverNotRunning": "`Running` is False: the driver's pod is there, and the job does not run.",
    "NotRunning": "Nothing runs that could be `Ready`, or take checkpoints.",
    "CheckpointsComplete": "`CheckpointHealthy` is True.",
    "CheckpointsFail": "`CheckpointHealthy` is False: the last checkpoints failed; the message has their number.",
    "CheckpointOverdue": "`CheckpointHealthy` is False: none was completed for too long.",
    "NoCheckpointYet": "`CheckpointHealthy` is Unknown: the revision has not completed one yet.",
    "Compatible": "`StateCompatible` is True: the spec can go on from the job's state.",
    "Restored": "`StateCompatible` is True: the job was restored.",
    "NoState": "`StateCompatible` is True: the job began without state.",
    "Incompatible": "`StateCompatible` is False: the message has what does not fit.",
    "NotChecked": "`StateCompatible` is Unknown.",
    "NotRolledBack": "`RolledBack` is False.",
    "InReach": "`StoreInReach` is True.",
    "OnVolume": "`StoreInReach` is False: the snapshots are on a volume of the driver.",
    "NoCredentials": "`StoreInReach` is False: the StreamJob names no Secret with credentials, and the controller was "
    "not allowed to use its own. The job runs all the same; name one, and the controller reads and disposes of "
    "snapshots.",
    "NoLocation": "`StoreInReach` is Unknown: the job has no place for snapshots outside its pod.",
    "InProgress": "The StreamSnapshot was asked for.",
    "Completed": "The StreamSnapshot is complete.",
    "Abandoned": "The StreamSnapshot is not going to be taken: the job went away, or ended.",
}
"""What single conditions and StreamSnapshots say."""
