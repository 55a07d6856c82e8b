"""The purchases job on real servers: two topics, a join, windows, and every sink exactly once."""

from __future__ import annotations

from typing import Any

from tests.integration.runtime.purchases import MATCHED_SQL, TOTALS, TOTALS_SQL, Purchases
from tests.integration.runtime.servers import Places, fill, parsed, topic_source
from tests.integration.sinks.lakes import Lake
from tests.jobs import job_file, sql
from tests.servers.kafka import KafkaServer

BATCH = 60
"""Records of a topic that a batch takes at most."""
AT_ONCE = [f"--set=sources.{name}_topic.options.maxOffsetsPerTrigger=1000000" for name in ("orders", "payments")]
"""Arguments with which a batch takes all that is left."""

_NAME = "purchases"
_DELAY = "1m"


def make_places(broker: KafkaServer, lake: Lake) -> Places:
    """Make what the job writes to."""
    columns = dict(column.lower().split() for column in TOTALS.split(", "))
    return Places(broker, lake, _NAME, columns, ("customer", "minute"))


def job(broker: KafkaServer, purchases: Purchases, places: Places) -> dict[str, Any]:
    """Put the input into the topics `orders` and `payments`; return the job's file."""
    fill(broker, "orders", purchases.orders, "ordered")
    fill(broker, "payments", purchases.payments, "paid")
    records, sinks = places.written_from("totals")
    schema = "id STRING, customer STRING, amount BIGINT"
    columns = "row.id, row.customer, timestamp AS ordered, row.amount"
    return job_file(
        parsed("orders", "orders_topic", schema, columns),
        parsed("payments", "payments_topic", "order_id STRING", "row.order_id, timestamp AS paid"),
        sql("matched", ["orders", "payments"], MATCHED_SQL),
        sql("totals", "matched", TOTALS_SQL),
        records,
        sources=[topic_source(broker, f"{topic}_topic", topic, BATCH, _DELAY) for topic in ("orders", "payments")],
        sinks=sinks,
        name=_NAME,
        parallelism=2,
        maxParallelism=2,
        checkpointing={"interval": "1s"},
    )
