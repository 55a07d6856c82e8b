"""Lineage of a job as OpenLineage events: what it reads, what it writes, and which columns come from which."""
