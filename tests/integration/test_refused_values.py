"""Values that the database itself refuses: the one they belong to is set apart, no other waits."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import TypeAlias

import pytest

from cronhare.domain.deaths import NO_NACKS
from cronhare.domain.execution import Execution, State
from cronhare.domain.messages import TaskMessage
from cronhare.domain.retry import Complete
from cronhare.ports.attempts import Finish, Refused, Start
from cronhare.ports.claims import Graces
from cronhare.ports.records import Retention
from cronhare.ports.runner import Captured, Ran
from tests.integration.ledgers import FOR_GOOD, LEASE, LOSS, MINUTE, SUCCESS, Ledger, Shell, draft

DAY = timedelta(days=1)
SAYS = "nobody writes this"

#: Lets a table refuse, at an event, the rows for which a condition holds.
Refusing: TypeAlias = Callable[[str, str, str], AbstractContextManager[None]]


@pytest.fixture
def ledger(database_ledger: Ledger) -> Ledger:
    return database_ledger


@pytest.fixture
def refusing(database: str, shell: Shell) -> Refusing:
    """Let a table refuse rows as a rule does that somebody has given it: a trigger."""

    @contextmanager
    def rule(table: str, event: str, when: str) -> Iterator[None]:
        begin = f"CREATE TRIGGER refusing BEFORE {event} ON `{table}` FOR EACH ROW"
        if database == "sqlite":
            shell(f"{begin} WHEN {when} BEGIN SELECT RAISE(ABORT, '{SAYS}'); END")
        else:
            signal = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{SAYS}'"
            shell(f"{begin} IF {when} THEN {signal}; END IF")
        try:
            yield
        finally:
            shell("DROP TRIGGER refusing")

    return rule


def some(ledger: Ledger, count: int = 5) -> list[Execution]:
    """Claim executions, oldest first."""
    for number in range(count):
        ledger.add(f"report-{number}", schedule=None, date_time=ledger.now + MINUTE)
    ledger.clock.advance(MINUTE)
    return sorted(ledger.claim_due().claimed, key=lambda one: one.id)


def start_all(ledger: Ledger, found: list[Execution]) -> list[Execution | Refused]:
    wishes = [Start(execution_id=one.id, attempt=one.attempt, nacks=NO_NACKS) for one in found]
    return list(ledger.attempts.start(wishes, now=ledger.now, node="ant", lease=LEASE))


def all_started(ledger: Ledger, found: list[Execution]) -> list[Execution]:
    return [one for one in start_all(ledger, found) if isinstance(one, Execution)]


def states(ledger: Ledger, found: list[Execution]) -> list[State]:
    return [ledger.seen(one).state for one in found]


def apart(ledger: Ledger, broken: Execution) -> str:
    """Give the reason for which an execution is set apart."""
    seen = ledger.seen(broken)
    assert seen.state is State.QUARANTINED
    assert seen.last_error is not None
    return seen.last_error


def test_of_starts_the_one_that_is_refused_is_set_apart(ledger: Ledger, refusing: Refusing) -> None:
    found = some(ledger)
    broken = found[2]

    with refusing("ExecutionAttempt", "INSERT", f"NEW.execution_id = {broken.id}"):
        answers = start_all(ledger, found)

    assert [type(one) for one in answers] == [Execution, Execution, Refused, Execution, Execution]
    assert SAYS in apart(ledger, broken)
    assert [kept.execution_id for kept in ledger.records.archive()] == [broken.id]


@pytest.mark.parametrize(
    ("table", "event", "when", "lost"),
    [
        ("FailedTask", "INSERT", "NEW.execution_id = {}", False),
        ("FailedTask", "INSERT", "NEW.execution_id = {}", True),
        ("AttemptOutput", "INSERT", "NEW.execution_id = {}", False),
        ("ExecutionAttempt", "UPDATE", "NEW.execution_id = {}", False),
        ("ExecutionAttempt", "UPDATE", "NEW.execution_id = {}", True),
        ("SchedulerExecution", "UPDATE", "NEW.id = {} AND NEW.state <> 'quarantined'", False),
        ("SchedulerExecution", "UPDATE", "NEW.id = {} AND NEW.state <> 'quarantined'", True),
    ],
)
def test_of_ends_the_one_that_is_refused_is_set_apart(
    ledger: Ledger, refusing: Refusing, table: str, event: str, when: str, *, lost: bool
) -> None:
    started = all_started(ledger, some(ledger))
    broken = started[3]
    ran = LOSS if lost else Ran(outcome=SUCCESS.outcome, stdout=Captured(head="said", bytes=4))
    finishes = [Finish(execution=one, ran=ran, verdict=FOR_GOOD) for one in started]

    with refusing(table, event, when.format(broken.id)):
        if lost:
            ledger.attempts.give_up(finishes, now=ledger.now)
        else:
            ledger.attempts.finish(finishes, now=ledger.now, node="ant")

    assert SAYS in apart(ledger, broken)
    others = [one for one in started if one is not broken]
    assert states(ledger, others) == [State.FAILED] * 4


def test_of_leases_the_one_that_is_refused_is_let_go(ledger: Ledger, shell: Shell) -> None:
    started = all_started(ledger, some(ledger))
    broken = started[1]
    largest = 2**63 - 1  # SQLite would go on in floating point numbers
    shell(
        f"UPDATE SchedulerExecution SET version = {min(largest, 2**31 - 1)} WHERE id = {broken.id}"
    )

    ids = [one.id for one in started]
    renewal = ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE * 2)

    assert renewal.held >= {one.id for one in started if one is not broken}
    assert {ledger.seen(one).lease_until for one in started if one is not broken} == {
        ledger.now + LEASE * 2
    }


def test_of_leases_the_one_that_a_rule_refuses_is_set_apart(
    ledger: Ledger, refusing: Refusing
) -> None:
    started = all_started(ledger, some(ledger))
    broken = started[1]
    when = f"NEW.id = {broken.id} AND NEW.state = 'running'"

    with refusing("SchedulerExecution", "UPDATE", when):
        ids = [one.id for one in started]
        renewal = ledger.attempts.renew(ids, now=ledger.now, node="ant", lease=LEASE)

    assert renewal.held == {one.id for one in started if one is not broken}
    assert SAYS in apart(ledger, broken)


def test_of_schedules_the_one_whose_runs_are_refused_is_left_out(
    ledger: Ledger, refusing: Refusing
) -> None:
    ids = [ledger.add(f"report-{number}") for number in range(5)]
    ledger.clock.advance(MINUTE)
    claimed: list[int] = []
    problems: list[tuple[str, str]] = []
    more = True

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {ids[2]}"):
        while more:
            batch = ledger.claim_due()
            claimed += [one.scheduler_id for one in batch.claimed]
            problems += batch.problems
            more = batch.more

    assert sorted(claimed) == [id_ for id_ in ids if id_ != ids[2]]
    [(name, problem)] = problems
    assert name == "report-2"
    assert SAYS in problem
    assert [one.scheduler_id for one in ledger.claim_due().claimed] == [ids[2]]


def test_of_edits_the_one_whose_plan_is_refused_keeps_no_other_waiting(
    ledger: Ledger, refusing: Refusing
) -> None:
    ledger.save(*(draft(f"report-{number}") for number in range(5)))
    broken = ledger.schedules.ids(["report-2"])["report-2"]
    when = f"NEW.scheduler_id = {broken} AND NEW.problem IS NULL"

    with refusing("SchedulerPlan", "INSERT", when):
        more = True
        while more:
            more = ledger.plan_edited().more
    ledger.clock.advance(MINUTE)

    assert len(ledger.claim_due().claimed) == 4


def test_of_marks_the_one_that_is_refused_is_set_apart(ledger: Ledger, refusing: Refusing) -> None:
    found = some(ledger)
    broken = found[0]
    when = f"NEW.id = {broken.id} AND NEW.state <> 'quarantined'"

    with refusing("SchedulerExecution", "UPDATE", when):
        ledger.claims.mark_published(found, now=ledger.now)

    assert SAYS in apart(ledger, broken)
    assert states(ledger, found[1:]) == [State.PUBLISHED] * 4


def test_of_the_overdue_the_one_that_is_refused_is_set_apart(
    ledger: Ledger, refusing: Refusing
) -> None:
    found = some(ledger)
    broken = found[2]
    ledger.clock.advance(DAY)
    when = f"NEW.id = {broken.id} AND NEW.state <> 'quarantined'"
    taken: set[int] = set()

    with refusing("SchedulerExecution", "UPDATE", when):
        for _ in range(20):
            taken.update(
                one.id for one in ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=5)
            )

    assert taken >= {one.id for one in found if one is not broken}
    assert SAYS in apart(ledger, broken)


def test_a_message_whose_row_is_refused_is_refused(ledger: Ledger, refusing: Refusing) -> None:
    id_ = ledger.add()
    message = TaskMessage(scheduler_id=id_, type="report", id=25, params_scheduler="{}")

    with refusing("SchedulerExecution", "INSERT", f"NEW.scheduler_id = {id_}"):
        answer = ledger.attempts.adopt(
            message, key="manual-x", queue="cron_scheduler", deaths=0, now=ledger.now, node="ant"
        )

    assert isinstance(answer, Refused)
    assert SAYS in answer.reason


def test_what_another_table_holds_fast_does_not_keep_the_cleanup_from_the_rest(
    ledger: Ledger, shell: Shell
) -> None:
    found = some(ledger)
    for one in found:
        ledger.succeeded(one)
    shell(
        "CREATE TABLE Invoice (execution_id BIGINT, "
        "FOREIGN KEY (execution_id) REFERENCES SchedulerExecution (id))"
    )
    try:
        shell(f"INSERT INTO Invoice VALUES ({found[2].id})")
        ledger.clock.advance(DAY * 400)
        deleted = ledger.records.clean_up(now=ledger.now, retention=Retention())
    finally:
        shell("DROP TABLE Invoice")

    assert deleted == 4
    assert [one.id for one in ledger.executions()] == [found[2].id]


def test_what_was_put_back_by_hand_begins_anew_with_its_row_and_its_output(
    ledger: Ledger, shell: Shell
) -> None:
    said = Ran(outcome=SUCCESS.outcome, stdout=Captured(head="once", bytes=4))
    found = some(ledger)
    back = ledger.finished(found[0], Complete(), said)
    shell(
        "UPDATE SchedulerExecution SET state = 'published', finished_at = NULL "
        f"WHERE id = {back.id}"
    )

    started = all_started(ledger, found)
    [begun] = ledger.records.attempts(back.id)
    again = Ran(outcome=SUCCESS.outcome, stdout=Captured(head="twice", bytes=5))
    finishes = [Finish(execution=one, ran=again, verdict=Complete()) for one in started]
    answers = ledger.attempts.finish(finishes, now=ledger.now, node="ant")

    assert len(started) == 5
    assert (begun.ending, begun.finished_at, begun.node) == (None, None, "ant")
    assert answers == [State.SUCCEEDED] * 5
    assert [output.stdout.head for output in ledger.records.output(back.id)] == ["twice"]
