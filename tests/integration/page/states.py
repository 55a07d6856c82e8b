"""Recorded states of jobs as the control API answers them, for the page's tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

START = 1_795_390_000.0
NOW = START + 8_074
"""The drivers' clock: it stands, so that pictures can be compared."""
HOSTILE = "<img src=x onerror=alert(1)>"
_WATERMARK_MS = round((NOW - 62) * 1000)
_ROOT = "s3://streamjob-state/production/orders"

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
        "watermarkMs": _WATERMARK_MS,
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
        "watermarkMs": _WATERMARK_MS,
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
        "external_path": f"{_ROOT}/checkpoints/14-{number}/manifest.json",
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
                "external_path": f"{_ROOT}/savepoints/640-2f/manifest.json",
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


def _part_of_graph(kind: str, name: str, **more: Any) -> Json:
    if kind == "operators":
        return {"name": name, "uid": name, "sql": f"SELECT *\nFROM {name}", "inputs": [], "chain": True} | more
    options = {"subscribe": name} if kind == "sources" else {"table": f"sales.{name}"}
    return {"name": name, "uid": name, "format": "kafka" if kind == "sources" else "iceberg", "options": options} | more


ORDERS: Json = {
    "name": "orders",
    "parallelism": 4,
    "maxParallelism": 16,
    "sources": [_part_of_graph("sources", "orders"), _part_of_graph("sources", "payments")],
    "operators": [
        _part_of_graph("operators", "joined", inputs=[{"from": "orders"}, {"from": "payments"}]),
        _part_of_graph("operators", "minutes", inputs=[{"from": "joined"}]),
        _part_of_graph("operators", "fraud_score", inputs=[{"from": "joined"}], sql=None, function="fraud:score"),
        _part_of_graph("operators", "alerts_only", inputs=[{"from": "fraud_score"}]),
    ],
    "sinks": [
        _part_of_graph("sinks", "report", input="minutes"),
        _part_of_graph("sinks", "alerts", input="alerts_only", format="kafka", options={"topic": "alerts"}),
    ],
}


def orders(**changes: Any) -> Json:
    """Return a running job of three chains that is well, with some fields changed."""
    names = ["joined", "minutes", "fraud_score"]
    return {
        "state": "RUNNING",
        "stateSince": NOW - 8_020,
        "name": "orders",
        "namespace": "production",
        "graph": ORDERS,
        "attempt": 3,
        "epoch": 14,
        "restarts": 1,
        "startTime": START,
        "uptime": NOW - START,
        "location": _ROOT,
        "recordsIn": 98_234_567,
        "recordsOut": 13_580_245,
        "recordsInPerSecond": 12_410.4,
        "recordsOutPerSecond": 1_602.0,
        "chains": [
            chain("joined", [source("orders"), source("payments", lagRecords=88)], ["orders", "payments", "joined"]),
            chain("minutes", [reads("joined")], ["minutes", "report"], busy=0.58, lastBatchMs=1_240),
            chain("fraud_score", [reads("joined")], ["fraud_score", "alerts_only", "alerts"], busy=0.21),
        ],
        "channels": [channel("joined", "minutes"), channel("joined", "fraud_score", fill=0.02)],
        "sinks": [
            sink("report"),
            sink("alerts", format="kafka", target="alerts", delivery="at-least-once", lastPublished=None),
        ],
        "lastCheckpoint": last_checkpoint(checkpoint(806, names)),
        "restoredFrom": {"id": 640, "kind": "savepoint", "path": f"{_ROOT}/savepoints/640-2f/manifest.json"},
        "rewriting": None,
        "failure": None,
    } | changes


def changed(job: Json, uid: str, **changes: Any) -> Json:
    """Return the job with some fields of one chain changed."""
    chains = [each | changes if each["uid"] == uid else each for each in job["chains"]]
    return job | {"chains": chains}


def points(
    job: Json,
    lag: Callable[[float], float | None],
    *,
    rate: float = 12_400,
    batch: float = 1.1,
    age: Callable[[float], float | None] | None = None,
) -> list[Json]:
    """Return the figures of twenty minutes; `lag` and `age` are functions of the seconds before now."""
    made = []
    for back in range(1_200, -1, -5):
        wave = math.sin(back / 41) + 0.6 * math.sin(back / 17 + 1)
        behind = lag(back)
        made.append(
            {
                "at": NOW - back,
                "lagSeconds": behind,
                "lagRecords": None if behind is None else round(behind * rate),
                "rowsPerSecond": rate + rate / 9 * wave,
                "batchSeconds": batch * (1 + 0.16 * wave) + (batch if back % 245 == 0 else 0),
                "checkpointAgeSeconds": age(back) if age else (NOW - back) % 10 + 0.9,
                "chains": {
                    each["uid"]: {
                        "busy": min(1.0, max(0.0, each["busy"] + 0.05 * wave)),
                        "backpressured": each["backpressured"],
                        "rowsPerSecond": each["recordsInPerSecond"] * (1 + 0.1 * wave),
                        "batchSeconds": batch,
                    }
                    for each in job["chains"]
                },
            }
        )
    return made


def event(number: int, back: float, kind: str, sentence: str, weight: str = "routine", **details: Any) -> Json:
    """Return an event of so many seconds ago."""
    return {
        "id": number,
        "at": NOW - back,
        "kind": kind,
        "weight": weight,
        "sentence": sentence,
        "details": details,
    }


def _history(names: list[str]) -> list[Json]:
    return [checkpoint(number, names) for number in range(806, 756, -1)]


def _events() -> list[Json]:
    routine = [
        event(
            900 - number,
            6 + 10 * number,
            "checkpoint",
            f"checkpoint {806 - number} completed in 0.9 s, 4.2 MB",
            checkpoint=806 - number,
        )
        for number in range(12)
    ]
    return [
        *routine,
        event(
            31,
            1_860,
            "request",
            "checkpoint 620 was requested by the API and completed",
            "notable",
            trigger="before-lunch",
        ),
        event(9, 8_020, "state", "the job is running", "notable", epoch=14),
        event(
            8,
            8_071,
            "restart",
            "restart 1: the sink alerts raised KafkaTimeoutError",
            "bad",
            text='Traceback (most recent call last):\n  File "sink.py", line 84, in write\n    producer.flush(30)\n'
            "KafkaTimeoutError: 3 message(s) were not delivered within 30 s",
        ),
        event(7, 8_073, "state", "restoring from savepoint 640", "notable"),
    ]


def diagnosis(severity: str, sentence: str, *others: Json, code: str = "all-well", **where: Any) -> Json:
    """Return the answer of `GET /v1/diagnosis`."""
    first = {"code": code, "severity": severity, "sentence": sentence, "chain": None, "sink": None, "source": None}
    return {"severity": severity, "sentence": sentence, "reasons": [first | where, *others]}


CHECKPOINTING: Json = {"interval": "10s", "timeout": "10m", "mode": "exactly-once"}


def state(
    job: Json,
    verdict: Json,
    *,
    history: list[Json] | None = None,
    figures: list[Json] | None = None,
    events: list[Json] | None = None,
    checkpointing: Json | None = None,
    **counts: int,
) -> Json:
    """Return all answers of one driver."""
    names = [each["uid"] for each in job["chains"]]
    entries = _history(names) if history is None else history
    made = points(job, lambda back: 0.9 + 0.3 * math.sin(back / 23)) if figures is None else figures
    return {
        "job": job,
        "diagnosis": verdict,
        "checkpoints": statistics(entries, **counts),
        "point": made[-1] if made else None,
        "checkpointing": CHECKPOINTING if checkpointing is None else checkpointing,
        "points": made,
        "events": _events() if events is None else events,
        "executors": {"wanted": 0, "lost": 0, "skew": None, "executors": []},
    }


def healthy() -> Json:
    """All is well."""
    return state(orders(), diagnosis("ok", "All is well: the job keeps up, and its last checkpoint is 6 s old"))


def behind() -> Json:
    """A slow sink holds the job up."""
    job = changed(
        orders(),
        "minutes",
        busy=0.98,
        lastBatchMs=5_012,
        batchTimes={
            "batches": 20,
            "seconds": 5.01,
            "offsets": 0.05,
            "planning": 0.06,
            "execution": 4.71,
            "logs": 0.09,
            "waiting": 0.0,
            "sinks": {"report": 3.56},
            "sinksCompute": False,
            "stateCommit": 0.3,
        },
    )
    job = changed(
        job,
        "joined",
        backpressured=0.72,
        backpressuredSeconds=261.5,
        busy=0.26,
        inputs=[
            source("orders", lagRecords=2_976_400, lagSeconds=240.0),
            source("payments", lagRecords=88, idleSeconds=41.0, holdsWatermarkBack=True),
        ],
    )
    job["channels"] = [
        channel("joined", "minutes", fill=0.97, records=812_345, bytes=65_000_000, lagMs=222_000, workSeconds=241),
        channel("joined", "fraud_score", fill=0.02),
    ]
    verdict = diagnosis(
        "attention",
        "Behind by 4m 00s: chain minutes is the bottleneck (busy 98 %), its sink report takes 71 % of each batch",
        {
            "code": "watermark-held-back",
            "severity": "attention",
            "sentence": "Source payments has brought no record for 41 s and holds back the watermark of chain joined",
            "chain": "joined",
            "sink": None,
            "source": "payments",
        },
        code="behind",
        chain="minutes",
    )
    figures = points(job, lambda back: max(0.9, 240 - back * 0.31), rate=9_800, batch=4.6)
    return state(job, verdict, figures=figures)


def starting() -> Json:
    """The process has begun; nothing has run yet."""
    job = orders(
        state="CREATED",
        stateSince=NOW - 4,
        epoch=None,
        restarts=0,
        attempt=1,
        startTime=NOW - 4,
        uptime=4.0,
        chains=[],
        channels=[],
        sinks=[],
        lastCheckpoint=None,
        restoredFrom=None,
        recordsIn=0,
        recordsOut=0,
        recordsInPerSecond=0.0,
        recordsOutPerSecond=0.0,
    )
    events = [event(1, 4, "state", "the job starts", "notable")]
    made = state(
        job, diagnosis("ok", "Starting for 4 s", code="starting"), history=[], figures=[], events=events, total=0
    )
    made["checkpoints"]["latest"]["restored"] = None
    return made


def no_data() -> Json:
    """The job runs, but its sources have brought nothing."""
    job = orders(
        recordsIn=0,
        recordsOut=0,
        recordsInPerSecond=0.0,
        recordsOutPerSecond=0.0,
        lastCheckpoint=None,
        restoredFrom=None,
        startTime=NOW - 20,
        uptime=20.0,
    )
    quiet: Json = {
        "batch": -1,
        "busy": 0.0,
        "lastBatchMs": None,
        "watermarkMs": None,
        "recordsIn": 0,
        "recordsOut": 0,
        "recordsInPerSecond": 0.0,
        "recordsOutPerSecond": 0.0,
        "batchTimes": None,
        "operatorFigures": [],
    }
    for each in job["chains"]:
        inputs = [
            entry | {"watermarkMs": None, "lagMs": None, "idleSeconds": 19.0, "lagRecords": None, "lagSeconds": None}
            for entry in each["inputs"]
        ]
        job = changed(job, each["uid"], inputs=[entry | {"partitions": []} for entry in inputs], **quiet)
    job["channels"] = [each | {"records": 0, "bytes": 0, "fill": 0.0, "lagMs": None} for each in job["channels"]]
    job["sinks"] = [
        each | {"records": 0, "recordsPublished": 0, "batchesWaiting": 0, "lastPublished": None}
        for each in job["sinks"]
    ]
    made = state(job, diagnosis("ok", "All is well: no input has arrived yet"), history=[], figures=[], events=[])
    made["checkpoints"]["latest"]["restored"] = None
    return made


def restoring() -> Json:
    """A large state comes back."""
    job = orders(
        state="RESTORING",
        stateSince=NOW - 38,
        chains=[],
        channels=[],
        lastCheckpoint=None,
        uptime=41,
        startTime=NOW - 41,
    )
    return state(
        job,
        diagnosis("attention", "Restoring savepoint 640 for 38 s: 824 MB of state", code="restoring"),
        history=[],
        figures=[],
    )


def rewriting() -> Json:
    """The state is rewritten for more partitions."""
    job = orders(
        state="RESTORING",
        stateSince=NOW - 95,
        chains=[],
        channels=[],
        rewriting={"partitions": 16, "maxParallelism": 64},
    )
    verdict = diagnosis("attention", "Rewriting state from 16 to 64 partitions for 1m 35s", code="rewriting")
    return state(job, verdict, history=[], figures=[])


_TRACE = (
    "The sink alerts raised KafkaTimeoutError: 3 message(s) were not delivered within 30 s\n"
    + 'Traceback (most recent call last):\n  File "sink.py", line 84, in write\n    producer.flush(30)\n' * 6
    + "KafkaTimeoutError: 3 message(s) were not delivered within 30 s"
)


def restarting() -> Json:
    """An epoch has failed, and the next one waits."""
    job = orders(state="RESTARTING", stateSince=NOW - 6, restarts=7, failure=_TRACE)
    verdict = diagnosis(
        "critical",
        "Restarting for the 4th time in 15 min: the sink alerts raised KafkaTimeoutError",
        code="restart-loop",
        sink="alerts",
    )
    return state(job, verdict)


def failing() -> Json:
    """The driver has given up."""
    job = orders(state="FAILED", stateSince=NOW - 66, restarts=10, failure=_TRACE)
    old = [checkpoint(number - 9, ["joined", "minutes", "fraud_score"]) for number in range(806, 780, -1)]
    job["lastCheckpoint"] = last_checkpoint(old[0])
    return state(
        job,
        diagnosis("critical", "Failed after 10 restarts: the sink alerts raised KafkaTimeoutError", code="failed"),
        history=old,
    )


def checkpoints_failing() -> Json:
    """The store refuses to take checkpoints."""
    names = ["joined", "minutes", "fraud_score"]
    message = (
        "chain fraud_score could not write its files to the store: 503 Slow Down\n"
        "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the PutObject operation"
    )
    history = [*(failed(number, names, message) for number in range(806, 799, -1)), *_history(names)[7:]]
    job = orders(lastCheckpoint=last_checkpoint(history[7]))
    job["sinks"][0] |= {
        "batchesWaiting": 96,
        "failures": 3,
        "lastPublished": {"id": 799, "time": NOW - 76, "durationMs": 240},
    }
    verdict = diagnosis(
        "critical",
        "The last 7 checkpoints failed: chain fraud_score could not write its files to the store: 503 Slow Down",
        {
            "code": "checkpoint-old",
            "severity": "critical",
            "sentence": "The last checkpoint is 1m 16s old, over 4 intervals: a failure would repeat that much work",
            "chain": None,
            "sink": None,
            "source": None,
        },
        code="checkpoints-failing",
        chain="fraud_score",
    )
    figures = points(job, lambda back: 0.9, age=lambda back: (NOW - back) % 10 + 0.9 if back > 76 else 77.0 - back)
    events = [
        event(
            990 - number,
            4 + 10 * number,
            "checkpoint",
            f"checkpoint {806 - number} failed: 503 Slow Down",
            "bad",
            checkpoint=806 - number,
            text=message,
        )
        for number in range(7)
    ]
    return state(job, verdict, history=history, figures=figures, events=[*events, *_events()], completed=799)


def backpressured() -> Json:
    """Two chains wait for a third, and a checkpoint is under way."""
    made = behind()
    job = changed(made["job"], "fraud_score", busy=0.93, backpressured=0.0)
    job["channels"] = [channel("joined", "minutes", fill=0.97), channel("joined", "fraud_score", fill=0.88)]
    names = [each["uid"] for each in job["chains"]]
    under_way = checkpoint(807, names) | {
        "className": "in_progress",
        "status": "IN_PROGRESS",
        "end_to_end_duration": -1,
    }
    history = [
        under_way,
        *(checkpoint(number, names, checkpoint_type="UNALIGNED_CHECKPOINT") for number in range(806, 780, -1)),
    ]
    return state(job, made["diagnosis"], history=history, figures=made["points"], in_progress=1)


def _ended(word: str, sentence: str) -> Json:
    names = ["joined", "minutes", "fraud_score"]
    job = orders(state=word, stateSince=NOW - 300, recordsInPerSecond=0.0, recordsOutPerSecond=0.0)
    job["chains"] = [
        each
        | {
            "finished": True,
            "busy": 0.0,
            "recordsInPerSecond": 0.0,
            "recordsOutPerSecond": 0.0,
            "inputs": [entry | {"ended": True} for entry in each["inputs"]],
        }
        for each in job["chains"]
    ]
    job["channels"] = [each | {"records": 0, "bytes": 0, "fill": 0.0, "lagMs": None} for each in job["channels"]]
    savepoint = checkpoint(
        806,
        names,
        is_savepoint=True,
        checkpoint_type="SAVEPOINT",
        external_path=f"{_ROOT}/savepoints/806-81c/manifest.json",
    )
    job["lastCheckpoint"] = last_checkpoint(savepoint)
    return state(job, diagnosis("ok", sentence, code=word.lower()), history=[savepoint, *_history(names)[1:]])


def finished() -> Json:
    """All input has ended, and all output is published."""
    return _ended("FINISHED", "Finished: all input is processed and all output is published")


def suspended() -> Json:
    """The job was stopped with a savepoint."""
    return _ended("STOPPED", "Stopped with savepoint 806")


def stopping() -> Json:
    """A stop is under way."""
    job = orders(state="STOPPING", stateSince=NOW - 3)
    return state(job, diagnosis("ok", "Stopping for 3 s with a savepoint", code="stopping"))


def superseded() -> Json:
    """Another process has taken the job's log over."""
    job = orders(state="SUPERSEDED", stateSince=NOW - 30)
    verdict = diagnosis(
        "critical", "Superseded: another process has claimed the job's log with epoch 15", code="superseded"
    )
    return state(job, verdict)


def one_chain() -> Json:
    """The smallest job: one chain between a source of files and a sink."""
    graph = {
        "name": "flights",
        "parallelism": 2,
        "maxParallelism": 4,
        "sources": [_part_of_graph("sources", "flights", format="csv", options={"path": "/data/flights"})],
        "operators": [_part_of_graph("operators", "hours", inputs=[{"from": "flights"}])],
        "sinks": [_part_of_graph("sinks", "report", input="hours", format="parquet")],
    }
    only = chain(
        "hours",
        [source("flights", lagRecords=None, lagSeconds=None, partitions=[])],
        ["flights", "hours", "report"],
    )
    job = orders(
        name="flights",
        namespace="default",
        graph=graph,
        chains=[only],
        channels=[],
        sinks=[sink("report", format="parquet", target="output")],
    )
    return state(job, diagnosis("ok", "All is well"), figures=points(job, lambda back: None))


def _many(layers: int, width: int) -> Json:
    chains, channels, parts = [], [], []
    sinks = []
    for layer in range(layers):
        for row in range(width):
            uid = f"step_{layer}_{row}"
            heard = [f"step_{layer - 1}_{row}"] if layer else []
            if layer and row % 3 == 0:
                heard.append(f"step_{layer - 1}_{(row + 1) % width}")
            inputs: list[Json] = [reads(each) for each in heard] or [source(f"topic_{row}")]
            operators = [*([] if layer else [f"topic_{row}"]), uid]
            if layer == layers - 1:
                sinks.append(sink(f"out_{row}"))
                operators.append(f"out_{row}")
            busy = 0.97 if (layer, row) == (4, 2) else 0.1 + 0.6 * ((layer * 7 + row * 3) % 10) / 10
            chains.append(
                chain(uid, inputs, operators, busy=busy, backpressured=0.6 if layer == 3 and row == 2 else 0.0)
            )
            channels += [
                channel(each, uid, fill=0.95 if uid == "step_4_2" else 0.05 * ((layer + row) % 5)) for each in heard
            ]
            parts.append(uid)
    graph = {
        "name": "wide",
        "sources": [_part_of_graph("sources", f"topic_{row}") for row in range(width)],
        "operators": [_part_of_graph("operators", uid) for uid in parts],
        "sinks": [_part_of_graph("sinks", f"out_{row}", input=f"step_{layers - 1}_{row}") for row in range(width)],
    }
    return orders(name="wide", graph=graph, chains=chains, channels=channels, sinks=sinks)


def sixty_chains() -> Json:
    """Ten layers of six chains."""
    verdict = diagnosis(
        "attention", "Behind by 1m 12s: chain step_4_2 is the bottleneck (busy 97 %)", code="behind", chain="step_4_2"
    )
    job = _many(10, 6)
    return state(job, verdict, history=[checkpoint(n, [c["uid"] for c in job["chains"]]) for n in range(806, 796, -1)])


def twenty_executors() -> Json:
    """State in twenty processes, one of which is missing."""
    made = healthy()
    found = [
        {
            "id": str(number),
            "name": f"orders-executor-{number}",
            "host": f"10.1.{number}.7",
            "cores": 4,
            "stateStores": 8 + number % 3,
            "stateBytes": 40_000_000 + 9_000_000 * (number % 5),
        }
        for number in range(1, 20)
    ]
    return made | {"executors": {"wanted": 20, "lost": 1, "skew": 1.24, "executors": found}}


def loop() -> Json:
    """A channel leads back."""
    job = orders(
        channels=[
            channel("joined", "minutes"),
            channel("joined", "fraud_score"),
            channel("fraud_score", "joined", feedback=True, fill=0.31),
        ]
    )
    return state(job, diagnosis("ok", "All is well: the job keeps up"))


def hostile() -> Json:
    """Every name and text is an attack."""
    made = behind()

    def attacked(value: Any) -> Any:
        if isinstance(value, str) and value in ("joined", "minutes", "orders", "payments", "report", "alerts", "kafka"):
            return f"{HOSTILE}{value}"
        if isinstance(value, list):
            return [attacked(each) for each in value]
        if isinstance(value, dict):
            return {attacked(name): attacked(each) for name, each in value.items()}
        return value

    graph = attacked(made["job"]["graph"])
    graph = {name.removeprefix(HOSTILE): value for name, value in graph.items()}
    job = {name.removeprefix(HOSTILE): attacked(value) for name, value in made["job"].items()} | {"graph": graph}
    job |= {"name": HOSTILE, "namespace": f'"><script>alert(2)</script>{"x" * 200}', "failure": f"{HOSTILE}\n{HOSTILE}"}
    verdict = diagnosis("critical", f"{HOSTILE} javascript:alert(3) {{{{7*7}}}} \u202eabc", chain=HOSTILE)
    events = [event(1, 5, HOSTILE, HOSTILE, HOSTILE, **{HOSTILE: HOSTILE, "text": f"{HOSTILE}\n</pre>"})]
    history = [failed(806, [each["uid"] for each in job["chains"]], f"{HOSTILE}\n{HOSTILE}")]
    history.append(
        checkpoint(805, [HOSTILE], external_path=f"file:///tmp/'; rm -rf $HOME; '{HOSTILE}", discarded=False)
    )
    made_state = state(job, verdict, history=history, events=events)
    made_state["checkpointing"] = {"interval": HOSTILE}
    return made_state


STATES: dict[str, Callable[[], Json]] = {
    "healthy": healthy,
    "behind": behind,
    "starting": starting,
    "no-data": no_data,
    "restoring": restoring,
    "rewriting": rewriting,
    "restarting": restarting,
    "failed": failing,
    "checkpoints-failing": checkpoints_failing,
    "backpressured": backpressured,
    "finished": finished,
    "suspended": suspended,
    "stopping": stopping,
    "superseded": superseded,
    "one-chain": one_chain,
    "sixty-chains": sixty_chains,
    "loop": loop,
    "twenty-executors": twenty_executors,
    "hostile": hostile,
}
