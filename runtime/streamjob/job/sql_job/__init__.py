"""A job as a SQL file: statements that give the same model as YAML, read and written."""

from streamjob.job.sql_job.reading import SqlJob, read_sql
from streamjob.job.sql_job.writing import NotExpressible, write_sql

__all__ = ["NotExpressible", "SqlJob", "read_sql", "write_sql"]
