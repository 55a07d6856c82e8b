"""Where one Spark query cannot do it, a channel stands between two chains, with its reason."""

from __future__ import annotations

import pytest

from streamjob import Job
from streamjob.ids import ChainUid
from streamjob.job.model.spec import JobSpec, OutputMode
from streamjob.job.planning.plan import Plan, plan
from streamjob.job.python_job.handles import Handle

WINDOWS = "SELECT window(timestamp, '1 hour') AS w, count(*) AS n FROM {} GROUP BY window(timestamp, '1 hour')"


class Draft:
    """A job of which only the graph matters."""

    def __init__(self) -> None:
        self.job = Job("draft")

    def unbounded(self, name: str) -> Handle:
        return self.job.source(name, format="rate", watermark=("timestamp", "1 hour"))

    def bounded(self, name: str) -> Handle:
        schema = "timestamp TIMESTAMP, value BIGINT"
        return self.job.source(
            name, format="csv", schema=schema, options={"path": name}, bounded=True, watermark=("timestamp", "1 hour")
        )

    def sql(self, name: str, *inputs: Handle | str, sql: str = "", chain: bool = True) -> Handle:
        names = [each if isinstance(each, str) else each.name for each in inputs]
        query = sql or " UNION ALL ".join(f"SELECT * FROM {each}" for each in names)
        return self.job.sql(name, inputs=names, sql=query, chain=chain)

    def sink(self, read: Handle | str, name: str | None = None) -> None:
        own = name or f"out_of_{read if isinstance(read, str) else read.name}"
        self.job.sink(own, input=read, format="console")

    def plan(self) -> Plan:
        return plan(self.job.spec())


def shape(planned: Plan) -> dict[str, tuple[str, ...]]:
    return {chain.uid: chain.uids() for chain in planned.chains}


def channels(planned: Plan) -> dict[tuple[str, str], str]:
    return {(each.source, each.target): each.reason for each in planned.channels}


def test_what_two_operators_read_is_written_once_into_a_channel() -> None:
    draft = Draft()
    read = draft.unbounded("in")
    draft.sink(draft.sql("a", read))
    draft.sink(draft.sql("b", read))

    planned = draft.plan()

    assert shape(planned) == {"in": ("in",), "a": ("a", "out_of_a"), "b": ("b", "out_of_b")}
    assert channels(planned) == dict.fromkeys([("in", "a"), ("in", "b")], "operator 'a' and operator 'b' read 'in'")
    assert planned.readers(ChainUid("in")) == ("a", "b")
    assert planned.readers(ChainUid("a")) == ()


def test_sinks_stay_with_what_they_read_when_an_operator_reads_it_too() -> None:
    draft = Draft()
    read = draft.sql("a", draft.unbounded("in"))
    draft.sink(read)
    draft.sink(draft.sql("b", read))

    planned = draft.plan()

    assert shape(planned) == {"a": ("in", "a", "out_of_a"), "b": ("b", "out_of_b")}
    assert channels(planned) == {("a", "b"): "operator 'b' and sink 'out_of_a' read 'a'"}


def test_several_sinks_of_one_operator_need_no_channel() -> None:
    draft = Draft()
    read = draft.sql("a", draft.unbounded("in"))
    draft.sink(read, "one")
    draft.sink(read, "two")

    assert shape(draft.plan()) == {"a": ("in", "a", "one", "two")}


def test_sinks_that_read_different_operators_are_of_different_chains() -> None:
    draft = Draft()
    draft.sink(draft.unbounded("in"))
    draft.sink(draft.unbounded("other"))

    planned = draft.plan()

    assert shape(planned) == {"in": ("in", "out_of_in"), "other": ("other", "out_of_other")}
    assert planned.channels == ()


def test_a_diamond_is_read_through_one_channel_by_the_chain_that_joins_it_again() -> None:
    draft = Draft()
    read = draft.unbounded("in")
    draft.sink(draft.sql("c", draft.sql("a", read), draft.sql("b", read)))

    planned = draft.plan()

    assert shape(planned) == {"in": ("in",), "c": ("a", "b", "c", "out_of_c")}
    assert channels(planned) == {("in", "c"): "operator 'a' and operator 'b' read 'in'"}
    (channel,) = planned.chain(ChainUid("c")).channels
    assert (channel.name, channel.uid) == ("in", "in")


def test_an_operator_that_reads_its_input_twice_is_one_reader() -> None:
    draft = Draft()
    draft.sink(draft.sql("twice", draft.unbounded("in"), sql="SELECT x.value FROM in x JOIN in y ON x.value = y.value"))

    assert shape(draft.plan()) == {"twice": ("in", "twice", "out_of_twice")}


def test_chain_false_sets_an_operator_apart_from_what_it_reads_and_what_reads_it() -> None:
    draft = Draft()
    draft.sink(draft.sql("after", draft.sql("alone", draft.sql("before", draft.unbounded("in")), chain=False)))

    planned = draft.plan()

    assert shape(planned) == {"before": ("in", "before"), "alone": ("alone",), "after": ("after", "out_of_after")}
    assert set(channels(planned).values()) == {"operator 'alone' has chain: false"}


def test_an_operator_with_chain_false_keeps_its_sinks() -> None:
    draft = Draft()
    draft.sink(draft.sql("alone", draft.unbounded("in"), chain=False))

    assert shape(draft.plan()) == {"in": ("in",), "alone": ("alone", "out_of_alone")}


def test_a_channel_that_has_two_reasons_says_both() -> None:
    draft = Draft()
    read = draft.sql("a", draft.unbounded("in"))
    draft.sink(read)
    draft.sink(draft.sql("alone", read, chain=False))

    assert channels(draft.plan()) == {
        ("a", "alone"): "operator 'alone' and sink 'out_of_a' read 'a'; operator 'alone' has chain: false"
    }


def test_the_end_of_a_bounded_input_comes_through_a_channel_if_another_goes_on() -> None:
    draft = Draft()
    prepared = draft.sql("prepared", draft.bounded("past"))
    draft.sink(draft.sql("both", prepared, draft.unbounded("now")))

    planned = draft.plan()

    assert shape(planned) == {"prepared": ("past", "prepared"), "both": ("now", "both", "out_of_both")}
    assert channels(planned) == {("prepared", "both"): "'prepared' will end and 'now' will not"}
    assert [chain.bounded for chain in planned.chains] == [True, False]


def test_inputs_that_are_all_bounded_are_fused() -> None:
    draft = Draft()
    draft.sink(draft.sql("both", draft.bounded("a"), draft.bounded("b")))

    (chain,) = draft.plan().chains

    assert chain.uids() == ("a", "b", "both", "out_of_both")
    assert chain.bounded


def test_a_bounded_source_beside_a_channel_goes_behind_one_too() -> None:
    draft = Draft()
    first = draft.sql("first", draft.bounded("a"))
    draft.sink(first)
    draft.sink(draft.sql("both", first, draft.bounded("b")))

    planned = draft.plan()

    assert shape(planned) == {
        "b": ("b",),
        "first": ("a", "first", "out_of_first"),
        "both": ("both", "out_of_both"),
    }
    assert channels(planned)["b", "both"] == "'b' and 'first' end at different times"
    assert all(chain.bounded for chain in planned.chains)


def test_an_unbounded_source_is_fused_beside_a_channel() -> None:
    draft = Draft()
    first = draft.sql("first", draft.bounded("a"))
    draft.sink(first)
    draft.sink(draft.sql("both", first, draft.unbounded("b")))

    assert shape(draft.plan())["both"] == ("b", "both", "out_of_both")


def test_bounded_and_unbounded_parts_that_never_meet_need_no_channel() -> None:
    draft = Draft()
    draft.sink(draft.bounded("past"))
    draft.sink(draft.unbounded("now"))

    planned = draft.plan()

    assert planned.channels == ()
    assert [chain.bounded for chain in planned.chains] == [True, False]


def counted(sql: str, mode: OutputMode = "update") -> JobSpec:
    """Return a job whose last operator counts what a first one makes of a source."""
    job = Job("counted")
    read = job.source("in", format="rate", watermark=("timestamp", "1 hour"))
    first = job.sql("first", inputs=[read], sql=sql)
    between = job.sql("between", inputs=[first], sql="SELECT * FROM first")
    last = job.sql("last", inputs=[between], sql="SELECT n, count(*) FROM between GROUP BY n", output_mode=mode)
    job.sink("out", input=last, format="console")
    return job.spec()


@pytest.mark.parametrize("mode", ["update", "complete"])
@pytest.mark.parametrize(
    "sql",
    [
        WINDOWS.format("in"),
        "SELECT DISTINCT value AS n, timestamp FROM in",
        "SELECT x.value AS n FROM in x LEFT JOIN in y ON x.value = y.value AND x.timestamp = y.timestamp",
        "SELECT x.value AS n FROM in x JOIN in y ON x.value = y.value LIMIT 5",
    ],
    ids=["windows", "distinct", "outer join", "join and limit"],
)
def test_what_gives_its_rows_in_append_mode_only_is_kept_apart_from_another_mode(sql: str, mode: OutputMode) -> None:
    planned = plan(counted(sql, mode))

    assert shape(planned) == {"between": ("in", "first", "between"), "last": ("last", "out")}
    assert [chain.output_mode for chain in planned.chains] == ["append", mode]
    assert channels(planned) == {
        ("between", "last"): (
            f"operator 'last' has outputMode {mode} and operator 'first' needs append: a Spark query has one"
        )
    }


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value % 10 AS n FROM in WHERE value > 5",
        "SELECT n FROM in LATERAL VIEW explode(array(value, 1)) AS n",
        "SELECT value AS n FROM in UNION ALL SELECT 1",
    ],
    ids=["filter", "lateral view", "union"],
)
@pytest.mark.parametrize("mode", ["update", "complete"])
def test_what_keeps_no_state_is_fused_with_an_operator_in_any_mode(sql: str, mode: OutputMode) -> None:
    assert len(plan(counted(sql, mode)).chains) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x.value AS n FROM in x JOIN in y ON x.value = y.value",
        "SELECT x.value AS n FROM in x, in y WHERE x.value = y.value",
    ],
    ids=["JOIN", "comma"],
)
def test_an_inner_join_is_the_same_in_update_mode_and_not_taken_in_complete_mode(sql: str) -> None:
    assert len(plan(counted(sql, "update")).chains) == 1
    assert len(plan(counted(sql, "complete")).chains) == 2


def test_a_limit_is_the_same_in_complete_mode_and_not_taken_in_update_mode() -> None:
    assert len(plan(counted("SELECT value AS n FROM in LIMIT 5", "complete")).chains) == 1
    assert len(plan(counted("SELECT value AS n FROM in LIMIT 5", "update")).chains) == 2


def test_operators_with_state_are_fused_in_append_mode() -> None:
    assert len(plan(counted(WINDOWS.format("in"), "append")).chains) == 1


def test_a_function_may_need_append_mode() -> None:
    job = Job("function")
    job.operator(inputs=[job.source("in", format="rate")], name="function")(lambda frame: frame)
    last = job.sql("last", inputs=["function"], sql="SELECT count(*) FROM function", output_mode="complete")
    job.sink("out", input=last, format="console")

    assert channels(plan(job.spec())) == {
        ("function", "last"): (
            "operator 'last' has outputMode complete and operator 'function' may need append: a Spark query has one"
        )
    }


def test_an_operator_ends_its_chain_if_it_gives_its_rows_another_event_time() -> None:
    job = Job("retimed")
    read = job.source("in", format="rate", watermark=("timestamp", "1 hour"))
    plain = job.source("plain", format="rate")
    sessions = job.operator(inputs=[read], name="sessions", watermark=("at", "1 hour"))(lambda rows: rows)
    parsed = job.operator(inputs=[plain], name="parsed", watermark=("at", "1 hour"))(lambda rows: rows)
    both = job.sql("both", inputs=[sessions, parsed], sql="SELECT at FROM sessions UNION ALL SELECT at FROM parsed")
    job.sink("out", input=both, format="console")

    planned = plan(job.spec())

    assert channels(planned) == {("sessions", "both"): "operator 'sessions' gives its rows an event time of their own"}


def test_each_chain_comes_after_those_that_it_reads() -> None:
    job = Job("backwards")
    job.sql("c", inputs=["b"], sql="SELECT * FROM b", chain=False)
    job.sql("b", inputs=["a"], sql="SELECT * FROM a", chain=False)
    job.sql("a", inputs=["in"], sql="SELECT * FROM in", chain=False)
    job.source("in", format="rate")
    job.sink("out", input="c", format="console")

    assert [chain.uid for chain in plan(job.spec()).chains] == ["in", "a", "b", "c"]


def test_channels_name_uids_and_carry_the_names_of_tables() -> None:
    job = Job("uids")
    read = job.source("in", format="rate", uid="in-1")
    job.sql("a", inputs=[read], sql="SELECT * FROM in", uid="a-1", chain=False)
    job.sink("out", input="a", format="console", uid="out-1")

    planned = plan(job.spec())

    (channel,) = planned.channels
    assert (channel.source, channel.target, channel.name, channel.uid) == ("in-1", "a-1", "in", "in-1")
    assert planned.chain(ChainUid("a-1")).channels == (channel,)
    with pytest.raises(KeyError):
        planned.chain(ChainUid("a"))
