"""Each step of a shutdown ends before what waits for it."""

from cronhare.domain.nodes import CLOSING, DISCONNECTING, ENDING, FAREWELL, INTERRUPTING, PAUSING


def test_each_gives_up_before_whoever_waits_for_it() -> None:
    assert FAREWELL < DISCONNECTING < CLOSING


def test_the_steps_of_a_worker_leave_time_for_its_end() -> None:
    assert PAUSING + INTERRUPTING + CLOSING <= ENDING - 1


def test_the_failed_queue_is_drained_while_interrupted_tasks_end() -> None:
    assert PAUSING + CLOSING < INTERRUPTING
