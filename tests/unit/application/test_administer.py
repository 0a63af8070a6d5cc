from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import attrs
import pytest

from cronhare.application.administration.changing import runs as commands
from cronhare.application.administration.changing.runs import CannotRun
from cronhare.application.administration.jobs_file.difference import Change, FieldChange, difference
from cronhare.application.administration.jobs_file.export import CannotExport, Exporter
from cronhare.application.administration.reading.lookup import NotFound, find_schedule
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE, UNRESOLVED
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.conditions import CalendarDraft, Conditions
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.keys import Boot
from cronhare.domain.schedules.task import LARGEST_PARAMS, Task, TaskRef
from cronhare.ports.records import ExecutionFilter
from tests.actors import ADA
from tests.unit.application.deliveries import live, run
from tests.unit.application.endings import CRASH, Seen, always, failure
from tests.unit.application.house import REPORT, House

NIGHTLY = ScheduleDraft(name="nightly", task=REPORT.ref, schedule="0 2 * * *")
HOURLY = ScheduleDraft(name="hourly", task=REPORT.ref, schedule="@hourly")


@attrs.frozen
class File:
    """A jobs file that was read."""

    drafts: Sequence[ScheduleDraft]
    tasks: Sequence[Task] = ()
    source: str = "jobs.toml"
    on_start: Sequence[str] = ()
    on_boot: Sequence[str] = ()
    calendars: Sequence[CalendarDraft] = ()


def apply(
    house: House,
    *drafts: ScheduleDraft,
    tasks: Sequence[Task] = (),
    source: str = "jobs.toml",
) -> dict[str, Change]:
    changes = house.applier.apply(File(drafts, tasks, source), actor=ADA)
    return {change.name: change.change for change in changes}


def test_what_is_as_it_should_be_is_not_touched() -> None:
    house = House()
    apply(house, NIGHTLY, HOURLY)
    before = find_schedule(house.schedules, "hourly").updated_at
    house.clock.advance(timedelta(minutes=1))

    changes = apply(house, attrs.evolve(NIGHTLY, schedule="0 3 * * *"), HOURLY)

    assert changes == {"nightly": Change.CHANGE, "hourly": Change.KEEP}
    assert find_schedule(house.schedules, "hourly").updated_at == before
    assert find_schedule(house.schedules, "nightly").updated_at == house.now


def test_what_the_file_has_no_more_is_disabled_once() -> None:
    house = House()
    apply(house, NIGHTLY, HOURLY)

    changes = apply(house, NIGHTLY)
    again = apply(house, NIGHTLY)

    assert changes == {"nightly": Change.KEEP, "hourly": Change.DISABLE}
    assert again == {"nightly": Change.KEEP}
    stored = find_schedule(house.schedules, "hourly").draft
    assert stored is not None
    assert not stored.status


BACKUP = Task(name="backup", source="jobs.toml", ref=TaskRef("worker", 1), command=("true",))


def scheduled(task: Task, name: str, **changes: Any) -> ScheduleDraft:  # noqa: ANN401
    """Schedule a task as its own file does."""
    hourly = ScheduleDraft(name=name, task=task.ref, task_name=task.name, schedule="@hourly")
    return attrs.evolve(hourly, **changes)


def of_another_file(house: House, **changes: Any) -> None:  # noqa: ANN401
    """Apply a file that numbers its task as ours does."""
    theirs = attrs.evolve(BACKUP, name="sweep", source="user.toml")
    draft = scheduled(theirs, "their-sweep", **changes)
    apply(house, draft, tasks=[theirs], source="user.toml")


def test_what_the_other_file_no_longer_runs_keeps_no_number() -> None:
    house = House()
    of_another_file(house, status=False)

    assert apply(house, scheduled(BACKUP, "backup"), tasks=[BACKUP]) == {"backup": Change.ADD}


def test_a_broken_row_is_replaced() -> None:
    house = House()
    apply(house, NIGHTLY)
    [stored] = house.schedules.schedules()
    broken = attrs.evolve(stored, draft=None, problem="timezone: unknown")

    [change] = difference([NIGHTLY], [broken], source="jobs.toml")

    assert change.change is Change.CHANGE
    assert change.fields == (FieldChange("row", "timezone: unknown", "replaced"),)


async def test_a_manual_run_is_published_soon_and_moves_no_due_instant() -> None:
    seen = Seen()
    house = House(script=seen)
    house.add(schedule="0 2 * * *")
    house.dispatcher.tick(house.now)
    due = house.claims.next_due()

    asked = house.administrator.run_now("report", params='{"v":1}', actor=ADA)
    await house.open()
    await house.turn()

    assert asked.key == "manual-00000000-0000-0000-0000-000000000001"
    assert (house.only.state, seen.invocations[0].params) == (State.SUCCEEDED, {"v": 1})
    assert house.claims.next_due() == due


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda house: find_schedule(house.schedules, "nightyl"),
            "there is no schedule 'nightyl'; did you mean nightly?",
        ),
        (lambda house: find_schedule(house.schedules, "xyz"), "there is hourly, nightly"),
        (
            lambda house: house.administrator.run_now("nope", params=None, actor=ADA),
            "no schedule 'nope'",
        ),
        (lambda house: house.administrator.cancel(99, actor=ADA), "no execution 99"),
        (lambda house: house.administrator.replay([7, 9], actor=ADA), "no row 7, 9"),
        (
            lambda house: house.administrator.discard([7], note="", actor=ADA),
            "the archive has no row 7",
        ),
    ],
)
def test_what_does_not_exist_is_told_by_name(ask: Callable[[House], object], message: str) -> None:
    house = House()
    apply(house, NIGHTLY, HOURLY)

    with pytest.raises(NotFound, match=message.replace("?", r"\?")):
        ask(house)


def test_params_that_no_message_could_carry_are_refused() -> None:
    house = House()
    apply(house, NIGHTLY)

    with pytest.raises(CannotRun, match="102402 bytes of JSON, 102400 are allowed"):
        house.administrator.run_now("nightly", params=f'"{"x" * LARGEST_PARAMS}"', actor=ADA)

    assert not house.claims.unfinished(after=0, limit=9)


async def test_a_replay_may_have_as_many_attempts_as_are_asked_for() -> None:
    house = await _with_failures(1)
    [archived] = house.records.archive()

    done = house.administrator.replay([archived.id], attempts=3, actor=ADA)

    assert done.messages == (f"{archived.execution_id}:2",)
    execution = house.records.execution(archived.execution_id)
    assert execution is not None
    assert execution.retry == RetryPolicy(attempts=3)


async def test_what_a_filter_takes_is_discarded_page_by_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "MOST_AT_ONCE", 2)
    house = await _with_failures(5)

    done = house.administrator.discard_all(UNRESOLVED, note="known", actor=ADA)

    assert (done.failures, done.asked, done.resolved_before) == (5, 5, 0)
    assert not house.records.archive()


async def test_a_replay_tells_what_was_resolved_and_what_cannot_be() -> None:
    house = await _with_failures(2)
    gone, known = house.records.archive()
    house.administrator.discard([known.id], note="", actor=ADA)
    house.sql("DELETE FROM SchedulerExecution WHERE id = ?", gone.execution_id)

    done = house.administrator.replay([gone.id, known.id, known.id], actor=ADA)

    assert (done.executions, done.asked, done.resolved_before) == ((), 2, 1)
    assert done.refused == {gone.id: f"execution {gone.execution_id} is no more in the ledger"}


async def _with_failures(count: int) -> House:
    """Let runs by hand fail for good."""
    house = House(script=always(failure()), policy=RetryPolicy(attempts=1))
    house.add(schedule=None)
    for _ in range(count):
        house.administrator.run_now("report", params=None, actor=ADA)
    await house.open()
    await house.turn()
    assert len(house.records.archive()) == count
    return house


async def test_a_poison_pill_that_is_released_crashes_three_times_anew() -> None:
    house = House(script=always(CRASH))
    await run(house)
    await live(house, timedelta(seconds=100))
    [pill] = house.records.archive()
    chosen = house.administrator.quarantined([pill.id])

    released = house.administrator.replay(chosen, actor=ADA).executions
    await live(house, timedelta(seconds=200))

    assert list(released) == [house.only.id]
    assert (house.only.state, house.only.attempt) == (State.QUARANTINED, 6)
    assert [row.crash_count for row in house.records.archive(EVERY_FAILURE)] == [3, 3]


# At boot


def test_what_is_off_or_paused_begins_neither_at_a_start_nor_at_a_boot() -> None:
    house = House()
    apply(house, NIGHTLY)
    house.clock.advance(timedelta(minutes=10))
    house.administrator.pause({"nightly": None}, reason="no", by="ann", actor=ADA)
    with pytest.raises(CannotRun, match="does not run by itself: it is paused by ann"):
        house.administrator.run_at_start("nightly", now=house.now)
    house.administrator.resume(["nightly"], actor=ADA)
    house.administrator.switch(["nightly"], on=False, actor=ADA)
    with pytest.raises(CannotRun, match="does not run by itself: it is disabled"):
        house.administrator.run_at_boot("nightly", Boot("one", ago=60), now=house.now)

    house.administrator.switch(["nightly"], on=True, actor=ADA)
    run = house.administrator.run_at_start("nightly", now=house.now)

    assert run.key.startswith("start-")
    assert [one.id for one in house.records.executions(ExecutionFilter())] == [run.id]


# Switching


# Exporting


def exporter(house: House) -> Exporter:
    return Exporter(house.schedules)


def test_to_choose_a_part_of_a_source_names_what_the_file_would_disable() -> None:
    house = House()
    apply(house, NIGHTLY, HOURLY, attrs.evolve(HOURLY, name="off", status=False))

    chosen = exporter(house).choose(["nightly"], source=None, by_hand=False)

    assert [draft.name for draft in chosen.drafts] == ["nightly"]
    assert chosen.others == ["hourly", "nightly"]


@pytest.mark.parametrize(
    ("names", "source", "said"),
    [
        ([], None, "--source a.toml (1 schedule), --source b.toml (1 schedule)"),
        (["nightly", "hourly"], None, "of several sources"),
        ([], "c.toml", "there is no schedule of this kind: c.toml"),
    ],
)
def test_what_is_not_clear_is_asked(names: Sequence[str], source: str | None, said: str) -> None:
    house = House()
    apply(house, NIGHTLY, source="a.toml")
    apply(house, HOURLY, source="b.toml")

    with pytest.raises(CannotExport) as refused:
        exporter(house).choose(names, source=source, by_hand=False)

    assert said in str(refused.value)


def test_params_that_are_written_differently_are_no_difference() -> None:
    house = House()
    house.schedules.save(
        [attrs.evolve(NIGHTLY, params='{"b": 2, "a": 1}')], source="jobs.toml", now=house.now
    )

    assert apply(house, attrs.evolve(NIGHTLY, params='{"a":1,"b":2}')) == {"nightly": Change.KEEP}
    assert apply(house, attrs.evolve(NIGHTLY, params='{"a":true,"b":2}')) == {
        "nightly": Change.CHANGE
    }


HOLIDAYS = CalendarDraft(name="de-holidays", timezone="UTC", windows=(("12-25", "Christmas"),))
PAYROLL = attrs.evolve(NIGHTLY, name="payroll", conditions=Conditions(skip_on=("de-holidays",)))


def test_a_calendar_of_another_file_is_as_good_and_one_that_is_off_needs_none() -> None:
    house = House()
    house.applier.apply(File([], source="shared.toml", calendars=[HOLIDAYS]), actor=ADA)
    off = attrs.evolve(NIGHTLY, name="off", status=False, conditions=Conditions(skip_on=("x",)))

    assert apply(house, PAYROLL, off) == {"payroll": Change.ADD, "off": Change.ADD}
