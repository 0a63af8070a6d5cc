"""No change is without an entry, and each entry says what became of it."""

from collections.abc import Sequence

import pytest

from cronhare.adapters.sql.access import SqlAuditStore
from cronhare.application.administration.audit import AuditTrail
from cronhare.application.administration.changing.runs import CannotPause
from cronhare.application.administration.changing.schedules import NameTaken
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.reading.measures import AuditView
from cronhare.domain.audit import MOST_ENTRIES, Action, Intent, Result
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.ports import LedgerUnavailable
from tests.actors import ADA, CI
from tests.unit.application.house import REPORT, House
from tests.unit.application.test_administer import BACKUP, File, scheduled


def entries(house: House) -> Sequence[AuditView]:
    """Give them oldest first."""
    return [*reversed(house.container.audit().entries())]


def told(house: House) -> list[tuple[str, str, str]]:
    return [(each.action, each.target, each.outcome) for each in entries(house)]


class Broken(SqlAuditStore):
    """An audit that cannot be written, or not completed."""

    def __init__(self, house: House, *, at: str) -> None:
        super().__init__(house.engine, house.clock)
        self.at = at

    def begin(self, intents: Sequence[Intent]) -> Sequence[int]:
        if self.at == "begin":
            raise LedgerUnavailable("it is away")
        return super().begin(intents)

    def finish(self, results: Sequence[Result]) -> None:
        raise LedgerUnavailable(f"it is away, and {len(results)} stay open")


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


def test_what_is_refused_before_anything_is_tried_leaves_no_entry() -> None:
    house = House()
    house.add("nightly")

    with pytest.raises(NotFound):
        house.administrator.switch(["nightly", "unknown"], on=False, actor=ADA)
    with pytest.raises(CannotPause):
        house.administrator.pause({"nightly": house.now}, reason=None, by=None, actor=ADA)

    assert told(house) == []


def test_what_the_table_refuses_is_an_entry_that_says_why() -> None:
    house = House()
    desk = house.container.schedule_desk()
    draft = ScheduleDraft(name="nightly", task=REPORT.ref, schedule="0 8 * * *")

    desk.create(draft, actor=ADA)
    with pytest.raises(NameTaken):
        desk.create(draft, actor=ADA)

    made, refused = entries(house)
    assert (made.outcome, made.after) == ("done", {"task": REPORT_VALUE, "schedule": "0 8 * * *"})
    assert (refused.outcome, refused.problem) == ("refused", "there is a schedule nightly already")


REPORT_VALUE = {"type": "report", "id": REPORT.ref.id}


def test_a_jobs_file_has_an_entry_and_one_for_each_schedule_that_it_changes() -> None:
    house = House()

    house.applier.apply(File([scheduled(BACKUP, "backup")]), actor=ADA)
    house.applier.apply(File([scheduled(BACKUP, "backup")]), actor=ADA)
    house.applier.apply(File([]), actor=ADA)

    assert told(house) == [
        ("jobs.apply", "jobs.toml", "done"),
        ("schedule.create", "backup", "done"),
        ("jobs.apply", "jobs.toml", "done"),
        ("schedule.disable", "backup", "done"),
    ]


def test_a_jobs_file_with_many_changes_has_one_entry_with_how_many() -> None:
    house = House()
    many = [scheduled(BACKUP, f"backup-{number}") for number in range(MOST_ENTRIES + 1)]

    house.applier.apply(File(many), actor=ADA)

    [entry] = entries(house)
    assert entry.after["schedules added"]["how many"] == MOST_ENTRIES + 1
    assert entry.after["schedules added"]["names"][0] == "backup-0"


def test_nothing_is_changed_where_the_entry_cannot_be_written() -> None:
    house = House()
    trail = AuditTrail(
        entries=Broken(house, at="begin"), stopwatch=house.clock.monotonic, now=house.clock.now
    )

    with (
        pytest.raises(LedgerUnavailable) as caught,
        trail.change(ADA, Action.RUN, "nightly"),
    ):
        raise AssertionError("the change was made")

    assert caught.value.changed_nothing


def test_a_change_stands_whose_outcome_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    trail = AuditTrail(
        entries=Broken(house, at="finish"), stopwatch=house.clock.monotonic, now=house.clock.now
    )

    with trail.change(ADA, Action.RUN, "nightly"):
        pass

    assert "stays unknown in the audit" in caplog.text


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
