"""What every ledger promises of tokens and sessions."""

from datetime import timedelta
from typing import Any

from cronhare.domain.access import USED_EVERY, Scope, Session, Token, digest_of, new_token
from tests.actors import ADA
from tests.integration.ledgers import SECOND, Ledger, at_once

DAY = timedelta(days=1)


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


def test_tokens_are_listed_by_name(ledger: Ledger) -> None:
    for name in ("b", "a.1", "a-1"):
        ledger.access.create(token(ledger, name), now=ledger.now)

    assert [each.name for each in ledger.access.tokens()] == ["a-1", "a.1", "b"]


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
