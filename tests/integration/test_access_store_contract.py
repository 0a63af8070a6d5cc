"""What every ledger promises of tokens and sessions, and of its audit."""

from datetime import timedelta
from typing import Any

from cronhare.domain.access import USED_EVERY, Scope, Session, Token, digest_of, new_token
from cronhare.domain.audit import Action, AuditEntry, AuditOutcome, Intent, Result
from cronhare.ports.records import AuditFilter, Retention
from tests.actors import ADA, CI
from tests.integration.ledgers import DAY, SECOND, Ledger, at_once


def token(ledger: Ledger, name: str = "ci", secret: str = "", **given: Any) -> Token:  # noqa: ANN401
    made = {"lives": None, "scope": Scope.OPERATE, "now": ledger.now, "by": ADA, **given}
    return new_token(name, digest=digest_of(secret or name), **made)


def session(
    ledger: Ledger, of: Token, cookie: str = "cookie", *, lasts: timedelta = DAY
) -> Session:
    return Session(
        digest=digest_of(cookie),
        token=of.name,
        token_digest=of.digest,
        created_at=ledger.now,
        expires_at=ledger.now + lasts,
    )


def test_a_token_is_found_by_its_digest_as_it_was_made(ledger: Ledger) -> None:
    ours = token(ledger, lives=DAY)
    assert not ledger.access.any_token()

    assert ledger.access.create(ours, now=ledger.now)

    assert ledger.access.any_token()
    assert ledger.access.token(ours.digest) == ours
    assert ledger.access.token(ours.digest.upper()) is None
    assert ledger.access.token(digest_of("other")) is None


def test_a_name_is_taken_as_long_as_its_token_is_valid(ledger: Ledger) -> None:
    first = token(ledger, lives=SECOND)
    second, third = (token(ledger, secret=secret) for secret in ("second", "third"))

    answers = [ledger.access.create(each, now=ledger.now) for each in (first, second)]
    ledger.clock.advance(SECOND)
    answers.append(ledger.access.create(second, now=ledger.now))
    ledger.access.revoke("ci", now=ledger.now)
    answers.append(ledger.access.create(third, now=ledger.now))

    assert answers == [True, False, True, True]
    assert ledger.access.tokens() == [third]


def test_of_callers_at_a_time_one_gets_the_name(ledger: Ledger) -> None:
    answers = at_once(
        4, lambda number: ledger.access.create(token(ledger, secret=str(number)), now=ledger.now)
    )

    assert sorted(answers) == [False, False, False, True]


def test_a_use_is_written_down_once_in_a_while(ledger: Ledger) -> None:
    ours = token(ledger)
    ledger.access.create(ours, now=ledger.now)

    def used() -> object:
        ledger.access.used(ours.digest, now=ledger.now)
        [found] = ledger.access.tokens()
        return found.last_used_at

    first = ledger.now
    assert used() == first
    ledger.clock.advance(USED_EVERY - SECOND)
    assert used() == first
    ledger.clock.advance(SECOND)
    assert used() == ledger.now


def test_a_revoked_token_stays_known_and_its_sessions_go(ledger: Ledger) -> None:
    ours, other = token(ledger), token(ledger, "other")
    for each in (ours, other):
        ledger.access.create(each, now=ledger.now)
        ledger.access.begin(session(ledger, each, each.name), now=ledger.now)
    when = ledger.now

    revoked = ledger.access.revoke("ci", now=when)
    ledger.clock.advance(SECOND)
    again = ledger.access.revoke("ci", now=ledger.now)

    assert revoked is not None
    assert revoked == again == ledger.access.token(ours.digest)
    assert (revoked.revoked_at, ledger.access.any_token()) == (when, True)
    assert ledger.access.session(digest_of("ci")) is None
    assert ledger.access.session(digest_of("other")) is not None
    assert ledger.access.revoke("unknown", now=ledger.now) is None


def test_a_session_is_found_with_its_token_until_it_is_ended(ledger: Ledger) -> None:
    ours = token(ledger)
    ledger.access.create(ours, now=ledger.now)
    begun = session(ledger, ours)

    ledger.access.begin(begun, now=ledger.now)

    assert ledger.access.session(begun.digest) == (begun, ours)
    ledger.access.end(begun.digest)
    ledger.access.end(begun.digest)
    assert ledger.access.session(begun.digest) is None


def test_sessions_that_are_over_go_when_another_begins(ledger: Ledger) -> None:
    ours = token(ledger)
    ledger.access.create(ours, now=ledger.now)
    short, long = session(ledger, ours, "short", lasts=SECOND), session(ledger, ours, "long")
    for each in (short, long):
        ledger.access.begin(each, now=ledger.now)

    ledger.clock.advance(SECOND)
    ledger.access.begin(session(ledger, ours, "third"), now=ledger.now)

    assert ledger.access.session(short.digest) is None
    assert ledger.access.session(long.digest) is not None


# The audit


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
