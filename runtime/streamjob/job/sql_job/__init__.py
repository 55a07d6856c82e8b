"""A job as a SQL file: statements that give the same model as YAML."""

from streamjob.job.sql_job.reading import SqlJob, read_sql

__all__ = ["SqlJob", "read_sql"]
