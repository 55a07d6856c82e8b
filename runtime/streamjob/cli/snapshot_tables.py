"""The output of `streamjob snapshots`: tables for people, objects for JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamjob.client import formatting
from streamjob.client.console import console_for
from streamjob.comparison.snapshot_job import MIGRATIONS
from streamjob.migration.records import MigrationRecord
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import ChannelSegment, ChannelState, Manifest
from streamjob.stored.reading import JobSnapshots, StoredSnapshot
from streamjob.stored.verify import Verified

_LONGEST = 120


def entry(snapshot: StoredSnapshot, job: JobId | None) -> dict[str, Any]:
    """Return a snapshot as an object of `list --json`."""
    record, manifest = snapshot.record, snapshot.manifest
    return {
        "namespace": job.namespace if job else manifest.namespace if manifest else None,
        "job": job.name if job else manifest.job if manifest else None,
        "id": snapshot.id,
        "kind": record.kind.value if record else manifest.kind if manifest else None,
        "epoch": record.epoch if record else manifest.epoch if manifest else None,
        "completed": record.time if record else manifest.completed if manifest else None,
        "newest": snapshot.newest,
        "retained": not snapshot.gone,
        "stateSize": manifest.state_size() if manifest else None,
        "objects": len(manifest.objects()) if manifest else None,
        "manifest": snapshot.uri,
        "problem": snapshot.problem,
    }


def details(snapshot: StoredSnapshot) -> dict[str, Any]:
    """Return a snapshot as the object of `show --json`: its entry and its manifest.

    Contains counts of files and of in-flight data instead of their names.
    """
    shown = entry(snapshot, None)
    if snapshot.manifest is None:
        return shown
    manifest = snapshot.manifest.model_dump(mode="json", by_alias=True)
    for chain, state in zip(manifest["chains"], snapshot.manifest.chains, strict=True):
        chain["files"] = len(state.files)
        chain["stateSize"] = sum(file.length for file in state.files)
    for channel, in_flight in zip(manifest["channels"], snapshot.manifest.channels, strict=True):
        segments = _segments(in_flight)
        channel["entries"] = len(in_flight.entries)
        channel["records"] = sum(segment.records for segment in segments)
        channel["bytes"] = sum(segment.length for segment in segments)
    return manifest | {key: shown[key] for key in ("newest", "stateSize", "objects", "manifest", "problem")}


def verdict(snapshot: StoredSnapshot, problems: Sequence[str]) -> dict[str, Any]:
    """Return a snapshot as an object of `verify --json`."""
    shown = entry(snapshot, None)
    chosen = {key: shown[key] for key in ("id", "kind", "epoch", "manifest")}
    return chosen | {"whole": not problems, "problems": list(problems)}


def print_list(snapshots: Sequence[StoredSnapshot], job: JobSnapshots | None) -> None:
    """Print a job's snapshots, oldest first, with their locations."""
    target = console_for()
    if job is not None:
        target.print(
            Text.assemble(
                (f"{job.view.job}", "bold"),
                f"  epoch {job.view.epoch}{', finished' if job.view.finished else ''}  {job.location.store.uri}",
            ),
            soft_wrap=True,
        )
    if not snapshots:
        target.print("no completed snapshots")
        return
    table = table_of(
        ("id", True), ("kind", False), ("epoch", True), ("completed (UTC)", False), ("size", True), ("", False)
    )
    for each in snapshots:
        shown = entry(each, None)
        completed, size = shown["completed"], shown["stateSize"]
        note = Text(each.problem, style="red") if each.problem else Text("newest" if each.newest else "", style="green")
        table.add_row(
            str(shown["id"] or formatting.ABSENT),
            shown["kind"] or formatting.ABSENT,
            str(shown["epoch"] or formatting.ABSENT),
            formatting.ABSENT if completed is None else formatting.date_time(completed),
            formatting.ABSENT if size is None else formatting.size(size),
            note,
        )
    target.print(table)


def print_details(snapshot: StoredSnapshot, console: Console | None = None) -> None:
    """Print the content of a snapshot."""
    target = console or console_for()
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    facts.add_row("snapshot", Text(snapshot.label + (", the newest" if snapshot.newest else ""), style="bold"))
    facts.add_row("manifest", snapshot.uri)
    if snapshot.manifest is None:
        facts.add_row("problem", Text(snapshot.problem or "", style="red"))
        target.print(facts)
        return
    manifest = snapshot.manifest
    took = manifest.completed - manifest.triggered
    facts.add_row("job", f"{manifest.job} (namespace {manifest.namespace}), epoch {manifest.epoch}")
    facts.add_row("completed", f"{formatting.date_time(manifest.completed)} UTC, after {formatting.duration(took)}")
    properties = [name for name, holds in (("unaligned", manifest.unaligned), ("drained", manifest.drained)) if holds]
    facts.add_row("type", ", ".join([manifest.kind, *properties]))
    count = sum(1 for _ in manifest.files())
    facts.add_row(
        "size", f"{formatting.size(manifest.state_size())} in {count} files, {len(manifest.objects())} objects"
    )
    finished = [each.uid for each in manifest.operators if each.finished]
    if finished:
        facts.add_row("finished", ", ".join(finished))
    target.print(facts)
    tables = (_chains(manifest), _channels(manifest), _sources(manifest), _sinks(manifest), _migrations(manifest))
    for table in tables:
        if table.row_count:
            target.print(table)


def print_verdicts(result: Verified) -> None:
    """Print each snapshot's problems, and the amount that was read."""
    target = console_for()
    for snapshot, problems in result.problems:
        state = Text("damaged", style="red") if problems else Text("whole", style="green")
        target.print(Text.assemble(f"{snapshot.label}: ", state), soft_wrap=True)
        for problem in problems:
            target.print(Text(f"  {problem}"), soft_wrap=True)
    target.print(f"read {result.objects} objects, {formatting.size(result.size)}")


def _chains(manifest: Manifest) -> Table:
    table = table_of(
        ("chain", False),
        ("operators", False),
        ("batch", True),
        ("watermark (UTC)", False),
        ("files", True),
        ("size", True),
    )
    for chain in manifest.chains:
        table.add_row(
            chain.uid,
            ", ".join(chain.operators),
            formatting.ABSENT if chain.batch < 0 else str(chain.batch),
            formatting.event_time(chain.watermark),
            str(len(chain.files)),
            formatting.size(sum(file.length for file in chain.files)),
        )
    return table


def _channels(manifest: Manifest) -> Table:
    table = table_of(("channel", False), ("entries in flight", True), ("records", True), ("size", True), ("", False))
    for channel in manifest.channels:
        segments = _segments(channel)
        table.add_row(
            f"{channel.source} → {channel.target}",
            formatting.count(len(channel.entries)),
            formatting.count(sum(segment.records for segment in segments)),
            formatting.size(sum(segment.length for segment in segments)),
            "ended" if channel.ended else "",
        )
    return table


def _segments(channel: ChannelState) -> list[ChannelSegment]:
    return [segment for entry in channel.entries for segment in entry.segments]


def _sources(manifest: Manifest) -> Table:
    # The chain that reads a source comes before those that read it through a channel, under the same uid.
    watermarks = {each.uid: each for chain in reversed(manifest.chains) for each in chain.inputs}
    table = table_of(("source", False), ("watermark (UTC)", False), ("position", False), ("end", False))
    for source in manifest.sources:
        state = watermarks.get(source.uid)
        reached = formatting.ABSENT if state is None else formatting.event_time(state.watermark_ms)
        table.add_row(
            source.uid,
            "ended" if state is not None and state.ended else reached,
            _short(source.position),
            formatting.ABSENT if source.end is None else _short(source.end),
        )
    return table


def _migrations(manifest: Manifest) -> Table:
    """Return why the state has another form than it began with, oldest change first."""
    table = table_of(
        ("state changed (UTC)", False), ("operator", False), ("how", False), ("rows", False), ("checksum", False)
    )
    for each in map(MigrationRecord.model_validate, manifest.graph.get(MIGRATIONS, ())):
        said = f"{each.how}: {'; '.join((*each.said, *each.gaps))}"
        table.add_row(
            formatting.date_time(each.migrated),
            " or ".join(each.operators),
            f"{said}\n{each.sql}" if each.sql else said,
            f"{each.rows_before} → {each.rows_after}",
            f"{each.checksum_before} → {each.checksum_after}",
        )
    return table


def _sinks(manifest: Manifest) -> Table:
    table = table_of(("sink", False), ("committables", True))
    for sink in manifest.sinks:
        table.add_row(sink.uid, str(len(sink.committables)))
    return table


def table_of(*columns: tuple[str, bool]) -> Table:
    """Return a table with these columns; those that are numeric are aligned on the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="dim")
    for name, numeric in columns:
        table.add_column(name, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    return table


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
