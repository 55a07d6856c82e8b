"""The end of a job at a record that cannot be decoded: another attempt would end there, too."""

from __future__ import annotations

import shlex

from streamjob.errors import ExitCode, JobFailed
from streamjob.job.load import LoadedJob
from streamjob_runtime.chain.decoding import Undecoded


class RecordNotDecoded(JobFailed):
    """A record of a source does not have the declared form; the job's last completed checkpoint is intact."""

    exit_code = ExitCode.INVALID_INPUT


def record_not_decoded(undecoded: Undecoded, loaded: LoadedJob) -> RecordNotDecoded:
    """Return the error for a record that could not be decoded.

    Args:
        undecoded: the record.
        loaded: the job.
    """
    source = loaded.spec.source(undecoded.source)
    encoding = source.key if undecoded.part == "key" else source.value
    assert encoding is not None
    form = (
        encoding.format if encoding.schema_ddl is None else f"{encoding.format} with the fields {encoding.schema_ddl}"
    )
    skip = f"sources.{source.name}.skip={', '.join(filter(None, [source.skip, undecoded.record]))}"
    return RecordNotDecoded(
        f"Source {source.name!r}: the {undecoded.part} of partition {undecoded.partition} of topic "
        f"{undecoded.topic!r} at offset {undecoded.offset} is not {form}",
        f"go on without this record: streamjob run {shlex.quote(loaded.origin)} --set {shlex.quote(skip)}; or correct "
        "the schema; or drop all such records: onError: drop",
    )
