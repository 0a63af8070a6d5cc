"""Mail by SMTP, each with a connection and a thread of its own; and events in words for people."""

import re
import smtplib
import ssl
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import partial
from typing import Final, TypeAlias

import attrs

from cronhare.adapters.addresses import MailServer
from cronhare.adapters.connections import Connection, Conversations, look_up
from cronhare.domain.events.outbox import EventData, OutboxRow, RunEnd, read_event
from cronhare.domain.events.targets import ByEmail, EventKind
from cronhare.domain.nodes import read_node
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import printable, shortened, shown
from cronhare.ports.events import MailContent, NotDelivered

#: Bytes that a server may say before TLS begins, and then: lines of up to 512 (RFC 5321).
LONGEST_TALK: Final = 64 * 1024

#: What a server answers when it is ready, and to STARTTLS.
_READY: Final = 220

#: What a server answered, by the address that it refused.
Refused: TypeAlias = dict[str, tuple[int, bytes]]


def hand_in(
    connection: Connection, server: MailServer, mail: EmailMessage, to: Sequence[str]
) -> Refused:
    """Hand a mail to a server, which may refuse some of its addresses.

    Raises:
        SMTPRecipientsRefused: it took the mail for none of them.
        OSError: it did not take the mail; SMTPException is one.
        ValueError: it said what cannot be read.
    """
    [host] = server.url.hosts
    tls, is_wrapped = ssl.create_default_context(), server.url.scheme == "smtps"
    own_name = smtplib.SMTP().local_hostname  # it asks the resolver: before a server waits for us

    def speaking() -> smtplib.SMTP:
        smtp = smtplib.SMTP(local_hostname=own_name)
        # smtplib's timeout begins anew with each byte.
        smtp.sock = connection.bounded(most=LONGEST_TALK)  # type: ignore[assignment] # all it uses
        return smtp

    with connection.opened(look_up(host.name, host.port), host.port):
        if is_wrapped:
            connection.secure(tls, host.name)
        smtp = speaking()
        code, said = smtp.getreply()
        if code != _READY:
            raise smtplib.SMTPConnectError(code, said)
        if not is_wrapped and not server.is_plain:
            smtp.ehlo_or_helo_if_needed()
            if not smtp.has_extn("starttls"):
                why = "it has no STARTTLS, and none is told in plain text"
                raise smtplib.SMTPNotSupportedError(why)
            code, said = smtp.docmd("STARTTLS")
            if code != _READY:
                raise smtplib.SMTPResponseException(code, said)
            connection.secure(tls, host.name)
            smtp = speaking()  # anew: what was said in plain text is forgotten (RFC 3207)
        try:
            if server.url.user is not None:
                smtp.login(server.url.user, server.url.password or "")
            return smtp.send_message(mail, to_addrs=to)
        finally:
            with suppress(OSError):  # a mail that was taken is taken, whatever comes of this
                smtp.putcmd("QUIT")


#: Characters of what a server said to addresses that it refused.
LONGEST_REFUSALS: Final = 500

#: Mails under way; one whose look-up hangs keeps its thread until the resolver gives up.
MOST_AT_A_TIME: Final = 16

#: Messages of which it is remembered who took them; of others all are told again.
MOST_PARTLY_TAKEN: Final = 1_000

#: From here on a reply of SMTP is final (RFC 5321).
_FOR_GOOD: Final = 500

#: It ends the conversation, wherever it is said.
_HANGS_UP: Final = 421


class Mailer:
    """Hands mails to one server, in its own name."""

    def __init__(self, server: MailServer, *, sender: str, web: str | None = None) -> None:
        """*sender* is an address, *web* the host at which people find the page."""
        self._server = server
        self._sender = sender
        self._web = web
        self._conversations = Conversations(MOST_AT_A_TIME, what="mail")
        self._partly = PartlyTaken()

    async def send(
        self,
        means: ByEmail,
        event: OutboxRow,
        said: MailContent | None = None,
        end: RunEnd | None = None,
        *,
        within: timedelta,
    ) -> None:
        """Send a mail: see `written`.

        Raises:
            NotDelivered: the server did not take it, or not in time.
        """
        try:
            mail = written(means, event, said, end, sender=self._sender, web=self._web)
        except (ValueError, LookupError) as error:  # of the mail: its server is well
            text = f"it cannot be written as a mail: {_reason(error)}"
            raise NotDelivered(text, for_good=True, in_part=True) from error
        left = [each for each in means.to if each not in self._partly.takers(mail["Message-ID"])]
        work = partial(hand_in, server=self._server, mail=mail, to=left)
        try:
            refused = await self._conversations.hold(work, seconds=within.total_seconds())
        except TimeoutError as error:
            raise NotDelivered(f"{self._server} took longer than the timeout") from error
        except smtplib.SMTPRecipientsRefused as error:  # after a 421 it has not named them all
            raise self._not_for_all(error.recipients, left, of=len(means.to)) from error
        except (OSError, ValueError, smtplib.SMTPException) as error:
            raise NotDelivered(f"{self._server}: {_reason(error)}") from error
        took = [each for each in means.to if each not in refused]
        self._partly.note(mail["Message-ID"], took, is_over=not refused)
        if refused:
            raise self._not_for_all(refused, left, of=len(means.to))

    def _not_for_all(self, refused: Refused, asked: Collection[str], *, of: int) -> NotDelivered:
        codes = {code for code, _ in refused.values()}
        those = ", ".join(
            f"{address}: {code} {text.decode(errors='replace')}"
            for address, (code, text) in sorted(refused.items())
        )
        told = shortened(printable(those), LONGEST_REFUSALS)
        if _HANGS_UP in codes:
            return NotDelivered(f"{self._server} hung up before it took the mail, {told}")
        text = f"{self._server} refused {len(refused)} of {of} addresses, {told}"
        for_good = min(codes) >= _FOR_GOOD
        # Who has the mail from an earlier try tells nothing of a server that now takes nothing.
        # That all who are left are refused for good does: the fault is in these addresses.
        in_part = len(refused) < (of if for_good else len(asked))
        return NotDelivered(text, for_good=for_good, in_part=in_part)


class PartlyTaken:
    """Remembers who took a message that others of its addresses did not take.

    They are left out of the next try; another process, or this one anew, tells them again.
    """

    def __init__(self) -> None:
        self._takers = dict[Hashable, frozenset[str]]()

    def takers(self, message: Hashable) -> frozenset[str]:
        return self._takers.get(message, frozenset())

    def note(self, message: Hashable, took: Collection[str], *, is_over: bool) -> None:
        """Note who has taken it; nothing is kept once it *is over*."""
        self._takers.pop(message, None)
        if took and not is_over:
            self._takers[message] = frozenset(took)
            if len(self._takers) > MOST_PARTLY_TAKEN:
                del self._takers[next(iter(self._takers))]


def make_mailer(
    server: MailServer | None, *, sender: str, web_hosts: Sequence[str] = ()
) -> Mailer | None:
    web = next(iter(web_hosts), None)
    return None if server is None else Mailer(server, sender=sender, web=web)


def written(
    means: ByEmail,
    event: OutboxRow,
    said: MailContent | None = None,
    end: RunEnd | None = None,
    *,
    sender: str,
    web: str | None = None,
) -> EmailMessage:
    """Write a mail as it is *said*, or of an event, which it has for programs as well."""
    content = said or letter(event, end, web=web)
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = ", ".join(means.to)
    # It would decode an encoded word (RFC 2047) of a task's output, to lines of the head.
    mail["Subject"] = printable(content.subject).replace("=?", "= ?")
    mail["Date"] = format_datetime(datetime.now(UTC))
    # The same for each try, so that a mailbox can tell a mail that came twice.
    domain = sender.rpartition("@")[2] or "localhost"
    mark = re.sub(r"[^A-Za-z0-9]", ".", f"{event.event_key}.{event.target}")
    mail["Message-ID"] = f"<{mark}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(f"{content.text}\n")
    if said is None:
        document = event.payload.encode(errors="replace")
        mail.add_attachment(document, "application", "json", filename="event.json")
    return mail


def _reason(error: Exception) -> str:
    return shown(str(error) or type(error).__name__)


#: Characters of a title, and of a body: a text message has not many.
LONGEST_TITLE: Final = 160
LONGEST_BODY: Final = 1_500

#: Lines of a run's output that a mail has.
MOST_LINES: Final = 30

#: What is said of each kind of event, behind the name of a schedule, and how bad Apprise makes it.
_SAID: Final[Mapping[str, tuple[str, str]]] = {
    EventKind.FAILED: ("failed", "failure"),
    EventKind.QUARANTINED: ("was quarantined", "failure"),
    EventKind.PAUSED: ("is paused", "failure"),
    EventKind.RECOVERED: ("recovered", "success"),
    EventKind.SKIPPED: ("was skipped", "warning"),
    EventKind.LATE: ("is late", "warning"),
    EventKind.ARRIVED: ("is due", "info"),
    EventKind.ALERT: ("", "warning"),
    EventKind.CLEARED: ("", "success"),
}
_OTHER: Final = ("", "info")


@attrs.frozen(kw_only=True)
class Message:
    """What people read; *kind* is one of Apprise's: info, success, warning, failure."""

    title: str
    body: str
    kind: str


def spoken(event: OutboxRow, end: RunEnd | None = None) -> Message:
    data = read_event(event)
    what, why = _what(event, data, end), _why(data)
    title = ": ".join(filter(None, (what, why.partition("\n")[0])))
    body = "\n".join(filter(None, (printable(why), *_facts(event, data))))
    is_bad = data.alert.severity in {"high", "critical"}
    return Message(
        title=shortened(printable(title), LONGEST_TITLE),
        body=shortened(body, LONGEST_BODY),
        kind="failure" if is_bad else _SAID.get(event.event, _OTHER)[1],
    )


def letter(event: OutboxRow, end: RunEnd | None = None, *, web: str | None = None) -> MailContent:
    """Write a mail: what happened, the last lines that the run wrote, and where more is said.

    *web* is the host at which people find the page.
    """
    data = read_event(event)
    said = ": ".join(filter(None, (_what(event, data, end), _why(data))))
    lines = [f"{printable(said)}.", "", *_facts(event, data)]
    texts = (end.stdout, end.stderr) if end else ()
    wrote = [line for text in texts for line in text.splitlines()][-MOST_LINES:]
    if wrote:
        lines += ["", "The last lines that it wrote:", ""]
        lines += [f"    {printable(line)}" for line in wrote]
    if (id_ := event.execution_id) is not None:
        more = f"https://{web}/ui/executions/{id_}" if web else f"cronhare explain {id_}"
        lines += ["", f"More: {more}"]
    return MailContent(subject=spoken(event, end).title, text="\n".join(lines))


def _what(event: OutboxRow, data: EventData, end: RunEnd | None) -> str:
    named = event.schedule_name or data.alert.title or data.rule or event.event
    verb = "" if data.metadata.test else _SAID.get(event.event, _OTHER)[0]
    node = read_node(end.node) if end and end.node else None
    return " ".join(filter(None, (named, verb, f"on {node.host}" if node else "")))


def _why(data: EventData) -> str:
    said = data.alert.message or data.last_error or data.reason or data.text
    return said.strip().rstrip(".")


def _facts(event: OutboxRow, data: EventData) -> Iterator[str]:
    if event.execution_id is not None:
        attempt = data.attempts or data.metadata.attempt
        yield f"execution {event.execution_id}" + (f", attempt {attempt}" if attempt else "")
    if data.metadata.due_at:
        yield f"due at {printable(data.metadata.due_at)}"
    yield f"at {say_moment(event.occurred_at)}"
