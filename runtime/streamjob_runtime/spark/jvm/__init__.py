"""The small part that must be written in Java: its sources, the jar that `build.py` creates, the names of its classes.

Nothing that is stored names a class of ours, so that a class may move: see `JoinStores.java`.
"""

from collections.abc import Mapping
from pathlib import Path

JAR = Path(__file__).with_name("streamjob-jvm.jar")
SOURCES = Path(__file__).with_name("src")
JOB_FILES = "streamjob.files"
"""The system property of Java that names the directory in which a process keeps the files of `job:/…` paths."""
EXECUTORS_MASTER = "local-executors"
"""The master of Spark for executors that register by themselves."""

_PACKAGES = {
    "avro": ("AvroDecoder", "AvroEncoder", "AvroFiles", "AvroSchemas"),
    "changes": ("Changes", "MarkedColumns"),
    "channels": ("BatchLimits", "ChannelSource", "Channels", "SegmentWriter"),
    "eventtime": ("ObservedTimes", "Watermarks"),
    "executors": ("ExecutorEvents", "ExecutorLoads", "ExecutorProcess", "LocalExecutors"),
    "files": ("JobFileManager", "JobFileSystem", "OutputFileSystem"),
    "filesource": ("Directories", "DiscoveredFiles"),
    "joins": ("Lookup", "StaticTable", "TemporalJoin", "TemporalQuery"),
    "kafka": (
        "BoundedKafkaSource",
        "KafkaAdmin",
        "KafkaBeginning",
        "KafkaClients",
        "KafkaCommits",
        "KafkaPublisher",
        "KafkaStager",
    ),
    "pinning": ("Dependence", "PinnedBatches"),
    "plans": ("Once", "TriedRows"),
    "process": ("Fetch", "SparkPageGuard", "Profiler", "StreamThreadDeaths"),
    "protobuf": ("ProtobufDecoder", "ProtobufEncoder", "ProtobufSchemas"),
    "records": ("Codecs", "SchemaRegistry"),
    "rules": ("PlanRules",),
    "state": ("EmptyStore", "StateCopy", "StateForms", "StatePlacement", "StateRows"),
    "text": ("CsvDecoder", "FileRecords", "JsonDecoder", "NamedFiles"),
}

CLASSES: Mapping[str, str] = {
    name: f"io.streamjob.{package}.{name}" for package, names in _PACKAGES.items() for name in names
}
"""The classes that Python, Spark and Java are told by name: with their packages, by their own names."""

OUTPUT_FILE_SYSTEM = CLASSES["OutputFileSystem"]
PLAN_RULES = CLASSES["PlanRules"]
"""The extension of Spark's sessions with our rules for plans."""
