"""The record of a connector: what the product knows of a format, declared once and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel

from streamjob.job.connectors.datasets import Dataset, Values

if TYPE_CHECKING:
    from streamjob.job.model.spec import SinkSpec, SourceSpec, TableSpec


class OptionProblem(NamedTuple):
    """A problem with the options of a part; no text shows a value that may be secret.

    Args:
        what: what is wrong, without the name of the part.
        fix: what to do about it.
        option: the option whose value is the problem; None if no value would do, or if the problem is one of several.
    """

    what: str
    fix: str
    option: str | None = None


Schema = Literal["needed", "optional", "refused"]
Delivery = Literal["exactly-once", "at-least-once"]
ALL_MODES = ("append", "update", "complete")
BOTH_DELIVERIES: tuple[Delivery, ...] = ("exactly-once", "at-least-once")


@dataclass(frozen=True, slots=True, kw_only=True)
class AsSource:
    """A connector as a source.

    Args:
        schema: whether a source has a schema.
        columns: the columns of a source without one, with their types; None if nobody knows them before it is read.
        bounded: where it ends can be fixed at the first start.
        replayable: it gives a row again to a start from a position before it.
        records: its rows are the records of partitions, with keys and values to decode.
        known: the names of all options, where no `problems` tell; None if nobody knows them.
        options: the model of the options in the reference.
        problems: finds problems with the options.
    """

    schema: Schema = "optional"
    columns: Mapping[str, str] | None = None
    bounded: bool = False
    replayable: bool = True
    records: bool = False
    known: frozenset[str] | None = None
    options: type[BaseModel] | None = None
    problems: Callable[[SourceSpec], Iterable[OptionProblem]] = lambda source: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AsTable:
    """A connector as a table that is read as a whole.

    Args:
        schema: whether a table has a schema.
        lookups: it can be asked for keys instead.
        problems: finds problems with the options.
    """

    schema: Schema = "optional"
    lookups: bool = False
    problems: Callable[[TableSpec], Iterable[OptionProblem]] = lambda table: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AsSink:
    """A connector as a sink.

    Args:
        deliveries: those that it supports; the first is the default.
        own_options: what an option begins with if the sink is to be our own, which delivers exactly once; without one,
            the sink is Spark's.
        upserts: it has `mode: upsert`.
        replaces: it has `mode: replace`.
        partitions: it takes `partitionBy`.
        batches: it has `publish: batch`.
        output_modes: those whose rows it may get when it delivers at least once, and does not replace rows by key.
        known: the names of all options, where no `problems` tell; None if nobody knows them.
        extra: the extra that has the packages of our own sink.
        options: the model of the options in the reference.
        problems: finds problems with the options.
    """

    deliveries: tuple[Delivery, ...] = ("at-least-once",)
    own_options: str = ""
    upserts: bool = False
    replaces: bool = False
    partitions: bool = False
    batches: bool = False
    output_modes: tuple[str, ...] = ("append",)
    known: frozenset[str] | None = None
    extra: str | None = None
    options: type[BaseModel] | None = None
    problems: Callable[[SinkSpec], Iterable[OptionProblem]] = lambda sink: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A format of Spark's or of our own.

    Args:
        source: None if no source has this format; `table` and `sink` likewise.
        text_records: its files have records of text, which are decoded one by one.
        path: what the option `path` names: the place of files or of a whole table, a table by its name, or something
            else.
        datasets: yields what a part with these options reads or writes; None if that is at its `path`.
        jar: the artifact in whose absence from Spark's class path our pinned jars are added.
    """

    name: str
    source: AsSource | None = None
    table: AsTable | None = None
    sink: AsSink | None = None
    text_records: bool = False
    path: Literal["files", "table", "name", "other"] = "other"
    datasets: Callable[[Values], Iterable[Dataset]] | None = None
    jar: str | None = None
