"""The job `orders` as the control API answers for it, and the history around it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tests.integration.page.answers import (
    NOW,
    ROOT,
    START,
    Json,
    chain,
    channel,
    checkpoint,
    last_checkpoint,
    part_of_graph,
    reads,
    sink,
    source,
    statistics,
)

ORDERS: Json = {
    "name": "orders",
    "parallelism": 4,
    "maxParallelism": 16,
    "sources": [part_of_graph("sources", "orders"), part_of_graph("sources", "payments")],
    "operators": [
        part_of_graph("operators", "joined", inputs=[{"from": "orders"}, {"from": "payments"}]),
        part_of_graph("operators", "minutes", inputs=[{"from": "joined"}]),
        part_of_graph("operators", "fraud_score", inputs=[{"from": "joined"}], sql=None, function="fraud:score"),
        part_of_graph("operators", "alerts_only", inputs=[{"from": "fraud_score"}]),
    ],
    "sinks": [
        part_of_graph("sinks", "report", input="minutes"),
        part_of_graph("sinks", "alerts", input="alerts_only", format="kafka", options={"topic": "alerts"}),
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
        "location": ROOT,
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
        "restoredFrom": {"id": 640, "kind": "savepoint", "path": f"{ROOT}/savepoints/640-2f/manifest.json"},
        "rewriting": None,
        "migrating": None,
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


def history_of(names: list[str]) -> list[Json]:
    return [checkpoint(number, names) for number in range(806, 756, -1)]


def usual_events() -> list[Json]:
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
    entries = history_of(names) if history is None else history
    made = points(job, lambda back: 0.9 + 0.3 * math.sin(back / 23)) if figures is None else figures
    return {
        "job": job,
        "diagnosis": verdict,
        "checkpoints": statistics(entries, **counts),
        "point": made[-1] if made else None,
        "checkpointing": CHECKPOINTING if checkpointing is None else checkpointing,
        "points": made,
        "events": usual_events() if events is None else events,
        "executors": {"wanted": 0, "lost": 0, "skew": None, "executors": []},
    }
