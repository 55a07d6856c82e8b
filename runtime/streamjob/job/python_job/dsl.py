"""Defines jobs in Python: sources, operators and sinks are declared on a `Job`; functions become operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic.alias_generators import to_camel

from streamjob import runtime
from streamjob.errors import InvalidJob
from streamjob.ids import OperatorUid
from streamjob.job.model.encoding_spec import Encoding
from streamjob.job.model.join_spec import LookupPolicy
from streamjob.job.model.problem import Problem
from streamjob.job.model.reading import read_spec
from streamjob.job.model.spec import (
    Changes,
    ChannelPolicy,
    CheckpointingPolicy,
    Delivery,
    JobSpec,
    MigrationSpec,
    OnError,
    OnUnavailable,
    OutputMode,
    Watermark,
)
from streamjob.job.model.spec_fields import Spec
from streamjob.job.python_job.arguments import suggesting
from streamjob.job.python_job.handles import Feedback, Function, Handle, OperatorHandle, TableHandle

if TYPE_CHECKING:
    from streamjob.runtime import Preview, RunningJob


class Job:
    """A job under construction.

    Args:
        name: the job's name.
        parallelism: task slots.
        max_parallelism: state partitions; default twice the parallelism.
        checkpointing: the policy, or its fields by name; durations like `10s`.
        channels: limits of the channels between chains: the policy, or its fields by name.
        batch_duration: the time that a batch computes while more data waits, like `5s`.
        spark_conf: Spark's configuration.
        functions: functions that the job's SQL calls, by their names there.
        migrate: how state is changed, by the uid of its operator: `{"counts": {"sql": "SELECT … FROM state"}}`.
    """

    @suggesting
    def __init__(
        self,
        name: str,
        *,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        checkpointing: CheckpointingPolicy | Mapping[str, Any] | None = None,
        channels: ChannelPolicy | Mapping[str, Any] | None = None,
        batch_duration: str | float | None = None,
        spark_conf: Mapping[str, Any] | None = None,
        functions: Mapping[str, Function] | None = None,
        migrate: Mapping[str, MigrationSpec | Mapping[str, Any]] | None = None,
    ) -> None:
        self.name = name
        self._head = _given(
            name=name,
            parallelism=parallelism,
            maxParallelism=max_parallelism,
            checkpointing=_as_file(checkpointing),
            channels=_as_file(channels),
            batchDuration=batch_duration,
            sparkConf=dict(spark_conf) if spark_conf else None,
            functions={key: _reference(each, key) for key, each in functions.items()} if functions else None,
            migrate={uid: _as_file(each) for uid, each in migrate.items()} if migrate else None,
        )
        self._sources: list[dict[str, Any]] = []
        self._tables: list[dict[str, Any]] = []
        self._operators: list[dict[str, Any]] = []
        self._sinks: list[dict[str, Any]] = []
        self._functions: dict[OperatorUid, Function] = {}

    @suggesting
    def source(
        self,
        name: str,
        *,
        format: str,  # noqa: A002 - the file's word
        schema: str | None = None,
        key: Encoding | Mapping[str, Any] | None = None,
        value: Encoding | Mapping[str, Any] | None = None,
        changes: Changes | None = None,
        unavailable_value: str | None = None,
        on_unavailable: OnUnavailable | None = None,
        on_error: OnError | None = None,
        skip: str | None = None,
        columns: Iterable[str] | Function | None = None,
        options: Mapping[str, Any] | None = None,
        bounded: bool = False,
        replayable: bool | None = None,
        watermark: Watermark | tuple[str, str | float] | Mapping[str, Any] | None = None,
        uid: str | None = None,
    ) -> Handle:
        """Add a source.

        Args:
            name: its name for operators and sinks; also the table's name in SQL.
            format: Spark's name of the source.
            schema: the columns, as `name TYPE, …`.
            key: how to decode the keys of Kafka: `{"format": "text"}`.
            value: how to decode the values of Kafka: `{"format": "json", "schema": "name TYPE, …"}`.
            changes: `debezium` or `upsert`: records of Kafka are changes of rows, and `_change_type` has their kind.
            unavailable_value: what stands in a column that a change leaves out; default
                `__debezium_unavailable_value`.
            on_unavailable: `fail` or `asNull`, where such a column cannot stay as it is stored; default `fail`.
            on_error: `fail`, `drop` or `deadLetter`, for records that cannot be decoded; default `fail`.
            skip: records of Kafka that are not read, as `topic/partition/offset, …`.
            columns: SQL expressions that compute the source's columns, beginning with `*` to keep those of the format;
                or a function that takes the rows as a DataFrame and returns a DataFrame, without state.
            options: Spark's options.
            bounded: the source ends with the files or Kafka records that exist at the first start.
            replayable: it gives a row again to a start from a position before it; default yes, but for `socket`.
            watermark: the event-time column and the delay: `("departed", "1 hour")`, or
                `{"column": "departed", "delay": "1 hour", "idle_timeout": "5 minutes"}`; also `max_ahead`,
                `per_partition` and `null_event_time`.
            uid: its identity in snapshots; default the name.

        Returns:
            A handle for use as an input of operators and sinks.
        """
        reference = None
        if callable(columns):
            reference = _reference(columns, "columns")
            self._functions[OperatorUid(uid or name)] = columns
            columns = None
        self._sources.append(
            _given(
                name=name,
                uid=uid,
                format=format,
                schema=schema,
                key=_as_file(key),
                value=_as_file(value),
                changes=changes,
                unavailableValue=unavailable_value,
                onUnavailable=on_unavailable,
                onError=on_error,
                skip=skip,
                columns=None if columns is None else list(columns),
                python=reference,
                options=dict(options) if options else None,
                bounded=bounded or None,
                replayable=replayable,
                watermark=_watermark(watermark),
            )
        )
        return Handle(self, name)

    @suggesting
    def table(
        self,
        name: str,
        *,
        format: str,  # noqa: A002 - the file's word
        schema: str | None = None,
        options: Mapping[str, Any] | None = None,
        refresh: str | float | None = None,
        max_age: str | float | None = None,
        lookup: LookupPolicy | Mapping[str, Any] | None = None,
    ) -> TableHandle:
        """Add a table that operators join with their inputs.

        Args:
            name: its name in SQL.
            format: Spark's name of the source, such as `parquet` or `jdbc`.
            schema: the columns, as `name TYPE, …`.
            options: Spark's options.
            refresh: how often it is read again, like `10m`; default only when the job starts or restarts.
            max_age: how old its rows may get while it cannot be read again; default three times `refresh`.
            lookup: ask it for the keys of each batch instead, for `Job.lookup`: `{"ttl": "1m", "cache_rows": 10_000}`.

        Returns:
            A handle for the `tables` of a function. SQL names the table itself.
        """
        self._tables.append(
            _given(
                name=name,
                format=format,
                schema=schema,
                options=dict(options) if options else None,
                refresh=refresh,
                maxAge=max_age,
                lookup=_as_file(lookup),
            )
        )
        return TableHandle(self, name)

    @suggesting
    def operator(
        self,
        *,
        inputs: Iterable[Handle | Feedback | str],
        tables: Iterable[TableHandle | str] = (),
        name: str | None = None,
        uid: str | None = None,
        watermark: Watermark | tuple[str, str | float] | Mapping[str, Any] | None = None,
        on_error: OnError | None = None,
        output_mode: OutputMode = "append",
        chain: bool = True,
        renames: Mapping[str, str] | None = None,
    ) -> Callable[[Function], OperatorHandle]:
        """Make a function an operator. It takes a DataFrame for each input, in order, and returns one.

        Args:
            inputs: sources and operators, by handle or name.
            tables: tables that the function takes after the inputs, by handle or name.
            name: its name in the job; default the function's name.
            uid: its identity in snapshots; default the name.
            watermark: the event-time column of its rows and the delay, for rows without event time.
            on_error: `fail`, `drop` or `deadLetter`, for rows that Spark cannot compute; only for an operator that
                computes each row of one input by itself.
            output_mode: Spark's output mode.
            chain: whether it may be fused with its neighbours into one Spark query.
            renames: columns of its state that have another name now: `{"former": "present"}`.
        """

        def add(function: Function) -> OperatorHandle:
            own = str(name or getattr(function, "__name__", "operator"))
            code: dict[str, Any] = {
                "python": _reference(function, own),
                "tables": [self._name_of(each) for each in tables] or None,
                "renames": dict(renames) if renames else None,
            }
            self._add_operator(own, inputs, uid, watermark, on_error, output_mode, chain, **code)
            self._functions[OperatorUid(uid or own)] = function
            return OperatorHandle(self, own, function)

        return add

    @suggesting
    def sql(
        self,
        name: str,
        *,
        inputs: Iterable[Handle | Feedback | str],
        sql: str,
        uid: str | None = None,
        watermark: Watermark | tuple[str, str | float] | Mapping[str, Any] | None = None,
        on_error: OnError | None = None,
        output_mode: OutputMode = "append",
        chain: bool = True,
        renames: Mapping[str, str] | None = None,
    ) -> Handle:
        """Add an operator written as a SQL query over its inputs. The arguments are those of `operator`."""
        renamed = dict(renames) if renames else None
        self._add_operator(name, inputs, uid, watermark, on_error, output_mode, chain, sql=sql, renames=renamed)
        return Handle(self, name)

    @suggesting
    def lookup(
        self,
        name: str,
        *,
        input: Handle | str,  # noqa: A002 - the file's word
        table: TableHandle | str,
        on: Iterable[str],
        select: Iterable[str],
        join: Literal["left", "inner"] = "left",
        uid: str | None = None,
        watermark: Watermark | tuple[str, str | float] | Mapping[str, Any] | None = None,
        chain: bool = True,
    ) -> Handle:
        """Add an operator that joins its input with a table, which is asked for the keys of the rows.

        Args:
            name: its name in the job.
            input: the source or operator whose rows get columns.
            table: a table with `lookup`.
            on: the columns of the key: `column`, or `column = other` if the table calls it `other`.
            select: the columns of the table that rows get: `column`, or `column AS name`.
            join: `left` keeps rows without a match, with nulls; `inner` drops them.
            uid: its identity in snapshots; default the name.
            watermark: the event-time column of its rows and the delay.
            chain: whether it may be fused with its neighbours into one Spark query.

        Returns:
            A handle for use as an input of operators and sinks.
        """
        lookup = {"table": self._name_of(table), "on": list(on), "select": list(select)}
        lookup |= {} if join == "left" else {"join": join}
        self._add_operator(name, [input], uid, watermark, None, "append", chain, lookup=lookup)
        return Handle(self, name)

    @suggesting
    def temporal_join(
        self,
        name: str,
        *,
        input: Handle | str,  # noqa: A002 - the file's word
        versions: Handle | str,
        on: Iterable[str],
        select: Iterable[str],
        join: Literal["left", "inner"] = "left",
        valid_for: str | float | None = None,
        uid: str | None = None,
        chain: bool = True,
    ) -> Handle:
        """Add an operator that joins each row with the version of its key that was valid at its event time.

        Args:
            name: its name in the job.
            input: the source or operator whose rows get columns; it has a watermark.
            versions: the source or operator with the versions: appended rows, or changes; it has a watermark.
            on: the key of the versions: `column`, or `column = other` if the versions call it `other`.
            select: the columns of the versions that rows get: `column`, or `column AS name`.
            join: `left` keeps rows without a version, with nulls; `inner` drops them.
            valid_for: for how long a version is valid, like `30d`; default until the next one of its key.
            uid: its identity in snapshots; default the name.
            chain: whether it may be fused with its neighbours into one Spark query.

        Returns:
            A handle for use as an input of operators and sinks.
        """
        temporal: dict[str, Any] = {"on": list(on), "select": list(select)}
        temporal |= {} if join == "left" else {"join": join}
        temporal |= {} if valid_for is None else {"validFor": valid_for}
        self._add_operator(name, [input, versions], uid, None, None, "append", chain, temporalJoin=temporal)
        return Handle(self, name)

    @suggesting
    def sink(
        self,
        name: str,
        *,
        input: Handle | str,  # noqa: A002 - the file's word
        format: str | None = None,  # noqa: A002 - the file's word
        function: Callable[[Any, int], object] | None = None,
        key: Encoding | Mapping[str, Any] | None = None,
        value: Encoding | Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        delivery: Delivery | None = None,
        publish: Literal["checkpoint", "batch"] | None = None,
        partition_by: Iterable[str] = (),
        uid: str | None = None,
    ) -> None:
        """Add a sink.

        Args:
            name: its name in the job.
            input: the operator or source whose rows it writes.
            format: a format of Spark, or `module:Class` of your own `streamjob.sink.Sink`.
            function: in place of a format: a function that takes the rows of a checkpoint as a DataFrame, and the id
                of the batch. It has a name in its module, by which a restart finds it.
            key: how to encode the keys of Kafka.
            value: how to encode the values of Kafka: `{"format": "json"}`.
            options: the sink's options.
            delivery: `exactly-once` or `at-least-once`; default exactly-once if the format supports it.
            publish: when readers see rows: with the `checkpoint` that covers them (default), or with each `batch`.
            partition_by: columns that become directories; for file formats only.
            uid: its identity in snapshots; default the name.
        """
        self._sinks.append(
            _given(
                name=name,
                uid=uid,
                input=self._name_of(input),
                format=format,
                function=None if function is None else _reference(function, f"<{type(function).__name__}>"),
                key=_as_file(key),
                value=_as_file(value),
                options=dict(options) if options else None,
                delivery=delivery,
                publish=publish,
                partitionBy=list(partition_by) or None,
            )
        )

    @suggesting
    def preview(
        self,
        operator: Handle | str | None = None,
        *,
        rows: int = 20,
        sampled: int = 1000,
        given: Mapping[str, Sequence[Any]] | None = None,
        within: float = 30.0,
    ) -> Preview:
        """Return what an operator returns for a sample of its sources; publish nothing. A notebook shows it as a table.

        Args:
            operator: an operator or a source; default the input of the job's only sink.
            rows: the number of rows to return.
            sampled: the number of rows to read from each source.
            given: rows for sources by their names, instead of a sample.
            within: the longest time to wait for the rows of a source, in seconds.

        Raises:
            InvalidJob: the job is invalid.
            UnknownPart: the job has no such operator or source.
            UnreadableSource: Spark cannot read a source.
            JobUnderTestFailed: an operator failed.
        """
        name = operator.name if isinstance(operator, Handle) else operator
        runtime.require("Job.preview")
        return runtime.notebook().preview(self, name, rows=rows, sampled=sampled, given=given, within=within)

    @suggesting
    def run(self, *, location: str | None = None) -> RunningJob:
        """Run the job in the background of this process, from its last checkpoint if it has one.

        Args:
            location: of its snapshots: a path or URI; default that of its checkpointing, or in the current directory.

        Raises:
            InvalidJob: the job is invalid.
            AlreadyRunning: a job of this name runs in this process.
            SparkInUse: another running job uses a Spark that this job cannot use.
        """
        runtime.require("Job.run")
        return runtime.notebook().run(self, location)

    def data(self) -> dict[str, Any]:
        """Return the job in the form of a job file."""
        tables = {"tables": self._tables} if self._tables else {}
        return {**self._head, "sources": self._sources, **tables, "operators": self._operators, "sinks": self._sinks}

    def functions(self) -> Mapping[OperatorUid, Function]:
        """Return the functions of sources and operators by uid."""
        return dict(self._functions)

    def spec(self) -> JobSpec:
        """Return the job's model.

        Raises:
            InvalidJob: a field is missing or has an invalid value.
        """
        reading = read_spec(self.data())
        if reading.problems or reading.spec is None:
            raise InvalidJob(f"job {self.name!r}", reading.problems)
        return reading.spec

    def _add_operator(
        self,
        name: str,
        inputs: Iterable[Handle | Feedback | str],
        uid: str | None,
        watermark: Watermark | tuple[str, str | float] | Mapping[str, Any] | None,
        on_error: OnError | None,
        output_mode: OutputMode,
        chain: bool,
        **code: Any,
    ) -> None:
        edges = [
            {"from": self._name_of(each.input), "feedback": True, "schema": each.schema}
            if isinstance(each, Feedback)
            else self._name_of(each)
            for each in inputs
        ]
        mode = None if output_mode == "append" else output_mode
        self._operators.append(
            _given(
                name=name,
                uid=uid,
                inputs=edges,
                watermark=_watermark(watermark),
                onError=on_error,
                outputMode=mode,
                chain=None if chain else False,
                **code,
            )
        )

    def _name_of(self, handle: Handle | TableHandle | str) -> str:
        if isinstance(handle, str):
            return handle
        if handle.job is not self:
            problem = Problem(
                f"input {handle.name!r}", f"belongs to the job {handle.job.name!r}", "declare it here too"
            )
            raise InvalidJob(f"job {self.name!r}", [problem])
        return handle.name

    def __repr__(self) -> str:
        return f"Job({self.name!r})"


def _reference(function: Function, otherwise: str) -> str:
    return f"{function.__module__}:{getattr(function, '__qualname__', otherwise)}"


def _given(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _watermark(value: Watermark | tuple[str, str | float] | Mapping[str, Any] | None) -> Any:
    if isinstance(value, tuple):
        return dict(zip(("column", "delay"), value, strict=True))
    return _as_file(value)


def _as_file(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {to_camel(str(key)): each for key, each in value.items()} if isinstance(value, Mapping) else value
