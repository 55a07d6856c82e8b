"""The model of keys and values of Kafka records: their forms, and the registries of their schemas."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from streamjob.job.model.protobuf import is_text
from streamjob.job.model.spec_fields import Options, Spec, as_text

AVRO = "avro"
JSON = "json"
PROTOBUF = "protobuf"
BINARY = frozenset({AVRO, PROTOBUF})
"""Forms of records whose schemas are written in languages of their own, and can be in a registry."""
EpochUnit = Literal["s", "ms", "us", "ns"]
Coding = Literal["avro", "csv", "json", "protobuf", "text"]


class Registry(Spec):
    """A schema registry with Confluent's interface, which has the schemas of Kafka records."""

    url: str = Field(
        min_length=1, description="Its URL; or several with commas between them, of which one has to answer."
    )
    subject: str | None = Field(
        default=None,
        min_length=1,
        description="The subject with the schema that rows have. Default: the topic, with `-key` or `-value`.",
    )
    version: Annotated[str, BeforeValidator(as_text, json_schema_input_type=str | int)] = Field(
        default="latest",
        pattern=r"^(latest|[1-9][0-9]{0,8})$",
        description="The version of the subject that rows have: a number, or `latest`, which is read at each start.",
    )
    auto_register: bool = Field(
        default=False,
        description="Whether a sink adds its schema to the subject: that of `schema`, or else of its rows. Otherwise "
        "the subject must have the schema.",
    )
    options: Options = Field(
        default_factory=dict,
        description="Settings of the connection, under the names of Confluent's clients: `basic.auth.user.info`, "
        "`bearer.auth.token`, `ssl.…` as Kafka's, `http.connect.timeout.ms`, `http.read.timeout.ms`, `max.retries`.",
    )


class Encoding(Spec):
    """The form of the keys or values of Kafka records."""

    format: Coding = Field(description="The form of the bytes.")
    schema_ddl: str | None = Field(
        default=None,
        alias="schema",
        description="For csv and json of a source: the fields, as `name TYPE, …`. For avro: the schema, as JSON; sinks "
        "take that of their rows by default. For protobuf: the text of a `.proto` file, or the descriptor set that "
        "`protoc` writes, in base64.",
    )
    schema_file: str | None = Field(
        default=None,
        description="As an alternative: a file with the schema, relative to the job file. Not in the `job` of a "
        "`StreamJob`.",
    )
    message: str | None = Field(
        default=None,
        min_length=1,
        description="For protobuf: the name of the message, such as `shop.Order`. Default: the only one of the schema.",
    )
    epoch_unit: EpochUnit | None = Field(
        default=None,
        description="For csv and json: what numbers in TIMESTAMP fields count since 1970, `s`, `ms`, `us` or `ns`. "
        "Default: a number there is a broken record.",
    )
    registry: Registry | None = Field(
        default=None,
        description="For avro and protobuf: the registry of the schemas that records name in their first bytes. "
        "Default: records name no schema.",
    )
    options: Options = Field(
        default_factory=dict,
        description="Spark's options of the form, such as `timestampFormat` or `sep`; for csv and json also "
        "`rounding` and `allowDuplicateKeys`.",
    )

    @property
    def compiles(self) -> bool:
        """Whether a `.proto` file has to be compiled: the job's, or one of a registry."""
        return self.format == PROTOBUF and (self.registry is not None or is_text(self.schema_ddl or ""))

    def described(self) -> str:
        """Return the form as messages name it."""
        if self.format in BINARY:
            where = ", or names no schema of the registry that can be read with it" if self.registry else ""
            return f"{self.format} with the declared schema{where}"
        return self.format if self.schema_ddl is None else f"{self.format} with the fields {self.schema_ddl}"
