from datetime import timedelta

import pytest

from cronhare.domain.nodes import (
    CLOSING,
    DISCONNECTING,
    ENDING,
    FAREWELL,
    INTERRUPTING,
    PAUSING,
    TIME_TO_END,
    Departed,
    Node,
    container_id,
    departed,
    given_up_after,
    read_node,
    silence,
)

OURS = Node(host="web-1", pid=7, place="0000000a", nonce="00000001")
NOBODY = Departed(gone=[], suspected=[])


def other(**changes: object) -> str:
    fields = {"host": OURS.host, "pid": OURS.pid, "place": OURS.place, "nonce": "00000002"}
    return str(Node(**{**fields, **changes}))  # type: ignore[arg-type]


def told(*owners: str, alive: tuple[int, ...] = (1, 7)) -> Departed:
    return departed(owners, ourselves=OURS, lives=alive.__contains__)


@pytest.mark.parametrize(
    "name",
    ["", "ant", "web-1-7", "web-1-7-0000000a", "web-1-0-0000000a00000001", "-7-0000000a00000001"],
)
def test_what_is_no_name_of_ours_is_none(name: str) -> None:
    assert read_node(name) is None
    assert container_id(name) == name


def test_the_original_name_is_host_and_pid() -> None:
    assert container_id(str(OURS)) == "web-1-7"


def test_an_earlier_life_of_our_own_pid_is_gone() -> None:
    assert told(other()).gone == [other()]


def test_a_pid_of_our_own_place_that_is_nobodys_is_gone_whatever_its_host_was_called() -> None:
    dead = [other(pid=8), other(pid=9, host="web-2")]

    assert told(*dead).gone == dead


@pytest.mark.parametrize(
    "owner",
    [
        str(OURS),
        other(pid=1),
        other(place="0000000b", pid=8),
        other(place="0000000b", host="web-2"),
        "web-1-7",
        "web-1-8",
    ],
    ids=["ourselves", "alive", "another PID", "another host", "no nonce", "no nonce, dead PID"],
)
def test_who_may_well_live_is_left_to_its_lease(owner: str) -> None:
    assert told(owner) == NOBODY


def test_our_host_and_pid_elsewhere_may_be_a_neighbour_and_is_only_suspected() -> None:
    neighbour = other(place="0000000b")

    assert told(neighbour) == Departed(gone=[], suspected=[neighbour])


@pytest.mark.parametrize("seconds", [15, 30, 3_600])
def test_a_suspected_owner_has_ended_its_tasks_before_they_count_as_lost(seconds: int) -> None:
    lease = timedelta(seconds=seconds)

    assert given_up_after(lease) + TIME_TO_END <= silence(lease) <= lease


"""Each step of a shutdown ends before what waits for it."""


def test_each_gives_up_before_whoever_waits_for_it() -> None:
    assert FAREWELL < DISCONNECTING < CLOSING


def test_the_steps_of_a_worker_leave_time_for_its_end() -> None:
    assert PAUSING + INTERRUPTING + CLOSING <= ENDING - 1
