"""How Java logs: errors only, in the log format of the process that starts it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from streamjob.telemetry.logs import LogFormat, log_format, process_fields

_HERE = Path(__file__).parent


def logging_options(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return Java's options for the log format that an environment sets."""
    if log_format(environment) is LogFormat.TEXT:
        return (_configuration("log4j2.properties"),)
    template = (_HERE / "log4j2-event.json").as_uri()
    return _configuration("log4j2-json.properties"), f"-Dstreamjob.log.template={template}"


def logging_variables() -> dict[str, str]:
    """Return the environment variables that say in JSON which job an entry of Java's log is from."""
    known = process_fields()
    return {f"STREAMJOB_LOG_{name.upper()}": str(known.get(name, "")) for name in ("job", "namespace", "attempt")}


def _configuration(name: str) -> str:
    return f"-Dlog4j2.configurationFile={(_HERE / name).as_uri()}"
