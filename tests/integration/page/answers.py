"""Parts of the control API's answers, each with usual figures."""

from __future__ import annotations

import math
from typing import Any

from streamjob_runtime.profiling.stacks import profile_of

START = 1_795_390_000.0
NOW = START + 8_074
"""The drivers' clock: it stands, so that pictures can be compared."""
WATERMARK_MS = round((NOW - 62) * 1000)
ROOT = "s3://streamjob-state/production/orders"

Json = dict[str, Any]


def chain(uid: str, inputs: list[Json], operators: list[str], **changes: Any) -> Json:
    """Return a chain that is half busy, with some fields changed."""
    return {
        "uid": uid,
        "operators": operators,
        "batch": 6_214,
        "recordsIn": 98_234_567,
        "recordsOut": 12_345_678,
        "recordsInPerSecond": 12_410.4,
        "recordsOutPerSecond": 1_512.0,
        "watermarkMs": WATERMARK_MS,
        "inputs": inputs,
        "lastBatchMs": 840,
        "backpressured": 0.0,
        "backpressuredSeconds": 3.2,
        "recordsDroppedLate": {},
        "finished": False,
        "busy": 0.34,
        "batchTimes": {
            "batches": 20,
            "seconds": 0.84,
            "offsets": 0.03,
            "planning": 0.06,
            "execution": 0.64,
            "logs": 0.08,
            "waiting": 0.0,
            "sinks": {},
            "sinksCompute": False,
            "stateCommit": 0.21,
        },
        "operatorFigures": [
            {
                "uid": each,
                "rowsIn": 98_234_567,
                "rowsOut": 12_345_678,
                "seconds": 1_204.0,
                "stateRows": 1_234_567 if "minutes" in each or "joined" in each else None,
                "stateBytes": 412_000_000 if "minutes" in each or "joined" in each else None,
                "lateRows": 0,
            }
            for each in operators
        ],
    } | changes


def source(uid: str, **changes: Any) -> Json:
    """Return an input that is a source of Kafka, with some fields changed."""
    return {
        "uid": uid,
        "chain": None,
        "watermarkMs": WATERMARK_MS,
        "lagMs": 62_000,
        "idleSeconds": 0.4,
        "holdsWatermarkBack": False,
        "ended": False,
        "lagRecords": 1_210,
        "lagSeconds": 0.9,
        "partitions": [
            {"topic": uid, "partition": number, "position": 8_123_456 + 977 * number, "lag": 100 + 7 * number}
            for number in range(6)
        ],
        "offsetReportFailures": 0,
    } | changes


def reads(uid: str, **changes: Any) -> Json:
    """Return an input that is another chain."""
    return {
        **source(uid, chain=uid, lagRecords=None, lagSeconds=None, partitions=[], offsetReportFailures=None),
        **changes,
    }


def channel(writer: str, reader: str, **changes: Any) -> Json:
    """Return a channel that is nearly empty, with some fields changed."""
    return {
        "from": writer,
        "to": reader,
        "records": 1_512,
        "bytes": 412_000,
        "capacityRecords": None,
        "capacityBytes": 67_108_864,
        "fill": 0.06,
        "lagMs": 1_000,
        "feedback": False,
        "workSeconds": 0.4,
    } | changes


def sink(uid: str, **changes: Any) -> Json:
    """Return an exactly-once sink, with some fields changed."""
    return {
        "uid": uid,
        "name": uid,
        "format": "iceberg",
        "target": f"sales.{uid}",
        "delivery": "exactly-once",
        "records": 1_234_567,
        "recordsPublished": 1_230_002,
        "batchesPublished": 6_190,
        "batchesWaiting": 24,
        "lastPublished": {"id": 806, "time": NOW - 6.5, "durationMs": 240},
        "failures": 0,
    } | changes


def part(uid: str, number: int = 0, **changes: Any) -> Json:
    """Return a chain's part in a checkpoint."""
    return {
        "id": uid,
        "status": "COMPLETED",
        "latest_ack_timestamp": 0,
        "end_to_end_duration": 620 + 130 * number,
        "checkpointed_size": 1_200_000 * (number + 1),
        "state_size": 412_000_000,
        "processed_data": 10_000,
        "persisted_data": 0,
        "alignment_buffered": 0,
        "num_subtasks": 1,
        "num_acknowledged_subtasks": 1,
        "sync_duration": 14 + 3 * number,
        "async_duration": 500 + 30 * number,
        "alignment_duration": 60 * number,
        "start_delay": 40 * number,
        "unaligned_checkpoint": False,
    } | changes


def checkpoint(number: int, chains: list[str], **changes: Any) -> Json:
    """Return a completed checkpoint of ten seconds after its predecessor."""
    triggered = round((NOW - 7 - 10 * (806 - number)) * 1000)
    duration = round(900 + 420 * math.sin(number * 1.7) + (900 if number % 11 == 0 else 0))
    return {
        "className": "completed",
        "id": number,
        "status": "COMPLETED",
        "is_savepoint": False,
        "trigger_timestamp": triggered,
        "latest_ack_timestamp": triggered + duration,
        "end_to_end_duration": duration,
        "checkpointed_size": 4_200_000 + 31_000 * (number % 17),
        "state_size": 824_000_000,
        "processed_data": 0,
        "persisted_data": 0,
        "alignment_buffered": 0,
        "num_subtasks": len(chains),
        "num_acknowledged_subtasks": len(chains),
        "checkpoint_type": "CHECKPOINT",
        "tasks": {uid: part(uid, index) for index, uid in enumerate(chains)},
        "external_path": f"{ROOT}/checkpoints/14-{number}/manifest.json",
        "discarded": number < 804,
    } | changes


def failed(number: int, chains: list[str], message: str) -> Json:
    """Return a checkpoint that failed after thirty seconds."""
    entry = checkpoint(number, chains)
    for name in ("external_path", "discarded"):
        del entry[name]
    return entry | {
        "className": "failed",
        "status": "FAILED",
        "end_to_end_duration": -1,
        "latest_ack_timestamp": -1,
        "num_acknowledged_subtasks": len(chains) - 1,
        "failure_timestamp": entry["trigger_timestamp"] + 3_000,
        "failure_message": message,
        "tasks": entry["tasks"]
        | {chains[-1]: part(chains[-1], status="FAILED", end_to_end_duration=-1, checkpointed_size=0)},
    }


def statistics(history: list[Json], **counts: int) -> Json:
    """Return the statistics of checkpoints; the history with the youngest first."""
    completed = [each for each in history if each["status"] == "COMPLETED"]
    bad = [each for each in history if each["status"] == "FAILED"]
    spread = {"min": 480, "max": 2_410, "avg": 930, "p50": 912.0, "p90": 1_320.0, "p95": 1_610.0, "p99": 2_180.0}
    figures = {"p999": 2_400.0, **spread} if completed else dict.fromkeys(("p999", *spread), 0)
    sizes = {name: value * 4_600 for name, value in figures.items()}
    return {
        "counts": {"restored": 1, "total": 806, "in_progress": 0, "completed": len(completed), "failed": len(bad)}
        | counts,
        "summary": {
            "checkpointed_size": sizes,
            "state_size": sizes,
            "end_to_end_duration": figures,
            "alignment_buffered": figures,
            "processed_data": figures,
            "persisted_data": figures,
        },
        "latest": {
            "completed": completed[0] if completed else None,
            "savepoint": None,
            "failed": bad[0] if bad else None,
            "restored": {
                "id": 640,
                "restore_timestamp": round(START * 1000),
                "is_savepoint": True,
                "external_path": f"{ROOT}/savepoints/640-2f/manifest.json",
            },
        },
        "history": history,
    }


def last_checkpoint(entry: Json) -> Json:
    """Return the job's view of a completed checkpoint."""
    triggered = entry["trigger_timestamp"] / 1000
    return {
        "id": entry["id"],
        "kind": "savepoint" if entry["is_savepoint"] else "checkpoint",
        "triggered": triggered,
        "completed": triggered + entry["end_to_end_duration"] / 1000,
        "durationMs": entry["end_to_end_duration"],
        "checkpointedSize": entry["checkpointed_size"],
        "stateSize": entry["state_size"],
        "path": entry["external_path"],
        "unaligned": False,
        "alignmentMs": 120,
        "persistedData": 0,
        "tasks": entry["tasks"],
    }


def part_of_graph(kind: str, name: str, **more: Any) -> Json:
    if kind == "operators":
        return {"name": name, "uid": name, "sql": f"SELECT *\nFROM {name}", "inputs": [], "chain": True} | more
    options = {"subscribe": name} if kind == "sources" else {"table": f"sales.{name}"}
    return {"name": name, "uid": name, "format": "kafka" if kind == "sources" else "iceberg", "options": options} | more


_SPARK = "org.apache.spark."
_TASK = ("Executor task launch worker", "java.lang.Thread.run", f"{_SPARK}executor.Executor$TaskRunner.run")
_BATCH = (*_TASK, f"{_SPARK}scheduler.ResultTask.runTask", f"{_SPARK}sql.execution.WholeStageCodegenExec.hasNext")
_STATE = f"{_SPARK}sql.execution.streaming.state."
_STREAM = ("stream execution thread for minutes", f"{_SPARK}sql.execution.streaming.StreamExecution.runStream")
STACKS = {
    (*_BATCH, "GeneratedIteratorForCodegenStage1.agg_doConsume"): 3100.0,
    (*_BATCH, "GeneratedIteratorForCodegenStage1.agg_doConsume", f"{_SPARK}unsafe.types.UTF8String.split"): 2900.0,
    (*_BATCH, f"{_STATE}RocksDBStateStoreProvider$RocksDBStateStore.put", "org.rocksdb.RocksDB.put"): 4200.0,
    (*_BATCH, f"{_STATE}RocksDBStateStoreProvider$RocksDBStateStore.get", "org.rocksdb.RocksDB.get"): 2600.0,
    (*_BATCH, f"{_SPARK}sql.execution.datasources.parquet.ParquetOutputWriter.write"): 1900.0,
    (
        *_TASK,
        f"{_SPARK}scheduler.ShuffleMapTask.runTask",
        "org.apache.kafka.clients.consumer.KafkaConsumer.poll",
    ): 2400.0,
    (*_STREAM, f"{_SPARK}sql.execution.QueryExecution.executedPlan"): 900.0,
    (*_STREAM, f"{_SPARK}sql.execution.streaming.CheckpointFileManager.createAtomic"): 500.0,
    ("[garbage collection]",): 1100.0,
    ("[compiler]",): 700.0,
}


def profile(name: str, state: str = "COMPLETED", *more: str) -> Json:
    """Return a profile with a Java that computes, and a Python of which nothing is known.

    Args:
        name: its id.
        state: its state.
        more: names of further functions.
    """
    stacks = STACKS | {(*_TASK, *more): 1500.0 for _ in more[:1]}
    java = profile_of("driver", "java", stacks).model_dump(mode="json")
    lost = {"failure": "Executor 1 (executor-1) is lost"}
    python = profile_of("executor-1", "python", {}).model_dump(mode="json") | lost
    processes = [java, python] if state == "COMPLETED" else []
    return {"id": name, "state": state, "seconds": 30.0, "started": NOW - 90, "failure": None, "processes": processes}
