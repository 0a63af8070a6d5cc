"""The broker itself: which it is, and whether it takes messages."""

from collections.abc import Iterator
from datetime import timedelta

import attrs

from .finding import Finding, Severity
from .link import Link, judge_link
from .queues import Thing
from .servers import BROKER, version_of

SUBJECT = BROKER.subject

#: From 3.10 on, quorum queues have TTLs and the lanes can be made of them.
OLDEST = (3, 10)
FIRST_UNTRIED = (5,)

#: RabbitMQ's default: so long may a delivery stay unsettled. Over AMQP nobody can see another.
CONSUMER_TIMEOUT = timedelta(minutes=30)


@attrs.frozen(kw_only=True)
class BrokerFacts:
    """What a broker shows to a client.

    *things* are the exchanges and queues of our topology. *alarm* is the broker's own word for
    why it takes no messages, such as `low on memory`. *answered* is false if it neither took the
    message that asked for that, nor said why not. *absent* are the nodes of several that cannot
    be used, each with the reason.
    """

    product: str
    version: str
    vhost: str = "/"
    things: tuple[Thing, ...] = ()
    alarm: str | None = None
    answered: bool = True
    absent: tuple[str, ...] = ()
    link: Link | None = None


def judge_broker(facts: BrokerFacts) -> Iterator[Finding]:
    """Judge the server, apart from its queues."""
    yield _version(facts)
    if facts.link is not None:
        yield judge_link(facts.link, BROKER)
    yield _alarm(facts)
    for node in facts.absent:
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            f"A node of the broker cannot be used: {node}",
            "mend it, or take it out of CRON_BROKER_URL; the others serve meanwhile",
        )


def _version(facts: BrokerFacts) -> Finding:
    name, version = f"{facts.product} {facts.version}", version_of(facts.version)
    if facts.product != "RabbitMQ":
        return Finding(
            Severity.WARNING,
            SUBJECT,
            f"{name} was never tried: queue arguments and dead-lettering may differ",
            "use RabbitMQ 3.10 or newer",
        )
    if not version:
        return Finding(
            Severity.WARNING,
            SUBJECT,
            f"{name}: nobody can tell how old that is",
            "see that it is 3.10 or newer",
        )
    if version < OLDEST:
        return Finding(
            Severity.ERROR,
            SUBJECT,
            f"{name} is too old: its quorum queues know no message TTL",
            "upgrade to 3.10 or newer, or set CRON_QUEUE_TYPE=classic, which was not tried there",
        )
    if version >= FIRST_UNTRIED:
        return Finding(
            Severity.WARNING,
            SUBJECT,
            f"{name} is newer than what this version was written for, 3.10 to 4.x",
            "see whether there is a newer cronhare",
        )
    return Finding(Severity.OK, SUBJECT, name)


def _alarm(facts: BrokerFacts) -> Finding:
    if facts.alarm is not None:
        return Finding(
            Severity.ERROR,
            SUBJECT,
            f"It takes no messages: {facts.alarm}. Nothing is lost, but nothing new begins",
            "`rabbitmqctl status` lists the alarms and the limits; make room (memory or disk), or "
            "raise vm_memory_high_watermark or disk_free_limit. It then goes on by itself",
        )
    if not facts.answered:
        return Finding(
            Severity.ERROR,
            SUBJECT,
            "It lets us in, and does not answer to a message",
            "`rabbitmqctl status` and its log say what it is busy with; ask again in a minute",
        )
    return Finding(Severity.OK, SUBJECT, "It takes messages; no alarm")
