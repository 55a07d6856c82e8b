"""Shows what the table holds, and which checkpoints it is made of."""

from __future__ import annotations

import os
from pathlib import Path

from pyiceberg.catalog import load_catalog

from streamjob.job.connectors.iceberg import catalog_properties
from streamjob.job.connectors.resolving import resolve_options
from streamjob.job.loading.load import load_job

FILE = Path(__file__).with_name("job.yaml")

(sink,) = load_job(FILE).spec.sinks
options = resolve_options(sink, FILE.parent, os.environ)
table = load_catalog("default", **catalog_properties(options)).load_table(options["table"])

print(table.scan().to_pandas().sort_values(["minute", "sensor"]).tail(10).to_string(index=False))
for snapshot in table.metadata.snapshots[-5:]:
    if snapshot.summary:
        said = snapshot.summary.additional_properties
        print("checkpoint", said.get("streamjob.checkpoint"), "added", said.get("added-records"), "rows")
