"""What every ledger promises of its audit."""

from typing import Any

from cronhare.domain.audit import Action, AuditEntry, AuditOutcome, Intent, Result
from cronhare.ports.records import AuditFilter, Retention
from tests.actors import ADA, CI
from tests.integration.ledgers import SECOND, Ledger

ALL = AuditFilter()


def intent(ledger: Ledger, target: str = "nightly", **changes: Any) -> Intent:  # noqa: ANN401
    return Intent(
        **{"at": ledger.now, "actor": ADA, "action": Action.RUN, "target": target, **changes}
    )


def entries(ledger: Ledger, which: AuditFilter = ALL, **page: Any) -> list[AuditEntry]:  # noqa: ANN401
    return list(ledger.audit.entries(which, **{"before": None, "limit": 100, **page}))


def test_what_was_begun_is_there_and_its_outcome_unknown(ledger: Ledger) -> None:
    value = {"params": {"ß": [1, 2.5, None, True]}, "text": "\n'\"\\"}

    [id_] = ledger.audit.begin([intent(ledger, before=None, after=value)])

    [entry] = entries(ledger)
    assert entry == AuditEntry(
        id=id_,
        at=ledger.now,
        actor=ADA.name,
        channel=ADA.channel,
        action=Action.RUN,
        target="nightly",
        before=None,
        after={"params": {"ß": [1, 2.5, None, True]}, "text": "\\n'\"\\"},
        outcome=AuditOutcome.UNKNOWN,
    )


def test_an_outcome_is_written_once_and_what_was_meant_stays_where_nothing_else_came_of_it(
    ledger: Ledger,
) -> None:
    first, second = ledger.audit.begin(
        [intent(ledger, after={"on": True}), intent(ledger, after={"on": False})]
    )
    later = ledger.now + SECOND
    done = Result(id=first, at=later, outcome=AuditOutcome.DONE, after={"execution": 7})
    refused = Result(id=second, at=later, outcome=AuditOutcome.REFUSED, problem="it is off")

    ledger.audit.finish([done, refused])
    ledger.audit.finish([Result(id=first, at=later, outcome=AuditOutcome.UNKNOWN)])

    two, one = entries(ledger)
    assert (one.outcome, one.after, one.finished_at) == ("done", {"execution": 7}, later)
    assert (two.outcome, two.after, two.problem) == ("refused", {"on": False}, "it is off")


def test_entries_are_listed_newest_first_and_by_pages(ledger: Ledger) -> None:
    ids = ledger.audit.begin([intent(ledger, str(number)) for number in range(5)])

    newest = entries(ledger, limit=2)
    older = entries(ledger, before=newest[-1].id, limit=2)

    assert [each.target for each in newest + older] == ["4", "3", "2", "1"]
    assert [each.id for each in newest + older] == [*reversed(ids)][:4]


def test_entries_are_found_by_time_actor_and_target(ledger: Ledger) -> None:
    ledger.audit.begin([intent(ledger, "a"), intent(ledger, "a", actor=CI)])
    ledger.clock.advance(SECOND)
    ledger.audit.begin([intent(ledger, "A"), intent(ledger, "b", actor=CI)])

    def targets(**which: Any) -> list[str]:  # noqa: ANN401
        return [each.target for each in entries(ledger, AuditFilter(**which))]

    assert targets(since=ledger.now) == ["b", "A"]
    assert targets(actor=CI.name) == ["b", "a"]
    assert targets(target="a") == ["a", "a"]
    assert targets(actor=CI.name, target="a", since=ledger.now - SECOND) == ["a"]


def test_the_cleanup_deletes_what_is_older_than_is_kept_however_much(ledger: Ledger) -> None:
    ledger.audit.begin([intent(ledger)] * 1_001)
    retention = Retention()
    ledger.clock.advance(SECOND)
    ledger.audit.begin([intent(ledger, "kept")])
    ledger.clock.advance(retention.audit)

    ledger.records.clean_up(now=ledger.now, retention=retention)

    assert [each.target for each in entries(ledger)] == ["kept"]
