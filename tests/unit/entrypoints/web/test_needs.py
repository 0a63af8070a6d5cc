"""What routes need of whoever asks."""

import pytest
from fastapi import Request

from cronhare.domain.access import Actor, Channel, Scope
from cronhare.entrypoints.web.access import needs
from cronhare.entrypoints.web.problems import Problem

ACTOR = Actor(name="ci", channel=Channel.API, scope=Scope.OPERATE)


@pytest.fixture
def request_() -> Request:
    return Request({"type": "http", "state": {"actor": ACTOR}})


@pytest.mark.parametrize("scope", [Scope.READ, Scope.OPERATE])
def test_whoever_has_the_scope_or_a_wider_one_may_ask(scope: Scope, request_: Request) -> None:
    assert needs(scope).dependency(request_) is None


def test_whoever_has_it_not_is_told_which_scope_is_needed(request_: Request) -> None:
    with pytest.raises(Problem, match="needs the scope admin; ci has operate") as caught:
        needs(Scope.ADMIN).dependency(request_)

    assert caught.value.status == 403
