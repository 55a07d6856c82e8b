"""Compares a result with DuckDB's. Runs in an environment of its own, with nothing but DuckDB."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def main() -> int:
    """Print how the result differs, as JSON; return 1 if it does."""
    import duckdb

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", type=Path, required=True, help="JSON: tables, statement, columns, ends, until")
    parser.add_argument("--out", type=Path, required=True, help="directory with the result as Parquet")
    options = parser.parse_args()
    query = json.loads(options.query.read_text())
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, path in query["tables"].items():
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}/*.parquet')")
    columns = ", ".join(f"CAST({each} AS VARCHAR) AS {each}" for each in query["columns"])
    late = f"WHERE {query['ends']} <= {query['until']}" if query["ends"] and query["until"] else ""
    connection.execute(f"CREATE TABLE expected AS SELECT {columns} FROM ({query['statement']}) {late}")
    # Names that begin like this are those of files about the result, not of its rows.
    files = [
        str(each)
        for each in options.out.rglob("*")
        if not any(part.startswith(("_", ".")) for part in each.relative_to(options.out).parts)
        and each.is_file()
        and each.stat().st_size > 0
    ]
    if files:
        found = f"SELECT {columns} FROM read_parquet({files!r}) {late}"
        connection.execute(f"CREATE TABLE found AS {found}")
    else:
        connection.execute("CREATE TABLE found AS SELECT * FROM expected LIMIT 0")

    def count(statement: str) -> int:
        row = connection.execute(f"SELECT count(*) FROM ({statement})").fetchone()
        return int(row[0]) if row else 0

    difference = {
        "rows": count("FROM expected"),
        "missing": count("FROM expected EXCEPT ALL FROM found"),
        "wrong": count("FROM found EXCEPT ALL FROM expected"),
    }
    print(json.dumps(difference))
    return 1 if difference["missing"] or difference["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
