"""What a snapshot says of the changes of its state, and what is shown of it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console
from tests.unit.runtime.test_restoring import FUSED, snapshot

from streamjob.cli.snapshot_tables import print_details
from streamjob.comparison.snapshot_job import CONTINUES, MIGRATIONS, kept_notes
from streamjob.store.opening import open_location
from streamjob.stored.reading import StoredSnapshot

RECORD = {
    "snapshot": "file:///s/manifest.json",
    "chain": "counts",
    "operators": ["counts"],
    "state": "stateStoreSave",
    "how": "sql",
    "said": ["its state is what the query under `migrate` makes of it"],
    "gaps": ["open groups lack earlier rows"],
    "sql": "SELECT k, n FROM state",
    "before": "3f2ac410",
    "after": "91bb07de",
    "rowsBefore": 12,
    "rowsAfter": 9,
    "checksumBefore": -5,
    "checksumAfter": 7,
    "seconds": 1.5,
    "migrated": 1_700_000_000.0,
}


def numbered(count: int) -> list[dict[str, Any]]:
    return [{**RECORD, "rowsBefore": number} for number in range(count)]


def test_a_snapshot_keeps_what_the_one_before_it_has_said_of_its_state() -> None:
    former = {"name": "job", CONTINUES: "spark:/query@5", MIGRATIONS: numbered(1)}

    assert kept_notes(former, []) == {CONTINUES: "spark:/query@5", MIGRATIONS: numbered(1)}
    assert kept_notes(former, [RECORD])[MIGRATIONS] == [*numbered(1), RECORD]
    assert kept_notes({"name": "job"}, []) == {}


def test_a_snapshot_keeps_a_hundred_changes_of_state_and_forgets_the_oldest() -> None:
    kept = kept_notes({MIGRATIONS: numbered(100)}, [RECORD])[MIGRATIONS]

    assert len(kept) == 100
    assert kept[0]["rowsBefore"] == 1
    assert kept[-1] == RECORD


def test_an_auditor_reads_why_the_state_changed(tmp_path: Path) -> None:
    manifest = snapshot(FUSED)
    changed = manifest.model_copy(update={"graph": {**manifest.graph, MIGRATIONS: [RECORD]}})
    shown = io.StringIO()

    stored = StoredSnapshot(uri="file:///s/manifest.json", home=open_location(str(tmp_path)), manifest=changed)
    print_details(stored, Console(file=shown, width=300))

    text = shown.getvalue()
    for part in ("2023-11-14 22:13:20", "counts", "sql: its state is", "SELECT k, n FROM state", "12 → 9", "-5 → 7"):
        assert part in text
