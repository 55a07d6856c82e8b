"""Which sink a specification gives."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from streamjob.extras import MissingExtra
from streamjob.ids import Epoch
from streamjob.job.connectors.options import MissingVariable, UnusableOptions
from streamjob.job.model.spec import SinkSpec
from streamjob.sink import Sink
from streamjob_runtime.sinks.at_least_once.batch import BatchSink
from streamjob_runtime.sinks.at_least_once.console import ConsoleSink
from streamjob_runtime.sinks.at_least_once.memory import MemorySink
from streamjob_runtime.sinks.bucket.sink import BucketSink
from streamjob_runtime.sinks.errors import UnusablePlace, UnusableSink
from streamjob_runtime.sinks.factory import SinkSurroundings, build_sink, build_sink_from_graph, make_sink
from streamjob_runtime.sinks.files.sink import FileSink

CUSTOM = """
from streamjob.sink import Staged

class Plain:
    def open(self, context): self.context = context
    def stage(self, batch, batch_id): return Staged(None)
    def commit(self, checkpoint, committables): pass
    def abort(self): pass
    def close(self): pass

class Half:
    def open(self, context): pass

class Demanding(Plain):
    def __init__(self, what): pass
"""


def surroundings(directory: Path, **environ: str) -> SinkSurroundings:
    return SinkSurroundings("departures", "default", Epoch(3), directory, environ)


def built(directory: Path, sink_format: str, **fields: Any) -> Sink:
    spec = SinkSpec.model_validate({"name": "report", "input": "delays", "format": sink_format, **fields})
    return build_sink(spec, surroundings(directory))


@pytest.mark.parametrize("sink_format", ["parquet", "csv", "json"])
def test_files_are_exactly_once_by_default(tmp_path: Path, sink_format: str) -> None:
    sink = built(tmp_path, sink_format, options={"path": "output"})

    assert isinstance(sink, FileSink)
    assert (tmp_path / "output/_streamjob/owner.json").exists()


@pytest.mark.parametrize("prefix", ["file://", "file://localhost", "file:", ""])
def test_a_file_uri_is_a_directory(tmp_path: Path, prefix: str) -> None:
    built(tmp_path, "csv", options={"path": f"{prefix}{tmp_path}/out"})

    assert (tmp_path / "out/_streamjob/owner.json").exists()


def test_files_may_be_written_at_least_once(tmp_path: Path) -> None:
    sink = built(tmp_path, "parquet", options={"path": "output"}, delivery="at-least-once")

    assert isinstance(sink, BatchSink)


@pytest.mark.parametrize(
    ("sink_format", "kind"),
    [("console", ConsoleSink), ("memory", MemorySink), ("noop", BatchSink), ("jdbc", BatchSink)],
)
def test_other_formats_are_at_least_once(tmp_path: Path, sink_format: str, kind: type) -> None:
    assert isinstance(built(tmp_path, sink_format), kind)


def test_exactly_once_is_refused_where_it_cannot_be_had(tmp_path: Path) -> None:
    with pytest.raises(UnusableSink, match="sink report: format jdbc cannot deliver exactly once"):
        built(tmp_path, "jdbc", delivery="exactly-once")


@pytest.mark.parametrize("path", ["hdfs://host/output", "file://elsewhere/output"])
def test_exactly_once_output_to_a_place_of_unknown_kind_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(UnusableSink, match=r"sink report: delivers exactly-once, which takes a directory .* and not"):
        built(tmp_path, "parquet", options={"path": path})


def test_exactly_once_output_to_a_bucket_is_uploaded(tmp_path: Path) -> None:
    spec = SinkSpec.model_validate(
        {"name": "report", "input": "delays", "format": "json", "options": {"path": "s3://bucket/out"}}
    )

    sink, context = make_sink(spec, surroundings(tmp_path))

    assert isinstance(sink, BucketSink)
    assert sink.label == context.options["path"] == "s3://bucket/out"


def test_a_format_that_cannot_go_to_a_bucket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableSink, match="sink report: delivers exactly-once orc files, which cannot go to a bucket"):
        built(tmp_path, "orc", options={"path": "s3://bucket/out"}, delivery="exactly-once")


def test_a_file_sink_needs_a_path(tmp_path: Path) -> None:
    with pytest.raises(UnusableSink, match="sink report: has no path"):
        built(tmp_path, "parquet")


def test_an_unusable_path_is_noticed_when_the_sink_is_built(tmp_path: Path) -> None:
    (tmp_path / "output").write_bytes(b"")

    with pytest.raises(UnusablePlace, match="is not a directory"):
        built(tmp_path, "parquet", options={"path": "output"})


@pytest.mark.parametrize("options", [{"numRows": "many"}, {"truncate": "-1"}])
def test_a_wrong_option_of_the_console_is_named(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(UnusableSink, match=f"sink report: option {next(iter(options))} is"):
        built(tmp_path, "console", options=options)


def test_a_class_beside_the_job_file_is_a_sink(tmp_path: Path) -> None:
    (tmp_path / "own_sinks_a.py").write_text(CUSTOM)
    sink: Any = built(tmp_path, "own_sinks_a:Plain", options={"table": "t"})

    assert type(sink).__name__ == "Plain"
    assert (sink.context.job, sink.context.uid, sink.context.epoch) == ("departures", "report", 3)
    assert sink.context.options == {"table": "t"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_sinks_b:Half", "is not a sink: it lacks stage, commit, abort, close"),
        ("own_sinks_b:Absent", "has no function 'Absent'"),
        ("own_sinks_b:Demanding", "takes no argument"),
        ("own_sinks_missing:Plain", "there is no module 'own_sinks_missing'"),
    ],
)
def test_a_class_that_is_no_sink_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "own_sinks_b.py").write_text(CUSTOM)

    with pytest.raises(UnusableSink, match=f"sink report: .*{message}|{message}"):
        built(tmp_path, name)


def test_a_snapshots_graph_is_enough_to_build_its_sink(tmp_path: Path) -> None:
    spec = SinkSpec.model_validate(
        {"name": "report", "input": "x", "format": "csv", "options": {"path": "${env:OUT}"}, "partitionBy": ["day"]}
    )
    graph = {**spec.model_dump(mode="json", by_alias=True), "addedLater": 1}
    sink = build_sink_from_graph(graph, surroundings(tmp_path, OUT=str(tmp_path / "from-graph")))

    assert isinstance(sink, FileSink)
    assert (tmp_path / "from-graph/_streamjob/owner.json").exists()


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingVariable, match="OUT"):
        built(tmp_path, "csv", options={"path": "${env:OUT}"})


def test_a_graph_that_describes_no_sink_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableSink, match="sink report of the snapshot cannot be read"):
        build_sink_from_graph({"name": "report"}, surroundings(tmp_path))


def test_surroundings_show_no_secret() -> None:
    assert "hunter2" not in repr(surroundings(Path("/"), PASSWORD="hunter2"))


def forget(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Let packages be imported anew, with all of their modules."""
    for loaded in [name for name in sys.modules if any(f"{name}.".startswith(f"{each}.") for each in packages)]:
        monkeypatch.delitem(sys.modules, loaded)


@pytest.mark.parametrize(
    ("sink_format", "options", "client"),
    [
        ("postgresql", {"url": "postgresql://127.0.0.1:1/x", "table": "t"}, "psycopg"),
        ("iceberg", {"catalog.type": "glue"}, "pyiceberg"),
        ("delta", {"path": "t"}, "deltalake"),
    ],
)
def test_a_sink_without_its_client_says_what_to_install(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sink_format: str,
    options: Mapping[str, str],
    client: str,
) -> None:
    forget(monkeypatch, f"streamjob_runtime.sinks.{sink_format}", client)
    monkeypatch.setitem(sys.modules, client, None)

    with pytest.raises(MissingExtra, match=f"sink report needs the extra '{sink_format}': .* '{client}'") as raised:
        built(tmp_path, sink_format, options=options)

    assert raised.value.fix == f"pip install 'streamjob[{sink_format}]'"


def test_a_client_that_cannot_be_loaded_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(monkeypatch, "streamjob_runtime.sinks.delta", "deltalake")
    monkeypatch.setitem(sys.modules, "deltalake", ModuleType("deltalake"))

    with pytest.raises(MissingExtra, match="sink report needs the extra 'delta': cannot import name 'DeltaTable'"):
        built(tmp_path, "delta", options={"path": "t"})


def test_options_of_a_database_are_checked_before_it_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UnusableOptions, match="sink report: has mode upsert and no key"):
        built(tmp_path, "postgresql", options={"url": "postgresql://h/x", "table": "t", "mode": "upsert"})


def test_iceberg_without_a_catalog_in_the_options_is_sparks_own_sink(tmp_path: Path) -> None:
    assert isinstance(built(tmp_path, "iceberg", options={"path": "catalog.db.t"}), BatchSink)


def test_delta_by_sparks_own_connector_is_named_by_its_class(tmp_path: Path) -> None:
    assert isinstance(built(tmp_path, "org.apache.spark.sql.delta.sources.DeltaDataSource"), BatchSink)
