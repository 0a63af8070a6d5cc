"""What targets are told, and what their answers mean."""

import hmac
import json
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import SMTP
from typing import Any

import attrs
import pytest

from cronhare.adapters.notify.apprise import AppriseSender
from cronhare.adapters.notify.mail import written
from cronhare.adapters.notify.notifier import Notifier
from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.outbox import OutboxRow, RunEnd
from cronhare.domain.events.targets import (
    ByCommand,
    ByEmail,
    ByListener,
    ByPing,
    ByWebhook,
    Means,
    Target,
)
from cronhare.domain.retries.outcome import Ending, Outcome
from cronhare.ports.events import NotDelivered
from cronhare.ports.runner import Invocation
from cronhare.ports.system import HttpAnswer, HttpFailed, HttpRefused, HttpRequest
from tests.scripted_runner import ScriptedRunner
from tests.unit.adapters.test_our_tasks import Http

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
HOOK = ByWebhook(address=WebAddress.parse("https://hooks.example.org/x"), secret=b"s" * 24)
EVENT = OutboxRow(
    event_key="failed:1:5",
    event="failed",
    target="ops",
    source="shop",
    scheduler_id=3,
    schedule_name="charge",
    execution_id=7,
    occurred_at=NOON,
    payload='{"id":"failed:1:5","data":{}}',
    tries=2,
)


async def notify(
    means: Means, http: Http, runner: ScriptedRunner | None = None, event: OutboxRow = EVENT
) -> None:
    notifier = Notifier(
        http=http,
        runner=runner or ScriptedRunner(),
        mailer=None,
        apprise=AppriseSender(),
        now=lambda: NOON,
    )
    await notifier.notify(Target(name="ops", means=means), event)


async def test_a_webhook_is_signed_as_the_standard_webhooks_are() -> None:
    http = Http(HttpAnswer(status=204))

    await notify(HOOK, http)

    [asked] = http.asked
    assert (asked.method, asked.body) == ("POST", EVENT.payload.encode())
    signed = f"failed:1:5.{int(NOON.timestamp())}.{EVENT.payload}".encode()
    version, _, signature = asked.headers["webhook-signature"].partition(",")
    assert version == "v1"
    assert b64decode(signature) == hmac.digest(b"s" * 24, signed, "sha256")
    assert asked.headers["webhook-id"] == "failed:1:5"


@pytest.mark.parametrize(
    ("answer", "asked", "for_good"),
    [
        (HttpAnswer(status=500), None, False),
        (HttpAnswer(status=410), None, True),
        (HttpAnswer(status=429, headers={"retry-after": "90"}), timedelta(seconds=90), False),
        (HttpFailed("no answer"), None, False),
        (HttpRefused("not allowed"), None, True),
    ],
)
async def test_what_a_server_answers_decides_about_another_try(
    answer: HttpAnswer | Exception, asked: timedelta | None, for_good: bool
) -> None:
    with pytest.raises(NotDelivered) as failure:
        await notify(HOOK, Http(answer))

    assert (failure.value.asked, failure.value.for_good) == (asked, for_good)


async def test_a_command_is_given_the_event_and_its_failure_is_one() -> None:
    seen = list[Invocation]()

    def script(invocation: Invocation) -> Outcome:
        seen.append(invocation)
        return Outcome(ending=Ending.FAILED, exit_code=3)

    http = Http(HttpAnswer(status=204))
    with pytest.raises(NotDelivered):
        await notify(ByCommand(command=("page", "me")), http, ScriptedRunner(script))
    with pytest.raises(NotDelivered):
        await notify(ByListener(function="alerts:told"), http, ScriptedRunner(script))

    command, listener = seen
    assert json.loads(command.task.env["CRON_EVENT_JSON"]) == json.loads(EVENT.payload)
    assert (command.task.command, command.execution_id) == (("page", "me"), 7)
    assert listener.task.command[-1] == "alerts:told"


def test_no_name_of_a_schedule_becomes_a_header_of_a_mail() -> None:
    hostile = attrs.evolve(EVENT, schedule_name="a\r\nBcc: everyone@example.org\x00\u202e")

    mail = written(ByEmail(to=("ops@example.org",)), hostile, sender="cron@example.org")

    head, _, _ = mail.as_bytes().partition(b"\r\n\r\n")
    names = [line.partition(b":")[0] for line in head.split(b"\r\n") if line[:1] not in b" \t"]
    assert b"Bcc" not in names
    assert mail["To"] == "ops@example.org"
    assert mail["Subject"] == "a\\r\\nBcc: everyone@example.org\\x00\\u202e failed"


def ping(payload: str, **changes: Any) -> OutboxRow:  # noqa: ANN401
    return attrs.evolve(EVENT, event="ping", payload=payload, tries=1, **changes)


def asked_for(path: str, *, body: str = "", start: bool = False) -> str:
    data = {"path": path, "run": "0" * 36, "body": body, "isStart": start}
    return json.dumps({"data": data})


async def send_ping(event: OutboxRow, answer: HttpAnswer | Exception) -> list[HttpRequest]:
    http = Http(answer)
    means = ByPing(address=WebAddress.parse("https://hc.example/uuid/?a=b"))
    await notify(means, http, event=event)
    return http.asked


async def test_a_ping_asks_for_what_a_run_came_to_with_its_last_words() -> None:
    [asked] = await send_ping(ping(asked_for("/3", body="oh")), HttpAnswer(status=200))

    assert asked.address.target == f"/uuid/3?a=b&rid={'0' * 36}"
    assert (asked.method, asked.body) == ("POST", b"oh")


@pytest.mark.parametrize(
    ("event", "answer", "for_good"),
    [
        (ping(asked_for("")), HttpAnswer(status=500), False),
        (ping(asked_for("")), HttpAnswer(status=404), True),
        (attrs.evolve(ping(asked_for("")), tries=3), HttpAnswer(status=500), True),
        (ping(asked_for("/start", start=True)), HttpFailed("no"), True),
        (
            ping(asked_for("/start", start=True), occurred_at=NOON - timedelta(minutes=2)),
            HttpAnswer(status=200),
            True,
        ),
    ],
)
async def test_a_ping_that_comes_too_late_or_is_none_is_given_up(
    event: OutboxRow, answer: HttpAnswer | Exception, for_good: bool
) -> None:
    with pytest.raises(NotDelivered) as failure:
        await send_ping(event, answer)

    assert failure.value.for_good is for_good


def test_a_mail_says_what_happened_where_and_what_the_run_wrote_last() -> None:
    said = {"lastError": "exited with code 3: disk full", "attempts": 2}
    event = attrs.evolve(EVENT, payload=json.dumps({"data": said}))
    wrote = "".join(f"line {n}\n" for n in range(1, 41))
    end = RunEnd(stderr="disk full\x07\n", stdout=wrote, node="ant-4711-0123456789abcdef")
    means = ByEmail(to=("ops@example.org",))

    mail = written(means, event, end=end, sender="cron@example.org", web="cron.example.org")

    assert mail["Subject"] == "charge failed on ant: exited with code 3: disk full"
    [text, attached] = mail.iter_parts()
    assert text.get_content().splitlines() == [
        "charge failed on ant: exited with code 3: disk full.",
        "",
        "execution 7, attempt 2",
        "at 2026-03-02 12:00:00Z",
        "",
        "The last lines that it wrote:",
        "",
        *(f"    line {n}" for n in range(12, 41)),
        "    disk full\\x07",
        "",
        "More: https://cron.example.org/ui/executions/7",
    ]
    assert (attached.get_filename(), json.loads(attached.get_content())["data"]) == (
        "event.json",
        said,
    )


async def test_what_lacks_its_secret_is_not_told_unsigned_and_tried_again() -> None:
    http = Http(HttpAnswer(status=204))

    with pytest.raises(NotDelivered, match="TOKEN is not set") as failure:
        await notify(attrs.evolve(HOOK, secret=None, lacks="TOKEN is not set"), http)

    assert (failure.value.for_good, http.asked) == (False, [])


def test_no_encoded_word_of_a_task_is_decoded_into_a_mail() -> None:
    word = "==?utf-8?q??=?utf-8?q?=0d=0aBcc:_all@example.org?="
    hostile = attrs.evolve(EVENT, payload=json.dumps({"data": {"lastError": word}}))

    mail = written(ByEmail(to=("ops@example.org",)), hostile, sender="cron@example.org")

    read = message_from_bytes(mail.as_bytes(), policy=SMTP)
    assert read["Subject"] == f"charge failed: {word.replace('=?', '= ?')}"
    assert (read.get_content_type(), read["Bcc"]) == ("multipart/mixed", None)
