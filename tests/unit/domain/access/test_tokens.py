"""Tokens."""

from datetime import timedelta

import attrs
import pytest

from cronhare.domain.access import (
    LONGEST_LIFE,
    PREFIX,
    RANDOM_BYTES,
    Scope,
    Token,
    TokenInvalid,
    digest_of,
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
