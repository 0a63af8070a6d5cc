"""A queue that nobody serves, and a topic to which nobody listens: either may be misspelt.

One rule for each, wherever a schedule is made, edited, tried or checked; who asks says whom it
knows of.
"""

from collections.abc import Collection, Iterable

from ..texts.printable import echo
from ..texts.words import hint
from ..topology import MAIN_QUEUE
from .draft import ScheduleDraft
from .standalone import is_standalone
from .task import Task


def queue_of(draft: ScheduleDraft, *, before: ScheduleDraft | None = None) -> str | None:
    """Give the queue of a draft, if somebody has named it; of an edit another than *before*."""
    queue = draft.queue
    if draft.stay_alive or queue == MAIN_QUEUE or (before and before.queue == queue):
        return None
    return queue


def note_unserved(queue: str, served: Collection[str], *, by: str = "worker") -> str | None:
    """Note that none of those who are known serves a queue.

    None is offered that only what stays alive may have.

    >>> note_unserved("mial", ["mail", "cron_standalone.mail"])
    "queue: no worker serves 'mial', its runs wait for one; did you mean mail?"
    >>> note_unserved("x", ["mail", "cron_standalone.mail"])
    "queue: no worker serves 'x', its runs wait for one; there are mail"
    """
    if queue in served:
        return None
    text = f"queue: no {by} serves {echo(queue)}, its runs wait for one"
    return _said(text, queue, [name for name in served if not is_standalone(name)])


def topic_of(draft: ScheduleDraft, *, before: ScheduleDraft | None = None) -> str | None:
    """Give the topic of a draft; of an edit another than *before*."""
    return None if before and before.topic == draft.topic else draft.topic


def topics_of(tasks: Iterable[Task]) -> frozenset[str]:
    """Give the topics to which these tasks listen."""
    return frozenset(topic for task in tasks for topic in task.topics)


def note_unheard(topic: str, heard: Collection[str], *, of: str = "this jobs file") -> str | None:
    """Note that no task that is known listens to a topic.

    >>> note_unheard("orders.piad", [])
    "topic: no task of this jobs file listens to 'orders.piad', another file's may"
    """
    if topic in heard:
        return None
    text = f"topic: no task of {of} listens to {echo(topic)}, another file's may"
    return _said(text, topic, heard)


def _said(text: str, name: str, known: Collection[str]) -> str:
    return f"{text}; {hint(name, sorted(known))}" if known else text
