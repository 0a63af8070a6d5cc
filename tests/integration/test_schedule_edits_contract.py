"""What every store promises of schedules that are edited and deleted one by one."""

from datetime import timedelta

import attrs
import pytest

from cronhare.adapters.sql import schedule_lists
from cronhare.domain.schedules.skips import Pause
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.schedules import KeptByRuns, Outdated, StoredSchedule
from tests.integration.ledgers import HOUR, MINUTE, Ledger, at_once, draft


def test_an_edit_says_all_and_keeps_name_source_and_id(ledger: Ledger) -> None:
    written = draft("nightly", user_id=7, group_id=8, task_name="report", description="a")
    ledger.schedules.save([written], source="jobs.toml", now=ledger.now)
    [before] = ledger.schedules.schedules()
    new = attrs.evolve(
        written, schedule="0 3 * * *", user_id=None, task=TaskRef("worker", 3), timeout=MINUTE
    )
    ledger.clock.advance(MINUTE)

    edited = ledger.edits.edit(before.id, new, seen=before.updated_at, now=ledger.now)

    assert isinstance(edited, StoredSchedule)
    assert edited == ledger.schedules.with_id(before.id)
    assert (edited.draft, edited.source, edited.name) == (new, "jobs.toml", "nightly")
    assert (edited.created_at, edited.updated_at) == (before.created_at, ledger.now)
    assert edited.planned is False


def test_of_many_who_have_seen_the_same_one_edits(ledger: Ledger) -> None:
    id_ = ledger.add("contested")
    seen = found(ledger, id_)

    answers = at_once(
        4,
        lambda number: ledger.edits.edit(
            id_,
            draft("contested", params=f'{{"a":{number}}}'),
            seen=seen.updated_at,
            now=ledger.now,
        ),
    )

    now = found(ledger, id_)
    assert answers.count(now) == 1
    assert answers.count(Outdated(now)) == 3
    assert now.updated_at > seen.updated_at
    whatever = draft("contested", params='{"a":9}')
    assert isinstance(ledger.edits.edit(id_, whatever, seen=None, now=ledger.now), StoredSchedule)


def test_what_has_no_run_is_deleted_with_its_plan_and_pause(ledger: Ledger) -> None:
    id_, other = ledger.add("gone"), ledger.add("stays")
    ledger.schedules.pause("gone", Pause(since=ledger.now), now=ledger.now)
    before = found(ledger, id_)
    ledger.clock.advance(timedelta(seconds=1))

    assert ledger.edits.delete(id_, seen=before.updated_at - HOUR) == Outdated(before)
    assert ledger.edits.delete(id_, seen=before.updated_at) == before

    assert ledger.edits.delete(id_, seen=None) is None
    assert [each.id for each in ledger.schedules.schedules()] == [other]
    ledger.clock.advance(HOUR)
    assert [row.schedule_name for row in ledger.claim_due().claimed] == ["stays"]
    again = ledger.add("gone")
    assert found(ledger, again).pause is None


def test_what_has_a_run_is_kept(ledger: Ledger) -> None:
    execution = ledger.claimed("ran")

    answer = ledger.edits.delete(execution.scheduler_id, seen=None)

    assert answer == KeptByRuns(1)
    assert found(ledger, execution.scheduler_id).name == "ran"


def test_history_is_deleted_on_request_while_nothing_of_it_may_run_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_lists, "STEP", 1)  # so that this takes several steps
    failed = ledger.failed("ran")
    done = ledger.succeeded(ledger.claimed("ran"))
    other = ledger.succeeded(ledger.claimed("stays"))
    id_ = done.scheduler_id

    waits = ledger.edits.delete(id_, seen=None, with_history=True)
    ledger.records.discard([failed.id], note="known", now=ledger.now)
    gone = ledger.edits.delete(id_, seen=None, with_history=True)

    assert waits == KeptByRuns(1)
    assert (isinstance(gone, StoredSchedule), ledger.schedules.with_id(id_)) == (True, None)
    assert ledger.records.execution(done.id) is None
    assert ledger.records.execution(other.id) == other
    assert [row.id for row in ledger.records.archived([failed.id])] == [failed.id]


@pytest.mark.parametrize("id_", [0, -1, 999_999, 2**63 - 1, 2**63])
def test_what_there_is_not_is_neither_edited_nor_deleted(ledger: Ledger, id_: int) -> None:
    assert ledger.edits.edit(id_, draft(), seen=None, now=ledger.now) is None
    assert ledger.edits.delete(id_, seen=None) is None


def test_the_systems_own_is_not_there(ledger: Ledger) -> None:
    cleanup = ledger.systems_own().scheduler_id

    assert ledger.edits.edit(cleanup, draft(), seen=None, now=ledger.now) is None
    assert ledger.edits.delete(cleanup, seen=None) is None


def found(ledger: Ledger, id_: int) -> StoredSchedule:
    stored = ledger.schedules.with_id(id_)
    assert stored is not None
    return stored
