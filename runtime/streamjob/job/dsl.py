"""Defines jobs in Python: sources, operators and sinks are declared on a `Job`; functions become operators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from streamjob.errors import InvalidJob
from streamjob.ids import OperatorUid
from streamjob.job.problem import Problem
from streamjob.job.reading import read_spec
from streamjob.job.spec import (
    ChannelPolicy,
    CheckpointingPolicy,
    Delivery,
    Encoding,
    JobSpec,
    OnError,
    OutputMode,
    Spec,
    Watermark,
)

Function = Callable[..., Any]
"""The code of a source or operator: takes a DataFrame for each input, in order, and returns a DataFrame."""


class Handle:
    """A source or operator of a job, for use as an input."""

    def __init__(self, job: Job, name: str) -> None:
        self.job = job
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class OperatorHandle(Handle):
    """An operator written as a function; calling it calls the function."""

    def __init__(self, job: Job, name: str, function: Function) -> None:
        super().__init__(job, name)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, for tests."""
        return self.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Feedback:
    """An input that closes a cycle, and its columns as `name TYPE, …`."""

    input: Handle | str
    schema: str


def feedback(input: Handle | str, schema: str) -> Feedback:  # noqa: A002 - the file's word
    """Mark an operator's input as the edge that closes a cycle.

    Args:
        input: the operator whose rows come back; by name if it is not declared yet.
        schema: the columns of its rows, as `name TYPE, …`.
    """
    return Feedback(input, schema)


class Job:
    """A job under construction.

    Args:
        name: the job's name.
        parallelism: task slots.
        max_parallelism: state partitions; default twice the parallelism.
        checkpointing: the policy, or its fields by name; durations like `10s`.
        channels: limits of the channels between chains: the policy, or its fields by name.
        spark_conf: Spark's configuration.
    """

    def __init__(
        self,
        name: str,
        *,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        checkpointing: CheckpointingPolicy | Mapping[str, Any] | None = None,
        channels: ChannelPolicy | Mapping[str, Any] | None = None,
        spark_conf: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._head = _given(
            name=name,
            parallelism=parallelism,
            maxParallelism=max_parallelism,
            checkpointing=_as_file(checkpointing),
            channels=_as_file(channels),
            sparkConf=dict(spark_conf) if spark_conf else None,
        )
        self._sources: list[dict[str, Any]] = []
        self._operators: list[dict[str, Any]] = []
        self._sinks: list[dict[str, Any]] = []
        self._functions: dict[OperatorUid, Function] = {}

    def source(
        self,
        name: str,
        *,
        format: str,  # noqa: A002 - the file's word
        schema: str | None = None,
        key: Encoding | Mapping[str, Any] | None = None,
        value: Encoding | Mapping[str, Any] | None = None,
        on_error: OnError | None = None,
        skip: str | None = None,
        columns: Iterable[str] | Function | None = None,
        options: Mapping[str, Any] | None = None,
        bounded: bool = False,
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
            on_error: `fail`, `drop` or `deadLetter`, for records that cannot be decoded; default `fail`.
            skip: records of Kafka that are not read, as `topic/partition/offset, …`.
            columns: SQL expressions that compute the source's columns, beginning with `*` to keep those of the format;
                or a function that takes the rows as a DataFrame and returns a DataFrame, without state.
            options: Spark's options.
            bounded: the source ends with the files or Kafka records that exist at the first start.
            watermark: the event-time column and the delay: `("departed", "1 hour")`.
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
                onError=on_error,
                skip=skip,
                columns=None if columns is None else list(columns),
                python=reference,
                options=dict(options) if options else None,
                bounded=bounded or None,
                watermark=_watermark(watermark),
            )
        )
        return Handle(self, name)

    def operator(
        self,
        *,
        inputs: Iterable[Handle | Feedback | str],
        name: str | None = None,
        uid: str | None = None,
        watermark: Watermark | tuple[str, str | float] | Mapping[str, Any] | None = None,
        output_mode: OutputMode = "append",
        chain: bool = True,
    ) -> Callable[[Function], OperatorHandle]:
        """Make a function an operator. It takes a DataFrame for each input, in order, and returns one.

        Args:
            inputs: sources and operators, by handle or name.
            name: its name in the job; default the function's name.
            uid: its identity in snapshots; default the name.
            watermark: the event-time column of its rows and the delay, for an operator without state.
            output_mode: Spark's output mode.
            chain: whether it may be fused with its neighbours into one Spark query.
        """

        def add(function: Function) -> OperatorHandle:
            own = str(name or getattr(function, "__name__", "operator"))
            self._add_operator(own, inputs, uid, watermark, output_mode, chain, python=_reference(function, own))
            self._functions[OperatorUid(uid or own)] = function
            return OperatorHandle(self, own, function)

        return add

    def sql(
        self,
        name: str,
        *,
        inputs: Iterable[Handle | Feedback | str],
        sql: str,
        uid: str | None = None,
        watermark: Watermark | tuple[str, str | float] | Mapping[str, Any] | None = None,
        output_mode: OutputMode = "append",
        chain: bool = True,
    ) -> Handle:
        """Add an operator written as a SQL query over its inputs. The arguments are those of `operator`."""
        self._add_operator(name, inputs, uid, watermark, output_mode, chain, sql=sql)
        return Handle(self, name)

    def sink(
        self,
        name: str,
        *,
        input: Handle | str,  # noqa: A002 - the file's word
        format: str,  # noqa: A002 - the file's word
        key: Encoding | Mapping[str, Any] | None = None,
        value: Encoding | Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        delivery: Delivery | None = None,
        partition_by: Iterable[str] = (),
        uid: str | None = None,
    ) -> None:
        """Add a sink.

        Args:
            name: its name in the job.
            input: the operator or source whose rows it writes.
            format: a format of Spark, or `module:Class` of your own `streamjob.sink.Sink`.
            key: how to encode the keys of Kafka.
            value: how to encode the values of Kafka: `{"format": "json"}`.
            options: the sink's options.
            delivery: `exactly-once` or `at-least-once`; default exactly-once if the format supports it.
            partition_by: columns that become directories; for file formats only.
            uid: its identity in snapshots; default the name.
        """
        self._sinks.append(
            _given(
                name=name,
                uid=uid,
                input=self._name_of(input),
                format=format,
                key=_as_file(key),
                value=_as_file(value),
                options=dict(options) if options else None,
                delivery=delivery,
                partitionBy=list(partition_by) or None,
            )
        )

    def data(self) -> dict[str, Any]:
        """Return the job in the form of a job file."""
        return {**self._head, "sources": self._sources, "operators": self._operators, "sinks": self._sinks}

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
        output_mode: OutputMode,
        chain: bool,
        **code: str,
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
                outputMode=mode,
                chain=None if chain else False,
                **code,
            )
        )

    def _name_of(self, handle: Handle | str) -> str:
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
