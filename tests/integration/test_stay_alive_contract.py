"""What every ledger promises of schedules with `stay_alive` (C40 in docs/compatibility.md)."""

import pytest

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle.claims import RunsAlready
from cronhare.domain.messages import TaskMessage
from cronhare.ports.records import ExecutionFilter
from tests.integration.ledgers import MINUTE, Ledger, at_once, draft
from tests.ports import ids_of

OWN = "cron_standalone.pump"


def test_its_runs_go_to_a_queue_of_their_own(ledger: Ledger) -> None:
    ledger.save(draft("pump", stay_alive=True), draft("innocent"))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)

    queues = {run.schedule_name: run.queue for run in ledger.claim_due().claimed}

    assert queues == {"pump": OWN, "innocent": "cron_scheduler"}


def test_one_that_is_due_beside_a_run_of_its_own_is_skipped(ledger: Ledger) -> None:
    times = {"schedule": "* * * * *", "date_time": None}
    ledger.save(draft("pump", stay_alive=True, **times), draft("innocent", **times))
    ledger.plan_edited()
    for _ in range(3):
        ledger.clock.advance(MINUTE)
        ledger.claim_due()

    states = [one.state for one in ledger.executions() if one.schedule_name == "pump"]

    assert sorted(states) == [State.CLAIMED, State.SKIPPED, State.SKIPPED]


def test_so_do_runs_by_hand_and_messages_from_elsewhere(ledger: Ledger) -> None:
    ledger.save(draft("pump", stay_alive=True))
    id_ = ids_of(ledger.schedules, ["pump"])["pump"]
    message = TaskMessage(type="report", id=25, scheduler_id=id_, params_scheduler="{}")

    by_hand = ledger.run_now(id_, "manual-1")
    adopted = ledger.attempts.adopt(
        message, key="manual-2", queue="cron_scheduler", deaths=0, now=ledger.now, node="ant"
    )

    assert isinstance(adopted, Execution)
    assert (by_hand.queue, adopted.queue) == (OWN, OWN)
    assert ledger.seen(adopted) == adopted


def test_it_is_begun_by_nobody_beside_a_run_of_its_own(ledger: Ledger) -> None:
    ledger.save(draft("pump", stay_alive=True))
    first = run_now(ledger, "manual-1")

    with pytest.raises(RunsAlready, match=f"one run at a time, and it has execution {first.id};"):
        run_now(ledger, "alive-0")

    assert run_now(ledger, "manual-1") == first
    ledger.records.cancel(first.id, now=ledger.now)
    assert run_now(ledger, "alive-1").state is State.CLAIMED


@pytest.mark.parametrize("is_planned", [False, True])
def test_of_many_that_begin_it_at_once_one_does(ledger: Ledger, *, is_planned: bool) -> None:
    ledger.save(draft("pump", stay_alive=True, schedule="* * * * *", date_time=None))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)

    def begin(number: int) -> Execution | None:
        if is_planned and not number:
            ledger.claim_due()
            return None
        try:
            return run_now(ledger, f"manual-{number // 2}")
        except RunsAlready:
            return None

    at_once(8, begin)

    unfinished = [run for run in ledger.executions() if run.state is State.CLAIMED]
    assert len(unfinished) == 1


def run_now(ledger: Ledger, key: str) -> Execution:
    id_ = ids_of(ledger.schedules, ["pump"])["pump"]
    return ledger.run_now(id_, key)


def test_what_was_begun_to_stay_alive_and_has_not_ended_is_listed_by_itself(
    ledger: Ledger,
) -> None:
    ledger.save(draft("pump", stay_alive=True), draft("innocent"))
    begun = run_now(ledger, "alive-0")
    ledger.save(draft("pump"))
    ids = ids_of(ledger.schedules, ["pump", "innocent"])
    for name, key in (("pump", "manual-1"), ("pump", "manual-2"), ("innocent", "manual-3")):
        ledger.run_now(ids[name], key)

    def found(schedule: str | None) -> list[int]:
        which = ExecutionFilter(schedule=schedule, states=UNFINISHED, stays_alive=True, limit=1)
        return [run.id for run in ledger.records.executions(which)]

    assert (found(None), found("pump"), found("innocent")) == ([begun.id], [begun.id], [])
    ledger.records.cancel(begun.id, now=ledger.now)
    assert (found(None), found("pump")) == ([], [])
