"""The reasons of conditions and events, and their meanings. Alerts and scripts may rely on these words."""

from __future__ import annotations

from collections.abc import Mapping

ON_ITS_WAY: Mapping[str, str] = {
    "Pending": "The controller has not seen the resource yet, or has not requested the StreamSnapshot yet.",
    "Created": "Nothing has been deployed yet.",
    "Adopted": "The controller has taken over the driver that ran on after `kubectl delete --cascade=orphan`.",
    "Submit": "The controller has decided to start a driver: for the first time, after a suspension, or for a changed "
    "spec.",
    "Scheduled": "No run is under way; the message says when the next one begins.",
    "Scheduling": "The job gets a schedule: its driver, which would run all the time, stops with its state kept.",
    "RunStarted": "A run begins: its time has come, or `schedule.runNonce` has changed.",
    "RunCompleted": "The run has read all that was there when it began. The next one continues from its last "
    "checkpoint.",
    "RunSkipped": "A run does not begin: the one before is still under way, or the time of this one has passed by more "
    "than `schedule.startingDeadline`.",
    "CreatingDriver": "The driver's pod is being created.",
    "Deploying": "The controller has decided to start the driver, and has not seen it running.",
    "Starting": "The driver's pod exists, and the job is not running yet.",
    "MigratingState": "The driver changes state to the form that the job needs, before the job runs. This counts "
    "towards `upgrade.rollback.readinessTimeout`: increase it for large state.",
    "RewritingState": "The driver rewrites the state for another `maxParallelism`, before the job runs. This counts "
    "towards `upgrade.rollback.readinessTimeout`: increase it for large state.",
    "Running": "The job runs.",
    "ExecutorsStarting": "Not all executors are registered with the driver yet; the message has their number.",
    "ExecutorsLeaving": "Fewer executors are wanted, and the others have not ended yet.",
    "WaitingForCheckpoint": "The job is running, and has not completed a checkpoint since it was started, was "
    "restarted or took over a changed spec. After a restart the message has its cause.",
    "Stable": "The job is running, and has completed a checkpoint since it was started, was restarted or took over "
    "a changed spec. As an event: the revision has completed its first checkpoint.",
    "UpToDate": "The running job matches the spec.",
    "Progressing": "Nothing blocks the controller.",
    "SpecChanged": "The spec has changed, and the running job will follow.",
    "Rescaling": "The driver is stopping with a last checkpoint, and starts again with the task slots that automatic "
    "scaling decided on.",
    "Resizing": "The running driver gets other processors in place, as automatic scaling decided.",
    "Resized": "The running driver has got other processors in place.",
    "ScaledUp": "Automatic scaling has decided on more task slots; the message has the reason.",
    "ScaledDown": "Automatic scaling has decided on fewer task slots; the message has the reason.",
    "ScalingAdvised": "With `autoscaling.mode` Advise: another number of task slots fits the load.",
    "PatchingCheckpointing": "The running driver applies a changed checkpointing policy.",
    "PreparingSuccessor": "With `upgrade.warmSuccessor`: the next driver is being prepared in a pod of its own, while "
    "the job runs on.",
    "PreflightRunning": "A pod of the new revision checks whether it can start, while the job runs on.",
    "PreflightPassed": "The pod of the new revision has found that it can start.",
    "PreflightSkipped": "The new revision is not checked before the driver stops: a second pod has no room on the "
    "nodes or in a quota, or the running driver holds its volume. The message has the cause.",
    "Stopping": "The driver is being stopped; the message says whether with a savepoint.",
    "Upgrading": "The driver is stopping for another revision.",
    "Redeploying": "`savepointRedeployNonce` has changed: the driver is stopping, and the job will start from another "
    "snapshot.",
    "Suspending": "The driver is stopping because of `suspend`.",
    "Suspended": "The job is suspended.",
    "Resuming": "The job is about to be resumed.",
    "Finished": "All input has ended, and all of it is processed.",
    "Deleting": "The StreamJob is being deleted.",
    "RecordingSavepoint": "The controller creates the StreamSnapshot for the savepoint of the deletion.",
    "Orphaning": "The StreamJob was deleted with `--cascade=orphan`; the driver runs on without it.",
    "Disposing": "The checkpoints are being deleted because of `deletionPolicy`.",
    "WaitingForOldDriver": "An older driver's pod must be gone first.",
    "WaitingForSnapshot": "The StreamSnapshot of `initialSnapshotRef` is incomplete or does not exist.",
    "WaitingForJob": "The StreamSnapshot waits for its StreamJob to run; the message has the job's current state.",
    "ScaledByViewer": "A viewer of the controller's page has changed `parallelism`; the message names the viewer.",
    "SuspendedByViewer": "A viewer of the controller's page has set `suspend`; the message names the viewer.",
    "ResumedByViewer": "A viewer of the controller's page has unset `suspend`; the message names the viewer.",
    "WaitingToRestart": "The controller starts the next driver when the delay is over.",
}
"""Reasons of the normal course."""

WRONG: Mapping[str, str] = {
    "InvalidSpec": "The spec is invalid; the message has the output of `streamjob validate`. The previous revision "
    "keeps running. Correct the spec.",
    "InvalidJob": "The driver refuses the job because of a mistake that only Spark or the image can detect. Correct "
    "the job, or the image.",
    "StateIncompatible": "The spec does not fit the job's state, and the job keeps running with the old spec. Change "
    "the spec, or allow the change that the message names.",
    "CannotRestore": "The driver cannot start from its snapshot; the message has the cause. Change the spec, or start "
    "from another snapshot with `savepointRedeployNonce`.",
    "SnapshotUnusable": "The StreamSnapshot of `initialSnapshotRef` has failed. Name another one.",
    "Superseded": "Another owner has claimed the job's log: a second StreamJob or process with the same name and "
    "location. Find and stop it, or give this job another location.",
    "PodRejected": "The API server rejects the driver's pod: a ServiceAccount or PriorityClass is missing, or Pod "
    "Security, a quota, an admission webhook or its validation forbids the pod; the message quotes it. A running job "
    "is not stopped. Correct the spec or the object that the message names: the controller retries at least once a "
    "minute.",
    "JobFailed": "The job failed, and the driver has ended. It is replaced according to `restartPolicy`.",
    "JobRestarted": "The job failed, and its driver restores it from its last checkpoint; the message has the cause.",
    "DriverFailed": "The driver's process has ended without a termination message. It is replaced.",
    "DriverLost": "The driver's pod is gone: its node was lost, or it was deleted. It is replaced.",
    "Evicted": "The cluster evicts the driver: its node is being drained or short of a resource, or a pod of higher "
    "priority needs the room. The driver stops with a last checkpoint, and is replaced.",
    "ExecutorsLost": "Executors that were ready are gone, and are being replaced; the job goes back to its last "
    "checkpoint. The message has their number, and the cause if it is known.",
    "FailedCreate": "The pods of executors cannot be created: a quota, Pod Security or an admission webhook forbids "
    "them; the message quotes it. Kubernetes keeps trying.",
    "OOMKilled": "The driver exceeded the memory limit of its container. It is replaced. Raise `driver.memory` or "
    "`driver.memoryOverhead`, or lower the parallelism.",
    "NoAnswer": "The driver's pod is running, but has not answered for a minute. The job may be healthy. The driver "
    "is replaced if no checkpoint completes for longer than `healthCheck` allows.",
    "DriverStopped": "The driver was stopped from outside. It is replaced.",
    "RestartsExhausted": "The job failed as often as `restartPolicy.onFailureRetries` allows. It is started again "
    "when the spec changes, for example its `restartNonce`.",
    "RestartLoop": "The job fails again and again, though it completes checkpoints in between: more than three drivers "
    "have failed in a row, or the driver has restarted the job as often. It is ready again after ten minutes without a "
    "failure.",
    "RestartUnhealthyJob": "No checkpoint was completed for longer than `healthCheck` allows: the driver is replaced.",
    "Failed": "The job has failed, or the StreamSnapshot has failed and `backoffLimit` is used up.",
    "RevisionMissing": "The ControllerRevision to run is gone. Change the spec.",
    "Rollback": "The revision did not become stable: the last stable one replaces it.",
    "RollingBack": "The driver is stopping for the last stable revision.",
    "RolledBack": "The last stable revision is running, and this spec will not be tried again. Change the spec.",
    "RollbackCancelled": "The revision completed a checkpoint at its very end, and is kept.",
    "PreflightFailed": "The pod of the new revision has found that it cannot start, or has failed itself; the message "
    "has its error. The running job is left alone. If the job is wrong or does not fit its state, correct the spec: "
    "the next one is checked again. Other failures are repeated with growing delays.",
    "SuccessorFailed": "The next driver was not prepared while the job ran: its pod was rejected, found no room, has "
    "ended, or took longer than two minutes; the message has the cause. The upgrade goes the ordinary way.",
    "SavepointError": "The savepoint of an upgrade, a suspension or a deletion failed. The job keeps running, and the "
    "savepoint is tried again later.",
    "LastStateFallback": "The job cannot take the savepoint of a stop: it stops with its last checkpoint.",
    "LogDamaged": "A record of the job's log is missing or altered; the message names it. No driver is started and "
    "nothing is deleted until the log is intact: see `streamjob log repair`. The controller keeps reading it.",
    "StoreUnreachable": "The store does not answer the controller; the message has its error. If the next step might "
    "lose state, it waits. The controller keeps trying.",
    "SecretMissing": "The Secret that `storage.credentialsSecretRef` names does not exist, or lacks a key. Create it: "
    "the controller looks again within a minute, and a driver's pod that waits for it starts.",
    "BucketMissing": "The bucket of the location does not exist at the endpoint. Create it, or correct the location "
    "or `storage.endpoint`. The controller keeps trying, and a driver that ended for it is replaced.",
    "CredentialsRejected": "The store does not know the access key, or the secret key does not belong to it. Correct "
    "the Secret. The controller keeps trying, and a driver that ended for it is replaced.",
    "CredentialsExpired": "The session token in the Secret has expired. Renew the Secret. The controller keeps "
    "trying, and a driver that ended for it is replaced.",
    "AccessDenied": "The credentials lack a right; the message names the request, and the rights that a job needs. "
    "Grant them. The controller keeps trying, and a driver that ended for it is replaced.",
    "StoreDenied": "The store refuses the controller's requests for another reason, such as a wrong region; the "
    "message has its error. The controller keeps trying.",
    "ReconcileFailed": "An error occurred in the controller; the message has it. The controller retries with growing "
    "delays. If the error is a bug of the controller, a resource that is being deleted skips the failed step.",
    "CleanupFailed": "Checkpoints of a deleted StreamJob could not be deleted and stay in the store; or the files of "
    "a StreamSnapshot cannot be deleted, and it stays until they can, until you remove its finalizer, or, if the store "
    "is the cause, for ten minutes. The message has the cause, and the place of files that were left.",
    "Cleanup": "Files of a deleted StreamSnapshot stay, or are kept for as long as the job needs them.",
    "SavepointClaimed": "A StreamSnapshot is being deleted, and another job has claimed its savepoint: that job "
    "exists, or its log may need the files. The message names the job and the object to delete.",
    "SavepointNeeded": "A StreamSnapshot is being deleted, and its job would restart from the savepoint. The files "
    "are deleted when a newer checkpoint is complete.",
    "ScaleIgnored": "`parallelism` has changed, by hand or through `/scale`, while `autoscaling.mode` is Act. Remove "
    "the other autoscaler, or turn this one off.",
    "MemoryRaised": "The driver was short of memory, or exceeded that of its container and was killed. The next one "
    "gets half as much again, up to `autoscaling.maxMemory`.",
    "MemoryReduced": "The driver used much less memory than it had for six hours. The next one, which has another "
    "number of task slots, gets less, but at least `autoscaling.minMemory`.",
    "ScalingLimited": "More task slots would help the job, and the message names what forbids them: "
    "`autoscaling.max`, `maxParallelism`, the partitions of its sources, a quota, the room on the nodes, or the "
    "driver's memory.",
    "ScalingSaturated": "More task slots did not help the job. The message names the chain that takes most of the "
    "time.",
    "ScalingUndone": "A change of the task slots did not help, or the job completed no checkpoint after it: it is "
    "undone.",
    "SnapshotError": "A StreamSnapshot failed; it is tried again, up to `backoffLimit`.",
    "SnapshotAbandoned": "The job was deleted or ended before its StreamSnapshot was taken.",
}
"""Reasons of problems, with the fix."""

ELSEWHERE: Mapping[str, str] = {
    "NoDriver": "`Running` is False: there is no driver.",
    "DriverNotRunning": "`Running` is False: the driver's pod exists, but the job is not running.",
    "NotRunning": "No job is running that could be `Ready` or take checkpoints.",
    "CheckpointsComplete": "`CheckpointHealthy` is True.",
    "CheckpointsFail": "`CheckpointHealthy` is False: the last checkpoints failed; the message has their number.",
    "CheckpointOverdue": "`CheckpointHealthy` is False: no checkpoint has completed for too long.",
    "NoCheckpointYet": "`CheckpointHealthy` is Unknown: the job has not completed one since its last start or restart.",
    "Compatible": "`StateCompatible` is True: the spec can continue from the job's state.",
    "Restored": "`StateCompatible` is True: the job was restored.",
    "NoState": "`StateCompatible` is True: the job started without state.",
    "Incompatible": "`StateCompatible` is False: the message lists the differences.",
    "NotChecked": "`StateCompatible` is Unknown.",
    "NoPreflight": "`PreflightPassed` is Unknown: no revision had to be checked.",
    "NotRolledBack": "`RolledBack` is False.",
    "InReach": "`StoreInReach` is True.",
    "OnVolume": "`StoreInReach` is False: the snapshots are on a volume of the driver.",
    "NoCredentials": "`StoreInReach` is False: the StreamJob names no Secret with credentials, and the controller may "
    "not use its own. The job runs normally. If you name a Secret, the controller reads and deletes snapshots.",
    "ExecutorsReady": "`ExecutorsReady` is True.",
    "NoLocation": "`StoreInReach` is Unknown: the job has no location for snapshots outside its pod.",
    "InProgress": "The StreamSnapshot was requested.",
    "Completed": "The StreamSnapshot is complete.",
    "Abandoned": "The StreamSnapshot will not be taken: the job was deleted or ended.",
}
"""Reasons of single conditions and of StreamSnapshots."""
