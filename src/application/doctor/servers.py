"""The settings, and the two servers: whether they answer, are of use, and can be read along."""

import re

import attrs

from cronhare.domain.nodes import WORRYING_SKEW, given_up_after
from cronhare.ports.inspection import Cause, Link, SchemaFault, Severity, Unreachable

from .finding import Finding, NotSeenError, Rules, Said, Seen, SettingsFacts, Told, named

OK, NOTE, WARNING, ERROR = Severity.OK, Severity.NOTE, Severity.WARNING, Severity.ERROR

SETTINGS, LEDGER, BROKER_SERVER = Rules(), Rules(), Rules()


# Settings

#: Below it a short pause of the database ends what runs: see `given_up_after`.
_SHORTEST_LEASE_SECONDS = 10


def _settings(seen: Seen) -> SettingsFacts:
    if seen.settings is None:
        raise NotSeenError
    return seen.settings


@SETTINGS.rule("settings", OK)
def can_be_read(seen: Seen) -> Said:
    if not _settings(seen).unknown:
        yield Told("All of them can be read")


@SETTINGS.rule("settings", WARNING)
def unknown(seen: Seen) -> Said:
    for name, meant in _settings(seen).unknown.items():
        cure = f"did you mean {meant}?" if meant else "see docs/reference/settings.md"
        yield Told(f"{name} means nothing here", cure)


@SETTINGS.rule("settings", WARNING)
def server_with_a_file(seen: Seen) -> Said:
    if _settings(seen).on_one_file and not _settings(seen).in_memory:
        yield Told(
            "RabbitMQ with an SQLite ledger: processes on another host would keep another ledger",
            "set CRON_DATABASE_URL=mysql+pymysql://…, or postgresql+psycopg://…; or keep all "
            "processes on this host",
        )


@SETTINGS.rule("settings", WARNING)
def memory_with_a_server(seen: Seen) -> Said:
    if _settings(seen).in_memory and not _settings(seen).on_one_file:
        yield Told(
            "The in-memory broker is inside of one process, and others may work on a ledger on a "
            "server: scheduler, worker and `cronhare up` refuse to start",
            "set CRON_BROKER_URL=amqp://…, or keep the ledger in a file for `cronhare up`: "
            "CRON_DATABASE_URL=sqlite:///…",
        )


@SETTINGS.rule("settings", WARNING)
def deduplication_without_effect(seen: Seen) -> Said:
    facts = _settings(seen)
    if facts.deduplicates and facts.quorum and not facts.in_memory:
        yield Told(
            "CRON_MESSAGE_DEDUPLICATION does nothing for quorum queues",
            "turn it off: the ledger lets no copy run; or set CRON_QUEUE_TYPE=classic",
        )


@SETTINGS.rule("settings", NOTE)
def deduplication_needs_a_plugin(seen: Seen) -> Said:
    facts = _settings(seen)
    if facts.deduplicates and not facts.quorum and not facts.in_memory:
        yield Told(
            "CRON_MESSAGE_DEDUPLICATION needs the plugin rabbitmq_message_deduplication and queues "
            "that were declared with it: over AMQP neither can be seen",
            "see `rabbitmq-plugins list --enabled` and `rabbitmqctl list_queues name arguments`",
        )


@SETTINGS.rule("settings", WARNING)
def short_lease(seen: Seen) -> Said:
    lease = _settings(seen).lease
    if lease.total_seconds() < _SHORTEST_LEASE_SECONDS:
        yield Told(
            f"With a lease of {lease.total_seconds():g} s a database that pauses for "
            f"{given_up_after(lease).total_seconds():.1f} s ends the running tasks",
            "set CRON_LEASE_SECONDS to 10 or more; 30 is the default",
        )


# Any server


@attrs.frozen(kw_only=True)
class Server:
    """How a server is spoken of: by its *setting*, and what a *place* on it is.

    *plain* is what asks for plain text in the setting, *encrypted* what is done to have TLS.
    """

    subject: str
    setting: str
    place: str
    plain: str
    encrypted: str


BROKER = Server(
    subject="broker",
    setting="CRON_BROKER_URL",
    place="virtual host",
    plain="amqp://",
    encrypted="write amqps:// in CRON_BROKER_URL, with ?cafile= where the CA is your own,",
)
DATABASE = Server(
    subject="database",
    setting="CRON_DATABASE_URL",
    place="database",
    plain="?tls=off",
    encrypted="take ?tls=off out of CRON_DATABASE_URL",
)


def cure_of(server: Server, cause: Cause, hint: str) -> str:
    """Say what to look at when a server cannot be used; for *hint* see `Unreachable`."""
    match cause:
        case Cause.ABSENT:
            return (
                f"start it, or see that {server.setting} names its host and port and that no "
                "firewall is between"
            )
        case Cause.LOGIN:
            return (
                f"see the user and password in {server.setting}, or in the file that "
                f"{server.setting}_FILE names{f'; {hint}' if hint else ''}"
            )
        case Cause.PLACE:
            made = f"make the {server.place} and let the user into it{f' ({hint})' if hint else ''}"
            return f"{made}; or name another one at the end of {server.setting}"
        case Cause.OTHER:
            return f"the server's own log may say more; the address is {server.setting}"


def _unreachable(server: Server, answer: object) -> Said:
    if isinstance(answer, Unreachable):
        cure = cure_of(server, answer.cause, answer.hint)
        yield Told(f"It cannot be used: {answer.said}", cure)


def version_of(text: str) -> tuple[int, ...]:
    """Read the numbers that a version begins with; empty for none.

    >>> version_of("10.11.6-MariaDB-1:10.11.6+maria~deb12"), version_of("4.0.0-rc.1")
    ((10, 11, 6), (4, 0, 0))
    >>> version_of("nightly")
    ()
    """
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found.group().split("."))) if found else ()


def _link(link: Link | None, server: Server) -> Said:
    """Say who could read along with us, or stand in between."""
    if link is None:
        return
    if link.tls is not None:
        verified = "certificate and host name verified" if link.verified else "not verified"
        what = f"The link to {link.host} is encrypted ({link.tls}), {verified}"
        if link.verified or link.local:
            yield Told(what)
        else:
            yield Finding(WARNING, server.subject, what, "take the option out that allows it")
    elif link.local:
        yield Told(f"The link to {link.host} stays on this machine")
    else:
        yield Finding(
            NOTE,
            server.subject,
            f"Password and params travel to {link.host} in plain text, as {server.plain} says",
            f"{server.encrypted} unless the network between is your own",
        )


# The database


@LEDGER.rule("database", ERROR)
def database_unreachable(seen: Seen) -> Said:
    return _unreachable(DATABASE, seen.ledger)


@LEDGER.rule("database", WARNING)
def untried_database(seen: Seen) -> Said:
    facts = seen.ledger_facts.database
    if facts.requirements is None or not version_of(facts.version):
        cure = "use MariaDB 10.6+, MySQL 8.0+, PostgreSQL 14+ or SQLite"
        yield Told(f"{facts.product} {facts.version} was never tried", cure)


@LEDGER.rule("database", ERROR)
def old_database(seen: Seen) -> Said:
    facts = seen.ledger_facts.database
    version, required = version_of(facts.version), facts.requirements
    if required is not None and version and version < required.oldest:
        wanted = ".".join(map(str, required.oldest))
        what = f"{facts.product} {facts.version} {required.lack}"
        yield Told(what, f"upgrade it to {facts.product} {wanted} or newer")


@LEDGER.rule("database", OK)
def known_database(seen: Seen) -> Said:
    facts = seen.ledger_facts.database
    version, required = version_of(facts.version), facts.requirements
    if required is not None and version and version >= required.oldest:
        yield Told(f"{facts.product} {facts.version}")


@LEDGER.rule("database", OK)
def link_to_the_database(seen: Seen) -> Said:
    return _link(seen.ledger_facts.database.link, DATABASE)


@LEDGER.rule("database", ERROR)
def unmet_needs(seen: Seen) -> Said:
    facts = seen.ledger_facts.database
    for need in facts.requirements.needs if facts.requirements else ():
        said = facts.settings.get(need.setting)  # one that could not be read is not judged
        if said is not None and not need.holds(said):
            what = f"{need.setting} is {said or 'empty'}: {need.without}"
            yield Finding(need.severity, "database", what, need.cure)


@LEDGER.rule("database", OK)
def met_needs(seen: Seen) -> Said:
    facts = seen.ledger_facts.database
    needs = facts.requirements.needs if facts.requirements else ()
    read = [need for need in needs if need.setting in facts.settings]
    if read and all(need.holds(facts.settings[need.setting]) for need in read):
        shown = ", ".join(need.setting for need in read)
        yield Told(f"Its settings are as they must be: {shown}")


@LEDGER.rule("database", ERROR)
def tables_without_transactions(seen: Seen) -> Said:
    facts = seen.ledger_facts.database
    if facts.requirements is not None and facts.plain_tables:
        what = f"Tables without transactions: {named(facts.plain_tables)}"
        yield Told(what, f"for each of them: `{facts.requirements.transactions}`")


@LEDGER.rule("schema", ERROR)
def wrong_schema(seen: Seen) -> Said:
    if isinstance(fault := seen.ledger_facts.schema, SchemaFault):
        yield Told(fault.what, fault.cure)


@LEDGER.rule("schema", OK)
def right_schema(seen: Seen) -> Said:
    if isinstance(revision := seen.ledger_facts.schema, str):
        yield Told(f"Revision {revision}, which this version wants")


HARMLESS = "The ledger's decides, so nothing runs at the wrong time, but the times in"
SET_CLOCKS = (
    "let NTP set the clocks of {} and of the database's (`timedatectl`, `chronyc tracking`)"
)


@LEDGER.rule("clock", OK)
def right_clock(seen: Seen) -> Said:
    if abs(skew := seen.ledger_facts.skew) <= WORRYING_SKEW:
        off = f"This node is {skew.total_seconds():+.3f} s off the ledger's clock"
        yield Told(f"{off}, which decides what is due")


@LEDGER.rule("clock", WARNING)
def wrong_clock(seen: Seen) -> Said:
    if abs(skew := seen.ledger_facts.skew) > WORRYING_SKEW:
        off = f"This node is {skew.total_seconds():+.3f} s off the ledger's clock"
        yield Told(f"{off}. {HARMLESS} this node's log are wrong", SET_CLOCKS.format("this host"))


# The broker


@BROKER_SERVER.rule("broker", ERROR)
def broker_unreachable(seen: Seen) -> Said:
    return _unreachable(BROKER, seen.broker)


@BROKER_SERVER.rule("broker", OK)
def broker_in_memory(seen: Seen) -> Said:
    if seen.in_memory:
        yield Told("In memory, inside of `cronhare up`: there is nothing to look at")


def _is_known(seen: Seen) -> bool:
    facts = seen.broker_facts
    return facts.product == facts.guide.product and bool(version_of(facts.version))


@BROKER_SERVER.rule("broker", WARNING)
def untried_broker(seen: Seen) -> Said:
    facts = seen.broker_facts
    name, guide = f"{facts.product} {facts.version}", facts.guide
    oldest, newest = ".".join(map(str, guide.oldest)), f"{guide.first_untried[0] - 1}.x"
    if facts.product != guide.product:
        what = f"{name} was never tried: queue arguments and dead-lettering may differ"
        yield Told(what, f"use {guide.product} {oldest} or newer")
    elif not version_of(facts.version):
        yield Told(f"{name}: nobody can tell how old that is", f"see that it is {oldest} or newer")
    elif version_of(facts.version) >= guide.first_untried:
        what = f"{name} is newer than what this version was written for, {oldest} to {newest}"
        yield Told(what, "see whether there is a newer cronhare")


@BROKER_SERVER.rule("broker", ERROR)
def old_broker(seen: Seen) -> Said:
    facts, guide = seen.broker_facts, seen.broker_facts.guide
    if _is_known(seen) and version_of(facts.version) < guide.oldest:
        oldest = ".".join(map(str, guide.oldest))
        what = f"{facts.product} {facts.version} is too old: {guide.lack}"
        yield Told(what, f"upgrade to {oldest} or newer, or {guide.without}")


@BROKER_SERVER.rule("broker", OK)
def known_broker(seen: Seen) -> Said:
    facts, guide = seen.broker_facts, seen.broker_facts.guide
    if _is_known(seen) and guide.oldest <= version_of(facts.version) < guide.first_untried:
        yield Told(f"{facts.product} {facts.version}")


@BROKER_SERVER.rule("broker", OK)
def link_to_the_broker(seen: Seen) -> Said:
    return _link(seen.broker_facts.link, BROKER)


@BROKER_SERVER.rule("broker", ERROR)
def alarm(seen: Seen) -> Said:
    facts = seen.broker_facts
    if facts.alarm is not None:
        what = f"It takes no messages: {facts.alarm}. Nothing is lost, but nothing new begins"
        yield Told(what, f"{facts.guide.alarm}. It then goes on by itself")
    elif not facts.answered:
        what = "It lets us in, and does not answer to a message"
        yield Told(what, f"{facts.guide.busy}; ask again in a minute")


@BROKER_SERVER.rule("broker", OK)
def no_alarm(seen: Seen) -> Said:
    if seen.broker_facts.alarm is None and seen.broker_facts.answered:
        yield Told("It takes messages; no alarm")


@BROKER_SERVER.rule("broker", WARNING)
def absent_nodes(seen: Seen) -> Said:
    for node in seen.broker_facts.absent:
        cure = "mend it, or take it out of CRON_BROKER_URL; the others serve meanwhile"
        yield Told(f"A node of the broker cannot be used: {node}", cure)
