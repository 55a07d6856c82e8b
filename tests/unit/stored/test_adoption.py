"""The output directory of a plain query becomes a job's: its log goes, and what no batch has committed."""

from __future__ import annotations

import itertools
import json
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.ids import Key
from streamjob.store import LocalStore
from streamjob.stored.sparks_output import UnknownSinkLog, adopt, needed_entries, plan_adoption
from streamjob.testing.interception import FILE_SYSTEM_CALLS, Crash, Interception
from streamjob.testing.memory_store import MemoryStore


def part(number: int = 0, directory: str = "") -> str:
    """Return the name of a file as Spark gives it."""
    return f"{directory}part-{number:05}-{uuid.uuid4()}-c000.snappy.parquet"


def entry(names: Sequence[str], root: str, action: str = "add") -> str:
    lines = [json.dumps({"path": f"{root}{each}", "size": 1, "isDir": False, "action": action}) for each in names]
    return "\n".join(["v1", *lines])


class Output:
    """A directory with four committed files in a compacted log, two strays, and files of others."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.committed = [part(), part(1, "day=2026-01-01 10%3A00/"), part(), part()]
        self.strays = [part(), part(2, "day=2026-01-02/")]
        self.others = ["part-12345-0-6f0c1d0e-1f1f-4f4f-8888-0123456789ab.snappy.parquet", "notes.txt", "_SUCCESS"]
        for name in (*self.committed, *self.strays, *self.others):
            self.write(name, name)
        uri = f"file://{root}/"
        escaped = [each.replace("%", "%25").replace(" ", "%20") for each in self.committed]
        # What was compacted before is still there, as Spark leaves it for some minutes.
        self.log("0", entry(escaped[:1], uri))
        self.log("1.compact", entry(escaped[:2], uri))
        self.log("2", entry(escaped[2:3], uri))
        self.log("3.compact", entry(escaped[:3], f"file:{root}/"))
        self.log("4", entry(escaped[3:], uri))
        self.log(".4.crc", "crc")

    def write(self, name: str, content: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def log(self, name: str, content: str) -> None:
        self.write(f"_spark_metadata/{name}", content)

    def files(self) -> set[str]:
        return {each.relative_to(self.root).as_posix() for each in self.root.rglob("*") if each.is_file()}


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path / "out")


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["adopt", *map(str, arguments)])
    return result.exit_code, result.output


def test_what_the_log_names_stays_and_the_querys_other_files_go_with_it(output: Output) -> None:
    code, said = run(output.root, "--yes")

    assert code == 0, said
    assert output.files() == {*output.committed, *output.others}
    assert sorted(each.name for each in output.root.iterdir() if each.is_dir()) == ["day=2026-01-01 10%3A00"]
    assert "committed by the query: 4 files" in said
    assert "not written by a query: 2 files" in said
    assert all(f"remove {each}" in said for each in output.strays)


def test_nothing_goes_without_consent(output: Output) -> None:
    before = output.files()
    code, said = run(output.root, "--json")

    assert code == 0
    assert output.files() == before
    assert json.loads(said)["done"] is False
    assert set(output.strays) <= set(json.loads(said)["removed"])
    assert "add --yes" in run(output.root)[1]


def test_a_kill_at_any_step_loses_no_committed_file_and_is_made_good_by_a_second_call(
    output: Output, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(output.root, copy)
    for step in itertools.count():
        shutil.rmtree(output.root)
        shutil.copytree(copy, output.root)
        store = LocalStore(output.root)
        with Interception(FILE_SYSTEM_CALLS, step, _crash) as killed:
            try:
                adopt(store, plan_adoption(store))
            except Crash:
                assert set(output.committed) <= output.files()
                assert _is_whole(output) or not set(output.strays) & output.files()
        store.close()
        again = LocalStore(output.root)
        adopt(again, plan_adoption(again))
        again.close()
        assert output.files() - {each for each in output.files() if each.startswith(".tmp/")} == {
            *output.committed,
            *output.others,
        }
        assert not (output.root / "_spark_metadata").exists()
        if not killed.fired:
            assert step > 10
            return


def _crash() -> None:
    raise Crash


def _is_whole(output: Output) -> bool:
    """Return whether Spark's readers still get from the log what the query has committed."""
    log = output.root / "_spark_metadata"
    return (log / "4").exists() and (log / "3.compact").read_text().startswith("v1\n")


def test_a_second_adoption_finds_nothing_to_do(output: Output) -> None:
    run(output.root, "--yes")
    before = output.files()

    code, said = run(output.root, "--yes")

    assert code == 0
    assert "remove the query's log: 0 files" in said
    assert output.files() == before


def test_an_empty_log_proves_of_no_file_that_it_is_not_committed(output: Output) -> None:
    for each in (output.root / "_spark_metadata").iterdir():
        each.unlink()

    assert run(output.root, "--yes")[0] == 0
    assert output.files() == {*output.committed, *output.strays, *output.others}
    assert not (output.root / "_spark_metadata").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("4", "v2\n", "4 has the unknown version 'v2'"),
        ("4", "v1\n{", "4 is no entry of Spark's log"),
        ("4", 'v1\n{"path": "file:///x"}', "4 is no entry of Spark's log"),
        ("4", 'v1\n{"path": "file:///x", "action": "rename"}', "4 is no entry of Spark's log"),
        ("4", 'v1\n{"path": "file:///elsewhere/x", "action": "add"}', "which is not below"),
        ("4", 'v1\n{"path": "hdfs://host/x", "action": "add"}', "which is not below"),
        ("6", "v1", "has no entry 5, and later ones"),
    ],
)
def test_a_log_that_is_not_understood_removes_nothing(output: Output, name: str, content: str, said: str) -> None:
    output.log(name, content)
    before = output.files()

    code, told = run(output.root, "--yes")

    assert code == 2
    assert said in told
    assert output.files() == before


def test_a_file_that_the_log_deletes_is_not_committed(output: Output) -> None:
    output.log("5", entry(output.committed[3:], f"file://{output.root}/", "delete"))

    run(output.root, "--yes")

    assert output.files() == {*output.committed[:3], *output.others}


def test_files_are_found_behind_a_link(output: Output, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(output.root)

    assert run(link, "--yes")[0] == 0
    assert output.files() == {*output.committed, *output.others}


def test_committed_files_that_are_gone_are_told(output: Output) -> None:
    (output.root / output.committed[0]).unlink()

    assert f"1 of them do not exist any more: {output.committed[0]}" in run(output.root)[1]


def test_a_place_that_does_not_exist_is_told(tmp_path: Path) -> None:
    code, said = run(tmp_path / "none", "--yes")

    assert code == 2
    assert "does not exist" in said


def test_objects_are_known_by_hadoops_names_of_their_bucket() -> None:
    store = MemoryStore("s3://bucket/out/")
    committed, stray = part(), part()
    for name in (committed, stray):
        store.put(Key(name), b"x")
    store.put(Key("_spark_metadata/0"), entry([committed], "s3a://bucket/out/").encode())

    plan = plan_adoption(store)

    assert (plan.committed, plan.strays, plan.missing) == (1, (stray,), ())


def test_the_entries_that_name_all_files_begin_with_the_newest_compaction() -> None:
    assert needed_entries(["0", "1", "2.compact", "3", "4", "5.compact", "6", ".6.crc"]) == ["5.compact", "6"]
    assert needed_entries(["1", "0", "..1.tmp"]) == ["0", "1"]
    assert needed_entries([]) == []
    with pytest.raises(UnknownSinkLog, match="no entry 0"):
        needed_entries(["1"])
