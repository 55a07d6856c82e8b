"""The exactly-once PostgreSQL sink: rows are copied into staging tables, and move to their table in one transaction."""
