"""What people do to tables: rules, open transactions; and what becomes of executions then."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

from sqlalchemy import URL

from cronhare.domain.execution import Execution, State
from tests.services.databases import connect

from .ledgers import MINUTE, Ledger, Shell

SAYS = "nobody writes this"

#: Lets a table refuse, at an event, the rows for which a condition holds.
Refusing: TypeAlias = Callable[[str, str, str], AbstractContextManager[None]]


#: Keeps what a statement finds, or writes, from everybody else.
Holding: TypeAlias = Callable[[str], AbstractContextManager[None]]


def refusing_in(database: str, shell: Shell) -> Refusing:
    """Let a table refuse rows as a rule does that somebody has given it: a trigger."""

    @contextmanager
    def rule(table: str, event: str, when: str) -> Iterator[None]:
        begin = f"CREATE TRIGGER refusing BEFORE {event} ON {table} FOR EACH ROW"
        on_postgresql = database == "postgresql"
        if on_postgresql:
            shell(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE EXCEPTION '{SAYS}'; END $$"
            )
            shell(f"{begin} WHEN ({when}) EXECUTE FUNCTION refuse()")
        elif database == "sqlite":
            shell(f"{begin} WHEN {when} BEGIN SELECT RAISE(ABORT, '{SAYS}'); END")
        else:
            signal = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{SAYS}'"
            shell(f"{begin} IF {when} THEN {signal}; END IF")
        try:
            yield
        finally:
            shell("DROP FUNCTION refuse CASCADE" if on_postgresql else "DROP TRIGGER refusing")

    return rule


def holding_in(url: URL) -> Holding:
    """Leave a transaction open, as a person does who goes for a coffee; it is taken back."""

    @contextmanager
    def session(statement: str) -> Iterator[None]:
        with connect(url) as person, person.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(statement)
            try:
                yield
            finally:
                person.rollback()

    return session


def some(ledger: Ledger, count: int = 5) -> list[Execution]:
    """Claim executions, oldest first."""
    for number in range(count):
        ledger.add(f"report-{number}", schedule=None, date_time=ledger.now + MINUTE)
    ledger.clock.advance(MINUTE)
    return sorted(ledger.claim_due().claimed, key=lambda one: one.id)


def claim_all(ledger: Ledger) -> list[Execution]:
    """Claim what is due as the dispatcher does, page by page; in the order of schedules."""
    claimed: list[Execution] = []
    more = True
    while more:
        batch = ledger.claim_due()
        claimed += batch.claimed
        more = batch.more
    return sorted(claimed, key=lambda one: one.scheduler_id)


def all_started(ledger: Ledger, found: list[Execution]) -> list[Execution]:
    return [one for one in ledger.start_all(found) if isinstance(one, Execution)]


def apart(ledger: Ledger, broken: Execution) -> str:
    """Give the reason for which an execution is set apart."""
    seen = ledger.seen(broken)
    assert seen.state is State.QUARANTINED
    assert seen.last_error is not None
    return seen.last_error
