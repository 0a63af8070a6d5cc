"""Scopes, actors and tokens, and what the audit keeps of a value."""

from datetime import timedelta
from typing import Any

import attrs
import msgspec
import pytest

from cronhare.domain.access import (
    GIVEN,
    LONGEST_ACTOR,
    LONGEST_LIFE,
    PREFIX,
    RANDOM_BYTES,
    Actor,
    Channel,
    Scope,
    Token,
    TokenInvalid,
    looks_like_token,
    make_token,
    new_token,
)
from cronhare.domain.audit import (
    LONGEST_PROBLEM,
    LONGEST_TARGET,
    Action,
    AuditOutcome,
    Intent,
    Result,
    kept,
)
from tests.actors import ADA
from tests.unit.application.house import NOON


@pytest.mark.parametrize("scope", GIVEN)
def test_a_scope_includes_those_below_it_and_no_other(scope: Scope) -> None:
    actor = Actor(name="ci", channel=Channel.API, scope=scope)

    allowed = [each.word for each in GIVEN if actor.may(each)]

    assert allowed == ["read", "operate", "admin"][: scope.value]


@pytest.mark.parametrize("text", ["", "nothing", "READ", "write", "read ", "1", "admin\n"])
def test_what_is_no_scope_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(ValueError, match="must be one of read, operate, admin"):
        Scope.parse(text)


@pytest.mark.parametrize(
    "name", ["", "a\nb", "\x1b[2J", "a\0", "\u202e", "x" * (LONGEST_ACTOR + 1)]
)
def test_an_actor_has_a_name_that_deceives_no_reader(name: str) -> None:
    with pytest.raises(ValueError, match="printable"):
        Actor(name=name, channel=Channel.CLI, scope=Scope.ADMIN)


SECOND = timedelta(seconds=1)


def token(name: str = "ci", lives: timedelta | None = None) -> Token:
    return new_token(name, Scope.OPERATE, digest="d", lives=lives, now=NOON, by=ADA)


def test_a_token_has_all_of_its_chance_and_is_known_for_one() -> None:
    found = {make_token(bytes([bit]) * RANDOM_BYTES) for bit in range(256)}

    assert len(found) == 256
    assert all(looks_like_token(each) for each in found)
    assert {each[: len(PREFIX)] for each in found} == {"chr_"}


@pytest.mark.parametrize(
    "text", ["", "chr_", "chr_" + "A" * 42, "chr_" + "A" * 44, "chr_" + "é" * 43, "A" * 47]
)
def test_what_is_none_is_not_looked_for(text: str) -> None:
    assert not looks_like_token(text)
    assert not looks_like_token(make_token(bytes(32)) + "\n")


def test_a_token_ends_in_its_last_moment_and_when_it_is_revoked() -> None:
    ours = token(lives=SECOND)

    assert ours.why_not(NOON) is None
    assert "expired" in str(ours.why_not(NOON + SECOND))
    assert "revoked" in str(attrs.evolve(ours, revoked_at=NOON).why_not(NOON))
    assert token().why_not(NOON + LONGEST_LIFE) is None


@pytest.mark.parametrize("name", ["", "local", "Ada", "a b", "a\n", "x" * 64, "ada@office", "../a"])
def test_a_token_has_a_name_that_is_nobody_elses(name: str) -> None:
    with pytest.raises(TokenInvalid, match="a token's name"):
        token(name)


@pytest.mark.parametrize("lives", [timedelta(0), -SECOND, LONGEST_LIFE + SECOND])
def test_a_token_lives_for_a_time_that_can_be(lives: timedelta) -> None:
    with pytest.raises(TokenInvalid, match="lives for"):
        token(lives=lives)


DEEP: Any = "end"
for _ in range(5_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**6,
        ["x" * 10**3] * 10**4,
        {str(number): "x" * 10**3 for number in range(10**4)},
        DEEP,
        10**5_000,
        {"\x1b" * 10**6: "\0"},
        ["\ud800"],
    ],
    ids=["text", "texts", "members", "deep", "number", "name", "surrogate"],
)
def test_a_value_is_kept_as_json_of_bounded_length_width_and_depth(value: object) -> None:
    assert len(msgspec.json.encode(kept(value))) < 150_000


def test_what_is_small_is_kept_as_it_is() -> None:
    names = ("concurrency_key", "tokens_left", "passenger", "key", "keyboard", "secretary")
    value = {"params": {"controller": "Report", "numbers": [1, 2.5, None, False]}}

    assert kept(value | dict.fromkeys(names, 7)) == value | dict.fromkeys(names, 7)


@pytest.mark.parametrize(
    "name",
    [
        *("password", "API_KEY", "db_password", "x-api-key", "Authorization", "access_token"),
        *("accessToken", "dbPassword", "pwd", "APIKey", "client-secret", "sessionCookie"),
    ],
)
def test_what_its_name_calls_a_secret_is_kept_nowhere(name: str) -> None:
    found = kept({"params": {"user": "ada", name: ["canary"], "inner": [{name: "canary"}]}})

    assert "canary" not in str(found)
    assert "ada" in str(found)


@pytest.mark.parametrize(
    "text",
    [
        *("Bearer canary1234", "Authorization: Basic canary==", "chr_" + "canary_" * 6 + "c"),
        *("amqp://u:canary@h:5672/", "mysql://u:p@canary@h/x", "redis://:canary@h"),
        *("https://ada:canary@example.org/", "see ftp://canary@host:21/x"),
        *("eyJhbGciOi.canary12.sig", "-----BEGIN EC PRIVATE KEY-----\ncanary"),
        *(
            "https://hooks.slack.com/services/T/B/canary",
            "https://discord.com/api/webhooks/1/canary",
        ),
    ],
)
def test_what_a_text_shows_of_a_secret_is_kept_nowhere(text: str) -> None:
    intent = Intent(
        at=NOON,
        actor=ADA,
        action=Action.RUN,
        target=text,
        before={"args": [text], text: 1},
        after={"description": f"as {text} is"},
    )
    result = Result(id=1, at=NOON, outcome=AuditOutcome.REFUSED, problem=text, after=text)

    assert "canary" not in f"{intent} {result}"
    assert "as " in intent.after["description"]


@pytest.mark.parametrize(
    "text",
    [
        *("there is a schedule refresh-token already", "https://example.org:8080/x?a=b", "key: 5"),
        *(
            "see https://example.org/@ada",
            "tokens_left: 7",
            "compass: north",
            "this token is not valid",
        ),
        *("schedule nightly: its row is broken", "concurrency_key: db", "--verbose --passive yes"),
        *("mysql -h db -P3306 -p shop", "curl -u ada host", "the password is in the vault"),
    ],
)
def test_other_texts_are_kept_as_they_are(text: str) -> None:
    assert kept(text) == text


def test_what_was_changed_and_why_not_deceive_no_reader() -> None:
    intent = Intent(at=NOON, actor=ADA, action=Action.RUN, target="a\n\x1b[2J" + "x" * 1_000)
    result = Result(id=1, at=NOON, outcome=AuditOutcome.REFUSED, problem="\x1b" * 10_000 + "\u202e")

    assert intent.target.isprintable()
    assert len(intent.target) <= LONGEST_TARGET
    assert result.problem is not None
    assert result.problem.isprintable()
    assert len(result.problem) <= LONGEST_PROBLEM
