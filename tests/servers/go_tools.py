"""Programs for tests that come as Go modules: Helm, actionlint, the Lua that Argo CD runs, OpenTelemetry's collector.

A program is taken from the environment variable that names it, from the PATH, or from a cache, into which `go install`
builds it once: seconds for Lua, some minutes for Helm. With `CI=true` it is required.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import required


class ToolMissing(Exception):
    """A program is not there and cannot be built."""


@dataclass(frozen=True, slots=True)
class GoTool:
    """A program and the Go module that it is built from.

    Args:
        name: of the program.
        package: Go package that has it; empty if its source is here.
        version: of the package's module.
        variable: environment variable that may name another copy of the program.
        source: directory of its source, with a go.mod and a go.sum.
    """

    name: str
    package: str
    version: str
    variable: str
    source: Path | None = None

    @property
    def required(self) -> bool:
        """Whether a run without the program must fail."""
        return required()

    def find(self) -> Path:
        """Return the program, built if it has to be.

        Raises:
            ToolMissing: there is no Go, or the build failed.
        """
        named = os.environ.get(self.variable) or shutil.which(self.name)
        if named:
            return Path(named)
        cached = _cache() / f"{self.name}-{self.version}" / self.name
        cached.parent.mkdir(parents=True, exist_ok=True)
        # Concurrent runs wait for the first one's build: a second build of Helm takes minutes of both cores.
        with (cached.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not cached.is_file():
                self._build(cached)
        return cached

    def _build(self, target: Path) -> None:
        go = shutil.which("go")
        if go is None:
            raise ToolMissing(f"{self.name} is not there: put it or Go on the PATH, or set {self.variable}")
        # Built elsewhere and moved, so that a build that is killed leaves no program.
        with tempfile.TemporaryDirectory(dir=target.parent) as directory:
            small = ("-trimpath", "-ldflags", "-s -w")
            what = ["install", *small, f"{self.package}@{self.version}"]
            if self.source is not None:
                what = ["build", *small, "-o", directory, "."]
            built = subprocess.run(
                [go, *what],
                env={**os.environ, "GOBIN": directory, "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"},
                cwd=self.source or directory,
                capture_output=True,
                text=True,
                check=False,
            )
            if built.returncode != 0:
                raise ToolMissing(f"{self.name} {self.version} cannot be built:\n{built.stderr[-2000:]}")
            (Path(directory) / self.name).replace(target)


HELM = GoTool(name="helm", package="helm.sh/helm/v4/cmd/helm", version="v4.3.1", variable="HELM")
ACTIONLINT = GoTool(
    name="actionlint", package="github.com/rhysd/actionlint/cmd/actionlint", version="v1.7.7", variable="ACTIONLINT"
)
COLLECTOR = GoTool(
    name="collector",
    package="",
    version="v0.162.0",
    variable="OTEL_COLLECTOR",
    source=Path(__file__).with_name("otel-collector"),
)
LUA = GoTool(name="glua", package="github.com/yuin/gopher-lua/cmd/glua", version="v1.1.2", variable="GLUA")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamjob-tools"
