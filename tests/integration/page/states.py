"""Recorded states of jobs as the control API answers them, for the page's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.page.answers import (
    NOW,
    ROOT,
    Json,
    chain,
    channel,
    checkpoint,
    failed,
    last_checkpoint,
    part_of_graph,
    reads,
    sink,
    source,
)
from tests.integration.page.orders import changed, diagnosis, event, history_of, orders, points, state, usual_events

HOSTILE = "<img src=x onerror=alert(1)>"


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


def migrating() -> Json:
    """The state of an operator is changed to the form that its query needs."""
    job = orders(
        state="RESTORING",
        stateSince=NOW - 95,
        chains=[],
        channels=[],
        migrating={"operators": ["minutes"], "step": "writing", "done": 5, "partitions": 16},
    )
    verdict = diagnosis(
        "ok", "Migrating the state of minutes for 1m 35s: writing, 5 of 16 partitions", code="migrating"
    )
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
    history = [*(failed(number, names, message) for number in range(806, 799, -1)), *history_of(names)[7:]]
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
    return state(job, verdict, history=history, figures=figures, events=[*events, *usual_events()], completed=799)


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
        external_path=f"{ROOT}/savepoints/806-81c/manifest.json",
    )
    job["lastCheckpoint"] = last_checkpoint(savepoint)
    return state(job, diagnosis("ok", sentence, code=word.lower()), history=[savepoint, *history_of(names)[1:]])


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
        "sources": [part_of_graph("sources", "flights", format="csv", options={"path": "/data/flights"})],
        "operators": [part_of_graph("operators", "hours", inputs=[{"from": "flights"}])],
        "sinks": [part_of_graph("sinks", "report", input="hours", format="parquet")],
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
        "sources": [part_of_graph("sources", f"topic_{row}") for row in range(width)],
        "operators": [part_of_graph("operators", uid) for uid in parts],
        "sinks": [part_of_graph("sinks", f"out_{row}", input=f"step_{layers - 1}_{row}") for row in range(width)],
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
    "migrating": migrating,
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
