"""The exactly-once PostgreSQL sink: copies rows into staging tables, and moves them in one transaction."""
