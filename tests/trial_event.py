"""An event for tests that need one of no run."""

from datetime import datetime

from cronhare.domain.events.events import Event
from cronhare.domain.events.targets import EventKind


def trial(target: str, *, now: datetime, id_: str) -> Event:
    """Describe an event that tells a target nothing but that it can be reached."""
    return Event(
        id=f"test:{id_}",
        kind=EventKind.FAILED,
        schedule="test",
        scheduler_id=0,
        execution_id=None,
        at=now,
        data={
            "scheduledJobId": 0,
            "topic": None,
            "lastError": f"This is a test of {target}: nothing has failed",
            "attempts": 0,
            "metadata": {"test": True},
        },
    )
