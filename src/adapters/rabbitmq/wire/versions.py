"""How RabbitMQ's versions 3.10 to 4.x differ, and the queue arguments that fit all of them.

Delivery limit of a quorum queue: none unless set; from 4.0 it is 20. Ours is always set.
Type of a queue that is declared without one: classic, or what the virtual host has as its default.
    Ours is always named; "classic" is the same as none where that means classic.
Largest message: 128 MiB; from 4.0 it is 16 MiB. We take the smaller everywhere.
`x-death` from a client: counted, and may pass for a cycle; ignored from 4.0. The application never
    sends it, except with messages that stay where they go.
Consumer timeout: closes the channel; from 4.3 quorum queues only, and the consumer may be cancelled
    instead. Either is a lost consumer, which `Subscription` replaces.
Queues that are transient and not exclusive: deprecated, and one day refused. We have none.
An answer to the broker's `basic.cancel`: closes the channel; from 4.3.7 it is wanted. aiormq finds
    out which.
"""

from cronhare.domain.topology import Queue

QUORUM = "quorum"
CLASSIC = "classic"

LARGEST_BODY = 16 * 2**20

#: A message that comes back from its consumers more often ends whoever reads it: it is quarantined
#: (C21 in docs/compatibility.md). It is far above what shutdowns and lost connections cause.
DELIVERY_LIMIT = 100

#: In effect none, in the one form that 3.x and 4.x both take (-1 is refused by 3.x): from a queue
#: without dead letters a message over its limit would simply be gone.
NO_DELIVERY_LIMIT = 1_000_000


def queue_arguments(
    queue: Queue, *, queue_type: str = QUORUM, deduplication: bool = False
) -> dict[str, object]:
    """Give the arguments to declare a queue with.

    *deduplication* asks a plugin to drop copies in task queues; without the plugin, and for quorum
    queues, it does nothing. RabbitMQ 3.10.8 does not refuse a queue that differs in it.
    """
    wanted: dict[str, object] = {"x-queue-type": queue_type}
    if queue.ttl is not None:
        wanted["x-message-ttl"] = round(queue.ttl.total_seconds() * 1000)
    if queue.dead_letter_exchange is not None:
        wanted["x-dead-letter-exchange"] = queue.dead_letter_exchange
    if queue.dead_letter_key is not None:
        wanted["x-dead-letter-routing-key"] = queue.dead_letter_key
    if deduplication and _is_task_queue(queue):
        wanted["x-message-deduplication"] = True
    if queue_type == QUORUM and queue.ttl is None:  # others have no consumers to give back
        leads_on = queue.dead_letter_exchange is not None
        wanted["x-delivery-limit"] = DELIVERY_LIMIT if leads_on else NO_DELIVERY_LIMIT
    return wanted


def _is_task_queue(queue: Queue) -> bool:
    return queue.ttl is None and queue.dead_letter_exchange is not None
