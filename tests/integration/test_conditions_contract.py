"""What every ledger promises of pauses, and of the conditions under which schedules run."""

import time
from datetime import timedelta

import attrs

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
    at_once,
    draft,
)
from tests.integration.rules import Holding

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


def test_a_pause_ends_by_itself_and_what_nobody_looked_at_meanwhile_is_not_run(
    ledger: Ledger,
) -> None:
    ledger.add(**EVERY_MINUTE)
    until = NOON + 3 * MINUTE
    ledger.schedules.pause("report", Pause(since=NOON, until=until), now=ledger.now)
    ledger.clock.advance(3 * MINUTE)

    (run,) = ledger.claim_due().claimed

    assert run.due_at == until
    [skipped] = ledger.executions(State.SKIPPED)
    assert (skipped.due_at, skipped.missed) == (NOON + MINUTE, 2)


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


def test_an_end_waits_for_nobody_who_holds_the_plan_of_its_schedule(
    mysql: Ledger, holding: Holding
) -> None:
    id_ = mysql.add(**EVERY_MINUTE, conditions=Conditions(pause_after=1))
    mysql.clock.advance(MINUTE)
    [run] = mysql.claim_due().claimed
    running = mysql.started(run)

    with holding(f"SELECT 1 FROM SchedulerPlan WHERE scheduler_id = {id_} FOR UPDATE"):
        assert mysql.finish(running, FOR_GOOD) == Busy()
    mysql.finish(running, FOR_GOOD)

    assert pause_of(mysql) is not None


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


def test_without_its_calendar_a_schedule_is_not_run_silently_and_others_go_on(
    ledger: Ledger,
) -> None:
    save_calendars(ledger, HOLIDAYS)
    ledger.add("innocent", **EVERY_MINUTE)
    ledger.add(**EVERY_MINUTE, conditions=Conditions(only_on=("holidays",)))
    save_calendars(ledger, dropped=("holidays",))
    ledger.clock.advance(MINUTE)

    batch = ledger.claim_due()

    assert [run.schedule_name for run in batch.claimed] == ["innocent"]
    assert [name for name, _ in batch.problems] == ["report"]
    [stored] = ledger.schedules.schedules(["report"])
    assert "calendar holidays: there is none of that name" in str(stored.problem)
    assert ledger.schedules.calendars() == []


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
