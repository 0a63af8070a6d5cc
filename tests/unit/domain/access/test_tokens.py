"""Tokens, sessions, tries, and who needs a token at all."""

from datetime import timedelta

import attrs
import pytest

from cronhare.domain.access import (
    LONGEST_LIFE,
    MOST_FROM_ALL,
    MOST_FROM_ONE,
    MOST_REMEMBERED,
    PREFIX,
    RANDOM_BYTES,
    WINDOW,
    Approach,
    Channel,
    Login,
    Scope,
    Token,
    TokenInvalid,
    Tries,
    digest_of,
    is_free,
    local_path,
    looks_like_token,
    make_token,
    new_token,
)
from tests.actors import ADA
from tests.unit.application.house import NOON

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


def test_who_asks_with_a_token_has_its_name_and_its_scope() -> None:
    actor = token().actor(Channel.PAGE)

    assert (actor.name, actor.channel, actor.scope) == ("ci", "page", Scope.OPERATE)


def test_a_tokens_digest_is_in_no_print_of_it() -> None:
    ours = new_token("ci", Scope.READ, digest=digest_of("secret"), lives=None, now=NOON, by=ADA)

    assert digest_of("secret") not in repr(ours)


@pytest.mark.parametrize("name", ["", "local", "Ada", "a b", "a\n", "x" * 64, "ada@office", "../a"])
def test_a_token_has_a_name_that_is_nobody_elses(name: str) -> None:
    with pytest.raises(TokenInvalid, match="a token's name"):
        token(name)


@pytest.mark.parametrize("lives", [timedelta(0), -SECOND, LONGEST_LIFE + SECOND])
def test_a_token_lives_for_a_time_that_can_be(lives: timedelta) -> None:
    with pytest.raises(TokenInvalid, match="lives for"):
        token(lives=lives)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ui",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\x00",
        "/ui/\r\nSet-Cookie: a=b",
        "/ü",
        "/" + "a" * 3_000,
        "/ui/sign-out",
        "/ui/sign-in?next=/",
    ],
)
def test_after_signing_in_nobody_is_sent_elsewhere(text: str) -> None:
    assert local_path(text) == "/"


def test_after_signing_in_people_are_where_they_were() -> None:
    assert local_path("/ui/failed?schedule=a&limit=5") == "/ui/failed?schedule=a&limit=5"


def test_who_tries_too_many_from_one_address_waits_and_others_do_not() -> None:
    tries = Tries()
    for second in range(MOST_FROM_ONE):
        assert tries.wait("a", "x", now=second) == 0
        tries.was_wrong("a", "x", now=second)

    assert tries.wait("a", "x", now=10.0) == WINDOW - 10.0
    assert tries.wait("b", "x", now=10.0) == 0
    assert tries.wait("a", "x", now=WINDOW) == 0


def test_many_addresses_together_wait_too() -> None:
    tries = Tries()
    for number in range(MOST_FROM_ALL):
        tries.was_wrong(str(number), "x", now=1.0)

    assert tries.wait("new", "x", now=1.0) == WINDOW


def test_whoever_has_a_valid_token_is_not_kept_out_by_those_who_try() -> None:
    tries = Tries()
    tries.was_valid("mine")
    for _ in range(MOST_FROM_ONE):
        tries.was_wrong("proxy", "x", now=1.0)

    assert tries.wait("proxy", "mine", now=1.0) == 0
    assert tries.wait("proxy", "x", now=1.0) > 0
    tries.was_wrong("proxy", "mine", now=1.0)  # it was revoked
    assert tries.wait("proxy", "mine", now=1.0) > 0


def test_what_is_remembered_of_tries_is_bounded() -> None:
    tries = Tries()
    for number in range(3 * MOST_REMEMBERED):
        tries.was_wrong(str(number), "x", now=1.0)
        tries.was_valid(str(number))

    assert len(tries._of_one) == len(tries._valid) == MOST_REMEMBERED


HERE = Approach(is_loopback=True, is_forwarded=False)


@pytest.mark.parametrize(
    ("login", "approach", "any_token", "free"),
    [
        (Login.AUTO, HERE, False, True),
        (Login.AUTO, HERE, True, False),
        (Login.NEVER, HERE, True, True),
        (Login.ALWAYS, HERE, False, False),
        (Login.AUTO, attrs.evolve(HERE, is_forwarded=True), False, False),
        (Login.NEVER, attrs.evolve(HERE, is_forwarded=True), False, False),
        (Login.NEVER, attrs.evolve(HERE, is_loopback=False), False, False),
    ],
)
def test_who_needs_no_token(
    login: Login,
    approach: Approach,
    any_token: bool,
    free: bool,
) -> None:
    assert is_free(approach, login, any_token=any_token) is free
