"""Texts that the database finds and we read otherwise: blanks at the end.

Our columns compare as `utf8mb4_bin` does, which pads: `'running ' = 'running'`.
"""

from datetime import timedelta

import pytest

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.ports.errors import LedgerRefused
from tests.integration.ledgers import Ledger, Shell, draft
from tests.integration.rules import some
from tests.ports import ids_of

pytestmark = pytest.mark.integration

DAY = timedelta(days=1)
PADDED = "UPDATE SchedulerExecution SET state = CONCAT(state, ' ') WHERE id IN ({ids})"


@pytest.fixture
def ledger(mysql: Ledger) -> Ledger:
    mysql.plan_edited()
    return mysql


def pad(shell: Shell, found: list[Execution]) -> None:
    shell(PADDED.format(ids=", ".join(str(one.id) for one in found)))


@pytest.mark.parametrize("state", ["claimed", "published"])
def test_pages_of_padded_states_hide_nothing_that_is_overdue(
    ledger: Ledger, mysql_shell: Shell, state: str
) -> None:
    *spoilt, innocent = some(ledger, 7)
    if state == "published":
        ledger.claims.mark_published([*spoilt, innocent], now=ledger.now)
    pad(mysql_shell, spoilt)
    ledger.clock.advance(DAY)

    pages = [ledger.overdue(limit=2) for _ in range(5)]

    assert [len(page) for page in pages] == [2, 2, 2, 1, 0]
    assert pages[3] == [innocent.id]
    assert len(ledger.records.archive()) == 6


def test_an_instant_whose_key_has_a_blank_is_claimed_already_and_keeps_no_other(
    ledger: Ledger, mysql_shell: Shell
) -> None:
    ledger.add("spoilt")
    ledger.add("sound")
    ledger.clock.advance(timedelta(minutes=1))
    first = [one.schedule_name for one in ledger.claim_due().claimed]
    spoilt = ids_of(ledger.schedules, ["spoilt"])["spoilt"]
    mysql_shell(
        "UPDATE SchedulerExecution SET execution_key = CONCAT(execution_key, ' ') "
        f"WHERE scheduler_id = {spoilt}"
    )
    mysql_shell(
        "UPDATE SchedulerPlan SET next_due_at = next_due_at - INTERVAL 1 MINUTE "
        f"WHERE scheduler_id = {spoilt}"
    )

    again = ledger.claim_due().claimed
    ledger.clock.advance(timedelta(minutes=1))
    later = [one.schedule_name for one in ledger.claim_due().claimed]

    assert (sorted(first), list(again)) == (["sound", "spoilt"], [])
    assert sorted(later) == ["sound", "spoilt"]
    assert len(ledger.claims.overdue(now=ledger.now + DAY, graces=Graces(), limit=9)) == 4


@pytest.mark.parametrize("name", ["report ", "report   "])
def test_a_schedule_is_not_written_beside_one_whose_name_is_the_same_to_the_table(
    ledger: Ledger, mysql_shell: Shell, name: str
) -> None:
    id_ = ledger.add("report")
    mysql_shell(f"UPDATE Scheduler SET name = '{name}' WHERE id = {id_}")

    with pytest.raises(LedgerRefused) as refused:
        ledger.save(draft("other"), draft("report"))

    told = f"row {id_} of Scheduler is named {name!r}, and the table takes that for 'report'"
    assert told in str(refused.value)
    assert [each.name for each in ledger.schedules.schedules()] == [name]
