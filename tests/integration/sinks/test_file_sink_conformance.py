"""The file sink passes the kit, in each format and with partition directories."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.integration.sinks.damage import flip_a_bit

from streamjob.sink import Sink
from streamjob.testing.sink_harness import Row
from streamjob.testing.sink_kit import SinkConformance
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink

pytestmark = pytest.mark.spark


class FileSinkConformance(SinkConformance):
    """The parts common to all formats."""

    file_format = "parquet"
    reader_options: Mapping[str, str] = {}

    def make_sink(self, place: Path) -> Sink:
        return FileSink(self.file_format, LocalPlace(place))

    def options(self, place: Path) -> Mapping[str, str]:
        return {**super().options(place), **self.reader_options}

    def visible_rows(self, place: Path) -> Sequence[Row]:
        reader = self.spark.read.format(self.file_format).schema(self.schema).options(**self.reader_options)
        return [tuple(row) for row in reader.load(str(place)).collect()]

    def consume(self, place: Path) -> None:
        for file in place.rglob("part-*"):
            if "_streamjob" not in file.parts:
                file.unlink()

    def lose_staged(self, place: Path) -> None:
        shutil.rmtree(place / "_streamjob/staged")

    def damage_staged(self, place: Path) -> None:
        flip_a_bit(next(file for file in place.glob("_streamjob/staged/**/part-*") if file.is_file()))

    def leftovers(self, place: Path) -> int:
        return len([path for path in place.glob("_streamjob/staged/**/*") if path.is_file()])


class TestParquet(FileSinkConformance):
    pass


@pytest.mark.slow
class TestCsvWithHeader(FileSinkConformance):
    file_format = "csv"
    reader_options: Mapping[str, str] = {"header": "true"}


@pytest.mark.slow
class TestJsonCompressed(FileSinkConformance):
    file_format = "json"
    reader_options: Mapping[str, str] = {"compression": "gzip"}


@pytest.mark.slow
class TestOrc(FileSinkConformance):
    file_format = "orc"


@pytest.mark.slow
class TestPartitionDirectories(FileSinkConformance):
    # Many directories are tidied up at the end, which the other formats' tests interrupt as well.
    effects = tuple((os, name) for name in ("mkdir", "rename", "replace"))

    def make_sink(self, place: Path) -> Sink:
        return FileSink(self.file_format, LocalPlace(place), ["flag"])

    def visible_rows(self, place: Path) -> Sequence[Row]:
        rows = self.spark.read.schema(self.schema).parquet(str(place))
        return [tuple(row) for row in rows.select("id", "name", "amount", "ratio", "flag", "day", "at").collect()]

    def consume(self, place: Path) -> None:
        super().consume(place)
        for directory in place.glob("flag=*"):
            directory.rmdir()
