"""The small part that must be written in Java: its sources, and the jar that `build.py` creates."""

from pathlib import Path

JAR = Path(__file__).with_name("streamjob-jvm.jar")
SOURCES = Path(__file__).with_name("src")
CHECKPOINT_FILE_MANAGER = "io.streamjob.LocalCheckpointFileManager"
OUTPUT_FILE_SYSTEM = "io.streamjob.OutputFileSystem"
