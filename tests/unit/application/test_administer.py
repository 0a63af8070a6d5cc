"""What people change, who may, and what the audit says of it."""

from collections.abc import Sequence
from datetime import timedelta

import attrs
import pytest

from cronhare.adapters.sql.access import SqlAuditStore
from cronhare.application.administration.changing.runs import CannotRun
from cronhare.application.administration.changing.work import NotDrainable
from cronhare.application.administration.jobs_file.difference import Change, FieldChange, difference
from cronhare.application.administration.jobs_file.export import CannotExport, Exporter
from cronhare.application.administration.reading.lookup import NotFound, find_schedule
from cronhare.domain.access import LONGEST_SESSION, Scope
from cronhare.domain.audit import MOST_ENTRIES, Action, AuditEntry
from cronhare.domain.nodes import DISCONNECTED_AFTER, NodeReport, NodeState
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.conditions import CalendarDraft
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.keys import Boot
from cronhare.domain.schedules.task import Task
from cronhare.ports import LedgerUnavailable
from cronhare.ports.records import AuditFilter, ExecutionFilter
from tests.actors import ADA, CI
from tests.integration.ledgers import NOON
from tests.unit.application.deliveries import always, failure
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


def apply(house: House, *drafts: ScheduleDraft, source: str = "jobs.toml") -> dict[str, Change]:
    changes = house.applier.apply(File(drafts, source=source), actor=ADA)
    return {change.name: change.change for change in changes}


def test_a_broken_row_is_replaced() -> None:
    house = House()
    apply(house, NIGHTLY)
    [stored] = house.schedules.schedules()
    broken = attrs.evolve(stored, draft=None, problem="timezone: unknown")

    [change] = difference([NIGHTLY], [broken], source="jobs.toml")

    assert change.change is Change.CHANGE
    assert change.fields == (FieldChange("row", "timezone: unknown", "replaced"),)


async def test_a_replay_may_have_as_many_attempts_as_are_asked_for() -> None:
    house = await _with_failures(1)
    [archived] = house.records.archive()

    done = house.administrator.replay([archived.id], attempts=3, actor=ADA)

    assert done.messages == (f"{archived.execution_id}:2",)
    execution = house.records.execution(archived.execution_id)
    assert execution is not None
    assert execution.retry == RetryPolicy(attempts=3)


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
        Exporter(house.schedules).choose(names, source=source, by_hand=False)

    assert said in str(refused.value)


def test_what_is_as_it_should_be_is_not_touched_however_its_params_are_written() -> None:
    house = House()
    stored = attrs.evolve(NIGHTLY, params='{"b": 2, "a": 1}')
    house.schedules.save([stored, HOURLY], source="jobs.toml", now=house.now)
    before = house.now
    house.clock.advance(timedelta(minutes=1))

    same = apply(house, attrs.evolve(NIGHTLY, params='{"a":1,"b":2}'), HOURLY)
    touched = find_schedule(house.schedules, "nightly").updated_at
    others = apply(house, attrs.evolve(NIGHTLY, params='{"a":true,"b":2}'), HOURLY)

    assert (same, touched) == ({"nightly": Change.KEEP, "hourly": Change.KEEP}, before)
    assert others == {"nightly": Change.CHANGE, "hourly": Change.KEEP}
    assert find_schedule(house.schedules, "nightly").updated_at == house.now


# No change is without an entry, and each entry says what became of it


def entries(house: House) -> Sequence[AuditEntry]:
    """Give them oldest first."""
    return [*reversed(house.container.audit_store().entries(AuditFilter(), before=None, limit=100))]


def told(house: House) -> list[tuple[str, str, str]]:
    return [(each.action, each.target, each.outcome) for each in entries(house)]


def unavailable(*_: object, **__: object) -> None:
    raise LedgerUnavailable("it is away")


def test_each_change_says_who_made_it_from_what_to_what() -> None:
    house = House()
    house.add("nightly", schedule=None)

    house.administrator.run_now("nightly", params='{"n":1}', actor=CI)
    house.administrator.switch(["nightly"], on=False, actor=ADA)
    house.administrator.switch(["nightly"], on=False, actor=ADA)
    house.administrator.cancel(1, actor=ADA)

    run, off, again, cancelled = entries(house)
    assert (run.actor, run.channel, run.after) == (
        "ci",
        "api",
        {"execution": 1, "params": {"n": 1}},
    )
    assert (off.actor, off.before, off.after) == (ADA.name, {"status": True}, {"status": False})
    assert [each.outcome for each in (run, off, again)] == ["done", "done", "unchanged"]
    assert cancelled.before == {"schedule": "nightly", "state": "claimed"}
    assert (cancelled.target, cancelled.after) == ("1", {"state": "cancelled"})


def test_a_jobs_file_has_an_entry_and_one_for_each_of_its_changes_if_they_are_few() -> None:
    house = House()
    many = [attrs.evolve(NIGHTLY, name=f"backup-{number}") for number in range(MOST_ENTRIES + 1)]

    for drafts in ([HOURLY], [HOURLY], [], many):
        apply(house, *drafts)

    assert told(house) == [
        ("jobs.apply", "jobs.toml", "done"),
        ("schedule.create", "hourly", "done"),
        ("jobs.apply", "jobs.toml", "done"),
        ("schedule.disable", "hourly", "done"),
        ("jobs.apply", "jobs.toml", "done"),
    ]
    added = entries(house)[-1].after["schedules added"]
    assert (added["how many"], added["names"][0]) == (MOST_ENTRIES + 1, "backup-0")


def test_nothing_is_changed_without_an_entry_and_a_change_stands_without_its_outcome(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house = House()
    monkeypatch.setattr(SqlAuditStore, "finish", unavailable)
    with house.trail.change(ADA, Action.RUN, "nightly"):
        pass
    assert "stays unknown in the audit" in caplog.text

    monkeypatch.setattr(SqlAuditStore, "begin", unavailable)
    with (
        pytest.raises(LedgerUnavailable) as caught,
        house.trail.change(ADA, Action.RUN, "nightly"),
    ):
        raise AssertionError("the change was made")
    assert caught.value.changed_nothing


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (LedgerUnavailable("lost"), "unknown"),
        (LedgerUnavailable("locked", changed_nothing=True), "refused"),
        (KeyboardInterrupt(), "unknown"),
        (AssertionError("ours"), "unknown"),
    ],
)
def test_what_leaves_the_change_open_is_unknown(error: BaseException, outcome: str) -> None:
    house = House()

    with (
        pytest.raises(type(error)),
        house.trail.change(ADA, Action.RUN, "nightly"),
    ):
        raise error

    assert told(house) == [("schedule.run", "nightly", outcome)]


# Who is let in, until when


SECOND = timedelta(seconds=1)
CHANCE, OTHER = b"\1" * 32, b"\2" * 32


def token_of(house: House, *, lives: timedelta | None = None) -> str:
    desk = house.container.admission()
    return desk.create("ci", Scope.READ, lives=lives, chance=CHANCE, actor=ADA).secret


@pytest.mark.parametrize("lives", [None, SECOND])
def test_a_session_ends_with_the_day_or_with_its_token(lives: timedelta | None) -> None:
    house = House()
    admission, lasts = house.container.admission(), lives or LONGEST_SESSION
    begun = admission.sign_in(token_of(house, lives=lives), chance=OTHER)
    assert begun is not None

    house.clock.advance(lasts - timedelta(milliseconds=1))
    before = admission.by_session(begun.secret)
    house.clock.advance(timedelta(milliseconds=1))

    assert before is not None
    assert admission.by_session(begun.secret) is None
    assert begun.seconds == lasts.total_seconds()


def test_a_cookie_opens_nothing_as_a_token_nor_a_token_as_a_cookie() -> None:
    house = House()
    admission, secret = house.container.admission(), token_of(house)
    begun = admission.sign_in(secret, chance=OTHER)
    assert begun is not None

    assert admission.by_token(begun.secret) is None
    assert admission.by_session(secret) is None
    assert admission.sign_in(begun.secret, chance=OTHER) is None


def test_a_ledger_that_takes_no_writes_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    secret = token_of(house)
    monkeypatch.setattr(house.container.access(), "used", unavailable)

    assert house.container.admission().by_token(secret) is not None


# Draining nodes

LONG = DISCONNECTED_AFTER + timedelta(seconds=1)

ANT = NodeReport(
    name="ant-1-7",
    role="worker",
    host="ant",
    version="0.1.0",
    started_at=NOON,
    seen_at=NOON,
    concurrency=8,
    running=1,
    consuming=True,
)


def test_the_beginning_of_a_name_is_enough_if_no_other_has_it() -> None:
    house = House()
    for name, role in (("ant-1-7", "worker"), ("ant-2-7", "worker"), ("bee-1-7", "scheduler")):
        house.report(name, role=role)
    desk = house.container.node_desk()

    assert desk.drain("ant-1", actor=ADA).name == "ant-1-7"
    with pytest.raises(NotFound, match=r"ant- begins several nodes: ant-1-.*, ant-2-"):
        desk.drain("ant-", actor=ADA)
    with pytest.raises(NotDrainable, match="is a scheduler: it runs no tasks to drain"):
        desk.drain("bee-1-7", actor=ADA)


@pytest.mark.parametrize(
    ("report", "state", "works"),
    [
        (ANT, NodeState.AT_WORK, True),
        (attrs.evolve(ANT, drain_asked_at=NOON), NodeState.DRAINING, True),
        (attrs.evolve(ANT, consuming=False), NodeState.DRAINING, False),
        (attrs.evolve(ANT, consuming=False, running=0), NodeState.DRAINED, False),
        (attrs.evolve(ANT, consumed_at=NOON - LONG), NodeState.DISCONNECTED, True),
        (attrs.evolve(ANT, consumed_at=NOON - LONG, consuming=False), NodeState.DRAINING, False),
        (attrs.evolve(ANT, seen_at=NOON - timedelta(hours=1)), NodeState.SILENT, True),
    ],
)
def test_a_node_that_takes_no_more_is_drained_once_it_runs_nothing(
    report: NodeReport, state: NodeState, works: bool
) -> None:
    assert (report.state(NOON), report.works) == (state, works)
