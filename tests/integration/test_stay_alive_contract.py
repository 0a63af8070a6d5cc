"""What every ledger promises of schedules with `stay_alive` (C40 in docs/compatibility.md)."""

import pytest

from cronhare.domain.execution import Execution, State
from cronhare.domain.messages.messages import TaskMessage
from tests.integration.ledgers import MINUTE, Ledger, draft
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

    by_hand = ledger.records.run_now(id_, key="manual-1", params=None, now=ledger.now, node="ant")
    adopted = ledger.attempts.adopt(
        message, key="manual-2", queue="cron_scheduler", deaths=0, now=ledger.now, node="ant"
    )

    assert isinstance(adopted, Execution)
    assert (by_hand.queue, adopted.queue) == (OWN, OWN)
    assert ledger.seen(adopted) == adopted


@pytest.mark.parametrize("name", ["*", "#", "ü" * 100, "a b"])
def test_a_name_that_no_queue_can_have_is_hashed(ledger: Ledger, name: str) -> None:
    ledger.save(draft(name, stay_alive=True))
    id_ = ids_of(ledger.schedules, [name])[name]

    run = ledger.records.run_now(id_, key="manual-1", params=None, now=ledger.now, node="ant")

    assert run.queue.startswith("cron_standalone.")
    assert len(run.queue) == len("cron_standalone.") + 32
    assert ledger.seen(run).problem is None


def test_the_draft_is_kept(ledger: Ledger) -> None:
    for stays in (True, False):
        ledger.save(draft("pump", stay_alive=stays))
        [stored] = ledger.schedules.schedules()
        assert stored.draft == draft("pump", stay_alive=stays)
