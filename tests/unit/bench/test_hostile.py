"""The benchmark with hostile clients: the evaluation of its phases, and the behaviour of its clients."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from bench.hostile_clients import KINDS, attack
from bench.hostile_model import DECOY, HOSTILE, QUIET, Hostile, Phase
from bench.hostile_report import BATCHES, beside_neighbours, comparison_table, findings, goals, noise, ratio, render
from bench.model import Circumstances

WHERE = Circumstances(command="make it", begun="then", ended="now", machine="2 × CPU", versions={"Spark": "4.3.0"})


def phase(kind: str, turn: int, batch: int, *, answer: float = 10.0, unanswered: int = 0) -> Phase:
    return Phase(
        kind=kind,
        turn=turn,
        seconds=60,
        load=1.0,
        batches=(batch - 1, batch, batch + 1),
        checkpoints=(20, 20),
        kept=(answer,),
        fresh=(answer,),
        unanswered=unanswered,
        driver_cpu=6.0,
        connections={"silent": 3} if kind == HOSTILE else {},
    )


def turns(quiet: list[int], hostile: list[int]) -> list[Phase]:
    return [
        *(phase(QUIET, turn, batch) for turn, batch in enumerate(quiet)),
        *(phase(HOSTILE, turn, batch) for turn, batch in enumerate(hostile)),
    ]


def reached(phases: list[Phase]) -> list[bool]:
    return [each for _, each in goals(phases)]


def test_batches_that_differ_no_more_than_quiet_phases_do_are_as_fast_as_ever() -> None:
    phases = turns([100, 120, 100], [110, 120])

    assert noise(phases, BATCHES) == 1.2
    assert beside_neighbours(phases, BATCHES) == pytest.approx((1 + 120 / 110) / 2)
    assert reached(phases) == [True, True, True]


def test_batches_that_are_slower_than_chance_are_a_miss() -> None:
    assert reached(turns([100, 100, 101], [120, 125])) == [False, True, True]


def test_nothing_is_judged_where_quiet_phases_differ_too_much() -> None:
    phases = turns([100, 200, 100], [100, 100])

    assert [goal for goal, _ in goals(phases) if goal.startswith("batches")] == []
    assert "batch, ms: 0.67 times the quiet phases around" in "\n".join(findings(phases))


def test_what_the_clients_cost_the_machine_shows_beside_a_decoy() -> None:
    phases = [*turns([100], [120]), phase(DECOY, 0, 120)]

    assert ratio(phases, BATCHES, than=DECOY) == 1.0
    assert "batch, ms: 1.20 times the quiet median (1.00 times with a decoy)" in "\n".join(findings(phases))


def test_late_answers_and_none_are_a_miss() -> None:
    quiet = phase(QUIET, 0, 100)

    assert reached([quiet, phase(HOSTILE, 0, 100, answer=6000)]) == [True, True, False]
    assert reached([quiet, phase(HOSTILE, 0, 100, unanswered=1)]) == [True, True, False]


def test_a_phase_without_a_batch_has_no_median() -> None:
    idle = phase(QUIET, 0, 100).model_copy(update={"batches": ()})

    assert ratio([idle, phase(HOSTILE, 0, 100)], BATCHES) is None


def test_the_report_has_both_kinds_side_by_side() -> None:
    phases = turns([100, 102], [100, 104])

    text = render(Hostile(circumstances=WHERE, clients=500, phases=tuple(phases)))

    assert comparison_table(phases).rows[0] == ("batch, ms", QUIET, "6", "101", "100–102", "103", "103", "103")
    assert "2 hostile phases, 2 minutes in all, between 2 quiet ones." in text
    assert "| driver in Python, processors | 0.10 | – | 0.10 |" in text
    assert "| silent | 6 |" in text


def test_the_report_says_that_the_job_went_before_other_work() -> None:
    phases = tuple(turns([100], [100]))

    assert "niceness" not in render(Hostile(circumstances=WHERE, clients=500, phases=phases))
    assert "a niceness of -10." in render(Hostile(circumstances=WHERE, clients=500, niceness=-10, phases=phases))


def test_hostile_clients_of_every_kind_come_to_every_server_until_they_are_to_end() -> None:
    received: Counter[bytes] = Counter()

    async def both() -> Counter[str]:
        all_came = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received[await reader.read(4)] += 1
            writer.close()
            if {b"GET ", b"POST", b"\0\0\0\0", b"\x16\x03\x01\x00"} <= received.keys() and received.total() > 100:
                all_came.set()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            address = ("127.0.0.1", server.sockets[0].getsockname()[1])
            return await attack(2 * len(KINDS), [address, address], all_came.wait())

    made = asyncio.run(both())

    assert set(made) == set(KINDS)
    assert made["a wrong token"] > 2
