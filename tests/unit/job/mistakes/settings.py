"""Mistakes in the configuration of Spark."""

from __future__ import annotations

from tests.unit.job.texts import job

_OF_SPARK_CONF = {
    "Spark's partitions": (
        "spark.sql.shuffle.partitions: 8",
        "spark.sql.shuffle.partitions is set by the runtime",
        "set maxParallelism: it is the number of state partitions",
    ),
    "Spark's checkpoint": (
        "spark.sql.streaming.checkpointLocation: x",
        "spark.sql.streaming.checkpointLocation is set by the runtime",
        "set checkpointing.location",
    ),
    "Spark's state store": (
        "spark.sql.streaming.stateStore.providerClass: x",
        (
            "spark.sql.streaming.stateStore.providerClass is set to "
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider by the runtime"
        ),
        "leave it out: snapshots rely on one format of state",
    ),
    "watermarks of operators": (
        "spark.sql.streaming.statefulOperator.allowMultiple: false",
        "spark.sql.streaming.statefulOperator.allowMultiple is set by the runtime",
        "leave it out: operators have watermarks of their own",
    ),
    "the files of the job": (
        "spark.hadoop.fs.job.impl: x",
        "spark.hadoop.fs.job.impl is set to io.streamjob.files.JobFileSystem by the runtime",
        "leave it out: Spark finds a job's files by it",
    ),
    "the secret of Spark's connections": (
        "spark.authenticate: false",
        "spark.authenticate is set to true by the runtime",
        "leave it out: other users of the machine can reach the ports of Spark",
    ),
    "not Spark's": (
        "driver.memory: 2g",
        "driver.memory does not begin with 'spark.', so Spark ignores it",
        "write spark.driver.memory",
    ),
    "secret key of a bucket": (
        "spark.hadoop.fs.s3a.secret.key: hunter2",
        "the option 'spark.hadoop.fs.s3a.secret.key' holds a secret, and secrets do not belong in the job file",
        "take it from the environment: ${env:FS_S3A_SECRET_KEY}",
    ),
}
"""By name: the setting, the problem, and the fix."""

OF_SETTINGS = {
    name: (job(more=f"sparkConf: {{{setting}}}"), f"sparkConf: {what}", fix)
    for name, (setting, what, fix) in _OF_SPARK_CONF.items()
}
