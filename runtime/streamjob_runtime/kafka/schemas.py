"""Decoders and encoders of records in Spark's Java, with schemas of the job file or of a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streamjob.errors import InvalidInput, StreamJobError
from streamjob.job.connectors.options import redacted, secrets_in
from streamjob.job.model.encoding_spec import AVRO, BINARY, PROTOBUF, Encoding
from streamjob_runtime.spark.gateway import (
    column_of,
    first_of_class,
    has_class,
    java_column,
    java_errors,
    our_java,
    thrown,
)
from streamjob_runtime.spark.jvm import CLASSES
from streamjob_runtime.spark.text.text_records import UnusableSchema, message, text_decoder

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

_NOT_FOUND = 404
_CONFLICT = 409
_NO_ID = -1


class RegistryUnreachable(StreamJobError):
    """A schema registry did not answer in time; the job will continue from its checkpoint once it does."""


class RegistryRefuses(InvalidInput):
    """A schema registry answers, but refuses the job's credentials, or a schema."""


class SchemaMissing(InvalidInput):
    """A schema registry has no such subject, version or schema."""


class CompilerMissing(InvalidInput):
    """A `.proto` file has to be compiled, and Spark was started without what compiles it."""


class SchemaRegistry:
    """A schema registry, asked by Spark's Java.

    Args:
        who: the source or sink, at the beginning of a message.
        options: the options of the client with `url`, resolved; they may contain secrets.
        form: the form of its schemas, `avro` or `protobuf`.
    """

    def __init__(self, spark: SparkSession, who: str, options: Mapping[str, str], form: str = AVRO) -> None:
        self._who = who
        self._type = form.upper()
        self._options = options
        java = our_java(spark)
        self._schemas = java.ProtobufSchemas if form == PROTOBUF else java.AvroSchemas
        self.java = java.SchemaRegistry(dict(options))

    def schema(self, subject: str, version: str) -> tuple[int, str]:
        """Return the id of a version of a subject, and the schema with those that it refers to.

        Raises:
            SchemaMissing: there is no such subject or version.
            RegistryUnreachable, RegistryRefuses, UnusableSchema: it cannot be had.
        """
        try:
            found = self.java.version(subject, version)
            return found.id(), self._schemas.whole(self.java, found)
        except java_errors() as error:
            named = f"the subject {subject!r}" + ("" if version == "latest" else f" with version {version}")
            raise self._failure(error, f"does not have {named}", "name one that it has in registry.subject") from None

    def id_of(self, subject: str, schema: str, *, register: bool) -> int:
        """Return the id of a schema of a subject.

        Args:
            register: add the schema to the subject if it lacks it.

        Raises:
            SchemaMissing: the subject does not have the schema.
            RegistryUnreachable, RegistryRefuses: it cannot be had or added.
        """
        try:
            ask = self.java.register if register else self.java.idOf
            found: int = ask(subject, self._type, schema)
        except java_errors() as error:
            what = f"does not have the schema in the subject {subject!r}"
            fix = "register it, or let the sink do so: registry: {autoRegister: true}"
            raise self._failure(error, what, fix) from None
        return found

    def check(self, subject: str, schema: str) -> None:
        """Check that a subject would take a schema.

        Raises:
            RegistryRefuses: it would not.
            RegistryUnreachable: it does not answer.
        """
        try:
            reason = self.java.incompatibility(subject, self._type, schema)
        except java_errors() as error:
            raise self._failure(error, f"does not have the subject {subject!r}", "") from None
        if reason:
            what = f"the subject {subject!r} of the {self.java.toString()} would not take the schema: {reason}"
            raise RegistryRefuses(f"{self._who}: {what}", "change the rows, or the compatibility of the subject")

    def _failure(self, error: Exception, missing: str, fix: str) -> StreamJobError:
        exception = thrown(error)
        name = self.java.toString()
        errors = CLASSES["SchemaRegistry"] + "$"
        if (refused := first_of_class(exception, errors + "Refused")) is not None:
            if refused.status() == _NOT_FOUND:
                return SchemaMissing(f"{self._who}: the {name} {missing}", fix)
            said = self._without_secrets(refused.getMessage())
            if refused.status() == _CONFLICT:
                fix = "change the rows, or the compatibility of the subject"
                return RegistryRefuses(f"{self._who}: the {name} refuses the schema: {said}", fix)
            if refused.status() >= 500:
                return RegistryUnreachable(f"{self._who}: the {name} fails: {said}", "look at its log")
            fix = "correct basic.auth.user.info, bearer.auth.token or ssl.… in registry.options"
            return RegistryRefuses(f"{self._who}: the {name} refuses (HTTP {refused.status()}): {said}", fix)
        if (silent := first_of_class(exception, errors + "Unavailable")) is not None:
            said = self._without_secrets(silent.getMessage())
            return RegistryUnreachable(f"{self._who}: the {name} cannot be asked: {said}", "check registry.url")
        return UnusableSchema(f"{self._who}: its schema cannot be used: {message(exception)}", "correct the schema")

    def _without_secrets(self, text: str) -> str:
        return redacted(text, secrets_in(self._options))


def check_compiler(spark: SparkSession, who: str, encoding: Encoding) -> None:
    """Check that Spark can compile the `.proto` files of an encoding, if it has some.

    Raises:
        CompilerMissing: it cannot.
    """
    if encoding.compiles and not has_class(spark, "com.squareup.wire.schema.Linker"):
        fix = "let streamjob_connectors of the tests return protobuf, or use a descriptor set"
        raise CompilerMissing(f"{who}: this Spark cannot compile .proto files", fix)


def decoder(spark: SparkSession, who: str, encoding: Encoding, schema: str, registry: SchemaRegistry | None) -> Any:
    """Return what decodes CSV, JSON, Avro or Protobuf, for `decoded`.

    Args:
        who: the source, at the beginning of a message.
        encoding: the form, with the options of Spark's `from_csv`, `from_json`, `from_avro` or `from_protobuf`.
        schema: the schema that rows have, the fields for CSV and JSON.
        registry: the registry of the schemas that records name; None if records name none.

    Raises:
        UnusableSchema: this is not a schema, or has no such message, or Spark has no type for it.
    """
    java, options = our_java(spark), dict(encoding.options)
    if encoding.format not in BINARY:
        unit = {} if encoding.epoch_unit is None else {"epochUnit": encoding.epoch_unit}
        return text_decoder(spark, who, encoding.format, schema, {**options, **unit})
    asked = registry.java if registry is not None else None
    try:
        if encoding.format == PROTOBUF:
            return java.ProtobufDecoder(java.ProtobufSchemas.message(schema, encoding.message), options, asked)
        return java.AvroDecoder(schema, options, asked)
    except java_errors() as error:
        what = f"{who}: its schema cannot be read as a type of Spark, with its options: {message(thrown(error))}"
        raise UnusableSchema(what, "correct the schema, or the options") from None


def encoder(
    spark: SparkSession, who: str, rows: StructType, column: str, encoding: Encoding, schema: str, schema_id: int | None
) -> Any:
    """Return what encodes a column as Avro or Protobuf, for `encoded`.

    Args:
        who: the sink, at the beginning of a message.
        rows: the columns of the rows.
        schema_id: its id in a registry, which is then written, too.

    Raises:
        UnusableSchema: this is not a schema, or has no such message, or the column cannot be written with it.
    """
    java, number = our_java(spark), _NO_ID if schema_id is None else schema_id
    try:
        kind = _type(spark, rows, column)
        if encoding.format == PROTOBUF:
            return java.ProtobufEncoder(kind, java.ProtobufSchemas.message(schema, encoding.message), number)
        return java.AvroEncoder(kind, schema, number)
    except java_errors() as error:
        what = f"{who}: its rows cannot be written with the schema of the {column}: {message(thrown(error))}"
        raise UnusableSchema(what, "make the columns of the input match the schema") from None


def avro_schema_of(spark: SparkSession, rows: StructType, column: str, name: str) -> str:
    """Return the text of the schema for the values of a column; `name` is that of its record."""
    text: str = our_java(spark).AvroSchemas.of(_type(spark, rows, column), name, "")
    return text


def decoded(spark: SparkSession, column: Column, decoder: Any) -> Column:
    """Return a struct of the decoded bytes, `value`, or of what is wrong with them, `error`; NULL for NULL."""
    return column_of(our_java(spark).Codecs.decoded(java_column(column), decoder))


def encoded(spark: SparkSession, column: Column, encoder: Any) -> Column:
    """Return the encoded values of a column; NULL for NULL."""
    from pyspark.sql import functions as f

    return column_of(our_java(spark).Codecs.encoded(java_column(f.struct(column.alias("value"))), encoder))


def _type(spark: SparkSession, rows: StructType, column: str) -> Any:
    from pyspark.sql.types import StructType

    return our_java(spark).AvroSchemas.type(StructType([rows[column]]).json())
