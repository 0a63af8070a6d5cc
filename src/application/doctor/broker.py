"""The broker itself: which it is, and whether it takes messages."""

from collections.abc import Iterator

from cronhare.ports.inspection import BrokerFacts, Severity

from .finding import Finding
from .link import judge_link
from .servers import BROKER, version_of

SUBJECT = BROKER.subject


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
    guide, version = facts.guide, version_of(facts.version)
    name = f"{facts.product} {facts.version}"
    oldest, newest = ".".join(map(str, guide.oldest)), f"{guide.first_untried[0] - 1}.x"
    if facts.product != guide.product:
        what = f"{name} was never tried: queue arguments and dead-lettering may differ"
        return Finding(Severity.WARNING, SUBJECT, what, f"use {guide.product} {oldest} or newer")
    if not version:
        what = f"{name}: nobody can tell how old that is"
        return Finding(Severity.WARNING, SUBJECT, what, f"see that it is {oldest} or newer")
    if version < guide.oldest:
        what = f"{name} is too old: {guide.lack}"
        cure = f"upgrade to {oldest} or newer, or {guide.without}"
        return Finding(Severity.ERROR, SUBJECT, what, cure)
    if version >= guide.first_untried:
        what = f"{name} is newer than what this version was written for, {oldest} to {newest}"
        return Finding(Severity.WARNING, SUBJECT, what, "see whether there is a newer cronhare")
    return Finding(Severity.OK, SUBJECT, name)


def _alarm(facts: BrokerFacts) -> Finding:
    if facts.alarm is not None:
        return Finding(
            Severity.ERROR,
            SUBJECT,
            f"It takes no messages: {facts.alarm}. Nothing is lost, but nothing new begins",
            f"{facts.guide.alarm}. It then goes on by itself",
        )
    if not facts.answered:
        return Finding(
            Severity.ERROR,
            SUBJECT,
            "It lets us in, and does not answer to a message",
            f"{facts.guide.busy}; ask again in a minute",
        )
    return Finding(Severity.OK, SUBJECT, "It takes messages; no alarm")
