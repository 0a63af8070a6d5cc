"""What a connection is worth that opens: a road may carry a greeting, and no message."""

from typing import Final

from ..wire.messages import AmqpMessage

#: What is published first where trust is lost. It is for a queue that nobody has: it comes back,
#: confirmed, and nothing that is due has to be ventured. About as long as messages of ours.
TRIAL: Final = AmqpMessage(
    exchange="", key="cronhare.trial", body=b"trial".ljust(512), headers={}, id=None
)


class Trust:
    """Lost with a connection that ended in vain, until another brings a confirm of what is ours.

    Without it a connection that opens and holds, or that ends with the first message, is no sign
    that the broker serves us: who tried again at once would take what is due from others, again and
    again, and publish nothing.
    """

    def __init__(self) -> None:
        self.is_lost = False

    def note(self, *, vain: bool, heard: bool) -> None:
        """Take note of a connection that has ended: in *vain*, or *heard* before it did."""
        self.is_lost = vain or (self.is_lost and not heard)
