"""The small part that must be Java: its source, and the jar built from it by `build.py`."""

from pathlib import Path

JAR = Path(__file__).with_name("streamjob-jvm.jar")
SOURCES = Path(__file__).with_name("src")
CHECKPOINT_FILE_MANAGER = "io.streamjob.LocalCheckpointFileManager"
OUTPUT_FILE_SYSTEM = "io.streamjob.OutputFileSystem"
