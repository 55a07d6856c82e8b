"""The control API's models of executors in processes of their own; part of `models`."""

from __future__ import annotations

from pydantic import Field

from streamjob.client.chain_models import View


class ExecutorView(View):
    """An executor of the job: its part of the state, and the work of its tasks since it came."""

    id: str = Field(description="Its number in Spark, which never comes back.")
    name: str = Field(description="Its name, which its successor has, too.")
    host: str = Field(description="The host on which it listens.")
    cores: int = Field(description="Tasks at a time.")
    state_partitions: int = Field(default=0, description="State partitions of operators that it has open.")
    state_stores: int = Field(description="The stores of these partitions: a join has four in each.")
    state_rows: int | None = Field(
        default=None,
        description="Rows in its state after the last batches; null unless the job sets "
        "`rocksdb.trackTotalNumberOfRows`, which costs a read with each write.",
    )
    state_bytes: int = Field(description="Size of the files of its state in the last checkpoint.")
    tasks: int = Field(default=0, description="Tasks that have ended.")
    records_in: int = Field(default=0, description="Records that its tasks have read, from sources and from shuffles.")
    records_in_per_second: float = 0.0
    bytes_in: int = Field(
        default=0, description="Bytes that its tasks have read, as far as sources count them, and from shuffles."
    )
    busy: float = Field(default=0.0, description="Share of its cores' time in tasks over the last ten seconds, 0 to 1.")


class ExecutorsView(View):
    """The executors of a job in processes of their own.

    A skew is a ratio: what the executor with the most has to the average of all; null if none has anything.
    """

    wanted: int = Field(description="The number that the job asks for; 0 if it computes in its own process.")
    lost: int = Field(default=0, description="How many were lost since the start of this process.")
    skew: float | None = Field(default=None, description="Skew of the state stores.")
    row_skew: float | None = Field(default=None, description="Skew of the rows of state, if these are counted.")
    byte_skew: float | None = Field(default=None, description="Skew of the bytes of state.")
    record_skew: float | None = Field(default=None, description="Skew of the records read over the last ten seconds.")
    work_skew: float | None = Field(default=None, description="Skew of the busy share.")
    executors: tuple[ExecutorView, ...] = Field(default=(), description="Those that are there.")
