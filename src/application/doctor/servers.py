"""The settings, and the two servers: whether they answer, are of use, and can be read along."""

import re

import attrs

from cronhare.domain.nodes import WORRYING_SKEW, given_up_after
from cronhare.ports.inspection import Cause, Link, SchemaFault, Unreachable

from .finding import (
    Finding,
    NotSeenError,
    Rules,
    Said,
    Seen,
    SettingsFacts,
    error,
    named,
    note,
    ok,
    warning,
)

SETTINGS, LEDGER, BROKER_SERVER = Rules(), Rules(), Rules()


# Settings

#: Below it a short pause of the database ends what runs: see `given_up_after`.
_SHORTEST_LEASE_SECONDS = 10


def _settings(seen: Seen) -> SettingsFacts:
    if seen.settings is None:
        raise NotSeenError
    return seen.settings


@SETTINGS.rule("settings")
def unknown(seen: Seen) -> Said:
    for name, meant in _settings(seen).unknown.items():
        cure = f"did you mean {meant}?" if meant else "see docs/reference/settings.md"
        yield warning(f"{name} means nothing here", cure)


@SETTINGS.rule("settings")
def ledger_and_broker(seen: Seen) -> Said:
    facts = _settings(seen)
    if facts.on_one_file and not facts.in_memory:
        yield warning(
            "RabbitMQ with an SQLite ledger: processes on another host would keep another ledger",
            "set CRON_DATABASE_URL=mysql+pymysql://…, or postgresql+psycopg://…; or keep all "
            "processes on this host",
        )
    elif facts.in_memory and not facts.on_one_file:
        yield warning(
            "The in-memory broker is inside of one process, and others may work on a ledger on a "
            "server: scheduler, worker and `cronhare up` refuse to start",
            "set CRON_BROKER_URL=amqp://…, or keep the ledger in a file for `cronhare up`: "
            "CRON_DATABASE_URL=sqlite:///…",
        )


@SETTINGS.rule("settings")
def deduplication(seen: Seen) -> Said:
    facts = _settings(seen)
    if facts.deduplicates and facts.quorum and not facts.in_memory:
        yield warning(
            "CRON_MESSAGE_DEDUPLICATION does nothing for quorum queues",
            "turn it off: the ledger lets no copy run; or set CRON_QUEUE_TYPE=classic",
        )


@SETTINGS.rule("settings")
def short_lease(seen: Seen) -> Said:
    lease = _settings(seen).lease
    if lease.total_seconds() < _SHORTEST_LEASE_SECONDS:
        yield warning(
            f"With a lease of {lease.total_seconds():g} s a database that pauses for "
            f"{given_up_after(lease).total_seconds():.1f} s ends the running tasks",
            "set CRON_LEASE_SECONDS to 10 or more; 30 is the default",
        )


@SETTINGS.rule("settings")
def can_be_read(seen: Seen) -> Said:
    if not _settings(seen).unknown:
        yield ok("All of them can be read")


# Any server


@attrs.frozen(kw_only=True)
class Server:
    """How a server is spoken of: by its *setting*, and what a *place* on it is.

    *plain* is what asks for plain text in the setting, *encrypted* what is done to have TLS.
    """

    setting: str
    place: str
    plain: str
    encrypted: str


BROKER = Server(
    setting="CRON_BROKER_URL",
    place="virtual host",
    plain="amqp://",
    encrypted="write amqps:// in CRON_BROKER_URL, with ?cafile= where the CA is your own,",
)
DATABASE = Server(
    setting="CRON_DATABASE_URL",
    place="database",
    plain="?tls=off",
    encrypted="take ?tls=off out of CRON_DATABASE_URL",
)


def cure_of(server: Server, cause: Cause, hint: str) -> str:
    """Say what to look at when a server cannot be used; for *hint* see `Unreachable`."""
    setting = server.setting
    return {
        Cause.ABSENT: f"start it, or see that {setting} names its host and port and that no "
        "firewall is between",
        Cause.LOGIN: f"see the user and password in {setting}, or in the file that {setting}_FILE "
        f"names{f'; {hint}' if hint else ''}",
        Cause.PLACE: f"make the {server.place} and let the user into it"
        f"{f' ({hint})' if hint else ''}; or name another one at the end of {setting}",
        Cause.OTHER: f"the server's own log may say more; the address is {setting}",
    }[cause]


def _unreachable(server: Server, answer: object) -> Said:
    if isinstance(answer, Unreachable):
        cure = cure_of(server, answer.cause, answer.hint)
        yield error(f"It cannot be used: {answer.said}", cure)


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
    if link is None:
        return
    if link.tls is not None:  # that of another host is verified, or there is none
        verified = "certificate and host name verified" if link.verified else "not verified"
        yield ok(f"The link to {link.host} is encrypted ({link.tls}), {verified}")
    elif link.local:
        yield ok(f"The link to {link.host} stays on this machine")
    else:
        yield note(
            f"Password and params travel to {link.host} in plain text, as {server.plain} says",
            f"{server.encrypted} unless the network between is your own",
        )


# The database


LEDGER.rule("database")(lambda seen: _unreachable(DATABASE, seen.ledger))


@LEDGER.rule("database")
def database_version(seen: Seen) -> Said:
    facts = seen.ledger_facts.database
    name, version = f"{facts.product} {facts.version}", version_of(facts.version)
    required = facts.requirements
    if required is None or not version:
        cure = "use MariaDB 10.6+, MySQL 8.0+, PostgreSQL 14+ or SQLite"
        yield warning(f"{name} was never tried", cure)
    elif version < required.oldest:
        wanted = ".".join(map(str, required.oldest))
        yield error(f"{name} {required.lack}", f"upgrade it to {facts.product} {wanted} or newer")
    else:
        yield ok(name)


LEDGER.rule("database")(lambda seen: _link(seen.ledger_facts.database.link, DATABASE))


@LEDGER.rule("database")
def needs(seen: Seen) -> Said:
    """Hold its settings against what we need; one that could not be read is not judged."""
    facts = seen.ledger_facts.database
    wanted = facts.requirements.needs if facts.requirements else ()
    read = [need for need in wanted if need.setting in facts.settings]
    broken = [need for need in read if not need.holds(facts.settings[need.setting])]
    for need in broken:
        said = facts.settings[need.setting] or "empty"
        yield Finding(need.severity, "", f"{need.setting} is {said}: {need.without}", need.cure)
    if read and not broken:
        shown = ", ".join(need.setting for need in read)
        yield ok(f"Its settings are as they must be: {shown}")


@LEDGER.rule("database")
def tables_without_transactions(seen: Seen) -> Said:
    facts = seen.ledger_facts.database
    if facts.requirements is not None and facts.plain_tables:
        what = f"Tables without transactions: {named(facts.plain_tables)}"
        yield error(what, f"for each of them: `{facts.requirements.transactions}`")


@LEDGER.rule("schema")
def schema(seen: Seen) -> Said:
    match seen.ledger_facts.schema:
        case SchemaFault(what, cure):
            yield error(what, cure)
        case revision:
            yield ok(f"Revision {revision}, which this version wants")


HARMLESS = "The ledger's decides, so nothing runs at the wrong time, but the times in"
SET_CLOCKS = (
    "let NTP set the clocks of {} and of the database's (`timedatectl`, `chronyc tracking`)"
)


@LEDGER.rule("clock")
def clock(seen: Seen) -> Said:
    skew = seen.ledger_facts.skew
    off = f"This node is {skew.total_seconds():+.3f} s off the ledger's clock"
    if abs(skew) <= WORRYING_SKEW:
        yield ok(f"{off}, which decides what is due")
    else:
        yield warning(
            f"{off}. {HARMLESS} this node's log are wrong", SET_CLOCKS.format("this host")
        )


# The broker


BROKER_SERVER.rule("broker")(lambda seen: _unreachable(BROKER, seen.broker))


@BROKER_SERVER.rule("broker")
def broker_in_memory(seen: Seen) -> Said:
    if seen.in_memory:
        yield ok("In memory, inside of `cronhare up`: there is nothing to look at")


@BROKER_SERVER.rule("broker")
def broker_version(seen: Seen) -> Said:
    facts, guide = seen.broker_facts, seen.broker_facts.guide
    name, version = f"{facts.product} {facts.version}", version_of(facts.version)
    oldest, newest = ".".join(map(str, guide.oldest)), f"{guide.first_untried[0] - 1}.x"
    if facts.product != guide.product:
        what = f"{name} was never tried: queue arguments and dead-lettering may differ"
        yield warning(what, f"use {guide.product} {oldest} or newer")
    elif not version:
        what = f"{name}: nobody can tell how old that is"
        yield warning(what, f"see that it is {oldest} or newer")
    elif version < guide.oldest:
        cure = f"upgrade to {oldest} or newer, or {guide.without}"
        yield error(f"{name} is too old: {guide.lack}", cure)
    elif version >= guide.first_untried:
        what = f"{name} is newer than what this version was written for, {oldest} to {newest}"
        yield warning(what, "see whether there is a newer cronhare")
    else:
        yield ok(name)


BROKER_SERVER.rule("broker")(lambda seen: _link(seen.broker_facts.link, BROKER))


@BROKER_SERVER.rule("broker")
def alarm(seen: Seen) -> Said:
    facts = seen.broker_facts
    if facts.alarm is not None:
        what = f"It takes no messages: {facts.alarm}. Nothing is lost, but nothing new begins"
        yield error(what, f"{facts.guide.alarm}. It then goes on by itself")
    elif not facts.answered:
        what = "It lets us in, and does not answer to a message"
        yield error(what, f"{facts.guide.busy}; ask again in a minute")
    else:
        yield ok("It takes messages; no alarm")


@BROKER_SERVER.rule("broker")
def absent_nodes(seen: Seen) -> Said:
    for node in seen.broker_facts.absent:
        cure = "mend it, or take it out of CRON_BROKER_URL; the others serve meanwhile"
        yield warning(f"A node of the broker cannot be used: {node}", cure)
