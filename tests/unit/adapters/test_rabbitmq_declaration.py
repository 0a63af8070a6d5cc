"""The steps of a declaration, and what becomes of each refusal."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from pika.spec import (
    ACCESS_REFUSED,
    CONNECTION_FORCED,
    INTERNAL_ERROR,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_LOCKED,
)

from cronhare.adapters.rabbitmq.topology.declaration import Declared, declaration
from cronhare.adapters.rabbitmq.topology.steps import (
    MOST_LOST,
    Bind,
    ConnectionLosses,
    Declare,
    PassiveDeclare,
    Refused,
    Step,
)
from cronhare.domain.topology import DEAD_LETTER_EXCHANGE, MAIN_QUEUE, topology
from cronhare.ports.broker import BrokerUnavailable

TOPOLOGY = topology(retry_delay=timedelta(seconds=30))

Answer = Callable[[Step], Refused | None]


def no(code: int, *, costs_connection: bool = False) -> Refused:
    return Refused(
        code=code, text=f"no {code}", costs_connection=costs_connection, cause=OSError("no")
    )


def declared(answer: Answer, losses: ConnectionLosses | None = None) -> tuple[Declared, list[Step]]:
    """Answer each question; give what was found, and all that was asked."""
    asked: list[Step] = []
    steps = declaration(TOPOLOGY, vhost="v", losses=losses or ConnectionLosses())
    step = next(steps)
    while not isinstance(step, Declared):
        asked.append(step)
        step = steps.send(answer(step))
    return step, asked


def about(name: str, *, look: Refused | None, make: Refused | None = None) -> Answer:
    """Answer so for what has this name, and well for all others."""

    def answer(step: Step) -> Refused | None:
        match step:
            case PassiveDeclare(thing) if thing.name == name:
                return look
            case Declare(thing) if thing.name == name:
                return make
        return None

    return answer


def test_everything_is_looked_for_then_made_then_bound() -> None:
    found, asked = declared(lambda _: None)

    things = [type(each) for each in asked if not isinstance(each, Bind)]
    assert found == Declared()
    assert things == [PassiveDeclare, Declare] * len(TOPOLOGY.things)
    assert asked[len(things) :] == [Bind(each) for each in TOPOLOGY.bindings]


def test_what_is_there_with_other_arguments_is_told_with_its_cure() -> None:
    found, _ = declared(about(MAIN_QUEUE, look=None, make=no(PRECONDITION_FAILED)))

    [difference] = found.differences
    assert (difference.name, difference.what) == (MAIN_QUEUE, "no 406")
    assert "rabbitmqctl delete_queue --vhost v" in difference.cure


def test_what_may_be_used_and_not_configured_is_used() -> None:
    found, _ = declared(about(MAIN_QUEUE, look=None, make=no(ACCESS_REFUSED)))

    assert found == Declared()


@pytest.mark.parametrize("code", [NOT_FOUND, RESOURCE_LOCKED])
def test_a_queue_that_is_refused_is_left_out_with_its_roads(code: int) -> None:
    found, asked = declared(about(MAIN_QUEUE, look=no(code), make=no(ACCESS_REFUSED)))

    assert [each.name for each in found.refusals] == [MAIN_QUEUE]
    assert not [
        each for each in asked if isinstance(each, Bind) and each.binding.target == MAIN_QUEUE
    ]
    with pytest.raises(BrokerUnavailable, match="no 403"):
        found.check()


def test_a_queue_over_which_the_connection_is_lost_is_not_asked_about_again() -> None:
    lost = no(INTERNAL_ERROR, costs_connection=True)
    found, asked = declared(about(MAIN_QUEUE, look=lost))

    assert [each.what for each in found.refusals] == ["no 541"]
    assert not [
        each for each in asked if isinstance(each, Declare) and each.thing.name == MAIN_QUEUE
    ]


def test_after_too_many_losses_what_is_missing_is_not_made() -> None:
    found, asked = declared(about(MAIN_QUEUE, look=no(NOT_FOUND)), ConnectionLosses(MOST_LOST))

    assert "tried before it, cost the connection each" in found.refusals[0].what
    assert not [
        each for each in asked if isinstance(each, Declare) and each.thing.name == MAIN_QUEUE
    ]


def test_an_exchange_that_cannot_be_made_stops_all() -> None:
    refused = no(ACCESS_REFUSED)

    with pytest.raises(BrokerUnavailable, match=f"exchange {DEAD_LETTER_EXCHANGE}") as caught:
        declared(about(DEAD_LETTER_EXCHANGE, look=no(NOT_FOUND), make=refused))

    assert caught.value.__cause__ is refused.cause


def test_a_connection_that_is_ended_for_reasons_of_the_brokers_is_no_answer() -> None:
    losses = ConnectionLosses()

    assert not losses.note(CONNECTION_FORCED)
    assert [losses.note(INTERNAL_ERROR) for _ in range(MOST_LOST + 1)] == [True] * MOST_LOST + [
        False
    ]
