"""Settings that can be read, and are probably not meant."""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta

import attrs

from cronhare.domain.nodes import given_up_after
from cronhare.ports.inspection import Severity

from .finding import Finding

SUBJECT = "settings"

#: Below it a short pause of the database ends what runs: see `given_up_after`.
SHORTEST_LEASE = timedelta(seconds=10)


@attrs.frozen(kw_only=True)
class SettingsFacts:
    """The settings of this process: the ledger *on_one_file*, the broker *in_memory*.

    *deduplicates* and *quorum* are what task queues are wanted to do and to be. *unknown* are the
    variables that mean nothing, each with the one that was probably meant, or None.
    """

    on_one_file: bool
    in_memory: bool
    lease: timedelta
    deduplicates: bool = False
    quorum: bool = True
    unknown: Mapping[str, str | None] = attrs.field(factory=dict[str, str | None])


def judge_faults(faults: Collection[str]) -> Iterator[Finding]:
    """Judge settings that cannot be used."""
    for fault in faults:
        cure = "correct it at the place that it names; see docs/reference/settings.md"
        yield Finding(Severity.ERROR, SUBJECT, fault, cure)


def judge_settings(facts: SettingsFacts) -> Iterator[Finding]:
    """Judge settings that can be used."""
    found = [*_unknown(facts), *_pairing(facts), *_copies(facts), *_lease(facts)]
    yield from found
    if not any(finding.severity is not Severity.NOTE for finding in found):
        yield Finding(Severity.OK, SUBJECT, "All of them can be read")


def _unknown(facts: SettingsFacts) -> Iterator[Finding]:
    for name, meant in facts.unknown.items():
        cure = f"did you mean {meant}?" if meant else "see docs/reference/settings.md"
        yield Finding(Severity.WARNING, SUBJECT, f"{name} means nothing here", cure)


def _pairing(facts: SettingsFacts) -> Iterator[Finding]:
    if facts.on_one_file and not facts.in_memory:
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            "RabbitMQ with an SQLite ledger: processes on another host would keep another ledger",
            "set CRON_DATABASE_URL=mysql+pymysql://…, or postgresql+psycopg://…; or keep all "
            "processes on this host",
        )
    if not facts.on_one_file and facts.in_memory:
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            "The in-memory broker is inside of one process, and others may work on a ledger on a "
            "server: scheduler, worker and `cronhare up` refuse to start",
            "set CRON_BROKER_URL=amqp://…, or keep the ledger in a file for `cronhare up`: "
            "CRON_DATABASE_URL=sqlite:///…",
        )


def _copies(facts: SettingsFacts) -> Iterator[Finding]:
    if not facts.deduplicates or facts.in_memory:
        return
    if facts.quorum:
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            "CRON_MESSAGE_DEDUPLICATION does nothing for quorum queues",
            "turn it off: the ledger lets no copy run; or set CRON_QUEUE_TYPE=classic",
        )
    else:
        yield Finding(
            Severity.NOTE,
            SUBJECT,
            "CRON_MESSAGE_DEDUPLICATION needs the plugin rabbitmq_message_deduplication and queues "
            "that were declared with it: over AMQP neither can be seen",
            "see `rabbitmq-plugins list --enabled` and `rabbitmqctl list_queues name arguments`",
        )


def _lease(facts: SettingsFacts) -> Iterator[Finding]:
    if facts.lease < SHORTEST_LEASE:
        margin = given_up_after(facts.lease).total_seconds()
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            f"With a lease of {facts.lease.total_seconds():g} s a database that pauses for "
            f"{margin:.1f} s ends the running tasks",
            "set CRON_LEASE_SECONDS to 10 or more; 30 is the default",
        )
