"""Scopes and actors."""

import pytest

from cronhare.domain.access import GIVEN, LONGEST_ACTOR, Actor, Channel, Scope


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
