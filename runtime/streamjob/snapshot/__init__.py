"""The stored form of a job's progress: keys, log records, manifests. `docs/snapshot-format.md` specifies it."""
