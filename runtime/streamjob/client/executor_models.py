"""The control API's models of executors in processes of their own; part of `models`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streamjob.client.chain_models import View
from streamjob.figures import Detail, Figure, Unit


def _skew(of: str) -> Figure:
    text = (
        "The largest share of an executor divided by the mean of all: of `stores`, `rows` and `bytes` of state, "
        "`records` and `work`; absent if none has any."
    )
    return Figure("executors_skew_ratio", text=text, label=("of", of))


class ExecutorView(View):
    """An executor of the job: its part of the state, and the work of its tasks since it came."""

    id: str = Field(description="Its number in Spark, which never comes back.")
    name: str = Field(description="Its name, which its successor has, too.")
    host: Annotated[str, Figure(unit=Unit.TEXT, heading="host")] = Field(description="The host on which it listens.")
    cores: Annotated[int, Figure(heading="cores")] = Field(description="Tasks at a time.")
    state_partitions: Annotated[int, Figure("executor_state_partitions", heading="partitions", detail=Detail.PANEL)] = (
        Field(default=0, description="State partitions of operators that the executor has open.")
    )
    state_stores: int = Field(description="The stores of these partitions: a join has four in each.")
    state_rows: Annotated[int | None, Figure("executor_state_rows", heading="rows", detail=Detail.NARROW)] = Field(
        default=None,
        description=(
            "Rows in the executor's state after the last batches; null unless the job sets "
            "`rocksdb.trackTotalNumberOfRows`, which costs a read with each write."
        ),
    )
    state_bytes: Annotated[
        int, Figure("executor_state_size_bytes", Unit.BYTES, heading="state", detail=Detail.NARROW)
    ] = Field(description="Size of the files of the executor's state in the last checkpoint.")
    tasks: Annotated[int, Figure("executor_tasks_total")] = Field(
        default=0, description="Tasks of the executor that have ended."
    )
    records_in: Annotated[int, Figure("executor_records_in_total", heading="records in")] = Field(
        default=0, description="Records that the executor's tasks have read, from sources and from shuffles."
    )
    records_in_per_second: Annotated[float, Figure(unit=Unit.RATE, heading="in", detail=Detail.NARROW)] = 0.0
    bytes_in: Annotated[int, Figure("executor_read_bytes_total", Unit.BYTES, heading="read")] = Field(
        default=0,
        description=("Bytes that the executor's tasks have read, as far as sources count them, and from shuffles."),
    )
    busy: Annotated[
        float, Figure("executor_busy_ratio", Unit.SHARE, heading="busy", detail=Detail.NARROW, alarm=0.9)
    ] = Field(
        default=0.0, description="Share of the executor's cores' time in tasks over the last ten seconds, 0 to 1."
    )


class ExecutorsView(View):
    """The executors of a job in processes of their own.

    A skew is a ratio: what the executor with the most has to the average of all; null if none has anything.
    """

    wanted: Annotated[int, Figure("executors_wanted")] = Field(
        description="Executors that the job asks for; 0 if it computes in its own process."
    )
    lost: Annotated[int, Figure("executors_lost_total")] = Field(
        default=0, description="Executors that were lost since the start of this process."
    )
    skew: Annotated[float | None, _skew("stores")] = Field(default=None, description="Skew of the state stores.")
    row_skew: Annotated[float | None, _skew("rows")] = Field(
        default=None, description="Skew of the rows of state, if these are counted."
    )
    byte_skew: Annotated[float | None, _skew("bytes")] = Field(default=None, description="Skew of the bytes of state.")
    record_skew: Annotated[float | None, _skew("records")] = Field(
        default=None, description="Skew of the records read over the last ten seconds."
    )
    work_skew: Annotated[float | None, _skew("work")] = Field(default=None, description="Skew of the busy share.")
    executors: tuple[ExecutorView, ...] = Field(default=(), description="Those that are there.")

    @property
    def there(self) -> Annotated[int, Figure("executors")]:
        """Executors that are there; null if the job asks for none."""
        return len(self.executors)
