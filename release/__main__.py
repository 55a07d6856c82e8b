"""Build a release into `dist/`: `python -m release`."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release.artifacts import (
    ROOT,
    NoImageBuilder,
    build_packages,
    chart_version,
    commit_time,
    image_builder,
    image_commands,
    package_chart,
    write_checksums,
)
from release.installation import Installation

_EXTRAS = {
    "controller": ("operator",),
    "runtime": ("runtime", "postgresql", "iceberg", "lineage"),
}
"""Extras in each image."""
_LISTED = 12


def main() -> int:
    """Build what the arguments ask for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="make dist", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="directory for the files; it is emptied first")
    parser.add_argument("--no-images", action="store_true", help="build no images")
    parser.add_argument("--base", help="base image, a Debian with Python 3.11 or later and pip")
    options = parser.parse_args()
    try:
        builder = None if options.no_images else image_builder()
    except NoImageBuilder as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    out: Path = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    time = commit_time()

    print("packages", flush=True)
    wheel = next(each for each in build_packages(out / "python", time) if each.suffix == ".whl")
    print("chart", flush=True)
    package_chart(out / "chart", time)
    (out / "sbom").mkdir()
    with tempfile.TemporaryDirectory(prefix="streamjob-dist-") as scratch:
        for image, extras in _EXTRAS.items():
            print(f"bill of materials: {image}", flush=True)
            installation = Installation.of(wheel, extras, Path(scratch) / image)
            installation.write_bill(out / "sbom" / f"{image}.cdx.json", Path(scratch) / "tools", time)
            _print_sizes(installation)
    if builder is not None:
        (out / "images").mkdir()
        settings = {"BASE": options.base} if options.base else {}
        for command in image_commands(builder, out / "images", chart_version(), settings):
            print(" ".join(command), flush=True)
            subprocess.run(command, check=True)
    write_checksums(out)
    for file in sorted(each for each in out.rglob("*") if each.is_file()):
        print(f"{file.stat().st_size / 1e6:9.1f} MB  {file.relative_to(out)}")
    return 0


def _print_sizes(installation: Installation) -> None:
    components = installation.components()
    for each in components[:_LISTED]:
        print(f"{each.size / 1e6:9.1f} MB  {each.name} {each.version}")
    rest = components[_LISTED:]
    print(f"{sum(each.size for each in rest) / 1e6:9.1f} MB  {len(rest)} others")
    print(f"{sum(each.size for each in components) / 1e6:9.1f} MB  in all", flush=True)


if __name__ == "__main__":
    sys.exit(main())
