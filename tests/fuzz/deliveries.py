"""Boundary: what others publish into our queues, through a real broker."""

from tests.fuzz.corpus import Answer, Boundary, Entry
from tests.fuzz.works import Works, works


def _no_json(works: Works) -> Answer:
    works.publish(b"{")
    works.wait_for_line("message.parked", naming="not a task message")
    return Answer.REFUSED


def _nothing(works: Works) -> Answer:
    works.publish(b"")
    works.wait_for_line("message.parked", naming="not a task message")
    return Answer.REFUSED


BOUNDARY = Boundary(
    name="deliveries",
    at=works,
    entries=[
        Entry("a bracket", _no_json, short=True),
        Entry("nothing", _nothing),
    ],
)
