"""The only module that touches PySpark's private names, and the internals of Spark that they lead to.

PySpark talks to Spark's Java through a gateway of py4j, and shows little of what Java can do. Each function here does
one thing that PySpark has no public interface for. None of these names is promised to stay: a new version of Spark is
tried here first. `docs/new-spark-version.md` lists them, with the internals that our Java classes use. What comes
back as `Any` is an object in Java.
"""

from __future__ import annotations

import json
import secrets
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob_runtime.spark.jvm import CLASSES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

_DEFAULTS = (12, 13, 14)
"""The parameters of Spark's IncrementalExecution, counted from 1, that are left as they are."""


def java_of(spark: SparkSession) -> Any:
    """Return the root of Java's packages: `java_of(spark).java.util.UUID` is a class."""
    return spark._jvm


def running_java() -> Any | None:
    """Return the root of Java's packages for the Spark of this process; None while none runs."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return None if context is None else context._jvm


@contextmanager
def types_unparsed() -> Iterator[None]:
    """Allow functions to declare their types as text while no Spark runs, as in `udf("long")`.

    PySpark parses such a text in Java at once, only to show the type as an attribute of the function; where a query
    uses the function, it parses the text again.
    """
    from pyspark import SparkContext
    from pyspark.sql.udf import UserDefinedFunction

    parsed = UserDefinedFunction.returnType

    def of(function: Any) -> Any:
        return function._returnType if SparkContext._active_spark_context is None else parsed.__get__(function)

    UserDefinedFunction.returnType = property(of)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        UserDefinedFunction.returnType = parsed  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class OurJava:
    """Our own Java classes, by their names without packages: `our_java(spark).Channels` is one of them."""

    root: Any

    def __getattr__(self, name: str) -> Any:
        return reduce(getattr, CLASSES[name].split("."), self.root)


def our_java(spark: SparkSession) -> OurJava:
    """Return our own Java classes."""
    return OurJava(java_of(spark))


def java_session(spark: SparkSession) -> Any:
    """Return the session in Java."""
    return spark._jsparkSession


def cloned_session(spark: SparkSession) -> SparkSession:
    """Return a session with the settings, functions and views of another one; what it changes stays its own."""
    from pyspark.sql import SparkSession

    return SparkSession(spark.sparkContext, java_session(spark).cloneSession())


def runs_tasks(spark: SparkSession) -> bool:
    """Return whether tasks run in the Java of this process, and not on executors."""
    # As Spark decides it: the name of our own master for executors begins with `local` as well.
    master = spark.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether Spark's Java can load a class.

    Args:
        name: the class with its package.
    """
    return bool(java_of(spark).org.apache.spark.util.Utils.classIsLoadable(name))


def java_errors() -> tuple[type[Exception], ...]:
    """Return the classes of the errors that a call raises if Java throws; give one of them to `thrown`."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    return (Py4JJavaError, CapturedException)


def spark_errors() -> tuple[type[Exception], ...]:
    """Return the classes of the errors that PySpark raises if it or Spark's Java refuses something."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return (Py4JJavaError, PySparkException)


def call_errors() -> tuple[type[Exception], ...]:
    """Return the classes of the errors that a call raises if Java throws, does not answer, or has ended."""
    from py4j.protocol import Py4JError

    return (Py4JError, ConnectionError, *java_errors())


def is_broken_connection(error: BaseException) -> bool:
    """Return whether an error may come from a call into a Java that has ended."""
    from py4j.protocol import Py4JError, Py4JJavaError

    return isinstance(error, (Py4JError, ConnectionError)) and not isinstance(error, Py4JJavaError)


def thrown(error: Exception) -> Any:
    """Return the exception in Java behind one of `java_errors`."""
    from py4j.protocol import Py4JJavaError

    return error.java_exception if isinstance(error, Py4JJavaError) else error._origin  # type: ignore[attr-defined]


def first_of_class(exception: Any, name: str) -> Any | None:
    """Return the first of an exception in Java and its causes that is of a class; None if none is.

    Args:
        exception: see `thrown`.
        name: the class with its package.
    """
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    while exception is not None and not is_instance_of(SparkContext._gateway, exception, name):
        exception = exception.getCause()
    return exception


def java_process(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """Return Spark's Java, if this process started it."""
    process: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    return process


def launch_java(conf: Mapping[str, str]) -> None:
    """Start the Java for the next session of this process, unless one runs.

    PySpark would start it in this process's group. A service manager or a script that ends the
    group would end Java first, and the driver could take no last checkpoint. Java still ends with this process, which
    holds its standard input open.

    Args:
        conf: Spark's configuration.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        SparkContext._gateway = SparkContext._jvm = None
    if SparkContext._gateway is None:
        settings = SparkConf(loadDefaults=False).setAll(list(conf.items()))
        gateway = launch_gateway(settings, {"process_group": 0})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


def shut_down(spark: SparkSession) -> None:
    """Close all connections to Spark's Java."""
    gateway = spark.sparkContext._gateway
    if gateway is not None:
        gateway.shutdown()


def forget_java(spark: SparkSession) -> None:
    """Make the next session of this process start a Java: PySpark would talk to the one that is gone."""
    context = type(spark.sparkContext)
    context._gateway = None
    context._jvm = None


def authenticate_callbacks(spark: SparkSession) -> None:
    """Ensure that only this process's own Spark can call into its Python; once per gateway.

    PySpark's callback server accepts calls from anybody who reaches its port on loopback, including other users of the
    machine. The server can require a token, and Spark's side can send one, but py4j forgets the token when PySpark sets
    the server's port.

    Args:
        spark: a session whose gateway has not yet called into Python.
    """
    from py4j.java_gateway import JavaObject
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway
    # A gateway answers to any attribute name, by asking Java.
    if gateway.__dict__.get("_callback_server") is not None:
        return
    token = secrets.token_urlsafe(32)
    gateway.callback_server_parameters.auth_token = token
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
    field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(client, token)


@dataclass(frozen=True, slots=True)
class StreamingLeaf:
    """One reading of a streaming source in a plan.

    Args:
        plan: the leaf.
        source: tells sources apart: two leaves that read the same DataFrame have the same number.
    """

    plan: Any
    source: int


def java_frame(frame: DataFrame) -> Any:
    """Return a DataFrame as our own Java takes it."""
    return frame._jdf


def frame_of(spark: SparkSession, dataset: Any) -> DataFrame:
    """Return a Dataset of rows in Java as a DataFrame."""
    from pyspark.sql import DataFrame

    return DataFrame(dataset, spark)


def each_file_once(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """Return a table of files that reads each file once (`NamedFiles.java`), or any other one as it is."""
    return frame_of(spark, our_java(spark).NamedFiles.of(java_frame(frame)))


def frame_of_relation(spark: SparkSession, relation: Any) -> DataFrame:
    """Return the rows of one of Spark's relations in Java as a DataFrame."""
    return frame_of(spark, java_session(spark).baseRelationToDataFrame(relation))


def frame_without_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a DataFrame without rows that has a task for each slot; Spark runs none for an empty list of rows."""
    context = spark.sparkContext
    rows = context._jsc.parallelize(java_of(spark).java.util.ArrayList(), context.defaultParallelism)
    return frame_of(spark, java_session(spark).createDataFrame(rows, java_schema(spark, schema)))


def java_context(spark: SparkSession) -> Any:
    """Return the context of a session in Java."""
    return spark.sparkContext._jsc.sc()


def java_schema(spark: SparkSession, schema: StructType) -> Any:
    """Return a schema in Java."""
    return java_of(spark).org.apache.spark.sql.types.DataType.fromJson(schema.json())


def java_column(column: Column) -> Any:
    """Return a column as our own Java takes it."""
    return column._jc


def column_of(java: Any) -> Column:
    """Return a column that our own Java has made."""
    from pyspark.sql.classic.column import Column

    return Column(java)


def once(spark: SparkSession, column: Column) -> Column:
    """Return a column that Spark computes once for each row, where it stands."""
    return column_of(our_java(spark).Once.of(java_column(column)))


def analyzed_plan(frame: DataFrame) -> Any:
    """Return a DataFrame's logical plan, before Spark optimizes it."""
    return java_frame(frame).queryExecution().analyzed()


def watermark_node(frame: DataFrame) -> str:
    """Return the id of the watermark node of a DataFrame that `withWatermark` just returned."""
    node: str = analyzed_plan(frame).nodeId().toString()
    return node


def streaming_leaves(spark: SparkSession, frame: DataFrame) -> list[StreamingLeaf]:
    """Return where a DataFrame reads streaming sources, in the order of its plan."""
    identity = java_of(spark).System.identityHashCode
    leaves = analyzed_plan(frame).collectLeaves()
    found = []
    for leaf in (leaves.apply(index) for index in range(leaves.size())):
        kind = leaf.getClass().getSimpleName()
        if kind == "StreamingRelation":
            found.append(StreamingLeaf(leaf, identity(leaf.dataSource())))
        elif kind == "StreamingRelationV2":
            found.append(StreamingLeaf(leaf, identity(leaf.table())))
    return found


def check_for_streaming(spark: SparkSession, frame: DataFrame, output_mode: str) -> None:
    """Check a DataFrame as Spark does at the start of a query.

    Raises:
        PySparkException: Spark cannot run it as one query.
    """
    checker = java_of(spark).org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(analyzed_plan(frame), _output_mode(spark, output_mode))


def gives_whole_results(frame: DataFrame) -> bool:
    """Return whether each batch of a query in complete mode is its whole result, which Spark does not check.

    It is unless rows come past the aggregations, by a union, or an operator behind them keeps those that it has seen.
    """

    def is_whole(plan: Any) -> bool:
        if not plan.isStreaming() or plan.nodeName() in ("Aggregate", "Distinct"):
            return True
        children = plan.children()
        keeps = plan.nodeName().startswith(("Deduplicate", "FlatMapGroups", "TransformWithState"))
        return not keeps and children.nonEmpty() and all(is_whole(children.apply(n)) for n in range(children.size()))

    return is_whole(analyzed_plan(frame))


def execution_of_batch(
    spark: SparkSession, frame: DataFrame, output_mode: str, state: Path, batch: int, metadata: Mapping[str, Any]
) -> Any:
    """Return how Spark would execute one batch of a query: its plans are made when they are asked for.

    Args:
        frame: the query's result.
        output_mode: the query's output mode.
        state: the directory of its state.
        batch: the number of the batch.
        metadata: of the batch's entry in the log of offsets.
    """
    streaming = java_of(spark).org.apache.spark.sql.execution.streaming
    execution = streaming.runtime.IncrementalExecution
    run = java_of(spark).java.util.UUID.randomUUID()
    return execution(
        java_frame(frame).sparkSession(),
        analyzed_plan(frame),
        _output_mode(spark, output_mode),
        str(state),
        run,
        run,
        batch,
        java_of(spark).scala.Option.empty(),
        streaming.checkpointing.OffsetSeqMetadata.apply(json.dumps(metadata)),
        streaming.runtime.WatermarkPropagator.noop(),
        True,
        *(getattr(execution, f"$lessinit$greater$default${number}")() for number in _DEFAULTS),
        False,
        False,
    )


@dataclass(frozen=True, slots=True)
class DriverAddress:
    """The settings that an executor needs to register with Spark's driver.

    Args:
        url: the driver's address.
        application: Spark's id of the job.
        java_options: options that Java needs for Spark.
    """

    url: str
    application: str
    java_options: tuple[str, ...]


def driver_address(spark: SparkSession) -> DriverAddress:
    """Return how an executor registers with the session's driver."""
    conf = spark.sparkContext.getConf()
    modules = java_of(spark).org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptions()
    own = conf.get("spark.executor.extraJavaOptions", "") or ""
    return DriverAddress(
        f"spark://CoarseGrainedScheduler@{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}",
        str(spark.sparkContext.applicationId),
        (*shlex.split(modules), *shlex.split(own)),
    )


def free_local_checkpoint(frame: DataFrame) -> None:
    """Delete the blocks of a DataFrame that `localCheckpoint` returned: Spark waits for a garbage collection."""
    java_frame(frame).queryExecution().logical().rdd().unpersist(False)


def parse(spark: SparkSession, sql: str) -> None:
    """Parse a query.

    Raises:
        ParseException: it is no SQL of Spark's.
    """
    java_session(spark).sessionState().sqlParser().parsePlan(sql)


def _output_mode(spark: SparkSession, output_mode: str) -> Any:
    return getattr(java_of(spark).org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()


def java_query(query: StreamingQuery) -> Any:
    """Return a query as our own Java takes it."""
    return query._jsq


def progress_reports(query: StreamingQuery) -> Sequence[Any]:
    """Return a query's latest reports, oldest first, without reading them: each has `batchId()` and `json()`.

    PySpark reads all of them, and each costs a call into Java.
    """
    reports: Sequence[Any] = java_query(query).recentProgress()
    return reports


def repartition_state(spark: SparkSession, location: str, partitions: int) -> None:
    """Rewrite the state of a stopped query for another number of partitions, as a batch of its own.

    Args:
        location: the URI by which Spark opens the query's checkpoint.
        partitions: the number of partitions.

    Raises:
        PySparkException: Spark cannot rewrite it.
    """
    spark._streamingCheckpointManager.repartition(location, partitions)


def read_as_stored(spark: SparkSession) -> str:
    """Return the option of Spark's reader of state that returns rows as they are stored, of all column families."""
    state = java_of(spark).org.apache.spark.sql.execution.datasources.v2.state
    options = getattr(getattr(state, "StateSourceOptions$"), "MODULE$")
    name: str = options.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES()
    return name
