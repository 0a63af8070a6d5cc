"""What every ledger promises of pauses and conditions, and of instants that did not run."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from cronhare.application.administration.reading.lookup import find_schedule
from cronhare.application.administration.story import Explanation
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.retry_limits import Limited
from cronhare.domain.retries.limits import Changed
from cronhare.domain.retries.retry import Quarantine, Verdict
from cronhare.domain.schedules.conditions import CalendarDraft, Conditions
from cronhare.domain.schedules.schedule import Misfire, MisfirePolicy
from cronhare.domain.schedules.skips import Pause
from cronhare.ports.attempts import Busy, Recorded, Refused
from tests.integration.ledgers import (
    EVERY_MINUTE,
    FOR_GOOD,
    MINUTE,
    NOON,
    ON_ONE,
    SECOND,
    Ledger,
    Shell,
    at_once,
    draft,
)

ALL = Misfire(policy=MisfirePolicy.ALL)
ANN = Pause(since=NOON, by="ann", reason="migration")


def pass_minutes(ledger: Ledger, count: int) -> None:
    """Let minutes pass, and claim what is due in each."""
    for _ in range(count):
        ledger.clock.advance(MINUTE)
        ledger.claim_due()


def test_what_is_due_in_a_pause_is_one_row_with_its_reason_and_a_resume_runs_none_of_it(
    ledger: Ledger,
) -> None:
    ledger.add(**EVERY_MINUTE)
    pass_minutes(ledger, 1)
    ledger.schedules.pause("report", ANN, now=ledger.now)
    pass_minutes(ledger, 3)

    ledger.clock.advance(30 * SECOND)
    resumed = ledger.schedules.resume("report", now=ledger.now)
    pass_minutes(ledger, 1)

    first, paused, last = ledger.executions()
    assert (first.state, last.state) == (State.CLAIMED, State.CLAIMED)
    assert (paused.state, paused.missed) == (State.SKIPPED, 3)
    assert (paused.due_at, paused.last_due_at) == (NOON + 2 * MINUTE, NOON + 4 * MINUTE)
    assert paused.last_error == "paused by ann since 2026-03-02 12:00:00Z: migration"
    assert resumed is not None
    assert resumed.until == NOON + 4.5 * MINUTE
    assert last.due_at == NOON + 5 * MINUTE


def test_a_pause_is_no_edit_and_is_kept_beside_the_schedule(ledger: Ledger) -> None:
    ledger.add(**EVERY_MINUTE)
    [before] = ledger.schedules.schedules(["report"])
    ledger.schedules.pause("report", ANN, now=ledger.now)
    ledger.clock.advance(SECOND)

    later = Pause(since=ledger.now, until=NOON + timedelta(days=1), by="bob")
    kept = ledger.schedules.pause("report", later, now=ledger.now)

    [stored] = ledger.schedules.schedules(["report"])
    assert stored.pause == kept == Pause(since=NOON, until=NOON + timedelta(days=1), by="bob")
    assert (stored.updated_at, stored.planned) == (before.updated_at, True)
    assert ledger.schedules.pause("unknown", ANN, now=ledger.now) is None
    assert ledger.schedules.resume("unknown", now=ledger.now) is None


def fail(ledger: Ledger, times: int = 1, verdict: Verdict = FOR_GOOD) -> list[Recorded | Busy]:
    """Let runs come due one after the other, and end for good."""
    answers = list[Recorded | Busy]()
    for _ in range(times):
        ledger.clock.advance(MINUTE)
        [run] = ledger.claim_due().claimed
        answers.append(ledger.finish(ledger.started(run), verdict))
    return answers


def pause_of(ledger: Ledger) -> Pause | None:
    [stored] = ledger.schedules.schedules(["report"])
    return stored.pause


def test_so_many_failures_in_a_row_pause_a_schedule_and_a_resume_counts_anew(
    ledger: Ledger,
) -> None:
    ledger.add(**EVERY_MINUTE, conditions=Conditions(pause_after=3))

    *before, last = fail(ledger, 3, Quarantine("it crashed"))
    paused, at = pause_of(ledger), ledger.now
    pass_minutes(ledger, 2)

    assert before == [State.QUARANTINED] * 2
    assert isinstance(last, Limited)
    assert [change.what for change in last.changes] == [Changed.SCHEDULE_PAUSED]
    reason = "3 failures in a row, the last one: it crashed"
    assert paused == Pause(since=at, by="cronhare", reason=reason)
    assert [row.paused_after for row in ledger.records.archive()] == [3, None, None]
    [skipped] = ledger.executions(State.SKIPPED)
    assert (skipped.missed, skipped.last_error) == (2, str(paused))

    ledger.schedules.resume("report", now=ledger.now)
    fail(ledger, 2)
    assert pause_of(ledger) == Pause(since=at, until=at + 2 * MINUTE, by="cronhare", reason=reason)

    fail(ledger)
    assert pause_of(ledger) != paused


def test_a_run_that_is_replayed_counts_by_how_it_ended_last(ledger: Ledger) -> None:
    ledger.add(**EVERY_MINUTE, conditions=Conditions(pause_after=3))
    fail(ledger, 2)
    [_, first] = ledger.records.archive()
    ledger.clock.advance(SECOND)
    [replayed] = ledger.records.replay([first.id], now=ledger.now)
    ledger.succeeded(replayed)

    fail(ledger, 2)

    assert pause_of(ledger) is None


@ON_ONE
def test_a_persons_pause_stays_whatever_fails_in_it(ledger: Ledger) -> None:
    ledger.add(**EVERY_MINUTE, conditions=Conditions(pause_after=1))
    ledger.clock.advance(MINUTE)
    [run] = ledger.claim_due().claimed
    ledger.schedules.pause("report", ANN, now=ledger.now)

    assert ledger.finish(ledger.started(run), FOR_GOOD) is State.FAILED

    assert pause_of(ledger) == ANN


def test_of_failures_that_end_at_once_the_last_pauses_their_schedule(ledger: Ledger) -> None:
    ledger.add(schedule="* * * * *", conditions=Conditions(pause_after=8), misfire=ALL)
    ledger.clock.advance(8 * MINUTE)
    runs = [
        ledger.started(run, node=f"ant-{n}") for n, run in enumerate(ledger.claim_due().claimed)
    ]

    def end(n: int) -> None:
        while ledger.finish(runs[n], FOR_GOOD, node=f"ant-{n}") == Busy():
            time.sleep(0.01)

    at_once(8, end)

    assert len(runs) == 8
    assert pause_of(ledger) is not None
    assert sum(row.paused_after is not None for row in ledger.records.archive()) == 1


def test_a_pause_may_come_before_the_first_plan_and_outlives_an_edit(ledger: Ledger) -> None:
    ledger.save(draft(**EVERY_MINUTE))
    ledger.schedules.pause("report", ANN, now=ledger.now)
    ledger.plan_edited()
    pass_minutes(ledger, 1)
    ledger.save(draft(**EVERY_MINUTE, description="edited"))
    ledger.plan_edited()
    pass_minutes(ledger, 1)

    assert {run.state for run in ledger.executions()} == {State.SKIPPED}


def test_after_the_last_run_that_is_allowed_a_schedule_is_never_due_again(
    ledger: Ledger,
) -> None:
    ledger.add(**EVERY_MINUTE, conditions=Conditions(max_runs=2))
    ledger.run_now(ledger.schedules.schedules()[0].id, "manual-1")

    pass_minutes(ledger, 4)

    due = [run.key for run in ledger.executions() if run.key != "manual-1"]
    assert due == ["cron-2026-3-2-12-1", "cron-2026-3-2-12-2"]
    [stored] = ledger.schedules.schedules(["report"])
    assert (stored.claimed, stored.next_due_at) == (2, None)


HOLIDAYS = CalendarDraft(
    name="holidays", timezone="UTC", windows=(("12:02-12:04", "Midday"), ("12-25", None))
)


def save_calendars(ledger: Ledger, *drafts: CalendarDraft, dropped: tuple[str, ...] = ()) -> None:
    ledger.schedules.save([], source="jobs.toml", now=ledger.now, calendars=drafts, dropped=dropped)


def test_a_calendar_decides_at_the_instant_and_a_change_of_it_is_no_edit(ledger: Ledger) -> None:
    save_calendars(ledger, HOLIDAYS)
    ledger.add(**EVERY_MINUTE, conditions=Conditions(skip_on=("holidays",)))
    pass_minutes(ledger, 2)
    save_calendars(ledger, attrs.evolve(HOLIDAYS, windows=(("12-25", None),)))
    pass_minutes(ledger, 1)

    assert [(run.state, run.last_error) for run in ledger.executions()] == [
        (State.CLAIMED, None),
        (State.SKIPPED, "calendar holidays: Midday"),
        (State.CLAIMED, None),
    ]
    [stored] = ledger.schedules.calendars()
    assert (stored.name, stored.source) == ("holidays", "jobs.toml")
    assert stored.draft == attrs.evolve(HOLIDAYS, windows=(("12-25", None),))


def test_a_run_that_has_not_begun_in_time_is_skipped_at_its_start_and_wherever_it_waits(
    ledger: Ledger,
) -> None:
    expires = Conditions(expires=10 * SECOND)
    ledger.add("innocent", **EVERY_MINUTE)
    for name in ("late", "waiting", "begun"):
        ledger.add(name, **EVERY_MINUTE, conditions=expires)
    ledger.clock.advance(MINUTE)
    claimed = {run.schedule_name: run for run in ledger.claim_due().claimed}
    begun = ledger.started(claimed["begun"])
    ledger.clock.advance(10 * SECOND)
    assert not ledger.claims.end_waiting(now=ledger.now, limit=100)
    ledger.clock.advance(SECOND)

    answer = ledger.start(claimed["late"])
    over = ledger.claims.end_waiting(now=ledger.now, limit=100)

    reason = "expired: not started within 10s of its due instant"
    assert answer == Refused(reason)
    assert [run.schedule_name for run in over] == ["waiting"]
    states = {run.schedule_name: (run.state, run.last_error) for run in ledger.executions()}
    assert states == {
        "innocent": (State.CLAIMED, None),
        "late": (State.SKIPPED, reason),
        "waiting": (State.SKIPPED, reason),
        "begun": (State.RUNNING, None),
    }
    assert ledger.seen(begun).expires_at == NOON + MINUTE + 10 * SECOND


# Every due instant that did not run has a row and a reason; explain says what changes it


MIDDAY = CalendarDraft(name="midday", timezone="UTC", windows=(("12:00-13:00", "Midday"),))


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
