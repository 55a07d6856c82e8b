"""Checks how records of Kafka are decoded and encoded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import get_args

from streamjob.job.checks.subject import Subject, schema_problems, unread_dead_letters, where
from streamjob.job.connectors.changes import CHANGE_TYPE, DEBEZIUM
from streamjob.job.connectors.kafka_source import subject_of
from streamjob.job.connectors.options import option as option_of
from streamjob.job.connectors.registry import source_of
from streamjob.job.model import protobuf
from streamjob.job.model.encoding_spec import AVRO, BINARY, PROTOBUF, Encoding, EpochUnit, Registry
from streamjob.job.model.formats import CHECKED_FILES, DECODED_FILES
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import SinkSpec, SourceSpec, TableSpec
from streamjob.job.model.suggest import did_you_mean

_SETTLED = {"mode": "onError decides about records that cannot be decoded", "columnnameofcorruptrecord": "leave it out"}
_WITHOUT_COLUMNS = frozenset({"singlevariantcolumn", "explodeembeddedarray"})
_FLAGS = {"rounding": "rounding", "allowduplicatekeys": "allowDuplicateKeys"}
_EPOCH_UNIT = "epochUnit"
_NUMBERS = ("http.connect.timeout.ms", "http.read.timeout.ms", "max.retries")
_OF_REGISTRY = ("basic.auth.user.info", "bearer.auth.token", *_NUMBERS)
_NUMBER = re.compile(r"[0-9]{1,9}")
_URL = re.compile(r"https?://[^/\s]")
_RECORD = re.compile(r"[^\s/,]+/[0-9]+/[0-9]+")


def encodings(subject: Subject) -> Iterator[Problem]:
    """Records are decoded and encoded where there are records, with the fields that the form needs."""
    parts: list[SourceSpec | SinkSpec] = [*subject.spec.sources, *subject.spec.sinks]
    for part in parts:
        for name in ("key", "value"):
            encoding: Encoding | None = getattr(part, name)
            if encoding is None:
                continue
            if not source_of(part.format).records:
                fix = "use columns with from_json and the like" if isinstance(part, SourceSpec) else "leave it out"
                yield Problem(where(part), f"has {name}, and the format {part.format!r} has no records", fix)
                continue
            yield from _fields(part, name, encoding)
    read: list[SourceSpec | TableSpec] = [*subject.spec.sources, *subject.spec.tables]
    for each in read:
        yield from _unread_file(each, "", each)
        if each.format in DECODED_FILES:
            yield from _of_files(each)
    for source in subject.spec.sources:
        yield from _changes(source)
        yield from _errors(source)
        yield from unread_dead_letters(subject, source)


def _fields(part: SourceSpec | SinkSpec, name: str, encoding: Encoding) -> Iterator[Problem]:
    if encoding.schema_file is not None:
        yield from _unread_file(part, name, encoding)
    elif encoding.format in BINARY:
        yield from _binary(part, name, encoding)
    else:
        if encoding.registry is not None:
            fix = f"leave it out, or use format: {AVRO} or {PROTOBUF}"
            yield Problem(where(part), f"{name}.registry: the format {encoding.format} has no schemas there", fix)
        yield from _columns(part, name, encoding)
    if encoding.message is not None and encoding.format != PROTOBUF:
        what = f"{name}.message: the format {encoding.format} has no messages"
        yield Problem(where(part), what, "leave it out")
    for option in encoding.options:
        if (why := _SETTLED.get(option.lower())) is not None:
            yield Problem(where(part), f"{name}.options has {option!r}", why)
    if isinstance(part, SourceSpec) and encoding.format in DECODED_FILES:
        for what, fix in _unusable(encoding.options):
            yield Problem(where(part), f"{name}.options {what}", fix)
        if option_of(encoding.options, _EPOCH_UNIT) is not None:
            yield Problem(where(part), f"{name}.options has {_EPOCH_UNIT!r}", f"write {name}.{_EPOCH_UNIT}")
    if encoding.epoch_unit is not None and not (isinstance(part, SourceSpec) and encoding.format in DECODED_FILES):
        what = f"{name}.{_EPOCH_UNIT}: only a source that reads csv or json takes numbers for times"
        yield Problem(where(part), what, "leave it out")


def _unread_file(
    part: SourceSpec | SinkSpec | TableSpec, name: str, has: Encoding | SourceSpec | TableSpec
) -> Iterator[Problem]:
    """Yield why a schemaFile was left where it is."""
    if has.schema_file is not None:
        what = f"{name}.schemaFile {has.schema_file!r} cannot be read here".lstrip(".")
        fix = "write the schema into `schema`: only a job file has other files next to it"
        if has.schema_ddl is not None:
            what, fix = f"{name} has schema and schemaFile".lstrip(), "leave out one of them"
        yield Problem(where(part), what, fix)


def _of_files(part: SourceSpec | TableSpec) -> Iterator[Problem]:
    """Yield what is wrong with the options that say how records of files are decoded."""
    for what, fix in _unusable(part.options):
        yield Problem(where(part), what, fix)
    unit = option_of(part.options, _EPOCH_UNIT)
    if unit is not None and "${" not in unit and unit not in get_args(EpochUnit):
        yield Problem(where(part), f"the option {_EPOCH_UNIT} is {unit!r}", f"write {', '.join(get_args(EpochUnit))}")
    by_spark = option_of(part.options, "mode") is not None
    for name in part.options:
        if by_spark and (name.lower() in _FLAGS or name.lower() == _EPOCH_UNIT.lower()):
            fix = "leave mode out: with it, Spark decodes the records by itself"
            yield Problem(where(part), f"has the options mode and {name}", fix)
        elif not by_spark and name.lower() == "columnnameofcorruptrecord":
            fix = "use onError: deadLetter, or mode: PERMISSIVE as in plain Spark"
            yield Problem(where(part), f"has the option {name!r} without mode", fix)


def _unusable(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with options of CSV or JSON, and the fix."""
    for name, value in options.items():
        if name.lower() in _WITHOUT_COLUMNS:
            yield f"has {name!r}", "declare a column of the type VARIANT, or parse_json in columns of format: text"
        elif name.lower() in _FLAGS and "${" not in value and value.lower() not in ("true", "false"):
            yield f"{name} is {value!r}", "write true or false"


def _columns(part: SourceSpec | SinkSpec, name: str, encoding: Encoding) -> Iterator[Problem]:
    reads = isinstance(part, SourceSpec)
    if encoding.schema_ddl is not None:
        if not reads:
            yield Problem(where(part), f"{name}.schema: a sink takes the columns of its rows", "leave it out")
        elif encoding.format == "text":
            yield Problem(where(part), f"{name}.schema: a text has no fields", "leave it out, or use json or csv")
        else:
            yield from schema_problems(part, f"{name}.schema", encoding.schema_ddl)
    elif reads and encoding.format != "text":
        fix = f"give {name}: {{format: {encoding.format}, schema: 'name TYPE, …'}}"
        yield Problem(where(part), f"{name} has no schema", fix)


def _binary(part: SourceSpec | SinkSpec, name: str, encoding: Encoding) -> Iterator[Problem]:
    registry = encoding.registry
    yield from (_avro if encoding.format == AVRO else _protobuf)(part, name, encoding)
    if encoding.schema_ddl is not None:
        if registry is not None and "version" in registry.model_fields_set:
            fix = "leave out the version, or the schema: rows have one schema"
            yield Problem(where(part), f"{name} has a schema and registry.version", fix)
    elif registry is None and (isinstance(part, SourceSpec) or encoding.format == PROTOBUF):
        fix = f"give {name}.schema or {name}.schemaFile, or {name}.registry: {{url: …}}"
        yield Problem(where(part), f"{name} has no schema", fix)
    if registry is not None:
        yield from _registry(part, name, encoding, registry)


def _avro(part: SourceSpec | SinkSpec, name: str, encoding: Encoding) -> Iterator[Problem]:
    if encoding.schema_ddl is None:
        return
    try:
        json.loads(encoding.schema_ddl)
    except ValueError as error:
        fix = f'write {{"type": "record", "name": …, "fields": […]}}, or name its file in {name}.schemaFile'
        yield Problem(where(part), f"{name}.schema is not JSON: {error}", fix)


def _protobuf(part: SourceSpec | SinkSpec, name: str, encoding: Encoding) -> Iterator[Problem]:
    schema, registry = encoding.schema_ddl, encoding.registry
    if schema is not None and not protobuf.is_text(schema):
        if not protobuf.is_descriptor_set(schema):
            what = f"{name}.schema is neither the text of a .proto file nor a descriptor set in base64"
            fix = f"write message …, or name its file in {name}.schemaFile"
            yield Problem(where(part), what, fix)
        elif registry is not None and isinstance(part, SinkSpec):
            what = f"{name}.schema is a descriptor set, and the registry has texts of .proto files"
            yield Problem(where(part), what, f"give the .proto file, or only {name}.registry")
    elif schema is None and registry is not None and registry.auto_register and isinstance(part, SinkSpec):
        what = f"{name}.registry.autoRegister: there is no schema to register"
        yield Problem(where(part), what, "give the schema: the numbers of fields do not follow from rows")
    for option, value in encoding.options.items():
        if isinstance(part, SinkSpec):
            yield Problem(where(part), f"{name}.options: protobuf has none in a sink", f"leave {option!r} out")
        elif (form := protobuf.OPTIONS.get(option.lower())) is None:
            if option.lower() not in _SETTLED:
                fix = did_you_mean(option, list(protobuf.OPTIONS), "options")
                yield Problem(where(part), f"{name}.options has the unknown option {option!r}", fix)
        elif not (form.fullmatch(value.strip()) or "${" in value):
            values = "a number from 1 to 10" if "depth" in option.lower() else "true or false"
            yield Problem(where(part), f"{name}.options: {option} is {value!r}", f"write {values}")


def _registry(part: SourceSpec | SinkSpec, name: str, encoding: Encoding, registry: Registry) -> Iterator[Problem]:
    for url in registry.url.split(","):
        if "${env:" not in url and not _URL.match(url.strip()):
            yield Problem(where(part), f"{name}.registry.url {url.strip()!r} is no URL", "write https://host:8081")
    for option, value in registry.options.items():
        if option not in _OF_REGISTRY and not option.startswith("ssl."):
            fix = did_you_mean(option, _OF_REGISTRY, "options")
            yield Problem(where(part), f"{name}.registry.options has the unknown option {option!r}", fix)
        elif option in _NUMBERS and not (_NUMBER.fullmatch(value) or "${" in value):
            yield Problem(where(part), f"{name}.registry.options: {option} is no number", "write a whole number")
    if registry.auto_register and isinstance(part, SourceSpec):
        yield Problem(where(part), f"{name}.registry.autoRegister: a source registers nothing", "leave it out")
    needs_subject = isinstance(part, SinkSpec) or encoding.schema_ddl is None
    if needs_subject and subject_of(part, name, registry) is None:
        fix = f"name the subject with the schema: {name}.registry.subject"
        yield Problem(where(part), f"{name}.registry has no subject, and the records are of several topics", fix)


def _changes(source: SourceSpec) -> Iterator[Problem]:
    if source.changes is None:
        given = {"unavailableValue": source.unavailable_value, "onUnavailable": source.on_unavailable}
        for name in [name for name, value in given.items() if value is not None]:
            what = f"has {name}, which is about columns that changes leave out, and its records are no changes"
            yield Problem(where(source), what, "say changes: debezium or changes: upsert, or leave it out")
        return
    if not source_of(source.format).records:
        what = f"has changes: {source.changes}, and the format {source.format!r} has no records"
        yield Problem(where(source), what, f"leave it out; a column {CHANGE_TYPE} makes rows changes")
    elif source.changes == DEBEZIUM and (source.value is None or source.value.format in ("csv", "text")):
        what = "has changes: debezium, and does not decode the envelopes around its rows"
        yield Problem(where(source), what, "give value: {format: json, schema: 'the columns of the table'}")


def _errors(source: SourceSpec) -> Iterator[Problem]:
    if source.on_error is not None and source.format in DECODED_FILES:
        for option in source.options:
            if (why := _SETTLED.get(option.lower())) is not None:
                yield Problem(where(source), f"has onError and the option {option!r}", why)
    elif source.on_error is not None and source.format not in CHECKED_FILES and not (source.key or source.value):
        fix = "give the source value: {format: …, schema: …}, or use try_… functions in columns"
        yield Problem(where(source), "has onError, and decodes nothing", fix)
    if source.skip is None:
        return
    if not source_of(source.format).records:
        yield Problem(where(source), f"has skip, and the format {source.format!r} has no records", "leave it out")
    elif (wrong := next((each for each in _records(source.skip) if not _RECORD.fullmatch(each)), None)) is not None:
        fix = "write topic/partition/offset, separated by commas: orders/3/184467"
        yield Problem(where(source), f"skip has {wrong!r}, which is no record", fix)


def _records(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]
