"""Every due instant that did not run has a row and a reason, and `explain` says what changes it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronhare.application.administration.reading.lookup import find_schedule
from cronhare.application.administration.story import Explanation
from cronhare.domain.execution import State
from cronhare.domain.schedules.conditions import CalendarDraft, Conditions
from cronhare.domain.schedules.schedule import Misfire, MisfirePolicy, OverlapPolicy
from cronhare.domain.schedules.skips import Pause
from tests.integration.ledgers import (
    EVERY_MINUTE,
    MINUTE,
    NOON,
    ON_ONE,
    SECOND,
    Ledger,
    Shell,
    draft,
)

MIDDAY = CalendarDraft(name="midday", timezone="UTC", windows=(("12:00-13:00", "Midday"),))


def pass_minutes(ledger: Ledger, count: int) -> None:
    for _ in range(count):
        ledger.clock.advance(MINUTE)
        ledger.claim_due()


def ask(ledger: Ledger, instant: datetime) -> Explanation:
    return ledger.explanations.explain(find_schedule(ledger.schedules, "report"), instant)


def rows(ledger: Ledger) -> list[tuple[str, int]]:
    return [
        (str(row.last_error).partition(":")[0], row.missed)
        for row in ledger.executions(State.SKIPPED)
        if row.schedule_name == "report"
    ]


def by_a_backfill(minute: int) -> str:
    since, until = f"2026-03-02T12:0{minute}:00Z", f"2026-03-02T12:0{minute}:01Z"
    return f"`cronhare schedules backfill report --since {since} --until {until}` runs it."


def switch(ledger: Ledger, *, on: bool) -> None:
    ledger.clock.advance(SECOND)
    ledger.schedules.switch(["report"], on=on, now=ledger.now)
    ledger.plan_edited()


@ON_ONE
@pytest.mark.parametrize(
    ("changes", "reason", "remedy"),
    [
        ({"conditions": Conditions(blackout=("12:00-13:00",))}, "blackout", "Its blackout has"),
        ({"conditions": Conditions(skip_on=("midday",))}, "calendar midday", "Its skip_on names"),
        ({"conditions": Conditions(only_on=("night",))}, "in no window", "Its only_on lets it"),
        ({"conditions": Conditions(expires=SECOND)}, "expired", "A longer expires"),
        ({"misfire": Misfire(policy=MisfirePolicy.SKIP)}, "missed", 'misfire = "once"'),
        (
            {"misfire": Misfire(policy=MisfirePolicy.ALL, window=timedelta(seconds=1))},
            "missed",
            "A longer misfire.window",
        ),
    ],
)
def test_each_condition_leaves_one_row_for_all_its_instants_and_a_remedy(
    ledger: Ledger, changes: dict[str, Any], reason: str, remedy: str
) -> None:
    night = CalendarDraft(name="night", timezone="UTC", windows=(("02:00-03:00", None),))
    ledger.schedules.save([], source=None, now=ledger.now, calendars=[MIDDAY, night])
    ledger.add("innocent", **EVERY_MINUTE)
    ledger.add(**EVERY_MINUTE, **changes)
    ledger.clock.advance(5 * MINUTE + 30 * SECOND)

    batch = ledger.claim_due()

    assert "innocent" in {run.schedule_name for run in batch.claimed}
    [(told, count)] = [(text, n) for text, n in rows(ledger) if text.startswith(reason)]
    assert count >= 3, told
    because = ask(ledger, NOON + 2 * MINUTE).because
    assert any(line.startswith(remedy) for line in because), because


def test_what_was_due_while_a_schedule_was_off_is_told_meanwhile_and_one_row_afterwards(
    ledger: Ledger,
) -> None:
    ledger.add("innocent", **EVERY_MINUTE)
    ledger.add(**EVERY_MINUTE)
    pass_minutes(ledger, 1)
    switch(ledger, on=False)
    pass_minutes(ledger, 2)
    # An edit of what is off changes nothing: it is off since then.
    [before] = ledger.schedules.schedules(["report"])
    assert before.draft is not None
    ledger.clock.advance(SECOND)
    ledger.save(draft(**EVERY_MINUTE, status=False, description="edited"))
    ledger.plan_edited()
    pass_minutes(ledger, 2)

    meanwhile = ask(ledger, NOON + 2 * MINUTE)
    assert meanwhile.answer == (
        "It did not run: the schedule is disabled, and was when 2026-03-02 12:02:00Z came"
    )
    assert meanwhile.because == (
        "`cronhare schedules enable report` switches it on.",
        by_a_backfill(2),
    )
    assert rows(ledger) == []

    switch(ledger, on=True)
    pass_minutes(ledger, 1)

    [row] = [one for one in ledger.executions(State.SKIPPED) if one.schedule_name == "report"]
    assert (row.due_at, row.last_due_at, row.missed) == (NOON + 2 * MINUTE, NOON + 5 * MINUTE, 4)
    assert str(row.last_error).startswith("disabled: it was off, until an edit at 2026-03-02 12:05")
    for minute in (2, 3, 5):
        assert ask(ledger, NOON + minute * MINUTE).execution == row
    assert ask(ledger, NOON + 6 * MINUTE).answer == (
        "It was claimed, and the broker has not taken it yet"
    )


def test_what_was_off_for_years_is_one_row_and_not_counted_to_the_end(ledger: Ledger) -> None:
    ledger.add(**EVERY_MINUTE, status=False)
    ledger.clock.advance(timedelta(days=900))

    switch(ledger, on=True)

    [row] = [one for one in ledger.executions(State.SKIPPED) if one.schedule_name == "report"]
    assert (row.due_at, row.missed) == (NOON + MINUTE, 100)
    assert row.last_due_at == NOON + timedelta(days=900)


def test_what_was_due_after_an_end_or_the_last_run_is_recorded_once_an_edit_lets_it_go_on(
    ledger: Ledger,
) -> None:
    ledger.add(**EVERY_MINUTE, ends_at=NOON + MINUTE)
    pass_minutes(ledger, 3)
    assert "the schedule ended at 2026-03-02 12:01" in ask(ledger, NOON + 2 * MINUTE).answer
    ledger.add(**EVERY_MINUTE, conditions=Conditions(max_runs=1))
    pass_minutes(ledger, 3)
    over = ask(ledger, NOON + 6 * MINUTE)
    assert over.answer == "It did not run: max_runs: it had its 1 run"
    assert over.because == ("A larger max_runs lets it go on.", by_a_backfill(6))
    ledger.add(**EVERY_MINUTE)

    assert rows(ledger) == [("ended", 2), ("max_runs", 2)]
    assert "A larger max_runs lets it go on." in ask(ledger, NOON + 6 * MINUTE).because


def test_pauses_and_overlaps_are_told_with_what_ends_them(ledger: Ledger) -> None:
    ledger.add(**EVERY_MINUTE, overlap=OverlapPolicy.SKIP)
    pass_minutes(ledger, 2)
    ledger.schedules.pause("report", Pause(since=ledger.now, by="ann"), now=ledger.now)
    pass_minutes(ledger, 2)

    because = [*ask(ledger, NOON + 2 * MINUTE).because, *ask(ledger, NOON + 4 * MINUTE).because]

    assert rows(ledger) == [("overlap", 1), ("paused by ann since 2026-03-02 12", 2)]
    assert 'overlap = "allow" lets runs begin beside one that has not ended.' in because
    assert "`cronhare schedules resume report` ends the pause, if it still lasts." in because


def test_what_was_due_before_an_edit_after_a_downtime_is_one_row(ledger: Ledger) -> None:
    ledger.add(**EVERY_MINUTE)
    ledger.clock.advance(4 * MINUTE)

    ledger.add(**EVERY_MINUTE, description="edited while no scheduler ran")

    assert rows(ledger) == [("the schedule was edited at 2026-03-02 12", 4)]


@ON_ONE
def test_a_schedule_by_hand_or_whose_time_is_past_is_not_idle(ledger: Ledger) -> None:
    ledger.add("by-hand", schedule=None)
    ledger.add("past", schedule=None, date_time=NOON - MINUTE, status=False)
    pass_minutes(ledger, 2)

    assert [stored.idle for stored in ledger.schedules.schedules()] == [None, None]


# Broken rows


def test_what_was_due_while_a_row_was_broken_is_recorded_once_it_is_mended(
    database_ledger: Ledger, shell: Shell
) -> None:
    ledger = database_ledger
    minute = datetime.now(UTC).replace(second=0, microsecond=0)  # edits by hand: the server's time
    ledger.clock.move_to(minute)
    ledger.add("innocent", **EVERY_MINUTE)
    ledger.add(**EVERY_MINUTE)
    ledger.clock.move_to(datetime.now(UTC) + 2 * MINUTE)
    ledger.claim_due()
    shell("UPDATE Scheduler SET timezone = 'Moon' WHERE name = 'report'")
    ledger.plan_edited()
    [broken] = ledger.schedules.schedules(["report"])
    assert broken.idle is not None
    since = broken.idle.since
    ledger.clock.move_to(since + 2.5 * MINUTE)
    assert ask(ledger, since).answer == "It cannot be planned: its row in the table is broken"

    ledger.save(draft(**EVERY_MINUTE))
    ledger.plan_edited()
    pass_minutes(ledger, 1)

    row = ask(ledger, since + MINUTE).execution
    assert row is not None
    assert (row.due_at, row.last_due_at, row.missed) == (since, since + 2 * MINUTE, 3)
    assert str(row.last_error).startswith("broken: timezone: ")
    runs = [one.due_at for one in ledger.executions(State.CLAIMED) if one.schedule_name == "report"]
    assert runs[-1] == since + 3 * MINUTE
    assert since not in runs
