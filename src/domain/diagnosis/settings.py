"""Settings that can be read, and are probably not meant."""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta

import attrs

from cronhare.domain.addresses import Host

from .finding import Finding, Severity

SUBJECT = "settings"

#: Leases are renewed every two seconds, and given up after two thirds of their length.
SHORTEST_LEASE = timedelta(seconds=10)


@attrs.frozen(kw_only=True)
class SettingsFacts:
    """The settings of this process. *broker_host* is None for the in-memory broker.

    *deduplicates* and *quorum* are what task queues are wanted to do and to be. *unknown* are the
    variables that mean nothing, each with the one that was probably meant, or None.
    """

    on_one_file: bool
    broker_host: Host | None
    encrypted: bool
    lease: timedelta
    deduplicates: bool = False
    quorum: bool = True
    unknown: Mapping[str, str | None] = attrs.field(factory=dict[str, str | None])


def judge_faults(faults: Collection[str]) -> Iterator[Finding]:
    """Judge settings that cannot be used."""
    for fault in faults:
        cure = "correct it at the place that it names; the README lists every setting"
        yield Finding(Severity.ERROR, SUBJECT, fault, cure)


def judge_settings(facts: SettingsFacts) -> Iterator[Finding]:
    """Judge settings that can be used."""
    found = [*_unknown(facts), *_pairing(facts), *_link(facts), *_copies(facts), *_lease(facts)]
    yield from found
    if not any(finding.severity is not Severity.NOTE for finding in found):
        yield Finding(Severity.OK, SUBJECT, "All of them can be read")


def _unknown(facts: SettingsFacts) -> Iterator[Finding]:
    for name, meant in facts.unknown.items():
        cure = f"did you mean {meant}?" if meant else "the README lists every setting"
        yield Finding(Severity.WARNING, SUBJECT, f"{name} means nothing here", cure)


def _pairing(facts: SettingsFacts) -> Iterator[Finding]:
    if facts.on_one_file and facts.broker_host is not None:
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            "RabbitMQ with an SQLite ledger: processes on another host would keep another ledger",
            "set CRON_DATABASE_URL=mysql+pymysql://…, or keep all processes on this host",
        )
    if not facts.on_one_file and facts.broker_host is None:
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            "The in-memory broker reaches nobody outside of `cronhare up`: a scheduler and a "
            "worker of their own would never meet",
            "set CRON_BROKER_URL=amqp://…, or run `cronhare up` alone",
        )


def _link(facts: SettingsFacts) -> Iterator[Finding]:
    host = facts.broker_host
    if host is not None and not host.is_local and not facts.encrypted:
        yield Finding(
            Severity.NOTE,
            SUBJECT,
            f"Password and params travel to {host.name} in plain text",
            "use amqps:// unless the network between is your own",
        )


def _copies(facts: SettingsFacts) -> Iterator[Finding]:
    if not facts.deduplicates or facts.broker_host is None:
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
        margin = facts.lease.total_seconds() * 2 / 3
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            f"With a lease of {facts.lease.total_seconds():g} s a database that pauses for "
            f"{margin:.1f} s ends the running tasks",
            "set CRON_LEASE_SECONDS to 10 or more; 30 is the default",
        )
