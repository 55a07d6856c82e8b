"""The small part that must be written in Java: its sources, and the jar that `build.py` creates."""

from pathlib import Path

JAR = Path(__file__).with_name("streamjob-jvm.jar")
SOURCES = Path(__file__).with_name("src")
JOB_FILES = "streamjob.files"
"""The system property of Java that names the directory in which a process keeps the files of `job:/…` paths."""
OUTPUT_FILE_SYSTEM = "io.streamjob.OutputFileSystem"
PLAN_RULES = "io.streamjob.rules.PlanRules"
"""The extension of Spark's sessions with our rules for plans."""
EXECUTORS_MASTER = "local-executors"
"""The master of Spark for executors that register by themselves."""
