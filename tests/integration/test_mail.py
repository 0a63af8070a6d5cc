"""Mail, handed to a server that speaks SMTP."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from cronhare.adapters.addresses import MailServer
from cronhare.adapters.notify.mail import MOST_AT_A_TIME, Mailer
from cronhare.domain.events.outbox import OutboxRow
from cronhare.domain.events.targets import ByEmail
from cronhare.ports.events import NotDelivered
from tests.services.certificates import Certified, certified
from tests.services.mail import MailBox, mail_server
from tests.trial_event import trial

pytestmark = pytest.mark.integration

ANN, BEN, CAT = (f"{name}@example.org" for name in ("ann", "ben", "cat"))
ALL = ByEmail(to=(ANN, BEN, CAT))
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("papers"), "DNS:localhost")


@pytest.fixture(params=["plain text", "STARTTLS", "smtps"])
def box(
    request: pytest.FixtureRequest, papers: Certified, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MailBox]:
    monkeypatch.setenv("SSL_CERT_FILE", str(papers.ca))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(papers.certificate, papers.key)
    scheme = "smtps" if request.param == "smtps" else "smtp"
    with mail_server(scheme=scheme, tls=None if request.param == "plain text" else tls) as box:
        yield box


@pytest.fixture
def mailer(box: MailBox) -> Mailer:
    server = attrs.evolve(MailServer.parse(box.url), is_plain=box.tls is None)
    return Mailer(server, sender="cron@example.org")


def about(id_: str = "failed:1:2") -> OutboxRow:
    event = trial("ops", now=NOW, id_=id_)
    return OutboxRow.of(event, "ops", source="shop", now=NOW)


async def send(
    mailer: Mailer, event: OutboxRow, *, within: timedelta = timedelta(seconds=20)
) -> NotDelivered | None:
    try:
        await mailer.send(ALL, event, within=within)
    except NotDelivered as refusal:
        return refusal
    return None


async def test_one_mail_is_for_all_addresses(mailer: Mailer, box: MailBox) -> None:
    assert await send(mailer, about()) is None

    [mail] = box.mails
    assert mail["To"] == f"{ANN}, {BEN}, {CAT}"
    assert box.recipients == [ANN, BEN, CAT]


async def test_an_address_that_is_refused_for_now_is_told_later_and_the_others_once(
    mailer: Mailer, box: MailBox
) -> None:
    box.refusals[BEN] = "451 4.7.1 greylisted"

    refusal = await send(mailer, about())
    box.refusals.clear()
    again = await send(mailer, about())
    anew = await send(mailer, about("another"))

    assert refusal is not None
    assert "refused 1 of 3 addresses, ben@example.org: 451 4.7.1 greylisted" in str(refusal)
    assert not refusal.for_good
    assert (again, anew) == (None, None)
    assert box.recipients == [ANN, CAT, BEN, ANN, BEN, CAT]
    first, second, _ = (mail["Message-ID"] for mail in box.mails)
    assert first == second


@pytest.mark.parametrize(
    ("refuses", "in_part"),
    [
        ("452 4.3.1 insufficient system storage", False),
        ("451 4.3.0 try again later", False),
        ("550 5.1.1 no such user", True),
    ],
)
async def test_a_server_that_now_refuses_all_who_are_left_is_well_only_if_it_does_so_for_good(
    mailer: Mailer, box: MailBox, refuses: str, in_part: bool
) -> None:
    box.refusals[BEN] = "451 4.7.1 greylisted"
    first = await send(mailer, about())
    box.refuses = refuses

    again = await send(mailer, about())

    assert first is not None
    assert again is not None
    assert (first.in_part, again.in_part) == (True, in_part)


@pytest.mark.parametrize(
    ("refusals", "for_good", "in_part"),
    [
        ({BEN: "550 no such user"}, True, True),
        ({BEN: "550 no such user", CAT: "452 mailbox full"}, False, True),
        (dict.fromkeys((ANN, BEN, CAT), "550 no such user"), True, False),
        (dict.fromkeys((ANN, BEN, CAT), "450 later"), False, False),
    ],
)
async def test_a_target_of_which_one_address_was_not_told_is_not_told(
    mailer: Mailer, box: MailBox, refusals: dict[str, str], for_good: bool, in_part: bool
) -> None:
    box.refusals.update(refusals)

    refusal = await send(mailer, about())

    assert refusal is not None
    assert (refusal.for_good, refusal.in_part) == (for_good, in_part)
    assert all(address in str(refusal) for address in refusals)


async def test_a_server_that_never_stops_talking_is_read_no_further(
    mailer: Mailer, box: MailBox
) -> None:
    box.endless = (f"250-{'x' * 4_000}", 0)

    refusal = await send(mailer, about())

    assert "the answer does not end" in str(refusal)
    assert await asyncio.to_thread(box.were_left.wait, 20), "the connection was kept"


async def test_servers_that_drip_keep_mails_no_longer_than_the_timeout(
    mailer: Mailer, box: MailBox
) -> None:
    box.endless = ("250-x", 0.05)
    soon = timedelta(seconds=1)
    late = [send(mailer, about(f"{id_}"), within=soon) for id_ in range(MOST_AT_A_TIME)]

    refusals = await asyncio.gather(*late)
    for thread in threading.enumerate():
        if thread.name == "mail":
            await asyncio.to_thread(thread.join, 5)
    box.endless = None

    assert all(refusals)
    assert await send(mailer, about()) is None


async def test_a_server_without_tls_is_told_nothing_in_plain_text() -> None:
    with mail_server() as box:
        server = attrs.evolve(MailServer.parse(box.url), is_plain=False)

        refusal = await send(Mailer(server, sender="cron@example.org"), about())

    assert "it has no STARTTLS" in str(refusal)
    assert box.mails == []


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_a_server_that_nobody_vouches_for_is_told_nothing(
    papers: Certified, scheme: str
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(papers.certificate, papers.key)
    with mail_server(scheme=scheme, tls=tls) as box:
        server = attrs.evolve(MailServer.parse(box.url), is_plain=False)

        refusal = await send(Mailer(server, sender="cron@example.org"), about())

    assert "CERTIFICATE_VERIFY_FAILED" in str(refusal)
    assert box.mails == []
