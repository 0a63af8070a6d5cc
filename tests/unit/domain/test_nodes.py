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


def other(**changes: object) -> str:
    fields = {"host": OURS.host, "pid": OURS.pid, "place": OURS.place, "nonce": "00000002"}
    return str(Node(**{**fields, **changes}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["", "ant", "web-1-7", "web-1-7-0000000a", "web-1-0-0000000a00000001", "-7-0000000a00000001"],
)
def test_what_is_no_name_of_ours_is_none(name: str) -> None:
    assert read_node(name) is None
    assert container_id(name) == name


def test_the_original_name_is_host_and_pid() -> None:
    assert container_id(str(OURS)) == "web-1-7"


@pytest.mark.parametrize(
    ("owner", "is_gone", "is_suspected"),
    [
        (other(), True, False),  # an earlier life of our own PID
        (other(pid=8), True, False),
        (other(pid=9, host="web-2"), True, False),  # whatever its host was called
        (other(place="0000000b"), False, True),  # our host and PID elsewhere: a neighbour, perhaps
        (str(OURS), False, False),
        (other(pid=1), False, False),
        (other(place="0000000b", pid=8), False, False),
        (other(place="0000000b", host="web-2"), False, False),
        ("web-1-7", False, False),
        ("web-1-8", False, False),
    ],
)
def test_who_may_well_live_is_left_to_its_lease(
    owner: str, *, is_gone: bool, is_suspected: bool
) -> None:
    found = departed([owner], ourselves=OURS, lives=(1, 7).__contains__)

    assert found == Departed(gone=[owner] * is_gone, suspected=[owner] * is_suspected)


@pytest.mark.parametrize("seconds", [15, 30, 3_600])
def test_a_suspected_owner_has_ended_its_tasks_before_they_count_as_lost(seconds: int) -> None:
    lease = timedelta(seconds=seconds)

    assert given_up_after(lease) + TIME_TO_END <= silence(lease) <= lease


def test_each_step_of_a_shutdown_ends_before_whoever_waits_for_it() -> None:
    assert FAREWELL < DISCONNECTING < CLOSING
    assert PAUSING + INTERRUPTING + CLOSING <= ENDING - 1
