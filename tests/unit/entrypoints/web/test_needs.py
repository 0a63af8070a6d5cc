"""What routes need of whoever asks."""

import pytest

from cronhare.domain.access import Actor, Channel, Scope
from cronhare.entrypoints.web.access import need
from cronhare.entrypoints.web.problems import Problem

ACTOR = Actor(name="ci", channel=Channel.API, scope=Scope.OPERATE)


@pytest.mark.parametrize("scope", [Scope.READ, Scope.OPERATE])
def test_whoever_has_the_scope_or_a_wider_one_may_ask(scope: Scope) -> None:
    need(ACTOR, scope)


def test_whoever_has_it_not_is_told_which_scope_is_needed() -> None:
    with pytest.raises(Problem, match="needs the scope admin; ci has operate") as caught:
        need(ACTOR, Scope.ADMIN)

    assert caught.value.status == 403
