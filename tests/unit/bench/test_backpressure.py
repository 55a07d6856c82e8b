"""The evaluation of measurements in the benchmarks of channels."""

from __future__ import annotations

from bench.backpressure import order
from bench.backpressure_model import Backlog, Backpressure, Kill, Sample
from bench.backpressure_report import duration_table, goals, kill_table, render, upload_table
from bench.channels_model import Channels, CostRun, LatencyRun
from bench.channels_report import cost_table
from bench.channels_report import render as render_channels
from bench.model import Circumstances
from bench.plot import Axis, draw
from bench.summary import per_million

WHERE = Circumstances(command="make it", begun="then", ended="now", machine="2 × CPU", versions={"Spark": "4.3.0"})


def sample(mode: str, total: int, upload: int = 10, in_flight: int = 1_000_000, uploaded: int = 1_100_000) -> Sample:
    return Sample(
        mode=mode,
        unaligned=mode != "aligned",
        backlog_records=4000,
        backlog_bytes=500_000,
        total=total,
        until_held=total - upload,
        upload=upload,
        completed=total + 5,
        start_delay=total - upload,
        alignment=0,
        held=1,
        in_flight=0 if mode == "aligned" else in_flight,
        uploaded=uploaded,
    )


def backlog(capacity: int, *samples: Sample, record_ms: int = 1) -> Backlog:
    return Backlog(record_ms=record_ms, capacity=capacity, max_batch_records=1000, load_before=1.0, samples=samples)


def kill(output: int = 100, missing: int = 0, repeated: int = 0) -> Kill:
    return Kill(
        mode="unaligned",
        records=100,
        visible_at_kill=10,
        checkpoint=3,
        unaligned=True,
        in_flight=50,
        missing=missing,
        repeated=repeated,
        output=output,
    )


def results(*backlogs: Backlog, kills: tuple[Kill, ...] = ()) -> Backpressure:
    return Backpressure(circumstances=WHERE, switch_after=1.0, record_bytes=120, backlogs=backlogs, kills=kills)


def cost(side: str, number: int, records: int, cpu: float) -> CostRun:
    return CostRun(side=side, round=number, records=records, cpu=cpu, wall=1.0, rows=7, load_before=0.5)


def test_a_backlog_is_the_work_of_its_records_in_two_slots() -> None:
    assert backlog(4000).seconds == 2
    assert backlog(4000, record_ms=5).seconds == 10


def test_an_unaligned_checkpoint_behind_an_aligned_one_comes_in_every_round() -> None:
    modes = list(order(2))
    assert modes[:6] == ["aligned", "unaligned", "switch"] * 2
    assert set(modes[6:]) == {"unaligned"}


def test_unaligned_is_flat_while_its_duration_without_upload_stays() -> None:
    flat = results(
        backlog(2000, sample("aligned", 1000), sample("unaligned", 30)),
        backlog(200_000, sample("aligned", 100_000), sample("unaligned", 900, upload=870)),
    )
    assert all(reached for _, reached in goals(flat))
    grown = results(
        backlog(2000, sample("aligned", 1000), sample("unaligned", 30)),
        backlog(200_000, sample("aligned", 900), sample("unaligned", 900)),
    )
    assert not any(reached for _, reached in goals(grown))


def test_flinks_figures_are_goals_where_the_load_is_the_same() -> None:
    found = dict(goals(results(backlog(4000, sample("aligned", 1900), sample("unaligned", 40)))))
    assert found["2 s: 4,000 × 1 ms: aligned 1900 ms (Flink 2000)"]
    assert not found["2 s: 4,000 × 1 ms: unaligned 30 ms without the upload (Flink 15)"]
    assert found["2 s: 4,000 × 1 ms: unaligned at most 30 ms without the upload (Flink 74)"]


def test_what_is_lost_or_repeated_makes_an_output_differ() -> None:
    assert kill().equal
    assert not kill(missing=1, repeated=1).equal
    assert not kill(output=99, missing=1).equal
    assert kill_table([kill(repeated=1, output=101)]).rows[0][-1] == "**differs**"


def test_durations_stand_by_backlog_and_mode() -> None:
    table = duration_table([backlog(2000, sample("aligned", 1000), sample("unaligned", 30), sample("unaligned", 50))])
    assert [row[1] for row in table.rows] == ["aligned", "unaligned"]
    assert table.rows[1][3:5] == ("40 (50)", "30 (40)")


def test_uploads_of_all_that_is_in_flight_stand_apart_from_those_of_a_part() -> None:
    table = upload_table([backlog(2000, sample("unaligned", 30), sample("unaligned", 30, uploaded=300_000))])
    assert [row[1] for row in table.rows] == ["all", "only new data"]
    assert table.rows[0][-1] == "110"


def test_a_report_has_goals_durations_and_kills() -> None:
    text = render(results(backlog(2000, sample("aligned", 1000), sample("unaligned", 30)), kills=(kill(),)))
    assert "- reached: equal output after recovery, unaligned" in text
    assert "1 s: 2,000 × 1 ms" in text
    assert text.count("`make it`, then to now") == 1


def test_kills_that_were_measured_at_another_time_say_so() -> None:
    measured = results(backlog(2000, sample("aligned", 1000), sample("unaligned", 30)), kills=(kill(),))
    later = WHERE.model_copy(update={"begun": "later"})
    text = render(measured.model_copy(update={"kill_circumstances": later}))
    assert text.index("`make it`, then to now") < text.index("## Recovery") < text.index("`make it`, later to now")


def test_a_further_million_costs_the_difference_of_a_long_and_a_short_run() -> None:
    costs = [cost("fused", 0, 1_000_000, 20.0), cost("fused", 0, 6_000_000, 35.0)]
    assert per_million(costs, "fused", lambda run: run.cpu) == {0: 3.0}
    assert per_million(costs[:1], "fused", lambda run: run.cpu) == {}


def test_the_cost_of_a_channel_is_compared_within_a_round() -> None:
    costs = []
    for number, (fused, channel) in enumerate([(35.0, 40.0), (45.0, 50.0)]):
        costs += [cost("fused", number, 1_000_000, 20.0), cost("fused", number, 6_000_000, fused)]
        costs += [cost("channel", number, 1_000_000, 20.0), cost("channel", number, 6_000_000, channel)]
    assert [row[3] for row in cost_table(costs).rows] == ["–", "+1.00"]
    latencies = (LatencyRun(side="fused", records=1000, seconds=(0.1, 0.3, 0.2), load_before=0.0),)
    text = render_channels(Channels(circumstances=WHERE, keys=10, costs=tuple(costs), latencies=latencies))
    assert "| one chain | 3 | 0.200 | 0.300 | 0.300 |" in text


def test_a_plot_has_its_values_at_the_places_of_their_logarithms() -> None:
    axis = Axis("seconds", 1, 100)
    assert axis.share(10) == 0.5
    assert axis.decades() == [1, 10, 100]
    assert draw("title", axis, axis, {"a & b": [(1, 1), (100, 100)]}).count("<circle") == 2
