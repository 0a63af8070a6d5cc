"""What every ledger promises of the names of tasks and queues."""

import pytest

from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.schedules.task import TaskRef
from tests.integration.ledgers import MINUTE, Ledger, draft

BACKUP = TaskRef("worker", 7)
IMPORT = TaskRef("import", 3)
PAID = "orders.paid"


def test_the_numbers_of_a_task_are_those_that_its_schedules_have(ledger: Ledger) -> None:
    drafts = [
        draft("a", task_name="backup", task=BACKUP),
        draft("b", task_name="tokens"),
        draft("c", task_name="backup", task=IMPORT),
        draft("d", task_name="backup", task=BACKUP),
    ]
    ledger.schedules.save(drafts, source="shop", now=ledger.now)

    assert {*ledger.names.numbers_of("backup")} == {BACKUP, IMPORT}
    assert not ledger.names.numbers_of("nobody")


def test_a_task_is_known_by_its_schedules(ledger: Ledger) -> None:
    named = [draft("a", task_name="backup", task=BACKUP, status=False)]
    ledger.schedules.save(named, source="shop", now=ledger.now)
    ledger.save(draft("b", task=IMPORT), draft("c", task=ref_of_topic(PAID), topic=PAID))

    assert ledger.names.has_task("backup", ())
    assert ledger.names.has_task("worker 7", ())
    assert ledger.names.has_task("import 3", ())
    assert ledger.names.has_task("imports", [IMPORT])
    assert ledger.names.has_task(PAID, [ref_of_topic(PAID)])
    assert not ledger.names.has_task("restore", [BACKUP, TaskRef("report", 99)])
    assert not ledger.names.has_task("report 99", ())
    assert not ledger.names.has_task("report 9999999999", ())


@pytest.mark.parametrize("named", [True, False])
def test_a_task_is_known_as_long_as_a_run_is_of_it(ledger: Ledger, *, named: bool) -> None:
    source, name = ("shop", "backup") if named else (None, None)
    ledger.schedules.save([draft("a", task_name=name, task=BACKUP)], source=source, now=ledger.now)
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    assert ledger.claim_due().claimed
    ledger.schedules.save([draft("a", task=IMPORT)], source=None, now=ledger.now)

    assert ledger.names.has_task("backup", [] if named else [BACKUP])
    assert ledger.names.has_task("worker 7", ())
    assert not ledger.names.numbers_of("backup")


def test_a_task_is_known_as_long_as_a_failure_is_of_it(ledger: Ledger) -> None:
    ledger.failed("a", task=BACKUP)

    assert ledger.names.has_task("worker 7", ())
    assert ledger.names.has_task("backup", [BACKUP])
    assert not ledger.names.has_task("backup", ())


def test_a_queue_is_known_by_schedules_and_by_what_is_left(ledger: Ledger) -> None:
    ledger.save(draft("a", queue="quiet", status=False))
    ledger.failed("b", queue="failing")
    ledger.claimed("c", queue="waiting")
    ledger.save(draft("b"), draft("c"))

    known = [ledger.names.has_queue(name) for name in ("quiet", "failing", "waiting", "gone")]
    assert known == [True, True, True, False]


def test_a_type_is_known_by_schedules_and_by_failures(ledger: Ledger) -> None:
    ledger.failed("a", task=TaskRef("mailing", 4))
    ledger.failed("b", task=BACKUP)
    ledger.save(draft("a", task=IMPORT), draft("b", task=TaskRef("report", 5)))

    known = [ledger.names.has_type(name) for name in ("import", "report", "mailing", "worker")]
    assert known == [True] * 4
    assert not any(ledger.names.has_type(name) for name in ("reminder", "wroker", "system"))


def test_jobs_files_are_known_by_their_schedules(ledger: Ledger) -> None:
    ledger.save(draft("by-hand"))
    for source in ("shop", "mails"):
        drafts = [draft(f"{source}-{n}", status=False) for n in range(2)]
        ledger.schedules.save(drafts, source=source, now=ledger.now)

    assert {*ledger.names.sources()} == {"shop", "mails"}


def test_tasks_are_suggested_that_come_near(ledger: Ledger) -> None:
    names = ("alpha", "beta", "gamma", "delta", "beta")
    drafts = [draft(f"s-{number}", task_name=name) for number, name in enumerate(names)]
    ledger.schedules.save(drafts, source="shop", now=ledger.now)
    ledger.save(draft("by-hand"))

    assert [*ledger.names.tasks_near("bet", limit=100)] == ["alpha", "beta", "delta", "gamma"]
    assert [*ledger.names.tasks_near("bet", limit=2)] == ["alpha", "beta"]
