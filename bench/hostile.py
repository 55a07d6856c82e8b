"""Shows whether hostile clients hold up a job: `python -m bench.hostile --help`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
from bench import hostile_report
from bench.entry import Benchmark, parser, run
from bench.hostile_model import DECOY, HOSTILE, QUIET, Hostile, Phase
from bench.object_store import object_store
from bench.proc import cpu_seconds, descendants
from bench.processes import REPOSITORY, RunFailed, environment, locked
from bench.running import RunningJob, command, running
from bench.soak import JOB, Traffic
from bench.soak_figures import count_of
from tests.servers.process import free_port

from streamjob.client.discovery import find_endpoint
from streamjob.client.models import JobView

RESULTS = REPOSITORY / "bench" / "hostile.json"
_POLL_SECONDS = 0.25
_ANSWER_SECONDS = 30.0
_TIMEOUT = 120.0
_FILE_ROWS, _FILE_EVERY = 2000, 1.0
_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Plan:
    """The number of clients and the lengths of phases in seconds. Events in `settle` do not count.

    The first `decoys` turns have a phase with a decoy.
    """

    clients: int
    turns: int
    decoys: int
    phase: float
    settle: float
    warm_up: float


@dataclass(frozen=True)
class Endpoint:
    """Where the control API and its token, and the port of the metrics are."""

    url: str
    token: str
    metrics: str

    @property
    def addresses(self) -> list[str]:
        """Both, as `host:port`."""
        return [self.url.removeprefix("http://"), self.metrics]


@dataclass
class Watch:
    """Asks a job with its token how it is, over a connection that it keeps and over new ones in turn.

    Args:
        where: the control API and the port of the metrics.
    """

    where: Endpoint
    batches: dict[int, int] = field(default_factory=dict)
    checkpoints: dict[int, int] = field(default_factory=dict)
    kept: list[float] = field(default_factory=list)
    fresh: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    unanswered: int = 0

    def __post_init__(self) -> None:
        self._connection = self._client()

    def close(self) -> None:
        """Close the connection that was kept."""
        self._connection.close()

    def _client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.where.token}"}
        return httpx.Client(base_url=self.where.url, headers=headers, timeout=_ANSWER_SECONDS, trust_env=False)

    def look(self) -> None:
        """Ask once over each kind of connection."""
        self._ask_for_the_job(self._connection, self.kept)
        with self._client() as client:
            self._ask_for_the_job(client, self.fresh)
        with self._client() as client:
            self._ask(client, f"http://{self.where.metrics}/healthz", self.probes)

    def _ask_for_the_job(self, client: httpx.Client, times: list[float]) -> None:
        if (answer := self._ask(client, "/v1/job", times)) is not None:
            self._note(JobView.model_validate_json(answer))

    def _ask(self, client: httpx.Client, url: str, times: list[float]) -> bytes | None:
        begun = time.monotonic()
        try:
            answer = client.get(url)
            answer.raise_for_status()
        except httpx.HTTPError:
            self.unanswered += 1
            return None
        times.append((time.monotonic() - begun) * 1000)
        return answer.content

    def _note(self, view: JobView) -> None:
        for chain in view.chains:
            if chain.last_batch_ms is not None:
                self.batches[chain.batch] = chain.last_batch_ms
        if view.last_checkpoint is not None:
            self.checkpoints[view.last_checkpoint.id] = view.last_checkpoint.duration_ms


@contextmanager
def hostile_clients(plan: Plan, addresses: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run hostile clients; they end by themselves after the phase, or with the block."""
    seconds = plan.settle + plan.phase
    arguments = [sys.executable, "-m", "bench.hostile_clients", str(seconds), str(plan.clients), *addresses]
    with subprocess.Popen(arguments, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def quiet_phase(job: RunningJob, where: Endpoint, plan: Plan, turn: int) -> Phase:
    """Observe the job for a phase without other callers."""
    time.sleep(plan.settle)
    return _watched(job, where, plan, QUIET, turn, None)


def attacked_phase(job: RunningJob, where: Endpoint, plan: Plan, turn: int, decoy: list[str] | None = None) -> Phase:
    """Look at the job for a phase while hostile clients attack it, or a decoy. Raises RunFailed if they end early."""
    with hostile_clients(plan, decoy or where.addresses) as clients:
        time.sleep(plan.settle)
        phase = _watched(job, where, plan, DECOY if decoy else HOSTILE, turn, clients.pid)
        said, _ = clients.communicate(timeout=_TIMEOUT)
        if clients.returncode:
            raise RunFailed(f"the hostile clients ended with {clients.returncode}")
        return phase.model_copy(update={"connections": json.loads(said)})


@contextmanager
def decoy(log: Path) -> Iterator[list[str]]:
    """Run a job's servers without a job, in a process of their own; give their addresses."""
    said = log.with_suffix(".out")
    with (
        log.open("ab") as errors,
        said.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", "bench.hostile_decoy"], cwd=REPOSITORY, stdout=output, stderr=errors
        ) as process,
    ):
        try:
            deadline = time.monotonic() + _TIMEOUT
            while not (addresses := said.read_text().split()):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RunFailed.told_by(log, "the decoy did not start")
                time.sleep(_POLL_SECONDS)
            yield addresses
        finally:
            process.kill()


def _watched(job: RunningJob, where: Endpoint, plan: Plan, kind: str, turn: int, clients: int | None) -> Phase:
    watch = Watch(where)
    below = descendants(job.pid)
    before = cpu_seconds(job.pid), sum(map(cpu_seconds, below)), cpu_seconds(clients) if clients else 0.0
    # The last batch and checkpoint at the start belong to the time before.
    watch.look()
    old_batches, old_checkpoints = set(watch.batches), set(watch.checkpoints)
    begun, descriptors = time.monotonic(), 0
    while (now := time.monotonic()) < begun + plan.phase:
        watch.look()
        descriptors = max(descriptors, count_of(job.pid, "fd"))
        time.sleep(max(0.0, now + _POLL_SECONDS - time.monotonic()))
    watch.close()
    job.until(lambda: True)
    return Phase(
        kind=kind,
        turn=turn,
        seconds=time.monotonic() - begun,
        load=os.getloadavg()[0],
        batches=tuple(ms for batch, ms in watch.batches.items() if batch not in old_batches),
        checkpoints=tuple(ms for each, ms in watch.checkpoints.items() if each not in old_checkpoints),
        kept=tuple(round(each, 2) for each in watch.kept),
        fresh=tuple(round(each, 2) for each in watch.fresh),
        probes=tuple(round(each, 2) for each in watch.probes),
        unanswered=watch.unanswered,
        driver_cpu=cpu_seconds(job.pid) - before[0],
        jvm_cpu=sum(map(cpu_seconds, below)) - before[1],
        clients_cpu=(cpu_seconds(clients) if clients else 0.0) - before[2],
        descriptors=descriptors,
    )


def phases(work: Path, plan: Plan) -> Iterator[Phase]:
    """Run a job, and yield quiet and hostile phases in turn, a quiet one at both ends.

    Raises:
        RunFailed: the job failed or did not answer, or hostile clients ended early.
    """
    directory = work / "hostile"
    source, output = directory / "input", directory / "output"
    workdir, log = directory / "work", directory / "log.txt"
    source.mkdir(parents=True)
    metrics = free_port(_HOST)
    with object_store(work / "s3") as store, environment({"STREAMJOB_METRICS_PORT": str(metrics)}):
        changes: dict[str, object] = {
            "name": "hostile",
            "checkpointing.interval": "2s",
            "sources.events.options.path": source,
            "sinks.report.options.path": output,
        }
        arguments = command(JOB, f"s3://{store.server.bucket}/hostile", workdir, changes)
        traffic = Traffic(source, output, _FILE_EVERY, _FILE_ROWS)
        with running(arguments, workdir, log, _TIMEOUT) as job, traffic:
            found = find_endpoint(workdir=workdir)
            where = Endpoint(found.url, found.token, f"{_HOST}:{metrics}")
            time.sleep(plan.warm_up)
            for turn in range(plan.turns):
                yield quiet_phase(job, where, plan, turn)
                if turn < plan.decoys:
                    with decoy(directory / "decoy.txt") as addresses:
                        yield attacked_phase(job, where, plan, turn, addresses)
                yield attacked_phase(job, where, plan, turn)
            yield quiet_phase(job, where, plan, plan.turns)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-hostile", __doc__, "two turns of 20 seconds")
    add = made.add_argument
    add("--clients", type=int, default=500, metavar="N", help="hostile connections at once (500)")
    add("--turns", type=int, default=10, metavar="N", help="hostile phases, each behind a quiet one (10)")
    add("--decoys", type=int, metavar="N", help="turns that have a phase with a decoy too (all)")
    add("--phase", type=float, default=60.0, metavar="S", help="seconds of a phase (60)")
    add("--warm-up", type=float, default=60.0, metavar="S", help="seconds before the first phase (60)")
    return made.parse_args()


def bench(benchmark: Benchmark) -> None:
    """Measure, show it, and keep it."""
    options, begun = benchmark.options, time.time()
    plan = Plan(
        clients=options.clients,
        turns=options.turns,
        decoys=options.turns if options.decoys is None else options.decoys,
        phase=options.phase,
        settle=5.0,
        warm_up=options.warm_up,
    )
    if options.quick:
        plan = replace(plan, turns=2, decoys=2, phase=20.0, warm_up=20.0)
    seen: list[Phase] = []
    with locked(options.lock):
        for phase in phases(benchmark.work, plan):
            seen.append(phase)
            benchmark.tell(hostile_report.said(phase))
            result = Hostile(
                circumstances=benchmark.circumstances(begun),
                clients=plan.clients,
                niceness=os.nice(0),
                phases=tuple(seen),
            )
            if any(each.kind == HOSTILE for each in seen):
                benchmark.keep(result, RESULTS, hostile_report.render)
    benchmark.show("with hostile clients and without", hostile_report.comparison_table(seen))
    for line in hostile_report.findings(seen):
        benchmark.tell(line)


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), bench)


if __name__ == "__main__":
    sys.exit(main())
